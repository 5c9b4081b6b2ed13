"""Claims of the paper on PhANNs, tested on runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from sklearn.model_selection import train_test_split

from experiments.common.claims import Claim, is_more_often
from experiments.common.markdown import number
from experiments.p2.figures.densities import Added
from experiments.p2.figures.study import FIGURE_17, Study
from kdgraph.figures.reliability import wilson_interval
from kdgraph.metrics import ece

BIN = 0.01  # Width of the bins of published scores, as a share of the highest
# Least share of bins whose 95 % interval has the mean confidence, for two curves that agree.
LEVEL = 0.9
SLIGHT = 0.1  # Share of calibration's whole gain that is small
# Ratio of NLLs up to which a method is competitive with another; the paper has no number.
COMPETITIVE = 1.1
# Sentences of ``claims.csv`` on the fitted rows themselves. The others are tested on rows that were
# not fitted too: in sample the more flexible of two curves has the lower NLL.
IN_SAMPLE = {
    "minor_capsid",
    "calibrated_already",
    "some_need_none",
    "b_opt_wiggles",
    "bandwidths_in_order",
}
MOST = "by a one-sided sign test at .05"  # Rule of claims on most classes
StudyTest = Callable[[Study], Claim]
PartTest = tuple[str, StudyTest]  # sentences of ``claims.csv`` that it is a part of, and the test
Margin = Callable[[Mapping[str, float]], float]


def claims(study: Study) -> Iterator[Claim]:
    """Yield every claim that the counts can test, in the order of the paper."""
    for names, test in TESTS:
        yield replace(test(study), sentences=tuple(names.split()))


def claims_on_studies(studies: Iterable[Study]) -> Iterator[Claim]:
    """Yield the same claims, and the number of studies in which each of them holds."""
    for same in zip(*(list(claims(study)) for study in studies), strict=True):
        held = sum(claim.holds for claim in same)
        evidence = f"in {held} of {len(same)} draws; the last: {same[-1].measured}"
        yield Claim(same[0].text, held == len(same), evidence, same[0].sentences)


def with_spread_scores(study: Study, n: int) -> Iterator[Study]:
    """Return n studies that are fitted to scores anywhere in their published bins."""
    for seed in range(n):
        yield study.fitted_to(spread(study, np.random.default_rng(seed)))


def held_out(study: Study, n: int) -> Iterator[Study]:
    """Return n studies that are fitted to one half of the rows and tested on the other."""
    kinds = 2 * study.top_label.predicted + study.correct
    for seed in range(n):
        fit, test_rows = train_test_split(
            np.arange(len(study.y)), test_size=0.5, stratify=kinds, random_state=seed
        )
        yield replace(
            study.fitted_to(study.X[fit], study.y[fit]), X=study.X[test_rows], y=study.y[test_rows]
        )


def claims_on_added_rows(study: Study, result: Added) -> Iterator[Claim]:
    """Yield the claims of Figure 15: more true rows only raise the confidence of a class."""
    before, *after = result.confidence
    for label in after:
        rise = result.confidence[label] - result.confidence[before]
        numbers = (
            f"from {rise.min():+.3f} to {rise.max():+.3f}, mean {rise.mean():+.3f} over scores"
        )
        weak = "" if label == after[-1] else " (weak: at one bandwidth it is an identity)"
        text = f"Confidence only rises (Section XIII B), {label}{weak}"
        yield Claim(text, bool(rise.min() >= 0), numbers, ("more_true_rows",))
    lost = result.nll[before] - result.nll[after[-1]]
    nll = [study.nll[m]["HTJ"] for m in FIGURE_17 if m in study.nll and m != "none"]
    label = f"{result.nll[before]:.3f} before, {result.nll[after[-1]]:.3f} recalibrated"
    text = (
        "Label-shift error is larger than the differences between the"
        " techniques (Section XV), here of HTJ alone"
    )
    evidence = f"{lost:.3f} nats a row ({label}) against {max(nll) - min(nll):.3f}"
    yield Claim(text, lost > max(nll) - min(nll), evidence, ("label_shift",))


def claims_on_new_rows(halves: Iterable[Claim]) -> Iterator[Claim]:
    """Yield the claims of held-out rows whose sentence is not of the fitted rows alone."""
    for claim in halves:
        if names := tuple(name for name in claim.sentences if name not in IN_SAMPLE):
            yield replace(
                claim,
                text=f"{claim.text}; fitted to one half of the rows and judged by the other",
                sentences=names,
            )


def spread(study: Study, rng: np.random.Generator) -> np.ndarray:
    """Return Float[n, K], rows whose score is anywhere in its published bin."""
    X, top = study.X.copy(), study.top_label
    rows = np.arange(len(X))
    lower = np.round(top.confidence / BIN - 0.5) * BIN
    score = np.where(top.confidence >= 1, 1, np.minimum(lower + BIN * rng.random(len(X)), 1))
    others = 1 - top.confidence
    X *= ((1 - score) / np.where(others > 0, others, 1))[:, None]
    X[rows, top.predicted] = score
    return X


def _precision_of_minor_capsid(study: Study) -> Claim:
    right, wrong = (len(scores) for scores in study.scores("Minor capsid"))
    share = right / (right + wrong)
    text = "Conf1 of Minor capsid is .07 (Section III)"
    return Claim(text, f"{share:.2f}" == "0.07", f"{right} of {right + wrong}: {number(share)}")


def _histogram_and_densities_agree(study: Study) -> Claim:
    inside, bins = 0, 0
    for name in study.learnt("bandwidth", "kde"):
        own = study.predicted_as(name)
        score, predicted = study.top_label.confidence[own], study.confidence["kde"].confidence[own]
        result = study.bins(name)
        index = np.clip(np.ceil(score * len(result.count)).astype(int) - 1, 0, None)
        for b in np.flatnonzero(result.count):
            low, high = wilson_interval(result.accuracy[b : b + 1], result.count[b : b + 1])
            inside, bins = (
                inside + bool(low[0] <= predicted[index == b].mean() <= high[0]),
                bins + 1,
            )
    text = (
        "kernel densities and histogram agree (Figure 5): in nine of ten bins the mean confidence"
        " is in the share's 95 % interval"
    )
    return Claim(text, inside >= LEVEL * bins, f"{inside} of {bins} bins")


def _least_of_all(sentences: str, text: str, value: Callable[[Study, str], float]) -> PartTest:
    """Return the test whether a value is least on the two classes that the paper names."""

    def test(study: Study) -> Claim:
        values = {name: value(study, name) for name in study.shown if name in study.nll["kde"]}
        order = sorted(values, key=lambda name: values[name])
        holds = set(order[:2]) == {"Minor tail", "Portal"}
        return Claim(text, holds, _listed({name: values[name] for name in order}))

    return sentences, test


def _ece_of_class(study: Study, name: str) -> float:
    own = study.predicted_as(name)
    return ece(study.y[own], study.top_label[own], bins=10)


def _cum_overestimates_low_scores(study: Study) -> Claim:
    too_much = {}
    for name in study.learnt("bandwidth", "kde"):
        own = study.predicted_as(name)
        low = own[study.top_label.confidence[own] < np.median(study.top_label.confidence[own])]
        too_much[name] = float(
            (study.confidence["cum"].confidence[low] - study.correct[low]).mean()
        )
    text = (
        "Cum overestimates the confidence for low scores (Figure 8, here"
        " of all classes): below the median score"
    )
    return Claim(text, min(too_much.values()) > 0, _listed(too_much))


def _bandwidths_are_in_order(study: Study) -> Claim:
    rules = [study.learnt("bandwidth", method) for method in ("kde_b_mon", "kde", "kde_b_mon4")]
    broken = [name for name in rules[0] if not rules[0][name] > rules[1][name] > rules[2][name]]
    text = "b_mon > b_mon2 > b_mon4 on every class"
    return Claim(text, not broken, f"broken on {', '.join(broken) or 'none'} of {len(rules[0])}")


def _two_turns_more_change_little(study: Study) -> Claim:
    lost = {
        name: (nll["kde_b_mon"] - nll["kde"], nll["none"] - nll["kde"])
        for name, nll in _by_class(study).items()
    }
    small = [name for name, (difference, gain) in lost.items() if difference <= SLIGHT * gain]
    text = (
        "the difference between KDE(b_mon) and KDE(b_mon2) is small (Section XIV): a tenth of what"
        " calibration gains, on most classes"
    )
    listed = _listed({name: difference for name, (difference, _) in lost.items()})
    holds, p = is_more_often(len(small), len(lost))
    return Claim(
        f"{text}, {MOST}", holds, f"{len(small)} of {len(lost)}, one-sided p {p:.2g}; {listed}"
    )


def _best_bandwidth_wiggles(study: Study) -> Claim:
    changes = study.learnt("sign_changes", "kde_b_opt")
    most = sorted(changes, key=lambda name: -changes[name])
    text = (
        "b_opt gives wiggly curves for HTJ and Major capsid (Figure 13): more sign changes than"
        " b_mon4 may have, most of all classes"
    )
    holds = set(most[:2]) == {"HTJ", "Major capsid"} and changes[most[1]] > 4
    return Claim(text, holds, ", ".join(f"{name} {changes[name]:.0f}" for name in most))


def _best_bandwidth_almost_always_wiggles(study: Study) -> Claim:
    changes = study.learnt("sign_changes", "kde_b_opt")
    many = [name for name, count in changes.items() if count > 2]
    text = (
        "b_opt almost always wiggles on PhANNs (Appendix): more sign changes"
        " than b_mon2 may have, on nine of ten classes"
    )
    return Claim(text, len(many) >= LEVEL * len(changes), f"{len(many)} of {len(changes)} classes")


def _by_class(study: Study) -> dict[str, dict[str, float]]:
    return {
        n: {method: values[n] for method, values in study.nll.items()} for n in study.nll["kde"]
    }


def _on_each(sentences: str, text: str, margin: Margin, *, or_equal: bool = False) -> PartTest:
    """Return the test whether the margin is above 0 (or is 0) on every class."""

    def test(study: Study) -> Claim:
        result = {name: margin(nll) for name, nll in _by_class(study).items()}
        count, n = len(_above(result, or_equal)), len(result)
        return Claim(text, count == n, f"{count} of {n}; {_listed(result)}")

    return sentences, test


def _on_most(sentences: str, text: str, margin: Margin) -> PartTest:
    """Return the test whether the margin is 0 or above on most classes."""

    def test(study: Study) -> Claim:
        result = {name: margin(nll) for name, nll in _by_class(study).items()}
        count, n = len(_above(result, True)), len(result)
        holds, p = is_more_often(count, n)
        evidence = f"{count} of {n}, one-sided p {p:.2g}; {_listed(result)}"
        return Claim(f"{text}, {MOST}", holds, evidence)

    return sentences, test


def _above(result: Mapping[str, float], or_equal: bool) -> list[str]:
    return [name for name, value in result.items() if value > 0 or (or_equal and value == 0)]


def _listed(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {number(value)}" for name, value in values.items())


# Tests in the order of the paper.
TESTS: Sequence[PartTest] = (
    ("minor_capsid", _precision_of_minor_capsid),
    ("", _histogram_and_densities_agree),
    _least_of_all(
        "calibrated_already",
        "the score is very close to calibrated for Minor tail and Portal (Figure 7): its two"
        " lowest ECEs are theirs",
        _ece_of_class,
    ),
    _least_of_all(
        "some_need_none",
        "uncalibrated does well on Minor tail and Portal (Section XIV): it loses least against"
        " KDE(b_mon2) there",
        lambda study, name: study.nll["none"][name] - study.nll["kde"][name],
    ),
    _on_each(
        "always_calibrate cannot_hurt",
        "KDE(b_mon2) is better than uncalibrated on every class (Section XIV)",
        lambda nll: nll["none"] - nll["kde"],
    ),
    ("cum_overestimates", _cum_overestimates_low_scores),
    _on_each(
        "cutoff_helps",
        "Cum+ is better than Cum on every class (Section VII)",
        lambda nll: nll["cum"] - nll["cum_plus"],
    ),
    _on_each(
        "cum_plus_far_worse",
        "Cum+ is still worse than kernel densities and histograms (Section VII): NLL less the"
        " larger of theirs",
        lambda nll: nll["cum_plus"] - max(nll["kde"], nll["histogram"]),
    ),
    _on_most(
        "cum_star_competitive",
        f"CwOC is competitive (Section XIV): its NLL is at most {COMPETITIVE:g} times that of"
        " KDE(b_mon2), on most classes",
        lambda nll: COMPETITIVE * nll["kde"] - nll["cum_star"],
    ),
    _on_each(
        "cum_star_competitive",
        "CwOC is not stellar (Section XIV): on no class the best of Figure 17; NLL less the"
        " best one's",
        lambda nll: nll["cum_star"] - min(nll[m] for m in FIGURE_17 if m != "cum_star"),
    ),
    _on_most(
        "kde_at_or_below_histogram",
        "the NLL of KDE(b_mon2) is at or below that of the histogram on most classes (Section XIV)",
        lambda nll: nll["histogram"] - nll["kde"],
    ),
    ("bandwidths_in_order", _bandwidths_are_in_order),
    _on_each(
        "larger_bandwidth_larger_nll b_mon2_generalises",
        "NLL falls from b_mon to b_mon2 to b_mon4 on every class (Section XII): least step of"
        " the two",
        lambda nll: min(nll["kde_b_mon"] - nll["kde"], nll["kde"] - nll["kde_b_mon4"]),
        or_equal=True,
    ),
    ("one_minimum_changes_little", _two_turns_more_change_little),
    ("b_opt_wiggles", _best_bandwidth_wiggles),
    ("b_opt_wiggles", _best_bandwidth_almost_always_wiggles),
)
