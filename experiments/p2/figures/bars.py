"""Figure 17 and its numbers: NLL of right and wrong by predicted class and method."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from experiments.common.markdown import number
from experiments.common.markdown import table as markdown_table
from experiments.p2.figures.method_bars import plot_method_bars
from experiments.p2.figures.study import FIGURE_17, LABELS, SCORE_LABELS, Study

NAMES = LABELS | SCORE_LABELS


def figure17(
    study: Study, methods: Sequence[str] = FIGURE_17, names: Sequence[str] | None = None
) -> Figure:
    """Draw bars of the mean NLL, in sample as in the paper, of methods on classes (None: all)."""
    values = {
        NAMES[m]: {n: [value] for n, value in study.nll[m].items() if names is None or n in names}
        for m in methods
        if m in study.nll
    }
    return plot_method_bars(values, ylabel="NLL of right and wrong, nats a row", sets=["in sample"])


def nll_table(study: Study, names: Sequence[str] | None = None) -> str:
    """Return mean NLL by class and method, the least of a row in bold.

    Isotonic regression, which overfits in sample, is left aside.
    """
    methods = [method for method in NAMES if method in study.nll]
    columns = ["predicted class", "rows", *(NAMES[method] for method in methods)]
    rows = []
    for name in study.shown if names is None else names:
        if not len(study.predicted_as(name)):
            continue
        values = {method: study.nll[method][name] for method in methods}
        least = min(value for method, value in values.items() if method != "isotonic_top_label")
        cells = [f"**{number(v)}**" if v == least else number(v) for v in values.values()]
        rows.append([name, f"{len(study.predicted_as(name)):,}", *cells])
    return markdown_table(columns, rows)


def bandwidth_table(study: Study) -> str:
    """Return bandwidths on the paper's scale of 10, and sign changes of the confidence's slope."""
    methods = [m for m in ("kde_b_mon", "kde", "kde_b_mon4", "kde_b_opt") if m in study.models]
    result = {m: (study.learnt("bandwidth", m), study.learnt("sign_changes", m)) for m in methods}
    rows = []
    for name in study.shown:
        cells = [
            f"{10 * b[name]:.3f} ({changes[name]:.0f})" if name in b else "–"
            for b, changes in result.values()
        ]
        rows.append([name, *cells])
    return markdown_table(
        ["predicted class", *(f"{LABELS[method][4:-1]} (sign changes)" for method in methods)], rows
    )
