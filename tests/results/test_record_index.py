"""The index of records: what is read of it, when it is written, and whose it may be."""

from __future__ import annotations

import json
import os

import pytest

import kdgraph.results.record_index as record_index
from kdgraph.results.measures import MeasureReader, read_measures
from kdgraph.results.record_index import MetricRows
from kdgraph.results.records import find_runs
from kdgraph.runner.files import add_checksum


@pytest.fixture
def out(record, outputs, monkeypatch):
    monkeypatch.setattr(record_index, "FEWEST_NEW", 1)
    return outputs([record("a", seed=seed) for seed in range(3)] + [record("b", "isotonic")])


def index_files(out):
    return sorted((out / ".sweeps").glob("records-*"))


def parsed(monkeypatch, out):
    """Return the found runs, and how many records were parsed for it."""
    import kdgraph.results.records as records

    n_parsed, load = [0], records.load_record

    def counting(content):
        n_parsed[0] += 1
        return load(content)

    with monkeypatch.context() as patch:
        patch.setattr(records, "load_record", counting)
        return find_runs(out), n_parsed[0]


def test_records_of_an_index_are_those_of_the_files(out, monkeypatch):
    first, n_first = parsed(monkeypatch, out)
    (index,) = index_files(out)
    again, n_again = parsed(monkeypatch, out)
    assert (n_first, n_again) == (4, 0)
    assert again == first
    for run in again:
        content = json.loads((run.path / "result.json").read_text())
        checksum = content.pop("checksum")
        assert checksum
        assert run.record == content
        assert list(run.record["metrics"]) == content["metrics"]
    assert index_files(out) == [index]


def test_a_record_that_was_replaced_is_read_again(out, monkeypatch):
    run = find_runs(out)[0]
    changed = {**run.record, "metrics": list(run.record["metrics"])}
    changed["metrics"][0] = {**changed["metrics"][0], "value": 0.125}
    (run.path / "result.json").write_bytes(add_checksum(changed))
    found, n_parsed = parsed(monkeypatch, out)
    assert n_parsed == 1
    assert found[0].record["metrics"][0]["value"] == 0.125
    (found[1].path / "result.json").unlink()
    assert len(find_runs(out)) == 3


def test_a_damaged_record_is_left_out_beside_an_index(out, capsys):
    run = find_runs(out)[0]
    path = run.path / "result.json"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    assert len(find_runs(out)) == 3
    assert "is damaged" in capsys.readouterr().err


@pytest.mark.parametrize("change", ["signature", "content", "cut", "key", "folder"])
def test_an_index_that_this_user_did_not_write_does_not_count(out, change, monkeypatch, tmp_path):
    first = find_runs(out)
    (index,) = index_files(out)
    content = bytearray(index.read_bytes())
    if change == "key":
        monkeypatch.setenv("KDGRAPH_KEY_FILE", str(tmp_path / "other.key"))
    elif change == "folder":
        index.unlink()
        index.mkdir()
    else:
        position = {"signature": 3, "content": 100, "cut": 0}[change]
        content[position] ^= 1
        index.write_bytes(content[:50] if change == "cut" else content)
    found, n_parsed = parsed(monkeypatch, out)
    assert n_parsed == 4
    assert found == first


def test_few_new_records_write_no_index(record, outputs):
    out = outputs([record("a")])
    find_runs(out)
    assert not (out / ".sweeps").exists()


@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="nothing is closed to root")
def test_a_folder_that_is_not_writable_has_no_index(out):
    out.chmod(0o500)
    try:
        assert len(find_runs(out)) == 4
    finally:
        out.chmod(0o700)
    assert not index_files(out)


def test_records_share_what_is_equal(out):
    for _ in range(2):  # read of files, and of the index
        runs = find_runs(out)
        rows = {id(run.record["metrics"].rows) for run in runs if run.record["method"] == "kdf"}
        nodes = {id(run.record["config"]["ood"]) for run in runs}
        assert len(rows) == len(nodes) == 1


def test_numbers_are_the_items_of_a_record(record):
    metrics = record("a")["metrics"]
    numbers = MetricRows.of(metrics)
    assert MetricRows.of(numbers) is numbers
    assert list(numbers) == [numbers[i] for i in range(len(numbers))] == metrics == numbers[:]
    assert numbers == metrics and numbers != metrics[1:]


def test_measures_read_together_are_those_of_each_record(out):
    reader, runs = MeasureReader(), find_runs(out)
    for run in [*runs, *runs]:
        expected = [
            (measure, entry["of"], entry["value"], entry["stderr"])
            for measure, entry in read_measures(run.record)
        ]
        read = [(m, row["of"], value, stderr) for m, row, value, stderr in reader.read(run.record)]
        assert read == expected
