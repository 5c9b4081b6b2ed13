"""Run the demonstrations of docs/guide over ten seeds, for their pictures and their tables.

::

    OMP_NUM_THREADS=1 python docs/draw_guide.py               # all of them: minutes on one core
    OMP_NUM_THREADS=1 python docs/draw_guide.py sets local    # some of them

Each demonstration draws or divides its rows anew with every seed. Pictures go into
docs/pictures/guide, means and standard deviations over the seeds into docs/guide/measured.csv, and
the tables between the marks ``<!-- measured: NAME -->`` and ``<!-- end -->`` of the pages are
written from there.
"""

from __future__ import annotations

import csv
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import t as student_t
from sklearn.datasets import load_digits, make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from experiments.p5.setting_boxes import plot_boxes_by_setting
from kdgraph import DensityGate, KernelDensityForest, KernelDensityNetwork
from kdgraph.calibration import ConformalClassifier, GroupWise, ScoreMap
from kdgraph.calibration.local import LocalRecalibration
from kdgraph.config import compose
from kdgraph.data.simulations import Heteroscedastic, Spiral
from kdgraph.figures import (
    GroupTable,
    LceCurves,
    plot_confidence_against_radius,
    plot_gains,
    plot_group_tables,
    plot_lce_against_bandwidth,
    plot_local_pit_histograms,
    plot_mean_confidence,
    plot_reliability_diagram,
    plot_reward_against_ratio,
    save_figure,
)
from kdgraph.metrics import (
    TopLabel,
    brier,
    ece,
    ece_if_calibrated,
    error,
    local_errors,
    nll,
    reliability_bins,
    reward_by_ratio,
)
from kdgraph.parents import GaussianLinear
from kdgraph.parents.networks import MultilayerPerceptron
from kdgraph.recalibration import ConformalPit, GlobalPit, LocalPit
from kdgraph.runner.run import run

DOCS = Path(__file__).resolve().parent
PICTURES, MEASURED = DOCS / "pictures" / "guide", DOCS / "guide" / "measured.csv"
SEEDS = range(10)
BAND = "10 seeds"
Values = dict[tuple[str, str], list[float]]
"""(Row, column) of a table → the value of each seed."""
STRETCHES = {"x from 2 to 8": (2, 8), "x from 8 to 14": (8, 14), "x from 14 to 20": (14, 20)}


class Table:
    """Values of each seed, by row and column of a table."""

    def __init__(self) -> None:
        self.values: Values = {}

    def add(self, row: str, **columns: float) -> None:
        """Add the values of one seed."""
        for column, value in columns.items():
            self.values.setdefault((row, column.replace("_", " ")), []).append(float(value))

    def column(self, column: str) -> dict[str, np.ndarray]:
        """Return the values of a column by row."""
        return {row: np.array(v) for (row, name), v in self.values.items() if name == column}


def digits_forests(seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Probabilities of test digits by a forest, and behind calibrators without a row held out."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / 16, y, test_size=0.3, stratify=y, random_state=seed)
    kdf = KernelDensityForest(RandomForestClassifier(200, random_state=seed), random_state=seed)
    kdf.fit(X, y)
    forest = FrozenEstimator(kdf.estimator_)
    models: dict[str, Any] = {
        "Random forest": kdf.estimator_,
        "Temperature": ScoreMap(forest, method="temperature", calibration="oob").fit(X, y),
        "Isotonic": ScoreMap(forest, method="isotonic", calibration="oob").fit(X, y),
        "KDF": kdf,
    }
    return {name: model.predict_proba(X_test) for name, model in models.items()}, y_test


def calibrated(table: Table) -> Figure:
    """Reliability of forests on digits."""
    pooled: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for seed in SEEDS:
        probabilities, y = digits_forests(seed)
        for name, p in probabilities.items():
            top = TopLabel.from_proba(p)
            pooled.setdefault(name, []).append((top.confidence, top.correct(y)))
            table.add(
                name,
                error=error(y, top),
                NLL=nll(y, p),
                ECE=ece(y, top),
                ECE_by_chance=ece_if_calibrated(top),
            )
    shown = ("Random forest", "KDF")
    bins = {
        name: reliability_bins(*(np.concatenate(part) for part in zip(*pooled[name], strict=True)))
        for name in shown
    }
    mean = {name: float(table.column("ECE")[name].mean()) for name in shown}
    return plot_reliability_diagram(bins, ece=mean)


def far(table: Table) -> Figure:
    """Confidence on circles around the spiral."""
    radii, angle = np.linspace(0.25, 4, 16), np.linspace(0, 2 * np.pi, 200, endpoint=False)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    curves: dict[str, list[np.ndarray]] = {}
    for seed in SEEDS:
        X, y = Spiral().sample(1430, np.random.default_rng(seed))
        X_test, y_test = Spiral().sample(2000, np.random.default_rng(100 + seed))
        kdf = KernelDensityForest(
            RandomForestClassifier(200, random_state=seed), random_state=seed
        ).fit(X, y)
        network = MultilayerPerceptron(
            hidden=(200, 200, 200), learning_rate=0.001, device="cpu", random_state=seed
        )
        kdn = KernelDensityNetwork(network, random_state=seed).fit(X, y)
        models = {
            "Random forest": kdf.estimator_,
            "KDF": kdf,
            "Network": kdn.estimator_,
            "KDN": kdn,
        }
        for name, model in models.items():
            confidence = [model.predict_proba(r * circle).max(axis=1).mean() for r in radii]
            curves.setdefault(name, []).append(np.array(confidence))
            p = model.predict_proba(X_test)
            table.add(
                name,
                error=error(y_test, p),
                NLL=nll(y_test, p),
                ECE=ece(y_test, p),
                confidence_at_radius_2=confidence[int(np.argmin(np.abs(radii - 2)))],
                confidence_at_radius_4=confidence[-1],
            )
    stacked = {name: np.array(rows) for name, rows in curves.items()}
    return plot_confidence_against_radius(
        {name: rows.mean(axis=0) for name, rows in stacked.items()},
        radii,
        0.5,
        bands={name: (rows.min(axis=0), rows.max(axis=0)) for name, rows in stacked.items()},
        band_of="least to largest of 10 seeds",
        radius_label="distance from the origin (training rows: at most 1)",
    )


NEAR = {
    "near": "three digits left out",
    "permuted": "columns permuted",
    "shifted": "columns shifted",
    "other": "another table",
    "noise": "noise",
}
NEAR_MODELS = {
    "KDF": ["method=kdf"],
    "Gated KDF": ["method=gated_kdf"],
    "Gated KDF, alpha .1": ["method=gated_kdf", "gate.alpha=0.1"],
}


def near(table: Table) -> Figure:
    """Mean confidence on digits that were left out of training, and farther away."""
    models: dict[str, None] = {}
    prior: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in SEEDS:
            for label, words in NEAR_MODELS.items():
                config = compose(
                    [
                        "dataset=digits",
                        "dataset.left_out=3",
                        "ood=near_to_far",
                        *words,
                        f"seed={seed}",
                        "figures=none",
                        "n_jobs=1",
                        f"out={folder}",
                    ]
                )
                record = run(config)
                parent = {"parent": "Random forest"} if label == "KDF" else {}
                for of, name in {**parent, "calibrated": label}.items():
                    models.setdefault(name, None)
                    entries = [entry for entry in record["metrics"] if entry["of"] == of]
                    on_test = {e["metric"]: e["value"] for e in entries if e["on"] == "test"}
                    table.add(
                        name,
                        error=on_test["error"],
                        NLL=on_test["nll"],
                        **{"test digits": on_test["mmc"]},
                    )
                    for source, title in NEAR.items():
                        sets_ = [
                            e["value"]
                            for e in entries
                            if e["metric"] == "mmc" and str(e["ood"]).partition(" ")[0] == source
                        ]
                        table.add(name, **{title: float(np.mean(sets_))})
                prior.append(max(record["dataset"]["prior"]))
    means = {
        title: {name: float(np.mean(table.values[name, title])) for name in models}
        for title in NEAR.values()
    }
    return plot_mean_confidence(means, float(np.mean(prior)))


CLINICS, STRENGTHS = ("north", "east", "south"), np.array([6.0, 2.0, 0.7])


def patients(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two measurements, a label, and the clinic, on which it depends what they are worth."""
    clinic = rng.integers(3, size=n)
    X = rng.normal(size=(n, 2))
    y = rng.random(n) < 1 / (1 + np.exp(-STRENGTHS[clinic] * (X[:, 0] + 0.5 * X[:, 1])))
    return X, y.astype(int), clinic


def groups(table: Table) -> Figure:
    """ECE of each clinic, which the model does not see."""
    errors: dict[str, list[list[float]]] = {}
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        X, y, clinic = patients(3000, rng)
        X_test, y_test, clinic_test = patients(3000, rng)
        parent = LogisticRegression()
        split = {"random_state": seed}
        isotonic = ScoreMap(parent, method="isotonic", **split).fit(X, y)
        by_group = GroupWise(parent, ScoreMap(None, method="temperature"), **split)
        by_group.fit(X, y, groups=clinic)
        predicted = {
            "Logistic regression": isotonic.estimator_.predict_proba(X_test),
            "Isotonic": isotonic.predict_proba(X_test),
            "Temperature by group": by_group.predict_proba(X_test, groups=clinic_test),
        }
        for name, p in predicted.items():
            top = TopLabel.from_proba(p)
            of_clinic = [
                ece(y_test[mask], TopLabel.from_proba(p[mask]), bins=10)
                for mask in (clinic_test == k for k in range(3))
            ]
            errors.setdefault(name, []).append(of_clinic)
            table.add(
                name,
                NLL=nll(y_test, p),
                ECE=ece(y_test, top, bins=10),
                **{
                    f"ECE {clinic}": value for clinic, value in zip(CLINICS, of_clinic, strict=True)
                },
            )
    return plot_group_tables(
        [GroupTable("ECE of the group", {name: np.array(v) for name, v in errors.items()})],
        [f"clinic {name}" for name in CLINICS],
        [1000.0] * 3,
        runs_of=BAND,
    )


def local(table: Table) -> Figure:
    """Local calibration error of a straight boundary between two moons."""
    bandwidths = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
    curves: dict[str, dict[str, list[np.ndarray]]] = {}
    for seed in SEEDS:
        X, y = make_moons(3000, noise=0.25, random_state=seed)
        X_test, y_test = make_moons(3000, noise=0.25, random_state=100 + seed)
        parent = LogisticRegression()
        isotonic = ScoreMap(parent, method="isotonic", random_state=seed).fit(X, y)
        lore = LocalRecalibration(
            parent, bins="cv", choice="simplest", fill_proba=True, random_state=seed
        ).fit(X, y)
        predicted = {
            "Logistic regression": isotonic.estimator_.predict_proba(X_test),
            "Isotonic": isotonic.predict_proba(X_test),
            "LoRe": lore.predict_proba(X_test),
        }
        for name, p in predicted.items():
            top = TopLabel.from_proba(p)
            errors = local_errors(
                top.confidence, top.correct(y_test), X_test, bandwidths=bandwidths
            )
            parts = {
                "mlce": np.abs(errors.slce).max(axis=1),
                "lce": np.abs(errors.slce).mean(axis=1),
                "mlce_n_eff": np.take_along_axis(
                    errors.n_eff, np.abs(errors.slce).argmax(axis=1)[:, None], axis=1
                )[:, 0],
                "n_eff": np.median(errors.n_eff, axis=1),
            }
            for key, values in parts.items():
                curves.setdefault(key, {}).setdefault(name, []).append(values)
            table.add(
                name,
                error=error(y_test, top),
                Brier=brier(y_test, p),
                ECE=ece(y_test, top),
                mean_LCE=parts["lce"][2],
                MLCE=parts["mlce"][2],
            )
    stacked = {key: {name: np.array(v) for name, v in of.items()} for key, of in curves.items()}
    return plot_lce_against_bandwidth(
        {"features": LceCurves(np.array(bandwidths), **stacked)}, band_of=BAND
    )


def intervals(table: Table) -> Figure:
    """PIT values of a straight line on a parabola, and what recalibration makes of them."""
    counts: dict[str, dict[str, np.ndarray]] = {}
    edges = np.linspace(2, 20, 11)
    for seed in SEEDS:
        X, y = Heteroscedastic().sample(3000, np.random.default_rng(seed))
        X_test, y_test = Heteroscedastic().sample(3000, np.random.default_rng(100 + seed))
        shared = GlobalPit(GaussianLinear(), random_state=seed).fit(X, y)
        nearby = LocalPit(GaussianLinear(), local_linear=True, random_state=seed).fit(X, y)
        promised = ConformalPit(
            GaussianLinear(), LocalPit(None, local_linear=True), random_state=seed
        ).fit(X, y)
        models = {
            "Line": shared.estimator_,
            "Global PIT": shared,
            "Local PIT": nearby,
            "Conformal": promised,
        }
        for name, model in models.items():
            predicted = model.predict_dist(X_test)
            low, high = predicted.interval(0.95)
            covered = (low <= y_test) & (y_test <= high)
            cell = np.digitize(X_test[:, 0], edges[1:-1])
            by_cell = np.array([covered[cell == k].mean() for k in range(10)])
            table.add(
                name,
                coverage=covered.mean(),
                worst_tenth=by_cell.min(),
                best_tenth=by_cell.max(),
                mean_width=float(np.mean(high - low)),
                CRPS=float(np.mean(predicted.crps(y_test))),
            )
            if name == "Conformal":  # its correction is of intervals, not of PIT values
                continue
            pit = predicted.cdf(y_test)
            for title, (left, right) in STRETCHES.items():
                in_cell = (X_test[:, 0] >= left) & (X_test[:, 0] < right)
                cells = counts.setdefault(title, {})
                cells[name] = cells.get(name, 0) + np.histogram(pit[in_cell], 20, (0, 1))[0]
    return plot_local_pit_histograms(counts)


RATIOS = (1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50)


def sets(table: Table) -> Figure:
    """Sets of digits, and what abstaining is worth."""
    reward: dict[str, list[np.ndarray]] = {}
    unsure: dict[str, list[np.ndarray]] = {}
    for seed in SEEDS:
        probabilities, y_test = digits_forests(seed)
        for name, p in probabilities.items():
            rows = reward_by_ratio(y_test, TopLabel.from_proba(p), ratios=RATIOS)
            reward.setdefault(name, []).append(rows["reward"])
            unsure.setdefault(name, []).append(rows["unsure"])
            table.add(
                name,
                abstained=rows["unsure"][RATIOS.index(10)],
                error_of_the_rest=rows["error"][RATIOS.index(10)],
                cost=-rows["reward"][RATIOS.index(10)],
            )
    return plot_reward_against_ratio(
        np.array(RATIOS),
        {name: np.array(v) for name, v in reward.items()},
        {name: np.array(v) for name, v in unsure.items()},
        band_of=BAND,
    )


def set_sizes(table: Table) -> Figure:
    """Coverage and size of sets of digits, of test rows and of noise."""
    values: dict[str, dict[str, dict[str, list[float]]]] = {}
    for seed in SEEDS:
        X, y = load_digits(return_X_y=True)
        X, X_test, y, y_test = train_test_split(
            X / 16, y, test_size=0.3, stratify=y, random_state=seed
        )
        noise = np.random.default_rng(seed).uniform(-1, 2, (500, X.shape[1]))
        forest = RandomForestClassifier(200, random_state=seed)
        models = {
            "Temperature": ScoreMap(forest, method="temperature", random_state=seed),
            "KDF": KernelDensityForest(forest, random_state=seed),
        }
        for name, model in models.items():
            with_sets = ConformalClassifier(model, coverage=0.95, random_state=seed).fit(X, y)
            members, far_members = with_sets.predict_set(X_test), with_sets.predict_set(noise)
            numbers = {
                "coverage": float(members[np.arange(len(y_test)), y_test].mean()),
                "size": float(members.sum(axis=1).mean()),
                "size in noise": float(far_members.sum(axis=1).mean()),
            }
            table.add(name, **{key.replace(" ", "_"): v for key, v in numbers.items()})
            for key, number in numbers.items():
                values.setdefault(
                    "coverage" if key == "coverage" else "classes in a set", {}
                ).setdefault("noise" if key.endswith("noise") else "test digits", {}).setdefault(
                    name, []
                ).append(number)
    return plot_boxes_by_setting(
        {
            quantity: {
                setting: {name: np.array(v) for name, v in models.items()}
                for setting, models in of.items()
            }
            for quantity, of in values.items()
        },
        "rows",
        {"coverage": 0.95},
    )


SIZES = (300, 1000, 3000, 10000)


def scale(table: Table) -> Figure:
    """NLL of test rows by the number of training rows."""
    panels: dict[str, dict[str, dict[str, list[float]]]] = {"NLL": {}, "ECE": {}}
    for seed in SEEDS:
        X_all, y_all = Spiral().sample(max(SIZES), np.random.default_rng(seed))
        X_test, y_test = Spiral().sample(3000, np.random.default_rng(100 + seed))
        for n in SIZES:
            kdf = KernelDensityForest(
                RandomForestClassifier(50, min_samples_leaf=5, random_state=seed),
                random_state=seed,
            ).fit(X_all[:n], y_all[:n])
            for name, model in {"Random forest": kdf.estimator_, "KDF": kdf}.items():
                p = model.predict_proba(X_test)
                for quantity, value in {"NLL": nll(y_test, p), "ECE": ece(y_test, p)}.items():
                    panels[quantity].setdefault(f"{n:,}", {}).setdefault(name, []).append(
                        float(value)
                    )
                    table.add(f"{n:,}", **{f"{quantity} {name}": float(value)})
    return plot_boxes_by_setting(
        {
            quantity: {
                setting: {name: np.array(v) for name, v in of.items()}
                for setting, of in settings.items()
            }
            for quantity, settings in panels.items()
        },
        "training rows",
    )


def own_model(table: Table) -> Figure:
    """Gains of repairs of a model of LightGBM, on rows that neither was fitted on."""
    gains: dict[str, list[float]] = {}
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.normal(40, 12, 4000), rng.normal(38, 8, 4000),
                             rng.integers(3, size=4000)])  # fmt: skip
        y = ((X[:, 0] > 40) ^ (X[:, 2] == 2) ^ (rng.random(4000) < 0.15)).astype(int)
        train, repair, test = slice(0, 1000), slice(1000, 2500), slice(2500, None)
        model: Any = lightgbm.LGBMClassifier(
            n_estimators=60, verbose=-1, n_jobs=1, random_state=seed
        )
        frozen = FrozenEstimator(model.fit(X[train], y[train]))
        rows = {"X_calibration": X[repair], "y_calibration": y[repair]}
        repairs: dict[str, Any] = {
            "Temperature": ScoreMap(frozen, method="temperature"),
            "Sigmoid": ScoreMap(frozen, method="sigmoid"),
            "Isotonic": ScoreMap(frozen, method="isotonic"),
            "KDF": KernelDensityForest(frozen, random_state=seed),
        }
        strange = X[test] + np.array([400.0, 300.0, 0.0])
        before = nll(y[test], model.predict_proba(X[test]))
        fitted: dict[str, Any] = {"LightGBM": model} | {
            name: repair_.fit(X[train], y[train], **rows) for name, repair_ in repairs.items()
        }
        gated = DensityGate(FrozenEstimator(fitted["Isotonic"]), partition=frozen)
        fitted["Isotonic, gated"] = gated.fit(X[train], y[train], **rows)
        for name, candidate in fitted.items():
            p = candidate.predict_proba(X[test])
            table.add(
                name,
                error=error(y[test], p),
                NLL=nll(y[test], p),
                ECE=ece(y[test], p),
                confidence_far_away=candidate.predict_proba(strange).max(axis=1).mean(),
            )
            if name != "LightGBM":
                gains.setdefault(name, []).append(float(before - nll(y[test], p)))
    interval = {}
    for name, values in gains.items():
        middle = float(np.mean(values))
        half = float(
            student_t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5
        )
        interval[name] = (middle, middle - half, middle + half)
    return plot_gains(
        interval, xlabel="gain in NLL over the model (nats): mean and 95 % of 10 seeds"
    )


DEMONSTRATIONS: dict[str, tuple[Callable[[Table], Figure], str]] = {
    "calibrated": (calibrated, "accuracy against confidence of 5,400 test digits, ten seeds"),
    "far": (far, "mean largest probability on circles around the spiral, ten seeds"),
    "near": (near, "mean confidence near and far from seven digits, ten seeds"),
    "groups": (groups, "ECE of three clinics, ten seeds"),
    "local": (local, "local calibration error of two moons by bandwidth, ten seeds"),
    "intervals": (intervals, "PIT values in three stretches of x, ten seeds"),
    "sets": (sets, "reward of abstaining by the cost of an error, ten seeds"),
    "set_sizes": (set_sizes, "coverage and size of sets of digits, ten seeds"),
    "scale": (scale, "NLL and ECE by the number of training rows, ten seeds"),
    "own_model": (own_model, "gain in NLL of repairs of a LightGBM model, ten seeds"),
}


def read_measured() -> dict[str, dict[tuple[str, str], tuple[str, str]]]:
    """Return table → (row, column) → mean and standard deviation, as text."""
    measured: dict[str, dict[tuple[str, str], tuple[str, str]]] = {}
    if MEASURED.is_file():
        with MEASURED.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                cells = measured.setdefault(row["table"], {})
                cells[row["row"], row["column"]] = (row["mean"], row["sd"])
    return measured


def write_measured(measured: Mapping[str, Mapping[tuple[str, str], tuple[str, str]]]) -> None:
    """Write all tables."""
    with MEASURED.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["table", "row", "column", "mean", "sd", "seeds"])
        for name in DEMONSTRATIONS:
            for (row, column), (mean, sd) in measured.get(name, {}).items():
                writer.writerow([name, row, column, mean, sd, len(SEEDS)])


def markdown(cells: Mapping[tuple[str, str], tuple[str, str]]) -> str:
    """Return a table of means ± standard deviations."""
    rows = list(dict.fromkeys(row for row, _ in cells))
    columns = list(dict.fromkeys(column for _, column in cells))
    lines = ["| mean ± sd | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for row in rows:
        values = [" ± ".join(cells[row, column]) for column in columns]
        lines.append(f"| {row} | " + " | ".join(values) + " |")
    return "\n".join(lines)


def write_tables(measured: Mapping[str, Mapping[tuple[str, str], tuple[str, str]]]) -> None:
    """Write the tables of the pages between their marks."""
    mark = re.compile(r"<!-- measured: (\w+) -->\n.*?<!-- end -->", re.DOTALL)

    def table(match: re.Match[str]) -> str:
        return f"<!-- measured: {match[1]} -->\n\n{markdown(measured[match[1]])}\n\n<!-- end -->"

    for page in (DOCS / "guide").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        page.write_text(mark.sub(table, text), encoding="utf-8")


def number(value: float, beside: float | None = None) -> str:
    """Return a number as tables of this project have it: three places, or four digits.

    A standard deviation has the places of its mean, which is ``beside`` it.
    """
    size = abs(value if beside is None else beside)
    places = 3 if size < 10 else 2 if size < 100 else 1 if size < 1000 else 0
    text = f"{value:,.{places}f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def main(names: Sequence[str]) -> None:
    """Run the named demonstrations, or all of them."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    MEASURED.parent.mkdir(exist_ok=True)
    measured = read_measured()
    for name in names or list(DEMONSTRATIONS):
        if name == "tables":
            continue
        draw, shows = DEMONSTRATIONS[name]
        start, table = time.perf_counter(), Table()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            figure = draw(table)
        save_figure(figure, PICTURES / name, ("svg",), title=name, description=shows)
        measured[name] = {
            key: (number(mean := float(np.mean(v))), number(float(np.std(v, ddof=1)), mean))
            for key, v in table.values.items()
        }
        write_measured(measured)
        print(f"{name}.svg {time.perf_counter() - start:.1f} s", flush=True)
        print(markdown(measured[name]), flush=True)
    write_tables(measured)


if __name__ == "__main__":
    main(sys.argv[1:])
