"""Description of the rows that a saved model takes and of its outputs.

A run writes it as ``model/schema.json``; a :class:`~kdgraph.deployment.DeployedModel` contains it.
Original to kdgraph.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kdgraph.base import FittedModel
from kdgraph.data.dataset import Dataset, Splits
from kdgraph.data.files.paths import path_argument, resolve_existing, sha256_of
from kdgraph.data.frames import column_names, stringify_names
from kdgraph.data.frames.cells import format_cell
from kdgraph.data.scaling import Scaling
from kdgraph.data.tables.score_file import ClassScoreKind
from kdgraph.data.text_format import TextFormat
from kdgraph.errors import DataError
from kdgraph.parameters import annotations_of, check_value
from kdgraph.wording import reads_as_number

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
    "sets": "none: the detector scores sets of rows, and no single row",
    "none": "none: the model is a regressor without a detector",
}
ScoreKind = Literal["density", "detector", "confidence", "sets", "none"]
_FORMAT = 4
_TEXT_FORMAT_KEYS = ("encoding", "separator", "decimal", "skip_spaces", "not_missing")
"""Keys of a data set that describe how cells of its file are written."""
ARRAY_OF_GROUPS = "groups"
"""The array of an .npz file with the group of each row."""
_TEXT_SOURCES = ("kdgraph.data.tables.TextFile", "kdgraph.data.tables.Newsgroups")
"""Sources whose rows are texts."""


@dataclass(frozen=True)
class Feature:
    """Description of one column."""

    name: str
    categories: list[str] | None = None  # values as text; None if it is numeric
    # Format of dates that became numbers, see ``kdgraph.data.frames.dates.to_days``.
    date_format: str | None = None
    of_numbers: bool = False  # 3.0 is the category 3; else "01" and "1" differ


@dataclass(frozen=True)
class Texts:
    """Parameters of turning texts into rows, as in :class:`~kdgraph.data.tables.TextFile`."""

    columns: list[str]  # of the texts
    n_features: int  # columns that words are hashed into, if there are no vectors
    vectors: str | None = None  # file of word vectors of the run
    vectors_sha256: str | None = None  # at the time of the run
    posts: bool = False  # texts are posts of newsgroups

    def check_vectors(self) -> None:
        """Raise DataError if the file of word vectors has changed since the run, or is absent."""
        if (
            self.vectors is not None
            and sha256_of(resolve_existing(self.vectors, "vectors")) != self.vectors_sha256
        ):
            changed = "has other content than when the run was made"
            raise DataError(
                f"{path_argument(self.vectors, 'vectors')} {changed}; put the former file back, or"
                " do the run again with force=true"
            )


@dataclass(frozen=True)
class GroupSchema:
    """Subgroups of rows that the model treats apart.

    There is one column with its groups as categories; or several of numbers, of which the largest
    determines the group; or ``groups`` of an .npz file. The model takes positions in the names.
    """

    columns: list[Feature]
    names: list[str]


@dataclass(frozen=True)
class Schema:
    """Description of the rows of one run and of the outputs of its model.

    Attributes
    ----------
    dataset : str
        Name of the data set.
    target : str, list of str or None
        Column or columns of its labels, if it has columns.
    features : list of Feature
        Columns of a table, in the order in which the model takes them; empty for images and texts.
    shape : list of int
        Shape of one row.
    text : Texts or None
        Parameters of turning texts into rows; None if the rows are no texts.
    scaling : dict
        Shift and size of each feature, or one for all: the model takes (x - shift) / size.
    classes : list
        Labels, sorted; column k of the probabilities belongs to the k-th.
    missing : list
        Cells that are read as missing, as empty ones are.
    text_format : TextFormat
        How cells are written in the text files that the run was fitted on.
    ood_score : str
        A key of :data:`OOD_SCORES`.
    groups : GroupSchema or None
        Groups of rows, if the model takes them.
    scores : str or None
        Kind of the class scores, one for each class, that each row begins with, if the run was made
        of the scores of a model trained elsewhere.

    Examples
    --------
    >>> from kdgraph.deployment import Schema
    >>> from kdgraph.deployment.schema import Feature
    >>> features = [Feature("age"), Feature("job", ["chef", "nurse"])]
    >>> schema = Schema("people", "rich", features, shape=[2], classes=["no", "yes"])
    >>> schema.kind, schema.scores_rows, schema.as_json()["ood_score_means"]
    ('table', True, 'minus the top-label confidence: this model has no density')
    """

    dataset: str
    target: str | list[str] | None
    features: list[Feature]
    shape: list[int]
    text: Texts | None = None
    scaling: dict[str, Any] = field(default_factory=lambda: {"shift": 0.0, "size": 1.0})
    classes: list[Any] = field(default_factory=list)
    missing: list[Any] = field(default_factory=list)
    text_format: TextFormat = field(default_factory=TextFormat)
    ood_score: ScoreKind = "confidence"
    groups: GroupSchema | None = None
    scores: ClassScoreKind | None = None

    @property
    def kind(self) -> Literal["table", "images", "texts"]:
        """Kind of the rows."""
        return "texts" if self.text else "images" if len(self.shape) == 3 else "table"

    @property
    def scores_rows(self) -> bool:
        """True if the model predicts an OOD score for each row."""
        return self.ood_score not in ("sets", "none")

    def scaled(self, X: np.ndarray) -> np.ndarray:
        """Return unscaled rows as the model takes them."""
        shift, size = (
            np.asarray(part) if isinstance(part, list) else part
            for part in (self.scaling["shift"], self.scaling["size"])
        )
        return Scaling(shift, size).apply(X)

    def as_json(self) -> dict[str, Any]:
        """Return JSON-safe values, with the meaning of the score in words."""
        return {"format": _FORMAT, **asdict(self), "ood_score_means": OOD_SCORES[self.ood_score]}


def schema_of(node: Mapping[str, Any], splits: Splits, model: FittedModel) -> Schema:
    """Return the description of the rows that ``model`` was fitted on.

    Parameters
    ----------
    node : mapping
        Node of the data set.
    splits : Splits
        Rows by role.
    model : FittedModel
        The calibrated model.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from kdgraph.base import FittedModel
    >>> from kdgraph.deployment import schema_of
    >>> from kdgraph.runner.stages import split
    >>> node = {
    ...     "name": "iris",
    ...     "_target_": "kdgraph.data.tables.SklearnTable",
    ...     "loader": "iris",
    ...     "scale": "none",
    ... }
    >>> splits = split(node, seed=0)
    >>> tree = DecisionTreeClassifier(random_state=0).fit(splits.train.X, splits.train.y)
    >>> schema = schema_of(node, splits, FittedModel(tree))
    >>> schema.features[0].name, schema.shape, schema.classes
    ('sepal length (cm)', [4], [0, 1, 2])
    """
    train = splits.train
    categories = train.categories or (None,) * len(train.feature_names)
    dates = train.facts.get("date_formats", {})
    named = [
        Feature(
            column.name,
            None if values is None else list(values),
            dates.get(column.name),
            of_numbers=column.holds_numbers_as_names,
        )
        for column, values in zip(train.source_columns, categories, strict=True)
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
        missing=[_json_cell(cell) for cell in node.get("missing") or ()],
        text_format=TextFormat(
            **{name: node[name] for name in _TEXT_FORMAT_KEYS if node.get(name) is not None}
        ),
        ood_score=_score_kind(model),
        groups=_groups(node, splits, model),
        scores=node["kind"] if train.has_scores else None,
    )


def _json_cell(cell: str | float) -> str | float:
    """Return infinity, which JSON does not have, as the text that is read as the same number."""
    return str(cell) if isinstance(cell, float) and not np.isfinite(cell) else cell


def _groups(node: Mapping[str, Any], splits: Splits, model: FittedModel) -> GroupSchema | None:
    if splits.train.groups is None or not model.takes_groups:
        return None
    names, group = list(splits.train.group_names), node.get("group")
    columns = column_names(ARRAY_OF_GROUPS if group is None else group)
    several = group is not None and not isinstance(stringify_names(group), str)
    are_numbers = all(reads_as_number(name) and format_cell(float(name)) == name for name in names)
    one = Feature(columns[0], names, of_numbers=are_numbers)
    return GroupSchema([Feature(column) for column in columns] if several else [one], names)


def _score_kind(model: FittedModel) -> ScoreKind:
    if model.has_set_scores:
        return "sets"
    if "detector" in model.post_hoc:
        return "detector"
    if model.supports("ood_score"):
        return "density"
    return "confidence" if model.is_classifier else "none"


def read_schema(path: Path) -> Schema:
    """Read a schema from a file.

    Raises
    ------
    DataError
        The file is no schema, is damaged, or belongs to another version of kdgraph.

    Examples
    --------
    >>> import json
    >>> from tempfile import TemporaryDirectory
    >>> schema = Schema("people", "rich", [Feature("age")], shape=[1], classes=["no", "yes"])
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "schema.json"
    ...     _ = path.write_text(json.dumps(schema.as_json()))
    ...     read_schema(path).features
    [Feature(name='age', categories=None, date_format=None, of_numbers=False)]
    """
    try:
        content: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != _FORMAT:
            raise DataError(
                f"{path} was written by another version of kdgraph; do the run again with"
                " force=true"
            )
        parts = {
            name: value
            for name, value in content.items()
            if name not in ("format", "ood_score_means", "groups")
        }
        if absent := {field.name for field in fields(Schema)} - content.keys():
            raise KeyError(min(absent))
        parts["text"] = content["text"] and Texts(**content["text"])
        parts["text_format"] = _text_format(content["text_format"])
        groups = content["groups"] and GroupSchema(
            _features(content["groups"]["columns"]), content["groups"]["names"]
        )
        schema = Schema(**{**parts, "features": _features(parts["features"]), "groups": groups})
        check_schema(schema)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{path} is no schema of a model, or damaged ({error}); do the run again with"
            " force=true"
        ) from error
    return schema


def check_schema(schema: Schema) -> None:
    """Raise an error if a field has another type: a file that was copied may have been edited.

    It is a ValueError, LookupError or TypeError.
    """
    for part in (schema, schema.text):
        if part is not None:
            for name, annotation in annotations_of(type(part)).items():
                check_value(name, getattr(part, name), annotation)
    _text_format(asdict(schema.text_format))
    Scaling(*(np.asarray(schema.scaling[name], dtype=np.float64) for name in ("shift", "size")))


def _text_format(content: Mapping[str, Any]) -> TextFormat:
    for name, annotation in annotations_of(TextFormat).items():
        check_value(name, content[name], annotation)
    try:
        return TextFormat(**content)
    except DataError as error:
        raise ValueError(str(error)) from error


def _features(columns: Sequence[Mapping[str, Any]]) -> list[Feature]:
    return [Feature(**column) for column in columns]


def _text(node: Mapping[str, Any], train: Dataset) -> Texts | None:
    if node["_target_"] not in _TEXT_SOURCES:
        return None
    columns = node.get("text", "text")
    return Texts(
        [columns] if isinstance(columns, str) else list(columns),
        node["n_features"],
        node.get("vectors"),
        train.facts.get("vectors_sha256"),
        bool(node.get("posts")),
    )
