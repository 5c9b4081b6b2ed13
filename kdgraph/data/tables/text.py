"""Text as vectors, by hashing its words: nothing is learnt from any row, so none of test either."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from kdgraph.data.dataset import TEST, TRAIN, Dataset
from kdgraph.data.tables.cautions import warn_of_copies
from kdgraph.data.tables.paths import existing, file_stem, said, sha256_of
from kdgraph.errors import DataError, NotAtHand, did_you_mean
from kdgraph.parameters import Range, check_parameters

if TYPE_CHECKING:
    import pandas as pd

HashCount = Annotated[int, Range(2)]
"""Columns that words are hashed into; two words of one column are the same word from there on."""
SUFFIXES = (".csv", ".tsv", ".parquet", ".pq")


class TextFile:
    """Texts with labels: a csv, tsv or parquet file, or a folder with one subfolder of files for each class.

    Parameters
    ----------
    path : the file or folder, relative to the working directory.
    text, target : columns of the texts and of the labels; of a folder neither is used.
    n_features : columns that words are hashed into.
    encoding, separator : see :class:`kdgraph.data.tables.files.TableFile`.
    name : what runs are called; None: the file's or folder's name.

    Notes
    -----
    Words are lower-case runs of two or more letters or digits; a row is how often each column's words are in the text, with sign, divided
    by its L2 norm (``HashingVectorizer``). A text without words is a row of zeros.
    """

    def __init__(
        self,
        path: str,
        text: str = "text",
        target: str = "label",
        n_features: HashCount = 512,
        encoding: str = "utf-8",
        separator: str | None = None,
        name: str | None = None,
    ) -> None:
        self.path = path
        self.text = text
        self.target = target
        self.n_features = n_features
        self.encoding = encoding
        self.separator = separator
        self.name = file_stem(path, "text") if name is None else name
        check_parameters(self)

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Raise before any run starts if the file or folder is not there."""
        existing(self.path)

    def load(self) -> Dataset:
        """All texts as Float64[n, n_features].

        Raises
        ------
        DataError
            In one line, if the file is not there or cannot be read, or labels are missing or only one.
        """
        from kdgraph.data.tables.targets import encode_target

        path = existing(self.path)
        texts, labels, facts = _folder(path, self.encoding) if path.is_dir() else self._columns(path)
        y, classes, _ = encode_target(self.name, labels, "classification")
        X = hashed(texts, self.n_features)
        warn_of_copies(self.name, X)
        facts = {"source": "file", "path": self.path, "texts": len(texts), **facts}
        return Dataset(self.name, X, y, classes, hash_names(self.n_features), facts=facts)

    def _columns(self, path: Path) -> tuple[list[str], pd.Series, dict[str, str]]:
        from kdgraph.data.tables.paths import suffix_of
        from kdgraph.data.tables.readers import Format, read_table

        suffix_of(path, SUFFIXES)
        frame = read_table(path, Format(self.encoding, self.separator)).frame
        for key, column in {"text": self.text, "target": self.target}.items():
            if column not in frame.columns:
                known = [str(name) for name in frame.columns]
                hint = did_you_mean(column, known, f"; it has {', '.join(known[:10])}")
                raise DataError(f"{said(self.path)} has no column '{column}' (dataset.{key}){hint}")
        if not len(frame):
            raise DataError(f"{said(self.path)} has columns and no rows")
        texts = frame[self.text]
        return texts.astype(object).where(texts.notna(), "").astype(str).tolist(), frame[self.target], {"sha256": sha256_of(path)}


class Newsgroups:
    """Twenty newsgroups, split by date as its authors do: 11,314 posts that train and 7,532 that test, of 20 classes.

    Headers, footers and quotes are removed: they give the group away. scikit-learn fetches the posts once (14 MB) into the folder
    ``scikit_learn_data`` of the user, or that of the environment variable SCIKIT_LEARN_DATA.

    Parameters
    ----------
    n_features : columns that words are hashed into.
    """

    name = "newsgroups"

    def __init__(self, n_features: HashCount = 512) -> None:
        self.n_features = n_features
        check_parameters(self)

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Fetch the posts unless they are there.

        Raises
        ------
        NotAtHand
            If they are not, and cannot be fetched.
        """
        _posts("test", progress)

    def load(self) -> Dataset:
        """All posts."""
        train, test = _posts("train"), _posts("test")
        X = hashed([*train.data, *test.data], self.n_features)
        y = np.concatenate([train.target, test.target]).astype(np.int64)
        roles = np.repeat(np.array([TRAIN, TEST], dtype=np.int8), [len(train.data), len(test.data)])
        facts = {"source": "scikit-learn", "loader": "fetch_20newsgroups", "removed": "headers, footers, quotes"}
        classes = np.array(train.target_names)
        return Dataset(self.name, X, y, classes, hash_names(self.n_features), roles=roles, facts=facts)


def hashed(texts: Sequence[str], n_features: int) -> np.ndarray:
    """Counts of hashed words, each row divided by its L2 norm: Float64[n, n_features].

    >>> hashed(["Rain, rain; go away"], 8).round(2).tolist()
    [[-0.41, 0.0, 0.0, 0.0, 0.82, 0.0, 0.41, 0.0]]
    """
    from sklearn.feature_extraction.text import HashingVectorizer

    return HashingVectorizer(n_features=n_features, norm="l2").transform(texts).toarray()


def hash_names(n_features: int) -> tuple[str, ...]:
    """Names hash_0, hash_1 and so on."""
    return tuple(f"hash_{i}" for i in range(n_features))


def _folder(path: Path, encoding: str) -> tuple[list[str], pd.Series, dict[str, str]]:
    """Texts and labels of a folder of folders, in the order of their names; what begins with a dot is left out."""
    import pandas as pd

    folders = sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    files = [file for folder in folders for file in sorted(folder.iterdir()) if file.is_file() and not file.name.startswith(".")]
    if not files:
        raise DataError(
            f"{said(path)} is a folder without subfolders of texts; it needs one for each class, such as {path.name}/spam/1.txt"
        )
    texts = [_text(file, encoding) for file in files]
    return texts, pd.Series([file.parent.name for file in files], name="folder"), {}


def _text(file: Path, encoding: str) -> str:
    try:
        return file.read_text(encoding=encoding)
    except UnicodeDecodeError as error:
        where = f"byte {error.start:,} (0x{error.object[error.start]:02x})"
        raise DataError(f"{file} is not text in {encoding}: {where} cannot be decoded; it may be dataset.encoding=latin-1") from error
    except (OSError, LookupError) as error:
        raise DataError(f"{file} cannot be read: {error}") from error


def _posts(subset: str, progress: Callable[[str], None] | None = None) -> Any:
    """One part of the posts, a Bunch of scikit-learn."""
    from sklearn.datasets import fetch_20newsgroups

    from kdgraph.data.openml.client import Network

    options = {"subset": subset, "remove": ("headers", "footers", "quotes"), "shuffle": False}
    try:
        return fetch_20newsgroups(**options, download_if_missing=False)
    except OSError as error:
        if not Network.allowed:
            raise NotAtHand("newsgroups is not on this machine; a run fetches it, 14 MB") from error
        if progress:
            progress("fetching 20 newsgroups, 14 MB")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of scikit-learn, before it tries again
            return fetch_20newsgroups(**options, n_retries=1, delay=0.5)
    except OSError as error:
        way_out = "fetch it where there is one, and set SCIKIT_LEARN_DATA to the folder"
        raise NotAtHand(f"newsgroups is not on this machine, and no network gave it ({error}); {way_out}") from error
