"""Image files of the user: idx files, .npz files, and pictures in a folder or zip file."""

from __future__ import annotations

import gzip
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from kdgraph.data.dataset import CALIBRATION, TEST, TRAIN, UNUSED, FetchableTable
from kdgraph.data.files.arrays import read_idx
from kdgraph.data.images import ImageFiles
from kdgraph.data.images.pixels import resize_images
from kdgraph.data.ood import CompositeOod, OtherDataset
from kdgraph.data.splits import make_splits
from kdgraph.errors import DataError, DataNotAvailable, ParameterError
from tests.data.images.image_sets import slope_images


def write_idx(path: Path, array: np.ndarray, code: int = 0x08) -> None:
    """Write an idx file, compressed if its name ends with .gz."""
    content = (
        bytes([0, 0, code, array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.tobytes()
    )
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def load_pixels(source: ImageFiles) -> np.ndarray:
    return np.rint(source.load().X * 255).astype(int)


@pytest.fixture
def mnist_folder(tmp_path):
    """Write idx files named as in MNIST, with 6 training and 4 test images."""
    images = slope_images(10, (1, 4, 5))
    for word, rows in (("train", slice(6)), ("t10k", slice(6, None))):
        write_idx(tmp_path / f"{word}-images-idx3-ubyte.gz", images[rows, 0])
        write_idx(
            tmp_path / f"{word}-labels-idx1-ubyte.gz", np.arange(10, dtype=np.uint8)[rows] % 2
        )
    return tmp_path, images


def test_names_of_idx_files_define_training_and_test_rows(mnist_folder):
    folder, images = mnist_folder
    dataset = ImageFiles(str(folder)).load()
    np.testing.assert_array_equal(
        np.rint(dataset.X * 255), np.concatenate([images[6:], images[:6]])
    )  # in the order of the names
    assert np.asarray(dataset.roles).tolist() == [TEST] * 4 + [TRAIN] * 6
    assert dataset.y.tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0, 1] and dataset.classes.tolist() == [
        0,
        1,
    ]
    assert dataset.X.dtype == np.float32 and dataset.facts["image_shape"] == [1, 4, 5]


def test_single_idx_file_has_the_labels_of_its_label_file(mnist_folder):
    dataset = ImageFiles(str(mnist_folder[0] / "t10k-images-idx3-ubyte.gz")).load()
    assert (
        dataset.roles is None
        and dataset.y.tolist() == [0, 1, 0, 1]
        and dataset.name == "t10k-images-idx3-ubyte"
    )


def test_label_file_of_two_axes_has_the_class_first(tmp_path):
    images = slope_images(4, (1, 3, 3))[:, 0]
    write_idx(tmp_path / "qmnist-test-images-idx3-ubyte", images)
    write_idx(
        tmp_path / "qmnist-test-labels-idx2-int",
        np.array([[7, 1], [3, 2], [7, 3], [3, 4]], dtype=">i4"),
        0x0C,
    )
    dataset = ImageFiles(str(tmp_path)).load()
    assert (
        dataset.classes[dataset.y].tolist() == [7, 3, 7, 3]
        and np.asarray(dataset.roles).tolist() == [TEST] * 4
    )


@pytest.mark.parametrize(
    ("code", "kind"),
    [(0x08, "u1"), (0x09, "i1"), (0x0B, ">i2"), (0x0C, ">i4"), (0x0D, ">f4"), (0x0E, ">f8")],
)
def test_idx_files_of_each_type(tmp_path, code, kind):
    array = (np.arange(24) - 3 * (kind[-2] != "u")).reshape(2, 3, 4).astype(kind)
    write_idx(tmp_path / "a-images-idx3", array, code)
    np.testing.assert_array_equal(read_idx(tmp_path / "a-images-idx3"), array)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89PNG and so on", "is not an idx file: it begins with 89 50 4e 47"),
        (b"", "is not an idx file: it begins with nothing"),
        (
            b"\0\0\x08\x03" + struct.pack(">III", 2, 3, 4) + bytes(23),
            r"is truncated: its header declares \(2, 3, 4\) numbers of 1 bytes, and 23",
        ),
        (b"\0\0\x08\x03" + struct.pack(">II", 2, 3), "is truncated"),
    ],
)
def test_invalid_idx_file_is_refused(tmp_path, content, message):
    (tmp_path / "a-images-idx3").write_bytes(content)
    with pytest.raises(DataError, match=message):
        ImageFiles(str(tmp_path / "a-images-idx3")).load()


@pytest.mark.parametrize("damage", ["cut short", "changed", "not compressed"])
def test_damaged_compressed_file_is_refused(tmp_path, damage):
    write_idx(tmp_path / "a-images-idx3.gz", slope_images(20, (1, 9, 9))[:, 0])
    content = bytearray((tmp_path / "a-images-idx3.gz").read_bytes())
    content[60:90] = bytes(30) if damage == "changed" else content[60:90]
    (tmp_path / "a-images-idx3.gz").write_bytes(
        {"cut short": content[:-20], "changed": content, "not compressed": b"text"}[damage]
    )
    with pytest.raises(DataError, match=r"a-images-idx3.gz cannot be read: "):
        ImageFiles(str(tmp_path / "a-images-idx3.gz")).load()


@pytest.mark.parametrize("layout", ["channel_first", "channel_last"])
def test_colour_arrays_may_have_channels_first_or_last(tmp_path, layout):
    images = slope_images(6, (3, 8, 7))
    np.savez(
        tmp_path / "a.npz",
        x=images if layout == "channel_first" else images.transpose(0, 2, 3, 1),
        y=list("abcabc"),
    )
    source = ImageFiles(str(tmp_path / "a.npz"))
    np.testing.assert_array_equal(load_pixels(source), images)
    assert source.load().classes.tolist() == ["a", "b", "c"]


_PARTS = {"train": slice(3), "val": slice(3, 4), "test": slice(4, 6)}
"""Rows of the parts of a file of MedMNIST that has six images."""


def test_medmnist_arrays_have_three_roles(tmp_path):
    images = slope_images(6, (1, 4, 4))[:, 0]
    images_by_name = {f"{part}_images": images[rows] for part, rows in _PARTS.items()}
    labels = {f"{part}_labels": np.arange(6)[rows, None] % 3 for part, rows in _PARTS.items()}
    np.savez(tmp_path / "a.npz", **images_by_name, **labels)  # pyright: ignore[reportArgumentType]
    dataset = ImageFiles(str(tmp_path / "a.npz")).load()
    assert np.asarray(dataset.roles).tolist() == [TRAIN] * 3 + [CALIBRATION] + [
        TEST
    ] * 2 and dataset.y.tolist() == [0, 1, 2, 0, 1, 2]


def test_images_with_several_labels_serve_as_test_rows_only(tmp_path):
    """ChestMNIST has 14 indicators for each image, most of them 0."""
    images = slope_images(6, (1, 4, 4))[:, 0]
    indicators = np.zeros((6, 14), dtype=np.uint8)
    indicators[1, [2, 5]] = 1
    arrays = {f"{part}_images": images[rows] for part, rows in _PARTS.items()}
    arrays |= {f"{part}_labels": indicators[rows] for part, rows in _PARTS.items()}
    np.savez(tmp_path / "chestmnist.npz", **arrays)  # pyright: ignore[reportArgumentType]
    with pytest.warns(UserWarning, match="several of 14 labels; they are left out"):
        dataset = ImageFiles(str(tmp_path / "chestmnist.npz")).load()
    assert dataset.classes.tolist() == ["none"]
    assert np.asarray(dataset.roles).tolist() == [UNUSED] * 4 + [TEST] * 2


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"pictures": np.zeros((2, 3, 3))},
            "has no array of images named x_train, train_images, .*; it has pictures",
        ),
        (
            {"x": np.zeros((2, 5, 4, 4))},
            r"must be \[n, height, width\], or have 1 or 3 channels before or behind these",
        ),
        (
            {"x": np.full((2, 3, 3), 300)},
            "pixels must be integers from 0 to 255 or lie in .0, 1., got 300 to 300",
        ),
        ({"x": np.full((2, 3, 3), 1.5)}, "got 1.5 to 1.5"),
        ({"x": np.full((2, 3, 3), np.nan)}, "got nan to nan"),
        ({"x": np.full((2, 3, 3), "a")}, "must hold numbers"),
        (
            {"x": np.zeros((2, 3, 3)), "y": np.zeros(3)},
            "one label for each of 2 images, got shape .3,",
        ),
        (
            {"x": np.zeros((2, 3, 3)), "y": np.eye(2)},
            "one label for each of 2 images, got shape .2, 2.",
        ),
    ],
)
def test_arrays_that_are_no_images_are_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=message):
        ImageFiles(str(tmp_path / "a.npz")).load()


@pytest.fixture
def picture_folder(tmp_path):
    """Write pictures and other files into two folders, and the same into a zip file."""
    images = slope_images(4, (1, 6, 6))[:, 0]
    for i, image in enumerate(images):
        folder = tmp_path / "drawn" / ("cats" if i % 2 else "dogs")
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{i}.{'PNG' if i else 'png'}")
    (tmp_path / "drawn" / "notes.txt").write_text("no picture")
    (tmp_path / "drawn" / "dogs" / ".hidden.png").write_bytes(b"no picture either")
    with zipfile.ZipFile(tmp_path / "drawn.zip", "w") as archive:
        for file in sorted((tmp_path / "drawn").rglob("*")):
            archive.write(file, file.relative_to(tmp_path))
        archive.writestr("__MACOSX/drawn/dogs/0.png", b"no picture")
    return tmp_path, images[[1, 3, 0, 2]]


@pytest.mark.parametrize("name", ["drawn", "drawn.zip"])
def test_pictures_are_labelled_by_their_folders(picture_folder, name):
    folder, images = picture_folder
    dataset = ImageFiles(str(folder / name)).load()
    np.testing.assert_array_equal(np.rint(dataset.X[:, 0] * 255), images)
    assert [label.rpartition("/")[2] for label in dataset.classes] == [
        "cats",
        "dogs",
    ] and dataset.y.tolist() == [0, 0, 1, 1]
    assert dataset.name == "drawn" and ("sha256" in dataset.facts) == (name == "drawn.zip")


def test_flat_rows_are_vectors_of_the_same_pixels(picture_folder):
    dataset = ImageFiles(str(picture_folder[0] / "drawn"), flat=True).load()
    np.testing.assert_array_equal(np.rint(dataset.X * 255).reshape(4, 6, 6), picture_folder[1])
    assert (
        dataset.X.dtype == np.float64
        and dataset.feature_names[-1] == "pixel36"
        and dataset.facts["image_shape"] == [1, 6, 6]
    )


def test_pictures_are_resized_converted_to_grey_and_inverted(tmp_path):
    rng = np.random.default_rng(0)
    for name, shape in (("a/0.png", (9, 6, 3)), ("a/1.png", (6, 6)), ("b/2.png", (6, 6, 3))):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(tmp_path / name)
    with pytest.raises(
        DataError,
        match=(
            r"has images of 3 shapes, such as 1×6×6 and 3×6×6; make them equal:"
            r" 'dataset.size=\[28,28\]'"
        ),
    ):
        ImageFiles(str(tmp_path)).load()
    with pytest.raises(DataError, match=r"make them equal: dataset\.channels=1"):
        ImageFiles(str(tmp_path), size=[6, 6]).load()
    dataset = ImageFiles(str(tmp_path), size=[6, 6], channels=1, invert=True).load()
    assert dataset.facts["made"] == [
        "inverted",
        "grey from colours (Rec. 601 luma)",
        "resized from 9×6 to 6×6 (bilinear)",
    ]
    by_pillow = [
        np.asarray(Image.open(tmp_path / name).convert("L"), dtype=float)
        for name in ("a/0.png", "a/1.png", "b/2.png")
    ]
    by_pillow[0] = resize_images(by_pillow[0][None, None], 6, 6)[0, 0]
    np.testing.assert_allclose(
        255 - dataset.X[:, 0] * 255, by_pillow, atol=1.01
    )  # Pillow rounds its greys
    assert dataset.y.tolist() == [0, 0, 1]


def test_one_bit_sixteen_bits_palettes_and_transparency_are_read(tmp_path):
    dark = np.zeros((3, 3), dtype=np.uint8)
    dark[1] = 255
    pictures = [Image.fromarray(dark).convert(mode) for mode in ("1", "LA", "I;16")]
    pictures[2] = Image.fromarray(dark.astype(np.uint16) * 257)
    for i, picture in enumerate(pictures):
        picture.save(tmp_path / f"{i}.png")
    np.testing.assert_array_equal(
        load_pixels(ImageFiles(str(tmp_path)))[:, 0], np.stack([dark] * 3)
    )
    colours = tmp_path / "colours"
    colours.mkdir()
    for i, mode in enumerate(("P", "RGBA", "RGB")):
        Image.fromarray(np.stack([dark] * 3, axis=-1)).convert(mode).save(colours / f"{i}.png")
    np.testing.assert_array_equal(
        load_pixels(ImageFiles(str(colours))), np.broadcast_to(dark, (3, 3, 3, 3))
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.zip", b"no zip", "is not a zip file, or is damaged"),
        ("a.tar", b"", "must be one of these: .npz, .zip, idx files"),
        (
            "a/b.png",
            b"no picture",
            (
                "dataset.path=.*: b.png cannot be read as a picture: .*; repair or remove it, or"
                " leave out all such"
            ),
        ),
        ("a/b.txt", b"no picture", "has no pictures"),
    ],
)
def test_paths_without_pictures_are_refused(tmp_path, name, content, message):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        ImageFiles(str(tmp_path / name.partition("/")[0])).load()


@pytest.mark.parametrize("name", ["drawn", "drawn.zip"])
@pytest.mark.parametrize("damage", ["cut short", "changed", "empty"])
def test_unreadable_picture_is_refused_or_skipped(picture_folder, name, damage):
    folder, images = picture_folder
    file = folder / "drawn/cats/1.PNG"
    content = file.read_bytes()
    content = {
        "cut short": content[:40],
        "changed": content[:45] + bytes(20) + content[65:],
        "empty": b"",
    }[damage]
    file.write_bytes(content)
    with zipfile.ZipFile(folder / "drawn.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted((folder / "drawn").rglob("*.*")):
            archive.write(file, file.relative_to(folder / "drawn"))
    with pytest.raises(
        DataError,
        match=(
            r"^dataset.path=.*: cats/1.PNG cannot be read as a picture: .*:"
            r" dataset.unreadable=skip$"
        ),
    ):
        ImageFiles(str(folder / name)).load()
    with pytest.warns(
        UserWarning,
        match=r"^drawn: left out are 1 that cannot be read as pictures, such as cats/1.PNG$",
    ):
        dataset = ImageFiles(str(folder / name), unreadable="skip").load()
    np.testing.assert_array_equal(np.rint(dataset.X[:, 0] * 255), images[1:])
    assert dataset.facts["unreadable"].startswith("1 that")


def test_damaged_member_of_an_archive_is_refused(picture_folder):
    """Check errors of the archive, which differ from those of the format of the picture."""
    file = picture_folder[0] / "noise.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "a.pgm",
            b"P5 8 8 255\n"
            + np.random.default_rng(0).integers(0, 60, 64, dtype=np.uint8).tobytes(),
        )
    content = bytearray(file.read_bytes())
    content[40:70] = b"\xff" * 30
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"a.pgm cannot be read as a picture: "):
        ImageFiles(str(file)).load()
    with pytest.raises(DataError, match=r"noise.zip has no picture that can be read, of 1$"):
        ImageFiles(str(file), unreadable="skip").load()


def test_images_without_labels_are_test_rows_and_an_ood_set(tmp_path, mnist_folder):
    np.savez(tmp_path / "a.npz", x=slope_images(5, (1, 8, 8)))
    source = ImageFiles(str(tmp_path / "a.npz"), invert=True)
    assert np.asarray(source.load().roles).tolist() == [TEST] * 5
    with pytest.raises(DataError, match="n_train is 0"):
        make_splits(source, rng=np.random.default_rng(0))
    train = ImageFiles(str(mnist_folder[0]))
    splits = make_splits(train, n_train=2, n_calibration=4, n_test=2, rng=np.random.default_rng(0))
    composite = CompositeOod(
        {"a": OtherDataset(source), "b": OtherDataset(ImageFiles("nothing.zip"))}, missing="skip"
    )
    composite.prefetch()
    with pytest.warns(UserWarning, match="^b is .*nothing.zip"):
        (ood_set,) = composite.sets(splits, np.random.default_rng(0))
    assert ood_set.name == "a" and ood_set.X.shape == (5, 1, 4, 5)
    assert ood_set.facts["made"] == ["inverted"] and ood_set.facts["repaired"] == [
        "resized from 8×8 to 4×5 (bilinear)"
    ]
    np.savez(
        tmp_path / "b.npz", x_train=slope_images(5, (1, 8, 8)), x_test=slope_images(2, (1, 8, 8))
    )
    assert (
        np.asarray(ImageFiles(str(tmp_path / "b.npz")).load().roles).tolist()
        == [UNUSED] * 5 + [TEST] * 2
    )


def test_missing_file_is_not_available():
    source = ImageFiles("no/such/folder/a.zip")
    assert isinstance(source, FetchableTable) and source.name == "a"
    for method in (source.prefetch, source.load):
        with pytest.raises(
            DataNotAvailable, match=r"dataset.path=no/such/folder/a.zip: there is no folder"
        ):
            method()


def test_parameters_out_of_range_are_refused():
    with pytest.raises(ParameterError, match="size must be a height and a width"):
        ImageFiles("a.zip", size=[28])
    with pytest.raises(ParameterError, match="channels must be 1, 3 or null, got 2"):
        ImageFiles("a.zip", channels=2)
