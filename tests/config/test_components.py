"""Errors of components name keys that a command line takes."""

from __future__ import annotations

import pytest

from kdgraph.config.components import errors_by_key
from kdgraph.config.messages import unknown_group, unknown_option
from kdgraph.errors import DataError, ParameterError

NODE = {
    "name": "a",
    "degree": 1,
    "method": "x",
    "features": {"_target_": "b", "reduce": "tsne", "scale": 1},
    "other": {"scale": 2},
}
SENTENCES = {
    "degree=1 needs coordinates; use degree=0": (
        "gate.degree=1 needs coordinates; use gate.degree=0"
    ),
    "reduce=tsne has no place for new rows": "gate.features.reduce=tsne has no place for new rows",
    "features.reduce=tsne is slow": "gate.features.reduce=tsne is slow",
    "scale=1 stands in two nodes": "scale=1 stands in two nodes",
    "choose method=isotonic or parent=mlp": "choose method=isotonic or parent=mlp",
    "gate.degree=1, xdegree=1 and /degree=1 stay": "gate.degree=1, xdegree=1 and /degree=1 stay",
    "no key": "no key",
}


@pytest.mark.parametrize(("message", "named"), SENTENCES.items())
@pytest.mark.parametrize("error", [ParameterError, DataError])
def test_parameters_in_messages_become_keys_of_the_config(message, named, error):
    with pytest.raises(error) as raised, errors_by_key("gate", NODE):
        raise error(message)
    assert type(raised.value) is error and str(raised.value) == named


def test_another_error_is_not_touched():
    with pytest.raises(ValueError, match=r"^degree=1$"), errors_by_key("gate", NODE):
        raise ValueError("degree=1")


@pytest.mark.parametrize("name", ["submitit_slurm", "submitit_local"])
def test_a_launcher_of_a_cluster_without_its_extra_names_the_extra(name):
    expected = f"hydra/launcher={name} needs submitit: pip install 'kdgraph[cluster]'"
    assert str(unknown_option("hydra/launcher", name, ["basic", "joblib"])) == expected


def test_a_group_that_is_none_is_told_apart_from_an_option():
    message = str(unknown_group("hydra/launchr", ["dataset", "hydra/launcher"]))
    assert (
        message
        == "no config group named 'hydra/launchr'; did you mean 'hydra/launcher'? (there are:"
        " dataset, hydra/launcher)"
    )
