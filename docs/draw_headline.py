"""Draw the picture of headline numbers, ``docs/assets/headline.svg``, from ``docs/headline.csv``.

::

    python docs/draw_headline.py

The file holds means over seeds, or over tables of means over seeds, with the command that made
them; nothing is fitted here.
"""

from __future__ import annotations

import csv
from pathlib import Path

from matplotlib.figure import Figure

from kdgraph.figures.style import (
    BLUE,
    FULL_WIDTH,
    GREEN,
    GREY,
    LABEL_SIZE,
    NOTE_SIZE,
    VERMILLION,
    add_axes,
    new_figure,
    save_figure,
    style_context,
)

DOCS = Path(__file__).parent
TABLES, DIGITS = "53 tables of OpenML", "digits, three classes left out"
PRIOR = 0.145
"""Mean largest class prior of the digits, over the ten seeds."""
SETS = {
    "test": "test rows",
    "near": "classes left out",
    "permuted": "columns permuted",
    "shifted": "shifted by 1 sd",
    "other": "another table",
    "noise": "noise",
}
MODELS = {
    "random forest, all rows": ("random forest", GREY, "s", True),
    "temperature, out of bag": ("temperature, OOB", VERMILLION, "^", True),
    "kdf": ("KDF", BLUE, "o", True),
    "gated_kdf": ("gated KDF", GREEN, "D", False),
}
LABELS = {  # where a label stands: points to the right and up
    "random forest": ("random forest", 6, -3),
    "scikit-learn, sigmoid": ("sigmoid*", 6, -3),
    "scikit-learn, isotonic": ("isotonic*", 6, -3),
    "scikit-learn, temperature": ("temperature*", -8, 7),
    "temperature, out of bag": ("temperature, out of bag (OOB)", 2, -12),
    "KDF": ("KDF (default)", 7, 2),
}
IN_BOTH = {"KDF": "kdf", "temperature, out of bag": "temperature, out of bag"}
"""Methods of the tables → the same on the digits, drawn alike."""


def values(study: str) -> dict[tuple[str, str, str], tuple[float, float]]:
    """Return mean and standard deviation (0 where none is stored) by method, rows and metric."""
    with (DOCS / "headline.csv").open(newline="", encoding="utf-8") as file:
        return {
            (row["method"], row["rows"], row["metric"]): (
                float(row["value"]),
                float(row["sd"] or 0),
            )
            for row in csv.DictReader(file)
            if row["study"] == study
        }


def headline() -> Figure:
    """Return two panels: both properties on many tables, and confidence from near to far."""
    with style_context():
        figure = new_figure(FULL_WIDTH, 2.75)
        axes = add_axes(figure, 0.55, 0.45, 2.3, 1.85)
        table = values(TABLES)
        for method, (label, right, up) in LABELS.items():
            x, y = table[method, "test", "NLL"][0], table[method, "radius 2", "OCE"][0]
            _, color, marker, _ = MODELS.get(IN_BOTH.get(method, ""), ("", GREY, "s", True))
            axes.plot(x, y, marker, color=color, clip_on=False)
            axes.annotate(
                label,
                (x, y),
                (right, up),
                textcoords="offset points",
                size=LABEL_SIZE,
                color="black" if color == GREY else color,
            )
        axes.set(xlim=(0.27, 0.43), ylim=(-0.01, 0.3), xticks=[0.28, 0.32, 0.36, 0.4])
        axes.set_xlabel("NLL of test rows, nats")
        axes.set_ylabel("mean |confidence − prior| at radius 2")
        figure.text(0.08, 0.94, "53 tables of OpenML: lower left is better", size=LABEL_SIZE)

        axes = add_axes(figure, 4.1, 0.45, 2.75, 1.85)
        table = values(DIGITS)
        for position, (name, label) in enumerate(SETS.items()):
            for shift, (method, (_, color, marker, filled)) in enumerate(MODELS.items()):
                mean, sd = table[method, name, "confidence"]
                axes.errorbar(
                    mean,
                    -position - 0.16 * (shift - 1.5),
                    xerr=sd,
                    fmt=marker,
                    color=color,
                    markerfacecolor=color if filled else "white",
                    markersize=3.5,
                    elinewidth=0.8,
                    label=MODELS[method][0] if position == 0 else None,
                )
            axes.text(-0.03, -position, label, ha="right", va="center", size=LABEL_SIZE)
        axes.axvline(PRIOR, color="black", linewidth=0.8, linestyle=(0, (3, 2)))
        axes.text(PRIOR + 0.015, 0.68, "prior", size=NOTE_SIZE, va="center")
        axes.set(xlim=(0, 1), ylim=(-5.6, 0.95), yticks=[])
        accuracy = 1 - sum(table[method, "test", "error"][0] for method in MODELS) / len(MODELS)
        axes.plot(accuracy, 0.68, "v", color="black", markersize=3)
        axes.text(accuracy - 0.025, 0.68, "accuracy", size=NOTE_SIZE, ha="right", va="center")
        axes.set_xlabel("mean confidence ± sd over 10 seeds")
        figure.text(0.465, 0.94, "Digits without three classes, and OOD rows", size=LABEL_SIZE)
        figure.legend(
            *axes.get_legend_handles_labels(),
            loc="upper left",
            bbox_to_anchor=(0.46, 0.925),
            ncols=4,
            fontsize=NOTE_SIZE,
            handletextpad=0.1,
            columnspacing=0.9,
            frameon=False,
        )
        figure.text(0.08, 0.015, "* CalibratedClassifierCV of scikit-learn", size=NOTE_SIZE)
    return figure


def main() -> None:
    """Draw the picture."""
    save_figure(
        headline(),
        DOCS / "assets" / "headline",
        ("svg",),
        title="Headline numbers",
        description="NLL against confidence far away on 53 tables; confidence from near to far on"
        " digits",
    )


if __name__ == "__main__":
    main()
