"""Rank the methods of the benchmark of out-of-distribution detection on tables, in and out of
distribution, with tests.

``kdg run experiment=bench/tabular_ood`` prints this at its end; ``python -m
experiments.tabular_ood.ranking outputs [bench/tabular_ood_openml]`` prints it again and, with a
file name as the third argument (without an ending: SVG and PNG), draws the critical differences.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.common.claims import Claim, verdicts
from experiments.common.markdown import number, signed
from experiments.common.markdown import table as markdown_table
from experiments.common.runs import Record, runs_of
from experiments.common.titles import titles
from experiments.tabular_ood.picture import rank_lines
from kdgraph.figures import save_figure
from kdgraph.results.comparison.aggregate import MeasureComparison, compare_methods
from kdgraph.results.comparison.significance import Ranks, compare_pairs, rank_methods
from kdgraph.results.comparison.study import Study, build_study, pool_ood_sets
from kdgraph.results.records import FinishedRun

TITLES = titles("tabular_ood", "ranking")
KDGRAPH = TITLES["kdgraph"]  # Scores of rows by trees or their density
PEERS = ("knn", "lof", "mahalanobis")  # Detectors that scores of rows are compared with
GATES = TITLES["gates"]  # Methods whose probabilities return to the prior far from the data
COST = 0.003  # Largest increase of ECE by a gate, relative to isotonic regression
ROWS = "rows"


def compare_with_published(records: Sequence[Record]) -> str:
    """Return methods by rank, AUROC by set, verdicts, and reasons of missing numbers."""
    per_set = build_study([FinishedRun(Path(), record) for record in records])
    together = pool_ood_sets(per_set)
    shown = {name: _compared(together, name) for name in ("error", "ece", "auroc", "fpr95", "oce")}
    parts = [_ranked(shown), _by_set(per_set), "\n".join(_test(shown["auroc"]))]
    parts += [verdicts(_claims(shown)), _absent(per_set)]
    return "\n\n".join(parts)


def draw(records: Sequence[Record], file: Path) -> list[Path]:
    """Draw the critical differences of :func:`ranks_of`; without an ending, as SVG and PNG."""
    formats = [file.suffix.removeprefix(".")] if file.suffix else ["svg", "png"]
    return save_figure(rank_lines(ranks_of(records)), file.with_suffix(""), formats)


def ranks_of(records: Sequence[Record]) -> dict[str, Ranks]:
    """Return the ranks by AUROC and by OCE over tables, of means over the sets of a run."""
    together = pool_ood_sets(build_study([FinishedRun(Path(), record) for record in records]))
    shown = {
        "AUROC": _compared(together, "auroc").ranks,
        "OCE": _ranks_of_distinct(_compared(together, "oce"), together),
    }
    return {title: ranks for title, ranks in shown.items() if ranks}


def _ranks_of_distinct(comparison: MeasureComparison, together: Study) -> Ranks | None:
    """Return the ranks of parents and of methods that change the probabilities of their parent."""
    mean = comparison.mean
    parents = {n: p for n, p in together.parent_of.items() if p != n and {n, p} <= set(mean)}
    same = [name for name, parent in parents.items() if mean[name].equals(mean[parent])]
    distinct = mean.drop(columns=same).dropna(axis="columns")
    if len(distinct) > 1 and len(distinct.columns) > 2:
        return rank_methods(distinct, scale=1.0)
    return None


def _compared(together: Study, metric: str) -> MeasureComparison:
    """Compare methods by the measure of that name of single rows; sets are another task."""
    return compare_methods(
        together, next(m for m in together.measures if m.metric == metric and m.n_of == ROWS)
    )


def _ranked(shown: Mapping[str, MeasureComparison]) -> str:
    ranks = shown["auroc"].ranks
    best = ranks.best if ranks else []
    mean = {name: comparison.mean.mean() for name, comparison in shown.items()}
    names = [str(name) for name in shown["error"].mean]
    names.sort(key=lambda name: (ranks.mean.get(name, np.inf) if ranks else 0.0, name))
    rows = []
    for name in names:
        rank = f"{ranks.mean[name]:.1f}" if ranks and name in ranks.mean else "–"
        cells = [
            number(mean[key].get(name, np.nan)) for key in ("auroc", "fpr95", "oce", "error", "ece")
        ]
        rows.append([f"**{name}**" if name in best else name, rank, *cells])
    return markdown_table(["method", "mean rank", "AUROC", "FPR95", "OCE", "error", "ECE"], rows)


def _test(auroc: MeasureComparison) -> list[str]:
    ranks = auroc.ranks
    if ranks is None:
        return ["Fewer than three methods or two tables: nothing is ranked."]
    first, second = ranks.degrees
    return [
        (
            "Means over tables of means over seeds; AUROC, FPR95 (test rows positive) and OCE are"
            " means over the sets of a run. Ranks are by AUROC."
        ),
        (
            f"Friedman over {ranks.n} tables: F({first}, {second}) = {ranks.f:.1f}, p ="
            f" {ranks.p:.2g}; critical difference of mean ranks {ranks.critical_difference:.1f}"
            f" (Nemenyi, .05). Bold: not told apart from the best: {', '.join(ranks.best)}."
        ),
    ]


def _by_set(per_set: Study) -> str:
    columns: dict[str, list[pd.Series]] = {}
    for measure in per_set.measures:
        if measure.metric == "auroc":
            name = str(measure.ood) + (
                "" if measure.n_of == ROWS else f" ({measure.n_of.rpartition(' of ')[0]})"
            )
            columns.setdefault(name, []).append(
                per_set.table(measure).groupby(level="dataset").mean().stack()
            )
    table = pd.DataFrame(
        {name: pd.concat(parts).groupby(level=1).mean() for name, parts in columns.items()}
    )
    rows = []
    for method, row in table.loc[table.mean(axis=1).sort_values(ascending=False).index].iterrows():
        rows.append([str(method), *(number(value) for value in row)])
    return markdown_table(["AUROC", *map(str, table)], rows)


def _claims(shown: Mapping[str, MeasureComparison]) -> list[Claim]:
    auroc, ece, oce = (shown[name].mean for name in ("auroc", "ece", "oce"))
    claims = []
    own, peers = [n for n in KDGRAPH if n in auroc], [n for n in PEERS if n in auroc]
    if own and peers:
        peer = str(auroc[peers].mean().idxmax())
        for name in own:
            test = compare_pairs(-auroc[name], -auroc[peer], scale=1.0)
            difference = auroc[name].mean() - auroc[peer].mean()
            evidence = (
                f"{signed(difference)}, {test} tables won, tied and lost, Wilcoxon p = {test.p:.2g}"
            )
            text = (
                f"AUROC of {name} is not significantly below that of {peer}, the best of"
                f" {', '.join(peers)}"
            )
            claims.append(Claim(text, not (difference < 0 and test.p <= 0.05), evidence))
    if "isotonic" in ece:
        allowed = ece["isotonic"].mean() + COST
        ungated = [n for n in oce if n not in GATES]
        as_calibrated = [n for n in ungated if ece[n].mean() <= allowed]
        for name in (n for n in GATES if n in ece):
            cost = f"ECE {signed(ece[name].mean() - ece['isotonic'].mean(), 4)}"
            less, evidence = _less(oce, name, as_calibrated)
            text = (
                f"{name} has an ECE of at most isotonic's + {COST}, and on average less OCE than"
                " all that have it too and are no gate"
            )
            claims.append(
                Claim(text, bool(ece[name].mean() <= allowed and less), f"{cost}; {evidence}")
            )
            claims.append(
                Claim(
                    f"{name} has on average less OCE than all that is no gate",
                    *_less(oce, name, ungated),
                )
            )
    return claims


def _less(oce: pd.DataFrame, name: str, rivals: Sequence[str]) -> tuple[bool, str]:
    """Return whether a method has less OCE than the best rival, and a sentence with the numbers."""
    rival = str(oce[list(rivals)].mean().idxmin())
    test = compare_pairs(oce[name], oce[rival], scale=1.0)
    evidence = f"OCE {number(oce[name].mean())} against {number(oce[rival].mean())} of {rival}"
    return (
        bool(oce[name].mean() < oce[rival].mean()),
        f"{evidence}, {test} tables won, tied and lost, p = {test.p:.2g}",
    )


def _absent(per_set: Study) -> str:
    reasons = []
    for method in per_set.methods:
        units = {
            m.n_of
            for m in per_set.measures
            if m.metric == "auroc" and per_set.table(m)[method].notna().any()
        }
        if units and ROWS not in units:
            reasons.append(
                f"{method} has no AUROC of rows: it judges {', '.join(sorted(units))}, another"
                " task, and stands in columns of its own"
            )
    sets = {str(m.ood) for m in per_set.measures if m.metric == "auroc"}
    for dataset in per_set.datasets:
        available = {
            str(m.ood)
            for m in per_set.measures
            if m.metric == "auroc" and per_set.table(m).loc[dataset].notna().any(axis=None)
        }
        reasons += [f"{dataset} has no set {name}" for name in sorted(sets - available)]
    if reasons:
        return "\n".join(["Without a number:", *(f"- {reason}" for reason in reasons)])
    return "Every method has a number on every set."


def main(arguments: Sequence[str]) -> None:
    """Print the tables of the runs below a folder."""
    folder, experiment, *file = [*arguments, *["outputs", "bench/tabular_ood"][len(arguments) :]]
    records = runs_of(experiment, Path(folder))
    print(compare_with_published(records))
    if file:
        draw(records, Path(file[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
