"""Data of a run for its figures, and the registry of these figures.

A figure of a run is a function that takes a :class:`RunFigureData` and returns a matplotlib figure,
or None if the run does not have the data. :func:`register_figure` makes it available by name in
``figures.draw``.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kdgraph.data.dataset import Splits
from kdgraph.metrics import TopLabel

if TYPE_CHECKING:
    from kdgraph.base import Evaluation, FittedModel, Predictions


_FIGURES: dict[str, Callable[..., Any]] = {}


def register_figure(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers a figure of a run.

    The name is its key in ``figures.draw``, and the stem of its file. A parameter ``table`` or
    ``tables`` of the function contains keys in ``metrics``.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _FIGURES[name] = function
        return function

    return register


@cache
def registered_figures() -> dict[str, Callable[..., Any]]:
    """Return all registered figures by name.

    The first call imports all modules of this package, which registers their figures.
    """
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")
    return _FIGURES


def tables_of_figure(name: str, options: Mapping[str, Any]) -> list[str]:
    """Return the tables that a figure with these options draws, as keys in ``metrics``."""
    parameters = inspect.signature(registered_figures()[name]).parameters
    table, tables = (
        options.get(key, parameters[key].default) if key in parameters else None
        for key in ("table", "tables")
    )
    return [*([table] if table else []), *(tables or [])]


@dataclass(frozen=True)
class RunFigureData:
    """Data of one run as its figures need them.

    The two models are the parent, and the parent with all components that were fitted after it.
    """

    splits: Splits
    evaluation: Evaluation
    models: tuple[FittedModel, FittedModel]
    names: tuple[str, str]

    def save(
        self, folder: Path, draw: Mapping[str, Mapping[str, Any]], formats: Sequence[str], dpi: int
    ) -> list[str]:
        """Draw and save those requested figures, with their options, that the run has data for.

        The folder is created if it does not exist. Formats and resolution are those of
        :func:`kdgraph.figures.save_figure`. The names of the files are returned.
        """
        from kdgraph.figures.style import save_figure

        folder.mkdir(parents=True, exist_ok=True)
        functions = registered_figures()
        return [
            path.name
            for name, options in draw.items()
            if (figure := functions[name](self, **(options or {})))
            for path in save_figure(figure, folder / name, formats, dpi)
        ]

    @property
    def test(self) -> Predictions:
        """Predictions on the test rows."""
        return self._of_role("test")[0]

    @cached_property
    def calibration(self) -> Predictions | None:
        """Predictions on the calibration rows, or None if there are none.

        If no metric was computed on these rows, the models predict them now.
        """
        rows = self.splits.calibration
        if predictions := self._of_role("calibration"):
            return predictions[0]
        if not len(rows.y):
            return None
        parent, calibrated = (
            model.predict_outputs(
                [output for output in ("proba", "top_label") if model.supports(output)], rows.X
            )
            for model in self.models
        )
        from kdgraph.base import Predictions  # imports scikit-learn

        return Predictions("calibration", len(rows.y), parent, calibrated, y=rows.y)

    def _of_role(self, role: str) -> list[Predictions]:
        return [each for each in self.evaluation.predictions if each.role == role]

    @property
    def prior(self) -> float | None:
        """Largest class prior; None in regression."""
        return None if self.splits.prior is None else float(self.splits.prior.max())

    def outputs_by_model(self, output: str, predictions: Predictions) -> dict[str, Any] | None:
        """Return an output, such as "distribution", of both models on a set, by their names.

        It is None if one of the models does not support it.
        """
        by_model = {
            name: outputs.get(output)
            for name, outputs in zip(self.names, predictions.models.values(), strict=True)
        }
        return None if any(value is None for value in by_model.values()) else by_model

    def top_labels(self, predictions: Predictions) -> dict[str, TopLabel] | None:
        """Return predicted classes and confidence of both models on a set, by their names.

        It is None if one of the models is not a classifier.
        """
        tops = {}
        for name, outputs in zip(self.names, predictions.models.values(), strict=True):
            if "top_label" in outputs:
                tops[name] = outputs["top_label"]
            elif "proba" in outputs:
                tops[name] = TopLabel.from_proba(outputs["proba"])
            else:
                return None
        return tops

    def confidence(self, predictions: Predictions) -> dict[str, np.ndarray] | None:
        """Return the confidence of :meth:`top_labels`, Float[n]."""
        tops = self.top_labels(predictions)
        return None if tops is None else {name: top.confidence for name, top in tops.items()}

    def families(self) -> list[list[Predictions]]:
        """Return the out-of-distribution sets, grouped by name and parameter.

        Sets with the same name and the same single parameter form a family, which is sorted by the
        value of the parameter. A set with several parameters, or none, is the only one of its
        family.
        """
        # With a single parameter the key has its name only, so its values are in one family. With
        # several parameters the key has their values too.
        by_name: dict[tuple[Any, ...], list[Predictions]] = {}
        for ood_set in self._of_role("ood"):
            params = ood_set.params if len(ood_set.params) == 1 else ood_set.params.items()
            by_name.setdefault((ood_set.ood_name, *params), []).append(ood_set)
        return [
            sorted(family, key=lambda ood_set: tuple(ood_set.params.values()))
            for family in by_name.values()
        ]


def single_parameter(predictions: Predictions) -> tuple[str, float]:
    """Return name and value of the only parameter of a set."""
    ((name, value),) = predictions.params.items()
    return name, value


def ood_set_title(predictions: Predictions) -> str:
    """Return the name of a set above its parameters, such as ``ellipse``, ``axis 30``."""
    params = ", ".join(
        f"{value:g}" if name == predictions.ood_name else f"{name} {value:g}"
        for name, value in predictions.params.items()
    )
    return f"{predictions.ood_name}\n{params}" if params else str(predictions.ood_name)


def mean_confidence_by_set(
    run: RunFigureData, sets: list[Predictions]
) -> dict[str, np.ndarray] | None:
    """Return the mean confidence on each of s sets, Float[s] by the name of the model.

    It is None if one of the models is not a classifier.
    """
    confidences = [run.confidence(predictions) for predictions in sets]
    if any(by_name is None for by_name in confidences):
        return None
    return {
        name: np.array([by_name[name].mean() for by_name in confidences if by_name])
        for name in run.names
    }


CONFIDENCE_BAND = "95 % intervals of the mean over the rows"
"""Description of the bands of :func:`mean_confidence_intervals`."""


def mean_confidence_intervals(
    run: RunFigureData, sets: list[Predictions]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return 95 % intervals of the mean confidence on each of s sets, by the name of the model.

    They are normal intervals, the mean ± 1.96 standard errors over the rows of a set, cut to
    [0, 1]: lower and upper ends, Float[s] both. ValueError is raised unless both models are
    classifiers.
    """
    intervals = {}
    for name in run.names:
        ends = []
        for predictions in sets:
            by_name = run.confidence(predictions)
            if by_name is None:
                raise ValueError(f"{name} has no confidence on {predictions.ood_name}")
            values = np.asarray(by_name[name], dtype=np.float64)
            # A single row has no deviation, so its interval is its value.
            half = 1.96 * values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
            ends.append(np.clip([values.mean() - half, values.mean() + half], 0, 1))
        low, high = np.transpose(ends)
        intervals[name] = low, high
    return intervals


TableColumns = dict[str, np.ndarray]


def columns_by_model(run: RunFigureData, table: str) -> dict[str, TableColumns] | None:
    """Return the columns of a table on the test set, [n] each, for each of the two models.

    It is None if no table with this key in ``metrics`` was computed.
    """
    rows = [row for row in run.evaluation.tables.get(table, []) if row["on"] == "test"]
    if not rows:
        return None
    columns = [column for column in rows[0] if column not in ("of", "on", "ood")]
    roles = dict(zip(run.names, ("parent", "calibrated"), strict=True))
    return {
        name: {
            column: np.array([row[column] for row in rows if row["of"] == role])
            for column in columns
        }
        for name, role in roles.items()
    }


def select_column(columns_by_name: Mapping[str, TableColumns], column: str) -> TableColumns:
    """Return one column of each model, [n], by model name."""
    return {name: columns[column] for name, columns in columns_by_name.items()}
