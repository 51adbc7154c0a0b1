"""From evidence to certificate: which rows may carry one, and what it then says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.arrays import InputError
from calibrant.guarantees.bounds import BOUNDS
from calibrant.guarantees.certificates import Certificate, Flags, Mode, Refusal
from calibrant.guarantees.provenance import Provenance
from calibrant.numerics import Floats, Ints

INDEPENDENT_ROWS = "the rows are independent draws from the population that the map will serve"


@dataclass(frozen=True, eq=False)
class Bins:
    """The evidence behind a binned map: for each bin its output and the rows that speak for it.

    Bin j holds ``knots[j-1] <= score < knots[j]``. Where ``edge_open[j]`` is set, the evidence is about the scores
    strictly above the bin's lower knot, which is itself a calibration score (002 Algorithm 4.1).
    """

    knots: Floats
    outputs: Floats
    n: Ints
    events: Ints
    edge_open: Flags
    rule: str
    source: str
    assumption: str = ""


def gate(provenance: Provenance) -> Refusal | None:
    """The reason, if any, why rows like these can carry no certificate."""
    if provenance.weights == "importance":
        return Refusal(
            "the rows carry importance weights, and the theorems count rows; "
            'if the weights are repetition counts, fit with weights="counts"'
        )
    reasons = {
        "grouped": "groups= says that rows depend on each other, and the theorems need independent rows",
        "time-ordered": "time= says that rows are ordered in time, and the theorems need independent rows",
        "out-of-fold": "the scores are out-of-fold: they come from several models, none of which is the one in use",
        "selected": "the map was chosen among several on the same rows, which the theorems do not cover",
    }
    reason = reasons.get(provenance.sampling)
    return None if reason is None else Refusal(reason)


def issue(
    bins: Bins, provenance: Provenance, alpha: float = 0.1, bound: str = "clopper-pearson", mode: Mode = "simultaneous"
) -> Certificate | Refusal:
    """The certificate of binned evidence, or the reason why there is none."""
    if not 0.0 < alpha < 1.0:
        raise InputError(f"alpha must lie strictly between 0 and 1, got {alpha}")
    if bound not in BOUNDS:
        raise InputError(f"bound must be one of {', '.join(map(repr, BOUNDS))}, got {bound!r}")
    if mode not in ("simultaneous", "marginal"):
        raise InputError(f"mode must be 'simultaneous' or 'marginal', got {mode!r}")
    refusal = gate(provenance)
    if refusal is not None:
        return refusal
    promised = bins.n > 0
    if not promised.any():
        return Refusal("no bin holds a row besides those on the edges: use fewer bins or more rows")
    share = alpha / int(promised.sum()) if mode == "simultaneous" else alpha
    lower, upper = BOUNDS[bound].interval(bins.events, bins.n, share)
    widths = np.maximum(bins.outputs - lower, upper - bins.outputs)
    return Certificate(
        epsilon=float(widths[promised].max()),
        alpha=alpha,
        mode=mode,
        bound=bound,
        kind=provenance.kind,
        n=int(bins.n.sum()),
        knots=bins.knots,
        outputs=bins.outputs,
        lower=lower,
        upper=upper,
        rows=bins.n,
        events=bins.events,
        edge_open=bins.edge_open,
        rule=bins.rule,
        assumptions=(INDEPENDENT_ROWS, bins.assumption) if bins.assumption else (INDEPENDENT_ROWS,),
        source=bins.source,
    )
