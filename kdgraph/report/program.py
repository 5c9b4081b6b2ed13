"""A program in Python that does with the library what a config describes.

Original to kdgraph.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from kdgraph.base.posthoc import any_requires_training_rows
from kdgraph.config.components import build, target_of

_FIT_ON_PARTS = "X[:n], y[:n], X_calibration=X[n:], y_calibration=y[n:]"
_OPTIONS: Mapping[str, Any] = {
    **{"trust": False, "object": None, "task": "auto", "outputs": "auto", "output": None},
    **{"classes": None, "unseen": "refuse", "missing_category": None},
}
"""Options of ``load_fitted`` and their defaults."""
_NOT_PARAMETERS = ("name", "_target_")


def repair_program(
    nodes: Mapping[str, Mapping[str, Any]],
    *,
    model: Mapping[str, Any],
    data: str,
    target: str,
    text: Sequence[str],
    trains: bool,
) -> str:
    """Return a program that applies a repair to the model of a file.

    ``nodes`` are those of calibrator and gate by group, of which ones without a ``_target_`` are
    left out, and ``model`` is that of the parent. ``text`` are columns of numbers that the user
    declares to be names. With ``trains``, a component needs training rows beside calibration rows.

    >>> temperature = {"_target_": "kdgraph.calibration.ScoreMap", "method": "temperature"}
    >>> program = repair_program(
    ...     {"calibrator": temperature},
    ...     model={"path": "model.txt"},
    ...     data="new.csv",
    ...     target="income",
    ...     text=["zip"],
    ...     trains=False,
    ... )
    >>> print(program.splitlines()[-3])
    calibrator = ScoreMap(FrozenEstimator(parent), method='temperature', random_state=0)
    """
    source = _Source()
    steps, below = [], "parent"
    for group in ("calibrator", "gate"):
        node = nodes.get(group) or {}
        if node.get("_target_") is None:
            continue
        made = source.constructor(node, [f"FrozenEstimator({below})"], ["random_state=0"])
        on_parts = any_requires_training_rows([build(node, estimator=None)])
        steps += [f"{group} = {made}", f"{group}.fit({_FIT_ON_PARTS if on_parts else 'X, y'})"]
        below = group
    read = f"pd.read_parquet({data!r})"
    if not data.lower().endswith((".parquet", ".pq")):
        dtype = dict.fromkeys(text, "str")
        read = f"pd.read_csv({data!r}{f', dtype={dtype}' if dtype else ''})"
    options = "".join(
        f", {name}={model[name]!r}"
        for name, usual in _OPTIONS.items()
        if model.get(name, usual) != usual
    )
    share = ["n = int(0.7 * len(X))  # these give the density, the others calibrate"]
    return "\n".join(
        [
            "import pandas as pd",
            "from sklearn.frozen import FrozenEstimator",
            "",
            *sorted({*source.imports, "from kdgraph import load_fitted"}),
            "",
            f"rows = {read}.sample(frac=1, random_state=0)",
            f"X, y = rows.drop(columns={target!r}), rows[{target!r}]",
            *(share if trains else []),
            f"parent = load_fitted({str(model['path'])!r}{options})"
            f".fit({'X[:n], y[:n]' if trains else 'X, y'})",
            *steps,
            f"print({below}.predict_proba(X[:3]))",
        ]
    )


class _Source:
    """Source code of values of a config, and the imports that it needs."""

    def __init__(self) -> None:
        self.imports: set[str] = set()

    def constructor(
        self, node: Mapping[str, Any], first: Sequence[str] = (), last: Sequence[str] = ()
    ) -> str:
        """Return the call that makes a component, with the parameters that are no defaults."""
        kind = target_of(node)
        module, _, name = str(node["_target_"]).rpartition(".")
        self.imports.add(f"from {module} import {name}")
        parameters = inspect.signature(kind).parameters
        given = {key: node[key] for key in node if key not in _NOT_PARAMETERS}
        words = [
            f"{key}={self._value(value)}"
            for key, value in given.items()
            if key not in parameters or value != parameters[key].default
        ]
        if not first and "estimator" in parameters:
            first = ["None"]  # whoever takes the component gives it the model
        last = [word for word in last if word.partition("=")[0] in parameters]
        return f"{name}({', '.join([*first, *words, *last])})"

    def _value(self, value: Any) -> str:
        if isinstance(value, Mapping):
            if "_target_" in value:
                return self.constructor(value)
            items = (f"{key!r}: {self._value(item)}" for key, item in value.items())
            return "{" + ", ".join(items) + "}"
        return repr(value)
