"""Settings of the presets beside those that Salamon et al. print of MNIST."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from experiments.common.settings import printed_settings


def settings(networks: int, ensembles: int) -> pd.DataFrame:
    """Return the settings of the presets with the keys of ``published.csv``, and given sizes."""
    sizes = [
        ("Appendix, Ensemble Sampling", "networks", networks),
        ("Appendix, MNIST results", "ensembles", ensembles),
    ]
    counts = pd.DataFrame(sizes, columns=["item", "metric", "value"]).assign(dataset="mnist")
    result = pd.concat([pd.DataFrame(printed_settings(Path(__file__).parent)), counts])
    return result.assign(true_class=None, predicted_class=None, seed=0, variant="")


def settings_of_workstation() -> pd.DataFrame:
    """Return the settings at scale workstation, where ten networks of a seed are an ensemble."""
    return settings(20, 2)


def settings_of_paper() -> pd.DataFrame:
    """Return the settings at scale paper."""
    return settings(1000, 100)
