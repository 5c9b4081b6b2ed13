"""Notes about the runs behind means and tests."""

from __future__ import annotations

import pytest

from kdgraph.results.comparison.aggregate import compare_methods
from kdgraph.results.comparison.study import build_study
from kdgraph.results.comparison.tables import (
    caution_notes,
    repetitions_text,
    spread_notes,
    too_few_note,
)

CHANGES = "the fit, the calibration and the out-of-distribution rows"


@pytest.fixture
def study_of(as_runs):
    return lambda records: build_study(as_runs(list(records)))


@pytest.mark.parametrize(
    ("seeds", "expected"),
    [
        ([3], "seed 3"),
        ([0, 1], "2 seeds (0, 1)"),
        ([0, 1, 2], "3 seeds (0–2)"),
        ([0, 1, 4], "3 seeds (0, 1, 4)"),
    ],
)
def test_seeds_in_words(record, study_of, seeds, expected) -> None:
    assert repetitions_text(study_of(record("a", seed=s) for s in seeds)) == expected


def test_seeds_that_are_not_the_same_on_all_data_sets(record, study_of) -> None:
    assert (
        repetitions_text(study_of([record("a", seed=0), record("b", seed=1)]))
        == "1 seed each, not the same"
    )
    assert (
        repetitions_text(study_of([*(record("a", seed=s) for s in range(3)), record("b")]))
        == "1 to 3 seeds each"
    )


def test_folds_in_words(record, study_of) -> None:
    folds = [record("a", seed=s, config={"dataset.fold": f}) for s in (1, 2) for f in range(3)]
    assert repetitions_text(study_of(folds)) == "3 folds (0–2) of 2 seeds (1, 2)"
    assert repetitions_text(study_of(folds[:3])) == "3 folds (0–2) of seed 1"


def test_one_seed_has_no_spread(record, study_of) -> None:
    assert spread_notes(study_of([record("a"), record("b")])) == [
        "One seed each: there is no ±, and nothing is tested over seeds."
    ]


def test_a_simulation_draws_its_rows_anew(record, study_of) -> None:
    assert spread_notes(study_of(record("a", seed=s) for s in (0, 1))) == [
        f"± is the standard deviation (n - 1) over seeds: with each, the rows themselves, {CHANGES}"
        " change."
    ]


def test_seeds_that_split_one_table_are_not_independent(record, study_of) -> None:
    what = (
        f"± is the standard deviation (n - 1) over seeds: with each, the split, {CHANGES} change."
    )
    assert spread_notes(study_of(record("a", seed=s, simulated=False) for s in range(6))) == [
        what,
        (
            "Seeds divide one and the same table, so p values over seeds are too small (Nadeau and"
            " Bengio 2003); those over data sets are not touched by that."
        ),
    ]
    assert spread_notes(study_of(record("a", seed=s, simulated=False) for s in range(5))) == [
        what
    ]  # of five no p value is shown


def test_a_table_that_comes_split_keeps_its_split(record, study_of) -> None:
    split = [record("a", seed=s, simulated=False, fingerprint="same") for s in (0, 1)]
    assert spread_notes(study_of(split)) == [
        f"± is the standard deviation (n - 1) over seeds: with each, {CHANGES} change, the split is"
        " the same."
    ]
    both = [*split, *(record("b", seed=s) for s in (0, 1))]
    assert spread_notes(study_of(both)) == [
        f"± is the standard deviation (n - 1) over seeds: with each, the split, {CHANGES} change;"
        " the split of a is the same."
    ]


def test_even_runs_need_no_caution(record, study_of) -> None:
    study = study_of(
        record(d, m, seed=s) for d in ("a", "b") for m in ("kdf", "isotonic") for s in (0, 1)
    )
    assert (
        caution_notes(study, [compare_methods(study, measure) for measure in study.measures]) == []
    )


def test_uneven_runs_have_notes(record, study_of) -> None:
    runs = [record("a", "kdf", seed=s) for s in (0, 1)]
    runs += [record("a", "isotonic", seed=0, values={"error": None}, of_parent={"error": 0.7})]
    runs += [
        record("b", "kdf", config={"dataset.n_train": n, "parent.max_depth": 3}) for n in (10, 20)
    ]
    study = study_of(runs)
    assert caution_notes(study, [compare_methods(study, study.measures[0])]) == [
        "random_forest (parent) on a, seed 0, has two values of error; the first counts.",
        "kdf differs between data sets in parent.max_depth.",
        (
            "Missing runs, of 4 for each method: isotonic 3. Pairs are of what both have, ranks of"
            " what all ranked methods have."
        ),
        (
            "Settings of one data set count as data sets in tests over data sets, though they are"
            " not independent: b 2."
        ),
        "error is not defined in 1 of its 9 numbers.",
    ]


def test_a_method_for_classes_lacks_no_run_of_a_regression(record, study_of) -> None:
    regression = {"calibrator": "none", "recalibrator": "pit", "prior": None}
    runs = [
        record("a"),
        record("b"),
        record("c", "pit", **regression),
        record("d", "other", **regression),
    ]
    assert caution_notes(study_of([*runs, record("d", "pit", **regression)]), []) == [
        "Missing runs, of 2 for each method: other 1. Pairs are of what both have, ranks of what"
        " all ranked methods have."
    ]
    assert caution_notes(study_of([*runs, record("e")]), []) == [
        "Missing runs: other 1 of 2, pit 1 of 2. Pairs are of what both have, ranks of what all"
        " ranked methods have."
    ]


def test_the_paper_protocol_has_a_note(record, study_of) -> None:
    study = study_of(
        [record("a", "pit"), record("a", "pit-as_in_paper", calibrator="pit", protocol="paper")]
    )
    assert caution_notes(study, []) == [
        "Fitted on test rows, or by the rows out of distribution, where the method's paper does so"
        " (protocol=paper), so that its numbers are no estimate for new rows: pit (paper protocol)."
    ]


def test_some_of_many_disagreements_are_listed(record, study_of) -> None:
    runs = [
        record("a", m, seed=s, of_parent={"error": v})
        for s in range(7)
        for m, v in (("kdf", 0.1), ("isotonic", 0.2))
    ]
    notes = caution_notes(study_of(runs), [])
    assert len(notes) == 6 and notes[-1] == "2 more such."


@pytest.mark.parametrize(
    ("n", "tests", "expected"),
    [
        (5, 1, "With 5 seeds no paired test can be significant at 0.05: that takes 6."),
        (1, 3, "With 1 seed no paired test of 3 methods can be significant at 0.05: that takes 7."),
        (6, 1, ""),
        (0, 0, ""),
    ],
)
def test_too_few_pairs_have_a_note(n, tests, expected) -> None:
    assert too_few_note(n, tests, "seed") == expected
