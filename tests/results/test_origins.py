"""Runs of one name have the same content of files, rows and libraries; else a line is printed, or
names differ.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest

from kdgraph.cli.main import main
from kdgraph.config.data_sources import Read
from kdgraph.errors import UsageError
from kdgraph.results.measures import read_measures, unique_labels
from kdgraph.results.names import name_runs
from kdgraph.results.origins import PresentFiles, content_digests, hidden_differences
from kdgraph.results.records import find_runs
from kdgraph.runner.run_dir import RunDir

TABLE = "kdgraph.data.tables.TableFile"


def reads(path: Path, content: str | None = None, key: str = "path") -> dict:
    """Return the entry of a file in a record, with its present content or another one."""
    now = Read(TABLE, "path", str(path))
    stamp, digest = (
        (now.stamp(), now.digest())
        if content is None
        else ("earlier", hashlib.sha256(content.encode()).hexdigest())
    )
    return {
        key: {"target": TABLE, "key": "path", "path": str(path), "stamp": stamp, "sha256": digest}
    }


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text("a,label\n1,x\n")
    return path


@pytest.fixture
def mixed(record, file):
    """Two runs of the file as it is, and two of what it held before."""
    now, before = reads(file), reads(file, "a,label\n2,x\n")
    records = [
        record("t", "kdf", seed=s, reads=r, simulated=False) for r in (now, before) for s in (0, 1)
    ]
    for number, run in enumerate(records):
        run["run_id"] = f"{number:08x}"
    return records


def test_outdated_runs_are_left_out_with_one_line(mixed, outputs):
    messages: list[str] = []
    out = outputs(mixed)
    assert [one.record["run_id"] for one in find_runs(out, note=messages.append)] == [
        "00000000",
        "00000001",
    ]
    assert messages == [
        f"left out of {out}: 2 runs of an earlier content of rows.csv; --outdated shows them too,"
        " under names of their own"
    ]
    messages.clear()
    runs = find_runs(out, note=messages.append, outdated=True)
    assert messages == [] and len(runs) == 4
    names = [run.dataset for run in name_runs(runs)]
    digests = [content_digests(one.record) for one in runs]
    assert names == [f"t content={digest}" for digest in digests] and len(set(names)) == 2


def test_no_line_is_about_runs_that_the_filters_exclude(mixed, outputs, record):
    messages: list[str] = []
    assert (
        len(
            find_runs(outputs([*mixed, record("spiral")]), ["dataset=spiral"], note=messages.append)
        )
        == 1
    )
    assert messages == []


def test_only_outdated_runs_are_refused_with_a_remedy(mixed, outputs):
    out = outputs(mixed[2:])
    with pytest.raises(UsageError) as caught:
        find_runs(out, note=lambda line: None)
    assert (
        str(caught.value)
        == f"of 2 runs in '{out}' none is of its files as they are now; run them again, or see them"
        " with --outdated"
    )
    with pytest.raises(UsageError) as caught:
        find_runs(out, ["seed=1"], note=lambda line: None)
    assert str(caught.value).startswith(
        f"of 1 run in '{out}' with seed=1 none is of its files as they are now; "
    )
    (dataset,) = {run.dataset for run in name_runs(find_runs(out, outdated=True))}
    assert dataset == "t"  # a single content needs no name of its own


def test_contents_of_a_file_that_is_gone_have_different_names(mixed, outputs, file):
    out = outputs(mixed)
    file.unlink()
    messages: list[str] = []
    runs = find_runs(out, note=messages.append)
    assert messages == [] and len({run.dataset for run in name_runs(runs)}) == 2


def test_another_time_alone_is_not_another_content(mixed, file):
    os.utime(file, (1, 1))
    files = PresentFiles()
    assert [files.changed(run) for run in mixed] == [[], [], [str(file)], [str(file)]]


def test_records_import_and_call_nothing_that_they_name(mixed, file, tmp_path, monkeypatch):
    (tmp_path / "module_of_a_stranger.py").write_text("raise SystemExit('code has run')")
    monkeypatch.syspath_prepend(tmp_path)
    run = mixed[2]
    for target in ("module_of_a_stranger.Source", "os.system", "no.such.module.Source", None):
        run["reads"]["path"]["target"] = target
        assert PresentFiles().changed(run) == [str(file)]
    assert "module_of_a_stranger" not in sys.modules


@pytest.mark.parametrize("path", ["~no_such_user/x.csv", "/dev/zero", "/", "x" * 5000])
def test_paths_of_records_that_are_no_files_are_not_read(mixed, path):
    run = mixed[2]
    run["reads"] = {"path": run["reads"]["path"] | {"path": path, "key": "vectors"}}
    assert PresentFiles().changed(run) == []


def test_other_content_of_ood_rows_is_another_measure(record, file, as_runs):
    records = [record(reads=reads(file, text, "ood.path"), seed=0) for text in ("1", "2")]
    measures = [next(m for m, _ in read_measures(one) if m.on == "ood") for one in records]
    assert measures[0] != measures[1] and len(set(unique_labels(measures).values())) == 2
    near = [next(m for m, _ in read_measures(one) if m.on == "test") for one in records]
    assert near[0] == near[1]
    assert len({run.dataset for run in name_runs(as_runs(records))}) == 1


def test_other_content_of_training_outliers_is_another_method(record, file, as_runs):
    runs = name_runs(
        as_runs([record(reads=reads(file, text, "outliers.0.path"), seed=0) for text in ("1", "2")])
    )
    assert len({run.method for run in runs}) == len({run.parent for run in runs}) == 2
    assert all("outliers.content=" in run.method for run in runs)


def test_space_with_other_parameters_is_another_measure(record):
    measures = []
    for components in (2, 3):
        run = record(values={"mlce": 0.1}, config={"metrics.test.mlce": {"space": "small"}})
        run["config"]["metrics"]["spaces"] = {
            "small": {"_target_": "kdgraph.features.Pca", "n_components": components}
        }
        measures.append(next(measure for measure, _ in read_measures(run)))
    assert measures[0] != measures[1]
    assert list(unique_labels(measures).values()) == [
        f"{measures[0].label}, n components {n}" for n in (2, 3)
    ]


def test_rows_that_differ_under_one_name_are_reported(record):
    first, second = record("a", "kdf"), record("a", "isotonic", fingerprint="other rows")
    assert hidden_differences([first, record("a", "isotonic")]) == []
    assert hidden_differences([first, second, record("b", fingerprint="c")]) == [
        "runs of one name saw different rows, on a seed 0: compare none of them; force=true runs"
        " each again"
    ]


def test_training_shares_may_differ_for_the_same_test_rows(record):
    bare = record("a", "isotonic", rows=(0, 130), fingerprint="all calibrate")
    gated = record("a", "gated_isotonic", rows=(91, 39), fingerprint="most train")
    assert hidden_differences([bare, gated]) == []
    others = [
        record("a", "kdf", seed=seed, rows=(91, 39), fingerprint=f"{seed}", test_fingerprint=test)
        for seed, test in ((0, "a 0"), (10, "other"), (2, "other"))
    ]
    same = [record("a", "isotonic", seed=seed, rows=(0, 130)) for seed in (0, 10, 2)]
    assert hidden_differences([*same, *others]) == [
        "runs of one name saw different rows, on a seed 2, a seed 10: compare none of them;"
        " force=true runs each again"
    ]
    changed = record("a", "kdf", rows=(91, 39), fingerprint="other rows train")
    assert hidden_differences([bare, gated, changed]) == [
        "runs of one name saw different rows, on a seed 0: compare none of them; force=true runs"
        " each again"
    ]


def test_versions_that_differ_are_reported_if_they_change_numbers(record):
    records = [record(seed=s) for s in range(3)]
    for run, version in zip(records, ("1.5.2", "1.6.0", "1.6.0"), strict=True):
        run["versions"] = {"scikit-learn": version, "matplotlib": version, "numpy": "2.0"}
    assert hidden_differences(records) == [
        "versions differ between runs: scikit-learn 1.5.2 (1 run), 1.6.0 (2 runs); force=true runs"
        " them again with those of this machine"
    ]
    assert hidden_differences(records[1:]) == []


def write_table(labels_of: int) -> None:
    rows = [f"{(i * 37) % 120},{(i * 5) % 11},{'xy'[(i // labels_of) % 2]}" for i in range(120)]
    Path("custom.csv").write_text("a,b,label\n" + "\n".join(rows) + "\n")


def test_corrected_file_is_another_data_set(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = [
        "dataset=table",
        "dataset.path=custom.csv",
        "dataset.target=label",
        "calibrator=isotonic",
        "parent.n_estimators=5",
    ]
    run = [*run, "ood=none", "figures=none", "n_jobs=1"]
    for labels_of in (1, 2):
        write_table(labels_of)
        assert main(["run", *run]) == 0
        capsys.readouterr()
        assert main(["table", "--metric", "error"]) == 0
        out, err = capsys.readouterr()
        assert [line.split()[1] for line in out.splitlines() if line.startswith("custom ")] == [
            "random_forest",
            "random_forest-isotonic",
        ]
        assert err.count("left out") == labels_of - 1
    assert main(["compare", "--metric", "error", "--outdated"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].startswith("2 runs · 2 data sets · 1 method")
    assert main(["report", "--outdated"]) == 0
    (record,) = [RunDir(path.parent).record() for path in Path("outputs").rglob("result.json")][:1]
    assert record["reads"]["path"]["path"] == str(tmp_path / "custom.csv")


def test_a_file_that_changes_while_a_run_reads_it_ends_the_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_table(1)
    from kdgraph.runner import run as module

    real = module._run_stages

    def change_first(config, *args):
        assert config.run_id
        write_table(2)
        return real(config, *args)

    monkeypatch.setattr(module, "_run_stages", change_first)
    words = [
        "dataset=table",
        "dataset.path=custom.csv",
        "dataset.target=label",
        "calibrator=none",
        "parent.n_estimators=5",
        "n_jobs=1",
    ]
    assert main(["run", *words, "ood=none", "figures=none"]) == 1
    assert (
        capsys.readouterr().err.splitlines()[-1]
        == "kdg: custom.csv has changed while the run was reading it; give the same command again"
        " once it is whole"
    )
    assert not list(Path("outputs").rglob("result.json"))
