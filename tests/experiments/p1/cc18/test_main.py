"""The study on tables of OpenML as a script: everything prints and draws."""

from __future__ import annotations

import json

import pytest

from experiments.p1.cc18 import __main__ as cc18
from experiments.p1.cc18.figures import pages

pytestmark = pytest.mark.slow
MADE_OF_RUNS = [part for part in cc18.PARTS if part != "stored"]


@pytest.mark.parametrize(
    ("sizes", "parents"), [((400,), ("random_forest",)), ((100, 400), ("random_forest", "mlp"))]
)
def test_everything_prints_and_draws(tmp_path, monkeypatch, capsys, sizes, parents, study) -> None:
    for i, each in enumerate(study(sizes, parents)):
        run = tmp_path / "runs" / each["dataset"]["name"] / each["method"] / str(i)
        run.mkdir(parents=True)
        (run / "result.json").write_text(json.dumps(each))
    monkeypatch.setattr(
        "sys.argv",
        ["cc18", str(tmp_path / "runs"), "--every", "--to", str(tmp_path), "--only", *MADE_OF_RUNS],
    )
    cc18.main()
    out, err = capsys.readouterr()
    assert out.count("5 tables, 2 seeds each, 400 to 400 rows that fit and calibrate.") == len(
        parents
    )
    assert "nan" not in out
    assert f"{len(sizes) * len(parents) * 30} runs" in err
    for kind in ("svg", "pdf"):
        assert {path.stem for path in tmp_path.glob(f"*.{kind}")} == {
            "every_kdgraph",
            "every_tables_1",
        }


def test_stored_numbers_are_drawn_twelve_tables_a_page(tmp_path, monkeypatch) -> None:
    """Drawn are three tables, two a page, which is quicker than of all."""
    numbers = cc18.published_numbers()
    names = list(dict.fromkeys(numbers.dataset))[:3]
    monkeypatch.setattr(cc18, "published_numbers", lambda: numbers[numbers.dataset.isin(names)])
    tested = []
    monkeypatch.setattr(
        cc18,
        "pages",
        lambda stored, rows_a_page: tested.append(rows_a_page) or pages(stored, rows_a_page=2),
    )
    monkeypatch.setattr(
        "sys.argv", ["cc18", str(tmp_path), "--to", str(tmp_path), "--only", "stored"]
    )
    cc18.main()
    for kind in ("svg", "pdf"):
        assert {path.stem for path in tmp_path.glob(f"*.{kind}")} == {
            "figure2_published",
            "figure5_published",
            "figure6_published",
        }
    assert tested == [12]


def test_two_settings_end_with_one_line(tmp_path, monkeypatch, record) -> None:
    for i, each in enumerate([record(), record(k=3)]):
        run = tmp_path / "a" / "kdf" / str(i)
        run.mkdir(parents=True)
        (run / "result.json").write_text(json.dumps(each))
    monkeypatch.setattr("sys.argv", ["cc18", str(tmp_path), "--every"])
    with pytest.raises(
        SystemExit, match=r"every run: two runs of KDF on .* which differ in calibrator\.k"
    ):
        cc18.main()
