"""The key of a user: created once, readable by this user alone, refused if it is not secret."""

from __future__ import annotations

import os
import re
import stat
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from kdgraph import signing as keys
from kdgraph.persistence import KeyFileError, UntrustedFileError, from_bytes, load, save, to_bytes
from kdgraph.signing import KEY_FILE_VARIABLE, current_key


@pytest.fixture(autouse=True)
def config_folder(tmp_path, monkeypatch) -> Path:
    """Configuration folder of a user without a key."""
    monkeypatch.delenv(KEY_FILE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"


@pytest.fixture
def unwritable_key_path(config_folder) -> Path:
    """Path below a file, where no user can create a folder, not even root."""
    config_folder.write_text("a file")
    return config_folder / "kdgraph" / "model.key"


def test_key_is_created_on_first_use_and_stays_the_same(config_folder):
    path = config_folder / "kdgraph" / "model.key"
    key = current_key()
    assert key.path == path and not key.problem and len(key.secret) == 32
    assert (
        stat.S_IMODE(path.stat().st_mode) == 0o600
        and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    )
    keys._load_key.cache_clear()
    assert current_key() == key
    assert [file.name for file in path.parent.iterdir()] == ["model.key"]


def test_key_is_in_the_home_folder_without_a_configuration_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for value in ("", "relative/folder"):
        monkeypatch.setenv("XDG_CONFIG_HOME", value)
        assert current_key().path == tmp_path / "home" / ".config" / "kdgraph" / "model.key"


def test_concurrent_first_uses_share_one_key(config_folder):
    path = config_folder / "kdgraph" / "model.key"
    with ThreadPoolExecutor(8) as pool:
        secrets = list(pool.map(lambda _: keys._read_or_create_key(path), range(32)))
    assert len(set(secrets)) == 1 and secrets[0].hex() == path.read_text().strip()
    assert [file.name for file in path.parent.iterdir()] == ["model.key"]


def test_key_is_created_on_a_file_system_without_links(config_folder, monkeypatch):
    def refuse(*paths):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    key = current_key()
    assert not key.problem and key.path.read_text().strip() == key.secret.hex()


def test_key_file_of_the_environment_variable_is_created(tmp_path, monkeypatch):
    default = current_key()
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(tmp_path / "group" / "shared.key"))
    shared = current_key()
    assert shared.path == tmp_path / "group" / "shared.key" and shared.secret != default.secret
    shared.path.chmod(0o640)  # a group may read it
    keys._load_key.cache_clear()
    assert current_key() == shared


def test_file_is_accepted_with_its_key_only(tmp_path, monkeypatch):
    content = to_bytes({"a": 1})
    assert from_bytes(content, "it").value == {"a": 1}
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(tmp_path / "other.key"))
    with pytest.raises(UntrustedFileError) as caught:
        from_bytes(content, "it")
    assert (
        str(caught.value)
        == f"it was not made with your key ({tmp_path}/other.key), and a model can run code of its"
        " maker's choosing when it is read"
    )
    assert from_bytes(content, "it", trust=True).value == {"a": 1}
    monkeypatch.delenv(KEY_FILE_VARIABLE)
    assert from_bytes(content, "it").value == {"a": 1}


def test_sibling_files_require_the_same_key(tmp_path, monkeypatch):
    parent = [1, 2]
    (tmp_path / "calibrated.kdg").write_bytes(to_bytes({"parent": parent}, {"parent": parent}))
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(tmp_path / "other.key"))
    save(parent, tmp_path / "parent.kdg")
    monkeypatch.delenv(KEY_FILE_VARIABLE)
    with pytest.raises(UntrustedFileError, match=r"/parent\.kdg was not made with your key"):
        load(tmp_path / "calibrated.kdg")
    assert load(tmp_path / "calibrated.kdg", trust=True) == {"parent": [1, 2]}


def test_only_the_writing_process_reads_without_a_key_file(unwritable_key_path, tmp_path):
    message = (
        f"{tmp_path}/it.kdg will have to be trusted when it is read: your key for models cannot be"
        f" kept in {unwritable_key_path} (Not a directory); KDGRAPH_KEY_FILE=FILE names another"
        " place"
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        save(np.arange(3), tmp_path / "it.kdg")
    np.testing.assert_array_equal(load(tmp_path / "it.kdg"), np.arange(3))
    keys._load_key.cache_clear()  # another process
    with pytest.raises(
        UntrustedFileError,
        match=(
            rf"was not made with your key \(which cannot be kept in {unwritable_key_path}: Not a"
            r" directory\), and"
        ),
    ):
        load(tmp_path / "it.kdg")
    np.testing.assert_array_equal(load(tmp_path / "it.kdg", trust=True), np.arange(3))


UNUSABLE_KEY_FILES = {
    "text": (
        "not a key\n",
        0o600,
        "it holds no key (64 hexadecimal digits); remove it, and a new one is made",
    ),
    "empty": (
        "",
        0o600,
        "it holds no key (64 hexadecimal digits); remove it, and a new one is made",
    ),
    "too short": (
        "ab" * 16,
        0o600,
        "it holds no key (64 hexadecimal digits); remove it, and a new one is made",
    ),
    "too long": (
        "ab" * 64,
        0o600,
        "it holds no key (64 hexadecimal digits); remove it, and a new one is made",
    ),
    "readable by all": (
        "ab" * 32,
        0o644,
        "it is open to every user of this machine (mode 0644; chmod o= {path})",
    ),
    "writable by all": (
        "ab" * 32,
        0o602,
        "it is open to every user of this machine (mode 0602; chmod o= {path})",
    ),
}


@pytest.mark.parametrize(
    ("text", "mode", "problem"), UNUSABLE_KEY_FILES.values(), ids=UNUSABLE_KEY_FILES
)
def test_key_file_without_a_secret_is_refused(tmp_path, monkeypatch, text, mode, problem):
    """The default file is not used and not changed; a file that the variable names is an error."""
    path = current_key().path
    path.write_text(text)
    path.chmod(mode)
    keys._load_key.cache_clear()
    problem = problem.format(path=path)
    key = current_key()
    assert (
        key.problem == problem
        and path.read_text() == text
        and key.secret.hex() not in text
        and len(key.secret) == 32
    )
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(path))
    with pytest.raises(KeyFileError) as caught:
        to_bytes([1])
    way_out = (
        "name a file that you can read and others cannot write, or unset the variable to use your"
        " own key"
    )
    assert str(caught.value) == f"KDGRAPH_KEY_FILE={path}: {problem}; {way_out}"
    assert caught.value.exit_code == 2


def test_key_is_used_again_after_its_permissions_are_restricted(tmp_path):
    key = current_key()
    key.path.chmod(0o666)
    keys._load_key.cache_clear()
    assert current_key().secret != key.secret
    key.path.chmod(0o600)
    keys._load_key.cache_clear()
    assert current_key() == key


def test_signed_file_does_not_contain_the_key(tmp_path):
    save([1], tmp_path / "it.kdg")
    content = (tmp_path / "it.kdg").read_bytes()
    assert (
        current_key().secret not in content and current_key().secret.hex().encode() not in content
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(tmp_path / "it.kdg") == [1]
