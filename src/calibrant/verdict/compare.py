"""Compare an old and a new model on the same rows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Rows
from calibrant.arrays.columns import width
from calibrant.arrays.labels import LabelType
from calibrant.arrays.score_types import MulticlassScoreType, ScoreType
from calibrant.decisions import choose_threshold
from calibrant.messages import Argument, InputError, Note, Phrase, Setting, Text
from calibrant.metrics.multiclass.scores import losses_of_rows
from calibrant.metrics.tolerance import TOLERANCE
from calibrant.metrics.variance import Spread, between
from calibrant.numerics import LEAST_LOW, Ends, Floats
from calibrant.reading import Given, read
from calibrant.selection.losses import row_losses, shared_ends
from calibrant.tallies.cells import mass_below
from calibrant.verdict.change import Change, Crossing, Difference
from calibrant.verdict.check import judge, judge_problems
from calibrant.verdict.event_names import EventName, event_names
from calibrant.verdict.input.evidence import as_probabilities, evidence_of_rows, without_single_groups
from calibrant.verdict.input.reading import read_rows
from calibrant.verdict.multiclass.classes import AskedNotion, Problems, problems_of

MAX_MAPS = 20
"""New scores that split into at most this many increasing maps of the old ones are taken as cross-fitted."""

MAX_INSPECTED_ROWS = 20_000
"""Rows inspected for this, evenly spaced in the order of the old scores."""


def compare(
    scores_old: Any,
    scores_new: Any = None,
    y: ArrayLike | None = None,
    sample_weight: Any = None,
    *,
    score_old: str | Sequence[str] | None = None,
    score_new: str | Sequence[str] | None = None,
    label: str | Sequence[str] | None = None,
    y_new: ArrayLike | None = None,
    thresholds: ArrayLike | None = None,
    cost_fp: float | None = None,
    cost_fn: float | None = None,
    classes: Sequence[Any] | None = None,
    notion: AskedNotion | None = None,
    groups: Any = None,
    weight_type: Literal["importance", "frequency"] = "importance",
    positive: Any = None,
    score_type: ScoreType | MulticlassScoreType | None = None,
    label_type: LabelType = "class",
    tolerance: tuple[float, float] = TOLERANCE,
    event: EventName | None = None,
    random_state: int = 0,
) -> Change:
    r"""Compare two models on the same rows: calibration, losses, ranking and decisions at thresholds.

    Differences are paired, with Student intervals from the influence of each row: its loss minus the mean loss, or its
    placement among the other class (DeLong, DeLong and Clarke-Pearson 1988).

    Parameters
    ----------
    scores_old, scores_new
        Probabilities of the old and of the new model for the same rows; for several classes matrices or frames with one
        column per class. Or one frame, with its columns in ``score_old``, ``score_new`` and ``label``.
    y
        Outcomes of the rows. Both models must predict the same event or the same classes.
    score_old, score_new, label
        Names of columns, if ``scores_old`` is a frame with the scores of both models; lists for several classes.
        ``sample_weight`` and ``groups`` are then names too.
    sample_weight, weight_type, groups, positive, classes, notion, label_type, tolerance, event, random_state
        As in :func:`calibrant.check`. With ``groups`` the influences are summed by group, as in
        :func:`~calibrant.metrics.variance.spread_of`; importance weights enter squared.
    score_type
        As in :func:`calibrant.check`, for the scores of both models.
    y_new
        Outcomes of the new model, if each model has its own, such as whether its answer to a question was right; rows
        are still paired.
    thresholds
        Policy thresholds. For each: how many rows change sides under the new scores, and how many of those are events.
        By default 0.5 for one score and none for several classes, where a threshold is one of the confidence.
    cost_fp, cost_fn
        Cost of acting without an event, and of not acting with one. The mean cost of a row is then compared too, if
        each model acts from the threshold cost_fp / (cost_fp + cost_fn) on; it is also the default of ``thresholds``.

    Returns
    -------
    Change
        Prints itself as text; has both verdicts, the differences and the rows that cross each threshold.

    Notes
    -----
    Several classes are compared by log loss, Brier score (summed over classes) and accuracy, multi-label targets by the
    mean log loss and Brier score of all labels. If the log loss of a model is infinite, the Brier score comes first,
    and the scores of both models are clipped in the log loss, to the :class:`~calibrant.numerics.Ends` of all of them
    together; its line says where. Rows are needed: two tallies do not say which rows belong together. Guarantee: no
    finite-sample guarantee; with fewer than about twenty events intervals are too short. Cost: two sorts.

    Examples
    --------
    >>> rng = np.random.default_rng(2)
    >>> p = rng.beta(2, 5, size=4000)
    >>> observed = rng.random(4000) < p
    >>> change = compare(p**0.5, p, observed, thresholds=[0.5])
    >>> change.new.status, change.differences[0].words
    ('calibrated', 'better')
    >>> classes = rng.dirichlet([1.0, 1.0, 1.0], size=4000)
    >>> labels = (rng.random((4000, 1)) > classes.cumsum(axis=1)).sum(axis=1)
    >>> flat = 0.5 * classes + 0.5 / 3
    >>> [(each.name, each.words) for each in compare(flat, classes, labels).differences[:2]]
    [('Log loss', 'better'), ('Brier score', 'better')]
    """
    names: tuple[Any, Any, Any] = (score_old, score_new, label)
    by_position = isinstance(scores_new, str | list) and isinstance(y, str | list)
    if by_position and isinstance(sample_weight, str):  # names of the columns of a frame
        names, (scores_new, y, sample_weight) = (scores_new, y, sample_weight), (None, None, None)
    if any(each is not None for each in names):
        _refuse_beside(names, scores_new, y)
        scores_new = scores_old
    elif scores_new is None or y is None:
        call = "compare(frame, score_old=..., score_new=..., label=...)"
        missing = "scores_new" if scores_new is None else "y"
        raise InputError(missing, "is missing", f"pass compare(scores_old, scores_new, y), or {call}")
    called = event_names(event)
    levels = _levels(thresholds)
    costs = _costs(cost_fp, cost_fn)
    if costs is not None and levels is None:
        levels = (float(choose_threshold(*costs)),)
    settings: dict[str, Any] = {"weight_type": weight_type, "groups": groups, "positive": positive, "classes": classes}
    settings |= {"score_type": score_type, "label_type": label_type, "call": "compare", "most": None}
    labels = (y, y if y_new is None else y_new)
    argued = ({"scores": "scores_old"}, {"scores": "scores_new"} | ({} if y_new is None else {"y": "y_new"}))
    sides = []
    for place, scores in enumerate((scores_old, scores_new)):
        try:
            one: dict[str, Any] = {"score": names[place], "label": names[2]}
            sides.append(read(scores, labels[place], sample_weight, **one, **settings))
        except InputError as error:
            raise _about(error, argued[place] | {"score": ("score_old", "score_new")[place]}) from None
    if sides[0].kind != sides[1].kind:
        which = "scores_old" if sides[0].kind == "score" else "scores_new"
        raise InputError(which, "is one column, and the other model has a matrix", "pass matrices of the same classes")
    if sides[0].kind != "score":
        if costs is not None:
            fix = "pass the column of one class, or leave costs out"
            raise InputError("cost_fp", "is for one event, and there are several classes", fix)
        made = [_problems(each, notion, random_state, argued[place]) for place, each in enumerate(sides)]
        return _compare_classes(made, levels, tolerance, random_state, called)
    for name, value in (("classes", None if width(sides[0].scores) == 2 else classes), ("notion", notion)):
        if value is not None:
            raise InputError(name, "is for a matrix of class scores, and this is one score", f"leave {name} out")
    (old, said), (new, more) = (_read(each, argued[place]) for place, each in enumerate(sides))
    if len(old.scores) != len(new.scores):
        lengths = {"old": len(old.scores), "new": len(new.scores)}
        problem = Phrase("has {old} rows and {other} has {new}", other=Argument("scores_new"), **lengths)
        raise InputError("scores_old", problem, "both must score the same rows")
    evidence = [
        evidence_of_rows(rows, said=told, random_state=random_state) for rows, told in ((old, said), (new, more))
    ]
    verdicts = [judge(each, tolerance) for each in evidence]
    return Change(
        old=replace(verdicts[0], event=called),
        new=replace(verdicts[1], event=called),
        differences=(
            *_losses(old, new),
            *_ranking(old, new),
            *(() if costs is None else (_cost_difference(costs, old, new),)),
        ),
        crossings=tuple(_crossing(level, old, new) for level in ((0.5,) if levels is None else levels)),
    )


def _compare_classes(
    made: Sequence[Problems],
    levels: Sequence[float] | None,
    tolerance: tuple[float, float],
    seed: int,
    event: tuple[str, str] | None,
) -> Change:
    """The comparison of two matrices of class scores, or of the scores of several labels."""
    old, new = (_rows_of(problems) for problems in made)
    if made[0].notion != made[1].notion or len(old.scores) != len(new.scores):
        raise InputError("scores_new", "does not match scores_old", "both must score the same rows and classes")
    if made[0].classes is not None and made[1].classes is not None:
        before, after = (losses_of_rows(problems.classes) for problems in made if problems.classes is not None)
        ends = None
        if not all(np.isfinite(each[0]).all() for each in (before, after)):
            rows = [each.classes for each in made if each.classes is not None]
            given = [each.scores for each in rows if each.score_type != "logit"]
            least = min(float(each.min(initial=1.0, where=each > 0.0)) for each in given)
            ends = Ends(max(least / 2.0, LEAST_LOW), 1.0)
        logs = [each[0] if ends is None else np.minimum(each[0], -np.log(ends.low)) for each in (before, after)]
        right = [rows.labels.astype(np.float64) for rows in (old, new)]
        accuracy = _paired("Accuracy", right[0], right[1], old, lower_is_better=False)
        differences = (*_in_order(logs, [before[1], after[1]], old, ends), accuracy)
    else:
        differences = _losses(old, new)
    return Change(
        old=replace(judge_problems(made[0], tolerance, random_state=seed), event=event),
        new=replace(judge_problems(made[1], tolerance, random_state=seed), event=event),
        differences=differences,
        crossings=tuple(_crossing(level, old, new) for level in levels or ()),
    )


def _rows_of(problems: Problems) -> Rows:
    assert problems.rows is not None
    return without_single_groups(problems.rows)


def _refuse_beside(names: tuple[Any, Any, Any], scores_new: Any, y: Any) -> None:
    """Refuse names of columns without one of them, or beside arrays."""
    for argument, name in zip(("score_old", "score_new", "label"), names, strict=True):
        if name is None:
            raise InputError(argument, "is missing", "name the scores of both models and the labels")
    if scores_new is not None or y is not None:
        raise InputError("scores_new", "is given beside the names of columns", "pass the frame and the names alone")


def _levels(thresholds: ArrayLike | None) -> tuple[float, ...] | None:
    if thresholds is None:
        return None
    levels = np.atleast_1d(np.asarray(thresholds, dtype=np.float64))
    if levels.ndim != 1 or not ((levels >= 0.0) & (levels <= 1.0)).all():
        raise InputError("thresholds", "must be probabilities between 0 and 1", "pass 0.5 for 50 %")
    return tuple(levels.tolist())


def _costs(cost_fp: float | None, cost_fn: float | None) -> tuple[float, float] | None:
    if cost_fp is None and cost_fn is None:
        return None
    if cost_fp is None or cost_fn is None:
        raise InputError("cost_fn" if cost_fn is None else "cost_fp", "is missing", "pass both costs")
    return float(cost_fp), float(cost_fn)


def _cost_difference(costs: tuple[float, float], old: Rows, new: Rows) -> Difference:
    """The difference of the mean costs of a row, at the threshold that suits the costs."""
    level = float(choose_threshold(*costs))

    def losses(rows: Rows) -> Floats:
        acts = rows.scores >= level
        return np.where(rows.labels == 1, np.where(acts, 0.0, costs[1]), np.where(acts, costs[0], 0.0))

    return _paired(f"Cost of a row, threshold {level:.4g}", losses(old), losses(new), old)


def _about(error: InputError, names: Mapping[str, str]) -> InputError:
    """An error with the argument names of :func:`compare`."""
    fix = None if error.fix is None else _renamed(error.fix, names)
    return InputError(_named(error.subject, names), _renamed(error.problem, names), fix)


def _read(given: Given, names: Mapping[str, str]) -> tuple[Rows, tuple[Note, ...]]:
    """Checked rows of one model, and what was said about them."""
    try:
        rows, said = read_rows(given)
        return without_single_groups(as_probabilities(rows)), said
    except InputError as error:
        raise _about(error, names) from None


def _problems(given: Given, notion: AskedNotion | None, random_state: int, names: Mapping[str, str]) -> Problems:
    """The problems of one model with several classes or labels."""
    try:
        return problems_of(given, notion=notion, random_state=random_state)
    except InputError as error:
        raise _about(error, names) from None


def _named(subject: str | Setting, names: Mapping[str, str]) -> str | Setting:
    return subject if isinstance(subject, Setting) else names.get(subject, subject)


def _renamed(text: Text, names: Mapping[str, str]) -> Text:
    """A problem or a fix with the argument names of :func:`compare`."""
    if not isinstance(text, Phrase):
        return text
    values = {
        name: Argument(names.get(value.name, value.name)) if isinstance(value, Argument) else value
        for name, value in text.values.items()
    }
    return Phrase(text.template, **values)


def _losses(old: Rows, new: Rows) -> tuple[Difference, ...]:
    """The differences of log loss and Brier score of binary rows."""
    ends = shared_ends((rows.scores, rows.labels, 1 - rows.labels) for rows in (old, new))
    logs = [np.where(rows.labels == 1, *row_losses(rows.scores, "log", ends)) for rows in (old, new)]
    return _in_order(logs, [(rows.scores - rows.labels) ** 2 for rows in (old, new)], old, ends)


def _in_order(
    logs: Sequence[Floats], squares: Sequence[Floats], rows: Rows, ends: Ends | None
) -> tuple[Difference, ...]:
    """The log loss and the Brier score; the other way round where the first is clipped."""
    brier, log = _paired("Brier score", squares[0], squares[1], rows), _paired("Log loss", logs[0], logs[1], rows)
    return (log, brier) if ends is None else (brier, replace(log, ends=ends))


def _paired(name: str, old: Floats, new: Floats, rows: Rows, *, lower_is_better: bool = True) -> Difference:
    """The difference of two mean losses on the same rows."""
    w = _weights(rows)
    means = [float((w * values).sum() / w.sum()) for values in (old, new)]
    influence = (new - old - (means[1] - means[0])) / w.sum()
    return _difference(name, means[0], means[1], influence, rows, lower_is_better)


def _ranking(old: Rows, new: Rows) -> tuple[Difference, ...]:
    """The difference of AUC; empty with one class."""
    if any(rows.labels.min() == rows.labels.max() for rows in (old, new)):
        return ()
    (before, of_old), (after, of_new) = _area(old), _area(new)
    maps = _maps(old.scores, new.scores) if np.array_equal(old.labels, new.labels) else 1
    return (_difference("AUC", before, after, of_new - of_old, old, lower_is_better=False, maps=maps),)


def _area(rows: Rows) -> tuple[float, Floats]:
    """AUC, and the influence of each row on it."""
    events, w = rows.labels == 1, _weights(rows)
    placed = _placements(rows.scores, events, w)
    area = float((w * placed)[events].sum() / w[events].sum())
    influence = np.empty(len(w))
    for mine, sign in ((events, 1.0), (~events, -1.0)):
        own = sign * placed[mine]
        influence[mine] = (own - (w[mine] * own).sum() / w[mine].sum()) / w[mine].sum()
    return area, influence


def _difference(
    name: str, old: float, new: float, influence: Floats, rows: Rows, lower_is_better: bool = True, maps: int = 1
) -> Difference:
    """A difference with its Student interval, from the influence of each row or group.

    :class:`~calibrant.selection.losses.Losses` is not used: its sums by cell are valid for mean losses, not for AUC.
    """
    w = _weights(rows)
    squares = (w if rows.counts else w * w) * influence**2
    if rows.groups is not None:
        code = np.unique(rows.groups, return_inverse=True)[1]
        sizes = np.bincount(code, w) if rows.counts else np.zeros(code.max() + 1)
        sums, parts = (np.bincount(code, each).astype(np.float64) for each in (w * influence, squares))
        spread = between(sums, parts, sizes == 1.0, np.bincount(code, w).astype(np.float64))
    else:
        size = float(w.sum() if rows.counts else w.sum() ** 2 / (w * w).sum())
        if size < 2.0:
            return Difference(name, old, new, -np.inf, np.inf, lower_is_better, maps)
        spread = Spread(float(squares.sum()) * size / (size - 1.0), size - 1.0)
    half = spread.quantile(0.95) * spread.sd
    return Difference(name, old, new, new - old - half, new - old + half, lower_is_better, maps)


def _maps(old: Floats, new: Floats) -> int:
    """Number of increasing maps of the old scores that produce the new ones; 1 where there are too many for that.

    In the order of the old scores, the new scores split into as many increasing sequences as their longest decreasing
    sequence is long (Dilworth 1950). Cross-fitting makes one for each fold; another model makes about the square root
    of the number of rows.
    """
    order = np.lexsort((new, old))
    taken = order[np.unique(np.linspace(0, len(order) - 1, min(MAX_INSPECTED_ROWS, len(order))).astype(np.intp))]
    if len(taken) < 4 * MAX_MAPS**2:
        return 1
    ends: list[float] = []  # patience sorting: increasing sequences end at these values, negated
    for value in (-new[taken]).tolist():
        place = bisect_left(ends, value)
        if place == len(ends):
            if place == MAX_MAPS:
                return 1
            ends.append(value)
        else:
            ends[place] = value
    return len(ends)


def _weights(rows: Rows) -> Floats:
    return np.ones(len(rows.scores)) if rows.weights is None else rows.weights.astype(np.float64)


def _placements(scores: Floats, events: NDArray[np.bool_], w: Floats) -> Floats:
    """For an event, the share of non-events below it; for a non-event, of events below it; ties count half."""
    values, index = np.unique(scores, return_inverse=True)
    placed = np.empty(len(scores))
    for mine, other in ((events, ~events), (~events, events)):
        by_value = np.bincount(index[other], w[other], minlength=len(values))
        below = mass_below(by_value) / by_value.sum()
        placed[mine] = below[index[mine]]
    return placed


def _crossing(level: float, old: Rows, new: Rows) -> Crossing:
    w = _weights(old)
    before, after = old.scores >= level, new.scores >= level
    up, down = ~before & after, before & ~after
    hit = w * old.labels
    return Crossing(
        level,
        float(w[before].sum()),
        float(w[after].sum()),
        float(w[up].sum()),
        float(hit[up].sum()),
        float(w[down].sum()),
        float(hit[down].sum()),
    )
