"""The same config gives the same bits: on one core or two, alone or in a sweep, at once or
resumed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from kdgraph.cli.main import main
from kdgraph.runner import stages

from .conftest import results

FOREST = ["dataset=wine", "parent.n_estimators=20"]
NETWORK = [
    "dataset=spiral",
    "dataset.n_train=120",
    "dataset.n_test=60",
    "parent.hidden=[32,32]",
    "parent.max_epochs=5",
    "parent.device=cpu",
]
COMMON = ["ood.n=30", "ood.radii=[1,3]", "metrics=default", "figures=none"]
MIXED = [
    "dataset=table",
    "dataset.path=mixed.csv",
    "dataset.target=label",
    "parent.n_estimators=20",
]
CASES = {
    **{
        method: [*FOREST, f"method={method}"]
        for method in (
            "kdf",
            "isotonic",
            "sigmoid",
            "gated_isotonic",
            "gated_best",
            "random_forest",
        )
    },
    **{
        method: [*NETWORK, f"method={method}"]
        for method in ("kdn", "network_sigmoid", "network_gated_isotonic")
    },
    "kdf on a mixed table": [*MIXED, "method=kdf"],
}


@pytest.fixture(autouse=True)
def mixed_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        f"{i % 7},{'abc'[i * i % 3] if i % 11 else ''},{(i * 37) % 101 / 10},{'yes' if (i % 7) * 3 + i % 5 > 11 else 'no'}"
        for i in range(150)
    ]
    Path("mixed.csv").write_text("\n".join(["size,kind,width,label", *rows]) + "\n")


def run(*arguments: str) -> None:
    assert main(["run", *arguments, *COMMON]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore:training stopped")
def test_cores_change_no_bit(case):
    for n_jobs in (1, 2):
        run(*CASES[case], f"n_jobs={n_jobs}", f"out=on_{n_jobs}")
    assert results("on_1") == results("on_2") != {}


@pytest.mark.slow
@pytest.mark.parametrize(("case", "others"), [("kdf", "submitit_local"), ("kdn", "basic")])
def test_a_launcher_changes_no_bit_of_a_sweep(case, others):
    for seed in (0, 1):
        run(*CASES[case], f"seed={seed}", "n_jobs=2", "out=alone")
    run("-m", *CASES[case], "seed=0,1", "hydra/launcher=basic", "out=in_turn")
    run("-m", *CASES[case], "seed=0,1", "hydra.launcher.n_jobs=2", "out=side_by_side")
    run("-m", *CASES[case], "seed=0", "out=resumed")
    run("-m", *CASES[case], "seed=0,1", f"hydra/launcher={others}", "out=resumed")
    alone = results("alone")
    assert len(alone) == 2
    assert (
        results("in_turn") == alone
        and results("side_by_side") == alone
        and results("resumed") == alone
    )


def test_what_is_in_the_store_changes_no_bit():
    run(*CASES["kdf"], "out=anew")
    run(*CASES["isotonic"], "out=after_another")  # the parent comes from the store
    run(*CASES["kdf"], "out=after_another")
    (repeated,) = [
        value for key, value in results("after_another").items() if key in results("anew")
    ]
    assert [repeated] == list(results("anew").values())


def test_blas_has_one_thread_in_every_stage(monkeypatch):
    """A Gamma regression of 2,000 rows and 60 features has other last bits with two threads than
    with one.
    """
    threads, fit = [], stages.fit

    def look(*arguments, **options):
        threads.extend(
            each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"
        )
        return fit(*arguments, **options)

    monkeypatch.setattr(stages, "fit", look)
    with threadpool_limits(2, user_api="blas"):
        run(*CASES["isotonic"], "out=limited")
    assert threads and set(threads) == {1}
