"""Models that were fitted elsewhere, read from their files and used as parents.

:func:`load_fitted` reads a file of skops, joblib, torch, ONNX, XGBoost, LightGBM or CatBoost, or
takes a Python function by its import path, and returns a :class:`FittedParent`.
"""

from kdgraph.fitted.parent import FittedParent, load_fitted
from kdgraph.fitted.partition import FittedPartition

__all__ = ["FittedParent", "FittedPartition", "load_fitted"]
