"""What a run found on several kinds of rows out of distribution: a line for each set, and beside
each other what was measured of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kdgraph.report.metrics_text import Entry, Record, Values, texts_of
from kdgraph.results.measures import ROWS, Measure
from kdgraph.results.words import MARK, MISSING

FEWEST = 3
"""Sets of different names from which on they have a table of their own."""
_GAP = 3
Set = tuple[str | None, tuple[tuple[str, float], ...]]
Better = Callable[[Measure, Values, Record], str | None]


def has_far_table(shown: Sequence[Measure]) -> bool:
    """Whether there are enough kinds of sets."""
    return len({measure.ood for measure in shown}) >= FEWEST


def far_table(
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


def _set_of(measure: Measure) -> Set:
    return measure.ood, measure.params


def _label(one: Set, sets: Sequence[Set]) -> str:
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


def _rows(found: Mapping[Measure, Values], shown: Sequence[Measure], one: Set) -> str:
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
    texts = texts_of(values, of_set[0].about.unit if of_set else None, marked=best is not None)
    return {of: texts.get(of, MISSING) + (MARK if of == best else " " * len(MARK)) for of in names}


def _title(measure: Measure, record: Record) -> str:
    prior = record["dataset"]["prior"]
    return (
        f"{measure.name} (prior {max(prior):.3f})"
        if measure.is_far_confidence and prior
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
