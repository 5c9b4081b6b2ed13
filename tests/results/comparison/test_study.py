"""Numbers of many runs by data set, repetition and method; the parent once."""

from __future__ import annotations

import pytest

from kdgraph.results.comparison.study import build_study
from kdgraph.results.measures import choose_measures


def test_each_number_is_in_its_place_and_the_parent_once(record, as_runs) -> None:
    runs = [
        record(d, m, seed=s, values={"error": v + s / 10}, of_parent={"error": 0.5 + s / 10})
        for d in ("b", "a")
        for m, v in (("kdf", 0.1), ("isotonic", 0.2))
        for s in (0, 1)
    ]
    study = build_study(as_runs(runs))
    assert study.datasets == ["a", "b"] and study.methods == [
        "random_forest (parent)",
        "isotonic",
        "kdf",
    ]
    assert (
        study.parents == {"random_forest (parent)"}
        and study.parent_of["kdf"] == "random_forest (parent)"
        and study.conflicts == []
    )
    table = study.table(study.measures[0])
    assert list(table.columns) == study.methods and table.index.names == ["dataset", "repetition"]
    assert (
        table.loc[("b", "1")].tolist() == [0.6, 0.30000000000000004, 0.2]
        and table.notna().all(axis=None)
        and len(table) == 4
    )
    parents = study.parent_table(study.measures[0])
    assert list(parents.columns) == ["isotonic", "kdf"] and parents.loc[("a", "0")].tolist() == [
        0.5,
        0.5,
    ]


def test_what_is_missing_or_undefined_is_nan(record, as_runs) -> None:
    study = build_study(
        as_runs(
            [
                record("a", "kdf", values={"error": None, "nll": 0.1}),
                record("b", "isotonic", values={"error": 0.3}),
            ]
        )
    )
    error, nll = (study.table(measure) for measure in study.measures)
    assert error["kdf"].isna().all() and error.loc[("b", "0"), "isotonic"] == 0.3
    assert nll.loc[("a", "0"), "kdf"] == 0.1 and nll["isotonic"].isna().all()


def test_first_number_counts_in_runs_with_other_measures(record, as_runs) -> None:
    same = {"error": 0.1, "nll": None}
    runs = [
        record(values=same),
        record(
            values=same | {"nll": 0.4, "brier": 0.2}, config={"figures.draw": ["posterior_maps"]}
        ),
    ]
    study = build_study(as_runs(runs))
    assert [study.table(measure)["kdf"].item() for measure in study.measures] == [
        0.1,
        0.4,
        0.2,
    ] and study.conflicts == []


def test_numbers_that_disagree_are_listed(record, as_runs) -> None:
    parents = [{"error": 0.5, "nll": 0.7}, {"error": 0.5 + 1e-12, "nll": 0.8}]
    runs = [
        record("a", m, values={"error": 0.1, "nll": 0.1}, of_parent=of)
        for m, of in zip(("kdf", "isotonic"), parents, strict=True)
    ]
    study = build_study(as_runs(runs))
    assert study.conflicts == ["random_forest (parent) on a, seed 0, has two values of nll"]
    assert study.table(study.measures[1])["random_forest (parent)"].item() == 0.7
    assert study.parent_table(study.measures[1]).iloc[0].to_dict() == {
        "isotonic": 0.8,
        "kdf": 0.7,
    }  # each beside its own


def test_a_run_of_the_parent_alone_adds_no_method(record, as_runs) -> None:
    study = build_study(
        as_runs([record(method="forest", calibrator="none", values={"error": 0.2})])
    )
    assert study.methods == ["random_forest (parent)"] and study.table(
        study.measures[0]
    ).to_numpy().tolist() == [[0.2]]


def test_parents_that_stand_in_for_each_other_are_one(record, as_runs) -> None:
    runs = [
        record("table", "kdn", parent="mlp"),
        record("image", "kdn", parent="cnn"),
        record("image", "kdf"),
    ]
    study = build_study(as_runs(runs))
    assert study.methods == ["mlp / cnn (parent)", "random_forest (parent)", "kdf", "kdn"]
    assert study.parent_of == {"kdn": "mlp / cnn (parent)", "kdf": "random_forest (parent)"}


def test_parents_of_one_data_set_are_counted_separately(record, as_runs) -> None:
    runs = [
        record("a", "kdn", parent="mlp"),
        record("b", "kdn", parent="cnn"),
        record("b", "isotonic", parent="mlp"),
    ]
    study = build_study(as_runs(runs))
    assert (
        study.parents == {"mlp (parent)", "cnn (parent)"} and study.parent_of["kdn"] == "its parent"
    )


def test_folds_are_repetitions_and_sizes_are_data_sets(record, as_runs) -> None:
    folds = [record("a", seed=1, config={"dataset.fold": fold}) for fold in (0, 1)]
    sizes = [record("b", config={"dataset.n_train": n}) for n in (10, 20)]
    study = build_study(as_runs([*folds, *sizes]))
    assert study.repetitions == {
        "a": [(1, 0), (1, 1)],
        "b n_train=10": [(0,)],
        "b n_train=20": [(0,)],
    }


@pytest.mark.parametrize("names", [["error"], ["nll", "error"]])
def test_only_what_is_chosen_in_the_order_in_which_it_is(record, as_runs, names) -> None:
    study = build_study(as_runs([record()]), lambda measures: choose_measures(measures, names))
    assert [measure.metric for measure in study.measures] == names
