"""Values of every supported type are restored: equal, of the same type, and with shared objects."""

from __future__ import annotations

import functools
import math
import re
import threading
import warnings
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.feature_selection import f_classif
from sklearn.utils import Bunch

from kdgraph.persistence import SaveError, from_bytes, load, save, to_bytes


def round_trip(value: Any) -> Any:
    return from_bytes(to_bytes(value), "it").value


PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.complex_numbers()
    | st.binary(max_size=20)
)
KEYS = st.text(max_size=4) | st.integers() | st.tuples(st.booleans(), st.text(max_size=2))
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.frozensets(st.integers() | st.text(max_size=3), max_size=4)
        | st.sets(st.integers(), max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES)
@settings(max_examples=150, deadline=None)
def test_plain_values_round_trip(value):
    assert describe(round_trip(value)) == describe(value)


def describe(value: Any) -> str:
    """Return text that differs for 1 and True, is equal for NaN, and sorts members of sets."""
    if isinstance(value, set | frozenset):
        return f"{type(value).__name__}({sorted(map(describe, value))})"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({[describe(item) for item in value]})"
    return (
        f"dict({[(describe(key), describe(item)) for key, item in value.items()]})"
        if isinstance(value, dict)
        else repr(value)
    )


DTYPES = (
    hnp.scalar_dtypes()
    | hnp.unicode_string_dtypes()
    | hnp.array_dtypes(hnp.integer_dtypes() | hnp.floating_dtypes(), max_size=3)
)
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, min_side=0, max_side=5))


@given(ARRAYS, st.sampled_from(["contiguous", "fortran", "reversed"]))
@settings(max_examples=150, deadline=None)
def test_arrays_round_trip(array, layout):
    array = {
        "contiguous": array,
        "fortran": np.asfortranarray(array),
        "reversed": array[::-1] if array.ndim else array,
    }[layout]
    result = round_trip(array)
    assert (
        result.dtype == array.dtype
        and result.shape == array.shape
        and result.tobytes() == array.tobytes()
    )
    if (array.flags.c_contiguous or array.flags.f_contiguous) and array.dtype.names is None:
        assert (result.flags.c_contiguous, result.flags.f_contiguous) == (
            array.flags.c_contiguous,
            array.flags.f_contiguous,
        )
    assert result.flags.writeable


@given(hnp.arrays(hnp.integer_dtypes(endianness="="), 3000))
@settings(max_examples=20, deadline=None)
def test_integers_have_their_type_after_narrow_storage(array):
    result = round_trip(array)
    assert result.dtype == array.dtype
    np.testing.assert_array_equal(result, array)


def test_arrays_do_not_share_memory():
    first, second = round_trip([np.arange(3), np.arange(3)])
    first[:] = 7
    np.testing.assert_array_equal(second, [0, 1, 2])


@pytest.mark.parametrize(
    "value",
    [
        np.float64(0.1),
        np.float32("nan"),
        np.int8(-3),
        np.bool_(True),
        np.str_("é"),
        np.datetime64("2024-02-29"),
        np.longdouble("0.1"),
        np.complex64(1 + 2j),
        np.dtype("<f4"),
        np.dtype([("a", "<i8"), ("b", "U3", (2,))]),
        slice(1, None, 2),
        range(3, 9, 2),
        bytearray(b"\0x"),
        OrderedDict(b=1, a=2),
        defaultdict(list, a=[1]),
        re.compile("a+", re.IGNORECASE),
        np.float64,
        float,
        np.log1p,
        scipy.special.expit,
        f_classif,
        "\ud800",
        -0.0,
        math.inf,
    ],
    ids=lambda value: re.sub(" at 0x[0-9a-f]+", "", repr(value)),
)
def test_special_values_round_trip(value):
    result = round_trip(value)
    assert type(result) is type(value) and repr(result) == repr(value)


def test_sparse_and_masked_arrays_round_trip():
    dense = np.random.default_rng(0).normal(size=(5, 4))
    csr = scipy.sparse.csr_array(np.where(dense > 0.25, dense, 0))
    assert type(round_trip(csr)) is type(csr) and (round_trip(csr) != csr).nnz == 0
    csc = scipy.sparse.csc_matrix(csr)
    assert type(round_trip(csc)) is scipy.sparse.csc_matrix and (round_trip(csc) != csc).nnz == 0
    masked = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    np.testing.assert_array_equal(round_trip(masked).filled(-1), [1, -1, 3])


@pytest.mark.parametrize(
    "bit_generator",
    [np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64],
)
def test_generators_continue_their_stream(bit_generator):
    rng = np.random.Generator(bit_generator(1))
    rng.random(3)
    result = round_trip(rng)
    assert result.random() == rng.random()


def test_random_states_continue_their_stream():
    random_state = np.random.RandomState(1)
    random_state.normal()  # numbers are drawn in pairs, so the state now contains the second one
    result = round_trip(random_state)
    assert (result.normal(), result.randint(1000)) == (
        random_state.normal(),
        random_state.randint(1000),
    )


Pair = namedtuple("Pair", "left right")


@dataclass(frozen=True)
class Frozen:
    n: int
    content: Any = None


class Slotted:
    __slots__ = ("a", "b")


class Squares:
    """Object with ``__getstate__`` and ``__setstate__``, whose state differs from its fields."""

    def __init__(self, n):
        raise AssertionError("no constructor is called")

    def __getstate__(self):
        return {"n": self.n, "squares": [k * k for k in range(self.n)]}

    def __setstate__(self, state):
        self.n = len(state["squares"])


def test_objects_round_trip():
    assert round_trip(Frozen(1, Frozen(2))) == Frozen(1, Frozen(2))
    assert round_trip(Pair(1, [2])) == Pair(1, [2]) and type(round_trip(Pair(1, 2))) is Pair
    slotted = Slotted()
    slotted.a = [1]
    assert round_trip(slotted).a == [1] and not hasattr(round_trip(slotted), "b")
    squares = object.__new__(Squares)
    squares.n = 4
    assert round_trip(squares).n == 4
    assert round_trip(Bunch(a=1, b=[2])) == {"a": 1, "b": [2]} and round_trip(Bunch(a=1)).a == 1


def test_object_arrays_round_trip():
    array = np.array([["a", Frozen(1)], [None, 2.5]], dtype=object)
    result = round_trip(array)
    assert result.dtype == object and result.tolist() == array.tolist()


def test_shared_objects_stay_shared():
    array, inner = np.arange(4), [1]
    result = round_trip({"a": array, "b": array, "c": inner, "d": (inner, inner)})
    assert result["a"] is result["b"] and result["c"] is result["d"][0] is result["d"][1]
    result = round_trip([[1], [1]])
    assert result[0] is not result[1]


def test_cyclic_references_are_restored():
    loop: list[Any] = [1]
    loop.append(loop)
    result = round_trip(loop)
    assert result[1] is result
    owner = Frozen(0, {})
    owner.content["owner"] = owner
    assert (result := round_trip(owner)).content["owner"] is result


def test_temporary_objects_are_not_confused():
    """A list that ``__getstate__`` creates may have the address of one that it created before."""
    objects = []
    for n in range(50):
        squares = object.__new__(Squares)
        squares.n = n
        objects.append(squares)
    assert [restored.n for restored in round_trip(objects)] == list(range(50))


def test_shared_objects_are_omitted_and_passed_when_read():
    parent = np.random.default_rng(0).random(100_000)
    content = to_bytes({"parent": parent, "own": 1}, {"parent": parent})
    assert len(content) < 2000
    new_parent = parent + 1
    assert from_bytes(content, "it", {"parent": new_parent}).value["parent"] is new_parent


def test_equal_values_give_equal_bytes():
    value = {"a": frozenset("kdgraph"), "b": np.arange(1000), "c": [Frozen(1)]}
    assert to_bytes(value) == to_bytes(round_trip(value))


def test_metadata_are_stored_with_the_value():
    result = from_bytes(to_bytes([1], metadata={"seconds": 0.1}), "it")
    assert result.value == [1] and result.metadata == {"seconds": 0.1}


def object_of_local_class() -> Any:
    class Local:
        pass

    return Local()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (threading.Lock(), "a _thread.lock cannot be saved (cannot pickle '_thread.lock' object)"),
        (
            lambda: 1,
            (
                "<lambda> of test_values cannot be saved: it must stand in a module that can be"
                " imported"
            ),
        ),
        (
            object_of_local_class(),
            (
                "object_of_local_class.<locals>.Local of test_values cannot be saved: it must stand"
                " in a module that can be imported"
            ),
        ),
        (
            functools.partial(print, 1),
            "a functools.partial cannot be saved: it is more than its fields",
        ),
        (
            print,
            "builtin_function_or_method builtins.print cannot be saved: it is more than its fields",
        ),
        (
            MappingProxyType({}),
            "a builtins.mappingproxy cannot be saved: it is more than its fields",
        ),
        (
            np.zeros(1, dtype=[("a", object)]),
            "an array of [('a', 'O')] cannot be saved: it holds Python objects",
        ),
    ],
    ids=["lock", "lambda", "local class", "partial", "builtin", "proxy", "structured with objects"],
)
def test_code_and_compiled_objects_are_refused_in_one_line(value, message):
    with pytest.raises(SaveError) as caught:
        to_bytes({"deep": [value]})
    assert str(caught.value).replace(__name__, "test_values") == message


def test_too_deep_nesting_is_refused():
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(
        SaveError, match=r"^the value is nested too deeply to be saved: 150 levels are the most$"
    ):
        to_bytes(deep)


def test_failed_save_leaves_the_former_file(tmp_path):
    save([1], tmp_path / "it.kdg")
    with pytest.raises(SaveError):
        save(lambda: 1, tmp_path / "it.kdg")
    assert load(tmp_path / "it.kdg") == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["it.kdg"]


def test_other_library_version_warns_once(monkeypatch):
    import sklearn
    from sklearn.ensemble import RandomForestClassifier

    X, y = np.random.default_rng(0).random((20, 2)), np.arange(20) % 2
    with monkeypatch.context() as patch:
        patch.setattr(sklearn, "__version__", "1.0")
        content = to_bytes(RandomForestClassifier(20, random_state=0).fit(X, y))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        from_bytes(content, "forest.kdg")
    (warning,) = caught
    assert (
        str(warning.message)
        == f"forest.kdg was written with scikit-learn 1.0 (now {sklearn.__version__}): its numbers"
        " may differ"
    )
