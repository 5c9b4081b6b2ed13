"""Several sources of rows out of distribution in one run."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import Literal

import numpy as np

from kdgraph.data.dataset import OodSet, Splits
from kdgraph.data.ood.rows import a_seed
from kdgraph.data.sources import OodSource
from kdgraph.errors import NotAtHand, ParameterError
from kdgraph.parameters import check_parameters


class Several:
    """The sets of several sources, named by their keys. Ours: in one run, from near to far.

    A source that gives one set gives it the name of its key; of a source with more, each set has its own name behind the key
    (``far/sphere``), or the key alone where that is its own name. Each source has a generator of its own, made of one draw and its key, so
    that one can be added or taken away without a change to the others.

    Parameters
    ----------
    sources : key → source of out-of-distribution rows.
    missing : what becomes of a source whose rows are not at hand: data that cannot be fetched, a file that is not there, classes of which
        none is left out. "refuse" is an error; "skip" goes on without it and warns. A run that is done is not done again when such rows
        come to hand: give ``force=true``.
    """

    def __init__(self, sources: Mapping[str, OodSource], missing: Literal["refuse", "skip"] = "refuse") -> None:
        self.sources = sources
        self.missing = missing
        check_parameters(self)
        for key, source in sources.items():
            if not hasattr(source, "sets"):
                raise ParameterError(f"sources.{key} must be a source of out-of-distribution rows, got {source!r}")
        if not sources:
            raise ParameterError("sources must name at least one source of out-of-distribution rows, got none; or choose ood=none")

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Make sure that what the sources need is on this machine.

        Raises
        ------
        NotAtHand
            If something is not, and ``missing`` is "refuse".
        """
        for key, source in self.sources.items():
            if (fetch := getattr(source, "prefetch", None)) is None:
                continue
            try:
                fetch(progress)
            except NotAtHand as error:
                if self.missing == "refuse":
                    raise
                if progress is not None:
                    progress(_skipped(key, error))

    def absent(self) -> list[str]:
        """Keys of the sources that are left out here, of those that can tell before a split; none where a missing one is refused."""
        if self.missing == "refuse":
            return []
        return [key for key, source in self.sources.items() if not _is_at_hand(source)]

    def sets(self, splits: Splits, rng: np.random.Generator) -> Iterator[OodSet]:
        """The sets of each source in turn, drawn when they are asked for.

        Raises
        ------
        NotAtHand
            If rows are not at hand, and ``missing`` is "refuse".
        """
        family = a_seed(rng)
        for key, source in self.sources.items():
            generator = np.random.default_rng([family, zlib.crc32(key.encode())])
            try:
                yield from _named(key, source.sets(splits, generator))
            except NotAtHand as error:
                if self.missing == "refuse":
                    raise
                warnings.warn(_skipped(key, error), stacklevel=2)


def _skipped(key: str, error: NotAtHand) -> str:
    return f"{key} is skipped: {error}"


def _is_at_hand(source: OodSource) -> bool:
    fetch = getattr(source, "prefetch", None)
    try:
        if fetch is not None:
            fetch()
    except NotAtHand:
        return False
    return True


def _named(key: str, sets: Iterable[OodSet]) -> Iterator[OodSet]:
    """The sets by the name of the source; whether there is more than one is known when two are drawn."""
    drawn = iter(sets)
    first = list(islice(drawn, 2))
    for each in chain(first, drawn):
        name = key if len(first) == 1 or each.name == key else f"{key}/{each.name}"
        facts = {**each.facts, "set": each.name} if each.facts and name == key != each.name else each.facts
        yield replace(each, name=name, facts=facts)
