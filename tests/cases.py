"""One test for many cases: each runs as a subtest, so that every failure is reported under its case."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

Test = Callable[..., None]

NO_TORCH, NO_JAX = "torch is not installed: see make torch", "JAX is not installed: see make torch"
"""Why tests of real tensors are skipped in the environment of the other tests; listed in ``tests/conftest.py``."""

NO_FORK, NO_TIMER = "this system has no fork", "this system has no interval timers"
"""Why tests of forked processes and of signal handlers are skipped on Windows; listed in ``tests/conftest.py``."""


def every(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """As ``pytest.mark.parametrize``, in one test: for cases of which no single one says something new.

    Fixtures are made once for all cases.
    """
    given = (names,) if isinstance(names, str) else names
    listed = [case if len(given) > 1 else (case,) for case in cases]

    def decorate(test: Test) -> Test:
        wanted = inspect.signature(test).parameters
        inner = "subtests" in wanted

        @functools.wraps(
            test, updated=()
        )  # not its attributes: by them hypothesis would take this for a test of its own
        def run(subtests: pytest.Subtests, **fixtures: Any) -> None:
            for case in listed:
                arguments = dict(zip(given, case, strict=True))
                with subtests.test(", ".join(f"{name}={_short(value)}" for name, value in arguments.items())):
                    test(**arguments, **fixtures, **({"subtests": subtests} if inner else {}))

        kept = [parameter for name, parameter in wanted.items() if name not in (*given, "subtests")]
        own = inspect.Parameter("subtests", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        run.__signature__ = inspect.Signature([own, *kept])  # type: ignore[attr-defined]
        run.pytestmark = getattr(test, "pytestmark", [])  # type: ignore[attr-defined]
        return run

    return decorate


def in_subtests(
    argument: str, variants: Mapping[str, Mapping[str, Any]], marks: Mapping[str, Any] | None = None
) -> Callable[[Test], Test]:
    """Run a test once for each key of ``variants``, and in it each value below that key as ``argument`` in a subtest.

    A failure names the subtest; the others run. ``marks`` are those of a key. Other fixtures of the test are created
    once for all of its subtests.
    """
    members = [pytest.param(each, id=name, marks=(marks or {}).get(name, ())) for name, each in variants.items()]

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(member: Mapping[str, Any], subtests: pytest.Subtests, **fixtures: Any) -> None:
            if "subtests" in asked:
                fixtures["subtests"] = subtests
            for name, value in member.items():
                with subtests.test(name):
                    test(**{argument: value}, **fixtures)

        asked = set(inspect.signature(test).parameters)
        names = sorted((asked | {"member", "subtests"}) - {argument})
        parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return pytest.mark.parametrize("member", members)(run)

    return decorate


def _short(value: Any) -> str:
    text = getattr(value, "__name__", None) or repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def exported_methods() -> list[type[Any]]:
    """Every method for sets of classes that `calibrant.conformal` exports."""
    from calibrant import conformal
    from calibrant.conformal.classes.base import ClassConformal

    public = [getattr(conformal, name) for name in conformal.__all__]
    return [each for each in public if isinstance(each, type) and issubclass(each, ClassConformal)]
