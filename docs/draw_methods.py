"""Draw a picture for each method preset into docs/pictures/methods, and measure what each costs.

::

    OMP_NUM_THREADS=1 python docs/draw_methods.py                  # all: four minutes
    OMP_NUM_THREADS=1 python docs/draw_methods.py kdf gated_kdf    # some of them

Each preset is composed, fitted and evaluated as ``kdg run`` does, on a small simulation with one
seed; the picture is one of the library's own figures. Processor times of the fits and of 1,000
predictions go into docs/methods/drawn.csv. A page of docs/methods names in its front matter which
of its presets have the picture of another one (``picture: {acet: acet_quick}``), and which are run
with other overrides (``drawn: {gamma_glm: dataset=…}``).
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from matplotlib.figure import Figure
from PIL import Image

from kdgraph.base import FittedModel
from kdgraph.config import RunConfig, compose
from kdgraph.config.catalogue import Catalogue
from kdgraph.config.composer import conf_dir
from kdgraph.config.yaml_files import read_text
from kdgraph.data.dataset import Splits
from kdgraph.data.simulations import Heteroscedastic, Spiral
from kdgraph.figures import (
    RowMoments,
    plot_group_tables,
    plot_lce_landscape,
    plot_local_pit_histograms,
    plot_mean_and_sd,
    plot_ood_scores,
    plot_pit_histogram,
    plot_posterior_maps,
)
from kdgraph.figures.confidence_curves import plot_confidence_by_class_from_run
from kdgraph.figures.groups import GroupTable
from kdgraph.figures.model_names import figure_names
from kdgraph.figures.run_figures import RunFigureData
from kdgraph.figures.style import figure_bytes
from kdgraph.metrics import TopLabel, local_errors
from kdgraph.runner.evaluate import evaluate
from kdgraph.runner.stages import calibrate, fit, split

DOCS = Path(__file__).resolve().parent
PICTURES = DOCS / "pictures" / "methods"
DRAWN = DOCS / "methods" / "drawn.csv"
COLUMNS: tuple[str, ...] = (
    "preset",
    "figure",
    "overrides",
    "rows",
    "parent_fit",
    "after_fit",
    "parent_predict",
    "predict",
)
SPIRAL_BOX, SPIRAL_WIDE = (-1.0, 1.0, -1.0, 1.0), (-2.0, 2.0, -2.0, 2.0)
MOONS_WIDE = (-2.0, 2.0, -2.0, 2.0)
DPI, COLOURS = 140, 64
STRETCHES = {"x from 2 to 8": (2, 8), "x from 8 to 14": (8, 14), "x from 14 to 20": (14, 20)}


@dataclass(frozen=True)
class Fitted:
    """A method preset, fitted on small data.

    Attributes
    ----------
    config : RunConfig
        The run.
    splits : Splits
        Its rows.
    parent, model : FittedModel
        The parent alone, and with what is fitted after it.
    names : tuple of two str
        Their names in figures.
    """

    config: RunConfig
    splits: Splits
    parent: FittedModel
    model: FittedModel
    names: tuple[str, str]

    @property
    def models(self) -> dict[str, FittedModel]:
        """The models by name; one where nothing is fitted after the parent."""
        names = self.names if self.model.post_hoc else self.names[:1]
        return dict(zip(names, (self.parent, self.model), strict=False))


def front_matter(page: Path) -> dict[str, Any]:
    """Return the front matter of a page."""
    match = re.match(r"---\n(.*?)\n---\n", page.read_text(encoding="utf-8"), re.DOTALL)
    return yaml.safe_load(match[1]) if match else {}


def families() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return preset → folder and front matter of its page."""
    pages = sorted(page for page in (DOCS / "methods").glob("*/*.md"))
    return {
        preset: (page.parent.name, front)
        for page in pages
        for front in [front_matter(page)]
        for preset in front["presets"]
    }


def overrides_of(preset: str, family: str, front: dict[str, Any]) -> list[str]:
    """Return the words of a small run of a preset."""
    path = conf_dir() / "method" / f"{preset}.yaml"
    words = [f"method={preset}", "n_jobs=1"]
    if "${network}" in read_text(path):
        words.append("network=tabular_mlp")
    if drawn := front.get("drawn", {}).get(preset, front.get("drawn", {}).get("all")):
        return [*drawn.split(), *words]
    if family == "regression":
        return ["dataset=heteroscedastic", "dataset.n_train=3000", *words]
    return [f"dataset={'moons' if family == 'detection' else 'spiral'}", *words]


def write_clinics(path: Path) -> None:
    """Write a table of three clinics, in which measurements are worth more or less."""
    rng = np.random.default_rng(0)
    clinic, X = rng.integers(3, size=6000), rng.normal(size=(6000, 2))
    strength = np.array([6.0, 2.0, 0.7])[clinic]
    ill = rng.random(6000) < 1 / (1 + np.exp(-strength * (X[:, 0] + 0.5 * X[:, 1])))
    pd.DataFrame(
        {
            "first": X[:, 0],
            "second": X[:, 1],
            "clinic": np.array(["north", "east", "south"])[clinic],
            "ill": ill.astype(int),
        }
    ).to_csv(path, index=False)


def fit_preset(words: Sequence[str]) -> tuple[Fitted, dict[str, Any]]:
    """Fit a preset and measure what it costs.

    Returns
    -------
    Fitted
        The fitted models.
    dict
        Row of drawn.csv: processor seconds of the fits, microseconds of a prediction.
    """
    config = compose(words)
    splits = split(config.dataset, config.seed, config.division)
    start = time.process_time()
    parent = fit(
        config.parent,
        splits.train,
        preprocess=config.preprocess,
        has_missing=splits.has_missing,
        seed=config.seed,
        n_jobs=1,
    )
    parent_fit = time.process_time() - start
    model, after_fit = FittedModel(parent), np.inf
    for _ in range(2):  # what numba compiles in the first call is no cost of the method
        start = time.process_time()
        model = calibrate(
            config.after,
            parent,
            splits,
            calibration=config.calibration,
            protocol=config.protocol,
            ood=config.ood,
            seed=config.seed,
            n_jobs=1,
        )
        after_fit = min(after_fit, time.process_time() - start)
    result = Fitted(
        config, splits, FittedModel(parent), model, figure_names(config.parent, config.after)
    )
    return result, {
        "overrides": " ".join(word for word in words if word != "n_jobs=1"),
        "rows": len(splits.train.y) + len(splits.calibration.y),
        "parent_fit": parent_fit,
        "after_fit": after_fit if model.post_hoc else 0.0,
        "parent_predict": prediction_time(result.parent, splits),
        "predict": prediction_time(model, splits),
    }


def prediction_time(model: FittedModel, splits: Splits) -> float:
    """Return the processor time of a prediction of a test row, in microseconds."""
    outputs = [
        name
        for name in ("proba", "top_label", "distribution", "ood_score")
        if model.supports(name) and not (name == "ood_score" and model.has_set_scores)
    ]
    groups = {"groups": splits.test.groups} if model.takes_groups else {}
    model.predict_outputs(outputs, splits.test.X, **groups)  # compiles
    start = time.process_time()
    model.predict_outputs(outputs, splits.test.X, **groups)
    return 1e6 * (time.process_time() - start) / len(splits.test.y)


def grid(extent: tuple[float, float, float, float], cells: int = 120) -> np.ndarray:
    """Float[cells², 2]: middles of cells, row by row from below."""
    x, y = (
        low + (np.arange(cells) + 0.5) * (high - low) / cells
        for low, high in (extent[:2], extent[2:])
    )
    return np.column_stack([np.tile(x, cells), np.repeat(y, cells)])


def square(values: np.ndarray) -> np.ndarray:
    """Return values on a grid as the square that it is."""
    side = int(len(values) ** 0.5)
    return values.reshape(side, side)


def posterior(fitted: Fitted) -> Figure:
    """P(class 0 | x) of the parent and of the method; of a parent alone, beside the truth."""
    places = grid(SPIRAL_WIDE)
    maps = {
        name: square(model.predict_outputs(["proba"], places)["proba"][:, 0])
        for name, model in fitted.models.items()
    }
    if len(maps) == 1:
        inside = np.abs(places).max(axis=1) <= 1
        truth = np.nan_to_num(Spiral().posterior(places)[:, 0], nan=0.5)
        maps = {"truth": square(np.where(inside, truth, 0.5)), **maps}
    return plot_posterior_maps(maps, SPIRAL_WIDE, SPIRAL_BOX, class_label="P(class 0 | x)")


def p_values(fitted: Fitted) -> Figure:
    """p-value of the score at each place, with the training rows beside it."""
    places, train = grid(MOONS_WIDE), fitted.splits.train
    values = square(fitted.model.predict_outputs(["ood_p_value"], places)["ood_p_value"])
    return plot_posterior_maps(
        {fitted.names[1]: values},
        MOONS_WIDE,
        None,
        class_label="p-value of the score",
        points=train.X[:400],
    )


def set_scores(fitted: Fitted) -> Figure:
    """Scores of sets of test rows, and of sets of noise in the box of the training rows."""
    rng, X = np.random.default_rng(1), fitted.splits.train.X
    test, name = fitted.splits.test.X, fitted.names[1]
    noise = rng.uniform(X.min(axis=0), X.max(axis=0), (1000, X.shape[1]))
    detector: Any = fitted.model.post_hoc["detector"]
    test_scores, noise_scores = (
        detector.ood_score_of_sets(rows, np.random.default_rng(2)) for rows in (test, noise)
    )
    return plot_ood_scores({name: test_scores}, {"noise in the box": {name: noise_scores}})


def confidence(fitted: Fitted) -> Figure:
    """Confidence against the parent's score, class by class, with the accuracy of test rows."""
    config = fitted.config
    evaluation = evaluate(
        fitted.parent,
        fitted.model,
        {"test": {}, "calibration": {}}
        | {on: m for on, m in config.measures.items() if on == "test"},
        dataset=config.dataset,
        ood=None,  # pyright: ignore[reportArgumentType]
        splits=fitted.splits,
        seed=config.seed,
    )
    return plot_confidence_by_class_from_run(
        RunFigureData(fitted.splits, evaluation, (fitted.parent, fitted.model), fitted.names)
    )


def local(fitted: Fitted) -> Figure:
    """Signed local calibration error of test rows."""
    slce, n_eff, test = {}, {}, fitted.splits.test
    for name, model in fitted.models.items():
        outputs = ["top_label"] if model.supports("top_label") else ["proba"]
        predicted = model.predict_outputs(outputs, test.X)
        top = predicted.get("top_label")
        top = TopLabel.from_proba(predicted["proba"]) if top is None else top
        errors = local_errors(top.confidence, top.correct(test.y), test.X, bandwidths=(0.2,))
        slce[name], n_eff[name] = errors.slce[0], errors.n_eff[0]
    return plot_lce_landscape(test.X, slce, n_eff, SPIRAL_BOX, bandwidth=0.2)


def groups(fitted: Fitted) -> Figure:
    """Mean of confidence minus accuracy by group."""
    test = fitted.splits.test
    assert test.groups is not None
    ids = np.unique(test.groups)
    errors = {}
    for name, model in fitted.models.items():
        predicted = model.predict_outputs(
            ["top_label"] if model.supports("top_label") else ["proba"],
            test.X,
            **({"groups": test.groups} if model.takes_groups else {}),
        )
        top = predicted.get("top_label")
        top = TopLabel.from_proba(predicted["proba"]) if top is None else top
        gap = top.confidence - top.correct(test.y)
        errors[name] = np.array([gap[test.groups == group].mean() for group in ids])
    rows = [float((test.groups == group).sum()) for group in ids]
    return plot_group_tables(
        [GroupTable("confidence minus accuracy", errors, "signed")],
        [str(test.group_names[group]) for group in ids],
        rows,
    )


def pit(fitted: Fitted) -> Figure:
    """PIT values of test rows in three stretches of x."""
    X_test, y_test = Heteroscedastic().sample(4000, np.random.default_rng(5))
    values = {
        name: model.predict_outputs(["distribution"], X_test)["distribution"].cdf(y_test)
        for name, model in fitted.models.items()
    }
    counts = {
        title: {
            name: np.histogram(p[(X_test[:, 0] >= low) & (X_test[:, 0] < high)], 20, (0, 1))[0]
            for name, p in values.items()
        }
        for title, (low, high) in STRETCHES.items()
    }
    return plot_local_pit_histograms(counts)


def moments(fitted: Fitted) -> Figure:
    """Predicted against true mean and standard deviation."""
    X_test, _ = Heteroscedastic().sample(600, np.random.default_rng(5))
    truth = Heteroscedastic().distribution(X_test)
    estimates = {
        name: RowMoments(np.asarray(d.mean()), np.sqrt(np.asarray(d.var())))
        for name, model in fitted.models.items()
        for d in [model.predict_outputs(["distribution"], X_test)["distribution"]]
    }
    return plot_mean_and_sd(RowMoments(truth.mean(), np.sqrt(truth.var())), estimates)


def pit_of_table(fitted: Fitted) -> Figure:
    """PIT values of the test rows of a table."""
    test = fitted.splits.test
    return plot_pit_histogram(
        {
            name: np.histogram(
                model.predict_outputs(["distribution"], test.X)["distribution"].cdf(test.y),
                20,
                (0, 1),
            )[0]
            for name, model in fitted.models.items()
        }
    )


def drawing(family: str, fitted: Fitted) -> Callable[[Fitted], Figure]:
    """Return the figure that shows what a method of this family does."""
    if family == "detection":
        return set_scores if fitted.model.has_set_scores else p_values
    if family == "regression":
        if fitted.config.dataset["name"] != "heteroscedastic":
            return pit_of_table
        return pit if fitted.model.post_hoc else moments
    if family == "top_label":
        return confidence
    if family == "local":
        return groups if fitted.splits.test.groups is not None else local
    return posterior


def write_png(figure: Figure, path: Path, title: str) -> None:
    """Write a figure with few colours, which takes a third of the bytes."""
    png = figure_bytes(figure, "png", DPI, title=title)
    Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(
        path, optimize=True
    )


def read_drawn() -> dict[str, dict[str, str]]:
    """Return the rows of drawn.csv by preset."""
    if not DRAWN.is_file():
        return {}
    with DRAWN.open(newline="", encoding="utf-8") as file:
        return {row["preset"]: row for row in csv.DictReader(file)}


def write_drawn(drawn: dict[str, dict[str, str]]) -> None:
    """Write the rows, sorted by preset."""
    with DRAWN.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(drawn[preset] for preset in sorted(drawn))


def main(presets: Sequence[str]) -> None:
    """Draw the named presets, or all that have a picture of their own."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp()
    write_clinics(Path(folder) / "clinics.csv")
    catalogue, drawn, pages = Catalogue([conf_dir()]), read_drawn(), families()
    failed = []
    for preset in presets or list(pages):
        family, front = pages[preset]
        if preset in front.get("picture", {}):
            continue
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                words = overrides_of(preset, family, front)
                with contextlib.chdir(folder):
                    fitted, cost = fit_preset(words)
                draw = drawing(family, fitted)
                figure = draw(fitted)
        except Exception as error:  # noqa: BLE001 - the other pictures are still to be drawn
            failed.append(preset)
            print(f"{preset}: {type(error).__name__}: {error}", flush=True)
            continue
        path = PICTURES / f"{preset}.png"
        write_png(figure, path, f"{preset} ({catalogue.task('method', preset)})")
        drawn[preset] = {"preset": preset, "figure": draw.__name__} | {
            name: f"{value:.3g}" if isinstance(value, float) else str(value)
            for name, value in cost.items()
        }
        write_drawn(drawn)
        print(f"{path.name} {time.perf_counter() - start:.1f} s, {path.stat().st_size:,} bytes",
              flush=True)  # fmt: skip
    shutil.rmtree(folder)
    if failed:
        sys.exit(f"not drawn: {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
