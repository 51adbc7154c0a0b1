"""The demo: one command, something to look at, and nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from shutil import rmtree

import httpx
import pytest

from calibrant.service.demo.database import ThrowAway

PATIENCE = 300.0
STOPS = 30.0
"""Seconds in which the demo ends; it takes about 2 on a machine without other work."""


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """What the demo says, up to a text."""
    assert process.stdout
    said = ""
    for line in process.stdout:
        said += line
        if text in line:
            return said
    raise AssertionError(f"the demo ended: {said}")


def test_the_database_of_the_demo_ends_without_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []

    def remove(folder: Path, **options: bool) -> None:
        told.append((folder / "log").read_text())
        rmtree(folder, **options)

    monkeypatch.setattr("shutil.rmtree", remove)
    with ThrowAway():
        pass
    assert "received immediate shutdown request" in told[0]


@pytest.mark.slow
def test_the_demo_shows_streams_and_leaves_nothing() -> None:
    folder = Path(tempfile.mkdtemp(prefix="demo-"))
    folder.chmod(0o755)  # the user of PostgreSQL enters it
    command = [sys.executable, "-c", "from calibrant.service.demo import run; run(port=0)"]
    environment = os.environ | {"TMPDIR": str(folder)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            said = read_until(process, "Ctrl-C")
            address = re.search(r"http://[\d.:]+", said)
            token = re.search(r"cal_\S+", said)
            assert address
            assert token
            with httpx.Client(base_url=address[0], follow_redirects=True, timeout=PATIENCE) as browser:
                page = browser.post("/login", data={"token": token[0]}).text
                end = time.monotonic() + PATIENCE
                assert "behind" not in page
                while "Served by version" not in page:
                    assert time.monotonic() < end, page
                    time.sleep(0.5)
                    page = browser.get("/").text
                for name in ("clicks", "payments"):
                    assert f"/streams/{name}" in page
                    assert browser.get(f"/streams/{name}").text.count("<svg") == 3
                end = time.monotonic() + PATIENCE
                while "calibrant_events_total" not in metrics(browser, token[0]):
                    assert time.monotonic() < end
                    time.sleep(0.5)
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(STOPS) == 0
    assert not any(folder.iterdir())
    folder.rmdir()


def metrics(browser: httpx.Client, token: str) -> str:
    return browser.get("/metrics", headers={"Authorization": f"Bearer {token}"}).text
