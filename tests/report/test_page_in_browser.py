"""The report in a browser: what it shows, with the mouse, with the keyboard, and with a screen
reader.
"""

from __future__ import annotations

import json
import re
from statistics import mean, median

import pytest
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

from kdgraph.cli.main import main
from tests.report.conftest import width_of_content
from tests.report.page_kinds import HISTOGRAM, every_kind, write_every_kind
from tests.report.page_runs import OF_PARENT, make_record, write

pytestmark = pytest.mark.slow

SEEDS = 130
HOSTILE = "<img src=x onerror=\"document.title='bad'\">"
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><text>figure</text></svg>'


def error_of(dataset, method, seed):
    """Kdf is better on spiral, worse on wine."""
    return round(
        {"kdf": 0.1, "isotonic": 0.15}[method]
        + (0.25 if dataset == "wine" and method == "kdf" else 0)
        + seed / 10_000,
        4,
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report of 520 runs, one of which has a figure and a warning, and of a failed one."""
    folder = tmp_path_factory.mktemp("report")
    records = [
        make_record(
            f"dataset={dataset}",
            f"method={method}",
            seed=seed,
            values=(error_of(dataset, method, seed), 0.3 + seed / 1000, 0.05, 0.9),
        )
        for dataset in ("spiral", "wine")
        for method in ("kdf", "isotonic")
        for seed in range(SEEDS)
    ]
    for record in records:  # both methods behind the same parent
        record["config"]["calibration"] = "held_out"
    first = records[0]
    first["warnings"] = [{"stage": "fit", "message": f"beware of {HOSTILE}"}]
    first["dataset"]["classes"] = [HOSTILE, "b"]
    first["files"]["figures"] = ["figures/reliability_diagram.svg", "figures/lost.svg"]
    out = write(folder / "outputs", records)
    figure = out / "spiral" / "kdf" / first["run_id"] / "figures" / "reliability_diagram.svg"
    figure.parent.mkdir()
    figure.write_text(SVG)
    failed = out / "wine" / "kdf" / "00000000" / "error.txt"
    failed.parent.mkdir()
    failed.write_text(f"ValueError: {HOSTILE}\n\ntrace")
    assert (
        main(
            [
                "report",
                "--out",
                str(out),
                "--output",
                str(folder / "report.html"),
                "--title",
                f"Title {HOSTILE}",
            ]
        )
        == 0
    )
    return (folder / "report.html").as_uri(), first


@pytest.fixture
def reader(browser, page):
    browser.get(page[0])
    return Reader(browser)


class Reader:
    """A reader who clicks and types in the page."""

    def __init__(self, browser) -> None:
        self.browser = browser

    def element(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def script(self, text, *arguments):
        return self.browser.execute_script(text, *arguments)

    def column(self, table, name):
        """Texts of a column of the body."""
        return self.script(
            """const heads = [...document.querySelectorAll(`${arguments[0]} thead th`)].map((head) => head.textContent);
            const at = heads.findIndex((head) => head.startsWith(arguments[1]));
            return [...document.querySelectorAll(`${arguments[0]} tbody tr`)].map((row) => row.cells[at].textContent);""",
            table,
            name,
        )

    def head(self, table, name):
        return next(head for head in self.all(f"{table} thead th") if head.text.startswith(name))

    def press(self, *keys):
        ActionChains(self.browser).send_keys(*keys).perform()

    def press_with_control(self, key):
        ActionChains(self.browser).key_down(Keys.CONTROL).send_keys(key).key_up(
            Keys.CONTROL
        ).perform()

    def find(self, text):
        self.element("#find").clear()
        self.element("#find").send_keys(text)
        self.until(
            lambda: (
                self.element("#live").get_attribute("textContent")
                == self.element("#shown").text
                != ""
            )
        )
        self.until(
            lambda: self.script("return location.hash.includes('find=') || !arguments[0]", text)
        )

    def until(self, condition):
        WebDriverWait(self.browser, 5, poll_frequency=0.02).until(lambda _: condition())

    def active(self):
        return self.browser.switch_to.active_element

    def tip(self):
        return self.element("#tip").text.splitlines()


def test_it_opens_with_the_summary_of_its_runs(reader):
    assert reader.element("h1").text == f"Title {HOSTILE}"
    assert (
        reader.element("#summary").text
        == "520 runs · 2 data sets · 2 methods on 1 parent · 130 seeds"
    )
    assert reader.column("#methods-table", "Method") == [
        "random_forest (parent)",
        "isotonic",
        "kdf",
    ]
    assert (
        reader.script(
            "return performance.getEntriesByType('resource').filter((one) =>"
            " !one.name.startsWith('blob:')).length"
        )
        == 0
    )


def test_methods_have_medians_of_means_over_seeds(reader):
    expected = median(
        mean(error_of(dataset, "kdf", seed) for seed in range(SEEDS))
        for dataset in ("spiral", "wine")
    )
    cells = dict(
        zip(
            reader.column("#methods-table", "Method"),
            reader.column("#methods-table", "error"),
            strict=True,
        )
    )
    assert cells["kdf"].startswith(f"{expected:.3f}")
    assert cells["kdf"].endswith("1 · 0 · 1")


def test_data_sets_have_means_and_differences_of_methods(reader):
    Select(reader.element("#metric")).select_by_visible_text("error")
    expected = [
        f"{mean(error_of(dataset, 'kdf', seed) for seed in range(SEEDS)):.3f}"
        for dataset in ("spiral", "wine")
    ]
    assert reader.column("#datasets-table", "kdf") == expected
    Select(reader.element("#numbers-by-dataset")).select_by_value("difference")
    assert reader.column("#datasets-table", "kdf") == ["−0.194", "+0.056"]
    assert reader.element("#datasets-table tbody td").get_attribute("class") == "n better"
    assert len(reader.all("#strip svg .dot")) == 4
    label = reader.element("#ranks svg").get_attribute("aria-label")
    assert label.startswith(
        "error, mean ranks: isotonic 1.50, kdf 2.00, random_forest (parent) 2.50; critical"
        " difference "
    )


def test_500_runs_are_shown_and_the_others_on_demand(reader):
    assert reader.element("#shown").text == "520 runs; the first 500 are shown"
    assert len(reader.column("#runs-table", "Seed")) == 500
    more = reader.element("#more")
    assert more.text == "Show the other 20"
    more.click()
    assert len(reader.column("#runs-table", "Seed")) == 520
    assert reader.element("#shown").text == "520 runs"
    assert not more.is_displayed()


def test_a_column_sorts_by_mouse_and_by_keyboard(reader):
    head = reader.head("#runs-table", "error")
    assert head.get_attribute("aria-sort") == "none"
    head.find_element(By.TAG_NAME, "button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert reader.element("#live").get_attribute("textContent") == "sorted by error, ascending"
    shown = [float(text) for text in reader.column("#runs-table", "error")]
    assert shown == sorted(shown) and shown[0] == 0.1
    head.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert head.get_attribute("aria-sort") == "descending"
    shown = [float(text) for text in reader.column("#runs-table", "error")]
    assert shown == sorted(shown, reverse=True) and shown[0] == round(0.35 + 0.0129, 3)
    assert [each.get_attribute("aria-sort") for each in reader.all("#runs-table thead th")].count(
        "none"
    ) == 8


def test_seeds_sort_as_numbers(reader):
    reader.head("#runs-table", "Seed").find_element(By.TAG_NAME, "button").click()
    assert reader.column("#runs-table", "Seed")[:9] == ["0", "0", "0", "0", "1", "1", "1", "1", "2"]


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("spiral", 260),
        ("SPIR* kdf", 130),
        ("-kdf", 260),
        ("seed=7", 4),
        ("seed=7,8 method=iso*", 4),
        ("error<0.1005", 5),
        ("error>=0.1 error<0.1005 -seed=0", 4),
        ("ece<0.05", 0),
        ("warning=0", 1),
        ("calibrator=isotonic dataset=wine", 130),
    ],
)
def test_words_choose_runs(reader, words, count):
    reader.find(words)
    expected = "520 runs" if count == 520 else f"{count} of 520 runs"
    assert reader.element("#shown").text == expected
    assert len(reader.column("#runs-table", "Seed")) == count


def test_an_unknown_word_is_listed_and_ignored(reader):
    reader.find("nlll<0.3 seed=1")
    assert (
        reader.element("#shown").text
        == "4 of 520 runs; “nlll<0.3” is no metric or name here and was left out"
    )


def test_choices_narrow_down_and_reset_opens_again(reader):
    Select(reader.element("#of-dataset")).select_by_value("wine")
    Select(reader.element("#of-method")).select_by_value("kdf")
    assert reader.element("#shown").text == "130 of 520 runs"
    assert set(reader.column("#runs-table", "Data set")) == {"wine"}
    Select(reader.element("#of-seed")).select_by_value("129")
    assert reader.element("#shown").text == "1 of 520 runs"
    reader.element("#start-over").click()
    reader.until(lambda: reader.element("#shown").text == "520 runs; the first 500 are shown")


def test_differences_to_the_parent_are_signed(reader):
    Select(reader.element("#numbers-of")).select_by_value("difference")
    assert reader.column("#runs-table", "error")[:2] == ["−0.150", "−0.150"]
    assert set(reader.column("#runs-table", "OCE")) == {"−0.400"}
    reader.find("error<-0.1 spiral")
    assert reader.element("#shown").text == "260 of 520 runs"


def test_the_columns_are_the_readers_choice(reader):
    reader.element(".chooser summary").click()
    box = next(
        label for label in reader.all(".chooser label") if label.text == "confidence at radius 5"
    )
    box.click()
    assert set(reader.column("#runs-table", "confidenceat radius 5")) == {"0.600"}
    assert reader.head("#methods-table", "confidence")


def test_the_arrow_keys_move_and_a_number_has_an_explanation(reader):
    reader.element("#runs-table tbody th").click()  # opens the run; closing it gives the focus back
    reader.until(lambda: reader.element("#details").is_displayed())
    closed(reader)  # only then has the focus been given back
    reader.script("document.querySelector('#runs-table tbody [tabindex=\"0\"]').focus()")
    reader.press(Keys.ARROW_DOWN, *[Keys.ARROW_RIGHT] * 3)
    cell = reader.active()
    assert (cell.tag_name, cell.text) == ("td", reader.column("#runs-table", "error")[1])
    assert cell.get_attribute("aria-describedby") == "tip"
    assert reader.tip() == [
        "error",
        "random_forest → isotonic 0.1501 ± 0.0125 standard error over 100 rows",
        "parent random_forest 0.3 ± 0.0125 standard error over 100 rows",
        "difference −0.1499",
        "lower is better · on test rows",
    ]
    assert len(reader.all("#runs-table tbody [tabindex='0']")) == 1
    reader.press(Keys.ESCAPE)
    assert not reader.element("#tip").is_displayed()
    reader.press_with_control(Keys.END)
    assert reader.script("return document.activeElement.parentElement.sectionRowIndex") == 499
    reader.press_with_control(Keys.HOME)
    reader.press(Keys.ARROW_UP)
    assert reader.active().text == "Data set"
    assert reader.active().tag_name == "button"


def test_a_head_explains_its_metric_on_focus_and_on_hover(reader):
    ActionChains(reader.browser).move_to_element(reader.head("#methods-table", "ECE")).perform()
    tip = reader.tip()
    assert tip[0] == "ECE, 15 bins"
    assert tip[1].startswith(
        "Measure the expected calibration error (ECE) of top-label confidence, in [0, 1]."
    )
    assert (
        tip[-1] == "lower is better · bins 15, strategy uniform, norm l1, debiased false · on"
        " test rows"
    )
    reader.script("document.querySelector('#methods-table thead button').focus()")
    reader.press(Keys.TAB)
    assert reader.tip()[0] == "error"


def test_run_opens_with_command_figure_and_origin(reader, page):
    _, record = page
    reader.find(f"id={record['run_id']}")
    reader.script("document.querySelector('#runs-table tbody [tabindex=\"0\"]').focus()")
    reader.press(Keys.ENTER)
    dialog = reader.element("#details")
    assert dialog.is_displayed()
    assert reader.element("#details-title").text == "spiral → random_forest → kdf"
    assert reader.element(".reproduce").text.startswith("kdg run dataset=spiral method=kdf ")
    assert reader.element(".reproduce").text.endswith(" seed=0")
    reader.until(
        lambda: reader.script("return document.querySelector('.plates img').naturalWidth") == 40
    )
    assert (
        f"Not in this page, to keep it small: spiral/kdf/{record['run_id']}/figures/lost"
        in dialog.text
    )
    assert f"fit: beware of {HOSTILE}" in dialog.text
    assert f"{HOSTILE} 0.500, b 0.500" in dialog.text
    assert "kdgraph 0.1.0, python 3.11.7" in dialog.text
    assert f"run=spiral%2Fkdf%2F{record['run_id']}" in reader.browser.current_url
    reader.press(Keys.ESCAPE)
    assert not dialog.is_displayed()
    assert reader.active().text == "spiral"
    assert reader.browser.title == f"Title {HOSTILE}"


def test_a_page_and_an_open_run_fit_into_a_phone(phone, page):
    phone.get(page[0])
    reader = Reader(phone)
    reader.until(lambda: reader.element("#summary").text)
    assert width_of_content(phone) <= 390
    phone.get(f"{page[0]}#run=spiral%2Fkdf%2F{page[1]['run_id']}")
    phone.refresh()
    reader.until(lambda: reader.element("#details").is_displayed())
    assert width_of_content(phone) <= 390
    left, right = reader.script(
        "const box = document.querySelector('#details').getBoundingClientRect();"
        "return [box.left, box.right]"
    )
    assert left >= 0 and right <= 390


CUT_LABELS = """
const edge = document.querySelector("#ranks svg").getBoundingClientRect();
return [...document.querySelectorAll("#ranks text")].filter((text) => {
  const at = text.getBoundingClientRect();
  return at.left < edge.left || at.right > edge.right || at.top < edge.top || at.bottom > edge.bottom;
}).map((text) => text.textContent);
"""


def small_page(folder, *records):
    """The address of a report of these runs."""
    out = write(folder / "outputs", list(records))
    assert main(["report", "--out", str(out), "--output", str(folder / "small.html")]) == 0
    return (folder / "small.html").as_uri()


def test_a_phone_shows_numbers_beside_the_names_of_methods(phone, tmp_path):
    kinds = ("kdf", "isotonic")  # on two parents, so there is a column of parents
    phone.get(small_page(tmp_path, *(make_record("dataset=wine", f"method={k}") for k in kinds)))
    reader = Reader(phone)
    heads = reader.script(
        "return [...document.querySelectorAll('#methods-table thead th')].map((head) =>"
        " [head.textContent, head.getBoundingClientRect().right])"
    )
    assert [name for name, _ in heads][-1] == "Parent" and heads[1][0] == "error"
    assert all(right <= 390 for _, right in heads[:3])


def test_what_the_names_of_methods_have_already_is_no_column(browser, tmp_path):
    runs = [
        make_record(
            "dataset=wine",
            "method=isotonic",
            f"parent.n_estimators={n}",
            method="random_forest-isotonic",
        )
        for n in (20, 30)
    ]
    browser.get(small_page(tmp_path, *runs))
    reader = Reader(browser)
    assert len(reader.all("#methods-table tbody tr")) == 4
    heads = [head.text for head in reader.all("#methods-table thead th")]
    assert heads[:2] == ["Method", "error"] and "Parent" not in heads


def test_names_break_after_signs_and_never_within_a_number(browser, tmp_path):
    record = make_record("dataset=wine", "method=isotonic")
    record["dataset"]["name"] = "shifted_by=1.5/a.csv"
    browser.get(small_page(tmp_path, record))
    parts = browser.execute_script(
        "const cell = [...document.querySelectorAll('td, th')].find((cell) =>"
        " cell.textContent === 'shifted_by=1.5/a.csv' && cell.querySelector('wbr'));"
        "return [...cell.querySelector('wbr').parentNode.childNodes].map((node) =>"
        " node.textContent).filter(Boolean)"
    )
    assert parts == ["shifted_", "by=", "1.5/", "a.", "csv"]


def test_one_data_set_has_the_legend_of_its_bars(browser, tmp_path):
    browser.get(small_page(tmp_path, make_record("dataset=wine", "method=isotonic")))
    reader = Reader(browser)
    assert reader.all("#methods-table .bar")
    assert reader.element("#methods-legend").text == (
        "better than its own parent the same worse; the counts beneath are in this order."
    )
    assert reader.element("#methods-lead").text == (
        "Means over seeds. Beneath: whether the method is better than, the same as, or worse than"
        " its own parent."
    )


def test_parents_alone_have_no_legend_of_bars(browser, tmp_path):
    run = make_record("dataset=wine", "method=none")
    browser.get(small_page(tmp_path, run))
    reader = Reader(browser)
    assert not reader.all("#methods-table .bar")
    assert not reader.element("#methods-legend").is_displayed()


def test_no_label_of_the_mean_ranks_is_cut_on_a_phone(phone, page):
    phone.get(page[0])
    reader = Reader(phone)
    reader.until(lambda: reader.element("#summary").text)
    labels = phone.execute_script(
        "return [...document.querySelectorAll('#ranks text')].map((text) => text.textContent);"
    )
    assert any(label.startswith("critical difference") for label in labels)
    assert phone.execute_script(CUT_LABELS) == []


def test_a_view_can_be_passed_on(reader, page):
    address, record = page
    reader.browser.get("about:blank")
    reader.browser.get(f"{address}#find=wine&sort=-column+0&run=spiral/kdf/{record['run_id']}")
    assert reader.element("#details-title").text == "spiral → random_forest → kdf"
    assert reader.element("#shown").get_attribute("textContent") == "260 of 520 runs"
    assert reader.head("#runs-table", "error").get_attribute("aria-sort") == "descending"


def test_a_cell_of_the_summary_leads_to_its_runs(reader):
    reader.all("#datasets-table tbody tr")[1].find_elements(By.TAG_NAME, "td")[2].click()
    assert reader.element("#shown").text == "130 of 520 runs"
    assert (
        reader.element("#of-dataset").get_attribute("value"),
        reader.element("#of-method").get_attribute("value"),
    ) == ("wine", "kdf")


def test_warnings_and_failed_runs_are_listed_as_text(reader):
    assert reader.element("#n-warnings").text == "1"
    assert reader.element("#warnings-list tbody th").text == f"beware of {HOSTILE}"
    assert reader.element("#unfinished-list tbody tr").text.endswith(
        f"failed ValueError: {HOSTILE}"
    )
    assert not reader.all("img")


def test_the_theme_follows_the_system_until_one_is_chosen(reader, page):
    def background():
        return reader.script("return getComputedStyle(document.body).backgroundColor")

    light = background()
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    reader.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    reader.until(lambda: background() != light)
    dark = background()
    Select(reader.element("#theme")).select_by_value("light")
    assert background() == light
    reader.browser.refresh()
    assert background() == light
    Select(reader.element("#theme")).select_by_value("")
    assert background() == dark
    reader.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_numbers_are_right_aligned_with_figures_of_one_width(reader):
    style = (
        "const style = getComputedStyle(document.querySelector(arguments[0])); return"
        " [style.textAlign, style.fontVariantNumeric]"
    )
    for cell in ("#methods-table tbody td.n", "#datasets-table tbody td", "#runs-table tbody td.n"):
        assert reader.script(style, cell) == ["right", "tabular-nums"]


def test_contrast_of_all_colours_of_text_is_enough_in_both_themes(reader):
    """At least 4.5 : 1 (WCAG 2, AA) on the page and on tables."""
    ratios = """
        const light = (colour) => { const [r, g, b] = colour.match(/\\w\\w/g).map((part) => parseInt(part, 16) / 255)
            .map((c) => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
        const found = {};
        for (const theme of ["light", "dark"]) {
          document.documentElement.dataset.theme = theme;
          const style = getComputedStyle(document.documentElement), of = (name) => light(style.getPropertyValue(name).trim().slice(1));
          for (const text of ["--text", "--muted", "--accent", "--better", "--worse"])
            for (const ground of ["--page", "--surface", "--hover"]) {
              const [a, b] = [of(text), of(ground)].sort((x, y) => y - x);
              found[`${theme} ${text} ${ground}`] = (a + .05) / (b + .05);
            }
        }
        return found;"""
    too_little = {
        name: round(ratio, 2) for name, ratio in reader.script(ratios).items() if ratio < 4.5
    }
    assert too_little == {}


def test_a_study_of_one_run_is_a_page_too(browser, tmp_path):
    out = write(
        tmp_path / "outputs", [make_record("dataset=spiral", "method=none", values=OF_PARENT)]
    )
    assert main(["report", "--out", str(out), "--output", str(tmp_path / "one.html")]) == 0
    browser.get((tmp_path / "one.html").as_uri())
    reader = Reader(browser)
    assert reader.element("#summary").text == "1 run · 1 data set · 0 methods on 1 parent · 1 seed"
    assert reader.column("#methods-table", "Method") == ["random_forest (parent)"]
    assert reader.element("#methods-lead").text == "Means over seeds."
    data = json.loads(reader.element("#data").get_attribute("textContent"))
    assert [run["repetition"] for run in data["runs"]] == [[0]]


@pytest.fixture(scope="module")
def page_of_every_kind(tmp_path_factory):
    """A report of calibrators, one of them fitted on test rows, of a detector and of a regressor,
    with the tables of that one.
    """
    folder = tmp_path_factory.mktemp("kinds")
    out = write_every_kind(folder / "outputs", every_kind())
    assert main(["report", "--out", str(out), "--output", str(folder / "report.html")]) == 0
    return (folder / "report.html").as_uri()


@pytest.fixture
def mixed(browser, page_of_every_kind):
    browser.get(page_of_every_kind)
    return Reader(browser)


def opened(reader, method):
    """Text of the first run of a method, but for its config and what it learnt, in which null is a
    value.
    """
    reader.find(f"method={method.removesuffix(' (paper protocol)')} seed=0")
    reader.until(
        lambda: (
            [name.removesuffix(" †") for name in reader.column("#runs-table", "Method")] == [method]
        )
    )
    reader.script("document.querySelector('#runs-table tbody th').click()")
    return reader.script(
        "const copy = document.querySelector('#details').cloneNode(true);"
        " copy.querySelectorAll('pre').forEach((one) => one.remove());return copy.textContent"
    )


def closed(reader):
    reader.press(Keys.ESCAPE)
    reader.until(lambda: not reader.element("#details").get_attribute("textContent"))


def test_nothing_is_undefined_on_a_page_of_every_kind(mixed):
    texts = [mixed.script("return document.body.innerText")]
    for method in ("kdf", "isotonic (paper protocol)", "tood", "global_pit", "histogram"):
        texts.append(opened(mixed, method))
        texts += mixed.script(
            "return [...document.querySelectorAll('#details [data-tip]')].map((one) =>"
            " one.dataset.tip)"
        )
        closed(mixed)
    mixed.find("")
    texts += mixed.script(
        """return ['#runs-table', '#methods-table', '#datasets-table'].flatMap((name) => { const { grid } = document.querySelector(name);
            return [...document.querySelectorAll(`${name} tbody tr > *`)].map((cell) => String(grid.explanation(cell) ?? '')); })"""
    )
    assert len(texts) > 100
    assert [text for text in texts if re.search(r"undefined|\bnull\b|NaN|Infinity", text)] == []


def test_a_task_is_chosen_on_the_whole_page(mixed):
    assert mixed.column("#methods-table", "Method") == [
        "random_forest (parent)",
        "histogram",
        "isotonic (paper protocol) †",
        "tood",
        "global_pit",
        "random_forest on all rows (parent)",
        "kdf",
    ]
    heads = {
        "regression": ["RMSE", "CRPS", "coverage", "Parent"],
        "detection": ["error", "AUROC\nat radius 2", "Parent"],
    }
    for task, method, dataset in (
        ("regression", "global_pit", "tran20"),
        ("detection", "tood", "spiral"),
    ):
        Select(mixed.element("#task")).select_by_value(task)
        assert mixed.column("#methods-table", "Method") == ["random_forest (parent)", method]
        assert [head.text for head in mixed.all("#methods-table thead th")][1:] == heads[task]
        assert set(mixed.column("#runs-table", "Method")) == {method}
        assert mixed.column("#datasets-table", "Data set") == [dataset]
        assert mixed.element("#shown").text == "2 of 10 runs"
        assert f"task={task}" in mixed.browser.current_url
    mixed.browser.refresh()
    assert mixed.element("#shown").text == "2 of 10 runs"
    Select(mixed.element("#task")).select_by_value("")
    mixed.find("task=classification -protocol=paper calibrator=kdf,histogram detector=none")
    assert mixed.element("#shown").text == "4 of 10 runs"


def test_a_page_of_one_task_has_no_choice_of_tasks(reader):
    assert not reader.element("#task").is_displayed()


def test_methods_fitted_on_test_rows_have_a_dagger(mixed):
    legend = (
        "† Fitted on test rows, or by the rows out of distribution, where the method's paper does"
        " so (protocol=paper), so that its"
    )
    legend += " numbers are no estimate for new rows."
    for table in ("methods", "datasets", "runs"):
        assert mixed.element(f"#{table}-paper").text == legend
        assert (
            mixed.element(f"#{table}-table").text.count("isotonic (paper protocol) †")
            == {"methods": 1, "datasets": 1, "runs": 2}[table]
        )
        assert "kdf †" not in mixed.element(f"#{table}-table").text
    text = opened(mixed, "isotonic (paper protocol)")
    assert (
        "method isotonic (paper protocol) †" in text
        and legend in text
        and "protocolpaper: Fitted on test rows" in text
    )
    closed(mixed)
    assert legend not in opened(mixed, "kdf")
    closed(mixed)
    Select(mixed.element("#task")).select_by_value("regression")
    assert not any(
        mixed.element(f"#{table}-paper").is_displayed() for table in ("methods", "datasets", "runs")
    )


def test_a_run_names_what_comes_after_its_parent(mixed):
    assert "spiral → random_forest → tood" in (text := opened(mixed, "tood"))
    assert (
        "parentrandom_forestdetectortooddata set" in text
        and "AUROC along sphere, radius" in text
        and "chance" in text
    )
    assert [head.text for head in mixed.all("#details thead th")][:3] == [
        "random_forest",
        "tood",
        "rows",
    ]
    closed(mixed)
    assert (
        "430 calibration, 100 test rows" in (text := opened(mixed, "histogram"))
        and "training" not in text
    )
    closed(mixed)
    assert (
        "recalibratorglobal_pitdata set" in (text := opened(mixed, "global_pit"))
        and "prior" not in text
        and "classes" not in text
    )
    assert "RMSE54,32154,321100" in text and "my_score1.500–100" in text


def test_a_table_of_a_run_opens_and_is_handed_out_whole(mixed, tmp_path):
    text = opened(mixed, "global_pit")
    assert "PIT histogram 2 rows: of, on, ood, bin, share" in text
    assert re.search(r"Not in this page: tran20/global_pit/\w{8}/tables/gone\.csv", text)
    mixed.element(".run-tables summary").click()
    mixed.until(lambda: mixed.all(".run-tables tbody tr"))
    assert [row.text for row in mixed.all(".run-tables tr")] == [
        "of on bin share",
        "parent test 0.05 0.123457",
        "calibrated test 0.05 0.1",
    ]
    mixed.browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    mixed.element(".run-tables a").click()
    mixed.until(lambda: [path.suffix for path in tmp_path.iterdir()] == [".csv"])
    (file,) = tmp_path.iterdir()
    assert file.name.endswith("-pit_histogram.csv") and file.read_text() == HISTOGRAM
