"""The comparison of methods as one long table for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kdgraph.results.comparison.compared import Against, Compared
from kdgraph.results.comparison.study import Study

COLUMNS = {
    "over": (
        "seeds: a row for each data set, method and measure; data sets: one for each method and"
        " measure"
    ),
    "dataset": "data set, with the keys that tell its settings apart; empty over data sets",
    "method": "method, with the keys that tell its settings apart; a parent ends in (parent)",
    "measure": "what was measured: nll, oce@sphere:radius=2",
    "label": "what people read",
    "n_of": "what was scored: rows, or sets of them, which is another task",
    "better": "lower or higher; empty where the number only describes",
    "mean": "mean over seeds",
    "std": "standard deviation over seeds (n - 1)",
    "n": "seeds, or data sets, that have a number",
    "median": "median of the means over data sets",
    "mean_rank": "mean rank over data sets",
    "best": (
        "whether the test does not tell it apart from the best; empty where the test tells nothing"
        " apart"
    ),
    "baseline": "what it is compared with",
    "wins": "pairs in which it is better",
    "ties": "pairs in which both are the same",
    "losses": "pairs in which it is worse",
    "median_change": "median over pairs of method - baseline",
    "p": "two-sided Wilcoxon signed-rank test over pairs, adjusted over the methods (Holm)",
}
"""Column → what it holds."""


def rows(study: Study, all_compared: Sequence[Compared]) -> dict[str, list[Any]]:
    """All means and tests by column, in the order of :data:`COLUMNS`."""
    found = [
        row for one in all_compared for row in (*_over_seeds(study, one), *_over_datasets(one))
    ]
    return {name: [row.get(name) for row in found] for name in COLUMNS}


def _over_seeds(study: Study, one: Compared) -> Iterator[dict[str, Any]]:
    for dataset in study.datasets:
        if dataset not in one.mean.index:
            continue
        best, against = one.best.get(dataset, ()), one.over_seeds.get(dataset, {})
        for method in one.mean:
            if n := int(one.n.loc[dataset, method]):
                yield {
                    **_about(one, str(method), "seeds"),
                    "dataset": dataset,
                    "mean": float(one.mean.loc[dataset, method]),
                    "std": _known(one.std.loc[dataset, method]),
                    "n": n,
                    "best": method in best if best else None,
                    **_tests(against, str(method)),
                }


def _over_datasets(one: Compared) -> Iterator[dict[str, Any]]:
    n_datasets, best = one.mean.notna().sum(), one.best_over_datasets
    if not one.is_judged or one.mean.notna().any(axis=1).sum() < 2:
        return
    for method in one.mean:
        yield {
            **_about(one, str(method), "data sets"),
            "n": int(n_datasets[method]),
            "median": _known(one.mean[method].median()),
            "mean_rank": one.ranks.mean.get(str(method)) if one.ranks else None,
            "best": method in best if best else None,
            **_tests(one.over_datasets, str(method)),
        }


def _about(one: Compared, method: str, over: str) -> dict[str, Any]:
    measure = one.measure
    about = {
        "measure": measure.id,
        "label": one.label,
        "n_of": measure.n_of,
        "better": measure.better,
    }
    return {"over": over, "method": method, **about}


def _tests(against: Mapping[str, Against], method: str) -> dict[str, Any]:
    if method not in against:
        return {}
    found = against[method]
    counts = found.comparison
    outcome = {"wins": counts.wins, "ties": counts.ties, "losses": counts.losses}
    return {"baseline": found.baseline, **outcome, "median_change": found.change, "p": found.p}


def _known(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)
