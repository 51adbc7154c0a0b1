"""Sample size for the external validation of a model: patients needed for O/E, slope, c-statistic and net benefit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtri

from calibrant.arrays import check_scores
from calibrant.arrays.columns import check_whole, refuse_empty, refuse_not_finite
from calibrant.messages import Advice, InputError, Note, note, plural
from calibrant.metrics.estimates import TWO_SIDED, Result
from calibrant.notebook import table_block
from calibrant.numerics import Column, Ends, Floats, expit, logit

NODES, REACH = 8_001, 12.0
"""Nodes of the integrals over a distribution of log-odds, and their range in standard deviations."""

MOST_SKEW = 0.99
"""Largest skewness of a skew-normal distribution, about 0.995."""

CLOSE = 0.05
"""Relative difference of the given event rate and that of the distribution above which a note warns."""

MOST = 10**12
"""Largest sample size that is looked for."""


@dataclass(frozen=True)
class Criterion(Result):
    """What one measure needs.

    Attributes
    ----------
    name
        The measure.
    value
        Its assumed value.
    width
        Wanted width of its 95 % interval.
    n, events
        Rows, and events expected among them, for that width.
    expected_width
        Width expected with the rows of the plan.
    """

    name: str
    value: float
    width: float
    n: int
    events: float
    expected_width: float


@dataclass(frozen=True)
class ValidationPlan(Result):
    """Result of :func:`plan_validation`: rows and events that all criteria need, and each criterion.

    Attributes
    ----------
    n, events
        Rows of the plan, and events expected among them: what the largest criterion needs, or the given ``n``.
    needed
        Rows that the largest criterion needs.
    prevalence, c_statistic
        Assumed event rate and c-statistic.
    criteria
        One entry for each measure.
    notes
        What the reader must know.
    """

    n: int
    events: float
    needed: int
    prevalence: float
    c_statistic: float
    criteria: tuple[Criterion, ...]
    notes: tuple[Note, ...] = ()

    def __str__(self) -> str:
        lines = [self._head()]
        names = ("", "value", "width", "rows", "events", "width here")
        layout = "{:<30}{:>9}{:>9}{:>10}{:>9}{:>12}"
        lines += [layout.format(*row) for row in [names, *self._rows()]]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        """For notebooks: the table, and the notes."""
        names = ("", "value", "width", "rows", "events", "width here")
        return table_block(names, self._rows(), title=self._head(), notes=[f"  {note}" for note in self.notes])

    def _head(self) -> str:
        largest = max(self.criteria, key=lambda each: each.n)
        rows = f"{plural(self.needed, 'row')}, about {math.ceil(self.needed * self.prevalence):,} of them events"
        if self.n == self.needed:
            return f"External validation needs {rows}; most are needed for: {largest.name}."
        enough = "enough" if self.n >= self.needed else "too few"
        most = f"External validation needs {rows}; most are needed for: {largest.name}."
        return f"{plural(self.n, 'row')}: {enough}. {most}"

    def _rows(self) -> list[tuple[str, str, str, str, str, str]]:
        return [
            (
                each.name,
                f"{each.value:.4g}",
                f"{each.width:.4g}",
                f"{each.n:,}",
                f"{math.ceil(each.events - 1e-9):,}",
                f"{each.expected_width:.4f}",
            )
            for each in self.criteria
        ]


def plan_validation(
    prevalence: float | None = None,
    c_statistic: float | None = None,
    *,
    scores: Column = None,
    normal: tuple[float, float] | None = None,
    skew_normal: tuple[float, float, float] | None = None,
    beta: tuple[float, float] | None = None,
    slope: float = 1.0,
    intercept: float = 0.0,
    observed_over_expected: float = 1.0,
    oe_width: float = 0.2,
    slope_width: float = 0.2,
    c_width: float = 0.1,
    threshold: float | None = None,
    sensitivity: float | None = None,
    specificity: float | None = None,
    net_benefit_width: float = 0.2,
    n: int | None = None,
) -> ValidationPlan:
    r"""Sample size for the external validation of a model with a binary outcome (Riley et al. 2021).

    For event rate :math:`\phi`, c-statistic C, and log-odds z of the predicted risks in the validation population:

    .. math::
        \mathrm{se}(\ln O/E)^2 = \frac{1 - \phi}{n \phi}, \qquad
        \mathrm{se}(\text{slope})^2 = \frac{I_{00}}{n (I_{00} I_{11} - I_{01}^2)}, \qquad
        I_{jk} = \mathrm{E}\, z^{j + k} p (1 - p), \quad p = \operatorname{expit}(\alpha + \beta z),

    .. math::
        \mathrm{se}(C)^2 = \frac{C (1 - C)}{n^2 \phi (1 - \phi)}
            \Bigl(1 + (\tfrac n2 - 1) \tfrac{1 - C}{2 - C} + (\tfrac n2 - 1) \tfrac{C}{1 + C}\Bigr),

    .. math::
        \mathrm{se}(\text{net benefit} / \phi)^2 = \frac1n \Bigl(\frac{q (1 - q)}{\phi} + \frac{w^2 r (1 - r)}{1 - \phi}
            + \frac{w^2 (1 - r)^2}{\phi (1 - \phi)}\Bigr), \qquad w = \frac{1 - \phi}{\phi} \frac{t}{1 - t},

    with sensitivity q and specificity r at the threshold t. Each criterion asks for the smallest n whose 95 % interval
    has the wanted width; the plan takes the largest.

    Parameters
    ----------
    prevalence : float, optional
        Expected event rate. By default that of the distribution, for a calibrated model.
    c_statistic : float, optional
        Expected c-statistic (AUC). By default that of the distribution, for a calibrated model.
    scores : array-like, optional
        Predicted risks of patients like those of the validation, without outcomes. Pass one of ``scores``, ``normal``,
        ``skew_normal`` and ``beta``; or none, and log-odds are taken to be normal with one variance in patients with
        and without the event, such that they have ``prevalence`` and ``c_statistic``.
    normal : tuple of float, optional
        Mean and standard deviation of normal log-odds.
    skew_normal : tuple of float, optional
        Mean, standard deviation and skewness of skew-normal log-odds.
    beta : tuple of float, optional
        Both parameters of a beta distribution of the predicted risks.
    slope, intercept : float
        Assumed calibration slope and the intercept beside it.
    observed_over_expected : float
        Assumed O/E.
    oe_width, slope_width, c_width, net_benefit_width : float
        Wanted widths of the 95 % intervals. That of net benefit is for net benefit divided by the event rate, whose
        largest value is 1.
    threshold : float, optional
        Risk at which patients are treated; adds the criterion of net benefit.
    sensitivity, specificity : float, optional
        Expected at the threshold. By default those of the distribution.
    n : int, optional
        Rows at hand. The widths to expect from them are then in the table.

    Returns
    -------
    ValidationPlan
        Rows and events needed, by criterion; prints as a table.

    Notes
    -----
    Guarantee: no finite-sample guarantee; the widths are those of large samples, on average, if the assumptions
    hold. :func:`calibrant.plan` plans labels for a certificate, which holds without assumptions and needs more.
    Integrals are computed on a fixed grid, so results do not depend on a seed; ``pmvalsampsize`` draws a million
    values, and differs by about 1 %. The slope depends on the tails: of log-odds with mean -5.8, variance 5,
    skewness -0.5 and kurtosis 4, a lambda distribution (Ramberg et al. 1979; ``sknor`` in Stata) needs 9,845 rows,
    which agrees with the 9,835 of Riley et al., and a Pearson distribution of type IV needs 10,536.
    Cost: milliseconds.
    References: Riley et al. (2021), Minimum sample size for external validation of a clinical prediction model with a
    binary outcome, Statistics in Medicine; Newcombe (2006) for the standard error of the c-statistic.

    Examples
    --------
    >>> print(plan_validation(0.1, 0.75, normal=(-2.6, 1.1)))
    External validation needs 5,045 rows, about 505 of them events; most are needed for: calibration slope.
                                      value    width      rows   events  width here
    observed over expected (O/E)          1      0.2     3,469      347      0.1658
    calibration slope                     1      0.2     5,045      505      0.2000
    c-statistic                        0.75      0.1     1,008      101      0.0447
    """
    _check_shares(prevalence=prevalence, c_statistic=c_statistic, threshold=threshold)
    _check_shares(sensitivity=sensitivity, specificity=specificity)
    for name, share in (("sensitivity", sensitivity), ("specificity", specificity)):
        if share is not None and threshold is None:
            raise InputError(
                name,
                "is used only with a threshold",
                "pass threshold= for the criterion of net benefit, or leave it out",
            )
    for name, width in (("oe_width", oe_width), ("slope_width", slope_width), ("c_width", c_width)):
        _check_above_zero(name, width)
    _check_above_zero("net_benefit_width", net_benefit_width)
    _check_above_zero("observed_over_expected", observed_over_expected)
    if n is not None:
        check_whole("n", n, 2)
    z, mass = _distribution(prevalence, c_statistic, scores, normal, skew_normal, beta)
    p = expit(intercept + slope * z)
    own = _Implied(z, p, mass)
    phi = own.rate if prevalence is None else float(prevalence)
    c = own.c_statistic if c_statistic is None else float(c_statistic)
    if not 0.0 < phi < 1.0:
        raise InputError(
            "prevalence", f"must lie strictly between 0 and 1, got {phi:g}", "pass it, or risks that have such a mean"
        )
    notes = [_other_rate(implied=own.rate, given=phi)] if abs(own.rate - phi) > CLOSE * phi else []
    information = [float((mass * z**k * p * (1.0 - p)).sum()) for k in range(3)]
    determinant = information[0] * information[2] - information[1] ** 2
    if not determinant > 1e-12 * information[0] * information[2]:
        raise InputError("scores", "are constant: a slope cannot be estimated from them", "pass varied scores")
    parts: list[tuple[str, float, float, Callable[[float], float]]] = [
        (
            "observed over expected (O/E)",
            observed_over_expected,
            oe_width,
            lambda n: 2.0 * observed_over_expected * math.sinh(TWO_SIDED * math.sqrt((1.0 - phi) / (n * phi))),
        ),
        (
            "calibration slope",
            slope,
            slope_width,
            lambda n: 2.0 * TWO_SIDED * math.sqrt(information[0] / (n * determinant)),
        ),
        ("c-statistic", c, c_width, lambda n: 2.0 * TWO_SIDED * _c_error(n, c, phi)),
    ]
    if threshold is not None:
        q, r = own.at_threshold(threshold)
        q, r = (given if wanted is None else float(wanted) for given, wanted in ((q, sensitivity), (r, specificity)))
        w = (1.0 - phi) / phi * threshold / (1.0 - threshold)
        spread = q * (1.0 - q) / phi + w**2 * r * (1.0 - r) / (1.0 - phi) + w**2 * (1.0 - r) ** 2 / (phi * (1.0 - phi))
        parts.append(
            (
                f"net benefit at {threshold:g} / rate",
                q - w * (1.0 - r),
                net_benefit_width,
                lambda n: 2.0 * TWO_SIDED * math.sqrt(spread / n),
            )
        )
    sizes = [_smallest(width_of, width) for _, _, width, width_of in parts]
    needed = max(sizes)
    rows = needed if n is None else int(n)
    criteria = tuple(
        Criterion(name, value, width, size, size * phi, width_of(rows))
        for (name, value, width, width_of), size in zip(parts, sizes, strict=True)
    )
    return ValidationPlan(rows, rows * phi, needed, phi, c, criteria, tuple(notes))


def _c_error(n: float, c: float, phi: float) -> float:
    half = n / 2.0 - 1.0
    inner = 1.0 + half * (1.0 - c) / (2.0 - c) + half * c / (1.0 + c)
    return math.sqrt(max(c * (1.0 - c) * inner, 0.0) / (n * n * phi * (1.0 - phi)))


def _smallest(width_of: Callable[[float], float], width: float) -> int:
    """Smallest number of rows with an interval this short, by bisection."""
    low, high = 1, 2
    while width_of(high) > width:
        low, high = high, 2 * high
        if high > MOST:
            raise InputError(
                "prevalence", "is such that intervals this short need more than 10^12 rows", "ask for wider ones"
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if width_of(middle) > width else (low, middle)
    return high


# --------------------------------------------------------------------------------------------------------- distribution


class _Implied(NamedTuple):
    """What a distribution of log-odds implies if events occur at the rates p."""

    z: Floats
    p: Floats
    mass: Floats

    @property
    def rate(self) -> float:
        return float((self.mass * self.p).sum())

    @property
    def c_statistic(self) -> float:
        _, place = np.unique(self.z, return_inverse=True)
        events, others = (np.bincount(place, self.mass * each) for each in (self.p, 1.0 - self.p))
        below = np.cumsum(others) - others / 2.0
        return float((events * below).sum() / (events.sum() * others.sum()))

    def at_threshold(self, threshold: float) -> tuple[float, float]:
        """Sensitivity and specificity."""
        above = expit(self.z) >= threshold
        events, others = self.mass * self.p, self.mass * (1.0 - self.p)
        return float(events[above].sum() / events.sum()), float(others[~above].sum() / others.sum())


def _distribution(
    prevalence: float | None,
    c_statistic: float | None,
    scores: Column,
    normal: tuple[float, float] | None,
    skew_normal: tuple[float, float, float] | None,
    beta: tuple[float, float] | None,
) -> tuple[Floats, Floats]:
    """Log-odds and their masses, which sum to 1."""
    given = {"scores": scores, "normal": normal, "skew_normal": skew_normal, "beta": beta}
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise InputError(named[1], f"and {named[0]} both describe the predicted risks", "pass one of them")
    if scores is not None:
        s = np.asarray(check_scores(scores, "probability"), dtype=np.float64)
        if not len(s):
            refuse_empty("scores")
        if np.isnan(s).any():
            refuse_not_finite(s, "scores", Advice.DROP_OR_REPAIR_SCORES)
        return logit(s, Ends.of(s)), np.full(len(s), 1.0 / len(s))
    if normal is not None:
        mean, sd = _numbers("normal", normal, 2, "(mean, standard deviation) of the log-odds")
        _check_above_zero("normal", sd, "standard deviation")
        x = np.linspace(-REACH, REACH, NODES)
        return mean + sd * x, _shares(-0.5 * x**2)
    if skew_normal is not None:
        mean, sd, skew = _numbers("skew_normal", skew_normal, 3, "(mean, standard deviation, skewness) of the log-odds")
        _check_above_zero("skew_normal", sd, "standard deviation")
        if abs(skew) > MOST_SKEW:
            raise InputError(
                "skew_normal", f"has a skewness of {skew:g}", f"pass one within -{MOST_SKEW} and {MOST_SKEW}"
            )
        return _skew_normal(mean, sd, skew)
    if beta is not None:
        a, b = _numbers("beta", beta, 2, "both parameters of the beta distribution")
        _check_above_zero("beta", min(a, b), "smallest parameter")
        z = np.linspace(-45.0 / min(a, 1.0), 45.0 / min(b, 1.0), 4 * NODES)
        return z, _shares(-a * np.logaddexp(0.0, -z) - b * np.logaddexp(0.0, z))
    if prevalence is None or c_statistic is None:
        missing = "prevalence" if prevalence is None else "c_statistic"
        raise InputError(
            missing,
            "is missing",
            "pass it, or how predicted risks are distributed: scores, normal, skew_normal or beta",
        )
    return _two_normals(float(prevalence), float(c_statistic))


def _skew_normal(mean: float, sd: float, skew: float) -> tuple[Floats, Floats]:
    """Skew-normal log-odds by their moments (Azzalini 1985)."""
    third = (2.0 * abs(skew) / (4.0 - math.pi)) ** (2.0 / 3.0)
    delta = math.copysign(math.sqrt(math.pi / 2.0 * third / (1.0 + third)), skew)
    shape = delta / math.sqrt(1.0 - delta**2)
    scale = sd / math.sqrt(1.0 - 2.0 * delta**2 / math.pi)
    x = np.linspace(-REACH, REACH, NODES)
    return mean + scale * (x - delta * math.sqrt(2.0 / math.pi)), _shares(-0.5 * x**2 + log_ndtr(shape * x))


def _two_normals(prevalence: float, c_statistic: float) -> tuple[Floats, Floats]:
    r"""Log-odds of a calibrated model that are normal with variance v in both classes, with means v apart.

    Then :math:`C = \Phi(\sqrt{v / 2})`, and the mean without the event is :math:`\operatorname{logit} \phi - v / 2`, so
    that Bayes' theorem gives each log-odds itself.
    """
    if not c_statistic > 0.5:
        raise InputError("c_statistic", f"must be above 0.5, got {c_statistic:g}", "pass a distribution instead")
    variance = 2.0 * float(ndtri(c_statistic)) ** 2
    sd, low = math.sqrt(variance), math.log(prevalence / (1.0 - prevalence)) - variance / 2.0
    z = np.linspace(low - REACH * sd, low + variance + REACH * sd, NODES)
    events, others = (-0.5 * ((z - center) / sd) ** 2 for center in (low + variance, low))
    return z, prevalence * _shares(events) + (1.0 - prevalence) * _shares(others)


def _shares(logs: Floats) -> Floats:
    density = np.exp(logs - logs.max())
    return np.asarray(density / density.sum())


# --------------------------------------------------------------------------------------------------------------- inputs


def _check_shares(**given: float | None) -> None:
    for name, value in given.items():
        if value is not None and not (isinstance(value, int | float | np.number) and 0.0 < value < 1.0):
            raise InputError(name, f"must lie strictly between 0 and 1, got {value!r}")


def _check_above_zero(name: str, value: object, what: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0.0 < float(value) < math.inf:
        raise InputError(name, f"must {f'have a {what}' if what else 'be'} above 0, got {value!r}")


def _numbers(name: str, values: object, count: int, meaning: str) -> tuple[float, ...]:
    try:
        found = tuple(float(value) for value in values)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        found = ()
    if len(found) != count or not all(math.isfinite(value) for value in found):
        raise InputError(name, f"must be {count} numbers, got {values!r}", f"pass {meaning}")
    return found


_other_rate = note(
    "other-event-rate",
    "the distribution implies an event rate of {implied:.4g} for the assumed calibration, not {given:.4g}: check that "
    "both describe the same patients",
)
