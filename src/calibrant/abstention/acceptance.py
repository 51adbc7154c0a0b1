"""Answer only when sure: the lowest score threshold above which few answers are wrong, with a guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.abstention.chain import (
    Ladder,
    at_or_above,
    check_levels,
    fewest_rows,
    p_values,
    reach,
    score_rule,
    start_ranks,
)
from calibrant.arrays import ScoreType, check_scores
from calibrant.decisions import ENDS, Cut, Policy
from calibrant.messages import InputError, Note, Shown, count_text
from calibrant.metrics.binary.bins import Scores
from calibrant.tallies import Tally


@dataclass(frozen=True)
class Acceptance(Shown):
    """The result of :func:`accept`: a threshold with its guarantee, or none.

    Attributes
    ----------
    threshold
        Answer if the score is at least this; None if no threshold was found.
    error, alpha
        With confidence 1 - alpha, at most the share ``error`` of the answers above the threshold are wrong.
    rows, wrong
        Rows at or above the threshold, and wrong ones among them; 0 without a threshold.
    total, total_wrong
        All rows, and all wrong ones.
    starts, level
        Numbers of top rows at which chains of tests started, and the level of each test.
    score_type
        What the scores are.
    notes
        Further remarks.
    """

    threshold: float | None
    error: float
    alpha: float
    rows: int
    wrong: int
    total: int
    total_wrong: int
    starts: tuple[int, ...]
    level: float
    score_type: ScoreType = "probability"
    notes: tuple[Note, ...] = ()

    @property
    def found(self) -> bool:
        """Whether there is a threshold."""
        return self.threshold is not None

    @property
    def everything(self) -> bool:
        """Whether the threshold is the lowest of all scores, so that every row is answered."""
        return self.threshold is not None and self.threshold <= ENDS[self.score_type][0]

    @property
    def coverage(self) -> float:
        """Share of the rows that are answered."""
        return self.rows / self.total

    @property
    def policy(self) -> Policy:
        """The rule as a policy with the actions "abstain" and "answer"; for probabilities."""
        if self.score_type != "probability":
            raise InputError("scores", "are not probabilities, which a policy needs", "use decide")
        if self.threshold is None:
            return Policy(("abstain",), ())
        return Policy(("abstain", "answer"), (Cut(self.threshold),))

    def decide(self, scores: ArrayLike) -> NDArray[np.bool_]:
        """Whether to answer, for each score; a missing score is not answered."""
        return at_or_above(scores, self.threshold, self.score_type)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; :meth:`from_dict` reads it."""
        plain = asdict(self) | {"starts": list(self.starts), "notes": [note.as_dict() for note in self.notes]}
        return plain | {"found": self.found, "coverage": self.coverage}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Acceptance:
        """Read what :meth:`to_dict` wrote; notes are not kept."""
        names = [name for name in cls.__dataclass_fields__ if name not in {"notes", "starts"}]
        missing = [name for name in (*names, "starts") if name not in data]
        if missing:
            raise InputError("data", f"has no {missing[0]!r}", "pass what to_dict returned")
        return cls(**{name: data[name] for name in names}, starts=tuple(data["starts"]))

    def __str__(self) -> str:
        """One paragraph, and notes."""
        sure, most = f"{100 * (1 - self.alpha):.4g} %", f"{100 * self.error:.4g} %"
        if self.threshold is None:
            text = (
                f"No threshold has at most {most} wrong answers with confidence {sure}. Of {count_text(self.total)} "
                f"answers, {count_text(self.total_wrong)} are wrong. {self._advice}"
            )
        else:
            rule, such = f"Answer if the score is {score_rule(self.threshold)}", "such"
            if self.everything:
                rule, such = "Answer everything", "the"
            text = (
                f"{rule}: with confidence {sure}, at most {most} of {such} answers are wrong. Of "
                f"{count_text(self.total)} answers {count_text(self.rows)} "
                f"({100 * self.coverage:.1f} %) are kept, and {count_text(self.wrong)} of these are wrong "
                f"({100 * self.wrong / self.rows:.1f} %)."
            )
        return "\n  ".join([text, *map(str, self.notes)])

    @property
    def _advice(self) -> str:
        fewest = fewest_rows(self.error, self.alpha)
        if self.total < fewest:
            return f"At least {fewest:,} graded answers are needed."
        return "Grade more answers, or allow a larger error."


def accept(
    scores: Scores,
    correct: ArrayLike | None = None,
    *,
    error: float = 0.10,
    alpha: float = 0.05,
    groups: ArrayLike | None = None,
    start: float | None = None,
    random_state: int = 0,
    score_type: ScoreType | None = None,
) -> Acceptance:
    r"""Find the lowest score threshold above which at most a share ``error`` of the answers are wrong.

    A threshold t is tested by the exact binomial test on the rows with a score of at least t,

    .. math:: P\bigl(\mathrm{Bin}(n_t, e) \le w_t\bigr) \le \alpha / m,

    where :math:`n_t` rows are at or above t, :math:`w_t` of them wrong, and e is ``error``. Tests go down from m starts
    through all distinct scores, and each chain ends at its first test that fails. The starts are the top n, n/2,
    n/4, ... rows; the lowest threshold that some chain reached is returned.

    Parameters
    ----------
    scores
        Confidence of each answer: probabilities, logits or any numbers that rise with confidence. Or a tally whose
        events are right answers.
    correct
        Whether each answer was right.
    error
        Largest share of wrong answers among those given.
    alpha
        One minus the confidence level.
    groups
        Group of each row, such as the question that was sampled several times. One row of each group is drawn at
        random, since the rows of a group are not independent.
    start
        A score from which to start, chosen without these rows. There is one chain then, with the whole alpha.
    random_state
        Seed of the draw from groups.
    score_type
        What the scores are: ``"probability"``, ``"logit"`` or ``"real"`` for any other numbers, such as percentages.
        Found from their range by default.

    Returns
    -------
    Acceptance
        Prints itself as text; has ``threshold`` (None if there is none), ``decide``, ``policy`` and ``to_dict``.

    Notes
    -----
    Edge cases: no threshold is an answer, not an error. With fewer than ``log(alpha) / log(1 - error)`` rows, 29 by
    default, none can be found. Importance weights are refused; for counts pass a tally.
    Guarantee: finite-sample. If rows are independent draws of one population, and neither scores nor ``error`` were
    chosen with them, then with probability at least 1 - alpha either there is no threshold or the share of wrong
    answers above it, in the population, is at most ``error``. Ties and scores that do not rank well are allowed.
    docs/certificates/abstention.md has the proof. Cost: one sort.
    References: Bauer (1991) and Angelopoulos et al. (2021), Learn then Test, for tests in a fixed order; Geifman and
    El-Yaniv (2017) for the problem; Gupta (2023), Theorem 4.1, for rows above an order statistic.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> stated = rng.choice([0.6, 0.8, 0.9, 0.95], 600)
    >>> right = rng.random(600) < np.where(stated >= 0.9, 0.97, 0.7)
    >>> found = accept(stated, right, error=0.10)
    >>> print(found)
    Answer if the score is at least 0.9: with confidence 95 %, at most 10 % of such answers are wrong. Of 600 answers
    322 (53.7 %) are kept, and 12 of these are wrong (3.7 %).
    >>> found.decide([0.7, 0.95]).tolist()
    [False, True]
    """
    check_levels(error, alpha)
    ladder = Ladder.of(scores, correct, groups, random_state, score_type)
    p = p_values(ladder.wrong, ladder.rows, error)
    if start is None:
        ranks = start_ranks(ladder.total, error, alpha)
        level = alpha / max(len(ranks), 1)
        begins = [(place, ladder.cut_above(place)) for place in map(ladder.strictly_above, ranks)]
    else:
        if isinstance(scores, Tally) and scores.resolution != "exact":
            raise InputError("start", "needs exact scores, and the tally is on a grid", "leave it out, or pass rows")
        first = float(check_scores([start], ladder.score_type, name="start")[0])
        if np.isnan(first):
            raise InputError("start", "is missing (NaN)", "pass a score, or leave it out")
        ranks, level = (), alpha
        begins = [(int(np.count_nonzero(ladder.at >= first)) - 1, first)]
    best, threshold = -1, None
    for place, cut in begins:
        last = reach(p, place, level) if place >= 0 else -1
        if last < max(place, 0):
            continue
        low = cut if last == place else float(ladder.at[last])
        if threshold is None or low < threshold:
            best, threshold = last, low
    rows, wrong = (int(ladder.rows[best]), int(ladder.wrong[best])) if threshold is not None else (0, 0)
    totals = ladder.total, int(ladder.wrong[-1])
    return Acceptance(
        threshold, float(error), float(alpha), rows, wrong, *totals, ranks, level, ladder.score_type, ladder.notes
    )
