"""Certificates: statements about a map, how surely they hold, under which assumptions, by which theorem.

A :class:`Certificate` is a table with one row for each statement. What the rows are about, bins of a score or of
classes, regions or nodes, is an :class:`About`, one of :mod:`calibrant.guarantees.about`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, get_args

import numpy as np

from calibrant.arrays import Kind
from calibrant.arrays.kinds import ClassKind
from calibrant.guarantees.bounds import BOUNDS, Flags
from calibrant.guarantees.bounds import Bound as Bound
from calibrant.guarantees.bounds import Mode as Mode
from calibrant.guarantees.provenance import ClassProvenance, Provenance
from calibrant.maps import ClassMap, Map
from calibrant.messages import InputError, Phrase, Setting, plural
from calibrant.numerics import Floats, Ints

Table = tuple[Floats, Floats, Floats, Ints, Ints]
"""Outputs, lower and upper ends, rows and events, by statement."""

if TYPE_CHECKING:
    from calibrant.guarantees.origins import Assumption

UNEVEN = 1.5
"""Ratio of the widest interval to the median one from which on a certificate prints both."""

IF_FRESH = "\n  This holds if these rows played no part in the fit."
"""The line below every verdict on a promise that rows could contradict."""


class Terms(NamedTuple):
    """How surely something is promised, of all places or of that of a new row, and by which intervals."""

    alpha: float
    mode: Mode
    bound: Bound

    def union(self, promised: Flags) -> int:
        """How many intervals share alpha: all promised ones, or the one of a new row.

        Bins that are empty now may fill later, which counts where one may look at any time.
        """
        if self.mode == "marginal":
            return 1
        return len(promised) if BOUNDS[self.bound].any_time else int(promised.sum())


class About(ABC):
    """What the statements of a certificate are about; its kinds are frozen dataclasses in documents.

    Statements that belong together, such as those about the classes of one region, follow each other.
    """

    key: ClassVar[str]
    """Its name in documents."""
    unit: ClassVar[str]
    """What is tested as one thing where fresh rows are held against the promise."""
    uncovered_rows: int
    """Calibration rows that lie where nothing is promised because the rows themselves drew a line there."""
    look: int = 1
    """How often a guarantee was asked for on growing rows, this time included."""

    @abstractmethod
    def sense(self) -> str:
        """In which sense the map is promised to be calibrated, and of how many classes."""

    @property
    def stays(self) -> bool:
        """Whether the places could owe nothing to the rows, which a bound that holds at any time needs."""
        return False

    @abstractmethod
    def levels(self, rows: Ints, terms: Terms) -> Floats:
        """How alpha is shared: the level of the interval of each statement."""

    def as_sampled(self, rates: Floats) -> Floats:
        """Rates of the population that is spoken of, moved to the rows as they were sampled."""
        return rates

    def epsilon(self, half_widths: Floats, promised: Flags) -> float:
        """The largest deviation that is left."""
        return float(half_widths[promised].max())

    @abstractmethod
    def validate(self, promise: Certificate) -> None:
        """Raise a ValueError where the table cannot be about this."""

    @abstractmethod
    def describes(self, map_: Map, outputs: Floats, kind: str) -> bool:
        """Whether this map gives these outputs there."""

    @abstractmethod
    def rests_on(self, promise: Certificate, provenance: Any) -> bool:
        """Whether rows of this provenance can carry the promise, as far as numbers tell."""

    @abstractmethod
    def count(self, promise: Certificate, scores: Any, y: Any, positive: Any) -> tuple[Ints, Ints, int]:
        """Fresh rows and events by statement, and how many rows were of use."""

    def tests(self, promise: Certificate, n: Ints, events: Ints, by_bin: bool) -> tuple[Ints, Ints, Floats, Floats]:
        """Rows, events and the interval that the true share is promised to lie in, by unit and test."""
        lower, upper = promise.lower, promise.upper
        if not by_bin:
            reach = self.reach(promise)
            lower, upper = np.maximum(promise.outputs - reach, 0.0), np.minimum(promise.outputs + reach, 1.0)
        return n[:, None], events[:, None], lower[:, None], upper[:, None]

    def reach(self, promise: Certificate) -> float | Floats:
        """How far off each statement is promised to be at most, without a look at its own interval."""
        return promise.epsilon

    @abstractmethod
    def sentences(self, promise: Certificate) -> Iterator[str]:
        """The promise in words, line by line, without what it assumes."""

    def unit_name(self, promise: Certificate, place: int) -> str:
        """What one unit is, in words."""
        return f"{self.unit} {place}"

    def broken_units(self, broken: Ints) -> str:
        """How many units are contradicted, in words."""
        return plural(len(broken), self.unit)

    def seen(self, check: CertificateCheck, place: int) -> str:
        """What a unit was promised and shows, in words."""
        return (
            f"promised a share between {check.lower[place, 0]:.4g} and {check.upper[place, 0]:.4g}, shows "
            f"{check.events[place]:,} of {plural(int(check.rows[place]), 'row')}"
        )


class AboutMap(About):
    """Places of a map of classes, which the certificate holds."""

    notion: ClassVar[str]
    """In which sense the map is promised to be calibrated."""
    map: ClassMap

    def sense(self) -> str:
        """The notion, and of how many classes."""
        return f"{self.notion}, {len(self.classes):,} classes"

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes, in the order of the columns."""
        return self.map.classes

    def describes(self, map_: Map, outputs: Floats, kind: str) -> bool:
        """Whether it is this very map."""
        return bool(self.map == map_)


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    r"""A promise about a map, as a table of statements.

    Simultaneous: with probability at least :math:`1 - \alpha` over the calibration data, the true share that each
    statement is about lies between ``lower`` and ``upper``, for all statements with rows. Marginal: for one new row,
    the same of the statements that it falls under, with probability at least :math:`1 - \alpha` over the calibration
    data and that row. What is promised is about places, not about outputs, so equal outputs are no difficulty.

    Attributes
    ----------
    epsilon
        By how much the map is off at most: the largest distance between an output and an end of its interval; in
        regions of the simplex the largest l1 distance, from 0 to 2.
    kind
        What the scores are.
    n
        Rows that the promise rests on.
    about
        What the statements are about: :class:`~calibrant.guarantees.about.ScoreBins`,
        :class:`~calibrant.guarantees.about.ClassBins`, :class:`~calibrant.guarantees.about.Regions` or
        :class:`~calibrant.guarantees.about.PathNodes`. The other columns have an entry for each statement.
    outputs
        The probability that the map gives.
    lower, upper
        Interval for the true share; [0, 1] where nothing is promised.
    rows, events
        Rows that speak for a statement, 0 where nothing is promised, and how many of them are events.
    assumptions, source
        What must hold, and where it is proved.
    """

    epsilon: float
    alpha: float
    mode: Mode
    bound: Bound
    kind: Kind | ClassKind
    n: int
    about: About
    outputs: Floats
    lower: Floats
    upper: Floats
    rows: Ints
    events: Ints
    assumptions: tuple[Assumption, ...]
    source: str

    def __post_init__(self) -> None:
        """Refuse numbers that contradict each other; a document may hold anything."""
        size = len(self.outputs)
        if any(len(column) != size for column in (self.lower, self.upper, self.rows, self.events)):
            raise ValueError(f"a certificate of {size} statements needs {size} entries in every column")
        if self.mode not in get_args(Mode) or self.bound not in BOUNDS:
            raise ValueError(f"mode {self.mode!r} or bound {self.bound!r} is not known")
        if not 0.0 < self.alpha < 1.0:
            raise ValueError("alpha must lie between 0 and 1")
        ordered = (self.lower >= 0.0) & (self.lower <= self.upper) & (self.upper <= 1.0)
        if not (ordered & (self.outputs >= 0.0) & (self.outputs <= 1.0)).all():
            raise ValueError("outputs and intervals must lie in [0, 1], and intervals not be turned around")
        if (self.events < 0).any() or (self.events > self.rows).any():
            raise ValueError("events must lie between 0 and the rows of their statement")
        self.about.validate(self)
        if not self.promised.any() or self.epsilon != self.about.epsilon(self.half_widths, self.promised):
            raise ValueError("epsilon must be that of the widest statement with rows, and one must be promised")

    @classmethod
    def of(
        cls,
        about: About,
        table: Table,
        terms: Terms,
        kind: Kind | ClassKind,
        n: int,
        assumptions: tuple[Assumption, ...],
        source: str,
    ) -> Certificate:
        """The certificate of a table, with the epsilon that follows."""
        outputs, lower, upper, rows, events = table
        epsilon = about.epsilon(half_widths(outputs, lower, upper), rows > 0)
        return cls(
            epsilon, *terms, kind, n, about, outputs, lower, upper, rows, events, assumptions, source
        )  # fmt: skip

    @property
    def promised(self) -> Flags:
        """Statements that rows speak for."""
        return self.rows > 0

    @property
    def half_widths(self) -> Floats:
        r""":math:`\max(\text{output} - \text{lower}, \text{upper} - \text{output})` by statement."""
        return half_widths(self.outputs, self.lower, self.upper)

    @property
    def levels(self) -> Floats:
        """The share of alpha that the interval of each statement spends."""
        return self.about.levels(self.rows, Terms(self.alpha, self.mode, self.bound))

    @property
    def uncovered_rows(self) -> int:
        """Calibration rows that lie where nothing is promised because the rows themselves drew a line there."""
        return self.about.uncovered_rows

    def describes(self, map_: Map) -> bool:
        """Whether the promise is about this very map."""
        return self.about.describes(map_, self.outputs, self.kind)

    def rests_on(self, provenance: Provenance | ClassProvenance) -> bool:
        """Whether such rows can carry the promise: independent and counted, and as many as it says."""
        return provenance.sampling == "independent" and self.about.rests_on(self, provenance)

    def __call__(
        self, alpha: float | None = None, *, bound: Bound | None = None, mode: Mode | None = None
    ) -> Certificate:
        """The certificate itself, so that ``certificate()`` reads alike on a calibrator and on what was loaded.

        Another ``alpha``, bound or mode is refused: a stored promise cannot be made anew without its rows.
        """
        for name, value in {"alpha": alpha, "bound": bound, "mode": mode}.items():
            if value is not None and value != getattr(self, name):
                raise InputError(
                    Setting(name, value),
                    Phrase(
                        "is not that of the stored certificate, which has {held}",
                        held=Setting(name, getattr(self, name)),
                    ),
                    "ask the calibrator for another one before it is saved",
                )
        return self

    def __repr__(self) -> str:
        """One short line; ``print`` tells the whole promise."""
        return (
            f"Certificate({self.about.sense()}, epsilon {round_up(self.epsilon)}, confidence "
            f"{100 * (1 - self.alpha):.6g} %, {self.mode}, {plural(self.n, 'row')})"
        )

    def __str__(self) -> str:
        """The promise in one sentence; then what it rests on, what it leaves out and what it assumes."""
        assumed = "; ".join(assumption.words(self.about.look) for assumption in self.assumptions)
        return "\n".join([*self.about.sentences(self), f"  Assumes: {assumed}."])

    def head(self, everywhere: str, here: str) -> str:
        """The beginning of the promise: ``everywhere`` of a simultaneous one, ``here`` of one about a new row."""
        percent = f"{100 * (1 - self.alpha):.6g} %"
        if self.mode == "marginal":
            return f"For a new row, with probability at least {percent}{here}"
        return f"With confidence {percent}, {everywhere}"

    def check(
        self, scores: Any, y: Any, *, level: float = 0.01, by_bin: bool = False, positive: Any = None
    ) -> CertificateCheck:
        """Hold the promise against fresh rows that played no part in the fit.

        Each statement is tested, by exact binomial tails and at ``level`` divided by their number, for a true share
        within epsilon of its output (within the largest deviation of its class or rank, where there are several), or,
        with ``by_bin``, inside its own interval, which is often narrower. In a region of the simplex within epsilon of
        the output every set of classes has a probability within epsilon / 2, and sets are tested; single classes above
        10 of them. A promise that holds is called broken with probability at most ``level``.
        """
        if self.mode == "marginal":
            raise InputError(
                Setting("mode", "marginal"),
                "makes a promise about one new row, which rows cannot contradict",
                Phrase("ask for a certificate with {mode}", mode=Setting("mode", "simultaneous")),
            )
        n, events, size = self.about.count(self, scores, y, positive)
        n, events = n * self.promised, events * self.promised
        tried, hits, lower, upper = self.about.tests(self, n, events, by_bin)
        units = int(self.promised.reshape(len(hits), -1)[:, 0].sum())
        needed = level / (units * hits.shape[1])
        p_values = outside_p_values(hits, tried, lower, upper).min(axis=1)
        best = np.minimum(*(outside_p_values(some, tried, lower, upper) for some in (0 * tried, tried)))
        return CertificateCheck(
            certificate=self,
            holds=not (p_values < needed).any(),
            telling=bool((best < needed).any()),
            n=size,
            p_values=p_values,
            rows=n,
            events=events,
            lower=lower,
            upper=upper,
            broken=np.flatnonzero(p_values < needed),
        )


@dataclass(frozen=True, eq=False)
class CertificateCheck:
    """Result of holding a certificate against fresh rows; true in a condition when nothing contradicts it.

    ``telling`` is False when no outcome of so few rows could have contradicted the promise. ``rows`` and ``events``
    are by statement, ``p_values`` and the indices in ``broken`` by statement or, for regions, by region; ``lower`` and
    ``upper``, by the same and by test, are what was tested.
    """

    certificate: Certificate
    holds: bool
    telling: bool
    n: int
    p_values: Floats
    rows: Ints
    events: Ints
    lower: Floats
    upper: Floats
    broken: Ints

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        """The verdict, with the worst place when the promise is contradicted."""
        rows = plural(self.n, "row")
        if not self.telling:
            return f"{rows}: too few to contradict the certificate, whatever they had shown."
        if self.holds:
            return f"{rows}: no contradiction to the certificate.{IF_FRESH}"
        about, worst = self.certificate.about, int(np.argmin(self.p_values))
        return (
            f"{rows}: contradicted in {about.broken_units(self.broken)}; the worst, "
            f"{about.unit_name(self.certificate, worst)}, {about.seen(self, worst)} "
            f"(p = {self.p_values[worst]:.2g}).{IF_FRESH}"
        )


def half_widths(outputs: Floats, lower: Floats, upper: Floats) -> Floats:
    """How far each output is from the farther end of its interval."""
    return np.maximum(outputs - lower, upper - outputs)


def outside_p_values(events: Ints, n: Ints, lower: Floats, upper: Floats) -> Floats:
    """Two-sided exact p-value, by bin, of the claim that the true rate lies in [lower, upper]."""
    from scipy import stats

    low = np.where(lower > 0, stats.binom.cdf(events, n, lower), 1.0)
    high = np.where(upper < 1, stats.binom.sf(events - 1, n, upper), 1.0)
    return np.where(n > 0, np.minimum(2.0 * np.minimum(low, high), 1.0), 1.0)


def round_up(x: float) -> str:
    """Three decimals, rounded up: a promise is not rounded in the promiser's favour."""
    return f"{np.ceil(x * 1000) / 1000:.3f}"


def first_few(names: Sequence[str], most: int = 5) -> str:
    """The first few of some names, and how many there are beyond.

    Examples
    --------
    >>> first_few(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"
