"""The MNIST study of Salamon et al., Appendix: ``python -m experiments.p2.mnist --scale smoke`` in
the root of the repository.

It trains networks, calibrates ensembles of ten of them on test set 1, measures both test sets,
prints medians over the ensembles beside the paper's statements, and draws its figures. Existing
results are not made again, so that a run that was cut off goes on.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.common.claims import Claim, save_claims, verdicts
from experiments.common.command import in_one_line, study_options
from experiments.common.markdown import counted_noun
from experiments.common.pictures import save_picture
from experiments.common.titles import titles
from experiments.p2.mnist import figures
from experiments.p2.mnist.claims import claims, claims_on_fully_trained
from experiments.p2.mnist.ensembles import claims_on_ensembles
from experiments.p2.mnist.measure import measure, measured, members_of
from experiments.p2.mnist.pool import Combine, Pool, train
from experiments.p2.mnist.tables import by_class, overall

PAPER = Path(__file__).resolve().parents[1]
# Scale → recipe → numbers of networks and of ensembles of ten of them.
SCALES: dict[str, dict[str, tuple[int, int]]] = {
    "smoke": {"under_trained": (20, 20), "well_trained": (10, 1)},
    "workstation": {
        "under_trained": (200, 1000),
        "as_printed": (40, 100),
        "fully_trained": (10, 1),
    },
    "paper": {"under_trained": (1000, 1000), "as_printed": (1000, 1000), "fully_trained": (20, 20)},
}
TITLES = titles("p2", "mnist.__main__")["titles"]
# Recipes of one ensemble for that figure, without medians over ensembles.
FIGURE_16 = ("well_trained", "fully_trained")

# Recipes whose claims are saved, and the names of these.
SAVED_AS = {"under_trained": "p2_mnist", "fully_trained": "p2_mnist_fully_trained"}
CURVES = 20  # Ensembles whose bins and curves are compared, which takes seconds for each


def main() -> None:
    """Train, measure, print and draw at a scale."""
    arguments = _arguments()
    wanted = {
        name: sizes
        for name, sizes in SCALES[arguments.scale].items()
        if name in (arguments.recipes or TITLES)
    }
    details: dict[str, list[Claim]] = {}
    for recipe, (networks, ensembles) in wanted.items():
        folder = arguments.to / recipe
        _print_progress(
            train(folder, recipe, networks, threads=arguments.threads),
            -(-networks // 10),
            "blocks of ten networks",
        )
        pool = Pool.read(folder, networks)
        for combine in arguments.combine:
            _print_progress(
                measure(pool, ensembles, combine, n_jobs=arguments.n_jobs),
                ensembles // 20,
                "parts of twenty ensembles",
            )
            print(_text(pool, recipe, ensembles, combine))
            if recipe in SAVED_AS:
                tested = list(_claims_to_save(pool, recipe, ensembles, combine, arguments.scale))
                print("\n" + verdicts(tested))
                details.setdefault(SAVED_AS[recipe], []).extend(tested)
            _draw(pool, recipe, ensembles, combine, arguments.figures)
    if arguments.keep is not None:
        for name, tested in details.items():
            save_claims(tested, arguments.keep, name)


def _claims_to_save(
    pool: Pool, recipe: str, ensembles: int, combine: Combine, scale: str
) -> Iterator[Claim]:
    result, few = measured(pool, ensembles, combine), min(ensembles, CURVES)
    if recipe == "under_trained":
        details = [(ensembles, claims(result)), (few, claims_on_ensembles(pool, few, combine))]
    else:
        details = [(ensembles, claims_on_fully_trained(result, _saturated(pool, combine)))]
    for n, parts in details:
        rows = (
            f"{counted_noun([n], 'ensemble')} of {pool.size} networks, {combine.replace('_', ' ')}"
        )
        yield from (replace(each, text=f"{rows}: {each.text}", scale=scale) for each in parts)


def _saturated(pool: Pool, combine: Combine) -> float:
    joint_proba = pool.ensemble(members_of(0, pool.size), combine)
    return float(np.mean(joint_proba["1"].max(axis=1) > 0.99))


def _text(pool: Pool, recipe: str, ensembles: int, combine: Combine) -> str:
    result = measured(pool, ensembles, combine)
    single = {
        name: (predicted.argmax(axis=2) == pool.labels[name]).mean(axis=1)
        for name, predicted in pool.log_proba.items()
    }
    lines = [
        f"\n## {recipe}, {combine}: {TITLES[recipe]}\n",
        f"{pool.size} networks, {np.median(single['1']):.2%} of test set 1 right and"
        f" {np.median(single['2']):.2%} of test set 2 (medians); {ensembles} ensembles of ten; of"
        f" the first one {_saturated(pool, combine):.0%} of the scores exceed .99.\n",
        overall(result),
        "\nMedians over ensembles (half of them lie in the brackets).\n",
        "NLL by predicted class, medians on test sets 1 / 2:\n",
        by_class(result, "NLL"),
        "\nECE1 by predicted class:\n",
        by_class(result, "ECE1"),
        "\nECE2 by predicted class:\n",
        by_class(result, "ECE2"),
    ]
    if recipe not in {*FIGURE_16, *SAVED_AS}:
        lines += ["", verdicts(claims(result))]
    return "\n".join(lines)


def _draw(pool: Pool, recipe: str, ensembles: int, combine: Combine, folder: Path) -> None:
    if recipe in FIGURE_16:
        drawn = list(figures.fully_trained_figures(pool, combine))
    else:
        drawn = [
            *figures.ensemble_figures(pool, combine),
            *figures.median_figures(measured(pool, ensembles, combine)),
        ]
    for name, draw in drawn:
        save_picture(draw(), folder / f"{name}_{recipe}_{combine}", PAPER)


def _print_progress(lines: Iterator[str], n: int, what: str) -> None:
    """Print each line to stderr as it comes, with its share of the whole and the mean time."""
    start = time.monotonic()
    for done, text in enumerate(lines, 1):
        each = f"{(time.monotonic() - start) / done:.0f} s each"
        line = f"{text}  ({done} of at most {n} {what}, {each})"
        print(line, file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    to, ways = Path("outputs/p2_mnist"), ["sum_logs", "mean"]
    score, stored = "what an ensemble's score is", "where networks and measurements are kept"
    more: dict[str, dict[str, Any]] = {
        "--recipes": {"nargs": "*", "choices": list(TITLES), "help": "these of the scale's"},
        "--combine": {"nargs": "*", "choices": ways, "default": ways, "help": score},
        "--to": {"type": Path, "default": to, "help": stored},
        "--threads": {"type": int, "default": 1, "help": "of torch in training"},
        "--n-jobs": {"type": int, "default": 1, "help": "ensembles measured side by side"},
    }
    return study_options(__doc__, keep=True, pictures=f"{to}/figures", scales=SCALES, more=more)


if __name__ == "__main__":
    in_one_line(main)
