"""Meanings of keys, from the docstrings of what a config names."""

from __future__ import annotations

import pytest

from kdgraph.calibration.local import LocalRecalibration
from kdgraph.calibration.top_label import BetaCalibration, HistogramBinning
from kdgraph.config import compose, conf_dir
from kdgraph.config.catalogue import Catalogue, read_component
from kdgraph.config.meanings import described, meaning, meanings, rule
from kdgraph.data.splits import make_splits
from kdgraph.features import FeatureMap

CATALOGUE = Catalogue([conf_dir()])
GROUPS = (
    *("dataset", "ood", "preprocess", "parent", "calibrator", "gate", "detector", "recalibrator"),
    "conformal",
)
OPTIONS = [(group, option) for group in GROUPS for option in CATALOGUE.groups[group]]
FOREIGN = ("catboost.", "lightgbm.", "ngboost.", "quantile_forest.", "xgboost.")
"""Libraries whose docstrings have another form, or none."""


def test_a_parameter_has_the_description_of_its_class_or_of_a_base():
    assert described(HistogramBinning, "bins") == "Number of bins, at least 1."
    assert described(BetaCalibration, "calibration_size").startswith("Fraction of the rows")
    assert described(BetaCalibration, "no_parameter") == ""


def test_a_reference_to_another_description_is_followed():
    fill_proba = described(LocalRecalibration, "fill_proba")
    assert (
        fill_proba.startswith("Provide `predict_proba` too: ") and "random_state" not in fill_proba
    )
    split = described(make_splits, "split")
    assert split.startswith('Way to divide a table. "random" draws rows at random')
    assert described(FeatureMap, "source").startswith("- rows: the row itself")


def test_constants_are_those_of_yaml():
    assert "null: 30 % of the rows" in meaning(None, "dataset.n_calibration")


def test_few_values_that_the_text_does_not_name_are_listed():
    assert rule(LocalRecalibration, "kernel") == "one of laplacian, gaussian, geodesic, group"
    truth = meanings(compose(["dataset=spiral"]).science())["dataset.truth"]
    assert truth.endswith("One of exact, paper_grid.")


def test_metrics_and_figures_have_described_options():
    texts = meanings(compose(["metrics=top_label"]).science())
    assert texts["metrics.test.ece"].startswith("Measure the expected calibration error")
    assert texts["metrics.test.ece.bins"].startswith("Number of bins")
    assert "metrics.calibration.ece" not in texts
    assert "points along each side" in texts["figures.draw.posterior_maps"]


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_every_key_of_every_option_has_a_meaning(group, option):
    component = read_component(CATALOGUE.groups[group][option], [conf_dir()])
    texts = meanings({group: component.node})
    for key in component.keys:
        owner = component.keys.get(f"{key.rpartition('.')[0]}._target_", component.target)
        if owner and "$" not in owner and not owner.startswith(FOREIGN):
            # A name is that of the option, and arguments are those of another library.
            free = key.endswith(("_target_", ".name")) or key.startswith("method_params.")
            assert free or texts.get(f"{group}.{key}"), key
