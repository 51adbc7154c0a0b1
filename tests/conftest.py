"""Options, hypothesis profiles, and the rule that in CI a skipped test is a failure."""

import os
import re
from collections.abc import Generator, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import settings

# One thread of linear algebra in each process, set before numpy is loaded: the problems are small, and threads that
# wait for each other on cores that other processes use take ten times as long.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

SOURCE = Path(__file__).resolve().parents[1] / "src"
NO_DATA = "the data folder is not there: set CALIBRANT_DATA"

# Reasons for which a test may be skipped in CI: the reason's text, and why we accept it.
ALLOWED_SKIPS: Mapping[str, str] = {
    "SCIPY_ARRAY_API is not set: not checking array_api input": (
        "scikit-learn's check of other array libraries; scores and labels become numpy arrays here"
    ),
    "torch is not installed: see make torch": "several gigabytes; an environment of its own runs them each night",
    "JAX is not installed: see make torch": "the same environment",
    "no browser is installed": "reports are measured in Chromium, which .ci/run installs; not every machine has it",
    NO_DATA: "public data that are not part of the repository",
    "this system has no fork": "Windows; forecasters are guarded there as everywhere, and processes share none",
    "this system has no interval timers": "Windows; nothing else interrupts a step at an arbitrary point",
    "limits on the size of files need POSIX": "a full disk is simulated by such a limit, which Windows does not have",
}

OPTIONAL = (
    "array_api_strict|catboost|duckdb|lightgbm|matplotlib|numba|onnx|onnxruntime|openpyxl|pandas|polars|pyarrow|pyspark|river|sqlglot"
    "|xgboost"
)

# The same under `--lowest` alone, as patterns: the environment holds the core dependencies and nothing else.
ALLOWED_SKIPS_LOWEST: Mapping[str, str] = {
    rf"could not import '({OPTIONAL})[.\w]*'.*": "optional packages are not installed with the lowest versions",
    r"pandas is not installed: not (testing|checking) .*": "the same, in the words of scikit-learn's checks",
}

# Features that the lowest versions lack; `@pytest.mark.since(package, version)` may name only these.
NEWER_FEATURES: Mapping[tuple[str, str], str] = {("numpy", "2.0"): "StringDType"}

settings.register_profile("ci", max_examples=25, derandomize=True, deadline=None, print_blob=True)
settings.register_profile("full", max_examples=2_000, derandomize=True, deadline=None, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("calibrant")
    group.addoption("--full", action="store_true", help="2,000 hypothesis examples, statistical tests at full size")
    group.addoption("--lowest", action="store_true", help="the lowest dependency versions are installed, no extras")
    group.addoption("--installed", action="store_true", help="the package must be an installed one, not the checkout")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("full" if config.getoption("--full") else "ci")
    if config.getoption("--installed") and SOURCE in Path(find_spec("calibrant").origin).resolve().parents:
        raise pytest.UsageError("calibrant is that of the checkout: run in an environment where the wheel is installed")
    # Registered as a plugin, since hooks in this file would not see the doctests outside `tests`.
    config.pluginmanager.register(Since(), "calibrant-since")
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        config.pluginmanager.register(SkipIsFailure(lowest=config.getoption("--lowest")), "calibrant-skip-is-failure")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what runs at full size only, and start with the engines."""
    full = config.getoption("--full")
    left_out = {item for item in items if not full and item.get_closest_marker("full")}
    config.hook.pytest_deselected(items=list(left_out))
    # Engines first: they wait more than they compute, and one process of two should start them, not both.
    items[:] = sorted(
        (item for item in items if item not in left_out), key=lambda item: "engine" not in item.path.parts
    )


@pytest.fixture(scope="session")
def full_size(pytestconfig: pytest.Config) -> bool:
    """Whether statistical tests run at full size (`--full`)."""
    return bool(pytestconfig.getoption("--full"))


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of public data sets, which are not part of the repository; without it the test is skipped."""
    from benchmarks import data_folder

    folder = data_folder.data_folder()
    if not folder.is_dir():
        pytest.skip(NO_DATA)
    return folder


class SkipIsFailure:
    """Turn each skip, of a test or of a whole file, into a failure unless its reason is declared."""

    def __init__(self, *, lowest: bool) -> None:
        self.patterns = [re.escape(reason) for reason in ALLOWED_SKIPS]
        if lowest:
            self.patterns += ALLOWED_SKIPS_LOWEST
            self.patterns += [re.escape(Since.reason(*feature)) for feature in NEWER_FEATURES]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        return self._judge((yield))

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        return self._judge((yield))

    def _judge(self, report: Report) -> Report:
        if report.outcome == "skipped" and not hasattr(report, "wasxfail"):
            reason = self._reason(report)
            if not any(re.fullmatch(pattern, reason, re.DOTALL) for pattern in self.patterns):
                report.outcome = "failed"
                report.longrepr = f"skipped in CI, and the reason is not declared in tests/conftest.py: {reason}"
        return report

    @staticmethod
    def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        return text.removeprefix("Skipped: ")


class Since:
    """Skip a test marked `since(package, version)` where that package is older."""

    @staticmethod
    def reason(package: str, least: str) -> str:
        return f"needs {package} >= {least}"

    @pytest.hookimpl
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        for mark in item.iter_markers("since"):
            package, least = mark.args
            if _release(version(package)) < _release(least):
                pytest.skip(self.reason(package, least))


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.match(r"\d+(?:\.\d+)*", text)[0].split("."))
