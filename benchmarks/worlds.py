"""Worlds with known truth: joint distributions of (score, label) that can be sampled and integrated exactly.

A certificate speaks about E[Y | S in a bin]. Here that number is a closed form or a finite sum, so a frozen
certificate is checked against the truth itself and not against a second sample. No code is shared with the package.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.float64]
Labels = NDArray[np.uint8]
Closed = Literal["left", "right", "both", "neither"]

_ABOVE_0, _BELOW_1 = np.nextafter(0.0, 1.0), np.nextafter(1.0, 0.0)
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(16)


@dataclass(frozen=True, eq=False, kw_only=True)
class World(ABC):
    """A joint distribution of a score S in [0, 1] and a label Y in {0, 1}.

    Parameters
    ----------
    name : str
        Short identifier, unique in `WORLDS`.
    description : str
        One line for the benchmark's table.
    """

    name: str
    description: str

    @abstractmethod
    def sample(self, rng: np.random.Generator, n: int) -> tuple[Floats, Labels]:
        """Draw n independent rows (score, label)."""

    @abstractmethod
    def _integrals(self, lo: Floats, hi: Floats, with_lo: bool, with_hi: bool) -> tuple[Floats, Floats]:
        """Return P(S in I) and P(S in I, Y = 1) for the intervals I from lo to hi; zeros where lo > hi."""

    def mass(self, lo: ArrayLike, hi: ArrayLike, closed: Closed = "left") -> Floats:
        """Return P(S in I) for each interval I from `lo` to `hi`.

        Parameters
        ----------
        lo, hi : array-like
            End points, broadcast together; infinities are allowed. An interval with lo > hi is empty.
        closed : {"left", "right", "both", "neither"}
            Which end points belong to the interval. The atom at x is ``lo = hi = x`` with ``"both"``.
        """
        return self._checked(lo, hi, closed)[0]

    def rate(self, lo: ArrayLike, hi: ArrayLike, closed: Closed = "left") -> Floats:
        """Return E[Y | S in I] for each interval I, as in `mass`; nan where the interval has no mass."""
        mass, events = self._checked(lo, hi, closed)
        some = mass > 0
        return np.where(some, np.clip(events / np.where(some, mass, 1.0), 0.0, 1.0), np.nan)[()]

    @cached_property
    def base_rate(self) -> float:
        """E[Y]."""
        return float(self.rate(-np.inf, np.inf))

    def _checked(self, lo: ArrayLike, hi: ArrayLike, closed: Closed) -> tuple[Floats, Floats]:
        if closed not in ("left", "right", "both", "neither"):
            raise ValueError(f"closed must be 'left', 'right', 'both' or 'neither', not {closed!r}")
        low, high = np.broadcast_arrays(np.asarray(lo, dtype=np.float64), np.asarray(hi, dtype=np.float64))
        if np.isnan(low).any() or np.isnan(high).any():
            raise ValueError("an interval's end point is nan")
        mass, events = self._integrals(low, high, closed in ("left", "both"), closed in ("right", "both"))
        return np.minimum(mass, 1.0)[()], events[()]


@dataclass(frozen=True, eq=False, kw_only=True)
class PiecewiseWorld(World):
    """Constant density and constant label rate on each piece, plus atoms.

    All population quantities are sums over whole pieces (differences of prefix sums in extended precision) and at
    most two partial pieces (a product each), so narrow intervals lose nothing to cancellation.

    Parameters
    ----------
    breaks : ndarray of shape (k + 1,)
        Increasing ends of the k pieces; empty when there are only atoms.
    density : ndarray of shape (k,)
        Height of the density on each piece; zero makes a gap.
    rates : ndarray of shape (k,)
        E[Y | S = s] on each piece.
    atoms : ndarray of shape (m,)
        Increasing scores of positive probability. Compared exactly, so an atom may sit on a break.
    atom_mass : ndarray of shape (m,)
        P(S = atom).
    atom_rates : ndarray of shape (m,)
        E[Y | S = atom].
    """

    breaks: Floats = field(default_factory=lambda: np.empty(0), repr=False)
    density: Floats = field(default_factory=lambda: np.empty(0), repr=False)
    rates: Floats = field(default_factory=lambda: np.empty(0), repr=False)
    atoms: Floats = field(default_factory=lambda: np.empty(0), repr=False)
    atom_mass: Floats = field(default_factory=lambda: np.empty(0), repr=False)
    atom_rates: Floats = field(default_factory=lambda: np.empty(0), repr=False)

    def __post_init__(self) -> None:
        for key in ("breaks", "density", "rates", "atoms", "atom_mass", "atom_rates"):
            value = np.array(getattr(self, key), dtype=np.float64)
            value.flags.writeable = False
            object.__setattr__(self, key, value)
        k, m = self.density.size, self.atoms.size
        if self.breaks.size != (k + 1 if k else 0) or self.rates.size != k:
            raise ValueError("k pieces need k + 1 breaks, k densities and k rates")
        if self.atom_mass.size != m or self.atom_rates.size != m:
            raise ValueError("each atom needs a mass and a rate")
        if (np.diff(self.atoms) <= 0).any() or (np.nextafter(self.breaks[:-1], np.inf) >= self.breaks[1:]).any():
            raise ValueError("breaks and atoms must increase, with a float strictly inside every piece")
        rates = np.concatenate([self.rates, self.atom_rates])
        if not ((rates >= 0) & (rates <= 1)).all():
            raise ValueError("rates must lie in [0, 1]")
        masses = np.concatenate([self._piece_mass, self.atom_mass])
        if not (masses >= 0).all() or abs(masses.sum() - 1) > 1e-12:
            raise ValueError(f"masses must be non-negative and add to 1, not {masses.sum()!r}")

    def sample(self, rng: np.random.Generator, n: int) -> tuple[Floats, Labels]:
        """Draw n rows by inverse CDF; a score lies strictly inside its piece or exactly on its atom."""
        table = self._table
        part = table.draw(rng.random(n))
        scores = table.first[part]
        if self.density.size:
            scores += table.width[part] * rng.random(n)
            np.minimum(scores, table.last[part], out=scores)
        return scores, (rng.random(n) < table.rates[part]).view(np.uint8)

    def _integrals(self, lo: Floats, hi: Floats, with_lo: bool, with_hi: bool) -> tuple[Floats, Floats]:
        start = np.searchsorted(self.atoms, lo, side="left" if with_lo else "right")
        stop = np.maximum(start, np.searchsorted(self.atoms, hi, side="right" if with_hi else "left"))
        mass, events = (sums[stop] - sums[start] for sums in self._atom_sums)
        if self.density.size:
            lo = np.clip(lo, self.breaks[0], self.breaks[-1])
            hi = np.maximum(lo, np.clip(hi, self.breaks[0], self.breaks[-1]))
            i, j = (np.searchsorted(self.breaks[1:-1], x, side="right") for x in (lo, hi))
            # The piece of lo up to hi or its own end; then, where hi is in a later piece, whole ones and a last part.
            left = (np.minimum(hi, self.breaks[i + 1]) - lo) * self.density[i]
            right = np.where(i < j, hi - self.breaks[j], 0.0) * self.density[j]
            whole_mass, whole_events = (sums[j] - sums[np.minimum(i + 1, j)] for sums in self._piece_sums)
            mass = mass + left + right + whole_mass
            events = events + left * self.rates[i] + right * self.rates[j] + whole_events
        return np.asarray(mass, dtype=np.float64), np.asarray(events, dtype=np.float64)

    @cached_property
    def _piece_mass(self) -> Floats:
        return self.density * np.diff(self.breaks)

    @cached_property
    def _piece_sums(self) -> tuple[NDArray[np.longdouble], NDArray[np.longdouble]]:
        return _prefix_sums(self._piece_mass), _prefix_sums(self._piece_mass * self.rates)

    @cached_property
    def _atom_sums(self) -> tuple[NDArray[np.longdouble], NDArray[np.longdouble]]:
        return _prefix_sums(self.atom_mass), _prefix_sums(self.atom_mass * self.atom_rates)

    @cached_property
    def _table(self) -> _Table:
        mass = np.concatenate([self._piece_mass, self.atom_mass])
        used = mass > 0
        first = np.concatenate([np.nextafter(self.breaks[:-1], np.inf), self.atoms])
        last = np.concatenate([np.nextafter(self.breaks[1:], -np.inf), self.atoms])
        rates = np.concatenate([self.rates, self.atom_rates])
        return _Table(mass=mass[used], first=first[used], last=last[used], rates=rates[used])


@dataclass(frozen=True, eq=False)
class _Table:
    """Parts (pieces and atoms) of positive mass, and a guide table that finds the part of a uniform draw."""

    mass: Floats
    first: Floats
    last: Floats
    rates: Floats

    @cached_property
    def width(self) -> Floats:
        """Room for a score in each part; zero at an atom."""
        return self.last - self.first

    def draw(self, uniform: Floats) -> NDArray[np.intp]:
        """Return the part whose interval of the CDF contains each uniform."""
        if self.mass.size < 64:
            return np.searchsorted(self._inner, uniform, side="right")
        guide = self._guide
        cell = (uniform * (guide.size - 1)).astype(np.intp)
        part = guide[cell]
        unsure = np.flatnonzero(part != guide[cell + 1])
        part[unsure] = np.searchsorted(self._inner, uniform[unsure], side="right")
        return part

    @cached_property
    def _inner(self) -> Floats:
        sums = np.cumsum(self.mass, dtype=np.longdouble)
        return np.asarray(sums[:-1] / sums[-1], dtype=np.float64)

    @cached_property
    def _guide(self) -> NDArray[np.intp]:
        # A power of two, so that the cell of a uniform is exact.
        cells = 1 << (4 * self.mass.size).bit_length()
        return np.searchsorted(self._inner, np.arange(cells + 1) / cells, side="right")


def _prefix_sums(values: Floats) -> NDArray[np.longdouble]:
    return np.concatenate([np.zeros(1, dtype=np.longdouble), np.cumsum(values, dtype=np.longdouble)])


@dataclass(frozen=True, eq=False, kw_only=True)
class PolynomialWorld(World):
    r"""A smooth density on (0, 1) and a polynomial truth.

    .. math:: E[Y \mid S = s] = \sum_k c_k s^k, \qquad P(S \in I, Y = 1) = \sum_k c_k\, E[S^k 1\{S \in I\}],

    where the partial moments are closed forms of the family. An interval so narrow that the difference of two CDF
    values would lose digits is integrated by 16 Gauss-Legendre nodes instead: the density is analytic there.

    Parameters
    ----------
    coefficients : tuple of float
        :math:`c_0, c_1, \dots`; the polynomial must stay in [0, 1] on [0, 1].
    """

    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        roots = np.asarray(self._truth.deriv().roots(), dtype=np.complex128)
        turns = [float(z.real) for z in roots if z.imag == 0 and 0 < z.real < 1]
        values = self._truth(np.array([0.0, 1.0, *turns]))
        if values.min() < 0 or values.max() > 1:
            raise ValueError("the polynomial leaves [0, 1]")

    @abstractmethod
    def _scores(self, rng: np.random.Generator, n: int) -> Floats:
        """Draw n scores."""

    @abstractmethod
    def _density(self, s: Floats) -> Floats:
        """Return the density of S at s in (0, 1)."""

    @abstractmethod
    def _tilted(self, k: int, s: Floats) -> tuple[float, Floats, Floats]:
        """Return E[S^k], and CDF and survival at s of the distribution with density s^k f(s) / E[S^k].

        The two functions may be those of an extension beyond 1; only their differences on [0, 1] count.
        """

    def sample(self, rng: np.random.Generator, n: int) -> tuple[Floats, Labels]:
        """Draw n rows; scores lie strictly between 0 and 1."""
        scores = np.clip(self._scores(rng, n), _ABOVE_0, _BELOW_1)
        return scores, (rng.random(n) < self._truth(scores)).view(np.uint8)

    def _integrals(self, lo: Floats, hi: Floats, with_lo: bool, with_hi: bool) -> tuple[Floats, Floats]:
        lo = np.clip(lo, 0.0, 1.0)
        hi = np.maximum(lo, np.clip(hi, 0.0, 1.0))
        moments = []
        for k in range(len(self.coefficients)):
            scale, cdf_lo, sf_lo = self._tilted(k, lo)
            _, cdf_hi, sf_hi = self._tilted(k, hi)
            moments.append(scale * np.where(cdf_lo <= 0.5, cdf_hi - cdf_lo, sf_lo - sf_hi))
            if k == 0:
                narrow = scale * np.minimum(cdf_lo, sf_hi) > 100 * moments[0]
        mass, events = np.array(moments[0]), np.tensordot(self.coefficients, np.array(moments), axes=1)
        mass[narrow], events[narrow] = self._quadrature(lo[narrow], hi[narrow])
        return mass, np.asarray(events)

    def _quadrature(self, lo: Floats, hi: Floats) -> tuple[Floats, Floats]:
        half = (hi - lo)[..., None] / 2
        nodes = (lo[..., None] + half) + half * _NODES
        pieces = half * _NODE_WEIGHTS * self._density(nodes)
        return pieces.sum(axis=-1), (pieces * self._truth(nodes)).sum(axis=-1)

    @cached_property
    def _truth(self) -> Polynomial:
        return Polynomial(self.coefficients)


@dataclass(frozen=True, eq=False, kw_only=True)
class BetaWorld(PolynomialWorld):
    """S ~ Beta(a, b); the tilted distributions are Beta(a + k, b).

    Parameters
    ----------
    a, b : float
        Shape parameters.
    """

    a: float
    b: float

    def _scores(self, rng: np.random.Generator, n: int) -> Floats:
        return rng.beta(self.a, self.b, n)

    def _density(self, s: Floats) -> Floats:
        log_density = special.xlogy(self.a - 1, s) + special.xlog1py(self.b - 1, -s) - special.betaln(self.a, self.b)
        return np.asarray(np.exp(log_density))

    def _tilted(self, k: int, s: Floats) -> tuple[float, Floats, Floats]:
        scale = float(np.prod([(self.a + r) / (self.a + self.b + r) for r in range(k)]))
        return scale, special.betainc(self.a + k, self.b, s), special.betaincc(self.a + k, self.b, s)


@dataclass(frozen=True, eq=False, kw_only=True)
class LogNormalWorld(PolynomialWorld):
    """log S ~ Normal(mu, sigma^2) given S < 1; tilting by s^k moves mu by k sigma^2.

    Parameters
    ----------
    mu, sigma : float
        Mean and standard deviation of log S before truncation.
    """

    mu: float
    sigma: float

    def _scores(self, rng: np.random.Generator, n: int) -> Floats:
        uniform = np.maximum(rng.random(n), 2.0**-54) * self._kept
        return np.asarray(np.exp(self.mu + self.sigma * special.ndtri(uniform)))

    def _density(self, s: Floats) -> Floats:
        z = (np.log(s) - self.mu) / self.sigma
        return np.asarray(np.exp(-0.5 * z * z) / (np.sqrt(2 * np.pi) * self.sigma * self._kept * s))

    def _tilted(self, k: int, s: Floats) -> tuple[float, Floats, Floats]:
        scale = float(np.exp(k * self.mu + 0.5 * (k * self.sigma) ** 2)) / self._kept
        with np.errstate(divide="ignore"):
            z = (np.log(s) - self.mu) / self.sigma - k * self.sigma
        return scale, special.ndtr(z), special.ndtr(-z)

    @cached_property
    def _kept(self) -> float:
        return float(special.ndtr(-self.mu / self.sigma))


def _atomic(name: str, description: str, atoms: ArrayLike, mass: ArrayLike, rates: ArrayLike) -> PiecewiseWorld:
    scores = np.asarray(atoms, dtype=np.float64)
    weights = np.broadcast_to(np.asarray(mass, dtype=np.float64), scores.shape)
    return PiecewiseWorld(
        name=name,
        description=description,
        atoms=scores,
        atom_mass=weights / weights.sum(),
        atom_rates=np.resize(np.asarray(rates, dtype=np.float64), scores.shape),
    )


def _log_linear_sawtooth(name: str, description: str, cells: int) -> PiecewiseWorld:
    """Teeth on the halves of every cell of the log-linear grid with `cells` cells in each octave, octaves 2^-32 to 1/2.

    Both the halves of a cell and neighboring cells differ, so neither a boundary moved inside its cell nor one moved
    by a cell is harmless. Each octave has 0.7 times the mass of the next one toward 1/2.
    """
    octaves = np.arange(32, 1, -1)
    halves = 2 * cells
    lower = np.ldexp(1 + np.arange(halves) / halves, -octaves[:, None]).ravel()
    mass = 0.7 ** (octaves - 2.0)
    density = np.repeat(mass / (2 * mass.sum()) / np.ldexp(1.0, -octaves), halves)
    return PiecewiseWorld(
        name=name,
        description=description,
        breaks=np.concatenate([lower, [0.5], 1 - lower[::-1]]),
        density=np.concatenate([density, density[::-1]]),
        rates=np.resize([0.95, 0.55, 0.45, 0.05], 2 * density.size),
    )


def _atoms() -> PiecewiseWorld:
    breaks = np.array([0.0, 0.2, 0.5, 0.6, 0.9, 1.0])
    share = np.array([0.15, 0.15, 0.05, 0.15, 0.05])
    return PiecewiseWorld(
        name="atoms",
        description="steps of continuous scores (55 %) and six atoms whose rates go against them",
        breaks=breaks,
        density=share / np.diff(breaks),
        rates=np.array([0.1, 0.35, 0.5, 0.7, 0.85]),
        atoms=np.array([0.0, 0.1, 0.3, 0.5, 0.75, 0.97]),
        atom_mass=np.array([0.05, 0.07, 0.2, 0.1, 0.02, 0.01]),
        atom_rates=np.array([0.6, 0.95, 0.02, 0.9, 0.0, 1.0]),
    )


def _deterministic() -> PiecewiseWorld:
    return PiecewiseWorld(
        name="deterministic",
        description="uniform scores, label 1 exactly above 1/sqrt(2): no variance inside a bin",
        breaks=np.array([0.0, np.sqrt(0.5), 1.0]),
        density=np.ones(2),
        rates=np.array([0.0, 1.0]),
    )


def _sawtooth_wide() -> PiecewiseWorld:
    return PiecewiseWorld(
        name="sawtooth_wide",
        description="uniform scores, rates 0.9 and 0.1 in turn on 38 equal pieces",
        breaks=np.arange(39) / 38,
        density=np.ones(38),
        rates=np.resize([0.9, 0.1], 38),
    )


def _skew() -> PiecewiseWorld:
    octaves = np.arange(60, 0, -1)
    share = np.where(octaves > 20, 0.86 / 40, 0.07 / 20)
    return PiecewiseWorld(
        name="skew",
        description="90 % of the mass below 1e-6 over 40 octaves, a heavy right tail, atoms at exactly 0 and 1",
        breaks=np.ldexp(1.0, np.arange(-60, 1)),
        density=share / np.ldexp(1.0, -octaves),
        rates=np.where(octaves > 20, np.resize([0.002, 0.05], 60), np.linspace(0.0, 0.9, 60)),
        atoms=np.array([0.0, 1.0]),
        atom_mass=np.array([0.04, 0.03]),
        atom_rates=np.array([0.2, 0.6]),
    )


WORLDS: tuple[World, ...] = (
    BetaWorld(
        name="smooth",
        description="Beta(2, 5) scores, truth a compressed cubic",
        coefficients=(0.1, 1.5, -2.4, 1.7),
        a=2.0,
        b=5.0,
    ),
    _atoms(),
    _atomic(
        "tied",
        "12 values, rates not in the order of the values",
        [0.02, 0.05, 0.1, 0.15, 0.25, 1 / 3, 0.4, 0.55, 2 / 3, 0.8, 0.9, 0.99],
        [8, 15, 4, 12, 1, 20, 6, 3, 14, 2, 10, 5],
        [0.01, 0.3, 0.05, 0.6, 0.9, 0.2, 0.75, 0.1, 0.5, 1.0, 0.4, 0.97],
    ),
    _atomic(
        "heaped",
        "confidences of a language model: 80 % on 0.8, 0.9 and 0.95",
        [0.0, 0.3, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99, 1.0],
        [1, 1, 2, 2, 3, 2, 22, 4, 33, 25, 3, 2],
        [0.4, 0.05, 0.5, 0.15, 0.6, 0.3, 0.35, 0.8, 0.75, 0.45, 0.98, 0.7],
    ),
    LogNormalWorld(
        name="clicks_1pct",
        description="log-normal scores with median 0.006; 1 % positives, low scores too low and high ones too high",
        coefficients=(0.0023658, 0.62),
        mu=float(np.log(0.006)),
        sigma=1.2,
    ),
    BetaWorld(
        name="clicks_01pct",
        description="Beta(0.5, 399.5) scores; 0.1 % positives, low scores too low and high ones too high",
        coefficients=(0.0004, 0.48),
        a=0.5,
        b=399.5,
    ),
    _log_linear_sawtooth("sawtooth_fine", "rates alternate inside and between cells, grid of 2^16 cells", 1024),
    _log_linear_sawtooth("sawtooth_coarse", "rates alternate inside and between cells, grid of 2^10 cells", 16),
    _sawtooth_wide(),
    _atomic("constant", "one score for every row", [0.3], [1], [0.37]),
    _atomic("two_digit", "k / 100 equally likely, rates 0.15 and 0.85 in turn", np.arange(101) / 100, 1, [0.15, 0.85]),
    _deterministic(),
    _atomic(
        "four_digit", "k / 10^4 equally likely, rates 0.2 and 0.8 in turn", np.arange(10_001) / 10_000, 1, [0.2, 0.8]
    ),
    _skew(),
)
