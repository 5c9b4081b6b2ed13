"""Studies without runs of ``kdg``: they measure seed by seed, print their claims, and save them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Any

import pandas as pd

from experiments.common.claims import Claim
from experiments.common.command import in_one_line, print_claims, study_options
from experiments.common.frames import half_width, seeds_of
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


def faster(seconds: pd.DataFrame, text: str) -> Iterator[Claim]:
    """Yield that TOOD is faster than a network on more than half of the data sets.

    ``seconds`` has the settings "tood" and "network"; the rule is added to ``text``.
    """
    result, held = [], []
    for dataset, rows in seconds.groupby("dataset", sort=False):
        each = rows.pivot(index="seed", columns="setting", values="value").dropna()
        if len(each) > 1:
            difference = each.tood - each.network
            held.append(bool(difference.mean() + half_width(difference, 0) < 0))
            result.append(f"{dataset} {each.tood.mean():.2g} against {each.network.mean():.2g}")
    if held:
        rule = (
            "on more than half of the data sets, with the 95 % interval"
            " of the difference over seeds below 0"
        )
        details = f"on {sum(held)} of {len(held)}: {', '.join(result)}; {seeds_of(seconds)}"
        yield Claim(f"{text} {rule}", 2 * sum(held) > len(held), details, ("faster",))
