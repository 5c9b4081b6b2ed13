"""The check of docstrings, on a valid module and on modules with one problem."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.scripts.loading import load_script

ROOT = Path(__file__).parents[2]
VALID_MODULE = '''"""Original to kdgraph."""
import numpy as np

class Score:
    """Score of rows Float64[n, d]."""

    def score(self, X: np.ndarray) -> np.ndarray:
        """Return scores, which are larger for rows that are farther away."""

def _private(X: np.ndarray) -> np.ndarray: ...
'''


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_script("check_docstrings")


@pytest.fixture
def problems(script, tmp_path):
    def find_problems(text: str, name: str) -> list[str]:
        path = tmp_path / "module.py"
        path.write_text(text)
        return list(script.problems(path, name))

    return find_problems


def test_valid_module_has_no_problem(problems):
    assert problems(VALID_MODULE, "metrics/module.py") == []


def test_function_of_arrays_must_document_shapes(problems):
    text = (
        '"""Guo et al. (2017). Shapes [n, K] of a module do not count for its functions."""\n\ndef'
        " scaled(logits: np.ndarray): ...\n"
    )
    assert problems(text, "metrics/module.py") == [
        "kdgraph/metrics/module.py:3: scaled: the docstring has no shape"
    ]
    assert problems(text, "errors.py") == []


def test_public_objects_of_method_packages_must_cite_a_source(problems):
    without_source = VALID_MODULE.replace("Original to kdgraph.", "A score.")
    prefix = "kdgraph/detection/module.py"
    assert problems(without_source, "detection/module.py") == [
        f"{prefix}:4: Score: no docstring cites a source",
        f"{prefix}:7: Score.score: no docstring cites a source",
    ]
    assert problems(without_source, "figures/module.py") == []  # figures need no source
    for source in (
        "Liang et al. (2018)",
        "Eq. 6 of the paper",
        "scikit-learn",
        "Theorem 4.2",
        "Original to kdgraph",
    ):
        text = without_source.replace("Score of rows", f"Score of rows ({source})")
        assert problems(text, "detection/module.py") == []


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
    for name in ("geometry/module.py", "errors.py"):
        assert problems(text, name) == [f"kdgraph/{name}:{problem}"]


def test_module_may_have_700_lines_at_most(problems):
    assert problems("\n" * 701, "cli/module.py") == [
        "kdgraph/cli/module.py: 701 lines; no module has over 700"
    ]
    assert problems("\n" * 700, "cli/module.py") == []


def test_modules_that_need_no_source_exist(script):
    assert all((ROOT / "kdgraph" / name).is_file() for name in script.PLUMBING)


def test_exported_name_must_have_an_example(script, tmp_path):
    package = tmp_path / "kdgraph"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from kdgraph.a import Bare, Shown, hidden, overloaded, plain\n"
        '__all__ = ["Bare", "Shown", "overloaded", "plain"]\n'
    )
    (package / "a.py").write_text(
        'class Bare:\n    """Nothing."""\n\n'
        'class Shown:\n    def f(self):\n        """Return 1.\n\n        >>> 1\n        1\n        """\n\n'
        "def hidden(): ...\n\ndef plain(): ...\n\n@overload\ndef overloaded(): ...\n\n"
        'def overloaded():\n    """Return 1.\n\n    >>> 1\n    1\n    """\n'
    )
    assert script.without_example(script.modules(package)) == {"a.py Bare", "a.py plain"}


def test_class_of_the_calibrator_page_passes_the_checks(problems):
    page = (ROOT / "docs" / "howto" / "calibrator.md").read_text(encoding="utf-8")
    code = page.partition("```python\n# my_calibrator.py\n")[2].partition("```")[0]
    assert problems(code, "calibration/prior_blend.py") == []
    for command in (["check"], ["format", "--check"]):
        checked = subprocess.run(
            [
                *(sys.executable, "-m", "ruff", *command),
                *("--stdin-filename", ROOT / "kdgraph/calibration/prior_blend.py", "-"),
            ],
            input=code,
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
        assert checked.returncode == 0, checked.stdout
