"""One run, from its config to its record."""

from __future__ import annotations

from typing import Any

from kdgraph.config import RunConfig, refuse_changed
from kdgraph.runner.rundir import RunDir
from kdgraph.runner.sealed import file_checksum
from kdgraph.runner.watch import Watch


def run(config: RunConfig, watch: Watch | None = None) -> dict[str, Any]:
    """Do the run, or find it done, and return its record.

    A run that another process is doing at the moment is waited for, and its record is used. What
    fails is kept as ``error.txt``, raised, and tried again next time; stages that were finished
    before stay in the store.
    """
    watch = watch or Watch()
    folder = RunDir(config.run_dir)
    if not config.force and (record := folder.record()):
        return record
    with folder.claimed(watch) as waited:
        folder.set_aside_damaged()
        if (waited or not config.force) and (record := folder.record()):
            return record
        try:
            record = _do(config, folder, watch)
        except Exception as error:
            folder.fail(error)
            raise
        folder.finish(record)
    return record


def attempt(config: RunConfig, watch: Watch) -> Exception | None:
    """Do one run of many; its failure is kept in its directory and must not stop the others."""
    try:
        run(config, watch)
    except Exception as error:  # noqa: BLE001 - returned, and told at the end with the path of the traceback
        return error
    return None


def _do(config: RunConfig, folder: RunDir, watch: Watch) -> dict[str, Any]:
    """The four stages, what they leave in the run's directory, the record."""
    from threadpoolctl import (
        threadpool_limits,
    )  # these here, because a run that is done needs no scikit-learn

    from kdgraph.base import FittedModel
    from kdgraph.runner.artifacts import draw, keep_models, write_answers
    from kdgraph.runner.record import make_record
    from kdgraph.runner.stages import split
    from kdgraph.runner.store import make
    from kdgraph.runner.stored import StoredStages

    # BLAS adds in another order for another number of threads, which depends on the machine's load
    # of jobs: one alone has all cores, one of several in a sweep its share.
    with threadpool_limits(1, user_api="blas"):
        watch.stage("split")
        divided = make(lambda: split(config.dataset, config.seed))
        splits = divided.value
        stored = StoredStages(config, splits, watch)
        folder.hold(stored.entries)

        fitted = stored.fit()
        calibrated = stored.calibrate(fitted.value)
        parent, model = FittedModel(fitted.value), calibrated.value
        evaluated = stored.evaluate(parent, model)
        files = write_answers(evaluated.value, splits, folder.path)

        watch.stage("figures")
        drawn = make(lambda: draw(config, splits, evaluated.value, (parent, model), folder.path))
        files |= {
            "figures": drawn.value,
            "model": keep_models(config, splits, fitted, calibrated, folder.path),
        }
        files["sha256"] = {
            name: file_checksum(folder.path / name)
            for name in (files["predictions"], *files["tables"].values())
        }
        refuse_changed(config.files, config.science())

        done = {
            "split": divided,
            "fit": fitted,
            "calibrate": calibrated,
            "evaluate": evaluated,
            "figures": drawn,
        }
        return make_record(config, splits, done, model.summary(), files, stored.entries)
