"""Figures 7 to 14 A on PhANNs: confidence against the score, class by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from experiments.p2.figures.study import LABELS, LOW, SCORE_LABELS, Study
from kdgraph.figures import ClassPanel, plot_confidence_curves

POINTS = 851  # Scores of a drawn curve: thousandths from .15 to 1
SCORE = "PhANNs score of the predicted class"
NO_TSWA = "no TSwA: the counts have no scores of the other classes"
MISSING_CLASS = "Other"  # Class without proteins among those with all scores


def grid() -> np.ndarray:
    """Return Float[:data:`POINTS`], the scores as shares of the highest."""
    return np.linspace(LOW, 1, POINTS)


def figure7(study: Study) -> Figure:
    """Draw classes whose score is nearly calibrated as it is."""
    return by_class(study, ["kde"], ["Minor tail", "Portal"], note=NO_TSWA)


def with_scores(study: Study) -> list[str]:
    """Return the classes that have proteins, in the order of the paper.

    Without proteins of class Other, all that are predicted as Other are wrong.
    """
    return [name for name in study.shown if name != MISSING_CLASS or has_other(study)]


def has_other(study: Study) -> bool:
    """Return whether the rows of class Other are there, rebuilt from counts."""
    return bool((study.y == study.classes.index(MISSING_CLASS)).any())


def figure7_scores(study: Study) -> Figure:
    """Draw Figure 7 with its cloud of TSwA, of the proteins that have all scores."""
    return clouds(study, ["tswa"], ["Minor tail", "Portal"], ["kde"])


def figure10_scores(study: Study) -> Figure:
    """Draw Figure 10 on PhANNs: one temperature of all classes."""
    return clouds(study, ["sts"], with_scores(study))


def figure11_scores(study: Study) -> Figure:
    """Draw Figure 11 on PhANNs: a temperature of each class."""
    return clouds(study, ["csts"], with_scores(study))


def figure12_scores(study: Study) -> Figure:
    """Draw Figure 12 on PhANNs: one temperature, and an award of each class."""
    return clouds(study, ["tswa"], with_scores(study))


def clouds(
    study: Study, methods: Sequence[str], names: Sequence[str], lines: Sequence[str] = ()
) -> Figure:
    """Draw a dot for each protein, a panel for each class, over curves of other methods.

    The confidence of a temperature depends on all scores, so that it is no function of that of the
    predicted class.
    """
    scores = grid()
    panels = {
        name: ClassPanel(
            {SCORE_LABELS[method]: (scores, study.curve(method, name, scores)) for method in lines}
            | {SCORE_LABELS[method]: study.cloud(method, name) for method in methods},
            {"PhANNs": study.bins(name)},
        )
        for name in names
    }
    other = (
        f"class {MISSING_CLASS} rebuilt from counts"
        if has_other(study)
        else f"none of class {MISSING_CLASS}"
    )
    return _on_their_scale(panels, note=f"{len(study.y):,} proteins, fitted to them; {other}")


def figure8(study: Study, name: str = "Tail fiber") -> Figure:
    """Draw the cumulative confidence of one class: from the top, the median, the best cutoff."""
    scores = grid()
    panels = {
        f"{name}: {LABELS[method]}": ClassPanel(
            {
                "cumulative": (scores, study.curve(method, name, scores)),
                LABELS["kde"]: (scores, study.curve("kde", name, scores)),
            },
            {"PhANNs": study.bins(name)},
        )
        for method in ("cum", "cum_plus", "cum_star")
    }
    return _on_their_scale(panels, columns=3)


def figure9(study: Study) -> Figure:
    """Draw the cumulative confidence from the best cutoff, on all classes."""
    return by_class(study, ["cum_star", "kde"], study.shown)


def figure13(study: Study) -> Figure:
    """Draw the bandwidth that leaving one out prefers, on the two classes of the paper."""
    return by_class(study, ["kde_b_opt", "kde"], ["HTJ", "Major capsid"])


def figure14(study: Study) -> Figure:
    """Draw panel A: monotonic confidence, and confidence that may turn twice."""
    return by_class(study, ["kde_b_mon", "kde"], study.shown)


def by_class(
    study: Study, methods: Sequence[str], names: Sequence[str], note: str | None = None
) -> Figure:
    """Draw curves of methods over the shares of right rows, a panel for each predicted class."""
    scores = grid()
    panels = {
        name: ClassPanel(
            {LABELS[method]: (scores, study.curve(method, name, scores)) for method in methods},
            {"PhANNs": study.bins(name)},
        )
        for name in names
        if name in study.classes and len(study.predicted_as(name))
    }
    return _on_their_scale(panels, note=note)


def _on_their_scale(
    panels: Mapping[str, ClassPanel], columns: int | None = None, note: str | None = None
) -> Figure:
    """Set ticks from 0 to 10, the scale of PhANNs: sums over ten networks."""
    figure = plot_confidence_curves(
        panels, identity="score / 10", columns=columns, score_label=SCORE, low=LOW, note=note
    )
    for axes in figure.axes:
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{10 * value:g}"))
    return figure
