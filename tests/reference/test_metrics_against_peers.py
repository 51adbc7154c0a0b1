"""Metrics beside other Python packages: their numbers, versions and the script lie in ``metrics/peers.*``.

No peer is imported here. Where a peer departs from the definition, the test says how, and keeps ours to the definition.
"""

from __future__ import annotations

import csv
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant import Tally
from calibrant.metrics.binary.bins import Bins
from calibrant.metrics.binary.cumulative import brownian_max_sf, brownian_range_sf, ecce
from calibrant.metrics.binary.decompositions import decompose
from calibrant.metrics.binary.errors import debiased_ece, ece, sweep_ece
from calibrant.metrics.binary.kernel import skce
from calibrant.metrics.binary.scores import auc, brier, log_loss
from calibrant.metrics.binary.significance import ecce_test, hosmer_lemeshow, spiegelhalter
from calibrant.metrics.binary.smooth import smooth_ece

FOLDER = Path(__file__).parent / "metrics"
STORED = json.loads((FOLDER / "peers.json").read_text(encoding="utf-8"))
NUMBERS = STORED["data"]
UNTIED = ["smooth", "calibrated", "rare", "weighted"]
NAMES = [*UNTIED, "heaped"]

Case = tuple[Tally, dict[str, Any]]


def _rows(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    with (FOLDER / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    scores, y, weights = (np.array([float(row[key]) for row in rows]) for key in ("score", "y", "weight"))
    return scores, y, weights


def _case(name: str) -> Case:
    """A tally whose weights are counts, since peers got repeated rows, and their numbers about it."""
    scores, y, weights = _rows(name)
    return Tally.from_arrays(scores, y, weights.astype(int), weight_type="frequency"), NUMBERS[name]


def close(value: float, relative: float = 1e-10) -> Any:
    return pytest.approx(value, rel=relative, abs=1e-14)


# ----------------------------------------------------------------------------------------------------------------------
# Scores
# ----------------------------------------------------------------------------------------------------------------------


def test_losses_and_auc_are_those_of_scikit_learn(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            tally, peers = _case(name)
            assert float(brier(tally)) == close(peers["scikit_learn"]["brier"])
            assert float(log_loss(tally)) == close(peers["scikit_learn"]["log_loss"])
            assert float(auc(tally)) == close(peers["scikit_learn"]["auc"])


def test_bins_of_equal_width_are_those_of_scikit_learn(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            tally, peers = _case(name)
            bins = Bins.of(tally, n_bins=15)
            filled = bins.n > 0
            np.testing.assert_allclose(bins.rate[filled], peers["scikit_learn"]["curve_15_width"]["rate"], rtol=1e-12)
            np.testing.assert_allclose(
                bins.mean_score[filled], peers["scikit_learn"]["curve_15_width"]["mean"], rtol=1e-12
            )


def test_isotonic_decompositions_are_those_of_model_diagnostics(subtests: pytest.Subtests) -> None:
    for loss in ["brier", "log"]:
        for name in NAMES:
            with subtests.test(loss=loss, name=name):
                tally, peers = _case(name)
                found, reference = decompose(tally, loss=loss), peers["model_diagnostics"][loss]
                assert found.loss == close(reference["score"])
                for part in ("miscalibration", "discrimination", "uncertainty"):
                    assert getattr(found, part) == close(reference[part], 1e-9)


def test_binned_decompositions_are_those_of_probcal(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            tally, peers = _case(name)
            found, reference = (
                decompose(tally, method="bins", edges=np.arange(1, 10) / 10),  # closed on the left, as probcal's
                peers["probcal"]["murphy_10_width"],
            )
            assert found.miscalibration == close(reference["reliability"])
            assert found.discrimination == close(reference["resolution"])
            assert found.uncertainty == close(reference["uncertainty"])
            # probcal leaves out what the spread of scores inside bins changes, so its three parts do not add up to the
            # score.
            assert found.within == pytest.approx(
                peers["probcal"]["brier"]
                - reference["reliability"]
                + reference["resolution"]
                - reference["uncertainty"],
                abs=1e-12,
            )


# ----------------------------------------------------------------------------------------------------------------------
# Calibration errors with bins
# ----------------------------------------------------------------------------------------------------------------------


def test_ece_over_bins_of_equal_width_is_that_of_every_peer(subtests: pytest.Subtests) -> None:
    for peer in ["uncertainty_calibration", "mapie", "netcal", "probcal", "calibre"]:
        for name in NAMES:
            with subtests.test(peer=peer, name=name):
                # uncertainty-calibration and MAPIE close bins on the right: no heap here shares a bin with another
                # either way. MAPIE takes the number of edges for the number of bins, which the script makes up for.
                tally, peers = _case(name)
                assert float(ece(tally, n_bins=15)) == close(peers[peer]["ece_15_width"])


def test_point_estimates_do_not_ask_what_a_weight_is(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            rows, peers = _rows(name), NUMBERS[name]
            assert float(ece(*rows, n_bins=15)) == close(peers["netcal"]["ece_15_width"])
            assert float(ecce(*rows, statistic="max")) == close(peers["probcal"]["ecce_max"])
            assert float(skce(*rows, bandwidth=0.2)) == pytest.approx(
                peers["probcal"]["skce_laplace_0.2"] / 2.0, rel=1e-9
            )
            assert float(smooth_ece(*rows, null=False)) == pytest.approx(peers["relplot"]["smooth_ece"], abs=1e-3)
            assert decompose(*rows).miscalibration == close(peers["model_diagnostics"]["brier"]["miscalibration"], 1e-9)


def test_ece_over_ten_bins_of_equal_width_is_that_of_every_peer(subtests: pytest.Subtests) -> None:
    for peer in ["relplot", "uncertainty_calibration", "netcal", "calibre"]:
        for name in NAMES:
            with subtests.test(peer=peer, name=name):
                tally, peers = _case(name)
                assert float(ece(tally, n_bins=10)) == close(peers[peer]["ece_10_width"])


def test_the_other_norms_are_those_of_netcal_and_probcal(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            tally, peers = _case(name)
            assert float(ece(tally, p=np.inf)) == close(peers["netcal"]["mce_15_width"])
            assert float(ece(tally, p=np.inf)) == close(peers["probcal"]["mce_15_width"])
            assert float(ece(tally, p=2)) == close(peers["probcal"]["rms_15_width"])


def test_ece_over_bins_of_equal_mass_is_that_of_peers_where_rows_divide_evenly(subtests: pytest.Subtests) -> None:
    for name in ["smooth", "calibrated", "rare", "heaped"]:
        with subtests.test(name=name):
            # MAPIE's lowest bin of equal mass holds the lowest score alone, so it has one bin more: not compared.
            tally, peers = _case(name)
            found = float(ece(tally, n_bins=10, strategy="mass"))
            assert found == close(peers["uncertainty_calibration"]["ece_10_mass"])
            assert found == close(peers["probcal"]["ece_10_mass"])


def _split_edges(tally: Tally, n_bins: int) -> np.ndarray:
    """Cuts of uncertainty-calibration: numpy's array_split, half-way between neighbors, bins closed on the right."""
    parts = np.array_split(np.repeat(tally.scores, tally.n), n_bins)
    cuts = np.unique([(left[-1] + right[0]) / 2.0 for left, right in pairwise(parts)])
    return np.nextafter(cuts[cuts < tally.scores[-1]], 1.0)


def test_debiased_error_over_the_same_bins_is_that_of_uncertainty_calibration(subtests: pytest.Subtests) -> None:
    for n_bins in [10, 15]:
        for name in NAMES:
            with subtests.test(n_bins=n_bins, name=name):
                # Its parts and ours can differ by a row where rows do not divide evenly, which moves the number by far
                # more than rounding: 0.025 against 0.049 for the calibrated data and 15 bins.
                tally, peers = _case(name)
                found = debiased_ece(tally, edges=_split_edges(tally, n_bins))
                assert float(found) == pytest.approx(
                    peers["uncertainty_calibration"][f"debiased_{n_bins}_mass"], rel=1e-9, abs=1e-9
                )


def test_debiased_error_over_ten_bins_of_equal_mass_is_that_of_uncertainty_calibration(
    subtests: pytest.Subtests,
) -> None:
    for name in ["smooth", "calibrated", "rare", "heaped"]:
        with subtests.test(name=name):
            tally, peers = _case(name)
            reference = peers["uncertainty_calibration"]["debiased_10_mass"]
            assert float(debiased_ece(tally, n_bins=10)) == pytest.approx(reference, rel=1e-9, abs=1e-9)


def test_a_bin_of_one_row_is_left_out_of_the_debiased_error_instead_of_counted_as_right(
    subtests: pytest.Subtests,
) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            # uncertainty-calibration gives such a bin error 0 and keeps its rows in the total. Only the rare data have
            # one.
            tally, peers = _case(name)
            bins = Bins.of(tally, n_bins=15)
            share = float(bins.n[bins.n > 1].sum() / bins.n.sum())
            found = debiased_ece(tally, n_bins=15, strategy="width", squared=True)
            reference = peers["uncertainty_calibration"]["debiased_15_width"] ** 2
            assert found.value * share == pytest.approx(reference, rel=1e-9)


def _swept(tally: Tally, edges_of: Any) -> np.ndarray:
    """Edges of the last number of bins whose rates, and those of every smaller number, are in order."""
    best = np.array([])
    for count in range(2, 400):
        edges = edges_of(count)
        bins = Bins.of(tally, edges=edges)
        if (np.diff(bins.rate[bins.n > 0]) < 0).any():
            break
        best = edges
    return best


@pytest.mark.parametrize("name", NAMES)
def test_the_sweep_over_probcals_cuts_is_probcals(name: str) -> None:
    # probcal cuts at numpy's quantiles (interpolated, a tie goes up), we where k/B of the rows are reached.
    tally, peers = _case(name)
    rows = np.repeat(tally.scores, tally.n)

    def quantiles(count: int) -> np.ndarray:
        return np.unique(np.quantile(rows, np.arange(1, count) / count))

    assert float(ece(tally, edges=_swept(tally, quantiles))) == close(peers["probcal"]["sweep"])

    def reached(count: int) -> np.ndarray:
        return Bins.of(tally, n_bins=count, strategy="mass").edges

    assert float(sweep_ece(tally)) == close(float(ece(tally, edges=_swept(tally, reached))))


@pytest.mark.parametrize("name", ["smooth", "heaped"])
def test_the_sweep_is_that_of_probcal_where_the_cuts_agree(name: str) -> None:
    tally, peers = _case(name)
    assert float(sweep_ece(tally)) == close(peers["probcal"]["sweep"])


# ----------------------------------------------------------------------------------------------------------------------
# Calibration errors without bins
# ----------------------------------------------------------------------------------------------------------------------


def test_smooth_ece_is_that_of_relplot_as_far_as_its_mesh_goes(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            # relplot halves the bandwidth's interval ten times (to 0.001) and adds 1e-4 to the density on its mesh of
            # 200.
            tally, peers = _case(name)
            assert float(smooth_ece(tally, null=False)) == pytest.approx(peers["relplot"]["smooth_ece"], abs=1e-3)


def test_smooth_ece_at_a_bandwidth_is_the_integral_and_nearly_that_of_relplot(subtests: pytest.Subtests) -> None:
    for bandwidth in [0.05, 0.2]:
        for name in NAMES:
            with subtests.test(bandwidth=bandwidth, name=name):
                tally, peers = _case(name)
                found = float(smooth_ece(tally, bandwidth=bandwidth, null=False))
                middles = (np.arange(1_000) + 0.5)[:, None] / 1_000
                images = [sign * tally.scores + 2 * shift for shift in range(-1, 2) for sign in (-1, 1)]
                kernel = sum(np.exp(-0.5 * ((middles - image) / bandwidth) ** 2) for image in images)
                residual = (tally.events - tally.n * tally.scores) / tally.total
                curve = (kernel * residual).sum(axis=1) / (np.sqrt(2.0 * np.pi) * bandwidth)
                assert found == pytest.approx(np.abs(curve).mean(), abs=1e-6)
                # relplot cuts its kernel off at a distance of 0.5, sums over a mesh of 200 points and divides by the
                # density's sum.
                assert found == pytest.approx(peers["relplot"][f"smooth_ece_at_{bandwidth}"], rel=0.03)


def test_skce_is_half_that_of_probcal(subtests: pytest.Subtests) -> None:
    for bandwidth in [0.2, 1]:
        for name in NAMES:
            with subtests.test(bandwidth=bandwidth, name=name):
                # probcal sums over both classes of the pair (s, 1 - s), whose residuals are the same up to sign.
                tally, peers = _case(name)
                reference = peers["probcal"][f"skce_laplace_{bandwidth}"] / 2.0
                assert float(skce(tally, bandwidth=bandwidth)) == pytest.approx(reference, rel=1e-9, abs=1e-13)


def test_the_largest_cumulative_difference_is_that_of_probcal(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            tally, peers = _case(name)
            assert float(ecce(tally, statistic="max")) == close(peers["probcal"]["ecce_max"])


def test_cumulative_differences_without_ties_are_those_of_mapie_and_mcgrad(subtests: pytest.Subtests) -> None:
    for name in ["smooth", "calibrated", "weighted"]:
        with subtests.test(name=name):
            tally, peers = _case(name)
            mapie, mcgrad = peers["mapie"], peers["mcgrad"]
            assert float(ecce(tally, statistic="max")) == close(
                mapie["ks"] * mapie["length_scale"], 1e-6
            )  # jitter of 1e-8
            found = ecce_test(tally, statistic="max", method="asymptotic")
            # MAPIE cuts its series short for large statistics: for the weighted data its p-value is -8e-12.
            assert found.p_value == pytest.approx(mapie["ks_p"], rel=1e-5, abs=1e-11)
            if name != "weighted":  # there MCGrad's order of repeated rows moves the walk between two scores
                assert float(ecce(tally, statistic="range")) == close(mcgrad["ecce"])
                found = ecce_test(tally, statistic="range", method="asymptotic")
                assert found.statistic == close(mcgrad["ecce_sigma"])
                assert found.p_value == pytest.approx(mcgrad["ecce_p"], rel=1e-9)


def test_the_laws_of_cumulative_differences_are_those_of_mapie() -> None:
    peers = NUMBERS["smooth"]["mapie"]
    np.testing.assert_allclose(1.0 - brownian_max_sf([0.5, 1.0, 2.0, 3.0]), peers["cdf_ks"], rtol=1e-12)
    np.testing.assert_allclose(1.0 - brownian_range_sf([0.8, 1.5, 2.5, 4.0]), peers["cdf_kuiper"], rtol=1e-12)


def test_the_walk_starts_at_zero() -> None:
    # Steps 0.9, 0.8, 0.7, -0.4 lead to 0.9, 1.7, 2.4, 2.0; the range from 0 on is 2.4, the variance is
    # 0.09 + 0.16 + 0.21 + 0.24 = 0.7. MAPIE forgets the start: its range is 2.4 - 0.9.
    found = ecce_test([0.1, 0.2, 0.3, 0.4], [1, 1, 1, 0], statistic="range", method="asymptotic").statistic
    assert found == close(2.4 / np.sqrt(0.7))
    assert found == close(STORED["walk_above_zero"]["mcgrad"])
    assert STORED["walk_above_zero"]["mapie"] == pytest.approx(1.5 / np.sqrt(0.7), rel=1e-6)


def test_ties_have_no_order_and_so_cannot_lengthen_the_walk() -> None:
    # Tied rows in the order of the file (MCGrad) or of a random jitter (MAPIE) make a walk that depends on that order
    # and is never shorter than the one read at distinct scores only.
    tally, peers = _case("heaped")
    sigma = peers["mapie"]["length_scale"]
    # 0.1, 0.25, ...: the sums of y - s by heap, from the file.
    steps = tally.events - tally.n * tally.scores
    walk = np.append(0.0, np.cumsum(steps)) / tally.total
    assert float(ecce(tally, statistic="range")) == close(float(np.ptp(walk)))
    assert float(ecce(tally, statistic="max")) <= peers["mapie"]["ks"] * sigma
    assert float(ecce(tally, statistic="range")) < min(peers["mapie"]["kuiper"] * sigma, peers["mcgrad"]["ecce"])


# ----------------------------------------------------------------------------------------------------------------------
# Tests of calibration
# ----------------------------------------------------------------------------------------------------------------------


def test_spiegelhalters_z_is_that_of_mapie_and_probcal(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            tally, peers = _case(name)
            found = spiegelhalter(tally)
            z, p_value = peers["probcal"]["spiegelhalter"]
            assert found.statistic == close(z)
            assert found.statistic == close(peers["mapie"]["spiegelhalter"])
            assert found.p_value == close(p_value)
            # MAPIE's p-value is of one side: a model that is too timid (z far below 0) would get a p-value near 1.
            assert found.p_value == pytest.approx(2.0 * peers["mapie"]["spiegelhalter_p_one_sided"], rel=1e-4)


def test_hosmer_lemeshow_is_that_of_probcal(subtests: pytest.Subtests) -> None:
    for name in ["smooth", "calibrated", "rare"]:
        with subtests.test(name=name):
            # With ties the two rules for cutting at a tie differ: probcal's groups begin with it, ours end with it.
            tally, peers = _case(name)
            found = hosmer_lemeshow(tally)
            statistic, _, p_value = peers["probcal"]["hosmer_lemeshow"]
            assert found.statistic == close(statistic)
            assert found.p_value == close(p_value)
