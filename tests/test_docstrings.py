"""Docstrings that are completed at import."""

import ast
import inspect
import re
from dataclasses import fields, is_dataclass

import pytest
from sklearn.base import BaseEstimator

import kdgraph.calibration
import kdgraph.calibration.local
import kdgraph.calibration.top_label
import kdgraph.density
import kdgraph.detection
import kdgraph.distributions
import kdgraph.parents
import kdgraph.recalibration
from kdgraph.docstrings import add_descriptions, described_names
from kdgraph.metrics import METRICS, options_of

PACKAGES = (
    kdgraph.calibration,
    kdgraph.calibration.local,
    kdgraph.calibration.top_label,
    kdgraph.density,
    kdgraph.detection,
    kdgraph.parents,
    kdgraph.recalibration,
)
ESTIMATORS = sorted(
    {
        each
        for package in PACKAGES
        for each in vars(package).values()
        if isinstance(each, type) and issubclass(each, BaseEstimator) and is_dataclass(each)
    },
    key=lambda each: each.__qualname__,
)

DOC = """Summary.

Parameters
----------
k, l : int
    Numbers,
    in two lines.

    A second paragraph.
*rest
    Others.

Examples
--------
>>> 1
1
"""


def test_entries_of_a_section():
    entry = "k, l : int\n    Numbers,\n    in two lines.\n    A second paragraph."
    assert described_names(DOC) == {"k": entry, "l": entry, "rest": "*rest\n    Others."}
    assert described_names(DOC, "Returns") == {}


@pytest.mark.parametrize("first", [True, False])
def test_entries_are_added_to_a_section(first):
    doc = add_descriptions(DOC, {"k": "k\n    Other.", "m": "m\n    More."}, first=first)
    assert list(described_names(doc)) == (
        ["m", "k", "l", "rest"] if first else [*"kl", "rest", "m"]
    )
    assert doc.replace("m\n    More.\n", "", 1) == DOC.rstrip()


@pytest.mark.parametrize("doc", ["Summary.", "Summary.\n\nExamples\n--------\n>>> 1\n1"])
def test_a_missing_section_is_added_in_its_place(doc):
    completed = add_descriptions(doc, {"k": "k : int\n    Number."})
    assert completed.startswith("Summary.\n\nParameters\n----------\nk : int\n    Number.")
    assert completed.endswith(doc.removeprefix("Summary."))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: each.__qualname__)
def test_help_describes_every_parameter_of_an_estimator(estimator):
    described = described_names(inspect.getdoc(estimator))
    assert {field.name for field in fields(estimator) if field.init} <= set(described)


@pytest.mark.parametrize(
    "distribution",
    [each for each in vars(kdgraph.distributions).values() if is_dataclass(each)],
    ids=lambda each: each.__qualname__,
)
def test_help_describes_every_field_of_a_distribution(distribution):
    doc = inspect.getdoc(distribution)
    described = set(described_names(doc)) | set(described_names(doc, "Attributes"))
    assert {field.name for field in fields(distribution)} <= described


@pytest.mark.parametrize("name", sorted(METRICS))
def test_help_describes_every_input_of_a_metric(name):
    described = described_names(inspect.getdoc(METRICS[name]))
    assert set(inspect.signature(METRICS[name]).parameters) <= set(described)


@pytest.mark.parametrize("name", sorted(METRICS))
def test_described_defaults_of_a_metric_are_its_defaults(name):
    """A description that another metric shares has the default of that one."""
    described = described_names(inspect.getdoc(METRICS[name]))
    for option, default in options_of(name).items():
        if stated := re.search(r", default=(.*)$", described[option].split("\n")[0]):
            assert ast.literal_eval(stated[1]) == default
