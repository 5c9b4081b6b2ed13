"""Registry of metrics: registration by decorators, evaluation by name, and a shared cache.

:func:`metric`, :func:`mean_over_rows` and :func:`table` register functions with what a reader of
their numbers needs. :func:`score` and :func:`tabulate` evaluate them by name, after a check of
inputs and options. Within :func:`cache_scope`, metrics share intermediate results.
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
from typing import Any, Literal, ParamSpec, Protocol, cast

import numpy as np

from kdgraph.docstrings import add_descriptions, described_names
from kdgraph.errors import ConfigError
from kdgraph.extras import is_installed, needs_library
from kdgraph.metrics.inputs import (
    DOCUMENTED,
    DOCUMENTED_OUTCOMES,
    INPUTS,
    MODEL_OUTPUTS,
    check_inputs,
    n_rows,
)

_CACHE: ContextVar[dict[Hashable, dict[Any, Any]] | None] = ContextVar("_CACHE", default=None)


@contextmanager
def cache_scope() -> Iterator[None]:
    """Share intermediate results between metrics until the block ends.

    Outside of such a block everything is computed anew.

    Examples
    --------
    >>> from kdgraph.metrics import lce, mlce
    >>> y, proba, X = [0, 0, 1, 1], [[0.75, 0.25]] * 4, np.array([[0.0], [0.1], [1.0], [1.1]])
    >>> with cache_scope():  # the local errors are computed once for both metrics
    ...     round(lce(y, proba, X), 2), round(mlce(y, proba, X), 2)
    (0.5, 0.75)
    """
    token = _CACHE.set({})
    try:
        yield
    finally:
        _CACHE.reset(token)


def scope_cache(*inputs: Hashable) -> dict[Any, Any]:
    """Return a dictionary for results that depend on these inputs only.

    Within :func:`cache_scope` equal inputs give the same dictionary; outside it is always new.
    """
    cache = _CACHE.get()
    return {} if cache is None else cache.setdefault(inputs, {})


class IdentityKey:
    """Cache key that compares a large input by identity instead of by value.

    It holds a reference, so that no other object can get the same identity.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityKey) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


P = ParamSpec("P")
Better = Literal["lower", "higher"] | None
"""Direction that is better; None if the number is only descriptive."""


class Metric(Protocol[P]):
    """Function from arrays to a number or a table, with what is needed to display it.

    Attributes
    ----------
    label : str
        Display name ("NLL"). The function name (``nll``) is the name in configs.
    better : {"lower", "higher"} or None
        Direction that is better; None if the number is only descriptive.
    unit : str or None
        Unit ("nats", "units of y"); None for fractions, probabilities and other pure numbers.
    by_row : callable or None
        Function of the same arguments that returns Float[m], whose mean is the metric; None if the
        metric is not a mean over rows.
    stderr : callable or None
        Function of the same arguments that returns the standard error of the metric, or None if
        there are too few rows. None if there is no such estimate, or if ``by_row`` gives it.
    is_table : bool
        True if the metric returns columns of equal lengths by name (a curve, a histogram, a map)
        instead of a number.
    library : str or None
        An optional library that the metric imports
        ("relplot", "smooth").

    Examples
    --------
    >>> nll = METRICS["nll"]
    >>> nll.label, nll.better, nll.unit, nll.is_table
    ('NLL', 'lower', 'nats', False)
    >>> nll.by_row(y=[0, 1], proba=[[0.5, 0.5], [0.75, 0.25]]).round(2).tolist()
    [0.69, 1.39]
    """

    __name__: str
    label: str
    better: Better
    unit: str | None
    by_row: Callable[P, np.ndarray] | None
    stderr: Callable[P, float | None] | None
    is_table: bool
    library: str | None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Evaluate the metric."""
        ...


METRICS: dict[str, Metric[...]] = {}
"""All metrics by name. The decorators below add to it, so a new metric is a decorated function."""


def metric(
    label: str,
    *,
    better: Better,
    unit: str | None = None,
    library: str | None = None,
    stderr: Callable[..., float | None] | None = None,
    like: Callable[..., Any] | None = None,
) -> Callable[[Callable[P, float]], Metric[P]]:
    """Return a decorator that registers a function which returns a number.

    Inputs of the function, and of its standard error, are converted and checked before the call.

    Parameters
    ----------
    label : str
        Display name, such as "ECE".
    better : {"lower", "higher"} or None
        Direction that is better; None if the number is only descriptive.
    unit : str, default=None
        Unit, such as "nats"; None for pure numbers.
    library : str, default=None
        Optional library that the function imports, one of :mod:`kdgraph.extras`.
    stderr : callable, default=None
        Function of the same arguments that returns the standard error, or None.
    like : callable, default=None
        Function whose docstring describes those options that it shares with this one.

    Examples
    --------
    >>> @metric("largest probability", better=None)
    ... def largest_probability(proba):
    ...     return float(proba.max())
    >>> score("largest_probability", {"proba": [[0.75, 0.25], [0.5, 0.5]]})
    Score(value=0.75, stderr=None, n=2)
    >>> del METRICS["largest_probability"]
    """

    def decorate(function: Callable[P, float]) -> Metric[P]:
        error = None if stderr is None else _with_checked_inputs(stderr)
        return _register(
            _with_checked_inputs(function, like), label, better, unit, library=library, stderr=error
        )

    return decorate


def table(
    label: str, *, like: Callable[..., Any] | None = None
) -> Callable[[Callable[P, Mapping[str, np.ndarray]]], Metric[P]]:
    """Return a decorator that registers a function which returns columns by name, each [m].

    Inputs of the function are converted and checked before the call.

    Parameters
    ----------
    label : str
        Display name, such as "PIT histogram".
    like : callable, default=None
        As for :func:`metric`.

    Examples
    --------
    >>> @table("class frequencies")
    ... def class_frequencies(y):
    ...     return {"label": np.unique(y), "rows": np.bincount(y)}
    >>> tabulate("class_frequencies", {"y": [0, 1, 1]})
    [{'label': 0, 'rows': 1}, {'label': 1, 'rows': 2}]
    >>> del METRICS["class_frequencies"]
    """

    def decorate(function: Callable[P, Mapping[str, np.ndarray]]) -> Metric[P]:
        return _register(_with_checked_inputs(function, like), label, is_table=True)

    return decorate


def mean_over_rows(
    label: str,
    *,
    better: Better,
    unit: str | None = None,
    like: Callable[..., Any] | None = None,
) -> Callable[[Callable[P, np.ndarray]], Metric[P]]:
    """Return a decorator that registers the mean of a function which returns Float[n].

    The function is available as the attribute ``by_row``. Its inputs are converted and checked
    before the call. The mean over no rows is NaN.

    Parameters
    ----------
    label, better, unit, like
        As for :func:`metric`.

    Examples
    --------
    >>> @mean_over_rows("margin", better=None)
    ... def margin(proba):
    ...     ranked = np.sort(proba, axis=1)
    ...     return ranked[:, -1] - ranked[:, -2]
    >>> margin([[0.75, 0.25], [0.5, 0.5]]), margin.by_row([[0.75, 0.25], [0.5, 0.5]]).tolist()
    (0.25, [0.5, 0.0])
    >>> score("margin", {"proba": [[0.75, 0.25], [0.5, 0.5]]})
    Score(value=0.25, stderr=0.25, n=2)
    >>> del METRICS["margin"]
    """

    def decorate(function: Callable[P, np.ndarray]) -> Metric[P]:
        by_row = _with_checked_inputs(function, like)

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


def check_library(metric: Metric[...]) -> None:
    """Raise :class:`ConfigError` if the optional library of a metric is not installed."""
    if metric.library and not is_installed(metric.library):
        raise ConfigError(needs_library(metric.__name__, metric.library))


def _with_checked_inputs(
    function: Callable[P, Any], like: Callable[..., Any] | None = None
) -> Callable[P, Any]:
    """Return the function with its inputs converted and checked before each call, and described."""
    signature = inspect.signature(function)
    documented = DOCUMENTED_OUTCOMES if "distribution" in signature.parameters else DOCUMENTED
    if like is not None:
        documented = documented | described_names(inspect.getdoc(like) or "")
    entries = {name: documented[name] for name in signature.parameters if name in documented}
    doc = inspect.cleandoc(function.__doc__ or "")
    function.__doc__ = add_descriptions(doc, entries, first=True)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        return function(**check_inputs(signature.bind(*args, **kwargs).arguments))  # type: ignore[call-arg]

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
    library: str | None = None,
) -> Metric[P]:
    attributes = {"label": label, "better": better, "unit": unit, "by_row": by_row}
    vars(function).update(attributes, stderr=stderr, is_table=is_table, library=library)
    result = cast(Metric[P], function)
    METRICS[result.__name__] = result
    return result


@dataclass(frozen=True)
class Score:
    """Value of a metric with its standard error.

    Attributes
    ----------
    value : float or None
        Value; None if it is undefined, such as the mean confidence of incorrect predictions if all
        are correct.
    stderr : float or None
        Standard error of a mean over rows, s / √n with s² over n - 1, or the estimate of the
        metric. None if there is no estimate, or n < 2. It covers only the sampling of rows: not
        training, and not the difference of two models on the same test set.
    n : int
        Number of rows.

    Examples
    --------
    >>> score("mmc", {"y": [0, 0], "proba": [[0.75, 0.25], [1.0, 0.0]]})
    Score(value=0.875, stderr=0.125, n=2)
    """

    value: float | None
    stderr: float | None
    n: int


def select_metric(key: str, options: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """Return the name and the options of the metric that a config key selects.

    It is the metric of that name, or the one that the option ``metric`` names. One metric can thus
    be computed several times with different options. The option ``space`` is not returned
    (:func:`space_option`).

    Parameters
    ----------
    key : str
        Config key.
    options : dict or None
        Options that the config has for the key.

    Examples
    --------
    >>> select_metric("ece", {"bins": 15}), select_metric("ece_10", {"metric": "ece", "bins": 10})
    (('ece', {'bins': 15}), ('ece', {'bins': 10}))
    """
    metric_options = dict(options or {})
    metric_options.pop("space", None)
    return metric_options.pop("metric", key), metric_options


def space_option(options: Mapping[str, Any] | None) -> str | None:
    """Return the feature space that the options of a metric name, None for the original features.

    Parameters
    ----------
    options : dict or None
        Options that the config has for the metric.

    Examples
    --------
    >>> space_option({"space": "pca", "bins": 10}), space_option({"bins": 10})
    ('pca', None)
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
    name : str
        Key of :data:`METRICS`.
    inputs : dict
        Available inputs by parameter name (:data:`~kdgraph.metrics.inputs.INPUTS`). Inputs that the
        metric does not need are ignored, and None means missing. If ``proba`` is available and
        ``top_label`` is not, the largest probabilities are used.
    options : dict, optional
        Options of the metric, such as ``{"bins": 10}``.
    source : str, default="this data set"
        Name of the data in error messages.

    Returns
    -------
    Score
        Value, standard error and number of rows.

    Raises
    ------
    ConfigError
        As for :func:`check_metric`.
    ValueError
        If an array is invalid: wrong shape, rows that do not sum to 1, or NaN.

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
    """Evaluate the table called ``name`` and return its rows, each a dictionary by column.

    Parameters
    ----------
    name, inputs, options, source
        As for :func:`score`.

    Returns
    -------
    list of dict
        Numbers and texts by column, as JSON can hold them except for NaN and infinities.

    Examples
    --------
    >>> inputs = {"y": [0, 1], "proba": [[0.9, 0.1], [0.8, 0.2]]}
    >>> for row in tabulate("risk_coverage", inputs):
    ...     print(row)
    {'coverage': 0.5, 'risk': 0.0, 'confidence': 0.9}
    {'coverage': 1.0, 'risk': 0.5, 'confidence': 0.8}
    """
    table, arguments = _prepared(name, inputs, options, source)
    columns = {column: np.asarray(values).tolist() for column, values in table(**arguments).items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _prepared(
    name: str, inputs: Mapping[str, Any], options: Mapping[str, Any] | None, source: str
) -> tuple[Any, dict[str, Any]]:
    available = {key: value for key, value in inputs.items() if value is not None}
    if "proba" in available:
        available.setdefault("top_label", available["proba"])
    check_metric(name, available, options or {}, source=source)
    return METRICS[name], {key: available[key] for key in needs(name)} | dict(options or {})


def needs(name: str) -> frozenset[str]:
    """Return the names of the inputs that a metric requires.

    They are keys of :data:`~kdgraph.metrics.inputs.INPUTS`.

    Examples
    --------
    >>> sorted(needs("hellinger"))
    ['proba', 'truth']
    """
    return frozenset(p for p in inspect.signature(_find(name)).parameters if p in INPUTS)


def about(key: str, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the description of a metric that a record has for a config key with its options.

    The entries are ``label``, ``better`` ("lower", "higher" or None), ``unit`` if there is one,
    ``detects``: True for metrics of OOD detection, and ``metric``: the name of the metric if it
    differs from the key.

    Parameters
    ----------
    key : str
        Config key.
    options : dict, default=None
        Options that the config has for the key.

    Examples
    --------
    >>> about("nll")
    {'label': 'NLL', 'better': 'lower', 'unit': 'nats'}
    """
    name, _ = select_metric(key, options)
    selected = _find(name)
    description: dict[str, Any] = {"label": selected.label, "better": selected.better}
    description |= {} if selected.unit is None else {"unit": selected.unit}
    description |= {"detects": True} if {"id_score", "id_p_value"} & needs(name) else {}
    return description | ({"metric": name} if name != key else {})


def options_of(name: str) -> dict[str, Any]:
    """Return the options of a metric with their defaults.

    Examples
    --------
    >>> options_of("ece")
    {'bins': 15, 'strategy': 'uniform', 'norm': 'l1', 'debiased': False}
    """
    parameters = inspect.signature(_find(name)).parameters
    return {p: parameters[p].default for p in parameters if p not in INPUTS}


def check_metric(
    name: str,
    available: Iterable[str],
    options: Mapping[str, Any] | None = None,
    *,
    source: str = "this data set",
) -> None:
    """Check that a metric exists and can be computed with these options and inputs.

    Only names are checked, so this can be called before anything is computed.

    Parameters
    ----------
    name : str
        Key of :data:`METRICS`.
    available : iterable of str
        Names of the available inputs. ``proba`` includes the predicted classes.
    options : dict, default=None
        Options of the metric.
    source : str, default="this data set"
        Name of the data in error messages.

    Raises
    ------
    ConfigError
        If the metric or an option does not exist, a required input is not in ``available``, or an
        optional library is not installed.

    Examples
    --------
    >>> check_metric("ece", ["y", "proba"], {"bins": 10})
    >>> check_metric("ece", ["proba"], source="the OOD set")
    Traceback (most recent call last):
        ...
    kdgraph.errors.ConfigError: ece needs the labels, which the OOD set does not have; ...
    """
    defaults = options_of(name)
    check_library(METRICS[name])
    for option in options or {}:
        if option not in defaults:
            raise ConfigError(f"{name} has no option {_unknown(option, defaults)}")
    names = set(available)
    names |= {"top_label"} if "proba" in names else set()
    for missing in sorted(needs(name) - names):
        required = INPUTS[missing]
        reason = (
            "the method does not give" if missing in MODEL_OUTPUTS else f"{source} does not have"
        )
        raise ConfigError(f"{name} needs {required.description}, which {reason}; {required.remedy}")


def _find(name: str) -> Any:
    if name not in METRICS:
        raise ConfigError(f"no metric named {_unknown(name, METRICS)}")
    return METRICS[name]


def _unknown(name: str, available: Iterable[str]) -> str:
    """Return an unknown name, quoted, with the closest and all available names."""
    names = sorted(available)
    close = difflib.get_close_matches(str(name), names, n=1)
    return (
        f"'{name}'"
        + (f"; did you mean '{close[0]}'?" if close else "")
        + f" (available: {', '.join(names) or 'none'})"
    )


def _defined(value: float) -> float | None:
    """Return the value, or None if it is not finite."""
    return value if math.isfinite(value) else None
