"""One run, from its config to its record."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kdgraph.run_config import RunConfig, file_digests
from kdgraph.runner.files import write_atomically
from kdgraph.runner.gc import STAGES
from kdgraph.runner.model_dir import keep, trusted_packages
from kdgraph.runner.rundir import RunDir
from kdgraph.runner.store import Store, entry_name, make, stage_key
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
        (folder.path / STAGES).unlink(missing_ok=True)
    return record


def attempt(config: RunConfig, watch: Watch) -> Exception | None:
    """Do one run of many; its failure is kept in its directory and must not stop the others."""
    try:
        run(config, watch)
    except Exception as error:  # noqa: BLE001 - returned, and told at the end with the path of the traceback
        return error
    return None


def _do(config: RunConfig, folder: Path, watch: Watch) -> dict[str, Any]:
    """The four stages, the figures, the record."""
    from kdgraph.answers import Model, frame_of
    from kdgraph.figures.of_run import Drawing, FigureOptions
    from kdgraph.runner import stages  # here, because a run that is done needs no scikit-learn
    from kdgraph.runner.evaluate import Evaluation, evaluate
    from kdgraph.runner.prediction.schema import schema_of
    from kdgraph.runner.record import make_record

    store = Store(Path(config.out) / ".store", watch, reuse=not config.force, trusted=trusted_packages(config.science()))
    seed, n_jobs = config.seed, config.n_jobs

    watch.stage("split")
    divided = make(lambda: stages.split(config.dataset, seed))
    splits = divided.value
    keys = stage_keys(config, splits)
    entries = {name: entry_name(name, key) for name, key in keys.items()}
    write_atomically(folder / STAGES, json.dumps({"store": entries}).encode())  # from now on they are held

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
        lambda: stages.calibrate(config.after, parent, splits, protocol=config.protocol, seed=seed, n_jobs=n_jobs),
        shared={"parent": parent},
    )
    models = Model(parent), calibrated.value

    watch.stage("evaluate")
    sets = {"dataset": config.dataset, "ood": config.ood, "splits": splits, "seed": seed}

    def evaluation() -> Evaluation:
        """What the parent says is kept apart, for other methods on it."""
        known = store.find("parent_says", keys["parent_says"])
        found = evaluate(*models, config.measures, **sets, parent_says=known)
        if known is None:
            store.keep("parent_says", keys["parent_says"], [each.parent for each in found.predictions])
        return found

    evaluated = store.get_or_make("evaluate", keys["evaluate"], evaluation)
    _write_parquet(frame_of(evaluated.value.predictions, splits.test.classes), folder / "predictions.parquet")
    tables = _write_tables(evaluated.value.tables, folder / "tables")

    watch.stage("figures")
    drawing = Drawing(splits, evaluated.value, models, figure_names(config))
    drawn = make(lambda: drawing.save(FigureOptions(**{**config.figures, "draw": config.drawn}), folder / "figures"))

    saved = keep(folder, fitted, calibrated, schema_of(config, splits, models[1]).as_json()) if config.save else []
    done = {"split": divided, "fit": fitted, "calibrate": calibrated, "evaluate": evaluated, "figures": drawn}
    figures = [f"figures/{name}" for name in drawn.value]
    files = {"predictions": "predictions.parquet", "tables": tables, "figures": figures, "model": saved}
    return make_record(config, splits, done, calibrated.value.learnt(), files, entries)


def stage_keys(config: RunConfig, splits: Any) -> dict[str, str]:
    """Keys of the stages that are stored, each of the data that it sees and of every choice that leads to it.

    The split is made each time: that costs little, and its fingerprint is how changed data are noticed. More test rows fit nothing again.
    """
    from kdgraph.runner.evaluate import asked_for

    train, rest = splits.train.fingerprint, splits.calibration.fingerprint
    seen = splits.fingerprint if config.protocol == "paper" else train + rest
    parent = {"parent": config.parent, "preprocess": config.preprocess, "has_missing": splits.has_missing}
    after = parent | config.after | {"protocol": config.protocol}
    sets = {"dataset": config.dataset, "ood": config.ood, "files": file_digests(config.science())}
    of_parent = parent | sets | {"grid": bool(config.metrics.get("grid")), "asked_for": asked_for(config.measures)}
    all_of_it = after | sets | {"metrics": config.metrics}
    return {
        "fit": stage_key("fit", train, parent, config.seed),
        "calibrate": stage_key("calibrate", seen, after, config.seed),
        "parent_says": stage_key("parent_says", splits.fingerprint, of_parent, config.seed),
        "evaluate": stage_key("evaluate", splits.fingerprint, all_of_it, config.seed),
    }


def figure_names(config: RunConfig) -> tuple[str, str]:
    """What parent and calibrated model are called in figures; two different names."""
    parent = str(config.parent["name"])
    calibrated = " + ".join(name for node in config.after.values() if (name := str(node["name"])) != "none") or "none"
    return parent, calibrated if calibrated != parent else f"{calibrated} (calibrated)"


def _write_tables(tables: Mapping[str, list[dict[str, Any]]], folder: Path) -> dict[str, str]:
    """One CSV file for each table; gives their names in the run's directory."""
    import pandas as pd

    for name, rows in tables.items():
        folder.mkdir(exist_ok=True)
        write_atomically(folder / f"{name}.csv", pd.DataFrame(rows).to_csv(index=False).encode())
    return {name: f"{folder.name}/{name}.csv" for name in tables}


def _write_parquet(frame: Any, path: Path) -> None:
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    write_atomically(path, buffer.getvalue())
