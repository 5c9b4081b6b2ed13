"""Metrics by name: values, standard errors, and errors for unknown names, options and inputs."""

from __future__ import annotations

import inspect
import itertools
import json
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import yaml

from kdgraph import metrics
from kdgraph.config.yaml_files import option_files, read_text
from kdgraph.errors import ConfigError
from kdgraph.metrics import (
    METRICS,
    about,
    check_metric,
    mean_over_rows,
    metric,
    needs,
    options_of,
    score,
    select_metric,
    tabulate,
)

RNG = np.random.default_rng(0)
PROBA = RNG.dirichlet(np.ones(3), size=60)
INPUTS = {
    "y": RNG.integers(3, size=60),
    "proba": PROBA,
    "top_label": PROBA,
    "prior": np.full(3, 1 / 3),
    "truth": RNG.dirichlet(np.ones(3), size=60),
    "X": RNG.normal(size=(60, 2)),
    "groups": np.arange(60) % 3,
    "ood_score": RNG.normal(size=60),
    "id_score": RNG.normal(size=40),
    "prediction_set": PROBA > 0.25,
    "ood_p_value": RNG.uniform(size=60) ** 3,
    "id_p_value": RNG.uniform(size=40),
}
SCORES = {"ood_score", "id_score"}
NUMBERS = [name for name in METRICS if not METRICS[name].is_table]
NOT_INSTALLED = (
    set() if find_spec("relplot") else {"smooth_ece"}
)  # smooth_ece needs the extra "smooth"
NAMES = [name for name in NUMBERS if needs(name) <= set(INPUTS) and name not in NOT_INSTALLED]
CONF = Path(__file__).parents[2] / "conf" / "metrics"


def test_metrics_are_found_by_name() -> None:
    assert {
        "error",
        "nll",
        "brier",
        "ece",
        "ece_by_edges",
        "mce",
        "mmc",
        "mmc_wrong",
        "oce",
        "oce_of_mean",
        "hellinger",
    } <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_score_equals_the_function_and_is_valid_json(name: str) -> None:
    entry_score = score(name, INPUTS)
    assert entry_score.value == pytest.approx(
        METRICS[name](**{key: INPUTS[key] for key in needs(name)}), abs=1e-15
    )
    assert json.loads(json.dumps(asdict(entry_score), allow_nan=False)) == asdict(entry_score)
    assert (entry_score.stderr is None) == (
        METRICS[name].by_row is None and METRICS[name].stderr is None
    )


@pytest.mark.parametrize("name", list(METRICS))
def test_metrics_have_label_direction_and_documented_parameters(name: str) -> None:
    function = METRICS[name]
    assert function.label
    assert function.better in ("lower", "higher", None)
    assert inspect.getdoc(function)
    assert function.is_table or str(inspect.signature(function)).endswith("-> 'float'")
    assert all(
        parameter in str(function.__doc__) for parameter in inspect.signature(function).parameters
    )


def test_about_describes_a_metric() -> None:
    assert about("coverage") == {"label": "coverage", "better": None}
    assert about("mse_mean") == {
        "label": "MSE to the true mean",
        "better": "lower",
        "unit": "squared units of y",
    }
    assert about("fpr95") == {"label": "FPR95", "better": "lower", "detects": True}
    assert {name for name in METRICS if about(name).get("detects")} == {
        "auroc",
        "aupr_out",
        "aupr_in",
        "fpr95",
        "fpr90",
        "contamination",
        "realised_fdr",
        "fdr_power",
    }


def test_needs_and_options() -> None:
    assert needs("oce") == {"top_label", "prior"}
    assert needs("hellinger") == {"proba", "truth"}
    assert options_of("ece") == {
        "bins": 15,
        "strategy": "uniform",
        "norm": "l1",
        "debiased": False,
    }
    assert options_of("error") == {}


def test_options_reach_the_metric() -> None:
    assert score("ece", INPUTS, {"bins": 3, "norm": "max"}).value == METRICS["mce"](
        INPUTS["y"], PROBA, bins=3
    )


def test_standard_error_is_that_of_the_mean() -> None:
    values = metrics.nll.by_row(INPUTS["y"], PROBA)
    entry_score = score("nll", INPUTS)
    assert entry_score.stderr == pytest.approx(np.sqrt(np.var(values, ddof=1) / 60))
    assert entry_score.n == 60


def test_standard_error_has_nominal_coverage() -> None:
    """68.3 % of intervals of one standard error contain the true error.

    Over 400 samples this fraction has a standard error of 2.3 %.
    """
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(400):
        y = (rng.random(200) < 0.3).astype(int)
        entry_score = score("error", {"y": y, "proba": np.tile([1.0, 0.0], (200, 1))})
        held += abs(entry_score.value - 0.3) <= entry_score.stderr
    assert 0.61 < held / 400 < 0.76


def test_one_row_has_no_standard_error() -> None:
    assert score("mmc", {"proba": [[1.0]]}).stderr is None


@pytest.mark.parametrize(
    ("name", "missing", "options", "message"),
    [
        (
            "erorr",
            (),
            {},
            "no metric named 'erorr'; did you mean 'error'? (available: every metric)",
        ),
        (
            "ece",
            (),
            {"bin": 3},
            "ece has no option 'bin'; did you mean 'bins'? (available: bins, debiased, norm, strategy)",
        ),
        ("mmc", (), {"clip": 3}, "mmc has no option 'clip' (available: none)"),
        (
            "hellinger",
            ("truth",),
            {},
            "hellinger needs the true posterior, which digits does not have; use metrics=default, or a simulation",
        ),
        (
            "error",
            ("y",),
            {},
            "error needs the labels, which digits does not have; ask only for metrics of the predictions alone there (mmc, oce)",
        ),
    ],
)
def test_unknown_names_options_and_missing_inputs_are_refused(
    name: str, missing: tuple, options: dict, message: str
) -> None:
    available = {key: value for key, value in INPUTS.items() if key not in missing}
    for call in (
        lambda: score(
            name, available | dict.fromkeys(missing), options, source="digits"
        ),  # None means missing
        lambda: check_metric(name, set(available), options, source="digits"),
    ):
        with pytest.raises(ConfigError) as raised:
            call()
        assert str(raised.value) == message.replace(
            "every metric", ", ".join(sorted(METRICS))
        )  # other tests may register metrics
        assert raised.value.exit_code == 2


def test_new_metric_is_one_decorated_function() -> None:
    before = dict(METRICS)
    try:

        @mean_over_rows("margin", better="higher")
        def margin(proba: np.ndarray, *, power: int = 1) -> np.ndarray:
            """Gap between the two largest probabilities."""
            top_label = np.sort(proba, axis=1)
            return (top_label[:, -1] - top_label[:, -2]) ** power

        @metric("spread", better=None)
        def spread(proba: np.ndarray) -> float:
            """Largest minus smallest probability."""
            return float(proba.max() - proba.min())

        assert score("margin", {"proba": [[0.75, 0.25]]}, {"power": 2}).value == 0.25
        assert score("spread", {"proba": [[0.75, 0.25]]}).value == 0.5
        assert (margin([[0.75, 0.25]]), spread([[1.0, 0.0]])) == (0.5, 1.0)
    finally:
        METRICS.clear()
        METRICS.update(before)


@pytest.mark.parametrize(
    "path", [path for path in option_files(CONF) if path.parent == CONF], ids=lambda path: path.stem
)
def test_configs_use_existing_metrics_and_options(path: Path) -> None:
    labelled = {"y", "proba", "prior", "truth", "X", "groups"}
    inputs_by_role = {
        "test": {*labelled, "prediction_set"},
        "calibration": labelled,
        "ood": {"proba", "prior", "prediction_set", "ood_p_value", "id_p_value", *SCORES},
        "grid": {"proba", "prior", "truth"},
    }
    metrics_by_role = yaml.safe_load(read_text(path))
    for key in ("defaults", "spaces"):
        metrics_by_role.pop(key, None)
    for on, by_name in metrics_by_role.items():
        for name, options in itertools.starmap(select_metric, by_name.items()):
            assert (
                options.keys() == options_of(name).keys()
            )  # presets list every option, so that it can be overridden
            if "distribution" in needs(name):
                continue  # of a regression
            check_metric(name, inputs_by_role[on], options)
            measure = tabulate if METRICS[name].is_table else score
            measure(name, {key: INPUTS[key] for key in inputs_by_role[on]}, options)
