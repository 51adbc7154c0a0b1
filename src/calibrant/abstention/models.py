"""Several models at once: a threshold for each, so that the best one may be picked afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from calibrant.abstention.acceptance import Acceptance, accept
from calibrant.abstention.chain import check_levels, score_rule
from calibrant.arrays import ScoreType
from calibrant.messages import InputError, Note, Shown, listed, plural


@dataclass(frozen=True)
class ModelChoice(Shown):
    """The result of :func:`accept_models`: an acceptance for each model, all guaranteed at once.

    Attributes
    ----------
    models
        Acceptance of each model, by name, each at alpha divided by the number of models.
    error, alpha
        The error that was asked for, and one minus the confidence level of all models together.
    """

    models: dict[str, Acceptance]
    error: float
    alpha: float

    @property
    def found(self) -> bool:
        """Whether some model has a threshold."""
        return self.best is not None

    @property
    def best(self) -> str | None:
        """The model that answers the largest share of its rows; None if no model has a threshold."""
        found = {name: each.coverage for name, each in self.models.items() if each.found}
        return max(found, key=lambda name: found[name]) if found else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        models = {name: each.to_dict() for name, each in self.models.items()}
        return {"models": models, "best": self.best, "error": self.error, "alpha": self.alpha}

    def __str__(self) -> str:
        """A line for each model."""
        sure = f"{100 * (1 - self.alpha):.4g} %"
        lines = [f"With confidence {sure} for all models together, at most {100 * self.error:.4g} % are wrong:"]
        for name, each in self.models.items():
            share = f"{100 * each.coverage:.1f} % of {each.total:,} answers"
            at = each.threshold
            rule = "everything" if each.everything else "" if at is None else f"if the score is {score_rule(at)}"
            lines.append(f"  {name}: no threshold{_why(each)}" if at is None else f"  {name}: answer {rule}, {share}")
        told: dict[Note, list[str]] = {}
        for name, each in self.models.items():
            for note in each.notes:
                told.setdefault(note, []).append(name)
        return "\n".join([*lines, *(f"  {listed(names)}: {note}" for note, names in told.items())])


def _why(found: Acceptance) -> str:
    """Why a model has no threshold: too few rows for its share of alpha, or too many wrong ones."""
    if found.units < found.fewest:
        unit = plural(found.units, "answer" if found.groups is None else "group")
        return f" ({unit}; at least {found.fewest:,} are needed)"
    return f" ({found.total_wrong:,} of {plural(found.total, 'answer')} are wrong)"


def accept_models(
    scores: Mapping[str, Any],
    correct: Mapping[str, ArrayLike],
    *,
    error: float = 0.10,
    alpha: float = 0.05,
    groups: Mapping[str, ArrayLike] | None = None,
    random_state: int | None = None,
    score_type: ScoreType | None = None,
) -> ModelChoice:
    """Find a threshold for each of several models, so that the best model may be picked afterwards.

    Parameters
    ----------
    scores, correct
        Scores of each model by name, and whether its answers were right. The rows may be the same questions.
    error, random_state, score_type
        As in :func:`accept`.
    alpha
        One minus the confidence level of all thresholds together: each model gets alpha divided by their number.
    groups
        Groups of each model's rows by name, as in :func:`accept`.

    Returns
    -------
    ModelChoice
        Prints itself as text; has ``models``, ``best`` and ``to_dict``.

    Notes
    -----
    Guarantee: finite-sample, for all models at once, by the union bound over :func:`accept`; models may share rows.
    Cost: one sort for each model. Reference: Bauer (1991).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> stated = {"a": rng.choice([0.8, 0.9], 400), "b": rng.choice([0.8, 0.9], 400)}
    >>> right = {"a": rng.random(400) < 0.97, "b": rng.random(400) < 0.8}
    >>> print(accept_models(stated, right))
    With confidence 95 % for all models together, at most 10 % are wrong:
      a: answer everything, 100.0 % of 400 answers
      b: no threshold (87 of 400 answers are wrong)
    """
    check_levels(error, alpha)
    for argument, given in (("scores", scores), ("correct", correct), ("groups", groups)):
        if not isinstance(given, Mapping) and (given is not None or argument != "groups"):
            problem = f"must be a mapping from the name of each model to its rows, not {type(given).__name__}"
            raise InputError(argument, problem, "pass a dict; for one model use accept")
    if not scores:
        raise InputError("scores", "has no models", "pass a mapping from name to scores")
    if set(scores) != set(correct) or (groups is not None and set(scores) != set(groups)):
        raise InputError("correct", "must have the same names as scores", "pass one entry for each model")
    found = {
        str(name): accept(
            each, correct[name], error=error, alpha=alpha / len(scores),
            groups=None if groups is None else groups[name], random_state=random_state,
            score_type=score_type,
        )
        for name, each in scores.items()
    }  # fmt: skip
    return ModelChoice(found, float(error), float(alpha))
