"""The figures of one run: which ones the data allow, and the arrays that they are drawn from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kdgraph.data.dataset import Splits
from kdgraph.run_config import FigureOptions
from kdgraph.runner.evaluate import Evaluation, Predictions

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MOST_CLASSES = 4
"""Of which a training image is shown among the examples."""


@dataclass(frozen=True)
class Drawing:
    """What the figures of a run are drawn from; ``names`` are what parent and calibrated model are called in them."""

    options: FigureOptions
    splits: Splits
    evaluation: Evaluation
    parent: Any
    model: Any
    names: tuple[str, str]

    def save(self, folder: Path) -> list[str]:
        """Draw and write every figure that is wanted and possible; returns file names."""
        if not self.options.draw:
            return []
        from kdgraph.figures import save

        folder.mkdir(parents=True, exist_ok=True)
        formats, dpi = self.options.formats, self.options.dpi
        return [path.name for name, figure in self._figures() for path in save(figure, folder / name, formats, dpi)]

    def _figures(self) -> Iterator[tuple[str, Figure]]:
        for name in self.options.draw:
            if figure := DRAWN_BY[name](self):
                yield name, figure

    def _posterior_maps(self) -> Figure | None:
        from kdgraph.figures import posterior_maps

        X = self.splits.train.X
        if X.shape[1:] != (2,):
            return None
        low, high = X.min(axis=0), X.max(axis=0)
        reach = self.options.map_reach * (high - low) / 2
        x, y = np.linspace((low + high) / 2 - reach, (low + high) / 2 + reach, self.options.map_grid).T
        points = np.column_stack([axis.ravel() for axis in np.meshgrid(x, y)])
        probabilities = {} if self.splits.test.posterior is None else {"truth": self.splits.test.posterior(points)}
        for name, model in zip(self.names, (self.parent, self.model), strict=True):
            probabilities[name] = model.predict_proba(points)
        maps = {name: proba[:, 0].reshape(len(y), len(x)) for name, proba in probabilities.items()}
        step_x, step_y = (x[1] - x[0]) / 2, (y[1] - y[0]) / 2
        extent = (x[0] - step_x, x[-1] + step_x, y[0] - step_y, y[-1] + step_y)
        id_box = (low[0], high[0], low[1], high[1])
        return posterior_maps(maps, extent, id_box, class_label=f"P(class {self.splits.train.classes[0]} | x)")

    def _reliability_diagram(self) -> Figure:
        from kdgraph.figures import reliability_diagram
        from kdgraph.metrics import ece, reliability_bins

        (test,) = [found for found in self.evaluation.predictions if found.on == "test"]
        y = np.asarray(test.y)
        bins, errors = {}, {}
        for name, proba in self._of(test).items():
            correct = proba.argmax(axis=1) == y
            bins[name] = reliability_bins(proba.max(axis=1), correct, **self.options.reliability)
            errors[name] = ece(y, proba, **self.options.reliability)
        return reliability_diagram(bins, ece=errors)

    def _confidence_against_radius(self) -> Figure | None:
        from kdgraph.figures import confidence_against_radius

        shells = [found for found in self.evaluation.predictions if "radius" in found.params]
        shells.sort(key=lambda shell: shell.params["radius"])
        if len(shells) < 2:
            return None
        radii = np.array([shell.params["radius"] for shell in shells])
        curves = {name: np.array([self._of(shell)[name].max(axis=1).mean() for shell in shells]) for name in self.names}
        return confidence_against_radius(curves, radii, float(self.splits.prior.max()))

    def _confidence_against_shift(self) -> Figure | None:
        from kdgraph.figures import confidence_against_shift

        families = {axis_label(family[0]): family for family in self._families() if len(family) > 1 and "radius" not in family[0].params}
        if not families:
            return None
        curves = {
            label: {name: np.array([self._of(one)[name].max(axis=1).mean() for one in family]) for name in self.names}
            for label, family in families.items()
        }
        values = {label: np.array([parameter_of(one)[1] for one in family]) for label, family in families.items()}
        id_values = {label: family[0].id_values for label, family in families.items()}
        return confidence_against_shift(curves, values, float(self.splits.prior.max()), id_values=id_values)

    def _confidence_by_set(self) -> Figure | None:
        """Of the sets that are one of a kind; a family of many has a curve."""
        from kdgraph.figures import confidence_by_set

        alone = [family[0] for family in self._families() if len(family) == 1]
        if not alone:
            return None
        (test,) = [found for found in self.evaluation.predictions if found.on == "test"]
        titles = {"test, in distribution": test} | {example_title(found).replace("\n", ", "): found for found in alone}
        sets = {
            f"{title}: {len(found.parent):,} rows": {name: proba.max(axis=1) for name, proba in self._of(found).items()}
            for title, found in titles.items()
        }
        return confidence_by_set(sets, float(self.splits.prior.max()))

    def _example_images(self) -> Figure | None:
        """A training image of each of a few classes, and one of each family out of distribution, from the set that is farthest out."""
        from kdgraph.figures import image_row

        train = self.splits.train
        if not train.are_images or train.X.shape[1] not in (1, 3):
            return None
        shown = {str(label): train.X[train.y == k][0] for k, label in enumerate(train.classes[:MOST_CLASSES].tolist())}
        for family in self._families():
            farthest = max(family, key=distance_from_training)
            if farthest.example is not None:
                shown[example_title(farthest)] = farthest.example
        return image_row(list(shown.values()), list(shown))

    def _families(self) -> list[list[Predictions]]:
        """Out-of-distribution sets of one name and parameter, in order of its value; a set with more parameters, or none, is alone."""
        by_name: dict[tuple[Any, ...], list[Predictions]] = {}
        for found in self.evaluation.predictions:
            if found.on == "ood":
                by_name.setdefault((found.ood, *(found.params if len(found.params) == 1 else found.params.items())), []).append(found)
        return [sorted(family, key=lambda one: tuple(one.params.values())) for family in by_name.values()]

    def _of(self, found: Predictions) -> dict[str, np.ndarray]:
        return dict(zip(self.names, (found.parent, found.calibrated), strict=True))


def parameter_of(found: Predictions) -> tuple[str, float]:
    """The one parameter of a set, and its value."""
    ((name, value),) = found.params.items()
    return name, value


def distance_from_training(found: Predictions) -> float:
    """How far a set's parameter is from where its family meets the training data; the value itself where it does not say."""
    if len(found.params) != 1:
        return 0.0
    value = parameter_of(found)[1]
    return min((abs(value - known) for known in found.id_values), default=value)


def axis_label(found: Predictions) -> str:
    """``axis of the ellipse``; ``intensity`` alone where family and parameter have one name."""
    name = parameter_of(found)[0]
    return name if name == found.ood else f"{name} of the {found.ood}"


def example_title(found: Predictions) -> str:
    """The set's name above its parameters: ``ellipse``, ``axis 30``."""
    params = ", ".join(f"{value:g}" if name == found.ood else f"{name} {value:g}" for name, value in found.params.items())
    return f"{found.ood}\n{params}" if params else str(found.ood)


DRAWN_BY: dict[str, Callable[[Drawing], Any]] = {
    "posterior_maps": Drawing._posterior_maps,
    "reliability_diagram": Drawing._reliability_diagram,
    "confidence_against_radius": Drawing._confidence_against_radius,
    "confidence_against_shift": Drawing._confidence_against_shift,
    "confidence_by_set": Drawing._confidence_by_set,
    "example_images": Drawing._example_images,
}
