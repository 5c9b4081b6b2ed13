"""Checks of a release, documentation by version, and the workflows of GitHub Actions."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import kdgraph
from tests.scripts.loading import load_script

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PYTHONS = [
    name.rpartition(" ")[2]
    for name in PROJECT["classifiers"]
    if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", name)
]


@pytest.fixture(scope="module")
def release() -> ModuleType:
    return load_script("release")


def workflow(name: str) -> dict[Any, Any]:
    return yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8"))


def commands_of(job: dict[str, Any]) -> list[str]:
    return [line for step in job["steps"] for line in step.get("run", "").splitlines()]


def test_release_has_its_tag_its_section_and_its_citation(release, tmp_path):
    version = kdgraph.__version__
    (tmp_path / "CITATION.cff").write_text(f"version: {version}\n")
    (tmp_path / "CHANGELOG.md").write_text(f"## [Unreleased]\n\n## [{version}] - 2026-12-01\n")
    assert release.problems(f"v{version}", tmp_path) == []
    (tmp_path / "CITATION.cff").write_text("version: 9.9.9\n")
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n")
    assert release.problems("v9.9.9", tmp_path) == [
        f"the tag is v9.9.9, and the version in kdgraph/__init__.py is {version}",
        f"CITATION.cff has another version than {version}",
        f"CHANGELOG.md has no section '## [{version}]'",
    ]


def test_citation_has_the_version_of_the_package(release):
    assert release.current_version() == kdgraph.__version__
    assert not [line for line in release.problems("v0") if "CITATION" in line]


def test_versions_are_listed_and_the_latest_release_is_marked(release, tmp_path):
    for name in ("0.2.0", "0.10.0", "1.0.0rc1", "assets"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").write_text(name)
    (tmp_path / "0.3.0").mkdir()  # without a site
    assert release.list_versions(tmp_path) == ["1.0.0rc1", "0.10.0", "0.2.0"]
    listed = json.loads((tmp_path / "versions.json").read_text())
    assert {entry["version"]: entry["aliases"] for entry in listed} == {
        "1.0.0rc1": [],
        "0.10.0": ["latest"],
        "0.2.0": [],
    }
    page = (tmp_path / "index.html").read_text()
    assert re.findall(r'href="([^"]+)"', page) == [
        f"{name}/index.html" for name in ("1.0.0rc1", "0.10.0", "0.2.0")
    ]
    assert '0.10.0/index.html">0.10.0</a> (latest)' in page and page.count("latest") == 1


def test_ci_calls_the_script_of_the_repository_on_each_python():
    ci = workflow("ci.yml")
    job = ci["jobs"]["test"]
    assert commands_of(job) == [".ci/run"] and (ROOT / ".ci" / "run").stat().st_mode & 0o100
    assert job["strategy"]["matrix"]["python"] == PYTHONS
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    assert "pull_request" in ci[True]  # "on" is a truth value in YAML 1.1


def test_release_is_published_only_where_a_variable_is_set():
    jobs = workflow("release.yml")["jobs"]
    assert jobs["publish"]["if"] == "github.ref_type == 'tag' && vars.PUBLISH == 'true'"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    for name, job in jobs.items():
        publishes = [step for step in job["steps"] if "publish" in step.get("uses", "")]
        assert bool(publishes) == (name == "publish")
    assert jobs["attach"]["if"] == "github.ref_type == 'tag'"
    assert "python -m build" in commands_of(jobs["build"])
    assert "python -m twine check --strict dist/*" in commands_of(jobs["build"])
    assert any("release.py docs" in line for line in commands_of(jobs["docs"]))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_is_valid_and_names_what_exists(path):
    """Actions have a major version, jobs a limit, and tokens no more rights than a job needs."""
    content = workflow(path.name)
    assert content["permissions"] == {"contents": "read"}
    for job in content["jobs"].values():
        assert set(job.get("needs", [])) <= set(content["jobs"])
        for step in job["steps"]:
            assert len({"uses", "run"} & set(step)) == 1
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", step["uses"])
            # A value from outside must not become a part of a command.
            assert "${{" not in step.get("run", "")
        for line in commands_of(job):
            for name in re.findall(r"\bscripts/\w+\.py", line):
                assert (ROOT / name).is_file()
