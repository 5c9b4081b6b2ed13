"""Data of a run for its figures, and the registry of these figures.

A figure of a run is a function that takes a :class:`RunFigureData` and returns a matplotlib figure,
or None if the run does not have the data. :func:`register_figure` makes it available by name in
``figures.draw``.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kdgraph.data.dataset import Splits
from kdgraph.metrics import TopLabel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kdgraph.base import Evaluation, FittedModel, Predictions


_FIGURES: dict[str, Callable[..., Any]] = {}


def register_figure(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers a figure of a run.

    Parameters
    ----------
    name : str
        Key of the figure in ``figures.draw``, and stem of its file.
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
    """Return the tables that a figure draws, as keys in ``metrics``.

    Parameters
    ----------
    name : str
        Name of a registered figure.
    options : mapping
        Its options; those that are missing have their defaults.
    """
    parameters = inspect.signature(registered_figures()[name]).parameters
    table, tables = (
        options.get(key, parameters[key].default) if key in parameters else None
        for key in ("table", "tables")
    )
    return [*([table] if table else []), *(tables or [])]


@dataclass(frozen=True)
class RunFigureData:
    """Data of one run as its figures need them.

    Attributes
    ----------
    splits : Splits
        Training, calibration and test rows.
    evaluation : Evaluation
        Predictions and metrics on all sets of rows.
    models : tuple of two FittedModel
        The parent, and the parent with all components that were fitted after it.
    names : tuple of two str
        Names of the two models.
    """

    splits: Splits
    evaluation: Evaluation
    models: tuple[FittedModel, FittedModel]
    names: tuple[str, str]

    def save(
        self, folder: Path, draw: Mapping[str, Mapping[str, Any]], formats: Sequence[str], dpi: int
    ) -> list[str]:
        """Draw and save the requested figures that the run has data for.

        Parameters
        ----------
        folder : Path
            Folder of the files; it is created if it does not exist.
        draw : mapping of str to mapping
            Options of each requested figure, by name.
        formats : sequence of str
            File formats.
        dpi : int
            Resolution, as in :func:`kdgraph.figures.save_figure`.

        Returns
        -------
        list of str
            Names of the files.
        """
        from kdgraph.figures.style import save_figure

        folder.mkdir(parents=True, exist_ok=True)
        return [
            path.name
            for name, figure in self._figures(draw)
            for path in save_figure(figure, folder / name, formats, dpi)
        ]

    def _figures(self, draw: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Figure]]:
        functions = registered_figures()
        for name, options in draw.items():
            if figure := functions[name](self, **(options or {})):
                yield name, figure

    @property
    def test(self) -> Predictions:
        """Predictions on the test rows."""
        return next(
            predictions for predictions in self.evaluation.predictions if predictions.role == "test"
        )

    @cached_property
    def calibration(self) -> Predictions | None:
        """Predictions on the calibration rows, or None if there are none.

        If no metric was computed on these rows, the models predict them now.
        """
        predictions = next(
            (
                predictions
                for predictions in self.evaluation.predictions
                if predictions.role == "calibration"
            ),
            None,
        )
        rows = self.splits.calibration
        if predictions is not None or not len(rows.y):
            return predictions
        parent, calibrated = (
            model.predict_outputs(
                [output for output in ("proba", "top_label") if model.supports(output)], rows.X
            )
            for model in self.models
        )
        from kdgraph.base import Predictions  # imports scikit-learn

        return Predictions("calibration", len(rows.y), parent, calibrated, y=rows.y)

    @property
    def prior(self) -> float | None:
        """Largest class prior; None in regression."""
        return None if self.splits.prior is None else float(self.splits.prior.max())

    def outputs_by_model(self, output: str, predictions: Predictions) -> dict[str, Any] | None:
        """Return one output of both models on a set of rows.

        Parameters
        ----------
        output : str
            Name of the output, such as "distribution".
        predictions : Predictions
            Predictions on the set.

        Returns
        -------
        dict or None
            Output by model name; None if one of the models does not support it.
        """
        by_model = {
            name: outputs.get(output)
            for name, outputs in zip(self.names, predictions.models.values(), strict=True)
        }
        return None if any(value is None for value in by_model.values()) else by_model

    def top_labels(self, predictions: Predictions) -> dict[str, TopLabel] | None:
        """Return predicted classes and confidence of both models on a set.

        Returns
        -------
        dict of str to TopLabel, or None
            Top labels by model name; None if one of the models is not a classifier.
        """
        tops = {
            name: _top_label(outputs)
            for name, outputs in zip(self.names, predictions.models.values(), strict=True)
        }
        return (
            {name: top_label for name, top_label in tops.items() if top_label is not None}
            if None not in tops.values()
            else None
        )

    def confidence(self, predictions: Predictions) -> dict[str, np.ndarray] | None:
        """Return the confidence of both models in their predicted classes.

        Returns
        -------
        dict of str to Float[n], or None
            Confidence by model name; None if one of the models is not a classifier.
        """
        tops = self.top_labels(predictions)
        return (
            None
            if tops is None
            else {name: top_label.confidence for name, top_label in tops.items()}
        )

    def families(self) -> list[list[Predictions]]:
        """Return the out-of-distribution sets, grouped by name and parameter.

        Sets with the same name and the same single parameter form a family, which is sorted by the
        value of the parameter. A set with several parameters, or none, is the only one of its
        family.
        """
        # With a single parameter the key has its name only, so its values are in one family. With
        # several parameters the key has their values too.
        by_name: dict[tuple[Any, ...], list[Predictions]] = {}
        for predictions in self.evaluation.predictions:
            if predictions.role == "ood":
                by_name.setdefault(
                    (
                        predictions.ood_name,
                        *(
                            predictions.params
                            if len(predictions.params) == 1
                            else predictions.params.items()
                        ),
                    ),
                    [],
                ).append(predictions)
        return [
            sorted(family, key=lambda ood_set: tuple(ood_set.params.values()))
            for family in by_name.values()
        ]


def _top_label(outputs: Mapping[str, Any]) -> TopLabel | None:
    if "top_label" in outputs:
        return outputs["top_label"]
    return TopLabel.from_proba(outputs["proba"]) if "proba" in outputs else None


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
    """Return the mean confidence of both models on each of s sets.

    Returns
    -------
    dict of str to Float[s], or None
        Mean confidence by model name; None if one of the models is not a classifier.
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
    """Return 95 % intervals of the mean confidence of both models on each of s sets.

    They are normal intervals, the mean ± 1.96 standard errors over the rows of a set, cut to
    [0, 1].

    Returns
    -------
    dict of str to (Float[s], Float[s])
        Lower and upper ends by model name.

    Raises
    ------
    ValueError
        If one of the models is not a classifier.
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
    """Return the columns of a table on the test set, for each of the two models.

    Parameters
    ----------
    run : RunFigureData
        Data of the run.
    table : str
        Key of the table in ``metrics``.

    Returns
    -------
    dict of str to dict of str to ndarray, or None
        Columns by model name; every column is [n], a value for each row of the table. None if the
        table was not computed.
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
