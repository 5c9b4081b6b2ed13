"""Two diamonds before and after local recalibration, and the rows near them: Figure 5 of Torres et
al. in numbers.

``python -m experiments.p5.two_diamonds outputs --keep outputs`` asks the runs of ``kdg run
experiment=paper/p5/diamonds`` whose network is recalibrated by 1,000 neighbours, and leaves in a
folder of runs what they say of the paper's sentences.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import cramervonmises

from experiments.common.claims import Claim, below, in_every_seed
from experiments.common.command import claims_parser, in_one_line, print_claims
from experiments.common.models import evaluation_of
from experiments.common.runs import Record
from experiments.p5.diamonds import read
from experiments.p5.figures import NEAR, PRICES
from kdgraph.distributions import Distribution
from kdgraph.runner.stages import split

METHOD = "network_local_1000"
LEVELS = (np.arange(1000) + 0.5) / 1000
"""Of quantiles, whose skewness is that of a distribution."""
TENTH = 0.1
"""Of the deviation before, and of the skewness: what of a mean or a shape counts as adjusted. The
paper says no number.
"""
TWO, UNIFORM = ("two_diamonds",), ("uniform_near",)
"""Sentences of ``claims.csv``."""
NAME = "p5_two_diamonds"


def measured(records: list[Record], folder: Path) -> pd.DataFrame:
    """Of each split and each of the two prices, before and after: ``seed, price, share, narrower,
    …``.

    ``mean``, ``sd`` and ``skewness`` of the test row whose price is nearest; ``distance``, the
    Cramér-von Mises statistic of the PIT values of the 1,000 test rows most like it, in standard
    units; each with ``_before`` and ``_after``. ``narrower``: the share of all test rows whose
    variance falls; ``share``: test rows for each row that is fitted on.
    """
    return pd.DataFrame(
        row for record in records if record["method"] == METHOD for row in _of_split(record, folder)
    )


def _of_split(record: Record, folder: Path) -> Iterator[dict[str, float]]:
    said = next(
        found for found in evaluation_of(record, folder).predictions if found.role == "test"
    )
    both = {
        "before": said.models["parent"]["distribution"],
        "after": said.models["calibrated"]["distribution"],
    }
    test, n = split(record["config"]["dataset"], record["seed"]).test, record["dataset"]
    Z = (test.X - test.X.mean(axis=0)) / test.X.std(axis=0)
    pits = {when: each.cdf(test.y) for when, each in both.items()}
    narrower = float((both["after"].var() < both["before"].var()).mean())
    for price in PRICES:
        row = int(np.argmin(np.abs(test.y - price)))
        near = np.argsort(np.square(Z - Z[row]).sum(axis=1))[:NEAR]
        found = {
            "seed": record["seed"],
            "price": price,
            "share": n["n_test"] / (n["n_train"] + n["n_calibration"]),
            "narrower": narrower,
        }
        for when, each in both.items():
            distance = float(cramervonmises(pits[when][near], "uniform").statistic)
            numbers = _of_row(each[row : row + 1]) | {"distance": distance}
            found |= {f"{name}_{when}": value for name, value in numbers.items()}
        yield found


def _of_row(said: Distribution) -> dict[str, float]:
    values = said.ppf(LEVELS)[0]
    units = (values - values.mean()) / values.std()
    return {
        "mean": float(said.mean()[0]),
        "sd": float(np.sqrt(said.var()[0])),
        "skewness": float((units**3).mean()),
    }


def claims(frame: pd.DataFrame) -> Iterator[Claim]:
    """What is said of Figure 5 (b to d), of the numbers of :func:`measured`."""
    for price, rows in frame.groupby("price"):
        rows = rows.set_index("seed")
        where = (
            f"the diamond whose price is nearest to {price:,.0f}, local recalibration of the"
            " network"
        )
        yield from in_every_seed(
            f"{where}: its variance falls", 1 - (rows.sd_after / rows.sd_before) ** 2, TWO
        )
        moved = (rows.mean_after - rows.mean_before).abs() / rows.sd_before
        yield from in_every_seed(
            f"{where}: its mean moves by more than a tenth of its deviation",
            moved,
            TWO,
            least=TENTH,
        )
        bent = (rows.skewness_after - rows.skewness_before).abs()
        yield from in_every_seed(
            f"{where}: its skewness changes by more than a tenth", bent, TWO, least=TENTH
        )
    narrower = frame.drop_duplicates("seed").set_index("seed").narrower
    text = (
        "local recalibration of the network lowers the variance of more than half of the test rows"
    )
    yield from in_every_seed(text, narrower, TWO, least=0.5)
    for price, rows in frame.groupby("price"):
        rows = rows.set_index("seed")
        text = (
            f"the Cramér-von Mises distance from uniform of the PIT values of the {NEAR:,} test"
            " rows most like the diamond whose price is"
        )
        text += (
            f" nearest to {price:,.0f} is smaller after local recalibration of the network than"
            " before"
        )
        yield from below(
            text, rows.distance_after, rows.distance_before, UNIFORM, share=float(rows.share.mean())
        )


def main() -> None:
    """Print the numbers and the verdicts."""
    parser = claims_parser(__doc__)
    parser.add_argument(
        "outputs", type=Path, nargs="?", default=Path("outputs"), help="where the runs are"
    )
    given = parser.parse_args()
    frame = measured(read(given.outputs), given.outputs)
    if frame.empty:
        sys.exit(
            f"{given.outputs} has no run of {METHOD}; first kdg run experiment=paper/p5/diamonds"
            f" method=paper/p5/diamonds/{METHOD}"
        )
    found = list(claims(frame))
    print(frame.groupby("price").mean().T.round(3).to_string() + "\n")
    print_claims(found, given.keep, NAME)


if __name__ == "__main__":
    in_one_line(main)
