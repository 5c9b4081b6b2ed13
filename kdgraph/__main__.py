"""``python -m kdgraph`` is ``kdg``."""

import sys

from kdgraph.cli import main

sys.exit(main())
