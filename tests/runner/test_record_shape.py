"""The shape of a record: each value that a command reads has a type and a range."""

from __future__ import annotations

import copy
import json

import pytest

from kdgraph.runner.record_shape import DEEPEST, record_problem
from tests.results.about_metrics import about_metrics
from tests.results.conftest import entry, make_record

NESTED: list = []
for _ in range(DEEPEST + 1):
    NESTED = [NESTED]


@pytest.fixture
def record() -> dict:
    """A record with something at every key, so that every check is reached."""
    reads = {"path": dict(zip(("target", "key", "path", "stamp", "sha256"), "tkpsd", strict=True))}
    made_record = make_record(calibrator="kdf", prior=(0.25, 0.75), reads=reads)
    made_record["metrics"].append(entry("ece@sphere:radius=2", "parent", 0.5, 9) | {"n_of": "rows"})
    made_record["metrics"][-1]["in_distribution"] = True
    made_record["files"] |= {"tables": {"pit": "tables/pit.csv"}, "figures": ["figures/pit.svg"]}
    made_record["files"] |= {"sha256": {"tables/pit.csv": "0" * 64}, "model": ["model/schema.json"]}
    made_record["about_metrics"] = about_metrics(
        [entry["metric"] for entry in made_record["metrics"]]
    )
    made_record["about_metrics"]["pit"] = {"label": "PIT histogram", "better": None, "unit": None}
    made_record["config"]["ood"]["sources"] = {"near": {"name": "near"}}
    made_record["config"]["metrics"]["spaces"] = {"pca": {"name": "pca", "reduction": "pca"}}
    made_record["ood_sets"] = [
        {"name": "sphere", "n": 9, "source": {"rows": "drawn", "repaired": ["a"]}}
    ]
    made_record["warnings"] = [{"stage": "fit", "message": "slow"}]
    made_record |= {
        "from_store": ["fit"],
        "versions": {"numpy": "2"},
        "store": {"fit": "fit/0.kdg"},
    }
    return made_record


def container_of(record: dict, key: str) -> tuple[dict | list, str | int]:
    """Return the container of a dotted key, and the key in it."""
    node: dict | list = record
    *path, last = (int(part) if part.isdigit() else part for part in key.split("."))
    for part in path:
        node = node[part]
    return node, last


def edited(record: dict, key: str, value: object) -> dict:
    changed = copy.deepcopy(record)
    container, last = container_of(changed, key)
    container[last] = value
    return changed


def test_records_as_runs_write_them_have_no_problem(record):
    assert record_problem(record) is None
    assert record_problem(json.loads(json.dumps(make_record("diabetes", prior=None)))) is None


@pytest.mark.parametrize(
    "key",
    [
        *("run_id", "method", "parent", "gate", "protocol", "seed", "overrides", "experiment"),
        *("config_dir", "reads", "dataset", "config", "metrics", "about_metrics", "ood_sets"),
        *("learnt", "files", "seconds", "peak_memory_mb", "warnings", "from_store", "versions"),
        *("git", "host", "reads.path.path", "dataset.prior", "dataset.n_train", "config.dataset"),
        *("config.metrics", "config.parent", "metrics.0.value", "metrics.0.params", "metrics.0.n"),
        *("ood_sets.0.source", "files.predictions", "files.tables", "warnings.0.message"),
    ],
)
def test_absent_keys_are_named(record, key):
    container, last = container_of(record, key)
    del container[last]
    assert record_problem(record) == f"{key} is missing"


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("metrics", 5, "metrics must be a list, got 5"),
        ("seed", "x", "seed must be an integer from 0, got 'x'"),
        ("seed", True, "seed must be an integer from 0, got True"),
        ("seed", 1.5, "seed must be an integer from 0, got 1.5"),
        ("method", ["kdf"], "method must be text of one line, got a list of 1"),
        ("method", "kdf\x1b[2J", r"method must be text of one line, got 'kdf\x1b[2J'"),
        ("method", "\ud800", r"method must be text of one line, got '\ud800'"),
        ("protocol", "none", "protocol must be one of strict, paper, got 'none'"),
        ("dataset", {}, "dataset.name is missing"),
        ("dataset.n_test", -1, "dataset.n_test must be an integer from 0 to 9007199254740992"),
        ("dataset.n_test", 10**400, "dataset.n_test must be an integer from 0 to 90071992547"),
        ("dataset.prior", [0.5, None], "dataset.prior.1 must be a number of size 1e+150 at most"),
        ("dataset.source", [], "dataset.source must be a mapping, got a list of 0"),
        ("config.parent", None, "config.parent must be a mapping, got None"),
        ("config.metrics", {"test": {"nll": 5}}, "config.metrics.test.nll must be a mapping"),
        ("config.metrics.spaces.pca", 5, "config.metrics.spaces.pca must be a mapping, got 5"),
        ("config.ood.sources", [1], "config.ood.sources must be a mapping, got a list of 1"),
        ("config.dataset.fold", "0", "config.dataset.fold must be an integer from 0, got '0'"),
        ("metrics.0", [], "metrics.0 must be a mapping, got a list of 0"),
        ("metrics.0.of", "both", "metrics.0.of must be one of parent, calibrated, got 'both'"),
        ("metrics.0.of", ["parent"], "metrics.0.of must be one of parent, calibrated, got a list"),
        ("metrics.0.params", {"radius": "2"}, "metrics.0.params.radius must be a number of size"),
        ("metrics.0.value", float("nan"), "metrics.0.value must be a number of size 1e+150 at"),
        ("metrics.0.value", float("inf"), "metrics.0.value must be a number of size 1e+150 at"),
        ("metrics.0.stderr", "0.1", "metrics.0.stderr must be a number of size 1e+150 at most"),
        ("metrics.0.metric", "other", "about_metrics.other is missing"),
        ("about_metrics.nll", {}, "about_metrics.nll.label is missing"),
        ("about_metrics.nll.better", "up", "about_metrics.nll.better must be one of lower, highe"),
        ("about_metrics.nll.more", 1, "about_metrics.nll must have no other keys, got more"),
        ("files.predictions", "", "files.predictions must be the name of a file in the run's fold"),
        ("files.tables", {"pit": "../../secret.txt"}, "files.tables.pit must be the name of a fi"),
        ("files.figures", ["/etc/hostname.svg"], "files.figures.0 must be the name of a file in"),
        ("files.model", ["C:x"], "files.model.0 must be the name of a file in the run's folder,"),
        ("files.sha256", {"../x": ""}, "files.sha256 must have other keys: each must be the name"),
        ("files.tables", {"other": "tables/other.csv"}, "about_metrics.other is missing"),
        ("seconds", {"fit": -1}, "seconds.fit must be a number from 0 to 1e+09, got -1"),
        ("seconds", {"fit": 1e300}, "seconds.fit must be a number from 0 to 1e+09, got 1e+300"),
        ("warnings", ["slow"], "warnings.0 must be a mapping, got 'slow'"),
        ("versions", {"numpy": 2}, "versions.numpy must be text of one line, got 2"),
        ("reads.path", None, "reads.path must be a mapping, got None"),
        ("store", {"fit": ["a"]}, "store.fit must be text of one line, got a list of 1"),
        ("learnt", {"deep": NESTED}, f"learnt.deep{'.0' * DEEPEST} must have at most {DEEPEST} l"),
        ("more", NESTED, f"more{'.0' * DEEPEST} must have at most {DEEPEST} levels"),
        ("host", {"name": float("nan")}, "host.name must be a finite number, got nan"),
    ],
)
def test_wrong_values_are_named_with_their_key(record, key, value, problem):
    actual = record_problem(edited(record, key, value))
    assert actual is not None and actual.startswith(problem[:78]), actual


def test_values_that_no_command_reads_may_be_anything(record):
    for value in (None, True, -1, [1, {"a": [None]}], "text\n", 10**400):
        assert record_problem(record | {"more": value, "git": {"dirty": value}}) is None
