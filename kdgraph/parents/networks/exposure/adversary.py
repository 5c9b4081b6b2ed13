"""ACET: the worst outliers near those that are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from kdgraph.parameters import Count, Positive
from kdgraph.parents.networks.exposure.base import OutliersBeside
from kdgraph.parents.networks.exposure.losses import Ceda, largest_log_probability
from kdgraph.parents.networks.exposure.outliers import Draw

RADIUS = {True: 0.3, False: 0.1}
"""By whether rows are images."""
REACH = 2.5
"""What all steps add up to, in radii: they can go from any place of the ball to any other."""


@dataclass(eq=False, repr=False, kw_only=True)
class Acet(Ceda):
    """Adversarial confidence enhancing training: CEDA on the outliers of highest confidence within a ball around those that are drawn.

    Parameters
    ----------
    radius : of the ball in the maximum norm: of images in intensities, of vectors as a share of each feature's range in training rows.
        None: 0.3 of images, as in the paper; 0.1 of vectors, where larger balls around noise reach rows in distribution.
    steps : of the search; the paper has 40, each costs a pass forth and back.
    **others : those of :class:`Ceda`.

    Notes
    -----
    The search goes ``steps`` times by 2.5 radius / steps along the sign of the gradient of max_k log p_k, back into the ball and, of
    images, into [0, 1]; of all places on the way it takes the one of highest confidence. The network is in eval mode meanwhile. Norm and
    radius are the paper's; its search has no fixed size of a step, but halves it when one fails.

    References
    ----------
    Hein, Andriushchenko, Bitterwolf, "Why ReLU networks yield high-confidence predictions far away from the training data and how to
    mitigate the problem", CVPR 2019, Section 4.
    """

    radius: Positive | None = None
    steps: Count = 40

    def beside(self, module: nn.Module, rows: np.ndarray, draw: Draw, device: str, rng: np.random.Generator) -> OutliersBeside | None:
        """The same, with the search before each step."""
        beside = super().beside(module, rows, draw, device, rng)
        if beside is None:
            return None
        are_images = rows.ndim == 4
        span = torch.ones(1) if are_images else torch.from_numpy(rows.max(axis=0) - rows.min(axis=0))
        radius = RADIUS[are_images] if self.radius is None else self.radius

        def harder(module: nn.Module, outliers: Tensor) -> Tensor:
            reach = radius * span.to(outliers.device)
            return ascended(module, outliers, largest_log_probability, reach, self.steps, (0.0, 1.0) if are_images else None)

        return replace(beside, harder=harder)


def ascended(
    module: nn.Module,
    start: Tensor,
    of: Callable[[Tensor], Tensor],
    radius: Tensor,
    steps: int,
    within: tuple[float, float] | None = None,
) -> Tensor:
    """Rows near ``start`` for which a function of the module's outputs is high, found by projected steps along the gradient's sign; ours.

    Parameters
    ----------
    module : is in eval mode meanwhile; its weights and their gradients stay as they are.
    start : Float32[n, …].
    of : outputs Float32[n, K] → Float32[n].
    radius : Float32, one for all numbers of a row or one for each.
    steps : of size 2.5 radius / steps.
    within : no number of a row leaves this interval.

    Returns
    -------
    Float32[n, …]
        For each row the best of the places on the way, of which ``start`` is the first.
    """
    was_training = module.training
    module.eval()
    best, highest, place = start, torch.full((len(start),), -torch.inf, device=start.device), start
    for step in range(steps + 1):
        place = place.detach().requires_grad_()
        values = of(module(place).float())
        better = values.detach() > highest
        best = torch.where(better.view(-1, *[1] * (start.ndim - 1)), place.detach(), best)
        highest = torch.where(better, values.detach(), highest)
        if step < steps:
            (gradient,) = torch.autograd.grad(values.sum(), place)
            moved = place.detach() + REACH / steps * radius * gradient.sign()
            moved = torch.minimum(torch.maximum(moved, start - radius), start + radius)
            place = moved if within is None else moved.clamp(*within)
    module.train(was_training)
    return best
