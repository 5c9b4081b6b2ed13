"""Base class of the sources of out-of-distribution rows. Original to kdgraph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from kdgraph.data.dataset import OodSet, Splits
from kdgraph.data.source import Source
from kdgraph.parameters import Count


@dataclass(eq=False, repr=False)
class OodRows(Source, ABC):
    """Source of out-of-distribution rows, which have the shape and type of the training rows.

    Parameters
    ----------
    n : int, default=1000
        Number of rows of each set.
    """

    n: Count = field(default=1000, kw_only=True)

    @abstractmethod
    def sets(self, splits: Splits, rng: np.random.Generator) -> Iterable[OodSet]:
        """Return sets of rows, or generate them one at a time.

        Parameters
        ----------
        splits : Splits
            Rows of each role, scaled.
        rng : Generator
            Source of all random numbers.

        Raises
        ------
        DataError
            If the source cannot make rows like the training rows.
        DataNotAvailable
            If the rows have to be fetched and cannot be, or do not exist.
        """
