"""What the simulation study prints and draws, of records whose numbers are given, and of one small
run of each kind.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

from experiments.common.published import read_published
from experiments.p5 import figures, simulation
from experiments.p5.simulation import (
    by_eps,
    by_k,
    by_size,
    claims,
    compare_with_published,
    numbers_of,
)
from kdgraph.config import conf_dir, plan
from kdgraph.config.yaml_files import option_files, read_text
from kdgraph.runner.run import run

SIZES = (1000, 10_000, 100_000)
SEEDS = range(3)
AFTER = {
    "network": {"name": "none"},
    "isotonic": {"name": "isotonic_pit"},
    "density": {"name": "density_pit"},
    **{
        place: {"name": "local_pit", "feature_space": place, "layer": None}
        for place in ("input", "output")
    },
    **{
        layer: {"name": "local_pit", "feature_space": "layer", "layer": layer}
        for layer in ("6", "8")
    },
}
Value = Callable[[int, str, str, int, float], float]
"""Size, network, method, k and eps → MSE, to which a hundredth of the seed is added."""


def mse(size: int, network: str, method: str, k: int, eps: float) -> float:
    """As the paper has it: less with more rows and behind the big network, and less after local
    recalibration, of few neighbours least.
    """
    base = {"small": 40.0, "big": 20.0}[network] * 1000 / size + 1
    less = {"small": 0.8 - size / 1e6, "big": 0.9}[network]
    is_local = method not in ("network", "isotonic", "density")
    return base * (less + k / 1e5 + eps / 1000) if is_local else base


def record(
    size: int, network: str, method: str, seed: int, value: float, k: int = 1000, eps: float = 0.0
) -> dict:
    parent = {
        "name": "mlp_regressor",
        "hidden": [5] * 4 if network == "small" else [200, 200, 200, 5],
    }
    after = AFTER[method] | ({"k": k, "eps": eps} if method in simulation.LOCAL else {})
    return _record(size, parent, after, seed, value)


def knn(size: int, seed: int, value: float, k: int) -> dict:
    return _record(size, {"name": "nearest_outcomes", "k": k}, {"name": "none"}, seed, value)


def _record(size: int, parent: dict, after: dict, seed: int, value: float) -> dict:
    off = 20 / size * (1 + seed * (after.get("k", 1000) / 1000) ** -0.5)
    numbers = {
        "mse_y": value + seed / 100,
        "coverage": 0.95 - off * (1 if after["name"] == "local_pit" else 2),
        "crps_excess": value / 10,
    }
    sides = [
        ("calibrated", "test", 1.0),
        ("parent", "test", 7.0),
        ("calibrated", "calibration", 9.0),
    ]
    return {
        "run_id": f"{size} {parent} {after} {seed}",
        "seed": seed,
        "dataset": {"n_train": 8 * size // 10, "n_calibration": size // 10},
        "config": {"parent": parent, "recalibrator": after},
        "seconds": {
            "fit": 2.0,
            "calibrate": 1.0,
            "evaluate": 0.5 - 0.25 * (after.get("eps", 0) > 0),
        },
        "metrics": [
            {"metric": m, "of": of, "on": on, "value": f * v}
            for m, v in numbers.items()
            for of, on, f in sides
        ],
    }


def study(value: Value = mse) -> list[dict]:
    plain = itertools.product(SIZES, simulation.NETWORKS, AFTER, SEEDS)
    result = [
        record(size, network, method, seed, value(size, network, method, 1000, 0))
        for size, network, method, seed in plain
    ]
    local = itertools.product(SIZES, simulation.NETWORKS, simulation.LOCAL, SEEDS)
    for size, network, method, seed in local:
        result += [
            record(size, network, method, seed, value(size, network, method, k, 0), k)
            for k in (100, 500)
        ]
        result += [
            record(size, network, method, seed, value(size, network, method, 1000, eps), 1000, eps)
            for eps in (0.5, 1.0)
        ]
    return result + [
        knn(size, seed, 400.0, k) for size in SIZES[:2] for seed in SEEDS for k in (100, 1000)
    ]


def row_of(table: str, start: str) -> list[str]:
    (line,) = (line for line in table.splitlines() if line.startswith(f"| {start}"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_numbers_are_of_test_rows_after_recalibration():
    frame = numbers_of([record(1000, "small", "6", 2, 30.0), record(1000, "small", "6", 2, 30.0)])
    result = frame.set_index("metric").value.to_dict()
    assert result == {
        "training": 3.0,
        "prediction": 0.5,
        "mse_y": 30.02,
        "coverage": pytest.approx(0.89),
        "crps_excess": 3.0,
    }
    assert frame.iloc[0][["size", "network", "method", "k"]].tolist() == [1000, "small", "6", 1000]
    assert set(numbers_of([knn(10_000, 0, 400.0, 100)])[["size", "network", "k"]].iloc[0]) == {
        10_000,
        "knn",
        100,
    }


def test_a_table_has_medians_and_ends_by_size():
    frame = numbers_of(study())
    table = by_size(
        frame[(frame.eps == 0) & ((frame.k == 1000) | frame.k.isna())], "MSE", "mse_y", 2
    )
    assert row_of(table, "small: as it is") == [
        "41.01 [41.00, 41.02]",
        "5.01 [5.00, 5.02]",
        "1.41 [1.40, 1.42]",
    ]
    assert (
        row_of(table, "big: local, last hidden layer (l = 5)")[1] == "2.74 [2.73, 2.75]"
    )  # .91 of 3, and the seed
    assert row_of(table, "k-NN regression") == ["400.01 [400.00, 400.02]"] * 2 + ["–"]


def test_more_neighbours_than_rows_have_no_cell():
    table = by_k(numbers_of(study()))
    assert row_of(table, "1,000 rows, small, local")[1:] == ["–", "–"]
    assert row_of(table, "10,000 rows, big, local")[0].startswith("2.71 [2.70, 2.72]; ")
    assert (
        row_of(table, "10,000 rows, k-NN regression")[1] == "–"
        and by_k(numbers_of(study()).query("k == 100")) == ""
    )


def test_approximate_searches_are_compared_run_by_run():
    table = by_eps(numbers_of(study(lambda *at: 10.0 * (1 + at[-1] / 100))))
    assert row_of(table, "10,000 rows") == [
        f"MSE at most {worst} % apart, .50 of the seconds" for worst in (".50", "1.00")
    ]
    only = [each for each in study() if each["config"]["recalibrator"].get("eps")]
    assert row_of(by_eps(numbers_of(only)), "10,000 rows") == [
        "–",
        "–",
    ]  # nothing exact to compare with


def test_claims_hold_for_published_numbers_and_fail_for_others():
    good = list(claims(numbers_of(study())))
    assert {claim.holds for claim in good} == {True} and len(good) == 21
    worse = numbers_of(
        study(lambda size, network, method, k, eps: 9.0 + (method in simulation.LOCAL))
    )
    failed = [claim.text for claim in claims(worse) if not claim.holds]
    assert len(failed) == 12 and all("MSE" in text or "CRPS" in text for text in failed)
    assert not list(claims(numbers_of([record(1000, "small", "input", 0, 30.0)])))
    assert not list(claims(numbers_of([knn(1000, 0, 400.0, 100)])))


def test_output_of_a_run_has_the_tables():
    text = compare_with_published(study())
    assert text.startswith("## Torres et al., Figure 4: 3 seeds;") and text.endswith(
        "21 of 21 hold."
    )
    assert compare_with_published([]) == "no run of the function of 20 features is there"
    assert "hold." not in compare_with_published([record(1000, "small", "8", 0, 30.0)])


def test_boxes_hold_every_run(monkeypatch):
    monkeypatch.setattr(simulation, "read", lambda folder: study())
    drawn = dict(figures.figure_4(conf_dir()))
    assert list(drawn) == ["figure4_small", "figure4_big", "figure4_seconds", "figure4_k"]
    assert [axes.get_title() for axes in drawn["figure4_k"].axes] == [
        "MSE to y, small",
        "MSE to y, big",
        "coverage, small",
        "coverage, big",
    ]
    for axes in drawn["figure4_k"].axes:
        assert [tick.get_text() for tick in axes.get_xticklabels()] == [
            "100",
            "500",
            "1,000",
        ] and len(axes.patches) == 3 * 5
    assert [tick.get_text() for tick in drawn["figure4_big"].axes[0].get_xticklabels()] == [
        "10³",
        "10⁴",
        "10⁵",
    ]
    monkeypatch.setattr(simulation, "read", lambda folder: [])
    assert not list(figures.figure_4(conf_dir()))


def test_layers_are_those_that_the_methods_name():
    folder = conf_dir() / "method/paper/p5/simulation"
    nodes = [
        yaml.safe_load(read_text(path)).get("recalibrator", {})
        for path in option_files(folder)
        if "_layer" in path.name
    ]
    assert {node["layer"] for node in nodes} == {"6", "8"} < set(simulation.PLACES)


@pytest.mark.slow  # three small runs
def test_figures_are_drawn_from_runs(tmp_path, monkeypatch):
    """Each of fewer rows than the experiment has, found as if they were its own."""
    wanted = {
        "paper/p5/table1": ["method=global_pit", "method=paper/p5/table1/local_pit_1000"],
        "paper/p5/table2": ["method=paper/p5/table2/wsir_05_local_radius"],
    }
    sizes = [
        "seed=0",
        "dataset.n_train=800",
        "dataset.n_calibration=1000",
        "dataset.n_test=1000",
        f"out={tmp_path}",
    ]
    quick = {"paper/p5/table2": ["parent.max_epochs=1", "parent.hidden=[8,8,8,8]"]}
    result = {}
    for name, methods in wanted.items():
        jobs = [
            plan([f"experiment={name}", method, *sizes, *quick.get(name, [])]).jobs[0]
            for method in methods
        ]
        result[name] = [run(dataclasses.replace(job.config, save=False)) for job in jobs]
    monkeypatch.setattr(figures, "runs_of", lambda name, folder: result[name])
    paths = figures.draw(tmp_path, tmp_path / "pictures", ["line", "valley"])
    stems = ["figure1_line", "figure1_pit", "figure2", "figure3_means", "figure3_misses"]
    assert [path.name for path in paths] == [
        f"{stem}.{kind}" for stem in stems for kind in ("svg", "pdf")
    ]
    line, item, two, means, three = (
        figure
        for part in (figures.figures_1_and_2, figures.figure_3)
        for _, figure in part(tmp_path)
    )
    assert [axes.get_title(loc="left")[0] for axes in line.axes] == ["a", "b", "c", "e"] and len(
        means.axes
    ) == 4 + 1
    assert [axes.get_title(loc="left").split(" · ")[0] for axes in item.axes] == [
        "all",
        "x near 4",
        "x near 17.68",
    ]
    assert len(two.axes) == len(three.axes) == 2
    assert np.isclose(sum(step.get_data().values.sum() for step in item.axes[0].patches), 2 * 20)


def test_settings_are_those_that_a_run_has(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """A size, a number of neighbours and an approximation without a run are left out."""
    runs = [
        record(10_000, "small", "input", 0, 1.0, k=100),
        record(10_000, "big", "input", 0, 1.0, k=250, eps=0.5),
        record(10_000, "big", "input", 1, 1.0, k=250, eps=0.5),
    ]
    for made, rate in zip(runs, (0.01, 0.003, 0.003), strict=True):
        parent = made["config"]["parent"] | {"learning_rate": rate}
        made["config"] = made["config"] | {"parent": parent}
        made["config"]["recalibrator"] = made["config"]["recalibrator"] | {"name": "local_pit"}
        rows = {"n_train": 8000, "n_calibration": 1000, "n_test": 1000}
        made["dataset"] = made["dataset"] | rows | {"n_features": 20}
    monkeypatch.setattr(simulation, "read", lambda folder: runs)
    measured = simulation.settings(tmp_path)
    keys = ["item", "dataset", "metric", "method"]
    published = read_published(Path(simulation.__file__).parent)
    known = set(published[keys].fillna("").itertuples(index=False, name=None))
    assert set(measured[keys].fillna("").itertuples(index=False, name=None)) <= known
    assert not measured.duplicated([*keys, "seed"]).any()
    values = measured[measured.seed == 0].set_index("metric").value
    assert "rows, size 1 of 4" not in values and values["rows, size 2 of 4"] == 10_000
    assert values["neighbours, 1 of 3"] == 100 and "neighbours, 2 of 3" not in values
    assert values["approximation of the search, 2 of 3"] == 0.5
    assert (values["smallest learning rate"], values["largest learning rate"]) == (0.003, 0.01)
    assert values["units of the last hidden layer"] == 5
    monkeypatch.setattr(simulation, "read", lambda folder: [])
    assert simulation.settings(tmp_path).empty
