"""Optional libraries: whether one is installed, and the command that installs it."""

from __future__ import annotations

import shlex
from importlib.util import find_spec

_INSTALLED_BY = {
    "catboost": "kdgraph[boosting]",
    "distributed": "kdgraph[dask]",
    "lightgbm": "kdgraph[boosting]",
    "mlflow": "kdgraph[mlflow]",
    "ngboost": "ngboost",
    "onnx": "kdgraph[onnx]",
    "onnxruntime": "kdgraph[onnx]",
    "openpyxl": "kdgraph[excel]",
    "pyarrow": "pyarrow",
    "quantile_forest": "quantile-forest",
    "ray": "kdgraph[ray]",
    "relplot": "kdgraph[smooth]",
    "skops": "kdgraph[skops]",
    "submitit": "kdgraph[cluster]",
    "torch": "kdgraph[torch]",
    "transformers": "kdgraph[encoders]",
    "umap": "kdgraph[umap]",
    "wandb": "kdgraph[wandb]",
    "xgboost": "kdgraph[boosting]",
}
"""Name under which a library is imported → what pip installs."""


def is_installed(library: str) -> bool:
    """Return whether a library can be found under the name that imports it; it is not imported."""
    return find_spec(library) is not None


def needs_library(subject: str, library: str) -> str:
    """Return the line for something that needs a library which is not installed.

    Without a subject, it continues a line that begins with one.

    >>> needs_library("logger=wandb", "wandb")
    "logger=wandb needs wandb: pip install 'kdgraph[wandb]'"
    """
    package = _INSTALLED_BY[library]
    return f"{subject} needs {library}: pip install {shlex.quote(package)}".lstrip()


def missing_library(error: BaseException) -> str | None:
    """Return the optional library whose absence is the reason of an import error.

    None where the error has another reason, as a module of the user's own that is not found has.
    """
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    library = (name or "").partition(".")[0]
    return library if library in _INSTALLED_BY else None
