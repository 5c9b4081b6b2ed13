"""The command line: commands, whole error sentences, exit codes, what is printed where."""

from __future__ import annotations

import errno
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kdgraph.cli import main as cli
from kdgraph.config.catalogue import Catalogue
from kdgraph.metrics import METRICS
from kdgraph.runner.files import check_and_load
from kdgraph.runner.locks import process_identity

TINY = [
    "dataset.n_train=60",
    "dataset.n_test=40",
    "parent.n_estimators=5",
    "ood.n=20",
    "ood.radii=[0.5,2,5]",
    "metrics=default",
    "figures=none",
    "n_jobs=1",
]
CONF = Path(__file__).parents[2] / "conf"
OPTIONS = Catalogue([CONF]).groups
N_DATASETS, N_EXPERIMENTS = len(OPTIONS["dataset"]), len(OPTIONS["experiment"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["rn"], "unknown command 'rn'; did you mean 'run'?"),
        (
            ["dataset=wine"],
            "unknown command 'dataset=wine'; overrides come after a command: kdg run dataset=wine",
        ),
        (["run", "datset=wine"], "unknown key 'datset'; did you mean 'dataset'?"),
        (
            ["table", "--metrik", "nll"],
            "unrecognized arguments: --metrik; did you mean '--metric'?",
        ),
        (
            ["table", "--bogus"],
            "unrecognized arguments: --bogus; 'kdg table --help' lists the options",
        ),
        (
            ["run", "dataset=spirl"],
            (
                "no dataset named 'spirl'; did you mean 'spiral'? ('kdg list dataset --all'"
                f" shows all {N_DATASETS})"
            ),
        ),
        (
            ["run", "parent.n_estimator=3"],
            "unknown key 'parent.n_estimator'; did you mean 'parent.n_estimators'?",
        ),
        (
            ["run", "parent.n_estimators=-3"],
            "parent.n_estimators must be an int in the range [1, inf), got -3",
        ),
        (
            ["run", "parent.criterion=ginni"],
            "parent.criterion must be one of entropy, gini, log_loss, got 'ginni'",
        ),
        (
            ["run", "+calibrator.alhpa=1"],
            "unknown key 'calibrator.alhpa'; did you mean 'calibrator.alpha'?",
        ),
        (["run", "ood=none", "ood.radii=[1]"], "unknown key 'ood.radii' (ood has: name)"),
        (
            ["run", "parent=null"],
            (
                "a config group takes the name of one of its options; 'kdg list' shows them, 'none'"
                " is one where it may be absent"
            ),
        ),
        (
            ["run", "out=taken/by/a/file"],
            (
                "out must be a folder that files can be written to, got 'taken/by/a/file' (Not a"
                " directory)"
            ),
        ),
        (["run", "+sed=1"], "unknown key 'sed'; did you mean 'seed'?"),
        (["run", "seed=abc"], "seed must be an integer in [0, inf), got 'abc'"),
        (["run", "seed=-1"], "seed must be in [0, inf), got -1"),
        (["run", "n_jobs=0"], "n_jobs must be a number of cores, or -1 for all of them, got 0"),
        (["run", "calibrator.alpha=4.0"], "calibrator.alpha must be in (0, 1) or null, got 4.0"),
        (
            ["run", "dataset.scale=minmax"],
            "dataset.scale must be one of none, min_max, max_norm, got 'minmax'",
        ),
        (
            ["run", "seed=[1"],
            (
                "cannot read 'seed=[1' (no viable alternative at input '[1'); brackets come in"
                " pairs, and text with other signs in quotes: 'key=[\"a (b)\"]'"
            ),
        ),
        (
            ["run", "dataset.path=my (1).csv"],
            (
                "cannot read 'dataset.path=my (1).csv' (mismatched input '.' expecting <EOF>); "
                "if it is text, write 'dataset.path=\"my (1).csv\"'"
            ),
        ),
        (
            ["run", "dataset"],
            (
                "'dataset' has no value; write dataset=…, or a value that has blanks stands in"
                " quotes: 'key=\"a b\"'"
            ),
        ),
        (
            ["run", "hydra/launcher=rq"],
            (
                "no hydra/launcher named 'rq' (available: basic, dask, processes, ray, submitit_local,"
                " submitit_slurm)"
            ),
        ),
        (
            ["run", "dataset=table", "dataset.path=1", "dataset.target=y"],
            "dataset.path must be a string, got 1; write 'dataset.path=\"1\"'",
        ),
        (["run", "+seed=1"], "'seed' exists already, and '+' adds a new key; leave '+' out"),
        (
            ["run", "preprocess=foo"],
            (
                "no preprocess named 'foo' (available: default, design, none, one_hot, ordinal,"
                " standardized, topics)"
            ),
        ),
        (
            ["run", "seed=0,1"],
            (
                "'seed=0,1' is a sweep: add -m to run them all, or write 'seed=[0,1]' for a list,"
                " 'seed=\"0,1\"' for text"
            ),
        ),
        (
            ["run", "-m", "seed=interval(0,1)"],
            "'seed=interval(0,1)' has no end; a sweep needs range(), glob() or values with commas",
        ),
        (["run", "dataset.name=${nope}"], "dataset.name: Interpolation key 'nope' not found"),
        (
            ["run", "~parent"],
            "parent was removed, and no run can do without it; choose one of 'kdg list parent'",
        ),
        (
            ["run", "+metrics.test.eec={}"],
            (
                "metrics.test: no metric named 'eec'; did you mean 'ece'? (available:"
                f" {', '.join(sorted(METRICS))})"
            ),
        ),
        (
            ["run", "metrics.test.ece.bin=3"],
            "unknown key 'metrics.test.ece.bin'; did you mean 'metrics.test.ece.bins'?",
        ),
        (["run", "+metrics.tset={}"], "unknown key 'metrics.tset'; did you mean 'metrics.test'?"),
        (
            ["run", "dataset=wine", "metrics=posterior"],
            (
                "metrics.test: hellinger needs the true posterior, which wine does not have; use"
                " metrics=default, or a simulation"
            ),
        ),
        (
            ["run", "parent._target_=sklearn.ensemble.RandomForst"],
            (
                "parent._target_: cannot import 'sklearn.ensemble.RandomForst' (module"
                " 'sklearn.ensemble' has no attribute 'RandomForst'); it must be on PYTHONPATH"
            ),
        ),
        (["run", "--jsn"], "unrecognized arguments: --jsn; did you mean '--json'?"),
        (["run", "--cfg", "job", "--info"], "--cfg and --info are two views; give one of them"),
        (
            ["run", "-m", "--cfg", "job", "seed=0,1"],
            "--cfg shows one config and runs nothing; leave out --multirun",
        ),
        (["run", "--resolve"], "--resolve needs --cfg job"),
        (
            ["show", "--cfg", "job"],
            "unrecognized arguments: --cfg; 'kdg show --help' lists the options",
        ),
        (
            ["run", "--config-name", "other"],
            "kdg has one primary config; add your own groups with --config-dir DIR",
        ),
        (
            ["run", "--config-dir", "nowhere"],
            "--config-dir must be a folder of config groups, got 'nowhere', which is no folder",
        ),
        (
            ["run", "dataset=wine", "dataset.n_train=1000"],
            (
                "wine has 178 rows, too few for n_train 1000 + n_calibration 430 + n_test 54; ask"
                " for fewer"
            ),
        ),
        (
            ["run", "dataset.n_train=0"],
            (
                "spiral: n_train is 0, and without such rows nothing can be learnt; give a number"
                " of rows, or null for the default"
            ),
        ),
        (
            ["run", "-m", "seed=0,1", "parent.n_estimators=5,-5"],
            "parent.n_estimators must be an int in the range [1, inf), got -5",
        ),
        (
            ["list", "datset"],
            "no group named 'datset'; did you mean 'dataset'?",
        ),
        (
            ["run", "experiment=bench/simulation"],
            (
                "no experiment named 'bench/simulation'; did you mean 'bench/simulations'? ('kdg"
                f" list experiment --all' shows all {N_EXPERIMENTS})"
            ),
        ),
        (
            ["list", "gate", "nothing of", "this"],
            "no gate has 'nothing of this' in its name or line; 'kdg list gate' shows all 6",
        ),
        (["completion", "tcsh"], "completion takes one of bash, zsh, fish, got tcsh"),
        (
            ["show", "dataset=spirl"],
            (
                "no dataset named 'spirl'; did you mean 'spiral'? ('kdg list dataset --all'"
                f" shows all {N_DATASETS})"
            ),
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_unusable_arguments_are_reported_in_one_line(kdg, arguments, sentence, tmp_path):
    (tmp_path / "taken").touch()
    code, out, err = kdg(*arguments)
    assert (code, out) == (2, "")
    assert err == f"kdg: {sentence}\n"
    assert not list(tmp_path.rglob("result.json"))


def test_invalid_job_stops_a_sweep_before_its_start(kdg, tmp_path):
    kdg("run", "-m", *TINY, "seed=0,-1")
    assert not list(tmp_path.iterdir())


def test_run_prints_a_plain_table_and_the_second_time_the_same(kdg):
    code, out, err = kdg("run", *TINY)
    assert (code, err) == (0, "")
    title, stages, names, *metrics, files = out.splitlines()
    assert (
        title == "spiral (86 train and calibration, out of bag · 40 test) → random_forest → kdf"
        "        seed 0"
    )
    assert stages.split()[0] == "split" and "\x1b" not in out
    assert names.split() == ["random_forest", "kdf"]
    assert metrics[0].split()[0] == "error"
    assert any(
        "confidence at radius 2" in line and line.endswith("prior 0.500") for line in metrics
    )
    assert files.startswith("outputs/spiral/kdf/") and files.endswith(
        "   result.json   predictions.parquet"
    )
    code, again, _ = kdg("run", *TINY)
    assert code == 0 and "done before; force=true runs it again" in again
    assert again.splitlines()[2:] == out.splitlines()[2:]


def test_json_is_the_record_and_nothing_else(kdg, tmp_path):
    code, out, _ = kdg("run", "--json", *TINY)
    record = json.loads(out)
    (path,) = tmp_path.rglob("result.json")
    assert code == 0 and record == check_and_load(path.read_bytes())
    code, out, _ = kdg("run", "--json", "-m", *TINY, "seed=0,1")
    assert [r["seed"] for r in json.loads(out)] == [0, 1]
    assert json.loads(out)[0] == record  # a run in a sweep is the same directory


def test_a_sweep_ends_with_one_table(kdg):
    code, out, err = kdg(
        "run",
        "-m",
        *TINY,
        "dataset=spiral,circle",
        "method=none,isotonic",
        "seed=0,1",
        "hydra.launcher.n_jobs=2",
    )
    assert (code, err) == (0, "kdg: 8 runs, 2 at a time, one core each\n")
    spiral, circle = out.split("\n\n")[:2]
    assert spiral.splitlines()[0].startswith(
        "spiral · 2 seeds (0, 1) · mean ± standard deviation · prior 0.5"
    )
    assert [line.split()[0] for line in circle.splitlines()[2:]] == [
        "random_forest",
        "isotonic",
    ]
    assert spiral.count("±") > 4 and out.endswith("8 runs in outputs\n")


def test_methods_without_a_prefix_use_equal_forests(kdg):
    methods = ["kdf", "isotonic", "temperature"]
    words = ["dataset=iris", f"method={','.join(methods)}", "parent.n_estimators=50"]
    code, out, err = kdg("run", "-m", *words, "figures=none", "hydra.launcher.n_jobs=1")
    assert (code, out.count("iris · "), out.splitlines()[-1]) == (0, 1, "3 runs in outputs"), err
    compared = [line.split("  ")[1] for line in out.splitlines()[2:7]]
    assert compared == [
        "random_forest on all rows (parent)",
        "random_forest (parent)",
        *(f"{method} (parent.n_estimators=50)" for method in methods),
    ]


@pytest.fixture
def failing(tmp_path, monkeypatch):
    """A calibrator that fails, in the folder ``custom``."""
    (tmp_path / "failing_parts.py").write_text(
        "from kdgraph.calibration import Uncalibrated\n"
        "class Failing(Uncalibrated):\n"
        "    def _fit_after(self, train, calibration):\n"
        "        raise RuntimeError('no\\nluck')\n"
    )
    (tmp_path / "custom" / "calibrator").mkdir(parents=True)
    (tmp_path / "custom" / "calibrator" / "failing.yaml").write_text(
        "# Fails\nname: failing\n_target_: failing_parts.Failing\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


def test_a_failure_keeps_the_traceback_and_lets_the_others_run(kdg, tmp_path, failing):
    code, out, err = kdg("run", "--config-dir", "custom", *TINY, "calibrator=failing")
    (trace,) = tmp_path.rglob("error.txt")
    where = trace.relative_to(tmp_path)
    assert (code, out, err) == (
        1,
        "",
        f"kdg: the run failed: RuntimeError: no luck (traceback in {where})\n",
    )
    assert "raise RuntimeError" in trace.read_text()
    code, out, err = kdg(
        "run",
        "-m",
        "--config-dir",
        "custom",
        *TINY,
        "calibrator=failing,none",
        "hydra/launcher=basic",
    )
    assert code == 1 and "1 run in outputs" in out
    summary, why, command = err.splitlines()
    assert (
        summary
        == "kdg: 1 of 2 runs failed; the same command tries it again, and this runs it alone:"
    )
    assert why == f"  RuntimeError: no luck   {where}"
    before = trace.stat().st_mtime_ns
    assert kdg(*shlex.split(command)[1:])[0] == 1 and trace.stat().st_mtime_ns > before


def test_fail_fast_sweep_ends_with_its_first_failure(kdg, failing):
    swept = [
        "-m",
        "--config-dir",
        "custom",
        *TINY,
        "calibrator=none,failing,isotonic",
        "fail_fast=true",
    ]
    code, out, err = kdg("run", *swept, "hydra/launcher=basic")
    assert code == 1 and "1 run in outputs" in out
    first, _, _, last = err.splitlines()
    assert (
        first.startswith("kdg: 1 of 3 runs failed")
        and last == "kdg: 1 run was not started (fail_fast=true)"
    )
    assert kdg("run", *swept[:-1], "hydra/launcher=basic")[1].endswith(
        "2 runs in outputs, 1 of them done before\n"
    )


def test_a_claim_that_was_left_behind_with_its_record_goes(kdg):
    record = json.loads(kdg("run", *TINY, "--json")[1])
    (folder,) = Path("outputs/spiral").glob(f"*/{record['run_id']}")
    lock_file = folder / "running.json"
    lock_file.write_text(json.dumps({**process_identity(), "start": "of a process that is gone"}))
    assert kdg("run", *TINY)[0] == 0 and not lock_file.exists()


@pytest.mark.parametrize(
    ("number", "way_out"),
    [
        (errno.EACCES, "Permission denied; its owner can open it with 'chmod -R a+rX shared'"),
        (errno.EROFS, "Read-only file system; name a folder that can be written"),
        (errno.ENOSPC, "No space left on device; free some space, and give the same command again"),
        (errno.ESTALE, "Stale file handle; the file system lost it; give the same command again"),
    ],
)
def test_an_error_of_the_operating_system_is_one_line(kdg, monkeypatch, number, way_out):
    def fail(arguments: list[str]) -> int:
        raise OSError(number, os.strerror(number), "shared/result.json")

    monkeypatch.setattr(cli, "_run_command", fail)
    code = 2 if number == errno.EACCES else 1
    assert kdg("table") == (code, "", f"kdg: cannot use shared/result.json: {way_out}\n")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            PermissionError(errno.EPERM, os.strerror(errno.EPERM)),
            "the system refused a file or a connection: Operation not permitted; its owner can"
            " open it with 'chmod -R a+rX FOLDER'",
        ),
        (
            FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "a file"),
            "cannot use a file: No such file or directory; check the name, and that it is what the"
            " help describes",
        ),
        (
            OSError("[10:01:02] /src/io.cc:7: cannot open\nbacktrace"),
            "the system refused a file or a connection: cannot open; check the name, and that it is"
            " what the help describes",
        ),
        (
            RuntimeError("Symlink loop from '/data/loop'"),
            "Symlink loop from '/data/loop'; name the file itself",
        ),
    ],
    ids=["no name", "no remedy", "no number", "loop"],
)
def test_every_error_of_the_system_is_one_line(kdg, monkeypatch, error, line):
    def fail(arguments: list[str]) -> int:
        raise error

    monkeypatch.setattr(cli, "_run_command", fail)
    assert kdg("table") == (2, "", f"kdg: {line}\n")


@pytest.mark.parametrize("error", [RuntimeError("no loop"), ValueError("a"), KeyError("b")])
def test_errors_of_the_program_keep_their_traceback(kdg, monkeypatch, error):
    def fail(arguments: list[str]) -> int:
        raise error

    monkeypatch.setattr(cli, "_run_command", fail)
    with pytest.raises(type(error)):
        kdg("table")


SHAPES = [
    "dataset=shapes",
    "dataset.size=60",
    "dataset.n_train=40",
    "dataset.n_calibration=20",
    "dataset.n_test=10",
    "n_jobs=1",
]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            [*SHAPES, "method=kdf"],
            "dataset=shapes has images, and parent=random_forest takes vectors; choose a network:"
            " parent=cnn",
        ),
        (
            [*TINY[:2], "method=kdn", "parent=cnn", "n_jobs=1"],
            "dataset=spiral has vectors, and parent=cnn takes images; choose another: parent=mlp",
        ),
    ],
    ids=["images for a forest", "vectors for a network of images"],
)
def test_rows_of_another_shape_are_refused_before_the_fit(kdg, tmp_path, words, message):
    assert kdg("run", *words) == (2, "", f"kdg: {message}\n")
    assert not list(tmp_path.rglob("*.kdg"))


def test_show_lists_the_stages_of_a_run(kdg):
    import yaml

    _, out, _ = kdg("show", *TINY)
    assert (
        out.splitlines()[-2].endswith("   not done")
        and out.splitlines()[-1] == "# in the store: no stage"
    )
    assert yaml.safe_load(out)["parent"]["n_estimators"] == 5
    kdg("run", *TINY)
    _, out, _ = kdg("show", *TINY, "metrics.test.ece.bins=10")
    assert (
        out.splitlines()[-2].endswith("   not done")
        and out.splitlines()[-1] == "# in the store: fit, calibrate"
    )
    assert kdg("show", *TINY)[1].splitlines()[-2].endswith("   done")


def test_the_flags_of_hydra_work(kdg):
    code, out, _ = kdg("run", "--hydra-help")
    assert code == 0 and "Hydra" in out
    code, out, _ = kdg("run", "--info", "searchpath", "dataset=wine")
    assert code == 0 and "conf" in out
    code, out, _ = kdg("run", "--cfg", "job", "--resolve", "-p", "dataset", "dataset=wine")
    assert code == 0 and "name: wine" in out


def test_flags_may_stand_between_overrides(kdg):
    code, out, _ = kdg("run", *TINY[:4], "-m", *TINY[4:], "calibrator=none", "seed=0,1")
    assert code == 0 and "2 runs in outputs" in out


def test_help_and_version_import_nothing_heavy():
    for flag in ("--help", "--version"):
        code = (
            f"import sys; from kdgraph.cli.main import main; main(['{flag}']); print(*sys.modules,"
            " file=sys.stderr)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        loaded = set(done.stderr.split())
        assert not loaded & {
            "torch",
            "sklearn",
            "hydra",
            "omegaconf",
            "numpy",
            "rich",
            "pandas",
            "matplotlib",
            "numba",
            "openml",
        }
        assert done.stdout.startswith(("kdg", "usage: kdg"))


def test_composing_imports_no_science():
    code = "import sys; from kdgraph.config import plan; plan([]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {
        "torch",
        "sklearn",
        "scipy",
        "pandas",
        "matplotlib",
        "numba",
        "openml",
    }


def test_a_sweep_in_an_experiment_takes_other_values_without_m(kdg, tmp_path):
    folder = tmp_path / "custom" / "experiment"
    folder.mkdir(parents=True)
    (folder / "seeds.yaml").write_text(
        "# @package _global_\nhydra: {mode: MULTIRUN, sweeper: {params: {seed: 5}}}\n"
    )
    code, out, _ = kdg(
        "run", "--config-dir", str(tmp_path / "custom"), "experiment=seeds", "seed=0,1", *TINY
    )
    assert code == 0
    assert sorted(
        json.loads(path.read_text())["seed"] for path in tmp_path.rglob("result.json")
    ) == [0, 1]
    assert "2 runs in outputs" in out


def test_the_help_states_that_configs_of_others_are_code(kdg):
    code, out, _ = kdg("--help")
    sentence = (
        "A config is code: _target_ imports and calls what it names, in show and plan too, "
        "so name no folder of others that you have not read"
    )
    assert code == 0 and sentence in " ".join(out.split())


def test_an_error_of_one_run_of_a_sweep_names_it(kdg):
    methods = ["dataset=iris", "method=isotonic,network_temperature"]
    code, _, err = kdg("run", "-m", *methods, "parent.n_estimators=5")
    assert code == 2 and err.startswith("kdg: unknown key 'parent.n_estimators' (parent has: ")
    assert err.endswith("weight_decay) (run method=network_temperature)\n")
    code, _, err = kdg("run", "-m", *methods, "parent.n_estimater=5")
    assert code == 2 and "(run" not in err, "the first run has it too"


@pytest.mark.slow
def test_tables_use_ascii_where_the_terminal_needs_it(tmp_path):
    code = "from kdgraph.cli.main import main; raise SystemExit(main())"
    small = ["parent.n_estimators=5", "ood=none", "figures=none", "n_jobs=1"]
    arguments = ["run", "dataset=iris", "method=isotonic", *small]
    process = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=tmp_path,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    text = process.stdout.decode("ascii")
    assert "test) -> random_forest -> isotonic" in text and " <" in text and "?" not in text
