"""Columns of boosted trees, as XGBoost, LightGBM and CatBoost describe them.

Each library numbers the categories of its training rows, and keeps the list in another way. Rows
get the categories of that list, so that a number means the same as in training, whichever
categories occur in them. Original to kdgraph.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kdgraph.errors import DataError
from kdgraph.fitted.columns import CategoryColumn, ModelColumns

_CATEGORY = "c"
"""Type of a feature of XGBoost that holds categories."""
_FIRST_VERSION_WITH_CATEGORIES = (3, 1)
"""Version of XGBoost whose files list the categories of a data frame."""


def xgboost_columns(booster: Any, version: Sequence[int] | None = None) -> ModelColumns:
    """Return the columns of a booster of XGBoost.

    Parameters
    ----------
    booster : xgboost.Booster
        The booster.
    version : sequence of int or None, default=None
        Version of XGBoost that wrote its file; None for a model in memory.

    Raises
    ------
    DataError
        If columns hold categories, and the file does not list them, or lists them wrongly: their
        numbers are then those of the data frame at hand.
    """
    names, types = booster.feature_names, booster.feature_types or ()
    is_category = [kind == _CATEGORY for kind in types]
    n_features = booster.num_features()
    if not any(is_category):
        return ModelColumns(_texts(names), n_features, takes_text=False)
    listed = dict(booster.get_categories(export_to_arrow=True).to_arrow())
    categories = []
    for position, kind in enumerate(types):
        name = str(position) if names is None else names[position]
        values = listed.get(name)
        if kind == _CATEGORY and values is not None:
            known = _listed_values(name, values)
            categories.append(CategoryColumn(name, known, "category", unseen="refuse"))
        elif kind == _CATEGORY and names is not None and _is_before(version):
            raise DataError(
                f"holds categories in {name!r}, and files of XGBoost before 3.1 do not list them;"
                " fit the model with a newer version, or in a pipeline that encodes them"
            )
    return ModelColumns(_texts(names), n_features, tuple(categories), takes_text=False)


def _listed_values(name: str, values: Any) -> tuple[Any, ...]:
    try:
        known = tuple(values.to_pylist())
    except UnicodeDecodeError:
        known = ("\ufffd",)
    if not all(value.isascii() for value in known if isinstance(value, str)):
        # Version 3.2 counts the characters of a text where it means bytes, so that this category
        # and all behind it are other texts in its list than in the rows.
        raise DataError(
            f"holds categories in {name!r} with letters beyond ASCII, whose list XGBoost writes"
            " wrongly; rename them, or fit the model in a pipeline that encodes them"
        )
    return known


def _is_before(version: Sequence[int] | None) -> bool:
    return version is not None and tuple(version[:2]) < _FIRST_VERSION_WITH_CATEGORIES


def lightgbm_columns(booster: Any) -> ModelColumns:
    """Return the columns of a booster of LightGBM.

    Its file lists the categories of each column that had pandas' category type, in the order of the
    columns, and not which columns these are. It does list the categorical features, among which
    there may be columns of whole numbers.
    """
    names = tuple(str(name) for name in booster.feature_name())
    lists = tuple(tuple(values) for values in booster.pandas_categorical or ())
    text = booster.model_to_string(num_iteration=1)
    found = re.search(r"^\[categorical_feature: ([\d,]+)\]$", text, re.MULTILINE)
    positions = [int(number) for number in found[1].split(",")] if found else []
    categories: tuple[CategoryColumn, ...] = ()
    if len(positions) == len(lists):
        pairs = zip(sorted(positions), lists, strict=True)
        categories = tuple(CategoryColumn(names[j], values, "category") for j, values in pairs)
        lists = ()
    return ModelColumns(
        names,
        len(names),
        categories,
        lists=lists,
        takes_text=False,
        are_made_up=names == tuple(f"Column_{j}" for j in range(len(names))),
        joins_words=True,
    )


def catboost_columns(model: Any) -> ModelColumns:
    """Return the columns of a model of CatBoost, which keeps hashes of categories alone."""
    names = tuple(str(name) for name in model.feature_names_)
    categories = tuple(CategoryColumn(names[j]) for j in model.get_cat_feature_indices())
    texts = tuple(CategoryColumn(names[j]) for j in model.get_text_feature_indices())
    return ModelColumns(
        names,
        len(names),
        categories + texts,
        takes_text=False,
        whole_numbers=tuple(column.name for column in categories),
        are_made_up=names == tuple(map(str, range(len(names)))),
    )


def _texts(names: Sequence[Any] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(str(name) for name in names)
