"""Scripts of experiments/p1: they take the runs of an experiment and no others, count the parent once, and put published beside ours."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kdgraph.config import plan

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "p1"
SIMULATIONS = "paper/p1/simulations"


@pytest.fixture(autouse=True)
def _scripts(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))


@pytest.fixture(scope="module")
def configs():
    """The experiment on one data set at 1,000 rows, for both parents, both variants and both distances, and two seeds."""
    return [job.config for job in plan([f"experiment={SIMULATIONS}", "dataset=spiral", "dataset.n_train=1000", "seed=0,1"]).jobs]


def record_of(config, error: float) -> dict:
    def entry(of, metric, value, on="test", ood=None, params=None):
        return {"of": of, "metric": metric, "value": value, "on": on, "ood": ood, "params": params or {}}

    at_prior = {0.0: 0.9, 1.0: 0.8, 2.0: 0.508, 3.0: 0.5}
    far = [entry("calibrated", "mmc", value, "ood", "sphere", {"radius": radius}) for radius, value in at_prior.items()]
    more = [entry("calibrated", metric, value) for metric, value in (("nll", 2 * error), ("ece", error / 2))]
    far += [entry("calibrated", "oce", value, "ood", "sphere", {"radius": radius}) for radius, value in ((1.5, 0.01), (2.0, 0.0))]
    return {
        "config": config.science(),
        "dataset": {"name": config.dataset["name"], "n_features": 2, "prior": [0.5, 0.5]},
        "parent": config.parent["name"],
        "calibrator": config.calibrator["name"],
        "gate": config.gate["name"],
        "seed": config.seed,
        "method": config.method,
        "metrics": [entry("parent", "error", 0.25), entry("calibrated", "error", error), *more, *far],
    }


def test_tables_of_networks_and_of_merged_polytopes(tmp_path, monkeypatch, capsys) -> None:
    import tables

    jobs = [job for name in ("networks", "prune") for job in plan([f"experiment=bench/{name}", "dataset=spiral", "seed=0,1"]).jobs]
    for job in jobs:
        write(tmp_path, job.config, error={None: 0.1, 0.1: 0.2, 0.01: 0.3}[job.config.calibrator.get("max_polytopes")])
    monkeypatch.setattr("sys.argv", ["tables.py", str(tmp_path)])
    tables.main()
    found = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("#", "| spiral", "| default", "| max"))]
    rest = "0.2000 | 0.0500 | 0.0100 | 0.0000 | 2 |"
    pruned = [
        f"| {setting} | {error} | 0.0100 (0.0100) | 0.0000 (0.0000) |"
        for setting, error in (
            ("default", "0.1000 | 0.2000 | 0.0500"),
            ("max_polytopes=0.01", "0.3000 | 0.6000 | 0.1500"),
            ("max_polytopes=0.1", "0.2000 | 0.4000 | 0.1000"),
        )
    ]
    assert found == [
        "## Networks",
        "| spiral | network | 0.2500 | nan | nan | nan | nan | 2 |",
        *(f"| spiral | {name} | 0.1000 | {rest}" for name in list(tables.ON_NETWORKS.values())[1:]),
        *("## Fewer polytopes: kdf", *pruned),
        *("## Fewer polytopes: kdn", *pruned),
    ]


def write(folder: Path, config, error: float = 0.1) -> None:
    run = folder / config.dataset["name"] / config.method / config.run_id
    run.mkdir(parents=True, exist_ok=True)
    (run / "result.json").write_text(json.dumps(record_of(config, error)))


def test_runs_of_an_experiment_are_those_that_it_sweeps(tmp_path, configs) -> None:
    from records import expected, runs_of

    others = plan(["dataset=spiral", "method=kdf,kdn", "seed=0"], multirun=True).jobs
    for config in [*configs, *(job.config for job in others)]:
        write(tmp_path, config)
    assert len(configs) == 16
    found = runs_of(SIMULATIONS, tmp_path)
    assert {(r["parent"], r["seed"], *map(r["config"]["calibrator"].get, ("variant", "distance"))) for r in found} == {
        (parent, seed, variant, distance)
        for parent in ("random_forest", "mlp")
        for seed in (0, 1)
        for variant in ("kdgraph", "figure1")
        for distance in ("geodesic", "euclidean")
    }
    assert len(found) == 16
    assert expected(SIMULATIONS) == 2400


def test_a_key_that_is_free_may_differ(tmp_path) -> None:
    from records import runs_of

    small = plan([f"experiment={SIMULATIONS}", "dataset=spiral", "method=kdn", "parent.hidden=[9]", "seed=0", "dataset.n_train=50"]).jobs
    write(tmp_path, small[0].config)
    assert runs_of(SIMULATIONS, tmp_path) == []
    assert len(runs_of(SIMULATIONS, tmp_path, free=["parent.hidden"])) == 1


def test_the_parent_of_several_runs_counts_once(configs) -> None:
    from records import frame

    errors = frame(record_of(config, 0.1) for config in configs).query("metric == 'error'")
    parents = errors[errors.model == "parent"]
    assert len(parents) == 4  # two parents, two seeds
    assert set(parents.variant) == {""}
    assert len(errors) == 4 + 16


def test_the_table_has_published_theirs_and_ours(configs) -> None:
    from comparison import figure1_table
    from records import frame

    errors = {"figure1": 0.2, "kdgraph": 0.1}
    plane = frame(record_of(c, errors[c.calibrator["variant"]] + 0.02 * c.seed) for c in configs)
    published = pd.read_csv(FOLDER / "published.csv")
    table = figure1_table(plane, published)
    (line,) = [line for line in table.splitlines() if line.startswith("| spiral | kdf geodesic")]
    assert line.split("|")[3].strip() == ".088 / .210 / .110"  # medians of two seeds
    assert line.split("|")[-2].strip() == "3.5 / 2.0 / 2.0"  # .508 is within .01 of the prior
    (line,) = [line for line in table.splitlines() if line.startswith("| circle | relu network")]
    assert line.split("|")[3].strip() == "– / –"
    assert not re.search(r"\bnan\b", table)


@pytest.mark.parametrize(
    ("confidence", "first"),
    [([0.9, 0.5, 0.5], 1.0), ([0.9, 0.5, 0.6], np.inf), ([0.5, 0.5, 0.5], 0.0), ([0.9, 0.52, 0.509], 2.0), ([0.5, 0.8, 0.5], 2.0)],
)
def test_the_first_radius_at_the_prior_is_one_after_which_none_leaves_it(confidence, first) -> None:
    from comparison import first_at_the_prior

    assert first_at_the_prior(np.arange(3.0), np.array(confidence)) == first


def test_published_numbers_cover_both_parents_and_distances() -> None:
    from comparison import FROM, GROUPS, MEASURES, SIZES
    from records import swept_numbers

    published = pd.read_csv(FOLDER / "published.csv")
    for parent, method in GROUPS.values():
        for n in SIZES:
            hellinger = published[(published.metric == "hellinger on the grid") & (published.n_train == n)]
            for model in (parent, f"{method} geodesic", f"{method} euclidean"):
                assert (hellinger.method == model).sum() == 5, (model, n)
    assert set(published.metric) == {*MEASURES, FROM}
    assert set(swept_numbers(SIMULATIONS)) == {"seed", "dataset.n_train", "calibrator.variant", "calibrator.distance"}
