"""Command line of a study without runs of ``kdg``: it measures seed by seed, prints its claims, and
saves them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any

import pandas as pd

from experiments.common.claims import Claim
from experiments.common.command import in_one_line, print_claims, study_options
from kdgraph.config import RunConfig, plan

Measure = Callable[[str, Any, int], Iterable[Mapping[str, Any]]]


def run_study(
    about: str | None,
    name: str,
    seeds: int,
    configs: Mapping[str, Any],
    measure: Measure,
    claims: Callable[[pd.DataFrame], Iterable[Claim]],
) -> None:
    """Measure seed by seed, print the claims, and save them as ``name`` with ``--keep``.

    ``configs`` are those of each data set by its title; a seed of all comes before the next.
    """
    options = study_options(about, keep=True, seeds=seeds)

    def measure_and_print() -> None:
        seeds_of_datasets = product(range(options.seeds), configs.items())
        rows = (row for seed, (t, config) in seeds_of_datasets for row in measure(t, config, seed))
        print_claims(claims(pd.DataFrame(rows)), options.keep, name)

    in_one_line(measure_and_print)


def configs_of(
    experiment: str, dataset: str, methods: Mapping[str, Iterable[str]], words: Iterable[str]
) -> dict[str, RunConfig]:
    """Return the config of each method of an experiment on one data set, by its own words."""
    shared = [f"experiment={experiment}", f"dataset=choice({dataset})", "seed=choice(0)", *words]
    return {name: plan([*shared, *own]).jobs[0].config for name, own in methods.items()}
