"""Every metric of a run, wherever the config asks for it, of the parent and of the calibrated
model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from kdgraph.base import Predictions, SetScores
from kdgraph.data.dataset import Dataset, Splits
from kdgraph.metrics import (
    METRICS,
    Score,
    TopLabel,
    cache_scope,
    needs,
    score,
    select_metric,
    space_option,
    tabulate,
)
from kdgraph.metrics.inputs import MODEL_OUTPUTS, Groups

Entry = dict[str, Any]
Spaces = Callable[[str, str], np.ndarray]


def measure(
    predictions: Sequence[Predictions],
    metrics: Mapping[str, Any],
    splits: Splits,
    source: str,
    spaces: Spaces | None = None,
) -> tuple[list[Entry], dict[str, list[Entry]]]:
    """Entries of the record's ``metrics``, and the rows of each table by its name; a table without
    rows is left out.

    Of two models, one may not give what a metric needs (a calibrator of the confidence alone
    predicts no probabilities): its value is None.

    Parameters
    ----------
    predictions : of every set of rows; the test rows are among them.
    metrics : "test", "calibration", "grid" or "ood" → key → options, as
        :func:`~kdgraph.metrics.select_metric` reads them; entries and tables have the key.
    splits : where the prior and the features of the test rows come from.
    source : what an error calls the data.
    spaces : (name, "test" or "calibration") → Float[n, m], where the rows lie in a space that a
        metric names; None where no metric does.

    Raises
    ------
    ValueError : of a metric in a space, where there are none.
    """
    test = next(found for found in predictions if found.role == "test")
    numbers: list[Entry] = []
    tables: dict[str, list[Entry]] = {}
    for found in predictions:
        wanted = metrics.get(found.role) or {}
        inputs = {
            of: _inputs(found, said, test.models[of], splits) for of, said in found.models.items()
        }
        with cache_scope():
            for key, name, options in _tables_first(wanted):
                space = space_option(wanted[key])
                if space is not None and spaces is None:
                    raise ValueError(
                        f"metrics.{found.role}.{key} measures in the space '{space}', and none is"
                        " given: pass spaces"
                    )
                for of, known in inputs.items():
                    if space is not None and spaces is not None:
                        known = {**known, "X": spaces(space, found.role)}
                    where = {"of": of, "on": found.role, "ood": found.ood_name}
                    is_given = all(
                        known.get(need) is not None
                        for need in needs(name).intersection(MODEL_OUTPUTS)
                    )
                    if not METRICS[name].is_table:
                        entry = {
                            "metric": key,
                            **where,
                            "params": dict(found.params),
                            **_known_inside(found),
                        }
                        measured = (
                            score(name, known, options, source=source)
                            if is_given
                            else Score(None, None, found.n_rows)
                        )
                        units = _units(name, known)
                        numbers.append(
                            {
                                **entry,
                                **asdict(measured),
                                **units,
                                **({"stderr": None} if units else {}),
                            }
                        )
                    elif (
                        is_given
                        and not _units(name, known)
                        and (rows := tabulate(name, known, options, source=source))
                    ):
                        tables.setdefault(key, []).extend(
                            {**where, **found.params, **row} for row in rows
                        )
    return numbers, tables


def labelled_rows(splits: Splits) -> dict[str, Dataset]:
    """Rows of the data set that a run can be measured on, by what a record calls them."""
    return {"test": splits.test, "calibration": splits.calibration}


def _tables_first(wanted: Mapping[str, Any]) -> list[tuple[str, str, Entry]]:
    """Key, metric and options of each.

    A table by bandwidth has computed what the number at one of its bandwidths shares with it; the
    other way round it had to go on.
    """
    found = [(key, *select_metric(key, node)) for key, node in wanted.items()]
    return sorted(found, key=lambda each: not METRICS[each[1]].is_table)


def _inputs(
    found: Predictions, said: Mapping[str, Any], of_test: Mapping[str, Any], splits: Splits
) -> Entry:
    """What metrics may need of one set, by the names of their parameters; None where there is
    none.
    """
    truth = "true_distribution" if splits.prior is None else "truth"  # a regression has no classes
    inputs: Entry = {**said, "y": found.y, truth: found.truth, "prior": splits.prior}
    if "proba" in said and "top_label" not in said:
        inputs["top_label"] = TopLabel.from_proba(said["proba"])
    if (rows := labelled_rows(splits).get(found.role)) is not None:
        inputs |= {
            "X": rows.X,
            "groups": None if rows.groups is None else Groups(rows.groups, rows.group_names),
        }
    if splits.prior is None and len(splits.calibration.y):
        inputs["mean_abs_y"] = float(np.abs(splits.calibration.y).mean())
    if found.role == "ood":
        inputs["id_score"] = of_test.get("ood_score")
    return inputs


def _known_inside(found: Predictions) -> Entry:
    return {"in_distribution": True} if found.in_distribution else {}


def _units(name: str, inputs: Mapping[str, Any]) -> Entry:
    """What ``n`` counts where it is not rows: a score of sets is another task than one of rows, and
    the numbers must not be compared.

    Sets share rows, so none of these numbers has a standard error that its n would give, and no
    table of single rows is made of them.
    """
    scores = inputs.get("ood_score")
    if "ood_score" not in needs(name) or not isinstance(scores, SetScores):
        return {}
    return {
        "n_of": (
            f"sets of {scores.set_size} rows"
            if scores.unit == "set"
            else f"rows in sets of {scores.set_size}"
        )
    }
