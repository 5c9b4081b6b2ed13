"""kdgraph: trained models that are honest about what they do not know."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kdgraph.density import DensityGate, KernelDensityForest, KernelDensityNetwork
    from kdgraph.deployment.onnx_export import export_onnx
    from kdgraph.detection import ScoreGate
    from kdgraph.fitted import load_fitted
    from kdgraph.geometry import partition_of
    from kdgraph.parents.networks import TorchClassifier
    from kdgraph.persistence import load, save

__version__ = "0.1.0"
__all__ = [
    "DensityGate",
    "KernelDensityForest",
    "KernelDensityNetwork",
    "ScoreGate",
    "TorchClassifier",
    "__version__",
    "export_onnx",
    "load",
    "load_fitted",
    "partition_of",
    "save",
]

_WHERE = {
    "DensityGate": "kdgraph.density",
    "KernelDensityForest": "kdgraph.density",
    "KernelDensityNetwork": "kdgraph.density",
    "ScoreGate": "kdgraph.detection",
    "TorchClassifier": "kdgraph.parents.networks",
    "export_onnx": "kdgraph.deployment.onnx_export",
    "load": "kdgraph.persistence",
    "load_fitted": "kdgraph.fitted",
    "partition_of": "kdgraph.geometry",
    "save": "kdgraph.persistence",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first access: ``kdg --help`` waits for no scikit-learn or torch."""
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'kdgraph' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
