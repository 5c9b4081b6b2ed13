"""Command line of a study without runs of ``kdg``: it measures seed by seed, prints its claims, and
saves them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from experiments.common.claims import Claim
from experiments.common.command import in_one_line, print_claims, study_options


def run_study(
    about: str | None,
    name: str,
    seeds: int,
    measure: Callable[[int], Iterable[Mapping[str, Any]]],
    claims: Callable[[pd.DataFrame], Iterable[Claim]],
) -> None:
    """Measure seed by seed, print the claims, and save them as ``name`` with ``--keep``."""
    options = study_options(about, keep=True, seeds=seeds)
    in_one_line(
        lambda: print_claims(
            claims(pd.DataFrame(row for seed in range(options.seeds) for row in measure(seed))),
            options.keep,
            name,
        )
    )
