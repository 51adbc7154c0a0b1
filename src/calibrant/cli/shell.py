"""Quoting for the shell, and column names in SQL conditions."""

from __future__ import annotations

import re
import shlex
from functools import cache


def in_shell(text: str) -> str:
    """A text quoted for the shell, in double quotes if it contains single quotes."""
    return f'"{text}"' if "'" in text and not re.search(r'["$`\\!]', text) else shlex.quote(text)


def identifier(name: str) -> str:
    """A column name in SQL."""
    from calibrant.export.languages.sql.dialects import quote

    plain = re.fullmatch(r"[a-z_][a-z0-9_]*", name) and name not in _reserved()
    return name if plain else quote(name, "duckdb")


@cache
def _reserved() -> set[str]:
    """Reserved words of SQL, such as group and order."""
    import duckdb

    words = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
    return {word for (word,) in duckdb.connect().execute(words).fetchall()}
