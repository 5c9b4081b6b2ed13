"""Public data through one client, openml-python: tables by number, their cache, and what is said
when they cannot be had.
"""

from kdgraph.data.openml.tables import Diamonds, OpenmlTable

__all__ = ["Diamonds", "OpenmlTable"]
