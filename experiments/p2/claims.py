"""What Salamon et al. say in words, asked of runs: each function is named by sentences of ``claims.csv``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from experiments.common.claims import Claim, kept
from experiments.p2.figures import claims as of_phanns
from experiments.p2.figures import densities
from experiments.p2.figures.study import LABELS, study_of

HALVES = 3
"""Times that the rows are halved, to ask of rows that were not fitted."""
HELD_OUT = {"always_calibrate", "cannot_hurt", "b_mon2_generalises"}
"""Sentences that say something of new rows."""


def phanns(folder: Path) -> Iterator[Claim]:
    """Of the counts of PhANNs, in sample as in the paper, and where new rows are meant of halves: ``paper/p2/phanns``."""
    study = study_of(folder)
    if study is None or not set(LABELS) <= set(study.models):
        return
    yield from of_phanns.claims(study)
    yield from of_phanns.of_added(study, densities.added(study))
    for claim in of_phanns.of_several(of_phanns.held_out(study, HALVES)):
        if names := tuple(name for name in claim.of if name in HELD_OUT):
            yield replace(claim, text=f"{claim.text}; fitted to one half of the rows and judged by the other", of=names)


def mnist(folder: Path) -> list[Claim]:
    """Of the ensembles that ``python -m experiments.p2.mnist --keep`` trained and measured."""
    return kept(folder, "p2_mnist")


def label_shift(folder: Path) -> list[Claim]:
    """Of the use-sets that ``python -m experiments.p2.label_shift --keep`` drew from a record of scores."""
    return kept(folder, "p2_label_shift")
