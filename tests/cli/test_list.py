"""Command ``kdg list``: groups, options by task, searches."""

from __future__ import annotations

import re

import pytest

from kdgraph.cli.list import list_groups, list_options
from kdgraph.config.catalogue import GROUPS, KINDS, TASKS, Catalogue
from kdgraph.config.composer import conf_dir
from kdgraph.errors import ConfigError, UsageError

CATALOGUE = Catalogue([conf_dir()])


def test_the_overview_has_a_line_for_each_group_within_80_columns(kdg):
    code, out, _ = kdg("list")
    groups = {line.split()[0]: line.split(maxsplit=2)[1:] for line in out.splitlines()[:-5]}
    assert code == 0 and list(groups) == list(CATALOGUE.groups)
    assert set(groups) == {path.name for path in conf_dir().iterdir() if path.is_dir()} - {"hydra"}
    for group, (count, purpose) in groups.items():
        assert purpose == GROUPS[group] and int(count) <= len(CATALOGUE.groups[group])
    assert max(map(len, out.splitlines())) <= 80


def test_all_that_an_error_counts_is_what_its_command_lists(kdg):
    """Presets of papers are counted where the command lists them, and only there."""
    for group in ("dataset", "method", "gate"):
        _, _, err = kdg("list", group, "nothing of this")
        match = re.search(r"'kdg (.*)' shows all (\d+)", err)
        listed = kdg(*match[1].split())[1].splitlines()
        assert sum(line.startswith("  ") for line in listed) == int(match[2])


def test_list_shows_options_with_their_line(kdg):
    code, out, _ = kdg("list", "gate")
    assert code == 0
    first, *options = out.splitlines()
    assert first == "gate" and any(
        option.startswith("  density   Density gate: class prior") for option in options
    )


def test_list_shows_the_networks(kdg):
    code, out, _ = kdg("list", "network")
    listed = dict(line.split(maxsplit=1) for line in out.splitlines()[1:] if line[:1] == " ")
    assert (
        code == 0
        and listed["cnn"].endswith("convolutional network, for images")
        and listed["mlp"].endswith("perceptron, for vectors")
    )


def sections(text):
    """Return task → names of a listing."""
    blocks = [block.splitlines() for block in text.split("\n\n")]
    return {block[0]: [line.split()[0] for line in block[1:]] for block in blocks}


def test_methods_are_listed_by_task(kdg):
    by_task = sections(kdg("list", "method")[1])
    *tasks, hidden = by_task
    assert tasks == list(TASKS)
    assert hidden.endswith("presets of papers: kdg list method --all")
    for task, methods in {
        "class probabilities": ("kdf", "kdn", "isotonic", "none"),
        "top-label confidence": ("sts", "histogram", "venn_abers"),
        "local calibration": ("lore", "network_density_ratio"),
        "groups of rows": ("group_temperature", "group_histogram"),
        "trained with outliers": ("oe", "ceda", "acet"),
        "OOD scores": ("knn", "energy", "tood"),
        "regression": ("local_pit", "gamma_glm", "mc_dropout"),
    }.items():
        assert set(methods) <= set(by_task[task])
    assert sum(map(len, by_task.values())) == sum(
        not option.startswith("paper/") for option in CATALOGUE.groups["method"]
    )


def test_all_shows_the_presets_of_papers_too(kdg):
    out = kdg("list", "method", "--all")[1]
    names = [line.split()[0] for line in out.splitlines() if line.startswith("  ")]
    assert sorted(names) == sorted(CATALOGUE.groups["method"])
    assert "presets of papers" not in out


def test_words_search_names_and_lines(kdg):
    out = kdg("list", "method", "ISOTONIC", "gate")[1]
    lines = [line for line in out.splitlines() if line.startswith("  ")]
    assert lines and all("isotonic" in line.lower() and "gate" in line.lower() for line in lines)
    assert any(line.split()[0] == "gated_isotonic" for line in lines)


def test_search_matching_only_paper_presets_names_the_option():
    with pytest.raises(UsageError, match=r"no method has 'p5/diamonds' in its name or line; \d+"):
        list_options(CATALOGUE, "method", ["p5/diamonds"], 100)
    shown = list_options(CATALOGUE, "method", ["p5/diamonds"], 100, show_all=True)
    assert "paper/p5/diamonds/" in shown


@pytest.mark.parametrize("width", [80, 140])
def test_lines_are_cut_at_the_width_of_the_terminal(width):
    for group in CATALOGUE.groups:
        lines = list_options(CATALOGUE, group, [], width, show_all=True).splitlines()
        assert max(map(len, lines)) <= width
    assert max(map(len, list_groups(CATALOGUE, width).splitlines())) <= width
    cut = [line for line in list_options(CATALOGUE, "method", [], 80).splitlines() if "…" in line]
    assert cut and all(line.endswith("…") for line in cut)


def test_folders_of_options_are_sections(kdg):
    out = kdg("list", "dataset", "--all")[1]
    headings = [block.splitlines()[0] for block in out.split("\n\n")]
    assert headings[: len(KINDS)] == list(KINDS.values()) and "dataset=cc18/…" in headings
    assert headings.index("dataset=cc18/…") < headings.index("dataset=paper/p5/…")


def test_data_sets_are_listed_by_kind(kdg):
    by_kind = sections(kdg("list", "dataset")[1])
    for kind, names in {
        "simulations, whose truth is known": {"spiral", "heteroscedastic"},
        "tables of scikit-learn": {"wine", "swiss_roll"},
        "tables of openml.org": {"bank_marketing", "openml"},
        "images of openml.org": {"mnist"},
        "files of your own": {"table", "arrays", "image_files", "text", "scores"},
    }.items():
        assert names <= set(by_kind[kind])


def test_a_group_of_the_user_is_listed_with_its_options(kdg, tmp_path):
    (tmp_path / "custom" / "colour").mkdir(parents=True)
    (tmp_path / "custom" / "colour" / "red.yaml").write_text("# A warm one\nname: red\n")
    assert "\ncolour " in kdg("list", "--config-dir", "custom")[1]
    assert kdg("list", "colour", "--config-dir", "custom")[1] == "colour\n  red  A warm one\n"


def test_options_are_listed_without_what_others_build_on(tmp_path):
    (tmp_path / "parent").mkdir()
    (tmp_path / "parent" / "_base.yaml").write_text("# Not an option\n")
    (tmp_path / "parent" / "forest.yaml").write_text("# @package parent\n# Trees\nname: forest\n")
    (tmp_path / "parent" / "tree.yaml").write_text("name: tree\n")
    catalogue = Catalogue([tmp_path])
    assert list_options(catalogue, "parent", [], 100) == "parent\n  forest  Trees\n  tree"
    with pytest.raises(ConfigError, match="no group named 'parnt'; did you mean 'parent'"):
        list_options(catalogue, "parnt", [], 100)


def test_the_first_folder_wins_and_directives_are_no_summaries(tmp_path):
    for folder, line in (("first", "# @package _global_\n# First\n"), ("second", "# Second\n")):
        (tmp_path / folder / "colour").mkdir(parents=True)
        (tmp_path / folder / "colour" / "red.yaml").write_text(line)
    (tmp_path / "second" / "colour" / "own.yaml").write_text("a: 1\n")
    catalogue = Catalogue([tmp_path / "first", tmp_path / "second"])
    assert list_options(catalogue, "colour", [], 100) == "colour\n  own\n  red  First"
