"""Sets of images: how pixels become arrays, and how images of one set take the shape of
another's.
"""

from kdgraph.data.images.image_files import ImageFiles
from kdgraph.data.images.openml_images import OpenmlImages

__all__ = ["ImageFiles", "OpenmlImages"]
