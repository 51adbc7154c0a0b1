"""Certificates and refusals as values: what they refuse to hold, what they print, who gets one; and plans."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from tests import worlds

from calibrant.calibration import Calibration, load
from calibrant.calibrators.binary.binning import HistogramBinning
from calibrant.calibrators.binary.scaling import PlattScaling
from calibrant.calibrators.multiclass.binning import ClasswiseHistogramBinning, TopLabelHistogramBinning
from calibrant.calibrators.multiclass.hierarchy import PathCalibrator
from calibrant.calibrators.multiclass.simplex import SimplexBinning
from calibrant.guarantees.about import ScoreBins
from calibrant.guarantees.bounds import BOUNDS
from calibrant.guarantees.certificate import Certificate, Coverage
from calibrant.guarantees.issuing import Bins, issue
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode, gate
from calibrant.guarantees.origins import Assumption, BinRule
from calibrant.guarantees.planning import Scheme, plan
from calibrant.guarantees.provenance import Provenance, Sampling
from calibrant.maps import IdentityMap, StepMap
from calibrant.messages import InputError
from calibrant.tallies import Tally

NO, YES = False, True


def make(**changes: Any) -> Certificate:
    """Three bins of 40, none and 60 rows, and an uncovered edge before the last."""
    bins: dict[str, Any] = {
        "knots": np.array([0.2, 0.5, 0.6]),
        "uncovered": np.array([NO, NO, YES, NO]),
        "uncovered_rows": 3,
        "rule": BinRule.TABLE,
    }
    fields: dict[str, Any] = {
        "epsilon": 0.25,
        "alpha": 0.1,
        "coverage": "simultaneous",
        "interval": "clopper-pearson",
        "score_type": "probability",
        "n": 100,
        "outputs": np.array([0.25, 0.5, 0.75, 0.75]),
        "lower": np.array([0.125, 0.0, 0.0, 0.5]),
        "upper": np.array([0.375, 1.0, 1.0, 0.875]),
        "rows": np.array([40, 0, 0, 60]),
        "events": np.array([10, 0, 0, 45]),
        "assumptions": (Assumption.INDEPENDENT, Assumption.BINS_BEFORE),
        "reference": "here",
    }
    about = ScoreBins(**(bins | {name: changes.pop(name) for name in set(bins) & set(changes)}))
    return Certificate(about=about, **(fields | changes))


# ------------------------------------------------------------------------------------------------ what it may not hold


def test_a_certificate_of_consistent_numbers():
    certificate = make()
    assert certificate
    assert certificate.covered.tolist() == [YES, NO, NO, YES]
    assert certificate.half_widths.tolist() == [0.125, 0.5, 0.75, 0.25]


CONTRADICTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "a knot too few": ({"knots": np.array([0.2, 0.5])}, "knots"),
    "a knot too many": ({"knots": np.array([0.2, 0.5, 0.6, 0.7])}, "knots"),
    "knots repeat": ({"knots": np.array([0.2, 0.2, 0.6])}, "increasing"),
    "knots fall": ({"knots": np.array([0.5, 0.2, 0.6])}, "increasing"),
    "a knot is missing": ({"knots": np.array([0.2, np.nan, 0.6])}, "increasing"),
    "lower too short": ({"lower": np.array([0.125, 0.0, 0.0])}, "every column"),
    "upper too long": ({"upper": np.ones(5)}, "every column"),
    "rows too short": ({"rows": np.array([40, 60])}, "every column"),
    "events too short": ({"events": np.array([10, 45])}, "every column"),
    "uncovered too short": ({"uncovered": np.array([NO])}, "every column"),
    "below 0": ({"lower": np.array([-0.1, 0.0, 0.0, 0.5])}, "intervals"),
    "above 1": ({"upper": np.array([0.375, 1.0, 1.0, 1.125])}, "intervals"),
    "lower <= upper": ({"lower": np.array([0.5, 0.0, 0.0, 0.5])}, "intervals"),
    "no number": ({"lower": np.array([np.nan, 0.0, 0.0, 0.5])}, "intervals"),
    "an empty bin outside": ({"upper": np.array([0.375, 2.0, 1.0, 0.875])}, "intervals"),
    "more events than rows": ({"events": np.array([41, 0, 0, 45])}, "events"),
    "negative events": ({"events": np.array([-1, 0, 0, 45])}, "events"),
    "events without rows": ({"events": np.array([10, 1, 0, 45])}, "events"),
    "uncovered with rows": ({"uncovered": np.array([YES, NO, YES, NO])}, "uncovered"),
    "epsilon too small": ({"epsilon": 0.2}, "epsilon"),
    "epsilon too large": ({"epsilon": 0.3}, "epsilon"),
    "epsilon no number": ({"epsilon": np.nan}, "epsilon"),
    "epsilon of an empty bin": ({"epsilon": 0.75}, "epsilon"),
    "epsilon one ulp off": ({"epsilon": np.nextafter(0.25, 0)}, "epsilon"),
    "an infinite knot": ({"knots": np.array([0.2, 0.5, np.inf])}, "finite"),
    "an output above 1": ({"outputs": np.array([0.25, 0.5, 0.75, 1.5])}, "outputs"),
    "an unknown bound": ({"interval": "wilson"}, "unknown .*interval 'wilson'"),
    "an unknown mode": ({"coverage": "joint"}, "unknown coverage 'joint'"),
    "uncovered rows below 0": ({"uncovered_rows": -1}, "uncovered_rows"),
    "n too large": ({"n": 103}, "n and epsilon"),
    "no rows": ({"rows": np.zeros(4, int), "events": np.zeros(4, int), "n": 0}, "at least one must be covered"),
    "alpha 0": ({"alpha": 0.0}, "alpha"),
    "alpha 1": ({"alpha": 1.0}, "alpha"),
    "alpha no number": ({"alpha": np.nan}, "alpha"),
}


def test_contradictions_are_refused(subtests):
    for name, (changes, word) in CONTRADICTIONS.items():
        with subtests.test(name), pytest.raises(ValueError, match=word):
            make(**changes)


def test_it_goes_with_its_own_map():
    certificate = make()
    own = StepMap([0.2, 0.5], [0.25, 0.5, 0.75])  # no knot between equal values
    assert Calibration(own, None, certificate).map == own
    for other in (
        StepMap([0.2, 0.5, 0.6], [0.25, 0.5, 0.75, 0.75]),
        StepMap([0.2, 0.5], [0.25, 0.5, 0.76]),
        StepMap([0.2, 0.51], [0.25, 0.5, 0.75]),
        IdentityMap(),
    ):
        with pytest.raises(ValueError, match="not about this map"):
            Calibration(other, None, certificate)
        assert Calibration(other, None, NoCertificate(NoCertificateCode.SELECTED, "no")).certificate == NoCertificate(
            NoCertificateCode.SELECTED, "no"
        )


# ------------------------------------------------------------------------------------------------------- what it prints


def test_a_certificate_prints_one_line_for_each_question():
    assert str(make()).splitlines() == [
        "With confidence 90 %, in each of the 2 bins the true event rate differs from the calibrated probability by "
        "at most 0.250.",
        "  Basis: 100 rows, clopper-pearson intervals; here.",
        "  Not covered: scores on a bin edge (1 edge, 3 of 103 rows).",
        "  Not covered: 1 bin without a row.",
        "  Assumes: the rows are independent draws from the population that the map will be applied to, and were not "
        "used to train or tune the model; the bins were chosen before these rows were seen.",
    ]


def test_the_promise_is_rounded_against_the_promiser():
    rounded = make(epsilon=0.2501, lower=np.array([0.125, 0, 0, 0.75 - 0.2501]))
    assert "at most 0.251." in str(replace(rounded))


def test_many_uncovered_rows_come_with_advice():
    advice = 'Use bins_from="split" or fewer bins to cover them.'
    assert advice not in str(make(uncovered_rows=5))
    assert advice in str(make(uncovered_rows=6)).splitlines()[2]


def test_a_marginal_promise_speaks_of_a_new_row():
    text = str(make(coverage="marginal", alpha=0.01))
    assert text.startswith("For a new row, with probability at least 99 %, the true event rate of its bin differs")
    with pytest.raises(InputError, match="marginal"):
        make(coverage="marginal").check([0.1, 0.9], [0, 1])


def test_one_bin_without_edges():
    one = make(
        knots=np.zeros(0),
        **{name: np.array([value]) for name, value in {"outputs": 0.25, "lower": 0.0, "upper": 0.5}.items()},
        rows=np.array([100]),
        events=np.array([25]),
        uncovered=np.array([NO]),
        uncovered_rows=0,
    )
    assert "in the one bin" in str(one)
    assert "Not covered" not in str(one)


# ----------------------------------------------------------------------------------------------------- against new rows


def test_rows_on_edges_and_in_empty_bins_say_nothing():
    check = make().check(np.repeat([0.1, 0.3, 0.55, 0.9], 50), np.tile(np.arange(50) < 40, 4))
    assert check.rows.tolist() == [50, 0, 0, 50]
    assert check.p_values[1:3].tolist() == [1.0, 1.0]
    assert check.broken.tolist() == [0]
    assert not check
    assert "bin 0" in str(check)


# ------------------------------------------------------------------------------------------------------- who gets one


def provenance(**changes: Any) -> Provenance:
    tally = Tally.from_arrays([0.1, 0.4, 0.8], [0, 1, 1])
    return replace(Provenance.of("HistogramBinning", tally), **changes)


def bins(**changes: Any) -> Bins:
    fields: dict[str, Any] = {
        "knots": np.array([0.2, 0.5, 0.6]),
        "outputs": np.array([0.25, 0.5, 0.75, 0.75]),
        "n": np.array([40, 0, 0, 60]),
        "events": np.array([10, 0, 0, 45]),
        "rule": BinRule.TABLE,
        "source": "a book, here",
        "uncovered": np.array([NO, NO, YES, NO]),
        "uncovered_rows": 3,
    }
    return Bins(**(fields | changes))


def test_only_independent_rows_pass_the_gate(subtests):
    for sampling in get_args(Sampling):
        with subtests.test(sampling=sampling):
            answer = gate(provenance(sampling=sampling))
            assert (answer is None) == (sampling == "independent")
            issued = issue(bins(), provenance(sampling=sampling), 0.1, "clopper-pearson", "simultaneous")
            assert isinstance(issued, Certificate) == (sampling == "independent")
            if answer is not None:
                assert issued == answer
                assert issued.code == sampling
                assert str(issued).startswith("No certificate: ")
                assert not issued


def test_importance_weights_do_not_pass_the_gate():
    assert "weight_type='frequency'" in str(gate(provenance(weight_type="importance")))


def test_the_level_of_each_bin(subtests):
    for bound in [*BOUNDS]:
        for mode in get_args(Coverage):
            with subtests.test(bound=bound, mode=mode):
                certificate = issue(bins(), provenance(), 0.1, bound, mode)
                union = 1 if mode == "marginal" else 4 if BOUNDS[bound].any_time else 2  # empty bins may fill later
                lower, upper = BOUNDS[bound](bins().events, bins().n, 0.1 / union)
                np.testing.assert_array_equal(certificate.lower, lower)
                np.testing.assert_array_equal(certificate.upper, upper)
                assert (certificate.n, certificate.uncovered_rows, certificate.interval, certificate.coverage) == (
                    100,
                    3,
                    bound,
                    mode,
                )
                assert certificate.epsilon == certificate.half_widths[[0, 3]].max()


def test_bins_that_would_move_carry_no_promise_for_ever():
    answer = issue(bins(fixed=NO), provenance(), 0.1, "always-valid", "simultaneous")
    assert isinstance(answer, NoCertificate)
    assert answer.code is NoCertificateCode.MOVING_BINS
    assert "do not depend on the rows" in str(answer)


def test_no_rows_but_those_on_edges():
    none = np.zeros(4, dtype=np.int64)
    answer = issue(bins(n=none, events=none), provenance(), 0.1, "clopper-pearson", "simultaneous")
    assert isinstance(answer, NoCertificate)
    assert answer.code is NoCertificateCode.EMPTY
    assert "on its edges" in str(answer)


def test_an_assumption_is_added_to_that_of_every_certificate():
    plain = issue(bins(), provenance(), 0.1, "clopper-pearson", "simultaneous")
    more = issue(bins(assumption=Assumption.LATER_LOOK, look=2), provenance(), 0.1, "clopper-pearson", "simultaneous")
    assert more.assumptions == (*plain.assumptions, Assumption.LATER_LOOK)
    assert str(more).endswith("; there are 2 times as many rows as when a guarantee was first requested.")


def test_wrong_questions_are_refused(subtests):
    for alpha, bound, mode in [
        (0.0, "clopper-pearson", "simultaneous"),
        (1.0, "clopper-pearson", "simultaneous"),
        (np.nan, "clopper-pearson", "simultaneous"),
        (0.1, "wilson", "simultaneous"),
        (0.1, "clopper-pearson", "joint"),
    ]:
        with subtests.test(alpha=alpha, bound=bound, mode=mode), pytest.raises(InputError):
            issue(bins(), provenance(), alpha, bound, mode)


# --------------------------------------------------------------------------------------------------------------- plans


def test_plans_that_cannot_be_made(subtests):
    for question in [
        {"n": 1000, "n_bins": 10, "coverage": "joint"},
        {"n": 1000, "n_bins": 10, "coverage": None},
        {"n": 1000, "n_bins": 10, "scheme": "ums-original"},
        {"n": 1000, "n_bins": 10, "scheme": ""},
        {"n": 1000.5, "n_bins": 10},
        {"n": 1000, "n_bins": 2.5},
        {"n": 0, "n_bins": 1},
        {"n": 100, "n_bins": 0},
        {"n": -100, "n_bins": 1},
        {"n": np.nan, "n_bins": 1},
        {"n": 100, "epsilon": 0.0},
        {"n": 100, "epsilon": 1.0},
        {"n": 100, "n_bins": 2, "alpha": 0.0},
        {"n": 100, "n_bins": 2, "alpha": 1.0},
        {"n": 100},
        {"n": 100, "n_bins": 2, "epsilon": 0.1},
        {"n": 10, "n_bins": 9},
    ]:
        with subtests.test(question=question), pytest.raises(InputError):
            plan(**question)


def test_plans_agree_with_each_other(subtests):
    for mode in get_args(Coverage):
        for scheme in get_args(Scheme):
            with subtests.test(mode=mode, scheme=scheme):
                start = plan(n=20_000, n_bins=10, coverage=mode, scheme=scheme)
                assert (start.n, start.n_bins, start.coverage, start.scheme) == (20_000, 10, mode, scheme)
                fewest = plan(n_bins=10, epsilon=start.epsilon, coverage=mode, scheme=scheme)
                assert fewest.n <= 20_000
                assert fewest.epsilon <= start.epsilon
                most = plan(n=20_000, epsilon=start.epsilon, coverage=mode, scheme=scheme)
                assert most.n_bins >= 10
                assert most.epsilon <= start.epsilon
                assert "20,000 labels in 10 bins" in str(start)


def test_whole_numbers_of_any_type_make_a_plan(subtests):
    for whole in [int, float, np.int64, np.float64]:
        with subtests.test(whole=whole):
            answer = plan(n=whole(5000), n_bins=whole(10))
            assert answer == plan(n=5000, n_bins=10)
            assert (type(answer.n), type(answer.n_bins)) == (int, int)


def test_plan_takes_whole_numbers_only(subtests):
    for n in ["100", np.inf, np.nan, True, 10.5]:
        with subtests.test(n=n), pytest.raises(InputError, match="integer"):
            plan(n=n, n_bins=2)


@pytest.mark.parametrize("size", [-1, 5])
def test_a_part_is_a_part(size):
    with pytest.raises(InputError, match="size"):
        Tally.from_arrays([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1]).split(size)


def test_a_part_size_that_is_none_is_refused(subtests):
    for split_size in [np.nan, "x", 0.0, 1.0, 10**6]:
        with subtests.test(split_size=split_size), pytest.raises(InputError, match="split_size"):
            HistogramBinning(2, bins_from="split", split_size=split_size).fit(np.linspace(0, 1, 50), np.arange(50) % 2)


def test_a_method_refuses_a_tally_that_cannot_give_what_it_needs():
    class NeedsEveryScore(HistogramBinning):
        _accepts = ("exact",)

    tally = Tally.from_arrays(np.linspace(0, 1, 50), np.arange(50) % 2)
    assert NeedsEveryScore(2).fit_tally(tally).certificate()
    with pytest.raises(InputError, match="pass a tally with resolution 'exact'"):
        NeedsEveryScore(2).fit_tally(tally.coarsen(4))


def test_uncovered_edges_never_hold_half_of_the_rows(subtests):
    for seed in range(40):
        with subtests.test(seed=seed):
            rng = np.random.default_rng(seed)
            n, values = int(rng.integers(20, 4000)), int(rng.integers(2, 60))
            bins = int(rng.integers(1, n // 2 + 1) if seed % 2 else rng.integers(1, 12))
            cal = HistogramBinning(bins).fit(rng.integers(0, values, n) / values, np.arange(n) % 2)
            assert cal.bins_.uncovered_rows < n / (10 if n >= 300 * bins else 2)


def test_certificates_are_asked_for_alike_before_saving_and_after_loading(tmp_path):
    rng = np.random.default_rng(5)
    scores = rng.random(2000)
    y = rng.random(2000) < scores
    for cal in (HistogramBinning(n_bins=5), PlattScaling()):
        cal.fit(scores, y).save(tmp_path / "cal.json")
        back = load(tmp_path / "cal.json")
        assert str(back.certificate()) == str(back.certificate) == str(cal.certificate())
        assert str(back.certificate(alpha=0.1)) == str(cal.certificate(alpha=0.1))
        assert bool(back.certificate()) == bool(cal.certificate())
    HistogramBinning(n_bins=5).fit(scores, y).save(tmp_path / "cal.json")
    with pytest.raises(InputError, match=r"has alpha=0\.1: call certificate\(\) on the calibrator"):
        load(tmp_path / "cal.json").certificate(alpha=0.01)
    with pytest.raises(InputError, match="has coverage='simultaneous'"):
        load(tmp_path / "cal.json").certificate(coverage="marginal")


# ----------------------------------------------------------------------------------------------------------------------
# What cannot be seen is printed
# ----------------------------------------------------------------------------------------------------------------------


def every_kind_of_certificate() -> dict[str, object]:
    p, codes = worlds.classes(900, seed=5, concentration=2.0)
    y = np.array(["a", "b", "c"])[codes]
    tree = {"x": None, "a": "x", "b": "x", "c": None}
    return {
        "own rows": HistogramBinning(5).fit(p[:, 0], y == "a").certificate(),
        "another tally": HistogramBinning(5, bins_from=Tally.from_arrays(p[:, 1], y == "b"))
        .fit(p[:, 0], y == "a")
        .certificate(),
        "widths": HistogramBinning(5, strategy="width").fit(p[:, 0], y == "a").certificate(),
        "a table": HistogramBinning().fit_tally(Tally.from_table([300, 300], [30, 90], edges=[0.5])).certificate(),
        "a part": HistogramBinning(5, bins_from="split").fit(p[:, 0], y == "a").certificate(),
        "top-label": TopLabelHistogramBinning(100).fit(p, y).certificate(),
        "class-wise": ClasswiseHistogramBinning(100).fit(p, y).certificate(),
        "simplex": SimplexBinning(n_bins=4).fit(p, y).certificate(),
        "paths": PathCalibrator(tree, n_bins=2).fit(p, y, classes=["a", "b", "c"]).certificate(),
    }


@pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")
def test_every_certificate_says_that_labels_must_not_choose_the_settings() -> None:
    """The best of several numbers of bins, or of several fits, is not what the confidence is about."""
    for name, promise in every_kind_of_certificate().items():
        assert promise, name
        assert "no argument of the fit was chosen using their labels" in str(promise), name


def test_a_table_says_that_its_edges_must_not_come_from_its_labels() -> None:
    """Edges that were chosen by labels look like any others: the assumption is printed."""
    promise = HistogramBinning().fit_tally(Tally.from_table([300, 300], [30, 90], edges=[0.5])).certificate()
    assert "the bins were chosen before these rows were seen" in str(promise)
