"""The last stage: parent and calibrated model on test rows, on the paper's grid, and on every out-of-distribution set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kdgraph.components import Node, build
from kdgraph.data.dataset import Dataset, Splits
from kdgraph.metrics import score
from kdgraph.runner.stages import stage_rng

if TYPE_CHECKING:
    import pandas as pd

BYTES_AT_A_TIME = 256_000_000
"""Of the rows that are predicted in one call, unless one set is larger."""

Known = dict[str, Any]
"""Fields of :class:`Predictions` that are known of a set before it is predicted."""


@dataclass(frozen=True)
class Predictions:
    """What parent and calibrated model say about one set of rows.

    Attributes
    ----------
    on : "test", "grid" or "ood".
    ood : name of the set if it is out of distribution, and ``params`` which of its family, e.g. ``{"radius": 2.0}``.
    parent, calibrated : Float[n, K].
    y : Int[n] or None; truth : Float[n, K] or None.
    id_values : values of the one parameter in ``params`` at which the family is in distribution.
    example : UInt8[c, h, w] or None, the first image of an out-of-distribution set; values outside [0, 1] are cut off.
    facts : where an out-of-distribution set comes from and what was done to its rows.
    """

    on: str
    parent: np.ndarray
    calibrated: np.ndarray
    ood: str | None = None
    params: Mapping[str, float] = field(default_factory=dict)
    y: np.ndarray | None = None
    truth: np.ndarray | None = None
    id_values: tuple[float, ...] = ()
    example: np.ndarray | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def in_distribution(self) -> bool:
        """Whether the set is where its family meets the training data."""
        return len(self.params) == 1 and next(iter(self.params.values())) in self.id_values


@dataclass(frozen=True)
class Evaluation:
    """Entries of the record's ``metrics``, and the predictions that they were computed from."""

    metrics: list[dict[str, Any]]
    predictions: list[Predictions]

    @property
    def ood_sets(self) -> list[dict[str, Any]]:
        """Name, number of rows and facts of the out-of-distribution sets that come from elsewhere."""
        return [{"name": found.ood, "n": len(found.parent), "source": dict(found.facts)} for found in self.predictions if found.facts]

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


def evaluate(
    parent: Any,
    model: Any,
    metrics: Mapping[str, Any],
    *,
    dataset: Node,
    ood: Node,
    splits: Splits,
    seed: int,
    parent_says: Sequence[np.ndarray] | None = None,
) -> Evaluation:
    """Measure every metric wherever the config asks for it, of the parent and of the calibrated model.

    Sets are predicted together, as many as fit into :data:`BYTES_AT_A_TIME`: a forest pays for each of its trees at every call, 50 ms
    for 500 of them. They are drawn when it is their turn, so that 40 sets of images never lie in memory at once.

    ``parent_says`` is the parent's part of an earlier evaluation on the same sets: methods on one parent need not ask it again.
    """
    known = None if parent_says is None else iter(parent_says)
    predictions = []
    for group in _groups(_sets(dataset, ood, splits, bool(metrics.get("grid")), seed), BYTES_AT_A_TIME):
        predictions += _predicted(group, parent, model, known)
    source = str(dataset["name"])
    entries = [entry for found in predictions for entry in _entries(found, metrics.get(found.on) or {}, splits.prior, source)]
    return Evaluation(entries, predictions)


def _predicted(group: list[tuple[np.ndarray, Known]], parent: Any, model: Any, says: Iterator[np.ndarray] | None) -> list[Predictions]:
    """What both models say of the sets of one group, which is emptied; no row's prediction depends on the rows beside it."""
    each, known = [X for X, _ in group], [given for _, given in group]
    group.clear()  # the last to hold the sets beside their rows in one piece: 190 MB less with images
    rows, ends = _together(each)
    by_parent = np.split(parent.predict_proba(rows), ends) if says is None else [next(says) for _ in known]
    by_model = np.split(model.predict_proba(rows), ends)
    return [Predictions(parent=a, calibrated=b, **given) for a, b, given in zip(by_parent, by_model, known, strict=True)]


def _together(each: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Rows of several sets in one piece, and where the next one begins; the list is emptied."""
    ends = np.cumsum([len(X) for X in each])[:-1]
    rows = np.concatenate(each) if len(each) > 1 else each[0]
    each.clear()
    return rows, ends


def _groups(sets: Iterable[tuple[np.ndarray, Known]], at_most: int) -> Iterator[list[tuple[np.ndarray, Known]]]:
    """Consecutive sets whose rows together have ``at_most`` bytes, or one larger set; one more is drawn before a group is given."""
    group: list[tuple[np.ndarray, Known]] = []
    for X, known in sets:
        if group and sum(other.nbytes for other, _ in group) + X.nbytes > at_most:
            yield group
            group = []
        group.append((X, known))
    yield group


def _sets(dataset: Node, ood: Node, splits: Splits, with_grid: bool, seed: int) -> Iterator[tuple[np.ndarray, Known]]:
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
        example = np.rint(255 * drawn.X[0].clip(0, 1)).astype(np.uint8) if drawn.X.ndim == 4 else None
        known = {"ood": drawn.name, "params": drawn.params, "id_values": drawn.id_values, "facts": drawn.facts}
        yield splits.scaling.apply(drawn.X) if drawn.as_measured else drawn.X, {"on": "ood", **known, "example": example}


def _entries(found: Predictions, wanted: Mapping[str, Any], prior: np.ndarray, source: str) -> Iterator[dict[str, Any]]:
    where = {"on": found.on, "ood": found.ood, "params": dict(found.params)}
    if found.in_distribution:
        where["in_distribution"] = True
    for metric, options in wanted.items():
        for of, proba in (("parent", found.parent), ("calibrated", found.calibrated)):
            inputs = {"y": found.y, "proba": proba, "prior": prior, "truth": found.truth}
            yield {"metric": metric, "of": of, **where, **asdict(score(metric, inputs, options, source=source))}
