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
        if X.shape[1] != 2:
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

    def _of(self, found: Predictions) -> dict[str, np.ndarray]:
        return dict(zip(self.names, (found.parent, found.calibrated), strict=True))


DRAWN_BY: dict[str, Callable[[Drawing], Any]] = {
    "posterior_maps": Drawing._posterior_maps,
    "reliability_diagram": Drawing._reliability_diagram,
    "confidence_against_radius": Drawing._confidence_against_radius,
}
