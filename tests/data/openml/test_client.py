"""Fetching from openml.org: what is asked for, and the one line for each way in which it can go
wrong.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kdgraph.data.openml import client
from kdgraph.data.openml.cache import (
    cached_size,
    check_cached,
    dataset_folder,
    is_cached,
    read_cached_frame,
)
from kdgraph.data.openml.client import fetch_dataset, offline
from kdgraph.errors import DataError, DataNotAvailable
from tests.data.openml.server import bake, error, frame, numbers

LATER = "try again later, or point OPENML_CACHE_DIR at a folder that has it"


def refusal(id: int = 61) -> str:
    """The line in which a fetch ends."""
    with pytest.raises(DataNotAvailable) as caught:
        fetch_dataset(id)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_set_is_fetched_once(openml_server):
    openml_server.add(61, frame())
    told: list[str] = []
    data = fetch_dataset(61, told.append)
    assert (data.name, data.version, data.target, data.left_out, data.loader) == (
        "made-up-61",
        2,
        "class",
        ("row",),
        "parquet",
    )
    assert told == ["fetching OpenML data set 61"]
    paths = [
        "/api/v1/xml/data/61",
        "/api/v1/xml/data/features/61",
        "/bucket/dataset_61.pq",
        "/bucket/dataset_61.pq",
    ]
    assert [line.split()[1] for line in openml_server.log] == paths
    assert is_cached(61) and cached_size(61) > 1000
    assert fetch_dataset(61, told.append) == data
    assert len(openml_server.log) == 4 and len(told) == 1
    assert read_cached_frame(data).shape == (40, 6)


def test_without_parquet_the_arff_file_is_fetched_and_its_digest_checked(openml_server):
    openml_server.add(61, frame())
    openml_server.fail("/bucket/dataset_61.pq", 404, "gone")
    data = fetch_dataset(61)
    assert data.loader == "arff" and data.facts["md5"] == data.md5
    assert check_cached(61).problem is None
    assert read_cached_frame(data)["colour"].tolist() == frame()["colour"].tolist()


def test_parquet_can_be_refused(openml_server, monkeypatch):
    monkeypatch.setenv("OPENML_SKIP_PARQUET", "true")
    openml_server.add(61, frame())
    assert fetch_dataset(61).loader == "arff"
    assert not [line for line in openml_server.log if "bucket" in line]


def test_an_overloaded_server_is_asked_again(openml_server):
    openml_server.add(61, frame())
    openml_server.fail_data(61, 412, error(107, "Database connection error"), times=1)
    assert fetch_dataset(61).id == 61
    assert openml_server.log.count("GET /api/v1/xml/data/61") == 2


def test_a_server_that_stays_overloaded(openml_server):
    openml_server.fail_data(61, 412, error(107, "Database connection error"))
    assert (
        refusal()
        == "127.0.0.1 did not answer for data set 61 (code 107: Database connection error);"
        f" {LATER}"
    )
    assert len(openml_server.log) == client.MAX_TRIES


@pytest.mark.parametrize(
    "body",
    [
        "<html><body>Service Unavailable<br></body>",
        "Service Unavailable",
        "",
        "<html><body>Unavailable</body></html>",
    ],
)
def test_an_outage(openml_server, body):
    openml_server.fail_data(61, 503, body)
    assert refusal() == f"127.0.0.1 did not answer for data set 61 (503); {LATER}"


def test_an_outage_of_the_files_alone(openml_server):
    openml_server.add(61, frame())
    openml_server.fail("/bucket/dataset_61.pq", 503, "down")
    openml_server.fail("/download/61.arff", 503, "down")
    assert refusal() == f"127.0.0.1 did not answer for data set 61 (503); {LATER}"
    assert not dataset_folder(61).exists()


def test_an_unknown_number(openml_server):
    assert refusal() == "OpenML has no data set 61; 127.0.0.1 lists what there is"


def test_a_private_set(openml_server):
    openml_server.fail_data(61, 412, error(112, "No access granted"))
    assert refusal() == "data set 61 of OpenML is private: only its owner can fetch it"


def test_features_that_openml_has_not_made_yet(openml_server):
    openml_server.add(61, frame())
    openml_server.fail("/api/v1/xml/data/features/61", 412, error(273, "Dataset not processed yet"))
    assert (
        refusal()
        == "127.0.0.1 did not answer for data set 61 (code 273: Dataset not processed yet);"
        f" {LATER}"
    )


def test_a_file_with_another_digest(openml_server):
    openml_server.add(61, frame(), md5_checksum="0" * 32, parquet_url="")
    assert (
        refusal()
        == "what 127.0.0.1 sent for data set 61 does not have the checksum that it announced;"
        f" {LATER}"
    )


def test_a_description_that_is_none(openml_server):
    openml_server.files["/api/v1/xml/data/61"] = b"<html></html>"
    assert refusal().startswith("127.0.0.1 did not answer for data set 61 (")


def test_no_network_is_found_out_once(openml_cache, monkeypatch):
    asked: list[str] = []

    def refuse(host, *args, **kwargs):
        asked.append(host)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    where = openml_cache / "org" / "openml" / "www"
    reason = f"not in {where}; openml.org cannot be reached (Name or service not known); {LATER}"
    assert refusal() == f"data set 61 is {reason}"
    assert len(asked) == client.MAX_TRIES
    assert refusal(62) == f"data set 62 is {reason}"
    assert len(asked) == client.MAX_TRIES


def test_a_server_that_is_down(openml_cache, monkeypatch):
    import openml

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    monkeypatch.setattr(openml.config, "server", f"http://127.0.0.1:{port}/api/v1/xml")
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    assert "127.0.0.1 cannot be reached (Connection refused); try again later" in refusal()


def test_a_server_that_never_answers(openml_cache, monkeypatch):
    import openml

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setattr(
            openml.config, "server", f"http://127.0.0.1:{silent.getsockname()[1]}/api/v1/xml"
        )
        monkeypatch.setattr(client, "REQUEST_TIMEOUTS", (1, 0.1))
        assert refusal() == f"127.0.0.1 did not answer for data set 61 (no answer in time); {LATER}"


def test_offline_asks_nobody(openml_server):
    openml_server.add(61, frame())
    with offline():
        assert (
            refusal() == f"data set 61 is not in {dataset_folder(61).parents[1]}; 'kdg data get 61'"
            " fetches it"
        )
    assert not openml_server.log and fetch_dataset(61).id == 61


def test_a_folder_that_cannot_be_made(openml_server, tmp_path, monkeypatch):
    (tmp_path / "taken").touch()
    monkeypatch.setenv("OPENML_CACHE_DIR", str(tmp_path / "taken"))
    openml_server.add(61, frame())
    where = dataset_folder(61).parents[1]
    way_out = "point OPENML_CACHE_DIR at a folder that can be written to"
    assert refusal() == f"data set 61 cannot be written to {where} (Not a directory); {way_out}"


def test_a_disk_that_is_full(openml_server, monkeypatch):
    openml_server.add(61, frame())
    usual = Path.open

    def full(path, mode="r", *args, **kwargs):
        if "w" in mode and path.name == "features.xml":
            raise OSError(28, "No space left on device")
        return usual(path, mode, *args, **kwargs)

    monkeypatch.setattr(Path, "open", full)
    assert (
        "cannot be written to" in (said := refusal())
        and "(No space left on device); point OPENML_CACHE_DIR" in said
    )


def test_a_set_in_a_folder_that_cannot_be_written_to_is_read(openml_cache, no_network):
    folder = bake(openml_cache, 61, frame())
    folder.chmod(0o555)
    try:
        assert read_cached_frame(fetch_dataset(61)).shape == (40, 6)
    finally:
        folder.chmod(0o755)


def test_what_is_cached_in_part_is_not_lost_without_a_network(openml_cache, no_network):
    """openml-python removes the whole folder when something of it cannot be fetched; what can be
    done without is not asked for.
    """
    folder = bake(openml_cache, 61, frame())
    (folder / "features.xml").unlink()
    assert fetch_dataset(61).features == {}
    assert (folder / "dataset_61.pq").exists()


def test_what_is_damaged_is_not_fetched_over(openml_server, openml_cache, monkeypatch):
    import openml

    monkeypatch.setattr(openml.config, "server", "https://www.openml.org/api/v1/xml")
    folder = bake(openml_cache, 61, frame())
    (folder / "description.xml").write_text("<oml")
    with pytest.raises(DataError, match=r"description\.xml is damaged \("):
        fetch_dataset(61)
    assert (folder / "dataset_61.pq").exists()


def test_openml_is_left_as_it_was_set(openml_server):
    import openml
    import requests

    before = (
        openml.config.retry_policy,
        openml.config.connection_n_retries,
        requests.Session,
        list(logging.getLogger().handlers),
    )
    openml_server.add(61, frame())
    fetch_dataset(61)
    refusal(62)
    assert before == (
        openml.config.retry_policy,
        openml.config.connection_n_retries,
        requests.Session,
        list(logging.getLogger().handlers),
    )
    assert logging.root.manager.disable == 0


def test_it_says_nothing_by_itself(openml_server, capfd):
    """openml logs what it cannot fetch, and every answer that is not compressed."""
    openml_server.add(61, numbers())
    openml_server.fail("/bucket/dataset_61.pq", 404, "gone")
    fetch_dataset(61)
    assert capfd.readouterr() == ("", "")


def test_folders_that_openml_cannot_make(tmp_path):
    (tmp_path / "taken").touch()
    code = "from kdgraph.data.openml.client import fetch_dataset; fetch_dataset(61)"
    environment = os.environ | {
        "XDG_CONFIG_HOME": str(tmp_path / "taken"),
        "OPENML_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.getcwd(),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith("kdgraph.errors.DataNotAvailable: openml cannot make its folders (")
    assert last.endswith(
        "; point XDG_CONFIG_HOME and OPENML_CACHE_DIR at folders that can be written to"
    )
