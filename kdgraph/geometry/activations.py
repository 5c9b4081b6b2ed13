"""What a torch module calls while it runs: its ReLU-like functions with their on/off bits, its
linear layers with their inputs.

Functions are intercepted as they run, so that a ReLU is heard whether it is a module, a function or
a tensor's method, under whatever name, and in models whose control flow no symbolic tracer can
follow. What runs inside a compiled or scripted module is not heard.

Class masses and nearest polytopes of activation codes on a GPU: counts by matrix products,
everything after them in float64.

Networks as partitions: a code is which of the network's ReLU-like units are on for a sample.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from scipy.special import expit, softmax
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from kdgraph.geometry.code_index import CodeIndex, check_exponents, code_similarity, word_starts
from kdgraph.geometry.partition import Locations, PolytopeIndex, take_rows
from kdgraph.parents.networks.torch_state import default_torch_state, map_batches

_KINK_AT_0 = {"relu", "relu6", "leaky_relu", "prelu", "rrelu", "elu", "selu", "celu"}
_KINK_ARGUMENT = {
    "threshold": "threshold",
    "clamp": "min",
    "clip": "min",
    "clamp_min": "min",
    "hardtanh": "min_val",
}
"""Functions whose second argument is the kink, and its name."""


@dataclass
class _RecordedCall:
    """A linear call with its input, or a ReLU-like one with its bits; ``in_head``: no tensor since
    has more than two axes.
    """

    value: Tensor | None
    in_head: bool = True


class _CallRecorder(TorchFunctionMode):
    """Hears the functions that a network calls: the bits of ReLU-like ones and the inputs of linear
    ones, in the order in which they come.

    ``relu_calls``, ``linear_calls``: the calls whose values are kept, by number; None for all.
    """

    def __init__(
        self, relu_calls: Collection[int] | None = None, linear_calls: Collection[int] | None = None
    ) -> None:
        super().__init__()
        self.recorded_ids = relu_calls, linear_calls
        self.relu_calls: list[_RecordedCall] = []
        self.linear_calls: list[_RecordedCall] = []
        self.output: Tensor | None = None
        self.is_dense = True
        self.last_function = ""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        kink = _kink_position(name, args, kwargs)
        if kink is not None:  # before the call, which may overwrite its input
            self._record(0, self.relu_calls, lambda: args[0] > kink)
        if name == "linear":
            self._record(1, self.linear_calls, lambda: args[0].clone())
        out = func(*args, **kwargs)
        if isinstance(out, Tensor) and name != "__get__":
            self.last_function = name
            if out.ndim > 2:
                self._mark_not_dense()
        return out

    def _record(self, kind: int, calls: list[_RecordedCall], value: Callable[[], Tensor]) -> None:
        wanted = self.recorded_ids[kind]
        calls.append(_RecordedCall(value() if wanted is None or len(calls) in wanted else None))

    def _mark_not_dense(self) -> None:
        self.is_dense = False
        for call in (*self.relu_calls, *self.linear_calls):
            call.in_head = False


def _kink_position(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> float | None:
    """Where the function has the kink that makes it ReLU-like; None for all other functions."""
    name = name.strip("_")
    if name in _KINK_AT_0:
        return 0.0
    if name not in _KINK_ARGUMENT:
        return None
    given = (
        args[1]
        if len(args) > 1
        else kwargs.get(_KINK_ARGUMENT[name], -1.0 if name == "hardtanh" else None)
    )
    return given if isinstance(given, int | float) else None


_DEVICE_BLOCK = 4096
"""Queries at once, and polytopes at once: a block of K is 128 MB, and unpacking codes is small
against the product of their signs.
"""


class DeviceCodeIndex:
    """:class:`~kdgraph.geometry.code_index.CodeIndex` on a ``device`` of torch ("cuda" or "cpu"),
    with the same parameters.

    Codes of a layer become signs, float32, whose product with other signs is matches - mismatches:
    every term is ±1 and every partial sum an integer below 2^24, so that the counts are exact also
    where TF32 is allowed (``torch.set_float32_matmul_precision("high")``, several times as fast).
    They would not be with bfloat16, which rounds sums above 256. K is equal to CodeIndex's to the
    last bit, masses to 1e-12 of their size. Codes stay packed on the device; nothing of size
    queries × polytopes is made beyond a block. ``n_jobs`` is not used.
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
        self._word_starts, self._widths = word_starts(widths).tolist(), np.asarray(widths).tolist()
        self._codes = self._bytes_on_device(codes if rows is None else take_rows(codes, rows))
        self._weights = torch.tensor(class_weights, dtype=torch.float64, device=self.device)

    def _bytes_on_device(self, codes: np.ndarray) -> Tensor:
        """UInt8[n, 8 W] on the device; bit b of byte i is bit 8 i + b of the code."""
        return torch.from_numpy(np.ascontiguousarray(codes, dtype="<u8").view(np.uint8)).to(
            self.device
        )

    def _signs(self, packed: Tensor) -> list[Tensor]:
        """Of each layer Float32[n, width]: 1 where the bit is set, -1 where it is not."""
        signs = []
        for layer, width in enumerate(self._widths):
            some = packed[:, 8 * self._word_starts[layer] : 8 * self._word_starts[layer + 1], None]
            bits = (some >> torch.arange(8, dtype=torch.uint8, device=self.device)) & 1
            signs.append(2.0 * bits.flatten(1)[:, :width].float() - 1.0)
        return signs

    def mismatches(self, queries: list[Tensor], polytopes: list[Tensor]) -> list[Tensor]:
        """Of each layer Float64[m, p]: in how many units signs differ."""
        return [
            (width - a @ b.T).double() / 2
            for width, a, b in zip(self._widths, queries, polytopes, strict=True)
        ]

    def _similarity_block(self, queries: list[Tensor], polytopes: list[Tensor]) -> Tensor:
        """Float64[m, p]: K (Eq. 16 of Dey et al.)."""
        similarity = torch.ones(
            (len(queries[0]), len(polytopes[0])), dtype=torch.float64, device=self.device
        )
        for width, mismatches in zip(
            self._widths, self.mismatches(queries, polytopes), strict=True
        ):
            # A plain number would make CUDA multiply by its reciprocal, which is not the same to
            # the last bit.
            similarity *= 1.0 - mismatches / torch.tensor(
                width, dtype=torch.float64, device=self.device
            )
        return similarity

    @default_torch_state()
    def similarity(self, codes: np.ndarray) -> np.ndarray:
        """Float[m, p]: K of queries UInt64[m, W] and all polytopes; for small m × p only."""
        return (
            self._similarity_block(
                self._signs(self._bytes_on_device(codes)), self._signs(self._codes)
            )
            .cpu()
            .numpy()
        )

    @default_torch_state()
    def query(self, codes: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Class masses (Float[m, K, k]) of queries at every exponent, and their nearest anchors
        (Int[m]), see ``CodeIndex.query``.
        """
        exponents = check_exponents(exponents)
        masses = np.empty((len(codes), self.n_classes, len(exponents)))
        nearest = np.empty(len(codes), dtype=np.int64)
        with torch.inference_mode():
            for start in range(0, len(codes), _DEVICE_BLOCK):
                block = slice(start, start + _DEVICE_BLOCK)
                masses[block], nearest[block] = self._query_block(
                    self._signs(self._bytes_on_device(codes[block])), exponents
                )
        return masses, nearest

    def _query_block(
        self, queries: list[Tensor], exponents: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Of one block of queries, over blocks of polytopes."""
        m, on_device = len(queries[0]), {"dtype": torch.float64, "device": self.device}
        masses, most = (
            torch.zeros((m, self.n_classes, len(exponents)), **on_device),
            torch.zeros(m, **on_device),
        )
        nearest = torch.full((m,), -1, dtype=torch.int64, device=self.device)
        for start in range(0, self.n_polytopes, _DEVICE_BLOCK):
            similarity = self._similarity_block(
                queries, self._signs(self._codes[start : start + _DEVICE_BLOCK])
            )
            anchors = similarity[:, : max(0, self.n_anchors - start)]
            if anchors.shape[1]:
                first = anchors.argmax(dim=1)  # of several the lowest, as torch promises
                top = anchors.gather(1, first[:, None])[:, 0]
                nearest, most = (
                    torch.where(top > most, start + first, nearest),
                    torch.maximum(top, most),
                )
            for k, exponent in enumerate(exponents.tolist()):
                masses[:, :, k] += (
                    similarity.pow(exponent) @ self._weights[start : start + _DEVICE_BLOCK]
                )
        return masses.cpu().numpy(), nearest.cpu().numpy()


_LayerSelection = Literal["head", "all"]
_EmbeddingSpace = Literal["auto", "head", "last", "input"]

_MAX_EMBEDDING_WIDTH = 1024
"""Numbers that an embedding may have; what is wider is a map of features by place, whose Gaussians
see no more than pixels do.
"""


class ActivationPartition:
    """The partition that a network with ReLU-like units cuts its input space into (Dey et al.,
    Section 4.4).

    Parameters
    ----------
    network : a torch module that maps a batch to logits (or to probabilities, by a softmax or
        sigmoid at its end), or an estimator that keeps one as ``module_``, such as those of
        :mod:`kdgraph.parents.networks`.
    n_jobs : threads over batches and over queries; never changes a number.
    output_bits : whether the output's bits, p > 1/K, count as one more layer. Without them, samples
        on two sides of a decision boundary may share a polytope: the posterior of the nearest
        polytope then loses .008 to .089 of error on five of six simulations.
    layers : whose units are read: "all"; or "head", those of the dense head, or of the one layer
    before it if the head has none.
    embedding : the space of the Gaussians (Dey et al., Section 5.2): "head", what enters the dense
        head, which is the input where all of a network is dense; "last", what enters the last
        linear layer; "input"; or "auto": "head", but "last" if that is wider than 1,024.

    Raises
    ------
    TypeError : when rows are first placed, if the network has no ReLU-like unit.

    Notes
    -----
    *ReLU-like* are functions with a kink, below which a unit counts as off: ReLU, ReLU6, leaky,
    parametric and randomised ReLU, ELU, SELU, CELU, hard tanh, threshold, and clamping from below.
    The *dense head* is the end of the network from the first linear layer on behind which every
    tensor is Float[batch, units]: nothing convolves, pools or attends any more.
    """

    def __init__(
        self,
        network: Any,
        n_jobs: int | None = None,
        *,
        output_bits: bool = True,
        layers: _LayerSelection = "all",
        embedding: _EmbeddingSpace = "auto",
    ):
        self.network = network
        self.n_jobs = n_jobs
        self.output_bits = output_bits
        self.layers: _LayerSelection = layers
        self.embedding: _EmbeddingSpace = embedding
        self._plan: _TracePlan | None = None

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
        plan = self._get_plan(X)
        return _flatten_rows(X) if plan.embedding_call is None else self.locate(X).points

    def encode(self, X: Any) -> np.ndarray:
        """UInt64[n, W], column by column in memory: a bit for each unit, each layer from a new word
        on, low bits first.
        """
        return self.locate(X).codes

    def locate(self, X: Any) -> Locations:
        """Points, codes and the network's own probabilities, in one pass through it; X is an array
        or a data frame of numbers.
        """
        X = np.asarray(X)
        read = _ActivationReader(self._module_on_device(), self._get_plan(X), self.output_bits)
        codes, proba, *points = map_batches(
            X, read, input_shape=X.shape[1:], device=self.device, n_jobs=self.n_jobs
        )
        return Locations(points[0] if points else _flatten_rows(X), np.asfortranarray(codes), proba)

    def similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Float[m, n]: K(r, s), the product over layers of the share of units that agree (Eq. 16),
        of UInt64[m, W] and UInt64[n, W].
        """
        return code_similarity(a, b, self.widths)

    def paired_similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Float[n]: K of each code in ``a`` (UInt64[n, W]) with the one beside it in ``b``."""
        similarity, starts = np.ones(len(a)), word_starts(self.widths)
        for layer, width in enumerate(self.widths):
            words = slice(starts[layer], starts[layer + 1])
            similarity *= 1.0 - np.bitwise_count(a[:, words] ^ b[:, words]).sum(axis=1) / width
        return similarity

    def vote(self, locations: Locations) -> np.ndarray:
        """Float[n, K]: the network's own probabilities, which :meth:`place` found."""
        assert locations.proba is not None
        return locations.proba

    def index(
        self,
        codes: np.ndarray,
        class_weights: np.ndarray,
        *,
        rows: np.ndarray | None = None,
        n_anchors: int | None = None,
    ) -> PolytopeIndex:
        """An index of polytopes, the ``rows`` of ``codes`` that stand for them, with their class
        masses (Float[p, K]).
        """
        if self.device == "cpu":
            return CodeIndex(
                codes,
                class_weights,
                self.widths,
                rows=rows,
                n_anchors=n_anchors,
                n_jobs=self.n_jobs,
            )

        return DeviceCodeIndex(
            codes, class_weights, self.widths, rows=rows, n_anchors=n_anchors, device=self.device
        )

    def _module_on_device(self) -> nn.Module:
        """In eval mode; a copy where it has to move."""
        module = self.module.eval()
        return module if self.device == "cpu" else copy.deepcopy(module).to(self.device)

    def _get_plan(self, X: np.ndarray) -> _TracePlan:
        """What to read of the network; found on its first batch."""
        if self._plan is None:
            self._plan = _make_plan(_record_calls(self._module_on_device(), X, self.device), self)
        return self._plan


@dataclass(frozen=True)
class _TracePlan:
    """What to read of a network.

    Attributes
    ----------
    relu_calls : which of the ReLU-like calls, by the order in which they come.
    embedding_call : which of the linear calls takes the embedding in; None where that is the network's
    input.
    widths : Int[L], units by layer, the output last.
    outputs_probabilities : whether the network's output are probabilities already.
    """

    relu_calls: tuple[int, ...]
    embedding_call: int | None
    widths: np.ndarray
    outputs_probabilities: bool

    @np.errstate(under="ignore")
    def probabilities(self, output: Tensor) -> np.ndarray:
        """Float64[batch, K] of what the network puts out; a single column belongs to the second of
        two classes.
        """
        values = np.nan_to_num(output.flatten(1).cpu().numpy()).astype(np.float64)
        if values.shape[1] == 1:
            second = values if self.outputs_probabilities else expit(values)
            return np.concatenate([1 - second, second], axis=1)
        return (
            values / values.sum(axis=1, keepdims=True)
            if self.outputs_probabilities
            else softmax(values, axis=1)
        )


def _record_calls(module: nn.Module, X: np.ndarray, device: str) -> _CallRecorder:
    """What ``module`` calls for one batch."""
    listener = _CallRecorder()

    def look(batch: Tensor) -> tuple[np.ndarray]:
        listener.is_dense = batch.ndim == 2
        with listener:
            output = module(batch)
        listener.output = output
        return (np.empty(len(batch)),)

    map_batches(X[:1], look, input_shape=X.shape[1:], device=device, n_jobs=1)
    return listener


def _make_plan(recorder: _CallRecorder, partition: ActivationPartition) -> _TracePlan:
    """Which of the calls that were heard to read from now on."""
    if not recorder.relu_calls:
        raise TypeError(
            f"{type(partition.module).__name__} has no ReLU-like unit to read (relu, leaky_relu, elu,"
            f" clamp, …); its calls end in {recorder.last_function}"
        )
    gates = [
        i for i, call in enumerate(recorder.relu_calls) if call.in_head or partition.layers == "all"
    ] or [len(recorder.relu_calls) - 1]
    assert recorder.output is not None
    normalised = recorder.last_function in ("softmax", "sigmoid")
    outputs = max(2, recorder.output.flatten(1).shape[1])
    widths = [_call_values(recorder.relu_calls[i]).shape[1] for i in gates]
    return _TracePlan(
        tuple(gates),
        _embedding_call(recorder, partition.embedding),
        np.array([*widths, *([outputs] if partition.output_bits else [])]),
        normalised,
    )


def _embedding_call(recorder: _CallRecorder, embedding: _EmbeddingSpace) -> int | None:
    """The number of the linear call that takes the embedding in."""
    head = [i for i, call in enumerate(recorder.linear_calls) if call.in_head]
    if embedding == "input" or not head or (embedding in ("auto", "head") and recorder.is_dense):
        return None
    wide = (
        embedding == "auto"
        and _call_values(recorder.linear_calls[head[0]]).shape[1] > _MAX_EMBEDDING_WIDTH
    )
    return head[-1] if wide or embedding == "last" else head[0]


@dataclass(frozen=True)
class _ActivationReader:
    """One batch through the network: packed bits, probabilities, points unless they are the
    input.
    """

    module: nn.Module
    plan: _TracePlan
    output_bits: bool

    def __call__(self, batch: Tensor) -> tuple[np.ndarray, ...]:
        point = self.plan.embedding_call
        with _CallRecorder(self.plan.relu_calls, () if point is None else (point,)) as heard:
            output = self.module(batch)
        proba = self.plan.probabilities(output)
        bits = [_call_values(heard.relu_calls[i]) for i in self.plan.relu_calls]
        if self.output_bits:
            bits.append(proba > 1 / proba.shape[1])
        points = (
            [] if point is None else [_call_values(heard.linear_calls[point]).astype(np.float64)]
        )
        return pack_bits(bits), proba, *points


def _call_values(call: _RecordedCall) -> np.ndarray:
    """[batch, units]: what was kept of a call."""
    assert call.value is not None
    return call.value.flatten(1).cpu().numpy()


def pack_bits(layers: Sequence[np.ndarray]) -> np.ndarray:
    """UInt64[n, W]: bits by layer (Bool[n, units] each), low bits first, every layer from a new
    word on.

    They are the activations of Dey et al., Section 4.4: 1 where a unit is on.
    """
    words = []
    for bits in layers:
        octets = np.packbits(bits, axis=1, bitorder="little")
        padding = -octets.shape[1] % 8
        words.append(np.pad(octets, ((0, 0), (0, padding))).view("<u8"))
    return np.concatenate(words, axis=1)


def _flatten_rows(X: np.ndarray) -> np.ndarray:
    return np.asarray(X, dtype=np.float64).reshape(len(X), -1)
