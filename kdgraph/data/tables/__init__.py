"""Sources of a fixed number of rows: files of the user's own, arrays, text, and what scikit-learn ships or makes."""

from kdgraph.data.tables.array_file import ArrayFile
from kdgraph.data.tables.made import Friedman, GaussianShells, MadeClassification, MadeRegression, SwissRoll
from kdgraph.data.tables.newsgroups import Newsgroups
from kdgraph.data.tables.score_file import ScoreFile
from kdgraph.data.tables.shipped import SklearnTable
from kdgraph.data.tables.table_file import TableFile
from kdgraph.data.tables.text_file import TextFile

__all__ = [
    "ArrayFile",
    "Friedman",
    "GaussianShells",
    "MadeClassification",
    "MadeRegression",
    "Newsgroups",
    "ScoreFile",
    "SklearnTable",
    "SwissRoll",
    "TableFile",
    "TextFile",
]
