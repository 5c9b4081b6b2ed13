"""The figures that there are, by name: one for each decorated function in the modules of this
folder.

What the figures of a run are drawn from, and how they become files.

The tables of a run that figures are drawn from.
"""

from __future__ import annotations

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
    """Return a decorator that registers a figure of a run under ``name``, its key in
    ``figures.draw`` and the stem of its file.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _FIGURES[name] = function
        return function

    return register


@cache
def registered_figures() -> dict[str, Callable[..., Any]]:
    """Every figure by name; the modules of this folder are imported the first time."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")
    return _FIGURES


@dataclass(frozen=True)
class RunFigureData:
    """A run as its figures see it.

    Attributes
    ----------
    splits, evaluation : rows, and what was said and measured of them.
    models : the parent, and the parent with what was fitted after it.
    names : what the two are called.
    """

    splits: Splits
    evaluation: Evaluation
    models: tuple[FittedModel, FittedModel]
    names: tuple[str, str]

    def save(
        self, folder: Path, draw: Mapping[str, Mapping[str, Any]], formats: Sequence[str], dpi: int
    ) -> list[str]:
        """Draw and write every figure that is wanted, by name with its options, and possible;
        returns file names.
        """
        from kdgraph.figures.style import save_figure

        folder.mkdir(parents=True, exist_ok=True)
        return [
            path.name
            for name, figure in self._figures(draw)
            for path in save_figure(figure, folder / name, formats, dpi)
        ]

    def _figures(self, draw: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Figure]]:
        known = registered_figures()
        for name, more in draw.items():
            if figure := known[name](self, **(more or {})):
                yield name, figure

    @property
    def test(self) -> Predictions:
        """Of the test rows."""
        return next(found for found in self.evaluation.predictions if found.on == "test")

    @cached_property
    def calibration(self) -> Predictions | None:
        """Of the calibration rows; where nothing was measured on them, both models are asked now.
        None where there are none.
        """
        found = next(
            (found for found in self.evaluation.predictions if found.on == "calibration"), None
        )
        rows = self.splits.calibration
        if found is not None or not len(rows.y):
            return found
        parent, calibrated = (
            model.predict_outputs([a for a in ("proba", "top") if model.supports(a)], rows.X)
            for model in self.models
        )
        from kdgraph.base import Predictions  # imports scikit-learn

        return Predictions("calibration", len(rows.y), parent, calibrated, y=rows.y)

    @property
    def prior(self) -> float | None:
        """The largest class prior; None in regression."""
        return None if self.splits.prior is None else float(self.splits.prior.max())

    def said(self, answer: str, found: Predictions) -> dict[str, Any] | None:
        """Name → what each of the two says of a set; None unless both do."""
        both = {
            name: said.get(answer)
            for name, said in zip(self.names, found.models.values(), strict=True)
        }
        return None if any(given is None for given in both.values()) else both

    def top(self, found: Predictions) -> dict[str, TopLabel] | None:
        """Name → predicted classes and confidence of a set; None unless both models classify."""
        tops = {
            name: _top_label(said)
            for name, said in zip(self.names, found.models.values(), strict=True)
        }
        return (
            {name: top for name, top in tops.items() if top is not None}
            if None not in tops.values()
            else None
        )

    def confidence(self, found: Predictions) -> dict[str, np.ndarray] | None:
        """Name → Float[n], confidence in the predicted class; None unless both models classify."""
        tops = self.top(found)
        return None if tops is None else {name: top.confidence for name, top in tops.items()}

    def families(self) -> list[list[Predictions]]:
        """Out-of-distribution sets of one name and parameter, in order of its value; a set with
        more parameters, or none, is alone.
        """
        by_name: dict[tuple[Any, ...], list[Predictions]] = {}
        for found in self.evaluation.predictions:
            if found.on == "ood":
                by_name.setdefault(
                    (
                        found.ood,
                        *(found.params if len(found.params) == 1 else found.params.items()),
                    ),
                    [],
                ).append(found)
        return [
            sorted(family, key=lambda one: tuple(one.params.values()))
            for family in by_name.values()
        ]


def _top_label(said: Mapping[str, Any]) -> TopLabel | None:
    if "top" in said:
        return said["top"]
    return TopLabel.of(said["proba"]) if "proba" in said else None


def single_parameter(found: Predictions) -> tuple[str, float]:
    """The one parameter of a set, and its value."""
    ((name, value),) = found.params.items()
    return name, value


def ood_set_title(found: Predictions) -> str:
    """The set's name above its parameters: ``ellipse``, ``axis 30``."""
    params = ", ".join(
        f"{value:g}" if name == found.ood else f"{name} {value:g}"
        for name, value in found.params.items()
    )
    return f"{found.ood}\n{params}" if params else str(found.ood)


def mean_confidence_by_set(
    run: RunFigureData, sets: list[Predictions]
) -> dict[str, np.ndarray] | None:
    """Name → Float[s], mean confidence on each of the sets; None where a model does not
    classify.
    """
    said = [run.confidence(found) for found in sets]
    if any(each is None for each in said):
        return None
    return {name: np.array([each[name].mean() for each in said if each]) for name in run.names}


TableColumns = dict[str, np.ndarray]


def columns_by_model(run: RunFigureData, table: str) -> dict[str, TableColumns] | None:
    """Name of each of the two models → the columns of its rows on the test set; None where the
    table was not measured.
    """
    rows = [row for row in run.evaluation.tables.get(table, []) if row["on"] == "test"]
    if not rows:
        return None
    columns = [column for column in rows[0] if column not in ("of", "on", "ood")]
    of = dict(zip(run.names, ("parent", "calibrated"), strict=True))
    return {
        name: {
            column: np.array([row[column] for row in rows if row["of"] == one])
            for column in columns
        }
        for name, one in of.items()
    }


def select_column(found: Mapping[str, TableColumns], column: str) -> TableColumns:
    """Name → one of its columns."""
    return {name: columns[column] for name, columns in found.items()}
