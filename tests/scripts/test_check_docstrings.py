"""The reader of docstrings, on modules that were written to be refused and one that was not."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
GOOD = '''"""Original to kdgraph."""
import numpy as np

class Score:
    """Score of rows Float64[n, d]."""

    def of(self, X: np.ndarray) -> np.ndarray:
        """Larger for what is farther out."""

def _private(X: np.ndarray) -> np.ndarray: ...
'''


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "check_docstrings", ROOT / "scripts" / "check_docstrings.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def problems(script, tmp_path):
    def read(text: str, name: str) -> list[str]:
        path = tmp_path / "module.py"
        path.write_text(text)
        return list(script.problems(path, name))

    return read


def test_what_says_all_is_let_through(problems):
    assert problems(GOOD, "metrics/made.py") == []


def test_a_function_of_arrays_says_their_shapes(problems):
    text = (
        '"""Guo et al. (2017), of rows [n, K]: a module does not speak for its functions."""\n\ndef'
        " scaled(logits: np.ndarray): ...\n"
    )
    assert problems(text, "metrics/made.py") == [
        "kdgraph/metrics/made.py:3: scaled: the docstring says no shape"
    ]
    assert problems(text, "runner/made.py") == []


def test_a_method_says_where_it_comes_from(problems):
    silent = GOOD.replace("Original to kdgraph.", "A score.")
    at = "kdgraph/detection/made.py"
    assert problems(silent, "detection/made.py") == [
        f"{at}:4: Score: no docstring says where it comes from",
        f"{at}:7: Score.of: no docstring says where it comes from",
    ]
    assert problems(silent, "figures/made.py") == []  # a drawing has no source
    for source in (
        "Liang et al. (2018)",
        "Eq. 6 of the paper",
        "scikit-learn",
        "Theorem 4.2",
        "Original to kdgraph",
    ):
        assert (
            problems(
                silent.replace("Score of rows", f"Score of rows ({source})"), "detection/made.py"
            )
            == []
        )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('"""Of rows."""', "1: docstring begins with 'Of'"),
        ('"""A file says it."""', "1: docstring uses 'says'"),
        ('"""Scores, in the\n    mean."""', "1: docstring uses 'in the mean'"),
        ("as_told = 1", "1: the name 'as_told'"),
    ],
)
def test_fragments_and_private_words_are_refused(problems, text, problem):
    assert problems(text, "geometry/made.py") == [f"kdgraph/geometry/made.py:{problem}"]
    assert problems(text, "runner/made.py") == []


def test_no_module_has_over_700_lines(problems):
    assert problems("\n" * 701, "verbs/made.py") == [
        "kdgraph/verbs/made.py: 701 lines; no module has over 700"
    ]
    assert problems("\n" * 700, "verbs/made.py") == []


def test_modules_with_nothing_to_cite_are_there(script):
    assert all((ROOT / "kdgraph" / name).is_file() for name in script.PLUMBING)
