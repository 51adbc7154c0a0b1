"""The library's sentences in the terms of the command line, and DuckDB's pages in one sentence."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable
from functools import cache

from calibrant.arrays import InputError


class Mistake(InputError):
    """A mistake of the user's, told in the terms of the command line already."""


Replacement = str | Callable[[re.Match[str]], str]


def _value(option: str) -> Callable[[re.Match[str]], str]:
    """Python's ``positive='very bad'`` or ``positive=2.0`` as ``--positive 'very bad'`` or ``--positive 2``."""

    def write(match: re.Match[str]) -> str:
        value = re.sub(r"^(-?[0-9]+)\.0$", r"\1", match[1].strip("'\""))
        return f"{option} {shlex.quote(value)}"

    return write


VALUE = r"""=('[^']*'|"[^"]*"|-?[\w.]+)"""

REWRITES: tuple[tuple[str, Replacement], ...] = (
    (r"^in scores_(old|new): (?=y )", ""),
    (r"^in scores_(old|new): scores\b", r"--\1: the scores"),
    (r"^in scores_(old|new): ", r"--\1: "),
    (r"fit a calibrator first", "fit a map first (calibrant fit)"),
    (r"kind" + VALUE + "(?: at fit)?", _value("--kind")),
    (r"pass positive= with", "pass --positive with"),
    (r"positive" + VALUE, _value("--positive")),
    (r"pass weights=[\"']importance[\"']", "leave --counts out"),
    (r"; if rows were sampled by class alone, fit with weights=[\"']by-class[\"']", ""),
    (r"weights=[\"']counts[\"']", "--counts"),
    (r"name=\.\.\. for", "--name for"),
    (r"Use bins_from=[\"']part[\"'] or fewer bins", "Use fewer bins"),
    (r"\b(groups|time)= says that", r"--\1 says that"),
    (r"unless time= or groups= says", "unless --time or --groups says"),
    (r"first= and last=", "--from and --to"),
    (r"first" + VALUE, _value("--from")),
    (r"last" + VALUE, _value("--to")),
    (r"day" + VALUE, _value("--day")),
    (r"by\['(.+?)'\]", r"--by \1"),
    (r"\bby" + VALUE, _value("--by")),
    (r"\btime" + VALUE, _value("--time")),
    (r"^(time|groups) (has|holds|mixes)", r"--\1 \2"),
    (r"leave (by|kind) out", r"leave --\1 out"),
    (r"(?<!['\"])\bsample_weight\b(?!['\"])", "--weight"),
    (r"exactly two of n, n_bins and epsilon", "exactly two of --labels, --n-bins and --epsilon"),
    (r"\bn and n_bins must", "--labels and --n-bins must"),
    (r"(?<!['\"])\bn_bins\b(?![='\"])", "--n-bins"),
    (r"^(alpha|epsilon) (must|cannot)", r"--\1 \2"),
    (r"and epsilon both", "and --epsilon both"),
    (r"^thresholds must", "--threshold must"),
    (r"^groups and time cannot both", "--groups and --time cannot both"),
    (r"pass guarantee=\(epsilon, alpha\)", "pass --guarantee E"),
    (
        r"^guarantee must be \(epsilon, alpha\), both between 0 and 1, got .*",
        "--guarantee and --alpha must lie between 0 and 1",
    ),
    (r"for guarantee=\(([^,]+), ([^)]+)\)", r"for --guarantee \1 --alpha \2"),
    (r"\blook=(\d+)", r"--look \1"),
    (r"^look must", "--look must"),
    (r", see comparison_\.", ", see below."),
    (r"See segments_[^.]*(\.comparison_)?\.", "All segments: --json."),
    (r"ask sources_\[name\]\.certificate\(\), where .*", "fit one of them alone with --where"),
    (r": HistogramBinning, fitted to", ": --method binning, fitted to"),
    (r"use PlattScaling\b", "use --method platt"),
    (r"use HistogramBinning\b", "use --method binning"),
    (
        r"SamplingCorrection undoes it without labels: calibrant\.SamplingCorrection\([^)]*\)\. Or, with labels: ",
        "In Python, calibrant.SamplingCorrection undoes it without labels; with labels: ",
    ),
    (r"cal = calibrant\.PlattScaling\(\)\.fit\(scores, y\)", "calibrant fit FILES --out map.json"),
    (
        r"know why they are there and filter them out, or go on without them with calibrant\.tally\(.*\)",
        "know why they are there, then leave them out with --where",
    ),
    (r"repair or drop these rows", "repair these rows or leave them out with --where"),
    (r"drop these rows", "leave these rows out with --where"),
    (r"divide by 100", "divide the column by 100"),
    (r"so pass y == c for one class c against the rest", "so make a column that is 1 for one class and 0 for the rest"),
    (r"Calibrant's binary calibrators take two classes", "two classes are needed"),
    (
        r"^cluster ids must be integers or strings, got ([^:]+): .*",
        r"--groups must name a column of whole numbers or text, not of \1",
    ),
    (r"pass connection=\.\.\., or pip install 'calibrant\[sql\]'", 'pip install "calibrant[sql]"'),
    (r"pass the column of scores", "name the column of scores with --score"),
    (r"^y labels are", "the labels are"),
    (r"^y (has|holds|is)\b", r"the column of --label \1"),
    (r"the frame has", "the file has"),
    (r"counted in the frame", "counted"),
    (r"(?<![\w.])(-?\d+)\.0(?=[ ,:)/]|$)", r"\1"),  # labels of a CSV are read as doubles
)
"""Patterns in the library's sentences, and the same in options; applied in this order."""


def in_options(text: str, score: str | None = None, label: str | None = None) -> str:
    """A sentence of the library in the terms of the command line; with the names of columns, where they are known.

    Examples
    --------
    >>> in_options("y labels are 'bad' and 'good': pass positive='good' or positive='bad'", "p", "outcome")
    "the labels in 'outcome' are 'bad' and 'good': pass --positive good or --positive bad"
    """
    if score is not None and label is not None:
        for pattern, replacement in _of_columns(score, label):
            text = re.sub(pattern, replacement, text)
    for pattern, replacement in REWRITES:
        text = re.sub(pattern, replacement, text)
    return text


def _of_columns(score: str, label: str) -> tuple[tuple[str, Replacement], ...]:
    given = f"--score {shlex.quote(score)} and --label {shlex.quote(label)} look swapped"
    swapped = f"{given}: pass --score {shlex.quote(label)} --label {shlex.quote(score)}"
    finite = shlex.quote(f"isfinite({identifier(score)})")
    arrived = shlex.quote(f"{identifier(label)} IS NOT NULL")
    return (
        (r"^scores and y look swapped: .*", lambda _: swapped),
        (r"^scores (has|holds|is)\b", lambda match: f"the column {score!r} {match[1]}"),
        (r"^scores (lie|exceed|reach|read)\b", lambda match: f"the scores in {score!r} {match[1]}"),
        (r"^y (has|holds|is)\b", lambda match: f"the column {label!r} {match[1]}"),
        (r"^y labels are", lambda _: f"the labels in {label!r} are"),
        (r"of y, which", lambda _: f"in {label!r}, which"),
        (r"drop these rows or repair the score", lambda _: f"repair them, or leave them out with --where {finite}"),
        (r"cannot be counted \((.*)\): know why they are there .*", _left_out),
        (r"drop these rows; a label", lambda _: f"leave these rows out with --where {arrived}; a label"),
    )


def _left_out(match: re.Match[str]) -> str:
    """Rows that cannot be counted, with the condition that leaves them out where all that they lack is a value."""
    why = re.findall(r"(score |label |weight |)('.*?'|\".*?\") ([^'\"]*?) in [\d,]+(?:, |$)", match[1])
    told = f"cannot be counted ({match[1]}): know why, then leave them out with --where"
    if not why or any(problem != "missing" for _, _, problem in why):
        return told
    columns = [(role, identifier(ast.literal_eval(name))) for role, name, _ in why]
    tests = [f"isfinite({name})" if role in ("score ", "weight ") else f"{name} IS NOT NULL" for role, name in columns]
    return f"{told} {in_shell(' AND '.join(tests))}"


def in_shell(text: str) -> str:
    """A text as one word of a shell, in double quotes where it has single ones."""
    return f'"{text}"' if "'" in text and not re.search(r'["$`\\!]', text) else shlex.quote(text)


def identifier(name: str) -> str:
    """A column as SQL writes it."""
    from calibrant.export.sql.scores import quote

    plain = re.fullmatch(r"[a-z_][a-z0-9_]*", name) and name not in _reserved()
    return name if plain else quote(name, "duckdb")


@cache
def _reserved() -> set[str]:
    """Words that are no names of columns in SQL, such as group and order."""
    import duckdb

    words = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
    return {word for (word,) in duckdb.connect().execute(words).fetchall()}


NO_PARQUET = re.compile(r"[Ff]ile '(.+?)' too small to be a Parquet|(?:No magic bytes found|Footer length).* '(.+?)'")
CSV_VALUE = re.compile(
    r"CSV Error on Line: (\d+).*?converting column \"(.+?)\"\. Could not convert string \"(.*?)\" to '(\w+)'.*?"
    r"file = ([^\n]+)",
    re.DOTALL,
)
NO_GZIP = re.compile(r"not a GZIP stream: (.+)")
CSV_BYTES = re.compile(r"not utf-8 encoded.*?file = ([^\n]+)", re.DOTALL | re.IGNORECASE)
CSV_SHAPE = re.compile(r"Error when sniffing file \"(.+?)\"")


def of_duckdb(text: str) -> str:
    """What DuckDB says over many lines in one sentence with the fix."""
    if found := NO_PARQUET.search(text):
        return f"{found[1] or found[2]} is not a Parquet file: write it again, or rename it if it is CSV"
    if found := CSV_VALUE.search(text):
        line, column, value, kind, path = found.groups()
        what = {"DOUBLE": "numbers", "BIGINT": "whole numbers", "BOOLEAN": "true and false"}.get(kind, kind)
        where = f"{path}, line {line}: the column {column!r} holds {value!r}"
        return f"{where} where {what} are expected: repair it, or name another column"
    if found := CSV_BYTES.search(text):
        return f"{found[1]} is not written in UTF-8: save it as UTF-8"
    if found := CSV_SHAPE.search(text):
        return f"{found[1]} does not read as CSV: are separators and quotes the same on every line?"
    if found := NO_GZIP.search(text):
        return f"{found[1]} is not compressed by gzip: rename it to end in .csv, or compress it"
    first = text.strip().splitlines()[0]
    return re.sub(r"^[\w ]+? Error: ", "", first)
