"""Records that were edited, with a checksum that fits: no command ends in a traceback, and none
reads, writes or renames a file outside of the folder of runs.
"""

from __future__ import annotations

import copy
import hashlib
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdgraph.config import plan
from kdgraph.runner.files import check_and_load
from kdgraph.runner.run_dir import RunDir
from tests.runner.test_record_shape import NESTED

RUN = [
    *("dataset=iris", "method=isotonic", "parent.n_estimators=5", "n_jobs=1"),
    *("ood=sphere", "ood.n=20", "metrics=default", "+metrics.test.risk_coverage={}"),
    *("figures=none", "+figures.draw.reliability_diagram={}", "figures.formats=[svg]"),
]
TINY = [
    *("dataset.n_train=60", "dataset.n_test=40", "parent.n_estimators=2", "ood=none"),
    *("metrics=default", "figures=none", "n_jobs=1", "calibrator=isotonic"),
]
SECRET = "a private key"
MISSING = object()
WRONG = [
    *(MISSING, None, True, 5, -1, 1e308, 10**400, "x", "", "a\nb\x1b[2J", "\ud800", [], {}),
    *([[None]], {"a": {"b": [1]}}, ["x"], {"x": "y"}, NESTED, float("nan")),
    *("../../../../secret.txt", "tables/../../../../../secret.txt", ["../../../../secret.txt"]),
    *({"error": "../../../../secret.txt"}, {"../../../../secret.txt": "0" * 64}),
]
READING = [
    ["table"],
    ["table", "--output", "t.csv", "--with", "parent.n_estimators,dataset.name"],
    ["table", "--output", "t.parquet"],
    ["table", "dataset=iris", "method!=kdf", "--metric", "nll"],
    ["compare"],
    ["compare", "--output", "c.md"],
    ["report", "--figures", "all"],
    ["report", "--outdated"],
    ["gc", "--yes"],
]


@pytest.fixture
def run_dir(kdg) -> Path:
    """A finished run with tables and a figure, and a file of the user beside the folder of runs."""
    Path("secret.txt").write_text(SECRET)
    assert kdg("run", *RUN)[0] == 0
    (record,) = Path("outputs").glob("*/*/*/result.json")
    return record.parent


def places(node: object, path: tuple = ()) -> Iterator[tuple]:
    """Yield the path of every value, of lists that of the first item alone."""
    if path:
        yield path
    items = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node[:1])
        if isinstance(node, list)
        else ()
    )
    for key, value in items:
        yield from places(value, (*path, key))


def edited(record: dict, path: tuple, value: object) -> dict:
    changed = copy.deepcopy(record)
    *before, last = path
    node = changed
    for key in before:
        node = node[key]
    if value is MISSING:
        del node[last]
    else:
        node[last] = value
    return changed


def edits(record: dict) -> list[dict]:
    """Return the record with a wrong value at each place, drawn by a seed, and a few of each kind
    at places that name files.
    """
    draw = random.Random(0)
    records = [edited(record, path, draw.choice(WRONG)) for path in places(record)]
    names = [("files",), *(("files", key) for key in record["files"]), ("store",), ("reads",)]
    records += [edited(record, path, value) for path in names for value in WRONG]
    return records


def write(path: Path, record: dict) -> None:
    """Write a record whose checksum fits, whatever Python or JSON make of its values."""
    text = json.dumps({**record, "checksum": ""}, indent=1)
    before, name, end = text.rpartition('"checksum": "')
    digest = hashlib.sha256(before.encode()).hexdigest()
    path.write_bytes(f"{before}{name}{digest}{end}".encode())


def outside() -> dict[str, bytes]:
    """Return the content of the files beside the folder of runs, but for what was written now."""
    return {
        path.name: path.read_bytes()
        for path in Path().iterdir()
        if path.is_file() and path.name[:2] not in ("t.", "c.", "re")
    }


@pytest.mark.parametrize(
    "count", [15, pytest.param(400, marks=[pytest.mark.slow, pytest.mark.exhaustive])]
)
def test_edited_records_neither_fail_nor_escape_the_folder(kdg, run_dir, count):
    record = check_and_load((run_dir / "result.json").read_bytes())
    records, before = random.Random(count).sample(edits(record), count), outside()
    for number, changed in enumerate(records):
        copied = run_dir.with_name(f"{number:08x}")
        (copied / "figures").mkdir(parents=True)
        for name in record["files"]["figures"]:
            shutil.copy(run_dir / name, copied / name)
        write(copied / "result.json", changed)
    for words in READING:
        code, out, err = kdg(*words)
        assert code == 0 and "Traceback" not in err, words
        assert all(character.isprintable() or character == "\n" for character in out + err)
    assert outside() == before
    written = b"".join(path.read_bytes() for path in Path().iterdir() if path.is_file())
    assert written.count(SECRET.encode()) == 1


@pytest.mark.parametrize(
    "count", [4, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.exhaustive])]
)
def test_edited_records_are_made_again_or_used_as_they_are(kdg, run_dir, count):
    record, before = check_and_load((run_dir / "result.json").read_bytes()), outside()
    sweep = ["-m", *TINY, f"seed=range(0,{count})", "hydra/launcher=basic"]
    jobs = plan(sweep[1:], multirun=True).jobs
    for job, changed in zip(jobs, random.Random(count).sample(edits(record), count), strict=True):
        job.run_dir.mkdir(parents=True)
        write(job.run_dir / "result.json", changed)
    for command in ("plan", "run"):
        code, _, err = kdg(command, *sweep)
        assert code == 0 and "Traceback" not in err
    assert all(RunDir(job.run_dir).record() for job in jobs) and outside() == before


def test_links_in_a_run_directory_are_not_followed(kdg, run_dir):
    record = check_and_load((run_dir / "result.json").read_bytes())
    Path("custom").mkdir()
    Path("custom/risk_coverage.csv").write_text(f"{SECRET},b\n1,2\n")
    Path("custom/reliability_diagram.svg").write_text(f"<svg>{SECRET}</svg>")
    for name in ("tables", "figures"):
        shutil.rmtree(run_dir / name)
        (run_dir / name).symlink_to(Path("custom").absolute())
    (run_dir / "predictions.parquet").unlink()
    (run_dir / "predictions.parquet").symlink_to(Path("secret.txt").absolute())
    record["files"]["sha256"] = {}
    write(run_dir / "result.json", record)
    code, out, _ = kdg("report", "--figures", "all")
    assert code == 0 and "1 file is gone" in out and SECRET not in Path("report.html").read_text()
    before = {path.name: path.read_bytes() for path in Path("custom").iterdir()}
    code, _, err = kdg("run", *RUN, "force=true")
    assert code == 2 and err.count("\n") == 1
    assert f"'tables/risk_coverage.csv' leads out of {run_dir}" in err
    assert {path.name: path.read_bytes() for path in Path("custom").iterdir()} == before
    assert Path("secret.txt").read_text() == SECRET


def test_changed_files_behind_a_link_are_not_set_aside(kdg, run_dir):
    Path("custom").mkdir()
    Path("custom/risk_coverage.csv").write_text(SECRET)
    shutil.rmtree(run_dir / "tables")
    (run_dir / "tables").symlink_to(Path("custom").absolute())
    code, _, err = kdg("run", *RUN)
    assert code == 2 and "tables/risk_coverage.csv changed since the run" in err
    assert [path.name for path in Path("custom").iterdir()] == ["risk_coverage.csv"]
    (run_dir / "tables").unlink()
    assert kdg("run", *RUN)[0] == 0 and (run_dir / "tables" / "risk_coverage.csv").is_file()
