"""A process that loads a repaired model and predicts imports only what the model consists of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import kdgraph
from kdgraph import DensityGate, KernelDensityForest
from kdgraph.calibration import ScoreMap
from kdgraph.fitted import FittedParent
from tests.variations import others_slow

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Y = (X[:, 0] > 0).astype(int)
# pandas is not among them: scikit-learn itself imports it where it is installed.
NOT_NEEDED = {"hydra", "omegaconf", "torch", "matplotlib", "openml", "onnxruntime", "lightgbm"}
NOT_NEEDED_FOR_THE_PACKAGE = NOT_NEEDED | {"numpy", "scipy", "sklearn", "pandas", "numba"}
NOT_NEEDED_BY = {
    "calibrator": NOT_NEEDED | {"numba"},  # nothing is compiled for it
    "lightgbm": NOT_NEEDED - {"lightgbm"},
}
LOAD = """
import sys
import kdgraph
before = sorted(sys.modules)
model = kdgraph.load("model.kdg")
import numpy as np
np.save("proba.npy", model.predict_proba(np.load("rows.npy")))
print(*{name.partition(".")[0] for name in before})
print(*{name.partition(".")[0] for name in sys.modules})
print(*(name for name in sys.modules if name.startswith("kdgraph.")))
"""


def fitted_parent(folder: Path) -> FittedParent:
    joblib.dump(LogisticRegression().fit(X, Y), folder / "model.joblib")
    return FittedParent(str(folder / "model.joblib"), trust=True).fit(X[:0])


def lightgbm_classifier():
    lightgbm = pytest.importorskip(
        "lightgbm", reason="the extra kdgraph[boosting] is not installed"
    )
    return lightgbm.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1)


MODELS = {
    "calibrator": lambda folder: ScoreMap(RandomForestClassifier(5), random_state=0),
    "forest": lambda folder: KernelDensityForest(RandomForestClassifier(5), random_state=0),
    "gate": lambda folder: DensityGate(
        ScoreMap(RandomForestClassifier(5)), partition=RandomForestClassifier(5), random_state=0
    ),
    "lightgbm": lambda folder: DensityGate(ScoreMap(lightgbm_classifier()), random_state=0),
    "fitted": lambda folder: ScoreMap(FrozenEstimator(fitted_parent(folder))),
}


@pytest.mark.filterwarnings("ignore:.*is trusted", "ignore:.*takes the 200 rows of fit")
@pytest.mark.parametrize("name", others_slow(MODELS, "gate"))
def test_loading_a_model_imports_no_heavy_library(name, tmp_path):
    model = MODELS[name](tmp_path).fit(X, Y)
    kdgraph.save(model, tmp_path / "model.kdg")
    np.save(tmp_path / "rows.npy", X)
    process = subprocess.run(
        [sys.executable, "-c", LOAD],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    before, after, modules = (set(line.split()) for line in process.stdout.splitlines())
    assert not before & NOT_NEEDED_FOR_THE_PACKAGE
    assert not after & NOT_NEEDED_BY.get(name, NOT_NEEDED)
    # Neither the command line nor figures and reports belong to a model.
    packages = {module.split(".")[1] for module in modules}
    assert not packages & {"cli", "config", "runner", "results", "report", "figures"}
    np.testing.assert_array_equal(np.load(tmp_path / "proba.npy"), model.predict_proba(X))
