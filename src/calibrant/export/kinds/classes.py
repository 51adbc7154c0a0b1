"""Export of each kind of map of several classes: SQL text of each output column, and ONNX nodes.

A kind registers two functions, one with ``lower`` for SQL and one with ``row_nodes`` for ONNX; kinds that look up a row
are in ``regions.py``. In SQL, logits get names if the dialect allows it, and so do the exponentials and their sum if
more than one class is needed: the text of a column grows with the number of classes, not with its square. Exponents are
clipped at both ends, since some engines raise errors where numpy gives infinity or 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np

from calibrant.export.kinds.scores import nodes_of
from calibrant.export.kinds.stages import lower, score_text
from calibrant.export.languages.onnx_graph import ML, Graph
from calibrant.export.languages.sql.cases import branch
from calibrant.export.languages.sql.formulas import by_key, held_between
from calibrant.export.languages.sql.pieces import NEGLIGIBLE
from calibrant.export.languages.sql.text import SMALL, Text, text_literal
from calibrant.maps import GroupedSoftmaxMap, MulticlassMap, PerClassMap, SoftmaxMap, TopMap
from calibrant.maps.classes import LARGEST_LOGIT
from calibrant.messages import InputError, Setting
from calibrant.numerics import Floats

SEVERAL = 8
"""Dialects that allow fewer nested curves than this have a parser with limited depth."""


@singledispatch
def row_nodes(map_: MulticlassMap, graph: Graph, x: str) -> tuple[str, str]:
    """Names of the probabilities and of the labels, empty if there are none; ``x`` are doubles without NaN."""
    raise ValueError(f"a map of kind {map_.kind!r} has no ONNX form")


def probabilities(map_: MulticlassMap, graph: Graph, x: str) -> str:
    """The rows as probabilities."""
    return graph.add("Softmax", graph.clip(x, -LARGEST_LOGIT, LARGEST_LOGIT), axis=-1) if map_.on == "logit" else x


# -------------------------------------------------------------------------------------------------------------- softmax


After = Callable[[Text, list[str]], list[str]] | None
"""What is done to logits before softmax, as text over names for them."""


@lower.register
def _(map_: SoftmaxMap, text: Text, x: list[str], place: int) -> str:
    return _softmax(map_, text, x, place, None)


def _softmax(map_: SoftmaxMap, text: Text, x: list[str], place: int, after: After) -> str:
    if map_.raw:
        return text.named([text.held(each) for each in x], lambda t, logits: _scaled(map_, t, logits, place, after))
    if map_.on == "logit":
        return _log_shares(text, x, math.log(map_.clamp), lambda t, logits: _scaled(map_, t, logits, place, after))
    low, one = text.number(map_.clamp), text.number(1.0)
    return _scaled(map_, text, [f"ln({held_between(text.dialect, each, low, one)})" for each in x], place, after)


@lower.register
def _(map_: GroupedSoftmaxMap, text: Text, x: list[str], place: int) -> str:
    if not text.dialect.booleans and set(map_.groups) <= {"true", "false"}:
        raise InputError(
            Setting("dialect", text.name), "has no text for booleans", "fit with groups of text or integers"
        )
    key, names = text.keys[map_.by], [text_literal(group, text.name) for group in map_.groups]
    scales, shifts = map_.tables

    def chosen(t: Text, values: Floats) -> str:
        kept = np.where(np.abs(values) >= SMALL, values, 0.0)
        return by_key(key, names, [t.number(each) for each in kept[:-1]], t.number(kept[-1]))

    def after(t: Text, z: list[str]) -> list[str]:
        return [f"{each} * {chosen(t, scales)} + {chosen(t, shifts[:, j])}" for j, each in enumerate(z)]

    return _softmax(map_.whole, text, x, place, after)


def _log_shares(text: Text, x: list[str], least: float, body: Callable[[Text, list[str]], str]) -> str:
    """The body over texts for the log-probabilities of logits, clipped from below."""

    def below(t: Text, z: list[str]) -> str:
        return t.named([t.largest(z)], lambda u, most: summed(u, z, most[0]))

    def summed(t: Text, z: list[str], most: str) -> str:
        total = f"{most} + ln({' + '.join(t.exp(each, most) for each in z)})"
        return t.named([total], lambda u, whole: body(u, [low(u, f"{each} - {whole[0]}") for each in z]))

    def low(t: Text, logit: str) -> str:
        return t.largest([logit, t.number(least)])

    return text.named([text.held(each) for each in x], below)


def _scaled(map_: SoftmaxMap, text: Text, logits: list[str], place: int, after: After) -> str:
    """One class of the affine map of log-probabilities or raw logits; ``after`` changes the logits once more."""
    size = len(map_.classes)
    slopes = np.where(np.abs(map_.slope) >= SMALL, map_.slope, 0.0)
    shifts = map_.intercept if len(map_.intercept) else np.zeros(size)

    def share(t: Text, z: list[str]) -> str:
        if after is None:
            return t.named(z, lambda u, given: u.share(given, given[place]))
        return t.named(z, lambda u, first: u.named(after(u, first), lambda v, given: v.share(given, given[place])))

    if len(slopes) in (1, size):
        each = zip(logits, np.resize(slopes, size), shifts, strict=True)
        return share(text, [_sum(text, [(z, slope)], shift) for z, slope, shift in each])
    rows = list(zip(slopes.reshape(size, size), shifts, strict=True))
    return text.named(
        logits, lambda t, z: share(t, [_sum(t, list(zip(z, row, strict=True)), shift) for row, shift in rows])
    )


def _sum(text: Text, terms: list[tuple[str, float]], shift: float) -> str:
    """A weighted sum; terms of weight 0 are left out."""
    parts = [f"{z} * {text.number(weight)}" for z, weight in terms if weight]
    return " + ".join([*parts, text.number(shift)] if shift or not parts else parts)


@row_nodes.register
def _(map_: SoftmaxMap, graph: Graph, x: str) -> tuple[str, str]:
    return graph.add("Softmax", _affine_nodes(map_, graph, x), axis=-1), ""


@row_nodes.register
def _(map_: GroupedSoftmaxMap, graph: Graph, x: str) -> tuple[str, str]:
    others = len(map_.groups)
    keys: dict[str, Any] = {"keys_strings": map_.groups, "values_int64s": range(others), "default_int64": others}
    code = graph.add("LabelEncoder", map_.by, domain=ML, **keys)
    scales, shifts = map_.tables
    z = graph.add("Mul", _affine_nodes(map_.whole, graph, x), graph.take(scales[:, None], code))
    return graph.add("Softmax", graph.add("Add", z, graph.take(shifts, code)), axis=-1), ""


def _affine_nodes(map_: SoftmaxMap, graph: Graph, x: str) -> str:
    """The logits to which softmax is applied."""
    size = len(map_.classes)
    if map_.raw:
        z = graph.clip(x, -LARGEST_LOGIT, LARGEST_LOGIT)
    else:
        z = graph.add("Log", graph.add("Clip", probabilities(map_, graph, x), map_.clamp, 1.0))
    if len(map_.slope) in (1, size):
        z = graph.add("Mul", z, graph.doubles(map_.slope))
    else:
        z = graph.add("MatMul", z, graph.doubles(map_.slope.reshape(size, size).T))
    if len(map_.intercept):
        z = graph.add("Add", z, graph.doubles(map_.intercept))
    return z


# ------------------------------------------------------------------------------------------------------- class by class


@lower.register
def _(map_: PerClassMap, text: Text, x: list[str], place: int) -> str:
    def images(t: Text, p: list[str]) -> str:
        if not map_.normalized:
            return score_text(map_.maps[place], p[place], t)
        found = [score_text(part, each, t) for part, each in zip(map_.maps, p, strict=True)]
        return t.named(found, lambda u, q: u.named([" + ".join(q)], lambda v, total: _share(v, q, place, total[0])))

    if map_.on == "probability":
        return images(text, x)
    if not map_.normalized:
        return text.named(
            [text.held(each) for each in x],
            lambda t, z: t.named([t.share(z, z[place])], lambda u, p: images(u, p * len(x))),  # one name in all places
        )
    return shares(text, x, images)


def shares(text: Text, x: list[str], body: Callable[[Text, list[str]], str]) -> str:
    """The body over names for the probabilities of logits."""

    def below(t: Text, z: list[str]) -> str:
        return t.named([t.largest(z)], lambda u, most: u.named([u.exp(each, most[0]) for each in z], divided))

    def divided(t: Text, e: list[str]) -> str:
        return t.named([" + ".join(e)], lambda u, total: u.named([f"{each} / {total[0]}" for each in e], body))

    return text.named([text.held(each) for each in x], below)


def _share(text: Text, parts: list[str], place: int, total: str) -> str:
    """Share of one part in a sum that may be 0."""
    zero, one = text.number(0.0), text.number(1.0)
    small = f"WHEN {parts[place]} < {text.number(NEGLIGIBLE)} AND {total} > {one} THEN {zero} "
    equal = text.number(1.0 / len(parts))
    return (
        f"CASE {small if text.dialect.raises else ''}WHEN {total} > {zero} THEN {parts[place]} / {total} "
        f"ELSE {equal} END"
    )


@row_nodes.register
def _(map_: PerClassMap, graph: Graph, x: str) -> tuple[str, str]:
    size = len(map_.classes)
    p = nodes_of(map_.maps, graph.integers(np.arange(size)[None]), graph, probabilities(map_, graph, x))
    if not map_.normalized:
        return p, ""
    total = graph.add("ReduceSum", p, graph.integers([1]), keepdims=1)
    some = graph.add("Greater", total, 0.0)
    shares = graph.add("Div", p, graph.add("Where", some, total, 1.0))
    return graph.add("Where", some, shares, 1.0 / size), ""


# ---------------------------------------------------------------------------------------------------------- top classes


@lower.register
def _(map_: TopMap, text: Text, x: list[str], place: int) -> str:
    rank, wants_label = divmod(place, 2)
    size = len(x)
    names = [text_literal(each, text.name) for each in map_.classes] if wants_label else []

    def image(t: Text, value: str, code: str) -> str:
        if not map_.by_label:
            return score_text(map_.maps[rank], value, t)
        parts = map_.maps[rank * size : (rank + 1) * size]
        return by_code(t, code, [score_text(part, value, t) for part in parts])

    def column(t: Text, scores: list[str], top: str, code: str) -> str:
        if wants_label:
            return by_code(t, code, names)
        if map_.on == "probability":
            return image(t, top, code)
        held = [t.held(each) for each in (top, *scores)]
        return t.named(held, lambda u, z: u.named([u.share(z[1:], z[0])], lambda v, p: image(v, p[0], code)))

    needs_code = bool(wants_label or map_.by_label)
    return text.named(x, lambda t, scores: ranked(t, scores, rank, needs_code, column))


Body = Callable[[Text, list[str], str, str], str]


def ranked(text: Text, x: list[str], rank: int, needs_code: bool, body: Body) -> str:
    """``body`` over the scores, the score of the given rank, and the number of its class, starting at 1.

    A class of an earlier rank is replaced by the smallest score of the row.
    """

    def largest(t: Text, least: str, codes: list[str]) -> str:
        left = [_unless_taken(j, each, least, codes) for j, each in enumerate(x, start=1)]
        return t.named([t.largest(left)], lambda u, top: chosen(u, least, top[0], codes))

    def chosen(t: Text, least: str, top: str, codes: list[str]) -> str:
        last = len(codes) == rank
        if last and not needs_code:
            return body(t, x, top, "")
        hits = [_hit(j, each, top, codes) for j, each in enumerate(x, start=1)]
        code = f"CASE {' '.join(f'WHEN {hit} THEN {j}' for j, hit in enumerate(hits, start=1))} END"
        if last:
            return t.named([code], lambda u, found: body(u, x, top, found[0]))
        return t.named([code], lambda u, found: largest(u, least, [*codes, found[0]]))

    if not rank:
        return largest(text, "", [])
    if text.dialect.stage is None or text.dialect.nesting < SEVERAL:
        return _counted(text, x, rank, body)
    least = f"{text.dialect.least}({', '.join(x)})"
    return text.named([least], lambda t, low: largest(t, low[0], []))


def _counted(text: Text, x: list[str], rank: int, body: Body) -> str:
    """The same without nested names: the rank of a class is the number of classes before it, plus one."""

    def before(place: int, other: int) -> str:
        sign = ">=" if other < place else ">"
        return f"CASE WHEN {x[other]} {sign} {x[place]} THEN 1 ELSE 0 END"

    size = range(len(x))
    counts = [" + ".join(before(place, other) for other in size if other != place) for place in size]
    code = f"CASE {' '.join(f'WHEN {count} = {rank} THEN {j}' for j, count in enumerate(counts, start=1))} END"
    return text.named(
        [code], lambda t, found: t.named([by_code(t, found[0], x)], lambda u, top: body(u, x, top[0], found[0]))
    )


def _unless_taken(place: int, x: str, least: str, codes: list[str]) -> str:
    taken = " OR ".join(f"{code} = {place}" for code in codes)
    return f"CASE WHEN {taken} THEN {least} ELSE {x} END" if codes else x


def _hit(place: int, x: str, top: str, codes: list[str]) -> str:
    return " AND ".join([f"{x} = {top}", *(f"{code} <> {place}" for code in codes)])


def by_code(text: Text, code: str, leaves: list[str]) -> str:
    """The leaf of a number that starts at 1."""
    if text.dialect.stage is None:  # the number has no name and is written once
        return by_key(code, [str(j) for j in range(1, len(leaves) + 1)], leaves, None)
    return branch(code, np.arange(2.0, len(leaves) + 1.0), leaves, text.dialect)


@row_nodes.register
def _(map_: TopMap, graph: Graph, x: str) -> tuple[str, str]:
    codes = graph.add("TopK", x, graph.integers([map_.ranks]), skipped=1, axis=1, largest=1, sorted=1)
    values = graph.add("GatherElements", probabilities(map_, graph, x), codes, axis=1)
    ranks = np.arange(map_.ranks)[None]
    own = graph.add("Add", codes, graph.integers(ranks * len(map_.classes))) if map_.by_label else graph.integers(ranks)
    return nodes_of(map_.maps, own, graph, values), codes
