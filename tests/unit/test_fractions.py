"""Fractional labels: a row counts as an event and a non-event that share its weight."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import calibrant as cb
from calibrant import calibrators
from calibrant.calibrators.binary.base import BinaryCalibrator
from calibrant.guarantees.no_certificate import NoCertificateCode
from calibrant.messages import InputError

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")

rng = np.random.default_rng(4)
SCORES = rng.random(300)
SHARES = rng.integers(0, 6, 300) / 5  # five annotators

ONE_SCORE = [
    each
    for name in calibrators.__all__
    if isinstance(each := getattr(calibrators, name), type)
    and issubclass(each, BinaryCalibrator)
    and each._fit_map is not BinaryCalibrator._fit_map
]


def test_a_fraction_is_five_annotators(subtests: pytest.Subtests) -> None:
    """Maps of maximum likelihood and rates of bins are those of five rows with labels 0 and 1, each of weight 1/5."""
    votes = (np.arange(5) < np.rint(5 * SHARES)[:, None]).astype(int)
    for cal in (cb.PlattScaling(), cb.BetaScaling(), cb.HistogramBinning(4, strategy="width")):
        with subtests.test(type(cal).__name__):
            found = cal.fit(SCORES, SHARES, label_type="fraction").transform([0.1, 0.5, 0.9])
            expected = cal.fit(np.repeat(SCORES, 5), votes.ravel(), np.full(1500, 0.2)).transform([0.1, 0.5, 0.9])
            assert found == pytest.approx(expected, abs=1e-6)


def test_by_hand() -> None:
    cal = cb.HistogramBinning(1, strategy="width").fit([0.2, 0.4], [0.25, 1.0], label_type="fraction")
    assert cal.transform([0.3]) == pytest.approx([0.625])
    shift = calibrators.LogitShift().fit([0.5, 0.5], [0.2, 0.4], label_type="fraction")
    assert shift.transform([0.5]) == pytest.approx([0.3])


def test_labels_of_0_and_1_may_be_passed_as_fractions() -> None:
    y = (SHARES > 0.5).astype(float)
    found = cb.PlattScaling().fit(SCORES, y, label_type="fraction").transform(SCORES)
    assert found == pytest.approx(cb.PlattScaling().fit(SCORES, y).transform(SCORES), abs=1e-9)


@pytest.mark.parametrize("kind", ONE_SCORE, ids=lambda kind: kind.__name__)
def test_every_calibrator_of_one_score_takes_them_without_a_certificate(kind: type[BinaryCalibrator]) -> None:
    cal = kind().fit(SCORES, SHARES, label_type="fraction")
    assert 0.0 <= float(cal.transform([0.5])[0]) <= 1.0
    assert cal.certificate().code is NoCertificateCode.FRACTIONAL_LABELS
    assert "labels-as-fractions" in {note.code for note in cal.notes_}
    assert "fractions" in str(cal)


def test_frames_weights_groups_and_documents(tmp_path) -> None:
    frame = pd.DataFrame({"s": SCORES, "q": SHARES, "w": rng.random(300), "g": np.arange(300) // 3})
    named = {"score": "s", "label": "q", "sample_weight": "w", "groups": "g", "label_type": "fraction"}
    cal = cb.PlattScaling().fit(frame, **named)
    alike = cb.PlattScaling().fit(SCORES, SHARES, frame["w"], groups=frame["g"], label_type="fraction")
    assert cal.map_ == alike.map_
    cal.save(tmp_path / "map.json")
    assert cb.load(tmp_path / "map.json").certificate.code is NoCertificateCode.FRACTIONAL_LABELS


def test_halves_of_a_row_share_a_fold() -> None:
    cal = cb.calibrate(SCORES, SHARES, label_type="fraction")
    assert cal.provenance_.weight_type == "fractional-labels"
    assert cal.certificate().code is NoCertificateCode.FRACTIONAL_LABELS


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: cb.PlattScaling().fit(SCORES, SHARES), "label_type='fraction'"),
        (lambda: cb.check(SCORES, SHARES), "label_type='fraction'"),
        (lambda: cb.PlattScaling().fit(SCORES, 2 * SHARES, label_type="fraction"), r"y is .* at row"),
        (lambda: cb.PlattScaling().fit(SCORES, SHARES, label_type="share"), "label_type"),
        (lambda: cb.PlattScaling().fit(SCORES, SHARES, label_type="fraction", positive=1), "positive"),
        (
            lambda: cb.PlattScaling().fit(SCORES, SHARES, np.ones(300), label_type="fraction", weight_type="frequency"),
            "weight_type",
        ),
        (
            lambda: cb.PlattScaling().fit(SCORES, SHARES, np.ones(300), label_type="fraction", weight_type="by-class"),
            "label_type",
        ),
        (lambda: cb.calibrate(SCORES, SHARES, by=np.arange(300) % 2, label_type="fraction"), "label_type"),
        (lambda: cb.calibrate(SCORES, SHARES, guarantee=(0.2, 0.1), label_type="fraction"), "fractions"),
        (lambda: cb.calibrate(np.eye(3)[[0, 1, 2] * 9], [0, 1, 2] * 9, label_type="fraction"), "label_type"),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(call, match: str) -> None:
    with pytest.raises(InputError, match=match):
        call()


def test_advice_about_fractions_can_be_followed() -> None:
    """Labels 0 and 1 read as fractions give integer weights, but counts are refused with fractions."""
    fitted = cb.PlattScaling().fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1], label_type="fraction")
    assert not any("weight_type" in str(each) for each in fitted.notes_)
    with pytest.raises(InputError, match="taken only by functions with the argument label_type"):
        cb.metrics.desiderata(SCORES, SHARES)
    assert cb.metrics.brier(SCORES, SHARES, label_type="fraction").value >= 0.0
