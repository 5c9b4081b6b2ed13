"""The table at the end of a sweep: mean ± standard deviation over seeds, by data set and method,
each parent once; and its warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev
from typing import Any

from kdgraph.config import METHOD_ENDS
from kdgraph.report.run_table import Record, values_by_measure
from kdgraph.results.measures import DEFAULT_METRICS, Measure, choose_ood_measures, unique_labels
from kdgraph.results.names import MISSING, format_mean, format_value, number_range
from kdgraph.results.records import (
    MODEL_COMPONENTS,
    PAPER_PROTOCOL_NOTE,
    post_hoc_names,
    refuse_incomplete,
    uses_paper_protocol,
)
from kdgraph.wording import printable, some

MOST_SETS, MOST_FAR = 2, 6
"""Out-of-distribution sets of a family that are shown, and columns of them all."""
AT_LEAST = 4
"""Columns, as far as there is something to show."""
MOST_WARNINGS = 10
"""Lines of them below the tables."""
OF_PARENT = ("parent", "network", "preprocess")
"""Groups whose choice decides what a parent is."""


@dataclass(frozen=True)
class SweepRun:
    """A record of a sweep and the swept values that set it apart, by config key."""

    record: Record
    swept: Mapping[str, str] = field(default_factory=dict)


def sweep_table(runs: Sequence[SweepRun]) -> str:
    """One block for each data set (and each swept setting of it), one row for each parent and each
    method.

    Raises
    ------
    UsageError
        A record lacks a key that all have.
    """
    for run in runs:
        refuse_incomplete(run.record, str(run.record.get("run_id", "the run's directory")))
    names = [
        " ".join([str(run.record["dataset"]["name"]), *_settings(run, "dataset", "ood", "metrics")])
        for run in runs
    ]
    blocks: dict[str, list[SweepRun]] = {}
    for name, run in zip(_apart(names, runs, lambda run: ("dataset",)), runs, strict=True):
        blocks.setdefault(name, []).append(run)
    return "\n\n".join(
        "\n".join(_block(*of))
        for name, found in blocks.items()
        for of in _by_ood(name, found).items()
    )


def sweep_warnings(runs: Sequence[SweepRun]) -> str:
    """What runs of the sweep warned of, a line for each message, with its runs; "" if nothing.

    Runs that share a stage, and so its warning, count once for each data set and seed.
    """
    said: dict[str, dict[str, None]] = {}
    for run in runs:
        for warning in run.record["warnings"]:
            said.setdefault(warning["message"], {})[
                f"{run.record['dataset']['name']} seed {run.record['seed']}"
            ] = None
    lines = [
        f"warning, {some(list(where), at_most=3)}: {printable(message)}"
        for message, where in said.items()
    ]
    rest = len(lines) - MOST_WARNINGS
    return "\n".join(
        lines[:MOST_WARNINGS] + ([f"{rest} more warnings are in the records"] if rest > 0 else [])
    )


def _by_ood(name: str, runs: list[SweepRun]) -> dict[str, list[SweepRun]]:
    """Blocks of their own for choices of what is out of distribution that have sets of one name;
    else these are columns of one block.
    """
    seen: dict[Measure, set[str | None]] = {}
    for run in runs:
        for measure in values_by_measure(run.record):
            if measure.on == "ood":
                seen.setdefault(measure, set()).add(run.swept.get("ood"))
    blocks: dict[str, list[SweepRun]] = {}
    for run in runs:
        of = (
            " ".join([name, *_choices(run, ("ood",))])
            if any(len(choices) > 1 for choices in seen.values())
            else name
        )
        blocks.setdefault(of, []).append(run)
    return blocks


def _block(name: str, runs: Sequence[SweepRun]) -> list[str]:
    rows = _rows(runs)
    columns = unique_labels(
        _columns(rows.values(), detects=any(run.record["detector"] != "none" for run in runs))
    )
    cells = {
        row: [_cell(values.get(measure, {}).values(), measure.info.unit) for measure in columns]
        for row, values in rows.items()
    }
    first = max(map(len, rows)) + 3
    widths = [
        max([len(label), *(len(line[k]) for line in cells.values())]) + 3
        for k, label in enumerate(columns.values())
    ]
    lines = [" · ".join([name, _seeds(runs), "mean ± standard deviation", *_prior(runs)])]
    lines.append(
        " " * first
        + "".join(
            f"{label:>{width}}" for label, width in zip(columns.values(), widths, strict=True)
        )
    )
    for row, line in cells.items():
        lines.append(
            f"  {row:<{first - 2}}"
            + "".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True))
        )
    return lines + (
        [f"  {METHOD_ENDS['paper']}: {PAPER_PROTOCOL_NOTE}"]
        if any(uses_paper_protocol(run.record) for run in runs)
        else []
    )


def _columns(rows: Iterable[Mapping[Measure, Any]], *, detects: bool) -> list[Measure]:
    """What is read first, and where that is little whatever else was measured; everything is in the
    records.
    """
    there = list(dict.fromkeys(measure for values in rows for measure in values))
    near = [measure for measure in there if measure.is_test]
    outside = choose_ood_measures(there, MOST_SETS, detects=detects)[:MOST_FAR]
    first = [measure for measure in near if measure.metric in DEFAULT_METRICS]
    rest = [measure for measure in near if measure not in first][
        : max(0, AT_LEAST - len(first) - len(outside))
    ]
    return [*(measure for measure in near if measure in first or measure in rest), *outside]


def _rows(runs: Sequence[SweepRun]) -> dict[str, dict[Measure, dict[int, float]]]:
    """Row → column → seed → value. A parent is the same in every method that shares it, so its
    seeds fall together.
    """
    parents = _apart([_parent(run) for run in runs], runs, lambda run: OF_PARENT)
    methods = _apart([_method(run) for run in runs], runs, _of_method)
    rows: dict[str, dict[Measure, dict[int, float]]] = {
        f"{parent} (parent)": {} for parent in parents
    }
    for run, parent, method in zip(runs, parents, methods, strict=True):
        names = {"parent": f"{parent} (parent)"} | (
            {"calibrated": method} if post_hoc_names(run.record) else {}
        )  # else it is the parent
        for measure, values in values_by_measure(run.record).items():
            for of, row in names.items():
                if of in values and (value := values[of]["value"]) is not None:
                    rows.setdefault(row, {}).setdefault(measure, {})[run.record["seed"]] = value
    return rows


def _parent(run: SweepRun) -> str:
    return " ".join([str(run.record["parent"]), *_settings(run, "parent", "preprocess")])


def _method(run: SweepRun) -> str:
    """Its label; with swept settings the chosen method's name whatever the values, for one of them
    may be the preset's own.
    """
    settings = _settings(run, "preprocess", *MODEL_COMPONENTS)
    if not settings:
        return str(run.record["method"])
    name = run.swept.get(
        "method", "-".join([str(run.record["parent"]), *post_hoc_names(run.record)])
    )
    return " ".join([name + METHOD_ENDS.get(run.record["protocol"], ""), *settings])


def _of_method(run: SweepRun) -> Sequence[str]:
    """Groups whose choice decides what a method is; as in its paper, it may be fitted by what is
    out of distribution too.
    """
    return (
        "method",
        *OF_PARENT,
        *MODEL_COMPONENTS,
        *(("ood",) if uses_paper_protocol(run.record) else ()),
    )


def _apart(
    names: Sequence[str], runs: Sequence[SweepRun], groups: Callable[[SweepRun], Sequence[str]]
) -> list[str]:
    """The names, and behind those that runs with other choices of these groups have too the
    choices: a name need not tell all of them.
    """
    chosen: dict[str, dict[str, set[str]]] = {}
    for name, run in zip(names, runs, strict=True):
        for group in groups(run):
            chosen.setdefault(name, {}).setdefault(group, set()).add(run.swept.get(group, ""))
    return [
        " ".join(
            [name, *_choices(run, [group for group in groups(run) if len(chosen[name][group]) > 1])]
        )
        for name, run in zip(names, runs, strict=True)
    ]


def _choices(run: SweepRun, groups: Collection[str]) -> list[str]:
    return [f"{group}={run.swept[group]}" for group in dict.fromkeys(groups) if group in run.swept]


def _prior(runs: Sequence[SweepRun]) -> list[str]:
    """The largest class prior, which the means far from the data should be at; nothing where there
    are no classes.
    """
    known = [max(run.record["dataset"]["prior"]) for run in runs if run.record["dataset"]["prior"]]
    return [f"prior {mean(known):.3f}"] if known else []


def _settings(run: SweepRun, *groups: str) -> list[str]:
    """Swept values of keys inside these groups; the groups' own options are told by names, or by
    :func:`_apart`.
    """
    return [
        f"{key}={value}"
        for key, value in run.swept.items()
        if key.lstrip("+").partition(".")[0] in groups and "." in key
    ]


def _cell(values: Iterable[float], unit: str | None = None) -> str:
    found = list(values)
    if not found:
        return MISSING
    return (
        format_mean(mean(found), stdev(found), unit)
        if len(found) > 1
        else format_value(found[0], unit)
    )


def _seeds(runs: Sequence[SweepRun]) -> str:
    seeds = sorted({run.record["seed"] for run in runs})
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds ({number_range(seeds)})"
