"""Command ``kdg completion``: candidates, and the scripts of shells that are installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from kdgraph.cli import COMMANDS
from kdgraph.cli.completion import SCRIPTS, candidates


@pytest.mark.parametrize(
    ("line", "choices"),
    [
        ("kdg ru", ["run "]),
        ("kdg r", ["repair ", "report ", "reproduce ", "run "]),
        ("kdg run dataset=spi", ["dataset=spiral "]),
        ("kdg run -m dataset=wine,spi", ["dataset=wine,spiral "]),
        ("kdg plan network=ml", ["network=mlp ", "network=mlp_mmce "]),
        ("kdg show data", ["dataset="]),
        ("kdg run calibrator.min", ["calibrator.min_weight="]),
        ("kdg run method=kdn parent.hid", ["parent.hidden="]),
        ("kdg run dataset.nois", ["dataset.noise_std="]),
        ("kdg run ood.rad", ["ood.radii="]),
        ("kdg run metrics.test.mc", ["metrics.test.mce.bins=", "metrics.test.mce.strategy="]),
        ("kdg run dataset=wine dataset.n_tr", ["dataset.n_train="]),
        ("kdg run --js", ["--json "]),
        ("kdg run --cfg j", ["job "]),
        ("kdg table --out", ["--out ", "--outdated ", "--output "]),
        ("kdg report --figures ", ["all ", "none ", "some "]),
        ("kdg compare meth", ["method="]),
        ("kdg list cal", ["calibrator "]),
        ("kdg data g", ["get "]),
        ("kdg data get cc18/adu", ["cc18/adult "]),
        ("kdg data get cc1", None),
        ("kdg completion z", ["zsh "]),
        ("kdg nonsense ", []),
        ("kdg run dataset=spiral nonsense.", []),
    ],
)
def test_candidates(tmp_path, monkeypatch, line, choices):
    monkeypatch.chdir(tmp_path)
    if choices is None:
        assert "cc18 " in candidates(line) and "cc18/adult " in candidates(line)
    else:
        assert candidates(line) == choices


def test_an_empty_word_completes_to_all_commands():
    assert candidates("kdg ") == sorted(f"{command} " for command in COMMANDS)
    assert candidates("kdg --") == ["--help ", "--version "]


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """Two finished runs, and the folder of a third that is damaged, in ``outputs``."""
    monkeypatch.chdir(tmp_path)
    for method, n_train in {"kdf": 60, "random_forest-isotonic": 80}.items():
        folder = tmp_path / "outputs" / "spiral" / method / "0a1b2c3d"
        folder.mkdir(parents=True)
        config = {"dataset": {"name": "spiral", "n_train": n_train}, "protocol": "strict"}
        metrics = [{"metric": "error"}, {"metric": "ece"}]
        record = {"method": method, "seed": 0, "config": config, "metrics": metrics}
        (folder / "result.json").write_text(json.dumps(record))
    return tmp_path


def test_filters_are_completed_from_the_records(finished):
    assert candidates("kdg table method=") == ["method=kdf ", "method=random_forest-isotonic "]
    assert candidates("kdg table method=kdf,ran") == ["method=kdf,random_forest-isotonic "]
    assert candidates("kdg compare dataset!=") == ["dataset!=spiral "]
    assert candidates("kdg report dataset.n_") == ["dataset.n_train="]
    assert candidates("kdg report dataset.n_train=") == [
        "dataset.n_train=60 ",
        "dataset.n_train=80 ",
    ]
    assert candidates("kdg table --out elsewhere method=") == []


def test_values_of_options_are_completed_from_the_records(finished):
    assert candidates("kdg compare --against k") == ["kdf "]
    assert candidates("kdg table --metric error,e") == ["error,ece", "error,error"]
    assert candidates("kdg table --with dataset.") == ["dataset.n_train", "dataset.name"]
    assert candidates("kdg table --out=outputs method=k") == ["method=kdf "]
    assert candidates("kdg table --output ") == []


def test_directories_of_runs_are_completed(finished):
    assert candidates("kdg predict --run outputs/spiral/k") == ["outputs/spiral/kdf/0a1b2c3d "]
    assert len(candidates("kdg predict --run ")) == 2


def test_a_damaged_record_prints_nothing(finished):
    (finished / "outputs" / "spiral" / "kdf" / "0a1b2c3d" / "result.json").write_text("{")
    assert candidates("kdg table method=") == []


@pytest.mark.parametrize(
    "record",
    [{"metrics": 5}, {"metrics": [5]}, {"method": []}, {"config": {"a\x1b[2J": 1}}, {"config": 5}],
)
def test_a_record_of_another_shape_prints_nothing_odd(finished, record):
    path = finished / "outputs" / "spiral" / "kdf" / "0a1b2c3d" / "result.json"
    path.write_text(json.dumps(record))
    for line in (
        "table --metric ",
        "table --with ",
        "table a.",
        "compare --against ",
        "table seed=",
    ):
        assert all(text.isprintable() for text in candidates(f"kdg {line}"))


def test_scripts_are_printed_and_others_refused(kdg):
    for shell, script in SCRIPTS.items():
        assert kdg("completion", shell) == (0, script, "")
    assert kdg("completion", "--words", "kdg ru") == (0, "run \n", "")
    assert kdg("completion", "--words", "kdg predict --input ") == (0, "", "")
    sentence = "kdg: completion takes one of bash, zsh, fish, got nothing\n"
    assert kdg("completion") == (2, "", sentence)


@pytest.fixture
def path_of_kdg(tmp_path, monkeypatch):
    """Put a ``kdg`` of this interpreter in front of PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "kdg"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m kdgraph "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def shell_output(shell, program, *arguments):
    done = subprocess.run(
        [shell, "-c", program, shell, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "replies"),
    [
        ("kdg ru", ["run "]),
        ("kdg run dataset=spi", ["spiral "]),
        ("kdg run data", ["dataset="]),
        ("kdg table --ou", ["--out ", "--outdated ", "--output "]),
        ("kdg completion z", ["zsh "]),
        ("kdg da", ["data "]),
        ("kdg data g", ["get "]),
        ("kdg data ", ["check ", "get ", "list "]),
        ("kdg data get x", [""]),
    ],
)
def test_bash_completes(path_of_kdg, line, replies):
    program = (
        f"{SCRIPTS['bash']}\n"
        'COMP_LINE="$1"; COMP_POINT=${#1}; _kdg; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    assert shell_output("bash", program, line) == replies


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_reads_the_script():
    assert shell_output("zsh", f"{SCRIPTS['zsh']}\nprint $_comps[kdg]") == ["_kdg"]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(path_of_kdg):
    program = f"{SCRIPTS['fish']}\ncomplete -C 'kdg ru'"
    assert [line.split()[0] for line in shell_output("fish", program)] == ["run"]
