"""Another data set as what is out of distribution."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from kdgraph.data import Dataset
from kdgraph.data.dataset import TEST, TRAIN, UNUSED, Scaling
from kdgraph.data.images.pixels import match_image_shape
from kdgraph.data.ood.other_data import OtherDataset
from kdgraph.data.simulations import Shapes, Spiral
from kdgraph.errors import DataError, DataNotAvailable, ParameterError
from kdgraph.parents.networks.outlier_sources import DatasetOutliers
from tests.data.ood import trained


@dataclass
class Given:
    """A table that is there already."""

    table: Dataset
    asked: list = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.table.name

    def load(self) -> Dataset:
        warnings.warn("copies that fall into train and test", stacklevel=1)
        return self.table

    def prefetch(self, progress=None) -> None:
        self.asked.append(progress)
        raise DataNotAvailable("not here")


def rows(name: str, *shape: int, n: int = 12, **more) -> Dataset:
    return Dataset.from_labels(
        name, np.random.default_rng(len(name)).random((n, *shape)), np.arange(n) % 2, **more
    )


def draw(train: Dataset, other: Dataset, n: int = 5):
    (drawn,) = OtherDataset(Given(other), n=n).sets(trained.on(train), np.random.default_rng(0))
    return drawn


def test_rows_are_drawn_from_all_without_one_twice():
    other = rows("other", 4)
    drawn = draw(rows("trained", 4), other, n=12)
    assert drawn.name == "other" and drawn.params == {}
    np.testing.assert_array_equal(np.sort(drawn.X, axis=0), np.sort(other.X, axis=0))
    assert not np.array_equal(drawn.X, other.X)
    assert drawn.facts == {"rows": "12 at random of 12 rows", "repaired": []}


def test_vectors_are_scaled_as_the_training_rows_were():
    other, scaling = rows("other", 4), Scaling(shift=np.arange(4.0), size=3.0)
    (drawn,) = OtherDataset(Given(other), n=12).sets(
        trained.on(rows("trained", 4), scaling), np.random.default_rng(0)
    )
    np.testing.assert_array_equal(np.sort(drawn.X, axis=0), np.sort(scaling.apply(other.X), axis=0))


def test_official_test_rows_are_preferred():
    roles = np.array([TRAIN, TEST, UNUSED] * 4, dtype=np.int8)
    other = rows("other", 4, roles=roles, facts={"id": 3, "source": "openml"})
    drawn = draw(rows("trained", 4), other, n=1000)
    assert {tuple(row) for row in drawn.X} == {tuple(row) for row in other.X[roles == TEST]}
    assert drawn.facts == {
        "id": 3,
        "source": "openml",
        "rows": "4 at random of 4 test rows",
        "repaired": [],
    }


@pytest.mark.parametrize("has_roles", [False, True])
def test_a_half_of_the_classes_tests_what_the_other_half_has_trained_with(has_roles):
    labels = np.arange(40) % 5
    roles = np.repeat(np.array([TRAIN, TEST], dtype=np.int8), 20) if has_roles else None
    other = Dataset.from_labels(
        "other", np.random.default_rng(0).random((40, 4)), labels, roles=roles
    )
    of = {tuple(row.astype(np.float32)): label for row, label in zip(other.X, labels, strict=True)}
    found = {}
    for half in ("first", "second"):
        (drawn,) = OtherDataset(Given(other), n=100, class_half=half).sets(
            trained.on(rows("trained", 4)), np.random.default_rng(0)
        )
        n = {"first": 16, "second": 24}[half] // (2 if has_roles else 1)
        words = (
            f"{n} at random of {n}{' test' if has_roles else ''} rows of the {half} half of the"
            " classes"
        )
        assert (drawn.name, drawn.facts["rows"], len(drawn.X)) == (f"other_{half}_half", words, n)
        exposed = DatasetOutliers(source=Given(other), class_half=half).make_sampler(
            np.zeros((1, 4)), np.random.default_rng(0)
        )(200, np.random.default_rng(1))
        found[half] = (
            {of[tuple(row)] for row in drawn.X.astype(np.float32)},
            {of[tuple(row)] for row in exposed},
        )
    assert found == {"first": ({0, 1}, {0, 1}), "second": ({2, 3, 4}, {2, 3, 4})}


def test_what_has_no_classes_has_no_half():
    with pytest.raises(
        ParameterError,
        match=r"^class_half must be null, since spiral is a simulation and not divided, got first$",
    ):
        OtherDataset(Spiral(), class_half="first")
    alike = replace(rows("other", 4), y=np.zeros(12, dtype=int), classes=np.array(["none"]))
    with pytest.raises(
        DataError,
        match=(
            r"^other has no classes to be divided into halves; give class_half=null, or choose another"
            r" data set$"
        ),
    ):
        OtherDataset(Given(alike), class_half="second").sets(
            trained.on(rows("trained", 4)), np.random.default_rng(0)
        )


def test_roles_without_test_rows_say_nothing():
    assert (
        len(draw(rows("trained", 4), rows("other", 4, roles=np.zeros(12, dtype=np.int8)), n=1000).X)
        == 12
    )


def test_images_get_the_shape_of_the_training_images():
    other = rows("other", 3, 6, 6)
    drawn = draw(rows("trained", 1, 8, 7), other, n=12)
    assert drawn.X.shape == (12, 1, 8, 7) and drawn.X.dtype == np.float32
    assert drawn.facts["repaired"] == [
        "resized from 6×6 to 8×7 (bilinear)",
        "grey from colours (Rec. 601 luma)",
    ]
    expected = {image.tobytes() for image in match_image_shape((1, 8, 7), other.X)[0]}
    assert {image.tobytes() for image in drawn.X} == expected


def test_images_become_vectors_of_pixels_where_these_are_trained_on():
    train = rows("trained", 16, facts={"image_shape": [1, 4, 4]})
    other = rows("other", 3, 4, 4)
    drawn = draw(train, other)
    assert drawn.X.shape == (5, 16) and drawn.X.dtype == np.float64
    assert drawn.facts["repaired"] == ["grey from colours (Rec. 601 luma)", "flat"]
    flat = replace(other, X=other.X.reshape(12, -1).astype(float), facts={"image_shape": [3, 4, 4]})
    np.testing.assert_allclose(draw(train, flat).X, drawn.X, atol=1e-6)


def test_a_simulation_draws_as_many_as_are_asked_for():
    (drawn,) = OtherDataset(Spiral(), n=30).sets(
        trained.on(rows("trained", 2)), np.random.default_rng(0)
    )
    assert drawn.X.shape == (30, 2) and drawn.facts["rows"] == "30 drawn" and drawn.name == "spiral"
    (drawn,) = OtherDataset(Shapes(size=60), n=3).sets(
        trained.on(rows("trained", 1, 8, 8)), np.random.default_rng(0)
    )
    assert drawn.X.shape == (3, 1, 8, 8)


SEVEN = {"source": "openml", "id": 7}


@pytest.mark.parametrize(
    ("train", "other", "sentence"),
    [
        (
            rows("a", 4),
            rows("a", 4),
            "a is the data set that is trained on, so its rows are in distribution",
        ),
        (
            rows("a", 4, facts=SEVEN),
            rows("b", 4, facts=SEVEN),
            "b and a, which is trained on, are both openml 7",
        ),
        (
            rows("a", 4),
            rows("b", 5),
            "rows of b have 5 features, and rows of a, which is trained on, have 4",
        ),
        (
            rows("a", 1, 4, 4),
            rows("b", 16),
            "b has vectors, and a, which is trained on, has images",
        ),
        (
            rows("a", 16),
            rows("b", 1, 4, 4),
            "b has images, and a, which is trained on, has vectors",
        ),
        (
            rows("a", 3, 4, 4),
            rows("b", 2, 4, 4),
            "b: images of 2 channels cannot become images of 3; only 1 and 3 can be exchanged",
        ),
        (
            rows("a", 1),
            Dataset.from_labels("b", np.zeros((4, 1)), [0, 1] * 2, categories=(("x", "y"),)),
            "b and a, which is trained on, do not have the same categories in the same columns",
        ),
        (
            rows("a", 1),
            Dataset.from_labels("b", np.full((4, 1), np.nan), [0, 1] * 2),
            "b has missing values, and a, which is trained on, has none",
        ),
    ],
    ids=["name", "id", "features", "vectors", "images", "channels", "categories", "missing"],
)
def test_what_cannot_be_out_of_distribution(train, other, sentence):
    with pytest.raises(DataError) as caught:
        draw(train, other)
    assert str(caught.value) == f"{sentence}; choose another data set: ood.name=…"


def test_two_sources_without_a_number_are_two():
    assert (
        len(draw(rows("a", 4, facts={"source": "file"}), rows("b", 4, facts={"source": "file"})).X)
        == 5
    )


def test_it_is_fetched_with_the_other_data_of_a_run():
    source = Given(rows("other", 4))
    with pytest.raises(DataNotAvailable):
        OtherDataset(source).prefetch(print)
    assert source.asked == [print]
    OtherDataset(Spiral()).prefetch()


def test_no_rows_are_no_set():
    with pytest.raises(ParameterError, match=r"^n must be in \[1, inf\), got 0$"):
        OtherDataset(Spiral(), n=0)


def cycle(train: Dataset, other: Dataset, n: int = 12, scaling: Scaling | None = None):
    (drawn,) = OtherDataset(Given(other), n=n, columns="cycle").sets(
        trained.on(train, scaling), np.random.default_rng(0)
    )
    return drawn


@pytest.mark.parametrize(
    ("d", "words"),
    [
        (3, "3 of 4 numeric columns"),
        (4, "4 of 4 numeric columns"),
        (9, "4 numeric columns repeated to 9"),
    ],
)
def test_columns_of_another_width_are_cut_or_repeated_in_the_range_of_the_training_features(
    d, words
):
    train, other = rows("trained", d), rows("other", 5, n=20)
    other.X[:, 1] = 7.0  # says nothing, and has no range
    drawn = cycle(train, other, n=20)
    assert drawn.X.shape == (20, d) and drawn.facts["repaired"] == [
        f"{words}, each in the range of a training feature"
    ]
    np.testing.assert_allclose(drawn.X.min(axis=0), train.X.min(axis=0), atol=1e-12)
    np.testing.assert_allclose(drawn.X.max(axis=0), train.X.max(axis=0), atol=1e-12)
    among = np.random.default_rng(0).choice(20, 20, replace=False)  # the draw of the rows
    for feature in range(d):
        given = other.X[among, [0, 2, 3, 4][feature % 4]]
        assert np.corrcoef(drawn.X[:, feature], given)[0, 1] == pytest.approx(1)


def test_ranges_are_those_of_the_whole_other_table():
    other = rows("other", 4, n=200)
    few, all_of_it = (
        cycle(rows("trained", 4), other, n=10).X,
        cycle(rows("trained", 4), other, n=200).X,
    )
    assert {tuple(row) for row in few.round(12)} <= {tuple(row) for row in all_of_it.round(12)}


def test_cycled_columns_are_scaled_as_training_rows_are():
    """Rows that are trained on are scaled already, so a scaling changes nothing beside their
    range.
    """
    train, other = rows("trained", 4), rows("other", 2)
    np.testing.assert_array_equal(
        cycle(train, other, scaling=Scaling(size=3.0)).X, cycle(train, other).X
    )


def test_cycled_columns_leave_categories_to_training_rows_and_fill_what_is_missing():
    X = np.column_stack([np.random.default_rng(0).random(12), np.full(12, 2.0)])
    train = Dataset.from_labels("trained", X, np.arange(12) % 2, categories=(None, ("a", "b", "c")))
    other = rows("other", 3, n=12)
    other.X[0] = np.nan
    mixed = replace(other, categories=(("x", "y"), None, None))
    drawn = cycle(train, mixed)
    assert (drawn.X[:, 1] == 2).all() and not np.isnan(drawn.X).any()
    assert drawn.facts["repaired"] == [
        "1 of 2 numeric columns, each in the range of a training feature"
    ]


def test_pixels_can_be_columns_and_a_simulation_too():
    assert cycle(rows("trained", 7), rows("other", 1, 3, 3)).X.shape == (12, 7)
    train = rows("trained", 16, facts={"image_shape": [1, 4, 4]})
    assert cycle(train, rows("other", 3, 4, 4)).facts["repaired"] == [
        "grey from colours (Rec. 601 luma)",
        "flat",
    ]
    (drawn,) = OtherDataset(Spiral(), n=30, columns="cycle").sets(
        trained.on(rows("trained", 5)), np.random.default_rng(0)
    )
    np.testing.assert_allclose(drawn.X.min(axis=0), rows("trained", 5).X.min(axis=0), atol=1e-12)


def test_no_column_can_stand_for_another_where_there_is_none():
    flat = replace(rows("other", 2), X=np.ones((12, 2)))
    with pytest.raises(
        DataError,
        match=(
            r"^other has no numeric feature that varies, and only such columns can stand for"
            r" others; name another$"
        ),
    ):
        cycle(rows("trained", 3), flat)
