"""Claims of the paper on TOOD, tested on runs; ``claims.csv`` names the functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

from experiments.common.claims import Claim
from experiments.common.frames import seeds_of
from experiments.common.markdown import listed, number, signed
from experiments.p3 import contamination as contamination_study
from experiments.p3 import images as images_study
from experiments.p3 import simulated as simulated_study
from experiments.p3 import size_labels as size_labels_study
from experiments.p3 import tabular as tabular_study
from experiments.p3 import text as text_study
from experiments.p3.records import APHD, IN, table_of
from experiments.p3.study import measured

AS_GOOD = 0.05  # Difference of equally good AUROC; the paper has no number
BOTH = ["tood_given", "tood_shuffled"]
NOT_IN_PAPER = {  # Methods of runs that the paper compares with for tables alone
    *("leaf_box", "graph_density", "knn"),
    *("mahalanobis_nonnegative", "oe_permuted", "energy_fine_tuning_permuted"),
}
NEAR_1 = 0.99  # Least number that is close to 1; the paper has no number
IMAGES = {**images_study.MNIST.datasets, **images_study.CIFAR.datasets}
AS_WELL = ("labels_shuffled", "unsupervised")  # Sentences that allow shuffled labels to be better


def _by_method(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.groupby(["set", "method"]).value.mean().unstack("method")


def sets(folder: Path) -> Iterator[Claim]:
    """Yield the claims on tests that judge the same sets as TOOD: ``paper/p3/contamination``."""
    power = contamination_study.power(contamination_study.read(folder))
    yield from contamination_study.claims(power)


def simulated(folder: Path) -> Iterator[Claim]:
    """Yield the claims on circles, lines and squares among noise: ``paper/p3/simulated``."""
    frame = table_of(simulated_study.read(folder), ["dataset.n_dims"])
    for method in (name for name in BOTH if len(frame) and name in set(frame.method)):
        yield from simulated_study.claims(frame, method)


def size_labels(folder: Path) -> Iterator[Claim]:
    """Yield the claims on numbers of training rows and labels: ``paper/p3/size_labels``."""
    for sizes, numbers in size_labels_study.by_study(size_labels_study.read(folder)):
        yield from size_labels_study.claims(numbers, sizes)
        yield from claims_on_curves(numbers, sizes)
        yield from _with_all_rows(numbers, sizes)


def _with_all_rows(numbers: pd.DataFrame, sizes: size_labels_study.Sizes) -> Iterator[Claim]:
    aurocs = numbers[(numbers.metric == "auroc") & numbers.set.isin(sizes.sets)]
    for dataset, group in aurocs.groupby("dataset", sort=False):
        n_rows = group["rows"].max()
        most = group[group["rows"] == n_rows]
        mean = _by_method(most)
        if set(BOTH) <= set(mean):
            place = f"{sizes.datasets[str(dataset)]}, {n_rows:,} training rows"
            claims = labels(mean, place, seeds_of(most))
            yield from (claim for claim in claims if claim.sentences == AS_WELL)


def claims_on_curves(numbers: pd.DataFrame, sizes: size_labels_study.Sizes) -> Iterator[Claim]:
    """Yield that curves of APHD with shuffled labels look like those with given ones."""
    distance = numbers[(numbers.metric == APHD) & numbers.set.isin(sizes.sets)]
    for dataset, group in distance.groupby("dataset", sort=False):
        means = group.groupby(["set", "rows", "method"]).value.mean().unstack("method")
        if set(BOTH) <= set(means):
            both = means[BOTH].dropna()
            gap = float((both.tood_given - both.tood_shuffled).abs().max())
            r = float(both.corr(method="spearman").iloc[0, 1])
            text = (
                f"{sizes.datasets[str(dataset)]}: APHD by set and rows with shuffled labels is"
                " within .05 of that with given ones, and their rank correlation is above .9"
            )
            evidence = f"at most {number(gap)} apart, {number(r, 2)}"
            yield Claim(text, gap <= AS_GOOD and r > 0.9, evidence, ("figure_4_rows_alike",))


def images(folder: Path) -> Iterator[Claim]:
    """Yield the claims on images after an autoencoder: ``paper/p3/mnist``, ``…/cifar``."""
    yield from claims_on_sets(measured(images_study.read(folder)), IMAGES)


def text(folder: Path) -> Iterator[Claim]:
    """Yield the claims on texts: ``paper/p3/text``."""
    frame = measured(text_study.read(folder, [text_study.TOPICS]))
    yield from claims_on_sets(frame, {**text_study.GROUPS, **text_study.OTHERS})
    yield from by_a_large_margin(frame)


def tabular(folder: Path) -> Iterator[Claim]:
    """Yield the claims on three tables against each other and noise: ``paper/p3/tabular``."""
    frame = table_of(tabular_study.read(folder))
    if len(frame):
        sets = {*tabular_study.TABLES, *tabular_study.NOISE, IN}
        titles = {f"{name}_6": title for name, title in tabular_study.TABLES.items()}
        yield from claims_on_sets(frame[frame.set.isin(sets)].assign(rows=""), titles)


def claims_on_sets(frame: pd.DataFrame, titles: Mapping[str, str]) -> Iterator[Claim]:
    """Yield the claims on TOOD against other methods, on labels, and on in against out."""
    own = frame[frame.dataset.isin(titles)] if len(frame) else frame
    for (dataset, rows), group in own.groupby(["dataset", "rows"], sort=False) if len(own) else ():
        n_rows = str(rows).partition(" rows")[0].replace("training", "").strip()
        place = listed(titles[str(dataset)], n_rows) + (" training rows" if rows else "")
        seeds = seeds_of(group)
        mean = _by_method(group[(group.metric == "auroc") & (group.set != IN)])
        others = [name for name in mean if name not in {*BOTH, *NOT_IN_PAPER}]
        if "tood_given" in mean and others:
            yield from _outperforms(mean, others, place, seeds)
        if set(BOTH) <= set(mean):
            yield from labels(mean, place, seeds)
        aphd = group[(group.metric == APHD) & (group.method == "tood_given")]
        distance = aphd.groupby("set").value.mean()
        if IN in distance and len(distance) > 1:
            inside, outside = float(distance[IN]), distance.drop(IN)
            largest = number(float(outside.max()), 4)
            text = f"{place}: mean APHD of test rows is above that of each set out of distribution"
            evidence = (
                f"{number(inside, 4)} of test rows, at most"
                f" {largest}, of {outside.idxmax()}; {seeds}"
            )
            yield Claim(text, bool(outside.max() < inside), evidence, ("id_larger",))
            if str(dataset) in IMAGES:
                close = f"{place}: mean APHD of test rows is above {number(NEAR_1, 2)}"
                evidence = f"{number(inside, 4)}; {seeds}"
                yield Claim(close, inside > NEAR_1, evidence, ("close_to_1",))


def labels(mean: pd.DataFrame, place: str, seeds: str) -> Iterator[Claim]:
    """Yield whether shuffling changes the AUROC, by set, and whether it makes it worse."""
    change = mean.tood_shuffled - mean.tood_given
    each = ", ".join(
        f"{name} {number(row.tood_given, 2)} and {number(row.tood_shuffled, 2)}"
        for name, row in mean.iterrows()
    )
    evidence = f"given and shuffled: {each}; {seeds}"
    text = f"{place}: AUROC with shuffled labels is within .05 of that with given ones on every set"
    yield Claim(text, bool((change.abs() <= AS_GOOD).all()), evidence, size_labels_study.LABELS)
    text = (
        f"{place}: AUROC with shuffled labels is at most .05"
        " below that with given ones on every set"
    )
    yield Claim(text, bool((change >= -AS_GOOD).all()), evidence, AS_WELL)


def _outperforms(
    mean: pd.DataFrame, others: Sequence[str], place: str, seeds: str
) -> Iterator[Claim]:
    best, rivals = mean[others].max(axis=1), ", ".join(others)
    ahead = (mean.tood_given - best).round(2)
    each = ", ".join(
        f"{n} {number(mean.tood_given[n], 2)} against {number(best[n], 2)}" for n in mean.index
    )
    yield Claim(
        f"{place}: mean AUROC of TOOD is, to two digits, at least that of"
        f" each other method ({rivals}) on every set",
        bool((ahead >= 0).all()),
        f"{each}; {seeds}; TOOD scores rows in sets of 100, or of all calibration rows if there are"
        " fewer, the others single rows",
        ("outperforms",),
    )
    text = (
        f"{place}: mean AUROC of TOOD is at most .05 below that of the"
        f" best other method ({rivals}) on every set"
    )
    evidence = f"least {signed(float(ahead.min()), 2)}; {seeds}"
    yield Claim(text, bool((ahead >= -AS_GOOD).all()), evidence, ("comparable", "concluding"))


def by_a_large_margin(frame: pd.DataFrame) -> Iterator[Claim]:
    """Yield the claim on newsgroups, by at least the paper's smallest gap to outlier exposure."""
    if frame.empty:
        return
    own = frame[frame.dataset.isin(text_study.GROUPS) & (frame.metric == "auroc")]
    if own.empty:
        return
    mean = own.groupby(["dataset", "set", "method"]).value.mean().unstack("method")
    others = [name for name in ("msp", "oe") if name in mean]
    if "tood_given" in mean and others:
        ahead = (mean.tood_given - mean[others].max(axis=1)).dropna()
        low, high = (signed(float(each), 2) for each in (ahead.min(), ahead.max()))
        text = (
            "newsgroups: AUROC of TOOD is above that of MSP and of outlier"
            " exposure by at least .07 on all pairs of groups"
        )
        evidence = f"by {low} to {high} on {len(ahead)} pairs; {own.seed.nunique()} seeds"
        yield Claim(text, bool((ahead >= 0.07).all()), evidence, ("newsgroups",))
