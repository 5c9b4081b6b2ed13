"""What several metrics are computed from, computed once: for as long as one set of rows is scored.

What makes a function a metric: its name in the registry, what people must know of its numbers, its
values by row, or its table.

One metric by name, with its standard error: what the evaluation records.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, ParamSpec, Protocol, cast

import numpy as np

from kdgraph.errors import ConfigError
from kdgraph.metrics.inputs import INPUTS, SAID, checked, n_rows

_KEPT: ContextVar[dict[Hashable, dict[Any, Any]] | None] = ContextVar("_KEPT", default=None)


@contextmanager
def cache_scope() -> Iterator[None]:
    """Until the block ends, metrics find again what others of them have computed; outside of such a
    block everything is computed anew.
    """
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


def scope_cache(*inputs: Hashable) -> dict[Any, Any]:
    """Where to keep what follows from these inputs and nothing else: inside a block the same
    dictionary for equal ones, else a new one.
    """
    known = _KEPT.get()
    return {} if known is None else known.setdefault(inputs, {})


class IdentityKey:
    """A large input by its identity, where comparing its values would take long; it is held, so
    that no other object takes its place.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityKey) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


P = ParamSpec("P")
Better = Literal["lower", "higher"] | None
"""Which direction is better; None where the number only describes."""


class Metric(Protocol[P]):
    """A function from arrays to one number, or to a table, with what who shows it has to know.

    Attributes
    ----------
    label : what people read ("NLL"); the function's name is what they type (``nll``).
    better : which direction is better; None where the number only describes.
    unit : what the number is in ("nats", "units of y"); None of a share, a probability, or anything
    else without one.
    by_row : the same arguments → Float[m], whose mean is the metric; None where the metric is not a
    mean over rows.
    stderr : the same arguments → standard error of the metric, or None where there are too few
        rows; None where nothing is known of it, and where ``by_row`` says it.
    is_table : whether it gives columns of equal lengths by name (a curve, a histogram, a map), and
    no number.
    package : what it imports beside what kdgraph always has, and the extra of kdgraph that brings
        it ("relplot", "smooth"); or None.
    """

    __name__: str
    label: str
    better: Better
    unit: str | None
    by_row: Callable[P, np.ndarray] | None
    stderr: Callable[P, float | None] | None
    is_table: bool
    package: tuple[str, str] | None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Evaluate the metric."""
        ...


METRICS: dict[str, Metric[...]] = {}
"""Every metric by name: filled by the decorators below, so a new metric is one decorated
function.
"""


def metric(
    label: str,
    *,
    better: Better,
    unit: str | None = None,
    package: tuple[str, str] | None = None,
    stderr: Callable[..., float | None] | None = None,
) -> Callable[[Callable[P, float]], Metric[P]]:
    """Register a function that returns one number; its arrays, and those of its standard error, are
    checked before it sees them.
    """

    def decorate(function: Callable[P, float]) -> Metric[P]:
        error = None if stderr is None else _with_checked_inputs(stderr)
        return _register(
            _with_checked_inputs(function), label, better, unit, package=package, stderr=error
        )

    return decorate


def table(label: str) -> Callable[[Callable[P, Mapping[str, np.ndarray]]], Metric[P]]:
    """Register a function that returns columns of equal lengths by name, each [m]; its arrays are
    checked before it sees them.
    """

    def decorate(function: Callable[P, Mapping[str, np.ndarray]]) -> Metric[P]:
        return _register(_with_checked_inputs(function), label, is_table=True)

    return decorate


def mean_over_rows(
    label: str, *, better: Better, unit: str | None = None
) -> Callable[[Callable[P, np.ndarray]], Metric[P]]:
    """Register the mean of a function that returns Float[n], one number a row; the function itself
    stays reachable as ``by_row``.

    The mean over no row at all is NaN.
    """

    def decorate(function: Callable[P, np.ndarray]) -> Metric[P]:
        by_row = _with_checked_inputs(function)

        @functools.wraps(function)
        def mean(*args: P.args, **kwargs: P.kwargs) -> float:
            values = by_row(*args, **kwargs)
            return float(values.mean()) if len(values) else float("nan")

        mean.__annotations__ = function.__annotations__ | {"return": "float"}
        cast(Any, mean).__signature__ = inspect.signature(function).replace(
            return_annotation="float"
        )
        return _register(mean, label, better, unit, by_row=by_row)

    return decorate


def check_package(metric: Metric[...]) -> None:
    """Raise :class:`ConfigError`, with what to install, unless the package that the metric needs is
    there.
    """
    if metric.package and find_spec(metric.package[0]) is None:
        package, extra = metric.package
        raise ConfigError(f"{metric.__name__} needs {package}: pip install 'kdgraph[{extra}]'")


def _with_checked_inputs(function: Callable[P, Any]) -> Callable[P, Any]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        return function(**checked(signature.bind(*args, **kwargs).arguments))  # type: ignore[call-arg]

    return call


def _register(
    function: Callable[P, Any],
    label: str,
    better: Better = None,
    unit: str | None = None,
    *,
    by_row: Callable[P, np.ndarray] | None = None,
    stderr: Callable[P, float | None] | None = None,
    is_table: bool = False,
    package: tuple[str, str] | None = None,
) -> Metric[P]:
    result = cast(Metric[P], function)
    result.label, result.better, result.unit, result.by_row, result.is_table = (
        label,
        better,
        unit,
        by_row,
        is_table,
    )
    result.stderr, result.package = stderr, package
    METRICS[result.__name__] = result
    return result


@dataclass(frozen=True)
class Score:
    """A measured metric.

    Attributes
    ----------
    value : the metric, or None where it is not defined (mean confidence of wrong rows when none is
    wrong).
    stderr : standard error of the mean over rows, s / √n with s² over n - 1, or what the metric
        itself says of its error; None where it is no such mean and says nothing, or n < 2. It is
        the sampling error of the rows alone: not of training, and not of a difference between two
        models on one test set.
    n : the rows that were averaged.
    """

    value: float | None
    stderr: float | None
    n: int


def asked(key: str, options: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """The metric that a key of a config asks for, and its options: the one of that name, or the one
    that the option ``metric`` names.

    So one metric is asked for more than once, with other options. The ``space`` in which it
    measures is none of these (:func:`space_of`).

    >>> asked("ece", {"bins": 15}), asked("ece_10", {"metric": "ece", "bins": 10})
    (('ece', {'bins': 15}), ('ece', {'bins': 10}))
    """
    given = dict(options or {})
    given.pop("space", None)
    return given.pop("metric", key), given


def space_of(options: Mapping[str, Any] | None) -> str | None:
    """The name of the space in which a metric of the rows' features is to measure, by its options;
    None: that of the rows as they are.
    """
    return (options or {}).get("space")


def score(
    name: str,
    inputs: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
    *,
    source: str = "this data set",
) -> Score:
    """Evaluate the metric called ``name``.

    Parameters
    ----------
    name : a key of :data:`METRICS`.
    inputs : what there is, by parameter name (:data:`~kdgraph.metrics.inputs.INPUTS`); more than
        the metric needs is fine, None is absent. Where there is ``proba`` and no ``top``, this is
        the largest probability.
    options : the metric's own options, e.g. ``{"bins": 10}``.
    source : what the error message calls the data.

    Raises
    ------
    ConfigError
        As :func:`check_metric`.
    ValueError
        Arrays that break a rule (shape, rows that do not sum to 1, NaN).

    Examples
    --------
    >>> score("error", {"y": [0, 1], "proba": [[0.9, 0.1], [0.8, 0.2]]})
    Score(value=0.5, stderr=0.5, n=2)
    """
    metric, arguments = _prepared(name, inputs, options, source)
    if metric.is_table:
        raise ConfigError(f"{name} is a table, not a number; use tabulate")
    if metric.by_row is None:
        error = None if metric.stderr is None else metric.stderr(**arguments)
        return Score(_defined(metric(**arguments)), error, n_rows(arguments))
    values = metric.by_row(**arguments)
    n, value = len(values), float(values.mean()) if len(values) else math.nan
    stderr = (
        float(np.std(values, ddof=1) / math.sqrt(n)) if n > 1 and math.isfinite(value) else None
    )
    return Score(_defined(value), stderr, n)


def tabulate(
    name: str,
    inputs: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
    *,
    source: str = "this data set",
) -> list[dict[str, Any]]:
    """Evaluate the table called ``name``: its rows, each a value by column. Parameters and errors
    are those of :func:`score`.
    """
    table, arguments = _prepared(name, inputs, options, source)
    columns = {column: np.asarray(values).tolist() for column, values in table(**arguments).items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _prepared(
    name: str, inputs: Mapping[str, Any], options: Mapping[str, Any] | None, source: str
) -> tuple[Any, dict[str, Any]]:
    """The metric and its arguments."""
    available = {key: value for key, value in inputs.items() if value is not None}
    if "proba" in available:
        available.setdefault("top", available["proba"])
    check_metric(name, available, options or {}, source=source)
    return METRICS[name], {key: available[key] for key in needs(name)} | dict(options or {})


def needs(name: str) -> frozenset[str]:
    """Name the inputs that the metric must be given: names of
    :data:`~kdgraph.metrics.inputs.INPUTS`.
    """
    return frozenset(p for p in inspect.signature(_find(name)).parameters if p in INPUTS)


def about(key: str, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What a reader of a metric's numbers has to know of it, for who cannot import it: a record has
    this of each key of its config.

    ``label``, ``better`` ("lower", "higher" or None), ``unit`` if it has one, ``detects``: True if
    it says how well rows out of distribution are told from test rows, ``metric``: its name where
    the key is another.

    >>> about("nll")
    {'label': 'NLL', 'better': 'lower', 'unit': 'nats'}
    """
    name, _ = asked(key, options)
    found = _find(name)
    known: dict[str, Any] = {"label": found.label, "better": found.better}
    known |= {} if found.unit is None else {"unit": found.unit}
    known |= {"detects": True} if "id_score" in needs(name) else {}
    return known | ({"metric": name} if name != key else {})


def options_of(name: str) -> dict[str, Any]:
    """List the metric's options with their defaults."""
    parameters = inspect.signature(_find(name)).parameters
    return {p: parameters[p].default for p in parameters if p not in INPUTS}


def check_metric(
    name: str,
    available: Iterable[str],
    options: Mapping[str, Any] | None = None,
    *,
    source: str = "this data set",
) -> None:
    """Raise :class:`ConfigError` unless the metric exists, has these options, and ``available``
    holds every input it needs.

    Its package must be there, too. Looks at names only, so it can be asked before anything is
    computed.
    """
    known = options_of(name)
    check_package(METRICS[name])
    for option in options or {}:
        if option not in known:
            raise ConfigError(f"{name} has no option {_unknown(option, known)}")
    given = set(available)
    given |= {"top"} if "proba" in given else set()
    for missing in sorted(needs(name) - given):
        needed = INPUTS[missing]
        who = "the method does not give" if missing in SAID else f"{source} does not have"
        raise ConfigError(f"{name} needs {needed.words}, which {who}; {needed.remedy}")


def _find(name: str) -> Any:
    if name not in METRICS:
        raise ConfigError(f"no metric named {_unknown(name, METRICS)}")
    return METRICS[name]


def _unknown(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(str(name), names, n=1)
    return (
        f"'{name}'"
        + (f"; did you mean '{close[0]}'?" if close else "")
        + f" (available: {', '.join(names) or 'none'})"
    )


def _defined(value: float) -> float | None:
    return value if math.isfinite(value) else None
