"""Theorem 1 of Luo et al.: the rate at which the local calibration error of n rows approaches that
of the population, everywhere at once.

``python -m experiments.p4.theorem1 --scale smoke`` draws samples of a distribution whose posterior
is known (Gaussian XOR), takes a fixed classifier that is too sure on one side of the plane and not
sure enough on the other, and measures sup |SLCE_n − SLCE| (Eq. 7) over a grid of places. By the
theorem it is n^(-1/2) up to logarithms. The study prints a table with the fitted slopes and draws a
figure.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.special import expit, logit
from scipy.stats import linregress, t

from experiments.common.claims import Claim
from experiments.common.command import in_one_line, print_claims, study_options
from experiments.common.markdown import number
from experiments.common.markdown import table as markdown_table
from experiments.common.pictures import save_picture
from experiments.p4.convergence import plot_convergence
from kdgraph.data.simulations import GaussianXor
from kdgraph.metrics.local_calibration import local_errors
from kdgraph.metrics.reliability_bins import bin_of

# Bins of confidence. Of 100 rows about 23 are in the smallest, so that no bin is ever empty, as it
# may be with the paper's 15.
BINS = 5
EDGES = np.arange(BINS + 1) / BINS
# γ in units of the box, whose sides are 2 long: neighbourhoods from a twentieth of the plane to all
# of it.
BANDWIDTHS = (0.05, 0.2, 0.8)
# Least number of rows for fitted slopes: with fewer an error is near to the largest possible one,
# and cannot fall at the rate of the theorem.
RATE_FROM = 1000
# Error of a slope: √log n, the largest factor of the theorem's bound besides 1/√n, moves it by .06
# between 1,000 and 100,000 rows.
TOLERANCE = 0.05
SIMULATION = GaussianXor(noise_std=0.5)
EFFICIENT = ("sample_efficient",)


@dataclass(frozen=True)
class Scale:
    """Sizes of samples, samples of each size, and places and cells along each axis."""

    sizes: tuple[int, ...]
    draws: int
    places: int
    cells: int


SCALES = {
    "smoke": Scale((100, 1000, 10_000), 10, 7, 300),
    "workstation": Scale((100, 300, 1000, 3000, 10_000, 30_000, 100_000), 100, 21, 2000),
}


@dataclass(frozen=True)
class Prediction:
    """Predictions of the classifier for m rows."""

    predicted: np.ndarray  # Int[m], the more probable class
    # Float[m], the posterior at a temperature from e at the left edge to 1/e
    confidence: np.ndarray
    accuracy: np.ndarray  # Float[m], probability that the prediction is right


def classify(X: np.ndarray) -> Prediction:
    """Return the fixed classifier (f, p̂) at Float[m, 2].

    >>> prediction = classify([[-0.8, 0.5], [0.8, -0.5]])
    >>> prediction.confidence.round(2).tolist(), prediction.accuracy.round(2).tolist()
    ([0.69, 0.98], [0.85, 0.85])
    """
    posterior = SIMULATION.posterior(X)
    accuracy = posterior.max(axis=1)
    return Prediction(
        posterior.argmax(axis=1), expit(logit(accuracy) * np.exp(np.asarray(X)[:, 0])), accuracy
    )


def bayes(X: np.ndarray) -> Prediction:
    """Return the posterior itself, the only classifier whose confidence is its accuracy."""
    posterior = SIMULATION.posterior(X)
    return Prediction(posterior.argmax(axis=1), posterior.max(axis=1), posterior.max(axis=1))


def grid(n: int, reach: float = 0.95) -> np.ndarray:
    """Return Float[n², 2], places of a square grid over the box up to its edge."""
    ticks = np.linspace(-reach, reach, n)
    return np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 2)


@dataclass(frozen=True)
class Population:
    """Signed local calibration error of the population at m places and b bandwidths."""

    slce: np.ndarray  # Float[b, m]
    # Float[b, m], E[k(X, x) 1[X in the bin of x]]; the smallest is the theorem's α
    mass: np.ndarray


def population(places: np.ndarray, cells: int) -> Population:
    """Return the population at Float[m, 2] by the midpoint rule on cells² cells of the box.

    The Laplacian kernel is a product over features, so that a sum over cells is a product of
    matrices.
    """
    # The bin of a place changes in steps, so a rule of higher order would gain nothing; the study
    # compares with half as many cells.
    ticks = (np.arange(cells) + 0.5) * 2 / cells - 1
    X = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 2)
    share, prediction = SIMULATION.density(X) * (2 / cells) ** 2, classify(X)
    gap = prediction.confidence - prediction.accuracy
    bins = bin_of(prediction.confidence, EDGES)
    bins_at = bin_of(classify(places).confidence, EDGES)
    slce, mass = np.empty((2, len(BANDWIDTHS), len(places)))
    for bin_ in np.unique(bins_at):
        inside, at = np.where(bins == bin_, share, 0.0), np.flatnonzero(bins_at == bin_)
        for b, bandwidth in enumerate(BANDWIDTHS):
            near = [
                np.exp(np.abs(places[at, axis, None] - ticks) / (-2 * bandwidth)) for axis in (0, 1)
            ]
            total, error = (
                _double_sum(near, weights.reshape(cells, cells))
                for weights in (inside, inside * gap)
            )
            mass[b, at], slce[b, at] = total, error / total
    return Population(slce, mass)


def _double_sum(near: Sequence[np.ndarray], weights: np.ndarray) -> np.ndarray:
    """Return Float[m], Σᵢⱼ near₁[m, i] weights[i, j] near₂[m, j]."""
    return np.einsum("mj,mj->m", near[0] @ weights, near[1])


def estimated(
    places: np.ndarray,
    n: int,
    rng: np.random.Generator,
    classifier: Callable[[np.ndarray], Prediction] = classify,
) -> np.ndarray:
    """Return Float[b, m], SLCE_n of a classifier at the places, of a sample of ``n`` rows."""
    X, y = SIMULATION.sample(n, rng)
    prediction, at = classifier(X), classifier(places).confidence
    correct = prediction.predicted == y
    options = {"bandwidths": BANDWIDTHS, "bins": BINS, "scale": "none"}
    return local_errors(prediction.confidence, correct, X, at=(places, at), **options).slce


def study(scale: Scale, truth: Population) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the size of a sample and Float[draws, b], the largest errors over all places."""
    places = grid(scale.places)
    for n in scale.sizes:
        drawn = [
            estimated(places, n, np.random.default_rng((n, draw))) for draw in range(scale.draws)
        ]
        yield n, np.array([np.abs(errors - truth.slce).max(axis=1) for errors in drawn])


@dataclass(frozen=True)
class Slope:
    """Slope of the logarithm of an error against that of n, with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{_two(self.value)} [{_two(self.low)}, {_two(self.high)}]"


def slope(errors: Mapping[int, np.ndarray], b: int, at_least: int = 0) -> Slope:
    """Return the least-squares slope over all draws of at least some number of rows.

    Samples of all sizes are independent, and their logarithms vary alike.

    >>> errors = {n: np.array([[9 / n**0.5], [11 / n**0.5]]) for n in (100, 1000, 10_000)}
    >>> fitted = slope(errors, 0)
    >>> round(fitted.value, 2), fitted.low < -0.5 < fitted.high
    (-0.5, True)
    """
    by_size = {n: drawn[:, b] for n, drawn in errors.items() if n >= at_least}
    log_n = np.concatenate([np.full(len(drawn), np.log(n)) for n, drawn in by_size.items()])
    fit = linregress(log_n, np.log(np.concatenate(list(by_size.values()))))
    half = t.ppf(0.975, len(log_n) - 2) * fit.stderr
    return Slope(float(fit.slope), float(fit.slope - half), float(fit.slope + half))


def table(errors: Mapping[int, np.ndarray], truth: Population, quadrature: np.ndarray) -> str:
    """Return by bandwidth α, the quadrature's error, medians at both ends, and slopes."""
    first, last = min(errors), max(errors)
    columns = ["γ", "α", "error of SLCE by quadrature", f"median, n = {first:,}"]
    columns += [f"median, n = {last:,}"]
    rows = []
    for b, bandwidth in enumerate(BANDWIDTHS):
        medians = [number(float(np.median(errors[n][:, b])), 4) for n in (first, last)]
        cells = [f"{bandwidth:g}", number(float(truth.mass[b].min()), 4), f"{quadrature[b]:.0e}"]
        cells += medians
        rows.append([*cells, str(slope(errors, b)), str(slope(errors, b, RATE_FROM))])
    return markdown_table([*columns, "slope", f"slope from n = {RATE_FROM:,}"], rows)


def claims(errors: Mapping[int, np.ndarray]) -> Iterator[Claim]:
    """Yield Theorem 1 for each bandwidth, and that a smaller α needs more rows, as 1/α⁴."""
    for b, bandwidth in enumerate(BANDWIDTHS):
        fitted = slope(errors, b, RATE_FROM)
        text = (
            f"the largest error falls as 1/√n up to logarithms (Theorem 1), γ = {bandwidth:g}"
            f": the interval of its slope reaches −.5 ± {number(TOLERANCE, 2)}"
        )
        holds = fitted.low < -0.5 + TOLERANCE and fitted.high > -0.5 - TOLERANCE
        yield Claim(text, holds, str(fitted), EFFICIENT)
    medians = np.array([np.median(drawn, axis=0) for drawn in errors.values()])
    holds = bool((np.diff(medians, axis=1) < 0).all())
    yield Claim(
        "a smaller bandwidth, with its smaller α, needs more rows for the same error (Theorem 1):"
        " at every n the median falls with γ",
        holds,
        f"from γ = {BANDWIDTHS[0]:g}: "
        + ", ".join(number(float(median), 3) for median in medians[-1]),
        EFFICIENT,
    )


def _two(value: float) -> str:
    return ("−" if value < 0 else "") + number(abs(value), 2)


def main() -> None:
    """Print the table and save the figure."""
    options = study_options(__doc__, keep=True, pictures="outputs/p4_theorem1", scales=SCALES)
    scale, start = SCALES[options.scale], time.monotonic()
    truth, coarser = (
        population(grid(scale.places), cells) for cells in (scale.cells, scale.cells // 2)
    )
    errors = {}
    for n, largest in study(scale, truth):
        errors[n] = largest
        print(
            f"{scale.draws} samples of {n:,} rows ({time.monotonic() - start:.0f} s)",
            file=sys.stderr,
            flush=True,
        )
    print(
        f"sup over {scale.places}² places, {scale.draws} samples of each size,"
        f" {BINS} bins; slopes with 95 % intervals\n"
    )
    print(table(errors, truth, np.abs(truth.slce - coarser.slce).max(axis=1)) + "\n")
    print_claims(claims(errors), options.keep, "p4_theorem1")
    save_picture(draw(errors), options.figures / "theorem1", Path(__file__).parent)


def draw(errors: Mapping[int, np.ndarray]) -> Figure:
    """Draw the figure of rows → Float[draws, b]."""
    curves = {
        f"γ = {bandwidth:g}": np.stack([drawn[:, b] for drawn in errors.values()], axis=1)
        for b, bandwidth in enumerate(BANDWIDTHS)
    }
    draws = len(next(iter(errors.values())))
    return plot_convergence(
        np.array(list(errors)),
        curves,
        slope=-0.5,
        ylabel="sup |SLCEₙ − SLCE|",
        draws_of=f"{draws} samples",
    )


if __name__ == "__main__":
    in_one_line(main)
