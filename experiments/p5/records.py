"""Numbers of runs of Torres et al. by row of a table, what the true distribution has in their
place, and differences seed by seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from experiments.common.markdown import number, spread
from experiments.common.published import cell, read_published
from experiments.common.runs import Record
from experiments.common.splits import half_width
from kdgraph.metrics import coverage, crps, mse_y, smis
from kdgraph.results.comparison.significance import wilcoxon
from kdgraph.runner.stages import split

TRUTH = "truth"
"""The row of the true distribution."""


class Shown(NamedTuple):
    """A metric as a paper's table has it: its name, the level of its interval, and the factor of
    its unit.
    """

    metric: str
    level: float | None = None
    factor: float = 1.0


def frame_of(records: Iterable[Record], parents: Mapping[str, str]) -> pd.DataFrame:
    """A row for each number on test rows: ``method, seed, dropout, metric, value``; a parent's once
    for each seed.

    Parameters
    ----------
    records : of a sweep.
    parents : name of a parent → the method that has nothing after it. Runs behind another are left
        out.
    """
    return pd.DataFrame(
        _entries(records, parents), columns=["method", "seed", "dropout", "metric", "value"]
    )


def _entries(records: Iterable[Record], parents: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    known = set()
    for record in records:
        if record["parent"] not in parents:
            continue
        dropout = record["config"]["parent"].get("dropout")
        for entry in record["metrics"]:
            name = parents[record["parent"]] if entry["of"] == "parent" else record["method"]
            key = name, record["seed"], dropout, entry["metric"]
            if entry["on"] == "test" and entry["value"] is not None and key not in known:
                known.add(key)
                yield dict(
                    zip(
                        ("method", "seed", "dropout", "metric", "value"),
                        (*key, entry["value"]),
                        strict=True,
                    )
                )


def of_truth(records: Iterable[Record], dropout: float | None = None) -> pd.DataFrame:
    """As :func:`frame_of`, of the true distributions on the same test rows, which are drawn
    again.
    """
    found = []
    for seed, record in {record["seed"]: record for record in records}.items():
        splits = split(record["config"]["dataset"], seed)
        test, scale = splits.test, float(np.abs(splits.calibration.y).mean())
        said = test.distribution(test.X) if test.distribution is not None else None
        if said is None:
            continue
        values = {
            "mse_y": mse_y(test.y, said),
            "coverage": coverage(test.y, said),
            "smis": smis(test.y, said, scale),
        }
        values |= {"crps": crps(test.y, said), "mse_mean": 0.0, "kl": 0.0}
        found += [
            {"method": TRUTH, "seed": seed, "dropout": dropout, "metric": name, "value": float(v)}
            for name, v in values.items()
        ]
    return pd.DataFrame(found, columns=["method", "seed", "dropout", "metric", "value"])


def of(frame: pd.DataFrame, method: str, metric: str) -> pd.Series:
    """Values by seed."""
    return frame[(frame.method == method) & (frame.metric == metric)].set_index("seed").value


def in_published_terms(
    frame: pd.DataFrame,
    item: str,
    dataset: str,
    methods: Mapping[str, tuple[str | None, str]],
    metrics: Mapping[str, Shown],
) -> pd.DataFrame:
    """Numbers as ``published.csv`` tells them apart: ``item, dataset, metric, method, level, seed,
    variant, value``.

    Parameters
    ----------
    frame : of :func:`frame_of`.
    item, dataset : the table, and what it is of.
    methods : method → its row in the paper, and the title of a variant of ours that stands in that
    row; no row: left out.
    metrics : metric → the paper's, the level of its interval, and what it is multiplied with.
    """
    rows = [
        {
            "item": item,
            "dataset": dataset,
            "metric": shown.metric,
            "method": methods[method][0],
            "level": shown.level,
            "seed": seed,
        }
        | {"variant": methods[method][1], "value": shown.factor * value}
        for method, seed, metric, value in frame[["method", "seed", "metric", "value"]].itertuples(
            index=False
        )
        if (shown := metrics.get(metric)) is not None
        and methods.get(method, (None, ""))[0] is not None
    ]
    return pd.DataFrame(rows)


def settings_of(
    records: Iterable[Record],
    item: str,
    dataset: str,
    settings: Mapping[tuple[str, str], Callable[[Record], float | None]],
) -> pd.DataFrame:
    """How runs were done, beside the settings that the paper prints: as
    :func:`in_published_terms`, a row for each setting and seed.

    Parameters
    ----------
    records : of a sweep; those of one seed have the same settings.
    item, dataset : the section, and what it is of.
    settings : metric and method as published → a record's value; None where the record has none.
    """
    rows = [
        {"item": item, "dataset": dataset, "metric": metric, "method": method, "level": np.nan}
        | {"seed": record["seed"], "variant": "", "value": value}
        for record in records
        for (metric, method), value_of in {**ROLES, **settings}.items()
        if (value := value_of(record)) is not None
    ]
    columns = ["item", "dataset", "metric", "method", "level", "seed", "variant", "value"]
    return pd.DataFrame(rows, columns=columns).drop_duplicates(["metric", "method", "seed"])


def joined(parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return frames one after the other, without empty ones; an empty frame if all are."""
    filled = [part for part in parts if len(part)]
    if not filled:
        return pd.DataFrame()
    # pandas takes no dtype from columns without a number, and will.
    columns = list(dict.fromkeys(name for part in filled for name in part))
    known = [part.dropna(axis=1, how="all") for part in filled]
    return pd.concat(known, ignore_index=True).reindex(columns=columns)


def _share(role: str) -> Callable[[Record], float | None]:
    return lambda record: 100 * record["dataset"][role] / _n_rows(record)


def _n_rows(record: Record) -> float:
    return sum(record["dataset"][role] for role in ("n_train", "n_calibration", "n_test"))


ROLES: dict[tuple[str, str | None], Callable[[Record], float | None]] = {
    ("rows", None): _n_rows,
    ("training rows (%)", None): _share("n_train"),
    ("validation rows (%)", None): _share("n_calibration"),
    ("test rows (%)", None): _share("n_test"),
}
"""Setting → a record's value, of every data set."""


def of_parent(name: str, key: str, position: int | None = None) -> Callable[[Record], float | None]:
    """Return a record's value of a parameter of a parent, of a list at a position; None if the
    record is of another parent.
    """

    def value(record: Record) -> float | None:
        parent = record["config"]["parent"]
        if record["parent"] != name or key not in parent:
            return None
        if position is None:
            return float(len(parent[key]) if isinstance(parent[key], list) else parent[key])
        return float(parent[key][position])

    return value


def of_recalibrator(method: str, key: str) -> Callable[[Record], float | None]:
    """Return a record's value of a parameter of its recalibrator; None if it is of another
    method.
    """

    def value(record: Record) -> float | None:
        is_asked = record["method"] == method
        return float(record["config"]["recalibrator"][key]) if is_asked else None

    return value


def found(frame: pd.DataFrame, method: str, metric: str, digits: int, factor: float = 1.0) -> str:
    """Mean ± standard deviation over seeds, for a cell."""
    return spread(of(frame, method, metric), factor, digits)


def said(
    item: str, method: str | None, metric: str, digits: int, level: float | None = None
) -> str:
    """What the paper printed, for a cell; a dash where it has no such row."""
    numbers = read_published(Path(__file__).parent)
    chosen = numbers[
        (numbers.item == item) & (numbers.method == method) & (numbers.metric == metric)
    ]
    return cell(chosen if level is None else chosen[chosen.level == level], digits)


def against(
    frame: pd.DataFrame, method: str, other: str, metric: str, share: float | None = None
) -> list[str]:
    """Relative difference in percent, seed by seed, for cells: mean, 95 % interval, in how many
    seeds lower, and Wilcoxon's p.

    ``share``: test rows for each row that is fitted on, where seeds divide the same rows; then the
    interval is that of other rows.
    """
    relative = 100 * (of(frame, method, metric) / of(frame, other, metric) - 1).dropna()
    if relative.empty:
        return ["–"] * 4
    mean, half = float(relative.mean()), half_width(relative, share or 0.0)
    interval = "–" if np.isnan(half) else f"{_signed(mean - half)} to {_signed(mean + half)}"
    p = wilcoxon(relative.to_numpy()) if relative.any() else 1.0
    return [
        f"{_signed(mean)} %",
        interval,
        f"{int((relative < 0).sum())} of {len(relative)}",
        f"{p:.2g}",
    ]


def _signed(value: float) -> str:
    return ("−" if value < 0 else "+") + number(abs(value), 1)


def chosen_k(records: Iterable[Record], methods: Sequence[str]) -> str:
    """Numbers of neighbours that calibration rows chose, a sentence; empty where none did."""
    parts = []
    for method in methods:
        ks = [
            record["learnt"]["recalibrator"]["k"]
            for record in records
            if record["method"] == method
        ]
        if ks:
            parts.append(f"`{method}` {int(np.median(ks)):,} ({min(ks):,} to {max(ks):,})")
    return f"Chosen k, median and range over seeds: {', '.join(parts)}." if parts else ""
