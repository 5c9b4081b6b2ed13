"""The last stage: parent and calibrated model on test rows and, where asked for, on calibration
rows; on the paper's grid, and on every out-of-distribution set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from kdgraph.base import Evaluation, FittedModel, Outputs, Predictions
from kdgraph.base.posthoc import use_class_names
from kdgraph.config.components import Node, build
from kdgraph.data.dataset import Splits
from kdgraph.metrics import TopLabel, needs, select_metric
from kdgraph.runner.measure import Spaces, labelled_rows, measure
from kdgraph.runner.stages import ood_sets, stage_rng

BYTES_AT_A_TIME = 256_000_000
"""Of the rows that are predicted in one call, unless one set is larger."""

Known = dict[str, Any]
"""Fields of :class:`Predictions` that are known of a set before it is predicted."""


def evaluate(
    parent: FittedModel,
    model: FittedModel,
    metrics: Mapping[str, Any],
    *,
    dataset: Node,
    ood: Node,
    splits: Splits,
    seed: int,
    parent_outputs: Sequence[Outputs] | None = None,
    spaces: Spaces | None = None,
) -> Evaluation:
    """Measure every metric wherever the config asks for it, of the parent and of the calibrated
    model.

    Sets are predicted together, as many as fit into :data:`BYTES_AT_A_TIME`: a forest pays for each
    of its trees at every call, 50 ms for 500 of them. They are drawn when it is their turn, so that
    40 sets of images never lie in memory at once.

    ``required_method`` is the parent's part of an earlier evaluation on the same sets: methods on one
    parent need not ask it again.

    ``spaces`` says where rows lie in the spaces that metrics name.

    A model that scores sets of rows draws its own from each set, with a generator that is made of
    the seed and of what the set is called: neither other sets nor other models change what is
    drawn.
    """
    known = None if parent_outputs is None else iter(parent_outputs)
    answers = [answers_of(each, metrics) for each in (parent, model)]
    predictions = []
    for group in _groups(
        _sets(dataset, ood, splits, {on for on, wanted in metrics.items() if wanted}, seed),
        BYTES_AT_A_TIME,
    ):
        predictions += _predicted(group, (parent, model), answers, known, seed)
    with use_class_names(splits.train.classes.tolist()):
        _look(model, predictions)
    return Evaluation(
        *measure(predictions, metrics, splits, str(dataset["name"]), spaces), predictions
    )


def _look(model: FittedModel, predictions: Sequence[Predictions]) -> None:
    """Let parts that know which scores they were fitted on look at those of the test rows, and
    warn.
    """
    said = next(found for found in predictions if found.role == "test").parent
    for part in model.post_hoc.values():
        if hasattr(part, "warn_of_unseen_scores") and "proba" in said:
            part.warn_of_unseen_scores(TopLabel.from_proba(said["proba"]))


def answers_of(model: FittedModel, metrics: Mapping[str, Any]) -> list[str]:
    """What to ask the model: what it says by itself of every row, and what the metrics need beside
    it.
    """
    return [
        *(answer for answer in ("proba", "top_label", "distribution") if model.supports(answer)),
        *asked_for(metrics),
    ]


def asked_for(metrics: Mapping[str, Any]) -> list[str]:
    """Answers that a model gives only where a metric needs them, since they cost something of their
    own.
    """
    wanted = {
        need
        for names in metrics.values()
        for key, node in (names or {}).items()
        for need in needs(select_metric(key, node)[0])
    }
    return ["ood_score"] if {"ood_score", "id_score"} & wanted else []


def _predicted(
    group: list[tuple[np.ndarray, Known]],
    models: tuple[FittedModel, FittedModel],
    answers: Sequence[Sequence[str]],
    says: Iterator[Outputs] | None,
    seed: int,
) -> list[Predictions]:
    """What both models say of the sets of one group, which is emptied; no row's prediction depends
    on the rows beside it.
    """
    each, known = [X for X, _ in group], [given for _, given in group]
    # the last to hold the sets beside their rows in one piece: 190 MB less with images
    group.clear()
    ends = np.cumsum([0, *map(len, each)])
    rows = _together(each)
    parent, calibrated = models
    by_parent = (
        _said(parent, answers[0], rows, ends, known, seed)
        if says is None
        else [next(says) for _ in known]
    )
    by_model = (
        _said(calibrated, answers[1], rows, ends, known, seed) if calibrated.post_hoc else by_parent
    )
    sizes = np.diff(ends).tolist()
    return [
        Predictions(n_rows=n, parent=a, calibrated=b, **given)
        for n, a, b, given in zip(sizes, by_parent, by_model, known, strict=True)
    ]


def _said(
    model: FittedModel,
    answers: Sequence[str],
    rows: np.ndarray,
    ends: np.ndarray,
    known: Sequence[Known],
    seed: int,
) -> list[Outputs]:
    """What the model says of each set: of all rows at once, and cut; a score of sets of each set by
    itself.
    """
    of_sets = "ood_score" in answers and model.has_set_scores
    told = model.predict_outputs(
        [answer for answer in answers if not (of_sets and answer == "ood_score")],
        rows,
        _groups_of(known, ends),
    )
    said = [
        {answer: value[low:high] for answer, value in told.items()}
        for low, high in pairwise(ends.tolist())
    ]
    if of_sets:
        for each, about, (low, high) in zip(said, known, pairwise(ends.tolist()), strict=True):
            name = [about["role"], about.get("ood_name"), *sorted(about.get("params", {}).items())]
            each["ood_score"] = model.score_sets(
                rows[low:high], stage_rng(seed, f"sets drawn from {name}")
            )
    return said


def _groups_of(known: Sequence[Known], ends: np.ndarray) -> np.ndarray | None:
    """Int[n]: the subgroup of each row of several sets, -1 where nobody knows it; None where no set
    has any.
    """
    given = [about.get("groups") for about in known]
    if all(groups is None for groups in given):
        return None
    sizes = np.diff(ends).tolist()
    return np.concatenate(
        [
            np.full(n, -1) if groups is None else groups
            for n, groups in zip(sizes, given, strict=True)
        ]
    )


def _together(each: list[np.ndarray]) -> np.ndarray:
    """Rows of several sets in one piece; the list is emptied."""
    rows = np.concatenate(each) if len(each) > 1 else each[0]
    each.clear()
    return rows


def _groups(
    sets: Iterable[tuple[np.ndarray, Known]], at_most: int
) -> Iterator[list[tuple[np.ndarray, Known]]]:
    """Consecutive sets whose rows together have ``at_most`` bytes, or one larger set; one more is
    drawn before a group is given.
    """
    group: list[tuple[np.ndarray, Known]] = []
    for X, known in sets:
        if group and sum(other.nbytes for other, _ in group) + X.nbytes > at_most:
            yield group
            group = []
        group.append((X, known))
    yield group


def _sets(
    dataset: Node, ood: Node, splits: Splits, asked_on: Collection[str], seed: int
) -> Iterator[tuple[np.ndarray, Known]]:
    """Rows to predict, in scaled features, and what is known about them; calibration rows and the
    grid only where something is asked.
    """
    for on, rows in labelled_rows(splits).items():
        if on == "test" or (on in asked_on and len(rows.y)):
            known = {"role": on, "y": rows.y, "truth": rows.truth, "groups": rows.groups}
            yield rows.X, {**known, "source_rows": rows.source_rows}
    source = build(dataset)
    if "grid" in asked_on and hasattr(source, "posterior_on_paper_grid"):
        from kdgraph.data.simulations import paper_grid

        grid = paper_grid()
        yield (
            splits.scaling.apply(grid),
            {"role": "grid", "truth": source.posterior_on_paper_grid(grid)},
        )
    for drawn in ood_sets(ood, splits, seed):
        example = (
            np.rint(255 * drawn.X[0].clip(0, 1)).astype(np.uint8) if drawn.X.ndim == 4 else None
        )
        known = {
            "ood_name": drawn.name,
            "params": drawn.params,
            "id_values": drawn.id_values,
            "facts": drawn.facts,
        }
        yield (
            drawn.X,
            {"role": "ood", **known, "example": example, "source_rows": drawn.source_rows},
        )
