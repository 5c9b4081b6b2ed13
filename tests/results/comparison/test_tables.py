"""Tables with words around them on a terminal, in Markdown and in LaTeX; and the sections of a
comparison.
"""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.results.comparison.aggregate import compare_methods
from kdgraph.results.comparison.study import build_study
from kdgraph.results.comparison.tables import (
    COMPARISON_COLUMNS,
    comparison_table,
    dataset_sections,
    datasets_section,
    file_sections,
    means_section,
    outcomes_section,
    remarks_section,
    study_heading,
)
from kdgraph.results.export import (
    Section,
    fold_columns,
    sections_to_latex,
    sections_to_markdown,
    sections_to_text,
)
from kdgraph.results.names import MARK

SECTIONS = [
    Section(
        "a title",
        ["", "error", "p_1"],
        [["kdf", "0.1 ◂", "<0.001"], ["isotonic", "0.25", "–"]],
        ["◂: best", "more"],
    )
]


def test_on_a_terminal_numbers_stand_below_each_other() -> None:
    assert sections_to_text([Section("first"), *SECTIONS]).splitlines() == [
        "first",
        "",
        "a title",
        "             error        p_1",
        "  kdf          0.1 ◂   <0.001",
        "  isotonic    0.25          –",
        "  ◂: best",
        "  more",
    ]


def test_a_table_that_is_too_wide_goes_on_below() -> None:
    assert sections_to_text(SECTIONS, width=22).splitlines() == [
        "a title",
        "             error",
        "  kdf          0.1 ◂",
        "  isotonic    0.25",
        "",
        "                p_1",
        "  kdf        <0.001",
        "  isotonic        –",
        "  ◂: best",
        "  more",
    ]
    assert (
        sections_to_text(SECTIONS, width=8).splitlines()[:8]
        == sections_to_text(SECTIONS, width=22).splitlines()[:8]
    )  # a column is never cut


def test_names_that_leave_no_room_for_a_number_are_wrapped() -> None:
    name = "kdf calibrator.alpha=0.005 calibrator.robust=true"
    columns = [["", name], ["error", "0.1"], ["nll", "0.25"]]
    assert fold_columns(columns, None) == [
        [f"{'':51}   error    nll", f"  {name}     0.1   0.25"],
    ]
    assert fold_columns(columns, 40) == [
        [
            "                               error",
            "  kdf calibrator.alpha=0.005     0.1",
            "    calibrator.robust=true",
        ],
        [
            "                                nll",
            "  kdf calibrator.alpha=0.005   0.25",
            "    calibrator.robust=true",
        ],
    ]


def test_words_are_wrapped() -> None:
    text = sections_to_text([Section("", notes=["word " * 40])], width=50)
    assert len(text.splitlines()) > 3 and max(map(len, text.splitlines())) <= 50


def test_markdown_has_the_best_bold() -> None:
    table = [
        "|  | error | p\\_1 |".replace("\\", ""),
        "| --- | ---: | ---: |",
        "| kdf | **0.1** | &lt;0.001 |",
        "| isotonic | 0.25 | – |",
    ]
    assert sections_to_markdown(SECTIONS, "12 runs") == "\n".join(
        ["# 12 runs", "", "## a title", "", *table, "", "bold: best", "", "more", ""]
    )


def test_latex_has_title_and_notes_as_the_caption() -> None:
    assert sections_to_latex(
        [*SECTIONS, Section("", notes=["Only words."])], "12 runs"
    ).splitlines() == [
        "% 12 runs",
        r"% needs \usepackage{booktabs}",
        "",
        r"\begin{table}",
        r"\centering",
        r"\caption{a title. bold: best. more.}",
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r" & error & p\_1 \\",
        r"\midrule",
        r"kdf & \textbf{0.1} & $<$0.001 \\",
        r"isotonic & 0.25 & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "",
        "% Only words.",
    ]


def runs(record, n_datasets: int, n_seeds: int, shift: float = 0.1):
    for d in range(n_datasets):
        for s in range(n_seeds):
            base = 0.5 + 0.02 * d + 0.002 * s
            for method, change in (("kdf", -shift), ("isotonic", 0.0), ("sigmoid", shift)):
                values = {"error": base + change, "mmc": 0.9}
                yield record(
                    f"d{d}", method, seed=s, values=values, of_parent={"error": base, "mmc": 0.8}
                )


def study_and_comparisons(as_runs, records):
    study = build_study(as_runs(list(records)))
    return study, [compare_methods(study, measure) for measure in study.measures]


def test_one_data_set_over_its_seeds(record, as_runs) -> None:
    study, comparisons = study_and_comparisons(as_runs, runs(record, 1, 8))
    assert sections_to_text(
        [Section(study_heading(study)), *dataset_sections(study, "d0", comparisons, 3)]
    ).splitlines() == [
        "24 runs · 1 data set · 3 methods on 1 parent · 8 seeds (0–7)",
        "",
        "d0",
        "                                   error     mean max confidence",
        "  random_forest (parent)   0.507 ± 0.005           0.800 ± 0.000",
        "  isotonic                 0.507 ± 0.005           0.900 ± 0.000",
        "  kdf                      0.407 ± 0.005 ◂         0.900 ± 0.000",
        "  sigmoid                  0.607 ± 0.005           0.900 ± 0.000",
        "",
        "d0, 8 seeds, against random_forest (parent): wins/ties/losses (p)",
        "                     error",
        "  isotonic   0/8/0 (1.000)",
        "  kdf        8/0/0 (0.023)",
        "  sigmoid    0/0/8 (0.023)",
    ]
    *_, last = sections_to_text([remarks_section(study, comparisons, [])]).splitlines()
    assert last == "  Neither direction is better, so nothing is tested: mean max confidence."
    assert datasets_section(comparisons[0], 3) is None


def test_notes_are_on_what_the_tables_have(record, as_runs) -> None:
    study, comparisons = study_and_comparisons(as_runs, runs(record, 1, 8))
    with_p = remarks_section(
        study, comparisons, dataset_sections(study, "d0", comparisons, 3)
    ).notes
    assert [note.partition(":")[0] for note in with_p[-4:-1]] == [
        "Numbers are compared as they are, not as they are printed; a relative difference of 1e-09"
        " is a tie.",
        "p",
        "◂",
    ]
    few, comparisons = study_and_comparisons(as_runs, runs(record, 1, 3))
    without = remarks_section(few, comparisons, dataset_sections(few, "d0", comparisons, 3)).notes
    assert not any(note.startswith(("p:", "◂:", "median")) for note in without)
    assert without[0].startswith("± is") and without[1].startswith("Numbers are compared")


def test_a_file_has_the_tests_over_seeds_of_each_data_set(record, as_runs) -> None:
    study, (error, mmc) = study_and_comparisons(as_runs, runs(record, 2, 8))
    section = outcomes_section(study, error)
    assert section.title == (
        "error, against random_forest (parent), wins/ties/losses (p): each data set"
    )
    assert section.head == ["data set", "isotonic", "kdf", "sigmoid"]
    assert section.rows[1] == ["d1", "0/8/0 (1.000)", "8/0/0 (0.023)", "0/0/8 (0.023)"]
    assert outcomes_section(study, mmc) is None
    titles = [section.title for section in file_sections(study, [error, mmc], 3)]
    assert titles == [
        "error, lower is better, 2 data sets, against random_forest (parent)",
        "error, lower is better: each data set",
        section.title,
        "mean max confidence, neither direction is better: each data set",
        "",
    ]


def test_many_methods_are_rows_in_a_file(record, as_runs) -> None:
    records = [
        record(d, f"m{k}", values={"error": 0.1 * k}, of_parent={"error": 0.5})
        for d in ("a", "b")
        for k in range(7)
    ]
    study, comparisons = study_and_comparisons(as_runs, records)
    means = file_sections(study, comparisons, 3)[1]
    assert list(means.head) == ["", "a", "b"] and len(means.rows) == 8
    assert list(means.rows[2]) == ["m1", "0.100", "0.100"]


def test_too_few_seeds_have_no_p_and_no_mark(record, as_runs) -> None:
    study, comparisons = study_and_comparisons(as_runs, runs(record, 1, 3))
    first, second = dataset_sections(study, "d0", comparisons, 3)
    assert (
        second.title == "d0, 3 seeds, against random_forest (parent): wins/ties/losses"
        and second.rows[1] == ["kdf", "3/0/0"]
    )
    assert second.notes == [
        "With 3 seeds no paired test of 3 methods can be significant at 0.05: that takes 7."
    ]
    assert "◂" not in sections_to_text([first])


def test_one_seed_has_means_alone(record, as_runs) -> None:
    study, comparisons = study_and_comparisons(as_runs, runs(record, 1, 1))
    (only,) = dataset_sections(study, "d0", comparisons, 4)
    assert only.rows[2] == ["kdf", "0.4000", "0.9000"]


def test_missing_runs_are_dashes_and_fewer_seeds_are_counted(record, as_runs) -> None:
    records = list(runs(record, 2, 3))
    kept = [
        r
        for r in records
        if (r["method"], r["seed"], r["dataset"]["name"])
        not in (("kdf", 2, "d0"), ("sigmoid", 0, "d1"))
    ]
    kept = [r for r in kept if not (r["method"] == "isotonic" and r["dataset"]["name"] == "d1")]
    study, comparisons = study_and_comparisons(as_runs, kept)
    assert means_section(study, comparisons[0], 3).rows == [
        ["d0", "0.502 ± 0.002", "0.502 ± 0.002", "0.401 ± 0.001 (n=2)", "0.602 ± 0.002"],
        ["d1", "0.522 ± 0.002", "–", "0.422 ± 0.002", "0.623 ± 0.001 (n=2)"],
    ]
    assert [row[0] for row in dataset_sections(study, "d1", comparisons, 3)[0].rows] == [
        "random_forest (parent)",
        "kdf",
        "sigmoid",
    ]


def test_all_data_sets_together(record, as_runs) -> None:
    _, (error, mmc) = study_and_comparisons(as_runs, runs(record, 12, 2))
    assert sections_to_text([datasets_section(error, 3)]).splitlines() == [
        "error, lower is better, 12 data sets, against random_forest (parent)",
        (
            "                           mean rank     median   wins/ties/losses   median change   "
            "    p"
        ),
        (
            "  kdf                           1.00 ◂    0.511             12/0/0          −0.100  "
            " 0.001"
        ),
        "  random_forest (parent)        2.50      0.611",
        (
            "  isotonic                      2.50      0.611             0/12/0           0.000  "
            " 1.000"
        ),
        (
            "  sigmoid                       4.00      0.711             0/0/12          +0.100  "
            " 0.001"
        ),
        (
            "  Friedman over 12 data sets (24 runs of each method): χ² = 36.0, p < 0.001 (exact);"
            " ◂: mean rank less than 1.35 from"
        ),
        "    the best (Nemenyi, α = 0.05)",
    ]
    assert datasets_section(mmc, 3) is None


def test_few_data_sets_have_no_p(record, as_runs) -> None:
    _, (error, _) = study_and_comparisons(as_runs, runs(record, 3, 1, shift=1e-12))
    section = datasets_section(error, 3)
    assert section.head == ["", "mean rank", "median", "wins/ties/losses", "median change"]
    assert section.notes == [
        (
            "Friedman over 3 data sets (3 runs of each method): χ² = 0.0, p = 1.000 (exact):"
            " no difference is significant"
        ),
        "With 3 data sets no paired test of 3 methods can be significant at 0.05: that takes 7.",
    ]


def test_three_methods_on_two_data_sets_are_not_significant(record, as_runs) -> None:
    """Both rank them alike, with an infinite F; so does one of six pairs of data sets between
    equals.
    """
    _, (error, _) = study_and_comparisons(
        as_runs, (r for r in runs(record, 2, 4) if r["method"] != "isotonic")
    )
    assert (
        datasets_section(error, 3).notes[0]
        == "Friedman over 2 data sets (8 runs of each method): χ² = 4.0, p = 0.167 (exact): no"
        " difference of 3 methods on 2 data sets can be significant, whatever their numbers; that"
        " takes 3 data sets"
    )
    assert error.best_over_datasets == []


@pytest.mark.parametrize("unit", [1e-6, 1e5])
def test_a_target_in_other_units_changes_nothing_but_the_numbers(record, as_runs, unit) -> None:
    """Marks, wins, p and ranks of RMSE and CRPS are those of the target in its own unit; numbers
    have as many digits.
    """
    rng = np.random.default_rng(3)
    numbers = {
        (m, d, s): np.round(rng.uniform(0.2, 0.9) + 0.4 * i, 2)
        for i, m in enumerate("ab")
        for d in range(7)
        for s in range(8)
    }

    def tables(scale: float):
        records = [
            record(
                f"d{d}",
                m,
                seed=s,
                values={"rmse": scale * value, "crps": scale * value / 3},
                of_parent={"rmse": scale, "crps": scale},
                parent="linear",
                prior=None,
            )
            for (m, d, s), value in numbers.items()
        ]
        study, comparisons = study_and_comparisons(as_runs, records)
        return (
            comparisons,
            [
                section
                for d in study.datasets
                for section in dataset_sections(study, d, comparisons, 4)
            ],
            [datasets_section(m, 4) for m in comparisons],
        )

    (own, own_each, own_all), (other, other_each, other_all) = tables(1.0), tables(unit)
    for a, b in zip(own, other, strict=True):
        assert (
            a.ranks == b.ranks and a.best == b.best and a.best_over_datasets == b.best_over_datasets
        )
        assert [(x.outcome, x.p) for x in a.over_datasets.values()] == [
            (x.outcome, x.p) for x in b.over_datasets.values()
        ]
        for dataset in a.over_seeds:
            assert [x.outcome for x in a.over_seeds[dataset].values()] == [
                x.outcome for x in b.over_seeds[dataset].values()
            ]
        assert any(a.best.values())
    for a, b in zip(own_each, other_each, strict=True):
        assert a.title == b.title and [[MARK in cell for cell in row] for row in a.rows] == [
            [MARK in cell for cell in row] for row in b.rows
        ]
        assert not any(cell.startswith(("0.0000", "-0.0000")) for row in b.rows for cell in row)
    for a, b in zip(own_all, other_all, strict=True):
        assert a.notes == b.notes and [row[0] for row in a.rows] == [row[0] for row in b.rows]
        change = a.head.index("median change")
        assert [row[change][:1] for row in a.rows] == [row[change][:1] for row in b.rows]


def test_a_method_that_is_not_ranked_is_listed_with_its_data_sets(record, as_runs) -> None:
    records = [
        r
        for r in runs(record, 8, 1)
        if r["method"] != "sigmoid" or r["dataset"]["name"] in ("d0", "d1")
    ]
    _, (error, _) = study_and_comparisons(as_runs, records)
    section = datasets_section(error, 2)
    assert section.head[:3] == ["", "mean rank", "data sets"]
    assert section.rows[-1] == ["sigmoid", "–", "2", "0.61", "0/0/2", "+0.10", "1.000"]
    assert "Not ranked, with fewer than half of the runs: sigmoid" in section.notes


def test_two_methods_have_no_ranks(record, as_runs) -> None:
    _, (error, _) = study_and_comparisons(
        as_runs, (r for r in runs(record, 6, 1) if r["method"] == "kdf")
    )
    section = datasets_section(error, 2)
    assert section.head == ["", "median", "wins/ties/losses", "median change", "p"]
    assert section.rows == [
        ["kdf", "0.45 ◂", "6/0/0", "−0.10", "0.031"],
        ["random_forest (parent)", "0.55", "", "", ""],
    ]


def test_the_long_table_has_every_mean_and_test(record, as_runs) -> None:
    study, comparisons = study_and_comparisons(as_runs, runs(record, 12, 2))
    table = comparison_table(study, comparisons)
    assert list(table) == list(COMPARISON_COLUMNS) and {
        len(values) for values in table.values()
    } == {2 * 12 * 4 + 4}
    at = table["over"].index("data sets") + 1  # kdf or another of the error
    last = {name: values[at] for name, values in table.items()}
    assert (
        last["dataset"] is None
        and last["measure"] == "error"
        and last["n"] == 12
        and last["baseline"] == "random_forest (parent)"
    )
    kdf = [
        i
        for i, name in enumerate(table["method"])
        if name == "kdf" and table["over"][i] == "data sets"
    ]
    row = {name: values[kdf[0]] for name, values in table.items()}
    assert (row["wins"], row["ties"], row["losses"], row["mean_rank"], row["best"]) == (
        12,
        0,
        0,
        1.0,
        True,
    )
    assert np.isclose(row["median_change"], -0.1) and np.isclose(row["p"], 3 * 2 / 2**12)
    first = {name: values[0] for name, values in table.items()}
    assert (
        first["over"] == "seeds"
        and first["dataset"] == "d0"
        and first["n"] == 2
        and first["best"] is None
        and first["median"] is None
    )
