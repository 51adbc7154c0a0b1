"""Check a built site: every link inside it leads somewhere, and no page asks another host for anything.

python tools/docs_links.py docs/_build/html
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes whose address the browser fetches when the page is opened.
FETCHED = {("img", "src"), ("script", "src"), ("source", "src"), ("iframe", "src"), ("embed", "src")}


class Page(HTMLParser):
    """Anchors of a page, links that a reader may follow, and addresses that the browser fetches."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what one tag has."""
        given = {name: value for name, value in attrs if value is not None}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        for name, value in given.items():
            if (tag, name) in FETCHED or (tag == "link" and name == "href" and "canonical" not in given.get("rel", "")):
                self.fetched.append(value)
            elif tag == "a" and name == "href":
                self.links.append(value)


def problems(site: Path) -> list[str]:
    """What is wrong, one line each."""
    files = [path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]
    pages = {path.resolve(): Page(path) for path in files}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve()).as_posix()
        found += [f"{name} fetches {address}" for address in page.fetched if _is_elsewhere(address)]
        for address in [*page.links, *page.fetched]:
            if not _is_elsewhere(address) and not address.startswith(("data:", "mailto:", "javascript:")):
                problem = _broken(path, address, pages)
                if problem:
                    found.append(f"{name} links to {address}: {problem}")
    return found


def _is_elsewhere(address: str) -> bool:
    return bool(urlsplit(address).netloc)


def _broken(path: Path, address: str, pages: dict[Path, Page]) -> str | None:
    parts = urlsplit(address)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        return "there is no such file"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors:
        return "there is no such place on that page"
    return None


def main() -> int:
    """Print the problems; the exit code is 1 if there are any."""
    found = problems(Path(sys.argv[1]))
    sys.stdout.writelines(f"{line}\n" for line in found)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
