"""The bench: values beside their bars, and every method in a small cell."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "scripts" / "bench"


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    yield import_module
    for name in ("table", "methods"):
        sys.modules.pop(name, None)


def test_value_misses_a_bar_above_or_below(modules):
    value = modules("table").Value
    assert value(1.5, "×", bar=1.2).text == "1.5 × (≤ 1.2) MISSED"
    assert value(1.1, "×", bar=1.2).text == "1.1 × (≤ 1.2)"
    assert value(1.1, "×", bar=1.2, at_least=True).is_missed
    assert value(7, "MB").text == "7 MB"


def test_markdown_has_a_table_for_each_set_of_quantities(modules, capsys):
    module = modules("table")
    table = module.Table()
    for name in ("isotonic", "KDF"):
        table.add(name, "10 × 2", fit=module.Value(2, "×", "its parent's", 1))
    table.add("kdg list", "", time=module.Value(0.5, "s"))
    assert table.markdown().splitlines() == [
        "| what | of | fit, its parent's |",
        "| --- | --- | --- |",
        "| isotonic | 10 × 2 | 2 × (≤ 1) MISSED |",
        "| KDF | 10 × 2 | 2 × (≤ 1) MISSED |",
        "",
        "| what | of | time |",
        "| --- | --- | --- |",
        "| kdg list |  | 0.5 s |",
    ]
    assert "2 × (≤ 1) MISSED its parent's" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("parent", ["forest", "hist"])
def test_every_method_is_measured(modules, parent):
    methods, table = modules("methods"), modules("table").Table()
    cell = methods.Cell(400, n_features=5, parent=parent, n_trees=10)
    methods._bench_cell(table, cell, ())
    measured = {line.what for line in table.lines}
    assert measured >= methods.methods(cell).keys()
    assert all(value.value == value.value for value in table.values)


def test_unknown_part_is_refused():
    done = subprocess.run(
        [sys.executable, BENCH, "everything"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "parts are methods, regression, algorithms, commands" in done.stderr
