"""The shipped data sets of OpenML-CC18, and the script that compares them with openml.org."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from kdgraph.config import conf_dir, plan
from kdgraph.config.catalogue import Catalogue
from tests.data.openml.server import XML
from tests.scripts.loading import load_script

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
# The data sets of Dey et al. (2024): numeric and without missing values, except 23517.
PAPER_IDS = """
    6 11 12 14 16 18 22 28 32 37 44 54 182 300 458 554 1049 1050 1063 1067 1068 1462 1464
    1468 1475 1478 1485 1487 1489 1494 1497 1501 1510 4134 4538 40499 40923 40927 40979
    40982 40983 40984 40994 40996 41027
"""


@pytest.fixture
def script() -> ModuleType:
    return load_script("refresh_cc18")


@pytest.fixture
def serve_suite(openml_server):
    """Function that makes the server return a suite with these data sets."""

    def serve(ids):
        data = "".join(f"<oml:data_id>{id}</oml:data_id>" for id in ids)
        tasks = "".join(f"<oml:task_id>{id}</oml:task_id>" for id in ids)
        fields = {
            "id": 99,
            "main_entity_type": "task",
            "name": "x",
            "description": "x",
            "status": "active",
            "creation_date": "x",
        }
        inner = "".join(
            f"<oml:{key}>{value}</oml:{key}>" for key, value in {**fields, "creator": 1}.items()
        )
        text = (
            "<oml:study"
            f" {XML}>{inner}<oml:data>{data}</oml:data><oml:tasks>{tasks}</oml:tasks></oml:study>"
        )
        openml_server.files["/api/v1/xml/study/99"] = text.encode()

    return serve


def shipped_ids() -> dict[str, int]:
    return {
        name: id
        for name, id in Catalogue([conf_dir()]).openml_ids().items()
        if name.startswith("cc18/")
    }


def test_all_72_data_sets_of_the_suite_are_shipped():
    assert len(shipped_ids()) == len(set(shipped_ids().values())) == 72
    assert set(map(int, PAPER_IDS.split())) < set(shipped_ids().values())


def test_experiment_of_the_paper_has_its_45_data_sets():
    """One method and one size suffice, because a sweep is a product."""
    jobs = plan(["experiment=paper/p1/cc18", "seed=0", "method=kdf", "dataset.log_share=1"]).jobs
    assert sorted(job.config.dataset["id"] for job in jobs) == sorted(map(int, PAPER_IDS.split()))


def test_equal_suites_are_reported_as_the_same(script, serve_suite, capsys):
    serve_suite(shipped_ids().values())
    assert script.main() == 0
    assert (
        capsys.readouterr().out == "72 data sets are shipped, 72 are in suite 99: the same ones\n"
    )


def test_removed_and_added_data_sets_are_listed(script, serve_suite, capsys):
    serve_suite([*(set(shipped_ids().values()) - {44}), 45000])
    assert script.main() == 1
    assert capsys.readouterr().out.splitlines() == [
        "cc18/spambase (OpenML 44) is no longer in the suite",
        "OpenML 45000 is in the suite and has no file in conf/dataset/cc18: openml.org/d/45000",
        "72 data sets are shipped, 72 are in suite 99: they differ",
    ]


def test_server_error_is_reported(script, openml_server, capsys):
    openml_server.fail("/api/v1/xml/study/99", 503, "down")
    assert script.main() == 2
    assert capsys.readouterr().err.startswith("127.0.0.1 did not answer for suite 99 (503); ")
