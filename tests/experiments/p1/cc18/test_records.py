"""Runs on many tables: which of them enter, that the parent counts once, and what stands in no
table.
"""

from __future__ import annotations

import json

import pytest

from experiments.common.runs import runs_of
from experiments.p1.cc18.records import Inconsistent, frame, parents_of, tables
from kdgraph.config import plan

pytestmark = pytest.mark.slow

RADII = (0.5, 1.0, 1.5, 2.0, 5.0)
METHODS = ("kdf", "isotonic", "gated_isotonic")


def test_a_parent_counts_once_and_inner_radii_do_not_count(
    record,
) -> None:
    numbers = frame([record(method=method) for method in METHODS])
    errors = numbers[numbers.metric == "error"]
    assert sorted(errors.method) == ["gated_isotonic", "isotonic", "kdf", "parent"]
    assert set(numbers["at"].dropna()) == {1.0, 1.5, 2.0, 5.0}
    assert set(numbers.learn) == {100}


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (
            {"k": 3},
            (
                "two runs of KDF on random forest, a, 100 rows, seed 0, which differ in"
                " calibrator.k; keep one of them"
            ),
        ),
        (
            {},
            (
                "two runs of KDF on random forest, a, 100 rows, seed 0, which differ in nothing;"
                " keep one of them"
            ),
        ),
        (
            {"method": "isotonic", "of_parent": {"ece": 0.06}},
            (
                "the random forest on a, 100 rows, seed 0, has two values of ece, so it was fitted"
                " or tested in two settings"
            ),
        ),
    ],
)
def test_runs_that_cannot_be_in_one_table_are_refused(second, message, record) -> None:
    with pytest.raises(Inconsistent) as raised:
        frame([record(), record(**second)])
    assert message in str(raised.value)


def test_tables_have_means_over_common_seeds_of_largest_samples(record) -> None:
    def run(method, seed, error, learn=200, dataset="a"):
        return record(
            dataset,
            method,
            seed=seed,
            learn=learn,
            values={"error": error, "oce": dict(zip(RADII, range(5), strict=True))},
        )

    runs = [
        run("kdf", 0, 0.1),
        run("kdf", 1, 0.3),
        run("kdf", 2, 0.9),
        run("isotonic", 0, 0.2),
        run("isotonic", 1, 0.2),
    ]
    runs += [
        run("kdf", 0, 0.7, learn=100),
        run("kdf", 0, 0.7, dataset="b"),
        run("isotonic", 1, 0.7, dataset="b"),
        run("kdf", 0, 0.7, dataset="c"),
    ]
    result = tables(frame(runs), "random_forest")
    assert result.datasets == ["a"]
    assert result.column("error").loc["a"].to_dict() == pytest.approx(
        {"parent": 0.1, "kdf": 0.2, "isotonic": 0.2}
    )
    assert result.values.loc[("a", "kdf"), "oce"] == (2 + 3 + 4) / 3  # radii above 1
    assert result.left_out == {"b": "no seed that all methods have", "c": "no run of isotonic"}
    assert (result.learn, dict(result.seeds), result.radii) == (
        {"a": 200},
        {"a": 2},
        [1.0, 1.5, 2.0, 5.0],
    )


def test_networks_of_any_width_are_one_parent(record) -> None:
    runs = [
        record("a", "kdn", parent="tabular_mlp"),
        record("b", "kdn", parent="mlp"),
        record("b", parent="cnn"),
    ]
    assert parents_of(frame(runs)) == ["mlp"]


def test_a_method_of_few_tables_is_in_no_table(record) -> None:
    runs = [record(name, "kdf") for name in "abc"] + [record("a", "temperature")]
    assert tables(frame(runs), "random_forest").methods == ["parent", "kdf"]


def test_runs_of_an_experiment_are_read_by_tables_and_methods(tmp_path) -> None:
    wanted = plan(["experiment=bench/tables", "dataset=wine", "method=kdf,isotonic", "seed=0"]).jobs
    words = ["dataset=wine,spiral", "method=kdf", "seed=0", "dataset.n_train=50"]
    others = [
        *plan(words, multirun=True).jobs,
        *plan(["experiment=bench/tables", *words]).jobs,
    ]
    for job in [*wanted, *others]:
        run = tmp_path / job.config.dataset["name"] / job.config.method / job.config.run_id
        run.mkdir(parents=True)
        (run / "result.json").write_text(
            json.dumps(
                {
                    "run_id": job.config.run_id,
                    "overrides": job.config.origin.overrides,
                    "experiment": job.config.origin.experiment,
                }
            )
        )
    result = {record["run_id"] for record in runs_of("bench/tables", tmp_path)}
    assert result == {job.config.run_id for job in wanted}
    assert len(runs_of("bench/tables", tmp_path, free=["dataset.n_train"])) == len(wanted) + 1
