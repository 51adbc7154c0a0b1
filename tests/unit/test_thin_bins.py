"""Merging bins with few rows."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.messages import InputError
from calibrant.metrics import Bins, ece

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")


def test_by_hand() -> None:
    """Rows 50, 3, 2, 0, 60: the empty bin joins 2 rows, then 3, then 50."""
    scores = [0.1] * 50 + [0.3] * 3 + [0.5] * 2 + [0.9] * 60
    bins = Bins.of(scores, [0, 1] * 57 + [1], n_bins=5)
    assert bins.n.tolist() == [50, 3, 2, 0, 60]
    found = bins.merged(30)
    assert found.edges.tolist() == pytest.approx([0.8])
    assert found.n.tolist() == [55, 60]
    assert found.events.sum() == bins.events.sum()
    assert found.score_sum.sum() == pytest.approx(bins.score_sum.sum())


def test_the_edges_give_the_same_bins_again() -> None:
    rng = np.random.default_rng(0)
    s = rng.beta(1, 8, 500)
    y = rng.random(500) < s
    found = Bins.of(s, y, n_bins=20).merged(25)
    again = Bins.of(s, y, edges=found.edges)
    assert again.n.tolist() == found.n.tolist()
    assert again.n.min() >= 25
    assert "given edges" in ece(s, y, edges=found.edges).name


def test_weights_count_by_their_effective_size() -> None:
    found = Bins.of([0.1, 0.1, 0.9], [0, 1, 1], [1.0, 1.0, 100.0], n_bins=2).merged(2)
    assert len(found) == 1
    assert found.w2.tolist() == [10002.0]


def test_edges() -> None:
    bins = Bins.of([0.1, 0.9], [0, 1], n_bins=2)
    assert bins.merged(0).n.tolist() == [1, 1]
    assert bins.merged(1e9).n.tolist() == [2]
    for wrong in (-1, float("nan")):
        with pytest.raises(InputError, match="min_rows"):
            bins.merged(wrong)
