"""``kdg report``: what is written and printed, and unusable arguments."""

from __future__ import annotations

from functools import partial

import pytest

from kdgraph.cli.main import main
from kdgraph.config import RECORD_SCHEMA
from tests.report.page_runs import make_record, write


@pytest.fixture
def kdg(kdg, tmp_path):
    """Call ``kdg report`` where two runs are."""
    records = [
        make_record("dataset=spiral", "method=kdf"),
        make_record("dataset=wine", "method=isotonic", seed=1),
    ]
    write(tmp_path / "outputs", records)
    return partial(kdg, "report")


def test_the_page_is_written_and_its_size_is_printed(kdg, tmp_path):
    code, out, err = kdg()
    page = (tmp_path / "report.html").read_text()
    assert (code, err) == (0, "")
    assert out == f"report.html   2 runs   {len(page.encode()) / 1e6:.1f} MB\n"
    assert "<title>Runs in outputs</title>" in page
    assert "<code>kdg report</code>" in page


@pytest.mark.slow
def test_the_same_runs_give_the_same_page(kdg, tmp_path):
    kdg("--output", "a.html", "--title", "A")
    first = (tmp_path / "a.html").read_bytes()
    kdg("--output", "a.html", "--title", "A")
    assert (tmp_path / "a.html").read_bytes() == first


@pytest.mark.slow
def test_filters_choose_and_runs_without_a_result_are_counted(kdg, tmp_path):
    failed = tmp_path / "outputs" / "wine" / "kdf" / "0" / "error.txt"
    failed.parent.mkdir(parents=True)
    failed.write_text("ValueError: no\n")
    assert kdg("dataset=wine", "--output", "wine.html")[1].startswith(
        "wine.html   1 run   1 without a result   0."
    )
    assert kdg("dataset=spiral", "--output", "spiral.html")[1].startswith(
        "spiral.html   1 run   0."
    )


@pytest.mark.slow
def test_records_of_another_version_are_noted(kdg, tmp_path):
    old = make_record("dataset=spiral", "method=kdf", seed=5) | {"schema": 1}
    write(tmp_path / "outputs", [old])
    _, _, err = kdg()
    assert err.startswith(
        "kdg: left out of outputs: 1 run of another version (schema 1; this kdgraph reads "
    )
    assert "left out of outputs: 1 run of another version" in (tmp_path / "report.html").read_text()


def test_help_is_printed(kdg, capsys):
    assert main(["report", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Write one HTML page of finished runs" in text
    assert "The page needs no network and no other file." in text


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--output", "."], "kdg: --output must be a file, got '.', which is a folder\n"),
        (["--output", "rep.pdf"], "kdg: --output must end in .html, got 'rep.pdf'\n"),
        (["--output", "none"], "kdg: --output must end in .html, got 'none'\n"),
        (
            ["--figures", "few"],
            (
                "kdg: argument --figures: invalid choice: 'few' (choose from none, some, all); 'kdg"
                " report --help' lists the options\n"
            ),
        ),
        (
            ["--out", "nowhere"],
            "kdg: --out must be a folder with runs, got 'nowhere', which is no folder\n",
        ),
        (["datset=wine"], "kdg: unknown key 'datset'; did you mean 'dataset'?\n"),
    ],
)
def test_unusable_arguments_are_refused_in_one_line(kdg, arguments, line):
    code, out, err = kdg(*arguments)
    assert (code, out) == (2, "")
    assert err.replace("'none', 'some', 'all'", "none, some, all") == line


def test_a_file_of_another_kind_is_left_as_it_is(kdg, tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    assert kdg("--output", "rows.csv")[0] == 2
    assert (tmp_path / "rows.csv").read_text() == "a,b\n1,2\n"


def test_the_page_states_how_numbers_are_compared(kdg, tmp_path):
    kdg()
    page = (tmp_path / "report.html").read_text()
    assert "compared as they are, a relative difference of 1e-09 is a tie" in page
    assert "four decimals" not in page


@pytest.mark.slow
def test_a_file_that_cannot_be_written_is_reported(kdg, tmp_path):
    (tmp_path / "file").write_text("")
    code, out, err = kdg("--output", "file/report.html")
    assert (code, out) == (2, "")
    assert err == (
        "kdg: cannot write file/report.html: Not a directory; name another place with --output\n"
    )


def test_page_without_runs_of_this_version_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for schema in (3, 5):
        folder = tmp_path / "outputs" / "spiral" / "kdf" / f"0000000{schema}"
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(f'{{"schema": {schema}}}')
    assert main(["report"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        (
            "kdg: left out of outputs: 2 runs of another version (schema 3, 5; this kdgraph reads"
            f" {RECORD_SCHEMA})"
        ),
        (
            "kdg: no finished run in 'outputs'; make one with 'kdg run', or name another folder"
            " with --out"
        ),
    ]
