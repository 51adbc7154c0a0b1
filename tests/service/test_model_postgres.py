"""The state machine of the protocol on PostgreSQL and the real learner, in a small size."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.service.model.real import RealProtocol

from calibrant.service.learning import learner

pytestmark = pytest.mark.slow

SLOW_MACHINE = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def test_no_run_breaks_the_protocol_on_postgresql(database: psycopg.Connection, address: str, full_size: bool) -> None:
    machine = type("Machine", (RealProtocol,), {"address": address})
    options = settings(
        max_examples=500 if full_size else 15, stateful_step_count=30, suppress_health_check=SLOW_MACHINE
    )
    run_state_machine_as_test(machine, settings=options)


@pytest.mark.full
def test_the_machine_finds_a_learner_without_a_fence(
    database: psycopg.Connection, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "check_fence", lambda connection, stream, fence: None)
    machine = type("Machine", (RealProtocol,), {"address": address})
    options = settings(
        max_examples=200, stateful_step_count=30, phases=[Phase.generate], report_multiple_bugs=False,
        suppress_health_check=SLOW_MACHINE,
    )  # fmt: skip
    with pytest.raises(AssertionError, match="without the fence"):
        run_state_machine_as_test(machine, settings=options)
