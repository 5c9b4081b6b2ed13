"""Folds of OpenML tasks."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.data.dataset import TEST, TRAIN
from kdgraph.data.openml.client import fetch_task, read_fold
from kdgraph.data.openml.tables import OpenmlTable
from kdgraph.errors import DataError, DataNotAvailable
from tests.data.openml.server import mixed_table, numeric_table


def test_fold_of_a_task_prescribes_the_roles(openml_server):
    openml_server.add(61, mixed_table())
    openml_server.add_task(59, 61, rows=40, folds=4)
    source = OpenmlTable(61, task_id=59, fold=1)
    source.prefetch()
    n_requests = len(openml_server.log)
    dataset = source.load()
    assert dataset.roles is not None
    np.testing.assert_array_equal(dataset.roles, np.where(np.arange(40) % 4 == 1, TEST, TRAIN))
    assert {key: dataset.facts[key] for key in ("task", "fold", "folds")} == {
        "task": 59,
        "fold": 1,
        "folds": 4,
    }
    assert len(openml_server.log) == n_requests


def test_folds_that_do_not_fit_are_refused(openml_server):
    openml_server.add(61, mixed_table())
    openml_server.add(62, numeric_table())
    openml_server.add_task(59, 61, rows=40, folds=4)
    openml_server.add_task(60, 61, rows=41, folds=4)
    cases = {
        (62, 59, 0): "task 59 of OpenML is of data set 61, not of 62; give a task of 62",
        (61, 59, 4): "task 59 of OpenML has folds 0 to 3, got 4",
        (61, 60, 0): "it names row 40 of a data set of 40 rows",
    }
    for (id, task_id, fold), sentence in cases.items():
        with pytest.raises(DataError) as caught:
            OpenmlTable(id, task_id=task_id, fold=fold).load()
        assert sentence in str(caught.value)


def test_cached_task_needs_no_network(openml_server, no_network_after):
    openml_server.add(61, mixed_table())
    openml_server.add_task(59, 61, rows=40, folds=4)
    fetch_task(59, 61)
    no_network_after()
    assert (read_fold(59, 3, 61, 40)[0] == TEST).sum() == 10


@pytest.fixture
def no_network_after(request):
    return lambda: request.getfixturevalue("no_network")


def test_unknown_task_is_reported(openml_server):
    with pytest.raises(DataNotAvailable) as caught:
        fetch_task(59, 61)
    assert str(caught.value) == "OpenML has no task 59; 127.0.0.1 lists what there is"


def test_damaged_file_of_folds_is_reported(openml_server):
    openml_server.add(61, mixed_table())
    openml_server.add_task(59, 61, rows=40, folds=4)
    file = fetch_task(59, 61) / "datasplits.arff"
    file.write_text(file.read_text().replace("@ATTRIBUTE fold", "@ATTRIBUTE f"))
    with pytest.raises(DataError) as caught:
        read_fold(59, 0, 61, 40)
    assert str(caught.value).startswith(f"{file} is damaged (")
