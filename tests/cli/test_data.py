"""``kdg data``: which data sets are here, fetching others, finding damage; and sweeps that miss
some.
"""

from __future__ import annotations

import json
import sys

import pytest
import yaml

from kdgraph.cli.main import main
from kdgraph.config import compose, conf_dir
from kdgraph.config.catalogue import Catalogue
from kdgraph.data.openml.cache import cache_folder
from kdgraph.runner.launchers.local_processes import end_processes
from tests.data.openml.server import mixed_table, numeric_table, write_cached_dataset

LATER = "try again later, or point OPENML_CACHE_DIR at a folder that has it"
TINY = ["parent.n_estimators=5", "ood.n=20", "ood.radii=[2]", "figures=none", "n_jobs=1"]


@pytest.fixture
def kdg(kdg, tmp_path):
    """Call ``kdg`` in an empty folder that has three data sets of its own."""
    folder = tmp_path / "custom" / "dataset" / "few"
    folder.mkdir(parents=True)
    for name, id in {"one": 61, "two": 62, "three": 9063}.items():
        node = f"# Made up\ndefaults: [/dataset/openml@_here_, _self_]\nname: {name}\nid: {id}\n"
        (folder / f"{name}.yaml").write_text(f"# @package dataset\n{node}")

    def call(*arguments: str) -> tuple[int, str, str]:
        n_words = 2 if arguments[0] == "data" else 1
        return kdg(*arguments[:n_words], "--config-dir", "custom", *arguments[n_words:])

    return call


@pytest.fixture
def where(openml_cache):
    """Name of the cache in messages."""
    return openml_cache / "org" / "openml" / "www"


def test_every_configuration_of_openml_is_found_with_its_number():
    ids = Catalogue([conf_dir()]).openml_ids()
    some = ["cc18/spambase", "cc18/electricity", "electricity", "openml/ecoli", "us_crime"]
    assert {name: ids[name] for name in some} == {
        name: compose([f"dataset={name}"]).dataset["id"] for name in some
    }
    assert "iris" not in ids and "openml" not in ids
    assert list(ids) == sorted(ids)


def test_two_numbers_do_not_share_a_name():
    assert compose(["dataset=openml", "dataset.id=44"]).dataset["name"] == "openml-44"


def test_list_shows_which_data_sets_are_stored(kdg, where, openml_cache):
    folder = write_cached_dataset(openml_cache, 61, numeric_table())
    (folder / "more").write_bytes(bytes(250_000))
    code, out, err = kdg("data", "list", "few")
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    assert (code, err) == (0, "")
    assert (
        out == f"           OpenML  on this machine\nfew/one        61           {size:.1f}"
        " MB\nfew/three    9063                –\nfew/two        62                –\n1 of 3"
        f" data sets are in {where} ({size:.1f} MB); 'kdg data get NAME' fetches one or a"
        " group\n"
    )
    assert "cc18/spambase" in kdg("data", "list")[1]


def test_a_damaged_set_is_listed_as_here(kdg, openml_cache):
    (write_cached_dataset(openml_cache, 61, numeric_table()) / "description.xml").write_text("<oml")
    assert "1 of 1 data set is in" in kdg("data", "list", "few/one")[1]


def test_get_by_name_group_pattern_number_and_override(kdg, openml_server):
    where = cache_folder()
    for id in (61, 62, 9063):
        openml_server.add(id, numeric_table())
    assert kdg("data", "get", "few/one") == (
        0,
        f"1 of 1 data set is in {where}, 1 of them fetched now\n",
        "",
    )
    assert kdg("data", "get", "few/o*", "61") == (
        0,
        f"2 of 2 data sets are in {where}, 0 of them fetched now\n",
        "",
    )
    assert kdg("data", "get", "dataset=few/one,few/two", "seed=0,1")[1].startswith(
        "2 of 2 data sets are in"
    )
    assert kdg("data", "get", "few") == (
        0,
        f"3 of 3 data sets are in {where}, 1 of them fetched now\n",
        "",
    )
    assert kdg("data", "get", "dataset=openml", "dataset.id=61")[:2] == (
        0,
        f"1 of 1 data set is in {where}, 0 of them fetched now\n",
    )
    assert kdg("data", "get", "dataset=spiral")[:2] == (
        0,
        f"0 of 0 data sets are in {where}, 0 of them fetched now\n",
    )


def test_get_of_an_experiment(kdg, openml_server, tmp_path):
    folder = tmp_path / "custom" / "experiment"
    folder.mkdir()
    sweep = {
        "mode": "MULTIRUN",
        "sweeper": {"params": {"dataset": "few/one, few/two", "seed": "range(0,50)"}},
    }
    (folder / "custom.yaml").write_text(f"# @package _global_\n{yaml.safe_dump({'hydra': sweep})}")
    for id in (61, 62):
        openml_server.add(id, numeric_table())
    assert kdg("data", "get", "experiment=custom")[1].endswith(", 2 of them fetched now\n")


def test_get_names_what_cannot_be_had(kdg, where, openml_cache, no_reply):
    write_cached_dataset(openml_cache, 61, numeric_table())
    code, out, err = kdg("data", "get", "few")
    assert (code, out) == (1, f"1 of 3 data sets are in {where}, 0 of them fetched now\n")
    why = f"not in {where}; openml.org cannot be reached (Name or service not known); {LATER}"
    assert err == f"kdg: not at hand: few/three, few/two ({why})\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["lst"], "data takes one of list, get, check, got lst"),
        (
            ["get"],
            (
                "data get takes names or groups ('kdg data list' shows them), numbers of OpenML, or"
                " overrides: dataset=…, experiment=…"
            ),
        ),
        (
            ["get", "cc18/spambse"],
            "no data set or group named 'cc18/spambse'; did you mean 'cc18/spambase'?",
        ),
        (
            ["list", "quux"],
            "no data set or group named 'quux'; 'kdg data list' shows those of openml.org",
        ),
        (["get", "dataset=quux"], "no dataset named 'quux'"),
        (
            ["get", "dataset=openml"],
            "dataset.id is missing, and no run can do without it; add dataset.id=…",
        ),
    ],
)
def test_what_cannot_be_used(kdg, openml_cache, arguments, sentence):
    code, out, err = kdg("data", *arguments)
    assert (code, out) == (2, "") and err.startswith(f"kdg: {sentence}")


def test_data_needs_an_action(capsys):
    assert main(["data"]) == 2
    assert capsys.readouterr().err == "kdg: data takes one of list, get, check, got nothing\n"


def test_check_of_a_whole_cache(kdg, where, openml_cache):
    size = (
        sum(
            path.stat().st_size
            for path in write_cached_dataset(
                openml_cache, 61, numeric_table(), name="first"
            ).iterdir()
        )
        / 1e3
    )
    code, out, err = kdg("data", "check")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [line.split() for line in lines[:2]] == [
        ["rows", "columns", "size"],
        ["61", "first", "60", "3", f"{size:.0f}", "kB", "ok"],
    ]
    assert lines[2] == f"1 data set in {where} ({size:.0f} kB), all of them whole"


def test_check_names_what_is_damaged(kdg, openml_cache):
    folder = write_cached_dataset(openml_cache, 61, numeric_table())
    write_cached_dataset(openml_cache, 62, numeric_table())
    (folder / "dataset_61.pq").write_bytes(b"PAR1")
    code, out, err = kdg("data", "check")
    assert code == 1 and "damaged" in out.splitlines()[1] and out.splitlines()[2].endswith(" ok")
    assert err.startswith(f"kdg: {folder / 'dataset_61.pq'} is damaged (")
    assert err.endswith(f"); delete {folder} and fetch it again with 'kdg data get 61'\n")
    assert kdg("data", "check", "few/two")[0] == 0


@pytest.mark.parametrize("words", [["61", "62"], ["dataset=few/one,few/two"]])
def test_get_names_what_is_damaged_too(kdg, where, openml_cache, words):
    folder = write_cached_dataset(openml_cache, 61, numeric_table())
    write_cached_dataset(openml_cache, 62, numeric_table())
    path = folder / "dataset_61.pq"
    path.write_bytes(path.read_bytes()[:-100])
    code, out, err = kdg("data", "get", *words)
    assert (code, out) == (1, f"1 of 2 data sets are in {where}, 0 of them fetched now\n")
    assert err.startswith(f"kdg: {path} is damaged (") and err.endswith(
        f"); delete {folder} and fetch it again with 'kdg data get 61'\n"
    )
    assert err.count("\n") == 1


def test_a_terminal_shows_a_bar(openml_server, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    openml_server.add(61, numeric_table())
    assert main(["data", "get", "61"]) == 0
    assert main(["data", "check"]) == 0
    assert "1 data set in" in capsys.readouterr().out


def test_a_run_of_a_set_that_is_not_at_hand_ends_in_one_line(
    kdg, where, openml_cache, no_reply, tmp_path
):
    code, out, err = kdg("run", "dataset=few/one", *TINY)
    assert (code, out) == (2, "")
    message = (
        f"data set 61 is not in {where}; openml.org cannot be reached (Name or service not known);"
        f" {LATER}"
    )
    assert err.splitlines() == ["kdg: fetching OpenML data set 61", f"kdg: {message}"]
    assert not list(tmp_path.rglob("result.json")) and not list(tmp_path.rglob("error.txt"))


def test_a_sweep_leaves_out_what_is_not_at_hand(kdg, where, openml_cache, no_reply, tmp_path):
    write_cached_dataset(openml_cache, 62, numeric_table())
    code, out, err = kdg(
        "run",
        "-m",
        "dataset=few/one,few/two,few/three",
        "seed=0,1",
        "calibrator=none",
        "hydra/launcher=basic",
        *TINY,
    )
    assert code == 0 and "2 runs in outputs" in out
    why = f"not in {where}; openml.org cannot be reached (Name or service not known); {LATER}"
    assert err.splitlines() == [
        "kdg: fetching OpenML data set 61",
        f"kdg: not runnable: one, three ({why})",
    ]
    assert {
        json.loads(path.read_text())["dataset"]["name"] for path in tmp_path.rglob("result.json")
    } == {"two"}
    assert not list(tmp_path.rglob("error.txt"))


@pytest.mark.slow
def test_a_parallel_sweep_leaves_it_out_too(kdg, openml_cache, no_reply):
    write_cached_dataset(openml_cache, 62, numeric_table())
    end_processes()  # processes of an earlier test have another cache
    code, out, err = kdg(
        "run",
        "-m",
        "dataset=few/one,few/two",
        "seed=0,1",
        "calibrator=none",
        "hydra.launcher.n_jobs=2",
        *TINY,
    )
    assert code == 0 and "2 runs in outputs" in out and "kdg: not runnable: one (" in err
    end_processes()


def test_what_require_shuts_out_is_not_runnable(kdg, openml_cache, tmp_path):
    (tmp_path / "custom" / "dataset" / "few" / "two.yaml").write_text(
        "# @package dataset\ndefaults: [/dataset/openml@_here_, _self_]\nname: two\nid:"
        " 62\nrequire: numeric\n"
    )
    write_cached_dataset(openml_cache, 61, numeric_table())
    write_cached_dataset(openml_cache, 62, mixed_table())
    code, _, err = kdg("run", "-m", "dataset=few/one,few/two", "calibrator=none", *TINY)
    assert code == 0 and err.startswith("kdg: not runnable: two (two has 2 categorical columns")


def test_sweep_of_absent_data_alone_fails(kdg, openml_cache, no_reply):
    code, out, err = kdg("run", "-m", "dataset=few/one,few/two", *TINY)
    assert (code, out) == (2, "") and "kdg: not runnable: one, two (" in err


def test_a_finished_run_downloads_nothing(kdg, openml_cache, no_network):
    folder = write_cached_dataset(openml_cache, 61, numeric_table())
    first = kdg("run", "dataset=few/one", "calibrator=none", *TINY)
    assert first[0] == 0
    for path in folder.iterdir():
        path.unlink()
    code, out, _ = kdg("run", "dataset=few/one", "calibrator=none", *TINY)
    assert code == 0 and "done before" in out


def test_other_data_out_of_distribution_are_fetched_too(kdg, openml_cache, no_reply):
    write_cached_dataset(openml_cache, 61, numeric_table())
    code, _, err = kdg(
        "run",
        "dataset=few/one",
        "calibrator=none",
        "ood=dataset",
        "ood.name=two",
        *TINY[:1],
        *TINY[3:],
    )
    assert code == 2 and err.splitlines()[-1].startswith("kdg: data set 62 is not in ")


def test_show_counts_what_is_not_at_hand_and_fetches_nothing(kdg, where, openml_cache, no_network):
    write_cached_dataset(openml_cache, 62, numeric_table())
    code, out, err = kdg("show", "-m", "dataset=few/one,few/two", "seed=0,1")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert (
        lines[1]
        == lines[3]
        == f"# not at hand: data set 61 is not in {where}; 'kdg data get 61' fetches it"
    )
    assert lines[-1] == "# 4 runs; 1 of 2 data sets is not at hand, and a run fetches what it can"
    assert kdg("show", "dataset=few/one")[1].splitlines()[-1] == lines[1]
