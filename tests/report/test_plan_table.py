from __future__ import annotations

from kdgraph.data.sizes import RoleSizes
from kdgraph.report.plan_table import PlannedRun, plan_table
from kdgraph.results.estimate import RunTimes
from tests.results.test_estimate import ROWS, record

TIMES = RunTimes([record("wine", "kdf", fit=90.0)] * 7 + [record("wine", "isotonic", fit=30.0)])


def test_rows_add_up_and_the_rest_is_estimated():
    runs = [PlannedRun("wine", "kdf", state) for state in ("done", "to do", "failed")] + [
        PlannedRun("wine", "isotonic", "to do")
    ]
    head, kdf, isotonic, _, summary = plan_table(runs, TIMES, 2).splitlines()
    assert head.split() == [
        "runs",
        "done",
        "running",
        "failed",
        "not",
        "at",
        "hand",
        "to",
        "do",
        "about",
    ]
    # What failed is tried again.
    assert kdf.split() == ["kdf", "3", "1", "·", "1", "·", "1", "0:03:00"]
    assert isotonic.split() == ["isotonic", "1", "·", "·", "·", "·", "1", "30.0", "s"]
    assert (
        summary
        == "4 runs of 1 data set: 1 done, 3 to do; about 0:01:45, 2 at a time, from the closest"
        " finished runs"
    )


def test_unknown_durations_are_counted():
    runs = [PlannedRun("wine", "kdf", "to do"), PlannedRun("iris", "none", "to do")]
    lines = plan_table(runs, TIMES, 1).splitlines()
    assert lines[2].endswith("unknown")
    assert lines[-1].endswith(
        "2 to do; about 0:01:30, from 7 runs of 100 rows, and 1 more of unknown duration"
    )
    nothing = plan_table(runs[1:], TIMES, 1).splitlines()[-1]
    assert (
        nothing
        == "1 run of 1 data set: 0 done, 1 to do; how long they take is not known, since none like"
        " them has been run"
    )


def test_an_estimate_names_what_it_rests_on():
    large = RoleSizes(700, 300, 500)
    summaries = [
        plan_table([PlannedRun(dataset, method, "to do", sizes)], TIMES, 1).splitlines()[-1]
        for dataset, method, sizes in (
            ("wine", "isotonic", ROWS),
            ("wine", "isotonic", large),
            ("iris", "isotonic", large),
        )
    ]
    assert [summary.partition("about ")[2] for summary in summaries] == [
        "30.0 s, from 1 run of 100 rows",
        "0:05:00, from 1 run of 100 rows, scaled to 1,000",
        "0:05:00, from 1 run of 100 rows of another data set, scaled to 1,000",
    ]
    runs = [PlannedRun("wine", method, "to do", large) for method in ("kdf", "isotonic")]
    summary = plan_table(runs, TIMES, 1).splitlines()[-1]
    assert summary.endswith("0:20:00, from the closest finished runs, scaled by their rows")


def test_a_narrow_terminal_gets_the_same_table_in_two_parts():
    runs = [PlannedRun("wine", "kdf", "to do")]
    lines = plan_table(runs, TIMES, 1, 50).splitlines()
    assert max(map(len, lines)) <= 50
    assert [line.split()[:2] for line in lines[:4]] == [
        ["runs", "done"],
        ["kdf", "1"],
        ["not", "at"],
        ["kdf", "·"],
    ]


def test_what_is_done_needs_no_estimate():
    assert plan_table([PlannedRun("wine", "kdf", "done")], TIMES, 1).endswith(
        "1 run of 1 data set: 1 done, 0 to do"
    )
