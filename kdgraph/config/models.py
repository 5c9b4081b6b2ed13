"""The components of a run, built once and not fitted: a parent, and what is fitted after it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kdgraph.config.components import ResolvedNode, errors_by_key
from kdgraph.parameters import CalibrationMode, Protocol

if TYPE_CHECKING:
    from kdgraph.base import FittedModel


@dataclass(frozen=True)
class RunComponents:
    """Components of a run, and the choices of its config that decide how they are fitted.

    Stages fit instances of their own, which have the seed of the run.

    Attributes
    ----------
    names : mapping
        Group → name of its option.
    parent : estimator or None
        None where a function makes the parent: it may read a file or train, so it is called when
        the run needs its result.
    after : mapping
        Group → what is fitted after the parent, without groups that have nothing.
    source, preprocess : objects
        Source of the rows, and what encodes them for the parent.
    has_ood, has_grid : bool
        True if the run predicts rows out of distribution, or on a grid.
    scale : str
        Scaling of the rows.
    """

    names: Mapping[str, str]
    parent: Any
    after: Mapping[str, Any]
    source: Any
    preprocess: Any
    has_ood: bool
    has_grid: bool
    scale: str
    calibration: CalibrationMode
    protocol: Protocol

    def choice(self, group: str) -> str:
        """Return the override that chooses the component of a group, as errors name it."""
        return f"{group}={self.names[group]}"

    @property
    def model(self) -> FittedModel | None:
        """Parent and components as one model; None while the parent is unknown."""
        from kdgraph.base import FittedModel

        return None if self.parent is None else FittedModel(self.parent, self.after)


def build_components(
    nodes: Mapping[str, ResolvedNode],
    fitted_after: Iterable[str],
    *,
    has_grid: bool,
    calibration: CalibrationMode,
    protocol: Protocol,
) -> RunComponents:
    """Return the components that resolved nodes describe.

    Whether they go together is for :func:`kdgraph.config.compatibility.check_components` to find
    out. ``fitted_after`` has the groups after the parent, in their order. A parameter out of range,
    and a model from a file that cannot be read, raise KdgError.
    """
    parent, node = None, nodes["parent"]
    if inspect.isclass(node.target):
        with errors_by_key("parent", node.node):
            parent = node.build()
            if is_fitted_elsewhere(parent):
                parent.check_file()
    after: dict[str, Any] = {}
    for group in fitted_after:
        with errors_by_key(group, nodes[group].node):
            component = nodes[group].build(
                estimator=upstream_of(group, parent, after)[1],
                calibration="held_out" if group == "conformal" else calibration,
            )
        if component is not None:
            after[group] = component
    return RunComponents(
        names={group: str(resolved.node["name"]) for group, resolved in nodes.items()},
        parent=parent,
        after=after,
        source=nodes["dataset"].build(),
        preprocess=nodes["preprocess"].build(),
        has_ood=nodes["ood"].target is not None,
        has_grid=has_grid,
        scale=str(nodes["dataset"].node.get("scale", "none")),
        calibration=calibration,
        protocol=protocol,
    )


def upstream_of(group: str, parent: Any, after: Mapping[str, Any]) -> tuple[str, Any]:
    """Return group and component that a group's component is fitted on.

    For the gate it is the calibrator, if there is one. For prediction sets it is the last component
    that predicts probabilities. For all others it is the parent.
    """
    candidates = {"gate": ("calibrator",), "conformal": ("gate", "calibrator")}.get(group, ())
    below = next((name for name in candidates if name in after), "parent")
    return below, after.get(below, parent)


def is_fitted_elsewhere(parent: Any) -> bool:
    """Return whether a parent is a model from a file, which is not trained here."""
    return hasattr(parent, "check_file")
