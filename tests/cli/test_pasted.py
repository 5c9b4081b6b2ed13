"""Remedies that ``kdg`` prints work when they are pasted into the same command."""

from __future__ import annotations

import csv
import re
import subprocess

import numpy as np
import pytest

RUN = [
    "dataset=table",
    "method=isotonic",
    "parent.n_estimators=3",
    "figures=none",
    "ood=none",
    "metrics=default",
    "n_jobs=1",
]
QUOTED = r"""\$?'dataset\.\w+=(?:[^'\\]|\\.|'"'"')*'"""
WAY_OUT = re.compile(rf"{QUOTED}|(?<![\w'\"=])dataset\.\w+=[^\s;,']+")


def pasted(message: str) -> list[str]:
    """Return the first override of a message as a shell reads it. Files have its names."""
    message = message.replace("dataset.path=t.csv", "")
    words = WAY_OUT.findall(message)
    if not words:
        return []
    shown = subprocess.run(
        ["bash", "-c", f"printf '%s' {words[0]}"], capture_output=True, check=True
    )
    return [shown.stdout.decode()]


def write(
    path: str, head: list[str], cells: dict[tuple[int, int], str], separator: str = ","
) -> None:
    rng = np.random.default_rng(0)
    with open(path, "w", newline="") as file:
        rows = csv.writer(file, delimiter=separator)
        rows.writerow(head)
        for i in range(60):
            row = [f"{value:.3f}" for value in rng.normal(size=len(head) - 1)]
            rows.writerow([*(cells.get((i, j), cell) for j, cell in enumerate(row)), "ab"[i % 2]])


def until_done(kdg, *arguments: str) -> list[str]:
    """Run, and run again with what is advised; returns the overrides that were pasted."""
    advice: list[str] = []
    seen: set[str] = set()
    while True:
        code, _, err = kdg("run", *RUN, *arguments, *advice)
        if code == 0:
            return advice
        assert code == 2 and len(err.splitlines()) == 1, err
        assert err not in seen, f"the remedy leads back: {err}"
        seen.add(err)
        way_out = pasted(err)
        assert way_out, err
        advice += way_out


def test_a_table_with_several_faults_loads_after_each_advice(kdg):
    cells = {(2, 0): "don't know", (5, 1): "1_0", (7, 2): "-1.25e+30", (9, 0): "okänd"}
    write("t.csv", ["größe", "b", "c", "label"], cells, separator=";")
    assert until_done(kdg, "dataset.path=t.csv", "dataset.target=label") == [
        'dataset.separator=";"',
        'dataset.missing=["don\'t know","okänd"]',
        'dataset.missing=["don\'t know","okänd","1_0"]',
        'dataset.missing=["don\'t know","okänd","1_0",-1.25e+30]',
    ]


def test_columns_that_are_numbers_and_dates_are_named_as_advised(kdg):
    write("t.csv", ["1", "a,b", "2", "3"], {(i, 0): f"2024-01-{1 + i % 28:02}" for i in range(60)})
    assert until_done(kdg, "dataset.path=t.csv", "dataset.target=3") == [
        'dataset.parse_dates=["1"]'
    ]


def test_a_path_that_hydra_cannot_read_is_quoted_as_advised(kdg):
    write("my (1) [b].csv", ["x", "y", "label"], {})
    code, _, err = kdg("run", *RUN, "dataset.path=my (1) [b].csv", "dataset.target=label")
    assert code == 2
    assert until_done(kdg, *pasted(err.partition("write ")[2]), "dataset.target=label") == []


@pytest.mark.parametrize("argument", ["dataset.target=a,b"])
def test_a_name_with_a_comma_is_no_sweep_when_it_is_pasted(kdg, argument):
    write("t.csv", ["x", "y", "a,b"], {})
    code, _, err = kdg("run", *RUN, "dataset.path=t.csv", argument)
    as_list, as_text = re.findall(r"'dataset\.target=[\[\"].*?[\]\"]'", err)
    assert code == 2 and as_list == "'dataset.target=[a,b]'"
    assert kdg("run", *RUN, "dataset.path=t.csv", *pasted(as_text))[0] == 0


def test_error_on_a_name_with_a_line_break_is_one_line(kdg):
    write(
        "t.csv",
        ["x", "y", "label"],
        {(i, 0): f"2024-01-{1 + i % 28:02}\x1b[31m" for i in range(60)},
    )
    code, _, err = kdg("run", *RUN, "dataset.path=t.csv", 'dataset.target="la\nbel"')
    assert (
        code == 2
        and err == "kdg: t has no column 'la\\nbel' (dataset.target); did you mean 'label'?\n"
    )
