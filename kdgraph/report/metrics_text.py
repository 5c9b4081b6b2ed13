"""Words and numbers of a record's metrics, shared by all tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from kdgraph.metrics import METRICS

Record = Mapping[str, Any]
Entry = Mapping[str, Any]

MISSING = "–"


def entries(record: Record, of: str = "parent") -> list[Entry]:
    """The record's metrics of the parent or of the calibrated model, in the order of the config."""
    return [entry for entry in record["metrics"] if entry["of"] == of]


def label(record: Record, entry: Entry) -> str:
    """What a table calls the metric: ``ECE (15 bins)``, ``confidence at radius 2``, ``confidence on ellipse, axis 30``."""
    known = METRICS.get(entry["metric"])
    name = known.label if known else entry["metric"]
    if entry["on"] == "ood":
        return f"{'confidence' if entry['metric'] == 'mmc' else name} {_where(entry, record)}"
    options = (record["config"]["metrics"].get(entry["on"]) or {}).get(entry["metric"]) or {}
    words = [_option(key, value) for key, value in options.items() if isinstance(value, int | float) and not isinstance(value, bool)]
    return name + (f" ({', '.join(words)})" if words else "") + (" on the grid" if entry["on"] == "grid" else "")


def column_names(record: Record) -> tuple[str, str]:
    """What parent and calibrated model are called above their columns."""
    gate = record["gate"]
    return record["parent"], record["calibrator"] + (f" + {gate}" if gate != "none" else "")


def number(value: float | None) -> str:
    """Three decimals, or a dash where there is no value."""
    return MISSING if value is None else f"{value:.3f}"


def distance_from_ideal(entry: Entry, prior: Sequence[float]) -> float | None:
    """How far a value is from the best there could be, or None where neither direction is better.

    Far from the data the best mean confidence is the largest prior; up to radius 1, and where a family of sets meets the training data,
    there is data.
    """
    if entry["value"] is None or entry["params"].get("radius", math.inf) <= 1 or entry.get("in_distribution"):
        return None
    if entry["on"] == "ood" and entry["metric"] == "mmc":
        return abs(entry["value"] - max(prior))
    known = METRICS.get(entry["metric"])
    return {"lower": 1, "higher": -1}[known.better] * entry["value"] if known and known.better != "neither" else None


def far_field(found: Sequence[Entry], at_most: int) -> list[Entry]:
    """One metric (mean confidence if it is there) on some of the out-of-distribution sets.

    Of many radii, ``at_most`` of 1, 2 and 5; of another family of many sets, ``at_most`` that are spread over it, none in distribution.
    """
    found = [entry for entry in found if entry["on"] == "ood"]
    metric = "mmc" if any(entry["metric"] == "mmc" for entry in found) else next((entry["metric"] for entry in found), None)
    found = [entry for entry in found if entry["metric"] == metric]
    shells = [entry for entry in found if "radius" in entry["params"]]
    wanted = [entry for radius in (2, 1, 5) for entry in shells if entry["params"]["radius"] == radius] or shells
    chosen = wanted[:at_most]
    for name in dict.fromkeys(entry["ood"] for entry in found if entry not in shells):
        family = [entry for entry in found if entry["ood"] == name and entry not in shells]
        chosen += family if len(family) == 1 else _spread([entry for entry in family if not entry.get("in_distribution")], at_most)
    return [entry for entry in found if entry in chosen]


def _spread(family: Sequence[Entry], at_most: int) -> list[Entry]:
    """The middle of each of ``at_most`` equal parts of a family."""
    parts = min(at_most, len(family))
    return [family[(2 * i + 1) * len(family) // (2 * parts)] for i in range(parts)]


def _where(entry: Entry, record: Record) -> str:
    if "radius" in entry["params"]:
        return f"at radius {entry['params']['radius']:g}"
    params = [other["params"] for other in record["metrics"] if other["ood"] == entry["ood"]]
    several = any(other != entry["params"] for other in params)
    if not several:
        return f"on {entry['ood']}"
    return "on " + ", ".join(
        [*([] if entry["ood"] in entry["params"] else [entry["ood"]]), *(f"{k} {v:g}" for k, v in entry["params"].items())]
    )


def _option(key: str, value: float) -> str:
    return f"{value:g} {key}" if key == "bins" else f"{key} {value:g}"
