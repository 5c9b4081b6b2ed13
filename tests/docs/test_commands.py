"""Every command that README, CONTRIBUTING and the pages of docs/ print works.

The commands of a page are run, or planned where that would take long, or the reason why no test
does either is stated in :mod:`tests.docs.printed_commands`. An unknown command fails.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kdgraph
from kdgraph.cli.arguments import all_parsers
from kdgraph.cli.main import main
from kdgraph.config import check, compose, plan
from kdgraph.config.yaml_files import is_option, read_text
from tests.docs import printed_commands as printed
from tests.docs.printed_commands import ROOT, PrintedCommand
from tests.test_howto import PAGES, REGRESSION, SCRIPT_PAGES
from tests.variations import others_slow

COMMANDS = [command for page in printed.PAGES for command in printed.printed_commands(page)]
KINDS = {command: printed.kind_of(command) for command in COMMANDS}
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
OTHER_PACKAGES = {".", "mlflow", "ngboost"}
"""Packages that pages install beside kdgraph with extras: the checkout, and other libraries."""
LAUNCHERS = {"submitit_slurm": "submitit", "dask": "distributed", "ray": "ray"}
"""Launcher → the library without which its sweeps are refused."""
FROM_CLONE = "import sys; from kdgraph.cli.main import main; sys.exit(main(sys.argv[1:]))"


def of_kind(kind: str) -> list[PrintedCommand]:
    return [command for command, command_kind in KINDS.items() if command_kind == kind]


def pages_of(kind: str) -> list[str]:
    return sorted({command.page for command in of_kind(kind)})


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Working directory with the files that the pages take as the reader's."""
    rng = np.random.default_rng(0)
    n = 120
    rows = pd.DataFrame(rng.normal(size=(n, 2)), columns=["x1", "x2"])
    rows.to_csv(tmp_path / "new.csv", index=False)
    rows = rows.assign(
        patient=np.repeat(np.arange(n // 4), 4),
        admitted=pd.date_range("2026-01-01", periods=n).strftime("%Y-%m-%d"),
        sex=rng.choice(["f", "m"], n),
        price=rng.gamma(2.0, size=n),
        label=rng.choice(["no", "yes"], n),
    )
    rows.to_csv(tmp_path / "my.csv", index=False)
    rows[["x1", "x2", "label"]].to_parquet(tmp_path / "rows.parquet")
    X, y = rows[["x1", "x2"]].to_numpy(), (rows["label"] == "yes").to_numpy(int)
    np.savez(tmp_path / "my.npz", X=X, y=y)
    scores = rng.dirichlet([1.0, 1.0], n)
    np.savez(tmp_path / "softmax.npz", scores=scores, label=y)
    own = tmp_path / "my_conf" / "dataset"
    own.mkdir(parents=True)
    (own / "my_data.yaml").write_text(read_text(ROOT / "conf" / "dataset" / "wine.yaml"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_pages_of_scripts_and_parts_are_run_by_their_tests():
    """Which these are is decided there, and stated here."""
    run = {page.relative_to(ROOT).as_posix() for page in (*PAGES, *SCRIPT_PAGES, REGRESSION)}
    assert set(printed.RUN_BY) == {*run, "docs/tutorial.md"}
    assert [page for page in {*printed.RUN_BY.values()} if not (ROOT / page).is_file()] == []


def test_commands_are_collected_from_blocks_and_sentences(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(
        "See `kdg list method`, `kdg` and `source`.\n\n```console\n$ kdg run a=1  # comment\n"
        "output\n$ kdg run 'b=#2' \\\n    c=3\n```\n\n```text\n$ kdg run d=4\n```\n\n"
        "    kdg gc   # unused\n    removed 3\n\n    $ kdg doctor\n    kdg 0.1.0\n"
    )
    monkeypatch.setattr(printed, "ROOT", tmp_path)
    collected = [(command.text, command.where) for command in printed.printed_commands(page)]
    assert collected == [
        ("kdg list method", "sentence"),
        ("kdg", "sentence"),
        ("kdg run a=1", "console"),
        ("kdg run 'b=#2' c=3", "console"),
        ("kdg gc", "indented"),
        ("kdg doctor", "indented"),
    ]


@pytest.mark.parametrize("text", ["kdg ran dataset=wine", "docker run kdgraph", "python3.9 x.py"])
def test_command_of_no_kind_is_an_error(text):
    with pytest.raises(LookupError, match=re.escape(f"page.md:3: {text}: ")):
        printed.kind_of(PrintedCommand("page.md", 3, text, "console"))


@pytest.mark.parametrize("page", others_slow(pages_of(printed.PLANNED)))
def test_runs_of_the_page_compose(page, folder):
    """Sweeps have one seed here; sweeps that are files are planned by tests of conf/."""
    for command in of_kind(printed.PLANNED):
        if command.page != page:
            continue
        arguments = command.kdg_arguments()
        assert arguments is not None
        name, *rest = arguments
        args = all_parsers()[name].parse(rest)
        overrides = args.overrides
        experiment = [word.partition("=")[2] for word in overrides if "experiment=" in word]
        if experiment and len(overrides) == 1:
            assert (ROOT / "conf" / "experiment" / f"{experiment[0]}.yaml").is_file(), command
            continue
        launcher = re.search(r"hydra/launcher=(\w+)", command.text)
        if launcher and importlib.util.find_spec(LAUNCHERS[launcher[1]]) is None:
            continue
        multirun = getattr(args, "multirun", False)
        if multirun or experiment:
            overrides = [word for word in overrides if not word.startswith("seed=")]
            overrides.append("seed=0")
        jobs = plan(overrides, multirun=multirun, config_dir=args.config_dir).jobs
        assert len(jobs) > (1 if multirun else 0), command
        for job in jobs:
            check(job.config)


@pytest.mark.parametrize("command", of_kind(printed.PARSED), ids=str)
def test_arguments_of_other_commands_are_those_of_its_parser(command):
    """Within a sentence a command may lack what its parser requires."""
    inner = re.fullmatch(r'eval "\$\((.+)\)"', command.text)
    arguments = shlex.split(inner[1])[1:] if inner else command.kdg_arguments()
    assert arguments is not None
    parsers = all_parsers()
    name = " ".join(arguments[:2]) if " ".join(arguments[:2]) in parsers else arguments[0]
    rest = arguments[len(name.split()) :]
    if command.where == "sentence":
        options = {word for action in parsers[name]._actions for word in action.option_strings}
        assert {word for word in rest if word.startswith("--")} <= options
    else:
        parsers[name].parse(rest)


@pytest.mark.parametrize("command", of_kind(printed.MENTIONED), ids=str)
def test_mentioned_commands_exist(command):
    arguments = command.kdg_arguments() or ["--help"]
    words = [word for word in arguments[:1] if word != "COMMAND" and "…" not in word]
    assert all(word in (*all_parsers(), "--help", "--version", "help") for word in words)


@pytest.mark.parametrize("command", of_kind(printed.MAKE), ids=str)
def test_targets_and_variables_of_make_exist(command):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for word in command.words()[1:]:
        name, equals, _ = word.partition("=")
        pattern = rf"^{name} \?= " if equals else rf"^{name}: .*## "
        assert re.search(pattern, makefile, re.MULTILINE), word


@pytest.mark.parametrize("command", of_kind(printed.PROGRAM), ids=str)
def test_programs_of_the_repository_exist(command):
    program, *arguments = command.words()
    if arguments[0] == "-m":
        assert importlib.util.find_spec(arguments[1]) is not None
    elif program.endswith("python"):
        path = ROOT / arguments[0]
        assert (path / "__main__.py" if path.is_dir() else path).is_file()
    else:
        paths = [word for word in arguments if "/" in word]
        assert paths and [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("command", of_kind(printed.INSTALL), ids=str)
def test_installed_packages_and_extras_exist(command):
    words = command.words()[2:]
    while words and words[0] in ("-c", "-e"):
        option, *words = words
        if option == "-c":
            assert (ROOT / words.pop(0)).is_file()
    for package in words:
        extras = re.fullmatch(r"(?:kdgraph|\.)\[([\w,]+)\]", package)
        if extras:
            assert set(extras[1].split(",")) <= set(EXTRAS)
        else:
            assert package in OTHER_PACKAGES | {f"kdgraph-{kdgraph.__version__}-py3-none-any.whl"}


def test_every_script_of_a_page_is_run_by_a_test_or_has_a_reason():
    pages = [
        page.relative_to(ROOT).as_posix()
        for page in printed.PAGES
        if re.search(r"^ *```python$", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    unknown = []
    for page in pages:
        test = next((t for p, t in printed.SCRIPTS_RUN_BY.items() if page.startswith(p)), None)
        if test is None and page not in printed.SCRIPTS_NOT_RUN:
            unknown.append(page)
        assert test is None or (ROOT / test).is_file(), page
    assert unknown == []
    assert set(printed.SCRIPTS_NOT_RUN) <= set(pages)


def test_script_of_the_page_on_rows_out_of_bag_succeeds():
    text = (ROOT / "docs" / "out_of_bag.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert "assert " in code
    exec(compile(code, "out_of_bag.py", "exec"), {})


def test_page_on_installing_lists_every_extra():
    text = (ROOT / "docs" / "howto" / "install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ", text, re.MULTILINE)
    assert set(re.findall(r"\w+", " ".join(rows))) == set(EXTRAS)


def test_presets_that_readme_names_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"\b(method|conformal|metrics|experiment)=(\w+(?:/\w+)*)", text)
    assert len(named) > 10
    missing = [
        f"{group}={name}"
        for group, name in named
        if not is_option(ROOT / "conf" / group / f"{name}.yaml")
    ]
    assert missing == []


@pytest.mark.slow
def test_commands_of_the_page_of_runs_and_sweeps_succeed(folder, capsys):
    """In their order; the long sweep is a small one, of which the later commands read the runs."""
    page = "docs/howto/sweeps.md"
    small = "kdg run -m dataset=wine,iris method=kdf,isotonic,gated_isotonic seed=0,1 figures=none"
    done = []
    for command in COMMANDS:
        if command.page != page or command.where != "console":
            continue
        text = command.text
        if "-m dataset=digits" in text:
            text = small
        elif "experiment=" in text or "kdg reproduce" in text or "method=kdn" in text:
            continue  # minutes; planned above, and by tests of conf/
        assert main(shlex.split(text)[1:]) == 0, (text, capsys.readouterr())
        done.append(text.split()[1])
    missing = {"run", "show", "list", "doctor", "predict", "table", "compare", "report", "gc"}
    assert missing - {*done} == set()
    predicted = pd.read_parquet(folder / "out.parquet")
    assert len(predicted) == len(pd.read_csv(folder / "new.csv"))
    assert all((folder / name).stat().st_size for name in ("numbers.parquet", "ranks.svg"))
    assert "kdf" in (folder / "report.html").read_text(encoding="utf-8")


def number_rows(text: str) -> list[tuple[str, list[float]]]:
    """Return the lines of a table with two columns of numbers: name, numbers."""
    matches = re.findall(
        r"^ +(\w[\w ,]*?)((?: +[\d.]+(?: ◂)?)+)(?: +prior [\d.]+)?$", text, re.MULTILINE
    )
    return [(name, [float(n) for n in re.findall(r"[\d.]+", rest)]) for name, rest in matches]


@pytest.mark.slow
def test_readme_commands_print_what_it_shows(tmp_path):
    """A clone of the last commit, in a folder of its own, with the libraries that are installed."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a clone, or no git")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    text = (clone / "README.md").read_text(encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(clone), "PYTHONDONTWRITEBYTECODE": ""}

    def output_of(*arguments: str) -> str:
        process = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert process.returncode == 0, process.stderr
        return process.stdout

    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    shown, far = output_of("-c", code).splitlines()
    # One of 143 rows may tie up to rounding.
    accuracy, prior = shown.split(maxsplit=1)
    assert float(accuracy) == pytest.approx(0.972, abs=0.0071) and "accuracy 0.972" in text
    assert prior == "[0.37 0.63]" and f"prior `{prior}`" in text
    assert far == "[[0.99 0.01]] [[0.37 0.63]]" and "`[[0.99 0.01]]` for a test row" in text

    (command,) = re.findall(r"^ {4}\$ kdg (run .+)$", text, re.MULTILINE)
    out = output_of("-c", FROM_CLONE, *shlex.split(command))
    expected, printed_rows = number_rows(text), number_rows(out)
    assert [name for name, _ in expected] == [name for name, _ in printed_rows]
    assert len(expected) == 13
    for (name, numbers), (_, again) in zip(expected, printed_rows, strict=True):
        # Two of 1,000 rows may tie up to rounding; one in a small bin moves the largest error.
        tolerance = 0.05 if name.startswith("MCE") else 0.002
        assert again == pytest.approx(numbers, abs=tolerance), name
    run_dir = out.splitlines()[-1].split()[0]
    assert run_dir == str(compose(shlex.split(command)[1:]).run_dir) and f"{run_dir} " in text
