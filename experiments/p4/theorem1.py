"""Theorem 1 of Luo et al.: how fast the local calibration error of n rows comes near to that of the
population, everywhere at once.

``python -m experiments.p4.theorem1 --scale smoke`` draws samples of a distribution whose posterior
is known (Gaussian XOR), takes a fixed classifier that is too sure on one side of the plane and not
sure enough on the other, and measures sup |SLCE_n − SLCE| (Eq. 7) over a grid of places. The
theorem says n^(-1/2) up to logarithms. The figure and a table with the fitted slopes are what it
leaves.
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
from experiments.common.command import in_one_line, print_claims, study_parser
from experiments.common.markdown import head, line, number
from experiments.common.pictures import save_picture
from kdgraph.data.simulations import GaussianXor
from kdgraph.figures import plot_convergence
from kdgraph.metrics.local_calibration import local_errors
from kdgraph.metrics.reliability_bins import bin_of

BINS = 5
"""Of confidence. Of 100 rows about 23 are in the smallest, so that no bin is ever empty, as it may
be with the paper's 15.
"""
EDGES = np.arange(BINS + 1) / BINS
BANDWIDTHS = (0.05, 0.2, 0.8)
"""γ in units of the box, whose sides are 2 long: neighbourhoods from a twentieth of the plane to
all of it.
"""
RATE_FROM = 1000
"""Rows from which on slopes are fitted: with fewer an error is near to the largest that there is,
and cannot fall as the theorem says.
"""
TOLERANCE = 0.05
"""Of a slope: √log n, the largest factor that the theorem's bound has beside 1/√n, moves it by .06
between 1,000 and 100,000 rows.
"""
SIMULATION = GaussianXor(noise_std=0.5)
EFFICIENT = ("sample_efficient",)
"""The sentence of ``claims.csv`` that is asked about."""


@dataclass(frozen=True)
class Scale:
    """How much is drawn: sizes of samples, samples of each size, places along each axis, cells
    along each axis of the quadrature.
    """

    sizes: tuple[int, ...]
    draws: int
    places: int
    cells: int


SCALES = {
    "smoke": Scale((100, 1000, 10_000), 10, 7, 300),
    "workstation": Scale((100, 300, 1000, 3000, 10_000, 30_000, 100_000), 100, 21, 2000),
}


@dataclass(frozen=True)
class Said:
    """What the classifier says of m rows.

    Attributes
    ----------
    predicted : Int[m], the more probable class: it makes no mistake that another classifier would
    not make.
    confidence : Float[m] in [0.5, 1], the posterior at a temperature that falls from e at the left
    edge to 1/e at the right.
    accuracy : Float[m], the probability that the prediction is right.
    """

    predicted: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray


def classify(X: np.ndarray) -> Said:
    """The fixed classifier (f, p̂) at Float[m, 2].

    >>> said = classify([[-0.8, 0.5], [0.8, -0.5]])
    >>> said.confidence.round(2).tolist(), said.accuracy.round(2).tolist()
    ([0.69, 0.98], [0.85, 0.85])
    """
    posterior = SIMULATION.posterior(X)
    accuracy = posterior.max(axis=1)
    return Said(
        posterior.argmax(axis=1), expit(logit(accuracy) * np.exp(np.asarray(X)[:, 0])), accuracy
    )


def bayes(X: np.ndarray) -> Said:
    """The posterior itself at Float[m, 2]: of no other classifier is the confidence, everywhere,
    how often it is right.
    """
    posterior = SIMULATION.posterior(X)
    return Said(posterior.argmax(axis=1), posterior.max(axis=1), posterior.max(axis=1))


def grid(n: int, reach: float = 0.95) -> np.ndarray:
    """Float[n², 2]: places of a square grid over the box up to its edge."""
    ticks = np.linspace(-reach, reach, n)
    return np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 2)


@dataclass(frozen=True)
class Population:
    """Signed local calibration error of the population at m places and b bandwidths.

    Attributes
    ----------
    slce : Float[b, m].
    mass : Float[b, m], E[k(X, x) 1[X in the bin of x]]; its smallest number is the α of the
        theorem.
    """

    slce: np.ndarray
    mass: np.ndarray


def population(places: np.ndarray, cells: int) -> Population:
    """The midpoint rule on cells² cells of the box, at Float[m, 2].

    The Laplacian kernel is a product of one of each feature, so that a sum over cells is a product
    of matrices.
    """
    ticks = (np.arange(cells) + 0.5) * 2 / cells - 1
    X = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 2)
    share, said = SIMULATION.density(X) * (2 / cells) ** 2, classify(X)
    gap, bins, bins_at = (
        said.confidence - said.accuracy,
        bin_of(said.confidence, EDGES),
        bin_of(classify(places).confidence, EDGES),
    )
    slce, mass = np.empty((2, len(BANDWIDTHS), len(places)))
    for one in np.unique(bins_at):
        inside, here = np.where(bins == one, share, 0.0), np.flatnonzero(bins_at == one)
        for b, bandwidth in enumerate(BANDWIDTHS):
            near = [
                np.exp(np.abs(places[here, axis, None] - ticks) / (-2 * bandwidth))
                for axis in (0, 1)
            ]
            total, error = (
                _double_sum(near, of.reshape(cells, cells)) for of in (inside, inside * gap)
            )
            mass[b, here], slce[b, here] = total, error / total
    return Population(slce, mass)


def _double_sum(near: Sequence[np.ndarray], of: np.ndarray) -> np.ndarray:
    """Float[m]: Σᵢⱼ near₁[m, i] of[i, j] near₂[m, j]."""
    return np.einsum("mj,mj->m", near[0] @ of, near[1])


def estimated(
    places: np.ndarray,
    n: int,
    rng: np.random.Generator,
    by: Callable[[np.ndarray], Said] = classify,
) -> np.ndarray:
    """Float[b, m]: SLCE_n at the places of what a classifier says, of a sample of ``n`` rows."""
    X, y = SIMULATION.sample(n, rng)
    said, at = by(X), by(places).confidence
    correct = said.predicted == y
    options = {"bandwidths": BANDWIDTHS, "bins": BINS, "scale": "none"}
    return local_errors(said.confidence, correct, X, at=(places, at), **options).slce


def study(scale: Scale, truth: Population) -> Iterator[tuple[int, np.ndarray]]:
    """For each size of a sample the largest error over all places, Float[draws, b]; independent
    samples from one seed each.
    """
    places = grid(scale.places)
    for n in scale.sizes:
        drawn = [
            estimated(places, n, np.random.default_rng((n, draw))) for draw in range(scale.draws)
        ]
        yield n, np.array([np.abs(found - truth.slce).max(axis=1) for found in drawn])


@dataclass(frozen=True)
class Slope:
    """Of the logarithm of an error against that of n, with the ends of its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{_two(self.value)} [{_two(self.low)}, {_two(self.high)}]"


def slope(errors: Mapping[int, np.ndarray], b: int, at_least: int = 0) -> Slope:
    """Least squares over all draws of at least so many rows: samples of all sizes are independent,
    and their logarithms vary alike.

    Parameters
    ----------
    errors : rows → Float[draws, b].
    b : which of the bandwidths.

    Examples
    --------
    >>> found = slope({100: np.array([[0.1], [0.11]]), 1000: np.array([[0.033], [0.03]]), 10_000: np.array([[0.01], [0.011]])}, 0)
    >>> round(found.value, 2), found.low < -0.5 < found.high
    (-0.5, True)
    """
    kept = {n: drawn[:, b] for n, drawn in errors.items() if n >= at_least}
    log_n = np.concatenate([np.full(len(drawn), np.log(n)) for n, drawn in kept.items()])
    fit = linregress(log_n, np.log(np.concatenate(list(kept.values()))))
    half = t.ppf(0.975, len(log_n) - 2) * fit.stderr
    return Slope(float(fit.slope), float(fit.slope - half), float(fit.slope + half))


def table(errors: Mapping[int, np.ndarray], truth: Population, quadrature: np.ndarray) -> str:
    """A row for each bandwidth: α, the error of the quadrature (Float[b]), median errors at both
    ends, and slopes.
    """
    first, last = min(errors), max(errors)
    columns = [
        "γ",
        "α",
        "error of SLCE by quadrature",
        f"median, n = {first:,}",
        f"median, n = {last:,}",
    ]
    lines = head([*columns, "slope", f"slope from n = {RATE_FROM:,}"])
    for b, bandwidth in enumerate(BANDWIDTHS):
        medians = [number(float(np.median(errors[n][:, b])), 4) for n in (first, last)]
        cells = [
            f"{bandwidth:g}",
            number(float(truth.mass[b].min()), 4),
            f"{quadrature[b]:.0e}",
            *medians,
        ]
        lines.append(line([*cells, str(slope(errors, b)), str(slope(errors, b, RATE_FROM))]))
    return "\n".join(lines)


def claims(errors: Mapping[int, np.ndarray]) -> Iterator[Claim]:
    """Theorem 1 for each bandwidth, and that it is harder where α is smaller, as the theorem's
    sample size grows with 1/α⁴.
    """
    for b, bandwidth in enumerate(BANDWIDTHS):
        found = slope(errors, b, RATE_FROM)
        text = f"the largest error falls as 1/√n up to logarithms (Theorem 1), γ = {bandwidth:g}"
        text += f": the interval of its slope reaches −.5 ± {number(TOLERANCE, 2)}"
        yield Claim(
            text,
            found.low < -0.5 + TOLERANCE and found.high > -0.5 - TOLERANCE,
            str(found),
            EFFICIENT,
        )
    medians = np.array([np.median(drawn, axis=0) for drawn in errors.values()])
    holds = bool((np.diff(medians, axis=1) < 0).all())
    text = (
        "a smaller bandwidth, with its smaller α, needs more rows for the same error (Theorem 1):"
        " at every n the median falls with γ"
    )
    yield Claim(
        text,
        holds,
        f"from γ = {BANDWIDTHS[0]:g}: "
        + ", ".join(number(float(median), 3) for median in medians[-1]),
        EFFICIENT,
    )


def _two(value: float) -> str:
    return ("−" if value < 0 else "") + number(abs(value), 2)


def main() -> None:
    """Print the table and save the figure."""
    parser = study_parser(__doc__, keep=True)
    parser.add_argument(
        "--scale", choices=list(SCALES), default="smoke", help="how many rows, samples and places"
    )
    parser.add_argument(
        "--figures", type=Path, default=Path("outputs/p4_theorem1"), help="where the picture goes"
    )
    given = parser.parse_args()
    scale, start = SCALES[given.scale], time.monotonic()
    truth, coarser = (
        population(grid(scale.places), cells) for cells in (scale.cells, scale.cells // 2)
    )
    errors = {}
    for n, found in study(scale, truth):
        errors[n] = found
        print(
            f"{scale.draws} samples of {n:,} rows ({time.monotonic() - start:.0f} s)",
            file=sys.stderr,
            flush=True,
        )
    print(
        f"sup over {scale.places}² places, {scale.draws} samples of each size, {BINS} bins; slopes"
        " with 95 % intervals\n"
    )
    print(table(errors, truth, np.abs(truth.slce - coarser.slce).max(axis=1)) + "\n")
    print_claims(claims(errors), given.keep, "p4_theorem1")
    save_picture(draw(errors), given.figures / "theorem1", Path(__file__).parent)


def draw(errors: Mapping[int, np.ndarray]) -> Figure:
    """The figure of rows → Float[draws, b]."""
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
