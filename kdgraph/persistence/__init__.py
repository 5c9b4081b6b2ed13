"""Fitted models in files of arrays and JSON; nothing is unpickled.

Loading a model can nevertheless run code that its writer chose, because the state of an estimator
determines what its methods do. So a file contains a digest with the key of its writer, and
:func:`load` refuses the file of another user or machine unless it is trusted (``trust=True``). See
:mod:`kdgraph.persistence.archive` for the key, and for how a group shares one.

>>> from tempfile import TemporaryDirectory
>>> from sklearn.datasets import load_iris
>>> from sklearn.ensemble import RandomForestClassifier
>>> from kdgraph.persistence import load, save
>>> forest = RandomForestClassifier(10, random_state=0).fit(*load_iris(return_X_y=True))
>>> with TemporaryDirectory() as folder:
...     save(forest, f"{folder}/forest.kdg")
...     loaded = load(f"{folder}/forest.kdg")
>>> loaded.predict([[5.1, 3.5, 1.4, 0.2]])
array([0])
"""

from kdgraph.persistence.archive import (
    DamagedFileError,
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
from kdgraph.signing import KeyFileError

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
