"""Which measures are shown where there is no room for all: those that are read most, of whatever
was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kdgraph.results.measures import Measure, select

NEAR = ("error", "nll", "ece", "hellinger", "rmse", "crps", "coverage")
"""Metrics on test rows and on the grid that are read first."""
FAR = ("oce", "mmc", "auroc", "fpr95")
"""The same of those out of distribution."""
COMPARED = ("error", "nll", "ece", "rmse", "crps", "coverage", "oce", "auroc")
"""Metrics by which methods are compared where nothing is said."""
AT_LEAST = 3
"""Metrics to compare by: where fewer of :data:`COMPARED` were measured, others are taken."""
DETECTION = ("auroc", "fpr95")
"""Of how well rows out of distribution are told from test rows, what is read first."""
RADII = (2.0, 1.0, 5.0)
"""Of a family of shells, those that are read first, if the first is there."""


def choose(
    measures: Sequence[Measure], metrics: Sequence[str] = (), on: Sequence[str] = ()
) -> list[Measure]:
    """As :func:`~kdgraph.results.measures.select`, of not too many measures where nothing is said.

    By default the metrics are :data:`COMPARED`, as far as they were measured, and a few others if
    these are few; on test rows. A metric that was not measured there is taken on the grid, on
    calibration rows, or on the sets that are one of a kind and, of each family, on one.
    """
    there = select(measures, metrics, on)
    wanted = metrics or _compared(there)
    by_name = {name: [measure for measure in there if measure.metric == name] for name in wanted}
    return [measure for of in by_name.values() for measure in (of if on else _in_one_place(of))]


def far(measures: Sequence[Measure], at_most: int, *, detects: bool) -> list[Measure]:
    """Of what was measured out of distribution: one metric or two, on some of the sets.

    Parameters
    ----------
    measures : everything.
    at_most : sets of each family.
    detects : whether something is there to detect such rows: then, or where no confidence was
        measured, it is how well that goes (AUROC and one more), on sets that are to be detected.
        Otherwise it is the confidence, and the AUROC on one set of each name.
    """
    there = [
        measure
        for measure in measures
        if measure.on == "ood" and not (measure.detects and measure.in_distribution)
    ]
    detection = first_of((m.metric for m in there if m.detects), DETECTION)[:2]
    confidence = first_of((m.metric for m in there if not m.detects), ("mmc",))[:1]
    if detection and (detects or confidence != ["mmc"]):
        return [
            m
            for name in detection
            for m in some_sets([m for m in there if m.metric == name], at_most)
        ]
    found = some_sets([m for m in there if m.metric in confidence], at_most)
    return [*found, *some_sets([m for m in there if m.metric in detection[:1]], 1)]


def some_sets(of_metric: Sequence[Measure], at_most: int) -> list[Measure]:
    """One metric's measures on some of its out-of-distribution sets, in their order.

    Of many shells, ``at_most`` of the radii 2, 1 and 5; of another family of many sets, ``at_most``
    that are spread over it, none in distribution.
    """
    chosen = set()
    for name in dict.fromkeys(measure.ood for measure in of_metric):
        family = [measure for measure in of_metric if measure.ood == name]
        shells = {dict(measure.params).get("radius"): measure.params for measure in family}
        outside = list(
            dict.fromkeys(m.params for m in family if not m.in_distribution)
            or dict.fromkeys(m.params for m in family)
        )
        wanted = (
            [shells[radius] for radius in RADII if radius in shells]
            if RADII[0] in shells
            else _spread(outside, at_most)
        )
        chosen |= {(name, params) for params in wanted[:at_most]}
    return [measure for measure in of_metric if (measure.ood, measure.params) in chosen]


def _compared(measures: Sequence[Measure]) -> list[str]:
    """Names of metrics; beyond :data:`COMPARED` those that have a better direction come first, and
    others only where none has one.
    """
    usual = [name for name in COMPARED if any(measure.metric == name for measure in measures)]
    judged = [
        name for name in first_of((m.metric for m in measures if m.better), ()) if name not in usual
    ]
    chosen = [*usual, *judged[: max(0, AT_LEAST - len(usual))]]
    return chosen or first_of((m.metric for m in measures), ())[:AT_LEAST]


def _in_one_place(of_metric: Sequence[Measure]) -> list[Measure]:
    for place in ("test", "grid", "calibration"):
        if found := [measure for measure in of_metric if measure.on == place]:
            return found
    return some_sets(of_metric, 1)


def first_of(names: Iterable[str], preferred: Sequence[str]) -> list[str]:
    """Each name once, the preferred ones first."""
    there = list(dict.fromkeys(names))
    return [
        *(name for name in preferred if name in there),
        *(name for name in there if name not in preferred),
    ]


def _spread(
    family: Sequence[tuple[tuple[str, float], ...]], at_most: int
) -> list[tuple[tuple[str, float], ...]]:
    """The middle of each of ``at_most`` equal parts of a family."""
    parts = min(at_most, len(family))
    return [family[((2 * i + 1) * len(family) - 1) // (2 * parts)] for i in range(parts)]
