"""Twenty newsgroups, which scikit-learn fetches."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from kdgraph.data.dataset import TEST, TRAIN, Dataset
from kdgraph.data.tables.words import HashCount, hash_names, hashed
from kdgraph.errors import NotAtHand
from kdgraph.parameters import check_parameters


class Newsgroups:
    """Twenty newsgroups, split by date as its authors do: 11,314 posts that train and 7,532 that test, of 20 classes.

    Headers, footers and quotes are removed: they give the group away. scikit-learn fetches the posts once (14 MB) into the folder
    ``scikit_learn_data`` of the user, or that of the environment variable SCIKIT_LEARN_DATA.

    Parameters
    ----------
    n_features : columns that words are hashed into.
    """

    name = "newsgroups"

    def __init__(self, n_features: HashCount = 512) -> None:
        self.n_features = n_features
        check_parameters(self)

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Fetch the posts unless they are there.

        Raises
        ------
        NotAtHand
            If they are not, and cannot be fetched.
        """
        _posts("test", progress)

    def load(self) -> Dataset:
        """All posts."""
        train, test = _posts("train"), _posts("test")
        X = hashed([*train.data, *test.data], self.n_features)
        y = np.concatenate([train.target, test.target]).astype(np.int64)
        roles = np.repeat(np.array([TRAIN, TEST], dtype=np.int8), [len(train.data), len(test.data)])
        facts = {"source": "scikit-learn", "loader": "fetch_20newsgroups", "removed": "headers, footers, quotes"}
        classes = np.array(train.target_names)
        return Dataset(self.name, X, y, classes, hash_names(self.n_features), roles=roles, facts=facts)


def _posts(subset: str, progress: Callable[[str], None] | None = None) -> Any:
    """One part of the posts, a Bunch of scikit-learn."""
    from sklearn.datasets import fetch_20newsgroups

    from kdgraph.data.openml.client import Network

    options = {"subset": subset, "remove": ("headers", "footers", "quotes"), "shuffle": False}
    try:
        return fetch_20newsgroups(**options, download_if_missing=False)
    except OSError as error:
        if not Network.allowed:
            raise NotAtHand("newsgroups is not on this machine; a run fetches it, 14 MB") from error
        if progress:
            progress("fetching 20 newsgroups, 14 MB")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of scikit-learn, before it tries again
            return fetch_20newsgroups(**options, n_retries=1, delay=0.5)
    except OSError as error:
        way_out = "fetch it where there is one, and set SCIKIT_LEARN_DATA to the folder"
        raise NotAtHand(f"newsgroups is not on this machine, and no network gave it ({error}); {way_out}") from error
