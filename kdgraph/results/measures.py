"""What a number in a record measures: which metric, on which rows, with which options. Equal
measures may be compared and averaged.

Which measures are shown where there is no room for all: those that are read most, of whatever
was measured.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal

from kdgraph.errors import UsageError, did_you_mean
from kdgraph.metrics.registry import Better
from kdgraph.results.names import tie_scale
from kdgraph.results.origins import contents
from kdgraph.results.records import flatten_config, value_text
from kdgraph.wording import reads_as_number

Options = tuple[tuple[str, str], ...]
"""Keys and their values as text."""
Ideal = Literal["lower", "higher", "prior", "none"]
"""Where better is: nearer to the largest class prior for a confidence far from the data, "none"
where a number only describes.
"""


IN_SAMPLE_NOTE = "in sample: what was fitted on these rows is judged by them"
"""What has to be known of numbers on calibration rows."""
ROWS = "rows"
"""What is measured on each of, unless an entry says otherwise."""


@dataclass(frozen=True)
class MetricInfo:
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
    info: MetricInfo
    on: str
    ood: str | None = None
    params: tuple[tuple[str, float], ...] = ()
    options: Options = ()
    drawn: Options = ()
    in_distribution: bool = False
    n_of: str = ROWS
    in_sample: bool = False

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Kept: a table of 3,000 runs asks for it 700,000 times."""
        place = (self.on, self.ood, self.params, self.drawn, self.in_distribution, self.in_sample)
        return hash((self.metric, self.info, self.options, self.n_of, *place))

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
        return self.info.metric or self.metric

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
        return "confidence" if self.is_ood_confidence else self.info.label

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
        return None if self.in_distribution else self.info.better

    @property
    def scale(self) -> float:
        """What its numbers are computed from: confidences and shares have a scale of 1, numbers in
        units of y none of their own.
        """
        return tie_scale(self.info.unit)

    @property
    def ideal(self) -> Ideal:
        """Where better is."""
        if self.is_ood_confidence and not self.in_distribution:
            return "prior"
        return self.better or "none"

    @property
    def is_ood_confidence(self) -> bool:
        """Whether it is a mean confidence out of distribution, which should be the largest class
        prior.
        """
        return self.on == "ood" and self.metric_name == "mmc"

    @property
    def is_test(self) -> bool:
        """Whether it says how well a model does in distribution, on rows that nothing was fitted
        on.
        """
        return self.on in ("test", "grid")

    @property
    def detects(self) -> bool:
        """Whether it says how well rows out of distribution are told from test rows."""
        return self.info.detects

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


def read_measures(record: Mapping[str, Any]) -> Iterator[tuple[Measure, Mapping[str, Any]]]:
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
                MetricInfo(**record["about_metrics"][name]),
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
def _known(metrics: str, drawn: Options) -> dict[tuple[Any, ...], Measure]:
    """Measures of records with these metrics, by what their entries say: most records of a study
    have the same.
    """
    return {}


def _drawn(node: Mapping[str, Any]) -> Options:
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


def _words(options: Mapping[str, Any]) -> Options:
    return tuple(
        (key, value_text(value))
        for key, value in flatten_config(options)
        if key not in ("_target_", "metric")
    )


def unique_labels(measures: Sequence[Measure]) -> dict[Measure, str]:
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


def select_measures(
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


DEFAULT_METRICS = ("error", "nll", "ece", "hellinger", "rmse", "crps", "coverage")
"""Metrics on test rows and on the grid that are read first."""
DEFAULT_OOD_METRICS = ("oce", "mmc", "auroc", "fpr95")
"""The same of those out of distribution."""
COMPARISON_METRICS = ("error", "nll", "ece", "rmse", "crps", "coverage", "oce", "auroc")
"""Metrics by which methods are compared where nothing is said."""
FEWEST_METRICS = 3
"""Metrics to compare by: where fewer of :data:`COMPARED` were measured, others are taken."""
DETECTION_METRICS = ("auroc", "fpr95")
"""Of how well rows out of distribution are told from test rows, what is read first."""
PREFERRED_RADII = (2.0, 1.0, 5.0)
"""Of a family of shells, those that are read first, if the first is there."""


def choose_measures(
    measures: Sequence[Measure], metrics: Sequence[str] = (), on: Sequence[str] = ()
) -> list[Measure]:
    """As :func:`~kdgraph.results.measures.select_measures`, of not too many measures where nothing is said.

    By default the metrics are :data:`COMPARED`, as far as they were measured, and a few others if
    these are few; on test rows. A metric that was not measured there is taken on the grid, on
    calibration rows, or on the sets that are one of a kind and, of each family, on one.
    """
    there = select_measures(measures, metrics, on)
    wanted = metrics or _compared(there)
    by_name = {name: [measure for measure in there if measure.metric == name] for name in wanted}
    return [measure for of in by_name.values() for measure in (of if on else _in_one_place(of))]


def choose_ood_measures(
    measures: Sequence[Measure], at_most: int, *, detects: bool
) -> list[Measure]:
    """Of what was measured out of distribution: one metric or two, on some of the sets.

    Parameters
    ----------
    measures : everything.
    at_most : sets of each family.
    detects : whether something is there to detect such rows: then, or where no confidence was
        measured, it is how well that goes (AUROC and one more), on sets that are to be detected.
        Otherwise it is the confidence, and the AUROC on one set of each name.
    """
    there = [
        measure
        for measure in measures
        if measure.on == "ood" and not (measure.detects and measure.in_distribution)
    ]
    detection = preferred_first((m.metric for m in there if m.detects), DETECTION_METRICS)[:2]
    confidence = preferred_first((m.metric for m in there if not m.detects), ("mmc",))[:1]
    if detection and (detects or confidence != ["mmc"]):
        return [
            m
            for name in detection
            for m in representative_sets([m for m in there if m.metric == name], at_most)
        ]
    found = representative_sets([m for m in there if m.metric in confidence], at_most)
    return [*found, *representative_sets([m for m in there if m.metric in detection[:1]], 1)]


def representative_sets(of_metric: Sequence[Measure], at_most: int) -> list[Measure]:
    """One metric's measures on some of its out-of-distribution sets, in their order.

    Of many shells, ``at_most`` of the radii 2, 1 and 5; of another family of many sets, ``at_most``
    that are spread over it, none in distribution.
    """
    chosen = set()
    for name in dict.fromkeys(measure.ood for measure in of_metric):
        family = [measure for measure in of_metric if measure.ood == name]
        shells = {dict(measure.params).get("radius"): measure.params for measure in family}
        outside = list(
            dict.fromkeys(m.params for m in family if not m.in_distribution)
            or dict.fromkeys(m.params for m in family)
        )
        wanted = (
            [shells[radius] for radius in PREFERRED_RADII if radius in shells]
            if PREFERRED_RADII[0] in shells
            else _spread(outside, at_most)
        )
        chosen |= {(name, params) for params in wanted[:at_most]}
    return [measure for measure in of_metric if (measure.ood, measure.params) in chosen]


def _compared(measures: Sequence[Measure]) -> list[str]:
    """Names of metrics; beyond :data:`COMPARED` those that have a better direction come first, and
    others only where none has one.
    """
    usual = [
        name for name in COMPARISON_METRICS if any(measure.metric == name for measure in measures)
    ]
    judged = [
        name
        for name in preferred_first((m.metric for m in measures if m.better), ())
        if name not in usual
    ]
    chosen = [*usual, *judged[: max(0, FEWEST_METRICS - len(usual))]]
    return chosen or preferred_first((m.metric for m in measures), ())[:FEWEST_METRICS]


def _in_one_place(of_metric: Sequence[Measure]) -> list[Measure]:
    for place in ("test", "grid", "calibration"):
        if found := [measure for measure in of_metric if measure.on == place]:
            return found
    return representative_sets(of_metric, 1)


def preferred_first(names: Iterable[str], preferred: Sequence[str]) -> list[str]:
    """Each name once, the preferred ones first."""
    there = list(dict.fromkeys(names))
    return [
        *(name for name in preferred if name in there),
        *(name for name in there if name not in preferred),
    ]


def _spread(
    family: Sequence[tuple[tuple[str, float], ...]], at_most: int
) -> list[tuple[tuple[str, float], ...]]:
    """The middle of each of ``at_most`` equal parts of a family."""
    parts = min(at_most, len(family))
    return [family[((2 * i + 1) * len(family) - 1) // (2 * parts)] for i in range(parts)]
