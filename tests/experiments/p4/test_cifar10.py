"""CIFAR-10 in ImageNet's place: which image is which, the file of scores and features, tables and
figures.
"""

from __future__ import annotations

import re
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from experiments.p4 import cifar10, cifar10_features
from experiments.p4.cifar10 import (
    ACROSS,
    DRAWN,
    FIGURES,
    LOCAL,
    MAPS,
    METHODS,
    compare_with_published,
    draw,
)
from experiments.p4.cifar10_features import collected, positions
from kdgraph.config import plan
from kdgraph.data.tables import ScoreFile
from kdgraph.errors import DataError, UsageError

SPLITS = 4


@given(st.lists(st.integers(0, 2), min_size=1, max_size=8), st.data())
def test_positions_are_the_first_and_the_last_of_all_embeddings(whole, data) -> None:
    chosen = sorted(data.draw(st.sets(st.integers(0, len(whole) - 1), min_size=1)))
    part = [whole[i] for i in chosen]
    every = np.array(
        [c for c in combinations(range(len(whole)), len(part)) if [whole[i] for i in c] == part]
    )
    first, last = positions(np.array(part), np.array(whole))
    np.testing.assert_array_equal(first, every.min(axis=0))
    np.testing.assert_array_equal(last, every.max(axis=0))


def test_a_sequence_that_is_no_part_is_refused() -> None:
    with pytest.raises(
        DataError,
        match=r"^2 labels are not among 3 in this order; give the record of the same images$",
    ):
        positions(np.array([1, 0]), np.array([0, 0, 1]))


@pytest.fixture
def record(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """A record of eight images, of which the fourth (or the fifth, of the same label) and the last
    are missing in the subset of six.
    """
    monkeypatch.setattr(cifar10_features, "FIRST", 8)
    labels = np.array([0, 1, 2, 1, 1, 0, 2, 2, 0])
    scores = np.random.default_rng(0).dirichlet(np.ones(3), size=9).astype(np.float32)
    np.savez(tmp_path / "softmax.npz", predictions=scores, ground_truth=labels[:, None])
    return tmp_path / "softmax.npz", scores, SimpleNamespace(y=labels[[0, 1, 2, 4, 5, 6]])


def test_file_has_identified_images_and_embeddings_only(record, tmp_path) -> None:
    path, scores, test = record
    seen = {"net": np.random.default_rng(1).normal(size=(6, 5)).astype(np.float32)}
    arrays: dict[str, Any] = collected({"mine": path}, test, seen)  # type: ignore[arg-type]
    assert arrays["index"].tolist() == [0, 1, 2, 5] and arrays["label"].tolist() == [0, 1, 2, 0]
    np.testing.assert_array_equal(arrays["mine"], scores[[0, 1, 2, 5]])
    np.testing.assert_array_equal(arrays["net"], seen["net"][[0, 1, 2, 4]])
    assert arrays["net_tsne"].shape == (4, 3) and np.isfinite(arrays["net_tsne"]).all()
    np.savez(tmp_path / "made.npz", **arrays)
    data = ScoreFile(str(tmp_path / "made.npz"), scores="mine", features=["net", "net_tsne"]).load()
    assert data.layer_widths == (("net", 5), ("net_tsne", 3))
    np.testing.assert_allclose(
        data.X[:, :3], scores[[0, 1, 2, 5]], atol=1e-6
    )  # of float32, and divided by its sum


def test_a_record_without_scores_is_refused(tmp_path) -> None:
    np.savez(tmp_path / "softmax.npz", ground_truth=[0])
    with pytest.raises(
        DataError,
        match=(
            r"softmax.npz has no array predictions; give a record with softmax outputs and labels$"
        ),
    ):
        collected({"mine": tmp_path / "softmax.npz"}, SimpleNamespace(y=np.array([0])), {})  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_experiment_has_the_methods_of_the_tables() -> None:
    jobs = plan(["experiment=paper/p4/cifar10", "seed=0"]).jobs
    methods = [job.swept["method"].split("/")[-1] for job in jobs]
    assert set(methods) == set(METHODS) and len(jobs) == 2 * len(METHODS)
    jobs = [job for job, method in zip(jobs, methods, strict=True) if method.startswith("lore")]
    assert {job.config.dataset["name"] for job in jobs} == {"cifar10_wideresnet", "cifar10_lenet_5"}
    assert set(ACROSS) | set(DRAWN) <= set(METHODS)
    metrics = jobs[0].config.metrics["test"]
    assert {key.format(space) for key in LOCAL for space in MAPS} | set(cifar10.COLUMNS) <= set(
        metrics
    )
    named = {node["layer"] for node in jobs[0].config.metrics["spaces"].values()}
    named |= {
        layer
        for job in jobs
        if "features" in job.config.calibrator
        for layer in [job.config.calibrator["features"]["layer"]]
    }
    assert named <= set(jobs[0].config.dataset["features"])


def value(metric: str, level: float, seed: float) -> float:
    """A number that depends on all three, which a test can make again."""
    return level + len(metric) / 100 + seed**2 / 1000 * (1 + level)


@pytest.fixture
def runs(tmp_path):
    """Records of all methods on one file of scores, with their folders; the method k of the list
    has level k/20, the parent 0.
    """
    records = []
    metrics = [*cifar10.COLUMNS, *(key.format(space) for key in LOCAL for space in MAPS)]
    for k, method in enumerate(METHODS):
        for seed in range(SPLITS):
            folder = tmp_path / "cifar10_net" / method / f"{k}{seed}"
            (folder / "tables").mkdir(parents=True)
            levels = {"parent": 0.0, "calibrated": k / 20}
            entries = [
                {"of": of, "on": "test", "metric": m, "value": value(m, level, seed)}
                for of, level in levels.items()
                for m in metrics
            ]
            both = [(of, level + seed / 100) for of, level in levels.items()]
            lce = [
                {
                    "of": of,
                    "on": "test",
                    "bandwidth": b,
                    "lce": 0.1 + at / 10,
                    "mlce": 0.2 + at / 2,
                    "n_eff": 9 * b,
                    "mlce_n_eff": b,
                }
                for of, at in both
                for b in (0.1, 0.4, 1.6)
            ]
            gain = [
                {"of": of, "on": "test", "ratio": r, "reward": at - r / 10, "unsure": 0.1}
                for of, at in both
                for r in (2.0, 10.0)
            ]
            tables = {
                **{
                    f"lce_by_bandwidth_{space}{few}": lce
                    for space in (*MAPS, "pca")
                    for few in ("", "_30")
                },
                "reward_by_ratio": gain,
            }
            for key, rows in tables.items():
                pd.DataFrame(rows).to_csv(folder / "tables" / f"{key}.csv", index=False)
            dataset = {"name": "cifar10_net", "n_calibration": 20, "n_test": 10}
            records.append(
                {
                    "method": method,
                    "seed": seed,
                    "run_id": folder.name,
                    "dataset": dataset,
                    "metrics": entries,
                    "files": {"tables": {key: f"tables/{key}.csv" for key in tables}},
                }
            )
    return records, tmp_path


def test_tables_have_means_published_numbers_and_intervals(runs) -> None:
    text = compare_with_published(runs[0])
    assert text.startswith(
        "## Luo et al., cifar10_net: 20 calibration rows, 10 test rows, 4 splits"
    )
    seeds = range(SPLITS)
    row = next(line for line in text.splitlines() if line.startswith("| histogram | "))
    level = list(METHODS).index("histogram") / 20
    mean = np.mean([value("prr", level, seed) for seed in seeds])
    assert row.split(" | ")[1:3] == [f"{mean:.3f}".removeprefix("0"), ".461"]
    other = list(METHODS).index("lore_pca") / 20
    differences = np.array(
        [value("prr", other, seed) - value("prr", level, seed) for seed in seeds]
    )
    half = stats.t.ppf(0.975, SPLITS - 1) * differences.std(ddof=1) * np.sqrt(1 / SPLITS + 10 / 20)
    row = next(line for line in text.splitlines() if line.startswith("| lore_pca | +"))
    assert row.split(" | ")[3] == f"+{differences.mean():.3f} ± {half:.3f} (4/4)".replace("0.", ".")
    local = [line for line in text.splitlines() if line.startswith("| MLCE | LeNet-5 | ")]
    assert (
        len(local) == 1 and local[0].count("**") == 2 and local[0].split(" | ")[2].startswith("**")
    )  # the parent's level is the least


def test_tables_of_some_methods_and_of_none(runs) -> None:
    some = [record for record in runs[0] if record["method"] in ("lore_tsne", "temperature")]
    text = compare_with_published(some)
    assert re.search(r"^\| lore_tsne \| [^|]+ \| [^|]+ \| – \| – \| ", text, re.MULTILINE)
    assert compare_with_published([]) == "no run of CIFAR-10 scores is there"


@pytest.mark.slow
def test_every_picture_is_drawn(runs, tmp_path) -> None:
    records, folder = runs
    paths = draw(records, folder, tmp_path / "drawn")
    assert [path.name for path in paths] == [
        f"cifar10_net_{name}.{kind}" for name in FIGURES for kind in ("svg", "pdf")
    ]
    assert all(path.stat().st_size > 10_000 for path in paths)


def test_commands_of_the_study(
    runs, tmp_path, record, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr(cifar10, "runs_of", lambda experiment, folder, free: runs[0])
    cifar10.STUDY.main(["tables", str(runs[1])])
    assert capsys.readouterr().out == compare_with_published(runs[0]) + "\n"
    monkeypatch.setattr(cifar10, "draw", lambda *given: [given])
    cifar10.STUDY.main(["figures", str(runs[1]), "--to", str(tmp_path / "drawn")])
    assert capsys.readouterr().out == f"{(runs[0], runs[1], tmp_path / 'drawn')}\n"
    path, _, test = record
    seen = {"net": np.random.default_rng(1).normal(size=(6, 5))}
    monkeypatch.setattr(cifar10_features, "images", lambda: (test, test))
    monkeypatch.setattr(cifar10_features, "features", lambda train, test: seen)
    with pytest.raises(
        UsageError,
        match=(
            r"^--record must be NAME=FILE, each name once, got 'softmax.npz'; the name is that of"
            r" the array of scores$"
        ),
    ):
        cifar10.STUDY.main(["features", "out.npz", "--record", "softmax.npz"])
    cifar10.STUDY.main(["features", str(tmp_path / "out.npz"), "--record", f"mine={path}"])
    assert capsys.readouterr().out.startswith(
        f"{tmp_path / 'out.npz'}: 4 images; label (), index (), mine (3,), net (5,), net_tsne (3,)"
    )
