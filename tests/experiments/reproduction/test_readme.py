"""READMEs of experiments: their tables and the numbers of their prose are those of the records."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from experiments.reproduction import readme
from experiments.reproduction.readme import (
    EXPERIMENTS,
    Pool,
    numbers,
    readmes,
    rendered,
    sections,
    unsupported,
    write,
)
from experiments.reproduction.readme_tables import ROOT, Records, read_measured, record, records_of
from kdgraph.errors import UsageError

TABLE = "| data | method | error | NLL | n |\n|---|---|---|---|---|\n"


def name_of(path: Path) -> str:
    return path.parent.relative_to(EXPERIMENTS).as_posix()


@pytest.fixture
def folder(tmp_path) -> Path:
    """A README with a table of its own records, and prose on them."""
    table = (
        TABLE + "| moons | **KDF** | .0412 | .21 ± .03 | 5 |\n| moons | forest | .05 | – | 5 |\n"
    )
    record(tmp_path, "simulations", table, 2, "kdg run x", "2026-11-21")
    text = (
        "# Title\n\nNothing here.\n\n## Simulations\n\n"
        '<!-- numbers: measured "simulations" rows=data,method -->\n<!-- end of numbers -->\n\n'
        "KDF has an error of .041, 4.1 %, and the forest .05. Code has `alpha=.3`, and text Section"
        " 5.2.1.\n"
    )
    (tmp_path / "README.md").write_text(text)
    write(tmp_path / "README.md")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("path", readmes(), ids=name_of)
def test_tables_are_those_of_the_records(path) -> None:
    text = path.read_text(encoding="utf-8")
    assert rendered(text, path.parent) == text, (
        f"{path.relative_to(ROOT)}: python -m experiments.reproduction.readme writes it again"
    )


@pytest.mark.parametrize("path", readmes(), ids=name_of)
def test_numbers_of_prose_are_in_the_records_of_their_section(path) -> None:
    """Up to half a unit of the last printed digit, which is the error of rounding; a percentage may
    be a fraction in the records. Signs are left out, because prose has them in words.
    """
    assert unsupported(path.read_text(encoding="utf-8"), path.parent) == []


@pytest.mark.slow
def test_most_changed_digits_of_prose_are_noticed() -> None:
    """A number with another last digit is by chance another number of its section's records now
    and then, more often the more records the section names. More than half of all such changes have
    to be noticed, or the check would let most mistakes pass.
    """
    noticed = []
    for path in readmes():
        for _, pool, prose in sections(path.read_text(encoding="utf-8"), path.parent):
            for match in numbers(prose):
                digits = match["digits"]
                for step in range(1, 10):
                    other = digits[:-1] + str((int(digits[-1]) + step) % 10)
                    (changed,) = numbers(match[0].replace(digits, other, 1))
                    noticed.append(not pool.has(changed))
    assert sum(noticed) > 0.5 * len(noticed)


@pytest.mark.parametrize("paper", ["p1", "p2", "p3", "p4", "p5"])
def test_sections_named_by_reasons_exist(paper) -> None:
    """A reason that is "shown by README.md, Photographs" leads to a section of that name."""
    reasons = pd.read_csv(EXPERIMENTS / paper / "reasons.csv", keep_default_na=False)
    for shown_by in set(reasons.shown_by):
        for place, title in re.findall(r"([\w/]*README\.md), ([^;]+)", shown_by):
            text = (EXPERIMENTS / paper / place).read_text(encoding="utf-8")
            assert re.search(rf"^#+ {re.escape(title.strip())}", text, re.MULTILINE), shown_by


def test_written_table_has_the_records(folder) -> None:
    text = (folder / "README.md").read_text()
    assert "| data | method | error | NLL |\n|---|---|---|---|\n" in text
    assert "| moons | KDF | .0412 | .21 ± .03 |\n| moons | forest | .05 | – |\n" in text
    assert not write(folder / "README.md")
    assert unsupported(text, folder) == []


def test_changed_digit_of_a_table_is_noticed(folder) -> None:
    text = (folder / "README.md").read_text()
    assert rendered(text.replace(".0412", ".0413"), folder) == text


def test_changed_record_is_noticed(folder) -> None:
    records = (folder / "measured.csv").read_text()
    (folder / "measured.csv").write_text(records.replace(".0412", ".0512"))
    text = (folder / "README.md").read_text()
    assert "| moons | KDF | .0512 |" in rendered(text, folder)
    assert unsupported(text, folder) == ["Simulations: .041", "Simulations: 4.1 %"]


@pytest.mark.parametrize(
    ("prose", "missing"),
    [
        ("an error of .042", [".042"]),
        ("an error of .041", []),
        ("an error of .0412, lower by 4 %", []),
        ("an error of 4.2 %", ["4.2 %"]),
        ("wins on 27 of 32 tables", ["27 of 32"]),
        (
            "`.77` in code, a 95 % interval, Sections 7.7, 7.8 and 7.9, Appendix B.1, Python 3.11",
            [],
        ),
        ("a p of 4.12e-02, not 4.13e-02", ["4.13e-02"]),
        ("1,234.5 rows", ["1,234.5"]),
    ],
)
def test_numbers_are_compared_at_their_printed_precision(folder, prose, missing) -> None:
    text = (folder / "README.md").read_text() + prose + "\n"
    assert unsupported(text, folder) == [f"Simulations: {number}" for number in missing]


def test_number_needs_a_record_of_its_own_section(folder) -> None:
    text = (folder / "README.md").read_text().replace("Nothing here", "An error of .041")
    assert unsupported(text, folder) == ["Title: .041"]
    named = text.replace("An error", '\n<!-- records: measured "simulations" -->\nAn error')
    assert unsupported(named, folder) == []


def test_percentages_match_fractions_but_not_the_reverse() -> None:
    pool = Pool()
    pool.add(Records(values=frozenset({0.884, 96.5})))
    supported = {
        text: pool.has(next(iter(numbers(text))))
        for text in ("88.4 %", "88 %", "96.5 %", ".884", ".965", "88.4")
    }
    assert supported == {
        "88.4 %": True, "88 %": True, "96.5 %": True, ".884": True, ".965": False, "88.4": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ('p1 "Figure 22"', "cells.csv has no 'Figure 22' of p1; did you mean 'Figure 2'?"),
        ("claims p1 nothing", "claims.csv has no 'nothing' of p1"),
        ('measured "other"', "measured.csv has no table 'other'"),
        (
            'measured "simulations" rows=data',
            "a row of 'simulations' has 2 leading columns, 'moons | KDF'; rows=data names 1",
        ),
        ("conf experiment/none", "conf/ has no experiment/none.yaml"),
        ("python -m os", "'python -m os' is no command of experiments"),
        ("rows", "README.md has the marker 'rows'; there are p1, p2"),
    ],
)
def test_unknown_markers_are_refused(folder, spec, message) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        records_of(spec, folder)


def test_table_without_an_end_is_refused(folder) -> None:
    text = (folder / "README.md").read_text().replace("<!-- end of numbers -->", "")
    with pytest.raises(UsageError, match="opens 1 tables with <!-- numbers: … --> and ends 0"):
        rendered(text, folder)


def test_a_recorded_table_replaces_the_former_one(folder) -> None:
    other = TABLE + "| *moons* | Cum* | **.03** (.02 to .04) | 3/1/2 | 7 |\n"
    record(folder, "simulations", other, 2, "kdg run y", "2026-11-22, commit abc")
    frame = read_measured(folder)
    assert frame.to_dict("records") == [
        {
            "table": "simulations", "row": "moons | Cum*", "column": column, "value": value,
            "spread": spread, "n": "7", "unit": "", "command": "kdg run y",
            "made": "2026-11-22, commit abc",
        }
        for column, value, spread in [("error", ".03", ".02 to .04"), ("NLL", "3/1/2", "")]
    ]  # fmt: skip
    assert records_of('measured "simulations" rows=data,method', folder).lines[2:] == [
        "| moons | Cum* | .03 (.02 to .04) | 3/1/2 |"
    ]


def test_table_with_two_columns_of_one_name_is_not_recorded(folder) -> None:
    table = "| data | NLL | NLL |\n|---|---|---|\n| moons | .1 | .2 |\n"
    with pytest.raises(UsageError, match="two values of moons, NLL; name its rows and columns"):
        record(folder, "two", table, 1, "", "")


def test_text_without_a_table_is_not_recorded(folder) -> None:
    with pytest.raises(UsageError, match="the standard input has no Markdown table"):
        record(folder, "simulations", "nothing", 1, "", "")


def test_list_has_published_and_measured_numbers(folder) -> None:
    """A list with verdicts, and a table of pairs, of the same cells as the page's."""
    cells = pd.read_csv(ROOT / "docs" / "results" / "cells.csv", low_memory=False)
    (cell,) = cells[
        (cells.paper == "p2") & (cells["item"] == "Section III") & cells.ours.notna()
    ].itertuples()
    (line,) = records_of('p2 "Section III"', folder).lines[2:]
    assert line.startswith(f"| {cell.metric} | {cell.value} | {cell.ours:.3f} (n = {cell.n}) |")
    assert line.endswith(f"| {cell.verdict} |")
    crossed = records_of('p1 "Figure 1" rows=dataset,method columns=metric,n_train', folder)
    assert re.search(r"\| spiral \| random_forest \| 0\.088 / 0\.0\d+ \|", "\n".join(crossed.lines))


def test_variants_are_columns_of_a_list_and_rows_of_a_table(folder) -> None:
    item = 'p1 "Figure 1" "method=kdf geodesic" metric=error dataset=spiral'
    table = f"{item} rows=method columns=n_train"
    by_option = {
        spec: [line.count("kdgraph's variant") for line in records_of(spec, folder).lines]
        for spec in (item, f"{item} variants=no", table, f"{table} variants=yes")
    }
    assert by_option == {
        item: [1, 0, 0, 0],
        f"{item} variants=no": [0, 0, 0, 0],
        table: [0, 0, 0],
        f"{table} variants=yes": [0, 0, 0, 1],
    }


def test_column_names_have_row_counts_and_bars_are_escaped(folder) -> None:
    spec = 'p1 "Figure 1" rows=dataset columns=method,n_train "method=kdf geodesic" metric=error'
    assert records_of(spec, folder).lines[0] == (
        "| dataset | kdf geodesic, n = 1,000 | kdf geodesic, n = 10,000 |"
    )
    claims = pd.read_csv(ROOT / "docs" / "results" / "claims.csv")
    with_bar = claims[claims.text.str.contains("|", regex=False)].iloc[0]
    lines = records_of(f"claims {with_bar.paper} {with_bar.claim}", folder).lines
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {4}


def test_command_checks_and_writes(folder, monkeypatch, capsys) -> None:
    monkeypatch.setattr(readme, "EXPERIMENTS", folder.parent)
    monkeypatch.setattr(readme, "ROOT", folder.parent)
    path = folder / "README.md"
    fresh = path.read_text()
    path.write_text(fresh.replace("| .0412 |", "| .05 |").replace("the forest .05", "one .07"))
    outcomes = {}
    for words in (["--check"], []):
        monkeypatch.setattr("sys.argv", ["readme", folder.name, *words])
        with pytest.raises(SystemExit) as ended:
            readme.main()
        outcomes[*words] = ended.value.code, capsys.readouterr().out
    place = f"{folder.name}/README.md"
    number = f"{place}: no record of its section has Simulations: .07\n"
    assert outcomes == {
        ("--check",): (
            1,
            f"{place}: a table is not that of the records; run this without --check\n{number}",
        ),
        (): (0, f"{place}: written\n{number}"),
    }
    assert path.read_text() == fresh.replace("the forest .05", "one .07")
