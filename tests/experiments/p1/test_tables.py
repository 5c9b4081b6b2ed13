"""Tables of the benches that the README shows."""

from __future__ import annotations

import pytest

from experiments.p1 import tables
from kdgraph.config import plan
from tests.experiments.p1_runs import write

pytestmark = pytest.mark.slow


def test_tables_of_networks_and_of_merged_polytopes(tmp_path, monkeypatch, capsys) -> None:
    jobs = [
        job
        for name in ("networks", "prune")
        for job in plan([f"experiment=bench/{name}", "dataset=spiral", "seed=0,1"]).jobs
    ]
    for job in jobs:
        write(
            tmp_path,
            job.config,
            error={None: 0.1, "auto": 0.1, 0.1: 0.2, 0.01: 0.3}[
                job.config.calibrator.get("max_polytopes")
            ],
        )
    monkeypatch.setattr("sys.argv", ["tables.py", str(tmp_path)])
    tables.main()
    result = [
        line
        for line in capsys.readouterr().out.splitlines()
        if line.startswith(("#", "| spiral", "| default", "| max"))
    ]
    rest = "0.2000 | 0.0500 | 0.0100 | 0.0000 | 2 |"
    pruned = [
        f"| {setting} | {error} | 0.0100 (0.0100) | 0.0000 (0.0000) |"
        for setting, error in (
            ("default", "0.1000 | 0.2000 | 0.0500"),
            ("max_polytopes=0.01", "0.3000 | 0.6000 | 0.1500"),
            ("max_polytopes=0.1", "0.2000 | 0.4000 | 0.1000"),
        )
    ]
    assert result == [
        "## Networks",
        "| spiral | network | 0.2500 | nan | nan | nan | nan | 2 |",
        *(f"| spiral | {name} | 0.1000 | {rest}" for name in list(tables.ON_NETWORKS.values())[1:]),
        *("## Fewer polytopes: kdf", *pruned),
        *("## Fewer polytopes: kdn", *pruned),
    ]
