"""Numbers of a record as tables on a terminal have them.

What a run found on several kinds of rows out of distribution: a line for each set, and beside
each other what was measured of it.

The compact table of one run: parent against calibrated, the better one marked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kdgraph.results.measures import (
    IN_SAMPLE_NOTE,
    ROWS,
    Measure,
    choose_ood_measures,
    read_measures,
    unique_labels,
)
from kdgraph.results.names import MARK, MISSING, format_distinct, format_value, is_tie
from kdgraph.results.records import (
    PAPER_PROTOCOL_NOTE,
    component_chain,
    post_hoc_names,
    refuse_incomplete,
    uses_paper_protocol,
)
from kdgraph.wording import counted, printable

Record = Mapping[str, Any]
Entry = Mapping[str, Any]
Values = Mapping[str, Entry]
""""parent" or "calibrated" → its number."""


def values_by_measure(record: Record) -> Mapping[Measure, Values]:
    """Everything that was measured, in the order of the config, of the parent and of the calibrated
    model.
    """
    found: dict[Measure, dict[str, Entry]] = {}
    for measure, entry in read_measures(record):
        found.setdefault(measure, {})[entry["of"]] = entry
    return found


def value_texts(values: Values, unit: str | None, *, marked: bool) -> dict[str, str]:
    """Write the numbers of both models; where one of them is marked, with as many digits as it
    takes to see why.
    """
    numbers = {of: entry["value"] for of, entry in values.items()}
    return (
        format_distinct(numbers, unit)
        if marked
        else {of: format_value(value, unit) for of, value in numbers.items()}
    )


def distance_from_ideal(
    measure: Measure, value: float | None, prior: Sequence[float] | None
) -> float | None:
    """How far a value is from the best there could be, or None where neither direction is better.

    Parameters
    ----------
    prior : class shares of the training rows: far from them the best mean confidence is the
        largest. None where there are no classes.
    """
    if value is None or measure.ideal == "none" or (measure.ideal == "prior" and not prior):
        return None
    return (
        abs(value - max(prior or ()))
        if measure.ideal == "prior"
        else value
        if measure.ideal == "lower"
        else -value
    )


FEWEST = 3
"""Sets of different names from which on they have a table of their own."""
_GAP = 3
OODSet = tuple[str | None, tuple[tuple[str, float], ...]]
Better = Callable[[Measure, Values, Record], str | None]


def needs_ood_table(shown: Sequence[Measure]) -> bool:
    """Whether there are enough kinds of sets."""
    return len({measure.ood for measure in shown}) >= FEWEST


def ood_table(
    found: Mapping[Measure, Values],
    shown: Sequence[Measure],
    names: Mapping[str, str],
    record: Record,
    better: Better,
) -> list[str]:
    """Lines of text: each set with its number of rows, and for each metric a column for each model,
    the better one marked.

    Where a model scores sets of rows, and the other one rows, neither is marked, and a line says
    so.

    Parameters
    ----------
    found : everything that was measured.
    shown : whose sets and metrics are to be shown, all out of distribution; each metric on each
    set, as far as it was measured there.
    names : "parent" or "calibrated" → what the model is called.
    better : whose number of two is to be marked.
    """
    sets = list(dict.fromkeys(_set_of(measure) for measure in shown))
    labels, rows = (
        ["out of distribution", *(_label(each, sets) for each in sets)],
        ["rows", *(_rows(found, shown, each) for each in sets)],
    )
    widest, most = (max(map(len, column)) for column in (labels, rows))
    text = [
        "",
        *(f"  {label:<{widest}}  {n:>{most}}" for label, n in zip(labels, rows, strict=True)),
    ]
    text[0] = " " * len(text[1])  # for what the columns are of
    for metric in dict.fromkeys(measure.metric for measure in shown):
        of_metric = [
            measure for measure in found if measure.metric == metric and _set_of(measure) in sets
        ]
        block = [
            _cells(found, [m for m in of_metric if _set_of(m) == each], names, record, better)
            for each in sets
        ]
        widths = {
            of: max(len(name), *(len(cells[of]) - len(MARK) for cells in block))
            for of, name in names.items()
        }
        head = "  ".join(f"{name:>{widths[of]}}  " for of, name in names.items())
        title = _title(of_metric[0], record)
        block_lines = [
            title,
            head,
            *(
                "  ".join(f"{cells[of]:>{widths[of] + len(MARK)}}" for of in names)
                for cells in block
            ),
        ]
        width = max(map(len, block_lines))
        text = [
            f"{left}{'':{_GAP}}{right:<{width}}"
            for left, right in zip(text, block_lines, strict=True)
        ]
    return [line.rstrip() for line in text] + _of_sets(found, shown, names)


def _set_of(measure: Measure) -> OODSet:
    return measure.ood, measure.params


def _label(one: OODSet, sets: Sequence[OODSet]) -> str:
    """The name, and of a family which of them; intensity 255 is of the family intensity."""
    name, params = one
    if sum(other == name for other, _ in sets) == 1:
        return str(name)
    return ", ".join(
        [
            *([] if name in dict(params) else [str(name)]),
            *(f"{key} {value:g}" for key, value in params),
        ]
    )


def _rows(found: Mapping[Measure, Values], shown: Sequence[Measure], one: OODSet) -> str:
    """How many rows; of a set that nothing but sets of rows was measured on, nobody knows it."""
    known = [
        entry["n"]
        for m in shown
        if _set_of(m) == one and m.n_of == ROWS
        for entry in found[m].values()
    ]
    return f"{max(known):,}" if known else MISSING


def _cells(
    found: Mapping[Measure, Values],
    of_set: Sequence[Measure],
    names: Mapping[str, str],
    record: Record,
    better: Better,
) -> dict[str, str]:
    """Model → its number with the mark, or the room for it, behind."""
    values: dict[str, Entry] = {
        of: entry for measure in of_set for of, entry in found[measure].items()
    }
    best = better(of_set[0], values, record) if len(of_set) == 1 and len(names) > 1 else None
    texts = value_texts(values, of_set[0].info.unit if of_set else None, marked=best is not None)
    return {of: texts.get(of, MISSING) + (MARK if of == best else " " * len(MARK)) for of in names}


def _title(measure: Measure, record: Record) -> str:
    prior = record["dataset"]["prior"]
    return (
        f"{measure.name} (prior {max(prior):.3f})"
        if measure.is_ood_confidence and prior
        else measure.name
    )


def _of_sets(
    found: Mapping[Measure, Values], shown: Sequence[Measure], names: Mapping[str, str]
) -> list[str]:
    said = dict.fromkeys(
        (names[of], measure.n_of, measure.name)
        for measure in shown
        if measure.n_of != ROWS
        for of in found[measure]
    )
    by_model: dict[tuple[str, str], list[str]] = {}
    for name, n_of, metric in said:
        by_model.setdefault((name, n_of), []).append(metric)
    return [
        f"  {' and '.join(metrics)} of {name}: of {n_of}"
        for (name, n_of), metrics in by_model.items()
    ]


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
            _title_run_table(record),
            _stages(record, before),
            *_notes(record),
            *_metrics(record),
            *_warnings(record),
            _files(record, run_dir),
        ]
    )


def _title_run_table(record: Record) -> str:
    data = record["dataset"]
    rows = " · ".join(
        f"{data['n_' + role]:,} {role}"
        for role in ("train", "calibration", "test")
        if data["n_" + role]
    )
    return f"{data['name']} ({rows}) → {component_chain(record)}        seed {record['seed']}"


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
    notes = [f"  {PAPER_PROTOCOL_NOTE}"] if uses_paper_protocol(record) else []
    notes += (
        [f"  calibration rows are {IN_SAMPLE_NOTE}"]
        if any(measure.in_sample for measure, _ in read_measures(record))
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
    found = values_by_measure(record)
    outside = choose_ood_measures([*found], MOST_SETS, detects=record["detector"] != "none")
    apart = needs_ood_table(outside)
    shown = [*(measure for measure in found if measure.on != "ood"), *([] if apart else outside)]
    names = {"parent": str(record["parent"])} | (
        {"calibrated": " + ".join(post_hoc_names(record))} if post_hoc_names(record) else {}
    )
    labels = unique_labels(shown)
    first = max(map(len, labels.values()), default=0) + 2
    best = {
        measure: _better(measure, found[measure], record) if len(names) > 1 else None
        for measure in shown
    }
    texts = {
        measure: value_texts(found[measure], measure.info.unit, marked=best[measure] is not None)
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
        text = "".join(_cells_run_table(texts[measure], best[measure], widths))
        lines.append(f"  {labels[measure]:<{first - 2}}{text}{_note(measure, record)}".rstrip())
    return lines + (ood_table(found, outside, names, record, _better) if apart else [])


def _cells_run_table(
    texts: Mapping[str, str], best: str | None, widths: Mapping[str, int]
) -> list[str]:
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
    if len(known) < 2 or is_tie(known["parent"], known["calibrated"], measure.info.unit):
        return None
    return min(known, key=lambda of: known[of])


def _note(measure: Measure, record: Record) -> str:
    prior = record["dataset"]["prior"]
    return f"   prior {max(prior):.3f}" if measure.is_ood_confidence and prior else ""


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
