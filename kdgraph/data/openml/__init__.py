"""Tables of openml.org, fetched by openml-python and read from its cache."""

from kdgraph.data.openml.tables import Diamonds, OpenmlTable

__all__ = ["Diamonds", "OpenmlTable"]
