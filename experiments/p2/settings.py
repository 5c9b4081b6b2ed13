"""Settings of the presets beside those that Salamon et al. print of MNIST and PhANNs."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from experiments.common.settings import first_config, setting_of

N_MNIST = 60_000  # Official training rows, of which test set 1 is taken
_MNIST = ("experiment=paper/p2/mnist", "calibrator=none", "parent.learning_rate=0.001")
_EPOCHS = {"under-trained": (), "fully trained": ("parent.max_epochs=200",)}
_TRAINING = "Appendix, Network training"
_DATA = "Appendix, MNIST dataset preparation"


def settings(networks: int, ensembles: int) -> pd.DataFrame:
    """Return the settings of the presets with the keys of ``published.csv``, and given sizes."""
    rows = [
        *_of_networks(),
        ("Appendix, Ensemble Sampling", "networks", None, networks),
        ("Appendix, MNIST results", "ensembles", None, ensembles),
    ]
    result = pd.DataFrame(rows, columns=["item", "metric", "method", "value"])
    return result.assign(dataset="mnist", true_class=None, predicted_class=None, seed=0, variant="")


def settings_of_workstation() -> pd.DataFrame:
    """Return the settings at scale workstation, where ten networks of a seed are an ensemble."""
    return settings(20, 2)


def settings_of_paper() -> pd.DataFrame:
    """Return the settings at scale paper."""
    return settings(1000, 100)


def _of_networks() -> Iterator[tuple[str, str, str | None, float]]:
    config = first_config(*_MNIST)
    test_set_1 = config.dataset["n_calibration"]
    yield _DATA, "training rows", None, N_MNIST - test_set_1
    yield _DATA, "rows of test set 1", None, test_set_1
    yield _DATA, "side of an image in pixels", None, config.dataset["shape"][-1]
    for item in ("Section II", "Appendix, Ensemble Sampling"):
        metric = "networks in the ensemble" if item == "Section II" else "members of an ensemble"
        yield item, metric, None, config.parent["members"]
    yield "Section II", "training rows", None, N_MNIST - test_set_1
    yield _TRAINING, "rows of a batch", None, config.parent["batch_size"]
    yield _TRAINING, "units of the first layer", None, setting_of("parent", "hidden", 0)(config)
    yield _TRAINING, "units of the second layer", None, setting_of("parent", "hidden", 1)(config)
    yield _TRAINING, "learning rate", None, config.parent["learning_rate"]
    for recipe, words in _EPOCHS.items():
        parent = first_config(*_MNIST, *words).parent
        steps = parent["max_epochs"] * (N_MNIST - test_set_1) / parent["batch_size"]
        yield _TRAINING, "steps", recipe, steps
