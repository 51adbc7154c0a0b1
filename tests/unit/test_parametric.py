"""Platt and beta scaling: maximum likelihood, the identity, separation, soft targets, limits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from tests import worlds

from calibrant.calibrators.binary.scaling import BetaScaling, LogitShift, PlattScaling
from calibrant.calibrators.temperature import TemperatureScaling
from calibrant.fits import scaling
from calibrant.maps import BetaMap, ComposeMap, LogitAffineMap
from calibrant.messages import InputError
from calibrant.numerics import Grid, expit, log_loss, logit
from calibrant.tallies import Tally

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")


def world(n: int = 3000, seed: int = 0, a: float = 0.6, b: float = 1.7, c: float = -0.4) -> worlds.Rows:
    """Scores whose true curve is the beta map (a, b, c)."""
    return worlds.following(BetaMap(a, b, c).apply, n, seed, shape=(1.2, 1.5))


def nll(p: np.ndarray, y: np.ndarray) -> float:
    return log_loss(p, np.ones(len(y)), y) / len(y)


def test_platt_is_logistic_regression_on_the_log_odds():
    scores, y = world()
    map_ = PlattScaling().fit(scores, y).map_
    theirs = LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000).fit(logit(scores)[:, None], y)
    assert map_.slope == pytest.approx(theirs.coef_[0, 0], rel=1e-5)
    assert map_.intercept == pytest.approx(theirs.intercept_[0], rel=1e-4)


@pytest.mark.parametrize("kind", ["logit", "real"])
def test_logits_enter_as_they_are(kind):
    scores, y = world()
    on_odds, on_logits = PlattScaling().fit(scores, y).map_, PlattScaling().fit(logit(scores), y, score_type=kind).map_
    assert on_logits.on == "score"
    assert on_logits.slope == pytest.approx(on_odds.slope, rel=1e-8)
    assert on_logits.intercept == pytest.approx(on_odds.intercept, rel=1e-7)


def test_the_scale_of_a_real_score_does_not_matter(subtests):
    for scale in [1e-200, 1e-3, 1e5, 1e200]:
        with subtests.test(scale=scale):
            rng = np.random.default_rng(3)
            z = rng.normal(size=500) + 3
            y = (rng.random(500) < expit(z - 3)).astype(int)
            plain, scaled = (
                PlattScaling().fit(z, y, score_type="real"),
                PlattScaling().fit(z * scale, y, score_type="real"),
            )
            np.testing.assert_allclose(scaled.transform(z * scale), plain.transform(z), rtol=1e-7)


def test_real_scores_over_the_whole_range_of_floats():
    cal = PlattScaling().fit([-1e300, 1e300, 0.0, 1.0, -5.0, 7.0], [0, 1, 0, 1, 1, 0], score_type="real")
    out = cal.transform([-1.7e308, 0.0, 1.7e308])
    assert ((out > 0) & (out < 1)).all()
    assert (np.diff(out) >= 0).all()


VARIANTS = {
    "abm": lambda t: (t[0], t[1], t[2]),
    "am": lambda t: (t[0], t[0], t[1]),
    "ab": lambda t: (t[0], t[1], (t[0] - t[1]) * np.log(2)),
}


def test_beta_is_the_maximum_of_the_likelihood(subtests):
    def cost(t: np.ndarray, build: Callable, scores: np.ndarray, y: np.ndarray) -> float:
        return nll(BetaMap(*build(t)).apply(scores), y)

    bounds = {"abm": [(0, None), (0, None), (None, None)], "am": [(0, None), (None, None)], "ab": [(0, None)] * 2}
    for truth in [(0.6, 1.7, -0.4), (1.5, 0.2, 0.3), (-1.0, 1.0, 0.0), (1.0, -1.0, 0.5)]:
        scores, y = world(1500, 4, *truth)
        for variant, build in VARIANTS.items():
            with subtests.test(variant, truth=truth):
                got = BetaScaling(variant).fit(scores, y).map_
                found = minimize(
                    cost,
                    np.full(len(bounds[variant]), 0.5),
                    (build, scores, y),
                    bounds=bounds[variant],
                    options={"ftol": 1e-14, "gtol": 1e-9},
                )
                assert nll(got.apply(scores), y) <= found.fun + 1e-9
                assert min(got.a, got.b) >= 0
                if variant == "am":
                    assert got.a == got.b
                if variant == "ab":
                    assert got.apply([0.5])[0] == pytest.approx(0.5, abs=1e-12)


def test_am_is_platt():
    scores, y = world()
    am, platt = BetaScaling("am").fit(scores, y).map_, PlattScaling().fit(scores, y).map_
    assert (am.a, am.c) == pytest.approx((platt.slope, platt.intercept), rel=1e-7)


@pytest.mark.statistical
@pytest.mark.parametrize("cls", [PlattScaling, BetaScaling])
def test_a_calibrated_score_is_left_alone(cls):
    rng = np.random.default_rng(5)
    scores = rng.random(100_000)
    cal = cls().fit(scores, rng.random(100_000) < scores)
    grid = np.linspace(0.02, 0.98, 49)
    assert np.abs(cal.transform(grid) - grid).max() < 0.01


def test_a_falling_truth_gives_a_flat_map_unless_asked():
    scores, y = world(1000, 6, -1.0, -1.0, 0.0)
    flat = PlattScaling().fit(scores, y)
    assert flat.map_.slope == 0.0
    assert flat.transform([0.1])[0] == pytest.approx(y.mean(), rel=1e-9)
    assert PlattScaling(increasing=False).fit(scores, y).map_.slope < -0.5


SEPARATED = {
    "separated": ([0.1, 0.2, 0.3, 0.7, 0.8, 0.9], [0, 0, 0, 1, 1, 1], True),
    "separated, falling": ([0.1, 0.2, 0.3, 0.7, 0.8, 0.9], [1, 1, 1, 0, 0, 0], False),
    "quasi-separated": ([0.1, 0.2, 0.5, 0.5, 0.8, 0.9], [0, 0, 0, 1, 1, 1], True),
    "one class": ([0.1, 0.2, 0.5, 0.6], [1, 1, 1, 1], True),
    "overlapping": ([0.1, 0.2, 0.6, 0.5, 0.8, 0.9], [0, 0, 0, 1, 1, 1], False),
    "constant score": ([0.5] * 10, [1, 1, 1] + [0] * 7, False),
}


SOFTENED_ONE, SOFTENED_TWO = "soft-targets-for-one-class", "soft-targets-for-separated-classes"
SOFTENED = {SOFTENED_ONE, SOFTENED_TWO, "labels-on-their-side"}


def softened(cal) -> set[str]:
    """Codes of notes that say why soft targets were used."""
    return {note.code for note in cal.notes_} & SOFTENED


def test_separated_classes_get_soft_targets_and_a_note(subtests):
    for cls in [PlattScaling, BetaScaling]:
        for name in SEPARATED:
            with subtests.test(cls=cls, name=name):
                scores, y, noted = SEPARATED[name]
                cal = cls().fit(scores, y)
                assert softened(cal) == ({SOFTENED_ONE if len(set(y)) == 1 else SOFTENED_TWO} if noted else set())
                out = cal.transform([0.0, 0.3, 1.0])
                assert ((out > 0) & (out < 1)).all()
                asked = cls(soft_targets=True).fit(scores, y)
                assert not softened(asked)
                if noted:
                    assert asked.map_ == cal.map_


@pytest.mark.parametrize(
    "scores", [[0.1, 0.2, 0.3, 0.7, 0.8, 0.9], [0.1, 0.2, 0.5, 0.5, 0.8, 0.9]], ids=["apart", "touching"]
)
def test_inverted_separation(scores):
    """A slope that may not fall has a likelihood with a maximum, at 0; one that may fall runs away."""
    y = [1, 1, 1, 0, 0, 0]
    flat = PlattScaling().fit(scores, y)
    assert flat.map_.slope == 0.0
    assert not softened(flat)
    np.testing.assert_allclose(flat.transform([0.0, 0.4, 1.0]), 0.5, rtol=1e-12)
    free = PlattScaling(increasing=False).fit(scores, y)
    assert free.map_.slope < 0.0
    assert softened(free) == {SOFTENED_TWO}
    assert str(free.notes_[-1]).startswith("the classes are separated by the score: Platt's soft targets were used")
    assert free.map_ == PlattScaling(increasing=False, soft_targets=True).fit(scores, y).map_
    beta = BetaScaling().fit(scores, y)
    assert not softened(beta)
    np.testing.assert_allclose(beta.transform([0.1, 0.9]), 0.5, rtol=1e-6)


def test_a_constant_score_gets_the_event_rate(subtests):
    for cls in [PlattScaling, BetaScaling]:
        for score in [0.0, 0.3, 0.5, 1.0]:
            with subtests.test(cls=cls, score=score):
                cal = cls().fit([score] * 10, [1, 1, 1] + [0] * 7)
                assert cal.transform([score])[0] == pytest.approx(0.3, rel=1e-9)
                rising = np.diff(cal.transform([0.1, 0.5, 0.9])) > 0
                assert rising.all() == (0.0 < score < 1.0)


def test_platts_soft_targets():
    scores, y = world(40, 7)
    positives, negatives = y.sum(), len(y) - y.sum()
    soft = np.where(y == 1, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    found = minimize(
        lambda t: (
            -np.mean(
                soft * np.log(expit(t[0] * logit(scores) + t[1]))
                + (1 - soft) * np.log(expit(-t[0] * logit(scores) - t[1]))
            )
        ),
        [1.0, 0.0],
        options={"gtol": 1e-10},
    )
    map_ = PlattScaling(soft_targets=True).fit(scores, y).map_
    assert (map_.slope, map_.intercept) == pytest.approx(tuple(found.x), abs=1e-5)


@pytest.mark.parametrize("cls", [PlattScaling, BetaScaling])
def test_limits_say_no_more_than_n_rows_support(cls):
    scores, y = world(98, 8, 9.0, 9.0, 0.0)
    cal = cls(limits=True).fit(scores, y)
    assert isinstance(cal.map_, ComposeMap)
    assert cal.transform([0.0, 1.0]).tolist() == [0.01, 0.99]
    free = cls().fit(scores, y).transform([0.5])
    assert cal.transform([0.5])[0] == pytest.approx(free[0], rel=1e-15)
    weighted = cls(limits=True).fit(scores, y, np.full(98, 0.7))
    np.testing.assert_allclose(weighted.transform([0.0, 1.0]), [0.01, 0.99], rtol=1e-12)


@pytest.mark.parametrize("cls", [PlattScaling, BetaScaling])
def test_the_grid_costs_next_to_nothing(cls):
    scores, y = world(20_000, 9)
    exact = cls().fit(scores, y)
    gridded = cls().fit_tally(Tally.from_arrays(scores, y, grid=Grid()))
    probes = np.linspace(0.001, 0.999, 200)
    np.testing.assert_allclose(gridded.transform(probes), exact.transform(probes), atol=1e-6)


@pytest.mark.parametrize("cls", [PlattScaling, BetaScaling])
def test_a_warm_start_ends_in_the_same_place(cls, monkeypatch):
    scores, y = world(5_000, 10)
    cold = cls().fit(scores, y)
    monkeypatch.setattr(scaling, "WARM_START_ROWS", 1000)
    warm = cls().fit(scores, y)
    probes = np.linspace(0.001, 0.999, 200)
    np.testing.assert_allclose(warm.transform(probes), cold.transform(probes), atol=1e-9)
    assert warm.notes_ == cold.notes_


def test_wrong_options_are_refused():
    scores, y = world(50)
    with pytest.raises(InputError, match="on must be"):
        PlattScaling("odds").fit(scores, y)
    with pytest.raises(InputError, match="variant must be"):
        BetaScaling("abc").fit(scores, y)
    with pytest.raises(InputError, match="scores must be probabilities, not logit scores: use PlattScaling"):
        BetaScaling().fit(logit(scores), y, score_type="logit")
    with pytest.raises(InputError, match="scores="):
        PlattScaling().fit_tally(Tally.from_table([5, 5], [1, 4], edges=[0.5]))


def test_no_certificate_and_why():
    scores, y = world(50)
    for cal in (PlattScaling().fit(scores, y), BetaScaling().fit(scores, y)):
        assert "Theorem 3.3" in str(cal.certificate())
    assert isinstance(PlattScaling().fit(scores, y).map_, LogitAffineMap)


def test_neither_column_of_predict_proba_is_one_in_float32():
    cal = PlattScaling().fit(np.linspace(0.001, 0.999, 200), np.linspace(0.001, 0.999, 200) > 0.5)
    both = cal.predict_proba(np.array([0.0, 1.0], dtype=np.float32))
    assert both.dtype == np.float32
    assert ((both > 0) & (both < 1)).all()


# ---------------------------------------------------------------------------------------------------------------------
# One parameter: temperature and level
# ---------------------------------------------------------------------------------------------------------------------


def test_a_temperature_by_hand():
    """Three rows of four lie on their side of 1/2, all at |log-odds| log 9: m = 3/4 there, and log 3 = (log 9) / 2."""
    cal = TemperatureScaling().fit([0.1, 0.1, 0.1, 0.9], [0, 0, 1, 1])
    np.testing.assert_allclose(cal.transform([0.1, 0.5, 0.9]), [0.25, 0.5, 0.75], rtol=1e-12)
    assert cal.temperature_ == pytest.approx(2.0, rel=1e-12)
    assert "temperature 2 (slope 0.5 on the log-odds)" in str(cal)


def test_a_level_by_hand():
    """Odds 1/4 and 4 doubled are 1/2 and 8: rates 1/3 and 8/9, together 11/9 = 11 events in two times 9 rows."""
    tally = Tally.from_table([9, 9], [4, 7], edges=[0.5], scores=[0.2, 0.8])
    cal = LogitShift().fit_tally(tally)
    assert cal.map_.slope == 1.0
    assert cal.map_.intercept == pytest.approx(np.log(2.0), rel=1e-12)
    np.testing.assert_allclose(cal.transform([0.2, 0.8]), [1 / 3, 8 / 9], rtol=1e-12)
    assert "odds times 2" in str(cal)


def test_the_temperature_is_the_best_one():
    scores, y = world()
    fitted = TemperatureScaling().fit(scores, y)
    ours = nll(fitted.transform(scores), y)
    around = [nll(expit(logit(scores) / (fitted.temperature_ * factor)), y) for factor in (0.99, 1.01)]
    assert ours < min(around)
    assert fitted.map_.intercept == 0.0


def test_the_level_moves_the_mean_to_the_event_rate(subtests):
    for kind in ["probability", "logit", "real"]:
        for n in [3, 50, 3000]:
            for weighted in [False, True]:
                with subtests.test(kind=kind, n=n, weighted=weighted):
                    scores, y = world(n, seed=2)
                    y[0] = 1 - y[1]
                    given = scores if kind == "probability" else logit(scores)
                    w = np.random.default_rng(3).random(n) if weighted else np.ones(n)
                    cal = LogitShift().fit(given, y, w, score_type=kind)
                    assert np.average(cal.transform(given), weights=w) == pytest.approx(
                        np.average(y, weights=w), abs=1e-12
                    )


def test_a_level_far_away_is_found(subtests):
    """Also where Newton's steps alone would leave the world."""
    for rate in [1e-4, 0.5, 1 - 1e-4]:
        for center in [-20.0, 0.0, 300.0]:
            with subtests.test(rate=rate, center=center):
                z = center + np.random.default_rng(4).normal(0, 5, 10_000)
                y = np.arange(10_000) < 10_000 * rate
                cal = LogitShift().fit(z, y, score_type="logit")
                assert cal.notes_ == ()
                assert cal.transform(z).mean() == pytest.approx(y.mean(), rel=1e-9)


def test_large_and_gridded_tallies_agree():
    scores, y = world(300_000, seed=5)
    for cls in (TemperatureScaling, LogitShift):
        exact = cls().fit(scores, y).map_
        gridded = cls().fit_tally(Tally.from_arrays(scores, y, grid=Grid())).map_
        assert exact.slope == pytest.approx(gridded.slope, abs=1e-5)
        assert exact.intercept == pytest.approx(gridded.intercept, abs=1e-5)
    assert LogitShift().fit(scores, y).transform(scores).mean() == pytest.approx(y.mean(), abs=1e-12)


def test_scores_on_their_side_give_a_soft_temperature():
    """Two events at 0.9 and two non-events at 0.1: soft targets 3/4 and 1/4, so m(0.9) = 3/4 and T = 2."""
    cal = TemperatureScaling().fit([0.9, 0.9, 0.1, 0.1], [1, 1, 0, 0])
    assert cal.temperature_ == pytest.approx(2.0, rel=1e-9)
    assert softened(cal) == {"labels-on-their-side"}
    assert "every score is on the right side of 1/2: Platt's soft targets" in str(cal.notes_[-1])
    assert TemperatureScaling(soft_targets=True).fit([0.9, 0.9, 0.1, 0.1], [1, 1, 0, 0]).map_ == cal.map_


def test_one_class_runs_away_only_on_its_own_side():
    """Events on both sides of 1/2 have a best temperature: 3 of 4 at 0.9, 1 at 0.1, m(0.9) = 3/4."""
    mixed = TemperatureScaling().fit([0.9, 0.9, 0.9, 0.1], [1, 1, 1, 1])
    assert mixed.temperature_ == pytest.approx(2.0, rel=1e-9)
    assert not softened(mixed)
    assert softened(TemperatureScaling().fit([0.9, 0.6], [1, 1])) == {"labels-on-their-side"}


def test_wrong_side_scores_have_infinite_temperature():
    cal = TemperatureScaling().fit([0.9, 0.8, 0.1], [0, 0, 1])
    assert cal.temperature_ == np.inf
    assert cal.transform([0.0, 0.3, 1.0]).tolist() == [0.5, 0.5, 0.5]


def test_scores_in_the_middle_have_no_temperature(subtests):
    for kind, middle in [("probability", 0.5), ("logit", 0.0), ("real", 0.0)]:
        with subtests.test(kind=kind, middle=middle):
            cal = TemperatureScaling().fit([middle] * 4, [0, 1, 1, 1], score_type=kind)
            assert cal.temperature_ == 1.0
            assert cal.notes_[-1].code == "scores-at-one-half"
            assert "a temperature has no effect" in str(cal.notes_[-1])


@pytest.mark.parametrize("label", [0, 1])
def test_a_level_of_one_class_uses_soft_targets(label):
    """Eight rows of one class at 1/2: 9/10 or 1/10."""
    cal = LogitShift().fit(np.full(8, 0.5), np.full(8, label))
    assert cal.transform([0.5])[0] == pytest.approx(0.9 if label else 0.1, rel=1e-12)
    assert softened(cal) == {SOFTENED_ONE}
    assert "only one class is present: Platt's soft targets" in str(cal.notes_[-1])


def test_real_scores_that_are_no_log_odds_are_refused():
    with pytest.raises(InputError, match=r"scores reach -2e\+07, but LogitShift reads them as log-odds"):
        LogitShift().fit([-2e7, 3.0, 5.0], [0, 1, 0], score_type="real")


def test_one_parameter_limits():
    scores, y = world(100)
    for cls in (TemperatureScaling, LogitShift):
        cal = cls(limits=True).fit(scores, y)
        assert isinstance(cal.map_, ComposeMap)
        assert cal.transform([0.0])[0] == pytest.approx(1 / 102)
