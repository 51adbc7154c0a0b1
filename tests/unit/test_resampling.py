"""Resampling counts: what is drawn, what is refused, and what it costs."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import pytest
from tests import worlds

from calibrant.messages import InputError
from calibrant.metrics.binary import resampling
from calibrant.metrics.binary.bins import Bins
from calibrant.metrics.binary.errors import ece
from calibrant.metrics.binary.resampling import Resampled, bootstrap, null_draws, uncertainty
from calibrant.numerics import Floats
from calibrant.tallies import GroupedTally, Tally, cluster_buckets

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")


def error(sample: Resampled) -> Floats:
    return np.abs(sample.events - sample.score_sum).sum(axis=-1) / sample.n.sum(axis=-1)


def everything(sample: Resampled) -> Floats:
    return np.concatenate([sample.n, sample.events, sample.score_sum], axis=-1)


def test_the_statistic_on_the_data_is_the_metric() -> None:
    scores, y = worlds.proportional(400)
    bins = Bins.of(scores, y)
    assert error(Resampled.once(bins)).tolist() == pytest.approx([ece(scores, y).value], abs=1e-15)


def test_bootstrap_samples_have_the_moments_of_rows_drawn_with_replacement() -> None:
    """n by bin and events by bin: mean as observed, variance as Poisson, n and events of a bin covary by the events."""
    bins = Bins.of(*worlds.proportional(400), n_bins=3)
    draws = bootstrap(bins, everything, repetitions=20_000)
    n, events, score_sum = np.split(draws, 3, axis=1)
    assert n.mean(axis=0) == pytest.approx(bins.n, rel=0.01)
    assert events.mean(axis=0) == pytest.approx(bins.events, rel=0.02)
    assert n.var(axis=0) == pytest.approx(bins.n, rel=0.06)
    assert events.var(axis=0) == pytest.approx(bins.events, rel=0.06)
    assert score_sum == pytest.approx(n * bins.mean_score)
    covariance = ((n - bins.n) * (events - bins.events)).mean(axis=0)
    assert covariance == pytest.approx(bins.events, rel=0.1)


def test_weights_make_a_bin_vary_as_its_squared_weights() -> None:
    scores, y = worlds.proportional(500)
    weights = np.random.default_rng(1).exponential(size=500)
    bins = Bins.of(scores, y, weights, n_bins=2)
    n = np.split(bootstrap(bins, everything, repetitions=20_000), 3, axis=1)[0]
    assert n.mean(axis=0) == pytest.approx(bins.n, rel=0.01)
    assert bins.w2 is not None
    assert n.var(axis=0) == pytest.approx(bins.w2, rel=0.06)


def test_null_samples_keep_the_scores_and_draw_labels_from_them() -> None:
    bins = Bins.of(*worlds.proportional(300), n_bins=3)
    n, events, score_sum = np.split(null_draws(bins, everything, repetitions=20_000), 3, axis=1)
    assert (n == bins.n).all()
    assert (score_sum == bins.score_sum).all()
    assert (events == np.rint(events)).all()
    assert events.mean(axis=0) == pytest.approx(bins.score_sum, rel=0.01)
    assert events.var(axis=0) == pytest.approx(bins.n * bins.mean_score * (1 - bins.mean_score), rel=0.06)


def test_null_samples_of_weighted_rows_vary_by_the_effective_size() -> None:
    bins = Bins.of([0.5] * 400, [0, 1] * 200, np.tile([0.5, 2.5], 200), n_bins=1)
    draws = null_draws(bins, lambda sample: sample.rate[:, 0], repetitions=20_000)
    assert draws.var() == pytest.approx(0.25 / bins.effective_n[0], rel=0.06)


def test_scores_of_zero_and_one_are_certain_under_the_null() -> None:
    bins = Bins.of([0.0] * 5 + [1.0] * 5, [0, 1] * 5)
    assert (null_draws(bins, error) == 0.0).all()


def test_empty_bins_stay_empty_and_a_single_row_is_no_exception() -> None:
    bins = Bins.of([0.3], [1], n_bins=4)
    draws = bootstrap(bins, everything)
    assert (draws[:, [0, 2, 3, 4, 6, 7]] == 0).all()
    assert (draws[:, 1] > 0).all(), "a sample without any row is replaced by the data"
    assert np.isfinite(bootstrap(bins, error)).all()
    facts, notes = uncertainty(bins, error)
    assert set(facts) == {"null", "null_high"}
    assert notes == ()


def test_a_statistic_may_have_one_value_per_bin() -> None:
    bins = Bins.of(*worlds.proportional(200), n_bins=4)
    assert bootstrap(bins, lambda sample: sample.rate, repetitions=50).shape == (50, 4)


def test_tallies_are_cut_as_bins_are() -> None:
    scores, y = worlds.proportional(300)
    tally = Tally.from_arrays(scores, y)
    for options in ({"n_bins": 5}, {"strategy": "mass", "n_bins": 4}, {"edges": [0.5]}):
        direct = bootstrap(Bins.of(scores, y, **options), error)
        assert bootstrap(tally, error, **options) == pytest.approx(direct, rel=1e-9)


def test_one_seed_one_answer_and_blocks_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    bins = Bins.of(*worlds.proportional(300))
    first = bootstrap(bins, error, repetitions=200, random_state=3)
    assert (bootstrap(bins, error, repetitions=200, random_state=3) == first).all()
    assert (bootstrap(bins, error, repetitions=200, random_state=4) != first).any()
    monkeypatch.setattr(resampling, "_BLOCK", 15 * 30)
    blocks = bootstrap(bins, error, repetitions=200, random_state=3)
    assert blocks.shape == (200,)
    assert blocks.std() == pytest.approx(first.std(), rel=0.3)


@pytest.mark.parametrize("draw", [bootstrap, null_draws])
def test_too_many_bins_are_refused_with_their_cost(draw: object) -> None:
    bins = Bins.of(*worlds.proportional(1_000), n_bins=201)
    with pytest.raises(InputError, match=r"1,000 samples of 201 bins would take about 0.02 s.*raise max_bins"):
        draw(bins, error)  # type: ignore[operator]
    assert draw(bins, error, max_bins=201, repetitions=2).shape == (2,)  # type: ignore[operator]


def test_bad_arguments_are_refused() -> None:
    bins = Bins.of([0.2, 0.8], [0, 1])
    with pytest.raises(InputError, match="repetitions"):
        bootstrap(bins, error, repetitions=0)
    with pytest.raises(InputError, match="random_state"):
        bootstrap(bins, error, random_state=1.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least 2"):
        bootstrap(GroupedTally.from_arrays([0.2, 0.8], [0, 1], groups=[1, 1]), error)


# ----------------------------------------------------------------------------------------------------------------------
# Groups
# ----------------------------------------------------------------------------------------------------------------------


def clustered(clusters: int = 300, size: int = 20) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All rows of a cluster share one score and one label."""
    rng = np.random.default_rng(5)
    scores = rng.random(clusters)
    labels = rng.random(clusters) < 0.7 * scores
    return np.repeat(scores, size), np.repeat(labels, size).astype(int), np.repeat(np.arange(clusters), size)


def test_whole_groups_are_drawn() -> None:
    """Three groups of 1, 10 and 100 rows: every sample is a sum of three of these numbers."""
    groups = np.repeat([0, 1, 2], [1, 10, 100])
    grouped = GroupedTally.from_arrays(np.full(111, 0.5), np.arange(111) % 2, groups=groups, grid=None)
    sizes = bootstrap(grouped, lambda sample: sample.n.sum(axis=-1), n_bins=2, repetitions=500)
    sums = {a + b + c for a in (1, 10, 100) for b in (1, 10, 100) for c in (1, 10, 100)}
    assert set(sizes) <= sums
    assert len(set(sizes)) > 5


def test_clusters_make_the_bootstrap_wider() -> None:
    """Twenty copies of each row: the standard error must be about that of the rows without their copies."""
    scores, y, ids = clustered()
    grouped = GroupedTally.from_arrays(scores, y, groups=cluster_buckets(ids), grid=None)
    by_cluster = bootstrap(grouped, error).std()
    by_row = bootstrap(Bins.of(scores, y), error).std()
    once = bootstrap(Bins.of(scores[::20], y[::20]), error).std()
    assert by_cluster > 2.5 * by_row
    assert by_cluster == pytest.approx(once, rel=0.3)


@pytest.mark.parametrize("strategy", ["width", "mass"])
def test_groups_share_the_bins_of_the_whole(strategy: str) -> None:
    scores, y, ids = clustered(50, 4)
    grouped = GroupedTally.from_arrays(scores, y, groups=ids, grid=None)
    whole = Bins.of(scores, y, strategy=strategy, n_bins=5)
    draws = bootstrap(grouped, everything, strategy=strategy, n_bins=5, repetitions=20_000)
    expected = np.concatenate([whole.n, whole.events, whole.score_sum])
    z = (draws.mean(axis=0) - expected) / np.maximum(draws.std(axis=0) / np.sqrt(20_000), 1e-12)
    assert np.abs(z).max() < 4.5


# ----------------------------------------------------------------------------------------------------------------------
# Cost
# ----------------------------------------------------------------------------------------------------------------------


def test_a_thousand_samples_cost_no_more_than_one_pass_over_a_million_rows() -> None:
    scores, y = worlds.proportional(1_000_000)
    bins = Bins.of(scores, y)

    def one_pass() -> None:
        index = (scores * 15).astype(np.intp)
        np.bincount(index, y, minlength=16)
        np.bincount(index, scores, minlength=16)

    assert best_of(lambda: bootstrap(bins, error)) < best_of(one_pass)


def best_of(run: object, times: int = 7) -> float:
    taken = []
    for _ in range(times):
        start = perf_counter()
        run()  # type: ignore[operator]
        taken.append(perf_counter() - start)
    return min(taken)
