"""A PostgreSQL server in a temporary folder: one socket in the folder, no network, removed at the end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

import psycopg

from calibrant.messages import InputError

PATIENCE = 60.0
"""Seconds to wait for the server."""

USER = "calibrant"
OPTIONS = ("-c", "listen_addresses=", "-c", "shared_buffers=64MB", "-c", "max_connections=50")


def programs() -> Path:
    """The folder of ``initdb`` and ``postgres``: on the path, or where Debian puts the newest version."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not places or not (places[-1] / "postgres").exists():
        raise InputError("PostgreSQL", "is not installed", "install it (Debian: postgresql), then try again")
    return places[-1]


class ThrowAway:
    """Started on entry, stopped and removed on exit.

    Attributes
    ----------
    address
        Connection string.
    """

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="calibrant-demo-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"host={self._folder} user={USER} dbname=postgres"
        try:
            if os.geteuid() == 0:
                self._give_away()
            data = self._folder / "data"
            self._make(data)
            with (self._folder / "log").open("wb") as log:
                places = ["-D", str(data), "-k", str(self._folder)]
                command = [*self._user(), str(programs() / "postgres"), *places, *OPTIONS]
                self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", start_new_session=True)
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGQUIT)  # at once: the data are removed
            self._process.wait(PATIENCE)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _give_away(self) -> None:
        """PostgreSQL refuses to run as root; its packages bring a user for it."""
        try:
            shutil.chown(self._folder, "postgres")
        except LookupError:
            problem = "refuses to run as root, and the user postgres does not exist"
            raise InputError("PostgreSQL", problem, "run the demo as another user") from None

    def _user(self) -> list[str]:
        return ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []

    def _make(self, data: Path) -> None:
        options = ["--pgdata", str(data), "--username", USER, "--auth", "trust", "--encoding", "UTF8", "--no-sync"]
        command = [*self._user(), str(programs() / "initdb"), *options]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
        if done.returncode:
            raise InputError("initdb", f"failed: {done.stderr.strip()}")

    def _wait(self) -> None:
        assert self._process is not None  # it was started
        end = time.monotonic() + PATIENCE
        while True:
            try:
                psycopg.connect(self.address).close()
            except psycopg.OperationalError:
                if time.monotonic() > end or self._process.poll() is not None:
                    text = (self._folder / "log").read_text(errors="replace")
                    raise InputError("PostgreSQL", f"did not start: {text.strip()}") from None
                time.sleep(0.1)
            else:
                return
