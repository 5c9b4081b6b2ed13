"""State from a file replaces nothing of a class and chooses nothing that is imported or called."""

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
    """``value`` with an attribute of its own, whatever its class has under that name."""
    vars(value)[name] = attribute
    return value


REPLACED = {
    "a method": (
        lambda: with_attribute(FittedModel(None), "supports", nn.ReLU()),
        "an attribute would replace FittedModel.supports",
    ),
    "a property": (
        lambda: with_attribute(FittedModel(None), "takes_groups", True),
        "an attribute would replace FittedModel.takes_groups",
    ),
    "a method of a base": (
        lambda: with_attribute(LogisticRegression(), "get_params", nn.ReLU()),
        "an attribute would replace LogisticRegression.get_params",
    ),
    "a layer's forward": (
        lambda: with_attribute(nn.Linear(2, 2), "forward", nn.ReLU()),
        "an attribute would replace Linear.forward",
    ),
    "a flag of a class": (
        lambda: with_attribute(EncoderNetwork(), "images_only", False),
        "an attribute would replace EncoderNetwork.images_only",
    ),
    "a value of another type": (
        lambda: with_attribute(LassoLars(), "method", 3),
        "an attribute would replace LassoLars.method",
    ),
    "a special name": (
        lambda: with_attribute(RandomForestClassifier(), "__sklearn_clone__", nn.ReLU()),
        "'__sklearn_clone__' cannot be an attribute of a RandomForestClassifier",
    ),
    "a name that is none": (
        lambda: with_attribute(FittedModel(None), 3, 1),
        "3 cannot be an attribute of a FittedModel",
    ),  # pyright: ignore
}


@pytest.mark.parametrize(("make", "message"), REPLACED.values(), ids=REPLACED)
def test_attributes_cannot_replace_members_of_a_class(make, message):
    """In a file of one's own, in one that is trusted, and in one that is written."""
    content = written_without_checks(make())
    for file, trust in ((content, False), (signed_by_another_user(content), True)):
        with pytest.raises(DamagedFileError) as caught:
            from_bytes(file, "it", trust=trust)
        assert str(caught.value) == f"it is damaged (ValueError: {message})"
    with pytest.raises(SaveError) as refused:
        to_bytes(make())
    assert str(refused.value).endswith(f"cannot be saved ({message})")


@pytest.mark.parametrize("name", ["_compiled_call_impl", "__call__", "forward", "register_module"])
def test_no_name_in_the_document_makes_torch_call_another_layer(name):
    def rename(document, arrays):
        names = next(names for cls, names in document["classes"] if cls.endswith(":Linear"))
        names[names.index("training")] = name

    from_bytes(tampered(nn.Linear(2, 2), lambda document, arrays: None), "it")
    with pytest.raises(
        DamagedFileError, match=rf"{name}( of a Linear|' cannot be an attribute of a Linear)?\)$"
    ):
        from_bytes(tampered(nn.Linear(2, 2), rename), "it")


class Lazy:
    """A class of the user's own, which does with its attributes what it likes."""

    weight: Any = None

    def f(self):
        return 1

    @cached_property
    def twice(self) -> int:
        return 2


def test_attributes_that_a_class_itself_sets_are_allowed():
    lars = from_bytes(to_bytes(with_attribute(LassoLars(), "positive", True)), "it").value
    assert lars.positive is True
    lazy = Lazy()
    assert lazy.twice == 2
    lazy.weight, vars(lazy)["f"] = 3, 4
    assert vars(from_bytes(to_bytes(lazy), "it").value) == {"twice": 2, "weight": 3, "f": 4}
    assert from_bytes(to_bytes(EncoderNetwork(hidden=(3,))), "it").value.hidden == (
        3,
    )  # the class has a default under that name


def stack() -> StackingClassifier:
    return StackingClassifier([("a", LogisticRegression())], cv=2).fit(X, Y)


CALLED = {
    "of a stack": lambda: with_attribute(stack(), "stack_method_", ["fit_predict"]),
    "of a scorer": lambda: with_attribute(get_scorer("accuracy"), "_response_method", "fit"),
    "of a threshold": lambda: FixedThresholdClassifier(
        LogisticRegression(), response_method="set_params"
    ),
    "of a chain": lambda: with_attribute(
        ClassifierChain(LogisticRegression()), "chain_method_", "fit"
    ),
    "in a tuple": lambda: with_attribute(
        get_scorer("accuracy"), "_response_method", ("predict", "fit")
    ),
    "that is no text": lambda: with_attribute(
        get_scorer("accuracy"), "_response_method", nn.ReLU()
    ),
}


@pytest.mark.parametrize("make", CALLED.values(), ids=CALLED)
def test_methods_called_by_name_must_be_prediction_methods(make):
    with pytest.raises(
        DamagedFileError,
        match=(
            r"^it is damaged \(ValueError: \w+ of a \w+ names .*, which is no method that"
            r" predicts\)$"
        ),
    ):
        from_bytes(written_without_checks(make()), "it")
    with pytest.raises(SaveError):
        to_bytes(make())
    assert from_bytes(to_bytes(stack()), "it").value.stack_method_ == ["predict_proba"]
    assert from_bytes(to_bytes(get_scorer("roc_auc")), "it").value._response_method == (
        "decision_function",
        "predict_proba",
    )


def with_hook() -> nn.Module:
    module = nn.Linear(2, 2)
    module._forward_hooks[0] = nn.ReLU()
    return module


MODULES = {
    "a hook": (with_hook, "a Linear comes with hooks (_forward_hooks)"),
    "a number as a layer": (
        lambda: with_attribute(nn.Sequential(), "_modules", {"0": 3}),
        "_modules of a Sequential holds another thing",
    ),
    "a layer as a parameter": (
        lambda: with_attribute(nn.Linear(2, 2), "_parameters", {"weight": nn.ReLU()}),
        "_parameters of a Linear holds another thing",
    ),
    "no dict of buffers": (
        lambda: with_attribute(nn.ReLU(), "_buffers", [torch.ones(1)]),
        "_buffers of a ReLU is no dict of names",
    ),
}


@pytest.mark.parametrize(("make", "message"), MODULES.values(), ids=MODULES)
def test_layers_with_hooks_are_refused(make, message):
    with pytest.raises(DamagedFileError) as caught:
        from_bytes(written_without_checks(make()), "it")
    assert str(caught.value) == f"it is damaged (ValueError: {message})"
    with pytest.raises(SaveError):
        to_bytes(make())


PARAMETERS = {
    "text for a number": (
        lambda: DensityGate(LogisticRegression(), alpha="all"),
        "alpha must be a number in (0, 1), got 'all'",
    ),  # pyright: ignore
    "beyond its range": (
        lambda: DensityGate(LogisticRegression(), alpha=2.0),
        "alpha must be in (0, 1), got 2.0",
    ),
    "another word": (
        lambda: MultilayerPerceptron(optimizer="evil"),  # pyright: ignore
        "optimizer must be one of adam, sgd, got 'evil'",
    ),
    "a layer for text": (
        lambda: EncoderNetwork(pretrain=nn.ReLU()),
        "pretrain must be one of none, contrastive, got ReLU()",
    ),  # pyright: ignore
}


@pytest.mark.parametrize(("make", "message"), PARAMETERS.values(), ids=PARAMETERS)
def test_parameters_are_checked_against_their_annotations(make, message):
    with pytest.raises(DamagedFileError) as caught:
        from_bytes(written_without_checks(make()), "it")
    assert str(caught.value) == f"it is damaged (ParameterError: {message})"


def test_valid_parameters_are_accepted():
    gate = from_bytes(
        to_bytes(DensityGate(TemperatureScaling(LogisticRegression()), alpha=0.1)), "it"
    ).value
    assert gate.alpha == 0.1


@pytest.mark.parametrize(
    "cls", [EncoderNetwork, RandomForestClassifier, nn.Linear], ids=lambda cls: cls.__name__
)
def test_a_class_is_no_value(cls):
    """Else a function transformer would call it, with parameters of the file's."""
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
def payload(tmp_path, monkeypatch):
    """A module whose import, and whose call, leave a file; gives the path of that file."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "payload_module.py").write_text(
        "from pathlib import Path\nMARK = Path(__file__).with_name('mark')\nMARK.touch()\ndef"
        " make(**options):\n    MARK.touch()\n"
    )
    yield tmp_path / "mark"
    sys.modules.pop("payload_module", None)


def attack() -> ProbabilisticRegressor:
    """A regressor whose prediction fits a network, which imports a factory by its path."""
    model = ProbabilisticRegressor(None, method="fit", method_params={"y": np.arange(6) % 2})
    model.regressor_ = EncoderNetwork(model="payload_module:make", max_epochs=1)
    return model


def test_prediction_imports_and_calls_nothing_named_by_the_file(payload):
    """Whoever trusts the file is told what it would import and call, and has not run it yet."""
    content = signed_by_another_user(to_bytes(FittedModel(attack(), {})))
    with pytest.raises(UntrustedFileError, match="was not made with your key"):
        from_bytes(content, "it")
    with pytest.raises(UntrustedFileError) as caught:
        from_bytes(content, "it", trust=True)
    assert str(caught.value) == "it needs what is not known to be harmless: payload_module.make"
    with pytest.raises(UntrustedFileError) as caught:
        from_bytes(content, "it", trust=["payload_module"])
    fit = "kdgraph.parents.networks.encoder.EncoderNetwork.fit"
    assert str(caught.value) == f"it needs what is not known to be harmless: {fit}"
    assert not payload.exists()
    model = from_bytes(content, "it", trust=["payload_module", fit]).value
    assert not payload.exists()
    with pytest.raises(ValueError, match=r"must give a torch\.nn\.Module"):
        model.predict_outputs(["distribution"], np.zeros((6, 1, 4, 4)))
    assert (
        payload.exists()
    )  # the attack works where all of it is admitted, so what refuses it is tested


@pytest.mark.parametrize(
    ("model", "name"),
    [("payload_module.make", "payload_module.make"), ("facebook/dinov2-small", "transformers")],
)
def test_loaded_encoder_imports_nothing_unnamed(model, name):
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
def test_regressor_with_an_estimator_needs_no_import_name(method):
    regressor = ProbabilisticRegressor(LinearRegression(), method=method)
    assert (
        from_bytes(signed_by_another_user(to_bytes(regressor)), "it", trust=True).value.method
        == method
    )
