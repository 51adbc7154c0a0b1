"""Segments, groups, time, guarantees, matrices and several labels in one call of calibrate, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from tests import worlds

from calibrant import Calibration, InputError, calibrate
from calibrant.calibrators import AutoCalibrator, SegmentCalibrator
from calibrant.fits.multiclass.segments import fit_correction
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.planning import TooFewLabels
from calibrant.maps import GroupedSoftmaxMap, SoftmaxMap
from calibrant.multiclass import MulticlassSegmentCalibrator, MultilabelCalibrator
from calibrant.tallies import GroupedTally, Tally

LEVELS = {"east": -0.8, "north": 0.0, "west": 1.0}


def classes_by_site(n: int = 1500, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Calibrated class probabilities, except that class 0 is more frequent in the north."""
    rng = np.random.default_rng(seed)
    p, site = rng.dirichlet([1, 1, 1], n), rng.choice(["north", "south"], n)
    z = np.log(p) + np.where((site == "north")[:, None], [1.5, 0.0, 0.0], 0.0)
    return p, (z + rng.gumbel(size=z.shape)).argmax(axis=1), site


# ------------------------------------------------------------------------------------------------------- one score


@pytest.mark.parametrize("method", ["shrink", pytest.param("multicalibrate", marks=pytest.mark.full), "separate"])
def test_segments_with_groups_and_time(method, subtests):
    scores, y, region = worlds.segments(LEVELS, n=600, seed=1)
    rng = np.random.default_rng(2)
    groups, time = rng.integers(0, 200, 600), np.arange(600)
    base = AutoCalibrator(["platt"])
    alone = SegmentCalibrator(base, segment_method=method).fit(scores, y, region)
    for sides, sampling in [
        ({"groups": groups}, "grouped"),
        ({"time": time}, "time-ordered"),
        ({"groups": groups, "time": time}, "grouped"),
    ]:
        with subtests.test(sides=list(sides)):
            cal = SegmentCalibrator(base, segment_method=method).fit(scores, y, region, **sides)
            assert cal.provenance_.sampling == sampling
            assert isinstance(cal.certificate(), NoCertificate)
            assert cal.change_.value < 0.0
            p = cal.transform(scores, region)
            np.testing.assert_allclose(p, alone.transform(scores, region), atol=0.1)


def test_a_group_in_all_rows_of_a_segment_widens_the_interval():
    """Each row twenty times: by rows the gain is nearly certain, by groups it is as uncertain as with the rows once."""
    scores, y, region = worlds.segments(LEVELS, n=100, seed=3)
    rows = np.repeat(np.arange(100), 20)
    base = AutoCalibrator(["platt"])
    by_rows = SegmentCalibrator(base).fit(scores[rows], y[rows], region[rows])
    by_groups = SegmentCalibrator(base).fit(scores[rows], y[rows], region[rows], groups=rows)
    widths = [cal.gain_.high - cal.gain_.low for cal in (by_rows, by_groups)]
    assert widths[1] > 3 * widths[0]


def test_a_frame_names_groups_and_time_too():
    scores, y, region = worlds.segments(LEVELS, n=600, seed=1)
    frame = pd.DataFrame({"p": scores, "y": y, "region": region, "id": np.arange(600) // 3, "day": np.arange(600)})
    named = calibrate(frame, score="p", label="y", by="region", groups="id", time="day", candidates=["platt"])
    passed = calibrate(
        scores,
        y,
        by={"region": region},
        groups=frame.id,
        time=frame.day,
        candidates=["platt"],
        score_type="probability",
    )
    assert named.map_ == passed.map_
    assert named.change_.value == passed.change_.value


def test_rows_of_weight_zero_change_nothing_in_segments():
    scores, y, region = worlds.segments(LEVELS, n=600, seed=4)
    weights = np.ones(600, dtype=int)
    weights[::7] = 0
    kept = weights > 0
    sides = {"groups": np.arange(600) % 50}
    options = {"candidates": ["platt"], "weight_type": "frequency"}
    one = calibrate(scores, y, weights, by=region, **sides, **options)
    other = calibrate(scores[kept], y[kept], by=region[kept], groups=sides["groups"][kept], candidates=["platt"])
    assert one.map_ == other.map_


def test_a_guarantee_by_segment_is_certified_for_each_at_its_share_of_alpha():
    scores, y, region = worlds.segments(LEVELS, n=6000, seed=5)
    small = np.where(np.arange(6000) < 40, "small", region)
    cal = calibrate(scores, y, by=small, guarantee=(0.15, 0.1))
    assert cal.segment_method == "separate"
    assert cal.uncalibrated_ == ("small",)
    assert np.isnan(cal.transform([0.3], ["small"])).all()
    assert set(cal.certificates_) == set(LEVELS)
    for certificate in cal.certificates_.values():
        assert isinstance(certificate, Certificate)
        assert certificate.alpha == pytest.approx(0.1 / 4)
    assert "certificates_" in str(cal.certificate())
    assert str(cal.certificate()).startswith("Certificates by segment: each calibrated segment has a map")
    assert "No certificate" not in str(cal)


def test_a_guarantee_by_segment_is_refused_without_independent_rows(subtests):
    scores, y, region = worlds.segments(LEVELS, n=1200, seed=5)
    for sides, words in [
        ({"groups": np.arange(1200) // 2}, "guarantee cannot be met: rows of the same group"),
        ({"time": np.arange(1200)}, "guarantee cannot be met: rows ordered in time"),
        ({"guarantee": (0.01, 0.1)}, "cannot be met in any segment of 'segment'"),
        ({"segment_method": "multicalibrate"}, "calibrator has a guarantee, which does not survive"),
    ]:
        with subtests.test(words=words), pytest.raises(InputError, match=words):
            calibrate(scores, y, **{"by": region, "guarantee": (0.25, 0.1), **sides})


def test_the_epsilon_that_is_named_for_segments_is_met_by_the_best_of_them():
    scores, y, region = worlds.segments(LEVELS, n=1200, seed=5)
    with pytest.raises(TooFewLabels) as error:
        calibrate(scores, y, by=region, guarantee=(0.01, 0.1))
    wider, alpha = error.value.wider.value
    cal = calibrate(scores, y, by=region, guarantee=(wider, alpha))
    assert len(cal.certificates_) == 1
    assert 0.99 * wider < next(iter(cal.certificates_.values())).epsilon <= wider


# ------------------------------------------------------------------------------------------------ tallies by segment


@pytest.mark.parametrize("method", ["shrink", pytest.param("multicalibrate", marks=pytest.mark.full), "separate"])
def test_tallies_by_segment_give_the_map_of_the_rows(method):
    scores, y, region = worlds.segments(LEVELS, n=2000, seed=6)
    scores = scores.round(3)
    counts = GroupedTally.from_arrays(scores, y, groups=region, grid=None, score_type="probability")
    options = {"segment_method": method, "candidates": ["platt"]}
    one = calibrate(counts, by="region", **options)
    other = calibrate(scores, y, by={"region": region}, score_type="probability", **options)
    np.testing.assert_allclose(one.transform(scores, region), other.transform(scores, region), rtol=1e-9)
    assert one.columns_ == ("region",)
    assert len(one.segments_) == 3


def test_tallies_on_a_grid_and_by_several_columns():
    scores, y, region = worlds.segments(LEVELS, n=4000, seed=7)
    kind = np.where(np.arange(4000) % 2, "new", "old")
    counts = GroupedTally.from_arrays(scores, y, groups=[f"{a}/{b}" for a, b in zip(region, kind, strict=True)])
    counts = GroupedTally({tuple(key.split("/")): each for key, each in counts.items()})
    cal = calibrate(counts, by=["region", "kind"], candidates=["platt"])
    exact = calibrate(scores, y, by={"region": region, "kind": kind}, candidates=["platt"])
    there = {"region": region, "kind": kind}
    np.testing.assert_allclose(cal.transform(scores, by=there), exact.transform(scores, by=there), atol=0.01)
    with pytest.raises(InputError, match="by must name each column of the segments, which are 2, got 1"):
        calibrate(counts, by="region")


def test_weighted_tallies_count_by_their_effective_size():
    scores, y, region = worlds.segments(LEVELS, n=2000, seed=8)
    weights = np.full(2000, 3.0)
    counts = GroupedTally.from_arrays(scores, y, weights, groups=region, grid=None)
    cal = calibrate(counts, by="region", candidates=["platt"])
    assert sum(line.rows for line in cal.segments_.lines) == pytest.approx(2000)


# -------------------------------------------------------------------------------------------------- a matrix by segment


def test_a_segment_that_differs_gets_a_map_of_its_own():
    p, y, site = classes_by_site()
    cal = calibrate(p, y, by=pd.Series(site, name="site"), candidates=["temperature"])
    assert isinstance(cal, MulticlassSegmentCalibrator)
    assert isinstance(cal.map_, GroupedSoftmaxMap)
    assert cal.map_.columns == ("site",)
    assert cal.gain_.high < 0.0
    north, south, other = cal.transform([[1 / 3] * 3] * 3, by=["north", "south", "elsewhere"])
    assert north[0] > 0.55
    assert south[0] == pytest.approx(1 / 3, abs=0.05)
    np.testing.assert_array_equal(other, cal.global_.transform([[1 / 3] * 3])[0])
    lines = {line.value: line for line in cal.segments_}
    assert lines["north"].after == pytest.approx(lines["north"].accuracy, abs=0.03)
    assert "By site: a slope and intercepts for each segment" in str(cal)


def test_segments_that_do_not_differ_use_the_global_map():
    p, y = worlds.classes(1200, 3, seed=4, tilt=0.5)
    site = np.random.default_rng(0).choice(list("abcdef"), 1200)
    cal = calibrate(p, y, by=site, candidates=["temperature"])
    assert isinstance(cal.map_, SoftmaxMap)
    np.testing.assert_array_equal(cal.transform(p, by=site), cal.global_.transform(p))
    np.testing.assert_array_equal(cal.transform(p), cal.global_.transform(p))


def test_a_stored_map_by_segment_finds_its_columns_in_a_frame(tmp_path):
    pytest.importorskip("onnx")
    p, y, site = classes_by_site(900)
    names = np.array(["a", "b", "c"])
    frame = pd.DataFrame(p, columns=names)
    cal = calibrate(frame, names[y], by=pd.Series(site, name="site"), candidates=["temperature"])
    cal.save(tmp_path / "map.json")
    back = Calibration.from_json((tmp_path / "map.json").read_text())
    expected = cal.transform(frame, by=site)
    pd.testing.assert_frame_equal(back.transform(frame.assign(site=site)), expected)
    np.testing.assert_array_equal(back.predict(frame.assign(site=site)), cal.predict(frame, site))
    with pytest.raises(InputError, match="by is missing"):
        back.transform(p)
    proof = cal.export_sql(tmp_path / "map.sql", dialect="sqlite")
    assert proof.scores > 1000
    assert cal.to_onnx().graph.input[1].name == "site"


def test_a_matrix_by_segment_with_groups_time_and_weights(subtests):
    p, y, site = classes_by_site(800, seed=2)
    groups, time = np.random.default_rng(1).integers(0, 300, 800), np.arange(800)
    for sides in ({"groups": groups}, {"time": time}, {"groups": groups, "time": time}):
        with subtests.test(sides=list(sides)):
            cal = calibrate(p, y, by=site, candidates=["temperature"], **sides)
            assert isinstance(cal.map_, GroupedSoftmaxMap)
            assert isinstance(cal.certificate(), NoCertificate)
    counts = np.random.default_rng(2).integers(0, 3, 800)
    one = calibrate(p, y, counts, by=site, weight_type="frequency", candidates=["temperature"])
    rows = np.repeat(np.arange(800), counts)
    other = calibrate(p[rows], y[rows], by=site[rows], candidates=["temperature"])
    np.testing.assert_allclose(one.transform(p, by=site), other.transform(p, by=site), atol=1e-4)


def test_a_correction_is_the_minimum_of_its_penalized_loss():
    rng = np.random.default_rng(5)
    u = np.log(rng.dirichlet([1, 2, 3], 60))
    y, w = rng.integers(0, 3, 60), rng.random(60)

    def loss(point: np.ndarray) -> float:
        q = softmax((1 + point[0]) * u + point[1:], axis=1)
        return float(-(w * np.log(q[np.arange(60), y])).sum() + 2.0 * (point**2).sum())

    found = fit_correction(u, y, w, 4.0)
    for move in np.eye(4) * 1e-3:
        assert loss(found) < min(loss(found + move), loss(found - move))


def test_what_a_matrix_does_not_take_names_an_alternative(subtests):
    p, y, site = classes_by_site(300)
    for options, words in [
        ({"by": "site"}, "names need a frame"),
        ({"by": {"a": site, "b": site}}, "join them into one column"),
        ({"by": site, "segment_method": "separate"}, "leave it out: segments of a matrix are shrunk"),
        ({"source": site}, "calibrate the rows of each source separately"),
        ({"by": site, "guarantee": (0.1, 0.1)}, "use TopLabelHistogramBinning"),
        ({"by": site, "source": site}, "join both into one column"),
    ]:
        with subtests.test(words=words), pytest.raises(InputError, match=words):
            calibrate(p, y, **options)
    with pytest.raises(InputError, match="pass a GroupedTally"):
        calibrate(Tally.from_arrays(p[:, 0], y == 0), by=site)


# ------------------------------------------------------------------------------------------------------ several labels


def test_every_label_is_a_binary_problem_with_one_printout(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.random((800, 3))
    y = (rng.random((800, 3)) < np.column_stack([p[:, 0] ** 2, p[:, 1], np.sqrt(p[:, 2])])).astype(int)
    frame, target = (pd.DataFrame(each, columns=["cat", "dog", "fox"]) for each in (p, y))
    cal = calibrate(frame, target, candidates=["platt"])
    assert isinstance(cal, MultilabelCalibrator)
    for place, name in enumerate(frame):
        alone = calibrate(p[:, place], y[:, place], candidates=["platt"], score_type="probability")
        assert cal.labels_[name].map_ == alone.map_
    assert [line.split(":")[0].strip() for line in str(cal).splitlines()[1:4]] == ["cat", "dog", "fox"]
    cal.save(tmp_path / "map.json")
    back = Calibration.from_json((tmp_path / "map.json").read_text())
    pd.testing.assert_frame_equal(back.transform(frame), cal.transform(frame))


def test_several_labels_with_weights_groups_and_time():
    rng = np.random.default_rng(1)
    p = rng.random((400, 2))
    y = rng.random((400, 2)) < p**2
    cal = calibrate(p, y, rng.random(400), groups=np.arange(400) % 90, time=np.arange(400), candidates=["platt"])
    assert cal.provenance_.sampling == "grouped"
    assert cal.provenance_.weight_type == "importance"
    for options, words in [
        ({"by": np.arange(400) % 2}, "calibrate each column of scores and labels with by"),
        ({"guarantee": (0.1, 0.1)}, "calibrate each column of scores and labels separately"),
        ({"score_type": "logit"}, "pass probabilities"),
    ]:
        with pytest.raises(InputError, match=words):
            calibrate(p, y, **options)
