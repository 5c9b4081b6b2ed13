"""Words, tables and figures of ``kdg check``, for the terminal and for the page.

Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kdgraph.results.export import Section
from kdgraph.results.model_check.choice import Interval
from kdgraph.results.model_check.expected import Agreement
from kdgraph.results.model_check.folds import GIVEN
from kdgraph.results.model_check.numbers import UNREPAIRED, Calibration, ModelCheck
from kdgraph.results.names import MARK, MISSING
from kdgraph.wording import counted, some

AS_IT_IS = "the model as it is"
"""Name of the model without a repair."""
SET_TITLES = {
    "permuted": "columns permuted",
    "shifted": "shifted by 1 standard deviation, 1.5 times as wide",
    "far": "shifted by 20 standard deviations",
    "noise": "uniform noise in the range of each column",
    GIVEN: "rows of --ood",
}
"""Set of rows out of distribution → its name."""
_MAX_CLASSES = 20
_MOST_COST = 0.01
"""Largest loss, in nats per row, for which a gate is recommended in place of the best repair."""
_LEVEL, _LEAST_P = 0.05, 0.001
"""Level of the test of calibration, and the least p-value of its simulations."""


@dataclass(frozen=True)
class PageFigure:
    """A figure of the page, with its caption."""

    title: str
    svg: bytes


NO_ADVICE = (
    "Nothing is recommended for a model that was read otherwise than you use it. What often"
    " differs: columns, types of cells, words that are read as missing, outputs, order of classes."
)
"""Advice where the predictions of the user are others."""


def method_title(name: str) -> str:
    """Return the name of a method in words."""
    return AS_IT_IS if name == UNREPAIRED else name


def reading_sentence(check: ModelCheck, agreement: Agreement | None, file: str | None) -> str:
    """Return whether the model was read as its user uses it.

    ``agreement`` is the comparison with the predictions of the user's ``file``, if there are any.
    """
    if agreement is None:
        bare = check.calibration[UNREPAIRED]
        return (
            f"The error of the model on these {len(check.y):,} rows is {bare.error:.3f}, its NLL"
            f" {bare.nll:.3f}. If your own numbers are others, it was not read as you use it:"
            " --expect FILE compares row by row with what your library predicts."
        )
    n, what, largest = agreement.n_rows, agreement.what, agreement.largest
    if not agreement.n_different:
        size = f", within {largest:.1g}" if largest else ""
        return f"The model was read as it is: all {n:,} rows have the {what} of {file}{size}."
    size = f", by up to {largest:.2g}" if largest else ""
    return (
        f"The model was not read as you use it: {agreement.n_different:,} of {n:,} rows have other"
        f" {what} than in {file}{size} (row {agreement.row}). What follows is not of your model."
    )


def verdict(check: ModelCheck) -> list[str]:
    """Return the result in sentences: calibration, the best repair, and rows far away."""
    choice, bare = check.choice, check.calibration[UNREPAIRED]
    sentences = [_calibration_sentence(bare)]
    gain = choice.methods[choice.chosen].gain
    if choice.chosen == UNREPAIRED:
        sentences.append("No repair has a lower NLL than the model as it is.")
    elif not check.helps:
        sentences.append(
            f"No repair is clearly better: {choice.chosen} has the least NLL, by"
            f" {gain.value:.3f} nats ({_range(gain)}), which may be luck."
        )
    else:
        sentences.append(
            f"{choice.chosen} helps most: it lowers the NLL by {gain.value:.3f} nats"
            f" ({_range(gain)}) to {choice.methods[choice.chosen].loss:.3f}. It is chosen in"
            f" {choice.methods[choice.chosen].chosen_share:.0%} of the bootstrap resamples;"
            f" what a resample chooses gains {choice.gain.value:.3f} nats on the rows outside of"
            " it."
        )
        others = [name for name in choice.as_good if name != choice.chosen]
        if others:
            sentences.append(f"Not clearly worse: {some(others)}.")
    return [*sentences, *_far_sentences(check)]


def _calibration_sentence(bare: Calibration) -> str:
    p = "p < .001" if bare.calibrated_p <= _LEAST_P else f"p = {bare.calibrated_p:.3f}"
    size = f"ECE {bare.ece:.3f}, where chance alone gives {bare.ece_by_chance:.3f} ({p})"
    if bare.calibrated_p <= _LEVEL:
        return f"The model is not calibrated: {size}."
    return f"Nothing shows that the model is not calibrated: {size}."


def _far_sentences(check: ModelCheck) -> list[str]:
    sets = check.methods[UNREPAIRED].far
    if "far" not in sets:
        return []
    bare = float(sets["far"].confidence.mean())
    start = (
        f"On rows far from the data the mean confidence of the model is {bare:.3f}, and the largest"
        f" class has a share of {check.prior:.3f}"
    )
    if check.gated is None:
        return [f"{start}."]
    gated = float(check.methods[check.gated].far["far"].confidence.mean())
    end = f"with {check.gated} the mean is {gated:.3f}"
    if check.gated != check.choice.chosen:
        clear = "not clearly" if check.gated in check.choice.as_good else "clearly"
        end += f", and it has {cost_of_gate(check)}, {clear}"
    return [f"{start}; {end}."]


def cost_of_gate(check: ModelCheck) -> str:
    """Return how much higher the NLL of the best gate is than the least one."""
    cost = check.choice.methods[str(check.gated)].behind.value
    best = check.choice.chosen
    than = f"that of {AS_IT_IS}" if best == UNREPAIRED else f"with {best}"
    return f"an NLL {cost:.3f} nats higher than {than}"


def recommended(check: ModelCheck) -> str:
    """Return the method to apply.

    It is the one with the least NLL; or, if that is not clearly better than the best gate, and by
    no more than .01 nats, the gate, since it alone changes what is predicted far from the data.
    Without a repair that clearly helps, and without such a gate, it is the model as it is.
    """
    choice, gate = check.choice, check.gated
    if gate in choice.as_good and choice.methods[gate].behind.value <= _MOST_COST:
        return gate
    return choice.chosen if check.helps else UNREPAIRED


def advice(check: ModelCheck) -> str:
    """Return the sentence on which method to apply, with the reason."""
    advised, chosen, parts = recommended(check), check.choice.chosen, []
    if advised == UNREPAIRED:
        parts.append(f"No repair is clearly worth its cost: keep {AS_IT_IS}")
    elif advised == chosen:
        parts.append(f"{advised} is recommended: it has the least NLL")
    else:
        parts.append(f"{advised} is recommended: it is not clearly worse than {chosen}")
    if advised in check.gates:
        parts.append("it falls back to the shares of the classes far from the data")
    return f"{', and '.join(parts)}."


def repairs_section(check: ModelCheck) -> Section:
    """Return the table of all methods: NLL, gain, and what each costs."""
    choice, rows = check.choice, []
    for name, method in check.methods.items():
        loss, numbers = choice.methods[name], check.calibration[name]
        far = method.far.get("far")
        mark = MARK if name == choice.chosen else ""
        rows.append(
            [
                method_title(name),
                f"{loss.loss:.3f}{mark}",
                MISSING if name == UNREPAIRED else _signed(loss.gain.value),
                MISSING if name == UNREPAIRED else _ends(loss.gain),
                f"{loss.chosen_share:.0%}",
                f"{numbers.error:.3f}",
                f"{numbers.ece:.3f}",
                MISSING if far is None else f"{far.confidence.mean():.3f}",
                _number(method.fit_seconds, ".2f"),
                _number(method.predict_ms, ".0f"),
            ]
        )
    head = [
        *("method", "NLL", "gain", "95 %", "chosen", "error", "ECE"),
        *("confidence far", "fit s", "1,000 rows ms"),
    ]
    notes = [
        f"{MARK.strip()} least NLL. Gain: NLL of the model minus that of the method, paired by row,"
        " in nats; chosen: share of the bootstrap resamples of the rows in which the method has the"
        " least NLL. Time to predict includes the model's own.",
    ]
    return Section("Which repair helps most", head, rows, notes)


def calibration_section(check: ModelCheck) -> Section:
    """Return accuracy and calibration errors of the model and of the two repairs."""
    shown = _shown(check)
    numbers = {name: check.calibration[name] for name in shown}
    lines: list[tuple[str, Callable[[Calibration], str]]] = [
        ("error", lambda n: f"{n.error:.3f} ± {n.error_stderr:.3f}"),
        ("NLL (nats)", lambda n: f"{n.nll:.3f} ± {n.nll_stderr:.3f}"),
        ("Brier score", lambda n: f"{n.brier:.3f}"),
        ("ECE", lambda n: f"{n.ece:.3f}"),
        ("ECE if calibrated", lambda n: f"{n.ece_by_chance:.3f}"),
        ("top-label ECE", lambda n: f"{n.top_label_ece:.3f}"),
        ("top-label ECE if calibrated", lambda n: f"{n.top_label_ece_by_chance:.3f}"),
        ("class-wise ECE", lambda n: f"{n.classwise_ece:.3f}"),
    ]
    rows = [[title, *(text(numbers[name]) for name in shown)] for title, text in lines]
    if numbers[UNREPAIRED].lce is not None:
        local = [(_number(n.lce, ".3f"), _number(n.lce_by_chance, ".3f")) for n in numbers.values()]
        titles = "local calibration error", "local error if calibrated"
        rows += [
            [title, *cells] for title, cells in zip(titles, zip(*local, strict=True), strict=True)
        ]
    notes = [
        "± is a standard error. ECE: mean difference of confidence and accuracy in 15 bins; the"
        " line below it is what a calibrated model has on as many rows. Top-label: within each"
        " predicted class. Local: among rows that are near each other, bandwidth 0.2 of the root"
        " mean square of the columns."
    ]
    return Section("Is its certainty right?", ["", *map(method_title, shown)], rows, notes)


def classes_section(check: ModelCheck) -> Section | None:
    """Return recall and mean probability by class, for at most 20 classes."""
    if len(check.classes) > _MAX_CLASSES:
        return None
    bare = check.methods[UNREPAIRED]
    predicted, rows = bare.top_label.predicted, []
    for k, label in enumerate(check.classes):
        is_class, is_predicted = check.y == k, predicted == k
        confidence = bare.top_label.confidence[is_predicted]
        rows.append(
            [
                label,
                f"{is_class.mean():.3f}",
                f"{bare.proba[:, k].mean():.3f}",
                _mean(is_predicted[is_class]),
                _mean(is_class[is_predicted]),
                _mean(confidence),
            ]
        )
    head = ["class", "share", "mean probability", "recall", "precision", "confidence if predicted"]
    return Section("By class, as the model is", head, rows, [])


def groups_section(check: ModelCheck) -> Section | None:
    """Return error, confidence and ECE of each group; None without groups."""
    if check.groups is None:
        return None
    rows = []
    for name in _shown(check):
        for group in check.by_group(name):
            gap = group.confidence + group.error - 1
            rows.append(
                [
                    f"{group.name}, {method_title(name)}",
                    f"{group.rows:,}",
                    f"{group.error:.3f}",
                    f"{group.confidence:.3f}",
                    f"{_signed(gap)} ± {group.gap_stderr:.3f}",
                    f"{group.ece:.3f}",
                    f"{group.ece_by_chance:.3f}",
                ]
            )
    head = ["group", "rows", "error", "confidence", "overconfidence", "ECE", "ECE if calibrated"]
    notes = [
        "Overconfidence: mean confidence minus accuracy, with its standard error; ECE in 5 bins."
    ]
    left_out = len(check.group_names) - len(check.by_group(UNREPAIRED))
    if left_out:
        notes.append(f"{counted(left_out, 'group')} with fewer than 10 rows left out.")
    return Section("By group", head, rows, notes)


def far_section(check: ModelCheck) -> Section:
    """Return mean confidence and AUROC on rows out of distribution."""
    shown = _shown(check)
    methods = [check.methods[name] for name in shown]
    cells = [f"{method.top_label.confidence.mean():.3f}" for method in methods]
    rows = [["test rows", *cells, MISSING]]
    for key in check.methods[UNREPAIRED].far:
        auroc = None if check.gated is None else check.methods[check.gated].far[key].auroc
        cells = [f"{method.far[key].confidence.mean():.3f}" for method in methods]
        rows.append([SET_TITLES.get(key, key), *cells, _number(auroc, ".3f")])
    head = ["mean confidence on", *map(method_title, shown), "AUROC"]
    notes = [
        f"Far from the data nothing is known of a row but the share of the largest class,"
        f" {check.prior:.3f}.",
        "A set that was made of left-out classes is not among them: the model was fitted on all of"
        " its classes. Rows that it should not know can be given with --ood FILE.",
    ]
    if check.gated is not None:
        notes.insert(1, f"AUROC: of the OOD score of {check.gated} against the test rows.")
    return Section("Far from its data", head, rows, notes)


def sections(check: ModelCheck) -> list[Section]:
    """Return all tables of the page, in order."""
    optional = (classes_section(check), groups_section(check))
    return [
        repairs_section(check),
        calibration_section(check),
        *(section for section in optional if section is not None),
        far_section(check),
    ]


def figures(check: ModelCheck) -> dict[str, PageFigure]:
    """Return the figures of the page, by the title of the section that each belongs to."""
    from kdgraph.figures import plot_gains, plot_mean_confidence, plot_reliability_diagram
    from kdgraph.figures.style import figure_bytes
    from kdgraph.metrics import reliability_bins

    shown, choice = _shown(check), check.choice
    gains = {
        name: (loss.gain.value, loss.gain.low, loss.gain.high)
        for name, loss in choice.methods.items()
        if name != UNREPAIRED
    }
    tops = {method_title(name): check.methods[name].top_label for name in shown}
    bins = {
        name: reliability_bins(top.confidence, top.correct(check.y), bins=15)
        for name, top in tops.items()
    }
    ece = {method_title(name): check.calibration[name].ece for name in shown}
    means = {"test rows": {name: float(top.confidence.mean()) for name, top in tops.items()}}
    for key in check.methods[UNREPAIRED].far:
        far = {name: check.methods[name].far[key].confidence for name in shown}
        means[key] = {method_title(name): float(values.mean()) for name, values in far.items()}
    drawn = {
        "Is its certainty right?": (
            "Accuracy by confidence",
            plot_reliability_diagram(bins, ece=ece),
        ),
        "Far from its data": (
            "Mean confidence by set of rows",
            plot_mean_confidence(means, check.prior, best="share of the largest class"),
        ),
    }
    if gains:
        drawn["Which repair helps most"] = (
            "Gain of each repair",
            plot_gains(gains, xlabel="gain in NLL (nats per row)", chosen=choice.chosen),
        )
    return {
        section: PageFigure(title, figure_bytes(figure, "svg"))
        for section, (title, figure) in drawn.items()
    }


def _shown(check: ModelCheck) -> list[str]:
    """Return the model, the method with the least NLL and the gate, each once."""
    names = [UNREPAIRED, check.choice.chosen, check.gated]
    return [name for name in dict.fromkeys(names) if name is not None]


def _range(interval: Interval) -> str:
    return f"95 % interval {_minus(f'{interval.low:.3f}')} to {_minus(f'{interval.high:.3f}')}"


def _ends(interval: Interval) -> str:
    return f"{_signed(interval.low)} to {_signed(interval.high)}"


def _signed(value: float) -> str:
    return _minus(f"{value:+.3f}")


def _minus(number: str) -> str:
    return number.replace("-", "−")


def _number(value: float | None, form: str) -> str:
    return MISSING if value is None else format(value, form)


def _mean(values: np.ndarray) -> str:
    return f"{values.mean():.3f}" if len(values) else MISSING
