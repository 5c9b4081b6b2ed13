"""The figures of one run: which ones its rows and models allow, and the arrays that they are drawn from.

A figure is a function decorated with :func:`run_figure` in a module of this folder: it takes a :class:`Drawing`, gives a matplotlib figure
or None where the run does not have what it shows, and its other parameters are its options in ``conf/figures/``. What is drawn with which
lines and colours is the business of :mod:`kdgraph.figures`.
"""

from kdgraph.figures.of_run.drawing import Drawing
from kdgraph.figures.of_run.registry import run_figure, run_figures

__all__ = ["Drawing", "run_figure", "run_figures"]
