"""Measures: metric, rows and options of a number in a record; and which measures are shown first.

Numbers of equal measures may be compared and averaged, others not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal

from kdgraph.errors import UsageError, did_you_mean
from kdgraph.results.names import tie_scale
from kdgraph.results.origins import content_digests
from kdgraph.results.record_index import MetricRows
from kdgraph.results.records import flatten_config, value_text
from kdgraph.wording import reads_as_number

if TYPE_CHECKING:
    from kdgraph.metrics.registry import Better

OptionTexts = tuple[tuple[str, str], ...]
"""Keys of options and their values as text."""
Ideal = Literal["lower", "higher", "prior", "none"]
"""Direction of better values.

``prior`` is closer to the largest class prior, for a confidence on OOD rows; ``none`` is for a
number that only describes.
"""
IN_SAMPLE_NOTE = "in sample: what was fitted on these rows is judged by them"
"""Caution that goes with numbers on calibration rows."""
ROWS = "rows"
"""Unit of a score unless an entry contains another."""

UNSTATED_OPTIONS = ("space", "clip")
"""Options that no label contains: the space follows the metric's name, and where a probability is
clipped matters only if two measures differ in it.
"""
DEFAULT_METRICS = (
    *("error", "nll", "set_coverage", "set_size", "ece", "hellinger"),
    *("rmse", "crps", "coverage"),
)
"""Metrics on test rows and on the grid that are shown first."""
DEFAULT_OOD_METRICS = ("oce", "mmc", "auroc", "fpr95")
"""Metrics on OOD rows that are shown first."""
COMPARISON_METRICS = (
    *("error", "nll", "ece", "set_coverage", "set_size"),
    *("rmse", "crps", "coverage", "oce", "auroc"),
)
"""Metrics by which methods are compared unless the user chooses others."""
SET_COVERAGE_METRICS = (
    *("set_coverage", "size_stratified_coverage", "worst_class_coverage"),
    "worst_group_set_coverage",
)
"""Registry names of metrics that are judged by the nominal coverage of prediction sets."""
METRIC_NOTES = {
    "oce": (
        "OCE: out-of-distribution calibration error, the mean distance of the largest probability"
        " from the largest class prior"
    ),
    "oce_of_mean": (
        "OCE of the mean: out-of-distribution calibration error, the distance of the mean largest"
        " probability from the largest class prior"
    ),
}
"""Meaning of metrics whose labels no textbook has, by their names in the registry."""
FEWEST_METRICS = 3
"""Metrics of a comparison: if fewer of :data:`COMPARISON_METRICS` were measured, others follow."""
DETECTION_METRICS = ("auroc", "fpr95")
"""Metrics of detection that are shown first."""
PREFERRED_RADII = (2.0, 1.0, 5.0)
"""Radii of a family of shells that are shown first, if the family has the first of them."""


@dataclass(frozen=True)
class MetricInfo:
    """Description of a metric in a record, so that readers do not need the metric itself."""

    label: str  # name in tables
    better: Better = None  # direction; None if the number only describes
    unit: str | None = None
    detects: bool = False  # how well OOD rows are distinguished from test rows
    metric: str | None = None  # name in the registry if another: ece for ece_10


@dataclass(frozen=True)
class Measure:
    """One column of numbers: a metric with its options, and the rows that it was measured on."""

    metric: str  # name in the config and in files
    info: MetricInfo
    on: str  # test, calibration, grid or ood
    ood: str | None = None  # name of the OOD set
    params: tuple[tuple[str, float], ...] = ()  # of the set within its family
    options: OptionTexts = ()  # of the metric
    # How the OOD set is drawn, without its family and its number of rows; the content of its files;
    # the parameters of the feature map that ``space`` names.
    drawn: OptionTexts = ()
    in_distribution: bool = False  # the set is where its family meets the training data
    n_of: str = ROWS  # what was scored: rows, or sets of rows, which is another task
    in_sample: bool = False  # something was fitted on these rows

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:  # cached: a table of 3,000 runs needs it 700,000 times
        place = (self.on, self.ood, self.params, self.drawn, self.in_distribution, self.in_sample)
        return hash((self.metric, self.info, self.options, self.n_of, *place))

    @property
    def id(self) -> str:
        """Name in files and on the command line, without options.

        Examples are ``ece``, ``hellinger@grid`` and ``oce@sphere:radius=2``.
        """
        place = "" if self.on == "test" else f"@{self.place}"
        return self.metric + place

    @property
    def metric_name(self) -> str:
        """Name in the registry of metrics."""
        return self.info.metric or self.metric

    @property
    def place(self) -> str:
        """``test``, ``calibration``, ``grid``, or the set: ``sphere:radius=2``."""
        if self.on != "ood":
            return self.on
        params = ",".join(f"{key}={value:g}" for key, value in self.params)
        return f"{self.ood}:{params}" if params else str(self.ood)

    @property
    def name(self) -> str:
        """Label of the metric alone: ``ECE``.

        On OOD rows a mean largest probability is a confidence, which is compared with a prior.
        """
        return "confidence" if self.is_ood_confidence else self.info.label

    @property
    def label(self) -> str:
        """Name in tables, with the options that are numbers.

        Examples are ``ECE, 15 bins``, ``OCE on blend, epsilon 0.5``, ``MLCE in pca, bandwidth 0.4``
        and ``AUROC of sets of 20 rows at radius 2``.
        """
        space = "".join(f" in {value}" for key, value in self.options if key == "space")
        units = "" if self.n_of == ROWS else f" of {self.n_of}"
        numbers = [
            f"{value} {key}" if key == "bins" else f"{_spaced(key)} {value}"
            for key, value in self.options
            if key not in UNSTATED_OPTIONS and reads_as_number(value)
        ]
        place = self._place_phrase
        if not numbers:
            return f"{self.name}{space}{units}{place and f' {place}'}"
        return ", ".join([f"{self.name}{space}{units}", *numbers, *([place] if place else [])])

    @property
    def better(self) -> Better:
        """Direction of better values.

        It is None where a family of sets meets the training data: no confidence is wrong there.
        """
        return None if self.in_distribution else self.info.better

    @property
    def scale(self) -> float:
        """Scale of ties: 1 for confidences and fractions, 0 for numbers in a unit."""
        return tie_scale(self.info.unit)

    @property
    def ideal(self) -> Ideal:
        """Direction of better values, with the prior as the ideal of an OOD confidence."""
        if self.is_ood_confidence and not self.in_distribution:
            return "prior"
        return self.better or "none"

    @property
    def is_ood_confidence(self) -> bool:
        """True for a mean confidence on OOD rows, which should be the largest class prior."""
        return self.on == "ood" and self.metric_name == "mmc"

    @property
    def is_test(self) -> bool:
        """True for in-distribution rows that nothing was fitted on."""
        return self.on in ("test", "grid")

    @property
    def detects(self) -> bool:
        """True if it measures how well OOD rows are distinguished from test rows."""
        return self.info.detects

    @property
    def _place_phrase(self) -> str:
        if self.on != "ood":
            place = {"grid": "on the grid", "calibration": "on calibration rows"}.get(self.on, "")
            return place + (" (in sample)" if self.in_sample else "")
        if [key for key, _ in self.params] == ["radius"]:
            return f"at radius {self.params[0][1]:g}"
        # A family may have the name of its parameter: intensity 255.
        name = [] if self.ood in dict(self.params) else [str(self.ood)]
        return f"on {', '.join([*name, *(f'{_spaced(key)} {v:g}' for key, v in self.params)])}"


def read_measures(record: Mapping[str, Any]) -> Iterator[tuple[Measure, Mapping[str, Any]]]:
    """Yield the measure and the item of ``metrics`` for every number of a record."""
    return zip(_measures_of(record), record["metrics"], strict=True)


class MeasureReader:
    """Reader of the numbers of many records; what the same objects state is found once.

    Records of :func:`~kdgraph.results.records.find_runs` share their parts.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[int, ...], tuple[Any, list[Measure]]] = {}

    def measures(self, record: Mapping[str, Any]) -> list[Measure]:
        """Return the measure of every number of a record."""
        config = record["config"]
        parts = (
            MetricRows.of(record["metrics"]).rows,
            *(config[key] for key in ("metrics", "ood")),
            config.get("conformal"),
            *(record[key] for key in ("about_metrics", "reads", "protocol")),
        )
        # The parts are kept, so that no other object gets the identity of one of them.
        key = tuple(map(id, parts))
        if key not in self._found:
            self._found[key] = parts, _measures_of(record)
        return self._found[key][1]

    def all_measures(self, records: Iterable[Mapping[str, Any]]) -> list[Measure]:
        """Return the measures of records, each once, in the order in which they occur."""
        lists = {id(measures): measures for measures in map(self.measures, records)}
        return list(dict.fromkeys(measure for measures in lists.values() for measure in measures))

    def read(
        self, record: Mapping[str, Any]
    ) -> Iterator[tuple[Measure, Mapping[str, Any], float | None, float | None]]:
        """Yield the measure of every number of a record, its row, value and standard error.

        The row has the other keys of an item of ``metrics``.
        """
        numbers = MetricRows.of(record["metrics"])
        return zip(
            self.measures(record), numbers.rows, numbers.values, numbers.stderrs, strict=True
        )


def _measures_of(record: Mapping[str, Any]) -> list[Measure]:
    """Return the measure of each number of a record."""
    metrics = record["config"]["metrics"]
    options = {
        on: {name: _option_texts(chosen or {}) for name, chosen in (of_rows or {}).items()}
        for on, of_rows in metrics.items()
        if on != "spaces"
    }
    node = record["config"]["ood"] or {}
    # A coverage of sets has the level of the method that makes them, which is no option of its own.
    nominal = (record["config"].get("conformal") or {}).get("coverage")
    level = _option_texts({"level": nominal}) if nominal is not None else ()
    for of_rows in options.values():
        for name in of_rows:
            about = record["about_metrics"].get(name) or {}
            if (about.get("metric") or name) in SET_COVERAGE_METRICS:
                of_rows[name] += level
    content = content_digests(record, "ood.")  # other content of a file is other rows
    drawn = _drawn(node)
    drawn_of_source = {key: _drawn(of) for key, of in (node.get("sources") or {}).items()}
    # With protocol=paper, test rows may be in sample; a note in every table warns of that.
    fitted_on = "test" if record["protocol"] == "paper" else "calibration"
    # One name may stand for another feature map in another run.
    spaces = {
        name: tuple((f"space.{key}", value) for key, value in _option_texts(space or {}))
        for name, space in (metrics.get("spaces") or {}).items()
    }
    signature = options, record["about_metrics"], fitted_on, drawn_of_source, content, spaces
    cached = _measures_of_config(repr(signature), drawn)
    measures = []
    for entry in MetricRows.of(record["metrics"]).rows:
        params = entry["params"]
        place = entry["on"], entry["ood"], *params.items(), entry.get("in_distribution")
        key = (entry["metric"], *place, entry.get("n_of"))
        if key not in cached:
            name, on = entry["metric"], entry["on"]
            of_metric = options.get(on, {}).get(name, ())
            of_set: OptionTexts = ()
            if on == "ood":
                of_set += drawn_of_source.get(str(entry["ood"]).partition("/")[0], drawn)
                of_set += (("content", content),) if content else ()
            of_set += spaces.get(dict(of_metric).get("space", ""), ())
            cached[key] = Measure(
                name,
                MetricInfo(**record["about_metrics"][name]),
                on,
                entry["ood"],
                tuple(params.items()),
                of_metric,
                of_set,
                in_distribution=bool(entry.get("in_distribution"))
                or params.get("radius", math.inf) <= 1,
                n_of=entry.get("n_of", ROWS),
                in_sample=on == fitted_on == "calibration",
            )
        measures.append(cached[key])
    return measures


def unique_labels(measures: Sequence[Measure]) -> dict[Measure, str]:
    """Return the label of each measure; equal ones get the options in which they differ."""
    labels: dict[Measure, str] = {}
    for measure in measures:
        same_label = [
            dict(other.options + other.drawn) for other in measures if other.label == measure.label
        ]
        keys = dict.fromkeys(key for options in same_label for key in options)
        differing = [key for key in keys if len({of.get(key) for of in same_label}) > 1]
        own = dict(measure.options + measure.drawn)
        texts = [f"{_spaced(key)} {own[key]}" for key in differing if key in own]
        labels[measure] = ", ".join([measure.label, *texts])
    return labels


def metric_notes(measures: Iterable[Measure]) -> list[str]:
    """Return a line on the meaning of each of the measures' metrics that has one."""
    names = dict.fromkeys(measure.metric_name for measure in measures)
    return [METRIC_NOTES[name] for name in names if name in METRIC_NOTES]


def select_measures(
    measures: Sequence[Measure], metrics: Sequence[str] = (), on: Sequence[str] = ()
) -> list[Measure]:
    """Return the measures with one of these metrics on one of these sets of rows.

    Metrics are names, in the order of the result. A set of rows is ``test``, ``calibration``,
    ``grid``, ``ood`` (every set), a set (``sphere``), one of its family (``sphere:radius=2``), or
    one of any family (``radius=2``). Without metrics or sets, all are meant. UsageError is raised
    for a metric or a set that no record has, or for both that do not occur together.
    """
    places = {place for measure in measures for place in _place_names(measure)}
    _refuse_unknown(metrics, {measure.metric for measure in measures}, "metric", "--metric")
    _refuse_unknown(on, places, "set of rows", "--on")
    chosen = (
        [m for name in metrics for m in measures if m.metric == name] if metrics else list(measures)
    )
    chosen = [measure for measure in chosen if not on or set(on) & _place_names(measure)]
    if not chosen:
        raise UsageError(
            f"{', '.join(metrics)} was not measured on {', '.join(on)}; 'kdg table' shows what was"
        )
    return list(dict.fromkeys(chosen))


def choose_measures(
    measures: Sequence[Measure], metrics: Sequence[str] = (), on: Sequence[str] = ()
) -> list[Measure]:
    """Choose measures as :func:`select_measures` does, but only a few by default.

    The default metrics are those of :data:`COMPARISON_METRICS` that were measured, and a few others
    if these are few; on test rows. A metric that was not measured there is taken on the grid, on
    calibration rows, or on OOD sets, one of each family.
    """
    selected = select_measures(measures, metrics, on)
    chosen = []
    for name in metrics or _comparison_metrics(selected):
        of_metric = [measure for measure in selected if measure.metric == name]
        chosen += of_metric if on else _in_one_place(of_metric)
    return chosen


def choose_ood_measures(
    measures: Sequence[Measure], at_most: int, *, detects: bool
) -> list[Measure]:
    """Choose one or two metrics on ``at_most`` sets of each OOD family.

    If a detector was fitted (``detects``), or no confidence was measured, AUROC and one more metric
    of detection are chosen; otherwise the confidence, and the AUROC on one set of each name.
    """
    # Where a family meets the training data, nothing is there to be detected.
    outside = [m for m in measures if m.on == "ood" and not (m.detects and m.in_distribution)]
    detection = preferred_first((m.metric for m in outside if m.detects), DETECTION_METRICS)[:2]
    confidence = preferred_first((m.metric for m in outside if not m.detects), ("mmc",))[:1]

    def on_some_sets(metrics: Sequence[str], n_sets: int) -> list[Measure]:
        return representative_sets([m for m in outside if m.metric in metrics], n_sets)

    if detection and (detects or confidence != ["mmc"]):
        return [measure for name in detection for measure in on_some_sets([name], at_most)]
    return [*on_some_sets(confidence, at_most), *on_some_sets(detection[:1], 1)]


def representative_sets(of_metric: Sequence[Measure], at_most: int) -> list[Measure]:
    """Return the measures of one metric on some of its OOD sets, in their order.

    Of shells these are the radii 2, 1 and 5; of another family, sets that are spread over it and
    outside of the training data.
    """
    chosen = set()
    for name in dict.fromkeys(measure.ood for measure in of_metric):
        family = [measure for measure in of_metric if measure.ood == name]
        shells = {dict(measure.params).get("radius"): measure.params for measure in family}
        if PREFERRED_RADII[0] in shells:
            params = [shells[radius] for radius in PREFERRED_RADII if radius in shells][:at_most]
        else:
            outside = [measure for measure in family if not measure.in_distribution] or family
            params = _spread_out(list(dict.fromkeys(m.params for m in outside)), at_most)
        chosen |= {(name, of_set) for of_set in params}
    return [measure for measure in of_metric if (measure.ood, measure.params) in chosen]


def preferred_first(names: Iterable[str], preferred: Sequence[str]) -> list[str]:
    """Return unique names, the preferred ones first."""
    unique = list(dict.fromkeys(names))
    return [
        *(name for name in preferred if name in unique),
        *(name for name in unique if name not in preferred),
    ]


@cache
def _measures_of_config(signature: str, drawn: OptionTexts) -> dict[tuple[Any, ...], Measure]:
    """Return the dictionary of measures by the keys of their entries.

    :func:`read_measures` fills it. Most records of a study have the same metrics, so their measures
    are made once.
    """
    return {}


def _drawn(node: Mapping[str, Any]) -> OptionTexts:
    """Return how a config draws OOD rows, without their number and without lists of sets."""
    return _option_texts(
        {
            key: value
            for key, value in node.items()
            if key not in ("name", "_target_", "n") and not isinstance(value, list)
        }
    )


def _option_texts(options: Mapping[str, Any]) -> OptionTexts:
    return tuple(
        (key, value_text(value))
        for key, value in flatten_config(options)
        if key not in ("_target_", "metric")
    )


def _spaced(key: str) -> str:
    return key.removeprefix("space.").replace("_", " ")


def _place_names(measure: Measure) -> set[str]:
    return {
        measure.on,
        measure.place,
        *([str(measure.ood)] if measure.ood else []),
        *(f"{key}={value:g}" for key, value in measure.params),
    }


def _refuse_unknown(words: Sequence[str], known: set[str], what: str, flag: str) -> None:
    for word in words:
        if word not in known:
            names = sorted(known, key=_numeric_order)
            raise UsageError(
                f"no run has the {what} '{word}'{did_you_mean(word, names)} ({flag} takes:"
                f" {', '.join(names)})"
            )


def _numeric_order(word: str) -> tuple[str, float]:
    """Return a key that sorts radius 10 after radius 2."""
    match = re.search(r"[-\d.e+]+$", word)
    try:
        return (word[: match.start()], float(match[0])) if match else (word, 0.0)
    except ValueError:
        return word, 0.0


def _comparison_metrics(measures: Sequence[Measure]) -> list[str]:
    """Return :data:`COMPARISON_METRICS`, then others with a better direction, else any."""
    measured = {measure.metric for measure in measures}
    chosen = [name for name in COMPARISON_METRICS if name in measured]
    directed = dict.fromkeys(measure.metric for measure in measures if measure.better)
    others = [name for name in directed if name not in chosen]
    chosen += others[: max(0, FEWEST_METRICS - len(chosen))]
    return chosen or preferred_first((m.metric for m in measures), ())[:FEWEST_METRICS]


def _in_one_place(of_metric: Sequence[Measure]) -> list[Measure]:
    for place in ("test", "grid", "calibration"):
        if measures := [measure for measure in of_metric if measure.on == place]:
            return measures
    return representative_sets(of_metric, 1)


def _spread_out(
    family: Sequence[tuple[tuple[str, float], ...]], at_most: int
) -> list[tuple[tuple[str, float], ...]]:
    """Return the middle of each of ``at_most`` equal parts of a family."""
    parts = min(at_most, len(family))
    return [family[((2 * i + 1) * len(family) - 1) // (2 * parts)] for i in range(parts)]
