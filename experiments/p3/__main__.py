"""Print every table of this folder's README except those of the theorems, from finished runs:
``python -m experiments.p3 outputs``.

With ``--figures FOLDER`` it draws Figures 3 to 7 too, from any subset of the runs; ``--only text
images`` is faster, since finding the runs of an experiment means composing it.
"""

from __future__ import annotations

from pathlib import Path

from experiments.common.command import in_one_line, study_options
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
    more = {"--figures": {"type": Path, "help": "where pictures go; without it none is drawn"}}
    options = study_options(__doc__, outputs=True, only=STUDIES, more=more, arguments=arguments)
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
            if any(r["method"] in figure3.METHODS for r in records if r not in moved):
                figure3.draw(options.outputs, options.figures)


if __name__ == "__main__":
    in_one_line(main)
