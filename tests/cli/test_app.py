"""The command line itself: help, version, speed, what happens when it is interrupted or wrong."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time

import pytest
from tests.cli.conftest import command_line
from typer.testing import CliRunner

from calibrant.arrays.score_types import kind_guessed
from calibrant.cli import app as application
from calibrant.cli import console
from calibrant.cli.app import COMMANDS, app
from calibrant.guarantees import planning
from calibrant.messages import warn

HEAVY = {
    "duckdb",
    "fastapi",
    "matplotlib",
    "narwhals",
    "numpy",
    "pandas",
    "polars",
    "psycopg",
    "pyarrow",
    "scipy",
    "sklearn",
}
NAMES = [command.__name__ for command in COMMANDS]


@pytest.mark.parametrize("words", [["--help"], ["check", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(words):
    code = f"""
import json, sys
sys.argv = ["calibrant", *{words!r}]
from calibrant.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
sys.stderr.write(json.dumps(list(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {name.partition(".")[0] for name in json.loads(done.stderr)} & HEAVY
    assert done.stdout


def test_help_is_fast():
    """By its own processor time, which others on the machine do not add to."""
    seconds = []
    for _ in range(5):
        start = resource.getrusage(resource.RUSAGE_CHILDREN)
        command_line("--help")
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime)
    assert min(seconds) < 1.0


def test_help_lists_every_command_and_the_exit_codes():
    told = CliRunner().invoke(app, ["--help"]).stdout
    assert all(f"\n  {name} " in told for name in NAMES)
    assert "10 miscalibrated, 11 cannot tell, 12 off, 13 a segment or period is off" in " ".join(told.split())


def test_every_command_is_explained_with_an_example_to_copy(subtests):
    for name in NAMES:
        with subtests.test(name=name):
            told = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).stdout
            examples = [line for line in told.splitlines() if line.startswith(f"    calibrant {name} ")]
            assert examples
            assert all(len(example) <= 80 for example in examples)
            assert len(told.split("Options:")[0].split()) > 40
            known = {part for part in told.replace(",", " ").split() if part.startswith("--")}
            assert {word for example in examples for word in example.split() if word.startswith("--")} <= known


def test_version_is_the_packages():
    from importlib.metadata import version

    assert CliRunner().invoke(app, ["--version"]).stdout == f"calibrant {version('calibrant')}\n"


def test_completion_is_on():
    assert "--install-completion" in CliRunner().invoke(app, ["--help"]).stdout


def test_without_typer_the_install_line_is_printed():
    code = "import sys; sys.modules['typer'] = None; from calibrant.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert 'pip install "calibrant[cli]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_interrupts_the_query(here):
    words = ["check", "rows.csv", "--where", "(SELECT count(*) FROM range(1000000000000)) > 0"]
    for patience in (3.0, 15.0):  # on a crowded machine the first signal may come before Python can handle it
        process = subprocess.Popen(
            [sys.executable, "-m", "calibrant.cli", *words],
            cwd=here,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(patience)
        start = time.perf_counter()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        if process.returncode != -signal.SIGINT:
            break
    assert (process.returncode, out, err) == (130, "", "")
    assert time.perf_counter() - start < 4.0


@pytest.fixture
def broken(monkeypatch):
    """A library with a bug."""

    def fail(*words, **options):
        raise TypeError("a bug of ours")

    monkeypatch.setattr("calibrant.verdict.check", fail)


def test_a_bug_asks_to_be_reported(run, broken):
    done = run("check", "rows.csv")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: internal error in calibrant, please report it (TypeError: a bug of ours)")


def test_debug_shows_where_a_bug_is(run, broken):
    done = run("--debug", "check", "rows.csv")
    assert isinstance(done.exception, TypeError)


def test_warnings_of_the_library_are_notes(run, monkeypatch):
    def plan(*words, **options):
        warn(kind_guessed("logit", -3.0, 3.0))
        return real(*words, **options)

    real = planning.plan
    monkeypatch.setattr(planning, "plan", plan)
    done = run("plan", "--labels", "500", "--n-bins", "5", "--json")
    assert json.loads(done.stdout)["n_bins"] == 5
    assert done.stderr.startswith("note: scores read as logits (from -3 to 3): pass --score-type logit to confirm")


def test_work_gives_back_what_it_made_and_raises_what_it_raised():
    assert console.work(lambda: 42, words="", quiet=True) == 42
    with pytest.raises(KeyError):
        console.work(lambda: {}["x"], words="", quiet=True)


@pytest.mark.parametrize(
    ("terminal", "quiet", "shown"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_progress_is_shown_on_a_terminal_only(capsys, monkeypatch, terminal, quiet, shown):
    class Connection:
        def query_progress(self) -> float:
            return 40.0

    monkeypatch.setattr(console, "PATIENCE", 0.01)
    monkeypatch.setenv("TTY_COMPATIBLE", "1" if terminal else "0")
    console.work(lambda: time.sleep(0.5), Connection(), words="Counting", quiet=quiet)
    told = capsys.readouterr()
    assert ("Counting" in told.err) == shown
    assert told.out == ""


def test_a_command_is_one_module_and_one_line():
    """What the module docstring of the app promises."""
    places = {command.__name__: command.__module__.removeprefix("calibrant.cli.commands.") for command in COMMANDS}
    assert all(place.removeprefix("service.") == name for name, place in places.items())
    assert [info.callback.__name__ for info in application.app.registered_commands] == NAMES
