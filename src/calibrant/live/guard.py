"""A guard in front of published maps: order kept, steps in log-odds capped, and thin evidence refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays.columns import check_whole
from calibrant.maps import BetaMap, ByGroupMap, LogitAffineMap, Map
from calibrant.messages import InputError, Shown, plural
from calibrant.numerics import Floats, logit
from calibrant.online.inputs import many_scores
from calibrant.online.limits import real, yes_no

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
"""Quantiles of the observed scores at which steps are measured."""


@dataclass(frozen=True)
class Admitted(Shown):
    """A map that a guard lets pass.

    Attributes
    ----------
    map
        The map to publish.
    step
        Largest change in log-odds that was asked for, at the observed scores; 0 for the first map.
    capped
        How many maps were moved only a part of their way: of one map, 0 or 1; of a map by group, of its groups.
    """

    map: Map
    step: float
    capped: int

    def __str__(self) -> str:
        """What was asked for, and what was capped."""
        what = f"{plural(self.capped, 'map')} capped" if self.capped else "nothing capped"
        return f"Largest step {self.step:.3f} in log-odds; {what}."


class MapGuard(Shown):
    """Checks each map before it is published, against the one before it.

    Parameters
    ----------
    scores
        Scores as observed; steps are measured at their quantiles from 1 % to 99 %.
    max_step
        Largest change in log-odds from one published map to the next. Beyond it a Platt or beta map is moved a part
        of the way, and another kind of map is refused.
    min_rows, min_events
        Evidence that a map needs; less is refused.
    monotone
        Refuse maps that reverse the order of scores. A forecaster guarantees the order only if its maps cannot do so;
        Platt maps can, by a negative slope.

    Notes
    -----
    Guarantee: at the quantiles of ``scores``, log-odds of consecutive maps differ by at most ``max_step``; this is
    arithmetic, not statistics. Edges: the first map has no step. A group without a map before has that of other groups.
    Cost: one evaluation of each map at seven scores. Reference: none.

    Examples
    --------
    >>> from calibrant.maps import LogitAffineMap
    >>> guard = MapGuard([0.1, 0.2, 0.3], max_step=0.5, min_rows=100)
    >>> admitted = guard.admit(LogitAffineMap(1.0, 1.0), LogitAffineMap(1.0, 0.0), rows=1_000)
    >>> round(admitted.map.intercept, 6), str(admitted)
    (0.5, 'Largest step 1.000 in log-odds; 1 map capped.')
    """

    def __init__(
        self,
        scores: ArrayLike,
        *,
        max_step: float = 0.5,
        min_rows: int = 0,
        min_events: int = 0,
        monotone: bool = True,
    ) -> None:
        observed = many_scores(scores)
        if not len(observed):
            raise InputError("scores", "is empty", "pass scores as observed")
        self.at: Floats = np.unique(np.quantile(observed, QUANTILES))
        self.max_step = real("max_step", max_step, 1e-6, 1e3)
        check_whole("min_rows", min_rows, 0)
        check_whole("min_events", min_events, 0)
        self.min_rows, self.min_events = min_rows, min_events
        self.monotone = yes_no("monotone", monotone)

    def admit(
        self, new: Map, published: Map | None = None, *, rows: float | None = None, events: float | None = None
    ) -> Admitted:
        """The map to publish in place of another one.

        Parameters
        ----------
        new
            The map, such as ``forecaster.freeze()`` or ``bank.freeze().map``.
        published
            The map that is published now; None for the first.
        rows, events
            Evidence behind the new map; needed if the guard asks for some.

        Returns
        -------
        Admitted
            The map, a part of the way to it, or an InputError.
        """
        for name, least, given in (("rows", self.min_rows, rows), ("events", self.min_events, events)):
            if least and (given is None or not given >= least):
                have = "is not stated" if given is None else f"is {given:g}"
                raise InputError(name, f"{have}, but a published map needs {least}", "publish it later")
        if self.monotone:
            for group, part in _parts(new):
                if not part.direction.never_falls:
                    where = f" in group {group!r}" if group is not None else ""
                    raise InputError("new", f"does not keep the order of scores{where}", "keep the published map")
        if published is None:
            return Admitted(new, 0.0, 0)
        if isinstance(new, ByGroupMap):
            return self._admit_groups(new, published)
        if isinstance(published, ByGroupMap):
            raise InputError("new", "has no groups, but the published map has", "publish a map by the same column")
        return self._admit_one(new, published)

    def _admit_groups(self, new: ByGroupMap, published: Map) -> Admitted:
        if isinstance(published, ByGroupMap) and published.by != new.by:
            raise InputError("new", f"is by {new.by!r}, but the published map is by {published.by!r}")
        before = dict(_parts(published))
        fallback = before.get(None)
        found: dict[str | None, Admitted] = {}
        for name, part in _parts(new):
            old = before.get(name, fallback)
            found[name] = Admitted(part, 0.0, 0) if old is None else self._admit_one(part, old)
        maps = tuple(found[group].map for group in new.groups)
        default = found[None].map if None in found else None
        every = found.values()
        return Admitted(
            replace(new, maps=maps, default=default), max(e.step for e in every), sum(e.capped for e in every)
        )

    def _admit_one(self, new: Map, old: Map) -> Admitted:
        moved = logit(np.asarray(new.apply(self.at))) - logit(np.asarray(old.apply(self.at)))
        step = float(np.abs(moved).max())
        if step <= self.max_step:
            return Admitted(new, step, 0)
        moved_map = _between(old, new, self.max_step / step)
        if moved_map is None:
            raise InputError(
                "new",
                f"moves by {step:.3f} in log-odds, and only Platt and beta maps can be moved a part of the way",
                f"keep the published map, or pass a larger max_step than {self.max_step:g}",
            )
        return Admitted(moved_map, step, 1)


def _between(old: Map, new: Map, share: float) -> Map | None:
    """The map whose log-odds are a share of the way from one map to another; None if they are of other kinds."""
    for kind, names in ((LogitAffineMap, ("slope", "intercept")), (BetaMap, ("a", "b", "c"))):
        if isinstance(new, kind) and isinstance(old, kind):
            same = all(getattr(new, name) == getattr(old, name) for name in ("on", "low", "high") if hasattr(new, name))
            pairs = {name: (getattr(old, name), getattr(new, name)) for name in names}
            return replace(new, **{name: a + share * (b - a) for name, (a, b) in pairs.items()}) if same else None
    return None


def _parts(map_: Map) -> Iterator[tuple[str | None, Map]]:
    """The maps of the groups by name, and the map of other rows under None."""
    if not isinstance(map_, ByGroupMap):
        yield None, map_
        return
    yield from zip(map_.groups, map_.maps, strict=True)
    if map_.default is not None:
        yield None, map_.default
