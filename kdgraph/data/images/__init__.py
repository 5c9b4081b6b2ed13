"""Sets of images: how pixels become arrays, and how images of one set take the shape of another's."""

from kdgraph.data.images.openml_images import OpenmlImages

__all__ = ["OpenmlImages"]
