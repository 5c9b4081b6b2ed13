"""The table at the end of a sweep: means over seeds with their deviations, and the warnings.

Names come from the values that the sweep varies: a setting that is the same in all runs is in no
name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev
from typing import Any

from kdgraph.report.run_table import values_by_measure
from kdgraph.results.export import Section, sections_to_text
from kdgraph.results.measures import (
    DEFAULT_METRICS,
    Measure,
    choose_ood_measures,
    metric_notes,
    unique_labels,
)
from kdgraph.results.names import MISSING, ON_ALL_ROWS, format_mean, format_value, number_range
from kdgraph.results.origins import Record
from kdgraph.results.records import (
    MODEL_COMPONENTS,
    PAPER_PROTOCOL,
    PAPER_PROTOCOL_NOTE,
    holds_rows_out,
    method_name,
    post_hoc_names,
    uses_paper_protocol,
)
from kdgraph.wording import counted, printable, some

MOST_FAMILY_SETS, MOST_OOD_COLUMNS = 2, 6
"""OOD sets of a family that are shown, and columns of all, unless a row has none of these."""
FEWEST_COLUMNS = 4
"""Columns that are shown at least, if the runs have as many."""
MOST_WARNINGS = 10
"""Lines of warnings below the tables."""
PARENT_CHOICES = ("parent", "network", "preprocess")
"""Groups whose choice decides the parent."""


@dataclass(frozen=True)
class SweepRun:
    """Record of a run of a sweep, and the swept values that distinguish it, by config key."""

    record: Record
    swept: Mapping[str, str] = field(default_factory=dict)


def sweep_table(runs: Sequence[SweepRun], width: int | None = None) -> str:
    """Return a block for each data set and swept setting of it.

    A block has a row for each parent, which methods share, and for each method. A table that is
    wider than the terminal continues below, with its names again.
    """
    names = [
        " ".join([str(run.record["dataset"]["name"]), *_settings(run, "dataset", "ood", "metrics")])
        for run in runs
    ]
    blocks: dict[str, list[SweepRun]] = {}
    for name, run in zip(_distinct(names, runs, lambda run: ("dataset",)), runs, strict=True):
        blocks.setdefault(name, []).append(run)
    sections = [
        _section(*block)
        for name, of_dataset in blocks.items()
        for block in _by_ood_choice(name, of_dataset).items()
    ]
    return sections_to_text(sections, width)


def sweep_warnings(runs: Sequence[SweepRun]) -> str:
    """Return a line for each warning of the sweep, with its runs; "" without warnings.

    Runs that share a stage, and so its warning, count once for each data set and seed.
    """
    runs_by_message: dict[str, dict[str, None]] = {}
    for run in runs:
        name = f"{run.record['dataset']['name']} seed {run.record['seed']}"
        for warning in run.record["warnings"]:
            runs_by_message.setdefault(warning["message"], {})[name] = None
    lines = [
        f"warning, {some(list(names), at_most=3)}: {printable(message)}"
        for message, names in runs_by_message.items()
    ]
    n_more = len(lines) - MOST_WARNINGS
    if n_more > 0:
        verb = "is" if n_more == 1 else "are"
        lines[MOST_WARNINGS:] = [f"{counted(n_more, 'more warning')} {verb} in the records"]
    return "\n".join(lines)


def _by_ood_choice(name: str, runs: list[SweepRun]) -> dict[str, list[SweepRun]]:
    """Divide runs by the choice of OOD sets, if two choices have sets of the same name.

    Otherwise the sets are columns of one block.
    """
    choices: dict[Measure, set[str | None]] = {}
    for run in runs:
        for measure in values_by_measure(run.record):
            if measure.on == "ood":
                choices.setdefault(measure, set()).add(run.swept.get("ood"))
    if all(len(of_measure) == 1 for of_measure in choices.values()):
        return {name: runs}
    blocks: dict[str, list[SweepRun]] = {}
    for run in runs:
        blocks.setdefault(" ".join([name, *_choices(run, ("ood",))]), []).append(run)
    return blocks


def _section(name: str, runs: Sequence[SweepRun]) -> Section:
    rows = _rows(runs)
    has_detector = any(run.record["detector"] != "none" for run in runs)
    labels = unique_labels(_columns(rows.values(), detects=has_detector))
    cells = [
        [row, *(_cell(values.get(m, {}).values(), m.info.unit) for m in labels)]
        for row, values in rows.items()
    ]
    has_spread = any("±" in cell for _, *numbers in cells for cell in numbers)
    spread = ["mean ± standard deviation"] if has_spread else []
    title = " · ".join([name, _seeds(runs), *spread, *_prior(runs)])
    has_paper_protocol = any(uses_paper_protocol(run.record) for run in runs)
    notes = [f"{PAPER_PROTOCOL}: {PAPER_PROTOCOL_NOTE}"] if has_paper_protocol else []
    notes += metric_notes(labels)
    return Section(title, ["", *labels.values()], cells, notes)


def _columns(rows: Iterable[Mapping[Measure, Any]], *, detects: bool) -> list[Measure]:
    """Choose common measures, and others if these are few; the records contain everything."""
    rows = list(rows)
    measures = list(dict.fromkeys(measure for values in rows for measure in values))
    on_test = [measure for measure in measures if measure.is_test]
    outside = _columns_outside(
        choose_ood_measures(measures, MOST_FAMILY_SETS, detects=detects), rows
    )
    common = [measure for measure in on_test if measure.metric in DEFAULT_METRICS]
    others = [measure for measure in on_test if measure not in common]
    n_others = max(0, FEWEST_COLUMNS - len(common) - len(outside))
    chosen = {*common, *others[:n_others]}
    return [*(measure for measure in on_test if measure in chosen), *outside]


def _columns_outside(
    measures: Sequence[Measure], rows: Sequence[Mapping[Measure, Any]]
) -> list[Measure]:
    """Return the first of some measures, and of each row that has any of them at least one.

    A method that judges sets of rows has numbers of its own, which come after those of single rows.
    """
    of_rows = (next((m for m in measures if m in values), None) for values in rows)
    needed = {measure for measure in of_rows if measure is not None}
    n_others = max(0, MOST_OOD_COLUMNS - len(needed))
    others = [measure for measure in measures if measure not in needed][:n_others]
    return [measure for measure in measures if measure in needed or measure in others]


def _rows(runs: Sequence[SweepRun]) -> dict[str, dict[Measure, dict[int, float]]]:
    """Return row → measure → seed → value.

    A parent is the same in every method that shares it, so it has one number for each seed.
    """
    parents = _distinct([_parent_name(run) for run in runs], runs, lambda run: PARENT_CHOICES)
    # Where no row is held out, the parent is fitted on more rows.
    if len({holds_rows_out(run.record) for run in runs}) > 1:
        parents = [
            name if holds_rows_out(run.record) else f"{name} {ON_ALL_ROWS}"
            for name, run in zip(parents, runs, strict=True)
        ]
    methods = _distinct([_method_name(run) for run in runs], runs, _method_choices)
    rows: dict[str, dict[Measure, dict[int, float]]] = {
        f"{parent} (parent)": {} for parent in parents
    }
    for run, parent, method in zip(runs, parents, methods, strict=True):
        names = {"parent": f"{parent} (parent)"}
        if post_hoc_names(run.record):  # else the run is of the parent alone
            names["calibrated"] = method
        for measure, values in values_by_measure(run.record).items():
            for of, row in names.items():
                if of in values and (value := values[of]["value"]) is not None:
                    rows.setdefault(row, {}).setdefault(measure, {})[run.record["seed"]] = value
    return rows


def _parent_name(run: SweepRun) -> str:
    return " ".join([str(run.record["parent"]), *_settings(run, "parent", "preprocess")])


def _method_name(run: SweepRun) -> str:
    """Return the name of the method with its swept settings.

    These have one form whatever their values, one of which may be the preset's own.
    """
    settings = _settings(run, "preprocess", *MODEL_COMPONENTS)
    swept = {key.lstrip("+") for key in run.swept}
    options = {
        key: value
        for key, value in (run.record.get("method_options") or {}).items()
        if key not in swept
    }
    return " ".join([method_name({**run.record, "method_options": options}), *settings])


def _method_choices(run: SweepRun) -> Sequence[str]:
    """Return the groups whose choice decides the method.

    With the paper protocol it may be fitted on OOD rows too.
    """
    groups = ("method", *PARENT_CHOICES, *MODEL_COMPONENTS)
    return (*groups, "ood") if uses_paper_protocol(run.record) else groups


def _distinct(
    names: Sequence[str],
    runs: Sequence[SweepRun],
    groups: Callable[[SweepRun], Sequence[str]],
) -> list[str]:
    """Return names, followed by choices of these groups if one name has several of them."""
    choices: dict[str, dict[str, set[str]]] = {}
    for name, run in zip(names, runs, strict=True):
        for group in groups(run):
            of_name = choices.setdefault(name, {})
            of_name.setdefault(group, set()).add(run.swept.get(group, ""))
    distinct = []
    for name, run in zip(names, runs, strict=True):
        several = [group for group in groups(run) if len(choices[name][group]) > 1]
        distinct.append(" ".join([name, *_choices(run, several)]))
    return distinct


def _choices(run: SweepRun, groups: Collection[str]) -> list[str]:
    return [f"{group}={run.swept[group]}" for group in dict.fromkeys(groups) if group in run.swept]


def _prior(runs: Sequence[SweepRun]) -> list[str]:
    """Return the largest class prior, which confidences on OOD rows should equal."""
    priors = [run.record["dataset"]["prior"] for run in runs]
    largest = [max(prior) for prior in priors if prior]
    return [f"prior {mean(largest):.3f}"] if largest else []


def _settings(run: SweepRun, *groups: str) -> list[str]:
    """Return swept values of keys inside these groups; :func:`_distinct` adds swept options."""
    return [
        f"{key}={value}"
        for key, value in run.swept.items()
        if key.lstrip("+").partition(".")[0] in groups and "." in key
    ]


def _cell(values: Iterable[float], unit: str | None = None) -> str:
    numbers = list(values)
    if not numbers:
        return MISSING
    if len(numbers) == 1:
        return format_value(numbers[0], unit)
    return format_mean(mean(numbers), stdev(numbers), unit)


def _seeds(runs: Sequence[SweepRun]) -> str:
    seeds = sorted({run.record["seed"] for run in runs})
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds ({number_range(seeds)})"
