"""One table for the validation of a risk model: counts, calibration, discrimination and overall error."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import check_option, is_missing, read_column
from calibrant.arrays.labels import encode_labels, label_column, without_positive
from calibrant.clinical.tables import Table, interval_text, number, row_of
from calibrant.messages import CalibrantWarning, Drawn, InputError, Note, note, plural
from calibrant.metrics.binary.bins import grouped_or_tally
from calibrant.metrics.binary.curves.recalibration import CurveErrors, ici, recalibration
from calibrant.metrics.binary.scores import auc, brier
from calibrant.metrics.estimates import Estimate
from calibrant.metrics.inputs import Inputs, by_segment, read_inputs
from calibrant.metrics.smoothers import Method
from calibrant.metrics.variance import FEWEST_CLUSTERS, spread_of
from calibrant.notebook import table_block
from calibrant.tallies import Clusters, Tally

Missing = Literal["refuse", "drop"]

MEASURES: dict[str, tuple[str, float | None]] = {
    "observed_over_expected": ("O:E ratio", 1.0),
    "intercept": ("calibration intercept (slope 1)", 0.0),
    "slope": ("calibration slope", 1.0),
    "c_statistic": ("c-statistic", None),
    "brier": ("Brier score", None),
    "scaled_brier": ("scaled Brier score", None),
    "ici": ("ICI", 0.0),
    "e50": ("E50", 0.0),
    "e90": ("E90", 0.0),
    "emax": ("Emax", 0.0),
}
"""Measures of a validation in the order of the table: title, and the value of a perfectly calibrated model."""

outcomes_left_out = note(
    "outcomes-left-out",
    "{missing} of {rows} participants have no outcome and were left out; all numbers describe the others",
)


@dataclass(frozen=True)
class Validation(Drawn, Table):
    """The validation of a risk model in one table; ``print`` it, or take ``rows``, ``to_frame`` or ``to_dict``.

    Attributes
    ----------
    participants, events
        Participants with a known outcome, and those of them with the event.
    missing
        Participants without an outcome, who were left out.
    clusters
        Number of clusters for which the intervals allow; None without clusters.
    expected
        Sum of the predicted risks, with weights their weighted sum.
    observed_over_expected
        Observed over expected events (O:E); below 1 the risks are too high on average.
    intercept, slope
        Calibration intercept with the slope fixed at 1 (calibration in the large), and calibration slope.
    c_statistic, brier, scaled_brier
        Area under the ROC curve, Brier score, and 1 minus the Brier score over that of the event rate as forecast.
    ici, e50, e90, emax
        Mean, median, 90 % quantile and maximum of the distance between a smooth calibration curve and the diagonal.
    curve
        The smoother of that curve.
    notes
        What the reader must know, one sentence each.
    tally
        The counts that :meth:`plot` draws.
    """

    participants: int
    events: int
    missing: int
    clusters: int | None
    expected: float
    observed_over_expected: Estimate
    intercept: Estimate
    slope: Estimate
    c_statistic: Estimate
    brier: Estimate
    scaled_brier: Estimate
    ici: Estimate
    e50: Estimate
    e90: Estimate
    emax: Estimate
    curve: Method = "spline"
    notes: tuple[Note, ...] = ()
    tally: Tally | Clusters | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, without the tally; a number that is not finite is None."""
        told = Table.to_dict(replace(self, tally=None))
        del told["tally"]
        return told

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dict per measure: name, value, standard error, ends of the 95 % interval, value of a perfect model."""
        return [row_of(getattr(self, key), ideal) for key, (_, ideal) in MEASURES.items()]

    @property
    def headline(self) -> str:
        """Participants, events and clusters in one sentence."""
        share = f" ({100 * self.events / self.participants:.1f} %)" if self.participants else ""
        within = "" if self.clusters is None else f", {plural(self.clusters, 'cluster')}"
        return f"Validation: {plural(self.participants, 'participant')}, {plural(self.events, 'event')}{share}{within}"

    @property
    def summary(self) -> str:
        """The main results as a sentence for a manuscript."""

        def told(estimate: Estimate) -> str:
            ends = interval_text(estimate.low, estimate.high, 2)
            return f"{number(estimate.value, 2)}" + ("" if ends == "-" else f" (95 % CI {ends})")

        allowed = "" if self.clusters is None else f" from {plural(self.clusters, 'cluster')}"
        left_out = f" A further {self.missing:,} had no outcome and were left out." if self.missing else ""
        return (
            f"The model was validated in {plural(self.participants, 'participant')}{allowed} with "
            f"{plural(self.events, 'event')}.{left_out} The ratio of observed to expected events was "
            f"{told(self.observed_over_expected)}, the calibration intercept {told(self.intercept)}, the calibration "
            f"slope {told(self.slope)}, the c-statistic {told(self.c_statistic)} and the Brier score "
            f"{told(self.brier)}."
        )

    def __str__(self) -> str:
        lines = [self.headline, f"  {'':<34}{'value':>8}   {'95 % CI':<18}{'ideal':>6}"]
        lines += [
            f"  {name:<34}{value:>8}   {ends:<18}{ideal:>6}".rstrip() for name, value, ends, ideal in self._lines()
        ]
        return "\n".join([*lines, *(f"  {each}" for each in self.notes)])

    def _repr_html_(self) -> str:
        """For notebooks: the table, and the notes."""
        head = ("measure", "value", "95 % CI", "ideal")
        return table_block(head, self._lines(), title=self.headline, notes=[f"  {each}" for each in self.notes])

    def _lines(self) -> list[tuple[str, str, str, str]]:
        """Title, value, interval and ideal value of each measure, as text."""
        made = []
        for key, (title, ideal) in MEASURES.items():
            found: Estimate = getattr(self, key)
            perfect = "" if ideal is None else f"{ideal:g}"
            made.append((title, number(found.value), interval_text(found.low, found.high), perfect))
        return made


def validate(
    scores: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    groups: Any = None,
    by: Any = None,
    score: str | None = None,
    label: str | None = None,
    missing: Missing = "refuse",
    curve: Method = "spline",
    repetitions: int = 200,
    random_state: int = 0,
) -> Any:
    r"""Validate predicted risks on new participants: calibration, discrimination and overall error in one table.

    Counts of participants, events and missing outcomes; O:E ratio, calibration intercept (slope fixed at 1) and slope;
    c-statistic; Brier score B and scaled Brier score

    .. math:: 1 - \frac{B}{\bar y (1 - \bar y)},

    where :math:`\bar y` is the event rate; ICI, E50, E90 and Emax. With ``groups`` all intervals allow for dependent
    participants, such as those of one hospital.

    Parameters
    ----------
    scores : array-like or frame
        Predicted risk of each participant; or a frame, with the names of its columns in ``score`` and ``label``.
    y : array-like
        Outcome: 1 with the event, 0 without it, NaN or null if it is not known.
    sample_weight : array-like, optional
        Importance weights, such as inverse probabilities of a known outcome.
    groups : array-like, optional
        Cluster of each participant, such as the hospital. With fewer than ten clusters there are no intervals.
    by : array-like or mapping, optional
        Subgroup of each participant, or several such columns by name; the result is then a table by subgroup.
    score, label : str, optional
        Columns of a frame; ``sample_weight``, ``groups`` and ``by`` are then names as well.
    missing : {"refuse", "drop"}, default="refuse"
        What to do with participants without an outcome. ``"drop"`` leaves them out and reports how many there were.
    curve : {"spline", "loess", "lowess", "isotonic"}, default="spline"
        Smoother for ICI, E50, E90 and Emax, as in :func:`calibrant.metrics.calibration_curve`.
    repetitions : int, default=200
        Bootstrap samples for the intervals of the last four; 0 omits these intervals.
    random_state : int, default=0
        Seed of these samples.

    Returns
    -------
    Validation
        The table; with ``by`` a :class:`~calibrant.metrics.MetricTable` of them.

    Notes
    -----
    Edges: with one class, separated classes or a constant risk, what is not defined is NaN, with a note. Leaving out
    participants without an outcome is unbiased only if outcomes are missing at random given the risk; otherwise pass
    inverse probabilities of a known outcome as ``sample_weight``.
    Intervals, 95 %: those of :func:`calibrant.metrics.recalibration` for intercept, slope and O:E, right for risks that
    are wrong, with clusters by the cluster sandwich (CR3); DeLong on the log-odds scale for the c-statistic, with
    clusters by Obuchowski; normal for the Brier scores. Those of ICI, E50, E90 and Emax invert a test,
    so that they begin at 0 where a calibrated model could show such a distance: see :func:`calibrant.metrics.ici`.
    Guarantee: no finite-sample guarantee; the intervals are approximate. Those of ICI, E50, E90 and Emax covered in
    94 % to 100 % of simulated samples, with and without clusters (``docs/certificates/curve-distances.md``).
    Cost: one sort and about 30 passes over the distinct risks, then less than a second for the last four intervals.
    References: Collins et al. (2024), TRIPOD+AI statement; Steyerberg (2019), Clinical Prediction Models, chapter 15;
    Austin and Steyerberg (2019), The Integrated Calibration Index; Obuchowski (1997), Nonparametric analysis of
    clustered ROC curve data.

    Examples
    --------
    >>> rng = np.random.default_rng(4)
    >>> z = rng.normal(-1.6, 1.1, 1500)
    >>> risk, died = 1 / (1 + np.exp(-z)), (rng.random(1500) < 1 / (1 + np.exp(0.5 - 0.75 * z))).astype(float)
    >>> died[:40] = np.nan
    >>> table = validate(risk, died, missing="drop")
    >>> table.participants, table.missing, round(table.slope.value, 2)
    (1460, 40, 0.7)
    >>> round(table.scaled_brier.value, 2)
    0.05
    """
    check_option("missing", missing, ("refuse", "drop"))
    check_option("curve", curve, get_args(Method))
    given = read_inputs(
        scores,
        y,
        sample_weight,
        groups=groups,
        by=by,
        score=score,
        label=label,
    )
    if isinstance(given.scores, Tally | Clusters):
        return _of_data(given.scores, 0, curve, repetitions, random_state)
    if missing == "refuse":
        refuse_missing(given)
    given = read_outcomes(given)

    def once(rows: Inputs) -> Validation:
        known, count = known_outcomes(rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)  # one class is seen in the notes
            data = grouped_or_tally(known.scores, known.y, known.sample_weight, known.groups)
            found = _of_data(data, count, curve, repetitions, random_state, len(known.y))
        if known.sample_weight is None:
            return found
        return replace(found, participants=len(known.y), events=int(np.count_nonzero(known.y)))

    return by_segment(given, once)


def refuse_missing(given: Inputs) -> None:
    """Raise an error if outcomes are missing."""
    absent = _absent(read_column(given.y, "y"))
    if absent.any():
        count, first = int(absent.sum()), int(np.argmax(absent))
        raise InputError(
            "y",
            f"has {plural(count, 'missing value')}, the first at row {first} counted from 0",
            "pass missing='drop' to leave these participants out and have them counted in the table; if they differ "
            "from the others, weight the others by sample_weight, or impute the outcome",
        )


def read_outcomes(given: Inputs) -> Inputs:
    """The same with outcomes 0, 1 and NaN, read before the split into parts: one that has a single label is read right.

    Examples
    --------
    >>> read_outcomes(Inputs([0.1, 0.2, 0.3], [-1, 1, None], None, None, {})).y.tolist()
    [0.0, 1.0, nan]
    """
    whole = given._as_arrays()
    absent = _absent(whole.y)
    if not len(absent):
        return whole
    if absent.all():
        raise InputError("y", "is missing for every participant", "pass at least one known outcome")
    known = whole.y[~absent]
    if known.dtype.kind == "O":
        known = np.array(known.tolist())
    scores = whole.scores[~absent]
    numbers = scores.astype(np.float64) if scores.dtype.kind in "biuf" else None
    try:
        labels, _ = encode_labels(label_column(known, "y"), None, "y", numbers)
    except InputError as error:
        raise without_positive(error) from None
    made = np.full(len(absent), np.nan)
    made[~absent] = labels
    found = replace(whole, y=made)
    if absent.any() and found.segments:
        for name, value, rows in found.parts():
            if _absent(rows.y).all():
                raise InputError(
                    "y",
                    f"is missing for every participant with {name} = {value!r}",
                    "leave these participants out, or pass at least one known outcome of theirs",
                )
    return found


def known_outcomes(rows: Inputs) -> tuple[Inputs, int]:
    """Rows with an outcome, and the number of those without one, after :func:`read_outcomes`."""
    absent = _absent(rows.y)
    return rows._taken(np.flatnonzero(~absent)) if absent.any() else rows, int(absent.sum())


def _absent(y: NDArray[Any]) -> NDArray[np.bool_]:
    if y.dtype.kind == "f":
        return np.asarray(np.isnan(y), dtype=bool)
    if y.dtype.kind == "O":
        return np.array([is_missing(each) for each in y.tolist()], dtype=bool)
    return np.zeros(len(y), dtype=bool)


def _of_data(
    data: Tally | Clusters, missing: int, curve: Method, repetitions: int, random_state: int, known: int = 0
) -> Validation:
    """The table; ``known`` are the participants with an outcome, where the tally holds weights."""
    tally = data.tally if isinstance(data, Clusters) else data
    cox, errors = recalibration(data), ici(data, method=curve, repetitions=repetitions, random_state=random_state)
    area, loss = auc(data), brier(data)
    scaled = scaled_brier(data, loss)
    parts: list[Any] = [cox, area, loss, scaled, errors]
    kept: tuple[Note, ...] = (outcomes_left_out(missing, missing + known),) if missing else ()
    for part in parts:
        kept += tuple(each for each in part.notes if each not in kept)
    curves = {key: _curve_estimate(errors, place) for place, key in enumerate(("ici", "e50", "e90", "emax"))}
    found = {
        "observed_over_expected": cox.observed_over_expected,
        "intercept": cox.intercept,
        "slope": cox.slope,
        "c_statistic": area,
        "brier": loss,
        "scaled_brier": scaled,
        **curves,
    }
    named = {
        key: replace(found[key], name=title, null=None, null_high=None, null_low=None, notes=())
        for key, (title, _) in MEASURES.items()
    }
    clusters = data.size if isinstance(data, Clusters) else None
    return Validation(
        round(float(tally.total)),
        round(float(tally.positives)),
        missing,
        clusters,
        cox.expected,
        **named,
        curve=curve,
        notes=kept,
        tally=data,
    )


def _curve_estimate(errors: CurveErrors, place: int) -> Estimate:
    value = (errors.ici, errors.e50, errors.e90, errors.emax)[place]
    se, low, high = (None if each is None else each[place] for each in (errors.se, errors.low, errors.high))
    return Estimate("", value, se, low, high)


def scaled_brier(data: Tally | Clusters, loss: Estimate) -> Estimate:
    r"""Scaled Brier score :math:`1 - B / (\bar y (1 - \bar y))` with a normal interval.

    With :math:`V = \bar y (1 - \bar y)`, a row of loss l and label y has the influence
    :math:`-(l - B) / V + (B / V^2) (1 - 2 \bar y) (y - \bar y)`, divided by the number of rows.
    """
    tally = data.tally if isinstance(data, Clusters) else data
    total, rate = float(tally.total), float(tally.positives) / float(tally.total)
    room = rate * (1.0 - rate)
    if not room > 0.0:
        return Estimate("scaled Brier score", np.nan)
    value = 1.0 - loss.value / room
    if loss.se is None or (isinstance(data, Clusters) and data.size < FEWEST_CLUSTERS):
        return Estimate("scaled Brier score", value)
    tilt = loss.value / room**2 * (1.0 - 2.0 * rate)
    scores = tally.scores
    hit = -((1.0 - scores) ** 2 - loss.value) / room + tilt * (1.0 - rate)
    miss = -(scores**2 - loss.value) / room - tilt * rate
    spread = spread_of(data, hit / total, miss / total)
    half = spread.quantile(0.95) * spread.sd
    return Estimate("scaled Brier score", value, spread.sd, value - half, min(value + half, 1.0))
