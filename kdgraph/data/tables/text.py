"""Texts as vectors, by hashing or by vectors of words that others have learnt: nothing is learnt
from any row, so none of test either.

Texts of the user's own, as vectors of their words: ``dataset=text dataset.path=reviews.csv``.

Twenty newsgroups, which scikit-learn fetches.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from kdgraph.data.dataset import TEST, TRAIN, Dataset
from kdgraph.data.files.delimited import TextFormat
from kdgraph.data.files.paths import (
    DECOMPRESSORS,
    codec_name,
    codec_without_bom,
    file_stem,
    path_argument,
    resolve_existing,
    sha256_of,
    single_file,
)
from kdgraph.data.frames.messages import unknown_column_error, warn_duplicate_rows
from kdgraph.errors import DataError, NotAtHand
from kdgraph.parameters import Range, check_parameters

if TYPE_CHECKING:
    import pandas as pd


_WORD_PATTERN = re.compile(r"(?u)\b\w\w+\b")
"""Two or more letters or digits, as scikit-learn's vectorizers have it."""

HashedFeatureCount = Annotated[int, Range(2)]
"""Columns that words are hashed into; two words of one column are the same word from there on."""


def hash_texts(texts: Sequence[str], n_features: int) -> np.ndarray:
    """Counts of hashed words, each row divided by its L2 norm: Float64[n, n_features].

    >>> hash_texts(["Rain, rain; go away"], 8).round(2).tolist()
    [[-0.41, 0.0, 0.0, 0.0, 0.82, 0.0, 0.41, 0.0]]
    """
    from sklearn.feature_extraction.text import HashingVectorizer

    return HashingVectorizer(n_features=n_features, norm="l2").transform(texts).toarray()


def hashed_feature_names(n_features: int) -> tuple[str, ...]:
    """Names hash_0, hash_1 and so on."""
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

    Parameters
    ----------
    texts : [n].
    n_features : columns that words are hashed into, where there are no vectors.
    vectors : a file of word vectors, see :func:`mean_word_vectors`.
    posts : whether texts are posts, see :func:`strip_newsgroup_post`.
    width : numbers of a word vector, where they are known.

    Returns
    -------
    Float64[n, n_features or numbers of a word vector]
    """
    texts = [strip_newsgroup_post(text) for text in texts] if posts else texts
    return (
        hash_texts(texts, n_features)
        if vectors is None
        else mean_word_vectors(texts, vectors, width)
    )


def join_text_columns(frame: pd.DataFrame) -> list[str]:
    """Return one text for each row of a frame [n, columns]: its cells with spaces between them,
    nothing for a missing one.
    """
    return frame.astype(object).where(frame.notna(), "").astype(str).agg(" ".join, axis=1).tolist()


def mean_word_vectors(texts: Sequence[str], path: str, width: int | None = None) -> np.ndarray:
    """The mean of the vectors of each text's words, Float64[n, d]; of a text without any known word
    it is 0.

    ``path`` is a file of word vectors in text, a line for each word: the word and its d numbers,
    with spaces between them, as GloVe is given out (Pennington, Socher, Manning 2014), and
    word2vec, which has a first line of two numbers. Words are compared in lower case; of the file
    only the vectors of words that the texts have are kept. ``width`` is d where it is known: then
    no text needs to have a word of the file.

    Raises
    ------
    NotAtHand
        If there is no such file.
    DataError
        If it is no file of word vectors, or knows none of the words.
    """
    split = [_WORD_PATTERN.findall(text.lower()) for text in texts]
    row_of = _read_word_vectors(path, {word for words in split for word in words})
    if not row_of and width is None:
        raise DataError(
            f"{path_argument(path, 'vectors')} has a vector for none of the words of these texts"
        )
    d = len(next(iter(row_of.values()))) if row_of else width
    known = ([row_of[word] for word in words if word in row_of] for words in split)
    return np.array(
        [np.mean(each, axis=0) if each else np.zeros(d or 0) for each in known]
    ).reshape(len(texts), d or 0)


def _read_word_vectors(path: str, wanted: set[str]) -> dict[str, np.ndarray]:
    """Word → Float64[d], of those wanted."""
    found: dict[str, np.ndarray] = {}
    d = None
    file = resolve_existing(path, "vectors")
    if not file.is_file() or file.suffix.lower() in DECOMPRESSORS:
        raise DataError(
            f"{path_argument(path, 'vectors')} must be a file of text, not packed and no folder"
        )
    with file.open(encoding="utf-8-sig", errors="replace") as lines:
        for number, text in enumerate(lines):
            word, *values = text.rstrip().split(" ")
            if number == 0 and len(values) == 1:  # word2vec: how many words, and d
                continue
            d = d or len(values)
            if word not in wanted:
                continue
            try:
                found[word] = np.array(values[-d:], dtype=np.float64)
            except ValueError as error:
                raise DataError(
                    f"{path_argument(path, 'vectors')} is no file of word vectors: line {number + 1} is"
                    f" '{text[:40].rstrip()}…'"
                ) from error
            if len(values) < d or d < 2 or not np.isfinite(found[word]).all():
                raise DataError(
                    f"{path_argument(path, 'vectors')} is no file of word vectors: line {number + 1} has not"
                    f" {max(d, 2)} numbers"
                )
    return found


def strip_newsgroup_post(post: str) -> str:
    r"""A post of a newsgroup without its header, the lines that it quotes, and its signature, which
    give the group away.

    As scikit-learn removes them from its twenty newsgroups.

    >>> strip_newsgroup_post("Subject: trees\nFrom: me\n\nYou wrote:\n> what grows\nOaks do.")
    'Oaks do.'
    """
    from sklearn.datasets._twenty_newsgroups import (
        strip_newsgroup_footer,
        strip_newsgroup_header,
        strip_newsgroup_quoting,
    )

    return strip_newsgroup_quoting(strip_newsgroup_footer(strip_newsgroup_header(post))).strip()


_TEXT_TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".pq")


def list_text_files(path: Path) -> list[Path]:
    """The files of texts: one, or those in the subfolders of a folder, in the order of their names;
    what begins with a dot is left out.
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


class TextFile:
    """Texts with labels: a csv, tsv or parquet file, or a folder with one subfolder of files for
    each class.

    Parameters
    ----------
    path : the file or folder, relative to the working directory.
    text, target : columns of the texts and of the labels; of a folder neither is used. Texts of
    several columns are put together.
    n_features : columns that words are hashed into.
    vectors : a file of word vectors, such as GloVe's: a row is then the mean of those of its words;
        see :func:`~kdgraph.data.tables.text.mean_word_vectors`. None: words are hashed.
    keep : labels of the texts to keep, or patterns of them ("comp.*"); none: all of them.
    posts : whether texts are posts of newsgroups, of which header, quotes and signature are
    removed.
    encoding, separator : see :class:`kdgraph.data.tables.table_files.TableFile`.
    name : what runs are called; None: the file's or folder's name.

    Notes
    -----
    Words are lower-case runs of two or more letters or digits; a row is how often each column's
    words are in the text, with sign, divided by its L2 norm (``HashingVectorizer``). A text without
    words is a row of zeros.
    """

    reads: ClassVar = {"path": list_text_files, "vectors": single_file}

    def __init__(
        self,
        path: str,
        text: str | Sequence[str] = "text",
        target: str = "label",
        n_features: HashedFeatureCount = 512,
        vectors: str | None = None,
        keep: Sequence[str] = (),
        posts: bool = False,
        encoding: str = "utf-8",
        separator: str | None = None,
        name: str | None = None,
    ) -> None:
        self.path = path
        self.text = text
        self.target = target
        self.n_features = n_features
        self.vectors = vectors
        self.keep = keep
        self.posts = posts
        self.encoding = encoding
        self.separator = separator
        self.name = file_stem(path, "text") if name is None else name
        check_parameters(self)
        self._text_format()  # a wrong name is refused before any run starts

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Raise before any run starts if the file or folder is not there, or that of the word
        vectors.
        """
        resolve_existing(self.path)
        if self.vectors is not None:
            resolve_existing(self.vectors, "vectors")

    def load(self) -> Dataset:
        """All texts as Float64[n, n_features], or as many columns as a word vector has.

        Raises
        ------
        DataError
            In one line, if the file is not there or cannot be read, or labels are missing or only
            one.
        """
        from kdgraph.data.frames.targets import encode_target

        path = resolve_existing(self.path)
        texts, labels, facts = (
            _read_folder(path, self.encoding) if path.is_dir() else self._read_columns(path)
        )
        texts, labels, source_rows = self._select_labels(texts, labels)
        y, classes, _ = encode_target(self.name, labels, "classification")
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

    def _text_format(self) -> TextFormat:
        return TextFormat(self.encoding, self.separator)

    def _select_labels(
        self, texts: list[str], labels: pd.Series
    ) -> tuple[list[str], pd.Series, np.ndarray]:
        """Texts and labels of the classes to keep, and their row numbers in the source, Int[n]."""
        if not self.keep:
            return texts, labels, np.arange(len(texts))
        there = sorted(set(labels.dropna().astype(str)))
        for pattern in self.keep:
            if not any(fnmatchcase(label, pattern) for label in there):
                shown = f"{', '.join(there[:8])}{', …' if len(there) > 8 else ''}"
                raise DataError(
                    f"dataset.keep: {path_argument(self.path)} has no label '{pattern}'; it has {shown}"
                )
        keep = (
            labels.astype(str)
            .map(lambda label: any(fnmatchcase(label, pattern) for pattern in self.keep))
            .to_numpy(bool)
        )
        rows = np.flatnonzero(keep)
        return [texts[row] for row in rows], labels.iloc[rows].reset_index(drop=True), rows

    def _read_columns(self, path: Path) -> tuple[list[str], pd.Series, dict[str, str]]:
        from kdgraph.data.files.paths import checked_suffix
        from kdgraph.data.files.tables import read_table

        checked_suffix(path, _TEXT_TABLE_SUFFIXES)
        frame = read_table(path, self._text_format()).frame
        columns = [self.text] if isinstance(self.text, str) else list(self.text)
        for key, column in [*(("text", column) for column in columns), ("target", self.target)]:
            if column not in frame.columns:
                raise unknown_column_error(
                    path_argument(self.path), key, column, [str(name) for name in frame.columns]
                )
        if not len(frame):
            raise DataError(f"{path_argument(self.path)} has columns and no rows")
        return join_text_columns(frame[columns]), frame[self.target], {"sha256": sha256_of(path)}


def _read_folder(path: Path, encoding: str) -> tuple[list[str], pd.Series, dict[str, str]]:
    """Texts and labels of a folder of folders."""
    import pandas as pd

    if not (files := list_text_files(path)):
        raise DataError(
            f"{path_argument(path)} is a folder without subfolders of texts; it needs one for each class,"
            f" such as {path.name}/spam/1.txt"
        )
    texts = [_read_text(file, encoding) for file in files]
    return texts, pd.Series([file.parent.name for file in files], name="folder"), {}


def _read_text(file: Path, encoding: str) -> str:
    try:
        with file.open("rb") as opened:
            codec = codec_without_bom(str(file), opened.read(4), codec_name(encoding))
        return file.read_text(encoding=codec)
    except UnicodeDecodeError as error:
        where = f"byte {error.start:,} (0x{error.object[error.start]:02x})"
        way_out = (
            "; it may be dataset.encoding=latin-1"
            if codec_name(encoding).startswith("utf-8")
            else ""
        )
        raise DataError(
            f"{file} is not text in {encoding}: {where} cannot be decoded{way_out}"
        ) from error
    except UnicodeError as error:
        raise DataError(f"{file} is not text in {encoding}: {error}") from error
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error}") from error


class Newsgroups:
    """Twenty newsgroups, split by date as its authors do: 11,314 posts that train and 7,532 that
    test, of 20 classes.

    Headers, footers and quotes are removed: they give the group away. scikit-learn fetches the
    posts once (14 MB) into the folder ``scikit_learn_data`` of the user, or that of the environment
    variable SCIKIT_LEARN_DATA.

    Parameters
    ----------
    n_features : columns that words are hashed into.
    """

    name = "newsgroups"

    def __init__(self, n_features: HashedFeatureCount = 512) -> None:
        self.n_features = n_features
        check_parameters(self)

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Fetch the posts unless they are there.

        Raises
        ------
        NotAtHand
            If they are not, and cannot be fetched.
        """
        _load_posts("test", progress)

    def load(self) -> Dataset:
        """All posts."""
        train, test = _load_posts("train"), _load_posts("test")
        X = hash_texts([*train.data, *test.data], self.n_features)
        y = np.concatenate([train.target, test.target]).astype(np.int64)
        roles = np.repeat(np.array([TRAIN, TEST], dtype=np.int8), [len(train.data), len(test.data)])
        facts = {
            "source": "scikit-learn",
            "loader": "fetch_20newsgroups",
            "removed": "headers, footers, quotes",
        }
        classes = np.array(train.target_names)
        return Dataset(
            self.name,
            X,
            y,
            classes,
            hashed_feature_names(self.n_features),
            roles=roles,
            facts=facts,
        )


def _load_posts(subset: str, progress: Callable[[str], None] | None = None) -> Any:
    """One part of the posts, a Bunch of scikit-learn."""
    from sklearn.datasets import fetch_20newsgroups

    from kdgraph.data.openml.client import NetworkState

    options = {"subset": subset, "remove": ("headers", "footers", "quotes"), "shuffle": False}
    try:
        return fetch_20newsgroups(**options, download_if_missing=False)
    except OSError as error:
        if not NetworkState.allowed:
            raise NotAtHand("newsgroups is not on this machine; a run fetches it, 14 MB") from error
        if progress:
            progress("fetching 20 newsgroups, 14 MB")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of scikit-learn, before it tries again
            return fetch_20newsgroups(**options, n_retries=1, delay=0.5)
    except OSError as error:
        way_out = "fetch it where there is one, and set SCIKIT_LEARN_DATA to the folder"
        raise NotAtHand(
            f"newsgroups is not on this machine, and no network gave it ({error}); {way_out}"
        ) from error
