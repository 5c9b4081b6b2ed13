"""TOOD on tables with other trees, with fewer test rows and fewer training rows, the error of its
trees, and its time.

``python -m experiments.p3.trees --keep outputs`` grows the trees of each setting on the rows of
``experiment=paper/p3/size_labels`` (digits and breast cancer, all training rows), of
``paper/p3/tabular``, and of digits 0 to 4 against 5 to 9, and tests the claims of the paper. All
settings of a seed share one split and one draw of every set out of distribution, which runs of
``kdg`` would draw again for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from experiments.common.claims import Claim, below
from experiments.common.frames import half_width, seeds_of
from experiments.common.markdown import number, signed
from experiments.common.seconds import in_turn
from experiments.common.titles import titles
from experiments.p3.command import faster, run_study
from kdgraph.config import plan
from kdgraph.data.dataset import Dataset, Splits
from kdgraph.detection import MaxProbability, TreeHamming
from kdgraph.metrics import auroc
from kdgraph.runner import stages

DEFAULT, FOREST = "default", "random forest"
# Settings that are not too extreme; the paper has no number, and its own are lost in the text.
HYPERPARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "50 trees": {"n_estimators": 50},
    "200 trees": {"n_estimators": 200},
    "2 rows to a leaf": {"min_samples_leaf": 2},
    "5 rows to a leaf": {"min_samples_leaf": 5},
    "10 levels": {"max_depth": 10},
    "half of the features": {"max_features": 0.5},
    "entropy": {"criterion": "entropy"},
}
EXTREME: Mapping[str, Mapping[str, Any]] = {  # Further settings of a search
    "20 rows to a leaf": {"min_samples_leaf": 20},
    "one feature": {"max_features": 1},
    "all features": {"max_features": None},
}
SETTINGS = {DEFAULT: {}, **HYPERPARAMETERS, **EXTREME}
LABELS = ("given", "shuffled")
SET_SIZE, VERY_FEW, FEW = 100, 5, 10  # Rows of a set; very few of them, and twice as many
UNITS = 1000  # Rows in sets behind an AUROC, of sets of any size
FEW_TRAINING_ROWS = 50
# Difference of equally good AUROC, and least AUROC that separates; the paper has neither.
AS_GOOD, SEPARATES = 0.05, 0.9
SHARED = ("method=choice(paper/p3/tood_given)", "seed=choice(0)")
TITLES = titles("p3", "trees")["titles"]
HALF_OF_DIGITS = "digits 0 to 4"


@dataclass(frozen=True)
class Table:
    """Rows by role, and the sets out of distribution by name."""

    title: str
    splits: Splits
    sets: Mapping[str, np.ndarray]

    @property
    def share(self) -> float:
        """Return test rows per row that is learnt from or calibrates."""
        return len(self.splits.test.y) / (len(self.splits.train.y) + len(self.splits.calibration.y))


def configs() -> dict[str, Any]:
    """Return the composed config of a run on each table, by its title."""
    half = ["dataset=digits", "dataset.left_out=[5,6,7,8,9]", "dataset.scale=min_max"]
    half += ["ood=left_out", "method=paper/p3/tood_given", "figures=none"]
    planned = {HALF_OF_DIGITS: plan(half).jobs[0].config}
    small = [
        "experiment=paper/p3/size_labels",
        "dataset=choice(digits,breast_cancer)",
        "dataset.max_learn=choice(3300)",
    ]
    for words in (small, ["experiment=paper/p3/tabular"]):
        planned |= {
            TITLES[job.config.dataset["name"]]: job.config for job in plan([*words, *SHARED]).jobs
        }
    return planned


def draw_table(title: str, config: Any, seed: int) -> Table:
    """Return a split of the table, and its sets."""
    splits = stages.split(config.dataset, seed)
    return Table(
        title, splits, {each.name: each.X for each in stages.ood_sets(config.ood, splits, seed)}
    )


def measure_split(title: str, config: Any, seed: int) -> Iterator[dict[str, Any]]:
    """Yield :func:`measure` of the split of a seed."""
    return measure(draw_table(title, config, seed), seed)


def measure(
    table: Table, seed: int, settings: Mapping[str, Mapping[str, Any]] = SETTINGS
) -> Iterator[dict[str, Any]]:
    """Yield each AUROC, error and time.

    ``size`` is of the sets, ``rows`` the number of training rows, and ``set`` the rows out of
    distribution, or "".
    """
    train = table.splits.train
    shared = {"dataset": table.title, "seed": seed, "share": table.share, "rows": len(train.y)}
    shared |= {"size": SET_SIZE, "set": ""}
    for labels in LABELS:
        about = {**shared, "labels": labels, "setting": DEFAULT}
        for setting, parameters in settings.items():
            detector = fitted_tood(
                ExtraTreesClassifier(**{"n_estimators": 100, **parameters}),
                train,
                table,
                labels,
                seed,
            )
            yield from _aurocs(detector, table, {**about, "setting": setting})
            if setting == DEFAULT:
                wrong = detector.estimator_.predict(table.splits.test.X) != table.splits.test.y
                yield {**about, "metric": "error", "value": float(np.mean(wrong))}
                yield from _in_smaller_sets(detector, table, about, VERY_FEW, FEW)
        yield from _aurocs(
            fitted_tood(RandomForestClassifier(100), train, table, labels, seed),
            table,
            {**about, "setting": FOREST},
        )
        few = train.rows(np.random.default_rng(seed).permutation(len(train.y))[:FEW_TRAINING_ROWS])
        detector = fitted_tood(ExtraTreesClassifier(100), few, table, labels, seed)
        yield from _in_smaller_sets(detector, table, {**about, "rows": FEW_TRAINING_ROWS}, VERY_FEW)
    for name, seconds in seconds_of(table, seed).items():
        yield {**shared, "labels": "given", "setting": name, "metric": "seconds", "value": seconds}


def fitted_tood(forest: Any, train: Dataset, table: Table, labels: Any, seed: int) -> TreeHamming:
    """Return TOOD on a forest that is grown on given or shuffled labels."""
    detector = TreeHamming(
        forest.set_params(random_state=seed), labels=labels, set_size=SET_SIZE, random_state=seed
    )
    return detector.fit(train.X, train.y, X_calibration=table.splits.calibration.X)


def _in_smaller_sets(
    detector: TreeHamming, table: Table, shared: Mapping[str, Any], *sizes: int
) -> Iterator[dict[str, Any]]:
    for size in sizes:
        same = TreeHamming(
            FrozenEstimator(detector.estimator_),
            labels="given",
            set_size=size,
            repeats=UNITS // size,
            random_state=0,
        )
        calibration = table.splits.calibration.X
        yield from _aurocs(
            same.fit(calibration, X_calibration=calibration), table, {**shared, "size": size}
        )


def _aurocs(
    detector: TreeHamming, table: Table, shared: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(shared["seed"])
    inside = detector.ood_score_of_sets(table.splits.test.X, rng)
    for name, X in table.sets.items():
        place = {**shared, "set": name, "metric": "auroc"}
        yield {**place, "value": auroc(detector.ood_score_of_sets(X, rng), inside)}


def seconds_of(table: Table, seed: int) -> dict[str, float]:
    """Return seconds of one core to train and to score, of TOOD and of a network's MSP, in turn."""
    rows = [table.splits.test.X, *table.sets.values()]
    network = (
        plan(["dataset=digits", "method=paper/p3/text/msp", "figures=none"]).jobs[0].config.parent
    )

    def tood() -> None:
        detector = fitted_tood(ExtraTreesClassifier(100), table.splits.train, table, "given", seed)
        for X in rows:
            detector.set_params(repeats=max(len(X) // SET_SIZE, 1)).ood_score_of_sets(
                X, np.random.default_rng(seed)
            )

    def msp() -> None:
        parent = stages.fit(network, table.splits.train, seed=seed, n_jobs=1)
        calibration = table.splits.calibration.X
        detector = MaxProbability(FrozenEstimator(parent)).fit(
            calibration, X_calibration=calibration
        )
        for X in rows:
            detector.ood_score(X)

    return in_turn({"tood": tood, "network": msp}, seed)


def claims(frame: pd.DataFrame) -> Iterator[Claim]:
    """Yield the claims on trees, their settings, labels, test rows and time, of :func:`measure`."""
    for dataset, rows in frame.groupby("dataset", sort=False):
        seeds = seeds_of(rows)
        for labels, own in rows.groupby("labels", sort=False):
            title = f"{dataset}, {labels} labels"
            full = own[(own.metric == "auroc") & (own["size"] == SET_SIZE)]
            yield from _settings(full, title, seeds)
            yield from _few_rows(own[own.metric == "auroc"], title, seeds)
        error = rows[rows.metric == "error"].pivot(index="seed", columns="labels", values="value")
        if set(LABELS) <= set(error):
            yield from below(
                f"{dataset}: trees grown on given labels have a lower error on"
                " test rows than those grown on shuffled ones",
                error.given,
                error.shuffled,
                ("shuffled_classifies_worse",),
                share=float(rows.share.iloc[0]),
            )
    text = (
        "tables: TOOD takes fewer seconds of one core to train and to score than a network of four"
        " layers of 200 units and its MSP"
    )
    yield from faster(frame[frame.metric == "seconds"], text)


def _settings(full: pd.DataFrame, title: str, seeds: str) -> Iterator[Claim]:
    by_set = full.pivot_table(index=["set", "seed"], columns="setting", values="value")
    if DEFAULT not in by_set:
        return
    share = float(full.share.iloc[0])
    rule = "that with 100 fully grown extremely randomised trees on every set"
    if mild := [name for name in HYPERPARAMETERS if name in by_set]:
        within = [name for name in mild if _largest(by_set, [name], share)[0] <= AS_GOOD]
        change, details = _largest(by_set, mild, share)
        evidence = (
            f"most: {details}; {seeds}; within .05 on every set: {', '.join(within) or 'none'}"
        )
        text = f"{title}: AUROC with {', '.join(mild[:-1])} or {mild[-1]} is within .05 of {rule}"
        yield Claim(text, change <= AS_GOOD, evidence, ("hyperparameters",))
    if FOREST in by_set:
        change, details = _largest(by_set, [FOREST], share)
        text = f"{title}: AUROC with a random forest is within .05 of {rule}"
        yield Claim(text, change <= AS_GOOD, f"most: {details}; {seeds}", ("forest_alike",))
    if tuned := [name for name in (*HYPERPARAMETERS, *EXTREME) if name in by_set]:
        change, details = _largest(by_set, tuned, share, better=True)
        text = (
            f"{title}: AUROC with the best of {len(tuned)} settings, chosen on what it is measured"
            " on, is at most .05 above that"
        )
        statement = f"{text} with default settings on every set"
        yield Claim(statement, change <= AS_GOOD, f"most: {details}; {seeds}", ("little_tuning",))


def _largest(
    by_set: pd.DataFrame, settings: list[str], share: float, *, better: bool = False
) -> tuple[float, str]:
    """Return the largest change (or gain) of the mean AUROC over sets and settings, in words too.

    ``by_set`` has the AUROC by set and seed, a column for each setting.
    """
    change = by_set[settings].sub(by_set[DEFAULT], axis=0)
    mean = change.groupby("set").mean().stack()
    sizes = mean if better else mean.abs()
    name, setting = sizes.idxmax()
    subset, default = change[setting].xs(name, level="set"), by_set[DEFAULT].xs(name, level="set")
    interval = f"{signed(float(subset.mean()), 2)} ± {number(half_width(subset, share), 2)}"
    return (
        float(sizes.max()),
        f"{setting} on {name} {interval}, default {number(float(default.mean()), 2)}",
    )


def _few_rows(rows: pd.DataFrame, title: str, seeds: str) -> Iterator[Claim]:
    default = rows[rows.setting == DEFAULT]
    most = default[default.rows == default.rows.max()]
    mean = most.groupby(["set", "size"]).value.mean().unstack("size")
    if not {SET_SIZE, VERY_FEW} <= set(mean):
        return
    apart = mean[mean[SET_SIZE] > SEPARATES]
    if len(apart):
        fall = apart[VERY_FEW] - apart[SET_SIZE]
        details = ", ".join(
            f"{number(float(value), 2)} in {n:g}" for n, value in apart.loc[fall.idxmin()].items()
        )
        text = (
            f"{title}: AUROC in sets of {VERY_FEW} test rows is at most .05 below that in sets of"
            f" {SET_SIZE} wherever that is above .9"
        )
        evidence = f"least, {fall.idxmin()}: {details}; {seeds}"
        yield Claim(text, bool((fall >= -AS_GOOD).all()), evidence, ("few_test_rows",))
    small = (
        default[default["size"] == VERY_FEW].groupby(["rows", "seed"]).value.mean().unstack("rows")
    )
    if len(small.columns) == 2:
        yield from below(
            f"{title}: mean AUROC in sets of {VERY_FEW} test rows is lower with {FEW_TRAINING_ROWS}"
            " training rows than with all",
            small[FEW_TRAINING_ROWS],
            small[small.columns.max()],
            ("few_test_rows",),
            share=float(rows.share.iloc[0]),
        )


def main() -> None:
    """Print and save the claims."""
    run_study(__doc__, "p3_trees", 5, configs(), measure_split, claims)


if __name__ == "__main__":
    main()
