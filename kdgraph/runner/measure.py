"""Every metric of a run, wherever the config asks for it, of the parent and of the calibrated model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from kdgraph.answers import Predictions
from kdgraph.data.dataset import Splits
from kdgraph.metrics import METRICS, Score, TopLabel, needs, score, tabulate
from kdgraph.metrics.inputs import SAID

Entry = dict[str, Any]


def measure(
    predictions: Sequence[Predictions], metrics: Mapping[str, Any], splits: Splits, source: str
) -> tuple[list[Entry], dict[str, list[Entry]]]:
    """Entries of the record's ``metrics``, and the rows of each table by its name; a table without rows is left out.

    Of two models, one may not give what a metric needs (a calibrator of the confidence alone predicts no probabilities): its value is None.

    Parameters
    ----------
    predictions : of every set of rows; the test rows are among them.
    metrics : "test", "grid" or "ood" → name → options.
    splits : where the prior and the features of the test rows come from.
    source : what an error calls the data.
    """
    test = next(found for found in predictions if found.on == "test")
    numbers: list[Entry] = []
    tables: dict[str, list[Entry]] = {}
    for found in predictions:
        for name, options in (metrics.get(found.on) or {}).items():
            for of, said in found.models.items():
                where = {"of": of, "on": found.on, "ood": found.ood}
                inputs = _inputs(found, said, test.models[of], splits)
                is_given = all(inputs.get(need) is not None for need in needs(name).intersection(SAID))
                if not METRICS[name].is_table:
                    entry = {"metric": name, **where, "params": dict(found.params), **_known_inside(found)}
                    found_score = score(name, inputs, options, source=source) if is_given else Score(None, None, found.n)
                    numbers.append({**entry, **asdict(found_score)})
                elif is_given and (rows := tabulate(name, inputs, options, source=source)):
                    tables.setdefault(name, []).extend({**where, **found.params, **row} for row in rows)
    return numbers, tables


def _inputs(found: Predictions, said: Mapping[str, Any], of_test: Mapping[str, Any], splits: Splits) -> Entry:
    """What metrics may need of one set, by the names of their parameters; None where there is none."""
    inputs: Entry = {**said, "y": found.y, "truth": found.truth, "prior": splits.prior}
    if "proba" in said and "top" not in said:
        inputs["top"] = TopLabel.of(said["proba"])
    if found.on == "test":
        inputs |= {"X": splits.test.X, "groups": splits.test.groups}
    if found.on == "ood":
        inputs["id_score"] = of_test.get("ood_score")
    return inputs


def _known_inside(found: Predictions) -> Entry:
    return {"in_distribution": True} if found.in_distribution else {}
