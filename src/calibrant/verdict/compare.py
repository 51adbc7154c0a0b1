"""Compare two to twenty models on the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays import Rows
from calibrant.arrays.columns import width
from calibrant.arrays.labels import LabelType
from calibrant.arrays.score_types import MulticlassScoreType, ScoreType
from calibrant.decisions import choose_threshold
from calibrant.messages import Argument, InputError, Note, Phrase, Setting, Text
from calibrant.metrics.multiclass.scores import losses_of_rows
from calibrant.metrics.tolerance import LIMIT
from calibrant.numerics import LEAST_LOW, Ends, Floats
from calibrant.reading import Given, read
from calibrant.selection.losses import row_losses, shared_ends
from calibrant.verdict.change import (
    OLD_NEW,
    Change,
    Crossing,
    Difference,
    labels_of_one_model,
    own_answers,
    own_labels,
)
from calibrant.verdict.check import judge, judge_problems
from calibrant.verdict.differences import (
    FEWEST_OF_A_CLASS,
    area,
    calibration,
    every_pair,
    mean_of,
    ranking,
    spread_between,
    weights_of,
)
from calibrant.verdict.event_names import EventName, event_names
from calibrant.verdict.input.evidence import as_probabilities, evidence_of_rows, without_single_groups
from calibrant.verdict.input.reading import read_rows
from calibrant.verdict.multiclass.classes import AskedNotion, Problems, problems_of

MOST_MODELS = 20
"""Models that are compared at once."""


def compare(
    scores_old: Any,
    scores_new: Any = None,
    y: Any = None,
    sample_weight: Any = None,
    *,
    score: Mapping[str, Any] | Sequence[Any] | None = None,
    label: str | None = None,
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
    tolerance: float | tuple[float, float] = LIMIT,
    event: EventName | None = None,
    random_state: int = 0,
) -> Change:
    r"""Compare two to twenty models on the same rows: calibration, losses, ranking and decisions at thresholds.

    Call ``compare(old, new, y)``, or ``compare({"raw": p, "new": q, ...}, y)`` for any number of models with names, or
    ``compare(frame, ["p", "q"], "y")`` for columns of a frame.

    *Which is better calibrated?* The squared calibration error is the mean of (event rate minus mean score) squared
    over at most 15 ranges of the scores, less what noise adds to it. Each model is binned by its own scores, in the
    same ranges, which do not depend on labels. Losses and ranking also measure how well a model separates events from
    other rows; this error does not.

    Parameters
    ----------
    scores_old, scores_new
        Probabilities of the old and of the new model for the same rows; for several classes matrices or frames with one
        column per class. Or a mapping of the scores of two to twenty models by name, with ``y`` as the second argument.
        Or a frame, with its columns in ``score`` and ``label``, or as the second and third argument.
    y
        Outcomes of the rows. All models must predict the same event or the same classes. If each has its own outcomes,
        such as whether its answer to a question was right, a mapping of them by the same names; rows are still paired.
    score, label
        Names of the columns, if ``scores_old`` is a frame: those of the scores, or a mapping of a column, or of a list
        of columns for several classes, by the name of the model. ``sample_weight`` and ``groups`` are then names too.
    sample_weight, weight_type, groups, positive, classes, notion, label_type, tolerance, event, random_state
        As in :func:`calibrant.check`. With ``groups`` influences are summed by group, as in
        :func:`~calibrant.metrics.variance.spread_of`; importance weights enter squared.
    score_type
        As in :func:`calibrant.check`, for the scores of all models.
    thresholds
        Policy thresholds. For each: how many rows change sides under the new scores, and how many of those are events.
        By default 0.5 for one score of two models; none for several classes, where a threshold is one of the
        confidence, or for more models.
    cost_fp, cost_fn
        Cost of acting without an event, and of not acting with one. The mean cost of a row is then compared too, if
        each model acts from the threshold cost_fp / (cost_fp + cost_fn) on; it is also the default of ``thresholds``.

    Returns
    -------
    Change
        Prints itself as text; has the verdicts, the differences of all pairs and the rows that cross each threshold,
        ``to_frame()``, ``to_markdown()`` and ``plot()``, with all reliability curves.

    Notes
    -----
    Differences are paired: intervals are Student's, from the influence of each row, which is its loss minus the mean
    loss, its placement among the other class (DeLong, DeLong and Clarke-Pearson 1988), or what it adds to the squared
    calibration error. The interval of the latter also holds where both models are calibrated, or off alike, where it is
    longer than necessary; see :func:`calibrant.verdict.differences.calibration`.

    Intervals are pointwise: each holds for its own pair. "Better" and "worse" are said by p-values that are adjusted
    for all pairs of a measure by Holm's method. One score, and the calibration of several classes, have no interval
    with fewer than 20 rows of either class; calibration has none with fewer than 10 groups. Verdicts are those of
    :func:`calibrant.check`, with its limit. Predicted minus observed events are described, and not tested here.

    Several classes are compared by log loss, Brier score (summed over classes), accuracy and the calibration of the
    confidence, multi-label targets by the measures of all labels together. If the log loss of a model is infinite, the
    Brier score comes first, and the scores of all models are clipped in the log loss, to the
    :class:`~calibrant.numerics.Ends` of all of them together; its line says where. Rows are needed: tallies do not say
    which rows belong together. Guarantee: no finite-sample guarantee; ``tests/statistical/test_compare.py`` has the
    coverage. Cost: a sort of all scores, and O(n) for each pair.

    Examples
    --------
    >>> rng = np.random.default_rng(2)
    >>> p = rng.beta(2, 5, size=4000)
    >>> observed = rng.random(4000) < p
    >>> change = compare(p**0.5, p, observed, thresholds=[0.5])
    >>> change.old.status, change.differences[0].name, change.differences[0].words
    ('miscalibrated', 'Squared calibration error', 'better')
    >>> three = compare({"raw": p**0.5, "new": p, "third": p**2}, observed)
    >>> [(each.models, each.words) for each in three.differences[:3]]
    [('new against raw', 'better'), ('third against raw', 'better'), ('third against new', 'worse')]
    >>> classes = rng.dirichlet([1.0, 1.0, 1.0], size=4000)
    >>> labels = (rng.random((4000, 1)) > classes.cumsum(axis=1)).sum(axis=1)
    >>> flat = 0.5 * classes + 0.5 / 3
    >>> [(each.name, each.words) for each in compare(flat, classes, labels).differences[1:3]]
    [('Log loss', 'better'), ('Brier score', 'better')]
    """
    models, labels, sample_weight, columns, label = _asked(scores_old, scores_new, y, sample_weight, score, label)
    names, called, own = list(models), event_names(event), isinstance(labels, Mapping)
    levels = _levels(thresholds)
    costs = _costs(cost_fp, cost_fn)
    if costs is not None and levels is None:
        levels = (float(choose_threshold(*costs)),)
    settings: dict[str, Any] = {"weight_type": weight_type, "groups": groups, "positive": positive, "classes": classes}
    settings |= {"score_type": score_type, "label_type": label_type, "call": "compare", "most": None}
    given: dict[str, Given] = {}
    argued: dict[str, dict[str, str]] = {}
    for name, scores in models.items():
        argued[name] = {"scores": _argument(name, names)}
        argued[name] |= {"y": f"y[{name!r}]"} if own else {}
        try:
            one: dict[str, Any] = {"score": None if columns is None else columns[name], "label": label}
            given[name] = read(scores, labels[name] if own else labels, sample_weight, **one, **settings)
        except InputError as error:
            raise _about(error, argued[name]) from None
    one_score = [name for name in names if given[name].kind == "score"]
    if 0 < len(one_score) < len(names) or len({each.kind for each in given.values()}) > 1:
        which = _argument(one_score[0] if one_score else names[1], names)
        raise InputError(which, "is one column, and another model has a matrix", "pass matrices of the same classes")
    if not one_score:
        if costs is not None:
            fix = "pass the column of one class, or leave costs out"
            raise InputError("cost_fp", "is for one event, and there are several classes", fix)
        made = [_problems(given[name], notion, random_state, argued[name]) for name in names]
        return _compare_classes(made, names, levels, tolerance, random_state, called)
    for argument, value in (("classes", None if width(given[names[0]].scores) == 2 else classes), ("notion", notion)):
        if value is not None:
            raise InputError(
                argument, "is for a matrix of class scores, and this is one score", f"leave {argument} out"
            )
    checked = {name: _read(given[name], argued[name]) for name in names}
    rows = [each for each, _ in checked.values()]
    for name, (each, _) in checked.items():
        if len(each.scores) != len(rows[0].scores):
            lengths = {"old": len(rows[0].scores), "new": len(each.scores)}
            problem = Phrase("has {old} rows and {other} has {new}", other=Argument(argued[name]["scores"]), **lengths)
            raise InputError(argued[names[0]]["scores"], problem, "all must score the same rows")
    verdicts = {
        name: replace(judge(evidence_of_rows(each, said=said, random_state=random_state), tolerance), event=called)
        for name, (each, said) in checked.items()
    }
    differences, lowest = calibration(rows, names)
    differences = (*differences, *_losses(rows, names), *ranking(rows, names))
    if costs is not None:
        differences += _costs_compared(costs, rows, names)
    said: tuple[Note, ...] = (own_labels(),) if own else ()
    if not own and (event == "correct answer" or _answers_of_one(rows)):
        said = (labels_of_one_model(),)
    default = (0.5,) if len(rows) == 2 else ()
    return Change(verdicts, differences, _crossings(default if levels is None else levels, rows, names), lowest, said)


def _asked(
    scores: Any, second: Any, y: Any, weight: Any, score: Mapping[str, Any] | Sequence[Any] | None, label: Any
) -> tuple[dict[str, Any], Any, Any, dict[str, Any] | None, Any]:
    """Scores by model, labels, weights, and names of columns if there is a frame."""
    if score is None and isinstance(second, Mapping | list) and isinstance(y, str):
        score, label, second, y = second, y, None, None
    if score is not None or label is not None:
        for argument, value in (("score", score), ("label", label)):
            if value is None:
                raise InputError(argument, "is missing", "name the scores of all models and the labels")
        if second is not None or y is not None:
            raise InputError("scores_new", "is given beside the names of columns", "pass the frame and the names alone")
        listed = [score] if isinstance(score, str) or not isinstance(score, Mapping | Sequence) else score
        columns = dict(listed) if isinstance(listed, Mapping) else {str(each): each for each in listed}
        models, labels = dict.fromkeys(columns, scores), None
    elif isinstance(scores, Mapping):
        models, columns = {str(name): each for name, each in scores.items()}, None
        labels, weight = (y, weight) if second is None else (second, y if weight is None else weight)
    else:
        if second is None or y is None:
            call = "compare({name: scores, ...}, y), or compare(frame, [columns], label)"
            missing = "scores_new" if second is None else "y"
            raise InputError(missing, "is missing", f"pass compare(scores_old, scores_new, y), {call}")
        models, labels, columns = dict(zip(OLD_NEW, (scores, second), strict=True)), y, None
    if not 2 <= len(models) <= MOST_MODELS:
        argument = "scores_old" if columns is None else "score"
        raise InputError(argument, f"has {len(models)} models", f"pass 2 to {MOST_MODELS}, each with a name of its own")
    if columns is None and labels is None:
        raise InputError("y", "is missing", "pass compare({name: scores, ...}, y)")
    if isinstance(labels, Mapping) and set(map(str, labels)) != set(models):
        fix = f"pass the labels of {', '.join(map(repr, models))}, or one array for all models"
        raise InputError("y", "has other names than the models", fix)
    labels = {str(name): each for name, each in labels.items()} if isinstance(labels, Mapping) else labels
    return models, labels, weight, columns, label


def _argument(name: str, names: Sequence[str]) -> str:
    """How the scores of a model were passed."""
    return f"scores_{name}" if tuple(names) == OLD_NEW else f"scores_old[{name!r}]"


def _compare_classes(
    made: Sequence[Problems],
    names: Sequence[str],
    levels: Sequence[float] | None,
    tolerance: float | tuple[float, float],
    seed: int,
    event: tuple[str, str] | None,
) -> Change:
    """The comparison of matrices of class scores, or of the scores of several labels."""
    models = [_rows_of(problems) for problems in made]
    for name, problems, rows in zip(names, made, models, strict=True):
        if problems.notion != made[0].notion or len(rows.scores) != len(models[0].scores):
            problem = f"does not match {_argument(names[0], names)}"
            raise InputError(_argument(name, names), problem, "all must score the same rows and classes")
    several = [problems.classes for problems in made if problems.classes is not None]
    if len(several) == len(made):
        found = [losses_of_rows(rows) for rows in several]
        ends = None
        if not all(np.isfinite(each[0]).all() for each in found):
            given = [each.scores for each in several if each.score_type != "logit"]
            least = min(float(each.min(initial=1.0, where=each > 0.0)) for each in given)
            ends = Ends(max(least / 2.0, LEAST_LOW), 1.0)
        logs = [each[0] if ends is None else np.minimum(each[0], -np.log(ends.low)) for each in found]
        right = [rows.labels.astype(np.float64) for rows in models]
        accuracy = _mean_pairs(right, models, "Accuracy", names, lower_is_better=False, few=False)
        differences = (*_in_order(logs, [each[1] for each in found], models, names, ends, few=False), *accuracy)
    else:
        differences = _losses(models, names)
    calibrated, lowest = calibration(models, names)
    verdicts = [replace(judge_problems(each, tolerance, random_state=seed), event=event) for each in made]
    return Change(
        dict(zip(names, verdicts, strict=True)),
        (*calibrated, *differences),
        _crossings(levels or (), models, names),
        lowest,
        (own_answers(),) if several else (),
    )


def _rows_of(problems: Problems) -> Rows:
    assert problems.rows is not None
    return without_single_groups(problems.rows)


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


def _costs_compared(costs: tuple[float, float], models: Sequence[Rows], names: Sequence[str]) -> tuple[Difference, ...]:
    """The differences of the mean costs of a row, at the threshold that suits the costs."""
    level = float(choose_threshold(*costs))

    def losses(rows: Rows) -> Floats:
        acts = rows.scores >= level
        return np.where(rows.labels == 1, np.where(acts, 0.0, costs[1]), np.where(acts, costs[0], 0.0))

    return _mean_pairs([losses(rows) for rows in models], models, f"Cost of a row, threshold {level:.4g}", names)


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


def _losses(models: Sequence[Rows], names: Sequence[str]) -> tuple[Difference, ...]:
    """The differences of log loss and Brier score of binary rows."""
    ends = shared_ends((rows.scores, rows.labels, 1 - rows.labels) for rows in models)
    logs = [np.where(rows.labels == 1, *row_losses(rows.scores, "log", ends)) for rows in models]
    return _in_order(logs, [(rows.scores - rows.labels) ** 2 for rows in models], models, names, ends)


def _in_order(
    logs: Sequence[Floats],
    squares: Sequence[Floats],
    models: Sequence[Rows],
    names: Sequence[str],
    ends: Ends | None,
    few: bool = True,
) -> tuple[Difference, ...]:
    """The log loss and the Brier score; the other way round where the first is clipped."""
    brier = _mean_pairs(squares, models, "Brier score", names, few=few)
    log = _mean_pairs(logs, models, "Log loss", names, few=few)
    return (*log, *brier) if ends is None else (*brier, *(replace(each, ends=ends) for each in log))


def _mean_pairs(
    values: Sequence[Floats], models: Sequence[Rows], name: str, names: Sequence[str], **how: bool
) -> tuple[Difference, ...]:
    means = [mean_of(each, rows) for each, rows in zip(values, models, strict=True)]
    return every_pair(means, name, names, **how)


def _answers_of_one(models: Sequence[Rows]) -> bool:
    """Whether the scores of one model rank the labels, and those of another that vary do not at all."""
    if any(rows.labels.min() == rows.labels.max() for rows in models):
        return False
    ranked, unranked = False, False
    for rows in models:
        if (
            rows.scores.min() == rows.scores.max()
            or min(rows.labels.sum(), (1 - rows.labels).sum()) < FEWEST_OF_A_CLASS
        ):
            continue
        found = area(rows)
        spread = spread_between(found.influence, rows)
        half = np.inf if spread is None else spread.quantile(0.95) * spread.sd
        ranked |= found.value - half > 0.6
        unranked |= found.value + half < 0.6
    return ranked and unranked


def _crossings(levels: Sequence[float], models: Sequence[Rows], names: Sequence[str]) -> tuple[Crossing, ...]:
    places = list(combinations(range(len(models)), 2))
    return tuple(
        replace(_crossing(level, models[i], models[j]), pair=(names[i], names[j]))
        for level in levels
        for i, j in places
    )


def _crossing(level: float, old: Rows, new: Rows) -> Crossing:
    w = weights_of(old)
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
