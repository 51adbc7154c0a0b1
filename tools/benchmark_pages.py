"""Write the page that lists the stored outputs of benchmarks, each with the commit that it was made for.

python tools/benchmark_pages.py docs/benchmarks/files.md
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "benchmarks"

HEAD = """# Stored outputs

What the scripts in `benchmarks/` printed. They ran on a machine with two cores and Python 3.11, in part beside other
jobs, so ratios within a file say more than seconds; a file that names more about its machine does so in its head. The
commit is the last one that changed the file. [Benchmarks](README.md) explains what each file shows.

| file | command | commit | date |
|---|---|---|---|
"""


def commits() -> dict[str, tuple[str, str]]:
    """Commit and date of each stored output; empty where this is not a Git checkout."""
    found = {}
    for path in files():
        command = ["git", "log", "-1", "--format=%h %ad", "--date=short", "--", str(path)]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return {}
        if done.stdout.strip():
            commit, date = done.stdout.split()
            found[path.name] = commit, date
    return found


def files() -> list[Path]:
    """Stored outputs."""
    return sorted([*FOLDER.glob("*.txt"), *FOLDER.glob("*.csv")])


def command(path: Path) -> str:
    """The command that wrote a file, as the page of benchmarks states it, else the script of the same name."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    line = next((line for line in text.splitlines() if f"`{path.name}`" in line), "")
    stated = re.search(r"`(?:python )?(benchmarks/[^`]*\.py[^`]*)`", line)
    if stated:
        return f"python {stated[1]}"
    script = ROOT / "benchmarks" / f"{path.stem}.py"
    return f"python benchmarks/{script.name}" if script.exists() else ""


def text() -> str:
    """The page."""
    known = commits()
    rows = []
    for path in files():
        commit, date = known.get(path.name, ("", ""))
        code = f"`{command(path)}`" if command(path) else ""
        rows.append(f"| [{path.name}]({path.name}) | {code} | {f'`{commit}`' if commit else ''} | {date} |")
    return HEAD + "\n".join(rows) + "\n"


def write(path: Path) -> None:
    """Write the page where it changed."""
    page = text()
    if not path.exists() or path.read_text(encoding="utf-8") != page:
        path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
