"""Requests to openml.org, and the message of one line for each kind of failure."""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import subprocess
import sys
from pathlib import Path

import openml
import pytest

from kdgraph.data.openml import client
from kdgraph.data.openml.cache import (
    cached_size,
    check_cached,
    dataset_folder,
    is_cached,
    read_cached_frame,
)
from kdgraph.data.openml.client import fetch_dataset, fetch_task, offline
from kdgraph.errors import DataError, DataNotAvailable
from tests.data.openml.server import (
    error_response,
    mixed_table,
    numeric_table,
    write_cached_dataset,
)

RETRY_ADVICE = "try again later, or point OPENML_CACHE_DIR at a folder that has it"


def fetch_error_message(id: int = 61) -> str:
    """Return the message of one line with which a fetch fails."""
    with pytest.raises(DataNotAvailable) as caught:
        fetch_dataset(id)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_data_set_is_fetched_once(openml_server):
    openml_server.add(61, mixed_table())
    messages: list[str] = []
    data = fetch_dataset(61, messages.append)
    assert (data.name, data.version, data.target, data.left_out, data.loader) == (
        "made-up-61",
        2,
        "class",
        ("row",),
        "parquet",
    )
    assert messages == ["fetching OpenML data set 61"]
    paths = [
        "/api/v1/xml/data/61",
        "/api/v1/xml/data/features/61",
        "/bucket/dataset_61.pq",
        "/bucket/dataset_61.pq",
    ]
    assert [line.split()[1] for line in openml_server.log] == paths
    assert is_cached(61) and cached_size(61) > 1000
    assert fetch_dataset(61, messages.append) == data
    assert len(openml_server.log) == 4 and len(messages) == 1
    assert read_cached_frame(data).shape == (40, 6)


def test_arff_is_fetched_if_parquet_is_missing(openml_server):
    openml_server.add(61, mixed_table())
    openml_server.fail("/bucket/dataset_61.pq", 404, "gone")
    data = fetch_dataset(61)
    assert data.loader == "arff" and data.facts["md5"] == data.md5
    assert check_cached(61).problem is None
    assert read_cached_frame(data)["colour"].tolist() == mixed_table()["colour"].tolist()


def test_environment_variable_skips_parquet(openml_server, monkeypatch):
    monkeypatch.setenv("OPENML_SKIP_PARQUET", "true")
    openml_server.add(61, mixed_table())
    assert fetch_dataset(61).loader == "arff"
    assert not [line for line in openml_server.log if "bucket" in line]


def test_request_is_repeated_if_the_server_is_overloaded(openml_server):
    openml_server.add(61, mixed_table())
    openml_server.fail_data(61, 412, error_response(107, "Database connection error"), times=1)
    assert fetch_dataset(61).id == 61
    assert openml_server.log.count("GET /api/v1/xml/data/61") == 2


def test_overloaded_server_is_reported_after_three_tries(openml_server):
    openml_server.fail_data(61, 412, error_response(107, "Database connection error"))
    assert (
        fetch_error_message()
        == "127.0.0.1 did not answer for data set 61 (code 107: Database connection error);"
        f" {RETRY_ADVICE}"
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
def test_outage_is_reported_with_its_status(openml_server, body):
    openml_server.fail_data(61, 503, body)
    assert (
        fetch_error_message() == f"127.0.0.1 did not answer for data set 61 (503); {RETRY_ADVICE}"
    )


def test_outage_of_the_file_server_leaves_no_folder(openml_server):
    openml_server.add(61, mixed_table())
    openml_server.fail("/bucket/dataset_61.pq", 503, "down")
    openml_server.fail("/download/61.arff", 503, "down")
    assert (
        fetch_error_message() == f"127.0.0.1 did not answer for data set 61 (503); {RETRY_ADVICE}"
    )
    assert not dataset_folder(61).exists()


def test_unknown_id_is_reported(openml_server):
    assert fetch_error_message() == "OpenML has no data set 61; 127.0.0.1 lists what there is"


def test_private_data_set_is_reported(openml_server):
    openml_server.fail_data(61, 412, error_response(112, "No access granted"))
    assert fetch_error_message() == "data set 61 of OpenML is private: only its owner can fetch it"


def test_unprocessed_features_are_reported(openml_server):
    openml_server.add(61, mixed_table())
    openml_server.fail(
        "/api/v1/xml/data/features/61", 412, error_response(273, "Dataset not processed yet")
    )
    assert (
        fetch_error_message()
        == "127.0.0.1 did not answer for data set 61 (code 273: Dataset not processed yet);"
        f" {RETRY_ADVICE}"
    )


def test_wrong_checksum_is_reported(openml_server):
    openml_server.add(61, mixed_table(), md5_checksum="0" * 32, parquet_url="")
    assert (
        fetch_error_message()
        == "what 127.0.0.1 sent for data set 61 does not have the checksum that it announced;"
        f" {RETRY_ADVICE}"
    )


def test_invalid_description_is_reported(openml_server):
    openml_server.files["/api/v1/xml/data/61"] = b"<html></html>"
    assert fetch_error_message().startswith("127.0.0.1 did not answer for data set 61 (")


def test_missing_network_is_detected_once_per_process(openml_cache, monkeypatch):
    requested_hosts: list[str] = []

    def refuse_host(host, *args, **kwargs):
        requested_hosts.append(host)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse_host)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    folder = openml_cache / "org" / "openml" / "www"
    reason = (
        f"not in {folder}; openml.org cannot be reached (Name or service not known); {RETRY_ADVICE}"
    )
    assert fetch_error_message() == f"data set 61 is {reason}"
    assert len(requested_hosts) == client.MAX_TRIES
    assert fetch_error_message(62) == f"data set 62 is {reason}"
    assert len(requested_hosts) == client.MAX_TRIES


def test_refused_connection_is_reported(openml_cache, monkeypatch):
    import openml

    with socket.socket() as bound_socket:
        bound_socket.bind(("127.0.0.1", 0))
        port = bound_socket.getsockname()[1]
    monkeypatch.setattr(openml.config, "server", f"http://127.0.0.1:{port}/api/v1/xml")
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    assert (
        "127.0.0.1 cannot be reached (Connection refused); try again later" in fetch_error_message()
    )


def test_timeout_is_reported(openml_cache, monkeypatch):
    import openml

    with socket.socket() as silent_socket:
        silent_socket.bind(("127.0.0.1", 0))
        silent_socket.listen()
        monkeypatch.setattr(
            openml.config, "server", f"http://127.0.0.1:{silent_socket.getsockname()[1]}/api/v1/xml"
        )
        monkeypatch.setattr(client, "REQUEST_TIMEOUTS", (1, 0.1))
        assert (
            fetch_error_message()
            == f"127.0.0.1 did not answer for data set 61 (no answer in time); {RETRY_ADVICE}"
        )


def test_offline_sends_no_request(openml_server):
    openml_server.add(61, mixed_table())
    with offline():
        assert (
            fetch_error_message()
            == f"data set 61 is not in {dataset_folder(61).parents[1]}; 'kdg data get 61'"
            " fetches it"
        )
    assert not openml_server.log and fetch_dataset(61).id == 61


def test_invalid_cache_folder_is_reported(openml_server, tmp_path, monkeypatch):
    (tmp_path / "taken").touch()
    monkeypatch.setenv("OPENML_CACHE_DIR", str(tmp_path / "taken"))
    openml_server.add(61, mixed_table())
    folder = dataset_folder(61).parents[1]
    way_out = "point OPENML_CACHE_DIR at a folder that can be written to"
    assert (
        fetch_error_message()
        == f"data set 61 cannot be written to {folder} (Not a directory); {way_out}"
    )


def test_full_disk_is_reported(openml_server, monkeypatch):
    openml_server.add(61, mixed_table())
    open_path = Path.open

    def fail_on_features(path, mode="r", *args, **kwargs):
        if "w" in mode and path.name == "features.xml":
            raise OSError(28, "No space left on device")
        return open_path(path, mode, *args, **kwargs)

    monkeypatch.setattr(Path, "open", fail_on_features)
    assert (
        "cannot be written to" in (message := fetch_error_message())
        and "(No space left on device); point OPENML_CACHE_DIR" in message
    )


def test_data_set_in_a_read_only_folder_is_read(openml_cache, no_network):
    folder = write_cached_dataset(openml_cache, 61, mixed_table())
    folder.chmod(0o555)
    try:
        assert read_cached_frame(fetch_dataset(61)).shape == (40, 6)
    finally:
        folder.chmod(0o755)


def contents(cache: Path) -> dict[str, bytes]:
    """Return the content of every file in a cache."""
    files = (path for path in cache.rglob("*") if path.is_file())
    return {path.relative_to(cache).as_posix(): path.read_bytes() for path in files}


def test_missing_features_are_not_requested(openml_cache, no_network):
    folder = write_cached_dataset(openml_cache, 61, mixed_table())
    (folder / "features.xml").unlink()
    assert fetch_dataset(61).features == {}


@pytest.mark.parametrize("missing", ["description.xml", "dataset_61.pq"])
def test_failed_fetch_deletes_nothing_of_an_incomplete_cache(openml_cache, no_reply, missing):
    folder = write_cached_dataset(openml_cache, 61, mixed_table())
    (folder / missing).unlink()
    before = contents(openml_cache)
    assert "openml.org cannot be reached" in fetch_error_message()
    assert contents(openml_cache) == before


def test_failed_fetch_of_a_task_deletes_nothing(openml_cache, no_reply):
    write_cached_dataset(openml_cache, 61, mixed_table())
    folder = openml_cache / "org" / "openml" / "www" / "tasks" / "59"
    folder.mkdir(parents=True)
    (folder / "datasplits.arff").write_text("folds")
    before = contents(openml_cache)
    with pytest.raises(DataNotAvailable, match="cannot be reached"):
        fetch_task(59, 61)
    assert contents(openml_cache) == before


def test_openml_deletes_the_folder_by_itself(openml_cache, no_reply):
    """If it did not, it could fetch into the cache."""
    folder = write_cached_dataset(openml_cache, 61, mixed_table())
    (folder / "description.xml").unlink()
    with pytest.raises(Exception, match="Name or service not known"):
        openml.datasets.get_dataset(61, download_data=True)
    assert not folder.exists()


def test_incomplete_data_set_is_completed_without_what_is_there(openml_server):
    openml_server.add(61, mixed_table())
    fetch_dataset(61)
    folder, before = dataset_folder(61), contents(dataset_folder(61))
    (folder / "description.xml").unlink()
    time = (folder / "dataset_61.pq").stat().st_ino
    openml_server.log.clear()
    assert fetch_dataset(61).id == 61
    assert openml_server.log == ["GET /api/v1/xml/data/61"]
    assert contents(folder) == before and (folder / "dataset_61.pq").stat().st_ino == time
    assert [path.name for path in folder.parents[1].iterdir()] == ["datasets"]


def test_only_folders_of_killed_fetches_are_removed(openml_server):
    openml_server.add(61, mixed_table())
    cache = dataset_folder(61).parents[1]
    for name in ("killed", "running"):
        (cache / f".fetch-{name}").mkdir(parents=True)
        (cache / f".fetch-{name}" / "lock").touch()
    with (cache / ".fetch-running" / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fetch_dataset(61)
    assert sorted(path.name for path in cache.iterdir()) == [".fetch-running", "datasets"]


def test_size_of_what_arrives_is_counted(openml_server, monkeypatch):
    openml_server.add(61, mixed_table())
    sizes, real = [], openml.datasets.functions._get_dataset_arff

    def get(*args, **kwargs):
        sizes.append(cached_size(61))
        return real(*args, **kwargs)

    monkeypatch.setenv("OPENML_SKIP_PARQUET", "true")
    monkeypatch.setattr("openml.datasets.functions._get_dataset_arff", get)
    fetch_dataset(61)
    assert 0 < sizes[0] < cached_size(61)


def test_damaged_data_set_is_not_fetched_again(openml_server, openml_cache, monkeypatch):
    import openml

    monkeypatch.setattr(openml.config, "server", "https://www.openml.org/api/v1/xml")
    folder = write_cached_dataset(openml_cache, 61, mixed_table())
    (folder / "description.xml").write_text("<oml")
    with pytest.raises(DataError, match=r"description\.xml is damaged \("):
        fetch_dataset(61)
    assert (folder / "dataset_61.pq").exists()


def test_settings_of_openml_and_requests_are_restored(openml_server):
    import openml
    import requests

    before = (
        openml.config.retry_policy,
        openml.config.connection_n_retries,
        requests.Session,
        list(logging.getLogger().handlers),
    )
    openml_server.add(61, mixed_table())
    fetch_dataset(61)
    fetch_error_message(62)
    assert before == (
        openml.config.retry_policy,
        openml.config.connection_n_retries,
        requests.Session,
        list(logging.getLogger().handlers),
    )
    assert logging.root.manager.disable == 0


def test_fetching_writes_no_output(openml_server, capfd):
    """Check that log messages are suppressed.

    openml logs failures and every response that is not compressed.
    """
    openml_server.add(61, numeric_table())
    openml_server.fail("/bucket/dataset_61.pq", 404, "gone")
    fetch_dataset(61)
    assert capfd.readouterr() == ("", "")


def test_openml_folders_that_cannot_be_created_are_reported(tmp_path):
    (tmp_path / "taken").touch()
    code = "from kdgraph.data.openml.client import fetch_dataset; fetch_dataset(61)"
    environment = os.environ | {
        "XDG_CONFIG_HOME": str(tmp_path / "taken"),
        "OPENML_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.getcwd(),
    }
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    last_line = process.stderr.splitlines()[-1]
    assert last_line.startswith("kdgraph.errors.DataNotAvailable: openml cannot make its folders (")
    assert last_line.endswith(
        "; point XDG_CONFIG_HOME and OPENML_CACHE_DIR at folders that can be written to"
    )
