"""One run, from its config to its record."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from kdgraph.run_config import FigureOptions, RunConfig, file_digests
from kdgraph.runner.files import write_atomically
from kdgraph.runner.rundir import RunDir
from kdgraph.runner.store import Store, make, stage_key
from kdgraph.runner.watch import Watch


def run(config: RunConfig, watch: Watch | None = None) -> dict[str, Any]:
    """Do the run, or find it done, and return its record.

    A run that another process is doing at the moment is waited for, and its record is used. What fails is kept as ``error.txt``, raised,
    and tried again next time; stages that were finished before stay in the store.
    """
    watch = watch or Watch()
    folder = RunDir(config.run_dir)
    if not config.force and (record := folder.record()):
        return record
    with folder.claimed(watch) as waited:
        if (waited or not config.force) and (record := folder.record()):
            return record
        try:
            record = _do(config, folder.path, watch)
        except Exception as error:
            folder.fail(error)
            raise
        folder.finish(record)
    return record


def _do(config: RunConfig, folder: Path, watch: Watch) -> dict[str, Any]:
    """The four stages, the figures, the record."""
    from kdgraph.runner import stages  # here, because a run that is done needs no scikit-learn
    from kdgraph.runner.draw import Drawing
    from kdgraph.runner.evaluate import evaluate
    from kdgraph.runner.record import make_record

    store = Store(Path(config.out) / ".store", watch, reuse=not config.force)
    seed, n_jobs = config.seed, config.n_jobs

    watch.stage("split")
    divided = make(lambda: stages.split(config.dataset, seed))
    splits = divided.value
    keys = stage_keys(config, splits)

    watch.stage("fit")
    encoding = {"preprocess": config.preprocess, "has_missing": splits.has_missing}
    training = {"report": watch.progress, "checkpoint": store.path("fit", keys["fit"]).with_suffix(".training")}
    fitted = store.get_or_make(
        "fit",
        keys["fit"],
        lambda: stages.fit(config.parent, splits.train, **encoding, seed=seed, n_jobs=n_jobs, **training),
    )
    parent = fitted.value

    watch.stage("calibrate")
    calibrated = store.get_or_make(
        "calibrate",
        keys["calibrate"],
        lambda: stages.calibrate(config.calibrator, config.gate, parent, splits, seed=seed, n_jobs=n_jobs),
        shared={"parent": parent},
    )
    model = calibrated.value.model

    watch.stage("evaluate")
    evaluated = store.get_or_make(
        "evaluate",
        keys["evaluate"],
        lambda: evaluate(config.dataset, config.ood, config.metrics, splits, parent, model, seed=seed),
    )
    _write_parquet(evaluated.value.frame(splits.test.classes), folder / "predictions.parquet")

    watch.stage("figures")
    options, names = FigureOptions(**config.figures), figure_names(config)
    drawn = make(lambda: Drawing(options, splits, evaluated.value, parent, model, names).save(folder / "figures"))

    done = {"split": divided, "fit": fitted, "calibrate": calibrated, "evaluate": evaluated, "figures": drawn}
    return make_record(config, splits, done, calibrated.value.learnt(), drawn.value)


def stage_keys(config: RunConfig, splits: Any) -> dict[str, str]:
    """Keys of the stages that are stored, each of the data that it sees and of every choice that leads to it.

    The split is made each time: that costs little, and its fingerprint is how changed data are noticed. More test rows fit nothing again.
    """
    train, rest = splits.train.fingerprint, splits.calibration.fingerprint
    parent = {"parent": config.parent, "preprocess": config.preprocess, "has_missing": splits.has_missing}
    after = parent | {"calibrator": config.calibrator, "gate": config.gate}
    all_of_it = after | {"dataset": config.dataset, "ood": config.ood, "metrics": config.metrics, "files": file_digests(config.science())}
    return {
        "fit": stage_key("fit", train, parent, config.seed),
        "calibrate": stage_key("calibrate", train + rest, after, config.seed),
        "evaluate": stage_key("evaluate", splits.fingerprint, all_of_it, config.seed),
    }


def figure_names(config: RunConfig) -> tuple[str, str]:
    """What parent and calibrated model are called in figures; two different names."""
    parent, calibrator, gate = (str(node["name"]) for node in (config.parent, config.calibrator, config.gate))
    calibrated = calibrator if gate == "none" else f"{calibrator} + {gate}"
    return parent, calibrated if calibrated != parent else f"{calibrated} (calibrated)"


def _write_parquet(frame: Any, path: Path) -> None:
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    write_atomically(path, buffer.getvalue())
