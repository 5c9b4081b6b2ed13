"""Claims of Luo et al., tested on runs; ``claims.csv`` names the functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

from experiments.common.claims import Claim
from experiments.common.frames import by_metric, half_width
from experiments.common.markdown import counted_noun, number, signed
from experiments.common.runs import runs_of
from experiments.p4 import cifar10 as cifar10_study
from experiments.p4 import cifar100 as cifar100_study
from experiments.p4 import crime as crime_study
from experiments.p4 import theorem1
from experiments.p4.figures import Study, label_of, study_of
from experiments.p4.setting import WORST, entries, share_of
from kdgraph.calibration import GroupWise
from kdgraph.calibration.local import LocalRecalibration
from kdgraph.calibration.top_label import HistogramBinning
from kdgraph.errors import DataError
from kdgraph.features import FeatureMap
from kdgraph.metrics import TopLabel, ece, lce, mce, mlce

MAPS = {"tsne": "t-SNE", "pca": "PCA"}
# Suffix of a method → the units of its bandwidths, which the paper does not print.
READINGS = {"_spread": "γ as printed, in units of spread", "_printed": "γ in the map's own units"}
# Suffix of a method → that of a local error in the same units.
METRIC_SUFFIXES = {"_spread": "", "_printed": "_printed"}
GLOBAL = {
    "none": "none",
    "temperature": "temperature",
    "histogram": "histogram",
    "isotonic": "isotonic",
    "mmce": "MMCE",
}
BY_GROUP = {"group_temperature": "temperature by group", "group_histogram": "histogram by group"}
# LoRe as one method, and in bins of equal width and of equal mass.
LORE, IN_WIDTH, IN_MASS = "LoRe", "lore_pca_spread", "lore_pca_mass"
GAMMA_02 = "lore_tsne_02"  # LoRe as on ImageNet: in t-SNE at the printed bandwidth
OVERALL = {"ece": "ECE", "nll_top": "NLL", "brier_top": "Brier score"}
# Reductions in the paper's mean over its three settings.
LEAST = (("none", 0.49, "no recalibration"), ("next", 0.23, "the next best global method"))
DRAWS = 1000
LARGE = 1e12  # A bandwidth at which all rows are in one place
ALIKE = 0.1  # Relative difference of very similar results; the paper has no number
# Rows of samples, and the number of samples of each size.
SAMPLES, REPEATS = (1000, 4000, 16_000, 64_000), 10
# Error of a slope: a mean of ten samples over places near each other is a tenth off, and sizes go
# from 1 to 64.
SLACK = 0.1
Numbers = Mapping[str, pd.DataFrame]  # Metric → a row for each seed, a column for each method


def crime(folder: Path) -> Iterator[Claim]:
    """Yield the claims on Communities and Crime, with 60 epochs: ``paper/p4/crime_long``."""
    records = runs_of(crime_study.EXPERIMENT, folder)
    if records:
        yield from claims_on_setting(pd.DataFrame(entries(records)), share_of(records[0]))
        with suppress(DataError):  # no run of the network alone yet
            yield from claims_on_bandwidths(study_of(records, folder, ("none",)))


def claims_on_setting(frame: pd.DataFrame, share: float) -> Iterator[Claim]:
    """Yield the claims on a setting; ``share``: test rows per fitted row."""
    wide = by_metric(frame)
    worst = wide.get(WORST, pd.DataFrame())
    for suffix, reading in READINGS.items():
        for space, name in MAPS.items():
            lore, title = f"lore_{space}{suffix}", f"LoRe in {name} ({reading})"
            yield from _claims_of_lower_errors(wide, lore, title, space, suffix, share)
            yield from _claims_of_comparable_errors(wide, lore, title)
            if space == "tsne":
                yield from _claims_of_reductions(worst, lore, title)
        yield from _claim_of_robustness(worst, suffix, reading)
        yield from _claims_of_correlation(frame, suffix, reading)


def claims_on_bandwidths(study: Study) -> Iterator[Claim]:
    """Yield the claim on the MLCE of the network alone at the least bandwidth, mean over seeds."""
    for space, name in MAPS.items():
        gammas, values = study.table(f"lce_by_bandwidth_{space}", "bandwidth", "mlce")
        mean = values[label_of("none")].mean(axis=0)[0]
        text = f"Crime: mean MLCE in {name} rounds to 1.00 at γ = {gammas[0]:g} in units of spread"
        measured = f"{mean:.4f}; {study.runs_of}"
        yield Claim(text, bool(mean >= 0.995), measured, ("mlce_becomes_one",))


def _claims_of_lower_errors(
    wide: Numbers, lore: str, title: str, space: str, suffix: str, share: float
) -> Iterator[Claim]:
    local, name, no_other = f"mlce_{space}{METRIC_SUFFIXES[suffix]}", MAPS[space], {"none": "none"}
    comparisons: list[tuple[str, str, Mapping[str, str], str]] = [
        (WORST, "max group MCE", GLOBAL, "lowest_group_mce"),
        (WORST, "max group MCE", BY_GROUP, "beats_groupwise"),
        *((m, OVERALL[m], GLOBAL, "more_accurate_confidence") for m in ("nll_top", "brier_top")),
        (local, f"MLCE in {name}", GLOBAL, "lowest_mlce_everywhere improves_lce_most"),
        (f"lce_{space}", f"mean LCE in {name}", GLOBAL, "improves_lce_most"),
        *((f"lce_{other}", f"mean LCE in {MAPS[other]}", no_other, "any_map") for other in MAPS),
    ]
    for metric, error, others, sentences in comparisons:
        values = wide.get(metric, pd.DataFrame())
        yield from _lowest(values, lore, f"{error} of {title}", others, sentences.split(), share)


def _lowest(
    values: pd.DataFrame,
    lore: str,
    title: str,
    others: Mapping[str, str],
    sentences: Sequence[str],
    share: float,
) -> Iterator[Claim]:
    names = [other for other in others if other in values]
    if lore not in values or not names:
        return
    differences = {other: (values[lore] - values[other]).dropna() for other in names}
    halves = {other: half_width(each, share) for other, each in differences.items()}
    means = {other: float(each.mean()) for other, each in differences.items()}
    each = (f"{others[name]} {signed(means[name])} ± {number(halves[name])}" for name in names)
    seeds = counted_noun([len(difference) for difference in differences.values()], "seed")
    text = f"{title} is the lowest, in the mean over seeds, of {len(names) + 1}"
    evidence = f"less that of {', '.join(each)}; {seeds}"
    yield Claim(text, max(means.values()) < 0, evidence, tuple(sentences))
    clear = [others[name] for name in names if means[name] + halves[name] < 0]
    text = (
        f"{title} is below each other by more than noise: the 95 %"
        " interval of the mean difference is below 0"
    )
    evidence = f"clearly below {', '.join(clear) or 'none of them'}"
    yield Claim(text, len(clear) == len(names), evidence, tuple(sentences))


def _best(values: pd.DataFrame) -> str | None:
    names = [name for name in GLOBAL if name in values and name != "none"]
    return str(values[names].mean().idxmin()) if names else None


def _claims_of_comparable_errors(wide: Numbers, lore: str, title: str) -> Iterator[Claim]:
    comparisons = [(metric, name, None, "global_comparable") for metric, name in OVERALL.items()]
    comparisons += [(m, m.upper(), "histogram", "good_globally") for m in ("ece", "mce")]
    for metric, name, options, sentence in comparisons:
        values = wide.get(metric, pd.DataFrame())
        other = options or _best(values)
        if other in values and lore in values:
            both = values[[lore, other]].dropna()
            excess = float((both[lore] - both[other]).mean())
            deviation = float(both[other].std(ddof=1))
            which = f"that of {GLOBAL[str(other)]}"
            if not options:
                which = f"the least of the global methods, {which}"
            seeds = counted_noun([len(both)], "seed")
            text = f"mean {name} of {title} is at most one deviation over seeds above {which}"
            evidence = f"{signed(excess)}, deviation {number(deviation)}, {seeds}"
            yield Claim(text, excess <= deviation, evidence, (sentence,))


def _claims_of_reductions(worst: pd.DataFrame, lore: str, title: str) -> Iterator[Claim]:
    for other, least, name in LEAST:
        other = _best(worst) if other == "next" else other
        if other in worst and lore in worst:
            both = worst[[lore, other]].dropna()
            share = float(1 - both[lore].mean() / both[other].mean())
            text = (
                f"{title} takes at least {100 * least:.0f} % of max group MCE"
                f" off {name}, here in one setting of three"
            )
            evidence = f"{100 * share:.0f} % in the means of {counted_noun([len(both)], 'seed')}"
            yield Claim(text, share >= least, evidence, ("half_of_group_mce",))


def _claim_of_robustness(worst: pd.DataFrame, suffix: str, reading: str) -> Iterator[Claim]:
    both, best = [f"lore_{space}{suffix}" for space in MAPS], _best(worst)
    if best is not None and set(both) <= set(worst):
        common = worst[[*both, best]].dropna()
        means = common[both].mean()
        apart = abs(float(means.iloc[0] - means.iloc[1]))
        ahead = float(common[best].mean() - means.max())
        yield Claim(
            f"both maps ({reading}) differ less in mean max group MCE than the worse of them is"
            " below the best global method",
            apart < ahead,
            f"apart by {number(apart)}, below {GLOBAL[best]} by {signed(ahead)};"
            f" {counted_noun([len(common)], 'seed')}",
            ("robust_to_map",),
        )


def _claims_of_correlation(frame: pd.DataFrame, suffix: str, reading: str) -> Iterator[Claim]:
    methods = [*GLOBAL, *BY_GROUP, *(f"lore_{space}{suffix}" for space in MAPS)]
    own = frame[frame.method.isin(methods)]
    wide = own.pivot(index=["method", "seed"], columns="metric", values="value")
    plain = {"ece": "ECE", "mce": "MCE", "nll_top": "NLL", "brier_top": "Brier score"}
    counts, n_methods = wide.groupby("seed").size(), wide.index.unique("method").size
    wide = wide[wide.index.get_level_values("seed").isin(counts.index[counts == n_methods])]
    n_seeds = wide.index.unique("seed").size
    if WORST not in wide or n_seeds < 3:
        return
    for space, name in MAPS.items():
        if (local := f"mlce_{space}{METRIC_SUFFIXES[suffix]}") not in wide:
            continue
        numbers = wide[[WORST, local, *(metric for metric in plain if metric in wide)]].dropna()
        gaps = _differences_of_correlation(numbers, local)
        each = ", ".join(
            f"{plain[metric]} {signed(own, 2)} ({signed(low, 2)} to {signed(high, 2)})"
            for metric, (own, low, high) in gaps.items()
        )
        yield Claim(
            f"MLCE in {name} ({reading}) correlates more with max group MCE than every global"
            " metric: each 95 % interval is above 0",
            all(low > 0 for _, low, _ in gaps.values()),
            f"correlation less that of {each};"
            f" {counted_noun([n_seeds], 'seed')}, drawn anew {DRAWS:,} times",
            ("mlce_foretells",),
        )
        text = (
            f"MLCE in {name} ({reading}) correlates with max group MCE, over all and within"
            " methods: each 95 % interval is above 0"
        )
        yield _claim_of_sign(numbers, local, WORST, 1, text, "lower_lce_lower_cost")


def _claim_of_sign(
    numbers: pd.DataFrame, metric: str, other: str, sign: int, text: str, sentence: str
) -> Claim:
    """Return the claim that two metrics correlate with a sign, over all and within methods."""
    # Over all runs a difference between methods alone makes metrics correlate; within methods it
    # cannot, so that both must have the sign.
    within = numbers - numbers.groupby("method").transform("mean")
    intervals = {
        name: _interval_of_correlation(rows[[metric, other]])
        for name, rows in (("over all", numbers), ("within", within))
    }
    each = ", ".join(
        f"{signed(r, 2)} ({signed(low, 2)} to {signed(high, 2)}) {name}"
        for name, (r, low, high) in intervals.items()
    )
    seeds = counted_noun([numbers.index.unique("seed").size], "seed")
    holds = all(min(sign * low, sign * high) > 0 for _, low, high in intervals.values())
    return Claim(text, holds, f"{each}; {seeds}, drawn anew {DRAWS:,} times", (sentence,))


def _draws_of_seeds(numbers: pd.DataFrame) -> Iterator[np.ndarray]:
    # Seeds are drawn whole: methods of one seed share a network, so single runs are no sample.
    by_seed = [rows.to_numpy() for _, rows in numbers.groupby("seed")]
    rng, n = np.random.default_rng(0), len(by_seed)
    for _ in range(DRAWS):
        yield np.concatenate([by_seed[i] for i in rng.integers(n, size=n)])


def _interval_of_correlation(both: pd.DataFrame) -> tuple[float, float, float]:
    """Return the correlation of two columns, and its 2.5 and 97.5 % percentiles."""
    drawn = [np.corrcoef(rows.T)[0, 1] for rows in _draws_of_seeds(both)]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(np.corrcoef(both.to_numpy().T)[0, 1]), float(low), float(high)


def _differences_of_correlation(
    numbers: pd.DataFrame, metric: str
) -> dict[str, tuple[float, float, float]]:
    """Return a metric's correlation with the worst group less the others', and percentiles."""
    others = [str(name) for name in numbers if name not in (metric, WORST)]
    columns = numbers[[WORST, metric, *others]]

    def less(values: np.ndarray) -> np.ndarray:
        r = np.corrcoef(values.T)[0]
        return r[1] - r[2:]

    low, high = np.percentile(list(map(less, _draws_of_seeds(columns))), [2.5, 97.5], axis=0)
    rows = zip(others, less(columns.to_numpy()), low, high, strict=True)
    return {name: (float(own), float(least), float(most)) for name, own, least, most in rows}


def cifar10(folder: Path) -> Iterator[Claim]:
    """Yield the claims on CIFAR-10, in ImageNet's place: ``paper/p4/cifar10``."""
    records = runs_of(cifar10_study.EXPERIMENT, folder, free=cifar10_study.FREE)
    for name in sorted({str(record["dataset"]["name"]) for record in records}):
        own = [record for record in records if record["dataset"]["name"] == name]
        rows = own[0]["dataset"]
        frame = pd.DataFrame(entries(own))
        yield from claims_on_decisions(frame, name, rows["n_test"] / rows["n_calibration"])
        with suppress(DataError):  # a method has no run yet
            study = study_of(own, folder, (*cifar10_study.AGAINST, GAMMA_02))
            yield from claims_on_rewards(study, name)


def claims_on_decisions(frame: pd.DataFrame, name: str, share: float) -> Iterator[Claim]:
    """Yield the claims on the gain by abstaining, and on its cost in global errors."""
    wide = by_metric(frame)
    for metric, title, sign, sentence in (
        ("reward", "loss of reward at w/u = 10", -1, "highest_reward"),
        ("prr", "loss of PRR", -1, "best_prr_and_global"),
        ("ece", "ECE", 1, "best_prr_and_global"),
        ("nll", "NLL", 1, "best_prr_and_global"),
        ("brier", "Brier score", 1, "best_prr_and_global"),
    ):
        values = sign * wide.get(metric, pd.DataFrame())
        text = f"{name}: {title} of LoRe in t-SNE (γ = .2)"
        yield from _lowest(values, GAMMA_02, text, GLOBAL, (sentence,), share)
    local = "mlce_resnet"
    own = frame[frame.metric.isin((local, "reward"))]
    both = own.pivot(index=["method", "seed"], columns="metric", values="value")
    if {local, "reward"} <= set(both) and both.index.unique("seed").size >= 3:
        text = (
            f"{name}: MLCE in t-SNE correlates negatively with the reward at w/u = 10, over all and"
            " within methods: each 95 % interval is below 0"
        )
        yield _claim_of_sign(both.dropna(), local, "reward", -1, text, "lower_lce_lower_cost")


def _ahead(ahead: np.ndarray) -> str:
    return f"{signed(min(ahead))} to {signed(max(ahead))}"


def claims_on_rewards(study: Study, name: str) -> Iterator[Claim]:
    """Yield the claim on the reward by abstaining, in means at each cost of a mistake."""
    ratios, rewards = study.table("reward_by_ratio", "ratio", "reward")
    means = {label: values.mean(axis=0) for label, values in rewards.items()}
    ahead = means.pop(label_of(GAMMA_02)) - np.max(list(means.values()), axis=0)
    n_first = int((ahead > 0).sum())
    yield Claim(
        f"{name}: at more than half of {len(ratios)} ratios w/u, {ratios[0]:g} to {ratios[-1]:g},"
        " LoRe in t-SNE (γ = .2) has the highest mean reward",
        n_first > len(ratios) / 2,
        f"at {n_first}; its reward less the best of"
        f" {', '.join(means)}: {_ahead(ahead)}; {study.runs_of}",
        ("highest_reward",),
    )


def cifar100(folder: Path) -> Iterator[Claim]:
    """Yield the claims on CIFAR-100, in a t-SNE of its logits: ``paper/p4/cifar100``."""
    with suppress(DataError):  # a method has no run yet
        yield from claims_on_curves(cifar100_study.study(folder), "lore_logits_02", "CIFAR-100")


def claims_on_curves(study: Study, lore: str, name: str) -> Iterator[Claim]:
    """Yield the claims that LoRe has the least MLCE at each bandwidth, in means over seeds."""
    for suffix, bins in (("", "all bins"), ("_30", "bins of 30 rows or more")):
        gammas, values = study.table(f"lce_by_bandwidth_logits{suffix}", "bandwidth", "mlce")
        means = {label: np.nanmean(each, axis=0) for label, each in values.items()}
        own = means.pop(label_of(lore))
        ahead = np.min(list(means.values()), axis=0) - own
        n_first = int((ahead > 0).sum())
        yield Claim(
            f"{name}: in {bins} LoRe has the least mean MLCE at each of {len(gammas)} bandwidths,"
            f" {gammas[0]:g} to {gammas[-1]:g} of the spread",
            n_first == len(gammas),
            f"at {n_first}; the least of {', '.join(means)} less its"
            f" own: {_ahead(ahead)}; {study.runs_of}",
            ("lowest_mlce_everywhere",),
        )


def equal_mass(folder: Path) -> Iterator[Claim]:
    """Yield the claims on Crime in both kinds of bins: ``paper/p4/crime_readings``."""
    if records := runs_of(crime_study.READINGS, folder):
        yield from claims_on_bins(pd.DataFrame(entries(records)))


def claims_on_bins(frame: pd.DataFrame) -> Iterator[Claim]:
    """Yield that numbers in bins of equal width are those in bins of equal mass, in means."""
    sentences = ("equal_mass_alike",)
    own = frame[frame.method != "isotonic_labels"]
    wide = own.pivot(index=["seed", "method"], columns="metric", values="value")
    wide = wide.groupby("method").mean()
    seeds = counted_noun(frame.groupby("method").seed.nunique(), "seed")
    titles = {"ece": "ECE", "mce": "MCE", WORST: "max group MCE", "mlce_pca": "MLCE in PCA"}
    for metric, name in titles.items():
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
        low, high = (number(float(each), 2) for each in (ratio.min(), ratio.max()))
        text = (
            f"Crime: mean {name} in bins of equal mass is within a tenth of"
            " that in bins of equal width, of each method"
        )
        evidence = f"{low} to {high} times it, {len(ratio)} methods, {seeds}"
        yield Claim(text, bool((ratio - 1).abs().max() <= ALIKE), evidence, sentences)
        text = (
            f"Crime: both kinds of bins order the methods alike in mean {name}: the rank"
            " correlation is at least .9"
        )
        yield Claim(text, r >= 0.9, f"{signed(r, 2)}, {len(ratio)} methods, {seeds}", sentences)
        if LORE in width and LORE in mass and len(width) > 1:
            signs = [np.sign(each[LORE] - each.drop(LORE)) for each in (width, mass)]
            same = int((signs[0] == signs[1]).sum())
            text = (
                f"Crime: LoRe in principal components has a lower mean {name}"
                " than the same methods in both kinds of bins"
            )
            evidence = f"the same of {same} of {len(signs[0])} methods, {seeds}"
            yield Claim(text, same == len(signs[0]), evidence, sentences)


class _ProbabilitiesInRows(ClassifierMixin, BaseEstimator):
    """A classifier whose probabilities of two classes are the first two features of a row."""

    def fit(self, X: np.ndarray | None = None, y: np.ndarray | None = None) -> _ProbabilitiesInRows:
        self.classes_ = np.arange(2)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(X)[:, :2]


def _sample(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    proba, place = rng.dirichlet(np.ones(2), size=n), rng.normal(size=(n, 2))
    sides = (place[:, 0] > 0).astype(int)
    is_right = rng.random(n) < 0.4 + 0.5 * sides
    labels = np.where(is_right, proba.argmax(axis=1), rng.integers(2, size=n))
    return np.column_stack([proba, place]), labels, sides


def limits(folder: Path, bins: int = 5) -> Iterator[Claim]:
    """Yield the claims on the limits of the bandwidth, computed on 500 drawn rows, without runs."""
    (X, y, sides), (new, _, new_sides) = _sample(500, 0), _sample(300, 1)
    top_label = TopLabel.from_proba(X[:, :2])
    off = {
        name: of_rows(y, top_label, bins=bins)
        - local(y, top_label, X[:, 2:], bandwidth=LARGE, bins=bins)
        for name, of_rows, local in (("MCE", mce, mlce), ("ECE", ece, lce))
    }
    text = f"at γ = {LARGE:.0e} MLCE is the MCE, and mean LCE the ECE, to ten digits"
    holds = max(map(abs, off.values())) < 1e-10
    evidence = ", ".join(f"{value:.1g} from the {name}" for name, value in off.items())
    yield Claim(text, holds, evidence, ("mlce_becomes_mce", "mlce_becomes_one"))
    alone = mlce(y, top_label, X[:, 2:], bandwidth=1 / LARGE, bins=bins)
    largest = float(np.abs(top_label.confidence - top_label.correct(y)).max())
    text = (
        f"at γ = {1 / LARGE:.0e} MLCE is the largest error of a single"
        " row, 1 − the confidence of a wrong one"
    )
    yield Claim(text, alone == largest, f"{alone:.4f} and {largest:.4f}", ("mlce_becomes_one",))
    features = FeatureMap(source="rows", reduce="none", scale="none")
    parent = FrozenEstimator(_ProbabilitiesInRows().fit())
    rows = {"X": X[:2], "y": np.arange(2), "X_calibration": X, "y_calibration": y}
    grouped = {**rows, "groups": sides[:2], "groups_calibration": sides}
    histogram = HistogramBinning(parent, by_class=False, bins=bins).fit(**rows)
    wide = LocalRecalibration(parent, features=features, bandwidth=1e9, bins=bins, random_state=0)
    wide.fit(**rows)
    apart = np.abs(wide.predict_confidence(new) - histogram.predict_confidence(new)).max()
    text = "at γ = 1e+09 LoRe is histogram binning, to seven digits"
    yield Claim(text, bool(apart < 1e-7), f"{apart:.1g} apart", ("becomes_histogram",))
    by_kernel = LocalRecalibration(
        parent, features=features, kernel="group", bins=bins, random_state=0
    ).fit(**grouped)
    by_group = GroupWise(parent, HistogramBinning(None, by_class=False, bins=bins)).fit(**grouped)
    both = (model.predict_confidence(new, new_sides) for model in (by_kernel, by_group))
    apart = np.abs(np.subtract(*both)).max()
    text = "with the kernel of groups LoRe is histogram binning of each group, to twelve digits"
    yield Claim(text, bool(apart < 1e-12), f"{apart:.1g} apart", ("becomes_groupwise",))


def bayes(folder: Path) -> Iterator[Claim]:
    """Yield the claims on the posterior of Gaussian XOR and on one too sure, without runs."""
    places = theorem1.grid(7)
    for classifier, name, rule in (
        (
            theorem1.bayes,
            "the true posterior",
            "falls as 1/√n: its slope is −.5 ± .1 at each bandwidth",
        ),
        (
            theorem1.classify,
            "that at a wrong temperature",
            "does not: its slope is above −.4 at each bandwidth",
        ),
    ):
        errors = np.array([_mean_errors(places, n, classifier) for n in SAMPLES])
        slopes = np.polyfit(np.log(SAMPLES), np.log(errors), 1)[0]
        is_true = classifier is theorem1.bayes
        holds = np.abs(slopes + 0.5) <= SLACK if is_true else slopes > -0.5 + SLACK
        each = ", ".join(
            f"{signed(value, 2)} (γ = {gamma:g})"
            for value, gamma in zip(slopes, theorem1.BANDWIDTHS, strict=True)
        )
        text = f"mean |SLCE| of {name} at 49 places {rule}"
        evidence = f"{each}; {SAMPLES[0]:,} to {SAMPLES[-1]:,} rows, {REPEATS} samples each"
        yield Claim(text, bool(holds.all()), evidence, ("bayes_is_calibrated",))


def _mean_errors(
    places: np.ndarray, n: int, classifier: Callable[[np.ndarray], theorem1.Prediction]
) -> np.ndarray:
    samples = (
        theorem1.estimated(places, n, np.random.default_rng((n, i)), classifier)
        for i in range(REPEATS)
    )
    return np.mean([np.abs(each).mean(axis=1) for each in samples], axis=0)
