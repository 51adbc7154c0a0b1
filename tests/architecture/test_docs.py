"""Every code block of every page runs, and every page is part of the site."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
GENERATED = ("_build", "gallery", "reference")

# Files of the project, as code and text name them.
NAMED = re.compile(r"(?<![\w/.-])(?:benchmarks|docs|examples|tests|tools)/[\w./-]*\w\.(?:csv|md|json|png|py|txt)\b")
MADE = {
    "docs/benchmarks/files.md",
    "docs/reference/documents.md",
    "docs/reference/doors.md",
    "docs/reference/support.md",
}
"""Pages that the build of the site writes."""

# Blocks that do not run: the page, a line of the block, and why.
NOT_RUN = {
    ("README.md", "pip install ."): "installs from the network",
    ("docs/index.md", 'pip install ".[plot]"'): "installs from the network",
}

# What blocks may be: those that run, directives of the site, and text that is no program.
TEXT = {"text", "json", "sql", "yaml", "toml"}


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    folder = ROOT / "docs"
    files = [ROOT / "README.md"]
    files += [path for path in folder.rglob("*.md") if path.relative_to(folder).parts[0] not in GENERATED]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(files)}


@pytest.fixture(scope="module")
def reader() -> ModuleType:
    return load(ROOT / "conftest.py")


def test_every_block_runs_or_says_why_not(pages, reader):
    left_out = []
    for name, text in pages.items():
        for block in reader.blocks(text):
            declared = any((name, line.strip()) in NOT_RUN for line in block.lines)
            if not block.runs and not declared and block.info not in TEXT and not block.info.startswith("{"):
                left_out.append(f"{name}:{block.line}: ```{block.info}")
    assert not left_out


def test_nothing_is_declared_in_vain(pages):
    assert not [(name, line) for name, line in NOT_RUN if line not in pages.get(name, "")]


def test_no_block_is_indented_or_tilded_out_of_sight(pages, reader):
    """Prompts outside of blocks that run would be read as text."""
    for name, text in pages.items():
        inside = [line for block in reader.blocks(text) for line in block.lines]
        prompts = [line for line in text.splitlines() if line.lstrip().startswith(">>> ")]
        assert len(prompts) == len([line for line in inside if line.lstrip().startswith(">>> ")]), name


def test_no_paragraphs_are_joined(pages, reader):
    """Two spaces after a sentence are where a blank line was lost, and with it a paragraph or its heading."""
    joined = []
    for name, text in pages.items():
        inside = {n for block in reader.blocks(text) for n in range(block.line, block.line + len(block.lines) + 2)}
        for n, line in enumerate(text.splitlines(), 1):
            if n not in inside and not line.startswith("|") and re.search(r"[a-z)`*][.:]  \S", line):
                joined.append(f"{name}:{n}")
    assert not joined


def test_no_doctest_is_skipped(pages):
    assert not [name for name, text in pages.items() if re.search(r"doctest:\s*\+SKIP", text)]


def test_pages_that_run_elsewhere_do(reader):
    for page, test in reader.ELSEWHERE.items():
        if (ROOT / page).exists():
            assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")


def test_files_that_are_named_exist():
    """A docstring or page that refers to a proof or a figure refers to one that is there."""
    folders = ("src", "docs", "benchmarks", "examples", "tools")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".md", ".csv"}]
    files = [path for path in files if path.relative_to(ROOT).parts[1] not in GENERATED]
    lost = []
    for path in [*files, *ROOT.glob("*.md"), ROOT / "Makefile"]:
        for name in set(NAMED.findall(path.read_text(encoding="utf-8"))) - MADE:
            if not any((folder / name).exists() for folder in (ROOT, path.parent, ROOT / "docs")):
                lost.append(f"{path.relative_to(ROOT)}: {name}")
    assert not lost


def test_block_kinds_are_read(reader):
    shown = [
        "```python\n>>> 1 + 1\n2\n```",
        "```python\nx = 3\n```",
        "```console\n$ echo a\na\n\n$ echo b\nb\n```",
        "```\ncalibrant --version\n```",
    ]
    text = "\n\n".join([*shown, "```text\n$ no\n```"])
    found = list(reader.examples(text))
    assert [example.want for example in found] == ["2\n", "", "a\n", "b\n", ""]
    assert [example.lineno for example in found] == [1, 6, 10, 13, 18]


@pytest.mark.parametrize("folder", ["gallery", "papers"])
def test_gallery_has_twelve_examples_that_say_what_to_see(folder):
    examples = sorted((ROOT / "examples" / folder).glob("plot_*.py"))
    assert len(examples) >= 12
    for path in examples:
        text = path.read_text(encoding="utf-8")
        title, line, *story = (ast.get_docstring(ast.parse(text)) or "").splitlines()
        assert set(line) == {"="}, path.name
        assert len(line) == len(title), path.name
        assert " ".join(story).count(". ") >= 1, path.name
        assert len(text.splitlines()) <= 60, path.name


@pytest.mark.full  # and by `make docs`
def test_table_of_support_has_known_cells():
    """The table is made by trying; a few of its cells are known."""
    table = load(ROOT / "tools" / "support_table.py")
    data, methods = table.sample(), {name.rpartition(".")[2]: cls for name, cls in table.methods().items()}
    several = {"MulticlassSegmentCalibrator", "TopLabelHistogramBinning"}
    tried = ("HistogramBinning", "PlattScaling", "SegmentCalibrator", *sorted(several))
    found = {name: table.try_all(name, methods[name], data).cells for name in tried}

    def those(column: str, cell: str) -> set[str]:
        return {name for name, cells in found.items() if cells[column] == cell}

    assert those("certificate", "yes") == {"HistogramBinning", "TopLabelHistogramBinning"}
    assert those("by", "yes") == {"SegmentCalibrator", "MulticlassSegmentCalibrator"}
    assert those("one score", "no") == those("several classes", "yes") == several
    assert those("tally", "yes") == {"HistogramBinning", "PlattScaling"}
    assert those("SQL", "yes") == those("ONNX", "yes") == those("weights", "yes") == set(tried)


@pytest.mark.full
def test_table_of_support_can_fit_every_method():
    """Without this, a new method that needs another argument stops the build of the site."""
    table = load(ROOT / "tools" / "support_table.py")
    data = table.sample()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the data are small on purpose
        for cls in table.methods().values():
            recipe = table.recipes(cls, data)[0]
            assert recipe.make().fit(recipe.scores, recipe.labels, **recipe.extra) is not None


def test_links_of_a_site_are_checked(tmp_path):
    links = load(ROOT / "tools" / "docs_links.py")
    (tmp_path / "a.html").write_text('<p id="here"></p><a href="b.html#there">b</a><a href="c.html">c</a>', "utf-8")
    (tmp_path / "b.html").write_text(
        '<a href="a.html#here">a</a><script src="https://cdn.example/x.js"></script>', "utf-8"
    )
    assert links.problems(tmp_path) == [
        "a.html links to b.html#there: there is no such place on that page",
        "a.html links to c.html: there is no such file",
        "b.html fetches https://cdn.example/x.js",
    ]
