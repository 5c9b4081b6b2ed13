"""Fitted models in files that run no code when they are read: arrays and JSON.

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

from kdgraph.persistence.errors import CannotLoad, CannotSave, Damaged, Untrusted
from kdgraph.persistence.model_file import Loaded, load, read, save, to_bytes

__all__ = ["CannotLoad", "CannotSave", "Damaged", "Loaded", "Untrusted", "load", "read", "save", "to_bytes"]
