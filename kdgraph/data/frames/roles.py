"""Roles that a source prescribes for its rows, as words, numbers or row numbers.

The rules are original to kdgraph.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kdgraph.data.dataset import CALIBRATION, TEST, TRAIN, UNUSED
from kdgraph.errors import DataError, did_you_mean
from kdgraph.quoting import override

if TYPE_CHECKING:
    import pandas as pd


ROLE_NAMES = {
    "train": TRAIN,
    "training": TRAIN,
    "test": TEST,
    "testing": TEST,
    "unused": UNUSED,
} | dict.fromkeys(("calibration", "cal", "calib", "validation", "valid", "val"), CALIBRATION)
"""Words that a split column may contain, in any case, and their roles."""


def roles_from_names(table: str, column: pd.Series, *, trains: bool = True) -> np.ndarray:
    """Return the roles, Int8[n], of a column of words, or of truth values where True means test.

    Without ``trains``, rows for training calibrate. Numbers raise an error, because fold 0 may be
    for testing or for training.
    """
    from kdgraph.data.frames.features import sorted_codes

    source = f"{table}: dataset.split_column='{column.name}'"
    if column.isna().any():
        row = int(np.flatnonzero(column.isna().to_numpy())[0])
        raise DataError(f"{source} is empty in row {row}; write train, calibration, test or unused")
    # Words are looked up once for each distinct value; the codes spread the result over the rows.
    codes, names = sorted_codes(column)
    if {name.lower() for name in names} <= {"true", "false"}:
        test = [name.lower() for name in names].index("true") if len(names) == 2 else None
        roles = codes if test is None else np.where(codes == test, TEST, TRAIN)
        return _check_required_roles(source, roles, trains)
    for name in names:
        if name.strip().lower() not in ROLE_NAMES:
            raise _unknown_role_error(source, name, names, column if trains else None)
    role_of_name = np.array([ROLE_NAMES[name.strip().lower()] for name in names])
    return _check_required_roles(source, role_of_name[codes.astype(int)], trains)


def roles_from_indices(table: str, n: int, indices: Mapping[str, Any]) -> np.ndarray:
    """Return the roles, Int8[n], of row numbers from 0 for train, test and optionally calibration.

    Rows in none of them are unused.
    """
    # Every row begins as unused, so a row that already has a role was listed twice.
    roles = np.full(n, UNUSED, dtype=np.int8)
    role_codes = {"train": TRAIN, "calibration": CALIBRATION, "test": TEST}
    for role, rows in indices.items():
        if role not in role_codes:
            raise DataError(
                f"{table}: dataset.indices has '{role}'; it may have train, calibration and"
                f" test{did_you_mean(role, role_codes)}"
            )
        rows = _check_row_numbers(f"{table}: dataset.indices", role, rows, n)
        repeated_rows = rows[roles[rows] != UNUSED]
        if len(repeated_rows):
            other_role = next(
                word for word, value in role_codes.items() if value == roles[repeated_rows[0]]
            )
            raise DataError(
                f"{table}: dataset.indices has row {repeated_rows[0]} in {other_role} and in {role}"
                f" ({len(repeated_rows)} such rows); a row has one role"
            )
        roles[rows] = role_codes[role]
    return _check_required_roles(f"{table}: dataset.indices", roles)


def roles_from_numbers(table: str, column: pd.Series, ends: Sequence[float]) -> np.ndarray:
    """Return the roles, Int8[n], of a column of numbers that increase from part to part.

    Published splits of numbered rows have this form. ``ends`` are the last number that trains and
    the last that calibrates; rows with larger numbers test. With one end, no row calibrates.
    """
    import pandas as pd

    from kdgraph.data.frames.cells import infer_numeric_type, to_exact_numbers

    source = f"{table}: dataset.split_column='{column.name}'"
    if len(ends) > 2 or list(ends) != sorted(ends):
        raise DataError(
            f"{source}: split_at must be the last number that trains and the last that calibrates,"
            f" got {list(ends)}"
        )
    column = infer_numeric_type(column)
    numeric = pd.to_numeric(column, errors="coerce")
    is_number = np.isfinite(numeric.to_numpy(dtype=np.float64, na_value=np.nan))
    if (invalid_rows := np.flatnonzero(~is_number)).size:
        raise DataError(
            f"{source} has {column.iloc[invalid_rows[0]]!r} in row {invalid_rows[0]}, and split_at"
            " needs a number in each row"
        )
    # Integers stay exact, because time stamps in nanoseconds exceed 2^53.
    numbers = to_exact_numbers(numeric)
    roles = np.where(numbers <= ends[0], TRAIN, TEST)
    return _check_required_roles(
        source, np.where((numbers > ends[0]) & (numbers <= ends[-1]), CALIBRATION, roles)
    )


def _check_row_numbers(source: str, role: str, rows: Any, n: int) -> np.ndarray:
    # An empty list has the type float64 in numpy, so the type is checked only if there are numbers.
    try:
        numbers = np.asarray(rows)
    except ValueError as error:
        raise DataError(
            f"{source}: {role} must be a list of row numbers, got lists of several lengths"
        ) from error
    if numbers.size and (numbers.ndim != 1 or numbers.dtype.kind not in "iu"):
        raise DataError(
            f"{source}: {role} must be a list of row numbers, got {numbers.dtype} of shape"
            f" {numbers.shape}"
        )
    numbers = numbers.astype(np.int64)
    outside = numbers[(numbers < 0) | (numbers >= n)]
    if len(outside):
        raise DataError(f"{source}: {role} has row {outside[0]}, but rows go from 0 to {n - 1}")
    if len(np.unique(numbers)) < len(numbers):
        raise DataError(
            f"{source}: {role} has {len(numbers) - len(np.unique(numbers))} row numbers more than"
            " once; each row counts once"
        )
    return numbers


def _check_required_roles(source: str, roles: np.ndarray, trains: bool = True) -> np.ndarray:
    verb, role = ("train", TRAIN) if trains else ("calibrate", CALIBRATION)
    roles = roles if trains else np.where(roles == TRAIN, CALIBRATION, roles)
    for word, required in {"train" if trains else "calibration": role, "test": TEST}.items():
        if not (roles == required).any():
            raise DataError(
                f"{source} names no row for {word}; a split needs rows that {verb} and rows that"
                " test"
            )
    return roles.astype(np.int8)


def _unknown_role_error(
    source: str, name: str, names: Sequence[str], column: pd.Series | None
) -> DataError:
    """Return the error for ``name``; ``column`` is None if ``split_at`` does not apply."""
    from kdgraph.data.frames.cells import (
        format_cell,
        infer_numeric_type,
        is_real_dtype,
        to_exact_numbers,
    )

    allowed = "train, calibration, test or unused (or True where a row tests)"
    if not all(re.fullmatch(r"[+-]?\d+(\.\d+)?", text) for text in names):
        return DataError(f"{source} has {name!r}, which is none of {allowed}")
    problem = f"{source} has numbers such as {name}, and which of them test is not guessed"
    replacement = f"replace them with {allowed}"
    if column is None or not is_real_dtype(infer_numeric_type(column).dtype) or len(names) < 2:
        return DataError(f"{problem}; {replacement}")
    # The largest number often marks the test rows (the last fold, the last year), so the suggested
    # split ends at the one before it.
    last_train = np.unique(to_exact_numbers(infer_numeric_type(column))).tolist()[-2]
    suggestion = (
        f"{override('dataset.split_at', [last_train])} trains on those up to"
        f" {format_cell(last_train)} and tests on larger ones"
    )
    return DataError(f"{problem}; {suggestion}, or {replacement}")
