"""Values of overrides, whatever they are: composed, or refused in one line."""

from __future__ import annotations

import random
import warnings

import pytest

from kdgraph.cli.main import main

GROUPS = [
    *("dataset", "method", "parent", "calibrator", "gate", "detector", "recalibrator", "conformal"),
    *("ood", "preprocess", "metrics", "figures", "network", "experiment", "hydra/launcher"),
]
KEYS = [
    *("seed", "n_jobs", "out", "force", "cv", "calibration", "protocol", "fit_on", "fail_fast"),
    *("post_report", "logger", "save", "dataset.n_train", "dataset.name", "dataset._target_"),
    *("parent.n_estimators", "metrics.test", "metrics.test.ece.bins", "figures.draw", "ood.radii"),
    *("figures.formats", "figures.dpi", "ood.sources", "calibrator.method", "parent.exposure"),
    *("hydra.launcher.n_jobs", "hydra.launcher._target_", "hydra.mode", "hydra.sweeper.params"),
    *(
        "hydra",
        "hydra.launcher",
        "hydra.run.dir",
        "hydra.job.name",
        "a.b.c",
        "defaults",
        "_target_",
    ),
    *("dataset@x", "parent@calibrator", "dataset/x", "/dataset", "", "dataset.", "..", ".a"),
]
VALUES = [
    *("[1]", "[[1]]", "[null]", "{a:1}", "{}", "[]", "null", "true", "1", "1.5", "nan", "-inf"),
    *("''", '"a b"', "spiral", "wine,iris", "[wine]", "[wine,1]", "${seed}", "${nope}", "???"),
    *("${dataset}", "${oc.env:HOME}", "${dataset:wine}", "${dataset:}", "${other_than:1,2}"),
    *(
        "range(0,3)",
        "interval(0,1)",
        "glob(no*)",
        "glob([a*,b*])",
        "choice(1,2)",
        "choice([1],[2])",
    ),
    *("sort(3,1)", "int(3)", "str([1])", "float(x)", "json_str({a:1})", "{a:{b:[1,{c:null}]}}"),
    *("1e400", "10000000000000000000000000", "a:b", "../x", "none", "a\\,b", "[", "{a:", "}", ")"),
    *("a=b", "random_forest", "isotonic", "kdf", "basic", "default", "cc18/adult", "é"),
    "processes",
    *("🙂", "\t", "['']", "{_target_:os.system}", "[{}]", "{1:2}", "[nan]", '"[1]"', "${", "}${"),
]


def draw_word(draw: random.Random) -> str:
    key = draw.choice(GROUPS if draw.random() < 0.45 else KEYS)
    prefix = draw.choice(["", "", "", "", "+", "++", "~"])
    return f"~{key}" if prefix == "~" else f"{prefix}{key}={draw.choice(VALUES)}"


@pytest.mark.parametrize(
    "count", [30, pytest.param(2000, marks=[pytest.mark.slow, pytest.mark.exhaustive])]
)
def test_drawn_overrides_end_no_command_in_a_traceback(
    count, capsys, tmp_path, monkeypatch, openml_cache, no_network
):
    monkeypatch.chdir(tmp_path)
    draw = random.Random(count)
    for _ in range(count):
        words = [draw_word(draw) for _ in range(draw.choice([1, 1, 2, 3]))]
        command = [draw.choice(["plan", "plan", "show"]), *["-m"] * (draw.random() < 0.3), *words]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a data set is fetched, or scaled, with a warning
            code = main(command)
        err = capsys.readouterr().err
        assert code in (0, 2) and "Traceback" not in err, command
        assert code == 0 or err.splitlines()[-1].startswith("kdg: "), command


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            "dataset=[1]",
            "dataset takes the name of one of its options, got 1; 'kdg list dataset' sh",
        ),
        ("group=[1]", "unknown key 'group'"),
        (
            "detector=[[1]]",
            "detector takes the name of one of its options, got [1]; 'kdg list dete",
        ),
        (
            "figures=[null]",
            "figures takes the name of one of its options, got null; 'kdg list figu",
        ),
        ("hydra/launcher=[1]", "hydra/launcher takes the name of one of its options, got 1"),
        ("hydra/launcher=1", "hydra/launcher takes the name of one of its options, got 1"),
        (
            "experiment=[1]",
            "experiment takes the name of one of its options, got 1; 'kdg list expe",
        ),
        (
            "dataset=[nan]",
            "dataset takes the name of one of its options, got nan; 'kdg list datase",
        ),
        (
            "dataset=true",
            "dataset takes the name of one of its options, got true; 'kdg list datase",
        ),
        (
            "gate=${seed}",
            "gate takes the name of one of its options, got '${seed}'; 'kdg list gate",
        ),
        (
            "-m dataset=[1],wine",
            "dataset takes the name of one of its options, got 1; 'kdg list da",
        ),
        (
            "-m dataset=choice(1,wine)",
            "dataset takes the name of one of its options, got 1; 'kdg l",
        ),
        ("method={a:1}", "unknown key 'method'"),
        ("network={}", "unknown key 'network'"),
        ("dataset={a:1}", "unknown key 'dataset.a'"),
        ("~out", "out cannot be removed: no run can do without it; set out=…"),
        ("+=1", "'+=1' has no key in front of '='"),
        ("-m hydra.launcher.n_jobs=0", "hydra.launcher.n_jobs must be a number of runs at a time,"),
        ("-m out=???", "out: Missing mandatory value: out"),
        ("hydra.searchpath=[a]", "hydra.searchpath is set by --config-dir DIR, a folder of yours"),
        ("hydra.sweeper.params={seed:1}", "Hydra cannot compose 'hydra.sweeper.params={seed:1}' ("),
        (
            "hydra.launcher=1",
            "hydra.launcher is a group of keys, which 'kdg run --cfg hydra' shows",
        ),
        (
            "hydra.launcher.n_jobs=${nope}",
            "hydra.launcher.n_jobs: Interpolation key 'nope' not fou",
        ),
    ],
)
def test_values_that_hydra_cannot_compose_are_refused_in_one_line(capsys, words, line):
    assert main(["plan", *words.split()]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"kdg: {line}") and err.count("\n") == 1, err


@pytest.mark.parametrize(
    "words", ["dataset=[wine]", "dataset={n_train:100}", "dataset='wine'", "-m dataset=wine,[iris]"]
)
def test_other_ways_to_name_an_option_are_composed(capsys, words):
    assert main(["plan", *words.split()]) == 0


@pytest.mark.parametrize("node", ["hydra", "hydra.launcher", "hydra.sweeper"])
def test_the_way_out_of_a_replaced_node_of_hydra_works(node, capsys):
    assert main(["plan", f"{node}=3", "dataset=wine"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    words = line.rpartition("such as ")[2].replace(" with -m", "").split()
    assert main(["plan", "-m", "dataset=wine", *words]) == 0
