"""Build the wheel and the source archive twice, and compare: the same bits, and nothing but the package in the wheel.

python tools/build_check.py              # build, compare and check
python tools/build_check.py --out dist   # and keep the files, in an empty folder

Both builds are of copies of the files under version control, in different folders, with different times and
permissions, so what else lies in the checkout gets into no archive.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "calibrant"
MOST_BYTES = 2_000_000
"""Of the wheel. It holds Python source alone, 30 % of which are docstrings (CONTRIBUTING.md, "Release")."""
METADATA = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
NEEDED = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "tests/conftest.py", "Makefile"}


def version() -> str:
    """The version of the package, which is written in pyproject.toml alone."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)["project"]["version"])


def tracked() -> list[str]:
    """Files under version control; in an unpacked source archive, every file."""
    try:
        done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
        names = [name for name in done.stdout.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        names = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_file()]
    return sorted(name for name in names if (ROOT / name).is_file())


def epoch() -> str:
    """The time that the files in the archives get: that of the last commit, or a fixed one."""
    command = ["git", "log", "-1", "--format=%ct"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return os.environ.get("SOURCE_DATE_EPOCH") or done.stdout.strip() or "1577836800"


def copy(folder: Path, *, start: int, permissions: int) -> Path:
    """Copy the files under version control, with times from `start` on and given permissions."""
    for number, name in enumerate(tracked()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, path)
        path.chmod(permissions | ((ROOT / name).stat().st_mode & 0o100))
        os.utime(path, (start + number, start + number))
    return folder


def build(source: Path, folder: Path) -> dict[str, Path]:
    """Build both archives of a source tree into a folder: their files by name."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    done = subprocess.run(
        command,
        cwd=source,
        env=os.environ | {"SOURCE_DATE_EPOCH": epoch()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"the build failed:\n{done.stdout}")
    return {path.name: path for path in sorted(folder.iterdir())}


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def differences(first: dict[str, Path], second: dict[str, Path]) -> Iterator[str]:
    """What differs between two builds."""
    if set(first) != set(second):
        yield f"one build made {sorted(first)}, the other {sorted(second)}"
    for name in sorted(set(first) & set(second)):
        if digest(first[name]) != digest(second[name]):
            yield f"{name}: two builds of the same files differ"


def wheel_problems(path: Path, files: list[str]) -> Iterator[str]:
    """What is wrong with a wheel, given the files under version control."""
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
    head = f"{PACKAGE}-{version()}.dist-info"
    wanted = {name.removeprefix("src/") for name in files if name.startswith(f"src/{PACKAGE}/")}
    wanted |= {f"{head}/{name}" for name in METADATA}
    if more := sorted(names - wanted):
        yield f"{path.name}: holds what is not the package: {more}"
    if less := sorted(wanted - names):
        yield f"{path.name}: lacks {less}"
    if (size := path.stat().st_size) > MOST_BYTES:
        yield f"{path.name}: {size:,} bytes, more than {MOST_BYTES:,}"


def source_problems(path: Path, files: list[str]) -> Iterator[str]:
    """What is wrong with a source archive, given the files under version control."""
    with tarfile.open(path) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    if more := sorted(names - set(files) - {"PKG-INFO"}):
        yield f"{path.name}: holds files that are not under version control: {more}"
    if less := sorted(NEEDED - names):
        yield f"{path.name}: lacks {less}"


def problems(first: dict[str, Path], second: dict[str, Path]) -> Iterator[str]:
    """Everything that is wrong with two builds."""
    yield from differences(first, second)
    names = {f"{PACKAGE}-{version()}-py3-none-any.whl", f"{PACKAGE}-{version()}.tar.gz"}
    if set(first) != names:
        yield f"made {sorted(first)} instead of {sorted(names)}"
    files = tracked()
    for name, path in first.items():
        yield from (wheel_problems if name.endswith(".whl") else source_problems)(path, files)


def main(arguments: list[str] | None = None) -> int:
    """Build twice, and print what is wrong or the sizes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="keep the files in this folder; older archives in it are removed")
    out = parser.parse_args(arguments).out
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = build(copy(folder / "here", start=10**9, permissions=0o644), folder / "first")
        second = build(copy(folder / "there", start=15 * 10**8, permissions=0o600), folder / "second")
        if found := list(problems(first, second)):
            sys.stdout.write("".join(f"{line}\n" for line in found))
            return 1
        for path in first.values():
            sys.stdout.write(f"{path.name}  {path.stat().st_size:,} bytes  sha256 {digest(path)}\n")
        if out:
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(folder / "first", out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
