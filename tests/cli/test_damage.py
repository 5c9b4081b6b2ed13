"""Damaged files of a finished run: one line reports them, each is set aside, and the next run makes
it again.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from kdgraph.runner.files import add_checksum, check_and_load
from kdgraph.runner.run_dir import RunDir
from tests.variations import others_slow

TINY = [
    "dataset.n_train=60",
    "dataset.n_test=40",
    "parent.n_estimators=5",
    "ood=none",
    "metrics=default",
    "figures=none",
    "n_jobs=1",
]
RUN = [*TINY, "calibrator=isotonic", "+metrics.test.risk_coverage={}"]
SWEEP = ["-m", *RUN, "hydra/launcher=basic"]
READING = (["plan", *SWEEP], ["table"], ["compare"], ["report"], ["gc", "--dry-run"])


@pytest.fixture
def run_dir(kdg, tmp_path) -> Path:
    """A sweep of one run, which is in its index."""
    assert kdg("run", *SWEEP)[0] == 0
    (record,) = Path("outputs").glob("*/*/*/result.json")
    return record.parent


def metrics(run_dir: Path) -> list:
    return check_and_load((run_dir / "result.json").read_bytes())["metrics"]


@pytest.mark.parametrize(
    "content",
    others_slow(
        [b"", b"\xff\x00\xfe", b"[1, 2]", b'"text"', b'{"schema": 9}', b'{"a": NaN}', b"[" * 10**5]
    ),
)
def test_a_damaged_record_is_reported_set_aside_and_made_again(kdg, run_dir, content):
    expected = metrics(run_dir)
    (run_dir / "result.json").write_bytes(content)
    line = (
        f"kdg: {run_dir}/result.json is damaged (it has no checksum at its end);"
        " a run sets it aside as result.json.damaged and makes it again\n"
    )
    assert kdg("plan", *SWEEP)[::2] == (0, line)
    assert kdg("gc", "--dry-run")[::2] == (0, line)
    left_out = (
        f"left out of outputs: 1 run whose result.json is damaged ({run_dir}/result.json); the same"
        " kdg run makes them again"
    )
    none = (
        "no finished run in 'outputs'; make one with 'kdg run', or name another folder with --out"
    )
    for command in ("table", "compare"):
        assert kdg(command) == (2, "", f"kdg: {left_out}\nkdg: {none}\n")
    code, _, err = kdg("run", *SWEEP)
    assert code == 0 and err.splitlines()[0] + "\n" == line
    assert metrics(run_dir) == expected
    assert (run_dir / "result.json.damaged").read_bytes() == content
    assert kdg("table")[::2] == (0, "")


def test_a_changed_digit_is_no_number_of_a_table(kdg, run_dir):
    path = run_dir / "result.json"
    record = check_and_load(path.read_bytes())
    number = f'"value": {record["metrics"][0]["value"]}'
    path.write_bytes(path.read_bytes().replace(number.encode(), b'"value": 9.04', 1))
    assert json.loads(path.read_bytes())["metrics"][0]["value"] == 9.04
    code, out, err = kdg("table")
    assert (code, out) == (2, "") and "1 run whose result.json is damaged" in err


def test_a_run_detects_changed_predictions_of_a_finished_run(kdg, run_dir):
    path = run_dir / "predictions.parquet"
    before, expected = path.read_bytes(), metrics(run_dir)
    changed = bytearray(before)
    changed[len(changed) // 3] ^= 4
    path.write_bytes(changed)
    code, _, err = kdg("run", *RUN)
    assert code == 0
    assert (
        err.splitlines()[0]
        == f"kdg: {run_dir}: predictions.parquet changed since the run; set aside as *.damaged, and"
        " the run is made again"
    )
    assert path.read_bytes() == before and metrics(run_dir) == expected
    assert path.with_name("predictions.parquet.damaged").read_bytes() == changed
    assert kdg("run", *RUN)[2] == ""


def test_a_record_of_earlier_code_is_left_out_and_made_again(kdg, run_dir):
    path = run_dir / "result.json"
    record = check_and_load(path.read_bytes())
    path.write_bytes(add_checksum(record | {"code": record["code"] | {"fit": 0}}))
    assert (
        kdg("table")[2].splitlines()[0]
        == "kdg: left out of outputs: 1 run of other code than this kdgraph's; the same kdg run"
        " makes them again"
    )
    assert "0 done, 1 to do" in kdg("plan", *SWEEP)[1]
    assert kdg("run", *SWEEP)[::2] == (0, "")
    assert (
        check_and_load(path.read_bytes())["code"] == record["code"]
        and not path.with_name("result.json.damaged").exists()
    )


@pytest.mark.parametrize(
    "name",
    others_slow(
        [
            "result.json",
            "predictions.parquet",
            "tables/risk_coverage.csv",
            "error.txt",
            "pins.json",
            "index",
        ]
    ),
)
def test_flipped_bits_in_any_file_end_no_command_in_a_traceback(kdg, run_dir, name):
    path = next(Path("outputs/.sweeps").glob("index-*")) if name == "index" else run_dir / name
    if not path.exists():
        path.write_bytes(
            b"ValueError: \xe2\x82\xac\n\ntraceback"
            if name == "error.txt"
            else add_checksum({"store": {"fit": "fit/0.kdg"}})
        )
    whole, expected, draw = path.read_bytes(), metrics(run_dir), random.Random(name)
    for _ in range(4):
        changed = bytearray(whole)
        for place in draw.sample(range(len(whole)), 3):
            changed[place] ^= 1 << draw.randrange(8)
        path.write_bytes(changed)
        for words in READING:
            code, _, err = kdg(*words)
            assert code in (0, 2) and "Traceback" not in err and len(err.splitlines()) <= 2, words
        assert kdg("run", *SWEEP)[0] == 0
        assert RunDir(run_dir).record() is not None and metrics(run_dir) == expected
