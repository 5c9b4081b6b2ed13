"""What the networks on Rosenbrock's function predict where x₂ is low, before and after local
recalibration (Torres et al., Section 4.2).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from experiments.common.claims import Claim, in_every_seed
from experiments.common.runs import Record, runs_of
from experiments.p5.table2 import EXPERIMENT, NETWORKS, PUBLISHED_DROPOUT, ROWS
from kdgraph.runner.stages import split

QUARTER = 0.25
"""Of the test rows, those with the lowest x₂: the paper says no number."""
_SIZES = "parent.hidden", "parent.max_epochs", "parent.masks"
"""In which networks may differ from the reduced one."""


def means(folder: Path) -> pd.DataFrame:
    """Of runs that recalibrate within a radius, with the paper's share of dropout: ``method, units,
    seed, before, after, truth``.

    Means over those test rows of what is predicted and of the true mean; ``units``: of the
    network's widest layer.
    """
    records = [record for record in runs_of(EXPERIMENT, folder, free=_SIZES) if _asked(record)]
    return pd.DataFrame(_means(record, folder) for record in records)


def _asked(record: Record) -> bool:
    after = record["config"]["recalibrator"]
    return (
        record["config"]["parent"]["dropout"] == PUBLISHED_DROPOUT
        and after["name"] == "local_pit"
        and after["radius"] is not None
        and after.get("draws") is not None
    )


def _means(record: Record, folder: Path) -> dict[str, object]:
    (path,) = folder.glob(f"*/*/{record['run_id']}/{record['files']['predictions']}")
    said, test = pd.read_parquet(path), split(record["config"]["dataset"], record["seed"]).test
    said = said[said.set == "test"].set_index("row").sort_index()
    x2 = pd.Series(test.X[:, 1])
    low = x2[x2 <= x2.quantile(QUARTER)].index
    assert test.distribution is not None
    truth = float(test.distribution(test.X[low]).mean().mean())
    known = {
        "method": NETWORKS[record["parent"]],
        "units": max(record["config"]["parent"]["hidden"]),
        "seed": record["seed"],
    }
    return known | {
        "before": said.parent_mean[low].mean(),
        "after": said.calibrated_mean[low].mean(),
        "truth": truth,
    }


def claims(frame: pd.DataFrame) -> Iterator[Claim]:
    """Too high before, lower after, of the numbers of :func:`means`, by method and over all
    networks and seeds.
    """
    for method, rows in frame.groupby("method", sort=False):
        rows = rows.set_index(["units", "seed"])
        where = f"{ROWS[str(method)][0]}, the quarter of the test rows with the lowest x₂"
        name = ("overestimated_low",)
        yield from in_every_seed(
            f"{where}: the mean prediction is above the true mean", rows.before - rows.truth, name
        )
        yield from in_every_seed(
            f"{where}: local recalibration lowers the mean prediction",
            rows.before - rows.after,
            name,
        )
