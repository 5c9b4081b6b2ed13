"""Sets of images of openml.org: what becomes of their columns, roles, subsets, and files that hold
no images.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from kdgraph.data.dataset import TEST, TRAIN
from kdgraph.data.images.openml_images import OpenmlImages
from kdgraph.data.openml.cache import is_cached
from kdgraph.data.splits import make_splits
from kdgraph.errors import DataError, DataNotAvailable, ParameterError
from tests.data.images.image_sets import flat_table, pictures
from tests.data.openml.server import arff, bake

GREY, COLOUR = (1, 4, 5), (3, 8, 8)


def source(shape=GREY, official=(14, 6), **more) -> OpenmlImages:
    return OpenmlImages("made", 554, list(shape), list(official), **more)


@pytest.fixture
def grey(openml_cache):
    """20 images of 1 × 4 × 5 in the cache, as number 554, with the labels 0 to 3 in turn."""
    images = pictures(20, GREY)
    bake(openml_cache, 554, flat_table(images, [i % 4 for i in range(20)]))
    return images


def test_columns_become_images_between_0_and_1(grey, no_network):
    source().prefetch()
    dataset = source().load()
    assert dataset.X.dtype == np.float32 and dataset.are_images
    np.testing.assert_array_equal(np.rint(dataset.X * 255), grey)
    assert dataset.feature_names == ()
    assert dataset.classes.tolist() == [0, 1, 2, 3] and dataset.y.tolist() == [
        i % 4 for i in range(20)
    ]


def test_rows_come_in_the_official_order(grey):
    assert source().load().roles.tolist() == [TRAIN] * 14 + [TEST] * 6
    splits = make_splits(
        source(), n_train=4, n_calibration=8, n_test=4, rng=np.random.default_rng(0)
    )
    tests = {image.tobytes() for image in (grey[14:] / np.float32(255)).astype(np.float32)}
    assert {image.tobytes() for image in splits.test.X} <= tests
    assert not tests & {
        image.tobytes() for role in (splits.train, splits.calibration) for image in role.X
    }


def test_facts_say_what_was_read(grey):
    assert source().load().facts == {
        "source": "openml",
        "id": 554,
        "version": 2,
        "name": "made-up-554",
        "loader": "parquet",
        "image_shape": [1, 4, 5],
        "layout": "channel_first",
        "flat": False,
    }


def test_another_number_of_rows_is_a_subset_without_roles(grey):
    dataset = source(official=(60_000, 10_000)).load()
    assert dataset.roles is None
    assert dataset.facts["subset"] == "20 of 70,000 rows, without the official split"


def test_a_subset_is_told_in_the_words_of_its_description(openml_cache):
    words = "SUBSET of the original: 14 train rows, 6 test rows, in that order"
    bake(openml_cache, 554, flat_table(pictures(20, GREY), [0, 1] * 10), description=words)
    whole = source().load()
    assert whole.facts["subset"] == words and whole.roles is not None
    part = source(official=(70, 30)).load()
    assert (part.facts["subset"], part.facts["description"]) == (
        "20 of 100 rows, without the official split",
        words,
    )


def test_flat_rows_are_vectors_of_the_same_pixels(grey):
    flat, images = source(flat=True).load(), source().load()
    assert flat.X.dtype == np.float64 and flat.X.shape == (20, 20)
    np.testing.assert_allclose(flat.X, images.X.reshape(20, -1), atol=1e-7)
    assert (
        flat.feature_names[0] == "pixel1"
        and flat.facts["flat"]
        and flat.facts["image_shape"] == [1, 4, 5]
    )


@pytest.mark.parametrize("layout", ["channel_first", "channel_last"])
@pytest.mark.parametrize("flat", [True, False])
def test_colours_are_found_whichever_way_the_columns_lie(openml_cache, layout, flat):
    images = pictures(12, COLOUR)
    lying = images if layout == "channel_first" else images.transpose(0, 2, 3, 1)
    bake(openml_cache, 554, flat_table(lying, [0, 1] * 6))
    dataset = source(COLOUR, (8, 4), flat=flat).load()
    assert dataset.facts["layout"] == layout
    np.testing.assert_array_equal(np.rint(dataset.X * 255).reshape(images.shape), images)


@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_pixels_may_be_written_as_any_number(openml_cache, grey, dtype):
    before = source().load().fingerprint
    (folder,) = openml_cache.rglob("554")
    flat_table(grey, [i % 4 for i in range(20)], dtype).to_parquet(folder / "dataset_554.pq")
    assert source().load().fingerprint == before


def test_both_kinds_of_files_give_the_same_images(openml_cache, grey):
    before = source().load().fingerprint
    (file,) = openml_cache.rglob("dataset_554.pq")
    file.unlink()
    (file.parent / "dataset.arff").write_text(arff(flat_table(grey, [i % 4 for i in range(20)])))
    assert source().load().fingerprint == before


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["10", "9", "2", "10"], [2, 9, 10]),
        (["b", "a", "10", "a"], ["10", "a", "b"]),
        (["1.5", "2.5", "1.5", "2.5"], ["1.5", "2.5"]),
    ],
)
def test_labels_are_integers_if_all_are(openml_cache, labels, classes):
    bake(openml_cache, 554, flat_table(pictures(4, GREY), labels))
    assert source().load().classes.tolist() == classes


@pytest.mark.parametrize(
    ("value", "dtype", "found"),
    [
        (256, "int64", "256"),
        (-1, "int64", "-1"),
        (0.5, "float64", "0.5"),
        (np.nan, "float64", "nan"),
    ],
)
def test_what_is_no_intensity_is_named_with_its_place(openml_cache, value, dtype, found):
    table = flat_table(pictures(20, GREY), [0, 1] * 10, dtype)
    table.loc[3, "pixel7"] = value
    bake(openml_cache, 554, table)
    with pytest.raises(DataError) as caught:
        source().load()
    rule = "pixels must be integers from 0 to 255"
    assert str(caught.value) == f"made (OpenML 554): {rule}, got {found} in column 'pixel7', row 3"


def test_a_shape_that_does_not_fit(grey):
    with pytest.raises(DataError) as caught:
        source(shape=[1, 28, 28]).load()
    rule = "shape [1, 28, 28] needs 784 columns of pixels, and there are 20"
    assert str(caught.value) == f"made (OpenML 554): {rule}; correct dataset.shape or dataset.id"


def test_an_image_without_a_label(openml_cache):
    table = flat_table(pictures(20, GREY), [0, 1] * 10)
    table.loc[3, "class"] = None
    bake(openml_cache, 554, table)
    with pytest.raises(DataError, match=r"^made \(OpenML 554\): 1 images have no label; "):
        source().load()


def test_a_damaged_file_is_named(openml_cache, grey):
    (file,) = openml_cache.rglob("dataset_554.pq")
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(
        DataError, match=r"dataset_554.pq is damaged \(.*; delete .* and fetch it again"
    ):
        source().load()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"shape": [28, 28]}, "shape must be channels, height and width, got [28, 28]"),
        (
            {"official": [70_000]},
            "official must be a number of training rows and one of test rows, got [70000]",
        ),
        ({"flat": "yes"}, "flat must be true or false, got 'yes'"),
    ],
)
def test_parameters_out_of_range(changes, sentence):
    with pytest.raises(ParameterError) as caught:
        source(**changes)
    assert str(caught.value) == sentence


def test_what_is_not_here_and_cannot_be_fetched(openml_cache, monkeypatch):
    from kdgraph.data.openml.client import NetworkState

    monkeypatch.setattr(NetworkState, "failure", "no network")
    with pytest.raises(DataNotAvailable, match=r"^data set 554 is not in .*; no network"):
        source().prefetch()


REAL = [
    (554, GREY, (1, 28, 28), (60_000, 10_000), [5, 0, 4, 1, 9]),
    (40996, GREY, (1, 28, 28), (60_000, 10_000), None),
    (40927, COLOUR, (3, 32, 32), (50_000, 10_000), None),
    (41081, COLOUR, (3, 32, 32), (73_257, 26_032), None),
]


@pytest.mark.parametrize(("id", "kind", "shape", "official", "first"), REAL)
def test_sets_of_openml_are_images(id, kind, shape, official, first, no_network):
    if "OPENML_CACHE_DIR" not in os.environ or not is_cached(id):
        pytest.skip(f"OpenML {id} is in no folder that OPENML_CACHE_DIR names")
    dataset = OpenmlImages("real", id, shape, official).load()
    assert dataset.X.shape[1:] == shape and dataset.classes.tolist() == list(range(10))
    assert (
        (dataset.roles is None) == (len(dataset.y) != sum(official)) == ("subset" in dataset.facts)
    )
    assert first is None or dataset.classes[dataset.y[:5]].tolist() == first
    rough = [np.abs(np.diff(dataset.X[:200], axis=axis)).mean() for axis in (2, 3)]
    assert (
        max(rough) < 0.1
    )  # measured .03 to .08; with the channels in the other order twice as much
