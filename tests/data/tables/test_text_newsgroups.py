from __future__ import annotations

import re
from urllib.error import URLError

import numpy as np
import pytest
from sklearn import datasets
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.utils import Bunch

from kdgraph.data.dataset import TEST, TRAIN
from kdgraph.data.openml.client import offline
from kdgraph.data.tables import Newsgroups
from kdgraph.errors import DataNotAvailable

TEXTS = ["Buy cheap watches", "See you at noon", "Cheap, cheap watches!", "Noon is fine"]


def fake_fetch_20newsgroups(subset, remove, shuffle, download_if_missing=True, **_):
    assert remove == ("headers", "footers", "quotes") and not shuffle
    first = 0 if subset == "train" else 2
    return Bunch(
        data=TEXTS[first : first + 2], target=np.array([1, 0]), target_names=["alt.ham", "alt.spam"]
    )


def test_newsgroups_have_their_official_split(monkeypatch):
    monkeypatch.setattr(datasets, "fetch_20newsgroups", fake_fetch_20newsgroups)
    data = Newsgroups(n_features=16).load()
    assert data.roles is not None and data.roles.tolist() == [TRAIN, TRAIN, TEST, TEST]
    assert data.classes[data.y].tolist() == ["alt.spam", "alt.ham"] * 2
    np.testing.assert_array_equal(
        data.X, HashingVectorizer(n_features=16).transform(TEXTS).toarray()
    )


def test_newsgroups_without_a_network_are_not_available(monkeypatch):
    def fail(download_if_missing=True, **_):
        raise (
            URLError("no route")
            if download_if_missing
            else OSError("20Newsgroups dataset not found")
        )

    monkeypatch.setattr(datasets, "fetch_20newsgroups", fail)
    messages = []
    reason = (
        "newsgroups is not on this machine, and it cannot be fetched (<urlopen error no route>)"
    )
    message = f"{reason}; fetch it where there is one, and set SCIKIT_LEARN_DATA to the folder"
    for method in (lambda: Newsgroups().prefetch(messages.append), Newsgroups().load):
        with pytest.raises(DataNotAvailable, match=f"^{re.escape(message)}$"):
            method()
    assert messages == ["fetching 20 newsgroups, 14 MB"]
    with (
        offline(),
        pytest.raises(
            DataNotAvailable, match=r"^newsgroups is not on this machine; a run fetches it, 14 MB$"
        ),
    ):
        Newsgroups().prefetch()
