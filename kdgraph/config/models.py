"""The model of a run, built of its components: a parent, and what is fitted after it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kdgraph.config.components import errors_by_key
from kdgraph.config.run_config import RunConfig

if TYPE_CHECKING:
    from kdgraph.base import FittedModel


def unfitted_model(config: RunConfig) -> FittedModel | None:
    """Return the model that a config describes, built of its components and not fitted.

    Whether they go together is for :func:`kdgraph.config.compatibility.check_model` to find out.
    None where a function makes the parent: it may read a file or train, so it is called when the
    run needs its result.
    """
    from kdgraph.base import FittedModel

    if not inspect.isclass(config.component("parent").target):
        return None
    with errors_by_key("parent", config.parent):
        parent = config.component("parent").build()
    after: dict[str, Any] = {}
    for group, node in config.after.items():
        with errors_by_key(group, node):
            component = config.component(group).build(
                estimator=upstream_of(group, parent, after)[1],
                calibration="held_out" if group == "conformal" else config.calibration,
            )
        if component is not None:
            after[group] = component
    return FittedModel(parent, after)


def upstream_of(group: str, parent: Any, after: Mapping[str, Any]) -> tuple[str, Any]:
    """Return group and component that a group's component is fitted on.

    For the gate it is the calibrator, if there is one. For prediction sets it is the last component
    that predicts probabilities. For all others it is the parent.
    """
    candidates = {"gate": ("calibrator",), "conformal": ("gate", "calibrator")}.get(group, ())
    below = next((name for name in candidates if name in after), "parent")
    return below, after.get(below, parent)
