"""A bar on stderr for work of more than two seconds, and none where nobody looks."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from calibrant import progress

SLOW = """
import numpy as np
from calibrant import metrics, progress
progress.PATIENCE = 0.0
p = np.random.default_rng(0).random(300)
metrics.interval("brier", p, np.random.default_rng(1).random(300) < p)
"""


def on_terminal(**settings: str) -> str:
    """What a process writes to stderr if that is a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", SLOW], stderr=theirs, env=os.environ | settings) as process:
        os.close(theirs)
        written = b""
        try:
            while more := os.read(ours, 1 << 16):
                written += more
        except OSError:  # the other end is closed
            pass
    os.close(ours)
    assert process.returncode == 0
    return written.decode()


def test_a_terminal_shows_a_bar_unless_it_is_off() -> None:
    """With the name of the work and the number of items, and only then."""
    assert "bootstrap samples" in on_terminal()
    assert on_terminal(CALIBRANT_PROGRESS="0") == ""


def test_a_pipe_shows_nothing(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """A log file must not fill with bars; the items are the same."""
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    assert list(progress.progress(iter(range(5)), "work", 5)) == [0, 1, 2, 3, 4]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("missing", [(), ("tqdm",), ("tqdm", "rich")], ids=str)
def test_inner_work_has_no_bar_of_its_own(missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """One bar at a time, by tqdm, by rich or not at all; it is gone when the work ends, also early."""
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    monkeypatch.setattr(progress, "_seen", lambda: True)
    for name in missing:
        for each in [each for each in sys.modules if each.partition(".")[0] == name] + [f"{name}.auto"]:
            monkeypatch.setitem(sys.modules, each, None)
    most = 0
    for _ in progress.progress([1, 2], "outer"):
        for _ in progress.progress([1, 2], "inner"):
            most = max(most, len(progress._bars))
            break
    assert (most, progress._bars) == (0 if len(missing) == 2 else 1, [])
