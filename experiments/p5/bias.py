"""Bias and variance of local recalibration of the line of Torres et al. by k (Section 3), and the
variance of its PIT values by place (Section 4.1).

``python -m experiments.p5.bias --keep outputs`` draws its own samples (two minutes of a core),
prints a table of each, and saves the claims on them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pandas as pd
from sklearn.frozen import FrozenEstimator

from experiments.common.claims import Claim, below, in_every_seed
from experiments.common.command import print_claims, study_options
from experiments.common.markdown import number, table
from experiments.p5.line import CALIBRATION_ROWS, SAMPLES, TRAINING_ROWS
from kdgraph.data.simulations import Heteroscedastic
from kdgraph.parents import GaussianLinear
from kdgraph.recalibration import LocalPit

KS = 250, 500, 1000, 2000, 4000  # Numbers of neighbours, the paper's third among them
N_SAMPLES = 200  # Samples that separate bias from variance
PLACES = 200  # Values of x, evenly spread, at which means are compared with the true ones
CELLS = 20  # Cells of x, equally wide, with about 500 calibration rows each
UNIFORM = 1 / 12  # Variance of PIT values of the right predictive distribution
BEYOND = 3.0  # Standard errors: of 20 cells of uniform values one is so far off in one sample of 20
SMALLER_K, TWO_BIASES = ("small_k",), ("two_biases",)
NAME = "p5_bias"


def errors(samples: int, ks: tuple[int, ...] = KS) -> dict[int, np.ndarray]:
    """Return k → Float[samples, places], predicted less true mean after local recalibration."""
    problem = Heteroscedastic()
    X = np.linspace(problem.low, problem.high, 2 * PLACES + 1)[1::2, None]
    true = problem.distribution(X).mean()
    errors: dict[int, list[np.ndarray]] = {k: [] for k in ks}
    for seed in range(samples):
        line, held, y = _line(seed, problem)
        for k in ks:
            model = LocalPit(FrozenEstimator(line), units="raw", k=k)
            model.fit(held, y, X_calibration=held, y_calibration=y)
            errors[k].append(model.predict(X) - true)
    return {k: np.array(each) for k, each in errors.items()}


def _line(seed: int, problem: Heteroscedastic) -> tuple[GaussianLinear, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    line = GaussianLinear().fit(*problem.sample(TRAINING_ROWS, rng))
    return line, *problem.sample(CALIBRATION_ROWS, rng)


def split_error(error: np.ndarray) -> pd.DataFrame:
    """Return unbiased estimates of mean squared error, squared bias and variance over the places.

    Of errors Float[s, p] of s samples it has a row for each sample, whose means are the estimates:
    ``mse``, ``bias`` (pseudo-values of the jackknife: the squared bias is the mean product of the
    errors of two samples), and ``variance``, the difference.
    """
    # The square of a mean error has the variance of that mean in it. The products of errors of two
    # different samples do not, and their sum is (Σe)² − Σe²; ``without`` is the same of all samples
    # but one.
    n, total = len(error), error.sum(axis=0)
    own = np.square(error).mean(axis=1)
    whole = (np.square(total).mean() - own.sum()) / (n * (n - 1))
    without = (np.square(total - error).mean(axis=1) - (own.sum() - own)) / ((n - 1) * (n - 2))
    bias = n * whole - (n - 1) * without
    return pd.DataFrame({"mse": own, "bias": bias, "variance": own - bias})


def claims_on_k(parts: dict[int, pd.DataFrame]) -> Iterator[Claim]:
    """Yield the claims of Section 3 on k, of k → :func:`split_error`."""
    ks = sorted(parts)
    for small, large in pairwise(ks):
        text = (
            f"the squared bias of the mean is smaller with k = {small:,} than"
            f" with k = {large:,} (the line of Table 1)"
        )
        yield from below(text, parts[small].bias, parts[large].bias, SMALLER_K)
        text = (
            f"the variance of the mean over samples is smaller with k = {large:,} than with k ="
            f" {small:,} (the line of Table 1)"
        )
        yield from below(text, parts[large].variance, parts[small].variance, SMALLER_K)
    mse = {k: float(parts[k].mse.mean()) for k in ks}
    best = min(mse, key=lambda k: mse[k])
    by_k = ", ".join(f"k = {k:,} {value:.4g}" for k, value in mse.items())
    text = f"their sum is least at neither end of k = {ks[0]:,} to {ks[-1]:,} (the line of Table 1)"
    evidence = f"{by_k}, means of {len(parts[best])} samples"
    yield Claim(text, best not in (ks[0], ks[-1]), evidence, SMALLER_K)


def cells(samples: int) -> pd.DataFrame:
    """Return ``seed, cell, variance, error, line, truth`` of each cell of x of each sample.

    The variance of the line's PIT values on calibration rows and its standard error; the line's
    variance of y, and the mean of the true one.
    """
    problem, rows = Heteroscedastic(), []
    edges = np.linspace(problem.low, problem.high, CELLS + 1)[1:-1]
    for seed in range(samples):
        line, X, y = _line(seed, problem)
        predicted = line.predict_dist(X)
        pits, cell_of = predicted.cdf(y), np.digitize(X[:, 0], edges)
        for cell in range(CELLS):
            inside = cell_of == cell
            squares = np.square(pits[inside] - pits[inside].mean())
            error = squares.std() / np.sqrt(inside.sum())
            true = problem.distribution(X[inside]).var().mean()
            rows.append((seed, cell, squares.mean(), error, predicted.var()[inside].mean(), true))
    return pd.DataFrame(rows, columns=["seed", "cell", "variance", "error", "line", "truth"])


def claims_on_cells(frame: pd.DataFrame) -> Iterator[Claim]:
    """Yield the claims of Section 4.1 on the histogram, of :func:`cells`."""
    off = (frame.variance - UNIFORM) / frame.error
    by_sample = off.groupby(frame.seed)
    yield from in_every_seed(
        f"of {CELLS} cells of x one has PIT values of the line whose variance is more than"
        f" {BEYOND:g} standard errors above 1/12, and another one"
        " whose variance is as far below it",
        pd.concat([by_sample.max(), -by_sample.min()], axis=1).min(axis=1),
        TWO_BIASES,
        least=BEYOND,
    )
    sure = frame[off.abs() > BEYOND]
    agree = (sure.variance > UNIFORM) == (sure.truth > sure.line)
    text = (
        "where they are so far off, the line's variance is below the true one where PIT values vary"
        " more, above it where they vary less"
    )
    evidence = f"In {int(agree.sum())} of {len(sure)} such cells of all samples"
    yield Claim(text, bool(agree.all() and len(sure)), evidence, TWO_BIASES)


def tables(parts: dict[int, pd.DataFrame], frame: pd.DataFrame) -> str:
    """Return the tables by k, and by cell of x over all samples."""
    by_k = table(
        ["k", "squared bias", "variance", "MSE to the true mean"],
        (
            [f"{k:,}", *(number(float(part[x].mean()), 1) for x in ("bias", "variance", "mse"))]
            for k, part in parts.items()
        ),
    )
    by_cell = table(
        ["cell of x", "variance of PIT values, times 12", "true variance over the line's"],
        (
            [str(1 + int(str(cell))), number(12 * row.variance, 2), number(row.truth / row.line, 2)]
            for cell, row in frame.groupby("cell").mean().iterrows()
        ),
    )
    return f"{by_k}\n\n{by_cell}"


def main() -> None:
    """Print both tables and the verdicts."""
    options = study_options(__doc__, keep=True)
    parts = {k: split_error(error) for k, error in errors(N_SAMPLES).items()}
    frame = cells(SAMPLES)
    print(tables(parts, frame) + "\n")
    print_claims([*claims_on_k(parts), *claims_on_cells(frame)], options.keep, NAME)


if __name__ == "__main__":
    main()
