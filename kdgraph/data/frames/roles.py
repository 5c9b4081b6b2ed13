"""Roles that a source prescribes for its rows: by words, by numbers, by row numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kdgraph.data.dataset import CALIBRATION, TEST, TRAIN, UNUSED
from kdgraph.errors import DataError, did_you_mean
from kdgraph.overrides import override

if TYPE_CHECKING:
    import pandas as pd


ROLE_NAMES = {
    "train": TRAIN,
    "training": TRAIN,
    "test": TEST,
    "testing": TEST,
    "unused": UNUSED,
} | dict.fromkeys(("calibration", "cal", "calib", "validation", "valid", "val"), CALIBRATION)
"""What a split column may say, in any case."""


def roles_from_names(table: str, column: pd.Series, *, trains: bool = True) -> np.ndarray:
    """Roles from a column of words, or of truth values of which True means test.

    Without ``trains`` there is nothing to train, and rows that would train calibrate.

    Returns
    -------
    Int8[n]

    Raises
    ------
    DataError
        If a cell is empty or says something else, or no row trains or tests. Numbers are not
        guessed: fold 0 may test, or train.
    """
    from kdgraph.data.frames.features import sorted_codes

    where = f"{table}: dataset.split_column='{column.name}'"
    if column.isna().any():
        row = int(np.flatnonzero(column.isna().to_numpy())[0])
        raise DataError(f"{where} is empty in row {row}; write train, calibration, test or unused")
    codes, names = sorted_codes(column)
    if {name.lower() for name in names} <= {"true", "false"}:
        test = [name.lower() for name in names].index("true") if len(names) == 2 else None
        return _check_required_roles(
            where, codes if test is None else np.where(codes == test, TEST, TRAIN), trains
        )
    for name in names:
        if name.strip().lower() not in ROLE_NAMES:
            raise _unknown_role_error(where, name, names, column if trains else None)
    return _check_required_roles(
        where,
        np.array([ROLE_NAMES[name.strip().lower()] for name in names])[codes.astype(int)],
        trains,
    )


def roles_from_indices(table: str, n: int, indices: Mapping[str, Any]) -> np.ndarray:
    """Roles from row numbers.

    Parameters
    ----------
    table : name, for messages.
    n : rows that there are.
    indices : ``train``, ``test`` and, if there is one, ``calibration``: row numbers from 0; rows in
        none of them are unused.

    Returns
    -------
    Int8[n]

    Raises
    ------
    DataError
        If a number is no row, or a row has two roles.
    """
    roles = np.full(n, UNUSED, dtype=np.int8)
    known = {"train": TRAIN, "calibration": CALIBRATION, "test": TEST}
    for role, rows in indices.items():
        if role not in known:
            raise DataError(
                f"{table}: dataset.indices has '{role}'; it may have train, calibration and"
                f" test{did_you_mean(role, known)}"
            )
        rows = _check_row_numbers(f"{table}: dataset.indices", role, rows, n)
        taken = rows[roles[rows] != UNUSED]
        if len(taken):
            other = next(word for word, value in known.items() if value == roles[taken[0]])
            twice = (
                f"{table}: dataset.indices has row {taken[0]} in {other} and in {role}"
                f" ({len(taken)} such rows)"
            )
            raise DataError(f"{twice}; a row has one role")
        roles[rows] = known[role]
    return _check_required_roles(f"{table}: dataset.indices", roles)


def roles_from_numbers(table: str, column: pd.Series, ends: Sequence[float]) -> np.ndarray:
    """Roles from a column of numbers that count through the parts, as a published split of numbered
    rows does; ours.

    Parameters
    ----------
    table : name, for messages.
    column : [n] of numbers.
    ends : the last number that trains, and the last that calibrates; all above test. One: none
        calibrates.

    Returns
    -------
    Int8[n]

    Raises
    ------
    DataError
        If a cell is no number, there are more than two ends or they fall, or no row trains or
        tests.
    """
    import pandas as pd

    from kdgraph.data.frames.cells import infer_numeric_type, to_exact_numbers

    where = f"{table}: dataset.split_column='{column.name}'"
    if len(ends) > 2 or list(ends) != sorted(ends):
        raise DataError(
            f"{where}: split_at must be the last number that trains and the last that calibrates,"
            f" got {list(ends)}"
        )
    column = infer_numeric_type(column)
    read = pd.to_numeric(column, errors="coerce")
    if (bad := np.flatnonzero(~np.isfinite(read.to_numpy(dtype=np.float64, na_value=np.nan)))).size:
        raise DataError(
            f"{where} has {column.iloc[bad[0]]!r} in row {bad[0]}, and split_at needs a number in"
            " each row"
        )
    numbers = to_exact_numbers(read)
    roles = np.where(numbers <= ends[0], TRAIN, TEST)
    return _check_required_roles(
        where, np.where((numbers > ends[0]) & (numbers <= ends[-1]), CALIBRATION, roles)
    )


def _check_row_numbers(where: str, role: str, rows: Any, n: int) -> np.ndarray:
    """Int[m], each from 0 to n - 1 and each once."""
    try:
        numbers = np.asarray(rows)
    except ValueError as error:
        raise DataError(
            f"{where}: {role} must be a list of row numbers, got lists of several lengths"
        ) from error
    if numbers.size and (numbers.ndim != 1 or numbers.dtype.kind not in "iu"):
        raise DataError(
            f"{where}: {role} must be a list of row numbers, got {numbers.dtype} of shape"
            f" {numbers.shape}"
        )
    numbers = numbers.astype(np.int64)
    outside = numbers[(numbers < 0) | (numbers >= n)]
    if len(outside):
        raise DataError(f"{where}: {role} has row {outside[0]}, but rows go from 0 to {n - 1}")
    if len(np.unique(numbers)) < len(numbers):
        raise DataError(
            f"{where}: {role} has {len(numbers) - len(np.unique(numbers))} row numbers more than"
            " once; each row counts once"
        )
    return numbers


def _check_required_roles(where: str, roles: np.ndarray, trains: bool = True) -> np.ndarray:
    """``roles`` if rows train, or calibrate where nothing trains, and rows test."""
    learn, role = ("train", TRAIN) if trains else ("calibrate", CALIBRATION)
    roles = roles if trains else np.where(roles == TRAIN, CALIBRATION, roles)
    for word, wanted in {"train" if trains else "calibration": role, "test": TEST}.items():
        if not (roles == wanted).any():
            raise DataError(
                f"{where} names no row for {word}; a split needs rows that {learn} and rows that"
                " test"
            )
    return roles.astype(np.int8)


def _unknown_role_error(
    where: str, name: str, names: Sequence[str], column: pd.Series | None
) -> DataError:
    """The error for a split column that has ``name``; ``column`` where numbers in it can be cut by
    ``split_at``.
    """
    from kdgraph.data.frames.cells import (
        format_cell,
        infer_numeric_type,
        is_real_dtype,
        to_exact_numbers,
    )

    known = "train, calibration, test or unused (or True where a row tests)"
    if not all(re.fullmatch(r"[+-]?\d+(\.\d+)?", one) for one in names):
        return DataError(f"{where} has {name!r}, which is none of {known}")
    found, replaced = (
        f"{where} has numbers such as {name}, and which of them test is not guessed",
        f"replace them with {known}",
    )
    if column is None or not is_real_dtype(infer_numeric_type(column).dtype) or len(names) < 2:
        return DataError(f"{found}; {replaced}")
    last = np.unique(to_exact_numbers(infer_numeric_type(column))).tolist()[-2]
    cut = (
        f"{override('dataset.split_at', [last])} trains on those up to {format_cell(last)} and tests on"
        " larger ones"
    )
    return DataError(f"{found}; {cut}, or {replaced}")
