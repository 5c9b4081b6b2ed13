"""The store: found again, checked, made again when damaged, and without a second copy of what is
shared.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from kdgraph import signing as keys
from kdgraph.runner.locks import process_identity
from kdgraph.runner.store import CODE_SCHEMA, Store, stage_key
from tests.runner.conftest import Notes


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def store(tmp_path, notes) -> Store:
    return Store(tmp_path, notes, trusted=[__name__])


class Maker:
    """Makes a value and counts its calls."""

    def __init__(self, value) -> None:
        self.value, self.calls = value, 0

    def __call__(self):
        self.calls += 1
        return self.value


def test_what_was_made_is_found_with_its_cost(store):
    make = Maker(np.arange(3.0))
    first = store.get_or_run("fit", "a" * 64, make)
    again = store.get_or_run("fit", "a" * 64, make)
    assert make.calls == 1 and not first.from_store and again.from_store
    np.testing.assert_array_equal(again.value, np.arange(3.0))
    assert again.cost == first.cost


def test_lock_of_a_maker_killed_after_writing_is_removed(store):
    store.get_or_run("fit", "a" * 64, Maker(1))
    left = store.path("fit", "a" * 64).with_suffix(".lock")
    left.write_text(json.dumps({**process_identity(), "start": "1"}))
    assert store.get_or_run("fit", "a" * 64, Maker(2)).value == 1
    assert not left.exists()


def test_what_it_warned_of_is_found_too(store, recwarn):
    def make():
        for message in ("odd", "odd", "very odd"):
            warnings.warn(message, UserWarning, stacklevel=1)

    warnings.simplefilter("default")  # pytest puts the filters back
    results = [store.get_or_run("fit", "a" * 64, make) for _ in range(2)]
    assert [result.warnings for result in results] == [["odd", "very odd"]] * 2
    assert not recwarn.list


def test_an_error_carries_the_warnings_before_it(store):
    def make():
        warnings.warn("odd", UserWarning, stacklevel=1)
        raise ValueError("broken")

    warnings.simplefilter("default")  # pytest puts the filters back
    with pytest.raises(ValueError, match="broken") as caught:
        store.get_or_run("fit", "a" * 64, make)
    assert caught.value.__notes__ == ["warned before: odd"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-7],
        lambda content: content[:40],
        lambda content: b"",
        lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
        lambda content: content[:20] + bytes([content[20] ^ 1]) + content[21:],
    ],
    ids=[
        "truncated",
        "cut to its head",
        "empty",
        "flipped bit in the value",
        "flipped bit in the checksum",
    ],
)
def test_a_damaged_entry_is_thrown_away_and_made_again(store, notes, damage):
    make = Maker(list(range(100)))
    store.get_or_run("fit", "a" * 64, make)
    path = store.path("fit", "a" * 64)
    path.write_bytes(damage(path.read_bytes()))
    assert store.get_or_run("fit", "a" * 64, make).value == list(range(100))
    assert make.calls == 2
    (line,) = notes.lines
    assert line.startswith(f"store entry {path} is damaged ") and line.endswith(
        "; thrown away, it is made again"
    )
    assert store.get_or_run("fit", "a" * 64, make).from_store


@pytest.fixture
def another_user(tmp_path_factory, monkeypatch):
    """Call it, and what follows is done with another key."""
    return lambda: monkeypatch.setenv(
        "KDGRAPH_KEY_FILE", str(tmp_path_factory.mktemp("other") / "model.key")
    )


def test_an_entry_of_another_key_is_made_again_and_reported_once(
    store, notes, another_user, monkeypatch
):
    """It is not read, and stays until the user's own entry takes its place."""
    for letter in "ab":
        store.get_or_run("fit", letter * 64, Maker(["of another process"]))
    another_user()
    path = store.path("fit", "a" * 64)
    content, key = path.read_bytes(), Path(os.environ["KDGRAPH_KEY_FILE"])
    with pytest.raises(ZeroDivisionError):
        store.get_or_run("fit", "a" * 64, lambda: 1 / 0)
    assert path.read_bytes() == content
    assert [store.get_or_run("fit", letter * 64, Maker(["custom"])).value for letter in "ab"] == [
        ["custom"]
    ] * 2
    assert notes.lines == [
        f"store entry {path} was not made with your key ({key}), and a model can run code of its"
        " maker's choosing when it is read; it is made again, as is every other entry like it;"
        " users who share a folder of runs can share a key: KDGRAPH_KEY_FILE=FILE names it"
    ]
    again = store.get_or_run("fit", "a" * 64, Maker(["again"]))
    assert again.from_store and again.value == ["custom"]
    monkeypatch.delenv("KDGRAPH_KEY_FILE")
    assert store.find("fit", "a" * 64) is None


def test_users_with_one_key_share_entries(store, notes, another_user):
    another_user()
    store.get_or_run("fit", "a" * 64, Maker(["other"]))
    keys._load_key.cache_clear()  # another process
    assert (
        store.get_or_run("fit", "a" * 64, Maker(["custom"])).value == ["other"] and not notes.lines
    )


def test_without_a_stored_key_stages_are_kept_for_one_process(store, notes, tmp_path, monkeypatch):
    (tmp_path / "closed").write_text("a file, where a folder should be")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "closed"))
    results = [store.get_or_run("fit", letter * 64, Maker([letter])) for letter in "aba"]
    assert [(each.value, each.from_store) for each in results] == [
        (["a"], False),
        (["b"], False),
        (["a"], True),
    ]
    assert notes.lines == [
        f"your key for models cannot be kept in {tmp_path}/closed/kdgraph/model.key (Not a"
        " directory); KDGRAPH_KEY_FILE=FILE names another place; later commands make again what"
        " this one stores, and have to trust its models"
    ]
    keys._load_key.cache_clear()  # another process
    assert not store.get_or_run("fit", "a" * 64, Maker(["again"])).from_store


class Gone:
    """A class that will not be there when the entry is read."""


def test_an_entry_whose_class_is_gone_is_made_again(store, notes, monkeypatch):
    store.get_or_run("fit", "a" * 64, Gone)
    monkeypatch.delattr(f"{__name__}.Gone")
    assert store.get_or_run("fit", "a" * 64, Maker(1)).value == 1
    assert "cannot be read by this version" in notes.lines[0]


def test_shared_objects_are_left_out_and_put_back(store):
    parent = np.random.default_rng(0).random(100_000)
    store.get_or_run(
        "calibrate", "a" * 64, Maker({"parent": parent, "own": 1}), shared={"parent": parent}
    )
    assert store.path("calibrate", "a" * 64).stat().st_size < 1000
    another = parent.copy()
    result = store.get_or_run("calibrate", "a" * 64, Maker(None), shared={"parent": another})
    assert result.from_store and result.value["parent"] is another


def test_without_reuse_the_entry_is_replaced(tmp_path, notes):
    Store(tmp_path, notes).get_or_run("fit", "a" * 64, Maker(1))
    assert Store(tmp_path, notes, reuse=False).get_or_run("fit", "a" * 64, Maker(2)).value == 2
    assert Store(tmp_path, notes).get_or_run("fit", "a" * 64, Maker(3)).value == 2


def test_a_stage_that_fails_leaves_nothing(store, tmp_path):
    with pytest.raises(ZeroDivisionError):
        store.get_or_run("fit", "a" * 64, lambda: 1 / 0)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_every_part_of_the_key_counts(monkeypatch):
    key = stage_key("fit", "data", {"parent": {"n": 1}}, 0)
    others = [
        stage_key("calibrate", "data", {"parent": {"n": 1}}, 0),
        stage_key("fit", "other", {"parent": {"n": 1}}, 0),
        stage_key("fit", "data", {"parent": {"n": 2}}, 0),
        stage_key("fit", "data", {"parent": {"n": 1}}, 1),
    ]
    monkeypatch.setitem(CODE_SCHEMA, "fit", CODE_SCHEMA["fit"] + 1)
    others.append(stage_key("fit", "data", {"parent": {"n": 1}}, 0))
    assert len({key, *others}) == 6


@pytest.mark.parametrize("stage", list(CODE_SCHEMA))
def test_what_builds_on_other_code_is_made_again(stage, monkeypatch):
    """Else numbers of an old recalibrator would be shown as those of the new one."""
    before = {name: stage_key(name, "data", {}, 0) for name in CODE_SCHEMA}
    monkeypatch.setitem(CODE_SCHEMA, stage, CODE_SCHEMA[stage] + 1)
    changed = {name for name in CODE_SCHEMA if stage_key(name, "data", {}, 0) != before[name]}
    builds_on = {
        "fit": set(CODE_SCHEMA),
        "cross_fit": {"calibrate", "evaluate"},
        "space": {"calibrate", "evaluate"},
        "calibrate": {"evaluate"},
    }
    assert changed == {stage} | builds_on.get(stage, set())


def test_unsaved_entries_are_made_each_time_and_reported_once(store, notes):
    make = Maker({"callback": lambda: 1})
    result = store.get_or_run("fit", "a" * 64, make)
    assert result.value["callback"]() == 1 and result.entry is None
    (line,) = notes.lines
    assert line.startswith(
        "what fit made cannot be saved, so it is made again next time and no model of the run is"
        " kept: "
    )
    assert line.endswith(
        f"<lambda> of {__name__} cannot be saved: it must stand in a module that can be imported"
    )
    assert not store.get_or_run("fit", "a" * 64, make).from_store and make.calls == 2
    assert not [path for path in store.root.rglob("*") if path.is_file()]


def test_nor_is_a_class_that_no_config_has_named(tmp_path, notes):
    untrusting = Store(tmp_path, notes)
    assert isinstance(untrusting.get_or_run("calibrate", "a" * 64, Gone).value, Gone)
    assert "needs what is not known to be harmless" in notes.lines[0]
    assert not list(tmp_path.rglob("*.kdg"))


def test_an_entry_has_its_path_and_time_of_last_use(store):
    result = store.get_or_run("fit", "a" * 64, Maker([1]))
    assert result.entry == store.path("fit", "a" * 64) == store.root / "fit" / f"{'a' * 24}.kdg"
    os.utime(result.entry, (0, 0))
    assert store.get_or_run("fit", "a" * 64, Maker([2])).entry == result.entry
    assert result.entry.stat().st_mtime > time.time() - 60
