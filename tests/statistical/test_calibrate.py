"""What the automatic choice costs where nothing is wrong, what it gains elsewhere, and whether it is honest."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from scipy import stats

from calibrant import AutoCalibrator, CalibrantWarning, InputError, calibrate
from calibrant.guarantees.bounds import clopper_pearson
from calibrant.guarantees.issuing import Bins
from calibrant.guarantees.planning import TooFewLabels
from calibrant.maps import Map
from calibrant.numerics import expit
from calibrant.selection.guarantee import Guarantee, look_share
from calibrant.selection.guarantee import _bins as bins_of
from calibrant.tallies import Tally

pytestmark = pytest.mark.statistical

LEVEL = 1e-3
WORST = 2e-3
"""Nats that the choice may cost on average where keeping the model would be right."""

CENTRES = {0.3: -0.9, 0.03: -4.2}
"""Mean log-odds, by the base rate that a calibrated model then has; their standard deviation is 1.3."""

TRUTHS = {
    "calibrated": lambda x: expit(x),
    "shifted": lambda x: expit(x + 0.7),
    "sigmoid": lambda x: expit(0.6 * x - 0.5),
    "beta": lambda x: expit(1.3 * np.log(expit(x)) - 0.4 * np.log(expit(-x)) + 0.3),
}


def draw(truth, base: float, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([29, n, seed])
    x = rng.normal(CENTRES[base], 1.3, n)
    return expit(x), rng.random(n) < truth(x)


def excess(fitted: Map, truth, base: float) -> float:
    """Log loss on new rows, their labels averaged over, above that of keeping the model."""
    x = stats.norm.ppf((np.arange(2000) + 0.5) / 2000, CENTRES[base], 1.3)
    p, kept, rate = fitted.apply(expit(x)), expit(x), truth(x)
    change = rate * (np.log(kept) - np.log(p)) + (1 - rate) * (np.log1p(-kept) - np.log1p(-p))
    return float(change.mean())


@cache
def chosen(name: str, base: float, n: int, samples: int) -> list[AutoCalibrator]:
    """Fits to samples of one truth, which several tests look at."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # three events are expected at the least, and none may come
        return [
            AutoCalibrator().fit(*draw(TRUTHS[name], base, n, seed), score_type="probability")
            for seed in range(samples)
        ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "base"),
    [(100, 0.3), (100, 0.03), (1000, 0.3)]
    + [pytest.param(*world, marks=pytest.mark.full) for world in ((300, 0.3), (300, 0.03), (1000, 0.03))],
)
def test_a_calibrated_model_loses_less_than_two_thousandths_on_average(base, n, full_size):
    truth = TRUTHS["calibrated"]
    cost = np.array([excess(cal.map_, truth, base) for cal in chosen("calibrated", base, n, 400 if full_size else 15)])
    assert cost.mean() - stats.norm.isf(LEVEL) * cost.std() / np.sqrt(len(cost)) < WORST


@pytest.mark.slow
def test_a_calibrated_model_is_mostly_kept(full_size):
    found = chosen("calibrated", 0.3, 1000, 400 if full_size else 15)
    kept = sum(cal.choice_ == "identity" for cal in found)
    assert stats.binomtest(kept, len(found), 0.8, alternative="less").pvalue > LEVEL


@pytest.mark.slow
@pytest.mark.parametrize("base", [0.3, pytest.param(0.03, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", ["shifted", "sigmoid", "beta"])
def test_most_of_what_is_wrong_is_mended_at_a_thousand_rows(name, base, full_size):
    """At least half of what the best map of all would gain."""
    truth = TRUTHS[name]
    gain = np.array([-excess(cal.map_, truth, base) for cal in chosen(name, base, 1000, 300 if full_size else 10)])
    x = stats.norm.ppf((np.arange(2000) + 0.5) / 2000, CENTRES[base], 1.3)
    rate, kept = truth(x), expit(x)
    possible = float((rate * np.log(rate / kept) + (1 - rate) * np.log((1 - rate) / (1 - kept))).mean())
    assert gain.mean() + stats.norm.isf(LEVEL) * gain.std() / np.sqrt(len(gain)) > 0.5 * possible


@pytest.mark.slow
def test_on_pure_noise_the_nested_loss_promises_nothing(full_size):
    """Calibrated scores: the loss by which a candidate was chosen flatters it, the nested loss does not."""
    found = chosen("calibrated", 0.3, 150, 500 if full_size else 25)
    nested = np.array([cal.change_.value for cal in found])
    lines = [next(line for line in cal.comparison_.lines if line.chosen) for cal in found]
    flattering = np.array([0.0 if line.name == "identity" else line.change for line in lines])
    assert flattering.mean() < 0.0
    assert nested.mean() > flattering.mean()
    assert nested.mean() > -stats.norm.isf(LEVEL) * nested.std() / np.sqrt(len(nested))
    better = sum(cal.change_.high < 0.0 for cal in found)
    assert stats.binomtest(better, len(found), 0.05, alternative="greater").pvalue > LEVEL


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shifted", "sigmoid"])
def test_the_number_after_is_what_new_rows_show(name, full_size):
    """The nested loss is that of the procedure on four fifths of the rows, so a little above that of the map itself."""
    truth = TRUTHS[name]
    x = stats.norm.ppf((np.arange(2000) + 0.5) / 2000, CENTRES[0.3], 1.3)
    off = []
    for cal in chosen(name, 0.3, 1000, 300 if full_size else 10):
        p, rate = cal.map_.apply(expit(x)), truth(x)
        off.append(cal.after_.value + float((rate * np.log(p) + (1 - rate) * np.log1p(-p)).mean()))
    off = np.array(off)
    assert abs(off.mean() - 5e-4) < stats.norm.isf(LEVEL / 2) * off.std() / np.sqrt(len(off)) + 1e-3


@pytest.mark.slow
def test_a_guarantee_holds_as_often_as_it_says(full_size):
    """Also among samples where it was not refused, and refusals are rare once labels suffice."""
    truth, epsilon, alpha, samples = TRUTHS["sigmoid"], 0.1, 0.2, 500 if full_size else 25
    broken, refused = 0, 0
    probes = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000, CENTRES[0.3], 1.3)
    for seed in range(samples):
        try:
            cal = calibrate(*draw(truth, 0.3, 1500, seed), guarantee=(epsilon, alpha), score_type="probability")
        except InputError:
            refused += 1
            continue
        answer = cal.certificate()
        place = np.searchsorted(answer.about.knots, expit(probes), side="right")
        mass = np.bincount(place, minlength=len(answer.rows))
        rates = np.bincount(place, truth(probes), len(answer.rows)) / np.maximum(mass, 1)
        broken += bool((((rates < answer.lower) | (rates > answer.upper)) & (mass > 0) & answer.covered).any())
    assert stats.binomtest(broken, samples, alpha, alternative="greater").pvalue > LEVEL
    assert stats.binomtest(refused, samples, 0.1, alternative="greater").pvalue > LEVEL


WORLDS = {
    "continuous": (lambda rng, n: rng.beta(2, 5, n), lambda s: s**1.5),
    "ties": (lambda rng, n: rng.choice([0.1, 0.3, 0.5, 0.9], n, p=[0.05, 0.5, 0.4, 0.05]), lambda s: s),
    "an atom": (lambda rng, n: np.where(rng.random(n) < 0.9, 0.02, rng.random(n)), lambda s: s),
    "rare events": (lambda rng, n: rng.beta(1, 80, n), lambda s: s),
    "far off": (lambda rng, n: rng.beta(1, 9, n), lambda s: 1 - s),
    "float32": (lambda rng, n: rng.random(n).astype(np.float32).round(3), lambda s: s),
    "constant": (lambda rng, n: np.full(n, 0.3), lambda s: 0 * s + 0.965),
}
"""Scores, and their true rates."""


def true_rates(name: str, knots: np.ndarray) -> np.ndarray:
    """The true rate of each bin, from a large sample of scores; NaN where none falls."""
    scores, sums = _many(name)
    cuts = np.r_[0, np.searchsorted(scores, knots, side="left"), len(scores)]
    with np.errstate(invalid="ignore"):
        return np.diff(sums[cuts]) / np.diff(cuts)


@cache
def _many(name: str) -> tuple[np.ndarray, np.ndarray]:
    draw, truth = WORLDS[name]
    scores = np.sort(draw(np.random.default_rng(5), 400_000)).astype(float)
    return scores, np.r_[0.0, np.cumsum(truth(scores))]


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
@pytest.mark.parametrize("n", [40, pytest.param(300, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", WORLDS)
def test_the_bins_of_every_number_hold_together(name, n, full_size):
    """So any of them may be chosen on these rows, by any rule, and so may epsilon."""
    samples, guarantee, broken = 4_000 if full_size else 200, Guarantee(0.5, 0.2), 0
    draw, truth = WORLDS[name]
    for seed in range(samples):
        rng = np.random.default_rng([31, n, seed])
        scores = draw(rng, n)
        tally = Tally.from_arrays(scores, rng.random(n) < truth(scores), score_type="probability")
        broken += any(fails(name, made, guarantee.alpha) for made in all_bins(tally, guarantee))
    assert stats.binomtest(broken, samples, look_share(1) * guarantee.alpha, alternative="greater").pvalue > LEVEL


def all_bins(tally: Tally, guarantee: Guarantee) -> list[Bins]:
    return [bins_of(count, guarantee, tally) for count in guarantee.tried(int(tally.total))]


def fails(name: str, bins: Bins, alpha: float) -> bool:
    """Whether the true rate of a covered bin is outside its interval."""
    known = bins.n > 0
    if not known.any():
        return False
    low, high = clopper_pearson(bins.events[known], bins.n[known], alpha * bins.share / known.sum())
    rates = true_rates(name, bins.knots)[known]
    return bool(((rates < low - 1e-9) | (rates > high + 1e-9)).any())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
@pytest.mark.parametrize("name", WORLDS)
def test_an_epsilon_that_a_refusal_named_is_guaranteed(name, full_size):
    """Asked for with the same rows, through the public door."""
    samples, alpha, broken, n = 2_000 if full_size else 12, 0.2, 0, 150
    draw, truth = WORLDS[name]
    for seed in range(samples):
        rng = np.random.default_rng([32, seed])
        scores = draw(rng, n)
        y = rng.random(n) < truth(scores)
        if y.all() or not y.any():
            continue
        with pytest.raises(TooFewLabels) as refused:
            calibrate(scores, y, guarantee=(1e-4, alpha), score_type="probability", cv=2)
        answer = calibrate(scores, y, guarantee=refused.value.wider.value, score_type="probability", cv=2).certificate()
        off = np.abs(true_rates(name, answer.about.knots) - answer.outputs)[answer.covered]
        broken += bool((off > answer.epsilon + 1e-9).any())
    assert stats.binomtest(broken, samples, alpha, alternative="greater").pvalue > LEVEL


@pytest.mark.filterwarnings("ignore:y has only one class")
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full)])
@pytest.mark.parametrize(
    ("n", "rate", "guarantee"),
    [(200, 0.976, (0.08, 0.1)), (400, 0.989, (0.05, 0.1)), (1_000, 0.004, (0.02, 0.1)), (400, 0.041, (0.07, 0.05))],
)
def test_a_guarantee_holds_for_tied_scores_and_every_seed(n, rate, guarantee, seed):
    """Exact: all numbers of events of a constant score, each with its probability, not an average over seeds."""
    scores, false = np.full(n, 0.5), 0.0
    for k in range(n + 1):
        weight = stats.binom.pmf(k, n, rate)
        if weight < 1e-4:
            false += weight
            continue
        try:
            cal = calibrate(scores, np.arange(n) < k, guarantee=guarantee, random_state=seed, score_type="probability")
        except InputError:
            continue
        answer = cal.certificate()
        false += weight * bool((np.abs(rate - answer.outputs) > answer.epsilon)[answer.covered].any())
    assert false <= guarantee[1]


@pytest.mark.filterwarnings("ignore:y has only one class")
@pytest.mark.slow
def test_a_guarantee_holds_for_two_tied_scores_and_every_seed(full_size):
    """Exact over both numbers of events; the rows of each score are fixed, which is one of the cases conditioned on."""
    sizes, rates, guarantee = (40, 25) if full_size else (20, 14), (0.93, 0.04), (0.25, 0.2)
    scores = np.repeat([0.2, 0.7], sizes)
    for seed in range(2):
        false = 0.0
        for low, high in np.ndindex(sizes[0] + 1, sizes[1] + 1):
            weight = stats.binom.pmf(low, sizes[0], rates[0]) * stats.binom.pmf(high, sizes[1], rates[1])
            if weight < 1e-4:
                false += weight
                continue
            y = np.r_[np.arange(sizes[0]) < low, np.arange(sizes[1]) < high]
            try:
                answer = calibrate(
                    scores, y, guarantee=guarantee, random_state=seed, score_type="probability"
                ).certificate()
            except InputError:
                continue
            place = np.searchsorted(answer.about.knots, [0.2, 0.7], side="right")
            shares, mass = np.bincount(place, np.multiply(sizes, rates)), np.bincount(place, sizes)
            bins = np.flatnonzero(mass)
            true = shares[bins] / mass[bins]
            off = (true < answer.lower[bins]) | (true > answer.upper[bins])
            false += weight * bool(off.any())
        assert false <= guarantee[1]


@pytest.mark.filterwarnings("ignore:y has only one class")
def test_asking_again_as_advised_is_covered(full_size):
    """The protocol of a refusal, followed to the end: look k has 2^(k-1) times the rows, whatever the labels were."""
    epsilon, alpha, samples = 0.11, 0.1, 4_000 if full_size else 40
    false = 0
    for seed in range(samples):
        rng = np.random.default_rng(seed)
        rate, n = (0.5, 0.08, 0.93, 0.02)[seed % 4], 20
        labels = rng.random(n * 2**7) < rate
        for look in range(1, 8):
            try:
                y = labels[: n * 2 ** (look - 1)]
                answer = calibrate(
                    np.full(len(y), 0.5), y, guarantee=(epsilon, alpha), look=look, score_type="probability"
                ).certificate()
            except InputError:
                continue
            false += bool((np.abs(rate - answer.outputs) > answer.epsilon)[answer.covered].any())
            break
    assert stats.binomtest(false, samples, alpha, alternative="greater").pvalue > LEVEL


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "base", "n"),
    [("sigmoid", 0.3, 60), ("shifted", 0.03, 400)]
    + [pytest.param(*world, marks=pytest.mark.full) for world in (("shifted", 0.3, 200), ("calibrated", 0.03, 400))],
)
def test_the_interval_of_the_change_holds_the_change_of_the_map_in_use(name, base, n, full_size):
    """From ten rows of the minority class on; below there is none."""
    truth = TRUTHS[name]
    found = [cal for cal in chosen(name, base, n, 400 if full_size else 24) if cal.change_.low is not None]
    held = sum(cal.change_.low - 1e-9 <= excess(cal.map_, truth, base) <= cal.change_.high + 1e-9 for cal in found)
    assert len(found) > 10
    assert stats.binomtest(held, len(found), 0.95, alternative="less").pvalue > LEVEL


def test_too_few_events_give_a_change_without_an_interval():
    found = chosen("shifted", 0.03, 100, 12)
    few = [cal for cal in found if cal.provenance_.events < 10]
    assert 0 < len(few) < len(found)
    assert [cal.change_.low is None for cal in found] == [cal in few for cal in found]
    cal = next(cal for cal in few if cal.change_.value != 0.0)
    assert "no confidence interval: fewer than 10 minority-class rows" in str(cal)
