"""Late labels, by simulation: the bias of the naive reading, and that it is gone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calibrant.shift.maturity import How, select_mature

pytestmark = [pytest.mark.statistical, pytest.mark.slow]
LEVEL = 1e-3
NOW, HORIZON = 60.0, 14.0


@pytest.mark.parametrize("how", ["drop", "weight"])
def test_maturity_removes_the_bias_of_young_negatives(how: How, full_size: bool) -> None:
    """Scores are the truth. Overall, and among high scores, weighted labels must meet them; naive ones do not."""
    runs = 400 if full_size else 60
    rng = np.random.default_rng(40)
    gaps = {"all": np.empty(runs), "high": np.empty(runs), "naive": np.empty(runs)}
    for run in range(runs):
        p, start = rng.beta(1, 4, 6_000), rng.uniform(0, NOW, 6_000)
        delay = np.minimum(rng.exponential(6.0, 6_000), HORIZON * rng.random(6_000) ** 0.1)
        seen = (rng.random(6_000) < p) & (start + delay <= NOW)
        rows = select_mature(
            p,
            seen,
            score_time=start,
            label_time=np.where(seen, start + delay, np.nan),
            as_of=NOW,
            horizon=HORIZON,
            how=how,
        )
        weights = np.ones(rows.rows) if rows.sample_weight is None else rows.sample_weight
        residual = weights * (rows.labels - rows.scores)
        gaps["all"][run] = residual.sum() / weights.sum()
        high = rows.scores > 0.4
        gaps["high"][run] = residual[high].sum() / weights[high].sum()
        gaps["naive"][run] = seen.mean() - p.mean()
    assert stats.ttest_1samp(gaps["all"], 0.0).pvalue > LEVEL
    assert stats.ttest_1samp(gaps["high"], 0.0).pvalue > LEVEL
    assert gaps["naive"].mean() < -0.01, "the naive reading is biased, so the test could have failed"
