"""State from a file cannot replace members of a class or choose what is imported or called."""

from __future__ import annotations

import sys
from functools import cached_property
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.linear_model import LassoLars, LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.preprocessing import FunctionTransformer
from torch import nn

from kdgraph import DensityGate
from kdgraph.base import FittedModel
from kdgraph.calibration.top_label import TemperatureScaling
from kdgraph.distributions.parametric import ScipyFamily
from kdgraph.parents.networks import EncoderNetwork, MultilayerPerceptron
from kdgraph.parents.predictive import ProbabilisticRegressor
from kdgraph.persistence import (
    DamagedFileError,
    SaveError,
    UntrustedFileError,
    from_bytes,
    to_bytes,
)

from .forging import signed_by_another_user, tampered, written_without_checks

X, Y = np.random.default_rng(0).random((30, 3)), np.arange(30) % 2


def with_attribute(value: Any, name: str, attribute: Any) -> Any:
    """Return ``value`` with this attribute, which may shadow a member of its class."""
    vars(value)[name] = attribute
    return value


SHADOWING = {
    "method": (
        lambda: with_attribute(FittedModel(None), "supports", nn.ReLU()),
        "an attribute would replace FittedModel.supports",
    ),
    "property": (
        lambda: with_attribute(FittedModel(None), "takes_groups", True),
        "an attribute would replace FittedModel.takes_groups",
    ),
    "method of a base class": (
        lambda: with_attribute(LogisticRegression(), "get_params", nn.ReLU()),
        "an attribute would replace LogisticRegression.get_params",
    ),
    "forward of a layer": (
        lambda: with_attribute(nn.Linear(2, 2), "forward", nn.ReLU()),
        "an attribute would replace Linear.forward",
    ),
    "class attribute": (
        lambda: with_attribute(EncoderNetwork(), "images_only", False),
        "an attribute would replace EncoderNetwork.images_only",
    ),
    "default of another type": (
        lambda: with_attribute(LassoLars(), "method", 3),
        "an attribute would replace LassoLars.method",
    ),
    "special method": (
        lambda: with_attribute(RandomForestClassifier(), "__sklearn_clone__", nn.ReLU()),
        "'__sklearn_clone__' cannot be an attribute of a RandomForestClassifier",
    ),
    "name that is no text": (
        lambda: with_attribute(FittedModel(None), 3, 1),  # pyright: ignore[reportArgumentType]
        "3 cannot be an attribute of a FittedModel",
    ),
}


@pytest.mark.parametrize(("make_object", "message"), SHADOWING.values(), ids=SHADOWING)
def test_attributes_cannot_replace_members_of_a_class(make_object, message):
    """The user's own file and a trusted one are refused, and no such file is written."""
    content = written_without_checks(make_object())
    for file, trust in ((content, False), (signed_by_another_user(content), True)):
        with pytest.raises(DamagedFileError) as load_error:
            from_bytes(file, "it", trust=trust)
        assert str(load_error.value) == f"it is damaged (ValueError: {message})"
    with pytest.raises(SaveError) as save_error:
        to_bytes(make_object())
    assert str(save_error.value).endswith(f"cannot be saved ({message})")


@pytest.mark.parametrize("name", ["_compiled_call_impl", "__call__", "forward", "register_module"])
def test_field_names_of_a_layer_cannot_choose_what_is_called(name):
    def rename_field(document, arrays):
        names = next(names for cls, names in document["classes"] if cls.endswith(":Linear"))
        names[names.index("training")] = name

    from_bytes(tampered(nn.Linear(2, 2), lambda document, arrays: None), "it")
    with pytest.raises(
        DamagedFileError, match=rf"{name}( of a Linear|' cannot be an attribute of a Linear)?\)$"
    ):
        from_bytes(tampered(nn.Linear(2, 2), rename_field), "it")


class UserClass:
    """Class of a user, whose attributes may replace its members."""

    weight: Any = None

    def f(self):
        return 1

    @cached_property
    def twice(self) -> int:
        return 2


def test_attributes_that_may_replace_members_are_accepted():
    lars = from_bytes(to_bytes(with_attribute(LassoLars(), "positive", True)), "it").value
    assert lars.positive is True
    user_object = UserClass()
    assert user_object.twice == 2
    user_object.weight, vars(user_object)["f"] = 3, 4
    assert vars(from_bytes(to_bytes(user_object), "it").value) == {"twice": 2, "weight": 3, "f": 4}
    # The class has a default of that name.
    assert from_bytes(to_bytes(EncoderNetwork(hidden=(3,))), "it").value.hidden == (3,)


def fitted_stack() -> StackingClassifier:
    return StackingClassifier([("a", LogisticRegression())], cv=2).fit(X, Y)


NAMING_METHODS = {
    "stack": lambda: with_attribute(fitted_stack(), "stack_method_", ["fit_predict"]),
    "scorer": lambda: with_attribute(get_scorer("accuracy"), "_response_method", "fit"),
    "threshold": lambda: FixedThresholdClassifier(
        LogisticRegression(), response_method="set_params"
    ),
    "chain": lambda: with_attribute(ClassifierChain(LogisticRegression()), "chain_method_", "fit"),
    "scorer with two methods": lambda: with_attribute(
        get_scorer("accuracy"), "_response_method", ("predict", "fit")
    ),
    "scorer with a layer": lambda: with_attribute(
        get_scorer("accuracy"), "_response_method", nn.ReLU()
    ),
}


@pytest.mark.parametrize("make_object", NAMING_METHODS.values(), ids=NAMING_METHODS)
def test_methods_called_by_name_must_be_prediction_methods(make_object):
    with pytest.raises(
        DamagedFileError,
        match=(
            r"^it is damaged \(ValueError: \w+ of a \w+ names .*, which is no method that"
            r" predicts\)$"
        ),
    ):
        from_bytes(written_without_checks(make_object()), "it")
    with pytest.raises(SaveError):
        to_bytes(make_object())
    assert from_bytes(to_bytes(fitted_stack()), "it").value.stack_method_ == ["predict_proba"]
    assert from_bytes(to_bytes(get_scorer("roc_auc")), "it").value._response_method == (
        "decision_function",
        "predict_proba",
    )


def layer_with_hook() -> nn.Module:
    layer = nn.Linear(2, 2)
    layer._forward_hooks[0] = nn.ReLU()
    return layer


INVALID_LAYERS = {
    "hook": (layer_with_hook, "a Linear comes with hooks (_forward_hooks)"),
    "number as a layer": (
        lambda: with_attribute(nn.Sequential(), "_modules", {"0": 3}),
        "_modules of a Sequential holds another thing",
    ),
    "layer as a parameter": (
        lambda: with_attribute(nn.Linear(2, 2), "_parameters", {"weight": nn.ReLU()}),
        "_parameters of a Linear holds another thing",
    ),
    "list of buffers": (
        lambda: with_attribute(nn.ReLU(), "_buffers", [torch.ones(1)]),
        "_buffers of a ReLU is no dict of names",
    ),
}


@pytest.mark.parametrize(("make_layer", "message"), INVALID_LAYERS.values(), ids=INVALID_LAYERS)
def test_layers_with_hooks_or_invalid_members_are_refused(make_layer, message):
    with pytest.raises(DamagedFileError) as caught:
        from_bytes(written_without_checks(make_layer()), "it")
    assert str(caught.value) == f"it is damaged (ValueError: {message})"
    with pytest.raises(SaveError):
        to_bytes(make_layer())


INVALID_PARAMETERS = {
    "text for a number": (
        lambda: DensityGate(LogisticRegression(), alpha="all"),
        "alpha must be a number in (0, 1), got 'all'",
    ),
    "out of range": (
        lambda: DensityGate(LogisticRegression(), alpha=2.0),
        "alpha must be in (0, 1), got 2.0",
    ),
    "unknown choice": (
        lambda: MultilayerPerceptron(optimizer="evil"),  # pyright: ignore
        "optimizer must be one of adam, sgd, got 'evil'",
    ),
    "layer for text": (
        lambda: EncoderNetwork(weights=nn.ReLU()),
        "weights must be one of pretrained, random, got ReLU()",
    ),
}


@pytest.mark.parametrize(
    ("make_estimator", "message"), INVALID_PARAMETERS.values(), ids=INVALID_PARAMETERS
)
def test_parameters_are_checked_against_their_annotations(make_estimator, message):
    with pytest.raises(DamagedFileError) as caught:
        from_bytes(written_without_checks(make_estimator()), "it")
    assert str(caught.value) == f"it is damaged (ParameterError: {message})"


def test_valid_parameters_are_accepted():
    gate = from_bytes(
        to_bytes(DensityGate(TemperatureScaling(LogisticRegression()), alpha=0.1)), "it"
    ).value
    assert gate.alpha == 0.1


@pytest.mark.parametrize(
    "cls", [EncoderNetwork, RandomForestClassifier, nn.Linear], ids=lambda cls: cls.__name__
)
def test_listed_class_as_a_value_is_refused(cls):
    """A function transformer would call it with parameters of the file's choice."""
    with pytest.raises(
        DamagedFileError, match=rf"^it is damaged \(TypeError: {cls.__name__} is no plain type\)$"
    ):
        from_bytes(written_without_checks(FunctionTransformer(cls)), "it")
    with pytest.raises(SaveError) as caught:
        to_bytes(FunctionTransformer(cls))
    name = f"{cls.__name__} of {cls.__module__}"
    assert (
        str(caught.value) == f"the class {name} cannot be saved as a value: only objects of it can"
    )


def test_unknown_scipy_family_is_refused():
    family = ScipyFamily("norm", {"loc": np.zeros(2), "scale": np.ones(2)})
    assert from_bytes(to_bytes(family), "it").value.ppf(0.5).tolist() == [0.0, 0.0]
    object.__setattr__(family, "family", "distributions")
    with pytest.raises(
        DamagedFileError, match=r"scipy\.stats has no continuous family named 'distributions'"
    ):
        from_bytes(written_without_checks(family), "it")


@pytest.fixture
def payload_mark(tmp_path, monkeypatch):
    """Path of a file that the import and the call of ``payload_module.make`` create."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "payload_module.py").write_text(
        "from pathlib import Path\nMARK = Path(__file__).with_name('mark')\nMARK.touch()\ndef"
        " make(**options):\n    MARK.touch()\n"
    )
    yield tmp_path / "mark"
    sys.modules.pop("payload_module", None)


def hostile_regressor() -> ProbabilisticRegressor:
    """Return a regressor whose prediction fits a network, which imports a factory by its path."""
    regressor = ProbabilisticRegressor(None, method="fit", method_params={"y": np.arange(6) % 2})
    regressor.regressor_ = EncoderNetwork(model="payload_module:make", max_epochs=1)
    return regressor


def test_prediction_imports_and_calls_nothing_named_by_the_file(payload_mark):
    """The error names what the file would import and call, before anything of it has run."""
    content = signed_by_another_user(to_bytes(FittedModel(hostile_regressor(), {})))
    with pytest.raises(UntrustedFileError, match="was not made with your key"):
        from_bytes(content, "it")
    with pytest.raises(UntrustedFileError) as caught:
        from_bytes(content, "it", trust=True)
    assert str(caught.value) == "it needs what is not known to be harmless: payload_module.make"
    with pytest.raises(UntrustedFileError) as caught:
        from_bytes(content, "it", trust=["payload_module"])
    fit = "kdgraph.parents.networks.encoder.EncoderNetwork.fit"
    assert str(caught.value) == f"it needs what is not known to be harmless: {fit}"
    assert not payload_mark.exists()
    model = from_bytes(content, "it", trust=["payload_module", fit]).value
    assert not payload_mark.exists()
    # The attack works if all of it is admitted; otherwise the refusals above would test nothing.
    with pytest.raises(ValueError, match=r"must give a torch\.nn\.Module"):
        model.predict_outputs(["distribution"], np.zeros((6, 1, 4, 4)))
    assert payload_mark.exists()


@pytest.mark.parametrize(
    ("model", "name"),
    [("payload_module.make", "payload_module.make"), ("facebook/dinov2-small", "transformers")],
)
def test_loaded_encoder_imports_admitted_names_only(model, name):
    content = signed_by_another_user(to_bytes(EncoderNetwork(model=model)))
    with pytest.raises(UntrustedFileError) as caught:
        from_bytes(content, "it", trust=True)
    assert caught.value.names == (name,)
    assert from_bytes(content, "it", trust=[name]).value.model == model
    assert (
        from_bytes(signed_by_another_user(to_bytes(EncoderNetwork())), "it", trust=True).value.model
        == "resnet20"
    )


@pytest.mark.parametrize("method", ["predict", "predict_quantiles", "pred_dist", "sample_y", None])
def test_regressor_with_an_estimator_needs_no_admission(method):
    regressor = ProbabilisticRegressor(LinearRegression(), method=method)
    assert (
        from_bytes(signed_by_another_user(to_bytes(regressor)), "it", trust=True).value.method
        == method
    )
