"""Overrides that turn one config node into another: Hydra reads back what was written."""

from __future__ import annotations

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from kdgraph.quoting import as_value
from kdgraph.report.page.overrides import differences, same

TEXT = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=12) | st.sampled_from(
    ["null", "True", "nan", "1e5", "a'b", "\\", "a\\'", "${x}", "\\${x}", "a b ", "[1]", "x=y,z"]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
KEYS = st.sampled_from(["alpha", "k", "n_train", "_target_", "name"])
VALUES = SCALARS | st.lists(SCALARS, max_size=3)
NODES = st.dictionaries(KEYS, VALUES | st.dictionaries(KEYS, VALUES, max_size=3), max_size=4)


def applied(node, words):
    """What Hydra makes of ``node`` and overrides of it."""
    config = OmegaConf.create({"node": node})
    OmegaConf.set_struct(config, True)
    ConfigLoaderImpl._apply_overrides_to_config(
        OverridesParser.create().parse_overrides(list(words)), config
    )
    return OmegaConf.to_container(config, resolve=True)["node"]


@given(VALUES)
def test_a_value_is_read_back_as_it_was(value):
    assert same(applied({"key": None}, [f"node.key={as_value(value)}"])["key"], value)


@given(NODES, NODES)
@example({"alpha": {}}, {"alpha": []})
@example({"alpha": [1]}, {"alpha": {"k": 1}})
def test_differences_lead_from_one_node_to_the_other(have, want):
    have = {
        key: value for key, value in have.items() if "${" not in repr(value)
    }  # it would be an interpolation; in an override it is not
    assert same(applied(have, differences(have, want, "node.")), want)


@given(NODES)
def test_nothing_differs_from_itself(node):
    assert list(differences(node, node)) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (1, True), (0, None), ([1], [1.0]), ({"a": 1}, {"a": 1, "b": None})],
)
def test_values_of_different_kinds_are_not_the_same(one, other):
    assert not same(one, other)
    assert same(one, one) and same(other, other)
