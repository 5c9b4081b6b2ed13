"""Compare the suite OpenML-CC18 (99) of openml.org with the data sets of conf/dataset/cc18.

Run it before a release, and when a set of the suite may have been replaced::

    .venv/bin/python scripts/refresh_cc18.py

It changes nothing: what is shipped is what results refer to. It prints what differs, with the
number to put into a file, and ends with exit code 1 if anything does. The suite is fetched each
time; openml-python caches no copy of it.
"""

from __future__ import annotations

import sys

from kdgraph.config import conf_dir
from kdgraph.config.catalogue import Catalogue
from kdgraph.data.openml.client import openml_session
from kdgraph.errors import KdgError

SUITE = 99


def main() -> int:
    """Compare and print one line for each difference."""
    ids = Catalogue([conf_dir()]).openml_ids()
    shipped = {id: name for name, id in ids.items() if name.startswith("cc18/")}
    try:
        with openml_session(f"suite {SUITE}") as openml:
            listed = set(openml.study.get_suite(SUITE).data)
    except KdgError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    for id in sorted(shipped.keys() - listed):
        print(f"{shipped[id]} (OpenML {id}) is no longer in the suite")
    for id in sorted(listed - shipped.keys()):
        rule = "is in the suite and has no file in conf/dataset/cc18"
        print(f"OpenML {id} {rule}: openml.org/d/{id}")
    differ = shipped.keys() != listed
    print(
        f"{len(shipped)} data sets are shipped, {len(listed)} are in suite {SUITE}:"
        f" {'they differ' if differ else 'the same ones'}"
    )
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
