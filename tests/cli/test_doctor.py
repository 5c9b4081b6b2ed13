"""``kdg doctor``: every part is found, and unwritable places are reported with a remedy."""

from __future__ import annotations

import os
from importlib.metadata import metadata
from pathlib import Path

import pytest

from kdgraph.cli.main import main
from kdgraph.runner import checkup
from kdgraph.runner.checkup import Finding
from kdgraph.smoothing.neighbours import distances_to


def test_a_check_up_names_what_a_report_of_a_problem_needs(capsys, tmp_path, openml_cache):
    assert main(["doctor", "--out", str(tmp_path / "outputs")]) == 0
    out = capsys.readouterr().out
    names = [line[2:19].strip() for line in out.splitlines() if line[2:19].strip()]
    assert names == [
        "kdgraph",
        "python",
        "libraries",
        *(f"extra {name}" for name in metadata("kdgraph").get_all("Provides-Extra") or []),
        "cores",
        "memory",
        "GPU",
        "outputs",
        "compiled kernels",
        "data",
    ]
    text = " ".join(out.split())  # long lines are wrapped
    assert (
        "numpy " in text
        and "0 finished runs, 0.00 GB in the store" in text
        and f"{openml_cache}" in text
    )
    assert max(map(len, out.splitlines())) <= 140


def test_runs_and_the_store_are_counted(tmp_path):
    (tmp_path / "spiral" / "kdf" / "1234").mkdir(parents=True)
    (tmp_path / "spiral" / "kdf" / "1234" / "result.json").write_text("{}")
    (tmp_path / ".store" / "fit").mkdir(parents=True)
    (tmp_path / ".store" / "fit" / "entry").write_bytes(bytes(20_000_000))
    (outputs,) = [each for each in checkup.check_up(tmp_path) if each.name == "outputs"]
    assert "1 finished runs, 0.02 GB in the store" in outputs.value and not outputs.wrong


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_a_folder_that_cannot_be_written_to_is_wrong(tmp_path, capsys):
    tmp_path.chmod(0o500)
    assert main(["doctor", "--out", str(tmp_path / "outputs")]) == 1
    assert "! outputs" in capsys.readouterr().out


def test_a_folder_without_write_access_is_reported_with_its_remedy(tmp_path, monkeypatch):
    def refuse(dir):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(checkup.tempfile, "TemporaryFile", refuse)
    finding = checkup._folder("outputs", tmp_path / "new", "--out", lambda: "")
    assert (finding.wrong, finding.value) == (
        True,
        f"{tmp_path / 'new'} cannot be written to (Permission denied)",
    )
    assert finding.remedy == f"--out=DIR names another folder; or change the rights of {tmp_path}"


def test_a_nearly_full_disk_is_reported(tmp_path, monkeypatch):
    for free, wrong in ((1e9, False), (1e8, True)):
        monkeypatch.setattr(
            checkup.shutil, "disk_usage", lambda path, free=free: type("Usage", (), {"free": free})
        )
        finding = checkup._folder("outputs", tmp_path, "--out", lambda: "empty")
        assert finding.wrong == wrong and "'kdg gc' frees what no run needs" in finding.remedy


def test_the_folder_of_compiled_kernels_is_that_of_numba(monkeypatch):
    folder = Path(distances_to.stats.cache_path)
    finding = checkup._kernels()
    assert finding.value.startswith(f"{folder}: kept between runs; ") and not finding.wrong
    way_out = "NUMBA_CACHE_DIR=DIR names a folder that can be written to"
    with monkeypatch.context() as patch:
        patch.setattr(distances_to._cache, "closed", distances_to._cache.own)
        patch.setattr(distances_to._cache, "own", None)
        assert checkup._kernels() == Finding(
            "compiled kernels",
            f"read from {folder}; others are compiled in each process",
            way_out,
        )
        patch.setattr(distances_to._cache, "closed", None)
        assert checkup._kernels() == Finding(
            "compiled kernels",
            "compiled anew in each process: no folder can be written to",
            way_out,
        )


def test_an_unknown_flag_is_refused(capsys):
    assert main(["doctor", "--fix"]) == 2
    assert (
        capsys.readouterr().err
        == "kdg: unrecognized arguments: --fix; 'kdg doctor --help' lists the options\n"
    )
