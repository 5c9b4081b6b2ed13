"""Descriptions of the metrics of a record, for records that tests write by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kdgraph.metrics import METRICS, about


def about_metrics(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Descriptions of metrics, also of one that kdgraph does not have."""
    return {
        name: about(name) if name in METRICS else {"label": name, "better": None} for name in names
    }
