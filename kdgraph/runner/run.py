"""One run, from its config to its record."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdgraph.config import RunConfig
from kdgraph.config.data_sources import refuse_changed
from kdgraph.containment import path_inside
from kdgraph.errors import KdgError
from kdgraph.runner.files import file_checksum, temporary_path, wrap_os_errors, write_atomically
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.run_dir import RunDir

if TYPE_CHECKING:
    from kdgraph.base import Evaluation, FittedModel
    from kdgraph.data.dataset import Splits
    from kdgraph.runner.store import StageResult

PREDICTIONS, TABLES, FIGURES = "predictions.parquet", "tables", "figures"


def run(config: RunConfig, reporter: ProgressReporter | None = None) -> dict[str, Any]:
    """Return the record of a run, which is done now unless it was done before.

    If another process is doing the run, this one waits, and returns that one's record. Rows and
    components that do not go together are refused before anything is written. A failure after that
    is written to ``error.txt`` and raised, and the run is tried again next time; the results of
    stages that were finished stay in the store.
    """
    reporter = reporter or ProgressReporter()
    folder = RunDir(config.run_dir)
    if not config.force and (record := folder.record()):
        return record
    # Before the directory exists, so that what is refused leaves nothing behind; but a run that
    # another process is doing has a directory, and is most often done after the wait.
    prepared = None if folder.is_running else _prepare(config, folder, reporter)
    with folder.locked(reporter) as waited:
        folder.set_aside_damaged()
        if (waited or not config.force) and (record := folder.record()):
            return record
        prepared = prepared or _prepare(config, folder, reporter)
        with folder.noting_failure():
            record = _run_stages(config, prepared, folder, reporter)
        folder.finish(record)
    return record


def _prepare(config: RunConfig, folder: RunDir, reporter: ProgressReporter) -> StageResult:
    """Split the rows, and check all that can be checked before anything is fitted.

    KdgError refuses the run. Any other error is a failure, and written to ``error.txt``.
    """
    # Imported late: a run that is done needs no scikit-learn.
    from threadpoolctl import threadpool_limits

    from kdgraph.config.compatibility import uses_training_rows
    from kdgraph.runner.stages import check_stages, split
    from kdgraph.runner.store import run_stage

    reporter.stage("split")
    with folder.noting_failure(refusal=KdgError), threadpool_limits(1, user_api="blas"):
        trains = uses_training_rows(config.components)
        result = run_stage(
            lambda: split(config.dataset, config.seed, config.division, trains=trains)
        )
        check_stages(config, result.value)
    return result


def attempt(config: RunConfig, reporter: ProgressReporter) -> Exception | None:
    """Do one run of many, and return its failure: it must not stop the others."""
    try:
        run(config, reporter)
    # Any, as a part of the user's own may raise: the caller reports it, and does the other runs.
    except Exception as error:  # noqa: BLE001
        return error
    return None


def _run_stages(
    config: RunConfig, split_result: StageResult, folder: RunDir, reporter: ProgressReporter
) -> dict[str, Any]:
    from threadpoolctl import threadpool_limits

    from kdgraph.base import FittedModel
    from kdgraph.deployment.schema import schema_of
    from kdgraph.runner.launchers.dask_fits import FitWorkers
    from kdgraph.runner.record import make_record
    from kdgraph.runner.store import run_stage
    from kdgraph.runner.stored_stages import StoredStages
    from kdgraph.wording import use_class_names

    # BLAS adds in another order for another number of threads, which depends on the number of jobs:
    # a run alone has all cores, one of several in a sweep its share.
    with threadpool_limits(1, user_api="blas"):
        splits = split_result.value
        with FitWorkers(config.fit_on, config.n_jobs, reporter) as workers:
            stages = StoredStages(config, splits, reporter, workers)
            folder.pin(stages.entries)
            fitted = stages.fit()
            folds = stages.cross_fit()
            calibrated = stages.calibrate(fitted.value, folds and folds.value)
        parent, model = FittedModel(fitted.value), calibrated.value
        evaluated = stages.evaluate(parent, model)
        files = _write_outputs(evaluated.value, splits, folder.path)

        reporter.stage("figures")
        drawn = run_stage(
            lambda: _draw_figures(config, (splits, evaluated.value, (parent, model)), folder.path)
        )
        files |= {
            "figures": drawn.value,
            "model": (
                folder.save_models(
                    fitted, calibrated, schema_of(config.dataset, splits, model).as_json()
                )
                if config.save
                else []
            ),
        }
        files["sha256"] = {
            name: file_checksum(folder.path / name)
            for name in (files["predictions"], *files["tables"].values())
        }
        refuse_changed(config.files, config.science())

        results = {
            "split": split_result,
            "fit": fitted,
            **({"cross_fit": folds} if folds else {}),
            "calibrate": calibrated,
            "evaluate": evaluated,
            "figures": drawn,
        }
        with use_class_names(splits.train.classes.tolist(), splits.train.group_names):
            learnt = model.summary()
        return make_record(config, splits, results, learnt, files, stages.entries)


def _draw_figures(
    config: RunConfig,
    contents: tuple[Splits, Evaluation, tuple[FittedModel, FittedModel]],
    run_dir: Path,
) -> list[str]:
    """Draw the config's figures, as far as the run has their contents; return the files' names."""
    if not config.drawn:
        return []
    from kdgraph.figures.model_names import figure_names
    from kdgraph.figures.run_figures import RunFigureData

    _warn_of_tables_without_metric(config)
    data = RunFigureData(*contents, names=figure_names(config.parent, config.after))
    folder = path_inside(run_dir, FIGURES)
    with wrap_os_errors(folder):
        names = data.save(folder, config.drawn, config.figures["formats"], config.figures["dpi"])
    return [f"{FIGURES}/{name}" for name in names]


def _warn_of_tables_without_metric(config: RunConfig) -> None:
    """Warn of figures of tables that none of the config's metrics computes: a user expects them.

    Figures that suit other data or models are left out without a warning.
    """
    from kdgraph.figures.run_figures import tables_of_figure

    computed = {key for nodes in config.measures.values() for key in nodes}
    tables_of = {
        name: tables_of_figure(name, options or {}) for name, options in config.drawn.items()
    }
    figures = [name for name, tables in tables_of.items() if tables and computed.isdisjoint(tables)]
    if figures:
        tables = ", ".join(dict.fromkeys(table for name in figures for table in tables_of[name]))
        warnings.warn(
            f"not drawn: {', '.join(figures)}, since no metric computes {tables}; choose metrics"
            " that do, such as metrics=local with figures=local",
            stacklevel=2,
        )


def _write_outputs(evaluation: Evaluation, splits: Splits, run_dir: Path) -> dict[str, Any]:
    """Write the outputs of both models for every row, and each table; return the files' names."""
    import pandas as pd

    from kdgraph.base import write_predictions

    temporary = temporary_path(run_dir / PREDICTIONS)
    with wrap_os_errors(run_dir / PREDICTIONS):
        run_dir.mkdir(parents=True, exist_ok=True)
        try:
            write_predictions(temporary, evaluation.predictions, splits.test.classes)
            os.replace(temporary, run_dir / PREDICTIONS)
        finally:
            temporary.unlink(missing_ok=True)
    tables = {name: f"{TABLES}/{name}.csv" for name in evaluation.tables}
    for name, rows in evaluation.tables.items():
        content = pd.DataFrame(rows).to_csv(index=False).encode()
        write_atomically(path_inside(run_dir, tables[name]), content)
    return {"predictions": PREDICTIONS, "tables": tables}
