"""Contents of an existing page stay on it: numbers, variants and claims, with when they were made."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from experiments.common.claims import Claim
from experiments.common.published import read_published
from experiments.reproduction.page import write
from experiments.reproduction.papers import NAMES, chosen, paper, with_items
from experiments.reproduction.stored_page import CELLS, StoredPage, read_stored_page, stored_note
from experiments.reproduction.verdicts import Measurement
from experiments.reproduction.work import Task
from kdgraph.errors import UsageError
from tests.experiments.reproduction.test_page import little

THEN = "2020-01-01 10:00 UTC, commit abc"


def made_before(folder, scale: str = "smoke") -> None:
    """A page of all that the little paper's study finds, as if made THEN."""
    of = little(folder)
    (folder / "out").mkdir(exist_ok=True)
    task = Task(of, of.studies[0], of.studies[0].sizes["smoke"], [], folder / "out")
    write([of], [task], scale, folder / "out", "kdg reproduce", folder / "page")  # type: ignore[arg-type]
    cells = pd.read_csv(folder / "page" / CELLS, dtype=str, keep_default_na=False)
    cells.assign(made=cells.made.where(cells.made == "", THEN)).to_csv(
        folder / "page" / CELLS, index=False
    )


def numbers(folder) -> list[str]:
    """Lines of tables on the page."""
    return [
        line
        for line in (folder / "page" / "page.md").read_text().splitlines()
        if line.startswith("|")
    ]


def test_a_page_is_written_again_without_its_runs(tmp_path) -> None:
    made_before(tmp_path)
    first = numbers(tmp_path)
    for _ in range(2):  # what is kept is kept again
        write(
            [little(tmp_path)],
            [],
            "smoke",
            tmp_path / "nothing",
            "kdg reproduce",
            tmp_path / "page",
        )
        assert numbers(tmp_path) == first
        assert (
            f"Kept from earlier runs: 3 of {THEN}." in (tmp_path / "page" / "page.md").read_text()
        )  # two numbers and a variant
        assert f"3 of {THEN}" in (tmp_path / "page" / "page.html").read_text()


def test_new_measurements_replace_stored_ones(tmp_path) -> None:
    made_before(tmp_path)
    of = little(tmp_path)
    before = of.studies[0].measured
    assert before is not None
    now = before(tmp_path).query("method == 'net' and variant == ''").assign(value=0.5)
    study = replace(of.studies[0], measured=lambda folder: now)
    task = Task(of, study, study.sizes["smoke"], [], tmp_path / "out")
    write([of], [task], "smoke", tmp_path / "out", "kdg reproduce", tmp_path / "page")
    text = (tmp_path / "page" / "page.md").read_text()
    assert "| <b>Net</b> | error | match | 0.50 | 0.50 ± 0.00 (n = 2) |" in text
    assert (
        "0.25 ± 0.00 (n = 2)" in text
        and "0.30 ± 0.00 (n = 2)" in text
        and f"Kept from earlier runs: 2 of {THEN}." in text
    )


def test_a_page_has_one_scale(tmp_path) -> None:
    made_before(tmp_path)
    with pytest.raises(
        UsageError,
        match=r"page has a page of scale smoke; choose another folder for that of scale paper$",
    ):
        read_stored_page(tmp_path / "page", "paper")
    (tmp_path / CELLS).write_text("paper,item\np1,Table 1\n")
    with pytest.raises(
        UsageError,
        match=(
            r"cells.csv is not beside a page of this version: it has no column made; move it away$"
        ),
    ):
        read_stored_page(tmp_path, "paper")


def test_a_folder_without_a_page_has_no_stored_numbers(tmp_path) -> None:
    stored = read_stored_page(tmp_path / "none", "paper")
    assert (
        stored.items == {}
        and stored.measurements(paper("p5"), read_published(paper("p5").folder)) == {}
    )
    assert stored_note({}) == ""


def test_every_stored_number_is_found_by_its_keys(tmp_path) -> None:
    """However pandas reads a column that is of numbers in one paper and of words in another."""
    published = {name: read_published(paper(name).folder) for name in NAMES}
    whole = pd.concat(
        [
            frame.assign(paper=name, ours=frame.index, variant="")
            for name, frame in published.items()
        ],
        ignore_index=True,
    )
    whole.assign(sd="", n=1, made=THEN, scale="paper").to_csv(tmp_path / CELLS, index=False)
    stored, nan = read_stored_page(tmp_path, "paper"), pytest.approx(float("nan"), nan_ok=True)
    for name, frame in published.items():
        assert stored.measurements(paper(name), frame) == {
            label: {"": Measurement(pytest.approx(label), nan, 1, THEN, nan)}
            for label in frame.index
        }
        assert stored.items[name] == list(dict.fromkeys(frame["item"]))


def test_items_of_the_page_join_the_chosen_ones() -> None:
    tested = chosen(["p4", "Table 1", "p2"])
    result = with_items(
        tested, {"p5": ["Table 1"], "p4": ["Table 2"], "p2": ["Figure 1"], "p9": ["Table 1"]}
    )
    assert [of.name for of in result] == ["p2", "p4", "p5"]
    assert [of.items for of in result] == [None, ("Table 1", "Table 2"), ("Table 1",)]
    assert result[1].studies == paper("p4").studies  # those of both


def test_parts_of_a_claim_are_known_by_their_text() -> None:
    rows = [
        ("p1", "a", "x is less", "True", "1 < 2"),
        ("p1", "a", "y is less", "False", "3 > 2"),
        ("p1", "b", "x is less", "True", ""),
    ]
    stored = StoredPage(
        claims=pd.DataFrame(rows, columns=["paper", "claim", "text", "holds", "found"]).assign(
            made=THEN, scale="smoke"
        )
    )
    now = [Claim("y is less", True, "1 < 2", ("a",)), Claim("z is less", True, "0 < 2", ("a",))]
    x, y, z = stored.parts("p1", "a", now)
    assert (x, y, z) == (Claim("x is less", True, "1 < 2", ("a",), THEN, "smoke"), *now)
    assert stored.parts("p2", "a", now) == now and StoredPage().parts("p1", "a", now) == now
