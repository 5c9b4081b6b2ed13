"""The comparison of methods as tables: each data set over its seeds, all data sets together, and
every mean.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kdgraph.results.comparison.compared import Against, Compared
from kdgraph.results.comparison.ranks import DRAWS, Ranks, datasets_needed
from kdgraph.results.comparison.sections import Section
from kdgraph.results.comparison.spread import cautions, noun, repetitions, spread, too_few
from kdgraph.results.comparison.study import Study
from kdgraph.results.numbers import NOISE, mean_number, number
from kdgraph.results.words import MARK, MISSING
from kdgraph.wording import counted

OVER = ("", "mean rank", "data sets", "median", "wins/ties/losses", "median change", "p")
"""Columns of the table over data sets."""


def heading(study: Study) -> str:
    """How many runs, data sets, methods and seeds there are."""
    parents = len(study.parents)
    counts = [
        (len(study.runs), "run"),
        (len(study.datasets), "data set"),
        (len(study.methods) - parents, "method"),
    ]
    words = [counted(n, what) for n, what in counts]
    words[-1] += f" on {counted(parents, 'parent')}"
    return " · ".join([*words, repetitions(study)])


def of_dataset(
    study: Study, dataset: str, all_compared: Sequence[Compared], digits: int
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
        few = too_few(n_seeds, max(len(one.over_seeds[dataset]) for one in judged), noun(study))
        baselines = {each.baseline for one in judged for each in one.over_seeds[dataset].values()}
        title = (
            f"{dataset}, {n_seeds} {noun(study)}s{_versus(baselines)}:"
            f" wins/ties/losses{'' if few else ' (p)'}"
        )
        tests = _over_seeds(dataset, methods, judged, with_p=not few)
        sections.append(
            Section(title, ["", *(one.label for one in judged)], tests, [few] if few else [])
        )
    return sections


def over_datasets(one: Compared, digits: int) -> Section | None:
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
    columns = dict(zip(OVER, zip(*rows, strict=True), strict=True))
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


def means(study: Study, one: Compared, digits: int) -> Section:
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


def remarks(study: Study, all_compared: Sequence[Compared], *, with_spread: bool) -> Section:
    """What was averaged over what, what was tested, and what is uneven; the same for all tables.

    ``with_spread``: whether there is a ± to explain.
    """
    lines = spread(study) if with_spread else []
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
    return Section("", notes=[*lines, *cautions(study, all_compared)])


def _over_row(one: Compared, name: str, median: float, digits: int) -> list[str]:
    """Cells of :data:`OVER`; the mark is at the mean rank, or at the median where there are no
    ranks.
    """
    mark = MARK if name in one.best_over_datasets else ""
    rank = f"{one.ranks.mean[name]:.2f}{mark}" if one.ranks and name in one.ranks.mean else MISSING
    count, unit = str(int(one.mean[name].notna().sum())), one.measure.about.unit
    row = [name, rank, count, number(median, unit, digits) + ("" if one.ranks else mark)]
    if (against := one.over_datasets.get(name)) is None:
        return [*row, "", "", ""]
    sign = "" if against.change == 0 else "+" if against.change > 0 else "−"
    change = sign + number(abs(against.change), unit, digits)
    return [*row, str(against.comparison), change, _p(against.p)]


def _about_tests(one: Compared) -> list[str]:
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
    if r.how == "F":
        return f"F({first}, {second}) = {r.f:.1f}, {_p(r.p, 'p ')}"
    return f"{_p(r.p, 'p ')} ({'exact' if r.how == 'exact' else f'{DRAWS:,} permutations'})"


def _few_datasets(one: Compared) -> str:
    """A sentence where the tests over data sets cannot find anything; else nothing."""
    pairs = max((each.comparison.n for each in one.over_datasets.values()), default=0)
    return too_few(pairs, len(one.over_datasets), "data set")


def _over_seeds(
    dataset: str, methods: Sequence[str], judged: Sequence[Compared], *, with_p: bool
) -> list[list[str]]:
    rows = {name: [one.over_seeds[dataset].get(name) for one in judged] for name in methods}
    return [
        [name, *(_outcome(each, with_p=with_p) for each in of)]
        for name, of in rows.items()
        if any(of)
    ]


def _outcome(against: Against | None, *, with_p: bool) -> str:
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


def _mean(one: Compared, dataset: str, method: str, digits: int, n_seeds: int) -> str:
    if method not in one.mean or not one.n.loc[dataset, method]:
        return MISSING
    mean, std, n = (float(table.loc[dataset, method]) for table in (one.mean, one.std, one.n))
    unit = one.measure.about.unit
    text = number(mean, unit, digits) if np.isnan(std) else mean_number(mean, std, unit, digits)
    fewer = f" (n={n:.0f})" if n < n_seeds else ""
    return f"{text}{fewer}" + (MARK if method in one.best.get(dataset, ()) else "")


def _p(value: float, before: str = "") -> str:
    if before:
        return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"
    return "<0.001" if value < 0.001 else f"{value:.3f}"
