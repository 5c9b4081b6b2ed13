"""The last stage: parent and calibrated model on test rows, on the paper's grid, and on every out-of-distribution set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kdgraph.components import Node, build
from kdgraph.data.dataset import Dataset, Splits
from kdgraph.metrics import score
from kdgraph.runner.stages import stage_rng

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Predictions:
    """What parent and calibrated model say about one set of rows.

    Attributes
    ----------
    on : "test", "grid" or "ood".
    ood : name of the set if it is out of distribution, and ``params`` which of its family, e.g. ``{"radius": 2.0}``.
    parent, calibrated : Float[n, K].
    y : Int[n] or None; truth : Float[n, K] or None.
    """

    on: str
    parent: np.ndarray
    calibrated: np.ndarray
    ood: str | None = None
    params: Mapping[str, float] = field(default_factory=dict)
    y: np.ndarray | None = None
    truth: np.ndarray | None = None


@dataclass(frozen=True)
class Evaluation:
    """Entries of the record's ``metrics``, and the predictions that they were computed from."""

    metrics: list[dict[str, Any]]
    predictions: list[Predictions]

    def frame(self, classes: np.ndarray) -> pd.DataFrame:
        """One row for each test and out-of-distribution row: set, its params, row, label, probabilities of parent and calibrated."""
        import pandas as pd

        frames = []
        for found in self.predictions:
            if found.on == "grid":
                continue
            n = len(found.parent)
            label = classes[found.y] if found.y is not None else [None] * n
            columns: dict[str, Any] = {
                "set": found.ood or found.on,
                **found.params,
                "row": np.arange(n),
                "y": pd.array(label, dtype=object),
            }
            for of, proba in (("parent", found.parent), ("calibrated", found.calibrated)):
                columns |= {f"{of}_{name}": proba[:, k] for k, name in enumerate(classes.tolist())}
            frames.append(pd.DataFrame(columns, index=np.arange(n)))
        return pd.concat(frames, ignore_index=True)


def evaluate(dataset: Node, ood: Node, metrics: Mapping[str, Any], splits: Splits, parent: Any, model: Any, *, seed: int) -> Evaluation:
    """Measure every metric wherever the config asks for it, of the parent and of the calibrated model.

    All sets are predicted in one call: a forest pays for each of its trees at every call, 50 ms for 500 of them.
    """
    rows, known = zip(*_sets(dataset, ood, splits, bool(metrics.get("grid")), seed), strict=True)
    ends = np.cumsum([len(X) for X in rows])[:-1]
    by_model = (np.split(of.predict_proba(np.concatenate(rows)), ends) for of in (parent, model))
    predictions = [Predictions(parent=a, calibrated=b, **given) for a, b, given in zip(*by_model, known, strict=True)]
    source = str(dataset["name"])
    entries = [entry for found in predictions for entry in _entries(found, metrics.get(found.on) or {}, splits.prior, source)]
    return Evaluation(entries, predictions)


def _sets(dataset: Node, ood: Node, splits: Splits, with_grid: bool, seed: int) -> Iterator[tuple[np.ndarray, dict[str, Any]]]:
    """Rows to predict, in scaled features, and what is known about them."""
    test: Dataset = splits.test
    yield test.X, {"on": "test", "y": test.y, "truth": None if test.posterior is None else test.posterior(test.X)}
    source = build(dataset)
    if with_grid and hasattr(source, "posterior_on_paper_grid"):
        from kdgraph.data.simulations import paper_grid

        grid = paper_grid()
        yield splits.scaling.apply(grid), {"on": "grid", "truth": source.posterior_on_paper_grid(grid)}
    sampler = build(ood)
    for drawn in sampler.sets(splits.train, stage_rng(seed, "ood")) if sampler else []:
        yield drawn.X, {"on": "ood", "ood": drawn.name, "params": drawn.params}


def _entries(found: Predictions, wanted: Mapping[str, Any], prior: np.ndarray, source: str) -> Iterator[dict[str, Any]]:
    where = {"on": found.on, "ood": found.ood, "params": dict(found.params)}
    for metric, options in wanted.items():
        for of, proba in (("parent", found.parent), ("calibrated", found.calibrated)):
            inputs = {"y": found.y, "proba": proba, "prior": prior, "truth": found.truth}
            yield {"metric": metric, "of": of, **where, **asdict(score(metric, inputs, options, source=source))}
