"""Content of the report: columns, and the commands that repeat runs."""

from __future__ import annotations

import json
import shlex

import pytest

from kdgraph.cli.main import main
from kdgraph.config import compose
from kdgraph.report.page.content import Content, PageColumns, parent_names
from kdgraph.results.comparison.study import build_study
from kdgraph.results.records import FinishedRun
from tests.results.conftest import make_record


def commands_of(records) -> list[tuple[str, str | None]]:
    """Return the command of each run, and of its setting if that has several seeds."""
    study = build_study([FinishedRun(None, record) for record in records])
    content = Content()
    content.add(study.runs, [""] * len(records), parent_names(study))
    page = content.as_json()
    return [
        (
            page["commands"][run["command"]],
            page["commands"][run["sweep"]] if "sweep" in run else None,
        )
        for run in page["runs"]
    ]


@pytest.mark.parametrize(
    ("protocol", "rows"),
    [("held_out", " (in sample: what was fitted on these rows is judged by them)"), ("paper", "")],
)
def test_calibration_rows_are_named_and_not_shown_first(protocol, rows):
    columns = PageColumns()
    numbers = dict.fromkeys(("error", "nll", "ece", "brier", "ece@calibration"), 0.1)
    columns.read(make_record(values=numbers, protocol=protocol))
    described = {
        column["id"]: (column["rows"], column["shown"], column["of"])
        for column in columns.as_json()
    }
    assert described["ece@calibration"] == (f"calibration rows{rows}", False, "rows")
    assert described["ece"] == ("test rows", True, "rows")


def test_a_run_is_repeated_by_its_recorded_overrides():
    record = make_record("spiral", "kdf", seed=3)
    assert commands_of([record]) == [("kdg run dataset=spiral method=kdf seed=3", None)]


def test_seeds_of_one_setting_are_joined_in_one_command():
    records = [make_record("spiral", "kdf", seed=seed) for seed in (10, 2, 0)]
    other = make_record("spiral", "isotonic", seed=7)
    every_seed = "kdg run -m dataset=spiral method=kdf seed=0,2,10"
    assert commands_of([*records, other]) == [
        ("kdg run dataset=spiral method=kdf seed=10", every_seed),
        ("kdg run dataset=spiral method=kdf seed=2", every_seed),
        ("kdg run dataset=spiral method=kdf seed=0", every_seed),
        ("kdg run dataset=spiral method=isotonic seed=7", None),
    ]


def test_commands_can_be_pasted_into_a_shell():
    overrides = ["dataset=table", "dataset.path='my data.csv'", "ood.radii=[1,2.5]", "seed=0"]
    record = make_record("table") | {"overrides": overrides, "config_dir": "my conf"}
    ((command, _),) = commands_of([record])
    assert shlex.split(command) == ["kdg", "run", "--config-dir", "my conf", *overrides]


@pytest.mark.slow
def test_a_recorded_run_is_repeated_into_the_same_folder(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    overrides = ["dataset=wine", "method=sigmoid", "parent.n_estimators=5"]
    overrides += ["figures=none", "ood=none", "seed=1"]
    assert main(["run", "--json", *overrides]) == 0
    record = json.loads(capsys.readouterr().out)
    ((command, _),) = commands_of([record])
    again = compose(shlex.split(command)[2:])
    assert (again.run_id, again.method) == (record["run_id"], record["method"])
