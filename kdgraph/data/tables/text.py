"""Texts as vectors: files of the user (``dataset=text``) and the twenty newsgroups of scikit-learn.

A vectorizer hashes words or averages pretrained word vectors. It is not fitted to any row, so
nothing is learnt from test rows. The combination is original to kdgraph.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from kdgraph.data.dataset import TEST, TRAIN, Dataset
from kdgraph.data.files.file_source import TextSource
from kdgraph.data.files.paths import (
    DECOMPRESSORS,
    checked_suffix,
    codec_name,
    codec_without_bom,
    path_argument,
    resolve_existing,
    sha256_of,
    single_file,
    undecodable_error,
)
from kdgraph.data.frames.messages import unknown_column_error, warn_duplicate_rows
from kdgraph.data.source import Source
from kdgraph.errors import DataError, DataNotAvailable
from kdgraph.parameters import Range

if TYPE_CHECKING:
    import pandas as pd


_WORD_PATTERN = re.compile(r"(?u)\b\w\w+\b")
"""Words of two or more letters or digits, as in scikit-learn's vectorizers."""

HashedFeatureCount = Annotated[int, Range(2)]
"""Number of columns that words are hashed into; words may share a column."""


def hash_texts(texts: Sequence[str], n_features: int) -> np.ndarray:
    """Return counts of hashed words, each row divided by its L2 norm, as Float64[n, n_features].

    >>> hash_texts(["Rain, rain; go away"], 8).round(2).tolist()
    [[-0.41, 0.0, 0.0, 0.0, 0.82, 0.0, 0.41, 0.0]]
    """
    from sklearn.feature_extraction.text import HashingVectorizer

    return HashingVectorizer(n_features=n_features, norm="l2").transform(texts).toarray()


def hashed_feature_names(n_features: int) -> tuple[str, ...]:
    """Return the names hash_0, hash_1 and so on."""
    return tuple(f"hash_{i}" for i in range(n_features))


def vectorize_texts(
    texts: Sequence[str],
    n_features: int,
    vectors: str | None = None,
    *,
    posts: bool = False,
    width: int | None = None,
) -> np.ndarray:
    """Return one row for each text, for a run and for new rows alike.

    Float64[n, n_features] of hashed words, or with ``vectors`` (:func:`mean_word_vectors`)
    Float64[n, width]. Of ``posts`` the parts that reveal the group are removed
    (:func:`strip_newsgroup_post`).
    """
    texts = [strip_newsgroup_post(text) for text in texts] if posts else texts
    if vectors is None:
        return hash_texts(texts, n_features)
    return mean_word_vectors(texts, vectors, width)


def join_text_columns(frame: pd.DataFrame) -> list[str]:
    """Return one text for each row of a frame [n, columns]: its cells, joined with spaces.

    Missing cells are empty.
    """
    return frame.astype(object).where(frame.notna(), "").astype(str).agg(" ".join, axis=1).tolist()


def mean_word_vectors(texts: Sequence[str], path: str, width: int | None = None) -> np.ndarray:
    """Return the mean vector, Float64[n, d], of each text's words; 0 without known words.

    The file has a line for each word: the word in lower case and its d numbers, separated by
    spaces. GloVe (Pennington, Socher, Manning 2014) and word2vec, which has a first line of two
    numbers, are published in this format. Only vectors of words in the texts are loaded. If
    ``width`` gives d, the file need not contain any word of the texts.
    """
    words_by_text = [_WORD_PATTERN.findall(text.lower()) for text in texts]
    vector_of = _read_word_vectors(path, {word for words in words_by_text for word in words})
    if not vector_of and width is None:
        raise DataError(
            f"{path_argument(path, 'vectors')} has a vector for none of the words of these texts"
        )
    d = len(next(iter(vector_of.values()))) if vector_of else width
    rows = np.zeros((len(texts), d or 0))
    for row, words in zip(rows, words_by_text, strict=True):
        if vectors := [vector_of[word] for word in words if word in vector_of]:
            row[:] = np.mean(vectors, axis=0)
    return rows


def _read_word_vectors(path: str, vocabulary: set[str]) -> dict[str, np.ndarray]:
    """Return the vectors Float64[d] of the words in ``vocabulary``."""
    vector_of: dict[str, np.ndarray] = {}
    width = None
    file = resolve_existing(path, "vectors")
    if not file.is_file() or file.suffix.lower() in DECOMPRESSORS:
        raise DataError(
            f"{path_argument(path, 'vectors')} must be a text file, neither compressed nor a folder"
        )
    with file.open(encoding="utf-8-sig", errors="replace") as lines:
        for line_index, line in enumerate(lines):
            # Few of the 400,000 lines of a usual file are of words in the texts, so that a line is
            # divided into numbers only for these, and the first one for its width.
            word = line.partition(" ")[0].rstrip()
            if width is not None and word not in vocabulary:
                continue
            values = line.rstrip().split(" ")[1:]
            # The first line of word2vec contains the number of words, and d.
            if line_index == 0 and len(values) == 1:
                continue
            width = width or len(values)
            if word not in vocabulary:
                continue
            try:
                vector_of[word] = np.array(values[-width:], dtype=np.float64)
            except ValueError as error:
                raise DataError(
                    f"{path_argument(path, 'vectors')} is not a file of word vectors:"
                    f" line {line_index + 1} is '{line[:40].rstrip()}…'"
                ) from error
            if len(values) < width or width < 2 or not np.isfinite(vector_of[word]).all():
                raise DataError(
                    f"{path_argument(path, 'vectors')} is not a file of word vectors:"
                    f" line {line_index + 1} does not have {max(width, 2)} numbers"
                )
    return vector_of


def strip_newsgroup_post(post: str) -> str:
    r"""Return a newsgroup post without header, quoted lines and signature, which reveal the group.

    scikit-learn removes the same parts from its twenty newsgroups.

    >>> strip_newsgroup_post("Subject: trees\nFrom: me\n\nYou wrote:\n> what grows\nOaks do.")
    'Oaks do.'
    """
    # The module is private, and no public function strips posts of the user: fetch_20newsgroups
    # does so only for the posts that it loads. With the same functions, a post in a file becomes
    # the same row as in Newsgroups; a copy of their patterns could differ from the installed ones.
    from sklearn.datasets._twenty_newsgroups import (
        strip_newsgroup_footer,
        strip_newsgroup_header,
        strip_newsgroup_quoting,
    )

    return strip_newsgroup_quoting(strip_newsgroup_footer(strip_newsgroup_header(post))).strip()


_TEXT_TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".pq")


def list_text_files(path: Path) -> list[Path]:
    """Return the files of texts: one file, or those in the subfolders of a folder, sorted by name.

    Names that begin with a dot are left out.
    """
    if not path.is_dir():
        return [path]
    folders = sorted(
        entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith(".")
    )
    return [
        file
        for folder in folders
        for file in sorted(folder.iterdir())
        if file.is_file() and not file.name.startswith(".")
    ]


@dataclass(eq=False, repr=False)
class TextFile(TextSource):
    """Texts with labels in a csv, tsv or parquet file, or a folder with a subfolder for each class.

    Parameters
    ----------
    path : str
        File (.csv, .tsv, .parquet) or folder, relative to the working directory.
    text, target : str or sequence of str, default="text" and "label"
        Columns of the texts and of the labels; not used for a folder. Texts of several columns are
        joined.
    n_features : int, default=512
        Number of columns that words are hashed into.
    vectors : str or None, default=None
        File of word vectors, such as GloVe's. A row is then the mean of the vectors of its words,
        see :func:`~kdgraph.data.tables.text.mean_word_vectors`. With None words are hashed.
    keep : sequence of str, default=()
        Labels of the texts to use, or patterns of labels ("comp.*"). Empty: all.
    posts : bool, default=False
        Whether texts are newsgroup posts, whose header, quotes and signature are removed.

    Notes
    -----
    Words are lower-case runs of two or more letters or digits. A row contains the signed counts of
    the words of each column, divided by its L2 norm (``HashingVectorizer``). A text without words
    is a row of zeros.

    Examples
    --------
    >>> TextFile("data/reviews.csv").name
    'reviews'
    """

    file_parameters: ClassVar = {"path": list_text_files, "vectors": single_file}

    text: str | Sequence[str] = "text"
    target: str = "label"
    n_features: HashedFeatureCount = 512
    vectors: str | None = None
    keep: Sequence[str] = ()
    posts: bool = False

    nameless = "text"

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Raise an error before any run starts if the texts or the word vectors do not exist."""
        super().prefetch(progress)
        if self.vectors is not None:
            resolve_existing(self.vectors, "vectors")

    def load(self) -> Dataset:
        """Return all texts as Float64[n, n_features], or as wide as a word vector."""
        from kdgraph.data.frames.targets import MAX_NUMERIC_CLASSES, encode_target

        path = self._existing_path()
        texts, labels, facts = (
            _read_folder(path, self.encoding) if path.is_dir() else self._read_columns(path)
        )
        texts, labels, source_rows = self._select_labels(texts, labels)
        # Labels are checked before the texts are vectorised, which takes much longer.
        y, classes, _ = encode_target(self.name, labels, "classification")
        if classes.dtype.kind == "f" and len(classes) > MAX_NUMERIC_CLASSES:
            raise DataError(
                f"{self.name}: '{labels.name}' has {len(classes):,} different numbers, such as"
                f" {classes[0]:g}, and texts have classes; choose a column of classes, or group the"
                " numbers into classes"
            )
        X = vectorize_texts(texts, self.n_features, self.vectors, posts=self.posts)
        warn_duplicate_rows(self.name, X)
        facts = {"source": "file", "path": self.path, "texts": len(texts), **facts}
        names = hashed_feature_names(self.n_features)
        if self.vectors is not None:
            names = tuple(f"vector_{i}" for i in range(X.shape[1]))
            facts |= {
                "vectors": self.vectors,
                "vectors_sha256": sha256_of(resolve_existing(self.vectors, "vectors")),
            }
        return Dataset(self.name, X, y, classes, names, facts=facts, source_rows=source_rows)

    def _select_labels(
        self, texts: list[str], labels: pd.Series
    ) -> tuple[list[str], pd.Series, np.ndarray]:
        """Return texts and labels of the selected classes, and their source row numbers, Int[n]."""
        if not self.keep:
            return texts, labels, np.arange(len(texts))
        # A pattern without a match is an error: a misspelt label would silently drop its texts.
        names = sorted(set(labels.dropna().astype(str)))
        for pattern in self.keep:
            if not any(fnmatchcase(label, pattern) for label in names):
                examples = f"{', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
                raise DataError(
                    f"dataset.keep: {self._argument} has no label '{pattern}'; it has {examples}"
                )
        is_selected = [
            any(fnmatchcase(label, pattern) for pattern in self.keep)
            for label in labels.astype(str)
        ]
        rows = np.flatnonzero(is_selected)
        return [texts[row] for row in rows], labels.iloc[rows].reset_index(drop=True), rows

    def _read_columns(self, path: Path) -> tuple[list[str], pd.Series, dict[str, str]]:
        from kdgraph.data.files.tables import read_table

        checked_suffix(path, _TEXT_TABLE_SUFFIXES)
        frame = read_table(path, self._text_format()).frame
        columns = [self.text] if isinstance(self.text, str) else list(self.text)
        for key, column in [*(("text", column) for column in columns), ("target", self.target)]:
            if column not in frame.columns:
                raise unknown_column_error(
                    self._argument, key, column, [str(name) for name in frame.columns]
                )
        if not len(frame):
            raise DataError(f"{self._argument} has columns and no rows")
        return join_text_columns(frame[columns]), frame[self.target], {"sha256": sha256_of(path)}


def _read_folder(path: Path, encoding: str) -> tuple[list[str], pd.Series, dict[str, str]]:
    import pandas as pd

    if not (files := list_text_files(path)):
        raise DataError(
            f"{path_argument(path)} is a folder without subfolders of texts; it needs one for each"
            f" class, such as {path.name}/spam/1.txt"
        )
    texts = [_read_text(file, encoding) for file in files]
    return texts, pd.Series([file.parent.name for file in files], name="folder"), {}


def _read_text(file: Path, encoding: str) -> str:
    # A byte-order mark decides on the codec, as it does for tables; see check_text.
    try:
        with file.open("rb") as binary_file:
            codec = codec_without_bom(str(file), binary_file.read(4), codec_name(encoding))
        return file.read_text(encoding=codec)
    except UnicodeDecodeError as error:
        raise undecodable_error(str(file), encoding, error.start, error) from error
    except UnicodeError as error:
        raise DataError(f"{file} is not text in {encoding}: {error}") from error
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error}") from error


@dataclass(eq=False, repr=False)
class Newsgroups(Source):
    """Twenty newsgroups, split by date: 11,314 training posts, 7,532 test posts, 20 classes.

    Headers, footers and quotes are removed, since they reveal the group. scikit-learn fetches the
    posts once (14 MB) into the folder ``scikit_learn_data`` of the user, or into that of the
    environment variable SCIKIT_LEARN_DATA.

    Parameters
    ----------
    n_features : int, default=512
        Number of columns that words are hashed into.

    Examples
    --------
    >>> Newsgroups(64).n_features
    64
    """

    n_features: HashedFeatureCount = 512

    name = "newsgroups"

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Fetch the posts unless they exist."""
        _load_posts("test", progress)

    def load(self) -> Dataset:
        """Return all posts."""
        train, test = _load_posts("train"), _load_posts("test")
        # Hashing is not fitted, so both parts may be transformed together.
        X = hash_texts([*train.data, *test.data], self.n_features)
        y = np.concatenate([train.target, test.target]).astype(np.int64)
        roles = np.repeat(np.array([TRAIN, TEST], dtype=np.int8), [len(train.data), len(test.data)])
        facts = {
            "source": "scikit-learn",
            "loader": "fetch_20newsgroups",
            "removed": "headers, footers, quotes",
        }
        classes, names = np.array(train.target_names), hashed_feature_names(self.n_features)
        return Dataset(self.name, X, y, classes, names, roles=roles, facts=facts)


def _load_posts(subset: str, progress: Callable[[str], None] | None = None) -> Any:
    from sklearn.datasets import fetch_20newsgroups

    from kdgraph.data.openml.client import NetworkState

    options = {"subset": subset, "remove": ("headers", "footers", "quotes"), "shuffle": False}
    try:
        return fetch_20newsgroups(**options, download_if_missing=False)
    except OSError as error:
        if not NetworkState.allowed:
            raise DataNotAvailable(
                "newsgroups is not on this machine; a run fetches it, 14 MB"
            ) from error
        if progress:
            progress("fetching 20 newsgroups, 14 MB")
    try:
        with warnings.catch_warnings():
            # scikit-learn warns before it tries again.
            warnings.simplefilter("ignore")
            return fetch_20newsgroups(**options, n_retries=1, delay=0.5)
    except OSError as error:
        raise DataNotAvailable(
            f"newsgroups is not on this machine, and it cannot be fetched ({error}); fetch it where"
            " there is one, and set SCIKIT_LEARN_DATA to the folder"
        ) from error
