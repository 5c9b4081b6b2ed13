"""What kernel density forests and networks (Dey et al., Sections 3.3 and 4) share: everything but the partition."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np

from kdgraph.density.floor import blend, conformal_log_floor, printed_log_floor
from kdgraph.density.floored import FlooredClassifier
from kdgraph.density.graph import Distance, blocks_of
from kdgraph.density.published import FOREST, Published
from kdgraph.density.search import Criterion
from kdgraph.density.variants import VARIANTS, Name, Options
from kdgraph.geometry import Partition
from kdgraph.parameters import Count, OpenFraction, Positive, Share
from kdgraph.parents import Rows


@dataclass(eq=False, repr=False)
class KernelDensityClassifier(FlooredClassifier):
    """A parent whose probabilities are calibrated inside the training distribution and fall back to the class prior far outside it.

    Dey et al. (2024), Eq. 4 to 15.

    Parameters and attributes are explained in :class:`~kdgraph.density.KernelDensityForest`; a subclass says how its parent is read.
    """

    estimator: Any = None
    _: KW_ONLY
    variant: Name = "kdgraph"
    k: Positive | Literal["auto"] = "auto"
    pseudo_count: Positive | Literal["auto"] = "auto"
    vote_share: Share | Literal["auto"] = "auto"
    vote_power: Positive | Literal["auto"] = "auto"
    criterion: Criterion = "nll"
    floor: float | Literal["auto", "paper"] | None = None
    distance: Distance | None = None
    lend_calibration: bool = True
    max_polytopes: Count | OpenFraction | None = None

    published: ClassVar[Published] = FOREST

    def _carrier(self) -> Any:
        return self._default_estimator()

    def _partition(self) -> Partition:
        return self._partition_of(self.estimator_)

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        own = {field.name: getattr(self, field.name) for field in fields(Options) if field.name != "published"}
        fitted = VARIANTS[self.variant](self._partition(), train, calibration, self.prior_, Options(**own, published=self.published))
        self.graph_, self.posterior_ = fitted.graph, fitted.posterior
        floor = fitted.log_floor if self.floor is None else self.floor
        if floor == "paper":
            floor = printed_log_floor(len(train))
        self.log_floor_ = conformal_log_floor(fitted.held_out_log_density, self.alpha) if floor in (None, "auto") else float(floor)

    def proba_and_log_density(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Float[n, K] and Float[n]: :meth:`predict_proba` and :meth:`log_density` of the rows X (Float[n, d]), in blocks."""
        proba, log_density = zip(*(self._visited(block) for block in blocks_of(self._checked(X))), strict=True)
        return np.concatenate(proba), np.concatenate(log_density)

    def _visited(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        visit = self.graph_.visit(self.graph_.partition.place(X), self.posterior_.exponents)
        posterior, log_density = self.posterior_(visit, self.graph_)
        min_weight = self.min_weight if self.variant == "kdgraph" else 0.0
        return blend(posterior, self.prior_, log_density, self.log_floor_, min_weight), log_density

    def _chosen(self) -> dict[str, float]:
        names = ("exponent", "pseudo_count", "vote_share", "vote_power")
        return {name: getattr(self.posterior_, name) for name in names if hasattr(self.posterior_, name)}
