"""Tables of presets, which follow from a rule."""

from pathlib import Path

import pytest
import yaml

from kdgraph.cli.main import main
from kdgraph.config.catalogue import Catalogue, first_comment
from kdgraph.config.composer import Composer, conf_dir
from kdgraph.config.preset_tables import TABLE, presets_of_folder
from kdgraph.config.yaml_files import is_option, load_yaml, option_files, read_text
from kdgraph.errors import ConfigError


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "conf" / "dataset").mkdir(parents=True)
    return tmp_path / "conf"


def write(folder: Path, text: str) -> Path:
    table = folder / "dataset" / TABLE
    table.write_text(text)
    return table.parent


def test_rule_and_preset_make_the_text_of_a_file(folder):
    presets = presets_of_folder(
        write(
            folder,
            "_each_: {package: dataset, defaults: [_table, _self_], named: true,"
            " about: '{about} (OpenML {id})'}\n"
            "iris:\n"
            "  about: Irises\n"
            "  check: 3, for trees\n"
            "  base: [_small]\n"
            "  choose: {parent: forest}\n"
            "  set: {id: 61, drop: [a, b]}\n",
        )
    )
    assert list(presets) == ["iris"]
    assert presets["iris"].splitlines()[:3] == [
        "# @package dataset",
        "# Irises (OpenML 61)",
        "# place in kdg check: 3, for trees",
    ]
    assert yaml.safe_load(presets["iris"]) == {
        "defaults": ["_small", "_table", "_self_", {"override /parent": "forest"}],
        "name": "iris",
        "id": 61,
        "drop": ["a", "b"],
    }


def test_a_preset_without_values_is_its_summary(folder):
    assert presets_of_folder(write(folder, "a: {about: Nothing else}\n")) == {
        "a": "# Nothing else\n"
    }


def test_options_of_a_table_are_found_like_files(folder):
    write(folder, "a: {about: From the table, set: {id: 1}}\n")
    path = folder / "dataset" / "b.yaml"
    path.write_text("# A file\nid: 2\n")
    assert option_files(folder) == [folder / "dataset" / "a.yaml", path]
    assert list(Catalogue([folder]).groups["dataset"]) == ["a", "b"]
    assert first_comment(folder / "dataset" / "a.yaml") == "From the table"
    assert load_yaml(folder / "dataset" / "a.yaml") == {"id": 1}
    assert is_option(path) and not is_option(folder / "dataset" / TABLE.replace("_", "", 1))


def test_a_changed_table_is_read_again(folder):
    write(folder, "a: {about: Before}\n")
    before = read_text(folder / "dataset" / "a.yaml")
    write(folder, "a: {about: Afterwards}\n")
    assert read_text(folder / "dataset" / "a.yaml") != before


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("a: {set: {id: 1}}", "a must have about"),
        ("a: 3", "a must have about"),
        ("a: {about: A, id: 1}", "a must have about"),
        ("a: {about: A, set: 3}", "a must have about"),
        ("a: {about: A, base: _b}", "a must have about"),
        ("a: {about: A, choose: [b]}", "a must have about"),
        ("_each_: {packages: x}\na: {about: A}", "_each_ may have about, defaults, named, package"),
        ("_each_: x\na: {about: A}", "_each_ may have about"),
        ("_each_: {about: '{id}'}\na: {about: A}", "a has no value for about of _each_"),
        ("[a, b]", "must have presets by name"),
        ("a: [", "not YAML"),
        ("b: {about: A file as well}", "is in .* and a file beside it"),
    ],
)
def test_a_table_of_another_form_is_refused(folder, text, rule):
    (folder / "dataset" / "b.yaml").write_text("id: 2\n")
    with pytest.raises(ConfigError, match=rule) as refusal:
        dict(presets_of_folder(write(folder, text)))
    assert "\n" not in str(refusal.value)


def test_a_table_of_the_user_is_composed(folder):
    write(
        folder,
        "custom: {about: Custom, base: [spiral, _self_], set: {name: custom, n_train: 30}}\n",
    )
    composer = Composer(folder)
    assert "custom" in composer.options("dataset")
    config = composer.run_config(["dataset=custom"])
    assert (config.dataset["name"], config.dataset["n_train"]) == ("custom", 30)


def test_hydras_own_view_has_the_tables_of_the_user(folder, capsys):
    write(folder, "custom: {about: Custom, base: [spiral, _self_], set: {n_train: 37}}\n")
    (folder / "dataset" / "other.yaml").write_text("defaults: [spiral, _self_]\nn_train: 38\n")
    for name, n_train in (("custom", 37), ("other", 38)):
        words = ["--config-dir", str(folder), "--cfg", "job", "-p", "dataset", f"dataset={name}"]
        assert main(["run", *words]) == 0
        assert f"n_train: {n_train}" in capsys.readouterr().out


def test_presets_of_tables_have_no_files_beside_them():
    tables = list(conf_dir().rglob(TABLE))
    assert len(tables) > 20
    assert sum(len(presets_of_folder(table.parent)) for table in tables) > 400
