"""Small image sets in the format of OpenML: one column for each pixel, and the label."""

from __future__ import annotations

import numpy as np
import pandas as pd


def slope_images(n: int, shape: tuple[int, int, int], seed: int = 0) -> np.ndarray:
    """Return UInt8[n, c, h, w]: smooth slopes of random steepness, different in each channel."""
    rng = np.random.default_rng(seed)
    c, h, w = shape
    down, across = rng.uniform(0, 1, (2, n, c, 1, 1))
    return np.rint(
        255 * (down * np.linspace(0, 1, h)[:, None] + across * np.linspace(0, 1, w)) / 2
    ).astype(np.uint8)


def flat_table(images: np.ndarray, labels: list, dtype: str = "uint8") -> pd.DataFrame:
    """Return a table with one column for each pixel, in array order, and the label as text."""
    table = pd.DataFrame(images.reshape(len(images), -1).astype(dtype))
    table.columns = [f"pixel{i + 1}" for i in range(table.shape[1])]
    return table.assign(**{"class": pd.Categorical(list(map(str, labels)))})
