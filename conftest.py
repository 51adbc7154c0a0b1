"""Pages are tests: every code block of README.md and of the documentation runs, from top to bottom of its page.

- A block of ``python`` with prompts is a doctest; one without prompts is executed, and what it prints does not count.
- In a block of ``console``, each line that begins with ``$`` runs in a shell, and the lines below are what it prints.
- In a block without a language, lines that begin with ``calibrant`` are commands. They must be accepted; files of rows
  that they read and that are not there are simulated.

All blocks of a page share their names and one temporary folder. ``...`` stands for any text, and differences in white
space do not count.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from _pytest.doctest import DoctestItem, _get_checker, _get_runner, get_optionflags

# The last has metrics in the form that also takes frames and segments; their examples run where they are written.
collect_ignore = ["docs/_build", "docs/conf.py", "docs/gallery", "docs/reference", "src/calibrant/metrics/__init__.py"]

ROOT = Path(__file__).parent
# Pages whose blocks run in a test of their own, and where.
ELSEWHERE = {"docs/howto/spark.md": "tests/engine/test_howto.py"}
FENCE = re.compile(r"(?P<indent> *)(?P<fence>`{3,}|~{3,}|:{3,})(?P<info>.*)")
PROMPT = "$ "
COMMAND = "calibrant "
MISTAKES = {1, 2}
"""Exit codes of the command line that are not answers."""


@dataclass(frozen=True)
class Block:
    """A fenced block: what stands behind its fence, its lines, and the line on which it begins, from 0."""

    info: str
    lines: tuple[str, ...]
    line: int

    @property
    def text(self) -> str:
        """Its lines as one text."""
        return "".join(f"{line}\n" for line in self.lines)

    @property
    def runs(self) -> bool:
        """Whether it is executed."""
        return self.info == "python" or self.is_console or self.is_commands

    @property
    def is_console(self) -> bool:
        """Whether it shows commands with their output."""
        return self.info == "console" and bool(self.lines) and self.lines[0].startswith(PROMPT)

    @property
    def is_commands(self) -> bool:
        """Whether it is commands of Calibrant alone."""
        return not self.info and bool(self.lines) and all(line.startswith(COMMAND) for line in self.lines)


def blocks(text: str) -> Iterator[Block]:
    """Fenced blocks of a page in order; colon fences are containers, whose blocks count."""
    info, indent, fence, start, inside = "", 0, "", 0, []
    for number, line in enumerate(text.splitlines()):
        found = FENCE.fullmatch(line)
        if fence:
            if found and found["fence"].startswith(fence) and not found["info"].strip():
                yield Block(info, tuple(inside), start)
                fence = ""
            else:
                inside.append(line[indent:] if not line[:indent].strip() else line)
        elif found and not found["fence"].startswith(":"):
            info, indent, fence = found["info"].strip(), len(found["indent"]), found["fence"]
            start, inside = number + 1, []


def is_page(path: Path) -> bool:
    """Whether this is a page whose blocks run."""
    return path.suffix == ".md" and (path == ROOT / "README.md" or ROOT / "docs" in path.parents)


def examples(page: str) -> Iterator[doctest.Example]:
    """What runs on a page, in order."""
    for block in blocks(page):
        if block.runs:
            yield from (_console if block.is_console else _commands if block.is_commands else _python)(block)


def _python(block: Block) -> Iterator[doctest.Example]:
    found = doctest.DocTestParser().get_examples(block.text)
    if not found and block.text.strip():
        source = f"with _quiet(): exec(compile({block.text!r}, 'block', 'exec'), globals())\n"
        found = [doctest.Example(source, "")]
    for example in found:
        example.lineno += block.line
        yield example


def _console(block: Block) -> Iterator[doctest.Example]:
    starts = [number for number, line in enumerate(block.lines) if line.startswith(PROMPT)]
    for start, end in zip(starts, [*starts[1:], len(block.lines)], strict=True):
        command = block.lines[start].removeprefix(PROMPT)
        want = "".join(f"{line}\n" for line in block.lines[start + 1 : end] if line.strip())
        yield doctest.Example(f"_shell({command!r})\n", want, lineno=block.line + start)


def _commands(block: Block) -> Iterator[doctest.Example]:
    for number, line in enumerate(block.lines):
        yield doctest.Example(f"_accepted({line!r})\n", "", lineno=block.line + number)


def accepted(command: str) -> None:
    """Run a command of which only the form matters: any answer will do, a mistake is an error."""
    words = shlex.split(command, comments=True)
    options = {name: value for name, value in pairwise(words) if name.startswith("--")}
    if "--out" in options:
        Path(options["--out"]).unlink(missing_ok=True)
    for word in words:
        if word.endswith((".csv", ".parquet")) and word != options.get("--out") and not Path(word).exists():
            _simulate(Path(word), options)
    done = _run(command)
    assert done.returncode not in MISTAKES, done.stdout


def _simulate(path: Path, options: Mapping[str, str]) -> None:
    """Write calibrated rows with the columns that the options of a command name."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    score = rng.beta(2, 5, 20_000)
    columns = {
        options.get("--score", "score"): score,
        options.get("--label", "label"): (rng.random(20_000) < score).astype(int),
        options.get("--by", "country"): rng.choice(["AT", "DE"], 20_000),
        options.get("--time", "month"): rng.choice(["2026-01", "2026-02"], 20_000),
    }
    frame = pd.DataFrame(columns)
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)


def shell(command: str) -> None:
    """Run a command with this environment's programs, and print what it prints, without empty lines."""
    sys.stdout.write("".join(f"{line}\n" for line in _run(command).stdout.splitlines() if line.strip()))


def _run(command: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "COLUMNS": "120", "NO_COLOR": "1"}
    return subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)


def quiet() -> contextlib.redirect_stdout[io.StringIO]:
    """What is printed inside is dropped."""
    return contextlib.redirect_stdout(io.StringIO())


HELPERS = {"_accepted": accepted, "_quiet": quiet, "_shell": shell}


class Page(pytest.Module):
    """A page of the documentation, whose blocks are one test."""

    obj = None

    def collect(self) -> Iterator[pytest.Item]:
        """The test of the page, if anything on it runs."""
        text = self.path.read_text(encoding="utf-8")
        name = self.path.relative_to(ROOT).as_posix()
        found = list(examples(text))
        if not found or name in ELSEWHERE:
            return
        test = doctest.DocTest(found, {"__name__": "__main__", **HELPERS}, name, str(self.path), 0, text)
        runner = _get_runner(
            verbose=False, optionflags=get_optionflags(self.config), checker=_get_checker(), continue_on_failure=False
        )
        yield DoctestItem.from_parent(self, name=self.path.name, runner=runner, dtest=test)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Page | None:
    """Collect pages."""
    return Page.from_parent(parent, path=file_path) if is_page(file_path) else None


@pytest.fixture(autouse=True)
def _elsewhere(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Run pages and doctests in a folder of their own; files that they save and figures that they open go with them."""
    if not isinstance(request.node, DoctestItem):
        yield
        return
    monkeypatch.chdir(tmp_path_factory.mktemp("page"))
    monkeypatch.setenv("MPLBACKEND", "agg")
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
