"""Find phrases that a reader has to read twice, British spellings and citations by number.

    python tools/plain_words.py [--count] [file or folder ...]

Reads strings, docstrings and comments of Python files, and all text of other files. Without arguments it reads the
package, the documentation, the examples and the benchmarks. It prints ``file:line: phrase -> what to write``
for each finding and ends with exit code 1 if there is one. ``--count`` prints
the number of findings for each pattern instead.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import tokenize
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

# What may follow "is no" and "are no".
MORE = (
    "longer|more|less|other|better|worse|different|such|higher|lower|larger|smaller|greater|fewer|later|earlier|wider|"
    "narrower|shorter|faster|slower|farther|further|closer|nearer|tighter|stronger|weaker"
)

# Regular expressions on lower-case text with single spaces -> what to write instead.
PHRASES = {
    r"told|tells of": "reported, shown, stated; told apart -> distinguished",
    r"heap|heaps|heaped|heaping": "ties, tied",
    r"held (?:by|in)(?! memory)": "clipped to, constrained to, stored in",
    r"drawn (?:towards?|to) the": "shrunk toward",
    r"rarer class|rows of the rarer|the rarer of": "minority class",
    r"laws?(?! of (?:large|total|the iterated))": "distribution",
    r"stretch|stretches": "interval (of scores), period (of time)",
    rf"(?<!there )is no(?! (?:{MORE}))": "is not a",
    rf"(?<!there )are no(?! (?:{MORE}))": "are not",
    r"mend|mends|mended|mending": "fix, fixed",
    r"bruised": "garbled",
    r"rooms": "modules",
    r"truth values?": "boolean",
    r"whole numbers?": "integer",
    r"so (?:many|few)(?! that| \w+ that)": "this many, this few; too many, too few",
    r"nobody would notice": "negligible",
    r"the map of all": "the global map",
    r"the model as it is|(?:keep|keeps|kept) (?:your|the|its) model as it is": "the original model",
    r"what (?:the |these |those )?rows are worth": "effective sample size",
    r"chance (?:alone )?gives|chance would give": "expected",
    r"happened": "observed",
    r"beside the chosen": "vs. chosen",
    r"promise|promises|promised|promising": "guarantee, guaranteed",
    r"speaks? (?:of|for) (?:itself|themselves|himself)": "say what is meant: is treated as independent, is clear",
    r"gone on from|goes on from|go on from": "resumed from, continued from",
    r"from [\d,]+ (?:rows|labels|events)(?: of \w+ \w+ \w+)? on": "needs at least ... rows",
    r"(?:of|on) one's own|of (?:its|their|your) own kind": "separate, user-defined",
    r"parts of the rows|part of the rows": "folds, a split",
    r"(?:at|of|as of|up to|until|after|before|every|each|which) (?:(?:a|the|this|that|one|some) )?moment": "timestamp",
    r"taken is|chosen is|counted are|compared are|left out are": "turn the sentence around: subject first",
    r"(?<![\d.,/#-])00[0-4](?![\d.,]*\d|-)": "author and year: Gupta (2023), Foster and Kakade (2006), ...",
}

AMERICAN = {
    r"behaviour|behaviours": "behavior",
    r"colour|colours|coloured|colouring|colourful": "color",
    r"favour|favours|favoured|favourite|favourable": "favor",
    r"neighbour|neighbours|neighbouring|neighbourhood": "neighbor",
    r"honour|honours|honoured": "honor",
    r"centre|centres|centred|centring": "center",
    r"metre|metres|litre|litres|fibre": "meter, liter, fiber",
    r"labelled|labelling|unlabelled|mislabelled|relabelled": "labeled, labeling",
    r"modelled|modelling|cancelled|cancelling|levelled|signalled|signalling|travelled": "one l: modeled, canceled",
    r"grey|greys": "gray",
    r"judgement|judgements": "judgment",
    r"licence|licences|defence|offence": "license, defense, offense",
    r"artefact|artefacts|programme|programmes|whilst|sceptical|fulfil|fulfils": "artifact, program, while, skeptical",
    r"analyse|analysed|analyses (?:the|a|it)|analysing|catalogue|catalogues|towards": "analyze, catalog, toward",
    r"(?:renormal|unnormal|reparametr|aggregat|categor|character|custom|discret|emphas|equal|factor|final|general|harmon|"
    r"initial|linear|local|marginal|maxim|memor|minim|neutral|normal|optim|organ|parallel|parametr|parameter|penal|"
    r"polar|popular|random|real|recogn|regular|serial|special|stabil|standard|summar|symmetr|synchron|token|util|"
    r"vector|visual|winsor)(?:ise|ises|ised|ising|isation|isations|iser|isers)": "-ize, -ization",
}

PATTERNS = PHRASES | AMERICAN

# (end of a path, phrase): the reason why it may stay.
ALLOWED: dict[tuple[str, str], str] = {
    ("benchmarks/by_hand.py", "heap"): "memory of the JVM",
    ("benchmarks/engine.py", "heap"): "memory of the JVM",
}

PLACES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
PLACES += ["src/calibrant", "docs", "examples", "benchmarks"]
ENDINGS = {".py", ".md", ".sh", ".yml"}

Piece = tuple[int, str]
"""A line number and the text that stands there; an empty text ends a passage."""


def pieces_of_python(source: str) -> Iterator[Piece]:
    """Strings and comments. A string without a space, such as a key of a document, is data and not a sentence."""
    strings: list[Piece] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in STRINGS:
            strings += pieces_of_string(token)
        elif token.type not in NEUTRAL:
            if strings and (len(strings) > 1 or " " in strings[0][1].strip()):
                yield strings[0][0], ""
                yield from strings
            strings = []
            yield token.start[0], token.string.lstrip("#:") if token.type == tokenize.COMMENT else ""


STRINGS = {getattr(tokenize, name) for name in ("STRING", "FSTRING_MIDDLE") if hasattr(tokenize, name)}
NEUTRAL = {tokenize.NL, tokenize.INDENT, tokenize.DEDENT} | {
    getattr(tokenize, name) for name in ("FSTRING_START", "FSTRING_END") if hasattr(tokenize, name)
}


def pieces_of_string(token: tokenize.TokenInfo) -> Iterator[Piece]:
    """The lines of a string, without its quotes and without the expressions of an f-string."""
    text = token.string
    if token.type == tokenize.STRING:
        prefix, _, text = re.fullmatch(r"(\w*)(\'\'\'|\"\"\"|'|\")(.*)\2", text, re.DOTALL).groups()
        if "f" in prefix.lower():
            text = re.sub(r"\{[^{}]*\}", " ", text)
        if "r" not in prefix.lower():
            text = text.replace("\\n", "  ")
    yield from enumerate(text.split("\n"), start=token.start[0])


def pieces_of_text(path: Path, source: str) -> Iterator[Piece]:
    """All lines, except quotations in the errata, old printouts and the table of names in the changelog."""
    if path.name == "printouts.md":
        source = re.sub(r"(?s)(?<=\nBefore:\n\n```text\n).*?(?=```)", lambda old: "\n" * old[0].count("\n"), source)
    if path.name == "errata.md":
        source = re.sub(r'"[^"\n]*(?:\n[^"\n]+)?"', lambda quoted: re.sub(r"[^\n]", " ", quoted[0]), source)
    for number, line in enumerate(source.split("\n"), start=1):
        if not (path.name == "CHANGELOG.md" and line.startswith("|")):
            yield number, re.sub(r"^\s*#(?!#)", "", line) if path.suffix in {".sh", ".yml"} else line


def passages(pieces: Iterable[Piece]) -> tuple[str, list[int], list[int]]:
    """One text with single spaces in lower case, the offsets at which lines begin in it, and their numbers."""
    text, offsets, numbers, length = [], [], [], 0
    for number, line in pieces:
        words = " ".join(line.lower().split())
        words = words + " " if words else "\n"
        text.append(words)
        offsets.append(length)
        numbers.append(number)
        length += len(words)
    return "".join(text), offsets, numbers


# That a word begins there is checked below: without a condition in front the search is three times as fast.
COMPILED = {pattern: re.compile(rf"(?:{pattern})(?!\w)") for pattern in PATTERNS}


def findings(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line number, phrase and pattern of each finding."""
    source = path.read_text(encoding="utf-8")
    pieces = pieces_of_python(source) if path.suffix == ".py" else pieces_of_text(path, source)
    text, offsets, numbers = passages(pieces)
    for pattern, compiled in COMPILED.items():
        for match in compiled.finditer(text):
            phrase, before = match[0], text[match.start() - 1 : match.start()]
            if before.isalnum() or before == "_":
                continue
            if not any(path.as_posix().endswith(end) and phrase == allowed for end, allowed in ALLOWED):
                yield numbers[bisect_right(offsets, match.start()) - 1], phrase, pattern


def files(places: Iterable[Path]) -> Iterator[Path]:
    """The files that are read."""
    for place in places:
        if place.is_dir():
            yield from sorted(path for path in place.rglob("*") if path.suffix in ENDINGS)
        else:
            yield place


def main(arguments: list[str] | None = None) -> int:
    """Print the findings; 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "places", nargs="*", type=Path, help="files or folders; default: package, docs, examples, benchmarks"
    )
    parser.add_argument("--count", action="store_true", help="print the number of findings for each pattern")
    options = parser.parse_args(arguments)
    here = Path(__file__).resolve().parents[1]
    root = here if (here / "src" / "calibrant").exists() else Path.cwd()
    found: Counter[str] = Counter()
    write = sys.stdout.write
    for path in files(options.places or [root / place for place in PLACES]):
        shown = path.relative_to(root) if path.is_relative_to(root) else path
        for line, phrase, pattern in sorted(findings(path)):
            found[pattern] += 1
            if not options.count:
                write(f"{shown.as_posix()}:{line}: {phrase} -> {PATTERNS[pattern]}\n")
    if options.count:
        for pattern in PATTERNS:
            write(f"{found[pattern]:6}  {pattern}\n")
        write(f"{found.total():6}  all\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
