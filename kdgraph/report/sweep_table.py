"""The table at the end of a sweep: mean ± standard deviation over seeds, by data set and method, each parent once; and its warnings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev

from kdgraph.report.metrics_text import MISSING, Entry, Record, entries, far_field, label, number

COLUMNS = ("error", "nll", "ece", "hellinger")
"""Metrics on test rows and on the grid that the table shows, of those that were measured; everything else is in the records."""

MOST_WARNINGS = 10
"""Lines of them below the tables."""


@dataclass(frozen=True)
class Done:
    """A record of a sweep and the swept values that set it apart, by config key."""

    record: Record
    swept: Mapping[str, str] = field(default_factory=dict)


def sweep_table(runs: Sequence[Done]) -> str:
    """One block for each data set (and each swept setting of it), one row for each parent and each method."""
    blocks: dict[tuple[str, ...], list[Done]] = {}
    for run in runs:
        blocks.setdefault((str(run.record["dataset"]["name"]), *_settings(run, "dataset", "ood", "metrics")), []).append(run)
    return "\n\n".join("\n".join(_block(" ".join(name), found)) for name, found in blocks.items())


def sweep_warnings(runs: Sequence[Done]) -> str:
    """What runs of the sweep warned of, a line for each message, with its runs; "" if nothing.

    Runs that share a stage, and so its warning, count once for each data set and seed.
    """
    said: dict[str, dict[str, None]] = {}
    for run in runs:
        for warning in run.record["warnings"]:
            said.setdefault(warning["message"], {})[f"{run.record['dataset']['name']} seed {run.record['seed']}"] = None
    lines = [f"warning, {_few(list(where))}: {message}" for message, where in said.items()]
    rest = len(lines) - MOST_WARNINGS
    return "\n".join(lines[:MOST_WARNINGS] + ([f"{rest} more warnings are in the records"] if rest > 0 else []))


def _few(names: Sequence[str], at_most: int = 3) -> str:
    return ", ".join(names[:at_most]) + (f" and {len(names) - at_most} more" if len(names) > at_most else "")


def _block(name: str, runs: Sequence[Done]) -> list[str]:
    rows = _rows(runs)
    columns = list(dict.fromkeys(column for values in rows.values() for column in values))
    cells = {row: [_cell(values.get(column, {}).values()) for column in columns] for row, values in rows.items()}
    first = max(map(len, rows)) + 3
    widths = [max([len(column), *(len(line[k]) for line in cells.values())]) + 3 for k, column in enumerate(columns)]
    prior = mean(max(run.record["dataset"]["prior"]) for run in runs)
    lines = [f"{name} · {_seeds(runs)} · mean ± standard deviation · prior {prior:.3f}"]
    lines.append(" " * first + "".join(f"{column:>{width}}" for column, width in zip(columns, widths, strict=True)))
    for row, line in cells.items():
        lines.append(f"  {row:<{first - 2}}" + "".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True)))
    return lines


def _rows(runs: Sequence[Done]) -> dict[str, dict[str, dict[int, float]]]:
    """Row → column → seed → value. A parent is the same in every method that shares it, so its seeds fall together."""
    rows: dict[str, dict[str, dict[int, float]]] = {}
    for run in runs:
        parent = " ".join([str(run.record["parent"]), *_settings(run, "parent")])
        rows.setdefault(f"{parent} (parent)", {})
    for run in runs:
        parent = " ".join([str(run.record["parent"]), *_settings(run, "parent")])
        method = _method(run)
        for row, of in ((f"{parent} (parent)", "parent"), (method, "calibrated")):
            if of == "calibrated" and run.record["calibrator"] == "none" and run.record["gate"] == "none":
                continue  # it is the parent
            for entry in _shown(entries(run.record, of)):
                if entry["value"] is not None:
                    rows.setdefault(row, {}).setdefault(label(run.record, entry), {})[run.record["seed"]] = entry["value"]
    return rows


def _method(run: Done) -> str:
    """Its label; with swept settings the chosen method's name whatever the values, for one of them may be the preset's own."""
    settings = _settings(run, "parent", "calibrator", "gate")
    if not settings:
        return str(run.record["method"])
    parts = [str(run.record[part]) for part in ("parent", "calibrator", "gate") if run.record[part] != "none"]
    return " ".join([run.swept.get("method", "-".join(parts)), *settings])


def _shown(found: Sequence[Entry]) -> list[Entry]:
    labelled = [entry for entry in found if entry["on"] != "ood" and entry["metric"] in COLUMNS]
    return [*labelled, *far_field(found, at_most=2)]


def _settings(run: Done, *groups: str) -> list[str]:
    """Swept values of keys inside these groups; the groups' own options are told by names."""
    return [f"{key}={value}" for key, value in run.swept.items() if key.partition(".")[0] in groups and "." in key]


def _cell(values: Iterable[float]) -> str:
    found = list(values)
    if not found:
        return MISSING
    return number(mean(found)) + (f" ± {stdev(found):.3f}" if len(found) > 1 else "")


def _seeds(runs: Sequence[Done]) -> str:
    seeds = sorted({run.record["seed"] for run in runs})
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    together = seeds == list(range(seeds[0], seeds[-1] + 1)) and len(seeds) > 2
    return f"{len(seeds)} seeds ({f'{seeds[0]}–{seeds[-1]}' if together else ', '.join(map(str, seeds))})"
