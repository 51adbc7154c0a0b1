"""In CI a skip is a failure unless it is declared; `--full` turns up the sizes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"


@pytest.fixture
def run(tmp_path):
    """Run pytest with our conftest on one file of the given text; return the output and the exit code."""

    def run_pytest(text: str, *options: str, ci: bool = True, name: str = "tests/test_it.py") -> tuple[str, int]:
        (tmp_path / "tests").mkdir()
        (tmp_path / "tests" / "conftest.py").write_text(CONFTEST.read_text(encoding="utf-8"), encoding="utf-8")
        (tmp_path / "pytest.toml").write_text(
            '[pytest]\nmarkers = ["full", "since(package, version)"]\n', encoding="utf-8"
        )
        (tmp_path / name).write_text(text, encoding="utf-8")
        paths = dict.fromkeys(["tests/conftest.py", name])  # the first loads our options
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--doctest-modules", *options, *paths]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"CI": "true" if ci else ""}
        )
        return done.stdout, done.returncode

    return run_pytest


SKIPS = {
    "in a test": "import pytest\ndef test_a():\n    pytest.skip('tired')",
    "in a subtest": "import pytest\ndef test_a(subtests):\n    with subtests.test('a'):\n        pytest.skip('tired')",
    "by a marker": "import pytest\n@pytest.mark.skip(reason='tired')\ndef test_a(): pass",
    "of a file": "import pytest\npytest.skip('tired', allow_module_level=True)",
    "of a file by a missing package": "import pytest\npytest.importorskip('no_such_package_tired')",
    "in a fixture": "import pytest\n@pytest.fixture\ndef f(): pytest.skip('tired')\ndef test_a(f): pass",
    "by an undeclared version": "import pytest\n@pytest.mark.since('numpy', '999.tired')\ndef test_a(): pass",
}


@pytest.mark.parametrize("text", SKIPS.values(), ids=SKIPS)
def test_skip_fails_in_ci(run, text):
    output, code = run(text)
    assert code not in {0, 5}, output
    assert "not declared in tests/conftest.py" in output


def test_skip_of_a_doctest_outside_tests_fails_in_ci(run):
    output, code = run('"""\n>>> import pytest\n>>> pytest.skip("tired")\n"""', name="module.py")
    assert code == 1, output


def test_skip_passes_elsewhere(run):
    output, code = run(SKIPS["in a test"], ci=False)
    assert code == 0, output


def test_expected_failure_is_no_skip(run):
    output, code = run("import pytest\n@pytest.mark.xfail(reason='known')\ndef test_a(): assert False")
    assert code == 0, output


def test_missing_extra_may_skip_with_the_lowest_versions_only(run):
    text = "import pytest, sys\nsys.modules['duckdb'] = None\npytest.importorskip('duckdb')\ndef test_a(): pass"
    output, code = run(text, "--lowest")
    assert "skipped" in output
    assert code == 5, output  # no test was collected, and nothing failed


@pytest.mark.parametrize(("options", "examples", "full"), [((), 25, False), (("--full",), 2000, True)])
def test_profiles(run, options, examples, full):
    text = f"""
from hypothesis import settings
def test_a(full_size):
    assert settings.default.max_examples == {examples}
    assert settings.default.derandomize
    assert settings.default.deadline is None
    assert full_size is {full}
"""
    output, code = run(text, *options)
    assert code == 0, output


def test_some_tests_run_at_full_size_alone(run):
    output, _ = run("import pytest\n@pytest.mark.full\ndef test_a(): pass\ndef test_b(): pass")
    assert "1 passed, 1 deselected" in output
