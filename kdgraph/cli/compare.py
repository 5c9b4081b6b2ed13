"""Command ``kdg compare``: methods over seeds and data sets, with tests of the differences."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kdgraph.cli.arguments import CommandParser, FilterParser, output_kind
from kdgraph.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from kdgraph.results.comparison.aggregate import MeasureComparison
    from kdgraph.results.comparison.study import Study

MOST_DATASETS = 6
"""Most data sets that are shown one by one on the terminal."""
MOST_SIGNIFICANT_DIGITS = 15
PICTURES = ("svg", "png", "pdf")


def main(arguments: list[str]) -> int:
    """Compare the methods of the chosen runs and return the exit code."""
    args = parser().parse(arguments)
    if not 1 <= args.digits <= MOST_SIGNIFICANT_DIGITS:
        raise UsageError(f"--digits must be from 1 to {MOST_SIGNIFICANT_DIGITS}, got {args.digits}")
    kind = output_kind(args, ("csv", "md", "tex"))
    if args.figure:
        from kdgraph.results.export import file_kind

        file_kind(args.figure, PICTURES, "--figure")
    from kdgraph.results.comparison.aggregate import compare_methods
    from kdgraph.results.comparison.study import build_study, pool_ood_sets
    from kdgraph.results.measures import choose_measures
    from kdgraph.results.records import find_runs, pause_garbage_collection

    with pause_garbage_collection():
        selection = build_study(
            find_runs(args.out, args.filters, outdated=args.outdated),
            lambda measures: choose_measures(measures, args.metric, args.on),
        )
    if args.pool:
        selection = pool_ood_sets(selection)
    against = _baseline(args.against, selection)
    comparisons = [compare_methods(selection, measure, against) for measure in selection.measures]
    if args.figure:
        _draw(selection, comparisons, args.figure)
    if kind:
        _write(selection, comparisons, args, kind)
    elif not args.figure:
        _show(selection, comparisons, args)
    return 0


def parser() -> CommandParser:
    """Return the parser of the command."""
    parser = FilterParser(
        "compare",
        "Compare methods over seeds and data sets: means, wins and losses, and tests of the"
        " differences.",
        notes="A method is a setting: runs that differ in any key of the config but the seed have"
        " different names and are never averaged. Within a data set, methods are paired by seed;"
        " over data sets, by data set. p values: Wilcoxon's signed-rank test by Holm's method;"
        " ranks: Friedman's test, then Nemenyi's (Demšar 2006).",
        examples=[
            "kdg compare 'dataset=cc18/*' --metric error,nll,ece",
            "kdg compare method=kdf,isotonic --against isotonic --output table.tex",
            "kdg compare --metric ece --figure ranks.svg",
            "kdg compare --metric auroc,oce --on ood --pool",
        ],
    )
    parser.add_names(
        "--metric", "NAME", "metrics (default: those of error, nll and ece that were measured)"
    )
    parser.add_names(
        "--on",
        "SET",
        "sets of rows: test, calibration, grid, ood, sphere, radius=2 (default: test, else all)",
    )
    parser.add_argument(
        "--pool",
        action="store_true",
        help="average each metric over a run's out-of-distribution sets (with --on ood)",
    )
    parser.add_argument(
        "--against",
        metavar="METHOD",
        help="the baseline of all others (default: each method's own parent)",
    )
    parser.add_argument(
        "--digits",
        type=int,
        default=4,
        metavar="N",
        help="decimals of numbers, digits of very small ones (default: 4)",
    )
    parser.add_argument(
        "--each",
        action="store_true",
        help=f"show every data set (default: up to {MOST_DATASETS})",
    )
    parser.add_output("write everything: .md or .tex for people, .csv for programs")
    parser.add_argument(
        "--figure",
        metavar="FILE",
        help="draw critical differences (three methods or more): .svg, .png or .pdf",
    )
    return parser


def _baseline(name: str | None, selection: Study) -> str | None:
    """Return the name of a method as the study has it; ``(parent)`` may be left out."""
    if name is None or name in selection.methods:
        return name
    if f"{name} (parent)" in selection.parents:
        return f"{name} (parent)"
    others = f"there are: {', '.join(selection.methods)}"
    hint = did_you_mean(name, selection.methods)
    raise UsageError(
        f"--against: no method '{name}'{f'{hint} ({others})' if hint else f'; {others}'}"
    )


def _show(
    selection: Study, comparisons: Sequence[MeasureComparison], args: argparse.Namespace
) -> None:
    from kdgraph.report.terminal import show, terminal_width
    from kdgraph.results.comparison.tables import (
        dataset_sections,
        datasets_section,
        remarks_section,
        study_heading,
    )
    from kdgraph.results.export import Section, sections_to_text

    sections = [Section(study_heading(selection))]
    all_datasets = args.each or len(selection.datasets) <= MOST_DATASETS
    if all_datasets:
        sections += [
            section
            for name in selection.datasets
            for section in dataset_sections(selection, name, comparisons, args.digits)
        ]
    sections += [
        section
        for comparison in comparisons
        if (section := datasets_section(comparison, args.digits))
    ]
    sections.append(remarks_section(selection, comparisons, sections))
    show(sections_to_text(sections, terminal_width()))
    if not all_datasets:
        show(
            "\n  --each shows every data set, --output FILE writes them, --figure FILE draws the"
            " ranks"
        )


def _write(
    selection: Study,
    comparisons: Sequence[MeasureComparison],
    args: argparse.Namespace,
    kind: str,
) -> None:
    from kdgraph.results.comparison.tables import comparison_table, file_sections, study_heading
    from kdgraph.results.export import sections_to_latex, sections_to_markdown, write_columns
    from kdgraph.runner.files import write_atomically

    if kind == "csv":
        table = comparison_table(selection, comparisons)
        write_columns(table, args.output, escapes_formulas=args.safe_csv)
    else:
        sections = file_sections(selection, comparisons, args.digits)
        text = (sections_to_markdown if kind == "md" else sections_to_latex)(
            sections, study_heading(selection)
        )
        write_atomically(Path(args.output), text.encode(), "--output")
    print(f"{args.output}   {study_heading(selection)}")


def _draw(selection: Study, comparisons: Sequence[MeasureComparison], path: str) -> None:
    from kdgraph.figures import RankSummary, plot_critical_difference_diagram, save_figure
    from kdgraph.figures.model_names import paper_names
    from kdgraph.runner.files import wrap_os_errors

    drawn = {item.label: item.ranks for item in comparisons if item.ranks}
    if not drawn:
        raise UsageError(
            "--figure needs three methods or more with runs on the same two data sets or more;"
            " without it, means are shown"
        )
    parents = {str(run.record["parent"]) for run in selection.runs}
    panels = {}
    for label, ranks in drawn.items():
        names = paper_names(ranks.mean, parents)
        panels[label] = RankSummary(
            {names[name]: rank for name, rank in ranks.mean.items()},
            ranks.critical_difference,
            [[names[name] for name in group] for group in ranks.groups],
            ranks.n,
            ranks.p,
        )
    file = Path(path)
    with wrap_os_errors(file, "--figure"):
        save_figure(
            plot_critical_difference_diagram(panels),
            file.with_suffix(""),
            [file.suffix.removeprefix(".")],
        )
    print(f"{path}   mean ranks of {', '.join(panels)}")
