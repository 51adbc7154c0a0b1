"""The back-test: replay history under several policies without look-ahead, and compare what they would have served."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calibrant.arrays.columns import is_whole
from calibrant.engine import TallyStore
from calibrant.live.replay.history import History
from calibrant.live.replay.learning import ByKey, online_platt, tracking
from calibrant.live.replay.policies import Every, Never, Once, Policy, Served, read_policies
from calibrant.live.replay.result import Backtest, PolicyResult, loss_clipped
from calibrant.live.replay.scoring import Difference, Judged
from calibrant.live.replay.sentence import Status
from calibrant.live.replay.watching import OnAlarm
from calibrant.messages import InputError, Setting
from calibrant.numerics import Floats
from calibrant.selection.losses import shared_ends

MARGIN = 0.002
"""A policy that loses at most this share of the reference's log loss is as good."""

NAMED: dict[str, Callable[[], Policy]] = {
    "never": Never,
    "once": Once,
    "day": lambda: Every("day"),
    "week": lambda: Every("week"),
    "month": lambda: Every("month"),
    "on-alarm": OnAlarm,
    "online-platt": online_platt,
    "tracking": tracking,
    "bank-by-key": ByKey,
}
"""Policies by the names that :func:`backtest` and the command line take."""

USUAL = ("day", "week", "month", "once", "never")
"""Policies that are replayed by default."""


def backtest(
    scores: Any,
    y: Any = None,
    time: Any = None,
    policies: str | Policy | Sequence[str | Policy] = USUAL,
    *,
    delay: Any = 0,
    keys: Any = None,
    reference: str | None = None,
    margin: float = MARGIN,
    warm_up: int = 0,
    positive: Any = None,
    day: float | None = None,
) -> Backtest:
    r"""Replay history under policies of when to refit, without look-ahead, and compare what they would have served.

    At time t a policy knows the label of row i only if the row was predicted before t and its label had come:

    .. math:: t_i < t \quad\text{and}\quad t_i + d_i \le t

    for its delay :math:`d_i`. Maps are fitted at the start of a day, and serve the rows from then on.

    Parameters
    ----------
    scores
        Probabilities of a model, one per row; or a :class:`calibrant.TallyStore`, without ``y`` and ``time``, for
        policies that fit maps. A store knows days, so its labels are known one day later than those of rows at most.
    y
        Labels; a missing one (NaN, None) never came, and is not judged.
    time
        When each row was predicted, in any order: dates, or numbers.
    policies
        Names (``"never"``, ``"once"``, ``"day"``, ``"week"``, ``"month"``, ``"on-alarm"``, ``"online-platt"``,
        ``"tracking"``, ``"bank-by-key"``) or values: :class:`Never`, :class:`Once`, :class:`Every`, :class:`OnAlarm`,
        :class:`Online`, :class:`ByKey`.
    delay
        Time until a label is known: a number of days or a duration, one for all rows or one for each.
    keys
        Key of each row, for policies that use it.
    reference
        Name of the policy that the others are compared with; by default the first.
    margin
        A policy is as good as the reference if it loses at most this share of the reference's log loss.
    warm_up
        Number of first days that are not judged.
    positive
        The label of an event, if labels are not 0 and 1.
    day
        Length of a day, if times are numbers; 1 by default, 86,400 for seconds.

    Returns
    -------
    Backtest
        Prints as a table and one sentence; a mapping from the name of a policy to its :class:`PolicyResult`.

    Notes
    -----
    Intervals of differences are paired, and take blocks of days (7, if there are ten blocks) as independent; see
    :class:`~calibrant.live.replay.scoring.Difference`.
    Guarantee: without look-ahead, a change of labels that are not known yet changes nothing that was served. None for
    the intervals in finite samples, and none that the future is like the past.
    Edges: rows of the same time do not learn from each other. With one class only, or before enough labels are known,
    scores are served as they are. Fits are to counts on a grid of about 1,000 cells, so that a map differs from that of
    the rows by less than their sampling error.
    Cost: a sort by time, a pass over rows for each policy, and a fit to about 1,000 cells for each refit.

    Reference: Tashman (2000), Out-of-sample tests of forecasting accuracy; Gneiting and Raftery (2007), Strictly proper
    scoring rules.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> time = np.sort(rng.uniform(0, 200, 20_000))
    >>> z = rng.normal(-1, 1, 20_000)
    >>> y = rng.random(20_000) < 1 / (1 + np.exp(-(z - 0.5 * (time > 100))))  # the level falls after 100 days
    >>> found = backtest(1 / (1 + np.exp(-z)), y, time, ["day", "week", "never"], delay=3)
    >>> [(each.name, each.refits, each.status) for each in found.values()]
    [('every day', 196, 'as good'), ('every week', 28, 'as good'), ('never', 0, 'worse')]
    """
    if not is_whole(warm_up) or warm_up < 0:
        raise InputError(Setting("warm_up", warm_up), "must be a number of days, 0 or more")
    if not 0.0 <= margin < 1.0:
        raise InputError(Setting("margin", margin), "must be at least 0 and below 1")
    asked = read_policies(policies, NAMED)
    history = _history(scores, y, time, delay=delay, keys=keys, positive=positive, day=day)
    judged = Judged.of(history, int(warm_up))
    rows = judged.by_day(judged.n)
    if not rows.any():
        raise InputError(Setting("warm_up", warm_up), f"leaves none of {history.days:,} days with labels to judge")
    served = {policy.name: policy.serve(history) for policy in asked}
    base = _reference(reference, asked)
    others = judged.n - judged.events
    ends = shared_ends((each.probabilities, judged.events, others) for each in served.values())
    losses = {name: judged.log_losses(each.probabilities, ends) for name, each in served.items()}
    briers = {name: judged.briers(each.probabilities) for name, each in served.items()}
    allowed = margin * float(losses[base].sum()) / float(rows.sum())
    results = []
    for policy in asked:
        name = policy.name
        change = Difference.of(losses[name] - losses[base], rows)
        results.append(
            _result(
                policy,
                served[name],
                judged,
                losses[name],
                briers[name],
                change,
                Difference.of(briers[name] - briers[base], rows),
                "as good" if name == base else status_of(change, allowed),
            )
        )
    names = tuple(history.calendar.name(number) for number in range(history.days))
    events = judged.by_day(judged.events)
    notes = history.notes if ends is None else (*history.notes, loss_clipped(ends.low, ends.high))
    return Backtest(tuple(results), base, margin, int(rows.sum()), int(events.sum()), names, rows, events, notes)


def status_of(change: Difference, allowed: float) -> Status:
    """How a policy compares with the reference, given the loss at which it is still as good.

    Examples
    --------
    >>> [status_of(Difference(0.0, low, high, 9, 7), 0.1) for low, high in ((-2, -1), (-1, 0.05), (0.1, 1), (-1, 1))]
    ['better', 'as good', 'worse', 'cannot tell']
    """
    if change.high < 0.0:
        return "better"
    if change.high <= allowed:
        return "as good"
    return "worse" if change.low > 0.0 else "cannot tell"


def _history(scores: Any, y: Any, time: Any, *, delay: Any, keys: Any, positive: Any, day: float | None) -> History:
    if isinstance(scores, TallyStore):
        for name, value in (("y", y), ("time", time), ("keys", keys), ("positive", positive), ("day", day)):
            if value is not None:
                raise InputError(name, "cannot be passed with a tally store, which has it already", "leave it out")
        if np.ndim(delay):
            raise InputError("delay", "must be one number for a tally store", "pass a number of days")
        return History.of_store(scores, delay=delay)
    for name, value in (("y", y), ("time", time)):
        if value is None:
            raise InputError(name, "is missing", "pass scores, labels and times, or a tally store")
    return History.of_rows(scores, y, time, delay=delay, keys=keys, positive=positive, day=day)


def _reference(name: str | None, asked: Sequence[Policy]) -> str:
    names = [policy.name for policy in asked]
    if name is None:
        return names[0]
    if name in NAMED and name not in names:
        name = NAMED[name]().name
    if name not in names:
        raise InputError(Setting("reference", name), "is not among the policies", f"pass one of {', '.join(names)}")
    return name


def _result(
    policy: Policy,
    served: Served,
    judged: Judged,
    losses: Floats,
    briers: Floats,
    change: Difference,
    brier_change: Difference,
    status: Status,
) -> PolicyResult:
    history, p = judged.history, served.probabilities
    rows = float(judged.n.sum())
    error, sharp = judged.calibration(p)
    in_order = None
    if history.lines is not None:
        in_order = np.empty(len(p))
        in_order[history.lines.place] = p
    return PolicyResult(
        policy,
        float(losses.sum()) / rows,
        float(briers.sum()) / rows,
        error,
        sharp,
        None if served.refits is None else len(served.refits),
        served.largest_step,
        change,
        brier_change,
        status,
        in_order,
        tuple(history.calendar.name(number) for number in served.refits or ()),
        served.maps,
        judged.by_day(judged.n * p),
        losses,
    )
