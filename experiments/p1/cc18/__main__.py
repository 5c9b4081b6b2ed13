"""Tables, claims, Figure 2 and Figures 5 to 8 of Dey et al. on tables of OpenML, beside the stored
numbers.

``python -m experiments.p1.cc18 outputs`` after the experiments ``bench/openml`` (one sample size)
and ``paper/p1/cc18`` (three of them), with any subset of their runs. It reads result.json, and of
``paper/p1/cc18`` the archive of its numbers.
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.common.command import study_options
from experiments.common.pictures import save_and_report
from experiments.common.runs import runs_of
from experiments.p1.cc18.archive import as_in_figure2, numbers_below
from experiments.p1.cc18.claims import claims, dominance, with_choice
from experiments.p1.cc18.figures import figure2, pages
from experiments.p1.cc18.published import (
    N_TABLES,
    by_size,
    compare_with_published,
    on_tables_of,
    priors_of,
    published_numbers,
    table_by_table,
)
from experiments.p1.cc18.records import (
    KEY,
    PARENTS,
    Inconsistent,
    Tables,
    frame,
    label,
    parents_of,
    tables,
)
from experiments.p1.cc18.tables import (
    TITLES,
    against_each_other,
    against_parent,
    far_field,
    heading,
    in_distribution,
)

PAPER = Path(__file__).resolve().parents[1]  # Folder of the paper with its pictures
_save = partial(save_and_report, paper=PAPER)
# Experiment → name of its pictures.
EXPERIMENTS = {"bench/openml": "tabular", "paper/p1/cc18": "figure2"}
PARTS = ["tables", "pairs", "claims", "published", "each", "figure2", "pages", "stored"]
USUAL = ["tables", "pairs", "claims", "published", "figure2"]


def main() -> None:
    """Print and draw each experiment as far as there are runs."""
    arguments = _arguments()
    if "stored" in arguments.only:
        draw_stored(arguments)
    if arguments.only == ["stored"]:
        return
    for experiment in ["every run"] if arguments.every else arguments.experiment:
        try:
            numbers = _numbers(experiment, arguments)
        except Inconsistent as error:
            sys.exit(f"{experiment}: {error}")
        if others := sorted({parent for parent in numbers.parent if parent not in PARENTS}):
            print(f"{experiment}: left out what stands on {', '.join(others)}", file=sys.stderr)
        if len(numbers):
            print(f"# {experiment}\n")
            _show(numbers, EXPERIMENTS.get(experiment, "every"), arguments)


def draw_stored(arguments: argparse.Namespace) -> None:
    """Draw Figures 2 and 5 to 8 of the stored numbers; twelve tables a page, at whole radii."""
    stored = published_numbers()
    stored = stored[stored["at"].isna() | ((stored["at"] >= 1) & (stored["at"] % 1 == 0))]
    _save(figure2(stored, arguments.threshold), arguments.to / "figure2_published")
    for number, page in enumerate(pages(stored, rows_a_page=12), start=5):
        _save(page, arguments.to / f"figure{number}_published")


def _show(numbers: pd.DataFrame, stem: str, arguments: argparse.Namespace) -> None:
    result = {parent: with_choice(tables(numbers, parent)) for parent in parents_of(numbers)}
    for parent, each in result.items():
        if each.datasets:
            title = f"### {label('parent', parent).capitalize()}"
            print("\n\n".join([title, *_sections(each, numbers, stem, arguments)]) + "\n")
        else:
            print(
                f"{label('parent', parent)}: no table has all methods: {each.left_out}",
                file=sys.stderr,
            )
    complete = numbers[
        numbers.parent.isin([parent for parent, each in result.items() if each.datasets])
    ]
    if not len(complete):
        return
    if stem == "figure2":  # between edges, as the published ones
        complete = complete[complete.metric != "ece"]
    if "figure2" in arguments.only:
        _save(figure2(complete, arguments.threshold), arguments.to / f"{stem}_kdgraph")
        if stem == "figure2":
            stored = pd.concat(
                [on_tables_of(complete, n, priors=priors_of(each)) for n, each in result.items()],
                ignore_index=True,
            )
            _save(figure2(stored, arguments.threshold), arguments.to / f"{stem}_same_tables")
    if "pages" in arguments.only:
        rows_a_page = {"rows_a_page": 12} if stem == "figure2" else {}
        for i, page in enumerate(pages(complete, **rows_a_page), start=1):
            name = f"figure{i + 4}_kdgraph" if stem == "figure2" else f"{stem}_tables_{i}"
            _save(page, arguments.to / name)


def _sections(
    result: Tables, numbers: pd.DataFrame, stem: str, arguments: argparse.Namespace
) -> list[str]:
    threshold, published = arguments.threshold, published_numbers(priors_of(result))
    printed = tables(published, result.parent)
    sections = [heading(result, N_TABLES if stem == "figure2" else None)]
    if "tables" in arguments.only:
        left_out = (
            "Improvement: Eq. 19, median over tables; in brackets those left out, where the"
            f" parent's number is below {threshold:g}."
        )
        sections += [
            "#### In distribution",
            in_distribution(result, threshold),
            left_out,
            "#### Far from the data",
            far_field(result),
        ]
        test = (
            "Wins/ties/losses; p: two-sided Wilcoxon signed-rank test over"
            " tables, by Holm's method over the tests of"
        )
        sections += [
            "#### Against the parent",
            against_parent(result),
            f"{test} a column. OCE: mean over radii above 1.",
        ]
        if "pairs" in arguments.only:
            sections += [
                "#### Against each other",
                *(against_each_other(result, metric) for metric in TITLES),
                f"{test} a table.",
            ]
    if "claims" in arguments.only:
        sections += [
            "#### Claims",
            claims(result, printed, threshold),
            "#### Dominated in error, ECE, NLL and OCE at once",
            dominance(result),
        ]
    if "published" in arguments.only:
        sections += ["#### Beside the published numbers", compare_with_published(result, published)]
        if stem == "figure2":
            sections += [by_size(numbers, published, result.parent, threshold)]
    if "each" in arguments.only:
        sections += ["#### Table by table", table_by_table(result, published)]
    return sections


def _numbers(experiment: str, arguments: argparse.Namespace) -> pd.DataFrame:
    if experiment == "paper/p1/cc18" and not arguments.every:
        numbers = as_in_figure2(numbers_below(arguments.outputs))
        _report(experiment, len(numbers[KEY].drop_duplicates()), "models", arguments.outputs)
        return numbers
    if arguments.every:
        paths = sorted(arguments.outputs.glob("*/*/*/result.json"))
        records = [json.loads(path.read_text()) for path in paths]
    else:
        records = runs_of(experiment, arguments.outputs, arguments.free)
    _report(experiment, len(records), "runs", arguments.outputs)
    return frame(records)


def _report(experiment: str, count: int, what: str, folder: Path) -> None:
    more = "" if count else f"; make them: kdg run experiment={experiment}"
    print(f"{experiment}: {count} {what} in {folder}{more}", file=sys.stderr)


def _arguments() -> argparse.Namespace:
    names = list(EXPERIMENTS)
    parts = f"these parts (default: {' '.join(USUAL)})"
    threshold = "no improvement over a parent's number below this"
    more: dict[str, dict[str, Any]] = {
        "--experiment": {"nargs": "*", "choices": names, "default": names, "help": "these alone"},
        "--every": {"action": "store_true", "help": "all runs in the folder, in one study"},
        "--only": {"nargs": "*", "default": USUAL, "choices": PARTS, "help": parts},
        "--threshold": {"type": float, "default": 1e-3, "help": threshold},
    }
    return study_options(__doc__, outputs=True, to=PAPER / "pictures", free=True, more=more)


if __name__ == "__main__":
    main()
