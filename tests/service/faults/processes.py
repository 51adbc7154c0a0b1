"""Processes of the service, started again when they end, as a supervisor such as systemd does it."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

MODULES = ["calibrant.service.api.app", "calibrant.service.learning.loop", "tests.service.faults.processes"]
"""Imported once, in a process from which the others are forked: they start in less time."""

CHECKPOINT_ENTRIES, DROP_SECONDS = 300, 2.0

FORKS = multiprocessing.get_context("forkserver")


def serve(environment: dict[str, str]) -> None:
    """A serving process: what ``calibrant serve`` runs."""
    from calibrant.service.api.app import run
    from calibrant.service.config import Config

    run(Config.from_environment(environment))


def learn(environment: dict[str, str]) -> None:
    """A learner process: what ``calibrant learn`` runs; it stores states and drops days more often."""
    from calibrant.service.learning import learner, loop

    learner.CHECKPOINT_ENTRIES, loop.DROP_SECONDS = CHECKPOINT_ENTRIES, DROP_SECONDS
    loop.LearnerLoop(environment["CALIBRANT_DATABASE"], seconds=0.2).run(threading.Event())


def _begin(work: Callable[[dict[str, str]], None], environment: dict[str, str], log: str) -> None:
    with open(log, "ab") as text:
        os.dup2(text.fileno(), 1)
        os.dup2(text.fileno(), 2)
    work(environment)


class Supervised:
    """A process that is started again until the end.

    Parameters
    ----------
    work
        What it runs.
    environment
        Configuration of the service.
    log
        File for what it writes.
    """

    def __init__(self, work: Callable[[dict[str, str]], None], environment: dict[str, str], log: Path) -> None:
        self.work, self.environment, self.log = work, environment, log
        self.starts = self.kills = 0
        self._lock, self._ended = threading.Lock(), threading.Event()

    def __enter__(self) -> Self:
        FORKS.set_forkserver_preload(MODULES)
        self._start()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _start(self) -> None:
        self.process = FORKS.Process(target=_begin, args=(self.work, self.environment, str(self.log)), daemon=True)
        self.process.start()
        self.starts += 1

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            with self._lock:
                if not self.process.is_alive() and not self._ended.is_set():
                    self.process.close()
                    self._start()

    @property
    def number(self) -> int:
        """Its process id now."""
        return self.process.pid or 0

    def kill(self) -> bool:
        """SIGKILL; false if it did not run."""
        with self._lock:
            if not self.process.is_alive():
                return False
            self.process.kill()
            self.process.join()
            self.kills += 1
            return True

    def end(self) -> None:
        """Kill it, and do not start it again."""
        if not self._ended.is_set():
            self._ended.set()
            self._thread.join()
            self.process.kill()
            self.process.join()
            self.process.close()

    def __exit__(self, *exception: object) -> None:
        self.end()


def briefly(work: Callable[[dict[str, str]], None], environment: dict[str, str], log: Path, seconds: float) -> None:
    """Run a second process of a kind beside the first one, and SIGKILL it after a while."""
    process = FORKS.Process(target=_begin, args=(work, environment, str(log)), daemon=True)
    process.start()
    time.sleep(seconds)
    process.kill()
    process.join()
    process.close()
