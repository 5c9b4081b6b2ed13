"""Versions of the kernel density graph: kdgraph's own and the published ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OWN = "kdgraph"


def version_of(calibrator: Mapping[str, Any]) -> str:
    """Return the version of the config of a calibrator: "kdgraph", "paper", "reference", "figure1".

    >>> version_of({"_target_": "kdgraph.density.published.Figure1Network"})
    'figure1'
    """
    module, _, name = str(calibrator.get("_target_")).rpartition(".")
    if module != "kdgraph.density.published":
        return OWN
    return name.removesuffix("Forest").removesuffix("Network").lower()
