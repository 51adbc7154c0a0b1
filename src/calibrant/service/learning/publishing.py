"""Versions: the map that is published, a step from the one that is served, and how a version is applied."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from calibrant.calibration import Calibration
from calibrant.live import Bank, MapGuard
from calibrant.maps import BetaMap, ByGroupMap, IdentityMap, LogitAffineMap, Map
from calibrant.messages import InputError
from calibrant.numerics import Floats, Ints
from calibrant.online import Forecaster, resume

MOST_PUBLISHED = 10_000
"""Keys whose own maps a version holds, those with the most rows; other keys have the global map."""


class ServedMap:
    """A version as it is served: the probability of a score and the number of its key.

    Parameters
    ----------
    map_
        The map; by group if keys have their own.

    Examples
    --------
    >>> ServedMap.read(None).apply(np.array([0.2]), np.array([0])).tolist()
    [0.2]
    """

    def __init__(self, map_: Map) -> None:
        self.map = map_

    @classmethod
    def read(cls, document: str | None) -> ServedMap:
        """A version from its document; None is version 0, the score as it is."""
        return cls(IdentityMap() if document is None else Calibration.from_json(document).map)

    def apply(self, scores: Floats, keys: Ints) -> Floats:
        """Probabilities.

        Parameters
        ----------
        scores
            Scores.
        keys
            Numbers of the keys, as :func:`calibrant.service.store.log.key_number` gives them.

        Returns
        -------
        array
            One per row.
        """
        found = self.map.apply(scores, keys) if isinstance(self.map, ByGroupMap) else self.map.apply(scores)
        return np.asarray(found, dtype=np.float64)


@dataclass(frozen=True)
class Candidate:
    """A map that is to be published.

    Attributes
    ----------
    map
        The map, moved only a part of the way if the step was too large.
    step
        Largest step in log-odds that was asked for.
    may_serve
        Whether it keeps the order of scores and its step is within the limit.
    """

    map: Map
    step: float
    may_serve: bool

    @property
    def document(self) -> str:
        """As it is stored."""
        return Calibration(self.map).to_json()


def candidate(new: Map, served: Map, scores: Floats, max_step: float) -> Candidate:
    """The map to publish in place of the one that is served.

    Parameters
    ----------
    new, served
        The maps.
    scores
        Scores as observed; steps are measured at their quantiles.
    max_step
        Largest step in log-odds.

    Returns
    -------
    Candidate
        Within the step if it can be moved a part of the way.
    """
    guard = MapGuard(scores, max_step=max_step)
    if isinstance(new, ByGroupMap):
        new = _in_order(new)
    if isinstance(served, IdentityMap):
        served = _as_it_is(new)
    try:
        admitted = guard.admit(new, served)
    except InputError:  # it reverses the order of scores, or it is of another kind and too far
        return Candidate(new, float("inf"), may_serve=False)
    return Candidate(admitted.map, admitted.step, may_serve=True)


def map_of(forecaster: Forecaster, bank: Bank | None, *, together: bool) -> Map:
    """The map that is learned now.

    Parameters
    ----------
    forecaster
        What learned all rows.
    bank
        What learned the rows of each key, if keys have their own maps; its prior becomes the global map.
    together
        Whether all keys move with the global map, as after a change of the world; otherwise a key with many rows
        stays where it is.

    Returns
    -------
    Map
        By group, if there is a bank.
    """
    frozen = forecaster.freeze()
    pooled = frozen.map if isinstance(frozen, Calibration) else frozen
    if bank is None:
        assert isinstance(pooled, Map)  # forecasters of settings freeze
        return pooled
    assert isinstance(pooled, LogitAffineMap)  # settings ask for Platt maps
    bank.refresh_prior(pooled, keep="deviations" if together else "maps")
    return bank.freeze(bank.rows_of_top(MOST_PUBLISHED)).map


def restarted(forecaster: Forecaster, fresh: Forecaster) -> Forecaster:
    """A forecaster with the map of one and the step sizes of a new one, which follows a change at once."""
    state, new = dict(forecaster.state), fresh.state
    kept = 1 + (2 if type(forecaster).__name__ == "OnlinePlatt" else 3)  # rows learned, and the parameters of the map
    state["numbers"] = state["numbers"][:kept] + new["numbers"][kept:]
    return resume(state)


def _in_order(new: ByGroupMap) -> ByGroupMap:
    """With the global map for keys whose own one reverses the order of scores; they move to it in capped steps."""
    default = new.default
    if default is None or all(part.direction.never_falls for part in new.maps):
        return new
    return replace(new, maps=tuple(part if part.direction.never_falls else default for part in new.maps))


def _as_it_is(like: Map) -> Map:
    """The score as it is, as a map of the same kind, so that a step from it can be a part of the way."""
    part = like.default if isinstance(like, ByGroupMap) else like
    if isinstance(part, LogitAffineMap):
        return replace(part, slope=1.0, intercept=0.0)
    return replace(part, a=1.0, b=1.0, c=0.0) if isinstance(part, BetaMap) else IdentityMap()
