"""What ``python -m`` does with a study that no run of ``kdg`` makes: measure seed by seed, print
its claims, and keep them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from experiments.common.claims import Claim
from experiments.common.command import in_one_line, print_claims, study_parser


def asked(
    about: str | None,
    name: str,
    seeds: int,
    measure: Callable[[int], Iterable[Mapping[str, Any]]],
    claims: Callable[[pd.DataFrame], Iterable[Claim]],
) -> None:
    """Measure, print the claims, and keep them where the command line says so; what cannot be had
    is said in a line.

    Parameters
    ----------
    about : the docstring of the study's module.
    name : what the claims are kept as.
    seeds : how many, if the command line does not say.
    measure : seed → rows of numbers.
    claims : what all rows say.
    """
    parser = study_parser(about, keep=True)
    parser.add_argument("--seeds", type=int, default=seeds, help="how many splits")
    options = parser.parse_args()
    in_one_line(
        lambda: print_claims(
            claims(pd.DataFrame(row for seed in range(options.seeds) for row in measure(seed))),
            options.keep,
            name,
        )
    )
