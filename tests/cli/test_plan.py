"""``kdg plan``: what would run, what is done, what failed; nothing is run."""

from __future__ import annotations

TINY = [
    "dataset.n_train=60",
    "dataset.n_test=40",
    "parent.n_estimators=5",
    "ood=none",
    "metrics=default",
    "figures=none",
]
SWEEP = ["-m", *TINY, "calibrator=none,isotonic", "seed=0,1", "hydra/launcher=basic"]


def test_a_plan_counts_what_is_done(kdg, tmp_path):
    code, out, err = kdg("plan", *SWEEP)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1].startswith(
        "4 runs of 1 data set: 0 done, 4 to do; how long they take is not known"
    )
    assert not list(tmp_path.rglob("result.json"))
    assert (
        kdg("run", "-m", *TINY, "calibrator=none,isotonic", "seed=0", "hydra/launcher=basic")[0]
        == 0
    )
    _, out, _ = kdg("plan", *SWEEP)
    rows = [line.split() for line in out.splitlines()[1:3]]
    assert [row[:3] for row in rows] == [
        ["random_forest-none", "2", "1"],
        ["random_forest-isotonic", "2", "1"],
    ]
    assert out.splitlines()[-1].startswith("4 runs of 1 data set: 2 done, 2 to do; about ")
    assert out.splitlines()[-1].endswith(", from the closest finished runs")
    assert (
        "4 done, 0 to do" not in out and "0 done, 4 to do" in kdg("plan", *SWEEP, "force=true")[1]
    )


def test_a_failure_is_to_be_tried_again(kdg, tmp_path):
    assert kdg("run", *TINY, "calibrator=none")[0] == 0
    (record,) = tmp_path.rglob("result.json")
    record.with_name("error.txt").write_text("no luck\n")
    record.unlink()
    out = kdg("plan", *TINY, "calibrator=none")[1]
    assert out.splitlines()[1].split()[:5] == ["random_forest-none", "1", "·", "·", "1"]


def test_a_plan_refuses_what_a_run_refuses(kdg):
    assert kdg("plan", "datset=wine")[::2] == (
        2,
        "kdg: unknown key 'datset'; did you mean 'dataset'?\n",
    )
