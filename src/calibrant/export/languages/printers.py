"""Programs as text: Python without imports beyond its standard library, and C99 without allocation."""

from __future__ import annotations

import keyword
import textwrap
from collections.abc import Iterable, Sequence

from calibrant.arrays.score_types import PROBABILITY_ENDS
from calibrant.export.languages.statements import Case, Clip, If, Missing, Program, Set, Statement
from calibrant.guarantees.provenance import library_version

WORDS = """
x j score calibrate math exp log log1p nan at_or_below find text auto break case char const continue default do double
else enum extern float for goto if inline int long register restrict return short signed sizeof static struct switch
typedef union unsigned void volatile while main strcmp NAN NULL bisect_right bool true false INFINITY HUGE_VAL
linux unix type
"""
Ends = tuple[float, float]
"""Smallest and largest score that is read."""

RESERVED = frozenset(WORDS.split())
"""Words that a column of groups cannot have as the name of an argument."""


def arguments(columns: Sequence[str]) -> list[str]:
    """Names of the arguments for columns of groups: their own where a language allows it."""
    out = []
    for place, name in enumerate(columns, 1):
        fits = name.isascii() and name.isidentifier() and not keyword.iskeyword(name) and name not in RESERVED
        number_of_group = name.startswith(("group_", "knots_", "values_", "slopes_", "intercepts_", "_"))
        if not fits or number_of_group:
            name = f"by_{place}"
            while name in columns:
                name += "_"
        out.append(name)
    return out


def _about(program: Program, proof: str, ends: Ends | None) -> list[str]:
    groups = f" and {len(program.columns)} group{'s' * (len(program.columns) > 1)}" if program.columns else ""
    bounded = ends == PROBABILITY_ENDS
    other = "" if ends is None else " and other numbers" if bounded else " and infinities"
    read = " from 0 to 1" if bounded else ""
    gives = f"NaN{other} give{'s' * (not other)} NaN."
    first = f"Calibrated probability of a score{read}{groups}, by Calibrant {library_version()}. {gives}"
    return [first, *([proof] if proof else [])]


# --------------------------------------------------------------------------------------------------------------- Python


def python(program: Program, proof: str = "", ends: Ends | None = None) -> str:
    """The program as a Python module with the function ``calibrate``; scores beyond the ends give NaN."""
    lines = [f"# {line}" for line in _about(program, proof, ends)]
    used = _names(program)
    if "at_or_below" in used:
        lines.append("from bisect import bisect_right")
    functions = [name for name in ("exp", "log", "log1p") if f"{name}(" in used]
    lines += [f"from math import {', '.join([*functions, 'nan'])}", ""]
    for name, values in program.tables.items():
        lines += _wrapped(f"{name} = [", map(repr, values), "]")
    for name, names in program.groups.items():
        lines += _wrapped(f"{name}s = {{", (f"{each!a}: {j}" for j, each in enumerate(names)), "}")
    given = arguments(program.columns)
    if given:
        lines += ["", "", *PYTHON_TEXT.splitlines()]
    lines += ["", "", f"def calibrate({', '.join(['score', *given])}):"]
    body = [
        'if score is None or type(score).__name__ == "NAType" or score != score:',
        "    return nan",
        "x = float(score)",
    ]
    if ends is not None:
        body += [f"if not {ends[0]!r} <= x <= {ends[1]!r}:", "    return nan"]
    for name, place in program.places.items():
        body.append(f"{name} = {name}s.get(text({given[place]}), -1)")
    body += [*_python_lines(program.body), "return x"]
    return "\n".join([*lines, *textwrap.indent("\n".join(body), "    ").splitlines()]) + "\n"


PYTHON_TEXT = '''def text(group):
    """Groups are text: 7 and 7.0 are the group "7", True is "true"; None, NaN and NA are missing."""
    kind = type(group).__name__
    if group is None or kind == "NAType" or group != group:
        return None
    if kind in ("bool", "bool_"):
        return "true" if group else "false"
    if isinstance(group, str):
        return group
    if abs(group) == float("inf") or group != int(group):
        raise ValueError(f"groups are text or integers, got {group!r}")
    return str(int(group))
'''


def _python_lines(body: Sequence[Statement]) -> list[str]:
    out: list[str] = []
    for each in body:
        match each:
            case Set(name, value):
                out.append(f"{name} = {_python_search(value)}")
            case Clip(low, high):
                out.append(f"x = {low} if x < {low} else {high} if x > {high} else x")
            case If(condition, then, other):
                out += [f"if {condition}:", *_python_block(then)]
                inner = _python_lines(other)
                if inner and isinstance(other[0], If) and len(other) == 1:
                    out += [f"el{inner[0]}", *inner[1:]]
                elif inner:
                    out += ["else:", *_python_block(other)]
            case Case(group, cases, other):
                for j, case in enumerate(cases):
                    out += [f"{'el' * (j > 0)}if {group} == {j}:", *_python_block(case)]
                out += ["else:", *_python_block(other)]
            case Missing():
                out.append("return nan")
    return out


def _python_block(body: Sequence[Statement]) -> list[str]:
    return [f"    {line}" for line in _python_lines(body) or ["pass"]]


def _python_search(value: str) -> str:
    """The search in a table, which knows its own length in Python."""
    if not value.startswith("at_or_below("):
        return value
    table, _, x = value.removeprefix("at_or_below(").removesuffix(")").split(", ")
    return f"bisect_right({table}, {x})"


# -------------------------------------------------------------------------------------------------------------------- C


def c(program: Program, proof: str = "", ends: Ends | None = None) -> str:
    """The program as a C99 file with the function ``calibrate``; scores beyond the ends give NaN."""
    note = ["Compile with -std=c99 or -ffp-contract=off: fused operations would change last bits."]
    lines = [f"/* {line.replace('*/', '* /')} */" for line in [*_about(program, proof, ends), *note]]
    used = _names(program)
    lines += ["#include <math.h>", *(["#include <string.h>"] if program.columns else [])]
    lines += [""] if program.tables or program.groups else []
    for name, values in program.tables.items():
        lines += _wrapped(f"static const double {name}[] = {{", map(repr, values), "};")
    for name, names in program.groups.items():
        lines += _wrapped(f"static const char *const {name}s[] = {{", map(_c_text, names), "};")
    if "at_or_below" in used:
        lines += ["", *C_SEARCH.splitlines()]
    given = arguments(program.columns)
    if given:
        lines += ["", *C_FIND.splitlines()]
    parameters = ["double score", *(f"const char *{name}" for name in given)]
    lines += ["", f"double calibrate({', '.join(parameters)})", "{"]
    body = ["double x = score;"]
    body += ["int j;"] if "at_or_below" in used else []
    for name, place in program.places.items():
        body.append(f"int {name} = find({name}s, {len(program.groups[name])}, {given[place]});")
    strange = "x != x" if ends is None else f"!(x >= {ends[0]!r} && x <= {ends[1]!r})"
    body += [f"if ({strange})", "    return NAN;", *_c_lines(program.body), "return x;"]
    return "\n".join([*lines, *textwrap.indent("\n".join(body), "    ").splitlines(), "}"]) + "\n"


C_SEARCH = """/* Number of knots at or below x. */
static int at_or_below(const double *knots, int n, double x)
{
    int low = 0, high = n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (x < knots[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}
"""

C_FIND = """/* Place of a group, as UTF-8 text, in a sorted list; -1 for other groups, and for NULL. */
static int find(const char *const *names, int n, const char *name)
{
    int low = 0, high = n - 1;
    while (name && low <= high) {
        int middle = low + (high - low) / 2, order = strcmp(name, names[middle]);
        if (order == 0)
            return middle;
        if (order < 0)
            high = middle - 1;
        else
            low = middle + 1;
    }
    return -1;
}
"""


def _c_lines(body: Sequence[Statement]) -> list[str]:
    out: list[str] = []
    for each in body:
        match each:
            case Set(name, value):
                out.append(f"{name} = {value};")
            case Clip(low, high):
                out.append(f"x = x < {low} ? {low} : x > {high} ? {high} : x;")
            case If(condition, then, other):
                out += [f"if ({condition}) {{", *_c_block(then)]
                out += ["} else {", *_c_block(other), "}"] if other else ["}"]
            case Case(group, cases, other):
                out.append(f"switch ({group}) {{")
                for j, case in enumerate(cases):
                    out += [f"case {j}:", *_c_block(case), "    break;"]
                out += ["default:", *_c_block(other), "    break;", "}"]
            case Missing():
                out.append("return NAN;")
    return out


def _c_block(body: Sequence[Statement]) -> list[str]:
    return [f"    {line}" for line in _c_lines(body)]


def _c_text(text: str) -> str:
    """A string literal: letters, digits and spaces as they are, any other byte as its octal number."""
    plain = set(b" -.,:;()+/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_=")
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in text.encode()) + '"'


def _names(program: Program) -> str:
    """All expressions, to see which functions they use."""
    return "\n".join(_c_lines(program.body))


def _wrapped(start: str, items: Iterable[str], end: str) -> list[str]:
    """A list on one line, or on several."""
    parts = list(items)
    whole = f"{start}{', '.join(parts)}{end}"
    if len(whole) <= 100:
        return [whole]
    rows = [", ".join(parts[j : j + 4]) for j in range(0, len(parts), 4)]
    return [start, *(f"    {row}," for row in rows[:-1]), f"    {rows[-1]}", end]
