"""How well sets of rows are judged that have some out of distribution: from the table that metrics=detection makes."""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.figures.of_run.drawing import Drawing
from kdgraph.figures.of_run.registry import run_figure
from kdgraph.parameters import Count

_NO_PARAMETERS = ("of", "on", "ood", "share", "set_size", "power")
"""Columns of the table that are no parameters of a set."""


@run_figure("power_against_contamination")
def power_against_contamination_of_run(
    run: Drawing, *, table: str = "contamination", false_alarm: float | None = 0.05, at_most: Count = 6
) -> Any:
    """Power of a test of sets against the share of their rows that are out of distribution, at the largest size of a set.

    Parameters
    ----------
    table : a key in ``metrics``; one that both models have.
    false_alarm : the rate that is marked: that of the table.
    at_most : so many sets out of distribution, the first ones.
    """
    from kdgraph.figures import power_against_contamination as draw

    of = dict(zip(("parent", "calibrated"), run.names, strict=True))
    rows = [row for row in run.evaluation.tables.get(table, []) if row["on"] == "ood"]
    size = max((row["set_size"] for row in rows), default=0)
    rows = [row for row in rows if row["set_size"] == size]  # of a set with fewer rows there is no such size
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for title, row in zip(_titles(rows), rows, strict=True):
        found.setdefault(title, {}).setdefault(of[row["of"]], []).append((row["share"], row["power"]))
    whole = [title for title, curves in found.items() if len(curves) == len(of)][:at_most]
    panels = {title: {name: tuple(np.array(curve).T) for name, curve in found[title].items()} for title in whole}
    return draw(panels, false_alarm=false_alarm, set_size=size) if panels else None


def _titles(rows: list[dict[str, Any]]) -> list[str]:
    """Of each row the set's name, and of a family which of them: its only parameter, or of several those that are not the same in all."""
    params = [{name: value for name, value in row.items() if name not in _NO_PARAMETERS} for row in rows]
    family: dict[Any, list[dict[str, Any]]] = {}
    for row, of_row in zip(rows, params, strict=True):
        family.setdefault(row["ood"], []).append(of_row)
    return [
        ", ".join([str(row["ood"]), *(f"{name} {value:g}" for name, value in of_row.items() if _tells(name, of_row, family[row["ood"]]))])
        for row, of_row in zip(rows, params, strict=True)
    ]


def _tells(name: str, params: dict[str, Any], family: list[dict[str, Any]]) -> bool:
    return len(params) == 1 or any(other.get(name) != params[name] for other in family)
