"""Script that reads a model of CatBoost from the standard input, and predicts rows with it.

:func:`kdgraph.persistence.trials.try_catboost` runs it. It calls what kdgraph calls of a model, for
rows on both sides of the borders of its splits, so that they come to most of its leaves. Its end
matters alone: exceptions are met by the reader again, which shows them. Original to kdgraph.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

import numpy as np

N_ROWS = 1024
_EXTREMES = (0.0, np.nan, 1e30, -1e30)
_TEXTS = ("", "a", "0", "1", "2", "1.0", "True")


def main() -> None:
    """Read the model from the standard input, and use it."""
    import catboost

    content = sys.stdin.buffer.read()
    for kind in (catboost.CatBoost, catboost.CatBoostClassifier, catboost.CatBoostRegressor):
        model = None
        with suppress(Exception):
            model = kind().load_model(blob=content, format="cbm")
        if model is not None:
            use(model)


def use(model: Any) -> None:
    """Call what kdgraph calls of a model of CatBoost."""
    rows = None
    with suppress(Exception):
        rows = rows_of(model)
    calls = (
        model.get_all_params,
        lambda: model.classes_,
        model.get_tree_leaf_counts,
        lambda: model.predict(rows, prediction_type="RawFormulaVal"),
        lambda: model.predict(rows),
        lambda: model.predict(rows, prediction_type="Probability"),
        lambda: model.calc_leaf_indexes(rows),
    )
    for call in calls:
        with suppress(Exception):
            call()


def rows_of(model: Any) -> Any:
    """Return rows whose numbers lie around the borders of the model's splits."""
    import catboost

    texts, words = model.get_cat_feature_indices(), model.get_text_feature_indices()
    borders, rng = model.get_borders(), np.random.default_rng(0)
    columns = []
    for feature in range(len(model.feature_names_)):
        values = np.array(borders.get(feature, []), dtype=np.float64)
        choices: Any = np.concatenate([np.nextafter(values, np.inf), values - 1e-6, _EXTREMES])
        if feature in (*texts, *words):
            choices = np.array(_TEXTS, dtype=object)
        columns.append(rng.choice(choices, N_ROWS))
    if not (texts or words):
        return np.column_stack(columns)
    return catboost.Pool(
        np.column_stack([column.astype(object) for column in columns]),
        cat_features=texts,
        text_features=words,
    )


if __name__ == "__main__":
    main()
