"""Claims of the paper and of kdgraph on many tables, counted from the numbers."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from experiments.common.markdown import number, signed, table
from experiments.common.titles import titles
from experiments.p1.cc18.records import CHOICE, KDGRAPH_METHODS, Tables, kernel_method, label
from experiments.p1.cc18.statistics import DECIMALS, dominating, median
from kdgraph.metrics import relative_improvement

CRITERIA = ["error", "ece", "nll", "oce"]
NLL = "calibration_nll"
NO_CHOICE = titles("p1", "cc18.claims")["no_choice"]
NOTE = titles("p1", "cc18.claims")["note"]
RADII = (1.5, 2.0, 5.0)


def claims(result: Tables, published: Tables | None, threshold: float) -> str:
    """Return one row for each claim: measured, and from the published numbers if they have it."""
    method = kernel_method(result)
    subset = _facts(result, method, "ece", threshold)
    present = (
        _facts(published, kernel_method(published), "ece_by_edges", threshold) if published else {}
    )
    title = f"{label(method)} against the {label('parent', result.parent)}"
    rows = ([claim, text, present.get(claim, "–")] for claim, text in subset.items())
    return f"{table([title, 'here', 'published'], rows)}\n\n{NOTE}"


def dominance(result: Tables) -> str:
    """Return on how many tables a method is dominated in error, ECE, NLL and mean OCE at once."""
    if missing := [name for name in CRITERIA if name not in result.values]:
        return f"Dominance needs {', '.join(missing)}, which the records do not have."
    rows = []
    for method in result.methods:
        by = [_dominating(result, dataset, method) for dataset in result.datasets]
        counted = [
            f"{label(other, result.parent)} {n}"
            for other in result.methods
            if (n := sum(other in each for each in by))
        ]
        n_by = f"{sum(map(bool, by))} of {len(by)}"
        rows.append([label(method, result.parent), n_by, ", ".join(counted) or "–"])
    return f"{table(['method', 'dominated on', 'by'], rows)}\n\n{_what_was_chosen(result)}"


def with_choice(result: Tables) -> Tables:
    """Return the numbers with one more method, the gate on the best calibrator of each table.

    For each table and seed it is the gated method whose calibrator has the lowest NLL on the
    calibration rows. ``gated_best`` chooses within a run, and needs no other; nor can records
    without that NLL choose.
    """
    if "gated_best" in result.methods:
        return result
    gated = [m for m in result.methods if m.startswith("gated_") or m in KDGRAPH_METHODS.values()]
    runs = result.runs[result.runs.index.isin(gated, level="method")]
    if NLL not in runs or runs.empty or runs[NLL].isna().any():
        return result
    best = runs[NLL].unstack("method").idxmin(axis=1)
    chosen = runs.loc[[(dataset, method, seed) for (dataset, seed), method in best.items()]]
    return replace(
        result,
        runs=pd.concat(
            [result.runs, chosen.rename(index=dict.fromkeys(gated, CHOICE), level="method")]
        ),
    )


def _what_was_chosen(result: Tables) -> str:
    if "gated_best" in result.methods:
        return (
            "The gate on the best calibrator, chosen on calibration rows"
            f" within each run, is {label('gated_best')}."
        )
    if CHOICE not in result.methods:
        return NO_CHOICE
    runs = result.runs[NLL]
    gated = runs.drop(CHOICE, level="method").dropna()
    best = gated.unstack("method").idxmin(axis=1).value_counts()
    counts = ", ".join(f"{label(method)} {n}" for method, n in best.items())
    return f"Chosen by NLL on calibration rows, in runs: {counts}."


def _dominating(result: Tables, table: str, method: str) -> list[str]:
    of_table = result.values.loc[table][CRITERIA]
    return dominating(of_table.loc[method], of_table.drop(index=[method, CHOICE], errors="ignore"))


def _facts(result: Tables, method: str, ece: str, threshold: float) -> dict[str, str]:
    error, calibration = result.column("error"), result.column(ece)
    if method not in error:
        return {}
    own_method, parent = error[method], error["parent"]
    facts = {
        "median error": (
            f"{number(median(own_method), 4)} against {number(median(parent), 4)},"
            f" {number(median(own_method) / median(parent))} times"
        ),
        "median improvement in error": _median(error, method, threshold),
        "error lower or equal": (
            f"{int((own_method.round(DECIMALS) <= parent.round(DECIMALS)).sum())} of {len(error)}"
        ),
        "median improvement in ECE": _median(calibration, method, threshold),
        "ECE lower": _lower(calibration, method),
        "NLL lower": _lower(result.column("nll"), method),
    }
    for radius in RADII:
        oce, confidence = result.column(f"oce@{radius:g}"), result.column(f"mmc@{radius:g}")
        if (lower := _lower(oce, method)) != "–":
            facts[f"OCE lower at r={radius:g}"] = (
                f"{lower}; median {number(oce[method].median(), 4)}, highest"
                f" {number(oce[method].max(), 4)}"
            )
        facts[f"median confidence at r={radius:g}"] = _both(confidence, method)
    return {claim: text for claim, text in facts.items() if text != "–"}


def _both(values: pd.DataFrame, method: str) -> str:
    both = values[["parent", method]].dropna()
    if len(both):
        return f"{number(median(both[method]))} against {number(median(both.parent))}"
    return "–"


def _lower(values: pd.DataFrame, method: str) -> str:
    both = values[["parent", method]].dropna().round(DECIMALS)
    return f"{int((both[method] < both.parent).sum())} of {len(both)}" if len(both) else "–"


def _median(values: pd.DataFrame, method: str, threshold: float) -> str:
    better = relative_improvement(
        values["parent"].to_numpy(), values[method].to_numpy(), threshold=threshold
    )
    return signed(median(better.values)) + (
        f" ({better.left_out} left out)" if better.left_out else ""
    )
