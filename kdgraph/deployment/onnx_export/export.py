"""Writing of a model as an ONNX file. Original to kdgraph."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from kdgraph.base import FittedModel
from kdgraph.base.frozen import unwrap_frozen
from kdgraph.calibration.top_label import TopLabelCalibrator
from kdgraph.density import DensityGate
from kdgraph.deployment.model import DeployedModel
from kdgraph.deployment.onnx_export import parents  # noqa: F401 - it registers parents
from kdgraph.deployment.onnx_export.components import log_density_of
from kdgraph.deployment.onnx_export.confidence import confidence_of
from kdgraph.deployment.onnx_export.graph import OnnxGraph, proba_of, refuse_export
from kdgraph.extras import needs_library
from kdgraph.persistence import SaveError


def export_onnx(model: Any, file: str | os.PathLike[str], *, parent: bool = True) -> None:
    """Write a fitted calibrator or density gate, with its parent, as an ONNX file.

    The graph has the inputs, in double precision,

    - ``X``: Float64[n, d], the rows, if the parent or a gate reads them; categories are the
      positions of their values, as in an array that the model takes;
    - ``predict_proba`` or ``decision_function``: what the parent returns, if it is left out;

    and the outputs

    - ``label``: Int64[n], Float64[n] or Str[n], the predicted class;
    - ``probabilities``: Float64[n, K]; or ``confidence``: Float64[n], if the calibrator is one of
      top-label confidence;
    - ``ood_score``: Float64[n], of a density gate, above 0 below its floor.

    Parameters
    ----------
    model : estimator, FittedModel or DeployedModel
        Fitted calibrator, gate or parent, or what :func:`kdgraph.load` returns.
    file : str or path
        File to write; an existing file is replaced.
    parent : bool, default=True
        False: leave the parent out, because it runs elsewhere, and take what it returns as an
        input. So models of any library can be repaired in a graph.

    Raises
    ------
    SaveError
        If a part of the model has no operators in ONNX, such as a kernel density forest, whose
        probabilities compare a row with all training rows; or if onnx is not installed.

    Notes
    -----
    Probabilities differ from those of kdgraph by rounding, less than 1e-9 where two scores of an
    isotonic map are not closer together than 1e-7. A row that is equally near to several polytopes
    of a gate may get the density of another one of them; so may any row where whitened features are
    exact combinations of others. A gate computes the distances of all rows of a batch to all
    polytopes at once, 8 bytes each: pass some hundred rows at a time to a graph of many Gaussians.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from kdgraph.calibration import ScoreMap
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ScoreMap(RandomForestClassifier(10, random_state=0), random_state=0).fit(X, y)
    >>> export_onnx(model, "model.onnx")  # doctest: +SKIP
    >>> import onnxruntime  # doctest: +SKIP
    >>> session = onnxruntime.InferenceSession("model.onnx")  # doctest: +SKIP
    >>> session.run(["probabilities"], {"X": X[:1]})[0].round(1)  # doctest: +SKIP
    array([[1., 0., 0.]])
    """
    try:
        import onnx
    except ImportError as error:
        raise SaveError(needs_library("writing an ONNX file", "onnx")) from error
    graph = OnnxGraph(with_parent=parent)
    component = _classifier_in(model)
    outputs: dict[str, str] = {}
    if isinstance(component, TopLabelCalibrator):
        proba = proba_of(component.estimator_, graph)
        predicted = graph.add("ArgMax", proba, axis=1, keepdims=0)
        outputs["confidence"] = confidence_of(component, graph, proba, predicted)
    else:
        proba = outputs["probabilities"] = proba_of(component, graph)
        predicted = graph.add("ArgMax", proba, axis=1, keepdims=0)
    if isinstance(component, DensityGate):
        log_density = log_density_of(component, graph)
        outputs["ood_score"] = graph.add("Sub", graph.constant(component.log_floor_), log_density)
    labels = np.asarray(model.classes_ if hasattr(model, "classes_") else component.classes_)
    kind = labels.dtype.kind
    labels = labels.astype(object if kind in "OUS" else np.float64 if kind == "f" else np.int64)
    outputs = {"label": graph.add("Gather", graph.constant(labels), predicted)} | outputs
    scaling = model.schema.scaling if isinstance(model, DeployedModel) else None
    content = graph.to_model(outputs, getattr(component, "n_features_in_", None), labels, scaling)
    onnx.checker.check_model(content)
    Path(file).write_bytes(content.SerializeToString())


def _classifier_in(model: Any) -> Any:
    if isinstance(model, DeployedModel):
        schema = model.schema
        if schema.kind != "table" or schema.groups or schema.scores:
            rows = "groups" if schema.groups else "scores" if schema.scores else schema.kind
            raise SaveError(
                f"a model of {rows} cannot be exported to ONNX; only one of a table of numbers and"
                " categories can be"
            )
        model = model.model
    if isinstance(model, FittedModel):
        model = model._component_for("proba")
    model = unwrap_frozen(model)
    if not hasattr(model, "classes_"):
        refuse_export(model, "it predicts no classes")
    return model
