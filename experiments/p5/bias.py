"""How the line of Torres et al., Section 4.1, is wrong here and there, and what k neighbours leave
of it (Section 3): bias and variance.

``python -m experiments.p5.bias --keep outputs`` draws its own samples (two minutes of a core),
prints a table of each, and leaves in a folder of runs what they say of the paper's sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pandas as pd
from sklearn.frozen import FrozenEstimator

from experiments.common.claims import Claim, below, in_every_seed
from experiments.common.command import claims_parser, print_claims
from experiments.common.markdown import head, line, number
from experiments.p5.line import CALIBRATION_ROWS, SAMPLES, TRAINING_ROWS
from kdgraph.data.simulations import Heteroscedastic
from kdgraph.parents import GaussianLinear
from kdgraph.recalibration import LocalPit

KS = 250, 500, 1000, 2000, 4000
"""Numbers of neighbours, the paper's third among them."""
OF_K = 200
"""Samples that bias and variance are told apart by."""
PLACES = 200
"""Values of x, evenly spread, at which means are compared with the true ones."""
CELLS = 20
"""Of x, equally wide, of about 500 calibration rows each."""
UNIFORM = 1 / 12
"""Variance of PIT values where the predictive distribution is right."""
BEYOND = 3.0
"""Standard errors: of 20 cells of uniform values one is so far off in one sample of 20."""
SMALLER_K, TWO_BIASES = ("small_k",), ("two_biases",)
"""Sentences of ``claims.csv``."""
NAME = "p5_bias"


def errors(samples: int, ks: tuple[int, ...] = KS) -> dict[int, np.ndarray]:
    """Float[samples, places] by k: predicted less true mean of the line after local recalibration
    by k neighbours, in raw units.
    """
    problem = Heteroscedastic()
    X = np.linspace(problem.low, problem.high, 2 * PLACES + 1)[1::2, None]
    true = problem.distribution(X).mean()
    found: dict[int, list[np.ndarray]] = {k: [] for k in ks}
    for seed in range(samples):
        fitted, held, y = _line(seed, problem)
        for k in ks:
            model = LocalPit(FrozenEstimator(fitted), units="raw", k=k).fit(
                held, y, X_calibration=held, y_calibration=y
            )
            found[k].append(model.predict(X) - true)
    return {k: np.array(each) for k, each in found.items()}


def _line(seed: int, problem: Heteroscedastic) -> tuple[GaussianLinear, np.ndarray, np.ndarray]:
    """The line of a sample, and its calibration rows."""
    rng = np.random.default_rng(seed)
    return GaussianLinear().fit(*problem.sample(TRAINING_ROWS, rng)), *problem.sample(
        CALIBRATION_ROWS, rng
    )


def split_error(error: np.ndarray) -> pd.DataFrame:
    """Mean squared error, squared bias and variance over the places, each without bias of its own,
    of Float[s, p] of s samples.

    Returns
    -------
    DataFrame
        A row for each sample, whose means are the estimates: ``mse``, ``bias`` (pseudo-values of
        the jackknife: the squared bias is the mean product of the errors of two samples), and
        ``variance``, the difference.
    """
    n, total = len(error), error.sum(axis=0)
    own = np.square(error).mean(axis=1)
    whole = (np.square(total).mean() - own.sum()) / (n * (n - 1))
    without = (np.square(total - error).mean(axis=1) - (own.sum() - own)) / ((n - 1) * (n - 2))
    bias = n * whole - (n - 1) * without
    return pd.DataFrame({"mse": own, "bias": bias, "variance": own - bias})


def of_k(parts: dict[int, pd.DataFrame]) -> Iterator[Claim]:
    """What Section 3 says of k, of k → what :func:`split_error` gives."""
    ks = sorted(parts)
    for small, large in pairwise(ks):
        text = (
            f"the squared bias of the mean is smaller with k = {small:,} than with k = {large:,}"
            " (the line of Table 1)"
        )
        yield from below(text, parts[small].bias, parts[large].bias, SMALLER_K)
        text = (
            f"the variance of the mean over samples is smaller with k = {large:,} than with k ="
            f" {small:,} (the line of Table 1)"
        )
        yield from below(text, parts[large].variance, parts[small].variance, SMALLER_K)
    mse = {k: float(parts[k].mse.mean()) for k in ks}
    best = min(mse, key=lambda k: mse[k])
    told = ", ".join(f"k = {k:,} {value:.4g}" for k, value in mse.items())
    text = f"their sum is least at neither end of k = {ks[0]:,} to {ks[-1]:,} (the line of Table 1)"
    yield Claim(
        text, best not in (ks[0], ks[-1]), f"{told}, means of {len(parts[best])} samples", SMALLER_K
    )


def cells(samples: int) -> pd.DataFrame:
    """Of each cell of x of each sample: ``seed, cell, variance, error, line, truth``.

    The variance of the line's PIT values on calibration rows and its standard error; the line's
    variance of y, and the mean of the true.
    """
    problem, found = Heteroscedastic(), []
    edges = np.linspace(problem.low, problem.high, CELLS + 1)[1:-1]
    for seed in range(samples):
        fitted, X, y = _line(seed, problem)
        said = fitted.predict_dist(X)
        pits, of = said.cdf(y), np.digitize(X[:, 0], edges)
        for cell in range(CELLS):
            rows = of == cell
            apart = np.square(pits[rows] - pits[rows].mean())
            error = apart.std() / np.sqrt(rows.sum())
            variances = {
                "line": said.var()[rows].mean(),
                "truth": problem.distribution(X[rows]).var().mean(),
            }
            found.append(
                {"seed": seed, "cell": cell, "variance": apart.mean(), "error": error, **variances}
            )
    return pd.DataFrame(found)


def of_cells(frame: pd.DataFrame) -> Iterator[Claim]:
    """What Section 4.1 says of the histogram, of the numbers of :func:`cells`."""
    off = (frame.variance - UNIFORM) / frame.error
    by_sample = off.groupby(frame.seed)
    text = (
        f"of {CELLS} cells of x one has PIT values of the line whose variance is more than"
        f" {BEYOND:g} standard errors above 1/12"
    )
    text += ", and another one whose variance is as far below it"
    yield from in_every_seed(
        text,
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
    yield Claim(
        text,
        bool(agree.all() and len(sure)),
        f"In {int(agree.sum())} of {len(sure)} such cells of all samples",
        TWO_BIASES,
    )


def told(parts: dict[int, pd.DataFrame], frame: pd.DataFrame) -> str:
    """Both tables: by k, and by cell of x over all samples; markdown."""
    lines = head(["k", "squared bias", "variance", "MSE to the true mean"])
    lines += [
        line(
            [
                f"{k:,}",
                *(number(float(part[name].mean()), 1) for name in ("bias", "variance", "mse")),
            ]
        )
        for k, part in parts.items()
    ]
    below_it = head(
        ["cell of x", "variance of PIT values, times 12", "true variance over the line's"]
    )
    means = frame.groupby("cell").mean()
    below_it += [
        line(
            [str(1 + int(str(cell))), number(12 * row.variance, 2), number(row.truth / row.line, 2)]
        )
        for cell, row in means.iterrows()
    ]
    return "\n".join([*lines, "", *below_it])


def main() -> None:
    """Print both tables and the verdicts."""
    parser = claims_parser(__doc__)
    given = parser.parse_args()
    parts = {k: split_error(error) for k, error in errors(OF_K).items()}
    frame = cells(SAMPLES)
    claims = [*of_k(parts), *of_cells(frame)]
    print(told(parts, frame) + "\n")
    print_claims(claims, given.keep, NAME)


if __name__ == "__main__":
    main()
