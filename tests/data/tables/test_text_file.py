from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import HashingVectorizer

from kdgraph.data.sources import Fetched
from kdgraph.data.tables import TextFile
from kdgraph.errors import DataError

TEXTS = ["Buy cheap watches", "See you at noon", "Cheap, cheap watches!", "Noon is fine"]
LABELS = ["spam", "ham", "spam", "ham"]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def refused(message: str, source) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        source.load()


def as_folder(texts=TEXTS, labels=LABELS) -> str:
    for i, (text, label) in enumerate(zip(texts, labels, strict=True)):
        Path("mail", label).mkdir(parents=True, exist_ok=True)
        Path("mail", label, f"{i}.txt").write_text(text, encoding="utf-8")
    return "mail"


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_columns_of_a_table(ending):
    frame = pd.DataFrame({"text": TEXTS, "label": LABELS, "other": 1})
    path = f"mail.{ending}"
    frame.to_parquet(path) if ending == "parquet" else frame.to_csv(path, sep="\t" if ending == "tsv" else ",", index=False)
    source = TextFile(path, n_features=64)
    data = source.load()
    assert source.name == data.name == "mail"
    np.testing.assert_array_equal(data.X, HashingVectorizer(n_features=64).transform(TEXTS).toarray())
    assert data.classes[data.y].tolist() == LABELS
    assert len(data.feature_names) == 64
    assert isinstance(source, Fetched)


def test_a_folder_for_each_class():
    Path(as_folder(), ".hidden").mkdir()
    Path("mail", "spam", ".hidden").write_text("x")
    Path("mail", "README").write_text("no class")
    data = TextFile("mail", n_features=32).load()
    assert data.classes[data.y].tolist() == ["ham", "ham", "spam", "spam"]
    in_order = [TEXTS[i] for i in (1, 3, 0, 2)]
    np.testing.assert_array_equal(data.X, HashingVectorizer(n_features=32).transform(in_order).toarray())
    assert data.facts == {"source": "file", "path": "mail", "texts": 4}


def test_a_row_depends_on_its_own_text_alone():
    pd.DataFrame({"text": TEXTS, "label": LABELS}).to_csv("all.csv", index=False)
    pd.DataFrame({"text": TEXTS[:2], "label": LABELS[:2]}).to_csv("some.csv", index=False)
    np.testing.assert_array_equal(TextFile("all.csv").load().X[:2], TextFile("some.csv").load().X)


def test_rows_have_length_one_and_a_text_without_words_is_zero():
    pd.DataFrame({"text": [*TEXTS, None, "!?"], "label": [*LABELS, "spam", "ham"]}).to_csv("mail.csv", index=False)
    with pytest.warns(UserWarning, match=r"^mail: 2 of 6 rows have the features of another row"):
        lengths = np.linalg.norm(TextFile("mail.csv").load().X, axis=1)
    np.testing.assert_allclose(lengths, [1, 1, 1, 1, 0, 0])


def test_labels_that_are_numbers_are_classes():
    pd.DataFrame({"review": TEXTS, "stars": [1.5, 2, 1.5, 2]}).to_csv("r.csv", index=False)
    data = TextFile("r.csv", text="review", target="stars").load()
    assert data.task == "classification" and data.classes.tolist() == [1.5, 2]


def test_files_that_are_none(tmp_path):
    refused(f"dataset.path=mail.csv: no such file in {tmp_path}", TextFile("mail.csv"))
    Path("mail.txt").write_text("x")
    refused(
        "dataset.path=mail.txt: the ending of a file says what it is, and must be one of .csv, .tsv, .parquet, .pq", TextFile("mail.txt")
    )
    Path("empty").mkdir()
    remedy = "it needs one for each class, such as empty/spam/1.txt"
    refused(f"dataset.path=empty is a folder without subfolders of texts; {remedy}", TextFile("empty"))
    refused("mail: a classifier needs two classes, the target 'folder' has only ['spam']", TextFile(as_folder(TEXTS[:1], LABELS[:1])))
    Path("mail", "spam", "0.txt").write_bytes("schön".encode("latin-1"))
    found = "byte 3 (0xf6) cannot be decoded; it may be dataset.encoding=latin-1"
    refused(f"mail/spam/0.txt is not text in utf-8: {found}", TextFile("mail"))


def test_columns_that_are_not_there():
    pd.DataFrame({"texts": TEXTS, "label": LABELS}).to_csv("mail.csv", index=False)
    refused("dataset.path=mail.csv has no column 'text' (dataset.text); did you mean 'texts'?", TextFile("mail.csv"))
    message = "dataset.path=mail.csv has no column 'genre' (dataset.target); it has texts, label"
    refused(message, TextFile("mail.csv", text="texts", target="genre"))
    Path("mail.csv").write_text("text,label\n")
    refused("dataset.path=mail.csv has columns and no rows", TextFile("mail.csv"))
    pd.DataFrame({"text": TEXTS, "label": ["spam", None, "ham", "ham"]}).to_csv("mail.csv", index=False)
    refused("mail: 1 of 4 rows have no label in 'label' (first: row 1); remove them", TextFile("mail.csv"))
