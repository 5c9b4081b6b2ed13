"""Models of ``kdg repair``, which can be measured and repaired as those of other libraries are.

Original to kdgraph.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kdgraph.errors import DataError
from kdgraph.fitted.columns import ModelColumns
from kdgraph.fitted.source import ExternalModel, ModelSource
from kdgraph.persistence import LoadError, UntrustedFileError, from_bytes
from kdgraph.wording import first_line


def read_repaired(source: ModelSource, content: bytes) -> ExternalModel:
    """Return the model of a file of ``kdg repair``; see :data:`~kdgraph.fitted.source.ModelReader`.

    Its predictions are those of the :class:`~kdgraph.deployment.DeployedModel` in the file. A
    category that the model was not fitted with is refused, unless ``source.unseen`` is "missing". A
    file with the key of this user needs no trust.
    """
    try:
        model = from_bytes(content, source.path, trust=source.trust).value
    except UntrustedFileError as error:
        raise source.untrusted("was not made with your key, and reading it can run code") from error
    except LoadError as error:
        raise source.error(f"cannot be read ({error}); write it again with 'kdg repair'") from error
    try:
        return _external(source, model)
    except DataError:
        raise
    except (AttributeError, TypeError, ValueError) as error:
        raise source.error(
            f"holds a {type(model).__name__}, and no repaired model with the columns of its rows"
            f" ({first_line(error)}); give a file of 'kdg repair'"
        ) from error


def _external(source: ModelSource, saved: Any) -> ExternalModel:
    """Return a deployed model as a function of rows; AttributeError if it is none."""
    schema = saved.schema
    if schema.text:
        raise source.error("takes texts, which no parent does; predict them with 'kdg predict'")
    if saved.model.is_classifier and not saved.supports("proba"):
        raise source.error("predicts a confidence of the predicted class, and no probabilities")
    names = [feature.name for feature in schema.features]
    names += [feature.name for feature in schema.groups.columns] if schema.groups else []
    way_out = f"{source.key}unseen=missing"
    model = replace(saved, unseen=source.unseen, allow_unseen=way_out)
    is_class, columns = model.model.is_classifier, ModelColumns(None, model.n_features_in_)
    if names:
        columns = ModelColumns(tuple(dict.fromkeys(names)))
    return ExternalModel(
        kind="kdgraph",
        predict=model.predict_proba if is_class else model.predict,
        outputs="probabilities" if is_class else "values",
        classes=tuple(schema.classes) if is_class else None,
        columns=columns,
        distribution=None if is_class else model.predict_dist,
    )
