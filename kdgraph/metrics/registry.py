"""What makes a function a metric: its name in the registry, what people must know of its numbers, its values by row, or its table."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, Literal, ParamSpec, Protocol, cast

import numpy as np

from kdgraph.errors import ConfigError
from kdgraph.metrics.inputs import checked

P = ParamSpec("P")
Better = Literal["lower", "higher"] | None
"""Which direction is better; None where the number only describes."""


class Metric(Protocol[P]):
    """A function from arrays to one number, or to a table, with what who shows it has to know.

    Attributes
    ----------
    label : what people read ("NLL"); the function's name is what they type (``nll``).
    better : which direction is better; None where the number only describes.
    unit : what the number is in ("nats", "units of y"); None of a share, a probability, or anything else without one.
    by_row : the same arguments → Float[m], whose mean is the metric; None where the metric is not a mean over rows.
    stderr : the same arguments → standard error of the metric, or None where there are too few rows; None where nothing is known of it, and
        where ``by_row`` says it.
    is_table : whether it gives columns of equal lengths by name (a curve, a histogram, a map), and no number.
    package : what it imports beside what kdgraph always has, and the extra of kdgraph that brings it ("relplot", "smooth"); or None.
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
"""Every metric by name: filled by the decorators below, so a new metric is one decorated function."""


def metric(
    label: str,
    *,
    better: Better,
    unit: str | None = None,
    package: tuple[str, str] | None = None,
    stderr: Callable[..., float | None] | None = None,
) -> Callable[[Callable[P, float]], Metric[P]]:
    """Register a function that returns one number; its arrays, and those of its standard error, are checked before it sees them."""

    def decorate(function: Callable[P, float]) -> Metric[P]:
        error = None if stderr is None else _with_checked_inputs(stderr)
        return _register(_with_checked_inputs(function), label, better, unit, package=package, stderr=error)

    return decorate


def table(label: str) -> Callable[[Callable[P, Mapping[str, np.ndarray]]], Metric[P]]:
    """Register a function that returns columns of equal lengths by name, each [m]; its arrays are checked before it sees them."""

    def decorate(function: Callable[P, Mapping[str, np.ndarray]]) -> Metric[P]:
        return _register(_with_checked_inputs(function), label, is_table=True)

    return decorate


def mean_over_rows(label: str, *, better: Better, unit: str | None = None) -> Callable[[Callable[P, np.ndarray]], Metric[P]]:
    """Register the mean of a function that returns Float[n], one number a row; the function itself stays reachable as ``by_row``.

    The mean over no row at all is NaN.
    """

    def decorate(function: Callable[P, np.ndarray]) -> Metric[P]:
        by_row = _with_checked_inputs(function)

        @functools.wraps(function)
        def mean(*args: P.args, **kwargs: P.kwargs) -> float:
            values = by_row(*args, **kwargs)
            return float(values.mean()) if len(values) else float("nan")

        mean.__annotations__ = function.__annotations__ | {"return": "float"}
        cast(Any, mean).__signature__ = inspect.signature(function).replace(return_annotation="float")
        return _register(mean, label, better, unit, by_row=by_row)

    return decorate


def check_package(metric: Metric[...]) -> None:
    """Raise :class:`ConfigError`, with what to install, unless the package that the metric needs is there."""
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
    result.label, result.better, result.unit, result.by_row, result.is_table = label, better, unit, by_row, is_table
    result.stderr, result.package = stderr, package
    METRICS[result.__name__] = result
    return result
