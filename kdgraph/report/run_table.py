"""The compact table of one run: parent against calibrated, the better one marked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kdgraph.report.far_table import far_table, has_far_table
from kdgraph.report.metrics_text import Record, Values, by_measure, distance_from_ideal, texts_of
from kdgraph.results.complete import refuse_incomplete
from kdgraph.results.measures import IN_SAMPLE, Measure, measured, tell_apart
from kdgraph.results.numbers import is_tie
from kdgraph.results.parts import AS_IN_PAPER, after, chain, is_as_in_paper
from kdgraph.results.usual import far
from kdgraph.results.words import MARK, MISSING
from kdgraph.wording import counted, printable

MOST_SETS = 3
"""Out-of-distribution sets of a family that are shown."""


def run_table(record: Record, run_dir: str, *, before: bool = False) -> str:
    """Title, stages, metrics, warnings and where the files are, as plain text.

    Parameters
    ----------
    record : of the run.
    run_dir : where it is, as the user would type it.
    before : whether the run was found done.

    Raises
    ------
    UsageError
        The record lacks a key that all have.
    """
    refuse_incomplete(record, run_dir)
    return "\n".join(
        [
            _title(record),
            _stages(record, before),
            *_notes(record),
            *_metrics(record),
            *_warnings(record),
            _files(record, run_dir),
        ]
    )


def _title(record: Record) -> str:
    data = record["dataset"]
    rows = " · ".join(
        f"{data['n_' + role]:,} {role}"
        for role in ("train", "calibration", "test")
        if data["n_" + role]
    )
    return f"{data['name']} ({rows}) → {chain(record)}        seed {record['seed']}"


def _stages(record: Record, before: bool) -> str:
    times = "   ".join(f"{name} {seconds:.1f} s" for name, seconds in record["seconds"].items())
    stored = len(record["from_store"])
    note = f"{stored} of {len(record['seconds'])} stages from the store" if stored else ""
    note = "done before; force=true runs it again" if before else note
    return f"  {times}        {note}".rstrip()


def _notes(record: Record) -> list[str]:
    """What a reader of the numbers must know of the rows that they are of, and of rows that come
    from elsewhere.
    """
    told = {record["dataset"]["name"]: record["dataset"].get("source") or {}}
    told |= {_called(found): found["source"] for found in record["ood_sets"]}
    notes = [f"  {AS_IN_PAPER}"] if is_as_in_paper(record) else []
    notes += (
        [f"  calibration rows are {IN_SAMPLE}"]
        if any(measure.in_sample for measure, _ in measured(record))
        else []
    )
    for name, source in told.items():
        words = [*([source["rows"]] if "rows" in source else []), *source.get("repaired", [])]
        words += [f"a subset: {source['subset']}"] if "subset" in source else []
        notes += [f"  {name}: {'; '.join(words)}"] if words else []
    return notes


def _called(found: Mapping[str, Any]) -> str:
    """A set of several by its key, and what it is a set of."""
    return (
        f"{found['name']} ({found['source']['set']})" if "set" in found["source"] else found["name"]
    )


def _metrics(record: Record) -> list[str]:
    """A line for each measure, or for each of several sets out of distribution; where nothing comes
    after the parent, one column.
    """
    found = by_measure(record)
    outside = far([*found], MOST_SETS, detects=record["detector"] != "none")
    apart = has_far_table(outside)
    shown = [*(measure for measure in found if measure.on != "ood"), *([] if apart else outside)]
    names = {"parent": str(record["parent"])} | (
        {"calibrated": " + ".join(after(record))} if after(record) else {}
    )
    labels = tell_apart(shown)
    first = max(map(len, labels.values()), default=0) + 2
    best = {
        measure: _better(measure, found[measure], record) if len(names) > 1 else None
        for measure in shown
    }
    texts = {
        measure: texts_of(found[measure], measure.about.unit, marked=best[measure] is not None)
        for measure in shown
    }
    numbers = {
        of: [texts[measure][of] for measure in shown if of in texts[measure]] for of in names
    }
    widths = {
        of: max(map(len, [name, "0.000", *numbers[of]])) + (2 if of == "parent" else 3)
        for of, name in names.items()
    }
    lines = [f"{'':{first}}" + "".join(f"{name:>{widths[of]}}" for of, name in names.items())]
    for measure in shown:
        text = "".join(_cells(texts[measure], best[measure], widths))
        lines.append(f"  {labels[measure]:<{first - 2}}{text}{_note(measure, record)}".rstrip())
    return lines + (far_table(found, outside, names, record, _better) if apart else [])


def _cells(texts: Mapping[str, str], best: str | None, widths: Mapping[str, int]) -> list[str]:
    """Numbers with room for the mark behind each, which the next column's width has in it."""
    return [
        f"{texts.get(of, MISSING):>{width - (len(MARK) if of == 'calibrated' else 0)}}{MARK if of == best else '':{len(MARK)}}"
        for of, width in widths.items()
    ]


def _better(measure: Measure, values: Values, record: Record) -> str | None:
    """Whose number is the better one of two that more than floating-point noise tells apart."""
    distance = {
        of: distance_from_ideal(measure, entry["value"], record["dataset"]["prior"])
        for of, entry in values.items()
    }
    known = {of: value for of, value in distance.items() if value is not None}
    if len(known) < 2 or is_tie(known["parent"], known["calibrated"], measure.about.unit):
        return None
    return min(known, key=lambda of: known[of])


def _note(measure: Measure, record: Record) -> str:
    prior = record["dataset"]["prior"]
    return f"   prior {max(prior):.3f}" if measure.is_far_confidence and prior else ""


def _warnings(record: Record) -> list[str]:
    return [
        f"  warning ({warning['stage']}): {printable(warning['message'])}"
        for warning in record["warnings"]
    ]


def _files(record: Record, run_dir: str) -> str:
    figures = {name.rpartition(".")[0] for name in record["files"]["figures"]}
    counts = [(len(figures), "figure"), (len(record["files"]["tables"]), "table")]
    return "   ".join(
        [
            run_dir,
            *(counted(count, what) for count, what in counts if count),
            "result.json",
            record["files"]["predictions"],
        ]
    )
