"""The last stage: outputs and metrics of the parent and of the calibrated model.

They are measured on test rows and, where a metric requires it, on calibration rows, on the grid of
a paper, and on every out-of-distribution set.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np

from kdgraph.base import Evaluation, FittedModel, Outputs, Predictions, SetScores
from kdgraph.config.components import Node, build
from kdgraph.data.dataset import Dataset, OodSet, Splits
from kdgraph.data.mapped_rows import is_mapped, release_rows
from kdgraph.distributions import ConcatenatedDistribution, Distribution
from kdgraph.metrics import (
    METRICS,
    Score,
    TopLabel,
    cache_scope,
    needs,
    score,
    select_metric,
    space_option,
    tabulate,
)
from kdgraph.metrics.inputs import MODEL_OUTPUTS, Groups
from kdgraph.runner.store import stage_rng
from kdgraph.wording import use_class_names

BATCH_BYTES = 256_000_000
"""Size of the rows that are predicted in one call; a larger set is predicted in blocks."""
SET_BLOCK_BYTES = 32_000_000
"""Size of such a block, so that a model needs little memory besides its outputs."""

Entry = dict[str, Any]
RowsInSpace = Callable[[str, str], np.ndarray]
"""(name of a space, "test" or "calibration") → Float64[n, m], the rows in that space."""
SetFields = dict[str, Any]
"""Fields of :class:`Predictions` that are there before a set is predicted."""


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
    spaces: RowsInSpace | None = None,
) -> Evaluation:
    """Compute every metric of the parent and of the calibrated model, wherever the config wants it.

    Sets are predicted together, as many as fit into :data:`BATCH_BYTES`: a forest pays for each of
    its trees at every call, 50 ms for 500 of them. A larger set is predicted in blocks, and its
    outputs are joined. Sets are drawn just before they are predicted, so that 40 sets of images
    never lie in memory at the same time.

    A model that scores sets of rows draws its own from each set, with a generator that depends on
    the seed and on the set's name: neither other sets nor other models change what is drawn.

    ``metrics`` and ``spaces`` are those of :func:`measure`. ``parent_outputs`` are the parent's of
    an earlier evaluation on the same sets, which are not computed again.
    """
    stored_outputs = None if parent_outputs is None else iter(parent_outputs)
    outputs = [_outputs_of(parent, metrics), _outputs_of(model, metrics)]
    roles = {role for role, wanted in metrics.items() if wanted}
    predictions = []
    for batch in _batches(_sets(dataset, ood, splits, roles, seed), BATCH_BYTES):
        predictions += _predict(batch, (parent, model), outputs, stored_outputs, seed)
    with use_class_names(splits.train.classes.tolist()):
        _warn_of_unseen_scores(model, predictions)
    return Evaluation(
        *measure(predictions, metrics, splits, str(dataset["name"]), spaces), predictions
    )


def ood_sets(ood: Node | None, splits: Splits, seed: int) -> Iterable[OodSet]:
    """Yield the OOD sets of a run, drawn one at a time; each call yields the same."""
    source = build(ood) if ood is not None else None
    return source.sets(splits, stage_rng(seed, "ood")) if source is not None else []


def labelled_rows(splits: Splits) -> dict[str, Dataset]:
    """Return role → rows of the data set that metrics can be computed on."""
    return {"test": splits.test, "calibration": splits.calibration}


def required_outputs(metrics: Mapping[str, Any]) -> list[str]:
    """Return the outputs that are computed only if a metric needs them, as they cost extra time."""
    needed = {
        need
        for nodes in metrics.values()
        for key, node in (nodes or {}).items()
        for need in needs(select_metric(key, node)[0])
    }
    inputs = {"ood_score": {"ood_score", "id_score"}, "ood_p_value": {"ood_p_value", "id_p_value"}}
    return [output for output, names in inputs.items() if names & needed]


def _outputs_of(model: FittedModel, metrics: Mapping[str, Any]) -> list[str]:
    """Return the outputs to compute: those of every row, and those that the metrics need."""
    per_row = ("proba", "top_label", "distribution", "prediction_set")
    required = [
        name for name in required_outputs(metrics) if name == "ood_score" or model.supports(name)
    ]
    return [*(name for name in per_row if model.supports(name)), *required]


def _test_predictions(predictions: Sequence[Predictions]) -> Predictions:
    return next(entry for entry in predictions if entry.role == "test")


def _warn_of_unseen_scores(model: FittedModel, predictions: Sequence[Predictions]) -> None:
    """Let components that store the range of their scores compare those of the test rows."""
    outputs = _test_predictions(predictions).parent
    for component in model.post_hoc.values():
        if hasattr(component, "warn_of_unseen_scores") and "proba" in outputs:
            component.warn_of_unseen_scores(TopLabel.from_proba(outputs["proba"]))


def _predict(
    batch: list[tuple[np.ndarray, SetFields]],
    models: tuple[FittedModel, FittedModel],
    outputs: Sequence[Sequence[str]],
    stored_outputs: Iterator[Outputs] | None,
    seed: int,
) -> list[Predictions]:
    """Predict the sets of a batch, and empty it."""
    arrays, fields = [X for X, _ in batch], [set_fields for _, set_fields in batch]
    # From here on only `rows` holds the sets, in one piece: 190 MB less with images.
    batch.clear()
    ends = np.cumsum([0, *map(len, arrays)])
    rows = _concatenate(arrays)
    parent, model = models
    parent_outputs = (
        _predict_sets(parent, outputs[0], rows, ends, fields, seed)
        if stored_outputs is None
        else [next(stored_outputs) for _ in fields]
    )
    model_outputs = (
        _predict_sets(model, outputs[1], rows, ends, fields, seed)
        if model.post_hoc
        else parent_outputs
    )
    return [
        Predictions(n_rows=n_rows, parent=before, calibrated=after, **set_fields)
        for n_rows, before, after, set_fields in zip(
            np.diff(ends).tolist(), parent_outputs, model_outputs, fields, strict=True
        )
    ]


def _predict_sets(
    model: FittedModel,
    outputs: Sequence[str],
    rows: np.ndarray,
    ends: np.ndarray,
    fields: Sequence[SetFields],
    seed: int,
) -> list[Outputs]:
    """Return the model's outputs of each set: all rows are predicted together, and divided then.

    A score of sets is computed of each set alone.
    """
    scores_sets = "ood_score" in outputs and model.has_set_scores
    values = _predict_rows(
        model,
        [name for name in outputs if not (scores_sets and name == "ood_score")],
        rows,
        _groups_of(fields, ends),
    )
    bounds = list(pairwise(ends.tolist()))
    by_set = [{name: value[low:high] for name, value in values.items()} for low, high in bounds]
    if scores_sets:
        for set_outputs, set_fields, (low, high) in zip(by_set, fields, bounds, strict=True):
            params = sorted(set_fields.get("params", {}).items())
            name = [set_fields["role"], set_fields.get("ood_name"), *params]
            set_outputs["ood_score"] = model.score_sets(
                rows[low:high], stage_rng(seed, f"sets drawn from {name}")
            )
    return by_set


def _predict_rows(
    model: FittedModel, outputs: Sequence[str], rows: np.ndarray, groups: np.ndarray | None
) -> Outputs:
    """Return the outputs of all rows, which are predicted in blocks if they are many."""
    if rows.nbytes <= BATCH_BYTES and not is_mapped(rows):
        return model.predict_outputs(outputs, rows, groups)
    step = max(1, SET_BLOCK_BYTES * len(rows) // rows.nbytes)
    blocks = [slice(start, start + step) for start in range(0, len(rows), step)]
    parts = []
    for block in blocks:
        of_block = None if groups is None else groups[block]
        parts.append(model.predict_outputs(outputs, rows[block], of_block))
        release_rows(rows)
    joined: Outputs = {}
    for name in list(parts[0]):
        # Each output leaves the parts as it is joined, so that it is in memory twice, not all are.
        joined[name] = _join_outputs([part.pop(name) for part in parts])
    return joined


def _join_outputs(parts: list[Any]) -> Any:
    """Return one output of consecutive blocks of rows as that of all of them."""
    first = parts[0]
    if isinstance(first, TopLabel):
        predicted = np.concatenate([part.predicted for part in parts])
        confidence = np.concatenate([part.confidence for part in parts])
        return TopLabel(predicted, confidence, first.n_classes)
    if isinstance(first, Distribution):
        ends = np.cumsum([0, *(len(part.mean()) for part in parts)])
        rows = [np.arange(low, high) for low, high in pairwise(ends.tolist())]
        return ConcatenatedDistribution.from_parts(zip(rows, parts, strict=True), int(ends[-1]))
    return np.concatenate(parts)


def _groups_of(fields: Sequence[SetFields], ends: np.ndarray) -> np.ndarray | None:
    """Return Int[n], the group of each row: -1 where it is unknown; None if all are unknown."""
    groups_by_set = [set_fields.get("groups") for set_fields in fields]
    if all(groups is None for groups in groups_by_set):
        return None
    return np.concatenate(
        [
            np.full(n_rows, -1) if groups is None else groups
            for n_rows, groups in zip(np.diff(ends).tolist(), groups_by_set, strict=True)
        ]
    )


def _concatenate(arrays: list[np.ndarray]) -> np.ndarray:
    """Return rows of several sets in one piece, and empty the list."""
    rows = np.concatenate(arrays) if len(arrays) > 1 else arrays[0]
    arrays.clear()
    return rows


def _batches(
    sets: Iterable[tuple[np.ndarray, SetFields]], max_bytes: int
) -> Iterator[list[tuple[np.ndarray, SetFields]]]:
    """Yield consecutive sets whose rows together have at most ``max_bytes``, or one larger set.

    A set that is mapped to a file is alone, since joining it to others would read it into memory.
    One set more is drawn before a batch is yielded.
    """
    batch: list[tuple[np.ndarray, SetFields]] = []
    for X, fields in sets:
        n_bytes = sum(other.nbytes for other, _ in batch) + X.nbytes
        if batch and (n_bytes > max_bytes or is_mapped(X) or is_mapped(batch[0][0])):
            yield batch
            batch = []
        batch.append((X, fields))
    yield batch


def _sets(
    dataset: Node, ood: Node, splits: Splits, roles: Collection[str], seed: int
) -> Iterator[tuple[np.ndarray, SetFields]]:
    """Yield rows to predict, in scaled features, and what is known about them.

    Calibration rows and the grid only if a metric is computed there.
    """
    for role, rows in labelled_rows(splits).items():
        if role == "test" or (role in roles and len(rows.y)):
            fields = {"role": role, "y": rows.y, "truth": rows.truth, "groups": rows.groups}
            yield rows.X, {**fields, "source_rows": rows.source_rows}
    source = build(dataset)
    if "grid" in roles and hasattr(source, "posterior_on_paper_grid"):
        from kdgraph.data.simulations import paper_grid

        grid = paper_grid()
        truth = source.posterior_on_paper_grid(grid)
        yield splits.scaling.apply(grid), {"role": "grid", "truth": truth}
    for ood_set in ood_sets(ood, splits, seed):
        are_images = ood_set.X.ndim == 4
        example = np.rint(255 * ood_set.X[0].clip(0, 1)).astype(np.uint8) if are_images else None
        fields = {
            "role": "ood",
            "ood_name": ood_set.name,
            "params": ood_set.params,
            "id_values": ood_set.id_values,
            "facts": ood_set.facts,
        }
        yield ood_set.X, {**fields, "example": example, "source_rows": ood_set.source_rows}


def measure(
    predictions: Sequence[Predictions],
    metrics: Mapping[str, Any],
    splits: Splits,
    source: str,
    spaces: RowsInSpace | None = None,
) -> tuple[list[Entry], dict[str, list[Entry]]]:
    """Return the entries of the record's ``metrics``, and the rows of each table by its name.

    A table without rows is left out. One of the two models may lack an output that a metric needs
    (a calibrator of the confidence alone predicts no probabilities): its value is None.

    ``metrics`` maps "test", "calibration", "grid" or "ood" to key → options, as
    :func:`~kdgraph.metrics.select_metric` reads them; entries and tables have the key. The test
    rows are among the predictions. ``source`` names the data in errors. A metric that names a space
    needs ``spaces``, or ValueError is raised.
    """
    test = _test_predictions(predictions)
    numbers: list[Entry] = []
    tables: dict[str, list[Entry]] = {}
    for set_predictions in predictions:
        role, wanted = set_predictions.role, metrics.get(set_predictions.role) or {}
        inputs_by_model = {
            of: _inputs(set_predictions, outputs, test.models[of], splits)
            for of, outputs in set_predictions.models.items()
        }
        with cache_scope():
            for key, name, options in _tables_first(wanted):
                space = space_option(wanted[key])
                if space is not None and spaces is None:
                    raise ValueError(
                        f"metrics.{role}.{key} measures in the space '{space}', and none is"
                        " given: pass spaces"
                    )
                for of, inputs in inputs_by_model.items():
                    if space is not None and spaces is not None:
                        inputs = {**inputs, "X": spaces(space, role)}
                    place = {"of": of, "on": role, "ood": set_predictions.ood_name}
                    outputs_needed = needs(name).intersection(MODEL_OUTPUTS)
                    has_outputs = all(inputs.get(need) is not None for need in outputs_needed)
                    units = _units(name, inputs)
                    if not METRICS[name].is_table:
                        result = (
                            score(name, inputs, options, source=source)
                            if has_outputs
                            else Score(None, None, set_predictions.n_rows)
                        )
                        entry = {
                            "metric": key,
                            **place,
                            "params": dict(set_predictions.params),
                            **(
                                {"in_distribution": True} if set_predictions.in_distribution else {}
                            ),
                            **asdict(result),
                            **units,
                        }
                        numbers.append(entry | ({"stderr": None} if units else {}))
                    elif (
                        has_outputs
                        and not units
                        and (rows := tabulate(name, inputs, options, source=source))
                    ):
                        tables.setdefault(key, []).extend(
                            {**place, **set_predictions.params, **row} for row in rows
                        )
    return numbers, tables


def _tables_first(wanted: Mapping[str, Any]) -> list[tuple[str, str, Entry]]:
    """Return key, name and options of each metric, tables before numbers.

    A table by bandwidth has computed what the number at one of its bandwidths shares with it; in
    the other order it would have to compute more.
    """
    metrics = [(key, *select_metric(key, node)) for key, node in wanted.items()]
    return sorted(metrics, key=lambda metric: not METRICS[metric[1]].is_table)


def _inputs(
    predictions: Predictions,
    outputs: Mapping[str, Any],
    test_outputs: Mapping[str, Any],
    splits: Splits,
) -> Entry:
    """Return the inputs of metrics on one set by the names of their parameters; None if absent."""
    truth = "true_distribution" if splits.prior is None else "truth"  # a regression has no classes
    inputs: Entry = {
        **outputs,
        "y": predictions.y,
        truth: predictions.truth,
        "prior": splits.prior,
    }
    if "proba" in outputs and "top_label" not in outputs:
        inputs["top_label"] = TopLabel.from_proba(outputs["proba"])
    if (rows := labelled_rows(splits).get(predictions.role)) is not None:
        inputs |= {
            "X": rows.X,
            "groups": None if rows.groups is None else Groups(rows.groups, rows.group_names),
        }
    if splits.prior is None and len(splits.calibration.y):
        inputs["mean_abs_y"] = float(np.abs(splits.calibration.y).mean())
    if predictions.role == "ood":
        inputs["id_score"] = test_outputs.get("ood_score")
        inputs["id_p_value"] = test_outputs.get("ood_p_value")
    return inputs


def _units(name: str, inputs: Mapping[str, Any]) -> Entry:
    """Return what ``n`` counts if it does not count rows.

    A score of sets is another task than one of rows, and the numbers must not be compared. Sets
    share rows, so none of these numbers has a standard error that its n would give, and no table of
    single rows is made of them.
    """
    scores = inputs.get("ood_score")
    if "ood_score" not in needs(name) or not isinstance(scores, SetScores):
        return {}
    return {
        "n_of": (
            f"sets of {scores.set_size} rows"
            if scores.unit == "set"
            else f"rows in sets of {scores.set_size}"
        )
    }


Keep = Callable[[str, Callable[[], Any]], Any]
"""(name, function) → the value stored under that name, or the function's value, stored now."""


class Spaces:
    """Rows of a run in the spaces that its config names (Luo et al., Section 3.2).

    Local metrics measure there. Each embedding is computed on first use. A feature map is fitted on
    the very rows that are measured, without their labels, as a metric's unit of distance is; so
    every method on one parent is measured in the same space, and t-SNE needs no place for other
    rows.

    ``nodes`` are those of ``metrics.spaces``, by name. ``keep`` looks embeddings up and stores
    them; without it every one is computed.
    """

    def __init__(
        self,
        nodes: Mapping[str, Node],
        parent: Any,
        splits: Splits,
        seed: int,
        keep: Keep | None = None,
    ) -> None:
        self.nodes, self.parent, self.splits, self.seed = nodes, parent, splits, seed
        self.keep: Keep = keep or (lambda name, embed: embed())
        self._embeddings: dict[tuple[str, str], np.ndarray] = {}

    def __call__(self, name: str, on: str) -> np.ndarray:
        """Return Float64[n, m], the rows ``on`` ("test", "calibration") in the space ``name``.

        Every call returns the same array.
        """
        if (name, on) not in self._embeddings:
            self._embeddings[name, on] = self.keep(f"{name} {on}", lambda: self._embed(name, on))
        return self._embeddings[name, on]

    def _embed(self, name: str, on: str) -> np.ndarray:
        X = labelled_rows(self.splits)[on].X
        seed = int(stage_rng(self.seed, f"space {name} {on}").integers(2**31 - 1))
        feature_map = build(self.nodes[name], random_state=seed)
        return feature_map.fit(self.parent, X).transform(self.parent, X)
