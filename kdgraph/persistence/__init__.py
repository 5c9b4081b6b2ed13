"""Fitted models in files of arrays and JSON; nothing is unpickled.

Reading a model can run code of its maker's choosing all the same, as estimators are programs that
do what their state makes them do. So a file carries a digest of its maker's key, and :func:`load`
refuses one that another user or another machine has made unless it is trusted (``trust=True``). See
:mod:`kdgraph.persistence.archive` for the key, and for how a group shares one.

>>> from tempfile import TemporaryDirectory
>>> from sklearn.datasets import load_iris
>>> from sklearn.ensemble import RandomForestClassifier
>>> from kdgraph.persistence import load, save
>>> forest = RandomForestClassifier(10, random_state=0).fit(*load_iris(return_X_y=True))
>>> with TemporaryDirectory() as folder:
...     save(forest, f"{folder}/forest.kdg")
...     again = load(f"{folder}/forest.kdg")
>>> again.predict([[5.1, 3.5, 1.4, 0.2]])
array([0])
"""

from kdgraph.persistence.archive import (
    DamagedFileError,
    KeyFileError,
    LoadError,
    SaveError,
    UntrustedFileError,
)
from kdgraph.persistence.model_file import (
    LoadedModel,
    from_bytes,
    key_problem_message,
    load,
    save,
    to_bytes,
)

__all__ = [
    "DamagedFileError",
    "KeyFileError",
    "LoadError",
    "LoadedModel",
    "SaveError",
    "UntrustedFileError",
    "from_bytes",
    "key_problem_message",
    "load",
    "save",
    "to_bytes",
]
