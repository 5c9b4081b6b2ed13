"""The compact table of one run: parent against calibrated, the better one marked."""

from __future__ import annotations

from typing import Any

from kdgraph.report.metrics_text import Entry, Record, column_names, distance_from_ideal, entries, far_field, label, number

MARK = " ◂"


def run_table(record: Record, run_dir: str, *, before: bool = False) -> str:
    """Title, stages, metrics, warnings and where the files are, as plain text.

    Parameters
    ----------
    record : of the run.
    run_dir : where it is, as the user would type it.
    before : whether the run was found done.
    """
    return "\n".join(
        [_title(record), _stages(record, before), *_notes(record), *_metrics(record), *_warnings(record), _files(record, run_dir)]
    )


def _title(record: Record) -> str:
    data, gate = record["dataset"], record["gate"]
    rows = " · ".join(f"{data['n_' + role]:,} {role}" for role in ("train", "calibration", "test"))
    chain = " → ".join([f"{data['name']} ({rows})", record["parent"], record["calibrator"], *([f"{gate} gate"] if gate != "none" else [])])
    return f"{chain}        seed {record['seed']}"


def _stages(record: Record, before: bool) -> str:
    times = "   ".join(f"{name} {seconds:.1f} s" for name, seconds in record["seconds"].items())
    stored = len(record["from_store"])
    note = f"{stored} of {len(record['seconds'])} stages from the store" if stored else ""
    note = "done before; force=true runs it again" if before else note
    return f"  {times}        {note}".rstrip()


def _notes(record: Record) -> list[str]:
    """What a reader of the numbers must know of rows that come from elsewhere."""
    told = {record["dataset"]["name"]: record["dataset"].get("source") or {}}
    told |= {found["name"]: found["source"] for found in record.get("ood_sets", [])}
    notes = []
    for name, source in told.items():
        words = [*([source["rows"]] if "rows" in source else []), *source.get("repaired", [])]
        words += [f"a subset: {source['subset']}"] if "subset" in source else []
        notes += [f"  {name}: {'; '.join(words)}"] if words else []
    return notes


def _metrics(record: Record) -> list[str]:
    parents = entries(record)
    shown = [entry for entry in parents if entry["on"] != "ood"] + far_field(parents, at_most=3)
    calibrated = {_place(entry): entry for entry in entries(record, "calibrated")}
    names, labels = column_names(record), [label(record, entry) for entry in shown]
    first = max(map(len, labels), default=0) + 2
    left, right = max(len(names[0]), 5) + 2, max(len(names[1]), 5) + 3
    lines = [f"{'':{first}}{names[0]:>{left}}{names[1]:>{right}}"]
    for text, entry in zip(labels, shown, strict=True):
        other = calibrated[_place(entry)]
        marks = _marks(entry, other, record["dataset"]["prior"])
        cells = f"{number(entry['value']):>{left}}{marks[0]:2}{number(other['value']):>{right - 2}}{marks[1]:2}"
        lines.append(f"  {text:<{first - 2}}{cells}{_note(entry, record)}".rstrip())
    return lines


def _marks(parent: Entry, calibrated: Entry, prior: Any) -> tuple[str, str]:
    """The mark stands at the better of two that differ as printed."""
    a, b = distance_from_ideal(parent, prior), distance_from_ideal(calibrated, prior)
    if a is None or b is None or number(parent["value"]) == number(calibrated["value"]):
        return "", ""
    return (MARK, "") if a < b else ("", MARK)


def _note(entry: Entry, record: Record) -> str:
    return f"   prior {max(record['dataset']['prior']):.3f}" if entry["on"] == "ood" and entry["metric"] == "mmc" else ""


def _warnings(record: Record) -> list[str]:
    return [f"  warning ({warning['stage']}): {warning['message']}" for warning in record["warnings"]]


def _files(record: Record, run_dir: str) -> str:
    count = len({name.rpartition(".")[0] for name in record["files"]["figures"]})
    figures = [f"{count} figure{'s' if count > 1 else ''}"] if count else []
    return "   ".join([run_dir, *figures, "result.json", record["files"]["predictions"]])


def _place(entry: Entry) -> tuple[Any, ...]:
    return entry["metric"], entry["on"], entry["ood"], tuple(sorted(entry["params"].items()))
