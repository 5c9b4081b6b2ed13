"""YAML files of the user's that are no options: every command names the file in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

BAD = {
    "nothing": (b"# only a comment\n", "has no 'name', what runs call it; add name: …"),
    "a list": (b"- one\n- two\n", "must have keys with values, such as 'name: mine', got a list"),
    "a number": (b"3.5\n", "must have keys with values, such as 'name: mine', got the value 3.5"),
    "no class": (
        b"name: custom\nscale: none\n",
        "has no '_target_', the import path of its class or function; add _target_: …",
    ),
    "no name": (
        b"_target_: kdgraph.data.simulations.Circle\n",
        "has no 'name', what runs call it; add name: …",
    ),
    "latin-1": (
        "# größe\nname: custom\n".encode("latin-1"),
        "is not text in UTF-8: byte 4 (0xf6) cannot be decoded; save it as UTF-8",
    ),
    "tabs": (
        b"name: custom\na:\n\tb: 1\n",
        ", line 3: not YAML (found character '\\t' that cannot start any token)",
    ),
    "a key twice": (
        b"name: custom\n_target_: a\nname: other\n",
        ", line 3: not YAML (found duplicate key name)",
    ),
    "a list of itself": (
        b"&x [*x]\n",
        "must have keys with values, such as 'name: mine', got a list",
    ),
    "a key that is null": (
        b"name: custom\nnull: 1\n",
        "cannot be read as a config: Incompatible key type 'NoneType'",
    ),
}


def written(folder: Path, content: bytes, group: str = "dataset") -> Path:
    path = folder / group / "custom.yaml"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(("content", "problem"), BAD.values(), ids=BAD)
def test_a_file_that_is_no_option_is_named(kdg, tmp_path, content, problem):
    path = written(tmp_path / "conf", content)
    for command in ("show", "plan", "run"):
        code, out, err = kdg(command, "--config-dir", "conf", "dataset=custom", "method=isotonic")
        separator = "" if problem.startswith(",") else " "
        named = [
            f"kdg: {where}{separator}{problem}\n" for where in (path, path.relative_to(tmp_path))
        ]
        assert (code, out) == (2, "") and err in named


@pytest.mark.parametrize("group", ["parent", "calibrator", "detector"])
def test_a_component_without_a_class_is_not_taken_for_none(kdg, tmp_path, group):
    written(tmp_path / "conf", b"name: custom\n", group)
    code, _, err = kdg("show", "--config-dir", "conf", f"{group}=custom")
    rule = "has no '_target_', the import path of its class or function; add _target_: …"
    assert (code, err) == (2, f"kdg: conf/{group}/custom.yaml {rule}\n")


def test_listing_names_a_file_that_is_not_utf8(kdg, tmp_path):
    written(tmp_path / "conf", "# größe\n".encode("cp1252"))
    message = (
        "kdg: conf/dataset/custom.yaml is not text in UTF-8: byte 4 (0xf6) cannot be decoded; save it"
        " as UTF-8\n"
    )
    for arguments in (["list"], ["list", "dataset"], ["data", "list"]):
        assert kdg(*arguments, "--config-dir", "conf") == (2, "", message)


def test_a_folder_and_a_link_to_nothing_are_named(kdg, tmp_path):
    (tmp_path / "a" / "dataset" / "custom.yaml").mkdir(parents=True)
    (tmp_path / "b" / "dataset").mkdir(parents=True)
    (tmp_path / "b" / "dataset" / "custom.yaml").symlink_to("gone.yaml")
    messages = {
        "a": "this is a folder, and an option is a file; give it another name",
        "b": "this is a link to gone.yaml, which does not exist; remove the link or mend it",
    }
    for folder, problem in messages.items():
        for arguments in (
            ["list"],
            ["show", "dataset=custom"],
            ["plan", "dataset=custom"],
            ["run", "dataset=custom"],
        ):
            expected = (2, "", f"kdg: {folder}/dataset/custom.yaml: {problem}\n")
            assert kdg(*arguments, "--config-dir", folder) == expected
        assert (
            kdg("show", "--config-dir", folder, "dataset=iris")[0] == 0
        )  # another option is not affected


def test_option_extended_by_a_user_is_named_with_the_file(kdg, tmp_path):
    written(tmp_path / "conf", b"defaults: [tabel]\nname: custom\n")
    code, _, err = kdg("show", "--config-dir", "conf", "dataset=custom")
    assert code == 2 and err.startswith("kdg: no dataset named 'tabel'; did you mean 'table'?")
    assert err.endswith("; it is named in dataset/custom\n")
