"""Studies that make the numbers of Salamon et al.

Nearly all of its results are figures, which print no number.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from experiments.p2 import phanns_scores
from experiments.p2.figures import study
from experiments.p2.mnist import published
from experiments.p2.settings import settings
from experiments.reproduction.studies import Paper, Size, Study

_MNIST = f"experiment={published.EXPERIMENT}"
_SEEDS = range(2)
_UNDER_TRAINED = (_MNIST, "calibrator=none", "parent.learning_rate=0.001,5e-5")
_SCORES = f"experiment={phanns_scores.EXPERIMENT}"
_REBUILT = f"experiment={phanns_scores.REBUILT}"
_FULLY_TRAINED = (
    _MNIST,
    "calibrator=paper/p2/cum_star",
    "parent.learning_rate=0.001",
    "parent.max_epochs=200",
)
_BOTH_SETS = (
    "rows are counted on both test sets, as the paper does not say on"
    " which; each seed has another test set 1"
)

PAPER = Paper(
    name="p2",
    title="Salamon et al., Estimating classification confidence using kernel densities",
    folder=Path(__file__).parent,
    studies=[
        Study(
            items=("Section III",),
            sizes={
                scale: Size(
                    [(f"experiment={study.EXPERIMENT}", "calibrator=precision")],
                    differs=(
                        "rows are made of the counts by class and score that"
                        " the authors of PhANNs published"
                    ),
                    minutes=1,
                )
                for scale in ("workstation", "paper")
            },
            measured=study.measured,
        ),
        Study(
            items=("Figure 1", "Section IX"),
            sizes={
                scale: Size(
                    [(_SCORES, "calibrator=none,sts,csts"), (_REBUILT, "calibrator=sts,csts")],
                    differs=(
                        "14,477 of the 46,801 proteins have all scores: those of class Other are"
                        " not to be had. Its row in Figure 1 is what the others lack of the stored"
                        " counts of all proteins; temperatures are without it, and in the column"
                        " beside with rows for it that are rebuilt from counts of the highest score"
                    ),
                    minutes=1,
                )
                for scale in ("workstation", "paper")
            },
            measured=phanns_scores.measured,
            deterministic=True,
        ),
        Study(
            items=("Section XIII.D", "Appendix, Network training"),
            sizes={
                "workstation": Size(
                    [
                        (*_UNDER_TRAINED, f"seed={','.join(map(str, _SEEDS))}"),
                        (*_FULLY_TRAINED, "seed=0"),
                    ],
                    computed={"one_batch": published.one_batch},
                    differs=(
                        f"{10 * len(_SEEDS)} under-trained networks of each recipe where the paper"
                        f" has 1,000 ({published.ONE_BATCH_NETWORKS} of one fixed mini-batch), and"
                        f" one fully trained ensemble; {_BOTH_SETS}"
                    ),
                    minutes=63,
                ),
                "paper": Size(
                    [(*_UNDER_TRAINED, "seed=range(0,100)"), (*_FULLY_TRAINED, "seed=range(0,10)")],
                    computed={"one_batch": published.one_batch},
                    differs=f"{_BOTH_SETS}; {published.ONE_BATCH_NETWORKS} networks of one fixed"
                    " mini-batch",
                ),
            },
            measured=published.measured,
        ),
        Study(
            items=(
                *("Section II", "Appendix, MNIST dataset preparation"),
                *("Appendix, Ensemble Sampling", "Appendix, MNIST results"),
            ),
            sizes={
                # Ten networks of a seed are an ensemble.
                "workstation": Size(
                    computed={"settings": partial(settings, 10 * len(_SEEDS), len(_SEEDS))},
                    minutes=0.2,
                ),
                "paper": Size(
                    computed={"settings_of_paper": partial(settings, 1000, 100)}, minutes=0.2
                ),
            },
        ),
    ],
    about=frozenset({"said"}),
)
