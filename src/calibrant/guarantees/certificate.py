"""Certificates: a table of statements about a map, with confidence, assumptions and theorem.

A :class:`Certificate` is a table with one row for each statement. What the rows are about (bins of one score, bins of
classes, regions of the simplex, nodes of paths) is an :class:`About`, one of :mod:`calibrant.guarantees.about`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, get_args

import numpy as np

from calibrant.arrays import ScoreType
from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.guarantees.bounds import BOUNDS, Flags, any_time
from calibrant.guarantees.bounds import Coverage as Coverage
from calibrant.guarantees.bounds import IntervalName as IntervalName
from calibrant.guarantees.provenance import MulticlassProvenance, Provenance
from calibrant.maps import Map, MulticlassMap
from calibrant.messages import InputError, Phrase, Setting, Shown, plural
from calibrant.numerics import Floats, Ints
from calibrant.visible import visible

Table = tuple[Floats, Floats, Floats, Ints, Ints]
"""Outputs, lower and upper ends, rows and events, by statement."""

if TYPE_CHECKING:
    from calibrant.guarantees.origins import Assumption

UNEVEN = 1.5
"""A certificate prints both the widest and the median interval if their ratio is at least this."""

IF_FRESH = "\n  This is valid only if these rows were not used in the fit."
"""The line below every result of checking a certificate on fresh rows."""


class Terms(NamedTuple):
    """Alpha, coverage (all statements, or those of one new row) and interval method of a certificate."""

    alpha: float
    coverage: Coverage
    interval: IntervalName

    def union(self, covered: Flags) -> int:
        """How many intervals share alpha: all covered ones, or only the one of a new row.

        For an always-valid interval every bin counts, since bins that are empty now may fill later.
        """
        if self.coverage == "marginal":
            return 1
        return len(covered) if any_time(self.interval) else int(covered.sum())


class About(ABC):
    """What the statements of a certificate are about; subclasses are frozen dataclasses that documents store.

    Statements that belong together, such as those about the classes of one region, follow each other.
    """

    key: ClassVar[str]
    """Its name in documents."""
    unit: ClassVar[str]
    """What is tested as one unit when the certificate is checked on fresh rows."""
    intervals: ClassVar[Collection[str]] = BOUNDS.keys()
    """Names of the intervals that such statements can have."""
    needs_provenance: ClassVar[bool] = False
    """Whether the provenance of the rows must be known: the statements rest on other rows than were counted."""
    references: tuple[str, ...]
    """The references that a certificate about this may cite."""
    uncovered_rows: int
    """Calibration rows on bin edges that the rows themselves chose; the certificate does not cover them."""
    look: int = 1
    """How many times a guarantee was requested on growing rows, including this time."""

    @property
    def assumed(self) -> frozenset[Assumption]:
        """Assumptions that every certificate about this states, so that none can be struck out of a document."""
        from calibrant.guarantees.origins import Assumption  # not needed to fit and apply

        return frozenset({Assumption.INDEPENDENT, Assumption.NOT_TUNED})

    @abstractmethod
    def sense(self) -> str:
        """The notion of calibration that is certified, and the number of classes."""

    @property
    def stays(self) -> bool:
        """Whether bins or regions can be independent of the rows, as an always-valid interval requires."""
        return False

    @abstractmethod
    def levels(self, rows: Ints, terms: Terms) -> Floats:
        """How alpha is shared: the alpha of the interval of each statement."""

    def as_sampled(self, rates: Floats) -> Floats:
        """Rates in the population, converted to rates among the rows as they were sampled."""
        return rates

    def epsilon(self, half_widths: Floats, covered: Flags) -> float:
        """The largest deviation among the covered statements."""
        return float(half_widths[covered].max())

    @abstractmethod
    def validate(self, certificate: Certificate) -> None:
        """Raise a ValueError if the table is inconsistent with what it is about."""

    @abstractmethod
    def describes(self, map_: Map, outputs: Floats, kind: str) -> bool:
        """Whether this map gives these outputs for these statements."""

    @abstractmethod
    def rests_on(self, certificate: Certificate, provenance: Any) -> bool:
        """Whether rows of this provenance can support the certificate, as far as the numbers show."""

    @abstractmethod
    def count(
        self, certificate: Certificate, scores: Any, y: Any, positive: Any, by: Any = None
    ) -> tuple[Ints, Ints, int]:
        """Fresh rows and events by statement, and the number of rows used; ``by`` are features, if needed."""

    def tests(self, certificate: Certificate, n: Ints, events: Ints, by_bin: bool) -> tuple[Ints, Ints, Floats, Floats]:
        """Rows, events and the interval that is guaranteed to contain the true rate, by unit and test."""
        lower, upper = certificate.lower, certificate.upper
        if not by_bin:
            reach = self.reach(certificate)
            lower, upper = np.maximum(certificate.outputs - reach, 0.0), np.minimum(certificate.outputs + reach, 1.0)
        return n[:, None], events[:, None], lower[:, None], upper[:, None]

    def reach(self, certificate: Certificate) -> float | Floats:
        """The guaranteed largest deviation of each statement, regardless of its own interval."""
        return certificate.epsilon

    @abstractmethod
    def sentences(self, certificate: Certificate) -> Iterator[str]:
        """The guarantee in words, line by line, without the assumptions."""

    def unit_name(self, certificate: Certificate, place: int) -> str:
        """The name of a unit."""
        return f"{self.unit} {place}"

    def broken_units(self, broken: Ints) -> str:
        """Number of contradicted units, in words."""
        return plural(len(broken), self.unit)

    def seen(self, check: CertificateCheck, place: int) -> str:
        """The guaranteed interval of a unit and what was observed, in words."""
        return (
            f"guaranteed rate {check.lower[place, 0]:.4g} to {check.upper[place, 0]:.4g}, observed "
            f"{check.events[place]:,} of {plural(int(check.rows[place]), 'row')}"
        )


class AboutMap(About):
    """Regions or nodes of a multiclass map, which the certificate stores."""

    notion: ClassVar[str]
    """The notion of calibration that is certified."""
    map: MulticlassMap

    def sense(self) -> str:
        """The notion and the number of classes."""
        return f"{self.notion}, {len(self.classes):,} classes"

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes, in the order of the columns."""
        return self.map.classes

    def describes(self, map_: Map, outputs: Floats, kind: str) -> bool:
        """Whether it is the same map."""
        return bool(self.map == map_)


@dataclass(frozen=True, eq=False, repr=False)
class Certificate(Shown):
    r"""A finite-sample calibration guarantee for a map, as a table of statements.

    Simultaneous coverage: with probability at least :math:`1 - \alpha` over the calibration data, the true rate that
    each statement is about lies between ``lower`` and ``upper``, for all statements with rows. Marginal coverage: for
    one new row, the same holds for the statements that apply to it, with probability at least :math:`1 - \alpha` over
    the calibration data and that row. Statements are about bins, not about outputs, so bins with equal outputs are
    allowed.

    Attributes
    ----------
    epsilon
        The guaranteed largest calibration error: the largest distance between an output and an end of its interval;
        for regions of the simplex the largest l1 distance, from 0 to 2.
    alpha
        Probability that the guarantee may fail; the confidence is 1 - alpha.
    coverage
        ``"simultaneous"``: all statements together. ``"marginal"``: those that apply to one new row.
    interval
        Name of the confidence interval, such as ``"clopper-pearson"``.
    score_type
        Type of the scores.
    n
        Number of rows that the guarantee is based on.
    about
        What the statements are about: :class:`~calibrant.guarantees.about.ScoreBins`,
        :class:`~calibrant.guarantees.about.WeightedBins`, :class:`~calibrant.guarantees.about.MulticlassBins`,
        :class:`~calibrant.guarantees.about.Regions`, :class:`~calibrant.guarantees.about.PathNodes`,
        :class:`~calibrant.guarantees.about.TreeLeaves` or :class:`~calibrant.guarantees.about.ClassLeaves`.
        The other columns have an entry for each statement.
    outputs
        The probability that the map returns.
    lower, upper
        Interval for the true rate; [0, 1] for statements that are not covered.
    rows, events
        Rows of each statement, 0 if it is not covered, and how many of them are events.
    assumptions, reference
        What must hold, and where it is proved.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> scores = np.arange(1_000) / 1_000
    >>> certificate = cb.HistogramBinning(n_bins=4).fit(scores, np.arange(1_000) % 2).certificate(alpha=0.1)
    >>> certificate.alpha, certificate.coverage, certificate.interval
    (0.1, 'simultaneous', 'clopper-pearson')
    >>> round(certificate.epsilon, 3)
    0.073
    """

    epsilon: float
    alpha: float
    coverage: Coverage
    interval: IntervalName
    score_type: ScoreType | MulticlassScoreType
    n: int
    about: About
    outputs: Floats
    lower: Floats
    upper: Floats
    rows: Ints
    events: Ints
    assumptions: tuple[Assumption, ...]
    reference: str

    def __post_init__(self) -> None:
        """Reject numbers that contradict each other; a document may hold anything."""
        size = len(self.outputs)
        if any(len(column) != size for column in (self.lower, self.upper, self.rows, self.events)):
            raise ValueError(f"a certificate of {size} statements needs {size} entries in every column")
        if self.coverage not in get_args(Coverage) or self.interval not in self.about.intervals:
            raise ValueError(f"unknown coverage {self.coverage!r} or interval {self.interval!r}")
        if not 0.0 < self.alpha < 1.0:
            raise ValueError("alpha must lie between 0 and 1")
        ordered = (self.lower >= 0.0) & (self.lower <= self.upper) & (self.upper <= 1.0)
        if not (ordered & (self.outputs >= 0.0) & (self.outputs <= 1.0)).all():
            raise ValueError("outputs and intervals must lie in [0, 1], with lower <= upper")
        if (self.events < 0).any() or (self.events > self.rows).any():
            raise ValueError("events must lie between 0 and the rows of their statement")
        self.about.validate(self)
        if not self.covered.any() or self.epsilon != self.about.epsilon(self.half_widths, self.covered):
            raise ValueError("epsilon must be that of the widest covered statement, and at least one must be covered")

    @classmethod
    def of(
        cls,
        about: About,
        table: Table,
        terms: Terms,
        score_type: ScoreType | MulticlassScoreType,
        n: int,
        assumptions: tuple[Assumption, ...],
        reference: str,
    ) -> Certificate:
        """The certificate of a table, with its epsilon computed.

        Parameters
        ----------
        about
            What the statements are about.
        table
            Outputs, lower and upper ends, rows and events, by statement.
        terms
            Alpha, coverage and interval.
        score_type, n, assumptions, reference
            As the attributes of the same name.
        """
        outputs, lower, upper, rows, events = table
        epsilon = about.epsilon(half_widths(outputs, lower, upper), rows > 0)
        return cls(
            epsilon, *terms, score_type, n, about, outputs, lower, upper, rows, events, assumptions, reference
        )  # fmt: skip

    @property
    def covered(self) -> Flags:
        """Which statements the certificate covers: those with rows."""
        return self.rows > 0

    @property
    def half_widths(self) -> Floats:
        r""":math:`\max(\text{output} - \text{lower}, \text{upper} - \text{output})` by statement."""
        return half_widths(self.outputs, self.lower, self.upper)

    @property
    def levels(self) -> Floats:
        """The share of alpha used by the interval of each statement."""
        return self.about.levels(self.rows, Terms(self.alpha, self.coverage, self.interval))

    @property
    def uncovered_rows(self) -> int:
        """Calibration rows on bin edges that the rows themselves chose; the certificate does not cover them."""
        return self.about.uncovered_rows

    def describes(self, map_: Map) -> bool:
        """Whether the certificate is about this map."""
        return self.about.describes(map_, self.outputs, self.score_type)

    def rests_on(self, provenance: Provenance | MulticlassProvenance) -> bool:
        """Whether such rows can support the certificate: independent, unweighted, and as many as it states."""
        return provenance.sampling == "independent" and self.about.rests_on(self, provenance)

    def __call__(
        self, alpha: float | None = None, *, interval: IntervalName | None = None, coverage: Coverage | None = None
    ) -> Certificate:
        """The certificate itself, so that ``certificate()`` works the same on a calibrator and on a loaded calibration.

        Another ``alpha``, ``interval`` or ``coverage`` is rejected: a stored certificate cannot be recomputed without
        its rows.
        """
        for name, value in {"alpha": alpha, "interval": interval, "coverage": coverage}.items():
            if value is not None and value != getattr(self, name):
                raise InputError(
                    Setting(name, value),
                    Phrase(
                        "differs from the stored certificate, which has {held}",
                        held=Setting(name, getattr(self, name)),
                    ),
                    "call certificate() on the calibrator with these settings before saving it",
                )
        return self

    def __repr__(self) -> str:
        """One short line; ``print`` shows the full certificate."""
        return (
            f"Certificate({self.about.sense()}, epsilon {round_up(self.epsilon)}, confidence "
            f"{100 * (1 - self.alpha):.6g} %, {self.coverage}, {plural(self.n, 'row')})"
        )

    def __str__(self) -> str:
        """The guarantee in one sentence; then its basis, what is not covered and the assumptions."""
        assumed = "; ".join(assumption.words(self.about.look) for assumption in self.assumptions)
        return "\n".join(visible(line, None) for line in (*self.about.sentences(self), f"  Assumes: {assumed}."))

    def _repr_html_(self) -> str:
        """For notebooks: the printed text, with a green bar."""
        from calibrant.notebook import GREEN, text_block

        return text_block(str(self), GREEN)

    def head(self, everywhere: str, here: str) -> str:
        """Start of the sentence: ``everywhere`` for simultaneous coverage, ``here`` for one new row."""
        percent = f"{100 * (1 - self.alpha):.6g} %"
        if self.coverage == "marginal":
            return f"For a new row, with probability at least {percent}{here}"
        return f"With confidence {percent}, {everywhere}"

    def check(
        self,
        scores: Any,
        y: Any,
        *,
        significance: float = 0.01,
        by_bin: bool = False,
        positive: Any = None,
        by: Any = None,
    ) -> CertificateCheck:
        """Test the certificate on fresh rows that were not used in the fit.

        Each statement is tested with exact binomial tails, at ``significance`` divided by the number of tests. The
        null hypothesis is that the true rate is within epsilon of the output (with several classes or ranks: within
        the largest deviation of its class or rank), or, with ``by_bin=True``, inside the statement's own interval,
        which is often narrower. For regions of the simplex every set of classes is tested: if a region is within
        epsilon in l1 distance, each set has a probability within epsilon / 2. Above 10 classes, single classes are
        tested. A certificate that holds is contradicted with probability at most ``significance``.

        Parameters
        ----------
        scores, y
            Scores and labels of the fresh rows: uncalibrated scores, as the map takes them.
        significance
            Significance level of all tests together.
        by_bin
            Test each statement against its own interval instead of epsilon.
        positive
            The label that counts as the event.
        by
            Features of the rows by name, for the certificate of a tree.
        """
        if self.coverage == "marginal":
            raise InputError(
                Setting("coverage", "marginal"),
                "is a guarantee about one new row, which cannot be tested on rows",
                Phrase("request a certificate with {coverage}", coverage=Setting("coverage", "simultaneous")),
            )
        n, events, size = self.about.count(self, scores, y, positive, by)
        n, events = n * self.covered, events * self.covered
        tried, hits, lower, upper = self.about.tests(self, n, events, by_bin)
        units = int(self.covered.reshape(len(hits), -1)[:, 0].sum())
        needed = significance / (units * hits.shape[1])
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
class CertificateCheck(Shown):
    """Result of testing a certificate on fresh rows; true in a condition if nothing contradicts it.

    ``telling`` is False if there are too few rows for any outcome to contradict the certificate. ``rows`` and
    ``events`` are by statement; ``p_values`` and the indices in ``broken`` are by statement or, for regions, by region;
    ``lower`` and ``upper``, by the same and by test, are the intervals tested.
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

    def _repr_html_(self) -> str:
        """For notebooks: the printed text, with a green, amber or red bar."""
        from calibrant.notebook import AMBER, GREEN, RED, text_block

        return text_block(str(self), RED if not self.holds else GREEN if self.telling else AMBER)

    def __str__(self) -> str:
        """The result, with the worst bin or region if the certificate is contradicted."""
        rows = plural(self.n, "row")
        if not self.telling:
            return f"{rows}: too few to contradict the certificate, whatever the outcomes."
        if self.holds:
            return f"{rows}: no contradiction with the certificate.{IF_FRESH}"
        about, worst = self.certificate.about, int(np.argmin(self.p_values))
        return (
            f"{rows}: contradicted in {about.broken_units(self.broken)}; the worst, "
            f"{about.unit_name(self.certificate, worst)}, {about.seen(self, worst)} "
            f"(p = {self.p_values[worst]:.2g}).{IF_FRESH}"
        )


def half_widths(outputs: Floats, lower: Floats, upper: Floats) -> Floats:
    """Distance of each output from the farther end of its interval."""
    return np.maximum(outputs - lower, upper - outputs)


def outside_p_values(events: Ints, n: Ints, lower: Floats, upper: Floats) -> Floats:
    """Two-sided exact p-value, by bin, of the hypothesis that the true rate lies in [lower, upper]."""
    from scipy import stats

    low = np.where(lower > 0, stats.binom.cdf(events, n, lower), 1.0)
    high = np.where(upper < 1, stats.binom.sf(events - 1, n, upper), 1.0)
    return np.where(n > 0, np.minimum(2.0 * np.minimum(low, high), 1.0), 1.0)


def round_up(x: float) -> str:
    """Three decimals, rounded up, so that rounding never makes a guarantee stronger."""
    return f"{np.ceil(x * 1000) / 1000:.3f}"


def first_few(names: Sequence[str], most: int = 5) -> str:
    """The first few names, and how many more there are.

    Examples
    --------
    >>> first_few(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"
