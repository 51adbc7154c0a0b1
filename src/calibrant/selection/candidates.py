"""Candidates of the automatic choice, simplest first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from calibrant.arrays import ScoreType
from calibrant.fits.bins import counted, default_bins, equal_masses, scaled_means
from calibrant.fits.isotonic import fit_curve
from calibrant.fits.needs import BLEND_ROWS, CURVE_ROWS, LINE_ROWS, SHRUNKEN_ROWS, STEP_ROWS
from calibrant.fits.penalized import fit_shrunken
from calibrant.fits.scaling import fit_beta, fit_platt, fit_rates, fit_temperature
from calibrant.fits.spline import fit_spline
from calibrant.fits.venn_abers import fit_venn_curve
from calibrant.guarantees.origins import OWN_ROWS, BinRule
from calibrant.maps import LogitAffineMap, Map, StepMap
from calibrant.messages import Note
from calibrant.numerics import Floats
from calibrant.selection.rule import Blend, Candidate
from calibrant.tallies import Tally

SCALED_BINS = 10

PROBABLE: tuple[ScoreType, ...] = ("probability", "logit")


# ----------------------------------------------------------------------------------------------------------------- bins


def fit_bins(tally: Tally, n_bins: int | None = None) -> StepMap:
    """Event rates in about ``n_bins`` bins of equal mass; the default number is that of ``HistogramBinning``."""
    if n_bins is None:
        n_bins = default_bins(tally.effective_size)
    return counted(tally, bin_edges(tally, n_bins), BinRule.TABLE, OWN_ROWS).to_map()


def bin_edges(tally: Tally, n_bins: int) -> Floats:
    """Inner edges of about ``n_bins`` bins of equal mass; cells are not cut."""
    return np.asarray(tally.lower_edges[equal_masses(np.cumsum(tally.n), n_bins)[1:]])


def fit_scaled_bins(tally: Tally, n_bins: int = SCALED_BINS) -> StepMap:
    """Means of the Platt scaling map in bins of equal mass."""
    return scaled_means(fit_platt(tally)[0], tally, n_bins)


# ------------------------------------------------------------------------------------------------------------- the list


def _kept(tally: Tally) -> Map:
    """The original model; log-odds become probabilities, and exact 0 and 1 are read as in all other maps."""
    return LogitAffineMap(1.0, 0.0, "log-odds" if tally.score_type == "probability" else "score", *tally.ends)


def _first(fit: Callable[[Tally], tuple[Map, tuple[Note, ...]]]) -> Callable[[Tally], Map]:
    return lambda tally: fit(tally)[0]


CANDIDATES: dict[str, Candidate] = {
    each.name: each
    for each in (
        Candidate("identity", _kept, kinds=PROBABLE),
        Candidate("shift", partial(fit_shrunken, terms=1), 1, rows=SHRUNKEN_ROWS, kinds=PROBABLE),
        Candidate("shrunken", fit_shrunken, SHRUNKEN_ROWS, kinds=PROBABLE),
        Candidate("temperature", _first(fit_temperature), LINE_ROWS, kinds=PROBABLE),
        Candidate("platt", _first(fit_platt), LINE_ROWS),
        Candidate("beta", _first(fit_beta), LINE_ROWS, kinds=("probability",)),
        Candidate("spline", lambda tally: fit_spline(tally).map, CURVE_ROWS),
        Candidate("isotonic", fit_curve, STEP_ROWS),
        Candidate("venn-abers", fit_venn_curve, STEP_ROWS),
        Candidate("binning", fit_bins, STEP_ROWS),
        Candidate("scaling-binning", fit_scaled_bins, STEP_ROWS),
    )
}
"""Candidates by name, simplest first."""

BLEND = Blend(
    tuple(CANDIDATES[name] for name in ("identity", "shrunken", "spline", "isotonic", "venn-abers")), BLEND_ROWS
)
"""The blend for scores that are probabilities or log-odds."""

RATES = Candidate("rates", _first(fit_rates), 1, rows=SHRUNKEN_ROWS, kinds=("probability",))
"""Replaces the blend where every score is exactly 0 or 1."""

REAL_BLEND = Blend(tuple(CANDIDATES[name] for name in ("platt", "spline", "isotonic", "venn-abers")), BLEND_ROWS)
"""The blend for other scores."""
