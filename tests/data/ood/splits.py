"""Splits for tests of out-of-distribution sources, which mostly depend on the training rows."""

from __future__ import annotations

from kdgraph.data.dataset import Dataset, Splits
from kdgraph.data.scaling import Scaling


def identical_splits(train: Dataset, scaling: Scaling | None = None) -> Splits:
    """Return splits in which every role has the same rows, already scaled by ``scaling``."""
    return Splits(train, train, train, scaling or Scaling())
