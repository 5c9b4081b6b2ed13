"""Check that the library works with the libraries of this environment.

It runs the examples in the docstrings of the library and scikit-learn's checks of one estimator of
each kind, and saves and loads models. It needs nothing for that: in an environment of numpy, scipy,
scikit-learn, numba, joblib and pandas alone, it shows that these suffice. ``check_installs.py``
makes such environments::

    python scripts/check_library.py
"""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from check_installs import PACKAGES
from sklearn.base import is_classifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils.estimator_checks import check_estimator

import kdgraph
from kdgraph.extras import missing_library

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a row of weight two is drawn once, two equal rows twice, by the bootstrap and by splits"
    )
}


def main() -> int:
    """Run all checks, and return 1 if one of them failed."""
    warnings.simplefilter("ignore")  # scikit-learn's checks fit a few rows
    failures = [*check_examples(), *check_estimators(), *check_files()]
    for line in failures:
        print(f"FAILED {line}")
    return 1 if failures else 0


def check_examples() -> list[str]:
    """Run the examples of all modules, and return the names of those that failed.

    Those that need an optional library which is absent are counted, and did not fail.
    """
    runner = ExampleRunner(optionflags=FLAGS)
    absent: Counter[str] = Counter()
    for module in library_modules(absent):
        for test in doctest.DocTestFinder(exclude_empty=True).find(module):
            runner.run(test, out=lambda text: None)
    absent += runner.absent
    left_out = ", ".join(f"{count} for want of {name}" for name, count in sorted(absent.items()))
    print(
        f"examples: {runner.tries} lines, {len(runner.failed)} docstrings failed; left out:"
        f" {left_out or 'none'}"
    )
    return sorted(runner.failed)


class ExampleRunner(doctest.DocTestRunner):
    """Runner that sets docstrings apart which need an optional library that is absent."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.failed: set[str] = set()
        self.absent: Counter[str] = Counter()
        self._lacking: set[str] = set()

    def report_failure(self, out: Any, test: doctest.DocTest, example: Any, got: str) -> None:
        """Count the docstring as failed."""
        self.failed |= {test.name} - self._lacking

    def report_unexpected_exception(
        self, out: Any, test: doctest.DocTest, example: Any, exc_info: Any
    ) -> None:
        """Count the docstring as failed, or as one that lacks a library; so are its later lines."""
        error: BaseException | None = exc_info[1]
        while error is not None:
            library = missing_library(error)
            if library and test.name not in self._lacking:
                self._lacking.add(test.name)
                self.absent[library] += 1
            error = error.__cause__ or error.__context__
        self.failed |= {test.name} - self._lacking


def library_modules(absent: Counter[str]) -> Iterator[ModuleType]:
    """Yield the modules of the library; count those that need an absent library by its name."""
    for package in PACKAGES:
        path = [str(folder / package) for folder in map(Path, kdgraph.__path__)]
        for found in pkgutil.walk_packages(path, f"kdgraph.{package}.", onerror=lambda name: None):
            try:
                yield importlib.import_module(found.name)
            except ModuleNotFoundError as error:
                library = missing_library(error)
                if library is None:
                    raise
                absent[library] += 1


def estimators() -> list[Any]:
    """Return one estimator of each kind that needs no network."""
    from sklearn.tree import DecisionTreeClassifier

    from kdgraph import DensityGate, KernelDensityForest, ScoreGate
    from kdgraph.calibration import ConformalClassifier, MatrixScaling, ScoreMap
    from kdgraph.calibration.local import LocalRecalibration
    from kdgraph.calibration.top_label import IsotonicConfidence, VennAbers
    from kdgraph.parents import GaussianLinear
    from kdgraph.recalibration import ConformalPit, GlobalPit, LocalPit

    forest = RandomForestClassifier(5, random_state=0)
    tree = DecisionTreeClassifier(max_depth=4, random_state=0)
    return [
        KernelDensityForest(forest, random_state=0),
        KernelDensityForest(forest, calibration="oob", random_state=0),
        DensityGate(forest, random_state=0),
        ScoreGate(forest, random_state=0),
        ScoreMap(tree, method="isotonic", random_state=0),
        MatrixScaling(tree, random_state=0),
        IsotonicConfidence(tree, random_state=0),
        VennAbers(tree, random_state=0),
        LocalRecalibration(forest, random_state=0),
        ConformalClassifier(tree, random_state=0),
        GaussianLinear(),
        GlobalPit(GaussianLinear(), random_state=0),
        ConformalPit(GaussianLinear(), LocalPit(None), random_state=0),
    ]


def check_estimators() -> list[str]:
    """Run scikit-learn's checks, and return the names of estimators and checks that failed."""
    failed, n_checks = [], 0
    for estimator in estimators():
        outcomes = check_estimator(
            estimator, expected_failed_checks=EXPECTED_FAILURES, on_skip=None, on_fail=None
        )
        n_checks += len(outcomes)
        failed += [
            f"{type(estimator).__name__}: {outcome['check_name']}: {outcome['exception']}"
            for outcome in outcomes
            if outcome["status"] == "failed"
        ]
    print(f"scikit-learn's checks: {n_checks}, {len(failed)} failed")
    return failed


def check_files() -> list[str]:
    """Save and load the estimators, and return the names of those that predict otherwise then."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    classes, values = (X[:, 0] > 0).astype(int), X @ np.ones(3)
    differing = []
    with tempfile.TemporaryDirectory() as folder:
        for k, estimator in enumerate(estimators()):
            model = estimator.fit(X, classes if is_classifier(estimator) else values)
            kdgraph.save(model, Path(folder) / f"{k}.kdg")
            loaded = kdgraph.load(Path(folder) / f"{k}.kdg")
            predict = "predict_proba" if hasattr(model, "predict_proba") else "predict"
            if not np.array_equal(getattr(model, predict)(X), getattr(loaded, predict)(X)):
                differing.append(f"{type(model).__name__}: {predict} of the loaded model differs")
    print(f"model files: {len(estimators())} saved and loaded, {len(differing)} differ")
    return differing


if __name__ == "__main__":
    raise SystemExit(main())
