"""Texts as vectors, by hashing or by vectors of words that others have learnt: nothing is learnt from any row, so none of test either."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np

from kdgraph.data.files.paths import OPENERS, existing, said
from kdgraph.errors import DataError
from kdgraph.parameters import Range

if TYPE_CHECKING:
    import pandas as pd

WORD = re.compile(r"(?u)\b\w\w+\b")
"""Two or more letters or digits, as scikit-learn's vectorizers have it."""

HashCount = Annotated[int, Range(2)]
"""Columns that words are hashed into; two words of one column are the same word from there on."""


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


def rows_of_texts(
    texts: Sequence[str], n_features: int, vectors: str | None = None, *, posts: bool = False, width: int | None = None
) -> np.ndarray:
    """Return one row for each text, for a run and for new rows alike.

    Parameters
    ----------
    texts : [n].
    n_features : columns that words are hashed into, where there are no vectors.
    vectors : a file of word vectors, see :func:`mean_vectors`.
    posts : whether texts are posts, see :func:`without_furniture`.
    width : numbers of a word vector, where they are known.

    Returns
    -------
    Float64[n, n_features or numbers of a word vector]
    """
    texts = [without_furniture(text) for text in texts] if posts else texts
    return hashed(texts, n_features) if vectors is None else mean_vectors(texts, vectors, width)


def text_of_columns(frame: pd.DataFrame) -> list[str]:
    """Return one text for each row of a frame [n, columns]: its cells with spaces between them, nothing for a missing one."""
    return frame.astype(object).where(frame.notna(), "").astype(str).agg(" ".join, axis=1).tolist()


def mean_vectors(texts: Sequence[str], path: str, width: int | None = None) -> np.ndarray:
    """The mean of the vectors of each text's words, Float64[n, d]; of a text without any known word it is 0.

    ``path`` is a file of word vectors in text, a line for each word: the word and its d numbers, with spaces between them, as GloVe is
    given out (Pennington, Socher, Manning 2014), and word2vec, which has a first line of two numbers. Words are compared in lower case; of
    the file only the vectors of words that the texts have are kept. ``width`` is d where it is known: then no text needs to have a word of
    the file.

    Raises
    ------
    NotAtHand
        If there is no such file.
    DataError
        If it is no file of word vectors, or knows none of the words.
    """
    split = [WORD.findall(text.lower()) for text in texts]
    row_of = _vectors(path, {word for words in split for word in words})
    if not row_of and width is None:
        raise DataError(f"{said(path, 'vectors')} has a vector for none of the words of these texts")
    d = len(next(iter(row_of.values()))) if row_of else width
    known = ([row_of[word] for word in words if word in row_of] for words in split)
    return np.array([np.mean(each, axis=0) if each else np.zeros(d or 0) for each in known]).reshape(len(texts), d or 0)


def _vectors(path: str, wanted: set[str]) -> dict[str, np.ndarray]:
    """Word → Float64[d], of those wanted."""
    found: dict[str, np.ndarray] = {}
    d = None
    file = existing(path, "vectors")
    if not file.is_file() or file.suffix.lower() in OPENERS:
        raise DataError(f"{said(path, 'vectors')} must be a file of text, not packed and no folder")
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
                    f"{said(path, 'vectors')} is no file of word vectors: line {number + 1} is '{text[:40].rstrip()}…'"
                ) from error
            if len(values) < d or d < 2 or not np.isfinite(found[word]).all():
                raise DataError(f"{said(path, 'vectors')} is no file of word vectors: line {number + 1} has not {max(d, 2)} numbers")
    return found


def without_furniture(post: str) -> str:
    r"""A post of a newsgroup without its header, the lines that it quotes, and its signature, which give the group away.

    As scikit-learn removes them from its twenty newsgroups.

    >>> without_furniture("Subject: trees\nFrom: me\n\nYou wrote:\n> what grows\nOaks do.")
    'Oaks do.'
    """
    from sklearn.datasets._twenty_newsgroups import strip_newsgroup_footer, strip_newsgroup_header, strip_newsgroup_quoting

    return strip_newsgroup_quoting(strip_newsgroup_footer(strip_newsgroup_header(post))).strip()
