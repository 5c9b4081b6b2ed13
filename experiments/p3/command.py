"""What ``python -m`` does with a study that no run of ``kdg`` makes: measure seed by seed, print its claims, and keep them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.common.claims import Claim, keep, verdicts
from kdgraph.errors import KdgError


def asked(
    about: str | None,
    name: str,
    seeds: int,
    measure: Callable[[int], Iterable[Mapping[str, Any]]],
    claims: Callable[[pd.DataFrame], Iterable[Claim]],
) -> None:
    """Measure, print the claims, and keep them where the command line says so; what cannot be had is said in a line.

    Parameters
    ----------
    about : the docstring of the study's module.
    name : what the claims are kept as.
    seeds : how many, if the command line does not say.
    measure : seed → rows of numbers.
    claims : what all rows say.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=seeds, help="how many splits")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="a folder of runs to leave the claims in, where kdg reproduce finds them")
    given = parser.parse_args()
    try:
        told = list(claims(pd.DataFrame(row for seed in range(given.seeds) for row in measure(seed))))
    except KdgError as error:
        sys.exit(str(error))
    print(verdicts(told))
    if given.keep is not None:
        keep(told, given.keep, name)
