"""Execute the notebooks of docs/notebooks and store what they print and draw.

Run it after a change to a notebook, or to what one of them uses::

    make notebooks
    .venv/bin/python scripts/run_notebooks.py docs/notebooks/lightgbm_adult.ipynb

The data come from openml.org, or from the cache that OPENML_CACHE_DIR names. A notebook in which a
cell raises stays as it was.
"""

from __future__ import annotations

import copy
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
TIMEOUT = 600
"""Seconds that a cell may take."""


def main(arguments: list[str]) -> int:
    """Execute the given notebooks, or all of them."""
    for path in [Path(name) for name in arguments] or sorted(FOLDER.glob("*.ipynb")):
        nbformat.write(execute(nbformat.read(path, as_version=4)), path)
        print(path)
    return 0


def execute(notebook: nbformat.NotebookNode, appended: str = "") -> nbformat.NotebookNode:
    """Return the notebook with the outputs of a new kernel, which works in an empty folder.

    Parameters
    ----------
    notebook : NotebookNode
        Notebook; its own outputs are not changed.
    appended : str, default=""
        Code of one more cell at the end, such as assertions, which the returned notebook lacks.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        If a cell raises.
    """
    executed = copy.deepcopy(notebook)
    if appended:
        executed.cells.append(nbformat.v4.new_code_cell(appended))
    with TemporaryDirectory() as folder:
        # Sockets are files, since two kernels that start at once may choose the same port.
        sockets = {"transport": "ipc", "ip": str(Path(folder) / "kernel")}
        NotebookClient(
            executed,
            kernel_name="python3",
            timeout=TIMEOUT,
            resources={"metadata": {"path": folder}},
            record_timing=False,
            coalesce_streams=True,
            config=Config(KernelManager=sockets),
        ).execute(env=os.environ | {"IPYTHONDIR": folder})  # without settings of the user
    executed.cells = executed.cells[: len(notebook.cells)]
    # What differs between machines, such as the version of Python, is not stored.
    executed.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    return executed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
