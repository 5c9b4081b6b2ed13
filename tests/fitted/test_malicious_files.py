"""Files that would run code, read other files or fill the memory are refused in one line."""

from __future__ import annotations

import io
import json
import pickle
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from kdgraph.errors import DataError
from kdgraph.fitted import load_fitted
from tests.variations import others_slow

X = np.random.default_rng(3).normal(size=(80, 3))
Y = (X[:, 0] > 0).astype(int)
MISSING = "{} is not installed; the extra peers has it"
ENDINGS = [
    "skops",
    "joblib",
    "pickle",
    "pkl",
    "onnx",
    "json",
    "ubj",
    "txt",
    "cbm",
    "pt2",
    "pth",
    "pt",
]


class Payload:
    """Object whose unpickling creates a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def refusal(path: Path, content: bytes, **parameters) -> str:
    path.write_bytes(content)
    with pytest.raises(DataError) as raised:
        load_fitted(str(path), classes=[0, 1], **parameters)
    message = str(raised.value)
    assert "\n" not in message
    return message.removeprefix(f"path={path}: ")


def npz_of(value) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, weights=np.array([value], dtype=object))
    return buffer.getvalue()


def torch_file_of(value) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def zip_of(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize("ending", others_slow([*ENDINGS, "npz"]))
@pytest.mark.parametrize("wrap", [pickle.dumps, npz_of, torch_file_of])
def test_no_ending_of_a_file_makes_a_pickle_run(tmp_path, ending, wrap):
    marker = tmp_path / "marker"
    content = wrap(Payload(marker))
    refusal(tmp_path / f"model.{ending}", content)
    assert not marker.exists()
    pickle.loads(pickle.dumps(Payload(marker)))  # the payload does work
    assert marker.exists()


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("content", [b"", b"\x00" * 300, b"{}", b"PK\x03\x04 damaged"])
def test_files_that_are_no_model_are_refused(tmp_path, ending, content):
    refusal(tmp_path / f"model.{ending}", content, trust=True)


@pytest.mark.parametrize("ending", ["skops", "pt", "pt2"])
def test_archives_that_name_other_files_are_refused(tmp_path, ending):
    for name in ("../outside", "/etc/passwd", "folder/../../outside", "..\\outside", "C:/outside"):
        message = refusal(tmp_path / f"model.{ending}", zip_of(**{name: b""}))
        assert message == f"is refused: it names a file outside of it, {name!r}"


@pytest.mark.parametrize("ending", ["skops", "pt", "pt2"])
def test_archives_that_expand_too_much_are_refused(tmp_path, ending):
    bomb = zip_of(schema=bytes(65 * 1024**2))
    message = refusal(tmp_path / f"model.{ending}", bomb)
    rule = r"is refused: its [\d,]+ bytes expand to 68,157,440, and 67,108,864 are the most"
    assert re.fullmatch(rule, message)


def add_three(values):
    return values + 3


def test_skops_files_list_the_types_that_are_not_known(tmp_path):
    skops_io = pytest.importorskip("skops.io", reason=MISSING.format("skops"))
    forest = RandomForestClassifier(3, random_state=0)
    model = make_pipeline(FunctionTransformer(add_three), forest).fit(X, Y)
    path, content = tmp_path / "model.skops", skops_io.dumps(model)
    assert refusal(path, content) == (
        f"holds what is not known to be harmless: {__name__}.add_three; if you know and trust its"
        " origin, give trust=true"
    )
    trusted = load_fitted(str(path), trust=True)
    np.testing.assert_array_equal(trusted.predict_proba(X), model.predict_proba(X))


def test_edited_skops_files_are_refused(tmp_path):
    """The schema names the classes and functions to import."""
    skops_io = pytest.importorskip("skops.io", reason=MISSING.format("skops"))
    forest = RandomForestClassifier(2, random_state=0).fit(X, Y)
    members = {}
    with zipfile.ZipFile(io.BytesIO(skops_io.dumps(forest))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(members["schema.json"])
    schema["__module__"], schema["__class__"] = "os", "system"
    edited = zip_of(**members | {"schema.json": json.dumps(schema).encode()})
    message = refusal(tmp_path / "model.skops", edited)
    assert message.startswith("holds what is not known to be harmless: os.system; ")
    cut = zip_of(**members | {"schema.json": members["schema.json"][:-20]})
    assert refusal(tmp_path / "model.skops", cut).startswith("is damaged (JSONDecodeError")


def test_skops_trees_with_invalid_nodes_are_refused(tmp_path):
    skops_io = pytest.importorskip("skops.io", reason=MISSING.format("skops"))
    forest = RandomForestClassifier(2, random_state=0).fit(X, Y)
    forest[0].tree_.children_left[0] = 10**6
    message = refusal(tmp_path / "model.skops", skops_io.dumps(forest))
    assert message == "is damaged (ValueError: node 0 of a tree leads nowhere)"


def edit_child(tree):
    tree["left_children"][0] = 10**6


def edit_feature(tree):
    tree["split_indices"][0] = 10**6


def edit_cycle(tree):
    tree["left_children"][0] = 0


def edit_length(tree):
    tree["right_children"] = tree["right_children"][:1]


@pytest.mark.parametrize("edit", [edit_child, edit_feature, edit_cycle, edit_length])
def test_edited_trees_of_xgboost_are_refused(tmp_path, edit):
    """The library itself ends the process where it predicts with such a tree, or never returns."""
    xgboost = pytest.importorskip("xgboost", reason=MISSING.format("xgboost"))
    model = xgboost.XGBClassifier(n_estimators=2).fit(X, Y)
    path = tmp_path / "model.json"
    model.save_model(path)
    document = json.loads(path.read_text())
    edit(document["learner"]["gradient_booster"]["model"]["trees"][0])
    message = refusal(path, json.dumps(document).encode())
    assert message.startswith(("its trees are damaged (", "is no model of XGBoost, or damaged ("))


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"left_child=\d+", "left_child=9"),
        (r"split_feature=\d", "split_feature=7"),
        (r"left_child=\d+", "left_child=100000"),  # another length than the header lists
        (r"threshold=\S", "threshold=x"),
        (r"leaf_weight=", "leaf_heights"),
        (r"(?s)Tree=1\n.*end of trees", "end of trees"),
        (r"(?s)end of trees.*", ""),
    ],
)
def test_edited_trees_of_lightgbm_are_refused(tmp_path, pattern, replacement):
    lightgbm = pytest.importorskip("lightgbm", reason=MISSING.format("lightgbm"))
    model = lightgbm.LGBMClassifier(n_estimators=2, num_leaves=6, verbose=-1).fit(X, Y)
    text = model.booster_.model_to_string()
    edited = re.sub(pattern, replacement, text, count=1)
    assert edited != text
    message = refusal(tmp_path / "model.txt", edited.encode())
    assert message.startswith(("its trees are damaged (", "is no model of LightGBM, or damaged ("))


def test_onnx_files_with_weights_in_other_files_are_refused(tmp_path):
    onnx = pytest.importorskip("onnx", reason=MISSING.format("onnx"))
    pytest.importorskip("onnxruntime", reason=MISSING.format("onnxruntime"))
    helper = onnx.helper
    weights = helper.make_tensor("weights", onnx.TensorProto.FLOAT, [3, 2], np.zeros(6))
    weights.ClearField("float_data")
    weights.data_location = onnx.TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="../../secret")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["rows", "weights"], ["logits"])],
        "linear",
        [helper.make_tensor_value_info("rows", onnx.TensorProto.FLOAT, [None, 3])],
        [helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, [None, 2])],
        [weights],
    )
    content = helper.make_model(graph).SerializeToString()
    assert refusal(tmp_path / "model.onnx", content) == (
        "keeps weights in other files (weights); save it in one: onnx.save(model, file,"
        " save_as_external_data=False)"
    )


def make_linear() -> torch.nn.Module:
    return torch.nn.Linear(3, 2)


@pytest.mark.parametrize("legacy", [False, True])
def test_edited_weights_are_refused(tmp_path, legacy):
    """torch would fill the rest of a tensor with what the memory contains."""
    factory, path = {"object": f"{__name__}:make_linear"}, tmp_path / "model.pt"
    buffer = io.BytesIO()
    torch.save(make_linear().state_dict(), buffer, _use_new_zipfile_serialization=not legacy)
    path.write_bytes(buffer.getvalue())
    load_fitted(str(path), classes=[0, 1], **factory)
    content = buffer.getvalue()
    if not legacy:
        with zipfile.ZipFile(buffer) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        name = next(name for name in members if name.endswith("data.pkl"))
        content = members[name]
    # The shape (2, 3) of the weights, as the pickle has it.
    shape = b"K\x02K\x03\x86"
    assert content.count(shape) == 1
    content = content.replace(shape, b"K\xffK\x03\x86")
    edited = content if legacy else zip_of(**members | {name: content})
    assert refusal(path, edited, **factory).startswith("holds more than weights, or is damaged")


def test_weights_of_other_types_are_refused(tmp_path):
    content = torch_file_of({"weight": {"a": 1}, 3: None})
    message = refusal(tmp_path / "model.pt", content, object=f"{__name__}:make_linear")
    assert message.startswith(f"its weights are not those of {__name__}:make_linear (")


def test_archives_with_two_members_of_one_name_are_refused(tmp_path):
    """Two readers may find different ones."""
    buffer = io.BytesIO(torch_file_of(make_linear().state_dict()))
    with zipfile.ZipFile(buffer, "a") as archive:
        name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr(name, b"")
    message = refusal(tmp_path / "model.pt", buffer.getvalue(), object=f"{__name__}:make_linear")
    assert message == "is refused: it holds two members of one name"
