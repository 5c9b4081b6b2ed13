"""Parameters that a paper tunes on OOD rows are tuned on those of the run, with protocol=paper
alone.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from sklearn.base import clone

from kdgraph.calibration.odin import TEMPERATURES
from kdgraph.config import RunConfig, compose
from kdgraph.errors import ConfigError
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.run import run
from kdgraph.runner.stages import calibrate, fit, ood_sets, split
from kdgraph.runner.stored_stages import StoredStages, stage_keys

METHODS = ["odin_temperature", "odin"]
LITTLE = [
    "dataset=wine",
    "network=tabular_mlp",
    "parent.hidden=[8]",
    "parent.max_epochs=5",
    "metrics=default",
    "figures=none",
    "save=false",
]


def config_of(method: str, *more: str) -> RunConfig:
    return compose([*LITTLE, f"method={method}", *more])


@cache
def parent():
    config = config_of("odin")
    splits = split(config.dataset, 0)
    encoding = {"preprocess": config.preprocess, "has_missing": False}
    return fit(config.parent, splits.train, **encoding, seed=0, n_jobs=1), splits


@pytest.mark.parametrize("method", METHODS)
def test_it_is_fitted_with_the_sets_of_the_run(method):
    fitted, splits = parent()
    config = config_of(method, "ood=permuted", "protocol=paper")
    how = {"ood": config.ood, "seed": 0, "n_jobs": 1}
    with pytest.warns(UserWarning, match="rows out of distribution chose"):
        in_paper = calibrate(config.after, fitted, splits, protocol="paper", **how)
    held_out = calibrate(config.after, fitted, splits, **how)
    (part,), (other,) = in_paper.post_hoc.values(), held_out.post_hoc.values()
    (drawn,) = ood_sets(config.ood, splits, 0)
    again = type(part)(**part.get_params(deep=False))
    rows = splits.learning.X, splits.learning.y
    with pytest.warns(UserWarning, match="rows out of distribution chose"):
        again.fit(
            *rows,
            X_calibration=splits.calibration.X,
            y_calibration=splits.calibration.y,
            X_ood=drawn.X,
        )
    assert again.describe() == part.describe() != other.describe()
    if method == "odin_temperature":
        assert part.temperature_ in TEMPERATURES and other.temperature_ not in TEMPERATURES
    np.testing.assert_array_equal(drawn.X, next(iter(ood_sets(config.ood, splits, 0))).X)


@pytest.mark.parametrize("method", METHODS)
def test_ood_rows_change_a_fit_only_if_they_tune_it(method):
    _, splits = parent()
    keys = {
        (protocol, ood): stage_keys(
            config_of(method, f"ood={ood}", f"protocol={protocol}"), splits
        )["calibrate"]
        for protocol in ("paper", "strict")
        for ood in ("noise", "permuted")
    }
    assert keys["strict", "noise"] == keys["strict", "permuted"]
    assert keys["paper", "noise"] != keys["paper", "permuted"]


def test_without_such_rows_there_is_nothing_to_choose_by():
    with pytest.raises(
        ConfigError,
        match=(
            r"^calibrator=odin_temperature is fitted with rows out of distribution under protocol=paper, and"
            r" ood=none has "
        ),
    ):
        config_of("odin_temperature", "ood=none", "protocol=paper")
    config_of("odin_temperature", "ood=none")


@pytest.mark.filterwarnings("default:.*rows out of distribution chose")
def test_record_and_label_name_the_protocol(tmp_path):
    record = run(config_of("odin_temperature", "ood=noise", "protocol=paper", f"out={tmp_path}"))
    assert (record["protocol"], record["method"].rpartition("-")[2]) == ("paper", "as_in_paper")
    assert record["learnt"]["calibrator"]["temperature"] in TEMPERATURES
    assert any(
        "rows out of distribution chose temperature" in each["message"]
        for each in record["warnings"]
    )


IMAGES = [
    *("dataset=shapes", "dataset.size=16", "dataset.radius=3", "dataset.sides=[8,4]"),
    *("dataset.n_train=40", "dataset.n_calibration=30", "dataset.n_test=30", "ood=noise"),
    *("ood.n=20", "method=paper/p3/cifar/tood_transductive", "parent.encoder.max_epochs=1"),
    *("parent.encoder.channels=[4,4]", "parent.encoder.strides=[2,2]"),
    *("parent.encoder.unlabelled_epochs=2", "parent.classifier.n_estimators=5"),
    *("detector.set_size=20", "metrics=default", "figures=none", "save=false"),
]


def test_encoder_is_trained_on_each_set_that_is_scored(tmp_path):
    """The run's parent equals one that is fitted by hand on test rows and noise."""
    config = compose([*IMAGES, f"out={tmp_path}"])
    splits = split(config.dataset, 0)
    stored = StoredStages(config, splits, ProgressReporter()).fit().value
    (noise,) = ood_sets(config.ood, splits, 0)
    encoder = clone(stored.encoder).set_params(random_state=stored.encoder.random_state)
    encoder.fit(splits.train.X, X_unlabelled=[splits.test.X, noise.X])
    latents = stored.encoder.transform(splits.test.X)
    np.testing.assert_array_equal(encoder.transform(splits.test.X), latents)
    assert len(stored.encoder.history_) == 1 + 2 + 2
    alone = clone(encoder).fit(splits.train.X)
    assert np.abs(alone.transform(splits.test.X) - latents).max() > 1e-4


def test_rows_to_predict_change_only_transductive_parents():
    def keys(*more: str) -> dict[str, str]:
        config = compose([*IMAGES, *more])
        return stage_keys(config, split(config.dataset, 0))

    strict = ("protocol=strict", "parent.encoder.unlabelled_epochs=0")
    for stage in ("fit", "calibrate", "parent_outputs"):
        assert keys()[stage] != keys("ood.n=19")[stage]
        assert keys()[stage] != keys("dataset.n_test=29")[stage]
    for stage in ("fit", "calibrate"):
        assert keys(*strict)[stage] == keys(*strict, "ood.n=19")[stage]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            ["protocol=strict"],
            "parent=extra_trees_latent trains its encoder on the rows to predict, so it sees test"
            " rows; set protocol=paper, or parent.encoder.unlabelled_epochs=0",
        ),
        (
            ["calibration=cross_fit"],
            "parent=extra_trees_latent trains its encoder on the rows to predict, and"
            " calibration=cross_fit on training rows; choose calibration=held_out",
        ),
        (
            ["parent.encoder.unlabelled_epochs=0"],
            "protocol=paper fits components on test or OOD rows where their paper does, and that of"
            " detector=tood does not; leave protocol=strict",
        ),
    ],
    ids=["held out", "cross-fitted", "no further epochs"],
)
def test_encoder_fitted_to_test_rows_is_refused_elsewhere(more, message):
    with pytest.raises(ConfigError) as raised:
        compose([*IMAGES, *more])
    assert str(raised.value) == message
