"""Files of class scores: columns are classes, rows are distributions, and no row trains."""

from __future__ import annotations

import re
import shlex

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

from kdgraph.config import compose
from kdgraph.config.components import build
from kdgraph.data.dataset import CALIBRATION, TEST
from kdgraph.data.splits import make_splits
from kdgraph.data.tables import ScoreFile
from kdgraph.errors import DataError

RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(3), size=40)
Y = RNG.integers(3, size=40)
WITH_NAN = np.where(np.arange(40)[:, None] == 3, np.nan, P)


pytestmark = pytest.mark.usefixtures("in_tmp_path")


def score_table(columns, labels, **more) -> ScoreFile:
    pd.DataFrame(P, columns=columns).assign(label=labels, **more).to_csv("my.csv", index=False)
    return ScoreFile("my.csv", split_column="role" if more else None)


def test_column_k_of_an_array_is_class_k():
    np.savez("my.npz", predictions=P.astype(np.float32), ground_truth=Y)
    data = ScoreFile("my.npz", "ground_truth").load()
    assert (
        data.has_scores
        and data.name == "my"
        and data.classes.tolist() == [0, 1, 2]
        and data.feature_names == ("0", "1", "2")
    )
    np.testing.assert_allclose(data.X, P, atol=1e-7)  # float32
    np.testing.assert_allclose(data.X.sum(axis=1), 1, atol=1e-15)  # divided by its sum again
    np.testing.assert_array_equal(data.y, Y)


@pytest.mark.parametrize(
    ("columns", "sorted_classes"),
    [(["b", "c", "a"], ["a", "b", "c"]), (["10", "9", "0"], [0, 9, 10])],
)
def test_columns_of_a_table_are_classes_by_name(columns, sorted_classes):
    data = score_table(columns, [columns[y] for y in Y]).load()
    assert data.classes.tolist() == sorted_classes
    order = [columns.index(str(name)) for name in sorted_classes]
    np.testing.assert_allclose(data.X, P[:, order], atol=1e-15)
    assert [str(data.classes[y]) for y in data.y] == [columns[y] for y in Y]


def test_logits_pass_through_the_softmax():
    logits = RNG.normal(size=(40, 3)) * 30
    np.savez("my.npz", logits=logits, label=Y)
    np.testing.assert_array_equal(
        ScoreFile("my.npz", kind="logits").load().X, softmax(logits, axis=1)
    )


def test_class_without_rows_is_kept():
    np.savez("my.npz", scores=P, label=np.zeros(40, dtype=int))
    assert len(ScoreFile("my.npz").load().classes) == 3


@pytest.mark.parametrize(
    ("arrays", "target", "message"),
    [
        (
            {"scores": P, "label": Y},
            "labels",
            "dataset.path=my.npz has no array 'labels' (dataset.target); did you mean 'label'?",
        ),
        (
            {"a": P, "b": P, "label": Y},
            "label",
            (
                "dataset.path=my.npz has 2 arrays [n, K], a, b; name that of the scores:"
                " dataset.scores=a"
            ),
        ),
        (
            {"scores": P, "label": Y + 1},
            "label",
            (
                "dataset.path=my.npz: label must hold the columns of the labels, 0 to 2, got int64"
                " up to 3"
            ),
        ),
        (
            {"scores": P, "label": np.array(list("abc"))[Y]},
            "label",
            "dataset.path=my.npz: label must hold the columns of the labels, 0 to 2, got <U1",
        ),
        (
            {"scores": 2 * P, "label": Y},
            "label",
            (
                "my: probabilities must be at least 0 and sum to 1 within 0.001, row 0 has sum 2"
                f" and least score {2 * P[0].min():g} (40 such); divide each row by its sum, or if"
                " they are logits: dataset.kind=logits"
            ),
        ),
        (
            {"scores": np.where(np.arange(40)[:, None] == 3, np.nan, P), "label": Y},
            "label",
            "my: scores must be finite, row 3 is not (1 such)",
        ),
    ],
)
def test_invalid_arrays_are_refused_in_one_line(arrays, target, message):
    np.savez("my.npz", **arrays)
    with pytest.raises(DataError, match=f"^{re.escape(message)}"):
        ScoreFile("my.npz", target).load()


def test_label_without_a_column_is_refused():
    with pytest.raises(
        DataError, match=r"^my: no column has the scores of d; name each column as its label$"
    ):
        score_table(["a", "b", "c"], ["d", *("abc"[y] for y in Y[1:])]).load()


def test_other_than_test_rows_calibrate_and_none_train():
    np.savez("my.npz", scores=P, label=Y)
    splits = make_splits(ScoreFile("my.npz"), n_test=10, rng=np.random.default_rng(0))
    assert [len(role.y) for role in (splits.train, splits.calibration, splits.test)] == [0, 30, 10]
    assert splits.learning is splits.calibration
    np.testing.assert_allclose(splits.prior, np.bincount(splits.calibration.y, minlength=3) / 30)
    capped = make_splits(
        ScoreFile("my.npz"), n_test=10, n_calibration=5, rng=np.random.default_rng(0)
    )
    assert len(capped.calibration.y) == 5
    np.testing.assert_array_equal(np.sort(capped.test.X, axis=0), np.sort(splits.test.X, axis=0))


def test_missing_file_is_reported_with_the_command_that_makes_it(tmp_path):
    (tmp_path / "scores.npx").touch()
    message = f"dataset.path={tmp_path}/scores.npz: no such file in {tmp_path.resolve()}"
    for made_by, way_out in (
        (None, "; did you mean 'scores.npx'?"),
        ("make scores", "; make it by make scores"),
    ):
        source = ScoreFile(f"{tmp_path}/scores.npz", made_by=made_by)
        for method in (source.prefetch, source.load):
            with pytest.raises(DataError, match=f"^{re.escape(message + way_out)}$"):
                method()


def test_split_column_defines_the_roles():
    role = np.where(np.arange(40) < 25, "calibration", "test")
    splits = make_splits(score_table(["0", "1", "2"], Y, role=role), rng=np.random.default_rng(0))
    assert (len(splits.calibration.y), len(splits.test.y)) == (25, 15)
    np.testing.assert_allclose(np.sort(splits.test.X[:, 0]), np.sort(P[25:, 0]), atol=1e-15)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"n_train": 5},
            (
                "my has scores of a model that is trained already; give n_calibration, not n_train"
                " or log_share"
            ),
        ),
        (
            {"n_calibration": 35, "n_test": 10},
            "my has 40 rows, too few for n_calibration 35 + n_test 10; ask for fewer",
        ),
        (
            {"scale": "max_norm"},
            (
                "dataset.scale must be none, since my has class scores, which would be none any"
                " more; got max_norm"
            ),
        ),
    ],
)
def test_training_rows_and_scaling_are_refused(options, message):
    np.savez("my.npz", scores=P, label=Y)
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        make_splits(ScoreFile("my.npz"), **options, rng=np.random.default_rng(0))


def test_file_of_many_models_with_a_split_array(tmp_path):
    rng = np.random.default_rng(0)
    models = {f"net_{i}": rng.dirichlet(np.ones(3), 6) for i in range(2)}
    split = np.array(["calibration"] * 4 + ["test"] * 2)
    np.savez(
        path := tmp_path / "nets.npz",
        label=[0, 1, 2, 0, 1, 2],
        split=split,
        objects=np.array([{}], dtype=object),
        **models,
    )
    data = ScoreFile(str(path), scores="net_1", split_column="split").load()
    np.testing.assert_allclose(
        data.X, models["net_1"], rtol=1e-15
    )  # divided by sums that are 1 but for rounding
    assert data.roles is not None and data.roles.tolist() == [CALIBRATION] * 4 + [TEST] * 2
    splits = make_splits(ScoreFile(str(path), scores="net_0", split_column="split"), rng=rng)
    assert sorted(splits.test.X.tolist()) == sorted(
        (models["net_0"] / models["net_0"].sum(axis=1, keepdims=True))[4:].tolist()
    )


def test_split_array_that_does_not_fit_is_refused(tmp_path):
    np.savez(
        path := tmp_path / "nets.npz",
        net=np.full((2, 2), 0.5),
        label=[0, 1],
        split=np.array(["test"]),
    )
    message = (
        f"dataset.path={path}: split must have one word for each of 2 rows, got <U4 of shape (1,)"
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        ScoreFile(str(path), split_column="split").load()
    message = (
        f"dataset.path={path} has no array 'spilt' (dataset.split_column); did you mean 'split'?"
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        ScoreFile(str(path), split_column="spilt").load()


TOWNS = np.array(["Ulm", "Bonn"])[np.arange(40) % 2]


def test_groups_are_read_from_an_array_or_a_column():
    np.savez("my.npz", scores=P, label=Y, town=TOWNS)
    data = ScoreFile("my.npz", group="town").load()
    assert (
        data.groups is not None
        and data.groups.tolist() == [1, 0] * 20
        and data.group_names == ("Bonn", "Ulm")
    )
    assert ScoreFile("my.npz").load().groups is None
    assert (
        ScoreFile("my.npz", group="label").load().groups_are_target and not data.groups_are_target
    )
    pd.DataFrame(P, columns=list("012")).assign(label=Y, town=TOWNS).to_csv("my.csv", index=False)
    data = ScoreFile("my.csv", group="town").load()
    assert (
        data.groups is not None
        and data.groups.tolist() == [1, 0] * 20
        and data.feature_names == ("0", "1", "2")
    )


@pytest.mark.parametrize(
    ("group", "towns", "message"),
    [
        (
            "twon",
            TOWNS,
            "dataset.path=my.npz has no array 'twon' (dataset.group); did you mean 'town'?",
        ),
        (
            "town",
            TOWNS[:3],
            (
                "dataset.path=my.npz: town must have one word for each of 40 rows, got <U4 of shape"
                " (3,)"
            ),
        ),
        (
            "town",
            np.where(np.arange(40) == 2, np.nan, 1.0),
            "my: dataset.group='town' is empty in row 2; name the group of each row",
        ),
    ],
)
def test_groups_that_do_not_fit_are_refused(group, towns, message):
    np.savez("my.npz", scores=P, label=Y, town=towns)
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        ScoreFile("my.npz", group=group).load()


HIDDEN, PIXELS = RNG.normal(size=(40, 2)).astype(np.float32), RNG.integers(256, size=(40, 3))


def test_features_are_read_from_arrays_or_columns():
    np.savez("my.npz", scores=P, label=Y, hidden=HIDDEN, pixels=PIXELS)
    data = ScoreFile(
        "my.npz", features=["pixels", "hidden"]
    ).load()  # the other matrix has the scores
    np.testing.assert_array_equal(data.X[:, 3:], np.hstack([PIXELS, HIDDEN]))
    assert data.layer_widths == (("pixels", 3), ("hidden", 2)) and len(data.classes) == 3
    assert data.feature_names == (
        "0",
        "1",
        "2",
        "pixels1",
        "pixels2",
        "pixels3",
        "hidden1",
        "hidden2",
    )
    frame = pd.DataFrame(
        np.hstack([P, HIDDEN]), columns=["0", "1", "2", "hidden1", "hidden2"]
    ).assign(label=Y)
    frame[["hidden2", "label", "1", "hidden1", "0", "2"]].to_csv("my.csv", index=False)
    data = ScoreFile("my.csv", features=["hidden"]).load()
    assert data.layer_widths == (("hidden", 2),) and data.feature_names == (
        "0",
        "1",
        "2",
        "hidden2",
        "hidden1",
    )
    np.testing.assert_allclose(data.X, np.hstack([P, HIDDEN[:, ::-1]]), atol=1e-15)


def test_columns_of_a_layer_are_a_prefix_and_a_number():
    columns = ["0", "1", "2", "h1", "h2", "h10", "h2_1", "h2_2"]
    pd.DataFrame(np.hstack([P, np.zeros((40, 5))]), columns=columns).assign(label=Y).to_csv(
        "my.csv", index=False
    )
    data = ScoreFile("my.csv", features=["h", "h2_"]).load()
    assert data.layer_widths == (("h", 3), ("h2_", 2)) and data.feature_names == tuple(columns)


@pytest.mark.parametrize(
    ("hidden", "features", "message"),
    [
        (
            HIDDEN,
            ["hiden"],
            "dataset.path=my.npz has no array 'hiden' (dataset.features); did you mean 'hidden'?",
        ),
        (
            HIDDEN[:, 0],
            ["hidden"],
            "dataset.path=my.npz: features hidden must be numbers [n, m] with a row for each of 40"
            " labels, got float32 of shape (40,)",
        ),
        (
            HIDDEN[:3],
            ["hidden"],
            "dataset.path=my.npz: features hidden must be numbers [n, m] with a row for each of 40"
            " labels, got float32 of shape (3, 2)",
        ),
        (
            np.where(np.arange(40)[:, None] == 5, np.inf, HIDDEN),
            ["hidden"],
            "my: features must be finite, row 5 is not (1 such)",
        ),
    ],
)
def test_invalid_features_are_refused(hidden, features, message):
    np.savez("my.npz", scores=P, label=Y, hidden=hidden)
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        ScoreFile("my.npz", scores="scores", features=features).load()


def test_missing_columns_of_features_are_refused():
    pd.DataFrame(P, columns=list("012")).assign(label=Y).to_csv("my.csv", index=False)
    with pytest.raises(DataError) as caught:
        ScoreFile("my.csv", features=["hidden"]).load()
    assert (
        str(caught.value)
        == "my: no column is 'hidden' with a number behind it (dataset.features); "
        "name the first word of columns, as hidden of hidden1 and hidden2"
    )


def write_text(path: str, content: str, encoding: str = "utf-8") -> str:
    with open(path, "w", encoding=encoding) as file:
        file.write(content)
    return path


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        (["true", "false"], ["false", "true"]),
        (["TRUE", "FALSE"], ["FALSE", "TRUE"]),
        (["NA", "ZA", "BW"], ["BW", "NA", "ZA"]),
        (["null", "nan"], ["nan", "null"]),
        (["01", "02", "10"], ["01", "02", "10"]),
        (["1.0", "2.5"], ["1.0", "2.5"]),
        (["-1", "1"], ["-1", "1"]),
        (["1e3", "7"], ["1e3", "7"]),
        (["9", "10", "100"], [9, 10, 100]),
        (["²", "³"], ["²", "³"]),
        (["9" * 25, "8" * 25], ["8" * 25, "9" * 25]),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_labels_of_a_text_file_are_compared_as_text(names, classes, ending):
    between = "\t" if ending == "tsv" else ","
    labels = [names[y % len(names)] for y in Y]
    proba = RNG.dirichlet(np.ones(len(names)), size=40)
    lines = [
        [*names, "label"],
        *([*map(repr, row.tolist()), label] for row, label in zip(proba, labels, strict=True)),
    ]
    data = ScoreFile(
        write_text(f"my.{ending}", "\n".join(between.join(line) for line in lines) + "\n")
    ).load()
    assert data.classes.tolist() == classes
    assert [str(data.classes[y]) for y in data.y] == labels


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([True, False], ["true", "false"]),
        ([True, False], ["True", "False"]),
        ([1, 0], ["1", "0"]),
        ([1.0, 0.0], ["1", "0"]),
        (pd.Categorical(["u", "v"]), ["u", "v"]),
    ],
    ids=["truth", "Truth", "integers", "floats", "categories"],
)
def test_labels_of_a_parquet_file_are_compared_by_value(labels, names):
    pd.DataFrame({names[0]: [0.9, 0.2], names[1]: [0.1, 0.8], "label": labels}).to_parquet(
        "my.parquet"
    )
    data = ScoreFile("my.parquet").load()
    assert [str(data.classes[y]) for y in data.y] == names


@pytest.mark.parametrize(
    ("columns", "labels", "matching_columns"),
    [
        (["1", "01"], ["1", "01"], ["1", "01"]),
        (["1", "2"], ["1.0", "02"], ["1", "2"]),
        (["True", "False"], ["true", "FALSE"], ["True", "False"]),
        (["a", "b"], [" a ", "b "], ["a", "b"]),
    ],
)
def test_label_matches_a_column_by_text_or_else_by_value(columns, labels, matching_columns):
    path = write_text(
        "my.csv", f"{columns[0]},{columns[1]},label\n.9,.1,{labels[0]}\n.2,.8,{labels[1]}\n"
    )
    data = ScoreFile(path).load()
    assert [str(data.classes[y]) for y in data.y] == matching_columns


def test_ambiguous_or_unknown_labels_are_refused():
    for columns, label in (
        (("1", "01"), "1.0"),
        (("true", "True"), "TRUE"),
        (("1", "2"), "NA"),
        (("a", "b"), "A"),
    ):
        path = write_text(
            "my.csv", f"{columns[0]},{columns[1]},label\n.9,.1,{label}\n.2,.8,{columns[0]}\n"
        )
        with pytest.raises(
            DataError,
            match=f"^my: no column has the scores of {label}; name each column as its label$",
        ):
            ScoreFile(path).load()


def test_missing_labels_and_repeated_columns_are_refused():
    with pytest.raises(
        DataError, match=r"^my: 2 of 3 rows have no label in 'label' \(first: row 1\); remove them$"
    ):
        ScoreFile(write_text("my.csv", "a,b,label\n.9,.1,a\n.2,.8,\n.2,.8, \n")).load()
    pd.DataFrame({"a": [0.9, 0.2], "b": [0.1, 0.8], "label": ["a", None]}).to_parquet("my.parquet")
    with pytest.raises(
        DataError, match=r"^my: 1 of 2 rows have no label in 'label' \(first: row 1\); remove them$"
    ):
        ScoreFile("my.parquet").load()
    with pytest.raises(
        DataError, match=r"^my: several columns have the same name \(a\); give each column its own$"
    ):
        ScoreFile(write_text("my.csv", "a,a,label\n.9,.1,a\n")).load()


def test_groups_of_a_text_file_are_text():
    path = write_text("my.csv", "a,b,label,land\n.9,.1,a,NA\n.2,.8,b,01\n.2,.8,b,1\n")
    data = ScoreFile(path, group="land").load()
    assert [data.group_names[group] for group in data.groups] == ["NA", "01", "1"]
    path = write_text("my.csv", "a,b,label,land\n.9,.1,a,NA\n.2,.8,b,\n")
    with pytest.raises(
        DataError, match=r"^my: dataset.group='land' is empty in row 1; name the group of each row$"
    ):
        ScoreFile(path, group="land").load()


@pytest.mark.parametrize(
    ("separator", "encoding"), [(";", "utf-8"), ("tab", "latin-1"), ("|", "UTF_16")]
)
def test_separator_and_encoding_of_a_table_of_scores(separator, encoding):
    between = "\t" if separator == "tab" else separator
    text = "ä,b,label\n.9,.1,ä\n.2,.8,b\n".replace(",", between)
    data = ScoreFile(
        write_text("my.csv", text, encoding), separator=separator, encoding=encoding
    ).load()
    assert data.classes[data.y].tolist() == ["ä", "b"]


def test_advice_on_separator_and_encoding_works():
    write_text("my.csv", "a;b;label\n.9;.1;a\n.2;.8;b\n")
    message = """dataset.path=my.csv has one column, 'a;b;label'; its cells seem to be separated otherwise: 'dataset.separator=";"'"""
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        ScoreFile("my.csv").load()
    (advice,) = shlex.split(message.split("otherwise: ")[1])
    assert build(
        compose(["dataset=scores", "dataset.path=my.csv", advice]).dataset
    ).load().classes.tolist() == ["a", "b"]
    write_text("my.csv", "ä,b,label\n.9,.1,ä\n.2,.8,b\n", "latin-1")
    message = (
        "dataset.path=my.csv is not text in utf-8: byte 0 (0xe4) cannot be decoded; it may be"
        " dataset.encoding=latin-1"
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        ScoreFile("my.csv").load()
    (advice,) = shlex.split(message.split("may be ")[1])
    assert build(
        compose(["dataset=scores", "dataset.path=my.csv", advice]).dataset
    ).load().classes.tolist() == ["b", "ä"]


COLUMNS_RULE = (
    "scores must have a column for each class, [n, K]; where p is the probability of the second of"
    " two classes, save numpy.column_stack([1 - p, p])"
)


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ({"p": P[:, 0], "label": Y}, {}, f"p has shape (40,), and {COLUMNS_RULE}"),
        (
            {"p": P[:, 0], "label": Y},
            {"scores": "p"},
            f"scores have shape (40,), and {COLUMNS_RULE}",
        ),
        ({"p": P[None], "label": Y}, {}, f"p has shape (1, 40, 3), and {COLUMNS_RULE}"),
        (
            {"p": P, "label": Y[:, None]},
            {},
            (
                "label has shape (40, 1), and labels must be one number for each row, [n]; save"
                " label.ravel()"
            ),
        ),
        (
            {"p": P, "label": np.eye(3)[Y]},
            {},
            (
                "label has shape (40, 3), and labels must be one number for each row, [n]; save"
                " label.argmax(axis=1)"
            ),
        ),
        ({"label": Y}, {}, "has no array of scores [n, K]; it has label"),
        (
            {"p": P, "label": Y[:9]},
            {},
            (
                "scores must be numbers [n, K] with a label for each row, got shapes (40, 3) of"
                " float64 and (9,)"
            ),
        ),
    ],
)
def test_arrays_of_other_dimensions_are_refused_with_advice(arrays, options, message):
    np.savez("my.npz", **arrays)
    with pytest.raises(DataError, match=rf"^dataset\.path=my\.npz:? {re.escape(message)}$"):
        ScoreFile("my.npz", **options).load()


def test_advice_for_a_single_probability_works():
    p = P[:, 0]
    np.savez("my.npz", scores=np.column_stack([1 - p, p]), label=(Y == 0).astype(int))
    np.testing.assert_allclose(ScoreFile("my.npz").load().X[:, 1], p, atol=1e-15)


def test_index_of_a_table_of_scores_is_no_class():
    pd.DataFrame(P, columns=list("012")).assign(label=Y).to_csv("my.csv")
    with pytest.warns(
        UserWarning,
        match=(
            r"^my: columns that number the rows are left out: 'Unnamed: 0'; rename one to use it$"
        ),
    ):
        data = ScoreFile("my.csv").load()
    assert data.classes.tolist() == [0, 1, 2] and data.X.shape == P.shape
