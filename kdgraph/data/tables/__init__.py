"""Data sets with a fixed number of rows: files of the user, text, and tables of scikit-learn."""

from kdgraph.data.tables.scikit_learn import (
    FriedmanTable,
    GaussianShells,
    SklearnTable,
    SwissRoll,
    SyntheticClassification,
    SyntheticRegression,
)
from kdgraph.data.tables.score_file import ScoreFile
from kdgraph.data.tables.table_files import ArrayFile, TableFile
from kdgraph.data.tables.text import Newsgroups, TextFile

__all__ = [
    "ArrayFile",
    "FriedmanTable",
    "GaussianShells",
    "Newsgroups",
    "ScoreFile",
    "SklearnTable",
    "SwissRoll",
    "SyntheticClassification",
    "SyntheticRegression",
    "TableFile",
    "TextFile",
]
