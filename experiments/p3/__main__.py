"""Print every table of this folder's README except those of the theorems, from finished runs:
``python -m experiments.p3 outputs``.

With ``--figures FOLDER`` it draws Figures 3 to 7 too, from any subset of the runs; ``--only text
images`` is faster, since finding the runs of an experiment means composing it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.common.command import in_one_line
from experiments.p3 import (
    contamination,
    figure3,
    figure5,
    images,
    simulated,
    size_labels,
    tabular,
    text,
)

STUDIES = {
    "tabular": tabular,
    "simulated": simulated,
    "size_labels": size_labels,
    "text": text,
    "images": images,
    "contamination": contamination,
}


def main(arguments: list[str] | None = None) -> None:
    """Print the tables of the runs below a folder, and draw."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.p3",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "outputs", type=Path, nargs="?", default=Path("outputs"), help="where the runs are"
    )
    parser.add_argument("--figures", type=Path, help="where pictures go; without it none is drawn")
    parser.add_argument(
        "--only", nargs="+", choices=STUDIES, default=list(STUDIES), help="these studies"
    )
    options = parser.parse_args(arguments)
    for name in options.only:
        module = STUDIES[name]
        records = module.read(options.outputs)
        print(f"{module.compare_with_published(records)}\n", flush=True)
        if options.figures is not None and hasattr(module, "draw"):
            module.draw(records, options.figures)
        if options.figures is not None and module is images:
            moved = [record for record in records if len(figure5.aurocs([record]))]
            if moved:
                figure5.draw(options.outputs, options.figures)
            if any(
                record["method"] in figure3.METHODS for record in records if record not in moved
            ):
                figure3.draw(options.outputs, options.figures)


if __name__ == "__main__":
    in_one_line(main)
