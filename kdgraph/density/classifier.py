"""What kernel density forests and networks share: everything but the partition."""

# No `from __future__ import annotations`: the generated __init__ of a subclass in another module must carry types, not their names.
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np

from kdgraph.density.floor import blend, conformal_log_floor, ood_score, printed_log_floor
from kdgraph.density.graph import Distance, blocks_of
from kdgraph.density.published import FOREST, Published
from kdgraph.density.search import Criterion
from kdgraph.density.variants import VARIANTS, Name, Options
from kdgraph.geometry import Partition, partition_of
from kdgraph.parameters import Count, OpenFraction, Positive, Share
from kdgraph.parents import PostHocClassifier, Rows


@dataclass(eq=False, repr=False)
class KernelDensityClassifier(PostHocClassifier):
    """A parent whose probabilities are calibrated inside the training distribution and fall back to the class prior far outside it.

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
    alpha: OpenFraction = 0.005
    min_weight: Share = 1e-9
    distance: Distance | None = None
    lend_calibration: bool = True
    max_polytopes: Count | OpenFraction | None = None
    calibration_size: OpenFraction = 0.3
    n_jobs: int | None = None
    random_state: Any = None

    published: ClassVar[Published] = FOREST

    def _carrier(self) -> Any:
        return self._default_estimator()

    def _partition(self) -> Partition:
        return partition_of(self.estimator_, n_jobs=self.n_jobs)

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        own = {field.name: getattr(self, field.name) for field in fields(Options) if field.name != "published"}
        fitted = VARIANTS[self.variant](self._partition(), train, calibration, self.prior_, Options(**own, published=self.published))
        self.graph_, self.posterior_ = fitted.graph, fitted.posterior
        floor = fitted.log_floor if self.floor is None else self.floor
        if floor == "paper":
            floor = printed_log_floor(len(train))
        self.log_floor_ = conformal_log_floor(fitted.held_out_log_density, self.alpha) if floor in (None, "auto") else float(floor)

    def predict_proba(self, X) -> np.ndarray:
        """Float[n, K]: calibrated class probabilities; rows are finite and sum to 1 however far ``X`` (Float[n, d]) is from the data."""
        return self.proba_and_log_density(X)[0]

    def log_density(self, X) -> np.ndarray:
        """Float[n]: the log density f that the floor is held against, that of the nearest polytope; -inf where none shares anything."""
        return self.proba_and_log_density(X)[1]

    def ood_score(self, X) -> np.ndarray:
        """Float[n]: log floor - log density. Higher is farther from the training data, and above 0 the prior has more than half the say."""
        return ood_score(self.log_density(X), self.log_floor_)

    def proba_and_ood_score(self, X) -> tuple[np.ndarray, np.ndarray]:
        """:meth:`predict_proba` and :meth:`ood_score`, as :meth:`proba_and_log_density`."""
        proba, log_density = self.proba_and_log_density(X)
        return proba, ood_score(log_density, self.log_floor_)

    def proba_and_log_density(self, X) -> tuple[np.ndarray, np.ndarray]:
        """:meth:`predict_proba` and :meth:`log_density`, which one visit to the graph gives both."""
        proba, log_density = zip(*(self._visited(block) for block in blocks_of(self._checked(X))), strict=True)
        return np.concatenate(proba), np.concatenate(log_density)

    def _visited(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        visit = self.graph_.visit(self.graph_.partition.place(X), self.posterior_.exponents)
        posterior, log_density = self.posterior_(visit, self.graph_)
        min_weight = self.min_weight if self.variant == "kdgraph" else 0.0
        return blend(posterior, self.prior_, log_density, self.log_floor_, min_weight), log_density

    def describe(self) -> dict[str, float | int]:
        """What was learnt, for the record: polytopes, the share of them that hold one row, what the search chose, the log floor."""
        polytopes, chosen = self.graph_.polytopes, ("exponent", "pseudo_count", "vote_share", "vote_power")
        return {
            "n_polytopes": len(polytopes),
            "singleton_share": polytopes.singleton_share,
            **{name: getattr(self.posterior_, name) for name in chosen if hasattr(self.posterior_, name)},
            "log_floor": self.log_floor_,
        }
