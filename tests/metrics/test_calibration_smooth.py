"""The smooth ECE: the call of relplot, its value, and the error if it is not installed."""

from __future__ import annotations

import sys
import types
from importlib.machinery import ModuleSpec

import numpy as np
import pytest

from kdgraph.errors import ConfigError
from kdgraph.metrics import TopLabel, check_metric, smooth_ece
from tests.metrics.samples import four_classes


def test_smooth_ece_matches_relplot() -> None:
    pytest.importorskip("relplot", reason="the extra smooth is not installed", exc_type=ImportError)
    y, proba = four_classes()
    assert smooth_ece(y, proba) == pytest.approx(
        0.01599939364885358, abs=1e-12
    )  # relplot 1.0.3: smECE(confidence, correct)


def test_relplot_receives_confidence_and_correctness(monkeypatch) -> None:
    calls = []
    package, module = types.ModuleType("relplot"), types.ModuleType("relplot.metrics")
    package.__spec__ = ModuleSpec("relplot", None)
    module.smECE = lambda f, y: calls.append((f, y)) or np.float32(0.25)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "relplot", package)
    monkeypatch.setitem(sys.modules, "relplot.metrics", module)
    result = smooth_ece([0, 1, 1], TopLabel(np.array([0, 1, 0]), np.array([0.5, 1 + 1e-9, 0.75])))
    assert result == 0.25 and isinstance(result, float)
    confidence, correct = calls[0]
    np.testing.assert_array_equal(
        confidence, [0.5, 1, 0.75]
    )  # clipped to the end of relplot's grid
    np.testing.assert_array_equal(correct, [1.0, 1.0, 0.0])


@pytest.mark.parametrize(
    "call", [lambda: smooth_ece([0], [[1.0]]), lambda: check_metric("smooth_ece", ["y", "proba"])]
)
def test_missing_relplot_is_reported_before_a_run(monkeypatch, call) -> None:
    monkeypatch.setattr("kdgraph.extras.find_spec", lambda library: None)
    with pytest.raises(ConfigError) as raised:
        call()
    assert str(raised.value) == "smooth_ece needs relplot: pip install 'kdgraph[smooth]'"
