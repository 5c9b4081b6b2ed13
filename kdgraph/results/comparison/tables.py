"""What a standard deviation over seeds is over, and what a reader of means and tests must know
about the runs behind them.

The comparison of methods as tables: each data set over its seeds, all data sets together, and
every mean.

The comparison of methods as one long table for programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kdgraph.results.comparison.aggregate import BaselineComparison, MeasureComparison
from kdgraph.results.comparison.significance import (
    ALPHA,
    DRAWS,
    Ranks,
    datasets_needed,
    pairs_needed,
)
from kdgraph.results.comparison.study import Study
from kdgraph.results.export import Section
from kdgraph.results.names import (
    MARK,
    MISSING,
    NOISE,
    NamedRun,
    Repetition,
    dataset_differences,
    format_mean,
    format_value,
    number_range,
)
from kdgraph.results.records import PAPER_PROTOCOL_NOTE, uses_paper_protocol
from kdgraph.wording import counted, some

SIMULATIONS = "kdgraph.data.simulations."


def repetitions_text(study: Study) -> str:
    """``seed 0``, ``3 seeds (0–2)``, ``10 folds of seed 0``, ``2 to 3 seeds``: of each data set."""
    found = {tuple(of) for of in study.repetitions.values()}
    if len(found) > 1:
        counts = sorted({len(of) for of in found})
        if len(counts) > 1:
            return f"{counts[0]} to {counts[-1]} {repetition_noun(study)}s each"
        return f"{counts[0]} {repetition_noun(study)}{'s' * (counts[0] > 1)} each, not the same"
    (same,) = found
    seeds, folds = (
        sorted({each[0] for each in same}),
        sorted({each[1] for each in same if len(each) > 1}),
    )
    if not folds:
        return (
            f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds ({number_range(seeds)})"
        )
    of = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds ({number_range(seeds)})"
    return f"{len(folds)} fold{'s' * (len(folds) > 1)} ({number_range(folds)}) of {of}"


def repetition_noun(study: Study) -> str:
    """What repeats a run: "seed", or "fold" where there are any."""
    return (
        "fold" if any(len(each) > 1 for of in study.repetitions.values() for each in of) else "seed"
    )


def spread_notes(study: Study) -> list[str]:
    """What ± is, and what changes from one seed to the next; nothing where no data set has two."""
    repeated = {name for name, of in study.repetitions.items() if len(of) > 1}
    if not repeated:
        return [
            f"One {repetition_noun(study)} each: there is no ±, and nothing is tested over {repetition_noun(study)}s."
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
    lines = [
        f"± is the standard deviation (n - 1) over {repetition_noun(study)}s: with each, {what}."
    ]
    if any(
        len(study.repetitions[name]) >= pairs_needed(1) for name in repeated - simulated - fixed
    ):  # else there is no such p value
        lines.append(
            f"{repetition_noun(study).capitalize()}s divide one and the same table, so p values over"
            f" {repetition_noun(study)}s are too small (Nadeau and Bengio 2003); those over data sets are not"
            " touched by that."
        )
    return lines


def caution_notes(study: Study, all_compared: Sequence[MeasureComparison]) -> list[str]:
    """Lines on what is uneven: numbers that disagree, settings, seeds, missing numbers, data sets
    that are one.
    """
    lines = [f"{conflict}; the first counts." for conflict in study.conflicts[:5]]
    lines += [f"{len(study.conflicts) - 5} more such."] if len(study.conflicts) > 5 else []
    lines += [f"{line}." for line in dataset_differences(study.runs)]
    lines += _uneven(study)
    lines += _same_dataset(study)
    lines += _as_in_paper(study)
    return lines + [line for one in all_compared for line in _undefined(study, one)]


def too_few_note(n: int, tests: int, what: str) -> str:
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
    names = list(dict.fromkeys(run.method for run in study.runs if uses_paper_protocol(run.record)))
    return (
        [f"{PAPER_PROTOCOL_NOTE[0].upper()}{PAPER_PROTOCOL_NOTE[1:]}: {some(names, 4)}."]
        if names
        else []
    )


def _undefined(study: Study, one: MeasureComparison) -> list[str]:
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


def _splits(runs: Iterable[NamedRun]) -> dict[str, set[str]]:
    """Data set → fingerprints of its rows, split and all."""
    found: dict[str, set[str]] = {}
    for run in runs:
        found.setdefault(run.dataset, set()).add(str(run.record["dataset"]["fingerprint"]))
    return found


DATASETS_COLUMNS = (
    "",
    "mean rank",
    "data sets",
    "median",
    "wins/ties/losses",
    "median change",
    "p",
)
"""Columns of the table over data sets."""


def study_heading(study: Study) -> str:
    """How many runs, data sets, methods and seeds there are."""
    parents = len(study.parents)
    counts = [
        (len(study.runs), "run"),
        (len(study.datasets), "data set"),
        (len(study.methods) - parents, "method"),
    ]
    words = [counted(n, what) for n, what in counts]
    words[-1] += f" on {counted(parents, 'parent')}"
    return " · ".join([*words, repetitions_text(study)])


def dataset_sections(
    study: Study, dataset: str, all_compared: Sequence[MeasureComparison], digits: int
) -> list[Section]:
    """One data set over its seeds: means, and what the tests over seeds say."""
    here = [
        one
        for one in all_compared
        if dataset in one.mean.index and one.mean.loc[dataset].notna().any()
    ]
    methods = [
        name
        for name in study.methods
        if any(name in one.mean and one.n.loc[dataset, name] for one in here)
    ]
    n_seeds = len(study.repetitions[dataset])
    rows = [
        [name, *(_mean(one, dataset, name, digits, n_seeds) for one in here)] for name in methods
    ]
    sections = [Section(dataset, ["", *(one.label for one in here)], rows)]
    judged = [one for one in here if one.is_judged and one.over_seeds[dataset]]
    if n_seeds > 1 and judged:
        few = too_few_note(
            n_seeds, max(len(one.over_seeds[dataset]) for one in judged), repetition_noun(study)
        )
        baselines = {each.baseline for one in judged for each in one.over_seeds[dataset].values()}
        title = (
            f"{dataset}, {n_seeds} {repetition_noun(study)}s{_versus(baselines)}:"
            f" wins/ties/losses{'' if few else ' (p)'}"
        )
        tests = _over_seeds(dataset, methods, judged, with_p=not few)
        sections.append(
            Section(title, ["", *(one.label for one in judged)], tests, [few] if few else [])
        )
    return sections


def datasets_section(one: MeasureComparison, digits: int) -> Section | None:
    """All data sets together: methods by mean rank, and against the baseline; None with a single
    data set, or without a direction.
    """
    n_datasets = int(one.mean.notna().any(axis=1).sum())
    if n_datasets < 2 or not one.is_judged:
        return None
    ranks = one.ranks.mean if one.ranks else {}
    medians = one.mean.median().to_dict()
    order = sorted(
        one.mean,
        key=lambda name: (
            ranks.get(name, np.inf),
            medians[name] * (1 if one.measure.better == "lower" else -1),
        ),
    )
    baselines = {each.baseline for each in one.over_datasets.values()}
    title = (
        f"{one.label}, {one.measure.better} is better, {n_datasets} data sets{_versus(baselines)}"
    )
    rows = [_over_row(one, str(name), medians[name], digits) for name in order]
    columns = dict(zip(DATASETS_COLUMNS, zip(*rows, strict=True), strict=True))
    if not ranks:
        del columns["mean rank"]
    if len(set(columns["data sets"])) == 1:
        del columns["data sets"]
    if _few_datasets(one):
        del columns["p"]
    return Section(
        title,
        list(columns),
        [list(row) for row in zip(*columns.values(), strict=True)],
        _about_tests(one),
    )


def means_section(study: Study, one: MeasureComparison, digits: int) -> Section:
    """A row for each data set, a column for each method."""
    rows = [
        [
            str(name),
            *(
                _mean(one, str(name), method, digits, len(study.repetitions[str(name)]))
                for method in one.mean
            ),
        ]
        for name in one.mean.index
        if one.mean.loc[name].notna().any()
    ]
    direction = (
        f", {one.measure.better} is better" if one.is_judged else ", neither direction is better"
    )
    return Section(
        f"{one.label}{direction}: each data set", ["data set", *map(str, one.mean)], rows
    )


def remarks_section(
    study: Study, all_compared: Sequence[MeasureComparison], *, with_spread: bool
) -> Section:
    """What was averaged over what, what was tested, and what is uneven; the same for all tables.

    ``with_spread``: whether there is a ± to explain.
    """
    lines = spread_notes(study) if with_spread else []
    if len(study.datasets) > 1:
        lines.append("median, median change: over data sets, of means over seeds.")
    is_tested = len(study.datasets) > 1 or any(len(of) > 1 for of in study.repetitions.values())
    if is_tested and any(one.is_judged for one in all_compared):
        lines.append(
            f"Numbers are compared as they are, not as they are printed; a share of {NOISE:g} apart"
            " is a tie."
        )
        lines.append("p: two-sided Wilcoxon signed-rank test, adjusted over a column (Holm).")
        lines.append(
            "◂: all that the test does not tell apart from the best; nothing where it tells nothing"
            " apart."
        )
    if silent := [one.label for one in all_compared if not one.is_judged]:
        lines.append(f"Neither direction is better, so nothing is tested: {', '.join(silent)}.")
    return Section("", notes=[*lines, *caution_notes(study, all_compared)])


def _over_row(one: MeasureComparison, name: str, median: float, digits: int) -> list[str]:
    """Cells of :data:`OVER`; the mark is at the mean rank, or at the median where there are no
    ranks.
    """
    mark = MARK if name in one.best_over_datasets else ""
    rank = f"{one.ranks.mean[name]:.2f}{mark}" if one.ranks and name in one.ranks.mean else MISSING
    count, unit = str(int(one.mean[name].notna().sum())), one.measure.info.unit
    row = [name, rank, count, format_value(median, unit, digits) + ("" if one.ranks else mark)]
    if (against := one.over_datasets.get(name)) is None:
        return [*row, "", "", ""]
    sign = "" if against.change == 0 else "+" if against.change > 0 else "−"
    change = sign + format_value(abs(against.change), unit, digits)
    return [*row, str(against.comparison), change, _p(against.p)]


def _about_tests(one: MeasureComparison) -> list[str]:
    """What was ranked and what the tests found, of one measure."""
    notes = []
    if one.ranks:
        r = one.ranks
        found = (
            f"Friedman over {r.n} data sets ({one.seeds_ranked} runs of each method): χ² ="
            f" {r.chi2:.1f}, {_friedman_p(r)}"
        )
        if r.differ:
            found += (
                f"; ◂: mean rank less than {r.critical_difference:.2f} from the best (Nemenyi, α ="
                f" {r.alpha:g})"
            )
            if len(r.best) == len(r.mean):
                found += ", which all are"
        elif r.n < (needed := datasets_needed(len(r.mean), r.alpha)):
            found += (
                f": {len(r.mean)} methods on {r.n} data sets cannot be told apart, whatever their"
                f" numbers; that takes {needed} data sets"
            )
        else:
            found += ": nothing is told apart"
        notes.append(found)
    if one.unranked:
        notes.append(f"Not ranked, with fewer than half of the runs: {', '.join(one.unranked)}")
    return [*notes, *([few] if (few := _few_datasets(one)) else [])]


def _friedman_p(r: Ranks) -> str:
    """The p value, and which distribution it is from."""
    first, second = r.degrees
    if r.p_method == "F":
        return f"F({first}, {second}) = {r.f:.1f}, {_p(r.p, 'p ')}"
    return f"{_p(r.p, 'p ')} ({'exact' if r.p_method == 'exact' else f'{DRAWS:,} permutations'})"


def _few_datasets(one: MeasureComparison) -> str:
    """A sentence where the tests over data sets cannot find anything; else nothing."""
    pairs = max((each.comparison.n for each in one.over_datasets.values()), default=0)
    return too_few_note(pairs, len(one.over_datasets), "data set")


def _over_seeds(
    dataset: str, methods: Sequence[str], judged: Sequence[MeasureComparison], *, with_p: bool
) -> list[list[str]]:
    rows = {name: [one.over_seeds[dataset].get(name) for one in judged] for name in methods}
    return [
        [name, *(_outcome(each, with_p=with_p) for each in of)]
        for name, of in rows.items()
        if any(of)
    ]


def _outcome(against: BaselineComparison | None, *, with_p: bool) -> str:
    if against is None:
        return MISSING
    return f"{against.comparison} ({_p(against.p)})" if with_p else str(against.comparison)


def _versus(baselines: set[str]) -> str:
    return (
        ""
        if not baselines
        else (
            f", against {next(iter(baselines))}"
            if len(baselines) == 1
            else ", each against its parent"
        )
    )


def _mean(one: MeasureComparison, dataset: str, method: str, digits: int, n_seeds: int) -> str:
    if method not in one.mean or not one.n.loc[dataset, method]:
        return MISSING
    mean, std, n = (float(table.loc[dataset, method]) for table in (one.mean, one.std, one.n))
    unit = one.measure.info.unit
    text = (
        format_value(mean, unit, digits) if np.isnan(std) else format_mean(mean, std, unit, digits)
    )
    fewer = f" (n={n:.0f})" if n < n_seeds else ""
    return f"{text}{fewer}" + (MARK if method in one.best.get(dataset, ()) else "")


def _p(value: float, before: str = "") -> str:
    if before:
        return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


COMPARISON_COLUMNS = {
    "over": (
        "seeds: a row for each data set, method and measure; data sets: one for each method and"
        " measure"
    ),
    "dataset": "data set, with the keys that tell its settings apart; empty over data sets",
    "method": "method, with the keys that tell its settings apart; a parent ends in (parent)",
    "measure": "what was measured: nll, oce@sphere:radius=2",
    "label": "what people read",
    "n_of": "what was scored: rows, or sets of them, which is another task",
    "better": "lower or higher; empty where the number only describes",
    "mean": "mean over seeds",
    "std": "standard deviation over seeds (n - 1)",
    "n": "seeds, or data sets, that have a number",
    "median": "median of the means over data sets",
    "mean_rank": "mean rank over data sets",
    "best": (
        "whether the test does not tell it apart from the best; empty where the test tells nothing"
        " apart"
    ),
    "baseline": "what it is compared with",
    "wins": "pairs in which it is better",
    "ties": "pairs in which both are the same",
    "losses": "pairs in which it is worse",
    "median_change": "median over pairs of method - baseline",
    "p": "two-sided Wilcoxon signed-rank test over pairs, adjusted over the methods (Holm)",
}
"""Column → what it holds."""


def comparison_table(
    study: Study, all_compared: Sequence[MeasureComparison]
) -> dict[str, list[Any]]:
    """All means and tests by column, in the order of :data:`COLUMNS`."""
    found = [
        row for one in all_compared for row in (*_over_seeds_rows(study, one), *_over_datasets(one))
    ]
    return {name: [row.get(name) for row in found] for name in COMPARISON_COLUMNS}


def _over_seeds_rows(study: Study, one: MeasureComparison) -> Iterator[dict[str, Any]]:
    for dataset in study.datasets:
        if dataset not in one.mean.index:
            continue
        best, against = one.best.get(dataset, ()), one.over_seeds.get(dataset, {})
        for method in one.mean:
            if n := int(one.n.loc[dataset, method]):
                yield {
                    **_about(one, str(method), "seeds"),
                    "dataset": dataset,
                    "mean": float(one.mean.loc[dataset, method]),
                    "std": _known(one.std.loc[dataset, method]),
                    "n": n,
                    "best": method in best if best else None,
                    **_tests(against, str(method)),
                }


def _over_datasets(one: MeasureComparison) -> Iterator[dict[str, Any]]:
    n_datasets, best = one.mean.notna().sum(), one.best_over_datasets
    if not one.is_judged or one.mean.notna().any(axis=1).sum() < 2:
        return
    for method in one.mean:
        yield {
            **_about(one, str(method), "data sets"),
            "n": int(n_datasets[method]),
            "median": _known(one.mean[method].median()),
            "mean_rank": one.ranks.mean.get(str(method)) if one.ranks else None,
            "best": method in best if best else None,
            **_tests(one.over_datasets, str(method)),
        }


def _about(one: MeasureComparison, method: str, over: str) -> dict[str, Any]:
    measure = one.measure
    about = {
        "measure": measure.id,
        "label": one.label,
        "n_of": measure.n_of,
        "better": measure.better,
    }
    return {"over": over, "method": method, **about}


def _tests(against: Mapping[str, BaselineComparison], method: str) -> dict[str, Any]:
    if method not in against:
        return {}
    found = against[method]
    counts = found.comparison
    outcome = {"wins": counts.wins, "ties": counts.ties, "losses": counts.losses}
    return {"baseline": found.baseline, **outcome, "median_change": found.change, "p": found.p}


def _known(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)
