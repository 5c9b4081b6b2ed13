"""Claims of Salamon et al. on their MNIST ensembles, tested on measurements."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from experiments.common.claims import Claim, is_more_often
from experiments.p2.mnist.measure import ALL, BANDWIDTHS, METHODS, TEMPERATURES, UNCALIBRATED

# Class on which the paper calls one temperature for all classes significantly worse.
WORST_CLASS = "5"
MOST = 0.95  # Share of ensembles in which a clear difference has its sign
LEVEL = 0.05  # Level of the sign tests over classes
OTHERS = tuple(name for name in TEMPERATURES if name != "STS")
# Share of an NLL by which almost identical methods may differ; the paper has no number.
ALMOST = 0.05
MUCH = 0.05  # Share of an NLL that is much less; the paper has no number
RELAXED = ("larger_bandwidth_larger_nll", "b_mon2_generalises")


def claims(result: pd.DataFrame) -> Iterator[Claim]:
    """Yield every claim, of :func:`experiments.p2.mnist.measure.measured`."""
    yield _bandwidths_fall(result)
    yield _optimal_is_narrowest(result)
    yield _relaxing_lowers_nll(result)
    yield _one_temperature_is_worse(result)
    yield _kernels_beat_histograms(result)
    yield from _no_sign(result)
    yield _others_are_better_on_all_rows(result)
    yield _others_are_alike(result)


def claims_on_fully_trained(result: pd.DataFrame, saturated: float) -> Iterator[Claim]:
    """Yield the claims on fully trained networks, whose scores are nearly all above .99."""
    rows = result[(result.metric == "NLL") & (result.test_set == "2")]
    medians = rows.pivot_table(index="method", columns="class", values="value", aggfunc="median")
    for name in ("KDE(b_mon)", "CwOC"):
        yield Claim(
            f"the NLL of {name} on test set 2 is at or below that of Conf1,"
            " which is reasonable here (Section XIII D)",
            bool(medians.loc[name, ALL] <= medians.loc["Conf1", ALL]),
            f"{medians.loc[name, ALL]:.4f} against"
            f" {medians.loc['Conf1', ALL]:.4f}, medians of all rows",
            ("fully_trained",),
        )
    apart = (medians.loc[["CSTS", "TSwA"]] / medians.loc["STS"] - 1).abs()
    classes = apart.drop(columns=ALL).max()
    text = (
        "the NLL of CSTS and TSwA on test set 2 is less than"
        f" {ALMOST:.0%} from that of STS (Section XV)"
    )
    nearly = f"{saturated:.0%} of the scores exceed .99"
    listed = ", ".join(f"{name} {value:.1%}" for name, value in apart[ALL].items())
    statement = f"{text}, of all rows"
    evidence = f"{listed}; {nearly}"
    yield Claim(statement, bool((apart[ALL] < ALMOST).all()), evidence, ("moot_if_saturated",))
    statement = f"{text}, on each class"
    evidence = (
        f"on {(classes < ALMOST).sum()} of {len(classes)}, at most {classes.max():.1%} on class"
        f" {classes.idxmax()}; {nearly}"
    )
    yield Claim(statement, bool((classes < ALMOST).all()), evidence, ("moot_if_saturated",))


def by_ensemble(result: pd.DataFrame, metric: str, test_set: str, klass: str = ALL) -> pd.DataFrame:
    """Return one row for each ensemble, one column for each method."""
    rows = result[
        (result.metric == metric) & (result.test_set == test_set) & (result["class"] == klass)
    ]
    return rows.pivot_table(index="ensemble", columns="method", values="value")


def _bandwidths(result: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each ensemble and class with all bandwidths, a column for each method."""
    rows = result[result.metric == "bandwidth"]
    return rows.pivot_table(index=["ensemble", "class"], columns="method", values="value").dropna()


def _bandwidths_fall(result: pd.DataFrame) -> Claim:
    rows = _bandwidths(result)
    falls = (rows["KDE(b_mon)"] > rows["KDE(b_mon2)"]) & (rows["KDE(b_mon2)"] > rows["KDE(b_mon4)"])
    medians = ", ".join(f"{name[4:-1]} {rows[name].median():.4f}" for name in BANDWIDTHS)
    text = "b_mon > b_mon2 > b_mon4 on each class of each ensemble (appendix)"
    evidence = f"{falls.sum():,} of {len(falls):,} classes; medians {medians}"
    return Claim(text, bool(falls.all()), evidence, ("bandwidths_in_order",))


def _optimal_is_narrowest(result: pd.DataFrame) -> Claim:
    rows = _bandwidths(result)
    means = rows[["KDE(b_opt)", "KDE(b_mon4)"]].mean()
    text = "b_opt is smaller than b_mon4 on the average (appendix)"
    evidence = (
        f"means {means.iloc[0]:.4f} and {means.iloc[1]:.4f}; smaller in"
        f" {(rows['KDE(b_opt)'] < rows['KDE(b_mon4)']).mean():.0%}"
    )
    return Claim(text, bool(means.iloc[0] < means.iloc[1]), evidence, ("b_opt_smallest_on_mnist",))


def _relaxing_lowers_nll(result: pd.DataFrame) -> Claim:
    order = ["KDE(b_mon)", "KDE(b_mon2)", "KDE(b_mon4)"]
    medians = {
        test_set: by_ensemble(result, "NLL", test_set)[order].median() for test_set in ("1", "2")
    }
    listed = "; ".join(
        f"set {test_set}: {', '.join(f'{value:.4f}' for value in each)}"
        for test_set, each in medians.items()
    )
    falls = all(bool((np.diff(each) <= 0).all()) for each in medians.values())
    text = "Larger bandwidths force larger NLL, b_mon, b_mon2, b_mon4 (Figure 19)"
    return Claim(text, falls, f"medians of all rows, {listed}", RELAXED)


def _one_temperature_is_worse(result: pd.DataFrame) -> Claim:
    shares = {}
    for test_set in ("1", "2"):
        rows = by_ensemble(result, "NLL", test_set, WORST_CLASS)
        for name in OTHERS:
            shares[f"{name} on set {test_set}"] = float((rows["STS"] > rows[name]).mean())
    listed = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
    text = f"STS is worse than CSTS, TSwA and CSTSwA on class {WORST_CLASS} (Figure 18)"
    evidence = f"ensembles in which it is: {listed}"
    return Claim(text, min(shares.values()) >= MOST, evidence, ("stars_of_class_5",))


def _others_are_better_on_all_rows(result: pd.DataFrame) -> Claim:
    medians = pd.DataFrame(
        {
            f"set {test_set}": by_ensemble(result, "NLL", test_set).median()
            for test_set in ("1", "2")
        }
    )
    less = 1 - medians.loc[["CSTS", "TSwA"]] / medians.loc["STS"]
    return Claim(
        f"the NLL of CSTS or TSwA is more than {MUCH:.0%} less than"
        " that of STS on both sets (Section VIII)",
        bool((less > MUCH).all(axis=1).any()),
        "less by "
        + ", ".join(
            f"{v:.1%} ({name} on {test_set})" for (name, test_set), v in less.stack().items()
        )
        + "; medians of all rows",
        ("top_label_temperatures",),
    )


def _others_are_alike(result: pd.DataFrame) -> Claim:
    rows = result[(result.metric == "NLL") & (result["class"] != ALL) & result.method.isin(OTHERS)]
    medians = rows.pivot_table(
        index=["test_set", "class"], columns="method", values="value", aggfunc="median"
    )
    apart = medians.max(axis=1) / medians.min(axis=1) - 1
    test_set, klass = apart.idxmax()
    return Claim(
        f"median NLL of CSTS, TSwA and CSTSwA is less than {ALMOST:.0%}"
        " apart on each class and set (Section XII)",
        bool((apart < ALMOST).all()),
        f"on {(apart < ALMOST).sum()} of {len(apart)}; at most"
        f" {apart.max():.1%} apart, on class {klass} of set {test_set}",
        ("three_alike",),
    )


def _kernels_beat_histograms(result: pd.DataFrame) -> Claim:
    rows = result[(result.metric == "NLL") & (result.test_set == "2") & (result["class"] != ALL)]
    medians = rows.pivot_table(index="class", columns="method", values="value", aggfunc="median")
    better = medians["KDE(b_mon2)"] <= medians["histogram"]
    holds, p = is_more_often(int(better.sum()), len(better))
    return Claim(
        "KDE(b_mon2) is at or below the histogram on most classes"
        " (Section XIV), by a one-sided sign test at .05",
        holds,
        f"{better.sum()} of {len(better)} classes on test set 2, which no method saw (medians of"
        f" NLL), one-sided p {p:.2g}",
        ("kde_at_or_below_histogram",),
    )


def _no_sign(result: pd.DataFrame) -> Iterator[Claim]:
    """Yield the two halves of the paper's sentence: no sign, and no bias of fits on set 1.

    All ensembles share both sets, and set 2 is the easier one for all methods alike. So a bias is
    measured against the uncalibrated scores, which are fitted on neither: on a class, a method has
    one where its NLL on set 2, as a multiple of that on set 1, exceeds that of the uncalibrated
    scores.
    """
    rows = result[(result.metric == "NLL") & (result["class"] != ALL)]
    medians = rows.pivot_table(
        index=["method", "class"], columns="test_set", values="value", aggfunc="median"
    )
    higher = (medians["2"] > medians["1"]).groupby(level="method").sum()
    classes = medians.index.get_level_values("class").nunique()
    listed = ", ".join(f"{name} {higher[name]}" for name in [*METHODS, UNCALIBRATED])
    chance = min(binomtest(int(higher[name]), classes).pvalue for name in METHODS)
    text = "Differences of test sets 1 and 2 have no sign (appendix)"
    evidence = (
        f"classes of {classes} with a higher median NLL on set 2: {listed};"
        f" least p {chance:.3f} (two-sided sign test)"
    )
    yield Claim(text, bool(chance > LEVEL), evidence, ("sets_differ_at_random",))
    ratio = (medians["2"] / medians["1"]).unstack("method")
    # Rounding of equal ratios has no sign.
    biased = {n: int((ratio[n] > ratio[UNCALIBRATED] * (1 + 1e-12)).sum()) for n in METHODS}
    # The least p of several methods is below .05 by chance more often than in one of twenty.
    least = min(
        1.0, len(biased) * min(is_more_often(count, classes)[1] for count in biased.values())
    )
    yield Claim(
        "a fit on set 1 loses no more on set 2 than the uncalibrated scores do (appendix): sign"
        f" test over classes at {LEVEL:g}, Bonferroni over methods",
        least > LEVEL,
        f"classes of {classes} on which the NLL on set 2, as a multiple of"
        " that on set 1, exceeds the uncalibrated one: "
        + ", ".join(f"{name} {count}" for name, count in biased.items())
        + f"; least p {least:.3f}",
        ("bias_within_noise",),
    )
