"""Image data sets, of files and of openml.org.

The package reads pixels as arrays and brings images of one set into the shape of another.
"""

from kdgraph.data.images.image_files import ImageFiles
from kdgraph.data.images.openml_images import OpenmlImages

__all__ = ["ImageFiles", "OpenmlImages"]
