"""A real PostgreSQL server for the length of the tests: a fresh data folder, one socket in a folder, no network."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

PATIENCE = 60.0
USER = "calibrant"
MEMORY = "/dev/shm"
OPTIONS = ("-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=32MB", "-c", "max_connections=10")


def programs() -> Path:
    """The folder of ``initdb`` and ``postgres``: on the path, or where Debian puts the newest version."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not places:
        raise FileNotFoundError("no initdb on this machine: install Debian's package postgresql")
    return places[-1]


def as_server() -> list[str]:
    """PostgreSQL refuses to run as root; Debian's package brings a user for it."""
    return ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []


class Server:
    """Started on entry, stopped and removed on exit; further options of PostgreSQL come after :data:`OPTIONS`.

    With ``in_memory`` its folder is on a disk in memory, if there is one, so that ``fsync`` costs little.
    """

    def __init__(self, *options: str, in_memory: bool = False) -> None:
        self.options = (*OPTIONS, *options)
        self.where = MEMORY if in_memory and Path(MEMORY).is_dir() else None

    def __enter__(self) -> Self:
        # Not in pytest's own folder, which the server's user may not enter.
        self.folder = Path(tempfile.mkdtemp(prefix="calibrant-postgres-", dir=self.where))
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
        data = self.folder / "data"
        make = ["initdb", "--pgdata", data, "--username", USER, "--auth", "trust", "--encoding", "UTF8", "--no-sync"]
        self._run(*make)
        self.start()
        return self

    def start(self) -> None:
        """Start it, also again after :meth:`stop`."""
        with (self.folder / "log").open("ab") as log:
            command = [*as_server(), programs() / "postgres", "-D", self.folder / "data", "-k", self.folder]
            command += self.options
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", start_new_session=True)
        self._wait()

    def stop(self) -> None:
        """Stop it at once, without a checkpoint; what was committed is recovered at the next start."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGQUIT)
            self.process.wait(PATIENCE)

    def connect(self) -> Any:
        """A new connection by psycopg."""
        import psycopg

        return psycopg.connect(host=str(self.folder), user=USER, dbname="postgres", autocommit=True)

    def __exit__(self, *exception: object) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def _run(self, program: str, *arguments: object) -> None:
        command = [*as_server(), str(programs() / program), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr}")

    def _wait(self) -> None:
        import psycopg

        end = time.monotonic() + PATIENCE
        while True:
            try:
                self.connect().close()
            except psycopg.OperationalError:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise RuntimeError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()}") from None
                time.sleep(0.1)
            else:
                return
