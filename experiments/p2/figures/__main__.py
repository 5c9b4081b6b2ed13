"""Draw what can be drawn of the figures of Salamon et al. on PhANNs, from finished runs, and print
their claims with pass or FAIL.

``python -m experiments.p2.figures outputs`` after the experiments ``paper/p2/phanns`` and
``paper/p2/phanns_scores`` and ``paper/p2/phanns_rebuilt``, which have the figures whose names end
in ``_scores`` and ``_rebuilt``. ``--only figure9`` draws one; ``--spread 5`` tests the claims 5
times more, with the scores anywhere in their bins, ``--halves 5`` of rows that were not fitted;
``--record wideresnet-16-4-cifar-10.npz`` draws Figure 6, which needs scores of classes that were
not predicted, from another data set.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from experiments.common.claims import save_claims, verdicts
from experiments.common.command import study_options
from experiments.common.pictures import save_and_report
from experiments.common.titles import titles
from experiments.p2 import phanns_scores
from experiments.p2.figures import bars, curves, densities, joint, schematics
from experiments.p2.figures.claims import (
    claims,
    claims_on_added_rows,
    claims_on_new_rows,
    claims_on_studies,
    held_out,
    with_spread_scores,
)
from experiments.p2.figures.study import LABELS, SCORE_LABELS, Study, study_of
from kdgraph.data.tables import ScoreFile

PAPER = Path(__file__).resolve().parents[1]
_save = partial(save_and_report, paper=PAPER)
# Figures that need runs alone, and their calibrators; 6 and 15 need more, and 2 needs none.
DRAWN = {
    "figure1": (joint.figure1, ("none",)),
    "figure3": (schematics.figure3, ("none",)),
    "figure5": (densities.figure5, ("kde",)),
    "figure7": (curves.figure7, ("kde",)),
    "figure8": (curves.figure8, ("cum", "cum_plus", "cum_star", "kde")),
    "figure9": (curves.figure9, ("cum_star", "kde")),
    "figure13": (curves.figure13, ("kde_b_opt", "kde")),
    "figure14a": (curves.figure14, ("kde_b_mon", "kde")),
    "figure17": (bars.figure17, tuple(LABELS)),
}
WITH_SCORES = {  # The same for the runs of proteins with all scores
    "figure1_scores": (joint.figure1_scores, ("none",)),
    "figure7_scores": (curves.figure7_scores, ("tswa", "kde")),
    "figure10_scores": (curves.figure10_scores, ("sts",)),
    "figure11_scores": (curves.figure11_scores, ("csts",)),
    "figure12_scores": (curves.figure12_scores, ("tswa",)),
    "figure17_scores": (
        lambda study: bars.figure17(study, list(SCORE_LABELS), curves.with_scores(study)),
        tuple(SCORE_LABELS),
    ),
}
REBUILT = {  # The same with class Other rebuilt from counts
    n.replace("scores", "rebuilt"): made for n, made in WITH_SCORES.items() if n != "figure1_scores"
}
# Figures by experiment.
OF_SCORES = {phanns_scores.EXPERIMENT: WITH_SCORES, phanns_scores.REBUILT: REBUILT}
NO_RUNS = {"figure2", "figure6", *WITH_SCORES, *REBUILT}
NO_FIGURE_6 = titles("p2", "figures.__main__")["no_figure_6"]


def main() -> None:
    """Print and draw all that the runs allow."""
    options = _arguments()
    wanted = options.only
    study = (
        study_of(options.outputs, tuple(options.free)) if not NO_RUNS.issuperset(wanted) else None
    )
    for experiment, drawn in OF_SCORES.items():
        if subset := [name for name in wanted if name in drawn]:
            _of_scores(
                study_of(options.outputs, tuple(options.free), experiment), subset, options.to
            )
    for name in (name for name in wanted if name not in WITH_SCORES | REBUILT):
        start = time.monotonic()
        if name == "figure6":
            _figure6(options)
        elif name == "figure2":
            _save(schematics.figure2(), options.to / name)
        elif study is not None and not _missing(study, name):
            (
                _figure15(study, options.to)
                if name == "figure15"
                else _save(DRAWN[name][0](study), options.to / name)
            )
        print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    if study is not None and "figure17" in wanted and not _missing(study, "figure17"):
        _print(study, options)


def _of_scores(study: Study | None, names: list[str], to: Path) -> None:
    for name in names:
        if study is None or _missing(study, name):
            continue
        _save((WITH_SCORES | REBUILT)[name][0](study), to / name)
        if name.startswith("figure17"):
            other = ", class Other rebuilt from counts" if curves.has_other(study) else ""
            print(
                f"## Figure 17 of {len(study.y):,} proteins with all scores{other}: mean NLL in"
                f" nats, in sample\n\n{bars.nll_table(study, curves.with_scores(study))}\n"
            )


def _missing(study: Study, name: str) -> bool:
    figures = DRAWN | WITH_SCORES | REBUILT
    needed = figures[name][1] if name in figures else ("kde",)
    missing = [method for method in needed if method not in study.models]
    if missing:
        print(f"{name}: not drawn without the runs of {', '.join(missing)}", file=sys.stderr)
    return bool(missing)


def _arguments() -> argparse.Namespace:
    spread = "test the claims N times more, with scores anywhere in their bins"
    halves = "and N times more, fitted to one half and judged by the other"
    record = "scores for Figure 6, a .npz file with ground_truth and predictions"
    which = "which class of the record (default: 3, cats of CIFAR-10)"
    more: dict[str, dict[str, Any]] = {
        "--spread": {"type": int, "default": 0, "metavar": "N", "help": spread},
        "--halves": {"type": int, "default": 0, "metavar": "N", "help": halves},
        "--record": {"help": record},
        "--of": {"type": int, "default": 3, "metavar": "CLASS", "help": which},
    }
    parts = {"to": PAPER / "pictures", "only": FIGURES}
    return study_options(__doc__, outputs=True, keep=True, free=True, more=more, **parts)


def _figure6(options: argparse.Namespace) -> None:
    if options.record is None:
        print(NO_FIGURE_6, file=sys.stderr)
        return
    rows = ScoreFile(options.record, target="ground_truth").load()
    title = f"{rows.name}, {len(rows.y):,} rows, class {options.of}"
    _save(densities.figure6(rows.X, rows.y, options.of, title), options.to / "figure6")


def _figure15(study: Study, to: Path) -> None:
    result = densities.added(study)
    _save(densities.figure15(study, result), to / "figure15")
    print(
        f"## Figure 15: {densities.ADDED:,} more true HTJ,"
        f" {result.n_right:,} of them predicted as HTJ\n"
    )
    print(verdicts(claims_on_added_rows(study, result)) + "\n")


def _print(study: Study, options: argparse.Namespace) -> None:
    print(
        "## Figure 17: mean NLL of right and wrong in nats, by predicted class, in sample\n\n"
        + bars.nll_table(study)
        + "\n"
    )
    print("## Bandwidths on the scale of 10\n\n" + bars.bandwidth_table(study) + "\n")
    details = list(claims(study))
    print("## Claims\n\n" + verdicts(details) + "\n")
    if options.spread:
        print(
            "## Claims, scores anywhere in their bins\n\n"
            + verdicts(claims_on_studies(with_spread_scores(study, options.spread)))
            + "\n"
        )
    if options.halves:
        halves = list(claims_on_studies(held_out(study, options.halves)))
        print("## Claims, fitted to one half and judged by the other\n\n" + verdicts(halves) + "\n")
        details += claims_on_new_rows(halves)
    if options.keep is not None:
        save_claims(
            [*details, *claims_on_added_rows(study, densities.added(study))],
            options.keep,
            "p2_phanns",
        )


_FROM_SCORES = (1, 2, 3, 5, 6, 7, 8, 9, 13, "14a", 15, 17)
FIGURES = (*(f"figure{number}" for number in _FROM_SCORES), *WITH_SCORES, *REBUILT)

if __name__ == "__main__":
    main()
