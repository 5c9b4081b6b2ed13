"""Figure 2 of Luo et al. for Communities and Crime: local errors within the best and the worst bin
of confidence, in the plane of t-SNE.

``kdg run dataset=crime preprocess=standardized network=paper/p4/crime_long
method=paper/p4/crime/lore_pca metrics=local_features figures=none ood=none``, and then ``python -m
experiments.p4.bins outputs``.
"""

from __future__ import annotations

import json
from pathlib import Path

from matplotlib.figure import Figure

from experiments.common.command import in_one_line, study_options
from experiments.common.models import evaluation_of, models_of
from experiments.common.pictures import save_picture
from kdgraph.base import FittedModel
from kdgraph.errors import DataError
from kdgraph.figures.local import plot_lce_of_bins_from_run
from kdgraph.figures.run_figures import RunFigureData

TABLE = "lce_map"  # Local errors of all test rows in the plane


def figure2(outputs: Path) -> Figure:
    """Draw the first seed of the runs on Communities and Crime with local errors in the plane."""
    records = [json.loads(p.read_text()) for p in sorted(outputs.glob("crime/*/*/result.json"))]
    records = [record for record in records if TABLE in record["files"]["tables"]]
    if not records:
        raise DataError(
            f"no run in {outputs} has local errors in the plane: run one"
            " with dataset=crime metrics=local_features"
        )
    record = min(records, key=lambda record: (record["seed"], record["run_id"]))
    splits, parent, calibrated = models_of(record, outputs)
    run = RunFigureData(
        splits,
        evaluation_of(record, outputs),
        (FittedModel(parent), FittedModel(calibrated)),
        ("network", "recalibrated"),
    )
    return plot_lce_of_bins_from_run(run, TABLE)


def main() -> None:
    """Draw the figure."""
    options = study_options(__doc__, outputs=True, to=Path("outputs/p4_figures"))
    figure = figure2(options.outputs)
    print(*save_picture(figure, options.to / "crime_bins", Path(__file__).parent), sep="\n")


if __name__ == "__main__":
    in_one_line(main)
