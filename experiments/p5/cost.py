"""Seconds of local recalibration, and the gain of a small network by more rows: Section 4.3 of
Torres et al.

``python -m experiments.p5.cost --keep outputs`` trains the networks of the simulation study itself
and measures both sides of each comparison in one process, by turns, in seconds of its processor
(ten minutes of a core), and saves the claims on them. Runs of ``experiment=paper/p5/simulation``
have seconds too, but of processes that run side by side.
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
from experiments.common.command import print_claims, study_options
from experiments.common.seconds import processor_seconds
from experiments.p5.simulation import PLACES
from kdgraph.data.simulations import Tran20
from kdgraph.metrics import mse_y
from kdgraph.parents.networks import MultilayerPerceptronRegressor
from kdgraph.recalibration import LocalPit

SIZES = 1000, 10_000, 100_000  # Rows of all roles, 80 : 10 : 10; the paper has 1,000,000 too
SEEDS = 5
HIDDEN = {"small": (5, 5, 5, 5), "big": (200, 200, 200, 5)}
RATE = {"small": 0.01, "big": 0.003}  # Learning rates of the simulation study
KS = 100, 500, 1000
EPS = 0.5, 1.0
# Layers of the small network with few units: in 20 features an approximate search is slower than
# all distances.
TREE = "6", "8", "output"
UNITS = {"8": 5, "input": 20, "6": 200}  # Layer of the big network → its units
N_PREDICTED = 2000  # Most test rows to predict
TURNS = 3  # Repetitions of each comparison; the median counts
LITTLE = 0.05  # Share of the seconds of training, and change of an MSE; the paper has no number
TWICE = 2.0  # Ratio of seconds from which on prediction is affected
CAPACITY, TRAINING = ("small_capacity",), ("training_time",)
PREDICTION, BY_K = ("prediction_time",), ("time_by_k",)
NAME = "p5_cost"
COLUMNS = ["size", "seed", "network", "what", "place", "k", "eps", "value"]


@dataclass(frozen=True)
class Sample:
    """Rows of the three roles, Float[n, 20] and Float[n] each."""

    train: tuple[np.ndarray, np.ndarray]
    calibration: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]

    @classmethod
    def draw(cls, size: int, seed: int) -> Sample:
        """Draw a sample of a size."""
        problem, rng = Tran20(), np.random.default_rng([size, seed])
        return cls(*(problem.sample(n, rng) for n in (size * 8 // 10, size // 10, size // 10)))


def measured(sizes: tuple[int, ...] = SIZES, seeds: int = SEEDS) -> pd.DataFrame:
    """Return :data:`COLUMNS`: ``mse``, and seconds of training, recalibrating, predicting.

    ``k`` is 0 without recalibration. The big network is measured once for its MSE, of 10,000 rows,
    and once for the seconds by the width of a layer, on as many calibration rows as the largest
    size has, after one epoch on 8,000 rows: its weights do not matter for seconds.
    """
    rows: list[dict[str, Any]] = []
    with warnings.catch_warnings():
        # Rows far outside, and a network of one epoch, do not matter for seconds.
        warnings.simplefilter("ignore", UserWarning)
        # The first call imports and compiles, which is no cost of recalibration.
        list(_small_network(Sample.draw(sizes[0], seeds), seeds))
        for seed in range(seeds):
            for size in sizes:
                rows += (
                    {"size": size, "seed": seed, "network": "small", **row}
                    for row in _small_network(Sample.draw(size, seed), seed)
                )
                print(f"{size:,} rows, seed {seed}", file=sys.stderr, flush=True)
            rows += (
                {"seed": seed, "network": "big", **row}
                for row in _big_network(sizes[-2], sizes[-1], seed)
            )
    return pd.DataFrame(rows).reindex(columns=COLUMNS).fillna({"k": 0, "eps": 0.0, "place": ""})


def _network(which: str, seed: int, **options: Any) -> MultilayerPerceptronRegressor:
    return MultilayerPerceptronRegressor(
        hidden=HIDDEN[which], learning_rate=RATE[which], random_state=seed, device="cpu", **options
    )


def _small_network(sample: Sample, seed: int) -> Iterator[dict[str, Any]]:
    network = _network("small", seed)
    yield {"what": "training", "value": _seconds(lambda: network.fit(*sample.train))}
    yield {"what": "mse", "value": mse_y(sample.test[1], network.predict_dist(sample.test[0]))}
    ks = [k for k in KS if k <= len(sample.calibration[0])]
    settings = [(place, k, 0.0) for place in PLACES for k in ks]
    settings += [(place, ks[-1], eps) for place in TREE for eps in EPS]
    models = {setting: _local(network, *setting) for setting in settings}
    for (place, k, eps), model in models.items():
        seconds = _seconds(lambda model=model: _fit(model, sample))
        yield {"what": "recalibrating", "place": place, "k": k, "eps": eps, "value": seconds}
    X = sample.test[0][:N_PREDICTED]
    for (place, k, eps), value in _by_turns({("", 0, 0.0): network, **models}, X).items():
        yield {"what": "predicting", "place": place, "k": k, "eps": eps, "value": value}


def _big_network(size: int, largest: int, seed: int) -> Iterator[dict[str, Any]]:
    sample = Sample.draw(size, seed)
    network = _network("big", seed).fit(*sample.train)
    error = mse_y(sample.test[1], network.predict_dist(sample.test[0]))
    yield {"size": size, "what": "mse", "value": error}
    many = Sample.draw(largest, seed)
    network = _network("big", seed, max_epochs=1).fit(*sample.train)
    k = min(KS[-1], largest // 10)
    models = {place: _fit(_local(network, place, k, 0.0), many) for place in UNITS}
    for place, value in _by_turns(models, many.test[0][:N_PREDICTED]).items():
        yield {"size": largest, "what": "predicting", "place": place, "k": k, "value": value}


def _local(network: Any, place: str, k: int, eps: float) -> LocalPit:
    space: dict[str, Any] = (
        {"feature_space": place}
        if place in ("input", "output")
        else {"feature_space": "layer", "layer": place}
    )
    return LocalPit(FrozenEstimator(network), units="raw", k=k, eps=eps, **space)


def _fit(model: LocalPit, sample: Sample) -> LocalPit:
    X, y = sample.calibration
    return model.fit(X, y, X_calibration=X, y_calibration=y)


def _by_turns(models: Mapping[Any, Any], X: np.ndarray) -> dict[Any, float]:
    """Return median seconds of mean and 95 % interval of the rows, all models in turn."""
    # In turn, so that a slower spell of the machine meets all models; the median leaves it out.
    seconds: dict[Any, list[float]] = {name: [] for name in models}
    for _ in range(TURNS):
        for name, model in models.items():
            seconds[name].append(_seconds(lambda model=model: _predict(model, X)))
    return {name: float(np.median(each)) for name, each in seconds.items()}


def _predict(model: Any, X: np.ndarray) -> None:
    predicted = model.predict_dist(X)
    predicted.mean()
    predicted.interval(0.95)


def _seconds(work: Callable[[], object]) -> float:
    return processor_seconds(work)[1]


def claims(frame: pd.DataFrame) -> Iterator[Claim]:
    """Yield the claims of Section 4.3 and the conclusion on seconds and on the small network."""
    small = frame[frame.network == "small"]
    yield from _claims_on_capacity(frame)
    yield from _claims_on_training(small)
    yield from _claims_on_prediction(small)
    yield from _claims_on_k(frame)


def _claims_on_capacity(frame: pd.DataFrame) -> Iterator[Claim]:
    errors = frame[frame.what == "mse"]
    mse = errors.pivot(index="seed", columns=["network", "size"], values="value")
    few, many = sorted(mse["small"])[-2:]
    ratio = mse["small"][many] / mse["small"][few]
    yield Claim(
        f"from {few:,} to {many:,} rows the MSE of the small network falls by less than"
        f" {100 * LITTLE:g} % in the median seed",
        bool(ratio.median() > 1 - LITTLE),
        f"{100 * (ratio.median() - 1):+.0f} % in the median seed, {100 * (ratio.min() - 1):+.0f} to"
        f" {100 * (ratio.max() - 1):+.0f} %, {len(ratio)} seeds",
        CAPACITY,
    )
    text = f"the small network has a larger MSE of {many:,} rows than the big one of {few:,}"
    yield from in_every_seed(text, mse["small"][many] - mse["big"][few], CAPACITY)


def _claims_on_training(small: pd.DataFrame) -> Iterator[Claim]:
    training = small[small.what == "training"].set_index(["size", "seed"]).value
    after = small[(small.what == "recalibrating") & (small.eps == 0)]
    after = after[after.k == after.groupby("size").k.transform("max")]
    share = (after.groupby(["size", "seed"]).value.mean() / training).unstack("size")
    for size, values in share.items():
        text = (
            f"{size:,} rows: fitting local recalibration takes less than {100 * LITTLE:g} % of the"
            " small network's seconds of training (k = 1,000 or all, mean of four layers)"
        )
        yield from in_every_seed(text, LITTLE - values, TRAINING)
    first, last = min(share), max(share)
    text = f"the share of these seconds is smaller with {last:,} rows than with {first:,}"
    yield from below(text, share[last], share[first], TRAINING)


def _claims_on_prediction(small: pd.DataFrame) -> Iterator[Claim]:
    predicting = small[small.what == "predicting"]
    for size, rows in predicting.groupby("size"):
        rows = rows[rows.k.isin([0, rows.k.max()])]
        alone = rows[rows.k == 0].set_index("seed").value
        local = rows[(rows.k > 0) & (rows.eps == 0)].groupby("seed").value.mean()
        text = (
            f"{size:,} rows: prediction with local recalibration takes more"
            " than twice the small network's seconds"
        )
        yield from in_every_seed(text, local / alone, PREDICTION, least=TWICE)
        by_eps = rows[rows.place.isin(TREE)].groupby(["eps", "seed"]).value.mean()
        for eps in EPS:
            text = (
                f"{size:,} rows: prediction with eps = {eps:g} takes fewer seconds than with the"
                " exact search (mean of the layers of few units)"
            )
            yield from below(text, by_eps[eps], by_eps[0.0], PREDICTION)


def _claims_on_k(frame: pd.DataFrame) -> Iterator[Claim]:
    exact = frame[(frame.what == "predicting") & (frame.eps == 0) & (frame.k > 0)]
    for size, rows in exact[exact.network == "small"].groupby("size"):
        by_k = rows.groupby(["k", "seed"]).value.mean()
        for fewer, more in pairwise(sorted(rows.k.unique())):
            text = (
                f"{size:,} rows: prediction takes fewer seconds with k = {int(fewer)} than with k ="
                f" {int(more):,} (mean of four layers)"
            )
            yield from below(text, by_k[fewer], by_k[more], BY_K)
    wide = exact[exact.network == "big"].pivot(index="seed", columns="place", values="value")
    for narrow, broad in pairwise(UNITS):
        text = (
            f"prediction takes fewer seconds with neighbours among {UNITS[broad]} units than among"
            f" {UNITS[narrow]} (big network, {max(SIZES) // 10:,} calibration rows)"
        )
        yield from below(text, wide[broad], wide[narrow], BY_K)


def main() -> None:
    """Print the numbers and the verdicts."""
    options = study_options(__doc__, keep=True)
    frame = measured()
    keys = ["network", "what", "size", "place", "k", "eps"]
    print(frame.groupby(keys).value.mean().unstack("size").round(3).to_string() + "\n")
    print_claims(claims(frame), options.keep, NAME)


if __name__ == "__main__":
    main()
