"""A short run under load: memory of the serving processes and of the learner does not run away."""

from __future__ import annotations

import pytest
from benchmarks.service_soak import run

pytestmark = [pytest.mark.slow, pytest.mark.full]


def test_memory_does_not_run_away(full_size: bool) -> None:
    found = run(600.0 if full_size else 12.0)
    assert found.rows > 0
    assert max(found.growth().values()) < (1.05 if full_size else 1.2), str(found)
