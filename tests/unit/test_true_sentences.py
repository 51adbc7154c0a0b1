"""What a result or an error says must be true of the numbers beside it, in every function that says it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, logit, softmax

import calibrant as cb
from calibrant import abstention, clinical, conformal, live, metrics, online
from calibrant.calibrators import MulticlassSegmentCalibrator
from calibrant.displays import ReliabilityDisplay
from calibrant.messages import InputError, Note
from calibrant.metrics.estimates import BINARY, Ideal
from calibrant.tallies import GroupedTally

every = pytest.mark.parametrize

# ------------------------------------------------------------------------------------------------------ Two text labels


def graded(rows: int = 200) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    s = rng.random(rows)
    return s, np.where(rng.random(rows) < s, "right", "wrong")


TAKE_LABELS: dict[str, Callable[[Any, Any], object]] = {
    "accept": lambda s, y: abstention.accept(s, y, error=0.1),
    "risk_coverage": abstention.risk_coverage,
    "overconfidence": lambda s, y: abstention.overconfidence(s, y, by=["a"] * len(s)),
    "cascade": lambda s, y: abstention.route(s, y, y, error=0.1),
    "check": cb.check,
    "calibrate": cb.calibrate,
    "compare": lambda s, y: cb.compare(s, s, y),
    "fit": lambda s, y: cb.PlattScaling().fit(s, y),
    "tally": cb.Tally.from_arrays,
    "class sets": lambda s, y: conformal.LeastAmbiguousSets().fit(s, y),
    "reliability": ReliabilityDisplay.from_predictions,
    "validate": clinical.validate,
    "decision_curve": clinical.decision_curve,
    "learn_many": lambda s, y: online.OnlinePlatt().learn_many(s, y),
    "learn_one": lambda s, y: online.OnlinePlatt().learn_one(s[0], y[0]),
    "Monitor": lambda s, y: live.Monitor().update(s, y),
    **{name: getattr(metrics, name) for name in ("ece", "brier", "log_loss", "auc", "recalibration", "ici")},
}


@every("door", TAKE_LABELS)
def test_no_function_proposes_one_of_two_text_labels_as_the_event(door: str) -> None:
    s, y = graded()
    with pytest.raises(InputError) as told:
        TAKE_LABELS[door](s, y)
    fix = str(told.value).partition(": ")[2]
    assert fix.count("'right'") == fix.count("'wrong'"), fix


# --------------------------------------------------------------------------------------- Transformations that are named

Pair = tuple[float, float]


def log_loss(p: Any, y: Any, ends: tuple[float, float] = (0.0, 1.0)) -> float:
    """In plain numpy: one score and a label, or a matrix and the number of a class."""
    p, y = np.clip(p, *ends), np.ravel(y)
    own = p[np.arange(len(y)), y] if p.ndim == 2 else np.where(y == 1, p, 1 - p)
    return float(-np.log(own).mean())


def recalibration(s: Any, y: Any) -> tuple[float, float]:
    """Intercept with slope 1, and slope, of logistic regression on log-odds."""
    z = logit(s)

    def loss(at: Any) -> float:
        u = at[0] + at[1] * z
        return float(np.logaddexp(0.0, u).sum() - (y * u).sum())

    level = minimize_scalar(lambda a: loss([a, 1.0]), method="brent").x
    return float(level), float(minimize(loss, [0.0, 1.0], method="BFGS", options={"gtol": 1e-8}).x[1])


def of(notes: tuple[Note, ...], code: str) -> Any:
    return next(each.values for each in notes if each.code == code)


def heaped(kind: str) -> tuple[Any, Any, Any]:
    """An old and a new model with scores of exactly 1 (and 0), some of them wrong, and labels."""
    if kind == "W2":
        old = np.repeat([0.9, 1.0], [100, 100])
        return old, np.where(old == 1, 0.9, 0.85), np.r_[np.ones(85), np.zeros(15), np.ones(90), np.zeros(10)]
    rng = np.random.default_rng(len(kind))
    p = rng.random(400)
    y = (rng.random(400) < p).astype(int)
    digits = {"both ends": 1, "float32": 2, "fine": 3}[kind]
    old = np.clip(np.round(1.1 * p - 0.05, digits), 0, 1)
    y[np.argmax(old)], y[np.argmin(old)] = 0, 1
    new = (0.5 * old + 0.25).astype(np.float32) if kind == "float32" else 0.5 * old + 0.25
    return old, new, y


def compared(old: Any, new: Any, y: Any, p: Any = lambda s: s) -> list[Pair]:
    _, log = cb.compare(old, new, y).differences[1:3]
    assert log.ends is not None
    return [(log.old, log_loss(p(old), y, log.ends)), (log.new, log_loss(p(new), y, log.ends))]


def matrices() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(3)
    p = rng.dirichlet([1, 1, 1], 400)
    y = (rng.random((400, 1)) > p.cumsum(axis=1)).sum(axis=1)
    votes = np.array([rng.multinomial(20, each) for each in p]) / 20
    assert (votes[np.arange(400), y] == 0).any()
    return votes, p, y


def gained() -> list[Pair]:
    votes, _, y = matrices()
    votes = np.where(votes == votes.max(axis=1, keepdims=True), 1.0, 0.0) * (votes.max(axis=1, keepdims=True) > 0.8)
    p = np.where(votes.sum(axis=1, keepdims=True) == 1, votes, matrices()[1])
    top, right = p.max(axis=1), p.argmax(axis=1) == y
    gains = cb.check(p, y).gains
    assert {each.ends for each in gains} == {gains[0].ends} != {None}
    return [(each.before, log_loss(top, right, each.ends)) for each in gains]


def at_ends(**clamp: float) -> list[Pair]:
    old, _, y = heaped("both ends")
    verdict = cb.check(old, y, **clamp)
    ends = of(verdict.notes, "scores-clipped" if clamp else "scores-at-ends")
    level, slope = recalibration(np.clip(old, ends["low"], ends["high"]), y)
    return [(verdict.intercept.value, level), (verdict.slope.value, slope)]


def raised() -> list[Pair]:
    votes, _, y = matrices()
    fitted = cb.TemperatureScaling().fit(votes, y)
    logs = np.log(np.maximum(votes, of(fitted.notes_, "probabilities-clipped")["at"]))
    best = minimize_scalar(lambda t: log_loss(softmax(t * logs, axis=1), y), bracket=(0.5, 1.0))
    return [(fitted.map_.slope[0], best.x)]


def as_logits() -> list[Pair]:
    _, p, y = matrices()
    z = 2.0 * np.log(p)
    found = metrics.log_loss(z, y)
    assert of(found.notes, "class-logits-guessed")
    return [(found.value, log_loss(softmax(z, axis=1), y))]


def renormalized() -> list[Pair]:
    """Bins of one row are left out, and the others weigh more."""
    s, y = np.r_[np.repeat([0.15, 0.55, 0.85], 20), 0.35], np.r_[np.arange(60) % 3 == 0, 1].astype(int)
    found = metrics.debiased_ece(s, y, n_bins=10, strategy="width", squared=True)
    share = of(found.notes, "single-rows-left-out")["share"]
    rate = y[:60].reshape(3, 20).mean(axis=1)
    square = ((rate - s[:60].reshape(3, 20).mean(axis=1)) ** 2 - rate * (1 - rate) / 19).sum() * 20 / 61
    return [(found.value, square / (1 - share)), (share, 1 / 61)]


def served() -> list[Pair]:
    old, _, y = heaped("both ends")
    found = live.backtest(old, y, np.sort(np.random.default_rng(0).uniform(0, 60, 400)), ["never", "online-platt"])
    ends = of(found.notes, "loss-clipped")
    return [(each.log_loss, log_loss(each.served, y, (ends["low"], ends["high"]))) for each in found.values()]


NAMED: dict[str, Callable[[], list[Pair]]] = {
    **{kind: lambda kind=kind: compared(*heaped(kind)) for kind in ("W2", "both ends", "float32", "fine")},
    "new model clipped": lambda: compared(*(heaped("W2")[place] for place in (1, 0, 2))),
    "classes": lambda: compared(*matrices()),
    "classes, one as logits": lambda: compared(
        matrices()[0], 3 * np.log(matrices()[1]), matrices()[2], lambda s: s if s.min() >= 0 else softmax(s, axis=1)
    ),
    "labels": lambda: compared(
        np.tile(heaped("W2")[0], (2, 1)).T, np.tile(heaped("W2")[1], (2, 1)).T,
        np.tile(heaped("W2")[2], (2, 1)).T.astype(int), np.ravel,
    ),
    "gain of a map": gained,
    "exact ends": at_ends,
    "clamp": lambda: at_ends(clamp=0.07),
    "temperature": raised,
    "logits": as_logits,
    "bins left out": renormalized,
    "back-test": served,
}  # fmt: skip


@every("said", NAMED)
def test_a_transformation_that_is_named_reproduces_the_number(said: str) -> None:
    for printed, recomputed in NAMED[said]():
        assert printed == pytest.approx(recomputed, rel=1e-4)


def test_a_loss_that_is_finite_is_not_clipped_and_equals_the_metric() -> None:
    old = np.repeat([0.9, 1.0], [100, 100])
    y = np.r_[np.ones(85), np.zeros(15), np.ones(100)]
    log, _ = cb.compare(old, 0.9 * old, y).differences[1:3]
    assert (log.name, log.ends) == ("Log loss", None)
    assert log.old == pytest.approx(metrics.log_loss(old, y).value)


# ------------------------------------------------------------------------------------------ Losses and their null value


def underconfident(rows: int = 4000) -> tuple[Any, Any, Any]:
    """Labels, the perfectly calibrated scores, and scores halfway to 0.5 on the scale of log-odds."""
    rng = np.random.default_rng(0)
    z = 3.0 * rng.normal(size=rows)
    return rng.random(rows) < expit(z), expit(z), expit(0.5 * z)


@every("name", sorted(BINARY))
def test_only_of_a_distance_is_the_null_value_that_of_a_calibrated_model(name: str) -> None:
    y, _, q = underconfident(500)
    found = BINARY[name].function(cb.Tally.from_arrays(q, y))
    if found.null is not None:
        assert (found.kind is None) == (BINARY[name].ideal is not Ideal.NONE)


@every("name", ["log_loss", "brier", "rmse", "classification_loss", "accuracy"])
def test_a_loss_of_underconfident_scores_says_that_outcomes_are_easier(name: str, subtests: pytest.Subtests) -> None:
    """W3 of the trials: the perfectly calibrated model has 0.3438, and the null value was 0.5278."""
    y, t, q = underconfident()
    metric = getattr(metrics, name)
    stacked = np.c_[1 - q, q], np.c_[1 - t, t]
    with subtests.test("one score"):
        assert metric(q, y).easier
        assert not metric(t, y).easier
        assert not metric(expit(2 * np.log(t / (1 - t))), y).easier
    if name in ("log_loss", "brier", "accuracy"):
        with subtests.test("classes"):
            three = [np.c_[p[:, 0], p[:, 1] / 2, p[:, 1] / 2] for p in stacked]
            classes = np.where(y, 1 + np.arange(len(y)) % 2, 0)
            assert metric(three[0], classes).easier
            assert not metric(three[1], classes).easier


@every("name", ["log_loss", "brier", "accuracy"])
def test_a_calibrated_model_is_called_underconfident_in_one_sample_of_twenty(name: str, full_size: bool) -> None:
    rng, times = np.random.default_rng(5), 4000 if full_size else 600
    p = np.r_[rng.beta(1, 20, 300), [0.02] * 100, [0.5] * 20].round(3)
    called = sum(getattr(metrics, name)(p, rng.random(len(p)) < p).easier for _ in range(times))
    assert stats.binomtest(called, times, 0.065, alternative="greater").pvalue > 0.01


@every("style", ["general", "credit", "clinical", "llm"])
def test_a_report_calls_no_loss_expected_if_calibrated(style: Any) -> None:
    y, _, q = underconfident(500)
    made = cb.report(q, y, style=style)
    assert not any("null" in each for each in made.to_dict()["scores"])
    assert "expected if calibrated" not in made.to_markdown()


# -------------------------------------------------------------------------------------------- What is called "before"


def by_segment(kind: str) -> tuple[Any, Any, Any]:
    """W7 of the trials: stated confidences of two models, which a global map alone would not mend."""
    rng = np.random.default_rng(7)
    g = np.where(rng.random(3000) < 0.5, "A", "B")
    c = rng.choice([0.5, 0.7, 0.8, 0.9, 0.95, 1.0], 3000)
    y = rng.random(3000) < np.where(g == "A", c - 0.25, c - 0.05)
    return {"logit": logit(0.98 * c), "real": 10 * c}.get(kind, c), y.astype(int), g


@every("kind", ["probability", "logit", "real", "tally"])
@every("method", ["shrink", "separate", "multicalibrate"])
def test_the_table_of_segments_begins_with_the_sum_of_the_scores(kind: Any, method: Any) -> None:
    s, y, g = by_segment(kind)
    cal = cb.SegmentCalibrator(cb.PlattScaling(), segment_method=method)
    if kind == "tally":
        cal.fit_tally(GroupedTally.from_arrays(s, y, groups=g, grid=None), by="model")
    else:
        cal.fit(s, y, {"model": g}, score_type=kind)
    for line in cal.segments_.lines:
        own = g == line.value
        p = {"logit": expit(s[own]), "real": np.full(own.sum(), np.nan)}.get(kind, s[own])
        assert line.predicted_before == pytest.approx(p.sum(), nan_ok=True, rel=1e-6)
        assert line.predicted_after == pytest.approx(cal.transform(s[own], g[own]).sum(), rel=1e-6)
        by_all = np.nan if method == "separate" else cal.global_.transform(s[own]).sum()
        assert line.predicted_global == pytest.approx(by_all, nan_ok=True, rel=1e-6)


def test_the_lines_of_segments_of_classes_begin_with_the_mean_of_the_scores() -> None:
    rng = np.random.default_rng(2)
    z = 2.0 * rng.normal(size=(3000, 3))
    g = np.where(rng.random(3000) < 0.5, "A", "B")
    y = (z * np.where(g == "A", 0.3, 1.0)[:, None] + rng.gumbel(size=z.shape)).argmax(axis=1)
    for scores in (softmax(z, axis=1), z):
        cal = MulticlassSegmentCalibrator().fit(scores, y, g)
        for line in cal.segments_:
            own = g == line.value
            assert line.before == pytest.approx(softmax(z[own], axis=1).max(axis=1).mean(), rel=1e-5)
            assert line.by_global == pytest.approx(cal.global_.transform(scores[own]).max(axis=1).mean(), rel=1e-5)
            assert line.after == pytest.approx(cal.transform(scores[own], g[own]).max(axis=1).mean(), rel=1e-5)


# ------------------------------------------------------------------------------------------------ Few rows, and a hint


@every("rows", [3, 10, 19, 20, 40])
def test_below_twenty_rows_no_number_of_labels_is_estimated(rows: int) -> None:
    verdict = cb.check(np.resize([0.2, 0.4, 0.6], rows), np.resize([0, 1, 0, 0, 0, 1], rows))
    assert (verdict.status, verdict.more_labels is None) == ("cannot tell", rows < 20)


def test_a_rate_in_training_that_the_labels_suggest_is_called_so() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(-3, 1, 20_000)
    hint = cb.check(expit(z + 3.2), rng.random(20_000) < expit(z)).hints[0]
    assert (hint.code, hint.values["train_rate"]) == ("mean-above-base-rate", pytest.approx(0.6, abs=0.1))


def test_a_note_on_log_odds_says_no_number_that_is_there_already() -> None:
    old, _, y = heaped("W2")
    for scores in (old, np.r_[np.full(199, 0.5), 1.0]):
        verdict = cb.check(scores, y)
        told = [each.values["events"] for each in verdict.notes if each.code == "log-odds-predict"]
        assert all(round(each) != round(verdict.predicted) for each in told)


# ------------------------------------------------------------------------------------------- Constant scores of 0 and 1


@every("score", [0.0, 1.0])
def test_certain_forecasts_that_never_come_true_are_miscalibrated(score: float) -> None:
    verdict = cb.check(np.full(50, score), np.full(50, 1.0 - score))
    assert (verdict.status, cb.check(np.full(50, score), np.full(50, score)).status) == ("miscalibrated", "cannot tell")
    assert "impossible-scores" in {each.code for each in verdict.hints}
    assert str(verdict)
