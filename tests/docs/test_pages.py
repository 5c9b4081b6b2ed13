"""Content of the pages in docs/, and what the hooks of mkdocs add to them."""

from __future__ import annotations

import doctest
import html
import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from kdgraph.config import compose, plan
from kdgraph.config.catalogue import Catalogue, flat, keys_of
from kdgraph.extras import missing_library
from kdgraph.figures import save_figure
from tests.docs.printed_commands import printed_commands
from tests.variations import others_slow

DOCS = Path(__file__).parents[2] / "docs"
CONF = DOCS.parent / "conf"
METHOD_PAGES = sorted(path for path in (DOCS / "methods").rglob("*.md") if path.name != "index.md")


def front_matter(path: Path) -> dict:
    match = re.match(r"---\n(.*?)\n---\n", path.read_text(encoding="utf-8"), re.DOTALL)
    assert match is not None, path
    return yaml.safe_load(match[1])


def test_run_directory_of_the_readme_is_that_of_its_command():
    """The id of a run follows from its config and changes with every key and schema."""
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    command = re.search(r"^ +\$ kdg run (.+)$", text, re.MULTILINE)
    assert command is not None
    run_dir = f"{compose(command[1].split()).run_dir}"
    assert text.count(f"{run_dir} ") == 1, f"README.md must name {run_dir}"


def test_every_method_preset_is_on_one_page():
    presets = [preset for path in METHOD_PAGES for preset in front_matter(path)["presets"]]
    assert sorted(presets) == sorted(
        name for name in Catalogue([CONF]).groups["method"] if "/" not in name
    )


@pytest.mark.parametrize("path", METHOD_PAGES, ids=lambda path: path.stem)
def test_method_page_has_formula_source_use_cost_and_limits(path):
    text = path.read_text(encoding="utf-8")
    parts = ["$$", "**Source.** ", "**When.** ", "**Cost.** ", "**Limits.** "]
    assert [part for part in parts if part not in text] == []
    assert sorted(parts, key=text.index) == parts


def test_method_presets_have_picture_caption_and_cost(hooks):
    """A picture of its own, or that of another preset of the same page, as the caption states."""
    presets, shown = hooks["presets"], set()
    for path in METHOD_PAGES:
        front = front_matter(path)
        for preset in front["presets"]:
            source = presets.picture_of(preset, front)
            assert source in front["presets"]
            image, _, caption, _ = presets.picture(preset, front)
            assert image == f"![{preset}](../../pictures/methods/{source}.png)"
            assert ("of the same family" in caption) == (source != preset)
            assert source != preset or len(presets.cost(preset)) == 2
            shown.add(source)
    pictures = sorted((DOCS / "pictures" / "methods").iterdir())
    assert sorted(shown) == [path.stem for path in pictures] == sorted(presets.drawn())
    assert {row["figure"] for row in presets.drawn().values()} == set(presets.captions())
    # A checkout holds them all.
    assert sum(path.stat().st_size for path in pictures) < 3e6


def test_costs_that_cite_the_page_on_scale_have_its_numbers():
    """Decimals are cited, whole numbers are rows and features."""
    cited = 0
    table = set(re.findall(r"\d*\.\d+", (DOCS / "scale.md").read_text("utf-8")))
    for path in [*METHOD_PAGES, *(DOCS / "guide").glob("*.md")]:
        for paragraph in path.read_text("utf-8").split("\n\n"):
            numbers = set(re.findall(r"(?<![\w.])\d*\.\d+(?![\w.]*\d)", paragraph))
            if "scale.md)" in paragraph and not paragraph.startswith("|"):
                assert numbers <= table, (path.name, numbers - table)
                cited += len(numbers)
    assert cited > 20


def test_preset_without_a_picture_names_the_command_that_draws_it(hooks):
    with pytest.raises(
        PluginError, match=r"^no picture of method 'kdff'; python docs/draw_methods\.py kdff$"
    ):
        hooks["presets"].picture_of("kdff", {})


def test_presets_on_a_network_name_that_of_the_default(hooks):
    lines = hooks["presets"].sections(["kdn"], {})
    assert (
        "Parts: parent `mlp` (on the default network; `network=tabular_mlp` takes `tabular_mlp`),"
        " calibrator `kdn`." in lines
    )
    lines = hooks["presets"].sections(["acet", "gated_acet_quick"], {})
    text = "\n".join(lines)
    assert "parent `mlp_acet` (on the default network;" in text and "${" not in text
    assert "what parent `mlp_acet` adds to its network" in text


def test_card_of_a_page_has_its_title_picture_use_cost_and_source(hooks):
    path = DOCS / "methods" / "density" / "kdf.md"
    file: Any = SimpleNamespace(
        src_uri="methods/density/kdf.md", content_string=path.read_text("utf-8")
    )
    card = hooks["presets"].card(file, front_matter(path))
    assert "### [Kernel density forest](density/kdf.md)" in card
    assert "[![kdf](../pictures/methods/kdf.png)](density/kdf.md#kdf)" in card
    names = re.findall(r"^\*\*(\w+)\.\*\* \S", card, re.MULTILINE)
    assert names == ["When", "Cost", "Source"]


def test_every_formula_converts_to_mathml(hooks):
    for path in sorted(DOCS.rglob("*.md")):
        text = re.sub(
            r"```.*?```|`[^`]*`|^ {4}.*?$",
            "",
            path.read_text(encoding="utf-8"),
            flags=re.DOTALL | re.MULTILINE,
        )
        for formula in re.findall(r"\$\$(.+?)\$\$", text, re.DOTALL) + re.findall(
            r"(?<!\$)\$([^$\n]+)\$(?!\$)", text
        ):
            assert hooks["formulas"].mathml(formula).startswith("<math"), (path, formula)


def test_sweeps_of_the_page_on_clusters_have_valid_overrides():
    pytest.importorskip("distributed", reason="distributed is not installed; the extra dask has it")
    pytest.importorskip("ray", reason="ray is not installed; the extra ray has it")
    words = [command.kdg_arguments() or [] for command in printed_commands(DOCS / "cluster.md")]
    launchers = set()
    for overrides in [arguments[2:] for arguments in words if arguments[:2] == ["run", "-m"]]:
        planned = plan(overrides, multirun=True)
        assert planned.is_remote and len(planned.jobs) == 20
        launchers.add(planned.base.hydra.runtime.choices["hydra/launcher"])
    assert launchers == {"submitit_slurm", "dask", "ray"}


def test_example_of_the_page_of_sets_runs():
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "sets.md").read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    covered = names["members"][range(1000), names["y"][2000:]].mean()
    # 1,000 calibration and 1,000 new rows: standard deviation .0134.
    assert abs(covered - 0.9) < 3 * 0.0134


def test_every_picture_is_drawn_by_the_script_and_shown_on_a_page():
    names = re.findall(
        r'^    "(\w+)": \(\s*\1,',
        (DOCS / "draw.py").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert len(names) >= 4 and sorted(names) == sorted(
        path.stem for path in (DOCS / "pictures").glob("*.svg")
    )
    text = "".join(
        (DOCS / name).read_text(encoding="utf-8") for name in ("index.md", "concepts.md")
    )
    assert [name for name in names if f"](pictures/{name}.svg)" not in text] == []


@pytest.mark.slow
def test_pictures_of_the_pages_are_drawn(tmp_path):
    """The type checker does not see keywords that a class inherits from scikit-learn."""
    pictures = runpy.run_path(str(DOCS / "draw.py"))["DRAWN"]
    for name, (draw, _) in pictures.items():
        assert save_figure(draw(), tmp_path / name, ("svg",)) == [tmp_path / f"{name}.svg"]
    assert len(list(tmp_path.iterdir())) == len(pictures)


@pytest.mark.slow
def test_picture_of_a_method_is_drawn_as_it_is(tmp_path):
    """The fits of the script are those of ``kdg run``, and its figure is that of the caption."""
    script = runpy.run_path(str(DOCS / "draw_methods.py"))
    family, front = script["families"]()["kdf"]
    fitted, cost = script["fit_preset"](script["overrides_of"]("kdf", family, front))
    row = script["read_drawn"]()["kdf"]
    draw = script["drawing"](family, fitted)
    assert (cost["overrides"], draw.__name__) == (row["overrides"], row["figure"])
    script["write_png"](draw(fitted), tmp_path / "kdf.png", "kdf")
    assert (tmp_path / "kdf.png").stat().st_size > 5000


@pytest.mark.parametrize(
    "name", ["commands", "configuration", "docstrings", "formulas", "presets", "reference"]
)
def test_examples_of_hooks_pass(hooks, name):
    results = doctest.testmod(hooks[name])
    assert results.attempted > 0 and results.failed == 0


def test_error_of_an_invalid_formula_names_its_page(hooks):
    page = SimpleNamespace(file=SimpleNamespace(src_uri="x.md"))
    with pytest.raises(
        PluginError, match=r"^x.md: no MathML of \\unknown in the formula \\unknown$"
    ):
        hooks["formulas"].on_page_content(
            '<span class="arithmatex">\\(\\unknown\\)</span>', page=page
        )


def test_parameter_table_has_defaults_and_ranges_of_the_preset(hooks):
    lines = hooks["presets"].sections(["kde", "kde_pooled"], {})
    text = "\n".join(lines)
    assert "    kdg run dataset=spiral method=kde_pooled" in lines
    assert (
        "| `bandwidth` | `b_mon2` | b_mon, b_mon2, b_mon4, b_opt or a number in (0, inf) |"
        " Bandwidth of the kernels" in text
    )
    assert (
        text.endswith("| `pool` | `cv` | a number in [0, inf) or cv |  |\n")
        or "As calibrator `kde`, but of calibrator `kde_pooled`:" in text
    )
    # The second table has only the parameter that differs.
    assert len([line for line in lines if line.startswith("| `")]) == 11 + 1


@pytest.mark.parametrize(
    ("preset", "keys"),
    [
        # A preset that extends a preset that extends a third one.
        ("gated_cautious", ["max_mean_shift", "distance"]),
        # A node of the parent's group, which imports torch.
        pytest.param("oe", ["exposure.weight"], marks=pytest.mark.slow),
        # A recalibrator inside another one.
        ("conformal_local_pit", ["recalibrator.k", "correction_fraction"]),
        # A parent without components after it.
        ("gamma_glm", ["dispersion"]),
        pytest.param(
            "energy_fine_tuning", ["exposure.margin_in", "temperature"], marks=pytest.mark.slow
        ),
        # A flow mapping.
        ("lore_tsne", ["features.reduce"]),
    ],
)
def test_parameter_table_has_parameters_of_inner_components(hooks, preset, keys):
    front = {"picture": {"lore_tsne": "lore"}}
    text = "\n".join(hooks["presets"].sections([preset], front))
    assert [key for key in keys if f"| `{key}` |" not in text] == []


def test_unknown_preset_is_refused(hooks):
    with pytest.raises(PluginError, match="there is no method 'kdff' in conf/method"):
        hooks["presets"].sections(["kdff"], {})


def test_links_to_files_outside_the_site_become_text(hooks):
    relinked = hooks["checkout"].relinked
    site_files = Files([])
    text = (
        "[m](CONTRIBUTING.md), [of the package](kdgraph/errors.py),"
        " [out](https://example.org/x.md), `[x](y)`"
    )
    assert relinked(text, "", "a/b.md", site_files).startswith(
        "m, of the package, [out](https://example.org/x.md)"
    )
    with pytest.raises(PluginError, match=r"^b\.md links to missing\.md, which is not there$"):
        relinked("[x](missing.md)", "", "b.md", site_files)
    code = "```\n[x](missing.md)\n```\n    [x](missing.md)"
    assert relinked(code, "", "b.md", site_files).count("missing") == 2


def test_results_of_the_checkout_are_listed(hooks):
    config: Any = SimpleNamespace(
        site_dir="site", use_directory_urls=False, plugins=SimpleNamespace(_current_plugin="x")
    )
    contents = {
        "index.md": "# Results",
        "page.md": "# Every number\n\nThis.",
        "cells.csv": "a",
        "alone/page.html": "<p>",
    }
    files = Files(
        [File.generated(config, f"results/{name}", content=text) for name, text in contents.items()]
    )
    assert hooks["checkout"].list_of_results(files).splitlines() == [
        "- [Every number](page.md)",
        "- [page.html](alone/page.html), the same by itself",
        "- [cells.csv](cells.csv)",
    ]


def test_readme_section_is_returned_and_unknown_section_refused(hooks):
    assert (
        hooks["checkout"]
        .section("On the command line")
        .startswith("    $ kdg run dataset=spiral method=kdf\n")
    )
    with pytest.raises(PluginError, match="the README has no section 'What you do not get'"):
        hooks["checkout"].section("What you do not get")


def test_figures_page_shows_drawn_figures_and_lists_missing_ones(hooks, tmp_path):
    table = tmp_path / "p9" / "figures.csv"
    (table.parent / "pictures").mkdir(parents=True)
    (table.parent / "pictures" / "a.svg").write_text("<svg/>")
    table.write_text(
        "figure,page,shows,drawn_by,files,caption,missing\n1,2,a line,python -m x,pictures/a,As"
        ' printed.,\n2,2,b,,,,"weights, here"\n'
    )
    text = hooks["checkout"].figures_page(table)
    assert (
        "![Figure 1](pictures/a.svg)" in text
        and "A line." in text
        and "As printed." in text
        and "`python -m x`" in text
    )
    assert text.rstrip().endswith("*Missing:* weights, here.")


@pytest.mark.parametrize("group", others_slow(Catalogue([CONF]).groups, "detector"))
def test_configuration_page_of_a_group_has_every_option_and_key(hooks, group):
    configuration, catalogue = hooks["configuration"], Catalogue([CONF])
    try:
        text = configuration.group_page(group, catalogue, {})
    except ModuleNotFoundError as error:
        if (library := missing_library(error)) is None:
            raise
        pytest.skip(f"{library} is not installed; an option of {group} describes its parameters")
    for option, path in catalogue.groups[group].items():
        if "/" in option or group in configuration.LISTED:
            assert f"| `{option}` |" in text, option
            continue
        section = re.search(
            rf"^## `{group}={option}` {{#{option}}}$(.*?)(?=^## |\Z)",
            text,
            re.DOTALL | re.MULTILINE,
        )
        assert section is not None, option
        for key, value in flat(keys_of(path)).items():
            if key not in ("name", "_target_"):
                (row,) = re.findall(rf"^\| `{re.escape(key)}` \|.*$", section[1], re.MULTILINE)
                # A pipe in a cell is escaped.
                assert value.strip("\"'").replace("|", "\\|") in row


@pytest.mark.slow
def test_interpolations_of_configs_are_explained_or_refused(hooks):
    explained = hooks["configuration"].with_explanation
    assert explained("`${dataset:mnist}`", "${dataset:mnist}") == (
        "`${dataset:mnist}` (the node of the data set `mnist`)"
    )
    with pytest.raises(PluginError, match=r"^\$\{unheard:of\}: .* has no words for this"):
        explained("", "${unheard:of}")
    pages = {
        group: hooks["configuration"].group_page(group, Catalogue([CONF]), {})
        for group in ("method", "dataset")
    }
    assert "${network}" not in pages["method"] and "`parent=mlp` by [network]" in pages["method"]
    assert "the name of the file in `path`, without its ending" in pages["dataset"]


def test_the_page_of_the_command_line_has_all_that_the_help_has(hooks):
    from kdgraph.cli.arguments import all_parsers
    from kdgraph.cli.main import HELP

    commands = hooks["commands"]
    page = commands.commands_page({"kdg list": "a\nb\n"})
    assert f"```text\n{HELP}```\n" in page
    assert "```console\n$ kdg list\na\nb\n```\n" in page
    for name, parser in all_parsers().items():
        section = re.search(
            rf"^##+ kdg {name} {{#{name.replace(' ', '-')}}}$(.*?)(?=^##+ kdg |\Z)",
            page,
            re.DOTALL | re.MULTILINE,
        )
        assert section is not None, name
        usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
        assert usage in " ".join(section[1].split()), name
        for option in parser.options():
            if option != "--help":
                assert re.search(rf"^(`.*, )?`{option}[` ].*$\n:   .", section[1], re.MULTILINE)
        for example in parser.examples:
            assert f"\n$ {example}\n" in section[1]
        for exit_code in parser.exit_codes:
            assert f"\n`{exit_code}`\n:   " in section[1]


@pytest.mark.slow
def test_command_page_has_the_outputs_of_its_commands(hooks, site):
    page = (site / "commands.html").read_text(encoding="utf-8")
    text = html.unescape(re.sub(r"<[^>]+>", "", page))
    printed = {
        command: text.rpartition(f"$ {command}\n")[2] for command in hooks["commands"].SESSION
    }
    assert all(printed.values())
    run, _, sweep, *_, collection = printed.values()
    assert re.search(r"^ +random_forest +kdf$(.*\n)+^outputs/spiral/kdf/\w+ ", run, re.MULTILINE)
    assert "4 runs in outputs, 1 of them done before" in sweep
    assert collection.startswith("nothing to delete")


def test_links_of_texts_lead_to_files_of_the_checkout(hooks):
    """On a code host no page is made, so that a link to one that the site has leads nowhere."""
    texts = [
        path
        for folder, pattern in (("", "*.md"), ("docs", "**/*.md"), ("experiments", "**/*.md"))
        for path in (DOCS.parent / folder).glob(pattern)
    ]
    links = [
        (path.relative_to(DOCS.parent).as_posix(), target)
        for path in texts
        for _, _, target in hooks["checkout"].LINK.findall(path.read_text(encoding="utf-8"))
        if "://" not in target and target[0] != "#"
    ]
    assert len(links) > 300
    assert [
        (text, target)
        for text, target in links
        if not (DOCS.parent / text).parent.joinpath(target.partition("#")[0]).exists()
    ] == []
