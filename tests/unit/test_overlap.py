"""Rows that a map was fitted to, known again: the sketch, and what `check(..., calibration=)` makes of it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import worlds

from calibrant.calibration import Calibration
from calibrant.calibrators.binary.isotonic import IsotonicCalibrator
from calibrant.calibrators.binary.scaling import PlattScaling
from calibrant.calibrators.crossfit import crossfit
from calibrant.export.errors import DocumentError
from calibrant.guarantees.overlap import WORDS, Lowest, _agreement, overlap, sketch
from calibrant.maps import IdentityMap
from calibrant.messages import CalibrantWarning, InputError
from calibrant.numerics import Grid, logit
from calibrant.tallies import GroupedTally, Tally
from calibrant.verdict import check
from calibrant.verdict.input.evidence import Unseen, overlap_unknown


def world(n: int = 2000, seed: int = 0) -> worlds.Rows:
    return worlds.inflated(n, seed, power=1.3, shape=(2, 5))


def tally(scores, y, *args, **options) -> Tally:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return Tally.from_arrays(scores, y, *args, **options)


def share(fitted: Tally, judged: Tally) -> float | None:
    """By the sketch alone."""
    found = overlap(sketch(fitted), "", judged)
    return None if found is None else found.share


# ---------------------------------------------------------------------------------------------------------- the sketch


def test_the_sketch_does_not_depend_on_order_or_on_how_rows_were_merged():
    scores, y = world()
    whole = sketch(tally(scores, y))
    assert len(whole) == WORDS == len(set(whole))
    assert whole == sketch(tally(scores[::-1], y[::-1]))
    assert whole == sketch(tally(scores[:700], y[:700]) + tally(scores[700:], y[700:]))


def test_a_merged_sketch_is_made_of_the_parts_lowest_pairs():
    one, other = (tally(*world(300, seed)) for seed in (1, 2))
    parts = [Lowest.of(each, WORDS).mixed for each in (one, other)]
    assert Lowest.of(one + other, WORDS).mixed.tolist() == np.sort(np.concatenate(parts))[:WORDS].tolist()


def test_the_label_is_part_of_the_row():
    scores, y = world()
    assert share(tally(scores, y), tally(scores, y)) == 1.0
    assert share(tally(scores, y), tally(scores, 1 - y)) == 0.0


def test_scores_of_float32_and_log_odds_are_known_again():
    scores, y = world()
    narrow = scores.astype(np.float32)
    assert share(tally(narrow, y), tally(narrow.astype(np.float64), y)) == 1.0
    assert share(tally(logit(scores), y, score_type="logit"), tally(logit(scores), y, score_type="logit")) == 1.0


def test_weights_do_not_hide_rows():
    scores, y = world()
    weights = np.random.default_rng(1).random(len(y)) * 9.0
    assert share(tally(scores, y, weights), tally(scores, y)) == 1.0
    assert share(tally(scores, y), tally(scores, y, weights)) == 1.0


def test_the_share_of_fitted_rows_is_estimated(subtests):
    for old in [0.1, 0.5, 0.9]:
        with subtests.test(old=old):
            fitted = world(3000, 1)
            count = int(old * 3000)
            judged = [np.concatenate([a[:count], b[count:]]) for a, b in zip(fitted, world(3000, 2), strict=True)]
            assert share(tally(*fitted), tally(*judged)) == pytest.approx(old, abs=0.2)


def test_a_fitted_set_inside_a_larger_one_is_found():
    fitted, more = world(400, 1), world(2000, 2)
    judged = [np.concatenate(parts) for parts in zip(fitted, more, strict=True)]
    assert share(tally(*fitted), tally(*judged)) == pytest.approx(1 / 6, abs=0.06)


def test_a_few_common_rows_are_no_overlap():
    """One per cent: a handful of customers who are in both samples."""
    fitted, new = world(3000, 1), world(3000, 2)
    judged = [np.concatenate([a[:30], b[30:]]) for a, b in zip(fitted, new, strict=True)]
    assert share(tally(*fitted), tally(*judged)) == 0.0


def test_heaped_scores_are_not_stored_and_not_judged(subtests):
    for make in [lambda s: s.round(1), lambda s: s.round(2), lambda s: np.full_like(s, 0.8)]:
        with subtests.test(make=make):
            scores, y = world()
            assert sketch(tally(make(scores), y)) == ()
            assert share(tally(scores, y), tally(make(scores), y)) is None


def test_a_heap_among_other_scores_is_no_trouble():
    """Nine rows of ten at exactly 0: one or two pairs of many."""
    scores, y = world(20_000)
    scores[2_000:] = 0.0
    assert share(tally(scores, y), tally(scores, y)) == 1.0
    other, z = world(20_000, 5)
    other[2_000:] = 0.0
    assert share(tally(scores, y), tally(other, z)) == 0.0


def test_rounded_scores_that_meet_by_chance_raise_no_alarm():
    """Four decimals and 1,000 rows: a tenth of the pairs of one sample is in the other."""
    pairs = [(tally(a.round(4), y), tally(b.round(4), z)) for (a, y), (b, z) in
             ((world(1000, 2 * seed), world(1000, 2 * seed + 1)) for seed in range(20))]  # fmt: skip
    assert all(share(one, other) == 0.0 for one, other in pairs)
    assert all(share(one, one) == 1.0 for one, _ in pairs)


def test_grids_tables_and_tiny_tallies_store_nothing():
    scores, y = world()
    assert sketch(tally(scores, y, grid=Grid())) == ()
    assert sketch(Tally.from_table([10, 20], [1, 9], edges=[0.5])) == ()
    assert sketch(tally([0.1, 0.2, 0.3], [0, 1, 0])) == ()
    assert sketch(tally([0.1], [0])) == ()


def test_equal_fingerprints_know_heaped_scores_again_if_there_are_enough_of_them():
    scores, y = world()
    heaped = tally(scores.round(1), y)
    assert overlap((), heaped.fingerprint, heaped).whole
    few = tally([0.1, 0.9] * 10, [0, 1] * 10)
    assert overlap((), few.fingerprint, few) is None


def heaped_world(n: int, seed: int = 0) -> worlds.Rows:
    """Confidences in four words, off by a shift."""
    return worlds.tied([0.2, 0.4, 0.7, 0.9], n, seed, offset=-0.15)


def test_the_chance_that_counts_agree_is_known(subtests):
    for counts, chance in [
        # c(x) = 1 / sqrt(4 pi x - 2); c(1) = 0.3076 against e^-2 I_0(2) = 0.3085
        ([1, 1], 0.3076**2 / 0.2079),
        ([500, 500, 500, 500], 4.02e-6),
        ([19, 19, 19, 19, 19, 19, 18, 18], 1.45e-8),
    ]:
        with subtests.test(counts=counts, chance=chance):
            hits, others = counts[0::2], counts[1::2]
            made = Tally.from_table(
                [a + b for a, b in zip(hits, others, strict=True)], hits, edges=np.arange(1, len(hits)) / 9
            )
            assert _agreement(made) == pytest.approx(chance, rel=0.02)


def test_the_chance_that_counts_agree_is_that_of_a_simulation():
    """40 rows in 4 pairs: c(10)^4 / c(40) = 0.0899^4 / 0.0447 = 0.0015 (of a uniform multinomial)."""
    one, other = np.random.default_rng(0).multinomial(40, [0.25] * 4, (2, 200_000))
    rate = (one == other).all(axis=1).mean()
    made = Tally.from_table([20, 20], [10, 10], edges=[0.5])
    assert _agreement(made) == pytest.approx(rate, rel=0.2)


def test_weights_make_no_agreement_surer_than_rows_do():
    """One score with both labels: of 30 rows 1 and 29 may be the split, which is no evidence; two rows are none."""
    scores, y = [0.3] * 30, [0, 1] * 15
    weighted = tally(scores, y, np.linspace(0.5, 1.5, 30))
    assert _agreement(weighted) == _agreement(Tally.from_table([30], [1], edges=[]))
    assert _agreement(tally([0.3], [1], [2.5])) == 1.0


@pytest.mark.parametrize("n", [150, 2000])
def test_a_map_of_heaped_scores_is_never_called_calibrated_on_its_own_rows(n):
    scores, y = heaped_world(n)
    cal = PlattScaling().fit(scores, y)
    own = check(scores, y, calibration=cal)
    assert own.crossfitted
    stored = check(scores, y, calibration=cal.calibration_)
    assert (stored.in_sample, stored.overlap, stored.status) == (True, 1.0, "cannot tell")
    assert str(stored).startswith("In-sample: the map was fitted to about 100 % of these rows")


def test_where_heaped_rows_cannot_be_known_again_the_verdict_says_so():
    cal = PlattScaling().fit(*heaped_world(2000))
    other = check(*heaped_world(2000, 1), calibration=cal)
    assert other.in_sample is None
    (said,) = [note for note in other.notes if note.code == "overlap-unknown"]
    assert said.values["why"] is Unseen.TIES
    assert str(said) in str(other)
    grid = tally(*world(3000, 2), grid=Grid())
    gridded = check(grid, calibration=PlattScaling().fit(*world(3000, 1)))
    assert gridded.notes[-1] == overlap_unknown(Unseen.GRID)
    assert not any(note.code == "overlap-unknown" for note in check(*heaped_world(2000, 1)).notes)
    said_first = "Judged: the probabilities that the map gives for these scores."
    assert said_first in str(other)
    assert said_first not in str(check(*heaped_world(2000, 1)))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=80))
def test_any_rows_have_a_sketch_or_none_and_meet_themselves_or_abstain(rows):
    scores, y = np.array([s for s, _ in rows]), np.array([int(label) for _, label in rows])
    made = tally(scores, y)
    found = overlap(sketch(made), made.fingerprint, made)
    assert found is None or found.share in (0.0, 1.0)
    assert sketch(made) == sketch(tally(scores[::-1], y[::-1]))


# ------------------------------------------------------------------------------------------------------- the documents


def test_the_sketch_survives_storage_and_old_documents_have_none():
    scores, y = world()
    cal = PlattScaling().fit(scores, y)
    again = Calibration.from_json(cal.calibration_.to_json())
    assert again.provenance == cal.provenance_
    assert again.provenance.overlap(tally(scores, y)).whole
    old = {key: value for key, value in vars(again.provenance).items() if key not in ("sketch", "status")}
    assert type(again.provenance)(**old).sketch == ()
    assert type(again.provenance)(**old).status == "calibrated"


def test_an_unknown_state_is_refused():
    text = PlattScaling().fit(*world()).calibration_.to_json()
    if '"status": "calibrated"' not in text:  # left out when it is the usual one
        text = text.replace('"library":', '"status": "calibrated", "library":')
    with pytest.raises(DocumentError, match="status must be one of"):
        Calibration.from_json(text.replace('"status": "calibrated"', '"status": "perfect"'))


def test_no_score_can_be_read_from_the_words():
    """Words are hashes of 8 bytes; no word holds the bits of a score or of the mixed score."""
    scores, y = world()
    words = set(sketch(tally(scores, y)))
    bits = {each.tobytes().hex() for each in scores} | {each.tobytes()[::-1].hex() for each in scores}
    mixed = {f"{each:016x}" for each in Lowest.of(tally(scores, y), WORDS).mixed.tolist()}
    assert not words & (bits | mixed)


# --------------------------------------------------------------------------------------------------------- the verdict


def test_a_verdict_is_about_the_calibrated_probabilities():
    cal = PlattScaling().fit(*world(3000, 1))
    scores, y = world(3000, 2)
    by_hand = check(cal.transform(scores), y)
    for fitted in (cal, cal.calibration_):
        verdict = check(scores, y, calibration=fitted)
        assert verdict.in_sample is False
        assert (verdict.status, verdict.predicted, verdict.slope) == (by_hand.status, by_hand.predicted, by_hand.slope)
        judged = "  Judged: the probabilities that the map gives for these scores.\n"
        assert str(verdict).replace(judged, "", 1) == str(by_hand)


def test_a_map_without_origin_says_nothing_about_rows():
    scores, y = world()
    verdict = check(scores, y, calibration=IdentityMap())
    assert verdict.in_sample is None
    assert verdict.caution == ""
    assert str(verdict) == str(check(scores, y))


def test_a_calibrator_judged_on_its_own_rows_is_cross_fitted():
    scores, y = world()
    cal = IsotonicCalibrator().fit(scores, y)
    verdict = check(scores, y, calibration=cal)
    assert verdict.in_sample is True
    assert verdict.crossfitted
    assert str(verdict).startswith(
        "In-sample: the map was fitted to these rows, so each was evaluated with a map fitted"
    )
    order = np.lexsort((y, scores))
    honest = check(crossfit(IsotonicCalibrator(), scores[order], y[order]), y[order])
    assert verdict.predicted == pytest.approx(honest.predicted, rel=1e-12)
    assert verdict.slope.value < check(cal.transform(scores), y).slope.value  # in-sample looks better than it is


def test_the_cross_fitted_verdict_does_not_depend_on_the_order_of_rows():
    scores, y = world(500)
    cal = PlattScaling().fit(scores, y)
    assert str(check(scores, y, calibration=cal)) == str(check(scores[::-1], y[::-1], calibration=cal))


def test_a_stored_map_judged_on_its_own_rows_is_never_called_calibrated():
    scores, y = world(20_000)
    stored = Calibration.from_json(PlattScaling().fit(scores, y).calibration_.to_json())
    assert check(stored.transform(scores), y).status == "calibrated"
    verdict = check(scores, y, calibration=stored)
    assert verdict.status == "cannot tell"
    assert verdict.more_labels is None
    assert str(verdict).splitlines()[:2] == [
        "In-sample: the map was fitted to about 100 % of these rows, so it looks better than it is.",
        "CANNOT TELL YET: the map was fitted to these rows; evaluate it on held-out rows.",
    ]
    assert verdict.to_dict()["in_sample"] is True
    assert verdict.to_dict()["caution"].startswith("In-sample")
    assert "In-sample" in verdict._repr_html_()
    assert verdict.__rich__().splitlines()[1].startswith("[bold yellow]CANNOT TELL YET")


def test_a_map_that_is_off_on_its_own_rows_is_called_so():
    scores, y = world(20_000)
    stored = Calibration(IdentityMap(), PlattScaling().fit(scores, y).provenance_)
    verdict = check(scores, y, calibration=stored)
    assert verdict.status == "miscalibrated"
    assert verdict.in_sample is True


def test_some_new_rows_do_not_hide_the_old_ones():
    fitted, new = world(2000, 1), world(1000, 2)
    scores, y = (np.concatenate(parts) for parts in zip(fitted, new, strict=True))
    verdict = check(scores, y, calibration=PlattScaling().fit(*fitted))
    assert verdict.in_sample is True
    assert not verdict.crossfitted
    assert verdict.overlap == pytest.approx(2 / 3, abs=0.15)


def test_time_and_groups_set_rows_apart_in_the_cross_fit():
    scores, y = world()
    cal = PlattScaling().fit(scores, y)
    forward = check(scores, y, calibration=cal, time=np.arange(len(y)))
    assert forward.crossfitted
    assert forward.rows < len(y)  # the first stretch has no past
    left_out = {note.code: note.values for note in forward.notes}["rows-without-probability"]
    assert left_out == {"left_out": len(y) - forward.rows, "n": len(y)}
    grouped = check(scores, y, calibration=cal, groups=np.arange(len(y)) // 4, by=np.arange(len(y)) % 3)
    assert grouped.crossfitted
    assert grouped.rows == len(y)


def test_rows_that_cannot_be_set_apart_are_flagged():
    scores, y = np.linspace(0.1, 0.9, 40), np.zeros(40, dtype=int)
    y[7] = 1
    verdict = check(scores, y, calibration=PlattScaling().fit(scores, y))
    assert verdict.in_sample is True
    assert not verdict.crossfitted
    assert verdict.status != "calibrated"


def test_tallies_are_judged_through_a_calibration_too():
    scores, y = world(4000)
    cal = PlattScaling().fit(scores, y)
    exact = tally(scores, y)
    own = check(exact, calibration=cal)
    assert own.in_sample is True
    assert own.crossfitted
    assert not check(exact, calibration=cal.calibration_).crossfitted
    new = tally(*world(4000, 3))
    verdict, by_hand = check(new, calibration=cal), check(cal.transform(new.scores), new.events)
    assert verdict.in_sample is False
    assert (verdict.predicted, verdict.slope.value) == pytest.approx((by_hand.predicted, by_hand.slope.value))
    gridded = check(new.coarsen(10), calibration=cal)
    assert gridded.in_sample is None
    assert gridded.slope.value == pytest.approx(by_hand.slope.value, abs=1e-4)
    parts = check(GroupedTally({"a": exact, "b": new}), calibration=cal)
    assert parts.in_sample is True
    assert parts.overlap == pytest.approx(0.5, abs=0.15)
    assert len(parts.segments) == 2


def test_log_odds_are_judged_as_the_calibration_takes_them():
    scores, y = world(3000, 1)
    cal = PlattScaling().fit(logit(scores), y, score_type="logit")
    verdict = check(logit(world(3000, 2)[0]), world(3000, 2)[1], calibration=cal)
    assert verdict.in_sample is False
    with pytest.raises(
        InputError, match="score_type='probability' does not match the calibration, which takes 'logit'"
    ):
        check(scores, y, calibration=cal, score_type="probability")
    with pytest.raises(InputError, match="scores is a tally of probability scores, and the calibration takes logit"):
        check(tally(scores, y), calibration=cal)


def test_frames_are_judged_through_a_calibration_too():
    pd = pytest.importorskip("pandas")
    scores, y = world()
    cal = PlattScaling().fit(scores, y)
    verdict = check(pd.DataFrame({"s": scores, "y": y}), score="s", label="y", calibration=cal)
    assert verdict.crossfitted
    assert verdict.predicted == check(scores, y, calibration=cal).predicted


def test_a_large_frame_is_mapped_where_it_is_and_cannot_see_fitted_rows():
    pl = pytest.importorskip("polars")
    scores, y = world(140_000)
    cal = PlattScaling().fit(scores, y)
    verdict = check(pl.DataFrame({"s": scores, "y": y}).lazy(), score="s", label="y", calibration=cal)
    assert verdict.in_sample is None
    assert verdict.notes[-1] == overlap_unknown(Unseen.FRAME)
    assert verdict.predicted == pytest.approx(cal.transform(scores).sum(), rel=1e-6)


def test_what_is_no_calibration_is_refused():
    with pytest.raises(InputError, match="calibration must be a Calibration, a map or a fitted calibrator, got str"):
        check(*world(), calibration="map.json")
