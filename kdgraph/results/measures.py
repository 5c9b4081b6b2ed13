"""What a number in a record measures: which metric, on which rows, with which options. Equal measures may be compared and averaged."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal

from kdgraph.errors import UsageError, did_you_mean
from kdgraph.metrics import METRICS, needs
from kdgraph.metrics.registry import Better
from kdgraph.results.filters import as_text, flat

Words = tuple[tuple[str, str], ...]
"""Keys and their values as text."""
Ideal = Literal["lower", "higher", "prior", "none"]
"""Where better is: nearer to the largest class prior for a confidence far from the data, "none" where a number only describes."""


@dataclass(frozen=True)
class Measure:
    """One column of numbers.

    Attributes
    ----------
    metric : its name.
    on : "test", "grid" or "ood".
    ood : name of the out-of-distribution set, and ``params`` which of its family it is.
    options : of the metric.
    drawn : how the out-of-distribution set is drawn, without its family and its number of rows, which only make it finer.
    in_distribution : whether the set is where its family meets the training data.
    """

    metric: str
    on: str
    ood: str | None = None
    params: tuple[tuple[str, float], ...] = ()
    options: Words = ()
    drawn: Words = ()
    in_distribution: bool = False

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Kept: a table of 3,000 runs asks for it 700,000 times."""
        return hash((self.metric, self.on, self.ood, self.params, self.options, self.drawn, self.in_distribution))

    @property
    def id(self) -> str:
        """As it is typed and filed: ``ece``, ``hellinger@grid``, ``oce@sphere:radius=2``; options are not in it."""
        place = "" if self.on == "test" else f"@{self.place}"
        return self.metric + place

    @property
    def place(self) -> str:
        """``test``, ``grid``, or the set: ``sphere:radius=2``."""
        if self.on != "ood":
            return self.on
        return f"{self.ood}{':' if self.params else ''}{','.join(f'{key}={value:g}' for key, value in self.params)}"

    @property
    def name(self) -> str:
        """As people call it: ``ECE``; a mean largest probability far from the data is a confidence, which is compared with a prior."""
        known = METRICS.get(self.metric)
        return "confidence" if self.is_far_confidence else known.label if known else self.metric

    @property
    def label(self) -> str:
        """As tables call it, with the options that are numbers: ``ECE (15 bins)``, ``OCE at radius 2``, ``OCE on blend, epsilon 0.5``."""
        numbers = [f"{value} {key}" if key == "bins" else f"{key} {value}" for key, value in self.options if _is_number(value)]
        return self.name + (f" ({', '.join(numbers)})" if numbers else "") + self._where

    @property
    def better(self) -> Better:
        """Which direction is; "neither" too where there are training data, so that no confidence is wrong."""
        known = METRICS.get(self.metric)
        return known.better if known and not self.in_distribution else "neither"

    @property
    def ideal(self) -> Ideal:
        """Where better is."""
        if self.is_far_confidence and not self.in_distribution:
            return "prior"
        return "none" if self.better == "neither" else self.better

    @property
    def is_far_confidence(self) -> bool:
        """Whether it is a mean confidence out of distribution, which should be the largest class prior."""
        return self.on == "ood" and self.metric == "mmc"

    @property
    def detects(self) -> bool:
        """Whether it says how well rows out of distribution are told from test rows."""
        return self.metric in METRICS and "id_score" in needs(self.metric)

    @property
    def _where(self) -> str:
        if self.on != "ood":
            return " on the grid" if self.on == "grid" else ""
        if [key for key, _ in self.params] == ["radius"]:
            return f" at radius {self.params[0][1]:g}"
        name = [] if self.ood in dict(self.params) else [str(self.ood)]  # intensity 255 is of the family intensity
        return f" on {', '.join([*name, *(f'{key} {value:g}' for key, value in self.params)])}"


def measured(record: Mapping[str, Any]) -> Iterator[tuple[Measure, Mapping[str, Any]]]:
    """Every number of a record (an item of its ``metrics``) with what it measures."""
    options = {on: {name: _words(chosen or {}) for name, chosen in (of or {}).items()} for on, of in record["config"]["metrics"].items()}
    node = record["config"]["ood"] or {}
    drawn = _words({k: v for k, v in node.items() if k not in ("name", "_target_", "n") and not isinstance(v, list)})
    known = _known(repr(options), drawn)
    for entry in record["metrics"]:
        key = (entry["metric"], entry["on"], entry["ood"], *entry["params"].items(), entry.get("in_distribution"))
        if key not in known:
            on, params = entry["on"], tuple(entry["params"].items())
            is_inside = bool(entry.get("in_distribution")) or entry["params"].get("radius", math.inf) <= 1
            of_metric = options.get(on, {}).get(entry["metric"], ())
            known[key] = Measure(entry["metric"], on, entry["ood"], params, of_metric, drawn if on == "ood" else (), is_inside)
        yield known[key], entry


@cache
def _known(options: str, drawn: Words) -> dict[tuple[Any, ...], Measure]:
    """Measures of records with these options, by what their entries say: most records of a study have the same."""
    return {}


def _words(options: Mapping[str, Any]) -> Words:
    return tuple((key, as_text(value)) for key, value in flat(options) if key != "_target_")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def tell_apart(measures: Sequence[Measure]) -> dict[Measure, str]:
    """Label of each; of those that would have the same one, with the options in which they differ."""
    labels: dict[Measure, str] = {}
    for measure in measures:
        same = [dict(other.options + other.drawn) for other in measures if other.label == measure.label]
        differing = [key for key in dict.fromkeys(k for words in same for k in words) if len({words.get(key) for words in same}) > 1]
        mine = dict(measure.options + measure.drawn)
        words = [f"{key} {mine[key]}" for key in differing if key in mine]
        labels[measure] = measure.label + (f" ({', '.join(words)})" if words else "")
    return labels


def select(measures: Sequence[Measure], metrics: Sequence[str] = (), on: Sequence[str] = ()) -> list[Measure]:
    """Those of the measures that have one of these names and stand on one of these sets of rows.

    Parameters
    ----------
    measures : those that there are.
    metrics : names; in their order, or all of them.
    on : ``test``, ``grid``, ``ood`` (every set), a set (``sphere``), one of its family (``sphere:radius=2``), or one of any family
        (``radius=2``); or everywhere.

    Raises
    ------
    UsageError
        A metric or a set that no record has, or both but not together.
    """
    _refuse(metrics, {measure.metric for measure in measures}, "metric", "--metric")
    _refuse(on, {place for measure in measures for place in _names_of_place(measure)}, "set of rows", "--on")
    chosen = [m for name in metrics for m in measures if m.metric == name] if metrics else list(measures)
    chosen = [measure for measure in chosen if not on or set(on) & _names_of_place(measure)]
    if not chosen:
        raise UsageError(f"{', '.join(metrics)} was not measured on {', '.join(on)}; 'kdg table' shows what was")
    return list(dict.fromkeys(chosen))


def _names_of_place(measure: Measure) -> set[str]:
    """Every word by which ``--on`` means it."""
    return {measure.on, measure.place, *([str(measure.ood)] if measure.ood else []), *(f"{k}={v:g}" for k, v in measure.params)}


def _refuse(words: Sequence[str], known: set[str], what: str, flag: str) -> None:
    for word in words:
        if word not in known:
            some = sorted(known, key=_by_number)
            raise UsageError(f"no run has the {what} '{word}'{did_you_mean(word, some)} ({flag} takes: {', '.join(some)})")


def _by_number(word: str) -> tuple[str, float]:
    """Radius 10 after radius 2."""
    match = re.search(r"[-\d.e+]+$", word)
    try:
        return (word[: match.start()], float(match[0])) if match else (word, 0.0)
    except ValueError:
        return word, 0.0
