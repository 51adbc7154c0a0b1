"""From evidence to certificate: which rows may carry one, and what it then says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np

from calibrant.arrays import InputError
from calibrant.arrays.columns import check_option
from calibrant.guarantees.bounds import BOUNDS
from calibrant.guarantees.certificates import Bound, Certificate, Flags, Mode, Refusal, union_of
from calibrant.guarantees.provenance import ClassProvenance, Provenance, Sampling
from calibrant.maps import StepMap
from calibrant.numerics import Floats, Ints, multiply_odds

ASSUMED = (
    "the rows are independent draws from the population that the map will serve, and new to the model",
    "no argument of the fit was chosen by their labels",
)
"""What every certificate assumes: the best of several numbers of bins, or of several fits, would look as good."""
SAMPLED_BY_CLASS = "which of them were kept depended on their class alone, at the rates that sample_weight states"


@dataclass(frozen=True, eq=False)
class Bins:
    """The evidence behind a binned map: for each bin its output and the rows that speak for it.

    Bin j holds ``knots[j-1] <= score < knots[j]``. Where ``uncovered[j]`` is set the bin is an edge that the rows
    themselves chose and that has too few of them to be promised anything; ``n`` and ``events`` are then 0, and the rows
    on such edges are counted in ``uncovered_rows``.
    """

    knots: Floats
    outputs: Floats
    n: Ints
    events: Ints
    rule: str
    source: str
    uncovered: Flags
    uncovered_rows: int = 0
    fixed: bool = True
    """Whether the bins owe nothing to any row, so that they would be the same after more rows."""
    assumption: str = ""
    share: float = 1.0
    """Share of alpha that the intervals of these bins may spend."""
    look: int = 1
    """How often a certificate was asked for on growing rows, this time included."""
    refusal: str = ""
    """Why the bins carry no certificate, where that does not show in the provenance of their rows."""
    odds: float = 1.0
    """Weight of an event relative to a negative row, where rows were sampled by class; ``outputs`` are as sampled."""

    def restored(self, rates: Floats) -> Floats:
        """Rates of the rows as sampled, moved to the population that the class weights restore."""
        return multiply_odds(rates, self.odds)

    def to_map(self) -> StepMap:
        """The output of each bin for its scores, in the population that the class weights restore."""
        return StepMap(self.knots, self.restored(self.outputs)).merged()


def gate(provenance: Provenance | ClassProvenance) -> Refusal | None:
    """The reason, if any, why rows like these can carry no certificate."""
    if provenance.weights == "importance":
        return Refusal(
            "the rows carry importance weights, and the theorems count rows; "
            'if the weights are repetition counts, fit with weights="counts"; '
            'if rows were sampled by class alone, fit with weights="by-class"'
        )
    if provenance.weights == "by-class" and isinstance(provenance, ClassProvenance):
        return Refusal("rows of several classes were sampled by class, which is undone for two classes only")
    return None if provenance.sampling == "independent" else Refusal(_REASONS[provenance.sampling])


_REASONS: dict[Sampling, str] = {
    "grouped": "groups= says that rows depend on each other, and the theorems need independent rows",
    "time-ordered": "time= says that rows are ordered in time, and the theorems need independent rows",
    "out-of-fold": "the scores are out-of-fold: they come from several models, none of which is the one in use",
    "selected": "the map was chosen among several on the same rows, which the theorems do not cover",
}


def issue(bins: Bins, provenance: Provenance, alpha: float, bound: Bound, mode: Mode) -> Certificate | Refusal:
    """The certificate of binned evidence, or the reason why there is none."""
    if not 0.0 < alpha < 1.0:
        raise InputError(f"alpha must lie strictly between 0 and 1, got {alpha}")
    check_option("bound", bound, get_args(Bound))
    check_option("mode", mode, get_args(Mode))
    refusal = gate(provenance)
    if refusal is not None:
        return refusal
    if bins.refusal:
        return Refusal(bins.refusal)
    promised = bins.n > 0
    if not promised.any():
        return Refusal("no bin holds a row besides those on the edges: use fewer bins or more rows")
    if bound == "always-valid" and not bins.fixed:
        return Refusal(
            "an always-valid promise needs bins that no row has chosen, nor their number, or they would move at "
            'every look: pass n_bins with strategy="width" or with bins_from= another tally, or your own table'
        )
    level = alpha * bins.share / union_of(mode, bound, promised)
    lower, upper = map(bins.restored, BOUNDS[bound](bins.events, bins.n, level))
    outputs = bins.restored(bins.outputs)
    sampled = SAMPLED_BY_CLASS if provenance.weights == "by-class" else ""
    return Certificate(
        epsilon=float(np.maximum(outputs - lower, upper - outputs)[promised].max()),
        alpha=alpha,
        mode=mode,
        bound=bound,
        kind=provenance.kind,
        n=int(bins.n.sum()),
        knots=bins.knots,
        outputs=outputs,
        lower=lower,
        upper=upper,
        rows=bins.n,
        events=bins.events,
        uncovered=bins.uncovered,
        uncovered_rows=bins.uncovered_rows,
        rule=bins.rule,
        assumptions=(*ASSUMED, *(each for each in (sampled, bins.assumption) if each)),
        source=bins.source,
        share=bins.share,
        look=bins.look,
        odds=bins.odds,
    )
