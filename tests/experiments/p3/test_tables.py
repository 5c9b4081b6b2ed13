"""What the three experiments print at their end, of records whose numbers are given."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.p3 import images, simulated, size_labels, tabular, text
from experiments.p3.__main__ import main
from tests.experiments.p3.made import record, rows_of


@pytest.fixture(scope="module")
def tables():
    sets = [
        "diabetes130us",
        "electricity",
        "gaussian",
        "uniform",
        "diabetes130us_own_range",
        "electricity_own_range",
    ]

    def value(seed: int):
        return lambda name, _: 0.9 + 0.01 * seed * (name == "uniform")

    return [
        record("bank_marketing_6", method, seed, sets, value(seed))
        for method in ("tood_given", "knn")
        for seed in (0, 1)
    ]


def test_measured_numbers_have_the_published_keys(tables, monkeypatch) -> None:
    monkeypatch.setattr(tabular, "outside_of", lambda _: {"gaussian": 0.5, "in distribution": 0.0})
    printed = tabular.compare_with_published(tables)
    assert "2 seeds" in printed and printed.count("against") == 1, (
        "tables of which there is no run are left out"
    )
    rows = rows_of(printed)
    assert rows[0] == ["**TOOD, published**", "100", "100", "100", "–", "–", "–"]
    assert rows[1] == ["TOOD, given labels", *["90.0 ± 0.0"] * 3, "90.5 ± 0.7", *["90.0 ± 0.0"] * 2]
    assert [row[0] for row in rows[2:]] == [
        "k-NN",
        "*rows with a value outside the training range*",
    ]
    assert rows[3][1:] == ["–", "–", "50.0", "–", "–", "–"]
    assert tabular.compare_with_published([]) == "no run of the three tables is there"


def clouds(grows: bool) -> list[dict]:
    """APHD .9 - s with a score s, which falls with the dimension or rises; AUROC from .9 down to
    .5.
    """

    def value(d: int, seed: int):
        score = {"": 0.05, "lines": 0.2, "squares": 0.1}
        slope = -0.01 if grows else 0.01
        return lambda name, metric: (
            0.9 - 0.4 * (d == 20) if metric == "auroc" else score[name] + slope * d + 0.001 * seed
        )

    return [
        record(
            "cloud_circles",
            method,
            seed,
            ["lines", "squares"],
            value(d, seed),
            {"dataset": {"n_dims": d}},
        )
        for method in ("tood_given", "tood_shuffled", "knn")
        for d in (2, 5, 20)
        for seed in (0, 1)
    ]


def test_claims_on_the_dimension_can_fail() -> None:
    held, failed = (
        simulated.compare_with_published(clouds(True)),
        simulated.compare_with_published(clouds(False)),
    )
    assert held.endswith("10 of 10 hold.") and "- FAIL" not in held
    assert failed.endswith("4 of 10 hold.") and failed.count("FAIL: APHD grows") == 6
    rows = rows_of(held)
    assert rows[0] == ["lines: TOOD, given labels", ".90 ± .00", ".90 ± .00", ".50 ± .00"]
    assert ["lines", ".7195", ".7495", ".8995"] in rows
    assert simulated.compare_with_published([]) == "no run of circles, lines and squares is there"


def sizes(permuted: float) -> list[dict]:
    """APHD of permuted rows above or below that of test rows; shuffled labels are as good, or
    not.
    """

    def value(rows: int, method: str):
        scores = {"": 0.1, "uniform": 0.3, "gaussian": 0.25, "shifted": 0.2, "permuted": permuted}
        return lambda name, metric: 0.9 if metric == "auroc" else scores[name] - 0.0001 * rows

    return [
        record(
            "digits",
            method,
            seed,
            list(size_labels.TABLES.sets)[1:],
            value(rows, method),
            n_train=rows,
        )
        for method in ("tood_given", "tood_shuffled")
        for rows in (50, 400, 400)  # a table that has given all its rows is there more than once
        for seed in (0, 1)
    ]


def test_claims_on_rows_and_labels_can_fail() -> None:
    held, failed = (
        size_labels.compare_with_published(sizes(0.15)),
        size_labels.compare_with_published(sizes(0.05)),
    )
    assert held.endswith("5 of 5 hold.")
    assert failed.endswith("3 of 5 hold.")
    assert (
        "FAIL: APHD is smaller out of distribution (Section 3.2), digits, given labels. with 400"
        " rows it is larger of permuted" in failed
    )
    assert [
        "digits",
        "given labels",
        "400",
        ".8400",
        ".6400",
        ".6900",
        ".7400",
        ".7900",
    ] in rows_of(held)
    assert len(size_labels.measured(sizes(0.1))) == 2 * 2 * 2 * (3 + 4 * 3)


def test_figures_of_the_maps_are_drawn() -> None:
    lines = {
        axes.get_title(): axes.lines
        for axes in simulated.figure_7(simulated.table_of(clouds(True), ["dataset.n_dims"])).axes
    }
    assert list(lines) == ["TOOD, given labels", "TOOD, shuffled labels"]
    np.testing.assert_allclose(
        np.asarray(lines["TOOD, given labels"][0].get_ydata(), dtype=float),
        0.9 - (0.05 - 0.01 * np.array([2, 5, 20]) + 0.0005),
    )
    assert len(simulated.figure_6(50).axes) == 3
    drawn = size_labels.figure_4(size_labels.measured(sizes(0.15)), size_labels.TABLES)
    assert drawn is not None
    assert [axes.get_title() for axes in drawn.axes] == [
        "digits, given labels",
        "digits, shuffled labels",
    ]
    assert all(len(axes.lines) == len(size_labels.TABLES.sets) for axes in drawn.axes)
    shuffled = [run for run in sizes(0.15) if run["method"] == "tood_shuffled"]
    assert size_labels.figure_4(size_labels.measured(shuffled), size_labels.TABLES) is None, (
        "half a column"
    )


@pytest.mark.slow
def test_one_command_prints_all_tables_and_draws(tmp_path, monkeypatch, capsys) -> None:
    for module, records in (
        (simulated, clouds(True)),
        (size_labels, sizes(0.15)),
        (text, []),
        (images, []),
    ):
        monkeypatch.setattr(
            module, "read", lambda folder, records=records: records if folder == tmp_path else []
        )
    main(
        [
            str(tmp_path),
            "--figures",
            str(tmp_path / "drawn"),
            "--only",
            "size_labels",
            "simulated",
            "text",
            "images",
        ]
    )
    printed = capsys.readouterr().out
    assert (
        printed.index("## TOOD, Figure 4, tables")
        < printed.index("## TOOD, Figure 7")
        < printed.index("no run of texts")
    )
    assert {path.name for path in (tmp_path / "drawn").iterdir()} == {
        f"figure{k}.{kind}" for k in (4, 6, 7) for kind in ("svg", "pdf")
    }
