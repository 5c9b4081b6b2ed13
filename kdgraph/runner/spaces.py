"""Spaces in which local metrics measure: feature maps of a run's parent, embedded once for all
methods on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kdgraph.config.components import Node, build
from kdgraph.data.dataset import Splits
from kdgraph.runner.measure import labelled_rows
from kdgraph.runner.stages import stage_rng

Keep = Callable[[str, Callable[[], Any]], Any]
"""(name, how to make it) → what was kept under that name, or is made and kept now."""


class Spaces:
    """Rows of a run in the spaces that its config names (Luo et al., Section 3.2), each made when
    it is asked for first.

    A map is fitted on the very rows that are measured, without their labels, as a metric's unit of
    distance is; so every method on one parent is measured in the same space, and t-SNE needs no
    place for other rows.

    Parameters
    ----------
    nodes : name → node of a :class:`~kdgraph.features.FeatureMap`, as ``metrics.spaces`` has them.
    parent : the fitted parent.
    splits, seed : of the run.
    keep : where an embedding is looked for and kept; None: nowhere.
    """

    def __init__(
        self,
        nodes: Mapping[str, Node],
        parent: Any,
        splits: Splits,
        seed: int,
        keep: Keep | None = None,
    ) -> None:
        self.nodes, self.parent, self.splits, self.seed = nodes, parent, splits, seed
        self.keep: Keep = keep or (lambda name, make: make())
        self._made: dict[tuple[str, str], np.ndarray] = {}

    def __call__(self, name: str, on: str) -> np.ndarray:
        """Float64[n, m]: the rows ``on`` ("test", "calibration") in the space of that name; the
        same array each time.
        """
        if (name, on) not in self._made:
            self._made[name, on] = self.keep(f"{name} {on}", lambda: self._embedded(name, on))
        return self._made[name, on]

    def _embedded(self, name: str, on: str) -> np.ndarray:
        X = labelled_rows(self.splits)[on].X
        seed = int(stage_rng(self.seed, f"space {name} {on}").integers(2**31 - 1))
        return (
            build(self.nodes[name], random_state=seed).fit(self.parent, X).transform(self.parent, X)
        )
