"""What is waited for every day: imports, help, lists, composing, images, figures, one small run;
part of ``make bench``.

Each line is a time, and its ratio to the least that Python could do for it, both measured in turn
on this machine: a command against a process that imports what the command cannot do without,
composing against Hydra's own composition of the same overrides. Medians of ``ROUNDS`` rounds;
commands are new processes, their imports included. With ``--suite`` the last line is the wall time
of what ``make test`` runs after lint, once, on two processes; it needs the dev extra.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from hydra import compose as hydra_compose
from hydra import initialize_config_dir

from kdgraph.config import compose, conf_dir, plan
from kdgraph.data.simulations import Shapes
from kdgraph.figures import plot_confidence_against_radius, save_figure

ROUNDS = 5
NOTHING, NUMPY = "pass", "import numpy"
FOREST = "import sklearn.ensemble, numba, hydra, pandas, pyarrow.parquet"
TINY = [
    "dataset=spiral",
    "method=kdf",
    "dataset.n_train=200",
    "parent.n_estimators=20",
    "ood.n=50",
    "ood.radii=[1,2,5]",
    "figures=none",
]
PAIRS = [
    "dataset=spiral,circle,sinewave,polynomial,trunk,wine,iris,digits,breast_cancer,shapes,"
    "cc18/adult,cc18/car,cc18/churn,cc18/cmc,cc18/credit_g,cc18/diabetes,cc18/dna,cc18/balance_scale,"
    "cc18/bioresponse,cc18/cnae_9,cc18/connect_4,cc18/cylinder_bands,cc18/electricity,"
    "cc18/breast_w,cc18/bank_marketing",
    "method=kdf,isotonic,sigmoid,beta,histogram,best,gated_isotonic,gated_sigmoid,"
    "network_lore,network_temperature",
]
POINT = ["dataset=circle", "method=gated_isotonic", "seed=3"]


def main() -> None:
    """Print the lines."""
    _report("import kdgraph", _python("import kdgraph"), _python(NUMPY), "import numpy")
    _report("kdg --help", _kdg("--help"), _python(NOTHING), "python -c pass")
    _report("kdg list", _kdg("list"), _python(NOTHING), "python -c pass")
    _report("kdg list dataset", _kdg("list", "dataset"), _python(NOTHING), "python -c pass")
    _report("compose and check one run", lambda: compose(POINT), _by_hydra, "hydra.compose")
    _report(
        "compose 250 seeds",
        lambda: _run_ids([*POINT[:2], "seed=range(0,250)"], multirun=True),
        _by_hydra,
        "hydra.compose once",
    )
    _report(
        "compose 25 data sets × 10 methods (bar 5 s)",
        lambda: _run_ids(PAIRS, multirun=True),
        _by_hydra,
        "hydra.compose once",
    )
    seconds = _seconds(lambda: print(end=f"{len(_run_ids(['experiment=paper/p1/cc18'])):,} runs"))
    print(f" of paper/p1/cc18: composed in {seconds:.1f} s (bar 20 s)")
    shapes, rng = Shapes(), np.random.default_rng(0)
    pixels = (4000, shapes.channels, shapes.size, shapes.size)
    _report(
        "4,000 images of shapes",
        lambda: shapes.sample(4000, rng),
        lambda: rng.random(pixels),
        "as many random numbers",
    )
    with tempfile.TemporaryDirectory() as folder:
        figure = plot_confidence_against_radius(
            {"forest": np.array([0.9, 0.8, 0.6, 0.5])}, np.arange(4), 0.5
        )
        stem = Path(folder) / "figure"
        _report(
            "a figure as SVG and PNG",
            lambda: save_figure(figure, stem),
            lambda: figure.savefig(stem.with_suffix(".png")),
            "its PNG alone",
        )
        run = _kdg("run", *TINY, f"out={Path(folder) / 'outputs'}", "force=true")
        _report("one small run, new", run, _python(FOREST), "its imports")
        _report(
            "the same, done before",
            _kdg("run", *TINY, f"out={Path(folder) / 'outputs'}"),
            _python("import hydra"),
            "import hydra",
        )
    if "--suite" in sys.argv:
        quick = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "2",
            "--dist",
            "worksteal",
            "-m",
            "not slow",
        ]
        seconds = _seconds(lambda: subprocess.run(quick, capture_output=True, check=True))
        print(f"{'the quick tests':28}{seconds:8.0f} s")


def _report(
    what: str, ours: Callable[[], object], least: Callable[[], object], against: str
) -> None:
    times = [(_seconds(ours), _seconds(least)) for _ in range(ROUNDS)]
    mine, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    print(
        f"{what:28}{mine:8.3f} s   {statistics.median(a / b for a, b in times):6.2f} × {against}"
        f" ({theirs:.3f} s)",
        flush=True,
    )


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _run_ids(overrides: list[str], *, multirun: bool = False) -> list[str]:
    return [job.config.run_id for job in plan(overrides, multirun=multirun).jobs]


def _python(code: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, "-c", code], check=True)


def _kdg(*arguments: str) -> Callable[[], object]:
    return lambda: subprocess.run(
        [sys.executable, "-m", "kdgraph", *arguments], check=True, capture_output=True
    )


def _by_hydra() -> None:
    with initialize_config_dir(version_base="1.3", config_dir=str(conf_dir())):
        hydra_compose("config", overrides=POINT)


if __name__ == "__main__":
    main()
