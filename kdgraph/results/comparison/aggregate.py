"""One measure of a study: means over seeds, tests over seeds and data sets, the best methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from kdgraph.metrics import holm
from kdgraph.results.comparison.significance import (
    ALPHA,
    PairedComparison,
    Ranks,
    compare_arrays,
    rank_methods,
    untied_difference,
)
from kdgraph.results.comparison.study import Study
from kdgraph.results.measures import Measure


@dataclass(frozen=True)
class BaselineComparison:
    """A method compared with its baseline."""

    outcome: PairedComparison  # of the method
    p: float  # of the paired test, adjusted over the methods of the table
    change: float  # median of method - baseline
    name: str  # of the baseline


@dataclass(frozen=True)
class MeasureComparison:
    """Comparison of all methods by one measure; only means if neither direction is better."""

    measure: Measure
    label: str
    # Data set × method, over seeds; std (with n - 1) is NaN for n < 2.
    mean: pd.DataFrame
    std: pd.DataFrame
    n: pd.DataFrame
    # Data set → the method with the best mean, and those that do not differ from it over seeds.
    best: Mapping[str, Sequence[str]]
    # Data set → method → comparison, paired by seed.
    over_seeds: Mapping[str, Mapping[str, BaselineComparison]]
    # Method → comparison, paired by data set, of means over the seeds that both have.
    over_datasets: Mapping[str, BaselineComparison]
    # On the data sets and seeds that all of ``ranked`` have: None with fewer than three such
    # methods or two such data sets. Methods with fewer than half of the runs are unranked.
    ranks: Ranks | None
    ranked: Sequence[str]
    unranked: Sequence[str]
    seeds_ranked: int  # pairs of data set and seed

    @property
    def is_judged(self) -> bool:
        """True if one direction is better."""
        return self.measure.better is not None

    @property
    def best_over_datasets(self) -> list[str]:
        """The best method and those without a significant difference to it, by mean ranks.

        Two methods, which have no ranks, are compared by the paired test over data sets. Empty if
        no difference is significant.
        """
        if self.ranks:
            best = self.ranks.best
            return best if len(best) < len(self.ranks.mean) else []
        if len(self.over_datasets) != 1 or len(self.mean.columns) > 2:
            return []
        ((name, baseline),) = self.over_datasets.items()
        if baseline.p > ALPHA:
            return []
        return [name if baseline.outcome.wins > baseline.outcome.losses else baseline.name]


def compare_methods(
    study: Study, measure: Measure, against: str | None = None
) -> MeasureComparison:
    """Aggregate and test one measure of a study.

    All methods are compared with ``against``, by default each with its own parent.
    """
    table = study.table(measure)
    table = table[[name for name in table if table[name].notna().any()]]
    by_dataset = table.groupby(level="dataset", sort=False)
    means = measure, study.labels[measure], by_dataset.mean(), by_dataset.std(), by_dataset.count()
    if measure.better is None:
        return MeasureComparison(*means, {}, {}, {}, None, [], [], 0)
    # Tests are written for numbers of which lower is better.
    sign = 1.0 if measure.better == "lower" else -1.0
    lower = sign * table
    baseline, names = _baselines(study, measure, against, table, sign)
    baseline = baseline[list(names)]
    best, over_seeds = {}, {}
    for dataset, rows in lower.groupby(level="dataset", sort=False).indices.items():
        of_dataset = lower.iloc[rows]
        best[str(dataset)] = _best(of_dataset, measure.scale)
        over_seeds[str(dataset)] = _compare_with_baselines(
            of_dataset, baseline.iloc[rows], names, sign, measure.scale
        )
    over_datasets = _compare_with_baselines(
        *_means_of_pairs(lower[list(names)], baseline), names, sign, measure.scale
    )
    ranks = _rank(lower, measure.scale)
    return MeasureComparison(*means, best, over_seeds, over_datasets, *ranks)


def _baselines(
    study: Study, measure: Measure, against: str | None, table: pd.DataFrame, sign: float
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the numbers that each method is compared with, and the names of the baselines."""
    if against is not None:
        names = {str(name): against for name in table if name != against and against in table}
        columns = dict.fromkeys(names, table[against] if names else None)
        return sign * pd.DataFrame(columns, index=table.index), names
    methods = [str(name) for name in table if name not in study.parents]
    parents = {name: study.parent_of[name] for name in methods}
    return sign * study.parent_table(measure), parents


def _means_of_pairs(
    lower: pd.DataFrame, baseline: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    has_both = lower.notna() & baseline.notna()
    first, second = (
        values.where(has_both).groupby(level="dataset", sort=False).mean()
        for values in (lower, baseline)
    )
    return first, second


def _compare_with_baselines(
    lower: pd.DataFrame,
    baseline: pd.DataFrame,
    names: Mapping[str, str],
    sign: float,
    scale: float,
) -> dict[str, BaselineComparison]:
    """Compare each method with its baseline; p values are adjusted over those that have a pair."""
    pairs = {
        name: (lower[name].to_numpy(dtype=np.float64), baseline[name].to_numpy(dtype=np.float64))
        for name in names
    }
    outcomes = {name: compare_arrays(*pair, scale) for name, pair in pairs.items()}
    outcomes = {name: outcome for name, outcome in outcomes.items() if outcome.n}
    adjusted = holm([outcome.p for outcome in outcomes.values()])
    changes = {
        name: sign * float(np.nanmedian(untied_difference(*pairs[name], scale)))
        for name in outcomes
    }
    return {
        name: BaselineComparison(outcomes[name], float(p), changes[name], names[name])
        for name, p in zip(outcomes, adjusted, strict=True)
    }


def _best(lower: pd.DataFrame, scale: float) -> list[str]:
    """Return the best mean and the methods that the paired test does not distinguish from it.

    The list is empty if the test distinguishes none. A method with fewer than half of the seeds
    takes no part: its mean is over other rows, and no test could distinguish it.
    """
    count = lower.notna().sum()
    enough = lower[[name for name in lower if 0 < count.max() <= 2 * count[name]]]
    values = {str(name): column for name, column in zip(enough, enough.to_numpy().T, strict=True)}
    means = {name: float(np.nanmean(column)) for name, column in values.items()}
    if len(means) < 2:
        return []
    first = min(means, key=lambda name: means[name])
    others = [name for name in means if name != first]
    p = holm([compare_arrays(values[first], values[name], scale).p for name in others])
    different = {name for name, value in zip(others, p, strict=True) if value <= ALPHA}
    return [name for name in means if name not in different] if different else []


def _rank(lower: pd.DataFrame, scale: float) -> tuple[Ranks | None, list[str], list[str], int]:
    has_number = lower.notna()
    n_runs = has_number.any(axis=1).sum()
    ranked = [str(name) for name in lower if 2 * has_number[name].sum() >= n_runs]
    complete = lower[ranked].dropna()
    means = complete.groupby(level="dataset").mean()
    ranks = rank_methods(means, scale=scale) if len(ranked) > 2 and len(means) > 1 else None
    return ranks, ranked, [str(name) for name in lower if name not in ranked], len(complete)
