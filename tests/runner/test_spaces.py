"""Metrics in spaces of the parent's input or features: as the metric called on the feature map by hand, the
same for every method on one parent.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from kdgraph.base import FittedModel
from kdgraph.config import compose
from kdgraph.features import FeatureMap
from kdgraph.metrics import TopLabel, lce, mlce, select_metric, space_option
from kdgraph.runner.evaluate import Spaces, evaluate
from kdgraph.runner.run import run
from kdgraph.runner.stages import calibrate, fit, split, stage_rng

SMALL = [
    "dataset=spiral",
    "dataset.n_train=120",
    "dataset.n_test=60",
    "ood=none",
    "figures=none",
    "n_jobs=1",
    "parent.n_estimators=8",
    "metrics=top_label",
    "seed=3",
]
LEAVES = (
    "+metrics.spaces.leaves={_target_: kdgraph.features.FeatureMap, reduce: pca, dimensions: 5,"
    " scale: none}"
)
JOINT = "+metrics.spaces.joint={_target_: kdgraph.features.FeatureMap, reduce: tsne, dimensions: 2}"
SPACE = [LEAVES, "+metrics.test.lce_leaves={metric: lce, space: leaves, bandwidth: 0.4}"]


@pytest.fixture
def make_config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *overrides: compose([*SMALL, f"out={tmp_path}", *overrides])


def values(record) -> dict[tuple[str, str, str], float]:
    return {
        (entry["metric"], entry["on"], entry["of"]): entry["value"] for entry in record["metrics"]
    }


def remade(config):
    """Splits, the parent, and what follows it, without store and metrics."""
    splits = split(config.dataset, config.seed)
    parent = fit(config.parent, splits.train, seed=config.seed, n_jobs=1)
    return (
        splits,
        parent,
        calibrate({"calibrator": config.calibrator}, parent, splits, seed=config.seed, n_jobs=1),
    )


def test_it_is_the_metric_on_the_feature_map_by_hand(make_config):
    also = [
        "+metrics.test.mlce={space: leaves, bandwidth: 0.4}",
        "+metrics.test.lce={bandwidth: 0.4}",
    ]
    on_calibration = SPACE[1].replace("test", "calibration")
    config = make_config("method=histogram", *SPACE, *also, on_calibration)
    actual = values(run(config))
    splits, parent, model = remade(config)
    for on, rows in (("test", splits.test), ("calibration", splits.calibration)):
        seed = int(
            stage_rng(3, f"space leaves {on}").integers(2**31 - 1)
        )  # singular vectors of leaves are found from a random start
        features = (
            FeatureMap(dimensions=5, scale="none", random_state=seed)
            .fit(parent, rows.X)
            .transform(parent, rows.X)
        )
        for of, top_label in (
            ("parent", TopLabel.from_proba(parent.predict_proba(rows.X))),
            ("calibrated", model.predict_outputs(["top_label"], rows.X)["top_label"]),
        ):
            assert actual["lce_leaves", on, of] == pytest.approx(
                lce(rows.y, top_label, features, bandwidth=0.4), abs=1e-9
            )
            if on == "test":
                assert actual["mlce", on, of] == pytest.approx(
                    mlce(rows.y, top_label, features, bandwidth=0.4), abs=1e-9
                )
                assert actual["lce", on, of] == pytest.approx(
                    lce(rows.y, top_label, rows.X, bandwidth=0.4), abs=1e-9
                )
    assert actual["lce", "test", "parent"] != pytest.approx(
        actual["lce_leaves", "test", "parent"], abs=1e-3
    )


def test_methods_on_one_parent_are_measured_in_one_embedding(make_config, monkeypatch):
    calls, real = [], FeatureMap.fit
    monkeypatch.setattr(
        FeatureMap,
        "fit",
        lambda self, parent, X: calls.append(self.reduce) or real(self, parent, X),
    )
    more = [JOINT, *SPACE, "+metrics.test.lce_joint={metric: lce, space: joint, bandwidth: 0.2}"]
    first, second = (
        values(run(make_config(f"method={method}", *more)))
        for method in ("histogram", "isotonic_top_label")
    )
    assert sorted(calls) == ["pca", "tsne"]
    for metric in ("lce_leaves", "lce_joint"):
        assert first[metric, "test", "parent"] == second[metric, "test", "parent"]
        assert first[metric, "test", "calibrated"] != second[metric, "test", "calibrated"]
    again = values(run(make_config("method=isotonic_top_label", *more, "force=true")))
    assert sorted(calls) == ["pca", "pca", "tsne", "tsne"] and again == second


@pytest.mark.filterwarnings("default")
def test_warnings_of_an_embedding_are_in_each_run(make_config, monkeypatch):
    def fit(self, parent, X):
        warnings.warn("the map did not settle", stacklevel=2)
        return self

    monkeypatch.setattr(FeatureMap, "fit", fit)
    monkeypatch.setattr(FeatureMap, "transform", lambda self, parent, X: X)
    for method in (
        "histogram",
        "isotonic_top_label",
    ):  # one makes it, the other has it from the store
        assert run(make_config(f"method={method}", *SPACE))["warnings"] == [
            {"stage": "evaluate", "message": "the map did not settle"}
        ]


def test_a_metric_in_a_space_is_not_measured_without_it(make_config):
    config = make_config("method=none", *SPACE)
    splits, parent, model = remade(config)
    with pytest.raises(
        ValueError,
        match=(
            r"^metrics.test.lce_leaves measures in the space 'leaves', and none is given: pass"
            r" spaces$"
        ),
    ):
        evaluate(
            FittedModel(parent),
            model,
            config.measures,
            dataset=config.dataset,
            ood=config.ood,
            splits=splits,
            seed=3,
        )


def test_an_embedding_is_made_once_at_its_first_use(make_config):
    splits, parent, _ = remade(make_config("method=none"))
    made_spaces = []

    def keep(name, make):
        made_spaces.append(name)
        return make()

    nodes = {
        name: {"_target_": "kdgraph.features.FeatureMap", "source": "rows", "reduce": "none"}
        for name in ("a", "b c")
    }
    spaces = Spaces(nodes, parent, splits, 0, keep)
    assert made_spaces == []
    first = spaces("b c", "test")
    assert spaces("b c", "test") is first and made_spaces == ["b c test"]
    assert spaces("a", "calibration").shape == splits.calibration.X.shape and made_spaces == [
        "b c test",
        "a calibration",
    ]
    np.testing.assert_allclose(
        first,
        FeatureMap(source="rows", reduce="none")
        .fit(parent, splits.test.X)
        .transform(parent, splits.test.X),
    )


def test_a_random_map_is_drawn_by_seed_and_name(make_config):
    splits, parent, _ = remade(make_config("method=none"))
    node = {
        "_target_": "kdgraph.features.FeatureMap",
        "source": "rows",
        "reduce": "tsne",
        "dimensions": 3,
    }
    first, again, other = (
        Spaces({"tsne": node}, parent, splits, seed)("tsne", "test") for seed in (0, 0, 1)
    )
    assert np.array_equal(first, again)
    assert first.shape == other.shape == (60, 3)


def test_a_space_is_no_option_of_the_metric():
    assert select_metric("lce", {"space": "pca", "bins": 5}) == ("lce", {"bins": 5})
    assert (space_option({"space": "pca"}), space_option({}), space_option(None)) == (
        "pca",
        None,
        None,
    )


def test_a_source_that_the_parent_lacks_is_reported(make_config):
    logits = "+metrics.spaces.leaves={_target_: kdgraph.features.FeatureMap, source: logits}"
    with pytest.raises(TypeError, match=r"^RandomForestClassifier has no logits or layers to read"):
        run(make_config("method=none", logits, SPACE[1]))
