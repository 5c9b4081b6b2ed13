"""Networks as partitions: a code is which of the network's ReLU-like units are on for a sample."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from scipy.special import expit, softmax
from torch import Tensor, nn

from kdgraph.geometry.code_index import CodeIndex, code_similarity, word_starts
from kdgraph.geometry.listener import Call, Listener
from kdgraph.geometry.partition import PolytopeIndex
from kdgraph.geometry.place import Place
from kdgraph.parents.networks.inference import in_batches

Layers = Literal["head", "all"]
Embedding = Literal["auto", "head", "last", "input"]

_WIDEST = 1024
"""Numbers that an embedding may have; what is wider is a map of features by place, whose Gaussians see no more than pixels do."""


class ActivationPartition:
    """The partition that a network with ReLU-like units cuts its input space into (Dey et al., Section 4.4).

    Parameters
    ----------
    network : a torch module that maps a batch to logits (or to probabilities, by a softmax or sigmoid at its end), or an estimator
        that keeps one as ``module_``, such as those of :mod:`kdgraph.parents.networks`.
    n_jobs : threads over batches and over queries; never changes a number.
    output_bits : whether the output's bits, p > 1/K, count as one more layer. Without them, samples on two sides of a decision boundary
        may share a polytope: the posterior of the nearest polytope then loses .008 to .089 of error on five of six simulations.
    layers : whose units are read: "all"; or "head", those of the dense head, or of the one layer before it if the head has none.
    embedding : the space of the Gaussians (Dey et al., Section 5.2): "head", what enters the dense head, which is the input where all of a
        network is dense; "last", what enters the last linear layer; "input"; or "auto": "head", but "last" if that is wider than 1,024.

    Raises
    ------
    TypeError : when rows are first placed, if the network has no ReLU-like unit.

    Notes
    -----
    *ReLU-like* are functions with a kink, below which a unit counts as off: ReLU, ReLU6, leaky, parametric and randomised ReLU, ELU, SELU,
    CELU, hard tanh, threshold, and clamping from below. The *dense head* is the end of the network from the first linear layer on behind
    which every tensor is Float[batch, units]: nothing convolves, pools or attends any more.
    """

    def __init__(
        self,
        network: Any,
        n_jobs: int | None = None,
        *,
        output_bits: bool = True,
        layers: Layers = "all",
        embedding: Embedding = "auto",
    ):
        self.network = network
        self.n_jobs = n_jobs
        self.output_bits = output_bits
        self.layers: Layers = layers
        self.embedding: Embedding = embedding
        self._plan: _Plan | None = None

    @property
    def module(self) -> nn.Module:
        """The torch module."""
        return getattr(self.network, "module_", self.network)

    @property
    def device(self) -> str:
        """Where it runs: as the estimator says, or where the module is."""
        if isinstance(self.network, nn.Module):
            return next((parameter.device.type for parameter in self.network.parameters()), "cpu")
        wanted = getattr(self.network, "device", "cpu")
        return "cuda" if wanted in ("auto", "cuda") and torch.cuda.is_available() else "cpu"

    @property
    def widths(self) -> np.ndarray:
        """Int[L]: units by layer, the output last; known once rows were placed."""
        if self._plan is None:
            raise ValueError("the widths of the layers are known once rows were placed")
        return self._plan.widths

    def embed(self, X: Any) -> np.ndarray:
        """Float[n, m]: where the Gaussians of the polytopes live."""
        X = np.asarray(X)
        plan = self._planned(X)
        return _flat(X) if plan.point is None else self.place(X).points

    def encode(self, X: Any) -> np.ndarray:
        """UInt64[n, W], column by column in memory: a bit for each unit, each layer from a new word on, low bits first."""
        return self.place(X).codes

    def place(self, X: Any) -> Place:
        """Points, codes and the network's own probabilities, in one pass through it; X is an array or a data frame of numbers."""
        X = np.asarray(X)
        read = _Reading(self._on_device(), self._planned(X), self.output_bits)
        codes, proba, *points = in_batches(X, read, input_shape=X.shape[1:], device=self.device, n_jobs=self.n_jobs)
        return Place(points[0] if points else _flat(X), np.asfortranarray(codes), proba)

    def similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Float[m, n]: K(r, s), the product over layers of the share of units that agree (Eq. 16), of UInt64[m, W] and UInt64[n, W]."""
        return code_similarity(a, b, self.widths)

    def paired_similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Float[n]: K of each code in ``a`` (UInt64[n, W]) with the one beside it in ``b``."""
        similarity, starts = np.ones(len(a)), word_starts(self.widths)
        for layer, width in enumerate(self.widths):
            words = slice(starts[layer], starts[layer + 1])
            similarity *= 1.0 - np.bitwise_count(a[:, words] ^ b[:, words]).sum(axis=1) / width
        return similarity

    def vote(self, place: Place) -> np.ndarray:
        """Float[n, K]: the network's own probabilities, which :meth:`place` found."""
        assert place.proba is not None
        return place.proba

    def index(
        self, codes: np.ndarray, class_weights: np.ndarray, *, rows: np.ndarray | None = None, n_anchors: int | None = None
    ) -> PolytopeIndex:
        """An index of polytopes, the ``rows`` of ``codes`` that stand for them, with their class masses (Float[p, K])."""
        if self.device == "cpu":
            return CodeIndex(codes, class_weights, self.widths, rows=rows, n_anchors=n_anchors, n_jobs=self.n_jobs)
        from kdgraph.geometry.device_index import DeviceCodeIndex

        return DeviceCodeIndex(codes, class_weights, self.widths, rows=rows, n_anchors=n_anchors, device=self.device)

    def _on_device(self) -> nn.Module:
        """In eval mode; a copy where it has to move."""
        module = self.module.eval()
        return module if self.device == "cpu" else copy.deepcopy(module).to(self.device)

    def _planned(self, X: np.ndarray) -> _Plan:
        """What to read of the network; found on its first batch."""
        if self._plan is None:
            self._plan = _plan_of(_listen(self._on_device(), X, self.device), self)
        return self._plan


@dataclass(frozen=True)
class _Plan:
    """What to read of a network.

    Attributes
    ----------
    gates : which of the ReLU-like calls, by the order in which they come.
    point : which of the linear calls takes the embedding in; None where that is the network's input.
    widths : Int[L], units by layer, the output last.
    normalised : whether the network's output are probabilities already.
    """

    gates: tuple[int, ...]
    point: int | None
    widths: np.ndarray
    normalised: bool

    @np.errstate(under="ignore")
    def probabilities(self, output: Tensor) -> np.ndarray:
        """Float64[batch, K] of what the network puts out; a single column belongs to the second of two classes."""
        values = np.nan_to_num(output.flatten(1).cpu().numpy()).astype(np.float64)
        if values.shape[1] == 1:
            second = values if self.normalised else expit(values)
            return np.concatenate([1 - second, second], axis=1)
        return values / values.sum(axis=1, keepdims=True) if self.normalised else softmax(values, axis=1)


def _listen(module: nn.Module, X: np.ndarray, device: str) -> Listener:
    """What ``module`` calls for one batch."""
    listener = Listener()

    def look(batch: Tensor) -> tuple[np.ndarray]:
        listener.dense_throughout = batch.ndim == 2
        with listener:
            output = module(batch)
        listener.output = output
        return (np.empty(len(batch)),)

    in_batches(X[:1], look, input_shape=X.shape[1:], device=device, n_jobs=1)
    return listener


def _plan_of(heard: Listener, wanted: ActivationPartition) -> _Plan:
    """Which of the calls that were heard to read from now on."""
    if not heard.gates:
        raise TypeError(
            f"{type(wanted.module).__name__} has no ReLU-like unit to read (relu, leaky_relu, elu, clamp, …); its calls end in {heard.last}"
        )
    gates = [i for i, call in enumerate(heard.gates) if call.in_head or wanted.layers == "all"] or [len(heard.gates) - 1]
    assert heard.output is not None
    normalised = heard.last in ("softmax", "sigmoid")
    outputs = max(2, heard.output.flatten(1).shape[1])
    widths = [_array(heard.gates[i]).shape[1] for i in gates]
    return _Plan(tuple(gates), _point(heard, wanted.embedding), np.array([*widths, *([outputs] if wanted.output_bits else [])]), normalised)


def _point(heard: Listener, embedding: Embedding) -> int | None:
    """The number of the linear call that takes the embedding in."""
    head = [i for i, call in enumerate(heard.linears) if call.in_head]
    if embedding == "input" or not head or (embedding in ("auto", "head") and heard.dense_throughout):
        return None
    wide = embedding == "auto" and _array(heard.linears[head[0]]).shape[1] > _WIDEST
    return head[-1] if wide or embedding == "last" else head[0]


@dataclass(frozen=True)
class _Reading:
    """One batch through the network: packed bits, probabilities, points unless they are the input."""

    module: nn.Module
    plan: _Plan
    output_bits: bool

    def __call__(self, batch: Tensor) -> tuple[np.ndarray, ...]:
        point = self.plan.point
        with Listener(self.plan.gates, () if point is None else (point,)) as heard:
            output = self.module(batch)
        proba = self.plan.probabilities(output)
        bits = [_array(heard.gates[i]) for i in self.plan.gates]
        if self.output_bits:
            bits.append(proba > 1 / proba.shape[1])
        points = [] if point is None else [_array(heard.linears[point]).astype(np.float64)]
        return packed(bits), proba, *points


def _array(call: Call) -> np.ndarray:
    """[batch, units]: what was kept of a call."""
    assert call.value is not None
    return call.value.flatten(1).cpu().numpy()


def packed(layers: Sequence[np.ndarray]) -> np.ndarray:
    """UInt64[n, W]: bits by layer (Bool[n, units] each), low bits first, every layer from a new word on.

    They are the activations of Dey et al., Section 4.4: 1 where a unit is on.
    """
    words = []
    for bits in layers:
        octets = np.packbits(bits, axis=1, bitorder="little")
        padding = -octets.shape[1] % 8
        words.append(np.pad(octets, ((0, 0), (0, padding))).view("<u8"))
    return np.concatenate(words, axis=1)


def _flat(X: np.ndarray) -> np.ndarray:
    return np.asarray(X, dtype=np.float64).reshape(len(X), -1)
