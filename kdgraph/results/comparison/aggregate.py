"""What one measure says of the methods of a study: means over seeds, tests over seeds and over data
sets, and which are best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from kdgraph.results.comparison.significance import (
    ALPHA,
    PairedComparison,
    Ranks,
    compare_arrays,
    holm,
    rank_methods,
    untied_difference,
)
from kdgraph.results.comparison.study import Study
from kdgraph.results.measures import Measure


@dataclass(frozen=True)
class BaselineComparison:
    """A method against its baseline.

    Attributes
    ----------
    comparison : wins, ties and losses of the method.
    p : of the paired test, adjusted over the methods beside it.
    change : median of method - baseline.
    baseline : its name.
    """

    comparison: PairedComparison
    p: float
    change: float
    baseline: str


@dataclass(frozen=True)
class MeasureComparison:
    """Everything that is said of one measure; where neither direction is better, there are means
    only.

    Attributes
    ----------
    measure : what it is.
    label : what tables call it.
    mean, std, n : data set × method, over seeds; std (with n - 1) is NaN where n < 2.
    best : data set → methods that the paired test over seeds does not tell apart from the one with
        the best mean, which is among them. A data set on which it tells nothing apart has none, and
        a method with fewer than half of the seeds takes no part.
    over_seeds : data set → method → against the baseline, paired by seed.
    over_datasets : method → against the baseline, paired by data set, of means over the seeds that
    both have.
    ranks : on the data sets and seeds that all of ``ranked`` have; None with fewer than three such
    methods or two such data sets.
    ranked : methods that are ranked, and ``unranked`` those with fewer than half of the runs.
    seeds_ranked : how many pairs of data set and seed the ranks are of.
    """

    measure: Measure
    label: str
    mean: pd.DataFrame
    std: pd.DataFrame
    n: pd.DataFrame
    best: Mapping[str, Sequence[str]]
    over_seeds: Mapping[str, Mapping[str, BaselineComparison]]
    over_datasets: Mapping[str, BaselineComparison]
    ranks: Ranks | None
    ranked: Sequence[str]
    unranked: Sequence[str]
    seeds_ranked: int

    @property
    def is_judged(self) -> bool:
        """Whether one direction is better."""
        return self.measure.better is not None

    @property
    def best_over_datasets(self) -> list[str]:
        """Methods that are not told apart from the best mean rank; none if nothing is told apart
        from anything.

        Of two methods, the one that the paired test over data sets finds better.
        """
        if self.ranks:
            best = self.ranks.best
            return best if len(best) < len(self.ranks.mean) else []
        (name, only), *more = [*self.over_datasets.items(), ("", None)]
        if only is None or len(more) > 1 or only.p > ALPHA or len(self.mean.columns) > 2:
            return []
        return [name if only.comparison.wins > only.comparison.losses else only.baseline]


def compare_methods(
    study: Study, measure: Measure, against: str | None = None
) -> MeasureComparison:
    """Aggregate and test one measure.

    Parameters
    ----------
    study : the runs.
    measure : one of its measures.
    against : the method that all others are compared with; None: each with its own parent.
    """
    table = study.table(measure)
    table = table[[name for name in table if table[name].notna().any()]]
    by_dataset = table.groupby(level="dataset", sort=False)
    aggregated = (
        measure,
        study.labels[measure],
        by_dataset.mean(),
        by_dataset.std(),
        by_dataset.count(),
    )
    if measure.better is None:
        return MeasureComparison(*aggregated, {}, {}, {}, None, [], [], 0)
    sign = 1.0 if measure.better == "lower" else -1.0
    lower, baseline, names = sign * table, *_baselines(study, measure, against, table, sign)
    baseline, names = baseline[list(names)], dict(names)
    best, over_seeds = {}, {}
    for dataset, rows in lower.groupby(level="dataset", sort=False).indices.items():
        best[str(dataset)] = _best(lower.iloc[rows], measure.scale)
        over_seeds[str(dataset)] = _against(
            lower.iloc[rows], baseline.iloc[rows], names, sign, measure.scale
        )
    over_datasets = _against(
        *_means_of_pairs(lower[list(names)], baseline), names, sign, measure.scale
    )
    return MeasureComparison(
        *aggregated, best, over_seeds, over_datasets, *_ranks(lower, measure.scale)
    )


def _baselines(
    study: Study, measure: Measure, against: str | None, table: pd.DataFrame, sign: float
) -> tuple[pd.DataFrame, dict[str, str]]:
    """The numbers that each method is compared with, as columns; and method → whose they are."""
    if against is not None:
        names = {str(name): against for name in table if name != against and against in table}
        return (
            sign
            * pd.DataFrame(
                dict.fromkeys(names, table[against] if names else None), index=table.index
            ),
            names,
        )
    own = study.parent_table(measure)
    return sign * own, {
        str(name): study.parent_of[str(name)] for name in table if name not in study.parents
    }


def _means_of_pairs(
    lower: pd.DataFrame, baseline: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """By data set: means of both over the seeds that both have."""
    both = lower.notna() & baseline.notna()
    first, second = (
        values.where(both).groupby(level="dataset", sort=False).mean()
        for values in (lower, baseline)
    )
    return first, second


def _against(
    lower: pd.DataFrame,
    baseline: pd.DataFrame,
    baselines: Mapping[str, str],
    sign: float,
    scale: float,
) -> dict[str, BaselineComparison]:
    """Each method against its baseline; p values are adjusted over all of them that have a pair."""
    pairs = {
        name: (lower[name].to_numpy(dtype=np.float64), baseline[name].to_numpy(dtype=np.float64))
        for name in baselines
    }
    found = {name: compare_arrays(*pair, scale) for name, pair in pairs.items()}
    found = {name: comparison for name, comparison in found.items() if comparison.n}
    adjusted = holm([comparison.p for comparison in found.values()])
    change = {
        name: sign * float(np.nanmedian(untied_difference(*pairs[name], scale))) for name in found
    }
    return {
        name: BaselineComparison(found[name], float(p), change[name], baselines[name])
        for name, p in zip(found, adjusted, strict=True)
    }


def _best(lower: pd.DataFrame, scale: float) -> list[str]:
    """Methods that a paired test over the seeds does not tell apart from the best mean; none if it
    tells nothing apart.

    One with fewer than half of the seeds takes no part: its mean is of other rows, and no test
    could tell it apart.
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
    told_apart = {name for name, value in zip(others, p, strict=True) if value <= ALPHA}
    return [name for name in means if name not in told_apart] if told_apart else []


def _ranks(lower: pd.DataFrame, scale: float) -> tuple[Ranks | None, list[str], list[str], int]:
    """Ranks, the methods that are ranked and those that are not, and on how many data sets and
    seeds.
    """
    there = lower.notna()
    ranked = [str(name) for name in lower if 2 * there[name].sum() >= there.any(axis=1).sum()]
    complete = lower[ranked].dropna()
    means = complete.groupby(level="dataset").mean()
    ranks = rank_methods(means, scale=scale) if len(ranked) > 2 and len(means) > 1 else None
    return ranks, ranked, [str(name) for name in lower if name not in ranked], len(complete)
