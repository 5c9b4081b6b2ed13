"""The page as text: what is in it, and that nothing in a record can become markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdgraph.report.page.attachments import (
    FIGURE_BUDGET,
    FIRST_ROWS,
    LARGEST,
    PageFigures,
    PageTables,
    read_figures,
    read_tables,
)
from kdgraph.report.page.content import (
    Content,
    column_statistics,
    metric_summary,
    parent_names,
    study_remarks,
)
from kdgraph.report.page.page import PageInfo, find_unfinished, render_page, script_json
from kdgraph.results.comparison.study import build_study
from kdgraph.results.names import name_runs
from kdgraph.results.records import FinishedRun, find_runs
from kdgraph.runner.files import file_checksum
from kdgraph.runner.locks import process_identity
from tests.report.page_kinds import every_kind
from tests.report.page_runs import make_record, write
from tests.results.about_metrics import about_metrics

HOSTILE = '</script><script>alert(1)</script><!--<b>&"x"\''


class Elements(HTMLParser):
    """Names of the elements, and the text of each script."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.scripts: list[str] = []
        self.attributes: list[dict] = []

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes.append(dict(attrs))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.cdata_elem == "script":
            self.scripts[-1] += data


def content_of(records):
    runs = [FinishedRun(None, record) for record in records]
    studied = build_study(runs)
    content = Content()
    content.add(studied.runs, ["a/b/c"] * len(runs), parent_names(studied))
    return content.as_json(), studied, content


def page_of(records, pictures=None, tables=None, title="T", notes=()):
    content, studied, filled = content_of(records)
    more = {
        "statistics": column_statistics(studied, filled.columns.measures),
        "remarks": study_remarks(studied),
    }
    return render_page(
        {**content, **more},
        pictures or PageFigures(),
        tables or PageTables(),
        [],
        PageInfo(title, f"kdg report --title {title}", notes),
    )


def test_every_number_is_there_once_and_to_six_digits():
    records = [
        make_record(
            "dataset=spiral",
            "method=kdf",
            values=(0.123456789, 0.3, 1.23456789e-7, 1e-17),
            seed=seed,
        )
        for seed in (0, 1)
    ]
    content, *_ = content_of(records)
    run, other = content["runs"]
    numbers = content["numbers"][run["calibrated"]]
    layout = content["layouts"][numbers["layout"]]
    by_label = {
        content["columns"][column]["label"]: value
        for column, value in zip(layout, numbers["value"], strict=True)
    }
    assert by_label["error"] == 0.123457
    assert by_label["ECE, 15 bins"] == 1.23457e-7
    assert by_label["mean max confidence"] == 0  # a rounding error of a fraction
    assert (numbers["n"], numbers["other_n"]) == (100, {})
    assert run["calibrated"] == other["calibrated"]  # equal numbers are kept once
    assert len(content["settings"]) == 1
    assert len(content["runs"]) == 2


def test_a_metric_that_is_not_defined_stays_without_a_number():
    record = make_record("dataset=spiral", "method=kdf")
    record["metrics"][1] |= {"value": None, "stderr": None, "n": 0}
    content, *_ = content_of([record])
    numbers = content["numbers"][content["runs"][0]["calibrated"]]
    assert (numbers["value"][0], numbers["stderr"][0], numbers["other_n"]) == (None, None, {0: 0})


def test_a_column_describes_its_numbers():
    content, *_ = content_of([make_record("dataset=spiral", "method=kdf")])
    columns = {column["id"]: column for column in content["columns"]}
    ece, confidence = columns["ece"], columns["mmc@sphere:radius=2"]
    assert (ece["short"], ece["detail"], ece["ideal"]) == ("ECE", "15 bins", "lower")
    assert ece["options"] == "bins 15, strategy uniform, norm l1, debiased false"
    assert ece["about"].startswith(
        "Measure the expected calibration error (ECE) of top-label confidence, in [0, 1]. Rows are"
        " binned"
    )
    assert (confidence["short"], confidence["detail"], confidence["ideal"]) == (
        "confidence",
        "at radius 2",
        "prior",
    )
    assert (
        confidence["rows"]
        == "rows of sphere, radius 2 (out-of-distribution, draw uniform, unit feature)"
    )
    assert columns["oce@sphere:radius=1"]["ideal"] == "none"  # the rim of the data
    assert [column["id"] for column in content["columns"] if column["shown"]] == [
        "error",
        "nll",
        "ece",
        "oce@sphere:radius=2",
    ]


def test_columns_of_other_options_are_other_columns():
    other = make_record("dataset=spiral", "method=kdf", seed=1)
    other["config"]["metrics"]["test"]["ece"]["bins"] = 10
    content, *_ = content_of([make_record("dataset=spiral", "method=kdf"), other])
    assert {"ECE, 15 bins", "ECE, 10 bins"} <= {column["label"] for column in content["columns"]}


def test_what_is_no_metric_of_this_version_has_no_explanation():
    assert metric_summary("gone") == ""


def test_statistics_are_those_of_compare():
    records = [
        make_record(
            f"dataset={dataset}", f"method={method}", seed=seed, values=(error, 0.3, 0.05, 0.9)
        )
        for method, error in (("linear_pool", 0.1), ("isotonic", 0.2))
        for dataset in ("spiral", "circle", "moons")
        for seed in (0, 1)
    ]
    content, studied, filled = content_of(records)
    by_id = dict(
        zip(
            (column["id"] for column in content["columns"]),
            column_statistics(studied, filled.columns.measures),
            strict=True,
        )
    )
    assert by_id["mmc"] is None
    against = by_id["error"]["against"]["linear_pool"]
    assert (against["better"], against["same"], against["worse"], against["baseline"]) == (
        3,
        0,
        0,
        "random_forest (parent)",
    )
    assert by_id["error"]["ranks"] == {
        "linear_pool": 1.0,
        "isotonic": 2.0,
        "random_forest (parent)": 3.0,
    }
    assert json.loads(json.dumps(by_id, allow_nan=False)) == by_id


@given(
    st.recursive(
        st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_json_in_a_script_is_read_back_and_never_ends_it(value):
    text = script_json(value)
    assert json.loads(text) == value
    assert "<" not in text


def test_nothing_in_a_record_becomes_markup():
    record = make_record(
        "dataset=spiral",
        "method=kdf",
        warnings=[{"stage": HOSTILE, "message": HOSTILE}],
        learnt={HOSTILE: HOSTILE},
    )
    record["dataset"]["classes"] = [HOSTILE, "b"]
    plain = Elements()
    plain.feed(page_of([make_record("dataset=spiral", "method=kdf")]))
    hostile = Elements()
    pictures = PageFigures({0: [{"name": HOSTILE, "type": "image/svg+xml", "content": HOSTILE}]})
    tables = PageTables(
        {
            0: [
                {
                    "name": HOSTILE,
                    "label": HOSTILE,
                    "file": HOSTILE,
                    "columns": [HOSTILE],
                    "rows": [[HOSTILE]],
                    "n": 1,
                }
            ]
        }
    )
    hostile.feed(page_of([record], pictures, tables, title=HOSTILE, notes=[HOSTILE]))
    added = [
        "script",
        "script",
        "ul",
        "li",
    ]  # the figure's data, the table's, and the list of notes
    assert sorted(hostile.names) == sorted([*plain.names, *added])
    assert json.loads(hostile.scripts[1])["warnings"] == [{"stage": HOSTILE, "message": HOSTILE}]


def test_the_page_may_run_its_own_scripts_and_load_nothing():
    page = page_of([make_record("dataset=spiral", "method=kdf")])
    elements = Elements()
    elements.feed(page)
    policy = next(
        each["content"]
        for each in elements.attributes
        if each.get("http-equiv") == "Content-Security-Policy"
    )
    for script in (elements.scripts[0], elements.scripts[-1]):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not [each for each in elements.attributes if each.get("src") or each.get("rel")]
    outside = re.sub(r"https?://www\.w3\.org/2000/svg", "", page)
    assert not re.search(r"https?://", outside)


@pytest.fixture
def with_figures(tmp_path):
    """Three runs of two settings; each lists two figures, of which one is there in two
    formats.
    """
    records = [
        make_record("dataset=spiral", f"method={method}", seed=seed)
        for method, seed in (("kdf", 0), ("kdf", 1), ("isotonic", 0))
    ]
    for record in records:
        record["files"]["figures"] = [
            "figures/map.svg",
            "figures/map.png",
            "figures/map.pdf",
            "figures/gone.svg",
        ]
    out = write(tmp_path / "outputs", records)
    for path in out.glob("*/*/*"):
        (path / "figures").mkdir()
        (path / "figures" / "map.svg").write_text("<svg>" + "x" * 3000 + "</svg>")
        (path / "figures" / "map.png").write_bytes(b"\x89PNG" + b"y" * 300)
    return name_runs(find_runs(out))


def test_the_smaller_file_of_a_figure_is_taken(with_figures):
    figures = read_figures(with_figures, "some")
    (picture,) = figures.by_run[0]
    assert (picture["name"], picture["type"]) == ("map", "image/png")
    assert base64.b64decode(picture["content"]).startswith(b"\x89PNG")
    assert (figures.count, figures.missing, figures.left_out) == (3, 3, 0)
    assert figures.size == 3 * round(304 * 4 / 3)
    assert figures.summary("some") == "3 figures are in the page, 3 files are gone"


def test_figures_stop_at_the_budget_after_every_setting(with_figures, monkeypatch):
    monkeypatch.setattr("kdgraph.report.page.attachments.FIGURE_BUDGET", 900)
    figures = read_figures(with_figures, "some")
    assert sorted(with_figures[i].repetition for i in figures.by_run) == [(0,), (0,)]
    assert len({with_figures[i].method for i in figures.by_run}) == 2
    assert figures.left_out == 1
    assert read_figures(with_figures, "all").count == 3
    assert (
        read_figures(with_figures, "none").summary("none")
        == "0 figures are in the page, 3 are not (--figures some or all takes them), 3 files are"
        " gone"
    )


@pytest.fixture
def with_tables(tmp_path):
    """Three runs, each with a small table, a large one, one that is gone and one that is none."""
    records = [make_record("dataset=spiral", "method=kdf", seed=seed) for seed in (0, 1, 2)]
    names = ("ece", "large", "gone", "empty")
    for record in records:
        record["files"]["tables"] = {name: f"tables/{name}.csv" for name in names}
        record["about_metrics"] |= about_metrics(names)
    out = write(tmp_path / "outputs", records)
    for path in out.glob("*/*/*"):
        (path / "tables").mkdir()
        (path / "tables" / "ece.csv").write_text('of,word\nparent,"a,b"\ncalibrated,"say ""hi"""\n')
        (path / "tables" / "large.csv").write_text(
            "n\n" + "".join(f"{i:09d}\n" for i in range(LARGEST // 9))
        )
        (path / "tables" / "empty.csv").write_text("")
    return name_runs(find_runs(out))


def test_large_tables_are_cut_off_in_the_page(with_tables):
    tables = read_tables(with_tables)
    small, large = tables.by_run[0]
    assert small == {
        "name": "ece",
        "label": "ECE",
        "file": "tables/ece.csv",
        "columns": ["of", "word"],
        "n": 2,
        "rows": [["parent", "a,b"], ["calibrated", 'say "hi"']],
    }
    assert (large["label"], large["n"], len(large["rows"])) == ("large", LARGEST // 9, FIRST_ROWS)
    assert large["rows"][-1] == [f"{FIRST_ROWS - 1:09d}"]
    assert (
        tables.summary
        == "6 tables are in the page, 6 of their files are gone, changed or no tables"
    )
    assert PageTables().summary == ""


def test_a_table_that_is_not_as_it_was_written_is_not_shown(with_tables):
    small = with_tables[0].finished.path / "tables" / "ece.csv"
    with_tables[0].record["files"]["sha256"] = {"tables/ece.csv": file_checksum(small)}
    assert [table["name"] for table in read_tables(with_tables).by_run[0]] == ["ece", "large"]
    small.write_text(small.read_text().replace("parent", "parenu"))
    assert [table["name"] for table in read_tables(with_tables).by_run[0]] == ["large"]


def test_tables_stop_at_the_budget(with_tables, monkeypatch):
    monkeypatch.setattr("kdgraph.report.page.attachments.TABLE_BUDGET", 300)
    tables = read_tables(with_tables)
    assert tables.size <= 300 and tables.left_out == 2
    assert "2 are not (tables take at most 0.0003 MB)" in tables.summary


def test_every_kind_of_run_has_its_columns():
    content, *_ = content_of(every_kind())
    assert [column["id"] for column in content["columns"] if column["shown"]] == [
        "error",
        "nll",
        "ece",
        "oce@sphere:radius=2",
        "auroc@sphere:radius=2",
        "rmse",
        "crps",
        "coverage",
        "ece",
    ]
    assert {setting["task"] for setting in content["settings"]} == {
        "classification",
        "detection",
        "regression",
    }
    auroc = next(column for column in content["columns"] if column["id"] == "auroc@sphere:radius=2")
    assert (auroc["short"], auroc["detail"], auroc["ideal"], auroc["of"]) == (
        "AUROC",
        "at radius 2",
        "higher",
        "rows",
    )


def test_the_first_metrics_of_the_user_are_shown():
    record = make_record("dataset=spiral", "method=kdf")
    record["metrics"] = [
        {**entry, "metric": f"my_{entry['metric']}"} for entry in record["metrics"]
    ]
    record["about_metrics"] = about_metrics(entry["metric"] for entry in record["metrics"])
    content, *_ = content_of([record])
    assert [column["id"] for column in content["columns"] if column["shown"]] == [
        "my_error",
        "my_nll",
        "my_ece",
        "my_mmc",
    ]


def test_the_budget_is_given_in_megabytes():
    assert FIGURE_BUDGET == 4_000_000
    assert (
        PageFigures({0: [{}]}, left_out=2).summary("some")
        == "1 figure is in the page, 2 are not (figures take at most 4 MB; --figures all takes all)"
    )
    assert PageFigures().summary("some") == ""


def test_runs_without_a_result_are_found_with_their_reason(tmp_path):
    out = write(tmp_path / "outputs", [make_record("dataset=spiral", "method=kdf")])
    for name, files in {
        "wine/kdf/1": {"error.txt": "ValueError: bad\n\ntrace"},
        "wine/sigmoid/2": {"running.json": '{"pid": 1, "host": "elsewhere"}'},
        "wine/kdf/3": {
            "running.json": json.dumps({**process_identity(), "start": "of a process that is gone"})
        },
        ".store/fit": {"error.txt": "not a run"},
    }.items():
        (out / name).mkdir(parents=True)
        for file, text in files.items():
            (out / name / file).write_text(text)
    (done,) = out.glob("spiral/kdf/*")
    (done / "error.txt").write_text("KeyError: 'again'\n")
    states = {
        run.path.relative_to(out).as_posix(): (run.state, run.reason)
        for run in find_unfinished(out)
    }
    assert states == {
        done.relative_to(out).as_posix(): ("failed", "KeyError: 'again'"),
        "wine/kdf/1": ("failed", "ValueError: bad"),
        "wine/kdf/3": ("cut off", "it was ended before it was done; it is done again next time"),
        "wine/sigmoid/2": ("running", "it is running at the moment"),
    }
    assert [
        run.path.name for run in find_unfinished(out, ["dataset=wine", "method=kdf", "seed=7"])
    ] == [
        "1",
        "3",
    ]


def test_seeds_that_javascript_would_merge_stay_apart(tmp_path):
    seeds = [2**53, 2**53 + 1, 2**64]
    content = Content()
    runs = name_runs(
        find_runs(
            write(
                tmp_path, [make_record("dataset=spiral", "method=kdf", seed=seed) for seed in seeds]
            )
        )
    )
    content.add(runs, ["", "", ""], {"random_forest": "random_forest (parent)"})
    assert [run["repetition"] for run in content.as_json()["runs"]] == [
        [2**53],
        [str(2**53 + 1)],
        [str(2**64)],
    ]
