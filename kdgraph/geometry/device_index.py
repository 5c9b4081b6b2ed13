"""Class masses and nearest polytopes of activation codes on a GPU: counts by matrix products, everything after them in float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from kdgraph.geometry.code_index import checked, word_starts
from kdgraph.geometry.polytopes import take_rows
from kdgraph.parents.networks.determinism import plain_torch

_BLOCK = 4096
"""Queries at once, and polytopes at once: a block of K is 128 MB, and unpacking codes is small against the product of their signs."""


class DeviceCodeIndex:
    """:class:`~kdgraph.geometry.code_index.CodeIndex` on a ``device`` of torch ("cuda" or "cpu"), with the same parameters.

    Codes of a layer become signs, float32, whose product with other signs is matches - mismatches: every term is ±1 and every partial sum
    an integer below 2^24, so that the counts are exact also where TF32 is allowed (``torch.set_float32_matmul_precision("high")``, several
    times as fast). They would not be with bfloat16, which rounds sums above 256. K is equal to CodeIndex's to the last bit, masses to 1e-12
    of their size. Codes stay packed on the device; nothing of size queries × polytopes is made beyond a block. ``n_jobs`` is not used.
    """

    def __init__(
        self,
        codes: np.ndarray,
        class_weights: np.ndarray,
        widths: np.ndarray | Sequence[int],
        *,
        rows: np.ndarray | None = None,
        n_anchors: int | None = None,
        n_jobs: int | None = None,
        device: str = "cuda",
    ):
        self.n_polytopes, self.n_classes = class_weights.shape
        self.n_anchors = self.n_polytopes if n_anchors is None else n_anchors
        self.n_jobs = n_jobs
        self.device = torch.device(device)
        self._starts, self._widths = word_starts(widths).tolist(), np.asarray(widths).tolist()
        self._codes = self._packed(codes if rows is None else take_rows(codes, rows))
        self._weights = torch.tensor(class_weights, dtype=torch.float64, device=self.device)

    def _packed(self, codes: np.ndarray) -> Tensor:
        """UInt8[n, 8 W] on the device; bit b of byte i is bit 8 i + b of the code."""
        return torch.from_numpy(np.ascontiguousarray(codes, dtype="<u8").view(np.uint8)).to(self.device)

    def _signs(self, packed: Tensor) -> list[Tensor]:
        """Of each layer Float32[n, width]: 1 where the bit is set, -1 where it is not."""
        signs = []
        for layer, width in enumerate(self._widths):
            some = packed[:, 8 * self._starts[layer] : 8 * self._starts[layer + 1], None]
            bits = (some >> torch.arange(8, dtype=torch.uint8, device=self.device)) & 1
            signs.append(2.0 * bits.flatten(1)[:, :width].float() - 1.0)
        return signs

    def mismatches(self, queries: list[Tensor], polytopes: list[Tensor]) -> list[Tensor]:
        """Of each layer Float64[m, p]: in how many units signs differ."""
        return [(width - a @ b.T).double() / 2 for width, a, b in zip(self._widths, queries, polytopes, strict=True)]

    def _block(self, queries: list[Tensor], polytopes: list[Tensor]) -> Tensor:
        """Float64[m, p]: K (Eq. 16 of Dey et al.)."""
        similarity = torch.ones((len(queries[0]), len(polytopes[0])), dtype=torch.float64, device=self.device)
        for width, mismatches in zip(self._widths, self.mismatches(queries, polytopes), strict=True):
            # A plain number would make CUDA multiply by its reciprocal, which is not the same to the last bit.
            similarity *= 1.0 - mismatches / torch.tensor(width, dtype=torch.float64, device=self.device)
        return similarity

    @plain_torch()
    def similarity(self, codes: np.ndarray) -> np.ndarray:
        """Float[m, p]: K of queries UInt64[m, W] and all polytopes; for small m × p only."""
        return self._block(self._signs(self._packed(codes)), self._signs(self._codes)).cpu().numpy()

    @plain_torch()
    def masses(self, codes: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Class masses (Float[m, K, k]) of queries at every exponent, and their nearest anchors (Int[m]), see ``CodeIndex.masses``."""
        exponents = checked(exponents)
        masses = np.empty((len(codes), self.n_classes, len(exponents)))
        nearest = np.empty(len(codes), dtype=np.int64)
        with torch.inference_mode():
            for start in range(0, len(codes), _BLOCK):
                block = slice(start, start + _BLOCK)
                masses[block], nearest[block] = self._masses(self._signs(self._packed(codes[block])), exponents)
        return masses, nearest

    def _masses(self, queries: list[Tensor], exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of one block of queries, over blocks of polytopes."""
        m, on_device = len(queries[0]), {"dtype": torch.float64, "device": self.device}
        masses, most = torch.zeros((m, self.n_classes, len(exponents)), **on_device), torch.zeros(m, **on_device)
        nearest = torch.full((m,), -1, dtype=torch.int64, device=self.device)
        for start in range(0, self.n_polytopes, _BLOCK):
            similarity = self._block(queries, self._signs(self._codes[start : start + _BLOCK]))
            anchors = similarity[:, : max(0, self.n_anchors - start)]
            if anchors.shape[1]:
                first = anchors.argmax(dim=1)  # of several the lowest, as torch promises
                top = anchors.gather(1, first[:, None])[:, 0]
                nearest, most = torch.where(top > most, start + first, nearest), torch.maximum(top, most)
            for k, exponent in enumerate(exponents.tolist()):
                masses[:, :, k] += similarity.pow(exponent) @ self._weights[start : start + _BLOCK]
        return masses.cpu().numpy(), nearest.cpu().numpy()
