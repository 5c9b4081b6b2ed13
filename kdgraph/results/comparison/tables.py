"""The comparison of methods as tables with notes, and as one long table for programs."""

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
from kdgraph.results.estimate import SIMULATIONS
from kdgraph.results.export import Section
from kdgraph.results.measures import metric_notes
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

OUTCOMES = "wins/ties/losses"
_P = " (p)"
"""Behind :data:`OUTCOMES` where p values follow them."""
DATASETS_COLUMNS = ("", "mean rank", "data sets", "median", OUTCOMES, "median change", "p")
"""Columns of the table over data sets."""
COMPARISON_COLUMNS = {
    "over": (
        "seeds: a row for each data set, method and measure; data sets: one for each method and"
        " measure"
    ),
    "dataset": "data set, with the keys that distinguish its settings; empty over data sets",
    "method": "method, with the keys that distinguish its settings; a parent ends in (parent)",
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
        "whether it is the best or does not differ significantly from the best; empty if no"
        " difference is significant"
    ),
    "baseline": "what it is compared with",
    "wins": "pairs in which it is better",
    "ties": "pairs in which both are the same",
    "losses": "pairs in which it is worse",
    "median_change": "median over pairs of method - baseline",
    "p": "two-sided Wilcoxon signed-rank test over pairs, adjusted over the methods (Holm)",
}
"""Column of the long table → description."""
MOST_FILE_COLUMNS = 6
"""Columns of numbers up to which methods are columns in a file, however few data sets there are."""
_MOST_CONFLICTS = 5


def study_heading(study: Study) -> str:
    """Return how many runs, data sets, methods and seeds there are."""
    n_parents = len(study.parents)
    counts = [
        counted(len(study.runs), "run"),
        counted(len(study.datasets), "data set"),
        f"{counted(len(study.methods) - n_parents, 'method')} on {counted(n_parents, 'parent')}",
    ]
    return " · ".join([*counts, repetitions_text(study)])


def dataset_sections(
    study: Study, dataset: str, comparisons: Sequence[MeasureComparison], digits: int
) -> list[Section]:
    """Return the tables of one data set over its seeds: means, and outcomes of the tests."""
    measured = [
        comparison
        for comparison in comparisons
        if dataset in comparison.mean.index and comparison.mean.loc[dataset].notna().any()
    ]
    methods = [
        name
        for name in study.methods
        if any(name in c.mean and c.n.loc[dataset, name] for c in measured)
    ]
    n_seeds = len(study.repetitions[dataset])
    rows = [
        [name, *(_mean_cell(comparison, dataset, name, digits, n_seeds) for comparison in measured)]
        for name in methods
    ]
    sections = [Section(dataset, ["", *(comparison.label for comparison in measured)], rows)]
    tested = [c for c in measured if c.is_judged and c.over_seeds[dataset]]
    if n_seeds > 1 and tested:
        n_tests = max(len(comparison.over_seeds[dataset]) for comparison in tested)
        few = too_few_note(n_seeds, n_tests, repetition_noun(study))
        baselines = {baseline.name for c in tested for baseline in c.over_seeds[dataset].values()}
        title = (
            f"{dataset}, {counted(n_seeds, repetition_noun(study))}{_against_phrase(baselines)}:"
            f" {OUTCOMES}{'' if few else _P}"
        )
        cells = _outcome_rows(dataset, methods, tested, with_p=not few)
        head = ["", *(comparison.label for comparison in tested)]
        sections.append(Section(title, head, cells, [few] if few else []))
    return sections


def datasets_section(comparison: MeasureComparison, digits: int) -> Section | None:
    """Return the table over data sets: methods by mean rank, each against its baseline.

    It is None with a single data set, and if neither direction is better.
    """
    n_datasets = int(comparison.mean.notna().any(axis=1).sum())
    if n_datasets < 2 or not comparison.is_judged:
        return None
    ranks = comparison.ranks.mean if comparison.ranks else {}
    medians = comparison.mean.median().to_dict()
    sign = 1 if comparison.measure.better == "lower" else -1
    order = sorted(
        comparison.mean, key=lambda name: (ranks.get(name, np.inf), sign * medians[name])
    )
    baselines = {baseline.name for baseline in comparison.over_datasets.values()}
    title = (
        f"{comparison.label}, {comparison.measure.better} is better, {n_datasets} data"
        f" sets{_against_phrase(baselines)}"
    )
    rows = [_datasets_row(comparison, str(name), medians[name], digits) for name in order]
    columns = dict(zip(DATASETS_COLUMNS, zip(*rows, strict=True), strict=True))
    if not ranks:
        del columns["mean rank"]
    if len(set(columns["data sets"])) == 1:
        del columns["data sets"]
    if _few_datasets_note(comparison):
        del columns["p"]
    cells = [list(row) for row in zip(*columns.values(), strict=True)]
    return Section(title, list(columns), cells, _test_notes(comparison))


def means_section(study: Study, comparison: MeasureComparison, digits: int) -> Section:
    """Return a table with a row for each data set and a column for each method."""
    rows = []
    for dataset in comparison.mean.index:
        if comparison.mean.loc[dataset].notna().any():
            n_seeds = len(study.repetitions[str(dataset)])
            cells = (
                _mean_cell(comparison, str(dataset), str(method), digits, n_seeds)
                for method in comparison.mean
            )
            rows.append([str(dataset), *cells])
    better = comparison.measure.better
    direction = f"{better} is better" if comparison.is_judged else "neither direction is better"
    return Section(
        f"{comparison.label}, {direction}: each data set",
        ["data set", *map(str, comparison.mean)],
        rows,
    )


def outcomes_section(study: Study, comparison: MeasureComparison) -> Section | None:
    """Return the tests over seeds with a row for each data set and a column for each method.

    It is None if no data set has two seeds or more, and if neither direction is better.
    """
    tested = {
        name: comparison.over_seeds[name]
        for name in study.datasets
        if len(study.repetitions[name]) > 1 and comparison.over_seeds.get(name)
    }
    if not comparison.is_judged or not tested:
        return None
    noun = repetition_noun(study)
    few = {
        name: too_few_note(len(study.repetitions[name]), len(baselines), noun)
        for name, baselines in tested.items()
    }
    methods = [name for name in study.methods if any(name in of for of in tested.values())]
    rows = [
        [name, *(_outcome_cell(of.get(method), with_p=not few[name]) for method in methods)]
        for name, of in tested.items()
    ]
    against = {baseline.name for of in tested.values() for baseline in of.values()}
    with_p = "" if all(few.values()) else _P
    title = f"{comparison.label}{_against_phrase(against)}, {OUTCOMES}{with_p}: each data set"
    notes = dict.fromkeys(note for note in few.values() if note)
    return Section(title, ["data set", *methods], rows, list(notes))


def file_sections(
    study: Study, comparisons: Sequence[MeasureComparison], digits: int
) -> list[Section]:
    """Return all tables and notes for a file.

    Several data sets are the rows of a table for each measure, as publications have them, unless
    there are many methods and fewer data sets: then methods are the rows.
    """
    if len(study.datasets) == 1:
        (name,) = study.datasets
        sections = [_upright(s) for s in dataset_sections(study, name, comparisons, digits)]
    else:
        over_datasets = (datasets_section(comparison, digits) for comparison in comparisons)
        sections = [section for section in over_datasets if section]
        for comparison in comparisons:
            sections.append(_upright(means_section(study, comparison, digits)))
            if outcomes := outcomes_section(study, comparison):
                sections.append(_upright(outcomes))
    return [*sections, remarks_section(study, comparisons, sections)]


def remarks_section(
    study: Study, comparisons: Sequence[MeasureComparison], tables: Sequence[Section]
) -> Section:
    """Return the notes that all tables share, on what occurs in them."""
    cells = [cell for table in tables for row in table.rows for cell in row[1:]]
    columns = {column for table in tables for column in table.head}
    titles = [table.title for table in tables]
    is_repeated = any(len(of_dataset) > 1 for of_dataset in study.repetitions.values())
    has_marks = any(cell.endswith(MARK) for cell in cells)
    has_outcomes = OUTCOMES in columns or any(OUTCOMES in title for title in titles)
    notes = spread_notes(study) if not is_repeated or any("±" in cell for cell in cells) else []
    if "median" in columns:
        notes.append("median, median change: over data sets, of means over seeds.")
    if has_outcomes or has_marks:
        notes.append(
            "Numbers are compared as they are, not as they are printed; a relative difference of"
            f" {NOISE:g} is a tie."
        )
    if "p" in columns or any(f"{OUTCOMES}{_P}" in title for title in titles):
        notes.append("p: two-sided Wilcoxon signed-rank test, adjusted over the methods (Holm).")
    if has_marks:
        notes.append(
            "◂: the best, and all that do not differ significantly from it; omitted if no"
            " difference is significant."
        )
    if untested := [comparison.label for comparison in comparisons if not comparison.is_judged]:
        notes.append(f"Neither direction is better, so nothing is tested: {'; '.join(untested)}.")
    notes += [f"{note}." for note in metric_notes(c.measure for c in comparisons)]
    return Section("", notes=[*notes, *caution_notes(study, comparisons)])


def repetitions_text(study: Study) -> str:
    """Return the repetitions of each data set.

    Examples are ``seed 0``, ``3 seeds (0–2)``, ``10 folds (0–9) of seed 0`` and ``2 to 3 seeds
    each``.
    """
    noun = repetition_noun(study)
    different = {tuple(of_dataset) for of_dataset in study.repetitions.values()}
    if len(different) > 1:
        counts = sorted({len(of_dataset) for of_dataset in different})
        if len(counts) > 1:
            return f"{counts[0]} to {counts[-1]} {noun}s each"
        return f"{counted(counts[0], noun)} each, not the same"
    (repetitions,) = different
    seeds = sorted({repetition[0] for repetition in repetitions})
    folds = sorted({repetition[1] for repetition in repetitions if len(repetition) > 1})
    of_seeds = (
        f"seed {seeds[0]}"
        if len(seeds) == 1
        else f"{counted(len(seeds), 'seed')} ({number_range(seeds)})"
    )
    if not folds:
        return of_seeds
    return f"{counted(len(folds), 'fold')} ({number_range(folds)}) of {of_seeds}"


def repetition_noun(study: Study) -> str:
    """Return "fold" if any run has one, else "seed"."""
    has_folds = any(len(r) > 1 for of_dataset in study.repetitions.values() for r in of_dataset)
    return "fold" if has_folds else "seed"


def spread_notes(study: Study) -> list[str]:
    """Return what ± is, and what changes from one seed to the next."""
    noun = repetition_noun(study)
    repeated = {name for name, of_dataset in study.repetitions.items() if len(of_dataset) > 1}
    if not repeated:
        return [f"One {noun} each: there is no ±, and nothing is tested over {noun}s."]
    runs = [run for run in study.runs if run.dataset in repeated]
    fixed = {name for name, of_dataset in _fingerprints(runs).items() if len(of_dataset) == 1}
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
        rows = "the rows themselves" if simulated >= repeated else "the split"
        what = f"{rows}, {changes} change"
    notes = [f"± is the standard deviation (n - 1) over {noun}s: with each, {what}."]
    # With fewer pairs no p value is significant, too small or not.
    divided = repeated - simulated - fixed
    if any(len(study.repetitions[name]) >= pairs_needed(1) for name in divided):
        notes.append(
            f"{noun.capitalize()}s divide one and the same table, so p values over {noun}s are too"
            " small (Nadeau and Bengio 2003); those over data sets are not touched by that."
        )
    return notes


def caution_notes(study: Study, comparisons: Sequence[MeasureComparison]) -> list[str]:
    """Return what is uneven in the runs, such as missing runs or numbers that disagree."""
    conflicts = study.conflicts
    notes = [f"{conflict}; the first counts." for conflict in conflicts[:_MOST_CONFLICTS]]
    n_more = len(conflicts) - _MOST_CONFLICTS
    notes += [f"{n_more:,} more such."] if n_more > 0 else []
    notes += [f"{line}." for line in dataset_differences(study.runs)]
    notes += _missing_run_notes(study)
    notes += _same_dataset_notes(study)
    notes += _paper_protocol_notes(study)
    return notes + [note for comparison in comparisons for note in _undefined(study, comparison)]


def too_few_note(n: int, tests: int, what: str) -> str:
    """Return a sentence if no test of n pairs can be significant; else "".

    ``tests`` are the methods that are tested together, ``what`` is the noun for a pair.
    """
    if not tests or n >= (needed := pairs_needed(tests)):
        return ""
    of_methods = f" of {tests} methods" if tests > 1 else ""
    return (
        f"With {counted(n, what)} no paired test{of_methods} can be significant at {ALPHA:g}: that"
        f" takes {needed}."
    )


def comparison_table(
    study: Study, comparisons: Sequence[MeasureComparison]
) -> dict[str, list[Any]]:
    """Return all means and tests by column, in the order of :data:`COMPARISON_COLUMNS`."""
    rows = [
        row
        for comparison in comparisons
        for row in (*_rows_over_seeds(study, comparison), *_rows_over_datasets(comparison))
    ]
    return {name: [row.get(name) for row in rows] for name in COMPARISON_COLUMNS}


def _datasets_row(
    comparison: MeasureComparison, name: str, median: float, digits: int
) -> list[str]:
    """Return the cells of :data:`DATASETS_COLUMNS`, with the mark at the rank or the median."""
    ranks, unit = comparison.ranks, comparison.measure.info.unit
    mark = MARK if name in comparison.best_over_datasets else ""
    rank = f"{ranks.mean[name]:.2f}{mark}" if ranks and name in ranks.mean else MISSING
    n_datasets = str(int(comparison.mean[name].notna().sum()))
    row = [name, rank, n_datasets, format_value(median, unit, digits) + ("" if ranks else mark)]
    if (baseline := comparison.over_datasets.get(name)) is None:
        return [*row, "", "", ""]
    sign = "" if baseline.change == 0 else "+" if baseline.change > 0 else "−"
    change = sign + format_value(abs(baseline.change), unit, digits)
    return [*row, str(baseline.outcome), change, _p_value(baseline.p)]


def _test_notes(comparison: MeasureComparison) -> list[str]:
    notes = []
    if ranks := comparison.ranks:
        note = (
            f"Friedman over {ranks.n} data sets ({counted(comparison.seeds_ranked, 'run')} of each"
            f" method): χ² = {ranks.chi2:.1f}, {_friedman_p(ranks)}"
        )
        if ranks.differ:
            note += (
                f"; ◂: mean rank less than {ranks.critical_difference:.2f} from the best (Nemenyi,"
                f" α = {ranks.alpha:g})"
            )
            if len(ranks.best) == len(ranks.mean):
                note += ", which all are"
        elif ranks.n < (needed := datasets_needed(len(ranks.mean), ranks.alpha)):
            note += (
                f": no difference of {len(ranks.mean)} methods on {ranks.n} data sets can be"
                f" significant, whatever their numbers; that takes {needed} data sets"
            )
        else:
            note += ": no difference is significant"
        notes.append(note)
    if comparison.unranked:
        methods = ", ".join(comparison.unranked)
        notes.append(f"Not ranked, with fewer than half of the runs: {methods}")
    return [*notes, *([few] if (few := _few_datasets_note(comparison)) else [])]


def _friedman_p(ranks: Ranks) -> str:
    first, second = ranks.degrees
    p = "p < 0.001" if ranks.p < 0.001 else f"p = {ranks.p:.3f}"
    if ranks.p_method == "F":
        return f"F({first}, {second}) = {ranks.f:.1f}, {p}"
    return f"{p} ({'exact' if ranks.p_method == 'exact' else f'{DRAWS:,} permutations'})"


def _few_datasets_note(comparison: MeasureComparison) -> str:
    baselines = comparison.over_datasets.values()
    n_pairs = max((baseline.outcome.n for baseline in baselines), default=0)
    return too_few_note(n_pairs, len(comparison.over_datasets), "data set")


def _outcome_rows(
    dataset: str, methods: Sequence[str], tested: Sequence[MeasureComparison], *, with_p: bool
) -> list[list[str]]:
    rows = []
    for name in methods:
        baselines = [comparison.over_seeds[dataset].get(name) for comparison in tested]
        if any(baselines):
            rows.append([name, *(_outcome_cell(baseline, with_p=with_p) for baseline in baselines)])
    return rows


def _upright(section: Section) -> Section:
    """Return a table that is too wide for a page with its rows as columns, if these are fewer."""
    n_columns = len(section.head) - 1
    if n_columns <= MOST_FILE_COLUMNS or n_columns <= len(section.rows):
        return section
    (_, *head), *rows = zip(section.head, *section.rows, strict=True)
    return Section(section.title, ["", *head], rows, section.notes)


def _outcome_cell(baseline: BaselineComparison | None, *, with_p: bool) -> str:
    if baseline is None:
        return MISSING
    return f"{baseline.outcome} ({_p_value(baseline.p)})" if with_p else str(baseline.outcome)


def _against_phrase(baselines: set[str]) -> str:
    if not baselines:
        return ""
    if len(baselines) == 1:
        return f", against {next(iter(baselines))}"
    return ", each against its parent"


def _mean_cell(
    comparison: MeasureComparison, dataset: str, method: str, digits: int, n_seeds: int
) -> str:
    if method not in comparison.mean or not comparison.n.loc[dataset, method]:
        return MISSING
    tables, unit = (comparison.mean, comparison.std, comparison.n), comparison.measure.info.unit
    mean, std, n = (float(table.loc[dataset, method]) for table in tables)
    has_std = not np.isnan(std)
    text = format_mean(mean, std, unit, digits) if has_std else format_value(mean, unit, digits)
    fewer = f" (n={n:.0f})" if n < n_seeds else ""
    return f"{text}{fewer}" + (MARK if method in comparison.best.get(dataset, ()) else "")


def _p_value(value: float) -> str:
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _missing_run_notes(study: Study) -> list[str]:
    """Return a note on methods that lack runs which others have.

    Data sets with classes, and those without, are compared among themselves.
    """
    has_classes = {run.dataset: bool(run.record["dataset"]["classes"]) for run in study.runs}
    runs: dict[str, set[tuple[str, Repetition]]] = {
        name: set() for name in study.methods if name not in study.parents
    }
    kinds: dict[str, set[bool]] = {name: set() for name in runs}
    for run in study.runs:
        if not run.is_parent:
            runs[run.method].add((run.dataset, run.repetition))
            kinds[run.method].add(has_classes[run.dataset])
    totals = {
        name: sum(
            len(repetitions)
            for dataset, repetitions in study.repetitions.items()
            if has_classes[dataset] in kinds[name]
        )
        for name in runs
    }
    missing = {name: totals[name] - len(of) for name, of in runs.items() if len(of) < totals[name]}
    if not missing:
        return []
    pairs = "Pairs are of what both have, ranks of what all ranked methods have."
    if len(set(totals.values())) > 1:
        names = some([f"{name} {n} of {totals[name]}" for name, n in missing.items()], 4)
        return [f"Missing runs: {names}. {pairs}"]
    names = some([f"{name} {n}" for name, n in missing.items()], 4)
    return [f"Missing runs, of {next(iter(totals.values()))} for each method: {names}. {pairs}"]


def _same_dataset_notes(study: Study) -> list[str]:
    settings: dict[str, set[str]] = {}
    for run in study.runs:
        settings.setdefault(str(run.record["dataset"]["name"]), set()).add(run.dataset)
    names = [f"{name} {len(of_name)}" for name, of_name in settings.items() if len(of_name) > 1]
    if not names:
        return []
    return [
        "Settings of one data set count as data sets in tests over data sets, though they are not"
        f" independent: {some(names, 4)}."
    ]


def _paper_protocol_notes(study: Study) -> list[str]:
    names = list(dict.fromkeys(run.method for run in study.runs if uses_paper_protocol(run.record)))
    note = PAPER_PROTOCOL_NOTE[0].upper() + PAPER_PROTOCOL_NOTE[1:]
    return [f"{note}: {some(names, 4)}."] if names else []


def _undefined(study: Study, comparison: MeasureComparison) -> list[str]:
    numbers = study.values[comparison.measure].values()
    n_undefined = sum(np.isnan(value) for value in numbers)
    if not n_undefined:
        return []
    return [
        f"{comparison.label} is not defined in {n_undefined:,} of its"
        f" {counted(len(numbers), 'number')}."
    ]


def _fingerprints(runs: Iterable[NamedRun]) -> dict[str, set[str]]:
    fingerprints: dict[str, set[str]] = {}
    for run in runs:
        fingerprint = str(run.record["dataset"]["fingerprint"])
        fingerprints.setdefault(run.dataset, set()).add(fingerprint)
    return fingerprints


def _rows_over_seeds(study: Study, comparison: MeasureComparison) -> Iterator[dict[str, Any]]:
    for dataset in study.datasets:
        if dataset not in comparison.mean.index:
            continue
        best = comparison.best.get(dataset, ())
        for method in comparison.mean:
            if n := int(comparison.n.loc[dataset, method]):
                yield {
                    **_shared_cells(comparison, str(method), "seeds"),
                    "dataset": dataset,
                    "mean": float(comparison.mean.loc[dataset, method]),
                    "std": _null_if_nan(comparison.std.loc[dataset, method]),
                    "n": n,
                    "best": method in best if best else None,
                    **_test_cells(comparison.over_seeds.get(dataset, {}), str(method)),
                }


def _rows_over_datasets(comparison: MeasureComparison) -> Iterator[dict[str, Any]]:
    has_number = comparison.mean.notna()
    if not comparison.is_judged or has_number.any(axis=1).sum() < 2:
        return
    best, ranks = comparison.best_over_datasets, comparison.ranks
    for method in comparison.mean:
        yield {
            **_shared_cells(comparison, str(method), "data sets"),
            "n": int(has_number[method].sum()),
            "median": _null_if_nan(comparison.mean[method].median()),
            "mean_rank": ranks.mean.get(str(method)) if ranks else None,
            "best": method in best if best else None,
            **_test_cells(comparison.over_datasets, str(method)),
        }


def _shared_cells(comparison: MeasureComparison, method: str, over: str) -> dict[str, Any]:
    measure = comparison.measure
    return {
        "over": over,
        "method": method,
        "measure": measure.id,
        "label": comparison.label,
        "n_of": measure.n_of,
        "better": measure.better,
    }


def _test_cells(baselines: Mapping[str, BaselineComparison], method: str) -> dict[str, Any]:
    if method not in baselines:
        return {}
    baseline = baselines[method]
    return {
        "baseline": baseline.name,
        "wins": baseline.outcome.wins,
        "ties": baseline.outcome.ties,
        "losses": baseline.outcome.losses,
        "median_change": baseline.change,
        "p": baseline.p,
    }


def _null_if_nan(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)
