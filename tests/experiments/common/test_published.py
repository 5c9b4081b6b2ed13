"""Published numbers: every file of the repository is whole, and one that is not is named by its
row.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.common.published import cell, read_published

FOLDERS = sorted(
    path.parent
    for path in (Path(__file__).resolve().parents[3] / "experiments").rglob("published.csv")
)
ROWS = [
    "item,source,dataset,metric,method,value",
    "Table 1,p. 3,6,error,kdf,0.5",
    "Table 1,p. 3,6,error,kdn,0.25",
]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_published_file_is_valid(folder) -> None:
    numbers = read_published(folder)
    assert len(numbers) and numbers.value.dtype == float


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row.partition(",")[2] for row in ROWS], "it lacks item"),
        (
            [*ROWS, "Table 1,p. 3,6,nll,kdf,"],
            "has no value in row 2, and its note does not begin with 'lost in the text'",
        ),
        (
            [*ROWS, "Table 1,p. 4,6,error,kdf,0.75"],
            "has two values of one thing, the second in row 2",
        ),
    ],
)
def test_invalid_published_files_are_refused(tmp_path, rows, message) -> None:
    (tmp_path / "published.csv").write_text("\n".join(rows) + "\n")
    with pytest.raises(ValueError, match=message):
        read_published(tmp_path)


def test_lost_numbers_have_no_value(tmp_path) -> None:
    rows = [
        f"{row},{note}"
        for row, note in zip(
            [*ROWS, "Table 1,p. 3,6,nll,kdf,"],
            ["note", "", "", "lost in the text: a digit"],
            strict=True,
        )
    ]
    (tmp_path / "published.csv").write_text("\n".join(rows) + "\n")
    numbers = read_published(tmp_path)
    assert (
        numbers.value.isna().tolist() == [False, False, True]
        and cell(numbers[numbers.metric == "nll"]) == "–"
    )


def test_a_cell_holds_one_number(tmp_path) -> None:
    (tmp_path / "published.csv").write_text("\n".join(ROWS) + "\n")
    numbers = read_published(tmp_path)
    assert [cell(numbers[numbers.method == name]) for name in ("kdf", "nobody")] == [".500", "–"]
    with pytest.raises(ValueError, match="a cell holds one published number, got 2"):
        cell(numbers)
