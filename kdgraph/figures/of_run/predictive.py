"""Predictive densities of single rows, of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kdgraph.errors import ConfigError
from kdgraph.figures.of_run.drawing import Drawing
from kdgraph.figures.of_run.registry import run_figure
from kdgraph.parameters import Count

_QUANTILES = 400
"""Of a distribution without a density, whose density is estimated from them."""


_SHOWN = 1e-3
"""Mass of a recalibrated or true distribution at either end that is not drawn; of the parent, which may be far wider, the outer quarters
need not be."""


@run_figure("predictive_densities")
def predictive_densities_of_run(run: Drawing, rows: Sequence[int] = (), n_rows: Count = 4) -> Any:
    """Densities of single test rows before and after recalibration, with the true one where it is known, and the outcome.

    Parameters
    ----------
    rows : positions of test rows, up to five; none: ``n_rows`` of them, evenly spaced in the order of the parent's means.
    n_rows : how many then, up to five.

    Notes
    -----
    Of a distribution without a density, as an empirical one behind a recalibrator is, 400 quantiles are smoothed by scipy's
    ``gaussian_kde``, whose bandwidth rule (Scott's) widens what has several peaks.
    """
    from kdgraph.figures import predictive_densities as draw

    said, truth = run.said("distribution", run.test), run.test.truth
    if said is None:
        return None
    if bad := [row for row in rows if not 0 <= row < run.test.n]:
        raise ConfigError(f"figures.draw.predictive_densities.rows must be in 0 to {run.test.n - 1}, got {bad[0]}")
    if max(len(rows), n_rows) > 5:
        raise ConfigError(f"figures.draw.predictive_densities draws five rows at most, got {max(len(rows), n_rows)}")
    if not rows:
        order = np.argsort(said[run.names[0]].mean(), kind="stable")
        rows = order[((np.arange(n_rows) + 0.5) / n_rows * len(order)).astype(int)].tolist()
    every = said if truth is None else {**said, "truth": truth}
    y = np.asarray(run.test.y)
    return draw([predicted_row(f"test row {i}{_where(run, i)}", {n: each[i : i + 1] for n, each in every.items()}, y[i]) for i in rows])


def predicted_row(title: str, said: Mapping[str, Any], y: float) -> Any:
    """A panel of :func:`kdgraph.figures.predictive_densities`: where the distributions of one row have their mass, and its outcome.

    Parameters
    ----------
    title : of the panel.
    said : name → distribution of one row; the first is the parent's.
    y : the outcome.
    """
    from kdgraph.figures import PredictedRow

    outside = [0.25 if i == 0 else _SHOWN for i in range(len(said))]
    ends = [y, *(end for given, mass in zip(said.values(), outside, strict=True) for end in given.ppf(np.array([mass, 1 - mass]))[0])]
    room = 0.15 * float(np.ptp(ends))  # into which the kernel reaches
    at = np.linspace(min(ends) - room, max(ends) + room, 600)
    return PredictedRow(title, at, {name: _density(given, at) for name, given in said.items()}, float(y))


def _where(run: Drawing, row: int) -> str:
    """The row's features, where there are no more than two."""
    X, names = run.splits.test.X, run.splits.test.feature_names
    return "".join(f" · {name} = {X[row, i]:.3g}" for i, name in enumerate(names)) if X.ndim == 2 and X.shape[1] <= 2 else ""


def _density(given: Any, at: np.ndarray) -> np.ndarray:
    """Float[m] of the distribution of one row."""
    if hasattr(given, "pdf"):
        return given.pdf(at[None])[0]
    from scipy.stats import gaussian_kde

    return gaussian_kde(given.ppf((np.arange(_QUANTILES) + 0.5) / _QUANTILES)[0])(at)
