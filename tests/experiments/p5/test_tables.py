"""What the three tables print at their end, of records whose numbers are given; the truth's row
against scipy's own numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from experiments.common.published import read_published
from experiments.common.runs import expected
from experiments.p5 import diamonds, table1, table2
from experiments.p5.records import (
    TRUTH,
    by_seed,
    chosen_k,
    numbers_of,
    numbers_of_truth,
    relative_difference,
)
from experiments.reproduction.papers import paper
from experiments.reproduction.verdicts import cells_of as cells_of_paper
from kdgraph.config import conf_dir
from kdgraph.config.yaml_files import read_text
from kdgraph.runner.stages import split

PAPER = paper("p5")

PUBLISHED = read_published(PAPER.folder)
SEEDS = 6
HETEROSCEDASTIC = {
    "name": "heteroscedastic",
    "_target_": "kdgraph.data.simulations.Heteroscedastic",
}
ROSENBROCK = {"name": "rosenbrock", "_target_": "kdgraph.data.simulations.Rosenbrock"}
Value = Callable[[str, str, int], float]
"""Method, metric and seed → its value."""


def record(
    parent: str,
    own: str,
    method: str,
    seed: int,
    metrics: list[str],
    value: Value,
    config: dict | None = None,
) -> dict:
    """A record whose parent has the numbers of the method ``own``; of calibration rows all numbers
    are 7.
    """
    entries = [
        {"of": of_what, "on": "test", "metric": name, "value": value(who, name, seed)}
        for of_what, who in (("parent", own), ("calibrated", method))
        for name in metrics
    ]
    held = [entry | {"on": "calibration", "value": 7.0} for entry in entries]
    rows = {"name": "rows", "n_train": 800, "n_calibration": 100, "n_test": 100}
    learnt = {"recalibrator": {"k": 100 * (seed + 1), "pit_beyond": 0.1 + 0.05 * seed}}
    config = {"dataset": {}, "parent": {}} | (config or {})
    return {
        "parent": parent,
        "method": method,
        "seed": seed,
        "dataset": rows,
        "config": config,
        "metrics": [*held, *entries],
        "learnt": learnt,
    }


def cells_of(table: str) -> dict[str, list[str]]:
    """First cell → the others, of a table of markdown."""
    cells = [
        [cell.strip() for cell in each.strip("|").split("|")]
        for each in table.splitlines()
        if each.startswith("|")
    ]
    return {row[0]: row[1:] for row in cells[2:]}


def lines(mse: float, gain: float = 0.0) -> list[dict]:
    """Runs of the line; ``mse`` of the local rule, and what every number of global recalibration is
    larger than the line's by.
    """
    numbers = {
        "linear": (14540, 0.9377, 2.72, 0.28, 250),
        "global_pit": (14540, 0.95, 2.7, 0.26, 249),
    }
    numbers |= {
        "local_pit_1000": (mse, 0.952, 2.03, 0.02, 187),
        "local_linear_pit": (120, 0.95, 2.03, 0.02, 186),
    }

    def value(method: str, metric: str, seed: int) -> float:
        named: dict[str, float] = dict(
            zip(("mse_mean", "coverage", "smis", "kl", "crps"), numbers[method], strict=True)
        )
        bounded = named[metric] * (1 + gain * (method == "global_pit"))
        return bounded * (1 + 1e-3 * (seed - (SEEDS - 1) / 2) * (metric != "coverage"))

    dataset = HETEROSCEDASTIC | {"n_train": 10, "n_calibration": 400, "n_test": 400}
    metrics = ["mse_mean", "coverage", "smis", "kl", "crps"]
    return [
        record("linear", "linear", method, seed, metrics, value, {"dataset": dataset})
        for method in numbers
        for seed in range(SEEDS)
    ]


def test_numbers_are_there_once_and_of_test_rows():
    frame = numbers_of(
        [*lines(250), record("forest", "forest", "forest", 0, ["crps"], lambda *_: 1.0)],
        {"linear": "linear"},
    )
    assert len(frame) == 4 * SEEDS * 5 == len(frame.drop_duplicates(["method", "seed", "metric"]))
    assert (
        set(frame.method) == {"linear", "global_pit", "local_pit_1000", "local_linear_pit"}
        and not (frame.value == 7).any()
    )


@pytest.mark.parametrize("dataset", [HETEROSCEDASTIC, ROSENBROCK], ids=["normal", "gamma"])
def test_the_truths_row_is_of_the_same_rows(dataset):
    """Against scipy's quantiles and the definitions, exact but for rounding; the CRPS against
    20,000 draws, to five standard errors.
    """
    config = dataset | {"n_train": 10, "n_calibration": 300, "n_test": 200}
    made = [
        record("p", "p", "m", seed, [], lambda *_: 0.0, {"dataset": config}) for seed in (3, 3, 4)
    ]
    frame = numbers_of_truth(made)
    assert sorted(frame.seed.unique()) == [3, 4] and len(frame) == len(
        frame.drop_duplicates(["seed", "metric"])
    )
    splits = split(config, 3)
    X, y = splits.test.X, splits.test.y
    if dataset is HETEROSCEDASTIC:
        law = stats.norm(10 + 5 * X[:, 0] ** 2, 30 * X[:, 0])
    else:
        law = stats.gamma(
            100, scale=((1 - X[:, 0]) ** 2 + 10 * (X[:, 1] - X[:, 0] ** 2) ** 2) / 100
        )
    low, high = law.ppf(0.025), law.ppf(0.975)
    known = {
        "coverage": ((low <= y) & (y <= high)).mean(),
        "mse_y": np.square(law.mean() - y).mean(),
    }
    score = high - low + 40 * (np.maximum(low - y, 0) + np.maximum(y - high, 0))
    known["smis"] = score.mean() / np.abs(splits.calibration.y).mean()
    for metric, value in known.items():
        assert by_seed(frame, TRUTH, metric)[3] == pytest.approx(value, rel=1e-9)
    draws = law.rvs(size=(20_000, 200), random_state=0)
    each = np.abs(draws - y) - np.abs(draws - draws[::-1]) / 2
    error = np.sqrt(each.var(axis=0).sum() / 10_000) / 200
    assert by_seed(frame, TRUTH, "crps")[3] == pytest.approx(each.mean(), abs=5 * error)


def test_table_1_has_measured_and_published_numbers():
    text = table1.compare_with_published(lines(250))
    assert text.startswith("## Torres et al., Table 1: 6 seeds, 800 training rows\n")
    rows = cells_of(text)
    assert list(rows) == [
        "linear",
        "global",
        "local, k = 1,000",
        "local-linear, k chosen (ours)",
        "*true distribution*",
    ]
    assert rows["local, k = 1,000"][:4] == ["250.0 ± 0.5", "303.9", "95.20 ± .00", "94.96"]
    assert rows["linear"][4:6] == ["2.720 ± .005", "2.748"] and rows["linear"][8] == ".846"
    assert (
        rows["local-linear, k chosen (ours)"][1] == "–"
        and rows["*true distribution*"][0] == "0.0 ± 0.0"
    )
    assert "`local_linear_pit` 350 (100 to 600)" in text
    assert table1.compare_with_published([]) == "no run of the line on the parabola is there"


def test_claims_on_table_1_can_fail():
    held, failed = (
        table1.compare_with_published(lines(250)),
        table1.compare_with_published(lines(20_000, 0.02)),
    )
    assert (
        held.count("- FAIL") == 1 and "FAIL: and CRPS at most .3" in held
    )  # these rows have a truth of their own
    wrong = [line for line in failed.splitlines() if line.startswith("- FAIL")]
    assert any("best in MSE" in line and "In 0 of 6" in line for line in wrong)
    assert any("no significant improvement" in line for line in wrong) and any(
        "half a point" in line for line in wrong
    )
    assert any("mse_mean of local, k = 1,000" in line for line in wrong) and any(
        "coverage of global" in line for line in wrong
    )
    assert not any("best in KL" in line or "of linear" in line for line in wrong)


def networks(excess: float) -> list[dict]:
    """Runs on Rosenbrock's function; ``excess`` of both recalibrated rows, where the networks have
    40 and 60.
    """
    own = {"wsir": 40.0, "mc_dropout": 60.0}

    def value(method: str, metric: str, seed: int) -> float:
        method = re.sub(table2.SHARE, "", method)
        local = method not in own
        smis = 0.5 if local else 0.9
        named = {
            "mse_mean": excess if local else own[method],
            "coverage": 0.95,
            "smis": smis,
            "crps": 3.0,
        }
        return named["mse_mean"] + 60 + seed if metric == "mse_y" else named[metric]

    return [
        record(
            parent,
            name,
            method.replace(name, f"{name}_{100 * dropout:02.0f}"),
            seed,
            ["mse_y", "mse_mean", "coverage", "smis", "crps"],
            value,
            {
                "dataset": ROSENBROCK | {"n_train": 10, "n_calibration": 50, "n_test": 50},
                "parent": {"dropout": dropout},
            },
        )
        for parent, name in table2.NETWORKS.items()
        for method in (name, f"{name}_local_radius")
        for dropout in (0.05, 0.5)
        for seed in (0, 1)
    ]


@pytest.mark.slow
def test_table_2_has_a_part_for_each_share_of_dropout():
    held, failed = (
        table2.compare_with_published(networks(5.0)),
        table2.compare_with_published(networks(50.0)),
    )
    assert (
        "## Torres et al., Table 2: dropout 0.05, 2 seeds" in held
        and "## Torres et al., Table 2: dropout 0.5, 2 seeds" in held
    )
    rows = cells_of(held)
    assert rows["WSIR, local within .5"][:5] == [
        "65.50 ± .71",
        "60.52",
        "5.00 ± .00",
        "95.0 ± 0.0",
        "94.3",
    ]
    assert (
        rows["*true distribution*"][1] == "59.64" and rows["*true distribution*"][2] == ".00 ± .00"
    )
    assert (
        held.count("6 of 6 hold.") == 2
        and held.count("beyond the sample of all masks: 10.0 to 15.0 %.") == 2
    )
    assert (
        failed.count("3 of 6 hold.") == 2
        and failed.count("FAIL: both recalibrated rows are below both of the network's in MSE") == 2
    )
    assert failed.count("FAIL: the excess MSE") == 4
    assert "In 1 of 1 seeds" in table2.compare_with_published(
        [each for each in networks(5.0) if each["seed"] == 0 or each["method"].startswith("wsir")]
    )
    assert "hold." not in table2.compare_with_published(networks(5.0)[:4]), (
        "claims are about all four rows"
    )
    assert (
        table2.compare_with_published([])
        == "no run of the networks on Rosenbrock's function is there"
    )


def stones(factor: float, isotonic: float = 1.0) -> list[dict]:
    """Runs of the diamonds: by what the local rule multiplies the RMSE, and isotonic regression
    that of the network.
    """

    def value(method: str, metric: str, seed: int) -> float:
        if metric == "rmse":
            own = (800.0 if method.startswith("glm") else 550.0) + seed
            return own * (
                factor + 1e-4 * seed
                if "local" in method
                else isotonic
                if method == "network_isotonic"
                else 1.0
            )
        return {"coverage_90": 0.9, "coverage_95": 0.955, "coverage_99": 0.985, "crps": 200.0}[
            metric
        ]

    return [
        record(
            parent,
            own,
            own + end,
            seed,
            ["rmse", "coverage_90", "coverage_95", "coverage_99", "crps"],
            value,
        )
        for parent, own in (("gamma_glm", "glm"), ("mlp_gamma", "network"))
        for end in ("", "_isotonic", "_local_1000")
        for seed in range(SEEDS)
    ]


def test_table_3_has_measured_and_published_numbers():
    text = diamonds.compare_with_published(stones(0.94))
    rows = cells_of(text)
    assert list(rows)[:2] == ["**GLM**", "GLM, isotonic"] and len(rows) == 6
    assert rows["**network**"][:4] == ["552.5 ± 1.9", "557.8", ".900 ± .000", ".933"]
    assert rows["GLM, local, k = 1,000, raw units"][1:8:2] == ["751.2", ".898", ".946", ".986"]
    assert (
        rows["GLM, local, k = 1,000, raw units"][-4::3] == ["−6.0 %", "0.031"]
        and rows["**GLM**"][-4:] == ["–"] * 4
    )
    assert rows["GLM, local, k = 1,000, raw units"][-2] == "6 of 6"
    assert (
        text.endswith("7 of 7 hold.")
        and diamonds.compare_with_published([]) == "no run of the diamonds is there"
    )


def test_a_network_without_layers_is_a_variant_of_the_glm(monkeypatch, tmp_path):
    """Neither its own numbers nor those of its parent are the network's."""
    shared = ["rmse"], lambda method, metric, seed: 700.0, {"parent": {"hidden": []}}
    linear = [
        record("mlp_gamma", "mlp_gamma", method, 0, *shared)
        for method in ("glm_adam", "glm_adam_local_1000")
    ]
    network = record("mlp_gamma", "network", "network", 0, ["rmse"], lambda *_: 550.0)
    monkeypatch.setattr(diamonds, "read", lambda folder: [*linear, network])
    measured = diamonds.measured(tmp_path)
    rows = measured[measured.item == "Table 3"].set_index(["method", "variant"]).value
    assert rows.to_dict() == {
        ("gamma_glm", "trained by Adam"): 700.0,
        ("gamma_glm-local_pit", "trained by Adam"): 700.0,
        ("gamma_network", ""): 550.0,
    }


@pytest.mark.parametrize("module", [table1, table2, diamonds])
def test_a_folder_without_runs_has_no_numbers(module, tmp_path):
    assert module.measured(tmp_path).empty


def test_settings_of_runs_have_the_published_keys(monkeypatch, tmp_path):
    """Of the paper's share of dropout alone, and without a value where no run has one."""
    runs = networks(5.0)
    for run in runs:
        run["config"]["parent"] |= {
            "hidden": [256, 256, 64, 64],
            "max_epochs": 15,
            "learning_rate": 0.001,
            "batch_size": 100,
        }
        if run["parent"] == "mc_dropout":
            run["config"]["parent"]["masks"] = 100
        run["config"]["recalibrator"] = {"radius": 0.5}
    monkeypatch.setattr(table2, "read", lambda folder: runs)
    measured = table2.measured(tmp_path)
    cells = cells_of_paper(PAPER, PUBLISHED, measured)
    own_rows = {
        (cell.published["metric"], cell.published["method"]): (cell.measured.mean, cell.measured.n)
        for cell in cells
        if cell.published["item"] == "Section 4.2" and cell.measured is not None
    }
    assert {cell.verdict for cell in cells if cell.published["kind"] == "setting"} == {"a setting"}
    values = {metric: value for (metric, _), (value, _) in own_rows.items()}
    assert values["units of hidden layer 1"] == 256 and values["epochs"] == 15
    assert values["draws"] == 100 and ("draws", "wsir") not in own_rows
    assert values["dropout"] == 0.5 and values["radius of neighbours"] == 0.5
    assert values["rows"] == 1000 and values["training rows (%)"] == 80
    assert {n for _, n in own_rows.values()} == {2} and len(own_rows) == 15


def test_histograms_and_draws_are_variants_of_table_1(monkeypatch, tmp_path):
    def value(method: str, metric: str, seed: int) -> float:
        return {"kl": 0.25, "kl_hist30_sym": 0.7}[metric]

    runs = [
        record("linear", "linear", method, 0, ["kl", "kl_hist30_sym"], value)
        for method in ("linear", "global_pit_draws")
    ]
    monkeypatch.setattr(table1, "read", lambda folder: runs)
    measured = table1.measured(tmp_path)
    rows = measured[measured.item == "Table 1"].set_index(["method", "variant"]).value
    assert rows.to_dict() == {
        ("linear", ""): 0.25,
        ("linear", "histograms of 1,000 draws"): 0.7,
        ("global_pit", "1,000 draws"): 0.25,
        ("global_pit", "1,000 draws, histograms of 1,000 draws"): 0.7,
    }


def test_claims_on_table_3_can_fail():
    wrong = [
        line
        for line in diamonds.compare_with_published(stones(1.01, 1.0)).splitlines()
        if line.startswith("- FAIL")
    ]
    assert any("takes 6 %" in line for line in wrong) and any(
        "lowers the network's RMSE" in line for line in wrong
    )
    assert len(wrong) == 2
    (alone,) = [
        line
        for line in diamonds.compare_with_published(stones(0.94, 0.97)).splitlines()
        if line.startswith("- FAIL")
    ]
    assert "isotonic does not" in alone


def test_relative_differences_are_tested_seed_by_seed():
    """Wilcoxon's p of scipy; the interval is Student's t of the relative differences, wider by the
    rows that splits share.
    """
    rng = np.random.default_rng(0)
    a, b = rng.uniform(1, 2, 8), rng.uniform(1, 2, 8)
    frame = pd.DataFrame(
        [
            {"method": name, "seed": i, "metric": "rmse", "value": v}
            for name, vs in (("a", a), ("b", b))
            for i, v in enumerate(vs)
        ]
    )
    relative = 100 * (a / b - 1)
    mean, interval, lower, p = relative_difference(frame, "a", "b", "rmse", share=0.5)
    half = stats.t.ppf(0.975, 7) * relative.std(ddof=1) * np.sqrt(1 / 8 + 0.5)
    low, high = (float(part.replace("−", "-")) for part in interval.split(" to "))
    assert float(mean.removesuffix(" %").replace("−", "-")) == pytest.approx(
        relative.mean(), abs=0.06
    )
    assert (low, high) == pytest.approx((relative.mean() - half, relative.mean() + half), abs=0.06)
    assert lower == f"{(relative < 0).sum()} of 8" and float(p) == pytest.approx(
        stats.wilcoxon(relative).pvalue, rel=0.05
    )
    assert (
        relative_difference(frame, "a", "none of them", "rmse") == ["–"] * 4
        and chosen_k([], ["a"]) == ""
    )


@pytest.mark.parametrize(
    ("module", "runs"), [(table1, 8 * 20), (table2, 18 * 3), (diamonds, 23 * 10)]
)
def test_the_experiment_has_the_rows_of_the_table(module, runs):
    """Every method that a table has a row for is a point of its experiment, and the other way
    round.
    """
    assert expected(module.EXPERIMENT) == runs
    node = yaml.safe_load(read_text(conf_dir() / "experiment" / f"{module.EXPERIMENT}.yaml"))
    methods = {
        each.strip().rpartition("/")[2]
        for each in node["hydra"]["sweeper"]["params"]["method"].split(",")
    }
    methods = (
        {re.sub(table2.SHARE, "", method) for method in methods} if module is table2 else methods
    )
    rows = (
        set(diamonds.METHODS)
        if module is diamonds
        else set(module.ROWS) - {TRUTH, *table2.PARENTS.values()} | set(table2.RADIUS) & methods
    )
    assert methods == rows
