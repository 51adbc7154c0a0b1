"""Pins what others publish under names that can move: actions of workflows by commits, base images by digests.

python tools/pins.py            # ask for the newest hash of each name, and write them; needs git, docker and a network
python tools/pins.py --check    # exit with 1 while something is not pinned

A pinned line keeps its name: ``uses: actions/checkout@0a1b... # v6`` and ``FROM python:3.11-slim@sha256:0a1b...``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = (*sorted((ROOT / ".github" / "workflows").glob("*.yml")), ROOT / "deploy" / "Dockerfile")

ACTION = re.compile(r"(?<=uses: )(?P<name>[\w./-]+)@(?P<now>\S+)(?: # (?P<tag>\S+))?")
IMAGE = re.compile(r"(?<=^FROM )(?P<name>[\w./-]+:[\w.-]+)(?:@(?P<now>\S+))?", re.MULTILINE)
COMMIT, DIGEST = re.compile(r"[0-9a-f]{40}"), re.compile(r"sha256:[0-9a-f]{64}")


def loose(text: str) -> Iterator[str]:
    """Actions without the hash of a commit, and images without a digest."""
    for found in ACTION.finditer(text):
        if not COMMIT.fullmatch(found["now"]):
            yield found[0]
    for found in IMAGE.finditer(text):
        if not DIGEST.fullmatch(found["now"] or ""):
            yield found[0]


def filled(text: str, hash_of: Callable[[str], str]) -> str:
    """The text with the hash of each action and image, and the name that it stands for."""

    def action(found: re.Match[str]) -> str:
        tag = found["tag"] or found["now"]
        whole = f"{found['name']}@{tag}"
        return f"{found['name']}@{hash_of(whole)} # {tag}"

    return IMAGE.sub(lambda found: f"{found['name']}@{hash_of(found['name'])}", ACTION.sub(action, text))


def asked(name: str) -> str:
    """The hash of an action or an image today, from where it is published."""
    action, _, tag = name.partition("@")
    if not tag:
        command = ["docker", "buildx", "imagetools", "inspect", name, "--format", "{{.Manifest.Digest}}"]
        return _output(command)
    owner = "/".join(action.split("/")[:2])
    lines = _output(["git", "ls-remote", f"https://github.com/{owner}", f"refs/tags/{tag}", f"refs/tags/{tag}^{{}}"])
    if not lines:
        raise SystemExit(f"{name}: there is no such tag, and a branch is not pinned")
    return lines.splitlines()[-1].split()[0]  # an annotated tag has its commit in the second line


def _output(command: list[str]) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def main(arguments: list[str]) -> int:
    """Check the files, or write them."""
    if arguments == ["--check"]:
        found = [f"{path.relative_to(ROOT)}: {each}" for path in FILES for each in loose(path.read_text("utf-8"))]
        sys.stdout.write("".join(f"{line} is not pinned: run tools/pins.py\n" for line in found))
        return int(bool(found))
    for path in FILES:
        path.write_text(filled(path.read_text("utf-8"), asked), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
