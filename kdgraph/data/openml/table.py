"""Tables of openml.org, by their number."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Literal

from kdgraph.data.dataset import Dataset, Kind, Task
from kdgraph.data.frames import Column, ColumnOptions, Require, from_frame, names_as_text, names_of
from kdgraph.errors import DataError
from kdgraph.parameters import Count, Range, check_parameters

if TYPE_CHECKING:
    from kdgraph.data.openml.cache import OpenmlData
    from kdgraph.data.openml.client import Progress


class OpenmlTable:
    """A data set of openml.org: fetched once into the cache of openml-python, read from there.

    A feature is categorical if OpenML describes it as nominal, whatever its values are, and if its values are no numbers, whatever
    OpenML says. The first keeps a set the same through both kinds of files (in ARFF a nominal column is always text), the second is what
    can be computed with. Row ids and columns that OpenML says to ignore are left out.

    Parameters
    ----------
    id : of the data set, as in openml.org/d/44.
    target : a column, or several of numbers or truth values, of which the largest counts; None for the default target of OpenML.
    task, drop, categorical, missing, split_groups, split_column, require, threshold, group, split_at, first_numeric,
    parse_dates, date_format : as in
        :class:`kdgraph.data.frames.ColumnOptions`.
    task_id, fold : a task of OpenML on this data set and one fold of it (of its first repetition): the fold's rows test, the others
        train. Both or none.
    name : what runs are called; None for openml-<id>.
    """

    def __init__(
        self,
        id: Count,
        target: Column | Sequence[Column] | None = None,
        task: Task = "auto",
        drop: Sequence[Column] = (),
        categorical: Sequence[Column] = (),
        missing: Sequence[str | float] = (),
        split_groups: Column | None = None,
        split_column: Column | None = None,
        require: Require = "any",
        task_id: Count | None = None,
        fold: Annotated[int, Range(0)] | None = None,
        name: str | None = None,
        threshold: float | Literal["median"] | None = None,
        group: Column | Sequence[Column] | None = None,
        split_at: Sequence[float] = (),
        first_numeric: Count | None = None,
        parse_dates: Sequence[Column] = (),
        date_format: str | None = None,
    ) -> None:
        self.id = id
        self.target = names_as_text(target)
        self.task: Task = task
        self.drop = names_as_text(drop)
        self.categorical = names_as_text(categorical)
        self.missing = missing
        self.split_groups = names_as_text(split_groups)
        self.split_column = names_as_text(split_column)
        self.require: Require = require
        self.task_id = task_id
        self.fold = fold
        self.threshold: float | Literal["median"] | None = threshold
        self.group = names_as_text(group)
        self.split_at = split_at
        self.first_numeric = first_numeric
        self.parse_dates = names_as_text(parse_dates)
        self.date_format = date_format
        self.name = name or f"openml-{id}"
        check_parameters(self)
        if (task_id is None) != (fold is None):
            raise DataError(f"{self.name}: task_id and fold belong together, got task_id {task_id} and fold {fold}; give both or neither")

    def prefetch(self, progress: Progress | None = None) -> None:
        """Make sure that the rows, and the task's folds, are on this machine, and that ``require`` lets them in.

        Raises
        ------
        NotAtHand : in one line, if not.
        """
        from kdgraph.data.openml.client import fetch
        from kdgraph.data.openml.tasks import fetch_task

        data = fetch(self.id, progress)
        if self.task_id is not None:
            fetch_task(self.task_id, progress)
        if self.require != "any":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # the run reads the table again, and tells
                self._read(data)

    def load(self) -> Dataset:
        """The whole table; fetched first if it is not there.

        Raises
        ------
        NotAtHand, DataError : in one line, if it cannot be had or used.
        """
        from kdgraph.data.openml.client import fetch

        return self._read(fetch(self.id))

    def _read(self, data: OpenmlData) -> Dataset:
        from kdgraph.data.openml.cache import read_frame

        target = self.target or self._default_target(data)
        group = names_of(self.group)
        kept = {*names_of(target), *group, self.split_groups, self.split_column, *self.categorical}
        frame = read_frame(data)
        frame = frame.drop(columns=[name for name in data.left_out if name in frame and name not in kept])
        given = {option.name: getattr(self, option.name) for option in fields(ColumnOptions)}
        only_groups = [name for name in group if name in data.left_out and name not in self.categorical]
        drop = [*(name for name in self.drop if name not in data.left_out), *only_groups]
        options = ColumnOptions(**{**given, "drop": tuple(drop)})
        nominal: dict[str, Kind] = {name: "categorical" for name, kind in data.features.items() if kind == "nominal" and name in frame}
        dataset = from_frame(self.name, frame, target, options=options, facts=data.facts, feature_kinds=nominal)
        return dataset if self.task_id is None else self._with_fold(dataset)

    def _default_target(self, data: OpenmlData) -> str:
        if data.target is None or ("," in data.target and data.target not in data.features):
            found = f"names {'several targets' if data.target else 'no target'} for data set {data.id}"
            columns = ", ".join(list(data.features)[:5]) + (", …" if len(data.features) > 5 else "")
            raise DataError(f"{self.name}: OpenML {found}; choose a column: dataset.target=… ({columns})")
        return data.target

    def _with_fold(self, dataset: Dataset) -> Dataset:
        from kdgraph.data.openml.tasks import read_fold

        assert self.task_id is not None and self.fold is not None
        roles, facts = read_fold(self.task_id, self.fold, self.id, len(dataset.y))
        return replace(dataset, roles=roles, facts={**dataset.facts, **facts})
