"""Rows of another data set as out-of-distribution rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from kdgraph.data import Dataset
from kdgraph.data.dataset import TEST, TRAIN, UNUSED
from kdgraph.data.images.pixels import match_image_shape
from kdgraph.data.ood.other_data import OtherDataset
from kdgraph.data.scaling import Scaling
from kdgraph.data.simulations import Shapes, Spiral
from kdgraph.errors import DataError, DataNotAvailable, ParameterError
from kdgraph.parents.networks.outlier_sources import DatasetOutliers
from tests.data.ood.splits import identical_splits


@dataclass
class TableInMemory:
    """Table in memory that warns when it is loaded and cannot be fetched."""

    table: Dataset
    prefetch_calls: list = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.table.name

    def load(self) -> Dataset:
        warnings.warn("copies that fall into train and test", stacklevel=1)
        return self.table

    def prefetch(self, progress=None) -> None:
        self.prefetch_calls.append(progress)
        raise DataNotAvailable("not here")


def random_table(name: str, *shape: int, n: int = 12, **more) -> Dataset:
    return Dataset.from_labels(
        name, np.random.default_rng(len(name)).random((n, *shape)), np.arange(n) % 2, **more
    )


def draw_ood_set(train: Dataset, table: Dataset, n: int = 5):
    (ood_set,) = OtherDataset(TableInMemory(table), n=n).sets(
        identical_splits(train), np.random.default_rng(0)
    )
    return ood_set


def test_rows_are_drawn_without_replacement():
    table = random_table("other", 4)
    ood_set = draw_ood_set(random_table("trained", 4), table, n=12)
    assert ood_set.name == "other" and ood_set.params == {}
    np.testing.assert_array_equal(np.sort(ood_set.X, axis=0), np.sort(table.X, axis=0))
    assert not np.array_equal(ood_set.X, table.X)
    assert ood_set.facts == {"rows": "12 at random of 12 rows", "repaired": []}


def test_vectors_are_scaled_like_the_training_rows():
    table, scaling = random_table("other", 4), Scaling(shift=np.arange(4.0), size=3.0)
    (ood_set,) = OtherDataset(TableInMemory(table), n=12).sets(
        identical_splits(random_table("trained", 4), scaling), np.random.default_rng(0)
    )
    np.testing.assert_array_equal(
        np.sort(ood_set.X, axis=0), np.sort(scaling.apply(table.X), axis=0)
    )


def test_official_test_rows_are_preferred():
    roles = np.array([TRAIN, TEST, UNUSED] * 4, dtype=np.int8)
    table = random_table("other", 4, roles=roles, facts={"id": 3, "source": "openml"})
    ood_set = draw_ood_set(random_table("trained", 4), table, n=1000)
    assert {tuple(row) for row in ood_set.X} == {tuple(row) for row in table.X[roles == TEST]}
    assert ood_set.facts == {
        "id": 3,
        "source": "openml",
        "rows": "4 at random of 4 test rows",
        "repaired": [],
    }


@pytest.mark.parametrize("has_roles", [False, True])
def test_class_halves_of_ood_rows_and_outliers_are_disjoint(has_roles):
    labels = np.arange(40) % 5
    roles = np.repeat(np.array([TRAIN, TEST], dtype=np.int8), 20) if has_roles else None
    table = Dataset.from_labels(
        "other", np.random.default_rng(0).random((40, 4)), labels, roles=roles
    )
    label_of_row = {
        tuple(row.astype(np.float32)): label for row, label in zip(table.X, labels, strict=True)
    }
    classes_by_half = {}
    for half in ("first", "second"):
        (ood_set,) = OtherDataset(TableInMemory(table), n=100, class_half=half).sets(
            identical_splits(random_table("trained", 4)), np.random.default_rng(0)
        )
        n = {"first": 16, "second": 24}[half] // (2 if has_roles else 1)
        description = (
            f"{n} at random of {n}{' test' if has_roles else ''} rows of the {half} half of the"
            " classes"
        )
        assert (ood_set.name, ood_set.facts["rows"], len(ood_set.X)) == (
            f"other_{half}_half",
            description,
            n,
        )
        outliers = DatasetOutliers(source=TableInMemory(table), class_half=half).make_sampler(
            np.zeros((1, 4)), np.random.default_rng(0)
        )(200, np.random.default_rng(1))
        classes_by_half[half] = (
            {label_of_row[tuple(row)] for row in ood_set.X.astype(np.float32)},
            {label_of_row[tuple(row)] for row in outliers},
        )
    assert classes_by_half == {"first": ({0, 1}, {0, 1}), "second": ({2, 3, 4}, {2, 3, 4})}


def test_half_needs_a_table_with_two_classes():
    with pytest.raises(
        ParameterError,
        match=r"^class_half must be null, since spiral is a simulation and not divided, got first$",
    ):
        OtherDataset(Spiral(), class_half="first")
    single_class = replace(
        random_table("other", 4), y=np.zeros(12, dtype=int), classes=np.array(["none"])
    )
    with pytest.raises(
        DataError,
        match=(
            r"^other has no classes to be divided into halves; give class_half=null, or choose another"
            r" data set$"
        ),
    ):
        OtherDataset(TableInMemory(single_class), class_half="second").sets(
            identical_splits(random_table("trained", 4)), np.random.default_rng(0)
        )


def test_all_rows_are_drawn_if_no_role_tests():
    assert (
        len(
            draw_ood_set(
                random_table("trained", 4),
                random_table("other", 4, roles=np.zeros(12, dtype=np.int8)),
                n=1000,
            ).X
        )
        == 12
    )


def test_images_get_the_shape_of_the_training_images():
    table = random_table("other", 3, 6, 6)
    ood_set = draw_ood_set(random_table("trained", 1, 8, 7), table, n=12)
    assert ood_set.X.shape == (12, 1, 8, 7) and ood_set.X.dtype == np.float32
    assert ood_set.facts["repaired"] == [
        "resized from 6×6 to 8×7 (bilinear)",
        "grey from colours (Rec. 601 luma)",
    ]
    expected = {image.tobytes() for image in match_image_shape((1, 8, 7), table.X)[0]}
    assert {image.tobytes() for image in ood_set.X} == expected


def test_images_become_vectors_if_trained_on_vectors_of_pixels():
    train = random_table("trained", 16, facts={"image_shape": [1, 4, 4]})
    table = random_table("other", 3, 4, 4)
    ood_set = draw_ood_set(train, table)
    assert ood_set.X.shape == (5, 16) and ood_set.X.dtype == np.float64
    assert ood_set.facts["repaired"] == ["grey from colours (Rec. 601 luma)", "flat"]
    flat = replace(table, X=table.X.reshape(12, -1).astype(float), facts={"image_shape": [3, 4, 4]})
    np.testing.assert_allclose(draw_ood_set(train, flat).X, ood_set.X, atol=1e-6)


def test_simulation_draws_n_rows():
    (ood_set,) = OtherDataset(Spiral(), n=30).sets(
        identical_splits(random_table("trained", 2)), np.random.default_rng(0)
    )
    assert (
        ood_set.X.shape == (30, 2)
        and ood_set.facts["rows"] == "30 drawn"
        and ood_set.name == "spiral"
    )
    (ood_set,) = OtherDataset(Shapes(size=60), n=3).sets(
        identical_splits(random_table("trained", 1, 8, 8)), np.random.default_rng(0)
    )
    assert ood_set.X.shape == (3, 1, 8, 8)


SEVEN = {"source": "openml", "id": 7}


@pytest.mark.parametrize(
    ("train", "table", "sentence"),
    [
        (
            random_table("a", 4),
            random_table("a", 4),
            "a is the data set that is trained on, so its rows are in distribution",
        ),
        (
            random_table("a", 4, facts=SEVEN),
            random_table("b", 4, facts=SEVEN),
            "b and a, which is trained on, are both openml 7",
        ),
        (
            random_table("a", 4),
            random_table("b", 5),
            "rows of b have 5 features, and rows of a, which is trained on, have 4",
        ),
        (
            random_table("a", 1, 4, 4),
            random_table("b", 16),
            "b has vectors, and a, which is trained on, has images",
        ),
        (
            random_table("a", 16),
            random_table("b", 1, 4, 4),
            "b has images, and a, which is trained on, has vectors",
        ),
        (
            random_table("a", 3, 4, 4),
            random_table("b", 2, 4, 4),
            "b: images of 2 channels cannot become images of 3; only 1 and 3 can be exchanged",
        ),
        (
            random_table("a", 1),
            Dataset.from_labels("b", np.zeros((4, 1)), [0, 1] * 2, categories=(("x", "y"),)),
            "b and a, which is trained on, do not have the same categories in the same columns",
        ),
        (
            random_table("a", 1),
            Dataset.from_labels("b", np.full((4, 1), np.nan), [0, 1] * 2),
            "b has missing values, and a, which is trained on, has none",
        ),
    ],
    ids=["name", "id", "features", "vectors", "images", "channels", "categories", "missing"],
)
def test_data_sets_that_do_not_fit_are_refused(train, table, sentence):
    with pytest.raises(DataError) as caught:
        draw_ood_set(train, table)
    assert str(caught.value) == f"{sentence}; choose another data set: ood.name=…"


def test_sources_without_an_id_are_different():
    assert (
        len(
            draw_ood_set(
                random_table("a", 4, facts={"source": "file"}),
                random_table("b", 4, facts={"source": "file"}),
            ).X
        )
        == 5
    )


def test_prefetch_fetches_the_source():
    source = TableInMemory(random_table("other", 4))
    with pytest.raises(DataNotAvailable):
        OtherDataset(source).prefetch(print)
    assert source.prefetch_calls == [print]
    OtherDataset(Spiral()).prefetch()


def test_n_must_be_positive():
    with pytest.raises(ParameterError, match=r"^n must be in \[1, inf\), got 0$"):
        OtherDataset(Spiral(), n=0)


def draw_cycled_set(train: Dataset, table: Dataset, n: int = 12, scaling: Scaling | None = None):
    (ood_set,) = OtherDataset(TableInMemory(table), n=n, columns="cycle").sets(
        identical_splits(train, scaling), np.random.default_rng(0)
    )
    return ood_set


@pytest.mark.parametrize(
    ("d", "description"),
    [
        (3, "3 of 4 numeric columns"),
        (4, "4 of 4 numeric columns"),
        (9, "4 numeric columns repeated to 9"),
    ],
)
def test_cycled_columns_fill_the_ranges_of_the_training_features(d, description):
    train, table = random_table("trained", d), random_table("other", 5, n=20)
    table.X[:, 1] = 7.0  # constant, without a range
    ood_set = draw_cycled_set(train, table, n=20)
    assert ood_set.X.shape == (20, d) and ood_set.facts["repaired"] == [
        f"{description}, each in the range of a training feature"
    ]
    np.testing.assert_allclose(ood_set.X.min(axis=0), train.X.min(axis=0), atol=1e-12)
    np.testing.assert_allclose(ood_set.X.max(axis=0), train.X.max(axis=0), atol=1e-12)
    indices = np.random.default_rng(0).choice(20, 20, replace=False)  # the draw of the rows
    for feature in range(d):
        column = table.X[indices, [0, 2, 3, 4][feature % 4]]
        assert np.corrcoef(ood_set.X[:, feature], column)[0, 1] == pytest.approx(1)


def test_cycled_ranges_are_those_of_the_whole_table():
    table = random_table("other", 4, n=200)
    subset, whole_table = (
        draw_cycled_set(random_table("trained", 4), table, n=10).X,
        draw_cycled_set(random_table("trained", 4), table, n=200).X,
    )
    assert {tuple(row) for row in subset.round(12)} <= {tuple(row) for row in whole_table.round(12)}


def test_cycled_columns_do_not_depend_on_the_scaling():
    """Check that only the range of the training rows, which are scaled already, matters."""
    train, table = random_table("trained", 4), random_table("other", 2)
    np.testing.assert_array_equal(
        draw_cycled_set(train, table, scaling=Scaling(size=3.0)).X, draw_cycled_set(train, table).X
    )


def test_cycled_columns_take_training_categories():
    X = np.column_stack([np.random.default_rng(0).random(12), np.full(12, 2.0)])
    train = Dataset.from_labels("trained", X, np.arange(12) % 2, categories=(None, ("a", "b", "c")))
    table = random_table("other", 3, n=12)
    table.X[0] = np.nan
    mixed = replace(table, categories=(("x", "y"), None, None))
    ood_set = draw_cycled_set(train, mixed)
    assert (ood_set.X[:, 1] == 2).all() and not np.isnan(ood_set.X).any()
    assert ood_set.facts["repaired"] == [
        "1 of 2 numeric columns, each in the range of a training feature"
    ]


def test_cycled_columns_of_pixels_and_of_a_simulation():
    assert draw_cycled_set(random_table("trained", 7), random_table("other", 1, 3, 3)).X.shape == (
        12,
        7,
    )
    train = random_table("trained", 16, facts={"image_shape": [1, 4, 4]})
    assert draw_cycled_set(train, random_table("other", 3, 4, 4)).facts["repaired"] == [
        "grey from colours (Rec. 601 luma)",
        "flat",
    ]
    (ood_set,) = OtherDataset(Spiral(), n=30, columns="cycle").sets(
        identical_splits(random_table("trained", 5)), np.random.default_rng(0)
    )
    np.testing.assert_allclose(
        ood_set.X.min(axis=0), random_table("trained", 5).X.min(axis=0), atol=1e-12
    )


def test_cycled_columns_need_a_column_that_varies():
    flat = replace(random_table("other", 2), X=np.ones((12, 2)))
    with pytest.raises(
        DataError,
        match=(
            r"^other has no numeric feature that varies, and only such columns can stand for"
            r" others; name another$"
        ),
    ):
        draw_cycled_set(random_table("trained", 3), flat)
