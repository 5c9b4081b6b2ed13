"""Settings of the presets beside those that Dey et al. print."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from experiments.common.settings import printed_settings


def settings() -> pd.DataFrame:
    """Return a row for each setting with the keys of ``published.csv``, with one value."""
    frame = pd.DataFrame(printed_settings(Path(__file__).parent))
    return frame.assign(ood=None, n_train=None, radius=None, seed=0, variant="")
