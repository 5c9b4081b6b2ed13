"""The page of published numbers: what it shows, what it is made of, and how its papers are
named.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from experiments.reproduction.chapters import Count
from experiments.reproduction.page import write
from experiments.reproduction.papers import NAMES, chosen, items_of, paper
from experiments.reproduction.reasons import reasons_of
from experiments.reproduction.studies import Paper, Size, Study
from experiments.reproduction.work import Task, estimate
from kdgraph.cli.reproduce import _run, main
from kdgraph.errors import UsageError
from tests.report.conftest import width_of_content

PUBLISHED = """item,kind,page,row,column,source,dataset,metric,method,value,note
Table 1,table,3,Forest,error,"Table 1",wine,error,forest,0.25,
Table 1,table,3,<b>Net</b>,error,"Table 1",wine,error,net,0.50,
Table 2,table,4,Net,error,"Table 2",photos,error,net,0.75,
Table 2,table,4,Other,error,"Table 2",photos,error,other,,lost in the text
Table 2,setting,4,,,"500 photos",photos,rows,,500,
"""
REASONS = """kind,item,method,reason,shown_by
differs,Table 1,net,It is another network.,run 7
missing,Table 2,net,photos can be had from nobody,
"""


def little(folder: Path) -> Paper:
    (folder / "published.csv").write_text(PUBLISHED)
    (folder / "reasons.csv").write_text(REASONS)
    rows = [("forest", "", [0.249, 0.251]), ("net", "", [0.7, 0.71]), ("net", "wide", [0.3, 0.3])]
    measured = pd.DataFrame(
        [
            {
                "item": "Table 1",
                "dataset": "wine",
                "metric": "error",
                "method": method,
                "seed": seed,
                "value": value,
                "variant": variant,
            }
            for method, variant, values in rows
            for seed, value in enumerate(values)
        ]
    )
    study = Study(
        ("Table 1",), {"smoke": Size(differs="two seeds", minutes=3)}, lambda folder: measured
    )
    return Paper("p0", "Nobody, Nothing, 1999", folder, [study], {"error": "lower"})


def test_every_number_has_a_verdict_and_its_reason(tmp_path) -> None:
    of = little(tmp_path)
    task = Task(of, of.studies[0], of.studies[0].sizes["smoke"], [], tmp_path / "out")
    (tmp_path / "out").mkdir()
    write([of], [task], "smoke", tmp_path / "out", "kdg reproduce", tmp_path / "page")
    text = (tmp_path / "page" / "page.md").read_text()
    summary = [
        "|  | p0 |",
        "|---|---|",
        "| match or better, of what is judged | 50 % |",
        "| match or better, of what can be run | 50 % |",
        "| match | 1 |",
        "| differs | 1 |",
        "| not runnable here | 1 |",
        "| lost in the text | 1 |",
        "| a setting | 1 |",
        "| all numbers | 5 |",
    ]
    assert "\n".join(summary) + "\n\n" in text
    assert "| Forest | error | match |  | 0.25 | 0.25 ± 0.00 (n = 2) | 0.00 | 0.02 | – |" in text
    assert (
        "| <b>Net</b> | error | differs | 1 | 0.50 | 0.70 ± 0.01 (n = 2) | 0.20 |"
        " 0.11 | 0.30 ± 0.00 (n = 2) |"
        in text
        and "\n1. It is another network. (run 7)\n" in text
    )
    assert (
        "Nothing of it can be run here. Published: Net error 0.75; Other error –." in text
        and "1. photos can be had from nobody" in text
    )
    assert (
        "Scale smoke makes 2 of the 2 published numbers that can be run here; 1 of the 2 that are"
        " judged match or are better (1 match, 1 differs). This scale shows"
        in text
        and "aimed at" not in text
    )
    assert "Settings of the paper: photos rows 500." in text
    assert "At scale smoke: two seeds." in text
    cells = pd.read_csv(tmp_path / "page" / "cells.csv")
    of_paper = cells[cells.variant.isna()]
    assert of_paper.verdict.tolist() == [
        "match",
        "differs",
        "not runnable here",
        "lost in the text",
        "a setting",
    ]
    assert cells[cells.variant == "wide"].ours.tolist() == pytest.approx([0.3])


def test_larger_scales_are_compared_with_the_goal(tmp_path) -> None:
    of = little(tmp_path)
    size = of.studies[0].sizes["smoke"]
    (tmp_path / "out").mkdir()
    task = Task(of, of.studies[0], size, [], tmp_path / "out")
    write([of], [task], "workstation", tmp_path / "out", "kdg reproduce", tmp_path / "page")
    text = (tmp_path / "page" / "page.md").read_text()
    assert (
        "Of the 2 published numbers that can be run here 2 are judged; 0 have not been run, and 0"
        " have one run, which has no measure of its noise. 1 match and 0 are better, 50 % of what is"
        " judged and 50 % of what can be run; 0 stand on a different parent, 0 are inconclusive and"
        " 1 differ."
        in text
        and "\nThat is below the 75 %" in text
    )


@pytest.mark.parametrize("width", [40, 80, None])
def test_summary_fits_the_terminal_and_has_no_markdown(tmp_path, width, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # a short name of the page, which the summary ends with
    of = little(tmp_path)
    (tmp_path / "out").mkdir()
    task = Task(of, of.studies[0], of.studies[0].sizes["smoke"], [], tmp_path / "out")
    papers = [replace(of, name=f"p{i}") for i in range(1, 6)]
    tasks = [replace(task, paper=paper) for paper in papers]
    page = Path("page")
    text = write(papers, tasks, "smoke", tmp_path / "out", "kdg reproduce", page, width)
    lines = text.split("\n")
    assert max(map(len, lines)) <= (width or 100) and not any("|" in row for row in lines)
    head = next(row for row in lines if "p1" in row)
    assert head.split()[0] == "p1"
    match = next(row for row in lines if row.split()[:2] == ["match", "1"])
    assert set(match.split()[1:]) <= {"1", "5"} and "not run " not in text


@pytest.mark.slow
def test_pages_fit_on_a_phone(phone, tmp_path) -> None:
    of = little(tmp_path)
    (tmp_path / "out").mkdir()
    task = Task(of, of.studies[0], of.studies[0].sizes["smoke"], [], tmp_path / "out")
    command = "kdg reproduce --out " + 30 * "folder/"
    write([of], [task], "smoke", tmp_path / "out", command, tmp_path / "page")
    for name in ("page", "claims"):
        phone.get((tmp_path / "page" / f"{name}.html").as_uri())
        assert width_of_content(phone) <= 390


def test_html_page_loads_no_other_file(tmp_path) -> None:
    of = little(tmp_path)
    write([of], [], "paper", tmp_path / "out", "kdg reproduce <x>", tmp_path / "page")
    page = (tmp_path / "page" / "page.html").read_text()
    assert (
        "&lt;b&gt;Net&lt;/b&gt;" in page
        and "<b>Net</b>" not in page
        and "kdg reproduce &lt;x&gt;" in page
    )
    assert not re.search(r"(src|href)=\"(?!#|claims.html)", page) and "page 3" in page


def test_computed_numbers_are_stored(tmp_path) -> None:
    of = little(tmp_path)
    calls: list[int] = []
    assert of.studies[0].measured is not None
    rows = of.studies[0].measured(tmp_path)
    size = Size(computed={"both": lambda: calls.append(1) or rows})
    task = Task(of, Study(("Table 1",), {"smoke": size}), size, [], tmp_path / "out")
    assert (task.n_runs, task.n_done(), len(task.measured())) == (1, 0, 0)
    assert _run([task]) == 0 and _run([task]) == 0
    assert len(calls) == 1 and task.n_done() == 1
    write([of], [task], "smoke", tmp_path / "out", "kdg reproduce", tmp_path / "page")
    assert (
        "| Forest | error | match |  | 0.25 | 0.25 ± 0.00 (n = 2) | 0.00 | 0.02 |"
        in (tmp_path / "page" / "page.md").read_text()
    )


def test_estimate_has_a_row_for_each_task(tmp_path) -> None:
    of = little(tmp_path)
    study = of.studies[0]
    tasks = [Task(of, study, Size(minutes=minutes), [], tmp_path) for minutes in (3, None)]
    assert estimate(tasks).splitlines()[1].split() == [
        "p0",
        "Table",
        "1",
        "0",
        "0",
    ]  # no run is left, so no time is
    assert estimate(tasks).splitlines()[-1] == "all of it is done"


def test_title_of_a_task_names_its_first_items(tmp_path) -> None:
    of = little(tmp_path)
    for n, called in ((3, "p0 Table 1, Table 2, Table 3"), (4, "p0 Table 1, Table 2 and 2 more")):
        items = tuple(f"Table {i}" for i in range(1, n + 1))
        assert Task(of, replace(of.studies[0], items=items), Size(), [], tmp_path).title == called


def test_a_cell_not_run_has_the_reason_for_that(tmp_path) -> None:
    of = little(tmp_path)
    (tmp_path / "reasons.csv").write_text(REASONS + "not run,Table 1,net,It would take a week.,\n")
    only_forests = replace(
        of.studies[0],
        measured=lambda folder: of.studies[0].measured(folder).query("method == 'forest'"),
    )
    task = Task(of, only_forests, only_forests.sizes["smoke"], [], tmp_path / "out")
    (tmp_path / "out").mkdir()
    write(
        [replace(of, studies=[only_forests])],
        [task],
        "smoke",
        tmp_path / "out",
        "kdg reproduce",
        tmp_path / "page",
    )
    text = (tmp_path / "page" / "page.md").read_text()
    assert (
        "| not run | 1 |" in text
        and "\n1. It would take a week.\n" in text
        and "another network" not in text
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("kind,reason\nmissing,x\n", "it lacks shown_by"),
        ("kind,reason,shown_by\nmissing,x,\nother,x,\n", "line 3 must be of kind"),
    ],
)
def test_invalid_reasons_are_refused(tmp_path, lines, message) -> None:
    (tmp_path / "reasons.csv").write_text(lines)
    with pytest.raises(ValueError, match=message):
        reasons_of(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_declared_studies_and_items_exist(name) -> None:
    """Items and metrics as its file has them, reasons that can be read, at least one scale for each
    study.
    """
    of = paper(name)
    items = items_of(of)
    for study in of.studies:
        assert study.sizes and set(study.items) <= set(items)
    published = pd.read_csv(of.folder / "published.csv")
    assert set(of.better) <= set(published.metric)
    for reason in reasons_of(of.folder):
        assert set(reason.where) <= set(published.columns) and any(
            reason.applies_to(dict(row)) for _, row in published.iterrows()
        )


def test_words_choose_papers_and_items() -> None:
    assert [of.name for of in chosen([])] == list(NAMES)
    (only,) = chosen(["p5", "table 1"])
    assert only.items == ("Table 1",) and [study.items for study in only.studies] == [("Table 1",)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["q9"], f"'q9' is no paper; there are {', '.join(NAMES)}"),
        (["p5", "Tabel 1"], "p5 has no 'Tabel 1'; did you mean 'Table 1'?"),
    ],
)
def test_unknown_words_are_refused(words, message) -> None:
    with pytest.raises(UsageError) as raised:
        chosen(words)
    assert str(raised.value) == message


def test_dry_run_prints_the_plan_and_runs_nothing(tmp_path, capsys) -> None:
    assert (
        main(
            [
                "p5",
                "--scale",
                "smoke",
                "Table 1",
                "hydra/launcher=basic",
                "--plan",
                "--out",
                str(tmp_path),
            ]
        )
        == 0
    )
    tested = capsys.readouterr().out
    assert (
        re.search(r"p5 Table 1 +6 +0 +a minute", tested) and "about a minute on two cores" in tested
    )
    assert not (tmp_path / "smoke" / "page.html").exists()


def test_cells_with_one_run_or_none_are_not_judged() -> None:
    of = Count({"match": 3, "better": 1, "differs": 1, "one run": 2, "not run": 3, "a setting": 9})
    assert (of.cells, of.runnable, of.judged, of.reached) == (19, 10, 5, 4)
    assert (of.share_of_judged, of.share) == (0.8, 0.4)


def test_no_share_where_nothing_can_be_run(tmp_path, capsys) -> None:
    assert main(["p1", "Table 1", "--scale", "smoke", "--no-runs", "--out", str(tmp_path)]) == 0
    tested = capsys.readouterr().out
    assert (
        "\nNothing of it can be run here.\n" in tested
        and "aimed at" not in tested
        and "0 of the 0" not in tested
    )


def test_words_that_would_change_a_number_are_refused(tmp_path) -> None:
    with pytest.raises(
        UsageError,
        match=r"^'seed=3' is not how runs are launched; kdg reproduce takes hydra/launcher=… and ",
    ):
        main(["p5", "seed=3", "--plan", "--out", str(tmp_path)])
