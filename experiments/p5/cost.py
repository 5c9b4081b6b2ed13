"""What local recalibration costs in seconds, and what a small network gains by more rows: Section
4.3 of Torres et al., beside its figure.

``python -m experiments.p5.cost --keep outputs`` trains the networks of the simulation study itself
and measures both sides of each comparison in one process, by turns, in seconds of its processor
(ten minutes of a core); it leaves in a folder of runs what they say of the paper's sentences. Runs
of ``experiment=paper/p5/simulation`` have seconds too, but those of processes beside each other.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from sklearn.frozen import FrozenEstimator

from experiments.common.claims import Claim, below, in_every_seed
from experiments.common.command import claims_parser, print_claims
from experiments.common.seconds import processor_seconds
from experiments.p5.simulation import PLACES
from kdgraph.data.simulations import Tran20
from kdgraph.metrics import mse_y
from kdgraph.parents.networks import MultilayerPerceptronRegressor
from kdgraph.recalibration import LocalPit

SIZES = 1000, 10_000, 100_000
"""Rows of all roles, 80 : 10 : 10; the paper has 1,000,000 too."""
SEEDS = 5
HIDDEN = {"small": (5, 5, 5, 5), "big": (200, 200, 200, 5)}
RATE = {"small": 0.01, "big": 0.003}
"""As in the simulation study."""
KS = 100, 500, 1000
EPS = 0.5, 1.0
TREE = "6", "8", "output"
"""Places of the small network whose units are few: in 20 features an approximate search is slower
than all distances.
"""
UNITS = {"8": 5, "input": 20, "6": 200}
"""Place → units, of the big network."""
ASKED = 2000
"""Test rows that are predicted, at most."""
TURNS = 3
"""Of each comparison; the median counts."""
LITTLE = 0.05
"""Of the seconds of training, and of an MSE: the paper says no number."""
TWICE = 2.0
"""So many times the network's own seconds significantly affect prediction."""
CAPACITY, TRAINING, PREDICTION, BY_K = (
    ("small_capacity",),
    ("training_time",),
    ("prediction_time",),
    ("time_by_k",),
)
"""Sentences of ``claims.csv``."""
NAME = "p5_cost"
COLUMNS = ["size", "seed", "network", "what", "place", "k", "eps", "value"]


@dataclass(frozen=True)
class Drawn:
    """Rows of the three roles, Float[n, 20] and Float[n] each."""

    train: tuple[np.ndarray, np.ndarray]
    calibration: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, size: int, seed: int) -> Drawn:
        """Of a sample of its own."""
        problem, rng = Tran20(), np.random.default_rng([size, seed])
        return cls(*(problem.sample(n, rng) for n in (size * 8 // 10, size // 10, size // 10)))


def measured(sizes: tuple[int, ...] = SIZES, seeds: int = SEEDS) -> pd.DataFrame:
    """Columns :data:`COLUMNS`: ``mse``, and the seconds of ``training``, ``recalibrating``
    (fitting) and ``predicting``.

    ``k`` is 0 of a network without recalibration. The big network is measured once for its MSE, of
    10,000 rows, and once for the seconds by the width of a layer, on as many rows to calibrate as
    the largest size has, after one epoch on 8,000 rows: what its weights are is no matter of
    seconds.
    """
    rows: list[dict[str, Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # of rows far outside, and of a network of one epoch, which are no matter of seconds
        list(
            _of_small(Drawn.of(sizes[0], seeds), seeds)
        )  # what is imported or compiled at the first call is no cost of recalibration
        for seed in range(seeds):
            for size in sizes:
                rows += (
                    {"size": size, "seed": seed, "network": "small", **row}
                    for row in _of_small(Drawn.of(size, seed), seed)
                )
                print(f"{size:,} rows, seed {seed}", file=sys.stderr, flush=True)
            rows += (
                {"seed": seed, "network": "big", **row}
                for row in _of_big(sizes[-2], sizes[-1], seed)
            )
    return pd.DataFrame(rows).reindex(columns=COLUMNS).fillna({"k": 0, "eps": 0.0, "place": ""})


def _network(which: str, seed: int, **options: Any) -> MultilayerPerceptronRegressor:
    return MultilayerPerceptronRegressor(
        hidden=HIDDEN[which], learning_rate=RATE[which], random_state=seed, device="cpu", **options
    )


def _of_small(drawn: Drawn, seed: int) -> Iterator[dict[str, Any]]:
    """Error and all seconds of one network of the small kind."""
    network = _network("small", seed)
    yield {"what": "training", "value": _seconds(lambda: network.fit(*drawn.train))}
    yield {"what": "mse", "value": mse_y(drawn.test[1], network.predict_dist(drawn.test[0]))}
    ks = [k for k in KS if k <= len(drawn.calibration[0])]
    settings = [(place, k, 0.0) for place in PLACES for k in ks] + [
        (place, ks[-1], eps) for place in TREE for eps in EPS
    ]
    models = {setting: _local(network, *setting) for setting in settings}
    for (place, k, eps), model in models.items():
        yield {
            "what": "recalibrating",
            "place": place,
            "k": k,
            "eps": eps,
            "value": _seconds(lambda model=model: _fit(model, drawn)),
        }
    asked = drawn.test[0][:ASKED]
    for (place, k, eps), value in _by_turns({("", 0, 0.0): network, **models}, asked).items():
        yield {"what": "predicting", "place": place, "k": k, "eps": eps, "value": value}


def _of_big(size: int, largest: int, seed: int) -> Iterator[dict[str, Any]]:
    """Its error at one size; and seconds of prediction by the width of a layer, with as many rows
    to search as the largest size has.
    """
    drawn = Drawn.of(size, seed)
    yield {
        "size": size,
        "what": "mse",
        "value": mse_y(
            drawn.test[1], _network("big", seed).fit(*drawn.train).predict_dist(drawn.test[0])
        ),
    }
    many = Drawn.of(largest, seed)
    network = _network("big", seed, max_epochs=1).fit(*drawn.train)
    k = min(KS[-1], largest // 10)
    models = {place: _fit(_local(network, place, k, 0.0), many) for place in UNITS}
    for place, value in _by_turns(models, many.test[0][:ASKED]).items():
        yield {"size": largest, "what": "predicting", "place": place, "k": k, "value": value}


def _local(network: Any, place: str, k: int, eps: float) -> LocalPit:
    where: dict[str, Any] = (
        {"feature_space": place}
        if place in ("input", "output")
        else {"feature_space": "layer", "layer": place}
    )
    return LocalPit(FrozenEstimator(network), units="raw", k=k, eps=eps, **where)


def _fit(model: LocalPit, drawn: Drawn) -> LocalPit:
    X, y = drawn.calibration
    return model.fit(X, y, X_calibration=X, y_calibration=y)


def _by_turns(models: Mapping[Any, Any], X: np.ndarray) -> dict[Any, float]:
    """Name → median seconds of mean and 95 % interval of the rows, all models in turn, several
    times.
    """
    taken: dict[Any, list[float]] = {name: [] for name in models}
    for _ in range(TURNS):
        for name, model in models.items():
            taken[name].append(_seconds(lambda model=model: _predict(model, X)))
    return {name: float(np.median(each)) for name, each in taken.items()}


def _predict(model: Any, X: np.ndarray) -> None:
    said = model.predict_dist(X)
    said.mean()
    said.interval(0.95)


def _seconds(work: Callable[[], object]) -> float:
    _, taken = processor_seconds(work)
    return taken


def claims(frame: pd.DataFrame) -> Iterator[Claim]:
    """What Section 4.3 and the conclusion say of seconds and of the small network, of the numbers
    of :func:`measured`.
    """
    yield from _of_capacity(frame)
    small = frame[frame.network == "small"]
    yield from _of_training(small)
    yield from _of_prediction(small)
    yield from _of_k(frame)


def _of_capacity(frame: pd.DataFrame) -> Iterator[Claim]:
    mse = frame[frame.what == "mse"].pivot(
        index="seed", columns=["network", "size"], values="value"
    )
    few, many = sorted(mse["small"])[-2:]
    ratio = mse["small"][many] / mse["small"][few]
    found = (
        f"{100 * (ratio.median() - 1):+.0f} % in the median seed, {100 * (ratio.min() - 1):+.0f} to"
        f" {100 * (ratio.max() - 1):+.0f} %"
    )
    text = (
        f"from {few:,} to {many:,} rows the MSE of the small network falls by less than"
        f" {100 * LITTLE:g} % in the median seed"
    )
    yield Claim(text, bool(ratio.median() > 1 - LITTLE), f"{found}, {len(ratio)} seeds", CAPACITY)
    text = f"the small network has a larger MSE of {many:,} rows than the big one of {few:,}"
    yield from in_every_seed(text, mse["small"][many] - mse["big"][few], CAPACITY)


def _of_training(small: pd.DataFrame) -> Iterator[Claim]:
    training = small[small.what == "training"].set_index(["size", "seed"]).value
    after = small[(small.what == "recalibrating") & (small.eps == 0)]
    after = (
        after[after.k == after.groupby("size").k.transform("max")]
        .groupby(["size", "seed"])
        .value.mean()
    )
    share = (after / training).unstack("size")
    for size, values in share.items():
        text = (
            f"{size:,} rows: fitting local recalibration takes less than {100 * LITTLE:g} % of the"
            " small network's seconds of training"
        )
        text += " (k = 1,000 or all, mean of four layers)"
        yield from in_every_seed(text, LITTLE - values, TRAINING)
    first, last = min(share), max(share)
    text = f"the share of these seconds is smaller with {last:,} rows than with {first:,}"
    yield from below(text, share[last], share[first], TRAINING)


def _of_prediction(small: pd.DataFrame) -> Iterator[Claim]:
    said = small[small.what == "predicting"]
    for size, rows in said.groupby("size"):
        rows = rows[rows.k.isin([0, rows.k.max()])]
        alone = rows[rows.k == 0].set_index("seed").value
        local = rows[(rows.k > 0) & (rows.eps == 0)].groupby("seed").value.mean()
        text = (
            f"{size:,} rows: prediction with local recalibration takes more than twice the small"
            " network's seconds"
        )
        yield from in_every_seed(text, local / alone, PREDICTION, least=TWICE)
        by_eps = rows[rows.place.isin(TREE)].groupby(["eps", "seed"]).value.mean()
        for eps in EPS:
            text = (
                f"{size:,} rows: prediction with eps = {eps:g} takes fewer seconds than with the"
                " exact search (mean of the layers of few"
            )
            yield from below(text + " units)", by_eps[eps], by_eps[0.0], PREDICTION)


def _of_k(frame: pd.DataFrame) -> Iterator[Claim]:
    said = frame[(frame.what == "predicting") & (frame.eps == 0) & (frame.k > 0)]
    for size, rows in said[said.network == "small"].groupby("size"):
        by_k = rows.groupby(["k", "seed"]).value.mean()
        for fewer, more in pairwise(sorted(rows.k.unique())):
            text = (
                f"{size:,} rows: prediction takes fewer seconds with k = {int(fewer)} than with k ="
                f" {int(more):,} (mean of four layers)"
            )
            yield from below(text, by_k[fewer], by_k[more], BY_K)
    wide = said[said.network == "big"].pivot(index="seed", columns="place", values="value")
    for narrow, broad in pairwise(UNITS):
        text = (
            f"prediction takes fewer seconds with neighbours among {UNITS[broad]} units than among"
            f" {UNITS[narrow]} (big network,"
        )
        yield from below(
            text + f" {max(SIZES) // 10:,} calibration rows)", wide[broad], wide[narrow], BY_K
        )


def main() -> None:
    """Print the numbers and the verdicts."""
    parser = claims_parser(__doc__)
    given = parser.parse_args()
    frame = measured()
    of = ["network", "what", "size", "place", "k", "eps"]
    found = list(claims(frame))
    print(frame.groupby(of).value.mean().unstack("size").round(3).to_string() + "\n")
    print_claims(found, given.keep, NAME)


if __name__ == "__main__":
    main()
