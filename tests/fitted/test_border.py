"""The contract of models from outside: what kdgraph predicts is what the library itself predicts.

Frames with columns of all types, gaps and unseen categories, whose columns come in another order
and among others, are written to csv and parquet files. On the way of a run, and as data frames, a
model predicts what its library predicts for the frame that pandas reads from the same file, or is
refused in one line. Where the library itself refuses the frame, so does kdgraph.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import kdgraph
from kdgraph.data.tables import TableFile
from kdgraph.data.text_format import exact_floats
from kdgraph.errors import DataError
from kdgraph.fitted import FittedParent, load_fitted
from tests.fitted.libraries import LIBRARIES, Library
from tests.typed_frames import typed_frame
from tests.variations import others_slow

N_ROWS = 60
Y = np.arange(N_ROWS) % 2
FRAMES_OF_A_MODEL = 5
ENDINGS = (".csv", ".parquet")
SINGLE = 1e-6


def read(path: Path) -> pd.DataFrame:
    if path.suffix == ".csv":
        return pd.read_csv(path, **exact_floats())
    return pd.read_parquet(path)


def write(frame: pd.DataFrame, path: Path) -> None:
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)


def new_rows(rng: np.random.Generator, kinds: list[str], known: pd.DataFrame) -> pd.DataFrame:
    """Return rows like those of the fit, in part of them, reordered and among other columns."""
    frame = typed_frame(kinds, N_ROWS, int(rng.integers(2**31)))
    if rng.random() < 0.5:  # else most categories are others
        for name in frame.columns:
            frame[name] = known[name].sample(N_ROWS, replace=True, random_state=1).to_numpy()
    order = rng.permutation(frame.columns) if rng.random() < 0.5 else frame.columns
    frame = frame[list(order)]
    return frame.assign(other=rng.normal(size=N_ROWS)) if rng.random() < 0.5 else frame


def of_run(library: Library, model: Path, path: Path) -> np.ndarray:
    """Return the probabilities of a model for the rows of a file, on the way of a run."""
    drop = ["other"] if "other" in read(path) else []
    data = TableFile(str(path), target="y", drop=drop).load()
    columns, labels = data.source_columns, data.classes.tolist()
    parent = FittedParent(
        str(model), data_columns=columns, data_labels=labels, **library.parameters()
    )
    return parent.load().predict_proba(data.X)


def of_frame(library: Library, model: Path, path: Path) -> np.ndarray:
    """Return the probabilities of a model for the frame that pandas reads."""
    frame = read(path).drop(columns="y")
    return load_fitted(str(model), **library.parameters()).predict_proba(frame)


def library_prediction(library: Library, path: Path) -> np.ndarray | None:
    """Return what the library itself predicts for the frame; None where it refuses it."""
    frame = read(path).drop(columns=["y", "other"], errors="ignore")
    try:
        return library.predict_proba(frame)
    except Exception:  # noqa: BLE001 - libraries refuse in their own ways
        return None


def compare(library: Library, model: Path, path: Path) -> dict[str, int]:
    """Assert that a model predicts the rows of a file as its library does; return counts."""
    expected, counts = library_prediction(library, path), {"equal": 0, "refused": 0}
    for way in (of_run, of_frame):
        try:
            proba = way(library, model, path)
        except DataError as error:
            assert "\n" not in str(error), error  # noqa: PT017
            counts["refused"] += 1
            continue
        assert expected is not None, f"{way.__name__}: {library.name} refuses this frame"
        # Probabilities in single precision are divided by their sum, which is not 1.
        atol = max(library.tolerance, SINGLE if expected.dtype == np.float32 else 0)
        np.testing.assert_allclose(proba, expected, rtol=0, atol=atol, err_msg=way.__name__)
        counts["equal"] += 1
    return counts


def fitted_file(library: Library, kinds: list[str], seed: int, path: Path) -> Path:
    """Return the file of a model of rows with columns of these kinds; they are read from a file."""
    write(typed_frame(kinds, N_ROWS, seed), path)
    try:
        return library.fit(read(path), Y, path.parent)
    except Exception:  # noqa: BLE001 - of columns that the library does not take
        reject()


def check_library(name: str, n_models: int, least_equal: float, tmp_path_factory) -> None:
    library = LIBRARIES[name]()
    library.require()
    totals = {"equal": 0, "refused": 0}
    every = [HealthCheck.too_slow, HealthCheck.filter_too_much]

    @given(
        kinds=st.lists(st.sampled_from(library.kinds), min_size=1, max_size=5),
        seed=st.integers(0, 2**31 - 1),
    )
    @settings(max_examples=n_models, deadline=None, suppress_health_check=every)
    def check(kinds: list[str], seed: int) -> None:
        folder, rng = tmp_path_factory.mktemp("border"), np.random.default_rng(seed)
        for k in range(FRAMES_OF_A_MODEL):
            path = folder / f"rows{ENDINGS[k % 2]}"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = fitted_file(library, kinds, seed, folder / f"fit{ENDINGS[k // 2 % 2]}")
                write(new_rows(rng, kinds, typed_frame(kinds, N_ROWS, seed)).assign(y=Y), path)
                counts = compare(library, model, path)
            for key, count in counts.items():
                totals[key] += count

    check()
    print(f"{name}: {totals}")
    # A reader that refuses everything would agree with every library.
    assert sum(totals.values()) >= 2 * n_models * FRAMES_OF_A_MODEL
    assert totals["equal"] > least_equal * sum(totals.values())


@pytest.mark.parametrize("name", others_slow(LIBRARIES, "lightgbm"))
def test_models_receive_files_and_frames_unchanged(name, tmp_path_factory):
    # Of so few models, one that takes no new category decides much.
    check_library(name, 20 // FRAMES_OF_A_MODEL, 0.0, tmp_path_factory)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", LIBRARIES)
def test_many_files_and_frames_reach_the_model(name, tmp_path_factory):
    check_library(name, 300 // FRAMES_OF_A_MODEL, 0.25, tmp_path_factory)


COLUMNS_OF_COMMANDS = {
    "catboost": ["age", "zip", "flag", "town"],
    "lightgbm": ["age", "zip", "flag", "job", "town"],
    "xgboost": ["age", "zip", "flag", "town"],
    "histogram boosting": ["age", "zip", "sure", "job"],
    "pipeline": ["age", "zip", "flag", "job", "town"],
    "pipeline of text": ["zip", "flag", "job", "sure"],
    "skops": ["age", "zip", "flag", "job"],
    "onnx": ["height", "zip", "town"],
    "torch": ["zip", "flag"],
}


def people(n: int) -> pd.DataFrame:
    """Return rows of all types, with gaps in some columns."""
    rng = np.random.default_rng(8)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(40, 9, n)),
            "height": rng.normal(170, 9, n),
            "zip": rng.integers(10, 15, n),
            "flag": rng.random(n) < 0.5,
            "sure": rng.choice(np.array([True, False, None], dtype=object), n),
            "job": rng.choice(np.array(["chef", "nurse", None], dtype=object), n),
            "town": pd.Categorical(rng.choice(["Ulm", "Bonn"], n), ["Ulm", "Bonn", "Kiel"]),
        }
    )


@pytest.mark.parametrize("name", others_slow(LIBRARIES, "catboost"))
@pytest.mark.parametrize("ending", others_slow(ENDINGS))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_commands_predict_as_the_library_does(name, ending, kdg):
    """``check``, ``repair`` and ``predict``, and the repaired model in Python."""
    library = LIBRARIES[name]()
    library.require()
    path = Path.cwd() / f"rows{ending}"
    rows = people(120)[COLUMNS_OF_COMMANDS[name]]
    write(rows[:N_ROWS], path)
    model = library.fit(read(path), Y, Path.cwd())
    write(rows[N_ROWS:].assign(y=Y)[["y", *rows.columns[::-1]]].reset_index(drop=True), path)
    expected = library_prediction(library, path)
    assert expected is not None
    pd.DataFrame(expected, columns=["0", "1"]).to_csv("expected.csv", index=False)
    shared = ["--model", str(model), "--data", str(path), "--target", "y"]
    parameters = {**library.parameters()}
    shared += ["--trust"] if parameters.pop("trust", False) else []
    shared += [f"parent.{key}={value}".replace(" ", "") for key, value in parameters.items()]
    quick = ["--methods", "temperature", "--folds", "2", "hydra.launcher.n_jobs=1"]
    code, printed, errors = kdg("check", *shared, *quick, "--expect", "expected.csv")
    assert code == 0, errors
    assert "The model was read as it is: all 60 rows have the probabilities of" in printed
    code, _, errors = kdg("repair", *shared, "--method", "none", "--output", "r.kdg")
    assert code == 0, errors
    code, _, errors = kdg("predict", "--model", "r.kdg", "--input", str(path), "--output", "p.csv")
    assert code == 0, errors
    columns = ["probability_0", "probability_1"]
    atol = max(library.tolerance, SINGLE if expected.dtype == np.float32 else 0)
    of_command = pd.read_csv("p.csv", **exact_floats())[columns]
    np.testing.assert_allclose(of_command, expected, rtol=0, atol=atol)
    in_python = kdgraph.load("r.kdg").predict_proba(read(path))
    np.testing.assert_allclose(in_python, expected, rtol=0, atol=atol)
