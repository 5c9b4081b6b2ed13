"""How long runs that are not done may take, from the seconds that others took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import mean
from typing import Any


@dataclass(frozen=True)
class RunTimes:
    """Mean seconds of finished runs.

    Attributes
    ----------
    by_both : by data set and method.
    by_method, by_dataset : over the others, for what was never run together.
    n_runs : how many records they are of.
    """

    by_both: Mapping[tuple[str, str], float]
    by_method: Mapping[str, float]
    by_dataset: Mapping[str, float]
    n_runs: int

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> RunTimes:
        """Of what a run did itself: a stage that it found in the store cost it nothing, and will
        cost the next one nothing.
        """
        seen = [
            (str(record["dataset"]["name"]), str(record["method"]), _own_seconds(record))
            for record in records
        ]
        both = _means(((dataset, method), seconds) for dataset, method, seconds in seen)
        by_method = _means((method, seconds) for _, method, seconds in seen)
        return cls(
            both, by_method, _means((dataset, seconds) for dataset, _, seconds in seen), len(seen)
        )

    def expected(self, dataset: str, method: str) -> float | None:
        """Seconds of a run: of its like, else of its method on other data, else of others on its
        data; None if nothing is known.
        """
        if (dataset, method) in self.by_both:
            return self.by_both[dataset, method]
        return self.by_method.get(method, self.by_dataset.get(dataset))


def _own_seconds(record: Mapping[str, Any]) -> float:
    return sum(
        seconds for stage, seconds in record["seconds"].items() if stage not in record["from_store"]
    )


def _means(pairs: Iterable[tuple[Any, float]]) -> dict[Any, float]:
    groups: dict[Any, list[float]] = {}
    for key, seconds in pairs:
        groups.setdefault(key, []).append(seconds)
    return {key: mean(values) for key, values in groups.items()}
