"""Ten kills of serving processes, the learner and PostgreSQL under load: nothing that was acknowledged is lost."""

from __future__ import annotations

import pytest
from benchmarks.service_kills import run

pytestmark = pytest.mark.slow


def test_ten_kills_lose_nothing() -> None:
    found = run(10, seed=1, progress=10)
    assert found.kills >= 10
    assert found.found.wrong == [], str(found)
    assert found.found.numbers["outcomes acknowledged, by id"] > 0, str(found)
    assert found.found.numbers["rows learned, each once"] > 0, str(found)
