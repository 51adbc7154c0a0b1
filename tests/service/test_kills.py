"""Kills of serving processes, the learner and PostgreSQL under load: nothing that was acknowledged is lost."""

from __future__ import annotations

import pytest
from benchmarks.service_kills import KEYED, RETURNED, SETTINGS, run

from calibrant.service.settings import Settings

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(KEYED, id="keyed"),
        pytest.param(SETTINGS, id="one map", marks=pytest.mark.full),
        pytest.param(RETURNED, id="returned", marks=pytest.mark.full),
    ],
)
def test_ten_kills_lose_nothing(settings: Settings) -> None:
    found = run(10, 1, settings, progress=10, version_seconds=1.0)
    assert found.kills >= 10
    assert found.found.wrong == [], str(found)
    for number in ("outcomes acknowledged, by id", "rows learned, each once", "versions that gave answers", "erasures"):
        assert found.found.numbers[number] > 0, str(found)
