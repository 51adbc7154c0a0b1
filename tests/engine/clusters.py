"""Real Spark on this machine: a standalone master with its workers, and a Spark Connect server.

PySpark's wheel has the classes and ``spark-class`` but no start scripts, so each process is started here, on the
loopback address alone, in a session of its own: what is killed is a process group, executors included. Each group also
watches a pipe that this process holds, and ends itself when the pipe closes, so that nothing outlives a killed run.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import socket
import subprocess
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, cast
from urllib.error import HTTPError
from urllib.request import urlopen

HOST = "127.0.0.1"
PATIENCE = 180.0
"""Seconds that a process may take to start."""

Read = Callable[[Sequence[str]], Any]
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For JVMs that live for a minute: compiling less takes less time than it saves. Not for measurements of speed."""

DEPLOY = "org.apache.spark.deploy"
WATCHED = 'exec 3<&0; (cat <&3 >/dev/null; kill -9 0) & exec "$@" </dev/null 3<&-'
LOGGING = """\
rootLogger.level = {}
rootLogger.appenderRef.out.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d{{HH:mm:ss.SSS}} %p %c{{1}}: %m%n
"""


class Process:
    """One JVM started by ``spark-class``, with what it starts in turn; its output is in a file."""

    def __init__(self, name: str, arguments: list[str], folder: Path, memory: str = "256m", java: str = QUICK) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        home = spark_home()
        environment = os.environ | {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": memory,
            "SPARK_DAEMON_JAVA_OPTS": f"{java} {log_option(folder)}",
        }
        with self.log.open("ab") as out:
            self._popen = subprocess.Popen(
                ["sh", "-c", WATCHED, "sh", str(home / "bin" / "spark-class"), *arguments],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=folder,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Of the JVM, and of the process group."""
        return self._popen.pid

    @property
    def alive(self) -> bool:
        return self._popen.poll() is None

    def text(self) -> str:
        """What it has logged."""
        return self.log.read_text(errors="replace")

    def wait_for(self, ready: Callable[[], bool]) -> None:
        """Poll until ready; a process that ends or is late raises, with its log."""
        wait_until(lambda: not self.alive or ready(), f"{self.name} did not start:\n", self.text)
        if not self.alive:
            raise RuntimeError(f"{self.name} ended with code {self._popen.returncode}:\n{self.text()}")

    def kill(self) -> None:
        """SIGKILL to the JVM and to all that it started, at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait(PATIENCE)
        if self._popen.stdin is not None:
            self._popen.stdin.close()

    def stop(self) -> None:
        """SIGTERM to the JVM, ten seconds to end, then SIGKILL to the group."""
        if self.alive:
            self._popen.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(10.0)
        self.kill()


class Cluster:
    """A standalone master with workers of one core each; ``with Cluster(folder) as cluster`` starts and stops it."""

    def __init__(self, folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "1g") -> None:
        self.folder = folder
        self.options = ["--cores", str(cores), "--memory", memory]
        self.count = workers
        self.port, self.web_port = free_port(), free_port()
        self.master: Process | None = None
        self.workers: dict[int, Process] = {}

    @property
    def url(self) -> str:
        return f"spark://{HOST}:{self.port}"

    def __enter__(self) -> Self:
        try:
            self.master = Process("master", [f"{DEPLOY}.master.Master", *_at(self.port, self.web_port)], self.folder)
            self.master.wait_for(lambda: listens(self.port) and listens(self.web_port))
            for number in range(self.count):
                self.start_worker(number)
            wait_until(lambda: self.alive_workers() == self.count, "the workers did not register", self._logs)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self.workers.values(), self.master):
            if process is not None:
                process.stop()

    def start_worker(self, number: int) -> None:
        """Start a worker, or start it again."""
        folder = ["--work-dir", str(self.folder / f"work-{number}")]
        arguments = [f"{DEPLOY}.worker.Worker", *_at(free_port(), 0), *self.options, *folder, self.url]
        self.workers[number] = Process(f"worker-{number}", arguments, self.folder)

    def alive_workers(self) -> int:
        """Workers that the master counts on."""
        return int(self.state().get("aliveworkers", 0))

    def state(self) -> dict[str, Any]:
        """What the master says of its workers and applications; nothing while it starts."""
        return cast(dict[str, Any], ask_json(f"http://{HOST}:{self.web_port}/json/") or {})

    def _logs(self) -> str:
        return "\n".join(f"{worker.name}: {worker.text()}" for worker in self.workers.values())


class ConnectServer:
    """A Spark Connect server; ``with ConnectServer(folder) as server`` starts and stops it."""

    def __init__(self, folder: Path, *, master: str = "local[2]", memory: str = "768m", java: str = QUICK) -> None:
        self.folder = folder
        self.port = free_port()
        self.master, self.memory, self.java = master, memory, java
        self.process: Process | None = None

    @property
    def url(self) -> str:
        return f"sc://{HOST}:{self.port}"

    def __enter__(self) -> Self:
        conf = settings(self.folder) | {
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(self.port),
        }
        name = "org.apache.spark.sql.connect.service.SparkConnectServer"
        pairs = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
        arguments = [f"{DEPLOY}.SparkSubmit", "--class", name, "--master", self.master, *pairs, "spark-internal"]
        self.process = Process("connect", arguments, self.folder, self.memory, self.java)
        try:
            self.process.wait_for(lambda: listens(self.port))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.stop()


def settings(folder: Path) -> dict[str, str]:
    """What every driver of the tests is told: loopback, UTC, few partitions, no web interface, scratch in a folder."""
    return {
        "spark.driver.bindAddress": HOST,
        "spark.driver.host": HOST,
        "spark.local.dir": str(folder),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def log_option(folder: Path, level: str = "warn") -> str:
    """The JVM's option for a log of that level and above, and nothing else."""
    path = folder / f"log4j2-{level}.properties"
    path.write_text(LOGGING.format(level), encoding="utf-8")
    return f"-Dlog4j2.configurationFile={path.as_uri()}"


def spark_home() -> Path:
    """Where the installed PySpark keeps its jars."""
    import pyspark

    return Path(pyspark.__file__).parent


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    """Whether something accepts connections there."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((HOST, port)) == 0


def ask_json(url: str) -> Any:
    """What a page answers, or None where it is not there yet: while Spark starts, another page answers for it."""
    try:
        with urlopen(url, timeout=30.0) as answer:
            return json.load(answer)
    except (json.JSONDecodeError, TimeoutError):
        return None
    except HTTPError as error:
        error.close()
        return None


def wait_until(done: Callable[[], bool], complaint: str, detail: Callable[[], str] = str) -> None:
    """Poll until done, or raise when patience ends."""
    deadline = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(complaint + detail())
        time.sleep(0.05)


def _at(port: int, web_port: int) -> list[str]:
    return ["--host", HOST, "--port", str(port), "--webui-port", str(web_port)]


# ------------------------------------------------------------------------------------------------------ sessions


def classic_session(master: str, folder: Path, extra: Mapping[str, str] | None = None) -> Any:
    """A Spark session whose driver is a JVM of this process; there can be one at a time."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", HOST)
    logging.getLogger("py4j").setLevel(logging.ERROR)
    java = {"spark.driver.extraJavaOptions": f"{QUICK} {log_option(folder, 'off')}"}
    conf = settings(folder) | java | dict(extra or {})
    builder = SparkSession.builder.master(master).appName("calibrant-tests")
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def connect_session(url: str) -> Any:
    """A session on a Connect server; this class, unlike ``SparkSession.builder``, leaves classic sessions alone."""
    from pyspark.sql.connect.session import SparkSession

    return SparkSession.builder.remote(url).getOrCreate()


def reads(session: Any) -> Read:
    """What turns Parquet files into a frame of this session."""
    return lambda paths: session.read.parquet(*paths)


class Driver:
    """A classic Spark session in a Python process of its own, which runs functions sent to it, one at a time.

    One process holds one classic session, and tests have one on local threads already. Functions must be importable by
    name; they are given the reader of Parquet files first. The process ends when this one does.
    """

    def __init__(self, master: str, folder: Path, conf: Mapping[str, str] | None = None) -> None:
        self.folder, self.web_port = folder, free_port()
        web = {"spark.ui.enabled": "true", "spark.ui.port": str(self.web_port)}
        self.arguments = (master, folder, web | dict(conf or {}))

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, *self.arguments), daemon=True)
        self._process.start()
        theirs.close()
        try:
            self.result(PATIENCE)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._ours.close()
        self._process.join(20.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(PATIENCE)

    def submit(self, job: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        """Begin a job; :meth:`result` must be asked before the next."""
        self._ours.send((job, arguments, options))

    def result(self, patience: float = 120.0) -> Any:
        """What the job returned or raised."""
        if not self._ours.poll(patience):
            raise TimeoutError(f"the driver gave no answer in {patience:g} seconds: see {self.folder}/driver.log")
        fine, value = self._ours.recv()
        if fine:
            return value
        raise value

    def run(self, job: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Run a job and wait for what it returns."""
        self.submit(job, *arguments, **options)
        return self.result()

    def ask(self, page: str) -> list[Any]:
        """A page of Spark's REST interface to this application: its stages, its executors."""
        applications = f"http://{HOST}:{self.web_port}/api/v1/applications"
        found = ask_json(applications)
        return (ask_json(f"{applications}/{found[0]['id']}/{page}") or []) if found else []


def _serve(connection: Any, master: str, folder: Path, conf: dict[str, str]) -> None:
    """The driver's side: until the pipe closes, because the tests ended or died, run what it brings."""
    out = os.open(folder / "driver.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    warnings.simplefilter("error")
    session = classic_session(master, folder, conf)
    try:
        connection.send((True, None))
        read = reads(session)
        while True:
            job, arguments, options = connection.recv()
            try:
                answer = (True, job(read, *arguments, **options))
            except Exception as error:
                answer = (False, error)
            connection.send(answer)
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return
    finally:
        session.stop()
