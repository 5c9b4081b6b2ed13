"""``kdg compare``: methods over seeds and data sets, with the tests that say which differences are
more than luck.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kdgraph.cli.flags import Parser, listed
from kdgraph.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from kdgraph.results.comparison.aggregate import MeasureComparison
    from kdgraph.results.comparison.study import Study

MOST_DATASETS = 6
"""That are shown one by one on the terminal."""
MOST_DIGITS = 15
KINDS = ("csv", "md", "tex")
PICTURES = ("svg", "png", "pdf")


def main(arguments: list[str]) -> int:
    """Compare what the arguments choose and return the exit code."""
    args = _parser().parse(arguments)
    from kdgraph.results.export import file_kind

    if not 1 <= args.digits <= MOST_DIGITS:
        raise UsageError(f"--digits must be from 1 to {MOST_DIGITS}, got {args.digits}")
    if args.output:
        file_kind(args.output, KINDS)
    if args.figure:
        file_kind(args.figure, PICTURES, "--figure")
    from kdgraph.results.comparison.aggregate import compare_methods
    from kdgraph.results.comparison.study import build_study, pool_ood_sets
    from kdgraph.results.measures import choose_measures
    from kdgraph.results.records import find_runs, pause_garbage_collection

    with pause_garbage_collection():
        found = build_study(
            find_runs(args.out, args.filters, outdated=args.outdated),
            lambda there: choose_measures(there, args.metric, args.on),
        )
    if args.pool:
        found = pool_ood_sets(found)
    against = _baseline(args.against, found)
    all_compared = [compare_methods(found, measure, against) for measure in found.measures]
    if args.figure:
        _draw(all_compared, args.figure)
    if args.output:
        _write(found, all_compared, args)
    if not args.output and not args.figure:
        _show(found, all_compared, args)
    return 0


def _parser() -> Parser:
    parser = Parser(
        "compare",
        "Methods over seeds and data sets: means, wins and losses, and tests of the differences.",
        _MORE,
    )
    parser.add_argument(
        "--metric",
        type=listed,
        default=[],
        metavar="NAME,…",
        help="default: a few, error,nll,ece as far as measured",
    )
    parser.add_argument(
        "--on",
        type=listed,
        default=[],
        metavar="SET,…",
        help="test, calibration, grid, ood, sphere, radius=2 (default: test, else all)",
    )
    parser.add_argument(
        "--pool",
        action="store_true",
        help="of each metric, the mean over a run's out-of-distribution sets (--on ood)",
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
        help=f"every data set by itself (default: up to {MOST_DATASETS})",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="write everything: .md or .tex for people, .csv for programs",
    )
    parser.add_argument(
        "--figure",
        metavar="FILE",
        help="draw critical differences (three methods or more): .svg, .png or .pdf",
    )
    return parser


_MORE = """\
A method is a setting: runs that differ in any key of the config but the seed are told apart by name, never averaged.
Within a data set, methods are paired by seed; over data sets, by data set. p values: Wilcoxon's signed-rank test by
Holm's method; ranks: Friedman's test, then Nemenyi's (Demšar 2006).

  kdg compare dataset=cc18/* --metric error,nll,ece
  kdg compare method=kdf,isotonic --against isotonic --output table.tex
  kdg compare --metric ece --figure ranks.svg
  kdg compare --metric auroc,oce --on ood --pool"""


def _baseline(name: str | None, found: Study) -> str | None:
    """The method's name as the study has it; a parent may be called without what stands behind
    it.
    """
    if name is None or name in found.methods:
        return name
    if f"{name} (parent)" in found.parents:
        return f"{name} (parent)"
    others = f"there are: {', '.join(found.methods)}"
    hint = did_you_mean(name, found.methods)
    raise UsageError(
        f"--against: no method '{name}'{f'{hint} ({others})' if hint else f'; {others}'}"
    )


def _show(
    found: Study, all_compared: Sequence[MeasureComparison], args: argparse.Namespace
) -> None:
    from kdgraph.report.terminal import show, terminal_width
    from kdgraph.results.comparison.tables import (
        dataset_sections,
        datasets_section,
        remarks_section,
        study_heading,
    )
    from kdgraph.results.export import Section, sections_to_text

    sections = [Section(study_heading(found))]
    one_by_one = args.each or len(found.datasets) <= MOST_DATASETS
    if one_by_one:
        sections += [
            section
            for name in found.datasets
            for section in dataset_sections(found, name, all_compared, args.digits)
        ]
    sections += [section for one in all_compared if (section := datasets_section(one, args.digits))]
    sections.append(remarks_section(found, all_compared, with_spread=one_by_one))
    show(sections_to_text(sections, terminal_width()))
    if not one_by_one:
        show(
            "\n  --each shows every data set, --output FILE writes them, --figure FILE draws the"
            " ranks"
        )


def _write(
    found: Study, all_compared: Sequence[MeasureComparison], args: argparse.Namespace
) -> None:
    from kdgraph.results.comparison.tables import (
        comparison_table,
        datasets_section,
        means_section,
        remarks_section,
        study_heading,
    )
    from kdgraph.results.export import sections_to_latex, sections_to_markdown, write_columns
    from kdgraph.runner.files import write_atomically

    kind = Path(args.output).suffix
    if kind == ".csv":
        write_columns(comparison_table(found, all_compared), args.output)
    else:
        sections = [
            section for one in all_compared if (section := datasets_section(one, args.digits))
        ]
        sections += [means_section(found, one, args.digits) for one in all_compared]
        sections.append(remarks_section(found, all_compared, with_spread=True))
        text = (sections_to_markdown if kind == ".md" else sections_to_latex)(
            sections, study_heading(found)
        )
        write_atomically(Path(args.output), text.encode(), "--output")
    print(f"{args.output}   {study_heading(found)}")


def _draw(all_compared: Sequence[MeasureComparison], path: str) -> None:
    from kdgraph.figures import RankSummary, plot_critical_difference_diagram, save_figure
    from kdgraph.runner.files import wrap_os_errors

    drawn = {one.label: one.ranks for one in all_compared if one.ranks}
    if not drawn:
        raise UsageError(
            "--figure needs three methods or more with runs on the same two data sets or more;"
            " without it, means are shown"
        )
    panels = {
        label: RankSummary(ranks.mean, ranks.critical_difference, ranks.groups, ranks.n, ranks.p)
        for label, ranks in drawn.items()
    }
    file = Path(path)
    with wrap_os_errors(file, "--figure"):
        save_figure(
            plot_critical_difference_diagram(panels),
            file.with_suffix(""),
            [file.suffix.removeprefix(".")],
        )
    print(f"{path}   mean ranks of {', '.join(panels)}")
