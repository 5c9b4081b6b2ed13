"""kdgraph: trained models that are honest about what they do not know."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_WHERE = {
    "KernelDensityForest": "kdgraph.density",
    "DensityGate": "kdgraph.density",
    "partition_of": "kdgraph.geometry",
}
__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: ``kdg --help`` must not wait for scikit-learn."""
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'kdgraph' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
