"""Local calibration error as tables: over the plane of two features, and against the bandwidth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kdgraph.metrics.local.errors import Scale, around, summary
from kdgraph.metrics.registry import table
from kdgraph.metrics.top_label import Top
from kdgraph.parameters import Count, Positive
from kdgraph.smoothing import Kernel

BANDWIDTHS = (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8)
"""Around the paper's 0.2 and 0.4, from one row's own error to that of its whole bin."""


@table("SLCE by row")
def slce(
    y: np.ndarray,
    top: Top,
    X: np.ndarray,
    *,
    bandwidth: Positive = 0.2,
    bins: Count = 15,
    scale: Scale = "rms",
    kernel: Kernel = "laplacian",
    leave_one_out: bool = False,
) -> Mapping[str, np.ndarray]:
    """The signed local calibration error of every row.

    Columns are ``confidence``, ``correct``, ``slce`` (above 0 where the model is too sure), ``n_eff`` (effective number of rows behind it),
    ``bin_count`` (rows in its bin of confidence) and ``bandwidth``, the same everywhere.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    X : Float[n, d], features, or images.
    bandwidth, bins, scale, kernel, leave_one_out : as of :func:`local_errors`.

    References
    ----------
    Luo et al., UAI 2022, Eq. 4 and 7.

    Examples
    --------
    >>> y, proba, X = [0, 0, 1, 1], [[0.75, 0.25]] * 4, [[0.0], [0.1], [1.0], [1.1]]
    >>> slce(y, proba, X)["slce"].round(2).tolist()
    [-0.25, -0.25, 0.75, 0.75]
    """
    found = around(y, top, X, [bandwidth], bins, scale, kernel, leave_one_out)
    measured = {"slce": found.slce[0], "n_eff": found.n_eff[0], "bin_count": found.count}
    return {"confidence": top.confidence, "correct": top.correct(y), **measured, "bandwidth": np.full(len(X), float(bandwidth))}


@table("LCE map")
def lce_map(
    y: np.ndarray,
    top: Top,
    X: np.ndarray,
    *,
    bandwidth: Positive = 0.2,
    bins: Count = 15,
    scale: Scale = "rms",
    kernel: Kernel = "laplacian",
    leave_one_out: bool = False,
) -> Mapping[str, np.ndarray]:
    """:func:`slce` with the place of every row; no rows unless there are exactly two features, or a space of two dimensions.

    Columns are ``x1, x2`` (the features) and those of :func:`slce`.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    X : Float[n, 2]; of any other shape there is no map.
    bandwidth, bins, scale, kernel, leave_one_out : as of :func:`local_errors`.

    References
    ----------
    Luo et al., UAI 2022, Figure 2.
    """
    if X.shape[1:] != (2,):
        return {}
    options = {"bandwidth": bandwidth, "bins": bins, "scale": scale, "kernel": kernel, "leave_one_out": leave_one_out}
    return {"x1": X[:, 0], "x2": X[:, 1], **slce(y, top, X, **options)}


@table("LCE by bandwidth")
def lce_by_bandwidth(
    y: np.ndarray,
    top: Top,
    X: np.ndarray,
    *,
    bandwidths: Sequence[Positive] = BANDWIDTHS,
    bins: Count = 15,
    scale: Scale = "rms",
    kernel: Kernel = "laplacian",
    min_count: Count = 1,
    leave_one_out: bool = False,
) -> Mapping[str, np.ndarray]:
    """:func:`lce` and :func:`mlce` at each bandwidth; distances are computed once for all of them.

    Columns are ``bandwidth, lce, mlce, n_eff`` (the median over rows of the effective number of rows) and ``mlce_n_eff`` (that of the row
    with the largest error).

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    X : Float[n, d], features, or images.
    bandwidths : γ, as many as wanted, in the order of the table.
    bins, scale, kernel, leave_one_out : as of :func:`local_errors`.
    min_count : as of :func:`mlce`.

    References
    ----------
    Luo et al., UAI 2022, Figures 1, 3 and 5 to 19.
    """
    found = around(y, top, X, bandwidths, bins, scale, kernel, leave_one_out)
    return {"bandwidth": np.asarray(bandwidths, dtype=np.float64), **summary(found, min_count)}
