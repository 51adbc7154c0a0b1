"""The protocol as a state machine in memory: no run of crashes, repeated requests and clock jumps breaks it."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.service.model.machine import Protocol
from tests.service.model.memory import Bug

from calibrant.messages import InputError

pytestmark = pytest.mark.slow

STEPS = 40
SLOW_MACHINE = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def test_no_run_breaks_the_protocol(full_size: bool) -> None:
    examples = 5_000 if full_size else 60
    run_state_machine_as_test(
        Protocol,
        settings=settings(max_examples=examples, stateful_step_count=STEPS, suppress_health_check=SLOW_MACHINE),
    )


def test_the_machine_finds_planted_bugs(full_size: bool, subtests: pytest.Subtests) -> None:
    for bug in list(Bug) if full_size else list(Bug)[:2]:
        broken = type("Broken", (Protocol,), {"bugs": (bug,)})
        options = settings(
            max_examples=300,
            stateful_step_count=STEPS,
            phases=[Phase.generate],
            report_multiple_bugs=False,
            suppress_health_check=SLOW_MACHINE,
        )
        with subtests.test(bug.name), pytest.raises((AssertionError, InputError)):
            run_state_machine_as_test(broken, settings=options)
