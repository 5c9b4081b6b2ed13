"""Optional libraries: their extras, and what is left of kdgraph without them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kdgraph import extras
from kdgraph.runner import checkup, store

ROOT = Path(__file__).parents[1]
OPTIONAL = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.fixture(scope="module")
def distributions() -> dict[str, list[str]]:
    """Return module → distributions; reading the metadata of all takes half a second."""
    return dict(packages_distributions())


@pytest.mark.parametrize("library", sorted(extras._INSTALLED_BY))
def test_extra_that_an_error_names_installs_the_library(library, distributions):
    package = Requirement(extras._INSTALLED_BY[library])
    if package.name != "kdgraph":
        assert not package.extras
        return
    (extra,) = package.extras
    installed = {canonicalize_name(Requirement(line).name) for line in OPTIONAL[extra]}
    names = {canonicalize_name(name) for name in distributions.get(library, [])}
    if not names:
        pytest.skip(f"{library} is not installed, so its distribution is unknown")
    same = {checkup.SUBSTITUTES.get(name, name) for name in installed}
    assert names & (installed | same) or library == "submitit"  # which the launcher requires


def test_error_of_another_kind_is_not_one_of_a_missing_library():
    assert extras.missing_library(ModuleNotFoundError("no", name="torch.nn")) == "torch"
    assert extras.missing_library(ModuleNotFoundError("no", name="my_model")) is None
    assert extras.missing_library(ImportError("broken", name="torch")) is None


HIDE_TORCH = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name=name)

sys.meta_path.insert(0, Hidden())
"""


def without_torch(code: str, folder: Path) -> list[str]:
    """Return the lines that code prints in a process where torch cannot be imported."""
    process = subprocess.run(
        [sys.executable, "-c", HIDE_TORCH + code],
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return process.stdout.splitlines()


@pytest.mark.slow
def test_commands_without_torch(tmp_path):
    sizes = "dataset.n_train=60 dataset.n_test=40 parent.n_estimators=5 ood.n=20 figures=none"
    code = f"""
from kdgraph.cli.main import main
print(main("run dataset=spiral method=kdf {sizes}".split()))
print(main("run dataset=spiral method=kdn".split()))
print(main("doctor".split()))
"""
    lines = without_torch(code, tmp_path)
    target = "kdgraph.parents.networks.MultilayerPerceptron"
    end = lines.index("0")
    assert "result.json" in lines[end - 1]
    assert lines[end + 1 : end + 3] == [
        f"kdg: parent._target_: {target} needs torch: pip install 'kdgraph[torch]'",
        "2",
    ]
    assert lines[-1] == "0" and any("unknown without torch" in line for line in lines)


def test_library_without_torch(tmp_path):
    from sklearn.datasets import make_blobs

    import kdgraph
    from kdgraph.parents.networks import MultilayerPerceptron

    X, y = make_blobs(60, random_state=0)
    network = MultilayerPerceptron(hidden=(4,), max_epochs=2, device="cpu", random_state=0)
    kdgraph.save(network.fit(X, y), tmp_path / "network.kdg")
    (tmp_path / "weights.pt").write_bytes(b"")
    code = """
import kdgraph
from kdgraph.detection import KthNeighbourDistance
for call in (
    lambda: kdgraph.TorchClassifier,
    lambda: kdgraph.load("network.kdg"),
    lambda: kdgraph.load_fitted("weights.pt"),
    lambda: KthNeighbourDistance(device="cuda").fit([[0.0], [1.0]] * 20, [0, 1] * 20),
):
    try:
        call()
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
"""
    lines = without_torch(code, tmp_path)
    remedy = "needs torch: pip install 'kdgraph[torch]'"
    assert lines == [
        f"ModuleNotFoundError: kdgraph.parents.networks {remedy}",
        f"LoadError: network.kdg {remedy}",
        f"DataError: path=weights.pt: {remedy}",
        f"ParameterError: KthNeighbourDistance.device='cuda' {remedy}",
    ]


def test_stages_have_keys_where_a_library_is_absent(monkeypatch):
    key = store.stage_key("fit", "data", {}, 0)

    def version(library: str) -> str:
        if library == "torch":
            raise store.PackageNotFoundError(library)
        return "1"

    monkeypatch.setattr(store, "version", version)
    assert store.stage_key("fit", "data", {}, 0) != key


def test_doctor_lists_the_extras_of_the_metadata(monkeypatch):
    assert {finding.name for finding in checkup._extras()} == {f"extra {name}" for name in OPTIONAL}
    monkeypatch.setattr(checkup, "_distributions", lambda: frozenset({"torch", "xgboost"}))
    findings = {finding.name: finding for finding in checkup._extras()}
    assert findings["extra torch"].value == "installed"
    assert findings["extra boosting"].value == "not installed: catboost, lightgbm"
    assert findings["extra encoders"].value == "not installed: transformers"
    assert findings["extra boosting"].remedy == "pip install 'kdgraph[boosting]'"
    assert not any(finding.wrong for finding in findings.values())


def test_doctor_of_a_folder_that_is_not_installed(monkeypatch):
    def metadata(name: str) -> None:
        raise checkup.PackageNotFoundError(name)

    monkeypatch.setattr(checkup, "metadata", metadata)
    (finding,) = checkup._extras()
    assert finding.value.startswith("unknown")
