"""What a torch module calls while it runs: its ReLU-like functions with their on/off bits, its linear layers with their inputs.

Functions are intercepted as they run, so that a ReLU is heard whether it is a module, a function or a tensor's method, under whatever name,
and in models whose control flow no symbolic tracer can follow. What runs inside a compiled or scripted module is not heard.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

_KINK_AT_0 = {"relu", "relu6", "leaky_relu", "prelu", "rrelu", "elu", "selu", "celu"}
_KINK_GIVEN = {"threshold": "threshold", "clamp": "min", "clip": "min", "clamp_min": "min", "hardtanh": "min_val"}
"""Functions whose second argument is the kink, and its name."""


@dataclass
class Call:
    """A linear call with its input, or a ReLU-like one with its bits; ``in_head``: no tensor since has more than two axes."""

    value: Tensor | None
    in_head: bool = True


class Listener(TorchFunctionMode):
    """Hears the functions that a network calls: the bits of ReLU-like ones and the inputs of linear ones, in the order in which they come.

    ``gates``, ``linears``: the calls whose values are kept, by number; None for all.
    """

    def __init__(self, gates: Collection[int] | None = None, linears: Collection[int] | None = None) -> None:
        super().__init__()
        self.wanted = gates, linears
        self.gates: list[Call] = []
        self.linears: list[Call] = []
        self.output: Tensor | None = None
        self.dense_throughout = True
        self.last = ""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        kink = _kink(name, args, kwargs)
        if kink is not None:  # before the call, which may overwrite its input
            self._hear(0, self.gates, lambda: args[0] > kink)
        if name == "linear":
            self._hear(1, self.linears, lambda: args[0].clone())
        out = func(*args, **kwargs)
        if isinstance(out, Tensor) and name != "__get__":
            self.last = name
            if out.ndim > 2:
                self._not_dense()
        return out

    def _hear(self, which: int, calls: list[Call], value: Callable[[], Tensor]) -> None:
        wanted = self.wanted[which]
        calls.append(Call(value() if wanted is None or len(calls) in wanted else None))

    def _not_dense(self) -> None:
        self.dense_throughout = False
        for call in (*self.gates, *self.linears):
            call.in_head = False


def _kink(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> float | None:
    """Where the function has the kink that makes it ReLU-like; None for all other functions."""
    name = name.strip("_")
    if name in _KINK_AT_0:
        return 0.0
    if name not in _KINK_GIVEN:
        return None
    given = args[1] if len(args) > 1 else kwargs.get(_KINK_GIVEN[name], -1.0 if name == "hardtanh" else None)
    return given if isinstance(given, int | float) else None
