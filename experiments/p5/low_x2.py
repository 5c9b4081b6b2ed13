"""Predictions of the networks on Rosenbrock's function at low x₂, before and after local
recalibration (Torres et al., Section 4.2).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from experiments.common.claims import Claim, in_every_seed
from experiments.common.runs import Record
from experiments.p5.table2 import NETWORKS, PUBLISHED_DROPOUT, ROWS, read_all_sizes
from kdgraph.runner.stages import split

QUARTER = 0.25  # Share of the test rows with the lowest x₂; the paper has no number
OVERESTIMATED = ("overestimated_low",)


def means(folder: Path) -> pd.DataFrame:
    """Return ``method, units, seed, before, after, truth`` of runs with a radius.

    These are means of the predicted and of the true means over the rows with low x₂, with the
    paper's share of dropout; ``units`` is the width of the network's widest layer.
    """
    return pd.DataFrame(_means(r, folder) for r in read_all_sizes(folder) if _is_of(r))


def _is_of(record: Record) -> bool:
    recalibrator = record["config"]["recalibrator"]
    return (
        record["config"]["parent"]["dropout"] == PUBLISHED_DROPOUT
        and recalibrator["name"] == "local_pit"
        and recalibrator["radius"] is not None
        and recalibrator.get("draws") is not None
    )


def _means(record: Record, folder: Path) -> dict[str, object]:
    (path,) = folder.glob(f"*/*/{record['run_id']}/{record['files']['predictions']}")
    predicted = pd.read_parquet(path)
    predicted = predicted[predicted.set == "test"].set_index("row").sort_index()
    test = split(record["config"]["dataset"], record["seed"]).test
    x2 = pd.Series(test.X[:, 1])
    low = x2[x2 <= x2.quantile(QUARTER)].index
    assert test.distribution is not None
    return {
        "method": NETWORKS[record["parent"]],
        "units": max(record["config"]["parent"]["hidden"]),
        "seed": record["seed"],
        "before": predicted.parent_mean[low].mean(),
        "after": predicted.calibrated_mean[low].mean(),
        "truth": float(test.distribution(test.X[low]).mean().mean()),
    }


def claims(frame: pd.DataFrame) -> Iterator[Claim]:
    """Yield the claims that means are too high before and lower after, over networks and seeds."""
    for method, rows in frame.groupby("method", sort=False):
        rows = rows.set_index(["units", "seed"])
        place = f"{ROWS[str(method)][0]}, the quarter of the test rows with the lowest x₂"
        text = f"{place}: the mean prediction is above the true mean"
        yield from in_every_seed(text, rows.before - rows.truth, OVERESTIMATED)
        text = f"{place}: local recalibration lowers the mean prediction"
        yield from in_every_seed(text, rows.before - rows.after, OVERESTIMATED)
