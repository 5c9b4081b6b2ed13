"""A parent and what was fitted after it, as one model: what it can be asked about rows, and which part has the last word."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kdgraph.answers.sets import SetScores
from kdgraph.distributions import as_distribution
from kdgraph.metrics import TopLabel

Said = dict[str, Any]
"""Answer → what a model says, one for each row: arrays, and what is cut like them. The ``ood_score`` of a model that scores sets is not."""

METHODS = {"proba": "predict_proba", "top": "predict_confidence", "ood_score": "ood_score", "distribution": "predict_dist"}
"""What a model can be asked, by the name that metrics know it by, and the method of a part that answers."""
_OF_CLASSES = ("predict_proba", "predict_confidence")
"""Who changes one of these has the last word on both: no probabilities stand beside a confidence that is not theirs."""


@dataclass(frozen=True)
class Model:
    """What a run has fitted.

    Attributes
    ----------
    parent : the trained model.
    after : group of the config → what was fitted after the parent, in that order: calibrator, gate, detector, recalibrator; a part that
        the config does not have is not there.
    """

    parent: Any
    after: Mapping[str, Any] = field(default_factory=dict)

    def gives(self, answer: str) -> bool:
        """Whether it says this, and not only what follows from something else that it says."""
        part = self._part_for(answer)
        return part is not None and hasattr(part, METHODS[answer])

    @property
    def classifies(self) -> bool:
        """Whether it predicts classes."""
        return self.gives("proba") or self.gives("top")

    @property
    def scores_sets(self) -> bool:
        """Whether its out-of-distribution score is one of sets of rows, so that it has none of a row by itself."""
        return hasattr(self._part_for("ood_score"), "ood_score_of_sets")

    def score_sets(self, X: np.ndarray, rng: np.random.Generator) -> SetScores:
        """Out-of-distribution scores of sets that are drawn from X, of a model that :attr:`scores_sets`."""
        part = self._part_for("ood_score")
        return SetScores(part.ood_score_of_sets(X, rng), part.set_size_, part.level)

    def ask(self, answers: Collection[str], X: np.ndarray, groups: np.ndarray | None = None) -> Said:
        """What it says of X: Float[n, d] or images Float[n, c, h, w]; ``groups``, [n], for who does something by group.

        Every model that classifies has a confidence, the largest probability unless a part has one of its own, and an out-of-distribution
        score, minus the confidence unless a part has one. What is said of a row depends on no other row.

        Raises
        ------
        TypeError : of what it cannot say; of ``ood_score``, where it :attr:`scores_sets`.
        """
        said: Said = {}
        if {"proba", "ood_score"} <= set(answers) and (both := self._gives_both()) is not None:
            said["proba"], said["ood_score"] = both.proba_and_ood_score(X)
        for answer in answers:
            if answer not in said:
                said[answer] = self._say(answer, X, said, groups)
        return {answer: said[answer] for answer in answers}

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Float[n, K]: class probabilities of the part that has the last word on them."""
        return self.ask(["proba"], X)["proba"]

    @property
    def takes_groups(self) -> bool:
        """Whether a part wants to know which subgroup a row belongs to."""
        return any(getattr(part, "takes_groups", False) for part in self.after.values())

    def learnt(self) -> dict[str, dict[str, Any]]:
        """What the parts after the parent say they have learnt, for the record."""
        return {name: part.describe() for name, part in self.after.items() if hasattr(part, "describe")}

    def _say(self, answer: str, X: np.ndarray, said: Said, groups: np.ndarray | None = None) -> Any:
        part = self._part_for(answer)
        more = {"groups": groups} if groups is not None and getattr(part, "takes_groups", False) else {}
        if answer == "ood_score" and self.scores_sets:
            raise TypeError(f"{type(part).__name__} scores sets of rows, and says nothing of a row by itself; ask score_sets")
        if part is not None and hasattr(part, METHODS[answer]):
            if answer == "distribution":
                return as_distribution(part.predict_dist(X, **more))
            if answer != "top":
                return getattr(part, METHODS[answer])(X, **more)
            predicted = np.searchsorted(part.classes_, part.predict(X))
            return TopLabel(predicted, part.predict_confidence(X, **more), len(part.classes_))
        if answer == "top" and self.gives("proba"):
            return TopLabel.of(said["proba"] if "proba" in said else self.predict_proba(X))
        if answer == "ood_score" and self.classifies:
            top = said["top"] if "top" in said else self._say("top", X, said, groups)
            return -top.confidence
        raise TypeError(f"{type(self.parent).__name__} and what was fitted after it say nothing of {answer}")

    def _part_for(self, answer: str) -> Any:
        """The last part that has a say in it, or None."""
        methods = _OF_CLASSES if METHODS[answer] in _OF_CLASSES else (METHODS[answer],)
        return next((part for part in self._parts() if any(hasattr(part, method) for method in methods)), None)

    def _gives_both(self) -> Any:
        """The part that has both probabilities and score, at one visit to its data; or None."""
        part = self._part_for("proba")
        return part if part is self._part_for("ood_score") and hasattr(part, "proba_and_ood_score") else None

    def _parts(self) -> Iterator[Any]:
        """The last one first."""
        yield from reversed(list(self.after.values()))
        yield self.parent
