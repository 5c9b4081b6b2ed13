"""Image sets of openml.org: pixels, roles, subsets, and files that contain no images."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.data.dataset import TEST, TRAIN
from kdgraph.data.images.openml_images import OpenmlImages
from kdgraph.data.splits import make_splits
from kdgraph.errors import DataError, DataNotAvailable, ParameterError
from tests.data.images.image_sets import flat_table, slope_images
from tests.data.openml.server import arff, write_cached_dataset
from tests.openml_data import require_cached

GREY, COLOUR = (1, 4, 5), (3, 8, 8)


def image_source(shape=GREY, official=(14, 6), **more) -> OpenmlImages:
    return OpenmlImages("made", 554, list(shape), list(official), **more)


@pytest.fixture
def grey_images(openml_cache):
    """Write 20 images of 1 × 4 × 5 pixels to the cache as data set 554, with labels 0 to 3."""
    images = slope_images(20, GREY)
    write_cached_dataset(openml_cache, 554, flat_table(images, [i % 4 for i in range(20)]))
    return images


def test_columns_become_images_between_0_and_1(grey_images, no_network):
    image_source().prefetch()
    dataset = image_source().load()
    assert dataset.X.dtype == np.float32 and dataset.are_images
    np.testing.assert_array_equal(np.rint(dataset.X * 255), grey_images)
    assert dataset.feature_names == ()
    assert dataset.classes.tolist() == [0, 1, 2, 3] and dataset.y.tolist() == [
        i % 4 for i in range(20)
    ]


def test_rows_come_in_the_official_order(grey_images):
    assert image_source().load().roles.tolist() == [TRAIN] * 14 + [TEST] * 6
    splits = make_splits(
        image_source(), n_train=4, n_calibration=8, n_test=4, rng=np.random.default_rng(0)
    )
    tests = {image.tobytes() for image in (grey_images[14:] / np.float32(255)).astype(np.float32)}
    assert {image.tobytes() for image in splits.test.X} <= tests
    assert not tests & {
        image.tobytes() for role in (splits.train, splits.calibration) for image in role.X
    }


def test_facts_describe_the_images(grey_images):
    assert image_source().load().facts == {
        "source": "openml",
        "id": 554,
        "version": 2,
        "name": "made-up-554",
        "loader": "parquet",
        "image_shape": [1, 4, 5],
        "layout": "channel_first",
        "flat": False,
    }


def test_another_number_of_rows_is_a_subset_without_roles(grey_images):
    dataset = image_source(official=(60_000, 10_000)).load()
    assert dataset.roles is None
    assert dataset.facts["subset"] == "20 of 70,000 rows, without the official split"


def test_subset_is_described_as_at_openml(openml_cache):
    description = "SUBSET of the original: 14 train rows, 6 test rows, in that order"
    write_cached_dataset(
        openml_cache, 554, flat_table(slope_images(20, GREY), [0, 1] * 10), description=description
    )
    official = image_source().load()
    assert official.facts["subset"] == description and official.roles is not None
    subset = image_source(official=(70, 30)).load()
    assert (subset.facts["subset"], subset.facts["description"]) == (
        "20 of 100 rows, without the official split",
        description,
    )


def test_flat_rows_are_vectors_of_the_same_pixels(grey_images):
    flat, images = image_source(flat=True).load(), image_source().load()
    assert flat.X.dtype == np.float64 and flat.X.shape == (20, 20)
    np.testing.assert_allclose(flat.X, images.X.reshape(20, -1), atol=1e-7)
    assert (
        flat.feature_names[0] == "pixel1"
        and flat.facts["flat"]
        and flat.facts["image_shape"] == [1, 4, 5]
    )


@pytest.mark.parametrize("layout", ["channel_first", "channel_last"])
@pytest.mark.parametrize("flat", [True, False])
def test_layout_of_colour_channels_is_inferred(openml_cache, layout, flat):
    images = slope_images(12, COLOUR)
    stored_images = images if layout == "channel_first" else images.transpose(0, 2, 3, 1)
    write_cached_dataset(openml_cache, 554, flat_table(stored_images, [0, 1] * 6))
    dataset = image_source(COLOUR, (8, 4), flat=flat).load()
    assert dataset.facts["layout"] == layout
    np.testing.assert_array_equal(np.rint(dataset.X * 255).reshape(images.shape), images)


@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_pixels_may_have_any_numeric_type(openml_cache, grey_images, dtype):
    before = image_source().load().fingerprint
    (folder,) = openml_cache.rglob("554")
    flat_table(grey_images, [i % 4 for i in range(20)], dtype).to_parquet(folder / "dataset_554.pq")
    assert image_source().load().fingerprint == before


def test_both_kinds_of_files_give_the_same_images(openml_cache, grey_images):
    before = image_source().load().fingerprint
    (file,) = openml_cache.rglob("dataset_554.pq")
    file.unlink()
    (file.parent / "dataset.arff").write_text(
        arff(flat_table(grey_images, [i % 4 for i in range(20)]))
    )
    assert image_source().load().fingerprint == before


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["10", "9", "2", "10"], [2, 9, 10]),
        (["b", "a", "10", "a"], ["10", "a", "b"]),
        (["1.5", "2.5", "1.5", "2.5"], ["1.5", "2.5"]),
    ],
)
def test_labels_become_integers_if_all_of_them_are(openml_cache, labels, classes):
    write_cached_dataset(openml_cache, 554, flat_table(slope_images(4, GREY), labels))
    assert image_source().load().classes.tolist() == classes


@pytest.mark.parametrize(
    ("value", "dtype", "shown_value"),
    [
        (256, "int64", "256"),
        (-1, "int64", "-1"),
        (0.5, "float64", "0.5"),
        (np.nan, "float64", "nan"),
    ],
)
def test_invalid_pixel_is_refused_with_column_and_row(openml_cache, value, dtype, shown_value):
    table = flat_table(slope_images(20, GREY), [0, 1] * 10, dtype)
    table.loc[3, "pixel7"] = value
    write_cached_dataset(openml_cache, 554, table)
    with pytest.raises(DataError) as caught:
        image_source().load()
    rule = "pixels must be integers from 0 to 255"
    assert (
        str(caught.value)
        == f"made (OpenML 554): {rule}, got {shown_value} in column 'pixel7', row 3"
    )


def test_shape_that_does_not_fit_the_columns_is_refused(grey_images):
    with pytest.raises(DataError) as caught:
        image_source(shape=[1, 28, 28]).load()
    rule = "shape [1, 28, 28] needs 784 columns of pixels, and there are 20"
    assert str(caught.value) == f"made (OpenML 554): {rule}; correct dataset.shape or dataset.id"


def test_image_without_a_label_is_refused(openml_cache):
    table = flat_table(slope_images(20, GREY), [0, 1] * 10)
    table.loc[3, "class"] = None
    write_cached_dataset(openml_cache, 554, table)
    with pytest.raises(DataError, match=r"^made \(OpenML 554\): 1 images have no label; "):
        image_source().load()


def test_damaged_file_is_named_with_the_way_out(openml_cache, grey_images):
    (file,) = openml_cache.rglob("dataset_554.pq")
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(
        DataError, match=r"dataset_554.pq is damaged \(.*; delete .* and fetch it again"
    ):
        image_source().load()


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
        image_source(**changes)
    assert str(caught.value) == sentence


def test_images_that_cannot_be_fetched_are_not_available(openml_cache, monkeypatch):
    from kdgraph.data.openml.client import NetworkState

    monkeypatch.setattr(NetworkState, "failure", "no network")
    with pytest.raises(DataNotAvailable, match=r"^data set 554 is not in .*; no network"):
        image_source().prefetch()


REAL = [
    (554, GREY, (1, 28, 28), (60_000, 10_000), [5, 0, 4, 1, 9]),
    (40996, GREY, (1, 28, 28), (60_000, 10_000), None),
    (40927, COLOUR, (3, 32, 32), (50_000, 10_000), None),
    (41081, COLOUR, (3, 32, 32), (73_257, 26_032), None),
]


@pytest.mark.parametrize(("id", "kind", "shape", "official", "first"), REAL)
def test_real_openml_sets_are_images(id, kind, shape, official, first, no_network):
    require_cached(id)
    dataset = OpenmlImages("real", id, shape, official).load()
    assert dataset.X.shape[1:] == shape and dataset.classes.tolist() == list(range(10))
    assert (
        (dataset.roles is None) == (len(dataset.y) != sum(official)) == ("subset" in dataset.facts)
    )
    assert first is None or dataset.classes[dataset.y[:5]].tolist() == first
    roughness = [np.abs(np.diff(dataset.X[:200], axis=axis)).mean() for axis in (2, 3)]
    assert (
        max(roughness) < 0.1
    )  # measured .03 to .08; with the channels in the other order twice as much
