"""A PostgreSQL server that can be killed and started again, with a clock that can jump and a disk that can be full."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

import psycopg
from tests.engine.postgres import PATIENCE, USER, as_server, programs

OPTIONS = (
    "listen_addresses=", "fsync=on", "synchronous_commit=on", "shared_buffers=32MB", "max_connections=40",
    "max_wal_size=64MB", "min_wal_size=32MB", "checkpoint_timeout=30s", "wal_recycle=off",
)  # fmt: skip
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
"""Debian's package libfaketime."""


class Database:
    """Started on entry, killed and removed on exit.

    Parameters
    ----------
    disk
        Bytes of a file system of its own, so that it can be full; None for a folder in memory without a limit.
    clock
        Whether its clock can jump; this needs libfaketime.
    """

    def __init__(self, disk: int | None = None, clock: bool = False) -> None:
        self.disk, self.clock = disk, clock
        self.offset = 0

    def __enter__(self) -> Self:
        memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.folder = Path(tempfile.mkdtemp(prefix="calibrant-kills-", dir=memory))
        if self.disk:
            mount = ["mount", "-t", "tmpfs", "-o", f"size={self.disk}", "tmpfs", str(self.folder)]
            subprocess.run(mount, check=True, capture_output=True, text=True)
        self.folder.chmod(0o755)
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
        self.data, self.log = self.folder / "data", Path(tempfile.mktemp(prefix="calibrant-kills-log-"))
        self.jump(0)
        make = ["initdb", "--pgdata", self.data, "--username", USER, "--auth", "trust", "--encoding", "UTF8"]
        command = [*as_server(), str(programs() / make[0]), *map(str, make[1:]), "--no-sync", "--wal-segsize", "1"]
        subprocess.run(command, check=True, capture_output=True, text=True, cwd="/")
        self.start()
        return self

    @property
    def address(self) -> str:
        """Connection string that goes to the server without a proxy."""
        return f"host={self.folder} user={USER} dbname=postgres"

    @property
    def socket(self) -> str:
        """The socket on which it listens."""
        return str(self.folder / ".s.PGSQL.5432")

    def start(self) -> None:
        """Start it, which recovers what was committed, and wait until it takes connections."""
        settings = [part for option in OPTIONS for part in ("-c", option)]
        end = time.monotonic() + 2 * PATIENCE
        while True:
            command = [*as_server(), *self._environment(), str(programs() / "postgres"), "-D", str(self.data)]
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    [*command, "-k", str(self.folder), *settings], stdout=log, stderr=log, cwd="/",
                    start_new_session=True,
                )  # fmt: skip
            while self.process.poll() is None:
                try:
                    psycopg.connect(self.address, connect_timeout=5).close()
                except psycopg.OperationalError:
                    time.sleep(0.05)
                else:
                    return
                if time.monotonic() > end:
                    break
            if time.monotonic() > end:  # shared memory of the one before may be in use for a moment
                raise RuntimeError(f"PostgreSQL did not start: {self.log.read_text()[-2_000:]}")
            time.sleep(0.1)

    def _environment(self) -> list[str]:
        if not self.clock:
            return []
        return [
            "env", f"LD_PRELOAD={FAKETIME}", f"FAKETIME_TIMESTAMP_FILE={self.folder / 'clock'}",
            "FAKETIME_CACHE_DURATION=1", "FAKETIME_DONT_FAKE_MONOTONIC=1",
        ]  # fmt: skip

    @property
    def runs(self) -> bool:
        """Whether the server process is there."""
        return self.process.poll() is None

    def stop(self, *, immediate: bool) -> None:
        """End it without a checkpoint: by an immediate stop, or by SIGKILL of the server and all that it started."""
        number = self.number
        if number is not None:
            found = [number] if immediate else [number, *children(number)]
            for each in found:
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGQUIT if immediate else signal.SIGKILL)
        self.process.wait(PATIENCE)

    def kill_one(self) -> bool:
        """SIGKILL one process of the server that serves a client; it then restarts all of them by itself."""
        number = self.number
        clients = [each for each in children(number) if "calibrant" in command(each)] if number else []
        if clients:
            os.kill(clients[time.monotonic_ns() % len(clients)], signal.SIGKILL)
        return bool(clients)

    @property
    def number(self) -> int | None:
        """Process id of the server; None if it does not run."""
        try:
            return int((self.data / "postmaster.pid").read_text().split()[0])
        except (OSError, IndexError, ValueError):
            return None

    def jump(self, seconds: int) -> None:
        """Move the clock; processes of the server notice within some seconds."""
        self.offset += seconds
        new = self.folder / "clock.new"
        new.write_text(f"{self.offset:+d}\n")
        new.chmod(0o644)
        new.rename(self.folder / "clock")

    def fill(self) -> None:
        """Leave no byte of its disk free."""
        with (self.folder / "ballast").open("wb", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(bytes(1 << 16))
            except OSError:
                pass

    def free(self) -> None:
        """Give the space back."""
        (self.folder / "ballast").unlink(missing_ok=True)

    def __exit__(self, *exception: object) -> None:
        self.stop(immediate=True)
        if self.disk:
            subprocess.run(["umount", "-l", str(self.folder)], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.log.unlink(missing_ok=True)


def children(parent: int) -> list[int]:
    """Processes that a process started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(path.parent.name))
    return found


def command(number: int) -> str:
    """Command line of a process; empty if it has ended."""
    try:
        return (Path("/proc") / str(number) / "cmdline").read_text()
    except OSError:
        return ""
