"""Models of ``kdg repair``, which can be measured and repaired as those of other libraries are.

Original to kdgraph.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kdgraph.errors import DataError
from kdgraph.fitted.source import ExternalModel, ModelSource
from kdgraph.persistence import LoadError, UntrustedFileError, from_bytes
from kdgraph.wording import first_line


def read_repaired(source: ModelSource, content: bytes) -> ExternalModel:
    """Return the model of a file of ``kdg repair``.

    Its predictions are those of the :class:`~kdgraph.deployment.DeployedModel` in the file, with
    two differences that rows of a data set need: dates are numbers already, and a category that
    the model was not fitted with is read as missing.

    Parameters
    ----------
    source : ModelSource
        Path and trust. A file with the key of this user needs no trust.
    content : bytes
        Content of the file.

    Raises
    ------
    DataError
        If the file is damaged, is of another user and not trusted, or holds something else.
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
    features = [replace(feature, date_format=None) for feature in schema.features]
    model = replace(saved, schema=replace(schema, features=features), unseen="missing")
    is_class = model.model.is_classifier
    return ExternalModel(
        kind="kdgraph",
        predict=model.predict_proba if is_class else model.predict,
        task="classification" if is_class else "regression",
        outputs="probabilities" if is_class else "values",
        classes=tuple(schema.classes) if is_class else None,
        feature_names=tuple(dict.fromkeys(names)) or None,
        n_features=None if names else model.n_features_in_,
        distribution=None if is_class else model.predict_dist,
    )
