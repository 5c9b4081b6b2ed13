"""Records of every kind of run, for pages on which they stand beside each other; the numbers are
made up.
"""

from __future__ import annotations

from pathlib import Path

from kdgraph.config import run_id
from tests.report.page_runs import Record, make_record, write
from tests.results.about_metrics import about_metrics

TABLES = {"pit_histogram": "tables/pit_histogram.csv", "gone": "tables/gone.csv"}
HISTOGRAM = "of,on,ood,bin,share\nparent,test,,0.05,0.123456789\ncalibrated,test,,0.05,0.1\n"


def every_kind(seeds: range = range(2)) -> list[Record]:
    """For each seed: a calibrator by both protocols, a detector, a recalibrated regressor, and a
    calibrator of scores from elsewhere.
    """
    return [
        changed
        for seed in seeds
        for changed in (
            _calibrator(seed),
            _in_paper(seed),
            _detector(seed),
            _regressor(seed),
            _of_scores(seed),
        )
    ]


def write_every_kind(out: Path, records: list[Record]) -> Path:
    """The records where runs would be, and the table of each regressor; returns ``out``."""
    write(out, records)
    for record in records:
        if record["files"]["tables"]:
            table = (
                out
                / record["dataset"]["name"]
                / record["method"]
                / record["run_id"]
                / TABLES["pit_histogram"]
            )
            table.parent.mkdir()
            table.write_text(HISTOGRAM)
    return out


def _calibrator(seed: int) -> Record:
    return make_record("dataset=spiral", "method=kdf", seed=seed)


def _in_paper(seed: int) -> Record:
    """Isotonic calibration on test rows, which no component does; the page shows any record."""
    record = make_record(
        "dataset=spiral",
        "method=isotonic",
        seed=seed,
        protocol="paper",
        method="isotonic-as_in_paper",
    )
    record["config"]["protocol"] = "paper"
    record["run_id"] = run_id(record["config"])
    return record


def _detector(seed: int) -> Record:
    numbers = {"error": (0.1, 0.1), "mmc": (0.95, 0.95)}
    far = {
        f"{metric} {radius}": values
        for radius in (1, 2, 5)
        for metric, values in {"auroc": (0.6, 0.9), "fpr95": (0.8, 0.3)}.items()
    }
    return _changed(
        make_record("dataset=spiral", "method=none", seed=seed),
        {"detector": "tood"},
        "tood",
        numbers | far,
    )


def _regressor(seed: int) -> Record:
    numbers = {
        "rmse": (54_321.0, 54_321.0),
        "crps": (0.25, 0.125),
        "coverage": (0.81, 0.9),
        "my_score": (1.5, None),
    }
    record = _changed(
        make_record("dataset=spiral", "method=none", seed=seed),
        {"recalibrator": "global_pit"},
        "global_pit",
        numbers,
    )
    record["dataset"] |= {"name": "tran20", "classes": [], "prior": None}
    record["config"]["dataset"] = {"name": "tran20", "_target_": "kdgraph.data.simulations.Tran20"}
    record["files"]["tables"] = TABLES
    return record


def _of_scores(seed: int) -> Record:
    numbers = {"error": (0.2, 0.2), "ece": (0.1, 0.05), "brier_top": (0.2, 0.1)}
    record = _changed(
        make_record("dataset=wine", "method=none", seed=seed),
        {"calibrator": "histogram"},
        "histogram",
        numbers,
    )
    record["dataset"] |= {"name": "scores", "n_train": 0, "n_categorical": 0}
    record["config"]["dataset"] = {"name": "scores", "_target_": "kdgraph.data.tables.Scores"}
    return record


def _changed(
    record: Record,
    parts: dict[str, str],
    method: str,
    numbers: dict[str, tuple[float | None, float | None]],
) -> Record:
    """Another model and other numbers: of parent and calibrated model by metric, far from the data
    with the radius behind it.
    """
    config = record["config"]
    config |= {part: {"name": name, "_target_": f"custom.{name}"} for part, name in parts.items()}
    config["metrics"] = {
        on: {key.split()[0]: {} for key in numbers if (" " in key) == (on == "ood")}
        for on in ("test", "ood", "grid")
    }
    metrics = []
    for key, values in numbers.items():
        metric, _, radius = key.partition(" ")
        where = (
            {"on": "ood", "ood": "sphere", "params": {"radius": float(radius)}}
            if radius
            else {"on": "test", "ood": None, "params": {}}
        )
        for of, value in zip(("parent", "calibrated"), values, strict=True):
            metrics.append(
                {"metric": metric, "of": of, **where, "value": value, "stderr": None, "n": 100}
            )
    about = about_metrics([*(entry["metric"] for entry in metrics), *TABLES])
    return record | {
        "method": method,
        "run_id": run_id(config),
        "metrics": metrics,
        "about_metrics": about,
        **parts,
    }
