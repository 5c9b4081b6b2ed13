"""The table of one run: parent against calibrated model, the better number marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kdgraph.results.export import NARROWEST_NAMES, wrap_line
from kdgraph.results.measures import (
    IN_SAMPLE_NOTE,
    ROWS,
    Measure,
    choose_ood_measures,
    metric_notes,
    read_measures,
    unique_labels,
)
from kdgraph.results.names import MARK, MISSING, format_distinct, format_value, is_tie
from kdgraph.results.origins import Record
from kdgraph.results.records import (
    PAPER_PROTOCOL_NOTE,
    calibration_mode,
    component_chain,
    post_hoc_names,
    uses_paper_protocol,
)
from kdgraph.wording import counted, printable

MetricEntry = Mapping[str, Any]
Values = Mapping[str, MetricEntry]
""""parent" or "calibrated" → item of ``metrics``."""
OODSet = tuple[str | None, tuple[tuple[str, float], ...]]
"""Name of an OOD set and its parameters within its family."""
MOST_SETS = 3
"""OOD sets of a family that are shown."""
FEWEST_SETS = 3
"""OOD sets of different names from which on they have a table of their own."""
_GAP = 3


def run_table(
    record: Record, run_dir: str, width: int | None = None, *, before: bool = False
) -> str:
    """Return title, stages, metrics, warnings and files of a run as plain text.

    Lines are fitted into the width of a terminal. ``before`` is True if the run was finished
    already.
    """
    head = [_title(record), _stages(record, before), *_notes(record)]
    end = [*_warnings(record), _files(record, run_dir)]
    above, below = (
        [part for line in lines for part in wrap_line(line, width, "    ")] for lines in (head, end)
    )
    return "\n".join([*above, *_metrics(record, width), *below])


def values_by_measure(record: Record) -> Mapping[Measure, Values]:
    """Return the numbers of parent and calibrated model, in the order of the config."""
    values: dict[Measure, dict[str, MetricEntry]] = {}
    for measure, entry in read_measures(record):
        values.setdefault(measure, {})[entry["of"]] = entry
    return values


def value_texts(values: Values, unit: str | None, *, marked: bool) -> dict[str, str]:
    """Return the numbers of both models as text.

    If one of them is marked as better, both have as many digits as it takes to see why.
    """
    numbers = {of: entry["value"] for of, entry in values.items()}
    if marked:
        return format_distinct(numbers, unit)
    return {of: format_value(number, unit) for of, number in numbers.items()}


def distance_from_ideal(
    measure: Measure, value: float | None, prior: Sequence[float] | None
) -> float | None:
    """Return how far a value is from the best possible one; None if neither direction is better.

    The largest class prior of the training rows is the best mean confidence on OOD rows.
    """
    if value is None or measure.ideal == "none":
        return None
    if measure.ideal == "prior":
        return abs(value - max(prior)) if prior else None
    return value if measure.ideal == "lower" else -value


def ood_table(
    values: Mapping[Measure, Values],
    shown: Sequence[Measure],
    names: Mapping[str, str],
    record: Record,
    width: int | None = None,
) -> list[str]:
    """Return a table with a line for each OOD set and a column for each metric and model.

    ``shown`` are measures whose sets and metrics are shown, ``names`` those of "parent" and
    "calibrated". Metrics that do not fit into the width of a terminal follow below. If one model
    scores sets of rows and the other one rows, neither number is marked, and a line below the table
    explains it.
    """
    sets = list(dict.fromkeys(_set_of(measure) for measure in shown))
    labels = ["out of distribution", *(_set_label(ood_set, sets) for ood_set in sets)]
    rows = ["rows", *(_row_count(values, shown, ood_set) for ood_set in sets)]
    label_width, row_width = (max(map(len, column)) for column in (labels, rows))
    lines = [
        f"  {label:<{label_width}}  {n:>{row_width}}" for label, n in zip(labels, rows, strict=True)
    ]
    name_lines = [" " * len(lines[0]), *lines]
    tables = [name_lines]
    for metric in dict.fromkeys(measure.metric for measure in shown):
        of_metric = [m for m in values if m.metric == metric and _set_of(m) in sets]
        block = _metric_block(values, of_metric, sets, names, record)
        block_width = max(map(len, block))
        used = len(tables[-1][0])
        if width is not None and tables[-1] is not name_lines and used + _GAP + block_width > width:
            tables.append(name_lines)
        tables[-1] = [
            f"{left}{'':{_GAP}}{right:<{block_width}}"
            for left, right in zip(tables[-1], block, strict=True)
        ]
    text = [line.rstrip() for table in tables for line in table]
    return text + _set_score_notes(values, shown, names)


def _title(record: Record) -> str:
    data, config = record["dataset"], record["config"]
    names = {"train": "train", "calibration": "calibration", "test": "test"}
    if post_hoc_names(record):
        names["train"] += {
            "oob": " and calibration, out of bag",
            "cross_fit": f" and calibration, in {config.get('cv')} folds",
        }.get(calibration_mode(record), "")
    rows = " · ".join(
        f"{data['n_' + role]:,} {name}" for role, name in names.items() if data["n_" + role]
    )
    return f"{data['name']} ({rows}) → {component_chain(record)}        seed {record['seed']}"


def _stages(record: Record, before: bool) -> str:
    times = "   ".join(f"{name} {seconds:.1f} s" for name, seconds in record["seconds"].items())
    n_stored, n_stages = len(record["from_store"]), len(record["seconds"])
    note = f"{n_stored} of {counted(n_stages, 'stage')} from the store" if n_stored else ""
    note = "done before; force=true runs it again" if before else note
    return f"  {times}        {note}".rstrip()


def _notes(record: Record) -> list[str]:
    notes = [f"  {PAPER_PROTOCOL_NOTE}"] if uses_paper_protocol(record) else []
    if any(measure.in_sample for measure, _ in read_measures(record)):
        notes.append(f"  calibration rows are {IN_SAMPLE_NOTE}")
    sources = {record["dataset"]["name"]: record["dataset"].get("source") or {}}
    sources |= {_ood_source_name(of): of["source"] for of in record["ood_sets"]}
    for name, source in sources.items():
        texts = [*([source["rows"]] if "rows" in source else []), *source.get("repaired", [])]
        texts += [f"a subset: {source['subset']}"] if "subset" in source else []
        notes += [f"  {name}: {'; '.join(texts)}"] if texts else []
    return notes


def _ood_source_name(ood_set: Mapping[str, Any]) -> str:
    """Return the key of a set of several, and the set that it is made from."""
    if "set" in ood_set["source"]:
        return f"{ood_set['name']} ({ood_set['source']['set']})"
    return ood_set["name"]


def _metrics(record: Record, width: int | None) -> list[str]:
    """Return a line for each measure, and a table of OOD sets if there are several.

    A run of the parent alone has one column.
    """
    values = values_by_measure(record)
    outside = choose_ood_measures([*values], MOST_SETS, detects=record["detector"] != "none")
    has_ood_table = len({measure.ood for measure in outside}) >= FEWEST_SETS
    shown = [measure for measure in values if measure.on != "ood"]
    shown += [] if has_ood_table else outside
    names = {"parent": str(record["parent"])}
    if post_hoc_names(record):
        names["calibrated"] = " + ".join(post_hoc_names(record))
    labels = unique_labels(shown)
    best = {measure: _better_model(measure, values[measure], names, record) for measure in shown}
    texts = {
        measure: value_texts(values[measure], measure.info.unit, marked=best[measure] is not None)
        for measure in shown
    }
    widths = {}
    for of, name in names.items():
        numbers = [texts[measure][of] for measure in shown if of in texts[measure]]
        gap = 2 if of == "parent" else len(MARK) + 1
        widths[of] = max(map(len, [name, "0.000", *numbers])) + gap
    notes = {measure: _prior_note(measure, record, "   prior {:.3f}") for measure in shown}
    room = None
    if width is not None:
        end = sum(widths.values()) + len(MARK) + max(map(len, notes.values()), default=0)
        room = max(NARROWEST_NAMES, width - 2 - end)
    label_lines = {measure: wrap_line(label, room) for measure, label in labels.items()}
    first = max((len(line) for lines in label_lines.values() for line in lines), default=0)
    lines = [f"  {'':{first}}" + "".join(f"{name:>{widths[of]}}" for of, name in names.items())]
    for measure in shown:
        cells = "".join(_marked_cells(texts[measure], best[measure], widths))
        label, *more = label_lines[measure]
        lines.append(f"  {label:<{first}}{cells}{notes[measure]}".rstrip())
        lines += [f"  {line}" for line in more]
    lines += ood_table(values, outside, names, record, width) if has_ood_table else []
    for note in metric_notes(dict.fromkeys([*shown, *outside])):
        lines += wrap_line(f"  {note}", width, "    ")
    return lines


def _marked_cells(
    texts: Mapping[str, str], best: str | None, widths: Mapping[str, int]
) -> list[str]:
    """Return numbers, each with room for the mark, which the next column's width includes."""
    cells = []
    for of, width in widths.items():
        width -= len(MARK) if of == "calibrated" else 0
        mark = MARK if of == best else ""
        cells.append(f"{texts.get(of, MISSING):>{width}}{mark:{len(MARK)}}")
    return cells


def _better_model(
    measure: Measure, values: Values, names: Mapping[str, str], record: Record
) -> str | None:
    prior = record["dataset"]["prior"]
    distances = {
        of: distance
        for of, entry in values.items()
        if (distance := distance_from_ideal(measure, entry["value"], prior)) is not None
    }
    if len(names) < 2 or len(distances) < 2:
        return None
    if is_tie(distances["parent"], distances["calibrated"], measure.info.unit):
        return None
    return min(distances, key=lambda of: distances[of])


def _prior_note(measure: Measure, record: Record, form: str) -> str:
    prior = record["dataset"]["prior"]
    return form.format(max(prior)) if measure.is_ood_confidence and prior else ""


def _warnings(record: Record) -> list[str]:
    return [
        f"  warning ({warning['stage']}): {printable(warning['message'])}"
        for warning in record["warnings"]
    ]


def _files(record: Record, run_dir: str) -> str:
    figures = {name.rpartition(".")[0] for name in record["files"]["figures"]}
    counts = [(len(figures), "figure"), (len(record["files"]["tables"]), "table")]
    parts = [counted(count, what) for count, what in counts if count]
    return "   ".join([run_dir, *parts, "result.json", record["files"]["predictions"]])


def _set_of(measure: Measure) -> OODSet:
    return measure.ood, measure.params


def _set_label(ood_set: OODSet, sets: Sequence[OODSet]) -> str:
    """Return the name of a set, with its parameters if the family has several.

    A family may have the name of its parameter: intensity 255.
    """
    name, params = ood_set
    if sum(other == name for other, _ in sets) == 1:
        return str(name)
    parts = [] if name in dict(params) else [str(name)]
    return ", ".join([*parts, *(f"{key} {value:g}" for key, value in params)])


def _row_count(values: Mapping[Measure, Values], shown: Sequence[Measure], ood_set: OODSet) -> str:
    """Return the number of rows of a set, which scores of sets of rows do not contain."""
    counts = [
        entry["n"]
        for measure in shown
        if _set_of(measure) == ood_set and measure.n_of == ROWS
        for entry in values[measure].values()
    ]
    return f"{max(counts):,}" if counts else MISSING


def _metric_block(
    values: Mapping[Measure, Values],
    of_metric: Sequence[Measure],
    sets: Sequence[OODSet],
    names: Mapping[str, str],
    record: Record,
) -> list[str]:
    rows = [
        _set_cells(values, [m for m in of_metric if _set_of(m) == ood_set], names, record)
        for ood_set in sets
    ]
    widths = {
        of: max(len(name), *(len(cells[of]) - len(MARK) for cells in rows))
        for of, name in names.items()
    }
    room = " " * len(MARK)
    head = "  ".join(f"{name:>{widths[of]}}{room}" for of, name in names.items())
    body = ["  ".join(f"{cells[of]:>{widths[of] + len(MARK)}}" for of in names) for cells in rows]
    title = of_metric[0].name + _prior_note(of_metric[0], record, " (prior {:.3f})")
    return [title, head, *body]


def _set_cells(
    values: Mapping[Measure, Values],
    of_set: Sequence[Measure],
    names: Mapping[str, str],
    record: Record,
) -> dict[str, str]:
    entries: dict[str, MetricEntry] = {
        of: entry for measure in of_set for of, entry in values[measure].items()
    }
    # Two measures of one metric and set are scores of rows and of sets of rows.
    best = _better_model(of_set[0], entries, names, record) if len(of_set) == 1 else None
    texts = value_texts(entries, of_set[0].info.unit if of_set else None, marked=best is not None)
    room = " " * len(MARK)
    return {of: texts.get(of, MISSING) + (MARK if of == best else room) for of in names}


def _set_score_notes(
    values: Mapping[Measure, Values], shown: Sequence[Measure], names: Mapping[str, str]
) -> list[str]:
    metrics: dict[tuple[str, str], dict[str, None]] = {}
    for measure in shown:
        if measure.n_of != ROWS:
            for of in values[measure]:
                metrics.setdefault((names[of], measure.n_of), {})[measure.name] = None
    return [
        f"  {' and '.join(of_model)} of {name}: of {n_of}"
        for (name, n_of), of_model in metrics.items()
    ]
