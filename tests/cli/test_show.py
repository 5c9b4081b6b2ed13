"""Command ``kdg show``: the config with the meaning of each key."""

from __future__ import annotations

import shutil

import yaml

from kdgraph.cli.show import commented_yaml
from kdgraph.config import compose
from kdgraph.report import preview


def test_the_yaml_is_the_config(kdg):
    for words in (
        ["dataset=wine", "method=kdf"],
        ["dataset=diabetes_progression", "method=local_pit"],
        ["dataset=shapes", "method=oe"],
        ["ood=composite", "method=sts"],
    ):
        code, out, _ = kdg("show", *words)
        config = compose(words)
        assert code == 0
        shown = yaml.safe_load(out)
        for key, node in config.science().items():
            assert shown[key] == yaml.safe_load(yaml.safe_dump(node))
        assert (shown["n_jobs"], shown["force"], shown["out"]) == (-1, False, "outputs")
        comments = [line for line in out.splitlines()[:-2] if "# " in line]
        assert comments and max(map(len, comments)) <= 100


def test_each_key_has_the_meaning_that_its_class_documents(kdg, tmp_path):
    folder = tmp_path / "custom" / "calibrator"
    folder.mkdir(parents=True)
    (folder / "custom.yaml").write_text(
        "# Custom\ndefaults: [/calibrator/histogram@_here_, _self_]\nname: custom\nbins: 7\n"
    )
    lines = [line.strip() for line in kdg("show")[1].splitlines()]
    assert "max_test: null                        # Largest number of test rows." in lines
    assert "# Two arms of a spiral as classes; the true posterior is known" in lines
    code, out, err = kdg("show", "--config-dir", "custom", "calibrator=custom")
    assert (code, err) == (0, "")
    shown = [" ".join(line.split()) for line in out.splitlines()]
    assert "bins: 7 # Number of bins, at least 1." in shown and "calibrator: # Custom" in shown


def test_a_long_comment_stands_above_its_key():
    lines = list(commented_yaml({"a": {"b": [1, 2]}}, {"a.b": "word " * 20}, 60))
    assert lines[0] == "a:" and lines[-1] == "  b: [1, 2]"
    assert all(line.startswith("  # word") and len(line) <= 60 for line in lines[1:-1])
    assert yaml.safe_load("\n".join(lines)) == {"a": {"b": [1, 2]}}


def test_values_are_yaml_whatever_they_are():
    node = {
        "text": "a: b # c",
        "null": None,
        "on": True,
        "empty": {},
        "nested": {"list": ["x, y", {"k": 1.0e-6}], "more": {"deep": "ü\n"}},
        "number": "1e3",
    }
    text = "\n".join(commented_yaml(node, {"text": "a comment", "nested.list": "more"}, 80))
    assert yaml.safe_load(text) == node


TINY = ["dataset=wine", "parent.n_estimators=2", "ood=none", "figures=none", "n_jobs=1"]


def test_stored_stages_are_found_without_rows(kdg, monkeypatch):
    """Pictures that are drawn take seconds and gigabytes."""
    splits, real = [], preview.split
    monkeypatch.setattr(
        preview, "split", lambda *args, **more: splits.append(1) or real(*args, **more)
    )
    assert kdg("show", *TINY, "method=isotonic")[1].endswith("# in the store: no stage\n")
    assert kdg("run", *TINY, "method=isotonic")[0] == 0
    out = kdg("show", *TINY, "method=isotonic")[1]
    assert out.endswith("   done\n# in the store: fit, calibrate, evaluate\n") and not splits
    assert kdg("show", *TINY, "method=sigmoid")[1].endswith("# in the store: fit\n") and splits
    shutil.rmtree("outputs/.store/evaluate")
    assert kdg("show", *TINY, "method=isotonic")[1].endswith("# in the store: fit, calibrate\n")
