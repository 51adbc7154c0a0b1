"""Validation by cluster, such as the hospital, and a random-effects summary over clusters."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from calibrant.arrays.columns import check_option
from calibrant.arrays.sides import side_column
from calibrant.clinical.pooling import RandomEffects, random_effects
from calibrant.clinical.tables import Table, interval_text, number
from calibrant.clinical.validation import MEASURES, Missing, known_outcomes, read_outcomes, refuse_missing
from calibrant.messages import CalibrantWarning, Drawn, InputError, Note, Voice, note, plural
from calibrant.metrics.binary.bins import tally_of
from calibrant.metrics.binary.curves.recalibration import recalibration
from calibrant.metrics.binary.scores import auc
from calibrant.metrics.estimates import Estimate, Result
from calibrant.metrics.inputs import read_inputs
from calibrant.notebook import stacked, table_block
from calibrant.numerics import expit, logit

MOST_LINES = 40
"""Clusters that are printed; all of them are in ``rows``."""


class Scale(NamedTuple):
    """A scale on which estimates are about normal: into it, its derivative, and back."""

    into: Callable[[float], float]
    slope: Callable[[float], float]
    back: Callable[[float], float]


def _identity(value: float) -> float:
    return value


PLAIN = Scale(_identity, lambda _: 1.0, _identity)
LOG = Scale(math.log, lambda value: 1.0 / value, math.exp)
LOGIT = Scale(lambda v: float(logit(np.array(v))), lambda v: 1.0 / (v * (1.0 - v)), lambda x: float(expit(np.array(x))))

SCALES = {"observed_over_expected": LOG, "intercept": PLAIN, "slope": PLAIN, "c_statistic": LOGIT}
"""Measures of a cluster, and the scale on which they are pooled."""


@note("clusters-without")
def clusters_without(voice: Voice, measure: str, count: int, clusters: int, only_events: int) -> str:
    """Clusters that are not in a pooled value, and why."""
    few = count - only_events
    why = [f"{few} with too few events for it"] * (few > 0) + [f"{only_events} with only events"] * (only_events > 0)
    return f"{measure}: {count} of {clusters} clusters are not in the pooled value: {' and '.join(why)}"


@note("pooled-note")
def pooled_note(voice: Voice, measure: str, why: str) -> str:
    """Why the interval of a pooled measure is to be read with care."""
    if why == "one-cluster":
        return f"{measure}: only one cluster could be used, so there is no prediction interval"
    return (
        f"{measure}: the clusters differ less than expected by chance, and the interval is narrower than that of a "
        "common value of all clusters (fixed_low to fixed_high of pooled): report the wider one too"
    )


@dataclass(frozen=True)
class ClusterRow(Result):
    """The validation of one cluster.

    Attributes
    ----------
    cluster
        Its name.
    participants, events, expected
        Participants with an outcome, those with the event, and the sum of the predicted risks.
    observed_over_expected, intercept, slope, c_statistic
        O:E ratio, calibration intercept (slope fixed at 1), calibration slope and c-statistic, with intervals.
    """

    cluster: Any
    participants: int
    events: int
    expected: float
    observed_over_expected: Estimate
    intercept: Estimate
    slope: Estimate
    c_statistic: Estimate


@dataclass(frozen=True)
class ClusterValidation(Drawn, Table):
    """Validation by cluster with the pooled value of each measure; ``print`` it, or draw it with ``ForestDisplay``.

    Attributes
    ----------
    clusters
        One :class:`ClusterRow` per cluster, in the order of their names.
    pooled
        Random-effects summary of each measure, on the measure's own scale; ``tau2`` is on the scale of pooling.
    missing
        Participants without an outcome, who were left out.
    notes
        What the reader must know, one sentence each.
    """

    clusters: tuple[ClusterRow, ...]
    pooled: dict[str, RandomEffects]
    missing: int = 0
    notes: tuple[Note, ...] = ()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dict per cluster: counts, and value and interval of each measure."""
        made = []
        for each in self.clusters:
            row: dict[str, Any] = {"cluster": each.cluster, "participants": each.participants, "events": each.events}
            row["expected"] = each.expected
            for key in SCALES:
                found: Estimate = getattr(each, key)
                for end in ("value", "low", "high"):
                    value = getattr(found, end)
                    row[key if end == "value" else f"{key}_{end}"] = math.nan if value is None else value
            made.append(row)
        return made

    @property
    def headline(self) -> str:
        """Clusters, participants and events in one sentence."""
        participants, events = (
            sum(getattr(each, name) for each in self.clusters) for name in ("participants", "events")
        )
        sizes = f"{plural(participants, 'participant')}, {plural(events, 'event')}"
        return f"Validation by cluster: {plural(len(self.clusters), 'cluster')}, {sizes}"

    def __str__(self) -> str:
        lines = [
            self.headline,
            f"  {'':<34}{'pooled':>8}   {'95 % CI':<18}{'95 % PI, new cluster':<22}{'tau':>7}{'I2':>7}",
        ]
        for name, value, ends, wide, tau, share in self._pooled_lines():
            lines.append(f"  {name:<34}{value:>8}   {ends:<18}{wide:<22}{tau:>7}{share:>7}")
        lines.append(f"  {'cluster':<16}{'n':>7}{'events':>8}{'O:E':>8}{'intercept':>11}{'slope':>8}{'c':>8}")
        for line in self._cluster_lines()[:MOST_LINES]:
            lines.append(f"  {line[0]:<16}{line[1]:>7}{line[2]:>8}{line[3]:>8}{line[4]:>11}{line[5]:>8}{line[6]:>8}")
        if len(self.clusters) > MOST_LINES:
            lines.append(f"  and {len(self.clusters) - MOST_LINES} more; rows has all of them")
        return "\n".join([*lines, *(f"  {each}" for each in self.notes)])

    def _repr_html_(self) -> str:
        """For notebooks: pooled values, then the clusters."""
        head = ("measure", "pooled", "95 % CI", "95 % prediction interval", "tau", "I2")
        first = table_block(head, self._pooled_lines(), title=self.headline)
        names = ("cluster", "participants", "events", "O:E", "intercept", "slope", "c-statistic")
        notes = [f"  {each}" for each in self.notes]
        return stacked(first, table_block(names, self._cluster_lines(), notes=notes))

    def _pooled_lines(self) -> list[tuple[str, ...]]:
        made: list[tuple[str, ...]] = []
        for key, found in self.pooled.items():
            ends, wide = ((found.low, found.high), (found.prediction_low, found.prediction_high))
            share = "-" if math.isnan(found.i2) else f"{100 * found.i2:.0f} %"
            tau = number(math.sqrt(found.tau2) if found.tau2 >= 0.0 else math.nan, 2)
            made.append((MEASURES[key][0], number(found.value), interval_text(*ends), interval_text(*wide), tau, share))
        return made

    def _cluster_lines(self) -> list[tuple[str, ...]]:
        return [
            (
                str(each.cluster),
                f"{each.participants:,}",
                f"{each.events:,}",
                *(number(getattr(each, key).value, 2) for key in SCALES),
            )
            for each in self.clusters
        ]


def validate_clusters(
    scores: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    groups: Any,
    score: str | None = None,
    label: str | None = None,
    missing: Missing = "refuse",
) -> ClusterValidation:
    r"""Validate predicted risks in each cluster, and pool the results over clusters by random effects.

    For each cluster: O:E ratio, calibration intercept (slope fixed at 1), calibration slope, c-statistic. Each is
    pooled by :func:`random_effects`: O:E on the log scale, the c-statistic on the log-odds scale. The pooled value is
    that of an average cluster; the prediction interval says what to expect in a new one.

    Parameters
    ----------
    scores : array-like or frame
        Predicted risk of each participant; or a frame, with the names of its columns in ``score`` and ``label``.
    y : array-like
        Outcome: 1 with the event, 0 without it, NaN or null if it is not known.
    sample_weight : array-like, optional
        Importance weights.
    groups : array-like
        Cluster of each participant, such as the hospital; a name for a frame.
    score, label : str, optional
        Columns of a frame.
    missing : {"refuse", "drop"}, default="refuse"
        What to do with participants without an outcome, as in :func:`validate`.

    Returns
    -------
    ClusterValidation
        Results by cluster, and pooled.

    Notes
    -----
    Edges: a cluster in which a measure or its standard error is not defined (one class, separated classes) is left out
    of the pooled value of this measure, with a note. Clusters without events have no O:E on the log scale: leaving
    them out makes the pooled O:E too high, so look at their expected events.
    Guarantee: no finite-sample guarantee; the standard errors within clusters are taken as known, which is rough for
    clusters with fewer than about ten events.
    Cost: one sort of the rows, and one validation per cluster.
    References: Debray et al. (2017), A guide to systematic review and meta-analysis of prediction model performance;
    Riley et al. (2016), External validation of clinical prediction models using big datasets from e-health records or
    IPD meta-analysis; Snell et al. (2018), Meta-analysis of prediction model performance across multiple studies.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> hospital, z = np.repeat(list("ABCDEF"), 300), rng.normal(-1.0, 1.0, 1800)
    >>> shift = np.repeat(rng.normal(0.0, 0.3, 6), 300)
    >>> died = rng.random(1800) < 1 / (1 + np.exp(-z - shift))
    >>> found = validate_clusters(1 / (1 + np.exp(-z)), died, groups=hospital)
    >>> len(found.clusters), found.pooled["slope"].clusters
    (6, 6)
    """
    check_option("missing", missing, ("refuse", "drop"))
    given = read_inputs(
        scores,
        y,
        sample_weight,
        groups=groups,
        by=None,
        score=score,
        label=label,
    )
    if given.groups is None:
        raise InputError("groups", "is missing", "pass the cluster of each row as an array")
    if missing == "refuse":
        refuse_missing(given)
    rows, absent = known_outcomes(read_outcomes(given))
    column = side_column(rows.groups, "groups", len(rows.y))
    names, code = np.unique(column, return_inverse=True)
    made = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # one class is seen in the row of the cluster
        for place, name in enumerate(names.tolist()):
            part = rows._taken(np.flatnonzero(code == place))
            made.append(_cluster(name, part.scores, part.y, part.sample_weight))
    pooled: dict[str, RandomEffects] = {}
    notes: list[Note] = []
    for key, scale in SCALES.items():
        found, used = _pooled([getattr(each, key) for each in made], scale)
        if used < len(made):
            full = sum(each.events == each.participants for each in made)
            notes.append(clusters_without(MEASURES[key][0], len(made) - used, len(made), full))
        if found is not None:
            pooled[key] = found
            notes += [pooled_note(MEASURES[key][0], each.code) for each in found.notes]
    return ClusterValidation(tuple(made), pooled, absent, tuple(notes))


def _cluster(name: Any, scores: Any, y: Any, sample_weight: Any) -> ClusterRow:
    tally = tally_of(scores, y, sample_weight)
    found, area = recalibration(tally), auc(tally)
    estimates = {**{key: getattr(found, key) for key in SCALES if key != "c_statistic"}, "c_statistic": area}
    named = {key: replace(each, name=MEASURES[key][0], notes=()) for key, each in estimates.items()}
    return ClusterRow(name, len(scores), int(np.count_nonzero(y)), found.expected, **named)


def _pooled(estimates: list[Estimate], scale: Scale) -> tuple[RandomEffects | None, int]:
    """The random-effects summary of a measure, and the number of clusters in it."""
    values, errors = [], []
    for each in estimates:
        if each.se is None or not (math.isfinite(each.value) and math.isfinite(each.se) and each.se > 0.0):
            continue
        if scale is not PLAIN and not (each.value > 0.0 and (scale is LOG or each.value < 1.0)):
            continue
        values.append(scale.into(each.value))
        errors.append(each.se * scale.slope(each.value))
    if not values:
        return None, 0
    found = random_effects(values, errors)
    return found.mapped(scale.back, lambda at: 1.0 / scale.slope(scale.back(at))), len(values)
