"""Answer only when sure: the lowest score threshold above which few answers are wrong, with a guarantee."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.abstention.chain import (
    Ladder,
    at_or_above,
    certified,
    check_levels,
    fewest_rows,
    groups_count_once,
    is_float32,
    mean_passes,
    most_wrong,
    p_values,
    score_rule,
    seed_of,
    start_ranks,
    strictly_above,
)
from calibrant.arrays import ScoreType, check_scores
from calibrant.decisions import ENDS, Cut, Policy
from calibrant.messages import InputError, Note, Shown, count_text
from calibrant.metrics.binary.bins import Scores
from calibrant.numerics import Ints
from calibrant.progress import progress
from calibrant.reading import located
from calibrant.tallies import Tally

DRAWS, SHARE = 1000, 0.25
"""Draws of one row of each group, and the share of them in which a threshold must be found."""


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
        Numbers of top rows, or groups, at which chains of tests started, and the level of each test.
    score_type
        What the scores are.
    groups, share, seed
        If groups count instead of rows: their number, the share of wrong rows at or above the threshold (among all rows
        without one) when each group has the same weight, and the seed if rows were drawn from groups. Else None.
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
    groups: int | None = None
    share: float | None = None
    seed: int | None = None
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
        needed = [name for name, field in cls.__dataclass_fields__.items() if field.default is MISSING]
        missing = [name for name in needed if name not in data]
        if missing:
            raise InputError("data", f"has no {missing[0]!r}", "pass what to_dict returned")
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        return cls(**known | {"starts": tuple(data["starts"]), "notes": ()})

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
            by_group = "" if self.share is None else f"; {100 * self.share:.1f} % if each group has the same weight"
            if self.everything:
                rule, such = "Answer everything", "the"
            text = (
                f"{rule}: with confidence {sure}, at most {most} of {such} answers are wrong. Of "
                f"{count_text(self.total)} answers {count_text(self.rows)} "
                f"({100 * self.coverage:.1f} %) are kept, and {count_text(self.wrong)} of these are wrong "
                f"({100 * self.wrong / self.rows:.1f} %{by_group})."
            )
        return "\n  ".join([text, *map(str, self.notes)])

    @property
    def units(self) -> int:
        """Number of rows, or of groups if they count instead."""
        return self.total if self.groups is None else self.groups

    @property
    def fewest(self) -> int:
        """Fewest rows or groups with which a threshold can be found, all of them right."""
        return fewest_rows(self.error, self.alpha if self.seed is None else self.alpha * SHARE)

    @property
    def _advice(self) -> str:
        if self.units < self.fewest:
            return f"At least {self.fewest:,} graded {'answers' if self.groups is None else 'groups'} are needed."
        more = "Grade more answers, or allow a larger error."
        if len(self.starts) < 2:
            return more
        return (
            f"{more} Or pass start=, a score that you choose before you see the labels: its tests have all of alpha, "
            f"which {len(self.starts)} starts share here."
        )


def accept(
    scores: Scores,
    correct: ArrayLike | None = None,
    *,
    error: float = 0.10,
    alpha: float = 0.05,
    groups: ArrayLike | str | None = None,
    score: str | None = None,
    label: str | None = None,
    start: float | None = None,
    random_state: int | None = None,
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
    score, label
        Names of the columns of confidences and of right answers, if ``scores`` is a frame; ``groups`` is then a name
        too.
    error
        Largest share of wrong answers among those given.
    alpha
        One minus the confidence level.
    groups
        Group of each row, such as the question that was sampled several times: rows of a group are not independent.
        Each group then counts once.
    start
        A score from which to start, chosen before the labels are seen. There is one chain then, with the whole alpha;
        with few distinct scores it finds thresholds that the default does not.
    random_state
        Seed of the draws from groups whose rows have different scores; fresh by default.
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
    docs/certificates/abstention.md has the proof. Cost: one sort; with groups of several scores 1,000 draws, each a
    pass over the groups and the distinct scores.
    Groups: the guarantee is for a random row of a random group. If the rows of each group share one score, the sum of
    the groups' shares of wrong rows is tested, by a bound that holds for any numbers in [0, 1]. Else one row of each
    group is drawn, 1,000 times, at a quarter of alpha, and a threshold counts if at least a quarter of the draws find
    it. With a seed of your own the guarantee is the same up to the error of the 1,000 draws.
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
    given = located(scores, correct, groups=groups, score=score, label=label, call="accept")
    scores = given.scores
    seed = seed_of(random_state)
    ladder = Ladder.of(scores, given.y, given.groups, score_type)
    first = None if start is None else _first(start, scores, ladder)
    grouped, drawn = ladder.groups, ladder.groups is not None and not ladder.groups.one_score
    whole, n = alpha * SHARE if drawn else alpha, ladder.total if grouped is None else len(grouped.size)
    ranks = start_ranks(n, error, whole) if first is None else ()
    level = whole / max(len(ranks), 1)
    shown = np.zeros(2 * len(ladder.at), dtype=np.int64)
    for rows, passed in _tests(ladder, error, level, seed) if ranks or first is not None else ():
        if first is None:
            places = [strictly_above(rows, rank) for rank in ranks]
        else:
            places = [np.full(len(rows), np.count_nonzero(ladder.at >= first) - 1)]
        shown += certified(passed, places)
    rules = np.flatnonzero(shown >= (DRAWS * SHARE if drawn else 1))
    place, threshold, kept, wrong = len(ladder.at) - 1, None, 0, 0
    if len(rules):
        place, at_start = divmod(int(rules[-1]), 2)
        threshold = float(ladder.at[place]) if not at_start else ladder.cut_above(place) if first is None else first
        kept, wrong = int(ladder.rows[place]), int(ladder.wrong[place])
    notes, count, share = ladder.notes, None, None
    if grouped is not None:
        notes, count, share = (*notes, groups_count_once(groups=n)), n, grouped.risk(place)
    return Acceptance(
        threshold, float(error), float(alpha), kept, wrong, ladder.total, int(ladder.wrong[-1]), ranks, level,
        ladder.score_type, count, share, seed if drawn else None, notes,
    )  # fmt: skip


def _first(start: float, scores: Scores, ladder: Ladder) -> float:
    """The score to start from, as a number of the same dtype as the scores."""
    if isinstance(scores, Tally) and scores.resolution != "exact":
        raise InputError("start", "needs exact scores, and the tally is on a grid", "leave it out, or pass rows")
    first = float(check_scores([start], ladder.score_type, name="start")[0])
    if np.isnan(first):
        raise InputError("start", "is missing (NaN)", "pass a score, or leave it out")
    return float(np.float32(first)) if is_float32(scores) else first


def _tests(ladder: Ladder, error: float, level: float, seed: int) -> Iterator[tuple[Ints, NDArray[np.bool_]]]:
    """Units at or above each distinct score, and whether their test passes, with a line for each draw."""
    groups = ladder.groups
    if groups is None:
        yield ladder.rows[None], p_values(ladder.wrong, ladder.rows, error)[None] <= level
    elif groups.one_score:
        rows, total = groups.means()
        yield rows, mean_passes(total, rows, error, level)
    else:
        most = most_wrong(np.arange(len(groups.size) + 1), error, level)
        for rows, total in progress(groups.draws(seed, DRAWS), "accept: draws"):
            yield rows, total <= most[rows]
