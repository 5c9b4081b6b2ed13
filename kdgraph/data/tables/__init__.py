"""Sources of a fixed number of rows: files of the user's own, arrays, text, and what scikit-learn ships or makes."""

from kdgraph.data.tables.arrays import ArrayFile
from kdgraph.data.tables.columns import ColumnOptions, from_frame
from kdgraph.data.tables.files import TableFile
from kdgraph.data.tables.made import Friedman, MadeClassification, MadeRegression
from kdgraph.data.tables.scores import ScoreFile
from kdgraph.data.tables.shipped import SklearnTable
from kdgraph.data.tables.text import Newsgroups, TextFile

__all__ = [
    "ArrayFile",
    "ColumnOptions",
    "Friedman",
    "MadeClassification",
    "MadeRegression",
    "Newsgroups",
    "ScoreFile",
    "SklearnTable",
    "TableFile",
    "TextFile",
    "from_frame",
]
