"""Predictions of the runs of all folds, put together; and what the models of a fold cost.

Runs with ``dataset.folds=n`` and the seeds 0 to n - 1 test each row once. Original to kdgraph.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kdgraph.base import FittedModel
from kdgraph.config import RunConfig
from kdgraph.deployment import DeployedModel
from kdgraph.errors import UsageError
from kdgraph.metrics import auroc
from kdgraph.results.model_check.numbers import UNREPAIRED, FarRows, ModelCheck, PooledPredictions
from kdgraph.results.records import FinishedRun
from kdgraph.runner.run import PREDICTIONS
from kdgraph.wording import first_line

if TYPE_CHECKING:
    import pandas as pd

    from kdgraph.data.dataset import Dataset

GIVEN = "given"
"""Name of the set of rows that the user gives as out of distribution."""
MAX_GIVEN_ROWS = 2000
_TIMED_ROWS, _TIMED_CALLS = 1000, 3


def pool_folds(
    runs: Mapping[str, Sequence[FinishedRun]], table: Dataset, gates: frozenset[str]
) -> ModelCheck:
    """Return the check of a model from the runs of its repairs, in the order of the folds.

    ``table`` are all rows of the data, with their groups, ``gates`` the methods whose probabilities
    tend to the prior far from the training data. Runs that have not tested the same rows raise
    UsageError.
    """
    import pandas as pd

    frames = {
        name: [pd.read_parquet(run.path / PREDICTIONS) for run in of_method]
        for name, of_method in runs.items()
    }
    classes = [str(label) for label in table.classes.tolist()]
    tests = {name: _test_rows(of_method) for name, of_method in frames.items()}
    first = next(iter(tests.values()))
    rows = first["row"].to_numpy(dtype=np.int64)
    for name, test in tests.items():
        if not np.array_equal(test["row"].to_numpy(dtype=np.int64), rows):
            raise UsageError(
                f"the runs of method={name} tested other rows than those of the others"
            )
    methods = {
        UNREPAIRED: _cross_fitted("parent", first, next(iter(frames.values())), classes, UNREPAIRED)
    }
    for name, of_method in runs.items():
        seconds = [run.record["seconds"].get("calibrate") for run in of_method]
        methods[name] = _cross_fitted(
            "calibrated",
            tests[name],
            frames[name],
            classes,
            name,
            fit_seconds=float(np.mean(seconds)) if None not in seconds else None,
        )
    numbers = np.arange(len(table.y)) if table.source_rows is None else table.source_rows
    position = {int(row): i for i, row in enumerate(numbers)}
    index = np.array([position[int(row)] for row in rows])
    return ModelCheck(
        y=table.y[index],
        classes=classes,
        methods=methods,
        gates=gates,
        groups=None if table.groups is None else table.groups[index],
        group_names=tuple(map(str, table.group_names)),
        units=None if table.split_groups is None else table.split_groups[index],
        folds=len(next(iter(runs.values()))),
        X=None if table.are_images else _in_one_unit(table)[index],
    )


def _in_one_unit(table: Dataset) -> np.ndarray:
    """Return the columns of a table in standard deviations, with categories one-hot, Float[n, m].

    Missing numbers become the median.
    """
    from kdgraph.parents import column_encoder

    encoder = column_encoder(table.is_categorical, standardize=True)
    return np.asarray(encoder.fit_transform(table.X), dtype=np.float64)


def _test_rows(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the test rows of all folds, in the order of the source."""
    import pandas as pd

    tests = pd.concat([frame[frame["set"] == "test"] for frame in frames], ignore_index=True)
    return tests.sort_values("row", kind="stable", ignore_index=True)


def _cross_fitted(
    model: str,
    test: pd.DataFrame,
    frames: Sequence[pd.DataFrame],
    classes: Sequence[str],
    method: str,
    **numbers: Any,
) -> PooledPredictions:
    """Return the outputs of one model, ``parent`` or ``calibrated``, of the frames of its folds."""
    columns = _probability_columns(test, model, classes, method)
    known = ("test", "calibration")
    sets = [name for name in dict.fromkeys(frames[0]["set"]) if name not in known]
    far = {}
    for name in sets:
        confidence = np.concatenate(
            [frame.loc[frame["set"] == name, columns].to_numpy().max(axis=1) for frame in frames]
        )
        far[str(name)] = FarRows(confidence, _mean_auroc(frames, model, str(name)))
    if f"{model}_predicted" in test:
        position = {label: k for k, label in enumerate(classes)}
        labels = test[f"{model}_predicted"].astype(str)
        numbers["predicted"] = labels.map(position).to_numpy(dtype=np.int64)
    return PooledPredictions(test[columns].to_numpy(dtype=np.float64), far, **numbers)


def _mean_auroc(frames: Sequence[pd.DataFrame], model: str, name: str) -> float | None:
    """Return the mean over folds, within which scores are comparable; None without scores."""
    column = f"{model}_ood_score"
    if column not in frames[0]:
        return None
    scores = [
        (frame.loc[frame["set"] == name, column], frame.loc[frame["set"] == "test", column])
        for frame in frames
    ]
    return float(np.mean([auroc(far.to_numpy(), near.to_numpy()) for far, near in scores]))


def _probability_columns(
    frame: pd.DataFrame, model: str, classes: Sequence[str], method: str
) -> list[str]:
    columns = []
    for label in classes:
        names = (f"{model}_probability_{label}", f"{model}_{label}")
        column = next((name for name in names if name in frame), None)
        if column is None:
            raise UsageError(
                f"method={method} predicts no probability of '{label}', but a confidence of the"
                " predicted class alone; choose methods with probabilities, such as isotonic"
            )
        columns.append(column)
    return columns


def measure_models(
    check: ModelCheck,
    runs: Mapping[str, Sequence[FinishedRun]],
    configs: Mapping[str, RunConfig],
    given: Path | None = None,
) -> ModelCheck:
    """Return a check with what needs the models of the first fold.

    That is the time to predict, and the outputs for rows out of distribution of the user's own, in
    the file ``given``, which raises KdgError if it does not have the columns of the data.
    """
    from kdgraph.config.compatibility import uses_training_rows
    from kdgraph.runner.prediction.predict import load_run
    from kdgraph.runner.stages import split

    methods = dict(check.methods)
    for name, config in configs.items():
        saved = load_run(runs[name][0].path)
        trains = uses_training_rows(config.components)
        X = split(config.dataset, config.seed, config.division, trains=trains).test.X
        models = {name: saved.model}
        if methods[UNREPAIRED].predict_ms is None:
            models[UNREPAIRED] = FittedModel(saved.model.parent)
        for key, model in models.items():
            methods[key] = replace(methods[key], predict_ms=_milliseconds(model, X))
            if given is not None:
                far = {**methods[key].far, GIVEN: _given_rows(saved, model, X, given)}
                methods[key] = replace(methods[key], far=far)
    return replace(check, methods=methods)


def _milliseconds(model: FittedModel, X: np.ndarray) -> float:
    """Return the least time of several calls with a thousand rows, after one for what is cached."""
    rows = X[np.arange(_TIMED_ROWS) % len(X)]
    model.predict_proba(rows)
    seconds = []
    for _ in range(_TIMED_CALLS):
        start = time.perf_counter()
        model.predict_proba(rows)
        seconds.append(time.perf_counter() - start)
    return 1000 * min(seconds)


def _given_rows(saved: DeployedModel, model: FittedModel, X: np.ndarray, path: Path) -> FarRows:
    """Return the outputs of a model for the first rows of a file; ``X`` are its test rows."""
    from kdgraph.runner.prediction.rows import NewRows

    rows = NewRows(path, saved.schema, "missing", lambda line: None, option="--ood")
    block = next(rows.blocks(MAX_GIVEN_ROWS), None)
    if block is None:
        raise UsageError(f"--ood {path} has no rows")
    near = model.predict_outputs(["ood_score"], X)
    try:
        far = model.predict_outputs(["proba", "ood_score"], block.X)
    except ValueError as error:
        raise UsageError(
            f"--ood {path}: the model does not predict these rows ({first_line(error)});"
            " categories that the data do not have are missing values to it"
        ) from error
    return FarRows(far["proba"].max(axis=1), auroc(far["ood_score"], near["ood_score"]))
