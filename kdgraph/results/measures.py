"""What a number in a record measures: which metric, on which rows, with which options. Equal
measures may be compared and averaged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal

from kdgraph.errors import UsageError, did_you_mean
from kdgraph.metrics.registry import Better
from kdgraph.results.filters import as_text, flat
from kdgraph.results.numbers import tie_scale
from kdgraph.results.origins import contents
from kdgraph.wording import reads_as_number

Words = tuple[tuple[str, str], ...]
"""Keys and their values as text."""
Ideal = Literal["lower", "higher", "prior", "none"]
"""Where better is: nearer to the largest class prior for a confidence far from the data, "none"
where a number only describes.
"""


IN_SAMPLE = "in sample: what was fitted on these rows is judged by them"
"""What has to be known of numbers on calibration rows."""
ROWS = "rows"
"""What is measured on each of, unless an entry says otherwise."""


@dataclass(frozen=True)
class AboutMetric:
    """What a record says of a metric, so that who reads it need not know the metric.

    Attributes
    ----------
    label : what people read.
    better : which direction is; None where the number only describes.
    unit : what it is in, or None.
    detects : whether it says how well rows out of distribution are told from test rows.
    metric : its name where what asked for it is called otherwise: ``ece`` of ``ece_10``.
    """

    label: str
    better: Better = None
    unit: str | None = None
    detects: bool = False
    metric: str | None = None


@dataclass(frozen=True)
class Measure:
    """One column of numbers.

    Attributes
    ----------
    metric : what it is typed and filed as, the metric's name or what a config calls it; ``about``
    says what is known of it.
    on : "test", "calibration", "grid" or "ood".
    ood : name of the out-of-distribution set, and ``params`` which of its family it is.
    options : of the metric.
    drawn : how the out-of-distribution set is drawn, without its family and its number of rows,
        which only make it finer; the content of the files that it is drawn from; the parameters of
        the feature map that ``space`` names.
    in_distribution : whether the set is where its family meets the training data.
    n_of : what was scored: rows, or sets of them, which is another task.
    in_sample : whether what was fitted on these rows is judged by them.
    """

    metric: str
    about: AboutMetric
    on: str
    ood: str | None = None
    params: tuple[tuple[str, float], ...] = ()
    options: Words = ()
    drawn: Words = ()
    in_distribution: bool = False
    n_of: str = ROWS
    in_sample: bool = False

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Kept: a table of 3,000 runs asks for it 700,000 times."""
        place = (self.on, self.ood, self.params, self.drawn, self.in_distribution, self.in_sample)
        return hash((self.metric, self.about, self.options, self.n_of, *place))

    @property
    def id(self) -> str:
        """As it is typed and filed: ``ece``, ``hellinger@grid``, ``oce@sphere:radius=2``; neither
        options nor ``n_of`` are in it.
        """
        place = "" if self.on == "test" else f"@{self.place}"
        return self.metric + place

    @property
    def metric_name(self) -> str:
        """In the registry of metrics."""
        return self.about.metric or self.metric

    @property
    def place(self) -> str:
        """``test``, ``calibration``, ``grid``, or the set: ``sphere:radius=2``."""
        if self.on != "ood":
            return self.on
        return f"{self.ood}{':' if self.params else ''}{','.join(f'{key}={value:g}' for key, value in self.params)}"

    @property
    def name(self) -> str:
        """As people call it: ``ECE``; a mean largest probability far from the data is a confidence,
        which is compared with a prior.
        """
        return "confidence" if self.is_far_confidence else self.about.label

    @property
    def label(self) -> str:
        """As tables call it, with the options that are numbers: ``ECE (15 bins)``, ``OCE on blend,
        epsilon 0.5``.

        Of what was not measured in the rows' own features, or not of rows, it says so: ``MLCE in
        pca (bandwidth 0.4)``, ``AUROC of sets of 20 rows at radius 2``.
        """
        space = "".join(f" in {value}" for key, value in self.options if key == "space")
        told = [
            (key, value) for key, value in self.options if key != "space" and reads_as_number(value)
        ]
        numbers = [f"{value} {key}" if key == "bins" else f"{key} {value}" for key, value in told]
        units = "" if self.n_of == ROWS else f" of {self.n_of}"
        return (
            self.name
            + space
            + (f" ({', '.join(numbers)})" if numbers else "")
            + units
            + self._where
        )

    @property
    def better(self) -> Better:
        """Which direction is; None too where there are training data, so that no confidence is
        wrong.
        """
        return None if self.in_distribution else self.about.better

    @property
    def scale(self) -> float:
        """What its numbers are computed from: confidences and shares have a scale of 1, numbers in
        units of y none of their own.
        """
        return tie_scale(self.about.unit)

    @property
    def ideal(self) -> Ideal:
        """Where better is."""
        if self.is_far_confidence and not self.in_distribution:
            return "prior"
        return self.better or "none"

    @property
    def is_far_confidence(self) -> bool:
        """Whether it is a mean confidence out of distribution, which should be the largest class
        prior.
        """
        return self.on == "ood" and self.metric_name == "mmc"

    @property
    def is_near(self) -> bool:
        """Whether it says how well a model does in distribution, on rows that nothing was fitted
        on.
        """
        return self.on in ("test", "grid")

    @property
    def detects(self) -> bool:
        """Whether it says how well rows out of distribution are told from test rows."""
        return self.about.detects

    @property
    def _where(self) -> str:
        if self.on != "ood":
            where = {"grid": " on the grid", "calibration": " on calibration rows"}.get(self.on, "")
            return where + (" (in sample)" if self.in_sample else "")
        if [key for key, _ in self.params] == ["radius"]:
            return f" at radius {self.params[0][1]:g}"
        name = (
            [] if self.ood in dict(self.params) else [str(self.ood)]
        )  # intensity 255 is of the family intensity
        return f" on {', '.join([*name, *(f'{key} {value:g}' for key, value in self.params)])}"


def measured(record: Mapping[str, Any]) -> Iterator[tuple[Measure, Mapping[str, Any]]]:
    """Every number of a record (an item of its ``metrics``) with what it measures."""
    asked = {on: of or {} for on, of in record["config"]["metrics"].items() if on != "spaces"}
    options = {
        on: {name: _words(chosen or {}) for name, chosen in of.items()} for on, of in asked.items()
    }
    node = record["config"]["ood"] or {}
    content = contents(record, "ood.")  # other content of a file is other rows
    drawn, of_source = (
        _drawn(node),
        {key: _drawn(source) for key, source in (node.get("sources") or {}).items()},
    )
    fitted_on = (
        "test" if record["protocol"] == "paper" else "calibration"
    )  # of test rows AS_IN_PAPER says so, in every table
    spaces = {
        name: tuple((f"space.{key}", value) for key, value in _words(space))
        for name, space in _spaces(record).items()
    }
    known = _known(
        repr((options, record["about_metrics"], fitted_on, of_source, content, spaces)), drawn
    )
    for entry in record["metrics"]:
        key = (
            entry["metric"],
            entry["on"],
            entry["ood"],
            *entry["params"].items(),
            entry.get("in_distribution"),
            entry.get("n_of"),
        )
        if key not in known:
            name, on, params = entry["metric"], entry["on"], tuple(entry["params"].items())
            is_inside = (
                bool(entry.get("in_distribution")) or entry["params"].get("radius", math.inf) <= 1
            )
            of_metric, about = (
                options.get(on, {}).get(name, ()),
                AboutMetric(**record["about_metrics"][name]),
            )
            of_set = (
                of_source.get(str(entry["ood"]).partition("/")[0], drawn) if on == "ood" else ()
            )
            of_set += (("content", content),) if on == "ood" and content else ()
            of_set += spaces.get(dict(of_metric).get("space", ""), ())
            in_sample = on == fitted_on == "calibration"
            known[key] = Measure(
                name,
                about,
                on,
                entry["ood"],
                params,
                of_metric,
                of_set,
                is_inside,
                entry.get("n_of", ROWS),
                in_sample,
            )
        yield known[key], entry


def _spaces(record: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Nodes of the feature maps that metrics measure in: one name may stand for another map in
    another run.
    """
    return record["config"]["metrics"].get("spaces") or {}


@cache
def _known(metrics: str, drawn: Words) -> dict[tuple[Any, ...], Measure]:
    """Measures of records with these metrics, by what their entries say: most records of a study
    have the same.
    """
    return {}


def _drawn(node: Mapping[str, Any]) -> Words:
    """What a config says of how out-of-distribution rows are drawn, without their number and
    without lists, which name several sets.
    """
    return _words(
        {
            k: v
            for k, v in node.items()
            if k not in ("name", "_target_", "n") and not isinstance(v, list)
        }
    )


def _words(options: Mapping[str, Any]) -> Words:
    return tuple(
        (key, as_text(value)) for key, value in flat(options) if key not in ("_target_", "metric")
    )


def tell_apart(measures: Sequence[Measure]) -> dict[Measure, str]:
    """Label of each; of those that would have the same one, with the options in which they
    differ.
    """
    labels: dict[Measure, str] = {}
    for measure in measures:
        same = [
            dict(other.options + other.drawn) for other in measures if other.label == measure.label
        ]
        differing = [
            key
            for key in dict.fromkeys(k for words in same for k in words)
            if len({words.get(key) for words in same}) > 1
        ]
        mine = dict(measure.options + measure.drawn)
        words = [f"{key} {mine[key]}" for key in differing if key in mine]
        labels[measure] = measure.label + (f" ({', '.join(words)})" if words else "")
    return labels


def select(
    measures: Sequence[Measure], metrics: Sequence[str] = (), on: Sequence[str] = ()
) -> list[Measure]:
    """Those of the measures that have one of these names and stand on one of these sets of rows.

    Parameters
    ----------
    measures : those that there are.
    metrics : names; in their order, or all of them.
    on : ``test``, ``calibration``, ``grid``, ``ood`` (every set), a set (``sphere``), one of its
        family (``sphere:radius=2``), or one of any family (``radius=2``); or everywhere.

    Raises
    ------
    UsageError
        A metric or a set that no record has, or both but not together.
    """
    _refuse(metrics, {measure.metric for measure in measures}, "metric", "--metric")
    _refuse(
        on,
        {place for measure in measures for place in _names_of_place(measure)},
        "set of rows",
        "--on",
    )
    chosen = (
        [m for name in metrics for m in measures if m.metric == name] if metrics else list(measures)
    )
    chosen = [measure for measure in chosen if not on or set(on) & _names_of_place(measure)]
    if not chosen:
        raise UsageError(
            f"{', '.join(metrics)} was not measured on {', '.join(on)}; 'kdg table' shows what was"
        )
    return list(dict.fromkeys(chosen))


def _names_of_place(measure: Measure) -> set[str]:
    """Every word by which ``--on`` means it."""
    return {
        measure.on,
        measure.place,
        *([str(measure.ood)] if measure.ood else []),
        *(f"{k}={v:g}" for k, v in measure.params),
    }


def _refuse(words: Sequence[str], known: set[str], what: str, flag: str) -> None:
    for word in words:
        if word not in known:
            some = sorted(known, key=_by_number)
            raise UsageError(
                f"no run has the {what} '{word}'{did_you_mean(word, some)} ({flag} takes:"
                f" {', '.join(some)})"
            )


def _by_number(word: str) -> tuple[str, float]:
    """Radius 10 after radius 2."""
    match = re.search(r"[-\d.e+]+$", word)
    try:
        return (word[: match.start()], float(match[0])) if match else (word, 0.0)
    except ValueError:
        return word, 0.0
