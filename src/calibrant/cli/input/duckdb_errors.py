"""Errors of DuckDB about files, as one sentence with a fix."""

from __future__ import annotations

import re

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
    """The error in one sentence."""
    if found := NO_PARQUET.search(text):
        return f"{found[1] or found[2]} is not a valid Parquet file: write it again, or rename it if it is CSV"
    if found := CSV_VALUE.search(text):
        line, column, value, kind, path = found.groups()
        what = {"DOUBLE": "numbers", "BIGINT": "integers", "BOOLEAN": "true or false"}.get(kind, kind)
        where = f"{path}, line {line}: the column {column!r} contains {value!r}"
        return f"{where}, expected {what}: fix the value, or pass another column"
    if found := CSV_BYTES.search(text):
        return f"{found[1]} is not encoded in UTF-8: save it as UTF-8"
    if found := CSV_SHAPE.search(text):
        return f"{found[1]} cannot be parsed as CSV: check that separators and quotes are the same on every line"
    if found := NO_GZIP.search(text):
        return f"{found[1]} is not a gzip file: rename it to end in .csv, or compress it"
    first = text.strip().splitlines()[0]
    return re.sub(r"^[\w ]+? Error: ", "", first)


def of_csv(problem: Exception) -> bool:
    """Whether the error is about a line of a CSV file."""
    return "CSV Error" in str(problem)
