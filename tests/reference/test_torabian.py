"""Numbers and theorems of Torabian 2023 on finite distributions, in exact fractions, and of Gupta 2023 on sharpness.

A population is a list of domain points, each with its probability, its true chance of an event and its score. Fractions
decide every inequality; where our metrics take populations, as rows of fractional weight, they must agree.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from calibrant.messages import CalibrantWarning
from calibrant.metrics.binary.decompositions import decompose
from calibrant.metrics.binary.scores import brier, classification_loss, refinement, sharpness
from calibrant.metrics.simulation import kendall_tau, probabilistic_count, theoretical_error
from calibrant.tallies import Tally

HALF = Fraction(1, 2)


@dataclass(frozen=True)
class World:
    """Points with probability ``chance``, regression function ``eta`` and score ``f``."""

    chance: tuple[Fraction, ...]
    eta: tuple[Fraction, ...]
    f: tuple[Fraction, ...]

    def mean(self, values: list[Fraction]) -> Fraction:
        return sum((p * value for p, value in zip(self.chance, values, strict=True)), Fraction(0))

    def averages(self) -> tuple[Fraction, ...]:
        """At each point, the rate of events among points of the same score."""
        mass: dict[Fraction, Fraction] = defaultdict(Fraction)
        events: dict[Fraction, Fraction] = defaultdict(Fraction)
        for p, eta, f in zip(self.chance, self.eta, self.f, strict=True):
            mass[f] += p
            events[f] += p * eta
        return tuple(events[f] / mass[f] for f in self.f)

    def scored(self, f: tuple[Fraction, ...]) -> World:
        return World(self.chance, self.eta, f)

    def joined(self, first: Fraction, second: Fraction, score: Fraction) -> World:
        """Two scores replaced by one."""
        return self.scored(tuple(score if f in (first, second) else f for f in self.f))

    def mass(self, score: Fraction) -> Fraction:
        return self.mean([Fraction(f == score) for f in self.f])

    def calibration_power(self, p: int) -> Fraction:
        """CE_p to the power p, which orders predictors as CE_p does and is a fraction."""
        return self.mean([abs(f - rate) ** p for f, rate in zip(self.f, self.averages(), strict=True)])

    def zero_one(self) -> Fraction:
        return self.mean([1 - eta if f >= HALF else eta for f, eta in zip(self.f, self.eta, strict=True)])

    def best_zero_one(self) -> Fraction:
        return self.mean([min(eta, 1 - eta) for eta in self.eta])

    def squared(self) -> Fraction:
        return self.mean([eta * (1 - f) ** 2 + (1 - eta) * f**2 for f, eta in zip(self.f, self.eta, strict=True)])

    def count(self) -> float:
        return probabilistic_count([float(f) for f in self.f], [float(p) for p in self.chance]).value

    def exact_count(self) -> Fraction:
        return 1 / sum(self.mass(score) ** 2 for score in set(self.f))

    def tau(self) -> float:
        columns = [[float(value) for value in column] for column in (self.f, self.eta, self.chance)]
        return kendall_tau(*columns).value

    def close(self, epsilon: Fraction) -> list[bool]:
        return [abs(f - eta) <= epsilon for f, eta in zip(self.f, self.eta, strict=True)]

    def tally(self) -> Tally:
        """The population as rows: each point once as event and once not, weighted by how likely it is so."""
        weights = [float(p * eta) for p, eta in zip(self.chance, self.eta, strict=True)]
        weights += [float(p * (1 - eta)) for p, eta in zip(self.chance, self.eta, strict=True)]
        labels = [1] * len(self.f) + [0] * len(self.f)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)
            return Tally.from_arrays([float(f) for f in self.f] * 2, labels, weights)


tenths = st.integers(0, 10).map(lambda k: Fraction(k, 10))
points = st.lists(st.tuples(st.integers(1, 9), tenths, tenths), min_size=1, max_size=8)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    data = draw(points)
    total = sum(row[0] for row in data)
    return World(tuple(Fraction(row[0], total) for row in data), *zip(*[row[1:] for row in data], strict=True))


@st.composite
def small_worlds(draw: st.DrawFn) -> World:
    """Few points, so that all predictors can be listed; 1/2 is a frequent value of the regression function."""
    eta = draw(st.lists(st.sampled_from([1, 3, 5, 5, 6, 9]), min_size=1, max_size=5))
    weight = draw(st.lists(st.integers(1, 5), min_size=len(eta), max_size=len(eta)))
    true = tuple(Fraction(k, 10) for k in eta)
    return World(tuple(Fraction(w, sum(weight)) for w in weight), true, true)


# ----------------------------------------------------------------------------------------------------------------------
# Printed numbers
# ----------------------------------------------------------------------------------------------------------------------


def test_probabilistic_counts_of_figures_22_to_26(subtests: pytest.Subtests) -> None:
    for weights, count in [
        ([Fraction(1, 7)] * 7, Fraction(7)),  # Figure 2.2
        ([Fraction(1, 4)] * 2 + [HALF], Fraction(8, 3)),  # Figure 2.4, printed 2.66
        ([Fraction(1, 3)] * 2 + [Fraction(1, 30)] * 10, Fraction(30, 7)),  # Figure 2.5, printed 4.28
        ([Fraction(1, 3)] + [Fraction(1, 30)] * 20, Fraction(15, 2)),  # Figure 2.6
    ]:
        with subtests.test(weights=weights, count=count):
            found = probabilistic_count(range(len(weights)), [float(weight) for weight in weights])
            assert found.value == pytest.approx(float(count), rel=1e-14)


def test_figure_23_has_a_count_of_40994_and_its_printed_weights_sum_to_105() -> None:
    """One of four cells is cut into 19/80 and five cells that share the last 1/80; 1/80 is printed for each."""
    large = [Fraction(1, 4)] * 3 + [Fraction(19, 80)]
    printed, cut = large + [Fraction(1, 80)] * 5, large + [Fraction(1, 400)] * 5
    assert (sum(printed), sum(cut)) == (Fraction(105, 100), 1)
    assert float(1 / sum(weight**2 for weight in printed)) == pytest.approx(4.0868, abs=5e-5)  # printed 4.08
    count = 1 / sum(weight**2 for weight in cut)
    assert float(count) == pytest.approx(4.0994, abs=5e-5)
    found = probabilistic_count(range(9), [float(weight) for weight in cut])
    assert found.value == pytest.approx(float(count), rel=1e-14)
    assert found.value < 5  # so 9 cells count for less than 5 equal ones, as section 2.3.1 concludes


@pytest.mark.parametrize(
    ("eta", "before", "after"),
    [((1, 1, 1, 10), Fraction(5, 7), Fraction(1, 7)), ((1, 3, 3, 10), Fraction(1, 7), Fraction(5, 7))],
)
def test_observation_14_averaging_may_weaken_or_improve_kendalls_tau(
    eta: tuple[int, ...], before: Fraction, after: Fraction
) -> None:
    """Two regions of four points; those of the second have eta 0.2."""
    true = tuple(Fraction(k, 10) for k in (*eta, 2, 2, 2, 2))
    world = World((Fraction(1, 8),) * 8, true, (Fraction(3, 10),) * 4 + (Fraction(7, 10),) * 4)
    assert world.tau() == pytest.approx(float(before), abs=1e-15)
    assert world.scored(world.averages()).tau() == pytest.approx(float(after), abs=1e-15)


@pytest.mark.parametrize(("labels", "before"), [([0, 1], 0.0), ([1, 0], 1.0)])
def test_observation_11_joining_scores_0_and_1_moves_the_squared_error_either_way(
    labels: list[int], before: float
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # scores that equal the labels
        assert brier([0.0, 1.0], labels).value == before
    assert brier([0.5, 0.5], labels).value == 0.25


def test_a_fair_coin_that_says_so_has_rmse_and_classification_loss_of_one_half() -> None:
    """003 sections 3.2.1 and 3.2.2: both are high for the best model there is."""
    world = World((Fraction(1),), (HALF,), (HALF,))
    assert brier(world.tally()).value ** 0.5 == 0.5
    assert classification_loss(world.tally()).value == 0.5


# ----------------------------------------------------------------------------------------------------------------------
# Theorems
# ----------------------------------------------------------------------------------------------------------------------


@given(worlds())
def test_our_metrics_take_a_population_as_weighted_rows(world: World) -> None:
    tally = world.tally()
    assert brier(tally).value == pytest.approx(float(world.squared()), abs=1e-12)
    assert classification_loss(tally).value == pytest.approx(float(world.zero_one()), abs=1e-12)
    parts = decompose(tally, method="bins", strategy="distinct")
    assert parts.miscalibration == pytest.approx(float(world.calibration_power(2)), abs=1e-12)
    columns = [[float(value) for value in column] for column in (world.f, world.eta, world.chance)]
    gaps = world.mean([abs(f - eta) for f, eta in zip(world.f, world.eta, strict=True)])
    assert theoretical_error(*columns).value == pytest.approx(float(gaps), abs=1e-12)
    assert world.count() == pytest.approx(float(world.exact_count()))
    assert probabilistic_count(tally).value == pytest.approx(float(world.exact_count()))


@given(worlds())
def test_theorem_7_the_count_is_at_most_the_number_of_scores(world: World) -> None:
    size = len(set(world.f))
    equal = len({world.mass(score) for score in set(world.f)}) == 1
    assert world.count() <= size + 1e-12
    assert (world.exact_count() == size) == equal
    assert equal == (world.count() == pytest.approx(size, abs=1e-9))


@given(worlds(), tenths, st.randoms(use_true_random=False))
def test_theorem_8_joining_two_scores_never_raises_the_count(world: World, score: Fraction, random: Any) -> None:
    first, second = random.choice(world.f), random.choice(world.f)
    assert world.joined(first, second, score).count() <= world.count() + 1e-12


@given(worlds(), st.randoms(use_true_random=False), st.integers(1, 4))
def test_theorem_9_joining_at_the_mean_score_never_raises_the_calibration_error(
    world: World, random: Any, p: int
) -> None:
    first, second = random.choice(world.f), random.choice(world.f)
    mean = (first * world.mass(first) + second * world.mass(second)) / (world.mass(first) + world.mass(second))
    assert world.joined(first, second, mean).calibration_power(p) <= world.calibration_power(p)


@given(worlds(), st.integers(1, 4))
def test_theorem_13_averaging_labels_by_score_improves_all_but_the_order(world: World, p: int) -> None:
    better = world.scored(world.averages())
    assert better.calibration_power(p) == 0
    assert better.squared() <= world.squared()
    assert better.zero_one() <= world.zero_one()
    assert better.exact_count() <= world.exact_count()
    # by our metrics: the recalibrated loss is the loss less the miscalibration
    parts = decompose(world.tally(), method="bins", strategy="distinct")
    assert parts.loss - parts.miscalibration == pytest.approx(float(better.squared()), abs=1e-12)


# ----------------------------------------------------------------------------------------------------------------------
# Strict properties (section 2.2.1), on populations with finitely many points
# ----------------------------------------------------------------------------------------------------------------------


def partitions(points: list[int]) -> Iterator[list[list[int]]]:
    """All ways to put points into cells."""
    if not points:
        yield []
        return
    first, *others = points
    for cells in partitions(others):
        for k in range(len(cells)):
            yield [*cells[:k], [first, *cells[k]], *cells[k + 1 :]]
        yield [[first], *cells]


def calibrated_predictors(world: World) -> Iterator[World]:
    """Every calibrated predictor: each partition of the points, with the rate of its cell as the score."""
    for cells in partitions(list(range(len(world.f)))):
        label = {point: Fraction(k) for k, cell in enumerate(cells) for point in cell}
        rates = world.scored(tuple(label[point] for point in range(len(world.f)))).averages()
        yield world.scored(rates)


def least_loss(world: World) -> Fraction:
    """Classification loss at the best of all thresholds, also those above every score."""
    thresholds = [*set(world.f), max(world.f) + 1]
    wrong = [
        [1 - eta if f >= threshold else eta for f, eta in zip(world.f, world.eta, strict=True)]
        for threshold in thresholds
    ]
    return min(world.mean(each) for each in wrong)


def strictly_monotone(world: World) -> bool:
    pairs = product(zip(world.f, world.eta, strict=True), repeat=2)
    return all((eta > other) <= (f > score) for (f, eta), (score, other) in pairs)


def test_observation_1_calibration_and_accuracy_are_independent() -> None:
    halves = (HALF, HALF)
    constant = World(halves, (Fraction(0), Fraction(1)), halves)
    assert constant.calibration_power(1) == 0
    assert least_loss(constant) == HALF
    near = constant.scored((HALF - Fraction(1, 100), HALF + Fraction(1, 100)))
    assert least_loss(near) == 0 == near.zero_one()
    assert near.calibration_power(1) == Fraction(49, 100)


@given(small_worlds())
def test_theorem_2_corrected_when_the_truth_alone_is_calibrated_and_optimal(world: World) -> None:
    """Exactly if at most one value of eta lies in [0, 1/2] and at most one in [1/2, 1]; printed is [0, 1/2)."""
    other = any(
        each.f != each.eta and least_loss(each) == each.best_zero_one() for each in calibrated_predictors(world)
    )
    values = set(world.eta)
    assert other == (len([v for v in values if v <= HALF]) >= 2 or len([v for v in values if v >= HALF]) >= 2)


def test_theorem_2_as_printed_fails_where_both_labels_are_best() -> None:
    """eta is 3/10 or 1/2: one value on each side of [0, 1/2) and [1/2, 1], but the constant 2/5 is optimal too."""
    world = World((HALF, HALF), (Fraction(3, 10), HALF), (Fraction(2, 5), Fraction(2, 5)))
    assert [sum(v < HALF for v in world.eta), sum(v >= HALF for v in world.eta)] == [1, 1]
    assert world.calibration_power(1) == 0
    assert world.zero_one() == least_loss(world) == world.best_zero_one() == Fraction(2, 5)
    assert world.f != world.eta


def test_corollary_3_and_6_no_two_of_the_properties_give_the_truth() -> None:
    """Calibrated and optimal; calibrated alone; strictly monotone alone: none is the regression function."""
    eta = (Fraction(1, 10), Fraction(3, 10), Fraction(9, 10))
    thirds = (Fraction(1, 3),) * 3
    merged = World(thirds, eta, (Fraction(1, 5), Fraction(1, 5), Fraction(9, 10)))
    assert merged.calibration_power(2) == 0
    assert merged.zero_one() == merged.best_zero_one()
    assert merged.f != merged.eta
    rising = merged.scored(tuple(value / 2 for value in eta))
    assert strictly_monotone(rising)
    assert rising.calibration_power(1) > 0


@given(worlds())
def test_observation_4_strictly_monotone_scores_classify_as_the_truth_does(world: World) -> None:
    """Half of eta keeps the order, and points of equal eta may get different scores; true for finitely many points."""
    moved = tuple(eta / 2 + Fraction(k, 1000) for k, eta in enumerate(world.eta))
    monotone = world.scored(moved)
    assert strictly_monotone(monotone)
    assert least_loss(monotone) == world.best_zero_one()
    if strictly_monotone(world):
        assert least_loss(world) == world.best_zero_one()


def test_observation_4_needs_a_gap_between_the_classes() -> None:
    """A point of eta 2/5 scored 1/2, and eta uniform on (1/2, 1] scored as it is: strictly monotone, inf = sup = 1/2.

    The threshold 1/2 takes the point into class 1, and a threshold of 1/2 + t loses the rows between. So the least loss
    is approached and not attained. Here with half of the mass each; the excess is 1/10 at 1/2, and above it half of the
    integral of 2 eta - 1 from 1/2 to 1/2 + t over a width of 1/2.
    """
    at_half = HALF * (Fraction(3, 5) - Fraction(2, 5))
    assert at_half == Fraction(1, 10)
    excess = [HALF * t * t / HALF for t in (Fraction(1, 10), Fraction(1, 100), Fraction(1, 1000))]
    assert all(each > 0 for each in excess)
    assert excess[-1] < Fraction(1, 100_000)


@given(small_worlds())
def test_theorem_5_calibrated_and_strictly_monotone_is_the_truth(world: World) -> None:
    for each in calibrated_predictors(world):
        assert strictly_monotone(each) == (each.f == each.eta)
    truth = world.scored(world.eta)
    assert strictly_monotone(truth)
    assert truth.calibration_power(1) == 0


@pytest.mark.parametrize(
    ("eta", "before", "after"),
    [((1, 2, 3, 4), 1, Fraction(1, 3)), ((2, 1, 4, 3), Fraction(1, 3), 1), ((2, 2, 2, 2), 1, 1)],
)
def test_observation_12_joining_scores_may_weaken_improve_or_keep_kendalls_tau(
    eta: tuple[int, ...], before: Fraction, after: Fraction
) -> None:
    """Four points in the order of their scores r1 < a < b < r2; r1 and r2 are joined at their mean, between a and b."""
    scores = tuple(Fraction(k, 10) for k in (1, 4, 6, 9))
    world = World((Fraction(1, 4),) * 4, tuple(Fraction(k, 10) for k in eta), scores)
    joined = world.joined(scores[0], scores[3], HALF)
    assert world.tau() == pytest.approx(float(before), abs=1e-15)
    assert joined.tau() == pytest.approx(float(after), abs=1e-15)


@given(worlds(), st.integers(0, 5), st.integers(0, 10), st.integers(1, 4))
def test_theorem_16_near_the_truth_the_calibration_error_is_small(world: World, k: int, more: int, p: int) -> None:
    """f lies in [0, 1], so b = 1; delta is the share of points that are not close, or anything above it."""
    epsilon = Fraction(k, 10)
    far = 1 - world.mean([Fraction(near) for near in world.close(epsilon)])
    delta = far + (1 - far) * Fraction(more, 10)
    assert world.calibration_power(p) <= (1 - delta) * epsilon**p + delta


def test_theorem_16_needs_b_of_at_least_1() -> None:
    """With scores in [0, b] and b below 1, a score and the truth can be further apart than b."""
    world = World((Fraction(1),), (Fraction(1),), (Fraction(1, 10),))
    b, epsilon, delta = Fraction(1, 10), HALF, 1
    assert world.calibration_power(1) > (1 - delta) * epsilon + delta * b


@given(worlds(), st.integers(0, 5), st.integers(0, 10))
def test_theorem_18_near_the_truth_classification_is_nearly_the_best(world: World, k: int, more: int) -> None:
    """p_epsilon: how likely eta lies in [1/2 - epsilon, 1/2 + epsilon) where f is within epsilon of it."""
    epsilon = Fraction(k, 10)
    near = world.close(epsilon)
    close = world.mean([Fraction(is_near) for is_near in near])
    assume(close > 0)  # otherwise p_epsilon is not defined
    unsure = [
        Fraction(is_near and HALF - epsilon <= eta < HALF + epsilon)
        for is_near, eta in zip(near, world.eta, strict=True)
    ]
    p_epsilon = world.mean(unsure) / close
    delta = (1 - close) + close * Fraction(more, 10)
    assert world.zero_one() - world.best_zero_one() <= 2 * epsilon * p_epsilon * (1 - delta) + delta


@given(worlds(), st.integers(1, 12))
def test_gupta_lemma_61_refinement_is_the_base_rate_less_sharpness(world: World, n_bins: int) -> None:
    """002 Lemma 6.1, for populations."""
    tally, base = world.tally(), float(world.mean(list(world.eta)))
    sharp = sharpness(tally, n_bins=n_bins).value
    assert refinement(tally, n_bins=n_bins).value == pytest.approx(base - sharp, abs=1e-12)
