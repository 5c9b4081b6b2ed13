"""What Luo et al. say in words, asked of runs: each function is named by sentences of
``claims.csv``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

from experiments.common.claims import Claim
from experiments.common.markdown import counted_noun, number, signed
from experiments.common.runs import runs_of
from experiments.common.splits import half_width
from experiments.p4 import cifar10 as of_cifar10
from experiments.p4 import cifar100 as of_cifar100
from experiments.p4 import crime as of_crime
from experiments.p4 import theorem1 as of_theorem1
from experiments.p4.figures import Study, label_of, study_of
from experiments.p4.setting import WORST, entries, share_of
from kdgraph.calibration import GroupWise
from kdgraph.calibration.local import LocalRecalibration
from kdgraph.calibration.top_label import HistogramBinning
from kdgraph.errors import DataError
from kdgraph.features import FeatureMap
from kdgraph.metrics import TopLabel, ece, lce, mce, mlce

MAPS = {"tsne": "t-SNE", "pca": "PCA"}
READINGS = {
    "_spread": "γ as printed, in units of spread",
    "_printed": "γ in the map's own units",
}
"""The paper does not print in which units its bandwidths are: end of a method → their units."""
METRIC_ENDS = {"_spread": "", "_printed": "_printed"}
"""End of a method → that of a local error in the same units."""
GLOBAL = {
    "none": "none",
    "temperature": "temperature",
    "histogram": "histogram",
    "isotonic": "isotonic",
    "mmce": "MMCE",
}
BY_GROUP = {"group_temperature": "temperature by group", "group_histogram": "histogram by group"}
LORE, IN_WIDTH, IN_MASS = "LoRe", "lore_pca_spread", "lore_pca_mass"
"""LoRe as one method, and in bins of equal width and of equal mass."""
GAMMA_02 = "lore_tsne_02"
"""LoRe as it is on ImageNet: in t-SNE at the printed bandwidth."""
OVERALL = {"ece": "ECE", "nll_top": "NLL", "brier_top": "Brier score"}
LEAST = (("none", 0.49, "no recalibration"), ("next", 0.23, "the next best global method"))
"""What the paper has in the mean of its three settings."""
DRAWS = 1000
LARGE = 1e12
"""A bandwidth beside which all rows are in one place."""
ALIKE = 0.1
"""Of a number: the paper says none for results that are very similar."""
SAMPLES, REPEATS = (1000, 4000, 16_000, 64_000), 10
"""Rows of samples, and how many there are of each."""
SLACK = 0.1
"""Of a slope: a mean of ten samples over places that are near each other is a tenth off, and sizes
go from 1 to 64.
"""
Numbers = Mapping[str, pd.DataFrame]
"""Metric → a row for each seed, a column for each method."""


def crime(folder: Path) -> Iterator[Claim]:
    """Of Communities and Crime, the first of the paper's three settings, behind the network of 60
    epochs: ``paper/p4/crime_long``.
    """
    records = runs_of(of_crime.EXPERIMENT, folder)
    if records:
        yield from of_setting(pd.DataFrame(entries(records)), share_of(records[0]))
        with suppress(DataError):  # no run of the network alone yet
            yield from of_bandwidths(study_of(records, folder, ("none",)))


def of_setting(frame: pd.DataFrame, share: float) -> Iterator[Claim]:
    """All that is said of a setting, of the numbers of :func:`~experiments.p4.setting.entries`;
    ``share``: test rows for each fitted on.
    """
    wide = {
        str(metric): rows.pivot(index="seed", columns="method", values="value")
        for metric, rows in frame.groupby("metric")
    }
    for end, reading in READINGS.items():
        for one, called in MAPS.items():
            lore, title = f"lore_{one}{end}", f"LoRe in {called} ({reading})"
            yield from _against(wide, lore, title, one, end, share)
            yield from _comparable(wide, lore, title)
            if one == "tsne":
                yield from _reductions(wide.get(WORST, pd.DataFrame()), lore, title)
        yield from _robust(wide.get(WORST, pd.DataFrame()), end, reading)
        yield from _correlations(frame, end, reading)


def of_bandwidths(study: Study) -> Iterator[Claim]:
    """MLCE of the network alone at the least and the largest bandwidth, in means over seeds."""
    for one, called in MAPS.items():
        gammas, values = study.table(f"lce_by_bandwidth_{one}", "bandwidth", "mlce")
        means = values[label_of("none")].mean(axis=0)
        text = (
            f"Crime: mean MLCE in {called} rounds to 1.00 at γ = {gammas[0]:g} in units of spread"
        )
        found = f"{means[0]:.4f}; {study.runs_of}"
        yield Claim(text, bool(means[0] >= 0.995), found, ("mlce_becomes_one",))


def _against(
    wide: Numbers, lore: str, title: str, one: str, end: str, share: float
) -> Iterator[Claim]:
    """Errors of LoRe in one map against those of all other methods."""
    asked = [
        (WORST, "max group MCE", GLOBAL, "lowest_group_mce"),
        (WORST, "max group MCE", BY_GROUP, "beats_groupwise"),
    ]
    asked += [
        (metric, OVERALL[metric], GLOBAL, "more_accurate_confidence")
        for metric in ("nll_top", "brier_top")
    ]
    asked += [
        (
            f"mlce_{one}{METRIC_ENDS[end]}",
            f"MLCE in {MAPS[one]}",
            GLOBAL,
            "lowest_mlce_everywhere improves_lce_most",
        )
    ]
    asked += [(f"lce_{one}", f"mean LCE in {MAPS[one]}", GLOBAL, "improves_lce_most")]
    asked += [
        (f"lce_{other}", f"mean LCE in {MAPS[other]}", {"none": "none"}, "any_map")
        for other in MAPS
    ]
    for metric, name, others, of in asked:
        yield from _below_all(
            wide.get(metric, pd.DataFrame()),
            lore,
            f"{name} of {title}",
            others,
            tuple(of.split()),
            share,
        )


def _below_all(
    values: pd.DataFrame,
    lore: str,
    title: str,
    others: Mapping[str, str],
    of: tuple[str, ...],
    share: float,
) -> Iterator[Claim]:
    """In the mean over seeds, and then by more than noise: seeds are splits of the same rows."""
    there = [other for other in others if other in values]
    if lore not in values or not there:
        return
    differences = {other: (values[lore] - values[other]).dropna() for other in there}
    halves = {other: half_width(each, share) for other, each in differences.items()}
    means = {other: float(each.mean()) for other, each in differences.items()}
    found = ", ".join(
        f"{others[other]} {signed(means[other])} ± {number(halves[other])}" for other in there
    )
    found = f"less that of {found}; {counted_noun([len(d) for d in differences.values()], 'seed')}"
    yield Claim(
        f"{title} is the lowest, in the mean over seeds, of {len(there) + 1}",
        max(means.values()) < 0,
        found,
        of,
    )
    clear = [other for other in there if means[other] + halves[other] < 0]
    told = f"clearly below {', '.join(others[other] for other in clear) or 'none of them'}"
    text = (
        f"{title} is below each other by more than noise: the 95 % interval of the mean difference"
        " is below 0"
    )
    yield Claim(text, len(clear) == len(there), told, of)


def _best(values: pd.DataFrame) -> str | None:
    """The global method with the least mean, but for none at all."""
    there = [name for name in GLOBAL if name in values and name != "none"]
    return str(values[there].mean().idxmin()) if there else None


def _comparable(wide: Numbers, lore: str, title: str) -> Iterator[Claim]:
    """Within one deviation over seeds of the best global method, and of histogram binning."""
    asked = [(metric, name, None, "global_comparable") for metric, name in OVERALL.items()]
    asked += [
        (metric, name, "histogram", "good_globally")
        for metric, name in (("ece", "ECE"), ("mce", "MCE"))
    ]
    for metric, name, given, of in asked:
        values = wide.get(metric, pd.DataFrame())
        other = given or _best(values)
        if other in values and lore in values:
            both = values[[lore, other]].dropna()
            excess, deviation = (
                float((both[lore] - both[other]).mean()),
                float(both[other].std(ddof=1)),
            )
            which = (
                f"that of {GLOBAL[str(other)]}"
                if given
                else f"the least of the global methods, that of {GLOBAL[str(other)]}"
            )
            text = f"mean {name} of {title} is at most one deviation over seeds above {which}"
            yield Claim(
                text,
                excess <= deviation,
                f"{signed(excess)}, deviation {number(deviation)},"
                f" {counted_noun([len(both)], 'seed')}",
                (of,),
            )


def _reductions(worst: pd.DataFrame, lore: str, title: str) -> Iterator[Claim]:
    for other, least, name in LEAST:
        other = _best(worst) if other == "next" else other
        if other in worst and lore in worst:
            both = worst[[lore, other]].dropna()
            share = float(1 - both[lore].mean() / both[other].mean())
            text = (
                f"{title} takes at least {100 * least:.0f} % of max group MCE off {name}, here in"
                " one setting of three"
            )
            yield Claim(
                text,
                share >= least,
                f"{100 * share:.0f} % in the means of {counted_noun([len(both)], 'seed')}",
                ("half_of_group_mce",),
            )


def _robust(worst: pd.DataFrame, end: str, reading: str) -> Iterator[Claim]:
    both, best = [f"lore_{one}{end}" for one in MAPS], _best(worst)
    if best is not None and set(both) <= set(worst):
        common = worst[[*both, best]].dropna()
        means = common[both].mean()
        apart, ahead = (
            abs(float(means.iloc[0] - means.iloc[1])),
            float(common[best].mean() - means.max()),
        )
        text = (
            f"both maps ({reading}) differ less in mean max group MCE than the worse of them is"
            " below the best global method"
        )
        found = (
            f"apart by {number(apart)}, below {GLOBAL[best]} by {signed(ahead)};"
            f" {counted_noun([len(common)], 'seed')}"
        )
        yield Claim(text, apart < ahead, found, ("robust_to_map",))


def _correlations(frame: pd.DataFrame, end: str, reading: str) -> Iterator[Claim]:
    """Of local and of global errors with the largest error of a group, over all seeds of the
    paper's methods.
    """
    methods = [*GLOBAL, *BY_GROUP, *(f"lore_{one}{end}" for one in MAPS)]
    wide = frame[frame.method.isin(methods)].pivot(
        index=["method", "seed"], columns="metric", values="value"
    )
    plain = {"ece": "ECE", "mce": "MCE", "nll_top": "NLL", "brier_top": "Brier score"}
    run = wide.index.unique("method")
    counts = wide.groupby("seed").size()
    wide = wide[wide.index.get_level_values("seed").isin(counts.index[counts == len(run)])]
    n_seeds = wide.index.unique("seed").size
    if WORST not in wide or n_seeds < 3:
        return
    for one, called in MAPS.items():
        if (local := f"mlce_{one}{METRIC_ENDS[end]}") not in wide:
            continue
        there = wide[[WORST, local, *(name for name in plain if name in wide)]].dropna()
        gaps = _differences(there, local)
        found = ", ".join(
            f"{plain[metric]} {signed(own, 2)} ({signed(low, 2)} to {signed(high, 2)})"
            for metric, (own, low, high) in gaps.items()
        )
        text = (
            f"MLCE in {called} ({reading}) correlates more with max group MCE than every global"
            " metric: each 95 % interval is above 0"
        )
        found = (
            f"correlation less that of {found}; {counted_noun([n_seeds], 'seed')}, drawn anew"
            f" {DRAWS:,} times"
        )
        yield Claim(text, all(low > 0 for _, low, _ in gaps.values()), found, ("mlce_foretells",))
        text = (
            f"MLCE in {called} ({reading}) correlates with max group MCE, over all and within"
            " methods: each 95 % interval is above 0"
        )
        yield _correlated(there, local, WORST, 1, text, "lower_lce_lower_cost")


def _correlated(there: pd.DataFrame, one: str, other: str, sign: int, text: str, of: str) -> Claim:
    """That two metrics correlate with this sign, over all (method, seed) and within methods, by
    percentiles over draws of whole seeds.
    """
    found = {
        name: _interval_of_correlation(rows[[one, other]])
        for name, rows in (
            ("over all", there),
            ("within", there - there.groupby("method").transform("mean")),
        )
    }
    told = ", ".join(
        f"{signed(r, 2)} ({signed(low, 2)} to {signed(high, 2)}) {name}"
        for name, (r, low, high) in found.items()
    )
    seeds = counted_noun([there.index.unique("seed").size], "seed")
    holds = all(min(sign * low, sign * high) > 0 for _, low, high in found.values())
    return Claim(text, holds, f"{told}; {seeds}, drawn anew {DRAWS:,} times", (of,))


def _interval_of_correlation(both: pd.DataFrame) -> tuple[float, float, float]:
    """Correlation of two columns, and its 2.5 and 97.5 % percentiles over draws of seeds."""
    by_seed = [rows.to_numpy() for _, rows in both.groupby("seed")]
    rng = np.random.default_rng(0)
    drawn = [
        np.corrcoef(
            np.concatenate([by_seed[i] for i in rng.integers(len(by_seed), size=len(by_seed))]).T
        )[0, 1]
        for _ in range(DRAWS)
    ]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(np.corrcoef(both.to_numpy().T)[0, 1]), float(low), float(high)


def _differences(there: pd.DataFrame, one: str) -> dict[str, tuple[float, float, float]]:
    """Its correlation with the largest error of a group less that of each other metric: itself, and
    percentiles over draws of seeds.
    """
    others = [str(name) for name in there if name not in (one, WORST)]
    columns = there[[WORST, one, *others]]
    by_seed = [rows.to_numpy() for _, rows in columns.groupby("seed")]
    rng = np.random.default_rng(0)

    def less(values: np.ndarray) -> np.ndarray:
        r = np.corrcoef(values.T)[0]
        return r[1] - r[2:]

    drawn = [
        less(np.concatenate([by_seed[i] for i in rng.integers(len(by_seed), size=len(by_seed))]))
        for _ in range(DRAWS)
    ]
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    found = zip(others, less(columns.to_numpy()), low, high, strict=True)
    return {name: (float(own), float(least), float(most)) for name, own, least, most in found}


def cifar10(folder: Path) -> Iterator[Claim]:
    """Of scores of CIFAR-10 in ImageNet's place: ``paper/p4/cifar10``; each record of scores is
    asked by itself.
    """
    records = runs_of(of_cifar10.EXPERIMENT, folder, free=of_cifar10.FREE)
    for name in sorted({str(record["dataset"]["name"]) for record in records}):
        mine = [record for record in records if record["dataset"]["name"] == name]
        yield from of_decisions(
            pd.DataFrame(entries(mine)),
            name,
            mine[0]["dataset"]["n_test"] / mine[0]["dataset"]["n_calibration"],
        )
        with suppress(DataError):  # a method has no run yet
            yield from of_rewards(study_of(mine, folder, (*of_cifar10.AGAINST, GAMMA_02)), name)


def of_decisions(frame: pd.DataFrame, name: str, share: float) -> Iterator[Claim]:
    """Who gains most by abstaining, and what it costs in global errors."""
    wide = {
        str(metric): rows.pivot(index="seed", columns="method", values="value")
        for metric, rows in frame.groupby("metric")
    }
    for metric, called, sign, of in (
        ("reward", "loss of reward at w/u = 10", -1, "highest_reward"),
        ("prr", "loss of PRR", -1, "best_prr_and_global"),
        ("ece", "ECE", 1, "best_prr_and_global"),
        ("nll", "NLL", 1, "best_prr_and_global"),
        ("brier", "Brier score", 1, "best_prr_and_global"),
    ):
        title = f"{name}: {called} of LoRe in t-SNE (γ = .2)"
        yield from _below_all(
            sign * wide.get(metric, pd.DataFrame()), GAMMA_02, title, GLOBAL, (of,), share
        )

    local = "mlce_resnet"
    both = frame[frame.metric.isin((local, "reward"))].pivot(
        index=["method", "seed"], columns="metric", values="value"
    )
    if {local, "reward"} <= set(both) and both.index.unique("seed").size >= 3:
        text = (
            f"{name}: MLCE in t-SNE correlates negatively with the reward at w/u = 10, over all and"
            " within methods: each 95 % interval is below 0"
        )
        yield _correlated(both.dropna(), local, "reward", -1, text, "lower_lce_lower_cost")


def of_rewards(study: Study, name: str) -> Iterator[Claim]:
    """Who gains most by abstaining, whatever a mistake costs: means over seeds at each ratio."""
    ratios, rewards = study.table("reward_by_ratio", "ratio", "reward")
    means = {label: values.mean(axis=0) for label, values in rewards.items()}
    ahead = means.pop(label_of(GAMMA_02)) - np.max(list(means.values()), axis=0)
    n_first, among = (
        int((ahead > 0).sum()),
        f"{len(ratios)} ratios w/u, {ratios[0]:g} to {ratios[-1]:g}",
    )
    text = (
        f"{name}: at more than half of {among}, LoRe in t-SNE (γ = .2) has the highest mean reward"
    )
    found = (
        f"at {n_first}; its reward less the best of {', '.join(means)}: {signed(min(ahead))} to"
        f" {signed(max(ahead))}; {study.runs_of}"
    )
    yield Claim(text, n_first > len(ratios) / 2, found, ("highest_reward",))


def cifar100(folder: Path) -> Iterator[Claim]:
    """Of a record of CIFAR-100, in a t-SNE of its logits: ``paper/p4/cifar100``."""
    with suppress(DataError):  # a method has no run yet
        yield from of_curves(of_cifar100.study(folder), "lore_logits_02", "CIFAR-100")


def of_curves(study: Study, lore: str, name: str) -> Iterator[Claim]:
    """Who has the least MLCE at each bandwidth, in means over seeds."""
    for end, bins in (("", "all bins"), ("_30", "bins of 30 rows or more")):
        gammas, values = study.table(f"lce_by_bandwidth_logits{end}", "bandwidth", "mlce")
        means = {label: np.nanmean(each, axis=0) for label, each in values.items()}
        own = means.pop(label_of(lore))
        ahead = np.min(list(means.values()), axis=0) - own
        n_first = int((ahead > 0).sum())
        text = (
            f"{name}: in {bins} LoRe has the least mean MLCE at each of {len(gammas)} bandwidths,"
            f" {gammas[0]:g} to {gammas[-1]:g} of the spread"
        )
        found = (
            f"at {n_first}; the least of {', '.join(means)} less its own: {signed(min(ahead))} to"
            f" {signed(max(ahead))}; {study.runs_of}"
        )
        yield Claim(text, n_first == len(gammas), found, ("lowest_mlce_everywhere",))


def equal_mass(folder: Path) -> Iterator[Claim]:
    """Of Communities and Crime, calibrated and measured in both kinds of bins:
    ``paper/p4/crime_readings``.
    """
    if records := runs_of(of_crime.READINGS, folder):
        yield from of_bins(pd.DataFrame(entries(records)))


def of_bins(frame: pd.DataFrame) -> Iterator[Claim]:
    """That what is measured of methods in bins of equal width is measured in bins of equal mass
    too, in means over seeds; LoRe has the bins that it is measured in.
    """
    of = ("equal_mass_alike",)
    wide = (
        frame[frame.method != "isotonic_labels"]
        .pivot(index=["seed", "method"], columns="metric", values="value")
        .groupby("method")
        .mean()
    )
    seeds = counted_noun(frame.groupby("method").seed.nunique(), "seed")
    for metric, name in (
        ("ece", "ECE"),
        ("mce", "MCE"),
        (WORST, "max group MCE"),
        ("mlce_pca", "MLCE in PCA"),
    ):
        if not {metric, f"{metric}_mass"} <= set(wide):
            continue
        width, mass = (
            wide[column].rename({own: LORE}).drop(other, errors="ignore")
            for column, own, other in (
                (metric, IN_WIDTH, IN_MASS),
                (f"{metric}_mass", IN_MASS, IN_WIDTH),
            )
        )
        ratio, r = mass / width, float(width.corr(mass, method="spearman"))
        text = (
            f"Crime: mean {name} in bins of equal mass is within a tenth of that in bins of equal"
            " width, of each method"
        )
        found = (
            f"{number(float(ratio.min()), 2)} to {number(float(ratio.max()), 2)} times it,"
            f" {len(ratio)} methods, {seeds}"
        )
        yield Claim(text, bool((ratio - 1).abs().max() <= ALIKE), found, of)
        text = (
            f"Crime: both kinds of bins order the methods alike in mean {name}: the rank"
            " correlation is at least .9"
        )
        yield Claim(text, r >= 0.9, f"{signed(r, 2)}, {len(ratio)} methods, {seeds}", of)
        if LORE in width and LORE in mass and len(width) > 1:
            signs = [np.sign(each[LORE] - each.drop(LORE)) for each in (width, mass)]
            same = int((signs[0] == signs[1]).sum())
            text = (
                f"Crime: LoRe in principal components has a lower mean {name} than the same methods"
                " in both kinds of bins"
            )
            yield Claim(
                text,
                same == len(signs[0]),
                f"the same of {same} of {len(signs[0])} methods, {seeds}",
                of,
            )


class _Told(ClassifierMixin, BaseEstimator):
    """Its first two features are the probabilities of two classes; the others are where a row
    lies.
    """

    def fit(self, X: np.ndarray | None = None, y: np.ndarray | None = None) -> _Told:
        self.classes_ = np.arange(2)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(X)[:, :2]


def _drawn(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of probabilities and two places, labels that are right more often on one side, and which
    side it is.
    """
    rng = np.random.default_rng(seed)
    proba, where = rng.dirichlet(np.ones(2), size=n), rng.normal(size=(n, 2))
    sides = (where[:, 0] > 0).astype(int)
    return (
        np.column_stack([proba, where]),
        np.where(rng.random(n) < 0.4 + 0.5 * sides, proba.argmax(axis=1), rng.integers(2, size=n)),
        sides,
    )


def limits(folder: Path, bins: int = 5) -> Iterator[Claim]:
    """What local errors and LoRe are at the ends of the bandwidth, computed on 500 drawn rows; it
    asks no run.
    """
    (X, y, sides), (new, _, new_sides) = _drawn(500, 0), _drawn(300, 1)
    top_label = TopLabel.from_proba(X[:, :2])
    ends = {
        name: of_rows(y, top_label, bins=bins)
        - local(y, top_label, X[:, 2:], bandwidth=LARGE, bins=bins)
        for name, of_rows, local in (("MCE", mce, mlce), ("ECE", ece, lce))
    }
    found = ", ".join(f"{value:.1g} from the {name}" for name, value in ends.items())
    text = f"at γ = {LARGE:.0e} MLCE is the MCE, and mean LCE the ECE, to ten digits"
    yield Claim(
        text, max(map(abs, ends.values())) < 1e-10, found, ("mlce_becomes_mce", "mlce_becomes_one")
    )
    alone, largest = (
        mlce(y, top_label, X[:, 2:], bandwidth=1 / LARGE, bins=bins),
        float(np.abs(top_label.confidence - top_label.correct(y)).max()),
    )
    text = (
        f"at γ = {1 / LARGE:.0e} MLCE is the largest error of a single row, 1 − the confidence of a"
        " wrong one"
    )
    yield Claim(text, alone == largest, f"{alone:.4f} and {largest:.4f}", ("mlce_becomes_one",))
    features = FeatureMap(source="rows", reduce="none", scale="none")
    parent, fitted = (
        FrozenEstimator(_Told().fit()),
        {"X": X[:2], "y": np.arange(2), "X_calibration": X, "y_calibration": y},
    )
    grouped = {**fitted, "groups": sides[:2], "groups_calibration": sides}
    histogram = HistogramBinning(parent, by_class=False, bins=bins)
    wide = LocalRecalibration(parent, features=features, bandwidth=1e9, bins=bins, random_state=0)
    off = np.abs(
        wide.fit(**fitted).predict_confidence(new) - histogram.fit(**fitted).predict_confidence(new)
    ).max()
    yield Claim(
        "at γ = 1e+09 LoRe is histogram binning, to seven digits",
        bool(off < 1e-7),
        f"{off:.1g} apart",
        ("becomes_histogram",),
    )
    by_kernel = LocalRecalibration(
        parent, features=features, kernel="group", bins=bins, random_state=0
    ).fit(**grouped)
    by_group = GroupWise(parent, HistogramBinning(None, by_class=False, bins=bins)).fit(**grouped)
    off = np.abs(
        by_kernel.predict_confidence(new, new_sides) - by_group.predict_confidence(new, new_sides)
    ).max()
    text = "with the kernel of groups LoRe is histogram binning of each group, to twelve digits"
    yield Claim(text, bool(off < 1e-12), f"{off:.1g} apart", ("becomes_groupwise",))


def bayes(folder: Path) -> Iterator[Claim]:
    """The posterior of Gaussian XOR against one that is too sure on one side, on samples; it asks
    no run.
    """
    places = of_theorem1.grid(7)
    for by, what, rule in (
        (
            of_theorem1.bayes,
            "the true posterior",
            "falls as 1/√n: its slope is −.5 ± .1 at each bandwidth",
        ),
        (
            of_theorem1.classify,
            "that at a wrong temperature",
            "does not: its slope is above −.4 at each bandwidth",
        ),
    ):
        errors = np.array([_mean_errors(places, n, by) for n in SAMPLES])
        slopes = np.polyfit(np.log(SAMPLES), np.log(errors), 1)[0]
        holds = np.abs(slopes + 0.5) <= SLACK if by is of_theorem1.bayes else slopes > -0.5 + SLACK
        found = ", ".join(
            f"{signed(value, 2)} (γ = {gamma:g})"
            for value, gamma in zip(slopes, of_theorem1.BANDWIDTHS, strict=True)
        )
        found += f"; {SAMPLES[0]:,} to {SAMPLES[-1]:,} rows, {REPEATS} samples each"
        yield Claim(
            f"mean |SLCE| of {what} at 49 places {rule}",
            bool(holds.all()),
            found,
            ("bayes_is_calibrated",),
        )


def _mean_errors(
    places: np.ndarray, n: int, by: Callable[[np.ndarray], of_theorem1.Said]
) -> np.ndarray:
    """Float[b]: mean |SLCE_n| over places and samples."""
    return np.mean(
        [
            np.abs(of_theorem1.estimated(places, n, np.random.default_rng((n, i)), by)).mean(axis=1)
            for i in range(REPEATS)
        ],
        axis=0,
    )
