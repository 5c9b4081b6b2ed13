"""The calibration error without bins, by the library of its authors, which is an extra."""

from __future__ import annotations

import numpy as np

from kdgraph.metrics.registry import METRICS, check_package, metric
from kdgraph.metrics.top_label import Top


@metric("smooth ECE", better="lower", package=("relplot", "smooth"))
def smooth_ece(y: np.ndarray, top: Top) -> float:
    """Measure the smooth calibration error of top-label confidence, in [0, 1]: no bins, so no edges and nothing to choose.

    Right minus stated is smoothed over confidence by a Gaussian that is reflected at 0 and 1; its width is where the smoothed error equals
    the width itself. It is another number than an ECE of any number of bins: compare it with itself.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.

    Raises
    ------
    ConfigError
        relplot is not installed; a run is refused before it starts. It draws too: its import brings seaborn and pyplot along, in half a
        second, and sets nothing.

    References
    ----------
    Błasiok, Nakkiran, "Smooth ECE: principled reliability diagrams via kernel smoothing", ICLR 2024, as ``relplot.smECE`` computes it.
    """
    check_package(METRICS["smooth_ece"])
    from relplot.metrics import smECE  # pyright: ignore[reportMissingImports]

    confidence = np.clip(np.asarray(top.confidence, dtype=np.float64), 0, 1)  # it counts on a grid from 0 to 1
    return float(smECE(confidence, top.correct(y).astype(np.float64)))
