"""Splits for tests of what is out of distribution, which mostly ask what the training rows are."""

from __future__ import annotations

from kdgraph.data.dataset import Dataset, Scaling, Splits


def on(train: Dataset, scaling: Scaling | None = None) -> Splits:
    """Splits whose roles all have these rows, which ``scaling`` has scaled."""
    return Splits(train, train, train, scaling or Scaling())
