from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import HashingVectorizer

from kdgraph.data.dataset import FetchableTable
from kdgraph.data.tables import TextFile
from kdgraph.errors import DataError, DataNotAvailable

TEXTS = ["Buy cheap watches", "See you at noon", "Cheap, cheap watches!", "Noon is fine"]
LABELS = ["spam", "ham", "spam", "ham"]


pytestmark = pytest.mark.usefixtures("in_tmp_path")


def assert_refused(message: str, source) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        source.load()


def write_folder(texts=TEXTS, labels=LABELS) -> str:
    for i, (text, label) in enumerate(zip(texts, labels, strict=True)):
        Path("mail", label).mkdir(parents=True, exist_ok=True)
        Path("mail", label, f"{i}.txt").write_text(text, encoding="utf-8")
    return "mail"


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_texts_of_a_table_are_hashed(ending):
    frame = pd.DataFrame({"text": TEXTS, "label": LABELS, "other": 1})
    path = f"mail.{ending}"
    (
        frame.to_parquet(path)
        if ending == "parquet"
        else frame.to_csv(path, sep="\t" if ending == "tsv" else ",", index=False)
    )
    source = TextFile(path, n_features=64)
    data = source.load()
    assert source.name == data.name == "mail"
    np.testing.assert_array_equal(
        data.X, HashingVectorizer(n_features=64).transform(TEXTS).toarray()
    )
    assert data.classes[data.y].tolist() == LABELS
    assert len(data.feature_names) == 64
    assert isinstance(source, FetchableTable)


def test_folders_of_texts_are_the_classes():
    Path(write_folder(), ".hidden").mkdir()
    Path("mail", "spam", ".hidden").write_text("x")
    Path("mail", "README").write_text("no class")
    data = TextFile("mail", n_features=32).load()
    assert data.classes[data.y].tolist() == ["ham", "ham", "spam", "spam"]
    in_order = [TEXTS[i] for i in (1, 3, 0, 2)]
    np.testing.assert_array_equal(
        data.X, HashingVectorizer(n_features=32).transform(in_order).toarray()
    )
    assert data.facts == {"source": "file", "path": "mail", "texts": 4}


def test_row_depends_on_its_text_only():
    pd.DataFrame({"text": TEXTS, "label": LABELS}).to_csv("all.csv", index=False)
    pd.DataFrame({"text": TEXTS[:2], "label": LABELS[:2]}).to_csv("some.csv", index=False)
    np.testing.assert_array_equal(TextFile("all.csv").load().X[:2], TextFile("some.csv").load().X)


def test_rows_have_norm_one_or_zero_without_words():
    pd.DataFrame({"text": [*TEXTS, None, "!?"], "label": [*LABELS, "spam", "ham"]}).to_csv(
        "mail.csv", index=False
    )
    with pytest.warns(UserWarning, match=r"^mail: 2 of 6 rows have the features of another row"):
        lengths = np.linalg.norm(TextFile("mail.csv").load().X, axis=1)
    np.testing.assert_allclose(lengths, [1, 1, 1, 1, 0, 0])


def test_numeric_labels_are_classes():
    pd.DataFrame({"review": TEXTS, "stars": [1.5, 2, 1.5, 2]}).to_csv("r.csv", index=False)
    data = TextFile("r.csv", text="review", target="stars").load()
    assert data.task == "classification" and data.classes.tolist() == [1.5, 2]


def test_missing_and_invalid_files_are_refused(tmp_path):
    assert_refused(f"dataset.path=mail.csv: no such file in {tmp_path}", TextFile("mail.csv"))
    Path("mail.txt").write_text("x")
    assert_refused(
        "dataset.path=mail.txt: the ending of a file determines its kind, and must be one of .csv,"
        " .tsv, .parquet, .pq",
        TextFile("mail.txt"),
    )
    Path("empty").mkdir()
    remedy = "it needs one for each class, such as empty/spam/1.txt"
    assert_refused(
        f"dataset.path=empty is a folder without subfolders of texts; {remedy}", TextFile("empty")
    )
    assert_refused(
        "mail: a classifier needs two classes, the target 'folder' has only ['spam']",
        TextFile(write_folder(TEXTS[:1], LABELS[:1])),
    )
    Path("mail", "spam", "0.txt").write_bytes("schön".encode("latin-1"))
    problem = "byte 3 (0xf6) cannot be decoded; it may be dataset.encoding=latin-1"
    assert_refused(f"mail/spam/0.txt is not text in utf-8: {problem}", TextFile("mail"))


def test_missing_columns_and_labels_are_refused():
    pd.DataFrame({"texts": TEXTS, "label": LABELS}).to_csv("mail.csv", index=False)
    assert_refused(
        "dataset.path=mail.csv has no column 'text' (dataset.text); did you mean 'texts'?",
        TextFile("mail.csv"),
    )
    message = "dataset.path=mail.csv has no column 'genre' (dataset.target); it has texts, label"
    assert_refused(message, TextFile("mail.csv", text="texts", target="genre"))
    Path("mail.csv").write_text("text,label\n")
    assert_refused("dataset.path=mail.csv has columns and no rows", TextFile("mail.csv"))
    pd.DataFrame({"text": TEXTS, "label": ["spam", None, "ham", "ham"]}).to_csv(
        "mail.csv", index=False
    )
    assert_refused(
        "mail: 1 of 4 rows have no label in 'label' (first: row 1); remove them",
        TextFile("mail.csv"),
    )


def test_keep_selects_labels_by_name_or_pattern():
    labels = ["comp.graphics", "comp.os", "rec.autos", "comp.os"]
    pd.DataFrame({"text": TEXTS, "label": labels}).to_csv("posts.csv", index=False)
    data = TextFile("posts.csv", keep=["comp.*"]).load()
    assert data.classes[data.y].tolist() == ["comp.graphics", "comp.os", "comp.os"]
    np.testing.assert_array_equal(data.X, TextFile("posts.csv").load().X[[0, 1, 3]])
    label_names = "comp.graphics, comp.os, rec.autos"
    assert_refused(
        f"dataset.keep: dataset.path=posts.csv has no label 'sci.*'; it has {label_names}",
        TextFile("posts.csv", keep=["comp.*", "sci.*"]),
    )


def test_texts_of_several_columns_are_joined():
    pd.DataFrame(
        {"title": ["Noon", None], "body": ["is fine", "Buy watches"], "label": ["a", "b"]}
    ).to_csv("t.csv", index=False)
    data = TextFile("t.csv", text=["title", "body"], n_features=64).load()
    np.testing.assert_array_equal(
        data.X,
        HashingVectorizer(n_features=64).transform(["Noon is fine", "Buy watches"]).toarray(),
    )
    assert_refused(
        "dataset.path=t.csv has no column 'bodies' (dataset.text); did you mean 'body'?",
        TextFile("t.csv", text=["title", "bodies"]),
    )


def test_posts_lose_header_quotes_and_signature():
    post = "Newsgroups: comp.os\nFrom: me\n\nYou wrote:\n> which one\nThe second.\n\n--\nme"
    pd.DataFrame({"text": [post, "Subject: x\n\nNoon"], "label": ["a", "b"]}).to_csv(
        "p.csv", index=False
    )
    data = TextFile("p.csv", n_features=64, posts=True).load()
    np.testing.assert_array_equal(
        data.X, HashingVectorizer(n_features=64).transform(["The second.", "Noon"]).toarray()
    )


def test_row_is_the_mean_of_its_word_vectors():
    pd.DataFrame({"text": ["Noon, NOON and rain", "unheard!"], "label": ["a", "b"]}).to_csv(
        "t.csv", index=False
    )
    Path("glove.txt").write_text("the 9 9 9\nnoon 1 0 3\nrain 4 6 0\nand 1 0 0\n")
    data = TextFile("t.csv", vectors="glove.txt").load()
    np.testing.assert_allclose(data.X, [[(1 + 1 + 4 + 1) / 4, 1.5, 1.5], [0, 0, 0]])
    assert (
        data.feature_names == ("vector_0", "vector_1", "vector_2")
        and data.facts["vectors"] == "glove.txt"
    )
    Path("w2v.txt").write_text("2 3\nnoon 1 0 3\nrain 4 6 0\n")
    np.testing.assert_allclose(TextFile("t.csv", vectors="w2v.txt").load().X[0], [2, 2, 2])


def test_invalid_files_of_word_vectors_are_refused(tmp_path):
    pd.DataFrame({"text": TEXTS, "label": LABELS}).to_csv("mail.csv", index=False)
    source = TextFile("mail.csv", vectors="glove.txt")
    with pytest.raises(DataNotAvailable, match=r"^dataset\.vectors=glove\.txt: no such file in "):
        source.prefetch()
    for text, message in {
        "the 1 2\n": "has a vector for none of the words of these texts",
        "noon 1 x\n": "is not a file of word vectors: line 1 is 'noon 1 x…'",
        "at 1 2\nnoon 1\n": "is not a file of word vectors: line 2 does not have 2 numbers",
    }.items():
        Path("glove.txt").write_text(text)
        assert_refused(f"dataset.vectors=glove.txt {message}", source)


@pytest.mark.parametrize(
    ("file_encoding", "encoding"),
    [("utf-8-sig", "utf8"), ("latin-1", "L1"), ("utf-16", "UTF_16_LE"), ("utf-8", "utf_8_sig")],
)
def test_files_of_a_folder_accept_synonyms_of_encodings(file_encoding, encoding):
    folder = write_folder([f"größe {text}" for text in TEXTS])
    expected = TextFile(folder, n_features=64).load().X
    for file in Path(folder).rglob("*.txt"):
        file.write_text(file.read_text(encoding="utf-8"), encoding=file_encoding)
    np.testing.assert_array_equal(
        TextFile(folder, n_features=64, encoding=encoding).load().X, expected
    )


def test_file_of_a_folder_in_another_encoding_is_refused():
    folder = write_folder()
    Path(folder, "spam", "0.txt").write_text("x", encoding="utf-16")
    assert_refused(
        "mail/spam/0.txt is text in UTF-16; give dataset.encoding=utf-16", TextFile(folder)
    )
    assert_refused(
        "mail/ham/1.txt is not text in utf-16: byte 14 (0x6e) cannot be decoded",
        TextFile(folder, encoding="utf-16"),
    )


def test_a_target_of_many_different_numbers_is_no_class():
    frame = pd.DataFrame({"text": [f"word{i}" for i in range(24)], "price": np.arange(24) + 0.5})
    frame.to_csv("mail.csv", index=False)
    assert_refused(
        "mail: 'price' has 24 different numbers, such as 0.5, and texts have classes; choose a"
        " column of classes, or group the numbers into classes",
        TextFile("mail.csv", target="price", n_features=16),
    )
    frame["price"] = np.arange(24) % 3 / 2  # such as half stars: few are classes
    frame.to_csv("mail.csv", index=False)
    data = TextFile("mail.csv", target="price", n_features=4096).load()
    assert data.classes.tolist() == [0.0, 0.5, 1.0]
