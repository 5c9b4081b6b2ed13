"""Partitions of networks with ReLU-like units, and an index of their polytopes on a GPU.

The code of a row has one bit for each ReLU-like unit of the network: 1 where the unit is on (Dey
et al. 2024, Section 4.4). :class:`ActivationPartition` computes codes in one pass through any torch
module. It records the ReLU-like functions and linear layers that the module calls while it runs, so
that the module can define its forward pass in any way. :class:`DeviceCodeIndex` is the counterpart
of :class:`~kdgraph.geometry.code_index.CodeIndex` on a device of torch. The recorder and the index
are original to kdgraph.
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
from kdgraph.geometry.partition import Locations, PolytopeIndex, pack_bits, take_rows
from kdgraph.parents.networks.torch_state import default_torch_state, map_batches

_LayerSelection = Literal["head", "all"]
_EmbeddingSpace = Literal["auto", "head", "last", "input"]

# Maximum width of an embedding. What is wider is a map of features by position in an image, whose
# Gaussians are no more informative than those of pixels.
_MAX_EMBEDDING_WIDTH = 1024

# Functions whose kink is at 0, without underscores at the ends of their names.
_KINK_AT_0 = {"relu", "relu6", "leaky_relu", "prelu", "rrelu", "elu", "selu", "celu"}
# Functions whose second argument is the position of the kink, and the name of this argument.
_KINK_ARGUMENT = {
    "threshold": "threshold",
    "clamp": "min",
    "clip": "min",
    "clamp_min": "min",
    "hardtanh": "min_val",
}

# Queries, and polytopes, of a block on a device: a block of K takes 128 MB, and unpacking the codes
# is cheap compared with the product of their signs.
_DEVICE_BLOCK = 4096


@dataclass
class _RecordedCall:
    """Call of a linear function with its input, or of a ReLU-like function with its bits.

    ``in_head`` is True if no tensor after the call has more than two axes.
    """

    value: Tensor | None
    in_head: bool = True


class _CallRecorder(TorchFunctionMode):
    """Recorder of the ReLU-like and linear functions that a network calls, in their order.

    ``relu_calls`` and ``linear_calls`` are the numbers of the calls whose values are stored; None
    for all. The bits of ReLU-like calls and the inputs of linear calls are stored.
    """

    # A ``TorchFunctionMode`` intercepts every function of torch as it runs. So a ReLU is recorded
    # whether it is a module, a function or a method of a tensor, under whatever name, and in models
    # whose control flow no symbolic tracer can follow. Forward hooks would miss all but modules.
    # Functions inside of compiled or scripted modules are not intercepted.

    def __init__(
        self, relu_calls: Collection[int] | None = None, linear_calls: Collection[int] | None = None
    ) -> None:
        super().__init__()
        self.recorded_ids = {"relu": relu_calls, "linear": linear_calls}
        self.relu_calls: list[_RecordedCall] = []
        self.linear_calls: list[_RecordedCall] = []
        self.output: Tensor | None = None
        self.is_dense = True
        self.last_function = ""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        kink = _kink_position(name, args, kwargs)
        # Bits are read before the call, because an in-place function overwrites its input.
        if kink is not None:
            self._record("relu", self.relu_calls, lambda: args[0] > kink)
        if name == "linear":
            self._record("linear", self.linear_calls, args[0].clone)
        out = func(*args, **kwargs)
        if isinstance(out, Tensor) and name != "__get__":
            self.last_function = name
            if out.ndim > 2:  # what was called before is not part of the dense head
                self.is_dense = False
                for call in (*self.relu_calls, *self.linear_calls):
                    call.in_head = False
        return out

    def _record(
        self,
        kind: Literal["relu", "linear"],
        calls: list[_RecordedCall],
        compute_value: Callable[[], Tensor],
    ) -> None:
        """Append a call, with its value if the call's number is to be stored."""
        recorded_ids = self.recorded_ids[kind]
        is_stored = recorded_ids is None or len(calls) in recorded_ids
        calls.append(_RecordedCall(compute_value() if is_stored else None))


def _kink_position(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> float | None:
    """Return the position of a ReLU-like function's kink, or None for other functions."""
    name = name.strip("_")
    if name in _KINK_AT_0:
        return 0.0
    if name not in _KINK_ARGUMENT:
        return None
    default = -1.0 if name == "hardtanh" else None
    kink = args[1] if len(args) > 1 else kwargs.get(_KINK_ARGUMENT[name], default)
    return kink if isinstance(kink, int | float) else None


class DeviceCodeIndex:
    """Index of a network's polytopes by their activation codes, on a device of torch.

    The parameters are those of :class:`~kdgraph.geometry.code_index.CodeIndex`, and ``device``,
    "cuda" or "cpu"; ``n_jobs`` is not used. K is equal to that of ``CodeIndex`` to the last bit,
    masses to 1e-12 of their size. Codes, UInt64[n, W], stay packed on the device; no array of size
    queries × polytopes is allocated beyond a block.
    """

    # Codes of a layer become signs, float32, whose product with other signs is matches -
    # mismatches: every term is ±1 and every partial sum an integer below 2^24. So the counts are
    # exact also if TF32 is allowed (``torch.set_float32_matmul_precision("high")``, several times
    # as fast). They would not be exact with bfloat16, which rounds sums above 256.

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
        """Return UInt8[n, 8 W] on the device; bit b of byte i is bit 8 i + b of the code."""
        return torch.from_numpy(np.ascontiguousarray(codes, dtype="<u8").view(np.uint8)).to(
            self.device
        )

    def _signs(self, packed: Tensor) -> list[Tensor]:
        """Return Float32[n, width] for each layer: 1 where the bit is set, -1 where it is not."""
        signs = []
        for layer, width in enumerate(self._widths):
            layer_bytes = packed[
                :, 8 * self._word_starts[layer] : 8 * self._word_starts[layer + 1], None
            ]
            bits = (layer_bytes >> torch.arange(8, dtype=torch.uint8, device=self.device)) & 1
            signs.append(2.0 * bits.flatten(1)[:, :width].float() - 1.0)
        return signs

    def mismatches(self, queries: list[Tensor], polytopes: list[Tensor]) -> list[Tensor]:
        """Return the number of different signs of queries and polytopes, Float64[m, p], by layer.

        Signs are Float32[m, width] and Float32[p, width] for each layer.
        """
        return [
            (width - a @ b.T).double() / 2
            for width, a, b in zip(self._widths, queries, polytopes, strict=True)
        ]

    def _similarity_block(self, queries: list[Tensor], polytopes: list[Tensor]) -> Tensor:
        """Return K (Eq. 16), Float64[m, p]."""
        similarity = torch.ones(
            (len(queries[0]), len(polytopes[0])), dtype=torch.float64, device=self.device
        )
        for width, mismatches in zip(
            self._widths, self.mismatches(queries, polytopes), strict=True
        ):
            # By a plain number CUDA would multiply with its reciprocal, which differs in the last
            # bit.
            similarity *= 1.0 - mismatches / torch.tensor(
                width, dtype=torch.float64, device=self.device
            )
        return similarity

    @default_torch_state()
    def similarity(self, codes: np.ndarray) -> np.ndarray:
        """Return K of queries (UInt64[m, W]) and all polytopes, Float[m, p]; for small m × p."""
        return (
            self._similarity_block(
                self._signs(self._bytes_on_device(codes)), self._signs(self._codes)
            )
            .cpu()
            .numpy()
        )

    @default_torch_state()
    def query(self, codes: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the class masses, Float[m, K, k], of each query, and its nearest polytope, Int[m].

        It is :meth:`~kdgraph.geometry.code_index.CodeIndex.query` on the device.
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
        m, options = len(queries[0]), {"dtype": torch.float64, "device": self.device}
        masses = torch.zeros((m, self.n_classes, len(exponents)), **options)
        max_similarity = torch.zeros(m, **options)
        nearest = torch.full((m,), -1, dtype=torch.int64, device=self.device)
        for start in range(0, self.n_polytopes, _DEVICE_BLOCK):
            similarity = self._similarity_block(
                queries, self._signs(self._codes[start : start + _DEVICE_BLOCK])
            )
            anchors = similarity[:, : max(0, self.n_anchors - start)]
            if anchors.shape[1]:
                # Of equal similarities, torch documents that argmax returns the first; a later
                # block replaces the nearest polytope only if it is strictly nearer. So the lowest
                # number wins.
                first = anchors.argmax(dim=1)
                block_max = anchors.gather(1, first[:, None])[:, 0]
                nearest = torch.where(block_max > max_similarity, start + first, nearest)
                max_similarity = torch.maximum(block_max, max_similarity)
            for k, exponent in enumerate(exponents.tolist()):
                masses[:, :, k] += (
                    similarity.pow(exponent) @ self._weights[start : start + _DEVICE_BLOCK]
                )
        return masses.cpu().numpy(), nearest.cpu().numpy()


class ActivationPartition:
    """Partition of input space by a network with ReLU-like units (Dey et al. 2024, Section 4.4).

    Parameters
    ----------
    network : torch module or estimator
        A torch module that maps a batch to logits, or to probabilities by a softmax or sigmoid at
        its end; or an estimator with such a module as ``module_``, for instance those of
        :mod:`kdgraph.parents.networks`. Without a ReLU-like unit, TypeError is raised when rows are
        first located.
    n_jobs : int, default=None
        Threads over batches and over queries. Results do not depend on it.
    output_bits : bool, default=True
        Count the bits of the output, p > 1/K, as one more layer. Without them, samples on two sides
        of a decision boundary may share a polytope: the error of the posterior of the nearest
        polytope is then .008 to .089 higher on five of six simulations.
    layers : {"all", "head"}, default="all"
        Layers whose units make up the code. "head": those of the dense head, or of the last layer
        before it if the head has none.
    embedding : {"auto", "head", "last", "input"}, default="auto"
        Space of the Gaussians (Dey et al. 2024, Section 5.2). "head": the input of the dense head,
        which is the network's input if the whole network is dense; "last": the input of the last
        linear layer; "input": the network's input; "auto": "head", but "last" if that is wider than
        1,024.

    Notes
    -----
    *ReLU-like* are functions with a kink, below which a unit counts as off: ReLU, ReLU6, leaky,
    parametric and randomised ReLU, ELU, SELU, CELU, hard tanh, threshold, and clamping from below.
    The *dense head* is the end of the network that begins with the first linear layer after which
    every tensor is Float[batch, units]: no later function convolves, pools or attends.
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
        """Device on which the network runs: the estimator's choice, or that of the module."""
        if isinstance(self.network, nn.Module):
            return next((str(parameter.device) for parameter in self.network.parameters()), "cpu")
        device = getattr(self.network, "device", "cpu")
        return "cuda" if device in ("auto", "cuda") and torch.cuda.is_available() else "cpu"

    @property
    def widths(self) -> np.ndarray:
        """Number of units by layer, Int[L], the output last; set when rows are first located."""
        if self._plan is None:
            raise ValueError("the widths of the layers are set when rows are first located")
        return self._plan.widths

    def embed(self, X: Any) -> np.ndarray:
        """Return the points in the space of the Gaussians, Float[n, m]."""
        X = np.asarray(X)
        plan = self._get_plan(X)
        return _flatten_rows(X) if plan.embedding_call is None else self.locate(X).points

    def encode(self, X: Any) -> np.ndarray:
        """Return the codes, UInt64[n, W], contiguous by column.

        A code has a bit for each unit, low bits first, and each layer starts at a new word.
        """
        return self.locate(X).codes

    def locate(self, X: Any, *, with_proba: bool = True) -> Locations:
        """Return points, codes and the network's probabilities, in one pass through the network.

        Probabilities come with the codes, with or without ``with_proba``.
        """
        X = np.asarray(X)
        read = _ActivationReader(self._module_on_device(), self._get_plan(X), self.output_bits)
        codes, proba, *points = map_batches(
            X, read, input_shape=X.shape[1:], device=self.device, n_jobs=self.n_jobs
        )
        return Locations(points[0] if points else _flatten_rows(X), np.asfortranarray(codes), proba)

    def similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return K(r, s), Float[m, n], of all pairs of codes in UInt64[m, W] and UInt64[n, W].

        K is the product over layers of the fraction of units that agree (Eq. 16).
        """
        return code_similarity(a, b, self.widths)

    def paired_similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return K, Float[n], of each code in ``a`` and the code at the same position in ``b``."""
        similarity, starts = np.ones(len(a)), word_starts(self.widths)
        for layer, width in enumerate(self.widths):
            words = slice(starts[layer], starts[layer + 1])
            similarity *= 1.0 - np.bitwise_count(a[:, words] ^ b[:, words]).sum(axis=1) / width
        return similarity

    def parent_proba(self, locations: Locations) -> np.ndarray:
        """Return the network's probabilities, Float[n, K], as computed by :meth:`locate`."""
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
        """Return an index on the network's device, with parameters as for ``CodeIndex``."""
        arguments: Any = codes, class_weights, self.widths
        options: Any = {"rows": rows, "n_anchors": n_anchors}
        if self.device == "cpu":
            return CodeIndex(*arguments, **options, n_jobs=self.n_jobs)
        return DeviceCodeIndex(*arguments, **options, device=self.device)

    def _module_on_device(self) -> nn.Module:
        """Return the module in eval mode; a copy if it has to move to another device."""
        module = self.module.eval()
        # The module of an estimator is on the CPU; another one determines the device.
        is_there = self.device == "cpu" or module is self.network
        return module if is_there else copy.deepcopy(module).to(self.device)

    def _get_plan(self, X: np.ndarray) -> _TracePlan:
        """Return the calls to read, which are chosen on the first batch."""
        if self._plan is None:
            self._plan = _make_plan(_record_calls(self._module_on_device(), X, self.device), self)
        return self._plan


@dataclass(frozen=True)
class _TracePlan:
    """Choice of the calls of a network from which codes and points are read.

    Calls are numbered in their order; without an ``embedding_call``, the embedding is the network's
    input, otherwise the input of this linear call. ``widths``, Int[L], are the units by layer, the
    output last.
    """

    relu_calls: tuple[int, ...]
    embedding_call: int | None
    widths: np.ndarray
    outputs_probabilities: bool

    @np.errstate(under="ignore")
    def probabilities(self, output: Tensor) -> np.ndarray:
        """Return class probabilities, Float64[batch, K], from the network's output.

        A single column is that of the second of two classes.
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
    recorder = _CallRecorder()

    def run_module(batch: Tensor) -> tuple[np.ndarray]:
        recorder.is_dense = batch.ndim == 2
        with recorder:
            output = module(batch)
        recorder.output = output
        return (np.empty(len(batch)),)

    map_batches(X[:1], run_module, input_shape=X.shape[1:], device=device, n_jobs=1)
    return recorder


def _make_plan(recorder: _CallRecorder, partition: ActivationPartition) -> _TracePlan:
    if not recorder.relu_calls:
        raise TypeError(
            f"{type(partition.module).__name__} has no ReLU-like unit to read (relu, leaky_relu,"
            f" elu, clamp, …); its calls end in {recorder.last_function}"
        )
    relu_calls = [
        i for i, call in enumerate(recorder.relu_calls) if call.in_head or partition.layers == "all"
    ] or [len(recorder.relu_calls) - 1]
    assert recorder.output is not None
    outputs_probabilities = recorder.last_function in ("softmax", "sigmoid")
    # A network with one output has the bits of two classes.
    n_outputs = max(2, recorder.output.flatten(1).shape[1])
    widths = [_call_values(recorder.relu_calls[i]).shape[1] for i in relu_calls]
    return _TracePlan(
        tuple(relu_calls),
        _embedding_call(recorder, partition.embedding),
        np.array([*widths, *([n_outputs] if partition.output_bits else [])]),
        outputs_probabilities,
    )


def _embedding_call(recorder: _CallRecorder, embedding: _EmbeddingSpace) -> int | None:
    """Return the number of the linear call whose input is the embedding, None for the input."""
    head = [i for i, call in enumerate(recorder.linear_calls) if call.in_head]
    if embedding == "input" or not head or (embedding in ("auto", "head") and recorder.is_dense):
        return None
    is_too_wide = (
        embedding == "auto"
        and _call_values(recorder.linear_calls[head[0]]).shape[1] > _MAX_EMBEDDING_WIDTH
    )
    return head[-1] if is_too_wide or embedding == "last" else head[0]


@dataclass(frozen=True)
class _ActivationReader:
    """Function of a batch that returns packed bits, probabilities, and points unless the input."""

    module: nn.Module
    plan: _TracePlan
    output_bits: bool

    def __call__(self, batch: Tensor) -> tuple[np.ndarray, ...]:
        embedding_call = self.plan.embedding_call
        linear_calls = () if embedding_call is None else (embedding_call,)
        with _CallRecorder(self.plan.relu_calls, linear_calls) as recorder:
            output = self.module(batch)
        proba = self.plan.probabilities(output)
        bits = [_call_values(recorder.relu_calls[i]) for i in self.plan.relu_calls]
        if self.output_bits:
            bits.append(proba > 1 / proba.shape[1])
        points = [_call_values(recorder.linear_calls[i]).astype(np.float64) for i in linear_calls]
        return pack_bits(bits), proba, *points


def _call_values(call: _RecordedCall) -> np.ndarray:
    assert call.value is not None
    return call.value.flatten(1).cpu().numpy()


def _flatten_rows(X: np.ndarray) -> np.ndarray:
    return np.asarray(X, dtype=np.float64).reshape(len(X), -1)
