"""``python -m kdgraph`` is ``kdg``."""

import sys

from kdgraph.cli.main import main

sys.exit(main())
