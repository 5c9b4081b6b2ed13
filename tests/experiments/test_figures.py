"""Every figure of the five papers is drawn, as SVG and PDF with a caption, or refused with what is
missing; none is left out.
"""

from __future__ import annotations

import argparse
import re
import runpy
import shlex
import sys
from itertools import chain
from pathlib import Path
from xml.etree import ElementTree

import pytest

from experiments.common.pictures import FORMATS, figures_of, title_and_description
from kdgraph.config.yaml_files import is_option

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
CONF = EXPERIMENTS.parent / "conf"
FIGURES = {"p1": 8, "p2": 19, "p3": 7, "p4": 19, "p5": 5}
"""How many each paper has."""
LARGEST = 600_000
"""Bytes of an SVG that a page can hold several of."""
PENDING: set[str] = set()
"""Papers whose pictures are not drawn as SVG and PDF yet."""
PAPERS = [paper for paper in FIGURES if paper not in PENDING]
TEXT = "{http://www.w3.org/2000/svg}text"
HOLDS_WORDS = re.compile(r"[A-Za-z]{3}")


def stems(paper: str) -> list[Path]:
    return [
        EXPERIMENTS / paper / stem
        for files in figures_of(EXPERIMENTS / paper).files
        for stem in files.split()
    ]


@pytest.mark.parametrize("paper", PAPERS)
def test_every_figure_is_drawn_or_lists_what_is_missing(paper: str) -> None:
    listed = figures_of(EXPERIMENTS / paper)
    assert listed.figure.tolist() == list(range(1, FIGURES[paper] + 1))
    for row in listed.itertuples():
        assert bool(row.files) == bool(row.drawn_by), row.figure
        printed = row.caption if row.files else row.missing
        assert len(printed.split()) >= 10, f"figure {row.figure} says too little: {printed}"
        assert row.shows, row.figure


@pytest.mark.parametrize("paper", PAPERS)
def test_every_picture_is_there_as_svg_and_pdf(paper: str) -> None:
    """Text is text and not empty; nothing is too large to be shown."""
    for stem in dict.fromkeys(stems(paper)):
        svg, pdf = (stem.with_name(f"{stem.name}.{kind}") for kind in FORMATS)
        assert svg.stat().st_size < LARGEST, f"{svg} has {svg.stat().st_size:,} bytes"
        words = ["".join(text.itertext()) for text in ElementTree.parse(svg).iter(TEXT)]
        assert any(HOLDS_WORDS.search(text) for text in words), f"{svg} has no words as text"
        content = pdf.read_bytes()
        assert (
            content.startswith(b"%PDF-")
            and content.rstrip().endswith(b"%%EOF")
            and content.count(b"/Type /Page\n") <= 1
        ), pdf
        title, _ = title_and_description(stem.name, EXPERIMENTS / paper)
        assert (
            f"<dc:title>{title}</dc:title>" in svg.read_text()
            and f"/Title ({title})".encode() in content.replace(b"\\", b"")
        ), stem


@pytest.mark.parametrize("paper", PAPERS)
def test_pictures_have_no_other_files_beside_them(paper: str) -> None:
    """No pixels, no picture without its other format, none that neither figures.csv nor a page of
    the paper knows.
    """
    folder = EXPERIMENTS / paper
    assert not [
        path for kind in ("png", "jpg", "jpeg", "gif") for path in folder.rglob(f"*.{kind}")
    ]
    there = [{path.with_suffix("") for path in folder.rglob(f"*.{kind}")} for kind in FORMATS]
    assert there[0] == there[1]
    pages = "".join(page.read_text() for page in folder.rglob("*.md"))
    assert not [stem for stem in there[0] - set(stems(paper)) if f"{stem.name}.svg" not in pages]


class _Parsed(Exception):
    """The command was understood."""


@pytest.mark.filterwarnings("ignore:.*found in sys.modules after import:RuntimeWarning")
@pytest.mark.parametrize("paper", PAPERS)
def test_every_command_of_figures_csv_parses(paper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its module is there and takes these arguments; what it would draw is not drawn."""
    parse = argparse.ArgumentParser.parse_args

    def only_parse(parser, *given):
        parse(parser, *given)
        raise _Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", only_parse)
    drawn_by = dict.fromkeys(figures_of(EXPERIMENTS / paper).drawn_by)
    commands = dict.fromkeys(
        chain.from_iterable(command.split(" && ") for command in drawn_by if command)
    )
    for command in commands:
        program, *words = shlex.split(command)
        if program == "kdg":
            assert words[0] == "run" and not [word for word in words[1:] if not _composes(word)], (
                command
            )
            continue
        assert (program, words[0]) == ("python", "-m"), command
        monkeypatch.setattr(sys, "argv", words[1:])
        with pytest.raises(_Parsed):
            runpy.run_module(words[1], run_name="__main__")


def _composes(word: str) -> bool:
    """Whether a word of a run, "group=option", names a file of conf/, or sets a key."""
    group, _, option = word.partition("=")
    return bool(option) and (
        not (CONF / group).is_dir() or is_option(CONF / group / f"{option}.yaml")
    )
