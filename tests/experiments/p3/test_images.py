"""What the studies of images print at their end, of records whose numbers are given."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from experiments.p3 import images
from experiments.p3.images import CIFAR, MEDMNIST, MNIST
from experiments.p3.records import table_of
from kdgraph.config import compose, plan
from kdgraph.config.components import build
from kdgraph.data import Dataset
from tests.data.ood.splits import identical_splits
from tests.experiments.p3.made import record, rows_of


def runs(dataset: str, methods: list[str], seeds: range) -> list[dict]:
    sets = ["notmnist", "omniglot", "cifar10_grey"] if "mnist" in dataset else ["svhn", "the_other"]
    return [
        record(
            dataset,
            m,
            seed,
            sets,
            lambda name, metric, seed=seed: 0.9 + 0.01 * seed,
            {"parent": {"name": "lenet" if m == "msp" else "forest"}},
        )
        for m in methods
        for seed in seeds
    ]


def column(study, name: str) -> int:
    return 1 + list(study.sets).index(name)


def test_measured_numbers_have_the_published_keys():
    text = images.compare_with_published(
        [
            *runs("mnist", ["tood_shuffled", "tood_given", "msp"], range(2)),
            *runs("fashion_mnist", ["knn"], range(1)),
        ]
    )
    assert text.count("## TOOD") == 1 and "2 seeds" in text and text.count("against") == 6
    rows = rows_of(text)
    first = dict(enumerate(rows[0]))
    assert [
        first[column(MNIST, name)] for name in ("kuzushiji_mnist", "notmnist", "emnist_letters")
    ] == ["95.8", "100.0", "–"]
    assert [row[0] for row in rows[:6]] == [
        *(f"**{title}**" for title in MNIST.published),
        "TOOD, given labels",
        "TOOD, shuffled labels",
        "MSP of LeNet-5",
    ]
    assert rows[2][column(MNIST, "notmnist")] == "87.0" and rows[2][column(MNIST, "qmnist")] == "–"
    assert (
        rows[3][column(MNIST, "notmnist")] == "90.5 ± 0.7"
        and rows[3][column(MNIST, "gaussian")] == "–"
    )
    assert "Error on MNIST in percent: forest 90.5 ± 0.7, LeNet-5 90.5 ± 0.7." in text
    last = text.partition("FPR95, MNIST")[2].partition("Error on MNIST")[0]
    assert "TOOD, published" in last and "MSP, published" not in last, (
        "lines without a number are left out"
    )
    fashion = rows_of(text.partition("Fashion-MNIST against")[2])
    assert fashion[-1][0] == "k-NN on latents"
    assert images.compare_with_published([]) == "no run of images is there"


def test_medmnist_has_a_mean_of_all_eight_sets_only():
    values = {name: 0.1 * i for i, name in enumerate(MEDMNIST)} | {"notmnist": 1.0}

    def made(sets, seed):
        return record("mnist", "knn", seed, sets, lambda name, _: values.get(name, 0.0))

    frame = table_of([made([*values], 0), made([*MEDMNIST][1:], 1)])
    means = images.with_mean_of_medmnist(frame)
    of = means[(means.set == "medmnist") & (means.metric == "auroc")]
    assert of.seed.tolist() == [0] and of.value.tolist() == pytest.approx([0.35])
    assert means[means.set != "medmnist"].equals(frame)


def _sets_of_medmnist(folder: Path, monkeypatch) -> dict:
    """Return the OOD sets that MNIST's preset draws from MedMNIST's files in a folder ``files``."""
    monkeypatch.chdir(folder)
    sources = compose(["dataset=mnist", "ood=paper/p3/grey_images"]).ood["sources"]
    assert set(MEDMNIST) <= set(sources)
    train = Dataset.from_labels("toy", np.zeros((4, 1, 28, 28), np.float32), np.arange(4) % 2)
    composite = build(
        {
            "_target_": "kdgraph.data.ood.CompositeOod",
            "sources": {name: sources[name] for name in MEDMNIST},
            "missing": "skip",
        }
    )
    absent = composite.absent()
    sets = composite.sets(identical_splits(train), np.random.default_rng(0))
    with pytest.warns(UserWarning, match="is skipped: dataset.path=files/"):
        drawn = {ood_set.name: ood_set for ood_set in sets}
    assert {*drawn, *absent} == set(MEDMNIST) and not set(drawn) & set(absent)
    return drawn


def test_medmnist_files_are_read_by_name_or_left_out(tmp_path, monkeypatch):
    """Test images have the value of their part, 30; ChestMNIST has 14 labels for each image."""
    (tmp_path / "files").mkdir()
    present = [name for name in MEDMNIST if name != "octmnist"]
    for name in present:
        n_labels = 14 if name == "chestmnist" else 1
        arrays = {}
        for part, value in {"train": 10, "val": 20, "test": 30}.items():
            arrays[f"{part}_images"] = np.full((value, 28, 28), value, np.uint8)
            arrays[f"{part}_labels"] = np.tri(value, n_labels, dtype=np.uint8)
        np.savez(tmp_path / "files" / f"{name}.npz", **arrays)
    drawn = _sets_of_medmnist(tmp_path, monkeypatch)
    assert set(drawn) == set(present)
    for ood_set in drawn.values():
        assert ood_set.X.shape == (30, 1, 28, 28)
        np.testing.assert_array_equal(ood_set.X, np.float32(30) / np.float32(255))


def test_pneumonia_mnist_has_its_test_images(tmp_path, monkeypatch):
    if not (file := os.environ.get("KDGRAPH_PNEUMONIAMNIST")):
        pytest.skip("KDGRAPH_PNEUMONIAMNIST, the path of pneumoniamnist.npz, is not set")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "pneumoniamnist.npz").symlink_to(Path(file).resolve())
    (ood_set,) = _sets_of_medmnist(tmp_path, monkeypatch).values()
    assert ood_set.X.shape == (624, 1, 28, 28) and ood_set.facts is not None
    assert ood_set.facts["rows"] == "624 at random of 624 test rows"
    with np.load(file) as arrays:
        test = np.sort(arrays["test_images"].mean((1, 2), dtype=np.float64) / 255)
    np.testing.assert_allclose(
        np.sort(ood_set.X.mean((1, 2, 3), dtype=np.float64)), test, rtol=1e-6
    )


def test_moved_images_have_a_table_of_their_own():
    rows = rows_of(images.compare_with_published(runs("cifar10", ["tood_given"], range(1))))
    assert (
        rows[0][column(CIFAR, "mean of all")] == "99.1" and rows[0][column(CIFAR, "svhn")] == "99.4"
    )
    assert rows[2] == ["**MSP, published**", "90.1", *["–"] * 4]
    measured = next(row for row in rows if row[0] == "TOOD, given labels")
    assert measured == ["TOOD, given labels", "–", "90.0", "90.0", "–", "–"]


@pytest.mark.slow  # each composes an experiment
@pytest.mark.parametrize("study", images.STUDIES, ids=lambda study: study.experiment)
def test_the_experiment_has_these_methods_and_sets(study):
    dataset, method = next(iter(study.datasets)), next(iter(study.methods))
    group = "paper/p3/" + study.experiment.rpartition("/")[2]
    (job,) = plan(
        [
            f"experiment={study.experiment}",
            f"dataset={dataset}",
            f"method={group}/{method}",
            "seed=0",
        ]
    ).jobs
    assert set(job.config.ood["sources"]) <= set(study.sets) and job.config.method == method
    assert (
        job.config.dataset["n_test"],
        {source["n"] for source in job.config.ood["sources"].values()},
    ) == (1000, {1000})
    assert job.config.science()["ood"]["missing"] == "skip"


def test_moved_images_have_a_column_for_each_step():
    made = runs("cifar10", ["tood_shuffled"], range(2))
    for each in made:
        plain = next(
            e
            for e in each["metrics"]
            if e["ood"] == "svhn" and e["of"] == "calibrated" and e["metric"] == "auroc"
        )
        moved = [
            {**plain, "params": {"epsilon": level / 255}, "value": plain["value"] - level / 100}
            for level in (0, 8)
        ]
        each["metrics"] = [*moved, *(e for e in each["metrics"] if e["ood"] is None)]
    text = images.compare_with_published(made)
    assert text.startswith("## TOOD, Figure 5") and "Table 5" not in text and "ε = 8/255" in text
    assert rows_of(text) == [
        ["CIFAR-10 against svhn: TOOD, shuffled labels", "90.5 ± 0.7", "82.5 ± 0.7"]
    ]
    made[1]["config"]["detector"] = {"set_size": 50}
    apart = rows_of(images.compare_with_published(made))
    assert apart == [
        ["CIFAR-10 against svhn: TOOD, shuffled labels", "90.0", "82.0"],
        ["CIFAR-10 against svhn: TOOD, shuffled labels, detector.set_size=50", "91.0", "83.0"],
    ]


def test_row_counts_have_tables_and_other_settings_lines():
    few, many = (runs("cifar10", ["knn", "energy"], range(2)) for _ in range(2))
    for each, n_train in ((few, 100), (many, 4000)):
        for run in each:
            run["config"]["dataset"], run["dataset"]["n_train"] = {"n_train": n_train}, n_train
    many[1]["config"]["parent"] = {"name": "forest", "max_epochs": 3}
    text = images.compare_with_published([*many, *few])
    first, second = text.split("## TOOD, Table 5 and Appendix E: ")[1:]
    assert first.startswith(
        "100 training rows, 100 calibration rows, 100 test rows, 2 seeds"
    ) and second.startswith("4,000 training rows")
    auroc = [
        [row[:3:2] for row in rows_of(part.partition("| AUPR")[0]) if not row[0].startswith("**")]
        for part in (first, second)
    ]
    assert auroc[0] == [["k-NN on latents", "90.5 ± 0.7"], ["energy of LeNet-5", "90.5 ± 0.7"]]
    assert auroc[1] == [
        ["k-NN on latents", "90.0"],
        ["k-NN on latents, parent.max_epochs=3", "91.0"],
        ["energy of LeNet-5", "90.5 ± 0.7"],
    ]
    assert (
        "Error on CIFAR-10 in percent: forest 90.5 ± 0.7, forest (parent.max_epochs=3) 91.0."
        in second
    )


def test_networks_with_other_outliers_are_named_by_their_methods():
    made = runs("cifar10", ["oe", "oe_permuted"], range(1))
    for run, outliers in zip(made, ("other images", "permuted"), strict=True):
        run["config"]["parent"] = {"name": "lenet_oe", "exposure": {"outliers": outliers}}
    text = images.compare_with_published(made)
    assert (
        "LeNet-5 with outlier exposure (MSP of LeNet-5 with outlier exposure) 90.0, LeNet-5 with"
        " outlier exposure (outlier exposure to permuted pixels) 90.0."
    ) in text
