"""What a standard deviation over seeds is over, and what a reader of means and tests must know
about the runs behind them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kdgraph.results.comparison.compared import Compared
from kdgraph.results.comparison.paired import ALPHA, pairs_needed
from kdgraph.results.comparison.study import Study
from kdgraph.results.names import Repetition, Run, differing_between_datasets
from kdgraph.results.parts import AS_IN_PAPER, is_as_in_paper
from kdgraph.results.words import numbered
from kdgraph.wording import some

SIMULATIONS = "kdgraph.data.simulations."


def repetitions(study: Study) -> str:
    """``seed 0``, ``3 seeds (0–2)``, ``10 folds of seed 0``, ``2 to 3 seeds``: of each data set."""
    found = {tuple(of) for of in study.repetitions.values()}
    if len(found) > 1:
        counts = sorted({len(of) for of in found})
        if len(counts) > 1:
            return f"{counts[0]} to {counts[-1]} {noun(study)}s each"
        return f"{counts[0]} {noun(study)}{'s' * (counts[0] > 1)} each, not the same"
    (same,) = found
    seeds, folds = (
        sorted({each[0] for each in same}),
        sorted({each[1] for each in same if len(each) > 1}),
    )
    if not folds:
        return f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds ({numbered(seeds)})"
    of = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds ({numbered(seeds)})"
    return f"{len(folds)} fold{'s' * (len(folds) > 1)} ({numbered(folds)}) of {of}"


def noun(study: Study) -> str:
    """What repeats a run: "seed", or "fold" where there are any."""
    return (
        "fold" if any(len(each) > 1 for of in study.repetitions.values() for each in of) else "seed"
    )


def spread(study: Study) -> list[str]:
    """What ± is, and what changes from one seed to the next; nothing where no data set has two."""
    repeated = {name for name, of in study.repetitions.items() if len(of) > 1}
    if not repeated:
        return [
            f"One {noun(study)} each: there is no ±, and nothing is tested over {noun(study)}s."
        ]
    runs = [run for run in study.runs if run.dataset in repeated]
    fixed = {name for name, of in _splits(runs).items() if len(of) == 1}
    simulated = {
        run.dataset
        for run in runs
        if str(run.record["config"]["dataset"].get("_target_", "")).startswith(SIMULATIONS)
    }
    changes = "the fit, the calibration and the out-of-distribution rows"
    if fixed >= repeated:
        what = f"{changes} change, the split is the same"
    elif fixed:
        what = f"the split, {changes} change; the split of {some(sorted(fixed), 4)} is the same"
    else:
        what = (
            f"{'the rows themselves' if simulated >= repeated else 'the split'}, {changes} change"
        )
    lines = [f"± is the standard deviation (n - 1) over {noun(study)}s: with each, {what}."]
    if any(
        len(study.repetitions[name]) >= pairs_needed(1) for name in repeated - simulated - fixed
    ):  # else there is no such p value
        lines.append(
            f"{noun(study).capitalize()}s divide one and the same table, so p values over"
            f" {noun(study)}s are too small (Nadeau and Bengio 2003); those over data sets are not"
            " touched by that."
        )
    return lines


def cautions(study: Study, all_compared: Sequence[Compared]) -> list[str]:
    """Lines on what is uneven: numbers that disagree, settings, seeds, missing numbers, data sets
    that are one.
    """
    lines = [f"{conflict}; the first counts." for conflict in study.conflicts[:5]]
    lines += [f"{len(study.conflicts) - 5} more such."] if len(study.conflicts) > 5 else []
    lines += [f"{line}." for line in differing_between_datasets(study.runs)]
    lines += _uneven(study)
    lines += _same_dataset(study)
    lines += _as_in_paper(study)
    return lines + [line for one in all_compared for line in _undefined(study, one)]


def too_few(n: int, tests: int, what: str) -> str:
    """A sentence where ``n`` pairs can never be significant, whatever their numbers; else
    nothing.
    """
    if not tests or n >= (needed := pairs_needed(tests)):
        return ""
    several = f" of {tests} methods" if tests > 1 else ""
    return (
        f"With {n} {what}{'s' * (n != 1)} no paired test{several} can be significant at {ALPHA:g}:"
        f" that takes {needed}."
    )


def _uneven(study: Study) -> list[str]:
    """Methods that lack runs that others have on data sets of the same kind, with classes or
    without.
    """
    has: dict[str, set[tuple[str, Repetition]]] = {
        name: set() for name in study.methods if name not in study.parents
    }
    kinds: dict[str, set[bool]] = {name: set() for name in has}
    kind_of = {run.dataset: bool(run.record["dataset"]["classes"]) for run in study.runs}
    for run in study.runs:
        if not run.is_parent:
            has[run.method].add((run.dataset, run.repetition))
            kinds[run.method].add(kind_of[run.dataset])
    totals = {
        name: sum(
            len(of) for dataset, of in study.repetitions.items() if kind_of[dataset] in kinds[name]
        )
        for name in has
    }
    lacking = {name: totals[name] - len(of) for name, of in has.items() if len(of) < totals[name]}
    if not lacking:
        return []
    pairs = "Pairs are of what both have, ranks of what all ranked methods have."
    if len(set(totals.values())) > 1:
        return [
            "Missing runs:"
            f" {some([f'{name} {n} of {totals[name]}' for name, n in lacking.items()], 4)}. {pairs}"
        ]
    total = next(iter(totals.values()))
    return [
        f"Missing runs, of {total} for each method:"
        f" {some([f'{name} {n}' for name, n in lacking.items()], 4)}. {pairs}"
    ]


def _same_dataset(study: Study) -> list[str]:
    settings: dict[str, set[str]] = {}
    for run in study.runs:
        settings.setdefault(str(run.record["dataset"]["name"]), set()).add(run.dataset)
    several = [f"{name} {len(of)}" for name, of in settings.items() if len(of) > 1]
    if not several:
        return []
    return [
        "Settings of one data set count as data sets in tests over data sets, though they are not"
        f" independent: {some(several, 4)}."
    ]


def _as_in_paper(study: Study) -> list[str]:
    """Methods whose numbers are not of held-out rows."""
    names = list(dict.fromkeys(run.method for run in study.runs if is_as_in_paper(run.record)))
    return [f"{AS_IN_PAPER[0].upper()}{AS_IN_PAPER[1:]}: {some(names, 4)}."] if names else []


def _undefined(study: Study, one: Compared) -> list[str]:
    """Numbers that a run should have and that are not defined (null in the record)."""
    missing = sum(value != value for value in study.values[one.measure].values())
    return (
        [
            f"{one.label} is not defined in {missing:,} of its {len(study.values[one.measure]):,}"
            " numbers."
        ]
        if missing
        else []
    )


def _splits(runs: Iterable[Run]) -> dict[str, set[str]]:
    """Data set → fingerprints of its rows, split and all."""
    found: dict[str, set[str]] = {}
    for run in runs:
        found.setdefault(run.dataset, set()).add(str(run.record["dataset"]["fingerprint"]))
    return found
