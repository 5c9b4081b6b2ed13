"""What rows a saved model takes and what it says of them: ``model/schema.json``."""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kdgraph.base import FittedModel
from kdgraph.config.components import Node
from kdgraph.data.dataset import Dataset, Scaling, Splits
from kdgraph.data.files.paths import path_argument, resolve_existing, sha256_of
from kdgraph.data.frames import column_names, stringify_names
from kdgraph.data.tables.score_file import ClassScoreKind as KindOfClassScores
from kdgraph.errors import DataError
from kdgraph.parameters import annotations_of, check_value

OOD_SCORES = {
    "density": (
        "log density floor minus log density at the nearest polytope; above 0: below the floor, out"
        " of distribution"
    ),
    "detector": (
        "of the detector; higher: farther from the training data; above 0: out of distribution by"
        " its threshold"
    ),
    "confidence": "minus the top-label confidence: this model has no density",
    "sets": "none: the detector scores sets of rows, and says nothing of a row by itself",
    "none": "none: the model is a regressor without a detector",
}
ScoreKind = Literal["density", "detector", "confidence", "sets", "none"]
_FORMAT = 3
ARRAY_OF_GROUPS = "groups"
"""Where an .npz file says whom a row belongs to."""
_OF_TEXTS = ("kdgraph.data.tables.TextFile", "kdgraph.data.tables.Newsgroups")
"""Sources whose rows are texts."""


@dataclass(frozen=True)
class Feature:
    """One column.

    Attributes
    ----------
    name : of the column.
    categories : its values as text, None of a numeric one.
    date_format : of a column of dates that became numbers, see
        :func:`kdgraph.data.frames.dates.to_days`; None of any other.
    """

    name: str
    categories: list[str] | None = None
    date_format: str | None = None


@dataclass(frozen=True)
class Texts:
    """How texts become rows, as :class:`~kdgraph.data.tables.TextFile` has it.

    Attributes
    ----------
    columns : of the texts.
    n_features : columns that words are hashed into, where there are no vectors.
    vectors : the file of word vectors of the run, or None.
    vectors_sha256 : hash of that file when the run was made.
    posts : whether texts are posts of newsgroups.
    """

    columns: list[str]
    n_features: int
    vectors: str | None = None
    vectors_sha256: str | None = None
    posts: bool = False

    def check_vectors(self) -> None:
        """Raise DataError unless the file of word vectors, if there is one, is there as it was for
        the run.
        """
        if (
            self.vectors is not None
            and sha256_of(resolve_existing(self.vectors, "vectors")) != self.vectors_sha256
        ):
            changed = "has other content than when the run was made"
            raise DataError(
                f"{path_argument(self.vectors, 'vectors')} {changed}; put the former file back, or do the"
                " run again with force=true"
            )


@dataclass(frozen=True)
class Groups:
    """Subgroups that the model tells apart.

    Attributes
    ----------
    columns : one with its groups as categories; or several of numbers, of which the largest counts;
    or ``groups`` of an .npz file.
    names : of the groups; the model takes positions in them.
    """

    columns: list[Feature]
    names: list[str]


@dataclass(frozen=True)
class Schema:
    """Of the rows of one run.

    Attributes
    ----------
    dataset, target : name of the data set, and of the column or columns with its labels, if it has
    columns.
    features : of a table, in the order in which the model takes them; empty for images and texts.
    shape : of one row.
    text : how texts become rows; None for all that is no text.
    scaling : shift and size of each feature, or one for all: the model takes (x - shift) / size.
    classes : labels, sorted; column k of the probabilities belongs to the k-th.
    missing : cells that are read as missing beside empty ones.
    encoding, separator : of the text files that the run was fitted on, None where these are not
    said.
    ood_score : a key of :data:`OOD_SCORES`.
    groups : whom a row may belong to, where the model wants to know; None where it does not.
    scores : kind of the class scores that each row begins with, one for each class, where the run
        was made of the scores of a model trained elsewhere; None of other rows.
    """

    dataset: str
    target: str | list[str] | None
    features: list[Feature]
    shape: list[int]
    text: Texts | None
    scaling: dict[str, Any]
    classes: list[Any]
    missing: list[Any]
    encoding: str
    separator: str | None
    ood_score: ScoreKind
    groups: Groups | None = None
    scores: KindOfClassScores | None = None

    @property
    def kind(self) -> Literal["table", "images", "texts"]:
        """What rows are."""
        return "texts" if self.text else "images" if len(self.shape) == 3 else "table"

    @property
    def scores_rows(self) -> bool:
        """Whether there is an out-of-distribution score for each row."""
        return self.ood_score not in ("sets", "none")

    def scaled(self, X: np.ndarray) -> np.ndarray:
        """Rows as they are measured to rows as the model takes them."""
        shift, size = (
            np.asarray(part) if isinstance(part, list) else part
            for part in (self.scaling["shift"], self.scaling["size"])
        )
        return Scaling(shift, size).apply(X)

    def as_json(self) -> dict[str, Any]:
        """JSON-safe, with the meaning of the score in words."""
        return {"format": _FORMAT, **asdict(self), "ood_score_means": OOD_SCORES[self.ood_score]}


def schema_of(node: Node, splits: Splits, model: FittedModel) -> Schema:
    """Of the rows that ``model`` was fitted on."""
    train = splits.train
    categories = train.categories or (None,) * len(train.feature_names)
    dates = train.facts.get("date_formats", {})
    named = [
        Feature(name, None if values is None else list(values), dates.get(name))
        for name, values in zip(train.feature_names, categories, strict=True)
    ]
    text = _text(node, train)
    return Schema(
        dataset=str(node["name"]),
        target=stringify_names(node.get("target")),
        features=[] if text else named,
        shape=list(train.X.shape[1:]),
        text=text,
        scaling={
            "shift": np.asarray(splits.scaling.shift).tolist(),
            "size": np.asarray(splits.scaling.size).tolist(),
        },
        classes=train.classes.tolist(),
        missing=[_of_json(cell) for cell in node.get("missing") or ()],
        encoding=node.get("encoding") or "utf-8",
        separator=node.get("separator"),
        ood_score=_kind_of_score(model),
        groups=_groups(node, splits, model),
        scores=node["kind"] if train.has_scores else None,
    )


def _of_json(cell: str | float) -> str | float:
    """Return infinity, which JSON does not have, as the text that is read as the same number."""
    return str(cell) if isinstance(cell, float) and not np.isfinite(cell) else cell


def _groups(node: Mapping[str, Any], splits: Splits, model: FittedModel) -> Groups | None:
    if splits.train.groups is None or not model.takes_groups:
        return None
    names, group = list(splits.train.group_names), node.get("group")
    columns = column_names(ARRAY_OF_GROUPS if group is None else group)
    several = group is not None and not isinstance(stringify_names(group), str)
    return Groups(
        [Feature(column) for column in columns] if several else [Feature(columns[0], names)], names
    )


def _kind_of_score(model: FittedModel) -> ScoreKind:
    if model.has_set_scores:
        return "sets"
    if "detector" in model.post_hoc:
        return "detector"
    if model.supports("ood_score"):
        return "density"
    return "confidence" if model.is_classifier else "none"


def read_schema(path: Path) -> Schema:
    """From a file.

    Raises
    ------
    DataError
        If it is not one.
    """
    try:
        found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if found["format"] != _FORMAT:
            raise DataError(
                f"{path} was written by another version of kdgraph; do the run again with"
                " force=true"
            )
        parts = {
            name: value
            for name, value in found.items()
            if name not in ("format", "ood_score_means", "groups")
        }
        parts["text"] = found["text"] and Texts(**found["text"])
        groups = found["groups"] and Groups(
            _features(found["groups"]["columns"]), found["groups"]["names"]
        )
        schema = Schema(**{**parts, "features": _features(parts["features"]), "groups": groups})
        _check(schema)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{path} is no schema of a model, or damaged ({error}); do the run again with"
            " force=true"
        ) from error
    return schema


def _check(schema: Schema) -> None:
    """Raise an error if a part is of another type: whoever copies a run may have edited the
    file.
    """
    for whole in (schema, schema.text):
        if whole is not None:
            for part, annotation in annotations_of(type(whole)).items():
                check_value(part, getattr(whole, part), annotation)
    codecs.lookup(schema.encoding)
    Scaling(*(np.asarray(schema.scaling[name], dtype=np.float64) for name in ("shift", "size")))


def _features(found: Sequence[Mapping[str, Any]]) -> list[Feature]:
    return [Feature(**each) for each in found]


def _text(node: Mapping[str, Any], train: Dataset) -> Texts | None:
    """Of a data set whose rows are texts."""
    if node["_target_"] not in _OF_TEXTS:
        return None
    columns = node.get("text", "text")
    return Texts(
        [columns] if isinstance(columns, str) else list(columns),
        node["n_features"],
        node.get("vectors"),
        train.facts.get("vectors_sha256"),
        bool(node.get("posts")),
    )
