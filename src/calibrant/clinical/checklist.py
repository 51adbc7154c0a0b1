"""The performance items of TRIPOD+AI, filled in from results; what only the authors know is marked as open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calibrant.clinical.clusters import ClusterValidation
from calibrant.clinical.decisions import DecisionBand
from calibrant.clinical.tables import Table, interval_text, number
from calibrant.clinical.updating import WORDS, ModelUpdate
from calibrant.clinical.validation import MEASURES, Validation
from calibrant.messages import InputError, plural
from calibrant.metrics.estimates import Result
from calibrant.metrics.inputs import MetricTable
from calibrant.notebook import table_block

OPEN = "[to be filled in by the authors]"


CURVES = {
    "spline": "a restricted cubic spline of the log-odds",
    "loess": "loess (local quadratics)",
    "lowess": "lowess (local lines)",
    "isotonic": "isotonic regression",
}
"""How a calibration curve is estimated, by the name of its method."""

EDITION = "Item numbers of Collins et al. (2024); check them against the published checklist."
"""Which edition of the checklist the item numbers are of."""


@dataclass(frozen=True)
class TripodItem(Result):
    """One item of the checklist.

    Attributes
    ----------
    item
        Its number.
    topic
        What is to be reported.
    text
        The text, as far as it follows from the results.
    complete
        Whether nothing is left to the authors.
    """

    item: str
    topic: str
    text: str
    complete: bool


@dataclass(frozen=True)
class TripodTable(Table):
    """Items of TRIPOD+AI about the evaluation of a model; ``print`` it, or take ``rows`` or ``to_frame``.

    Attributes
    ----------
    items
        One :class:`TripodItem` per item.
    """

    items: tuple[TripodItem, ...]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dict per item."""
        return [dict(vars(each)) for each in self.items]

    def __str__(self) -> str:
        done = sum(each.complete for each in self.items)
        lines = [f"TRIPOD+AI, items on evaluation: {done} of {len(self.items)} complete"]
        for each in self.items:
            lines += [f"{each.item:<4} {each.topic}", f"     {each.text}"]
        lines.append(EDITION)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """For notebooks: the table."""
        rows = [(each.item, each.topic, each.text) for each in self.items]
        title = "TRIPOD+AI, items on evaluation"
        return table_block(("item", "topic", "text"), rows, title=title, notes=[EDITION], left=(0, 1, 2))


def tripod(
    validation: Validation,
    *,
    subgroups: MetricTable[Any] | None = None,
    clusters: ClusterValidation | None = None,
    decision: DecisionBand | None = None,
    update: ModelUpdate | None = None,
) -> TripodTable:
    """Fill in the TRIPOD+AI items on the evaluation of a model from results; open parts are marked.

    Parameters
    ----------
    validation : Validation
        The result of :func:`validate`.
    subgroups : MetricTable, optional
        The result of :func:`validate` with ``by=``.
    clusters : ClusterValidation, optional
        The result of :func:`validate_clusters`.
    decision : DecisionBand, optional
        The result of :func:`decision_curve`.
    update : ModelUpdate, optional
        The result of :func:`update_model`.

    Returns
    -------
    TripodTable
        The items, with their text.

    Notes
    -----
    Guarantee: none in finite samples beyond that of the results. The items are those of the checklist for the
    evaluation of a model, in short words; the full checklist has more, and the authors answer for it. The numbers are
    those of the edition of 2024; check them against the published checklist before you submit.
    References: Collins et al. (2024), TRIPOD+AI statement: updated guidance for reporting clinical prediction models
    that use regression or machine learning methods.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.clinical import validate
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.beta(1.0, 4.0, 500)
    >>> table = tripod(validate(risk, rng.random(500) < risk))
    >>> [each.item for each in table.items if each.complete]
    ['12e', '23a']
    """
    _check("validation", validation, Validation, "validate")
    for name, given, kind, maker in (
        ("subgroups", subgroups, MetricTable, "validate with by="),
        ("clusters", clusters, ClusterValidation, "validate_clusters"),
        ("decision", decision, DecisionBand, "decision_curve"),
        ("update", update, ModelUpdate, "update_model"),
    ):
        if given is not None:
            _check(name, given, kind, maker)
    made = [
        ("10", "Sample size, and how it was determined", _size(validation), False),
        ("11", "Missing data, and how they were handled", _missing(validation), False),
        (
            "12d",
            "Heterogeneity across clusters, how handled",
            _heterogeneity(validation, clusters),
            clusters is not None,
        ),
        ("12e", "Measures and plots of performance", _measures(validation, decision), True),
        ("12f", "Model updating, methods", _updating(update), update is not None),
        ("14", "Fairness, methods", _fairness(subgroups), False),
        ("20a", "Participants, with and without the outcome", _participants(validation), False),
        ("23a", "Performance with confidence intervals, and in subgroups", _performance(validation, subgroups), True),
        ("23b", "Heterogeneity of performance across clusters", _across(clusters), clusters is not None),
        ("24", "Results of model updating", _updated(update), update is not None),
    ]
    return TripodTable(tuple(TripodItem(*each) for each in made))


def _check(name: str, given: object, kind: type, maker: str) -> None:
    if not isinstance(given, kind):
        raise InputError(name, f"must be a {kind.__name__}, not {type(given).__name__}", f"pass the result of {maker}")


def _size(validation: Validation) -> str:
    sizes = f"{plural(validation.participants, 'participant')} with {plural(validation.events, 'event')}"
    return f"{sizes} were available. How the sample size was determined: {OPEN}"


def _missing(validation: Validation) -> str:
    if not validation.missing:
        return f"The outcome was known for all {validation.participants:,} participants. Predictors: {OPEN}"
    known = validation.participants + validation.missing
    return (
        f"The outcome was missing for {validation.missing:,} of {known:,} participants, who were left out. Why it was "
        f"missing, and missing predictors: {OPEN}"
    )


def _heterogeneity(validation: Validation, clusters: ClusterValidation | None) -> str:
    if clusters is not None:
        return (
            "Performance was estimated in each cluster and pooled by random effects (REML, Hartung-Knapp intervals), "
            "with 95 % prediction intervals for a new cluster."
        )
    if validation.clusters is not None:
        return f"Confidence intervals allow for {plural(validation.clusters, 'cluster')}. Other methods: {OPEN}"
    return f"Participants were taken as independent. Clusters, if any: {OPEN}"


def _measures(validation: Validation, decision: DecisionBand | None) -> str:
    names = ", ".join(title for title, _ in MEASURES.values())
    curve = f"The calibration curve was estimated by {CURVES[validation.curve]}."
    use = "" if decision is None else " Clinical utility was assessed by net benefit (decision curve)."
    return f"{names}, with 95 % confidence intervals. {curve}{use}"


def _updating(update: ModelUpdate | None) -> str:
    if update is None:
        return f"Model updating: {OPEN}"
    if not update.tests:
        return f"The update was chosen beforehand: {WORDS[update.chosen]}."
    return (
        f"A closed testing procedure at level {update.alpha:g} chose between no update, a new intercept, a new "
        "intercept and slope, and a flexible curve."
    )


def _fairness(subgroups: MetricTable[Any] | None) -> str:
    if subgroups is None:
        return f"Performance in subgroups: {OPEN}"
    columns = ", ".join(dict.fromkeys(str(each.by) for each in subgroups))
    return f"Performance was estimated in subgroups ({columns}). Why these, and how they were defined: {OPEN}"


def _participants(validation: Validation) -> str:
    without = validation.participants - validation.events
    return (
        f"{plural(validation.participants, 'participant')} were analyzed: {validation.events:,} with and {without:,} "
        f"without the outcome; {validation.missing:,} without a known outcome were left out. Flow and follow-up: {OPEN}"
    )


def _performance(validation: Validation, subgroups: MetricTable[Any] | None) -> str:
    found = []
    for key, (title, _) in MEASURES.items():
        estimate = getattr(validation, key)
        ends = interval_text(estimate.low, estimate.high)
        found.append(f"{title} {number(estimate.value)}" + ("" if ends == "-" else f" ({ends})"))
    text = "; ".join(found) + "."
    for each in subgroups or ():
        part: Validation = each.result
        text += (
            f" {each.by} = {each.segment}: n = {part.participants:,}, {plural(part.events, 'event')}, O:E "
            f"{number(part.observed_over_expected.value)} "
            f"({interval_text(part.observed_over_expected.low, part.observed_over_expected.high)}), slope "
            f"{number(part.slope.value)} ({interval_text(part.slope.low, part.slope.high)})."
        )
    return text


def _across(clusters: ClusterValidation | None) -> str:
    if clusters is None:
        return f"Heterogeneity across clusters: {OPEN}"
    found = []
    for key, pooled in clusters.pooled.items():
        found.append(
            f"{MEASURES[key][0]} {number(pooled.value)} ({interval_text(pooled.low, pooled.high)}; 95 % prediction "
            f"interval {interval_text(pooled.prediction_low, pooled.prediction_high)})"
        )
    return f"Over {plural(len(clusters.clusters), 'cluster')}: {'; '.join(found)}."


def _updated(update: ModelUpdate | None) -> str:
    if update is None:
        return f"Results of updating: {OPEN}"
    return f"Chosen: {WORDS[update.chosen]}; {update.formula}."
