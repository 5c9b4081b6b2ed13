"""The wide view: the parent once, columns that are read most first, and a count of what has no room."""

from __future__ import annotations

from kdgraph.results.names import name_runs
from kdgraph.results.table import pivot_text, reading_order, table_lines

VALUES = {
    "brier": 0.2,
    "error": 0.1,
    "mmc": 0.9,
    "oce@sphere:radius=5": 0.0,
    "oce@sphere:radius=2": 0.01,
    "oce@sphere:radius=1": 0.02,
}


def shown(runs, **more) -> list[str]:
    lines = table_lines(name_runs(runs))
    measures = reading_order(
        list(dict.fromkeys(measure for line in lines for measure in line.values))
    )
    return pivot_text(lines, measures, **{"width": None, "rows": None} | more).splitlines()


def test_the_parent_stands_once_above_what_stands_on_it(record, as_runs) -> None:
    runs = [
        record("a", m, seed=s, values={"error": v})
        for m, v in (("kdf", 0.1), ("isotonic", None))
        for s in (0, 10)
    ]
    assert shown(as_runs([*runs, record("b", "none", calibrator="none", values={"nll": 0.5})])) == [
        "                                         error     nll",
        "data set  model                   seed    test    test",
        "a         random_forest (parent)     0  0.2000       –",
        "a         random_forest (parent)    10  0.2000       –",
        "a         isotonic                   0       –       –",
        "a         isotonic                  10       –       –",
        "a         kdf                        0  0.1000       –",
        "a         kdf                       10  0.1000       –",
        "b         random_forest (parent)     0       –  0.2000",
    ]


def test_columns_come_in_the_order_in_which_they_are_read(record, as_runs) -> None:
    head, places, *_ = shown(as_runs([record(values=VALUES)]))
    assert head.split() == ["error", "oce", "oce", "brier", "mmc", "oce"]
    assert places.split()[-6:] == ["test", "radius=2", "radius=5", "test", "test", "radius=1"]


def test_what_has_no_room_is_counted(record, as_runs) -> None:
    runs = as_runs([record("a", seed=s, values=VALUES) for s in range(5)])
    full = shown(runs)
    narrow = shown(runs, width=60, rows=3)
    assert narrow[-1] == "… 7 more lines and 4 more columns"
    assert all(len(line) <= 60 for line in narrow) and len(narrow) == 6
    end = len(narrow[1])  # of the last column that fits
    assert narrow[:-1] == [line[:end].rstrip() for line in full[:5]]
    assert shown(runs, width=1)[-1] == "… 5 more columns"  # one column stays, however narrow it is


def test_repetitions_are_seeds_and_folds(record, as_runs) -> None:
    runs = as_runs([record("a", seed=1, config={"dataset.fold": fold}) for fold in (0, 1)])
    assert [line.split()[-5] for line in shown(runs)[2:]] == ["1/0", "1/1", "1/0", "1/1"]


def test_long_names_of_models_leave_room_for_a_number(record, as_runs) -> None:
    settings = [{"calibrator.alpha": alpha, "calibrator.robust": alpha < 1} for alpha in (0.5, 1.0)]
    runs = name_runs(as_runs([record("a", values=VALUES, config=config) for config in settings]))
    lines = table_lines(runs)
    measures = reading_order(list(lines[0].values))
    text = pivot_text(lines, measures, width=60, rows=None).splitlines()
    assert max(map(len, text)) <= 60
    assert "0.1000" in text[3] and text[4].strip() == "calibrator.robust=true"
    assert pivot_text(lines, measures, width=200, rows=None).count("\n") == len(lines) + 1
