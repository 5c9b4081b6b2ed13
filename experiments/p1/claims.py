"""Claims of Dey et al., tested on runs; ``claims.csv`` names the functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

from experiments.common.claims import Claim, below, computed_path, is_more_often
from experiments.common.frames import seeds_of, where
from experiments.common.markdown import counted_noun, number, signed
from experiments.common.runs import runs_of
from experiments.p1.cc18.archive import FAR as FAR_ROWS
from experiments.p1.cc18.archive import GEODESIC, at_largest, numbers_below, with_complete_seeds
from experiments.p1.cc18.records import (
    Inconsistent,
    Tables,
    kernel_method,
    label,
    parents_of,
    tables,
)
from experiments.p1.cc18.statistics import DECIMALS
from experiments.p1.figures import floors
from experiments.p1.figures.numbers import frame as numbers_of
from experiments.p1.figures.tables import GROUPS, MEASURES, first_at_the_prior
from kdgraph.data.simulations import GaussianXor
from kdgraph.density.published import Figure1Forest, PaperForest
from kdgraph.geometry import partition_of
from kdgraph.metrics import relative_improvement

SIMILAR = 0.01  # Difference of similar errors; the paper has no number
FAR = 5.0  # Radius of the spheres of Figure 2
ID = ("isotonic", "sigmoid")
# Keys in which runs of Trunk may be smaller than the experiment's.
SMALLER = ("dataset.n_train", "ood.n", "parent.n_estimators", "parent.max_epochs")
HIGH = 10  # Least number of high dimensions: the paper's first step above two
CHECKED = 40  # Codes in checks of all triples, 64,000


def simulations(folder: Path) -> Iterator[Claim]:
    """Yield the claims on Figure 1, with the floors of its authors: ``paper/p1/simulations``."""
    records = runs_of("paper/p1/simulations", folder, free=floors.FREE)
    yield from claims_on_plane(
        numbers_of(record for record in records if floors.is_near(record["config"]))
    )
    yield from claims_on_far_rows(
        numbers_of(record for record in records if floors.is_far(record["config"]))
    )


def claims_on_plane(plane: pd.DataFrame) -> Iterator[Claim]:
    """Yield the claims by simulation and parent, in medians over seeds as in the paper."""
    for (dataset, parent), group in (
        plane.groupby(["dataset", "parent"], sort=False) if len(plane) else ()
    ):
        medians = {}
        for measure, (on, metric) in MEASURES.items():
            rows = group[(group["on"] == on) & (group.metric == metric)]
            medians[measure] = rows.pivot_table(
                index="n_train", columns="model", values="value", aggfunc="median"
            ).dropna()
        sizes = ", ".join(
            f"{n:,} rows ({counted_noun([int(count)], 'seed')})"
            for n, count in group.groupby("n_train").seed.nunique().items()
        )
        place = _title(dataset, parent)
        yield from _similar_error(medians["error"], place, sizes)
        yield from _hellinger(medians["hellinger on the grid"], place, sizes)
        yield from _geodesic(medians, place, sizes)


def claims_on_far_rows(plane: pd.DataFrame) -> Iterator[Claim]:
    """Yield the claims on the radius from which on the confidence is that of the prior."""
    for (dataset, parent), rows in (
        plane.groupby(["dataset", "parent"], sort=False) if len(plane) else ()
    ):
        yield from _prior(rows, _title(dataset, parent))


def _title(dataset: object, parent: object) -> str:
    return f"{str(dataset).replace('_', ' ')}, {GROUPS[str(parent)][1].upper()}"


def _similar_error(medians: pd.DataFrame, place: str, sizes: str) -> Iterator[Claim]:
    if {"parent", "geodesic"} <= set(medians):
        excess = medians.geodesic - medians.parent
        text = (
            f"{place}: error is at most {number(SIMILAR, 2)} above"
            " the parent's at each number of rows"
        )
        evidence = f"{signed(float(excess.min()))} to {signed(float(excess.max()))}; {sizes}"
        yield Claim(text, bool(excess.max() <= SIMILAR), evidence, ("fig1_accuracy", "intro"))


def _hellinger(medians: pd.DataFrame, place: str, sizes: str) -> Iterator[Claim]:
    if {"parent", "geodesic"} <= set(medians):
        details = ", ".join(
            f"{n:,} rows {number(row.geodesic)} against {number(row.parent)}"
            for n, row in medians.iterrows()
        )
        text = (
            f"{place}: Hellinger distance on the grid is below the parent's at each number of rows"
        )
        holds = bool((medians.geodesic < medians.parent).all())
        yield Claim(text, holds, f"{details}; {sizes}", ("fig1_hellinger",))


def _geodesic(medians: Mapping[str, pd.DataFrame], place: str, sizes: str) -> Iterator[Claim]:
    present = {m: each for m, each in medians.items() if {"geodesic", "euclidean"} <= set(each)}
    if present:
        worst = {m: float((each.geodesic - each.euclidean).max()) for m, each in present.items()}
        details = ", ".join(f"{measure} {signed(value)}" for measure, value in worst.items())
        text = (
            f"{place}: error and Hellinger distance are lower with geodesic than with Euclidean"
            " distances at each number of rows"
        )
        evidence = f"largest difference: {details}; {sizes}"
        yield Claim(text, all(value < 0 for value in worst.values()), evidence, ("fig1_geodesic",))


def _prior(rows: pd.DataFrame, place: str) -> Iterator[Claim]:
    far = where(rows, on="ood", metric="mmc", model="geodesic", n_train=1000)
    curve = far.groupby("at").value.median()
    if len(curve):
        first = first_at_the_prior(curve.index.to_numpy(dtype=float), curve.to_numpy())
        last = f"{number(float(curve.iloc[-1]))} at radius {curve.index[-1]:g}"
        seeds = seeds_of(far)
        evidence = (
            f"{'never' if np.isinf(first) else f'from radius {first:g} on'};"
            f" {last}; median of {seeds}, 1,000 rows"
        )
        text = (
            f"{place}: mean max confidence comes to within .01 of the prior, .5, by radius"
            f" {curve.index[-1]:g}, and stays"
        )
        yield Claim(text, bool(np.isfinite(first)), evidence, ("fig1_prior", "intro"))


def trunk(folder: Path) -> Iterator[Claim]:
    """Yield the claims on Trunk in growing dimension, at most rows: ``paper/p1/trunk``."""
    yield from claims_on_trunk(numbers_of(runs_of("paper/p1/trunk", folder, free=SMALLER)))


def claims_on_trunk(numbers: pd.DataFrame) -> Iterator[Claim]:
    """Yield the claims on both distances: in high dimensions, and from few to many."""
    if numbers.empty:
        return
    high = numbers[
        (numbers.n_dims >= HIGH)
        & (numbers["on"] == "test")
        & (numbers.n_train == numbers.n_train.max())
    ]
    models = high[
        high.model.isin(["geodesic", "euclidean"]) & high.metric.isin(["error", "hellinger"])
    ]
    for (parent, variant, metric), rows in models.groupby(
        ["parent", "variant", "metric"], sort=False
    ):
        wide = (
            rows.pivot(index="seed", columns=["model", "n_dims"], values="value")
            .sort_index(axis=1)
            .dropna()
        )
        if (
            set(wide.columns.unique("model")) < {"geodesic", "euclidean"}
            or wide.columns.unique("n_dims").size < 2
        ):
            continue
        geodesic, euclidean = wide["geodesic"], wide["euclidean"]
        measure = "Hellinger distance" if metric == "hellinger" else "error"
        what = (
            f"Trunk, {GROUPS[str(parent)][1].upper()} ({variant}):"
            f" {measure} with geodesic distances"
        )
        text = f"{what}, in the mean over 10 dimensions and more, is below that with Euclidean ones"
        yield from below(text, geodesic.mean(axis=1), euclidean.mean(axis=1), ("fig1_trunk",))
        text = (
            f"{what} rises less from 10 dimensions to the most that"
            " were run than with Euclidean ones"
        )
        low, high = (each.iloc[:, -1] - each.iloc[:, 0] for each in (geodesic, euclidean))
        yield from below(text, low, high, ("fig1_trunk",))


def many_tables(folder: Path) -> Iterator[Claim]:
    """Yield the claims on tables of OpenML, at the largest sample of each.

    Error and ECE are of ``paper/p1/cc18`` and far rows of ``paper/p1/cc18_far``: the paper has them
    of two versions of its authors' code.
    """
    try:
        numbers = numbers_below(folder)
    except Inconsistent:
        return
    near, far = (
        with_complete_seeds(at_largest(numbers[version])) for version in (GEODESIC, FAR_ROWS)
    )
    for parent in parents_of(near):
        result = tables(near, parent)
        if result.datasets and kernel_method(result) in result.methods:
            yield from in_distribution_of_tables(result)
    for parent in parents_of(far):
        result = tables(far, parent)
        if result.datasets and kernel_method(result) in result.methods:
            yield from far_rows_of_tables(result)


def in_distribution_of_tables(result: Tables) -> Iterator[Claim]:
    """Yield the claims on one parent, the paper's method and both calibrators in distribution."""
    own_method, n = kernel_method(result), len(result.datasets)
    parent = label("parent", result.parent)
    error, ece = (result.column(name).round(DECIMALS) for name in ("error", "ece_by_edges"))
    no_higher = int((error[own_method] <= error.parent).sum())
    gain = _median_gain(error, own_method)
    # "Similar" accuracy has no number in the paper; a hundredth of the parent's error
    # is this project's.
    text = (
        f"{label(own_method)} against the {parent}: relative"
        " improvement in error of −.01 or more in the median"
    )
    evidence = f"{signed(gain)}; no higher on {no_higher} of {n} tables"
    yield Claim(text, gain >= -0.01, evidence, ("fig2_error", "abstract", "intro"))
    yield _on_most(
        ece,
        own_method,
        f"{label(own_method)} has a lower ECE than the {parent}",
        ("abstract", "forest_uncalibrated"),
    )
    for other in (name for name in ID if name in result.methods):
        yield _on_most(ece, other, f"{other} has a lower ECE than the {parent}", ("id_methods_id",))
        higher = int((error[other] > error.parent).sum())
        text = f"{other} has a higher error than the {parent} on more than half of the tables"
        holds, p = is_more_often(higher, n)
        yield Claim(text, holds, f"on {higher} of {n}, one-sided p {p:.2g}", ("fig2_id_error",))
        gap = _median_gain(ece, own_method) - _median_gain(ece, other)
        text = (
            "median relative improvements in ECE of"
            f" {label(own_method)} and {other} are less than .1 apart"
        )
        yield Claim(text, abs(gap) < 0.1, f"{signed(gap)}, {n} tables", ("fig2_ece",))


def far_rows_of_tables(result: Tables) -> Iterator[Claim]:
    """Yield the claims on one parent, the paper's method and both calibrators far away."""
    own_method, n = kernel_method(result), len(result.datasets)
    parent = label("parent", result.parent)
    oce = result.column(f"oce@{FAR:g}").round(DECIMALS)
    yield _on_most(
        oce,
        own_method,
        f"{label(own_method)} has a lower OCE at radius {FAR:g} than the {parent}",
        ("fig2_oce", "abstract", "intro"),
        0.9,
    )
    median_oce = float(oce.parent.median())
    yield Claim(
        f"the median OCE of the {parent} at radius {FAR:g} is above .1",
        median_oce > 0.1,
        f"{number(median_oce)}, {n} tables",
        ("forest_uncalibrated",) if result.parent == "random_forest" else (),
    )
    for other in (name for name in ID if name in result.methods):
        text = (
            f"the median OCE of {other} at radius {FAR:g} is above that of {label(own_method)}, and"
            f" within .1 of the {parent}'s or above"
        )
        shared = {name: float(oce[name].median()) for name in (other, own_method, "parent")}
        holds = shared[other] > shared[own_method] and shared[other] >= shared["parent"] - 0.1
        medians = (
            f"{number(shared[other])}, {label(own_method)} {number(shared[own_method])}, {parent}"
            f" {number(shared['parent'])}; {n} tables"
        )
        yield Claim(text, holds, medians, ("id_methods_ood", "fig2_oce"))


def _median_gain(values: pd.DataFrame, method: str) -> float:
    gains = relative_improvement(
        values["parent"].to_numpy(), values[method].to_numpy(), threshold=0.001
    ).values
    return float(np.nanmedian(gains))


def _on_most(
    values: pd.DataFrame, method: str, text: str, sentences: tuple[str, ...], share: float = 0.5
) -> Claim:
    """Return the claim that a method is lower than the parent on more than a share of tables."""
    both = values[["parent", method]].dropna()
    lower = int((both[method] < both.parent).sum())
    holds, p = is_more_often(lower, len(both), share)
    which = "half" if share == 0.5 else f"{100 * share:.0f} %"
    statement = f"{text} on more than {which} of the tables"
    return Claim(statement, holds, f"on {lower} of {len(both)}, one-sided p {p:.2g}", sentences)


def shapes(folder: Path) -> Iterator[Claim]:
    """Yield the claims on images of shapes that are moved away: ``paper/p1/shapes``, Figure 3."""
    numbers = numbers_of(runs_of("paper/p1/shapes", folder))
    far = numbers[(numbers["on"] == "ood") & (numbers.metric == "mmc")] if len(numbers) else numbers
    for (ood, param), family in far.groupby(["ood", "param"], sort=False) if len(far) else ():
        medians = family.groupby(["model", "at"]).value.median().unstack("at")
        inside = set(family[family.id]["at"])
        outside = [at for at in medians.columns if at not in inside]
        models = [name for name in medians.index if name != "parent"]
        if not inside or not outside or not models:
            continue
        place = str(param if param == ood else f"{param} of the {ood}")
        seeds = family.seed.nunique()
        inside_least = float(medians.loc[models[0], list(inside)].min())
        most = float(medians.loc[models[0], outside].max())
        least = float(medians.loc["parent", outside].min())
        yield Claim(
            f"{place}: median confidence of KDN is below that in"
            " distribution at every value out of it",
            most < inside_least,
            f"at most {number(most)}, in distribution {number(inside_least)};"
            f" {counted_noun([seeds], 'seed')}",
            ("fig3",),
        )
        text = f"{place}: median confidence of the network is above .9 at every value"
        evidence = f"at least {number(least)}; {counted_noun([seeds], 'seed')}"
        yield Claim(text, least > 0.9, evidence, ("fig3",))


def sizes(folder: Path) -> Iterator[Claim]:
    """Yield the claims on the number of Gaussians of KDN, and on the growth of its time."""
    records = [
        *runs_of("paper/p1/simulations", folder, free=floors.FREE),
        *runs_of("paper/p1/cc18", folder),
    ]
    yield from claims_on_gaussians(record for record in records if record["calibrator"] == "kdn")
    if (path := computed_path(folder, "p1_section6")).exists():
        exponents = pd.read_csv(path).value
        evidence = (
            f"{number(exponents.min(), 2)} to {number(exponents.max(), 2)},"
            f" {counted_noun([len(exponents)], 'seed')}"
        )
        text = "from 1,000 to 8,000 rows the time to train KDF grows with an exponent of at most 2"
        yield Claim(text, bool(exponents.max() <= 2), evidence, ("complexity",))


def claims_on_gaussians(records: Iterable[Mapping[str, Any]]) -> Iterator[Claim]:
    """Yield the claim on Gaussians per training row, of records of KDN."""
    share = [r["learnt"]["calibrator"]["n_polytopes"] / r["dataset"]["n_train"] for r in records]
    if share:
        text = "no fit of KDN has more Gaussians than training rows"
        evidence = f"at most {number(max(share), 2)} of them; {counted_noun([len(share)], 'run')}"
        yield Claim(text, max(share) <= 1, evidence, ("upper_bound",))


def propositions(folder: Path) -> Iterator[Claim]:
    """Yield both propositions, computed on 50 trees on 500 rows of Gaussian XOR, without runs."""
    X, y = GaussianXor().sample(500, np.random.default_rng(0))
    forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    partition = partition_of(forest)
    codes = np.unique(
        partition.encode(np.random.default_rng(1).uniform(-2, 2, (10 * CHECKED, 2))), axis=0
    )[:CHECKED]
    distance = 1 - partition.similarity(codes, codes)
    detour = (distance[:, :, None] + distance[None]).min(axis=1)
    axioms = {
        "0 of itself alone": bool(np.array_equal(distance == 0, np.eye(len(codes), dtype=bool))),
        "symmetric": bool(np.array_equal(distance, distance.T)),
        "not negative": bool((distance >= 0).all()),
        "no detour is shorter": bool((distance <= detour + 1e-12).all()),
    }
    text = f"1 − K is a metric on {len(codes)} polytopes (Proposition 1)"
    evidence = ", ".join(f"{name}: {'yes' if holds else 'no'}" for name, holds in axioms.items())
    yield Claim(text, all(axioms.values()), evidence, ("proposition_1",))
    rays = np.random.default_rng(2).normal(size=(100, 2))
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    for variant, version in (("paper", PaperForest), ("figure1", Figure1Forest)):
        kdf = version(RandomForestClassifier(50, random_state=0), random_state=0).fit(X, y)
        off = {
            radius: float(np.abs(kdf.predict_proba(radius * rays) - kdf.prior_).max())
            for radius in (1.0, 1e2, 1e4, 1e6)
        }
        text = (
            f"posteriors of KDF ({variant}) come to the class shares along 100 rays (Proposition"
            " 2), to 1e-12 at radius 1e6"
        )
        evidence = ", ".join(f"{value:.2g} at {radius:g}" for radius, value in off.items())
        yield Claim(text, off[1e6] <= 1e-12, evidence, ("proposition_2",))
