"""Genuine model files, their mutations, and the outcome of each in a separate process.

``python -m tests.fitted.mutated_files 2000`` reads that many mutated files, predicts with those
that are not refused, and prints the number of files by format and outcome, as JSON. The second
argument is the first seed; ``few`` takes two kinds of model of each library, and the name of a
format, such as ``skops``, that format alone.

A forked process for each file is watched by an audit hook of Python, which detects
commands, sockets and files that are opened by Python. An outcome is "predicted", "refused" (in one
line), or a fault: "traceback", "several lines", "broke out" (found by the hook), "hung" or the name
of a signal.
"""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd

GOOD = ("predicted", "refused")
MAX_SECONDS = 60
MAX_LOG = 20_000
# More than any of these small models needs; larger allocations raise MemoryError.
MAX_MEMORY = 24 * 1024**3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4))
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(
    colour=pd.Categorical(RNG.choice(["red", "blue", "green"], len(X)))
)
BINARY = ((X[:, 0] > 0) ^ (FRAME["colour"] == "red")).to_numpy().astype(int)
LABELS = BINARY + (X[:, 1] > 0.5)
TARGETS = X[:, 0] * 2 + LABELS
# Rows on both sides of everything, and far away.
ROWS = np.concatenate([X, 1e6 * X[:20], np.zeros((2, 4))])
FRAME_ROWS = FRAME.iloc[np.arange(len(ROWS)) % len(FRAME)].reset_index(drop=True)
NUMBERS = (-1, 0, 1, 2, 3, 7, 255, 10**6, 2**31 - 1, -(2**31), 2**40, 1e300, float("nan"), 0.5)


class Genuine(NamedTuple):
    """A file that is read without trust, and rows that its model takes."""

    suffix: str
    content: bytes
    rows: Any = ROWS
    parameters: dict[str, Any] = {}  # noqa: RUF012


Mutation = Callable[[bytes, np.random.Generator], bytes]


def make_network() -> Any:
    """Return the module of the file of weights."""
    from torch import nn

    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))


def skops_files() -> Iterator[tuple[str, Genuine]]:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.cluster import KMeans
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import (
        AdaBoostClassifier,
        ExtraTreesRegressor,
        GradientBoostingClassifier,
        HistGradientBoostingClassifier,
        RandomForestClassifier,
        VotingClassifier,
    )
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from sklearn.svm import SVC, SVR
    from skops.io import dumps

    columns = make_column_transformer(
        (StandardScaler(), list("abcd")),
        (OneHotEncoder(drop="first", min_frequency=5), ["colour"]),
    )
    search = GridSearchCV(LogisticRegression(), {"C": [1.0]}, scoring="accuracy", cv=2)
    models: dict[str, tuple[Any, Any, Any]] = {
        "forest": (RandomForestClassifier(4, random_state=0), X, LABELS),
        "trees": (ExtraTreesRegressor(3, random_state=0), X, TARGETS),
        "boosting": (GradientBoostingClassifier(n_estimators=3, random_state=0), X, LABELS),
        "histogram boosting": (
            HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=3), FRAME, LABELS,
        ),
        "support vectors": (CalibratedClassifierCV(SVC(), cv=2), X, LABELS),
        "support vectors for numbers": (SVR(), X, TARGETS),
        "neighbours": (KNeighborsClassifier(3), X, LABELS),
        "neighbours by brute force": (
            RadiusNeighborsClassifier(50, algorithm="brute", outlier_label=0), X, LABELS,
        ),
        "columns": (make_pipeline(columns, LogisticRegression()), FRAME, LABELS),
        "clusters": (
            make_pipeline(KMeans(3, n_init=1, random_state=0), LogisticRegression()), X, LABELS,
        ),
        "network": (MLPClassifier((4,), max_iter=3, random_state=0), X, LABELS),
        "several": (
            VotingClassifier(
                [
                    ("process", GaussianProcessClassifier(random_state=0)),
                    ("adaptive", AdaBoostClassifier(n_estimators=2, random_state=0)),
                    ("search", search),
                ],
                voting="soft",
            ),
            X, LABELS,
        ),
    }  # fmt: skip
    for name, (model, rows, y) in models.items():
        content = dumps(model.fit(rows, y))
        yield f"skops {name}", Genuine(".skops", content, FRAME_ROWS if rows is FRAME else ROWS)


def boosting_files() -> Iterator[tuple[str, Genuine]]:
    import lightgbm
    import xgboost

    kinds: dict[str, tuple[dict[str, Any], Any, Any]] = {
        "binary": ({}, X, BINARY),
        "classes": ({}, X, LABELS),
        "categories": ({}, FRAME, BINARY),
        "DART": ({"booster": "dart"}, X, BINARY),
        "linear": ({"booster": "gblinear"}, X, LABELS),
    }
    for name, (options, rows, y) in kinds.items():
        model = xgboost.XGBClassifier(
            n_estimators=3, max_depth=3, n_jobs=1, enable_categorical=True, **options
        )
        booster = model.fit(rows, y).get_booster()
        for form in ("json", "ubj"):
            content = bytes(booster.save_raw(form))
            rows_to_fit = FRAME_ROWS if rows is FRAME else ROWS
            yield f"XGBoost {form} {name}", Genuine(f".{form}", content, rows_to_fit)
    options = {"verbosity": -1, "num_leaves": 6, "min_data_in_leaf": 5, "num_threads": 1}
    for name, (further, rows, y) in {
        "binary": ({"objective": "binary"}, X, BINARY),
        "classes": ({"objective": "multiclass", "num_class": 3}, X, LABELS),
        "categories": ({"objective": "binary"}, FRAME, BINARY),
        "linear": ({"objective": "regression", "linear_tree": True}, X, TARGETS),
        "forest": (
            {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1},
            X, BINARY,
        ),
    }.items():  # fmt: skip
        booster = lightgbm.train(options | further, lightgbm.Dataset(rows, y), 4)
        rows_to_fit = FRAME_ROWS if rows is FRAME else ROWS
        text = booster.model_to_string()
        yield f"LightGBM {name}", Genuine(".txt", text.encode(), rows_to_fit)


def catboost_files() -> Iterator[tuple[str, Genuine]]:
    import catboost

    options = {"iterations": 4, "depth": 3, "verbose": False, "allow_writing_files": False}
    frame = FRAME.assign(colour=FRAME["colour"].astype(str))
    for name, (further, rows, y) in {
        "classes": ({}, X, LABELS),
        "categories": ({"cat_features": ["colour"]}, frame, BINARY),
        "by leaf": ({"grow_policy": "Lossguide"}, X, LABELS),
    }.items():
        model = catboost.CatBoostClassifier(**options, **further, thread_count=1).fit(rows, y)
        with tempfile.TemporaryDirectory() as folder:
            model.save_model(f"{folder}/model.cbm")
            content = Path(folder, "model.cbm").read_bytes()
        rows_to_fit = frame.iloc[np.arange(len(ROWS)) % len(frame)] if rows is frame else ROWS
        yield f"CatBoost {name}", Genuine(".cbm", content, rows_to_fit)


def onnx_files() -> Iterator[tuple[str, Genuine]]:
    from skl2onnx import to_onnx
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVR

    single = X.astype(np.float32)
    for name, model, y in (
        ("forest", RandomForestClassifier(3, max_depth=3, random_state=0), LABELS),
        ("boosting", GradientBoostingClassifier(n_estimators=2), BINARY),
        ("pipeline", make_pipeline(StandardScaler(), LogisticRegression()), LABELS),
        ("neighbours", KNeighborsClassifier(3), BINARY),
        ("network", MLPClassifier((4,), max_iter=3, random_state=0), BINARY),
        ("support vectors", SVR(), TARGETS),
    ):
        content = to_onnx(model.fit(single, y), single[:1]).SerializeToString()
        yield f"ONNX {name}", Genuine(".onnx", content)


def torch_files() -> Iterator[tuple[str, Genuine]]:
    import torch

    for name, is_zip in (("archive", True), ("early", False)):
        buffer = io.BytesIO()
        torch.save(make_network().state_dict(), buffer, _use_new_zipfile_serialization=is_zip)
        parameters = {"object": f"{__name__}:make_network", "classes": [0, 1]}
        if __name__ == "__main__":
            parameters["object"] = "tests.fitted.mutated_files:make_network"
        yield f"torch {name}", Genuine(".pt", buffer.getvalue(), ROWS, parameters)


def repaired_files() -> Iterator[tuple[str, Genuine]]:
    """Yield files of kdgraph, which another user has signed."""
    from sklearn.ensemble import RandomForestClassifier

    from kdgraph.persistence import to_bytes
    from kdgraph.persistence.archive import sign
    from kdgraph.signing import SigningKey

    content = to_bytes(RandomForestClassifier(2, random_state=0).fit(X, LABELS))
    key = SigningKey(b"x" * 32, Path("other.key"))
    with patch("kdgraph.persistence.archive.current_key", return_value=key):
        yield "kdgraph forest", Genuine(".kdg", sign(content))


SOURCES = (
    skops_files,
    boosting_files,
    catboost_files,
    onnx_files,
    torch_files,
    repaired_files,
)


def genuine_files(*, few: bool) -> dict[str, Genuine]:
    """Return the files of all libraries that are installed, or two of each that starts quickly."""
    files: dict[str, Genuine] = {}
    for source in SOURCES:
        if few and source is catboost_files:
            continue
        with suppress(ImportError):
            files |= dict(islice(source(), 2 if few else None))
    return files


def flip_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    edited = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        edited[rng.integers(len(edited))] = rng.integers(256)
    return bytes(edited)


def set_number(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the content with an extreme number of four or eight bytes."""
    position = rng.integers(max(len(content) - 8, 1))
    size = int(rng.choice([4, 8]))
    number = int(rng.choice([0, 1, 255, 2**16, 2**31 - 1, 2**31])).to_bytes(8, "little")[:size]
    return content[:position] + number + content[position + size :]


def cut(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: rng.integers(len(content))]


def repeat(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the content with a part of it twice."""
    start, end = np.sort(rng.integers(len(content), size=2))
    return content[:end] + content[start:end] + content[end:]


def edit_lines(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a text with an edited number, or a removed, repeated, moved or divided line."""
    lines = content.decode().split("\n")
    for _ in range(rng.integers(1, 3)):
        position = rng.integers(len(lines))
        kind = rng.integers(7)
        if kind < 3:
            name, separator, value = lines[position].partition("=")
            words = value.split(" ")
            words[rng.integers(len(words))] = str(rng.choice(np.array(NUMBERS, dtype=object)))
            lines[position] = name + separator + " ".join(words)
        elif kind == 3:
            del lines[position]
        elif kind == 4:
            lines.insert(rng.integers(len(lines)), lines[position])
        elif kind == 5:
            lines[position] += rng.choice(list("\x0b\x0c\x1c\x85\u2028\r\0")) + lines[position]
        else:
            words = lines[position].split(" ")
            lines[position] = " ".join(words[: rng.integers(len(words)) + 1])
    return "\n".join(lines).encode()


def places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield container and key of every part of a document."""
    items = (
        node.items() if isinstance(node, dict)
        else enumerate(node) if isinstance(node, list)
        else ()
    )  # fmt: skip
    for key, item in items:
        yield node, key
        yield from places(item)


HOSTILE_NAMES = (
    ("os", "system"),
    ("subprocess", "Popen"),
    ("builtins", "exec"),
    ("kdgraph.fitted.parent", "FittedParent"),
    ("kdgraph.fitted.model_files", "_read_pickle"),
    ("sklearn.datasets._base", "load_files"),
    ("sklearn.tree._tree", "Tree"),
    ("sklearn.cluster._kmeans", "_kmeans_single_lloyd"),
    ("numpy", "load"),
    ("numpy", "sum"),
)


def edit_node(document: Any, rng: np.random.Generator) -> None:
    """Replace, remove, repeat, rename or exchange a part of a document."""
    positions = list(places(document))
    if not positions:
        return
    parent, key = positions[rng.integers(len(positions))]
    other_parent, other_key = positions[rng.integers(len(positions))]
    value = parent[key]
    kind = rng.integers(8)
    if kind < 2 or isinstance(value, int | float):
        parent[key] = NUMBERS[rng.integers(len(NUMBERS))]
    elif kind == 2:
        del parent[key]
    elif kind == 3 and isinstance(parent, list):
        parent.insert(key, value)
    elif kind == 4:
        parent[key] = json.loads(json.dumps(other_parent[other_key]))
    elif kind == 5 and isinstance(value, list):
        del value[rng.integers(len(value) + 1) :]
    elif kind == 6 and isinstance(value, dict) and "__module__" in value:
        value["__module__"], value["__class__"] = HOSTILE_NAMES[rng.integers(len(HOSTILE_NAMES))]
    elif isinstance(value, str):
        parent[key] = str(NUMBERS[rng.integers(len(NUMBERS))])
    else:
        parent[key] = [value]


def edit_json(content: bytes, rng: np.random.Generator) -> bytes:
    document = json.loads(content)
    for _ in range(rng.integers(1, 3)):
        edit_node(document, rng)
    return json.dumps(document).encode()


def edit_ubjson(content: bytes, rng: np.random.Generator) -> bytes:
    from kdgraph.persistence.ubjson import decode_ubjson, encode_ubjson

    document = decode_ubjson(content)
    positions = [
        (parent, key) for parent, key in places(document) if isinstance(parent[key], np.ndarray)
    ]
    parent, key = positions[rng.integers(len(positions))]
    array = parent[key].copy()
    if rng.random() < 0.3 or not len(array):
        array = array[: rng.integers(len(array) + 1)]
    else:
        with np.errstate(all="ignore"):
            number = np.array(NUMBERS[rng.integers(len(NUMBERS))])
            array[rng.integers(len(array))] = number.astype(array.dtype)
    parent[key] = array
    return encode_ubjson(document)


def edit_array(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a file ``.npy`` with another number, shape or type."""
    array = np.load(io.BytesIO(content)).copy()
    kind = rng.integers(4)
    if kind == 0 and array.ndim:
        array = array[: rng.integers(len(array) + 1)]
    elif kind == 1 and array.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            array = array.astype(rng.choice(["i4", "f4", "u1", "f8"]))
    elif kind == 2 and array.ndim > 1:
        array = np.ascontiguousarray(array[:, : rng.integers(array.shape[1] + 1)])
    elif array.size:
        name = rng.choice(array.dtype.names) if array.dtype.names else None
        target = array.reshape(-1) if name is None else array[name].reshape(-1)
        if target.dtype.kind in "biuf":
            with np.errstate(all="ignore"):
                number = np.array(NUMBERS[rng.integers(len(NUMBERS))])
                target[rng.integers(len(target))] = number.astype(target.dtype)
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def edit_members(content: bytes, rng: np.random.Generator) -> bytes:
    """Return an archive with one or two edited members, and a right checksum of each."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    names = list(members)
    for _ in range(rng.integers(1, 3)):
        name = names[rng.integers(len(names))] if rng.random() < 0.6 else names[-1]
        if name.endswith(".json"):
            members[name] = edit_json(members[name], rng)
        elif name.endswith(".npy"):
            members[name] = edit_array(members[name], rng)
        elif members[name]:
            members[name] = (flip_bytes, set_number, cut)[rng.integers(3)](members[name], rng)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return buffer.getvalue()


def edit_onnx(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a model with other numbers, shapes, operators or names of inputs."""
    import onnx

    model = onnx.load_model_from_string(content)
    nodes, tensors = list(model.graph.node), list(model.graph.initializer)
    for _ in range(rng.integers(1, 3)):
        node = nodes[rng.integers(len(nodes))]
        kind, limit = rng.integers(6), 2**31 - 1
        if kind < 3 and node.attribute:
            attribute = node.attribute[rng.integers(len(node.attribute))]
            values: Any = attribute.ints or attribute.floats
            if not values:
                attribute.i = int(rng.choice([-1, 0, limit]))
            elif kind == 0:
                del values[rng.integers(len(values)) :]
            else:
                number = rng.choice([-1, 0, 1, 7, 10**6, limit])
                position = rng.integers(len(values))
                values[position] = int(number) if attribute.ints else float(number)
        elif kind == 3 and tensors:
            tensor = tensors[rng.integers(len(tensors))]
            if tensor.dims:
                tensor.dims[rng.integers(len(tensor.dims))] = int(rng.choice([-1, 0, 1, limit]))
        elif kind == 4:
            node.op_type = nodes[rng.integers(len(nodes))].op_type
        elif node.input:
            other = nodes[rng.integers(len(nodes))]
            node.input[rng.integers(len(node.input))] = (other.output or node.input)[0]
    return model.SerializeToString()


ANY: tuple[Mutation, ...] = (flip_bytes, set_number, cut, repeat)
MUTATIONS: dict[str, tuple[Mutation, ...]] = {
    ".skops": (*ANY, *(edit_members,) * 8),
    ".json": (*ANY, *(edit_json,) * 8),
    ".ubj": (*ANY, *(edit_ubjson,) * 4),
    ".txt": (*ANY, *(edit_lines,) * 8),
    ".cbm": (flip_bytes, set_number, set_number, cut, repeat),
    ".onnx": (*ANY, *(edit_onnx,) * 6),
    ".pt": (*ANY, flip_bytes, set_number),
    ".kdg": (*ANY, edit_members),
}
# Files of formats that need no time of their own are tried more often than the others.
WEIGHTS = {
    ".skops": 3,
    ".json": 3,
    ".ubj": 2,
    ".txt": 4,
    ".cbm": 2,
    ".onnx": 3,
    ".pt": 4,
    ".kdg": 6,
}


def mutated(name: str, genuine: Genuine, seed: int) -> bytes:
    """Return the file with one mutation; torch archives keep their checksums right."""
    rng = np.random.default_rng([seed, *name.encode()])
    mutations = MUTATIONS[genuine.suffix]
    if name == "torch archive":
        mutations = (*mutations, *(edit_members,) * 6)
    return mutations[seed % len(mutations)](genuine.content, rng)


class Watch:
    """Audit hook that keeps a process from commands, sockets and files outside of its folder."""

    COMMANDS = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "os.spawn", "pty.spawn")
    CHANGES = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "shutil.rmtree", "os.chmod")

    def __init__(self, folder: Path) -> None:
        from kdgraph.persistence import catboost_trial

        self.folder = str(folder)
        self.trial = [sys.executable, "-P", catboost_trial.__file__]
        self.seen: list[tuple[Any, ...]] = []
        roots = (sys.prefix, sys.base_prefix, sys.exec_prefix, str(Path(__file__).parents[2]))
        libraries = [path for path in sys.path if path and Path(path).is_dir()]
        self.readable = (*roots, *libraries, "/proc", "/sys", "/dev", "/usr", "/lib", self.folder)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._is_forbidden(event, arguments):
            self.seen.append((event, *map(str, arguments[:2])))
            raise PermissionError(f"{event} {arguments[:2]}")

    def _is_forbidden(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event == "subprocess.Popen":
            return list(arguments[1]) != self.trial
        if event in (*self.COMMANDS, *self.CHANGES) or event.startswith("socket."):
            return not (event == "os.fork" or "__pycache__" in str(arguments[:1]))
        if event != "open" or not isinstance(arguments[0], str | bytes | os.PathLike):
            return False
        path = os.path.abspath(os.fsdecode(arguments[0]))
        mode, flags = arguments[1], arguments[2] or 0
        writes = any(sign in (mode or "") for sign in "wax+") or flags & (os.O_WRONLY | os.O_RDWR)
        if writes:
            return not (path.startswith((self.folder, "/dev/")) or "__pycache__" in path)
        return not path.startswith(self.readable)


def read_and_predict(path: Path, genuine: Genuine) -> str:
    """Return the outcome of reading a file, and of predicting the rows with its model."""
    from kdgraph.errors import KdgError
    from kdgraph.fitted import load_fitted

    try:
        parameters = {"classes": None} | genuine.parameters
        model = load_fitted(str(path), **parameters)
        proba = getattr(model, "predict_proba", None)
        (model.predict if proba is None else proba)(genuine.rows)
    except KdgError as error:
        return "refused" if str(error).isprintable() else "several lines"
    return "predicted"


OUTCOMES = (*GOOD, "several lines", "traceback", "broke out")


def outcome_of(genuine: Genuine, content: bytes, folder: Path, log: Any) -> str:
    """Return the outcome of a file in a forked process."""
    path = folder / f"model{genuine.suffix}"
    path.write_bytes(content)
    pid = os.fork()
    if not pid:
        _end_with_outcome(path, genuine, folder, log)
    deadline = time.monotonic() + MAX_SECONDS
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return "hung"
        time.sleep(0.002)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    code = os.WEXITSTATUS(status)
    return OUTCOMES[code] if code < len(OUTCOMES) else f"exit code {code}"


def _end_with_outcome(path: Path, genuine: Genuine, folder: Path, log: Any) -> None:
    """End this process with the number of its outcome."""
    import warnings

    outcome = "traceback"
    try:
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.chdir(folder)
        warnings.simplefilter("ignore")
        watch = Watch(folder)
        sys.addaudithook(watch)
        outcome = read_and_predict(path, genuine)
        if watch.seen:
            outcome = "broke out"
            log.write(f"{watch.seen}\n")
    except BaseException:  # noqa: BLE001
        traceback.print_exc(file=log)
    finally:
        log.flush()
        os._exit(OUTCOMES.index(outcome))


def outcomes(files: dict[str, Genuine], n_files: int, seed: int, folder: Path) -> dict[str, Any]:
    """Return the number of mutated files by format and outcome, and those with faults.

    The genuine files come first: all but that of another user predict.
    """
    weights = [WEIGHTS[genuine.suffix] for genuine in files.values()]
    turns = [name for name, weight in zip(files, weights, strict=True) for _ in range(weight)]
    counts: dict[str, Counter[str]] = {name.split(" ")[0]: Counter() for name in files}
    faults: list[Any] = []
    work = folder / "work"
    work.mkdir()
    with (folder / "log.txt").open("w") as log:
        for name, genuine in files.items():
            outcome = outcome_of(genuine, genuine.content, work, log)
            if outcome != ("refused" if genuine.suffix == ".kdg" else "predicted"):
                faults.append((name, "genuine", outcome))
        for number in range(seed, seed + n_files):
            # A step that has no common divisor with the number of turns comes to all of them.
            name = turns[(number * 7919) % len(turns)]
            outcome = outcome_of(files[name], mutated(name, files[name], number), work, log)
            counts[name.split(" ")[0]][outcome] += 1
            if outcome not in GOOD:
                faults.append((name, number, outcome))
    log_text = (folder / "log.txt").read_text()
    return {"counts": counts, "faults": faults, "log": log_text[-MAX_LOG:]}


def main() -> None:
    """Read mutated files, and print their outcomes.

    Arguments are the number of files, the first seed, "few", and formats, such as "skops".
    """
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    n_files, seed = (*numbers, *(200, 0)[len(numbers) :])[:2]
    # Libraries open files of their own when they are imported.
    for library in ("onnxruntime", "kdgraph.fitted.torch_models", "catboost"):
        with suppress(ImportError):
            import_module(library)
    formats = {word for word in sys.argv[1:] if not word.isdigit()} - {"few"}
    files = {
        name: genuine
        for name, genuine in genuine_files(few="few" in sys.argv).items()
        if not formats or name.split(" ")[0] in formats
    }
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(outcomes(files, n_files, seed, Path(folder))))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
