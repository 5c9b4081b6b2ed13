"""Two diamonds before and after local recalibration, and the rows near them: Figure 5 of Torres et
al. in numbers.

``python -m experiments.p5.two_diamonds outputs --keep outputs`` reads the runs of ``kdg run
experiment=paper/p5/diamonds`` whose network is recalibrated by 1,000 neighbours, and saves the
claims on them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import cramervonmises

from experiments.common.claims import Claim, below, in_every_seed
from experiments.common.command import in_one_line, print_claims, study_options
from experiments.common.models import evaluation_of
from experiments.common.runs import Record
from experiments.p5.diamonds import read
from experiments.p5.figures import NEAR, PRICES
from kdgraph.distributions import Distribution
from kdgraph.runner.stages import split

METHOD = "network_local_1000"
# Levels of the quantiles whose skewness is that of a distribution.
LEVELS = (np.arange(1000) + 0.5) / 1000
# Change of a mean, in deviations before, or of a skewness that counts as adjusted; the paper has no
# number.
TENTH = 0.1
TWO, UNIFORM = ("two_diamonds",), ("uniform_near",)
NAME = "p5_two_diamonds"


def measured(records: list[Record], folder: Path) -> pd.DataFrame:
    """Return the numbers of each split and each of the two prices, before and after.

    ``mean``, ``sd`` and ``skewness`` of the test row with the nearest price; ``distance``, the
    Cramér-von Mises statistic of the PIT values of the 1,000 test rows most like it, in standard
    units. ``narrower``: the share of all test rows whose variance falls; ``share``: test rows per
    fitted row.
    """
    return pd.DataFrame(row for r in records if r["method"] == METHOD for row in _split(r, folder))


def _split(record: Record, folder: Path) -> Iterator[dict[str, float]]:
    sets = evaluation_of(record, folder).predictions
    models = next(each for each in sets if each.role == "test").models
    both = {"before": models["parent"], "after": models["calibrated"]}
    both = {stage: model["distribution"] for stage, model in both.items()}
    test, n = split(record["config"]["dataset"], record["seed"]).test, record["dataset"]
    Z = (test.X - test.X.mean(axis=0)) / test.X.std(axis=0)
    pits = {stage: each.cdf(test.y) for stage, each in both.items()}
    shared = {
        "share": n["n_test"] / (n["n_train"] + n["n_calibration"]),
        "narrower": float((both["after"].var() < both["before"].var()).mean()),
    }
    for price in PRICES:
        row = int(np.argmin(np.abs(test.y - price)))
        near = np.argsort(np.square(Z - Z[row]).sum(axis=1))[:NEAR]
        numbers = {"seed": record["seed"], "price": price, **shared}
        for stage, each in both.items():
            distance = float(cramervonmises(pits[stage][near], "uniform").statistic)
            values = _moments(each[row : row + 1]) | {"distance": distance}
            numbers |= {f"{name}_{stage}": value for name, value in values.items()}
        yield numbers


def _moments(predicted: Distribution) -> dict[str, float]:
    values = predicted.ppf(LEVELS)[0]
    units = (values - values.mean()) / values.std()
    return {
        "mean": float(predicted.mean()[0]),
        "sd": float(np.sqrt(predicted.var()[0])),
        "skewness": float((units**3).mean()),
    }


def claims(frame: pd.DataFrame) -> Iterator[Claim]:
    """Yield the claims on Figure 5 (b to d), of :func:`measured`."""
    for price, rows in frame.groupby("price"):
        rows = rows.set_index("seed")
        place = (
            f"the diamond whose price is nearest to {price:,.0f},"
            " local recalibration of the network"
        )
        narrowed = 1 - (rows.sd_after / rows.sd_before) ** 2
        yield from in_every_seed(f"{place}: its variance falls", narrowed, TWO)
        moved = (rows.mean_after - rows.mean_before).abs() / rows.sd_before
        text = f"{place}: its mean moves by more than a tenth of its deviation"
        yield from in_every_seed(text, moved, TWO, least=TENTH)
        bent = (rows.skewness_after - rows.skewness_before).abs()
        text = f"{place}: its skewness changes by more than a tenth"
        yield from in_every_seed(text, bent, TWO, least=TENTH)
    narrower = frame.drop_duplicates("seed").set_index("seed").narrower
    text = (
        "local recalibration of the network lowers the variance of more than half of the test rows"
    )
    yield from in_every_seed(text, narrower, TWO, least=0.5)
    for price, rows in frame.groupby("price"):
        rows = rows.set_index("seed")
        text = (
            f"the Cramér-von Mises distance from uniform of the PIT values of the {NEAR:,} test"
            f" rows most like the diamond whose price is nearest to {price:,.0f} is smaller after"
            " local recalibration of the network than before"
        )
        share = float(rows.share.mean())
        yield from below(text, rows.distance_after, rows.distance_before, UNIFORM, share=share)


def main() -> None:
    """Print the numbers and the verdicts."""
    options = study_options(__doc__, outputs=True, keep=True)
    frame = measured(read(options.outputs), options.outputs)
    if frame.empty:
        sys.exit(
            f"{options.outputs} has no run of {METHOD}; first kdg run experiment=paper/p5/diamonds"
            f" method=paper/p5/diamonds/{METHOD}"
        )
    print(frame.groupby("price").mean().T.round(3).to_string() + "\n")
    print_claims(claims(frame), options.keep, NAME)


if __name__ == "__main__":
    in_one_line(main)
