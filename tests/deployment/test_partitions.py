"""Partitions of a table are predicted as the whole table, by Dask and by Ray."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import kdgraph
from kdgraph.base import FittedModel
from kdgraph.deployment import DeployedModel, PartitionPredictor, Schema
from kdgraph.deployment.schema import Feature
from kdgraph.errors import DataError
from tests.variations import others_slow


def make_table(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"age": rng.normal(40, 10, n), "job": rng.choice(["chef", "nurse"], n)},
        index=rng.permutation(n) + 1000,
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "repaired.kdg"
    table = make_table(300, 0)
    X = np.column_stack([table["age"], table["job"] == "nurse"])
    y = (table["age"] > 40).to_numpy().astype(int)
    gate = kdgraph.DensityGate(RandomForestClassifier(5, random_state=0), random_state=0).fit(X, y)
    features = [Feature("age"), Feature("job", ["chef", "nurse"])]
    schema = Schema("people", "rich", features, [2], classes=["no", "yes"], ood_score="density")
    model = FittedModel(gate.estimator_, {"gate": gate})
    kdgraph.save(DeployedModel(model, schema), path)
    return path


@pytest.fixture
def table():
    return make_table(10_000, 1)


@pytest.fixture
def expected(path, table):
    return kdgraph.load(path).predict_frame(table)


def test_predictions_have_the_index_of_the_table(expected, table):
    assert expected.index.equals(table.index)


def test_meta_has_the_columns_and_types_of_the_predictions(path, expected, table):
    predictor = PartitionPredictor(path)
    assert len(predictor.meta) == 0
    assert predictor.meta.dtypes.to_dict() == expected.dtypes.to_dict()
    empty = predictor(table[:0])
    assert empty.dtypes.to_dict() == expected.dtypes.to_dict() and len(empty) == 0


def test_a_predictor_is_pickled_as_the_name_of_its_file(path, expected, table):
    predictor = PartitionPredictor(path)
    predictor(table[:1])
    content = pickle.dumps(predictor)
    assert len(content) < 500
    pd.testing.assert_frame_equal(pickle.loads(content)(table), expected)


def test_a_model_is_loaded_once_in_a_process(path, table, monkeypatch):
    loads, real = [], kdgraph.persistence.load
    monkeypatch.setattr(
        kdgraph.persistence, "load", lambda *arguments: loads.append(arguments) or real(*arguments)
    )
    copy = path.with_name("copy.kdg")
    copy.write_bytes(path.read_bytes())
    for _ in range(3):
        PartitionPredictor(copy)(table[:10])
    assert len(loads) == 1


@pytest.mark.parametrize("scheduler", others_slow(["threads", "processes"]))
def test_dask_predicts_partitions(path, table, expected, scheduler):
    dd = pytest.importorskip("dask.dataframe", reason="dask.dataframe is not installed")
    predictor = PartitionPredictor(path)
    partitions = dd.from_pandas(table, npartitions=3, sort=False)
    predicted = partitions.map_partitions(predictor, meta=predictor.meta)
    result = predicted.compute(scheduler=scheduler)
    assert list(predicted.columns) == list(expected.columns)
    # Blocks begin at other rows, where a matrix product may add in another order.
    pd.testing.assert_frame_equal(result, expected, rtol=1e-10, atol=1e-10)


def test_dask_takes_the_method_of_a_model(path, table, expected):
    dd = pytest.importorskip("dask.dataframe", reason="dask.dataframe is not installed")
    model = kdgraph.load(path)
    partitions = dd.from_pandas(table, npartitions=3, sort=False)
    result = partitions.map_partitions(model.predict_frame, meta=model.meta).compute()
    pd.testing.assert_frame_equal(result, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ray's own settings
def test_ray_predicts_batches(path, table, expected):
    ray = pytest.importorskip("ray", reason="ray is not installed")
    data = pytest.importorskip("ray.data", reason="ray.data is not installed")
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        rows = data.from_pandas(table.reset_index(names="number"))
        result = rows.map_batches(
            lambda frame: PartitionPredictor(path)(frame).assign(number=frame["number"]),
            batch_format="pandas",
        ).to_pandas()
    finally:
        ray.shutdown()
    # Ray returns columns of pyarrow's types.
    result = result.astype({"number": table.index.dtype}).set_index("number").loc[table.index]
    pd.testing.assert_frame_equal(
        result, expected, rtol=1e-10, atol=1e-10, check_names=False, check_dtype=False
    )


def test_a_run_has_its_schema_beside_its_model(path, tmp_path, table, expected):
    import json

    model = kdgraph.load(path)
    kdgraph.save(model.model, tmp_path / "calibrated.kdg")
    predictor = PartitionPredictor(tmp_path / "calibrated.kdg")
    message = (
        f"{tmp_path / 'calibrated.kdg'} holds a FittedModel without the columns of its rows; give"
        " a file of 'kdg repair', or model/calibrated.kdg of a run beside its schema.json"
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        predictor(table)
    (tmp_path / "schema.json").write_text(json.dumps(model.schema.as_json()))
    pd.testing.assert_frame_equal(predictor(table), expected)


def test_unseen_categories_may_be_missing(path, table):
    strange = table.assign(job="pilot")
    with pytest.raises(DataError, match="has 'pilot' in row 0"):
        PartitionPredictor(path)(strange)
    assert PartitionPredictor(path, unseen="missing").model.unseen == "missing"
