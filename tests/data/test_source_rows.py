"""Source rows of splits: joining by them finds the row of the user's file."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.feature_extraction.text import HashingVectorizer

from kdgraph.data import Dataset, make_splits
from kdgraph.data.dataset import Splits
from kdgraph.data.images import ImageFiles
from kdgraph.data.ood import LeftOutClasses, OtherDataset, PermutedColumns, ShiftedRows, Sphere
from kdgraph.data.openml.tables import OpenmlTable
from kdgraph.data.simulations import Spiral
from kdgraph.data.tables import ArrayFile, ScoreFile, TableFile, TextFile
from kdgraph.errors import DataError
from tests.data.openml.server import mixed_table as openml_frame
from tests.data.openml.server import write_cached_dataset

ROLES = ("train", "calibration", "test")


pytestmark = pytest.mark.usefixtures("in_tmp_path")


def split_source(source, **options) -> Splits:
    return make_splits(source, rng=np.random.default_rng(3), **options)


def pet_table(n: int = 240) -> pd.DataFrame:
    """Return rows in random order, no two of which have the same features."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "height": rng.permutation(n) * 0.5,
            "colour": rng.choice(["red", "green", "blue"], n),
            "ward": rng.permutation(np.repeat(np.arange(n // 8), 8)),
            "role": rng.choice(["train", "train", "validation", "test", "unused"], n),
            "label": rng.choice(["cat", "dog", "eel", "fox"], n),
        }
    )


def assert_rows_join(splits: Splits, frame: pd.DataFrame) -> None:
    """Check that each row has the features and the label of its row in the file, each used once."""
    numbers = []
    for name in ROLES:
        rows: Dataset = getattr(splits, name)
        joined = frame.iloc[rows.source_rows]
        assert len(rows.y) > 0
        # Scaling and its inverse round twice; the nearest other height is 0.5 away.
        np.testing.assert_allclose(splits.scaling.undo(rows.X)[:, 0], joined["height"], rtol=1e-14)
        assert rows.classes[rows.y].tolist() == joined["label"].tolist()
        numbers += rows.source_rows.tolist()
    assert len(set(numbers)) == len(numbers) < len(frame)


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        ({}, {"n_test": 50, "n_train": 60}),
        ({"split_groups": "ward"}, {"n_test": 40, "n_train": 80}),
        ({"split_column": "role"}, {}),
        ({"split_column": "role"}, {"n_test": 20, "n_train": 30, "n_calibration": 10}),
        ({}, {"left_out": ["eel"], "scale": "min_max"}),
        ({"indices": "rows.json"}, {}),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "tsv.gz", "parquet"])
def test_source_rows_of_a_table(keys, options, ending):
    frame, path = pet_table(), f"pets.{ending}"
    if ending == "parquet":
        frame.set_index(np.arange(len(frame))[::-1]).to_parquet(path)  # the index is no row number
    else:
        frame.to_csv(path, sep="\t" if "tsv" in ending else ",", index=False)
    parts = np.random.default_rng(1).permutation(len(frame))
    with open("rows.json", "w") as file:
        json.dump({"train": parts[:90].tolist(), "test": parts[90:150].tolist()}, file)
    drop = [name for name in ("ward", "role") if name not in keys.values()]
    assert_rows_join(split_source(TableFile(path, "label", drop=drop, **keys), **options), frame)


def test_source_rows_do_not_count_empty_lines():
    lines = pet_table(120).drop(columns=["ward", "role"]).to_csv(index=False).splitlines()
    with open("gaps.csv", "w") as file:
        file.write("\n".join(line + "\n" * (i % 3 == 0) for i, line in enumerate(lines)))
    assert_rows_join(
        split_source(TableFile("gaps.csv", "label"), n_test=40, n_train=50), pd.read_csv("gaps.csv")
    )


def test_source_rows_without_rare_classes():
    frame = pet_table()
    frame.loc[[7, 99], "label"] = "gnu"
    frame[["height", "label"]].to_csv("rare.csv", index=False)
    with pytest.warns(UserWarning, match="rare classes are left out"):
        splits = split_source(TableFile("rare.csv", "label"), rare="drop")
    assert "gnu" not in splits.train.classes
    assert_rows_join(splits, frame)


def test_source_rows_of_left_out_classes():
    frame = pet_table()
    frame.to_csv("pets.csv", index=False)
    source = TableFile("pets.csv", "label", drop=["ward"], split_column="role")
    splits = split_source(source, left_out=["eel", "fox"])
    (ood_set,) = LeftOutClasses(n=9).sets(splits, np.random.default_rng(0))
    joined = frame.iloc[ood_set.source_rows]
    np.testing.assert_array_equal(ood_set.X[:, 0], joined["height"])
    assert set(joined["label"]) == {"eel", "fox"} and set(joined["role"]) == {"test"}


def test_source_rows_of_arrays_count_X_before_X_test():
    X = np.random.default_rng(0).normal(size=(100, 3))
    y = np.arange(100) % 2
    np.savez("arrays.npz", X=X[:70], y=y[:70], X_test=X[70:], y_test=y[70:])
    splits = split_source(ArrayFile("arrays.npz"), n_test=20)
    for name in ROLES:
        rows = getattr(splits, name)
        np.testing.assert_array_equal(rows.X, X[rows.source_rows])
        np.testing.assert_array_equal(rows.y, y[rows.source_rows])
    assert splits.test.source_rows.min() >= 70 > splits.train.source_rows.max()


def test_source_rows_of_scores():
    proba = np.random.default_rng(0).dirichlet(np.ones(3), size=90)
    y = np.arange(90) % 3
    np.savez("softmax.npz", scores=proba, label=y)
    pd.DataFrame(proba, columns=["0", "1", "2"]).assign(label=y).to_csv("softmax.csv", index=False)
    for path in ("softmax.npz", "softmax.csv"):
        splits = split_source(ScoreFile(path), n_test=30)
        for rows in (splits.calibration, splits.test):
            # Rows are divided by their sums, and pandas reads decimals to about 13 digits. The
            # distance to other rows is larger.
            np.testing.assert_allclose(rows.X, proba[rows.source_rows], atol=1e-12)
            np.testing.assert_array_equal(rows.y, y[rows.source_rows])


def test_source_rows_of_selected_texts():
    rng = np.random.default_rng(0)
    texts = [f"word{i} word{i + 1} word{i + 5}" for i in range(80)]
    labels = rng.choice(["news.a", "news.b", "mail"], 80)
    pd.DataFrame({"text": texts, "label": labels}).to_csv("texts.csv", index=False)
    splits = split_source(TextFile("texts.csv", n_features=64, keep=["news.*"]))
    expected = HashingVectorizer(n_features=64).transform(texts).toarray()
    for name in ROLES:
        rows = getattr(splits, name)
        np.testing.assert_array_equal(rows.X, expected[rows.source_rows])
        assert rows.classes[rows.y].tolist() == labels[rows.source_rows].tolist()


def test_source_rows_of_pictures_count_unreadable_ones(tmp_path):
    """Check numbers by path; pictures of two shapes are read shape by shape, in another order."""
    brightness = {}
    for i in range(24):
        path = tmp_path / "pictures" / "ab"[i % 2] / f"{i:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        shape = (4, 4) if i % 3 else (6, 6)
        Image.fromarray(np.full(shape, 10 * i, dtype=np.uint8)).save(path)
        brightness[path.relative_to(tmp_path / "pictures")] = 10 * i
    (tmp_path / "pictures" / "a" / "02.png").write_bytes(b"not a picture")
    with pytest.warns(UserWarning, match="left out are 1 that cannot be read"):
        data = ImageFiles("pictures", size=(4, 4), unreadable="skip").load()
    in_order = np.array([brightness[path] for path in sorted(brightness)])
    np.testing.assert_array_equal(np.rint(255 * data.X[:, 0, 0, 0]), in_order[data.source_rows])
    assert sorted(set(range(24)) - set(data.source_rows.tolist())) == [1]


@pytest.mark.filterwarnings("ignore:.*rows have the features of another row")
def test_source_rows_of_openml(openml_cache):
    frame = openml_frame()
    write_cached_dataset(openml_cache, 61, frame)
    splits = split_source(OpenmlTable(61), n_test=12)
    for name in ROLES:
        rows = getattr(splits, name)
        joined = frame.iloc[rows.source_rows]
        np.testing.assert_array_equal(rows.X[:, 1], joined["width"])
        assert rows.classes[rows.y].tolist() == joined["class"].tolist()


def test_source_rows_of_another_data_set():
    frame = pet_table()[["height", "label"]]
    frame.to_csv("pets.csv", index=False)
    other_frame = frame.assign(height=frame["height"][::-1].to_numpy() + 1000)
    other_frame.to_csv("other.csv", index=False)
    splits = split_source(TableFile("pets.csv", "label"), scale="min_max")
    (ood_set,) = OtherDataset(TableFile("other.csv", "label"), n=30).sets(
        splits, np.random.default_rng(0)
    )
    # Scaling and its inverse round numbers around 1000 twice.
    heights = splits.scaling.undo(ood_set.X)[:, 0]
    np.testing.assert_allclose(heights, other_frame["height"].iloc[ood_set.source_rows], rtol=1e-14)


def test_source_rows_of_shifted_and_synthetic_rows():
    frame = pet_table()[["height", "label"]]
    frame.to_csv("pets.csv", index=False)
    splits = split_source(TableFile("pets.csv", "label"), n_test=40)
    rng = np.random.default_rng(0)
    (shifted,) = ShiftedRows(scale=1.0, shift=2.0, n=10).sets(splits, rng)
    shift = shifted.X[:, 0] - frame["height"].iloc[shifted.source_rows].to_numpy()
    # All rows have the same shift. Heights are below 120, so differences are rounded by at most
    # 1e-13.
    np.testing.assert_allclose(shift, shift[0], atol=1e-13)
    for source in (PermutedColumns(), Sphere(n=5)):
        assert all(ood_set.source_rows is None for ood_set in source.sets(splits, rng))


def test_source_rows_of_each_simulated_role_begin_at_0():
    splits = split_source(Spiral(), n_train=30, n_calibration=20, n_test=10)
    assert splits.calibration.source_rows.tolist() == list(range(20))
    assert splits.test.source_rows.tolist() == list(range(10))


def test_source_rows_of_wrong_length_are_refused():
    with pytest.raises(
        DataError,
        match=r"^toy: source_rows must have one number for each of 2 rows, got shape \(3,\)$",
    ):
        Dataset.from_labels("toy", np.zeros((2, 1)), np.array([0, 1]), source_rows=np.arange(3))


def test_fingerprint_does_not_depend_on_source_rows():
    data = Dataset.from_labels("toy", np.arange(4.0)[:, None], np.array([0, 1, 0, 1]))
    numbered = Dataset.from_labels(
        "toy", np.arange(4.0)[:, None], np.array([0, 1, 0, 1]), source_rows=np.arange(4) + 7
    )
    assert data.fingerprint == numbered.fingerprint
    assert numbered.rows(np.array([2, 0])).source_rows.tolist() == [9, 7]
