"""Policies of a back-test as values: what is served, given the labels that were known at the time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.arrays.columns import is_whole, nearest
from calibrant.live.replay.history import History, Usable
from calibrant.maps import IdentityMap, Map
from calibrant.messages import InputError, Setting
from calibrant.numerics import Floats, logit
from calibrant.tallies import Tally

PERIODS = {"day": "every day", "week": "every week", "month": "every month"}

AFTER = 28
"""Days of history after which :class:`Once` fits."""

FEWEST = 20
"""Labels of each class that a fit needs by default."""

HELD = 1e-9
"""Forecasts are judged, and steps measured, this far from 0 and 1 at most."""


@dataclass(frozen=True, eq=False)
class Served:
    """What a policy would have served.

    Attributes
    ----------
    probabilities
        One for each line of the history.
    refits
        Days at whose start another map was served; None for a policy without maps, which learns by row or by day.
    maps
        Map that was served from each of these days on.
    largest_step
        Largest change of the log-odds at an observed score quantile: from map to map after the first, or from day to
        day for a policy that learns row by row, once enough labels are known. NaN if there was no step.
    """

    probabilities: Floats
    refits: tuple[int, ...] | None
    maps: tuple[Map, ...] = ()
    largest_step: float = float("nan")


class Policy(ABC):
    """Base class of policies: frozen values with a name, which replay a history."""

    #: Whether it needs single rows rather than counts by day.
    needs_rows: bool = False
    #: How often a policy without maps learns: ``"row"`` or ``"day"``.
    learns_each: str = "row"

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in tables."""

    @abstractmethod
    def serve(self, history: History) -> Served:
        """What it would have served, given only the labels that were known at the time."""


@dataclass(frozen=True)
class Never(Policy):
    """Serve the scores as they are, or through one map that was fitted before the history begins.

    Parameters
    ----------
    map
        A map of :mod:`calibrant.maps`; None for the scores as they are.

    Notes
    -----
    Guarantee: none; it is what the others are compared with. Edges: none. Cost: one pass over the rows.
    Reference: Gupta (2023), section 6.4, where the fixed model is the baseline.

    Examples
    --------
    >>> from calibrant import live
    >>> live.Never().name
    'never'
    """

    map: Map = field(default_factory=IdentityMap)

    @property
    def name(self) -> str:
        """Name in tables."""
        return "never"

    def serve(self, history: History) -> Served:
        """The scores through its map."""
        return Served(self.map.apply(history.scores), ())


@dataclass(frozen=True)
class Refitting(Policy):
    """Base class of policies that fit a map to the labels that are known at the start of some days.

    Subclasses set which days these are. Until the first fit, scores are served as they are. A fit is left out while
    there are fewer than ``min_events`` labels of either class.
    """

    calibrator: Any = field(default=None, kw_only=True)
    window: int | None = field(default=None, kw_only=True)
    min_events: int = field(default=FEWEST, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse settings that cannot be used."""
        if self.window is not None and (not is_whole(self.window) or self.window < 1):
            raise InputError(Setting("window", self.window), "must be a number of days, 1 or more, or None for all")
        if not is_whole(self.min_events) or self.min_events < 0:
            raise InputError(Setting("min_events", self.min_events), "must be an integer, 0 or more")
        if self.calibrator is not None and not hasattr(self.calibrator, "fit_tally"):
            fix = "pass one of calibrant.calibrators, such as calibrant.PlattScaling()"
            raise InputError("calibrator", "must be a calibrator that fits to tallies", fix)

    @property
    def how(self) -> str:
        """Calibrator and window, as part of the name; empty for the defaults."""
        kind = "" if self.calibrator is None else type(self.calibrator).__name__
        window = "" if self.window is None else f"last {self.window} days"
        words = ", ".join(part for part in (kind, window) if part)
        return f" ({words})" if words else ""

    def fit(self, usable: Usable, day: int) -> Map | None:
        """The map fitted to the labels known at the start of a day; None if there are too few."""
        tally = usable.at(day)
        fewest = min(tally.positives, tally.total - tally.positives)
        return None if not tally.total or fewest < self.min_events else fitted(self.calibrator, tally)


def fitted(calibrator: Any, tally: Tally) -> Map:
    """A map fitted to a tally by a copy of the calibrator; by Platt scaling if it is None."""
    if calibrator is None:
        from calibrant.fits.scaling import fit_platt

        return fit_platt(tally)[0]
    from sklearn.base import clone

    found: Map = clone(calibrator).fit_tally(tally).map_
    return found


@dataclass(frozen=True)
class Once(Refitting):
    """Fit one map after some days, and serve it from then on.

    Parameters
    ----------
    after
        Number of days after which the map is fitted, or later if labels are then too few.
    calibrator, window, min_events
        As in :class:`Every`.

    Notes
    -----
    Guarantee: none beyond that of the calibrator on the labels it is fitted to. Edges: a history without enough labels
    is served as it is. Cost: one fit to a tally. Reference: Gupta (2023), section 6.4, fixed-batch scaling.

    Examples
    --------
    >>> from calibrant import live
    >>> live.Once(after=90).name
    'once, after 90 days'
    """

    after: int = AFTER

    def __post_init__(self) -> None:
        """Refuse settings that cannot be used."""
        super().__post_init__()
        if not is_whole(self.after) or self.after < 0:
            raise InputError(Setting("after", self.after), "must be a number of days, 0 or more")

    @property
    def name(self) -> str:
        """Name in tables."""
        return ("once" if self.after == AFTER else f"once, after {self.after} days") + self.how

    def serve(self, history: History) -> Served:
        """The scores, and from its day on the map."""
        usable = Usable(history, self.window)
        for day in range(self.after, history.days):
            found = self.fit(usable, day)
            if found is not None:
                return serve_maps(history, [(day, found)])
        return serve_maps(history, [])


@dataclass(frozen=True)
class Every(Refitting):
    """Fit a new map at the start of each day, week or month, or after each number of days.

    Parameters
    ----------
    period
        ``"day"``, ``"week"`` (Mondays), ``"month"`` (first days), or a number of days. Without dates a week is 7 days,
        and a month is 30.
    calibrator
        A calibrator that fits to tallies; by default Platt scaling.
    window
        Fit to the labels that became known in this many days; None for all.
    min_events
        Labels of each class that a fit needs; before, the map in use stays.

    Notes
    -----
    Guarantee: none beyond that of the calibrator on the labels it is fitted to. Edges: until the first fit, scores are
    served as they are. Cost: a fit to a tally of about 1,000 cells for each period, whatever the number of rows.
    Reference: Gupta (2023), section 6.4, windowed scaling.

    Examples
    --------
    >>> from calibrant import live
    >>> live.Every("week", window=90).name, live.Every(3).name
    ('every week (last 90 days)', 'every 3 days')
    """

    period: str | int = "week"

    def __post_init__(self) -> None:
        """Refuse settings that cannot be used."""
        super().__post_init__()
        number = is_whole(self.period) and int(self.period) >= 1
        if not number and self.period not in PERIODS:
            raise InputError(Setting("period", self.period), "must be 'day', 'week', 'month' or a number of days")

    @property
    def name(self) -> str:
        """Name in tables."""
        return (PERIODS[self.period] if isinstance(self.period, str) else f"every {self.period} days") + self.how

    def serve(self, history: History) -> Served:
        """Each map from its day on."""
        usable = Usable(history, self.window)
        made = ((day, self.fit(usable, day)) for day in history.calendar.starts(self.period, history.days).tolist())
        return serve_maps(history, [(day, found) for day, found in made if found is not None])


def serve_maps(history: History, made: list[tuple[int, Map]]) -> Served:
    """The probabilities of maps, each from its day on, and the scores before."""
    out = history.scores.copy()
    bounds = np.searchsorted(history.day, [day for day, _ in made] + [history.days])
    for (_, found), a, b in zip(made, bounds, bounds[1:], strict=False):
        out[a:b] = found.apply(history.scores[a:b])
    maps = tuple(found for _, found in made)
    at = [found.apply(history.score_quantiles) for found in maps]
    return Served(out, tuple(day for day, _ in made), maps, largest_step(at))


def largest_step(outputs: list[Floats]) -> float:
    """Largest change of log-odds from one list of probabilities to the next; NaN for fewer than two.

    Examples
    --------
    >>> largest_step([np.array([0.5, 0.5]), np.array([0.5, 0.731058578630005])])
    1.0
    """
    if len(outputs) < 2:
        return float("nan")
    odds = logit(np.clip(np.array(outputs), HELD, 1.0 - HELD))
    return round(float(np.abs(np.diff(odds, axis=0)).max()), 12)


def read_policies(given: Any, named: dict[str, Any]) -> tuple[Policy, ...]:
    """Policies from values and from names, each with a name of its own."""
    many = list(given) if isinstance(given, list | tuple) else [given]
    found = tuple(read_policy(each, named) for each in many)
    names = [policy.name for policy in found]
    if not found:
        raise InputError("policies", "is empty", "pass at least one")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError("policies", f"has {twice!r} twice", "leave one out")
    return found


def read_policy(given: Any, named: dict[str, Any]) -> Policy:
    """A policy as it is, or by its name."""
    if isinstance(given, Policy):
        return given
    if isinstance(given, type) and issubclass(given, Policy):
        raise InputError("policies", f"has the class {given.__name__}", f"pass {given.__name__}()")
    text = given.strip().lower().replace("_", "-").replace(" ", "-") if isinstance(given, str) else given
    if isinstance(text, str) and text in named:
        found: Policy = named[text]()
        return found
    near = nearest(text, named)
    meant = f"did you mean {near!r}?" if near else f"names are {', '.join(named)}"
    raise InputError("policies", f"has {given!r}, which is not a policy", meant)
