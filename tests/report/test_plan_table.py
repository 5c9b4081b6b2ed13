from __future__ import annotations

from kdgraph.report.plan_table import PlannedRun, plan_table
from kdgraph.results.estimate import RunTimes

TIMES = RunTimes({("wine", "kdf"): 90.0}, {"kdf": 90.0}, {"wine": 30.0}, 7)


def test_rows_add_up_and_the_rest_is_estimated():
    runs = [PlannedRun("wine", "kdf", state) for state in ("done", "to do", "failed")] + [
        PlannedRun("wine", "sigmoid", "to do")
    ]
    head, kdf, sigmoid, _, summary = plan_table(runs, TIMES, 2).splitlines()
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
    assert kdf.split() == [
        "kdf",
        "3",
        "1",
        "·",
        "1",
        "·",
        "1",
        "0:03:00",
    ]  # what failed is tried again
    assert sigmoid.split() == ["sigmoid", "1", "·", "·", "·", "·", "1", "30.0", "s"]
    assert (
        summary
        == "4 runs of 1 data set: 1 done, 3 to do; about 0:01:45, 2 at a time, going by 7 finished"
        " runs"
    )


def test_what_is_not_known_is_said():
    runs = [PlannedRun("wine", "kdf", "to do"), PlannedRun("iris", "none", "to do")]
    lines = plan_table(runs, TIMES, 1).splitlines()
    assert lines[2].endswith("unknown")
    assert lines[-1].endswith(
        "2 to do; about 0:01:30, going by 7 finished runs, and 1 more of which nothing is known"
    )
    nothing = plan_table(runs[1:], TIMES, 1).splitlines()[-1]
    assert (
        nothing
        == "1 run of 1 data set: 0 done, 1 to do; how long they take is not known, since none like"
        " them has been run"
    )


def test_what_is_done_needs_no_estimate():
    assert plan_table([PlannedRun("wine", "kdf", "done")], TIMES, 1).endswith(
        "1 run of 1 data set: 1 done, 0 to do"
    )
