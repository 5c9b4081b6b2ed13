"""How far a predicted posterior is from the true one, where the truth is known (simulations)."""

from __future__ import annotations

import numpy as np

from kdgraph.metrics.registry import mean_over_rows


@mean_over_rows("Hellinger", better="lower")
def hellinger(proba: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Mean over rows of the Hellinger distance ``||√proba_i - √truth_i||₂ / √2``, in [0, 1]; 0 only for equal rows.

    It is an average over where the rows are: on test rows over the data's own distribution, on a grid over the area.

    Parameters
    ----------
    proba : Float[n, K].
    truth : Float[n, K], the true posterior P(y|x) at the same rows.

    References
    ----------
    Dey et al., "Deep discriminative to kernel density graph", Section 5.1.1 and Figure 1.

    Examples
    --------
    >>> hellinger([[1.0, 0.0]], truth=[[0.0, 1.0]])
    1.0
    """
    return np.linalg.norm(np.sqrt(proba) - np.sqrt(truth), axis=1) / np.sqrt(2)
