"""The benchmark's simulator is right: exact population quantities against rational arithmetic and against samples."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from benchmarks import worlds
from scipy import stats

pytestmark = pytest.mark.statistical


CLOSED = ("left", "right", "both", "neither")
SMOOTH = [world for world in worlds.WORLDS if isinstance(world, worlds.PolynomialWorld)]
PIECEWISE = [world for world in worlds.WORLDS if isinstance(world, worlds.PiecewiseWorld)]


def special_points(world: Any, rng: np.random.Generator, count: int = 12) -> np.ndarray:
    """Sampled scores, break points, atoms and their float neighbors: the end points where a rule can go wrong."""
    points = [world.sample(rng, count)[0], rng.random(3), [0.0, 0.5, 1.0]]
    if isinstance(world, worlds.PiecewiseWorld):
        for special in (world.breaks, world.atoms):
            chosen = rng.choice(special, min(count, special.size), replace=False) if special.size else special
            points += [chosen, np.nextafter(chosen, -np.inf), np.nextafter(chosen, np.inf)]
    return np.unique(np.concatenate(points))


def inside(scores: np.ndarray, lo: float, hi: float, closed: str) -> np.ndarray:
    """Membership by plain comparison."""
    above = scores >= lo if closed in ("left", "both") else scores > lo
    below = scores <= hi if closed in ("right", "both") else scores < hi
    return above & below


def rational(world: Any, lo: float, hi: float, closed: str) -> tuple[Fraction, Fraction]:
    """Mass and events of one interval of a PiecewiseWorld in exact arithmetic, part by part."""
    mass = events = Fraction(0)
    for k, (density, rate) in enumerate(zip(world.density, world.rates, strict=True)):
        width = min(hi, world.breaks[k + 1]), max(lo, world.breaks[k])
        part = Fraction(density) * max(Fraction(width[0]) - Fraction(width[1]), Fraction(0))
        mass, events = mass + part, events + part * Fraction(rate)
    for atom, weight, rate in zip(world.atoms, world.atom_mass, world.atom_rates, strict=True):
        if inside(atom, lo, hi, closed):
            mass, events = mass + Fraction(weight), events + Fraction(weight) * Fraction(rate)
    return mass, events


@pytest.fixture
def tiny() -> Any:
    """Two pieces and two atoms, one of them on the break, in numbers that can be added by hand."""
    return worlds.PiecewiseWorld(
        name="tiny",
        description="hand-worked",
        breaks=np.array([0.0, 0.5, 1.0]),
        density=np.array([0.5, 0.5]),
        rates=np.array([0.0, 1.0]),
        atoms=np.array([0.25, 0.5]),
        atom_mass=np.array([0.375, 0.125]),
        atom_rates=np.array([1.0, 0.0]),
    )


def test_each_closed_rule_by_hand(subtests: pytest.Subtests, tiny: Any) -> None:
    for closed, mass, events in [
        ("left", 0.125 + 0.375, 0.375),
        ("right", 0.125 + 0.125, 0.0),
        ("both", 0.125 + 0.375 + 0.125, 0.375),
        ("neither", 0.125, 0.0),
    ]:
        with subtests.test(closed=closed, mass=mass, events=events):
            assert tiny.mass(0.25, 0.5, closed=closed) == mass
            assert tiny.rate(0.25, 0.5, closed=closed) == events / mass


def test_points_ends_and_empty_intervals_by_hand(tiny: Any) -> None:
    assert tiny.mass(0.5, 0.5, closed="both") == 0.125
    assert tiny.rate(0.25, 0.25, closed="both") == 1.0
    for closed in ("left", "right", "neither"):
        assert tiny.mass(0.5, 0.5, closed=closed) == 0.0
        assert np.isnan(tiny.rate(0.5, 0.5, closed=closed))
    for closed in CLOSED:
        assert tiny.mass(-np.inf, np.inf, closed=closed) == 1.0
        assert tiny.mass(0.5, 0.25, closed=closed) == 0.0
        assert tiny.mass(2.0, np.inf, closed=closed) == 0.0
    assert tiny.mass(-np.inf, 0.5) == 0.25 + 0.375
    assert tiny.mass(0.5, np.inf) == 0.125 + 0.25
    assert tiny.base_rate == 0.375 + 0.25
    assert tiny.mass([0.0, 0.5], [[0.5], [1.0]]).shape == (2, 2)
    one_ulp = np.nextafter(0.25, 1.0)
    assert tiny.mass(one_ulp, 0.5) == pytest.approx(0.125, abs=1e-15)


def test_a_piecewise_world_that_is_no_distribution_is_refused(subtests: pytest.Subtests, tiny: Any) -> None:
    for message, change in [
        ("add to 1", {"density": np.array([0.5, 0.4])}),
        ("non-negative", {"atom_mass": np.array([0.625, -0.125])}),
        ("lie in", {"rates": np.array([0.0, 1.5])}),
        ("k pieces", {"rates": np.array([0.0])}),
        ("increase", {"breaks": np.array([0.0, 1.0, 0.5])}),
        ("strictly inside", {"breaks": np.array([0.5, np.nextafter(0.5, 1.0), 1.0])}),
        ("increase", {"atoms": np.array([0.5, 0.25])}),
        ("each atom", {"atom_rates": np.array([0.5])}),
    ]:
        with subtests.test(message):
            fields = {key: getattr(tiny, key) for key in tiny.__dataclass_fields__}
            with pytest.raises(ValueError, match=message):
                worlds.PiecewiseWorld(**{**fields, **change})


def test_a_polynomial_outside_the_unit_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="leaves"):
        worlds.BetaWorld(name="x", description="x", coefficients=(0.5, 3.0, -3.0), a=1.0, b=1.0)


def test_bad_intervals_are_refused(tiny: Any) -> None:
    with pytest.raises(ValueError, match="closed"):
        tiny.mass(0, 1, closed="open")
    with pytest.raises(ValueError, match="nan"):
        tiny.mass(np.nan, 1)


def test_the_set_of_worlds() -> None:
    names = [world.name for world in worlds.WORLDS]
    assert len(names) == len(set(names)) >= 10
    rates = {world.name: world.base_rate for world in worlds.WORLDS}
    assert rates["clicks_1pct"] == pytest.approx(0.01, rel=1e-4)
    assert rates["clicks_01pct"] == pytest.approx(0.001, rel=1e-4)
    by_name = {world.name: world for world in worlds.WORLDS}
    assert by_name["skew"].mass(-np.inf, 2.0**-20, closed="both") == pytest.approx(0.9)
    assert by_name["heaped"].mass([0.8, 0.9, 0.95], [0.8, 0.9, 0.95], closed="both").sum() == pytest.approx(0.8)


def test_a_partition_adds_up(subtests: pytest.Subtests) -> None:
    for world in worlds.WORLDS:
        for closed in ["left", "right"]:
            with subtests.test(f"{world.name}, {closed}"):
                edges = np.concatenate([[-np.inf], special_points(world, np.random.default_rng(1), 200), [np.inf]])
                mass, rate = (
                    world.mass(edges[:-1], edges[1:], closed=closed),
                    world.rate(edges[:-1], edges[1:], closed=closed),
                )
                assert mass.sum() == pytest.approx(1.0, abs=1e-12)
                assert np.nansum(mass * rate) == pytest.approx(world.base_rate, abs=1e-12)
                assert np.array_equal(np.isnan(rate), mass == 0)


def test_open_intervals_and_points_add_up(subtests: pytest.Subtests) -> None:
    for world in worlds.WORLDS:
        with subtests.test(world.name):
            points = special_points(world, np.random.default_rng(2), 200)
            edges = np.concatenate([[-np.inf], points, [np.inf]])
            total = (
                world.mass(edges[:-1], edges[1:], closed="neither").sum()
                + world.mass(points, points, closed="both").sum()
            )
            assert total == pytest.approx(1.0, abs=1e-12)


def test_samples_agree_with_mass_and_rate(subtests: pytest.Subtests) -> None:
    for world in worlds.WORLDS:
        with subtests.test(world.name):
            rng = np.random.default_rng(20260101)
            scores, labels = world.sample(rng, 300_000)
            assert scores.dtype == np.float64
            assert labels.dtype == np.uint8
            assert set(np.unique(labels)) <= {0, 1}
            order = np.argsort(scores)
            ordered, events = scores[order], np.concatenate([[0], np.cumsum(labels[order], dtype=np.int64)])
            points = special_points(world, rng, 6)
            intervals = [(-np.inf, np.inf), (-np.inf, points[points.size // 2]), (points[points.size // 2], np.inf)]
            intervals += [(-np.inf, np.nextafter(0.0, 1.0)), (np.nextafter(1.0, 0.0), np.inf)]
            intervals += [(points[i], points[j]) for i, j in np.sort(rng.integers(0, points.size, (10, 2)))]
            for lo, hi in intervals:
                for closed in CLOSED:
                    start = np.searchsorted(ordered, lo, side="left" if closed in ("left", "both") else "right")
                    stop = max(
                        start, np.searchsorted(ordered, hi, side="right" if closed in ("right", "both") else "left")
                    )
                    n, k = int(stop - start), int(events[stop] - events[start])
                    mass, rate = float(world.mass(lo, hi, closed=closed)), float(world.rate(lo, hi, closed=closed))
                    assert stats.binomtest(n, scores.size, mass).pvalue > 1e-6, (lo, hi, closed)
                    assert n == 0 or stats.binomtest(k, n, rate).pvalue > 1e-6, (lo, hi, closed)


def test_every_part_is_sampled_in_proportion(subtests: pytest.Subtests) -> None:
    for world in worlds.WORLDS:
        with subtests.test(world.name):
            rng = np.random.default_rng(3)
            scores, labels = world.sample(rng, 200_000)
            edges = np.concatenate([[-np.inf], np.unique(np.quantile(scores[:1000], np.arange(1, 50) / 50)), [np.inf]])
            mass, rate = world.mass(edges[:-1], edges[1:]), world.rate(edges[:-1], edges[1:])
            cell = np.searchsorted(edges, scores[1000:], side="right") - 1
            n = np.bincount(cell, minlength=mass.size)
            k = np.bincount(cell, labels[1000:], minlength=mass.size)
            some = mass > 0
            assert n[~some].sum() == 0
            assert some.sum() == 1 or stats.chisquare(n[some], n.sum() * mass[some]).pvalue > 1e-6
            varies = some & (rate > 0) & (rate < 1)
            z2 = (k - n * rate)[varies] ** 2 / (n * rate * (1 - rate))[varies]
            assert stats.chi2.sf(z2.sum(), varies.sum()) > 1e-6
            assert (k == n * rate)[some & ~varies].all()


def test_samples_are_reproducible_and_in_range(subtests: pytest.Subtests) -> None:
    for world in worlds.WORLDS:
        with subtests.test(world.name):
            first, again = (world.sample(np.random.default_rng(4), 5_000) for _ in range(2))
            assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
            assert not np.array_equal(first[1], world.sample(np.random.default_rng(5), 5_000)[1])
            assert first[0].min() >= 0
            assert first[0].max() <= 1
            empty = world.sample(np.random.default_rng(6), 0)
            assert empty[0].size == empty[1].size == 0


def test_a_sampled_score_is_on_an_atom_or_strictly_inside_a_piece(subtests: pytest.Subtests) -> None:
    for world in PIECEWISE:
        with subtests.test(world.name):
            scores, _ = world.sample(np.random.default_rng(7), 200_000)
            loose = scores[~np.isin(scores, world.atoms)]
            assert not np.isin(loose, world.breaks).any()
            if world.density.size:
                piece = np.searchsorted(world.breaks, loose, side="right") - 1
                assert (world.density[piece] > 0).all()
            else:
                assert loose.size == 0


def test_a_piece_of_one_float_and_a_gap_are_sampled_inside() -> None:
    lo = np.nextafter(0.5, 0.0)
    world = worlds.PiecewiseWorld(
        name="gap",
        description="one float wide, a gap, an atom on the far end",
        breaks=np.array([lo, np.nextafter(0.5, 1.0), 0.75, 1.0]),
        density=np.array([0.5 / (np.nextafter(0.5, 1.0) - lo), 0.0, 1.0]),
        rates=np.array([0.5, 0.5, 0.5]),
        atoms=np.array([1.0]),
        atom_mass=np.array([0.25]),
        atom_rates=np.array([1.0]),
    )
    scores, _ = world.sample(np.random.default_rng(8), 10_000)
    assert set(scores[scores < 0.7]) == {0.5}
    assert not ((scores > 0.5) & (scores <= 0.75)).any()
    assert (scores == 1.0).any()
    assert world.mass(0.6, 0.75, closed="both") == 0.0


def test_piecewise_integrals_equal_rational_arithmetic(subtests: pytest.Subtests) -> None:
    for world in [w for w in PIECEWISE if w.density.size + w.atoms.size < 3_000]:
        with subtests.test(world.name):
            rng = np.random.default_rng(9)
            points = special_points(world, rng, 5)
            near = np.minimum(points[:-1] * (1 + 1e-9), points[1:])
            pairs = [*zip(points[:-1], near, strict=True), *rng.choice(points, (10, 2))]
            for lo, hi in pairs[:: 1 + len(pairs) // 20]:
                closed = str(rng.choice(CLOSED))
                mass, events = rational(world, lo, hi, closed)
                assert world.mass(lo, hi, closed=closed) == pytest.approx(float(mass), rel=1e-12, abs=1e-17)
                if mass > 1e-17:
                    assert world.rate(lo, hi, closed=closed) == pytest.approx(float(events / mass), abs=1e-12)


def test_the_smooth_world_equals_rational_arithmetic() -> None:
    """Beta(2, 5) has density 30 s (1 - s)^4, so everything is a polynomial with rational coefficients."""
    world = next(world for world in worlds.WORLDS if world.name == "smooth")
    density = [Fraction(0), *(Fraction(30 * c) for c in (1, -4, 6, -4, 1))]
    product = [Fraction(0)] * (len(density) + len(world.coefficients) - 1)
    for i, a in enumerate(density):
        for j, b in enumerate(world.coefficients):
            product[i + j] += a * Fraction(b)

    def integral(coefficients: list[Fraction], lo: Fraction, hi: Fraction) -> Fraction:
        return sum((c * (hi ** (k + 1) - lo ** (k + 1)) / (k + 1) for k, c in enumerate(coefficients)), Fraction(0))

    rng = np.random.default_rng(10)
    lo = np.concatenate([rng.random(100), 10.0 ** -rng.uniform(0, 12, 50), 1 - 10.0 ** -rng.uniform(0, 3, 50)])
    hi = np.minimum(lo + (1 - lo) * 10.0 ** -rng.uniform(0, 9, 200), 1.0)
    mass, rate = world.mass(lo, hi), world.rate(lo, hi)
    for k in range(lo.size):
        true = integral(density, Fraction(lo[k]), Fraction(hi[k]))
        events = integral(product, Fraction(lo[k]), Fraction(hi[k]))
        assert mass[k] == pytest.approx(float(true), rel=1e-11)
        assert rate[k] == pytest.approx(float(events / true), abs=1e-12)


def test_narrow_intervals_add_up_to_wide_ones(subtests: pytest.Subtests) -> None:
    """Quadrature on narrow intervals and differences of closed forms on wide ones are two ways to the same number."""
    for world in SMOOTH:
        with subtests.test(world.name):
            scores, _ = world.sample(np.random.default_rng(11), 200)
            wide = np.sort(scores)[::20]
            for lo, hi in pairwise(wide):
                edges = np.geomspace(lo, hi, 3_000)
                edges[0], edges[-1] = lo, hi
                mass, rate = world.mass(edges[:-1], edges[1:]), world.rate(edges[:-1], edges[1:])
                assert mass.sum() == pytest.approx(float(world.mass(lo, hi)), rel=1e-11)
                assert (mass * rate).sum() / mass.sum() == pytest.approx(float(world.rate(lo, hi)), abs=1e-12)


def test_the_rate_of_a_hair_is_the_truth_at_that_score(subtests: pytest.Subtests) -> None:
    for world in SMOOTH:
        with subtests.test(world.name):
            scores, _ = world.sample(np.random.default_rng(12), 500)
            truth = np.polynomial.polynomial.polyval(scores, world.coefficients)
            assert np.allclose(world.rate(scores, scores * (1 + 1e-11)), truth, rtol=0, atol=1e-10)


def test_the_sawtooth_turns_inside_every_cell_of_the_grid(subtests: pytest.Subtests) -> None:
    for name, cells in [("sawtooth_fine", 1024), ("sawtooth_coarse", 16)]:
        with subtests.test(name=name, cells=cells):
            world = next(world for world in worlds.WORLDS if world.name == name)
            octave = np.repeat(np.arange(32, 1, -1), cells)
            low = np.tile(np.arange(cells), 31)
            lo, mid, hi = (np.ldexp(1 + (low + part) / cells, -octave) for part in (0.0, 0.5, 1.0))
            for a, b, c in ((lo, mid, hi), (1 - hi, 1 - mid, 1 - lo)):
                assert np.allclose(np.abs(world.rate(a, b) - world.rate(b, c)), 0.4, atol=1e-12)
                assert np.allclose(world.mass(a, b), world.mass(b, c), rtol=1e-9)
