"""Metrics and figures are checked before a run starts; so are keys with values of a wrong shape."""

from __future__ import annotations

import pytest

from kdgraph.config import check, plan
from kdgraph.errors import ConfigError, ParameterError
from kdgraph.metrics import METRICS

SPACE = "+metrics.spaces.pca={_target_: kdgraph.features.FeatureMap, reduce: pca}"


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["metrics.test=ece"], "metrics.test must be a mapping or null, got 'ece'"),
        (["metrics.test.ece=5"], "metrics.test.ece must be a mapping or null, got 5"),
        (
            ["+metrics.test.ece_10={metric: ecee}"],
            f"metrics.test: no metric named 'ecee'; did you mean 'ece'? (available: {', '.join(sorted(METRICS))})",
        ),
        (
            ["+metrics.test.ece_10={metric: ece, bin: 10}"],
            "metrics.test: ece has no option 'bin'; did you mean 'bins'? (available: bins, debiased, norm, strategy)",
        ),
        (
            ["+metrics.test.ece_10={metric: ece}", "+metrics.ood.ece_10={metric: oce}"],
            "metrics.ood.ece_10 is oce, and elsewhere ece; one of them needs another name",
        ),
        (["metrics.test.ece.bins=0"], "metrics.test.ece.bins must be in [1, inf), got 0"),
        (
            ["+metrics.train={}"],
            "unknown key 'metrics.train' (metrics has: calibration, grid, ood, spaces, test)",
        ),
        (
            ["+metrics.test.lce={space: pca}"],
            "metrics.test.lce.space must be one of metrics.spaces (none), got 'pca'; metrics=local_features has some",
        ),
        (
            [SPACE, "+metrics.test.lce={space: pcs}"],
            "metrics.test.lce.space must be one of metrics.spaces (pca), got 'pcs'; metrics=local_features has some",
        ),
        (
            [SPACE, "+metrics.test.ece_pca={metric: ece, space: pca}"],
            "metrics.test.ece_pca.space is for metrics that look at the rows' features, and ece does not; take it away",
        ),
        (
            [SPACE, "metrics.spaces.pca.reduce=lda"],
            "metrics.spaces.pca.reduce must be one of none, pca, tsne, umap, got 'lda'",
        ),
        (
            [SPACE, "+metrics.spaces.pca.dimension=3"],
            "unknown key 'metrics.spaces.pca.dimension'; did you mean 'metrics.spaces.pca.dimensions'?",
        ),
        (["+metrics.spaces={pca: 3}"], "metrics.spaces.pca must be a mapping or null, got 3"),
        (["figures.draw=posterior_maps"], "figures.draw must be a mapping, got 'posterior_maps'"),
        (
            ["figures.draw.posterior_maps=4"],
            "figures.draw.posterior_maps must be a mapping or null, got 4",
        ),
        (
            ["+figures.draw.posterior_maps.run=4"],
            "unknown key 'figures.draw.posterior_maps.run' (figures.draw.posterior_maps has: grid, reach)",
        ),
        (
            ["+figures.draw.posterior_map={}"],
            "unknown key 'figures.draw.posterior_map'; did you mean 'figures.draw.posterior_maps'?",
        ),
        (
            ["figures.formats=[gif]"],
            "figures.formats must be a list of which each is one of svg, png, pdf, got ['gif']",
        ),
        (
            ["~figures.draw"],
            "figures.draw was removed, and no run can do without it; figures=none draws nothing",
        ),
        (
            [
                "dataset=cifar10",
                "parent=lenet",
                "calibrator=none",
                "ood=paper/p3/fgsm",
                "ood.sources.svhn.images.source.id=40927",
            ],
            "ood.sources.svhn.images.name=svhn is what dataset=cifar10 trains on, so its rows are in distribution; "
            "choose another: 'kdg list dataset' shows them",
        ),
        (
            ["ood=dataset", "ood.name=spiral"],
            "ood.name=spiral is what dataset=spiral trains on, so its rows are in distribution; "
            "choose another: 'kdg list dataset' shows them",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_one_line(overrides, sentence):
    config = plan(overrides).jobs[0].config
    with pytest.raises((ConfigError, ValueError)) as caught:
        check(config)
    assert str(caught.value) == sentence


def test_what_one_of_the_two_models_gives_may_be_measured():
    """A calibrator of the confidence alone predicts no probabilities; its parent does."""
    check(plan(["method=histogram", "metrics=default"]).jobs[0].config)


def test_a_space_for_metrics_of_the_rows_features():
    config = plan([SPACE, "+metrics.test.lce_pca={metric: lce, space: pca}"]).jobs[0].config
    check(config)
    assert list(config.spaces) == ["pca"] and "spaces" not in config.measures
    assert plan(["metrics=default"]).jobs[0].config.spaces == {}


def test_a_component_inside_a_component_is_checked():
    config = plan(["method=lore", "calibrator.features.dimensions=0"]).jobs[0].config
    with pytest.raises(ParameterError) as caught:
        check(config)
    assert str(caught.value) == "calibrator.features.dimensions must be in [1, inf) or null, got 0"


def test_metrics_and_figures_may_have_no_options_at_all():
    check(plan(["metrics.test.ece=null", "figures.draw.posterior_maps=null"]).jobs[0].config)
