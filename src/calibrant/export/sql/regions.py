"""Maps that look a row up, in the simplex or along a path of a taxonomy, as text over the texts of their scores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant.export.sql.classes import by_code, ranked, shares
from calibrant.export.sql.scores import branch, lower
from calibrant.export.sql.text import SMALL, Text
from calibrant.maps.paths import PathMap
from calibrant.maps.simplex import SimplexBinsMap, grid_cells, region_count
from calibrant.numerics import Floats

__all__ = ["lower"]  # with the lowerings of every kind of map

# ------------------------------------------------------------------------------------------------------------- simplex


@lower.register
def _(map_: SimplexBinsMap, text: Text, x: list[str], place: int) -> str:
    values = map_.outputs_by_region[:, place]
    schemes = {"projection": _by_rules, "sierpinski": _halved, "grid": _in_cells}
    return _probabilities(text, x, map_.on, lambda t, p: schemes[map_.scheme](map_, t, p, values))


def _probabilities(text: Text, x: list[str], on: str, body: Callable[[Text, list[str]], str]) -> str:
    """The body over names for the probabilities."""
    return shares(text, x, body) if on == "logit" else text.named(x, body)


def _by_rules(map_: SimplexBinsMap, text: Text, p: list[str], values: Floats) -> str:
    """The first rule whose threshold is not reached."""
    rules = zip(map_.rules.tolist(), map_.thresholds.tolist(), values.tolist(), strict=False)
    whens = [f"WHEN {_projected(text, p, q)} < {text.number(t)} THEN {text.number(value)}" for q, t, value in rules]
    last = text.number(values[-1])
    return f"CASE {' '.join(whens)} ELSE {last} END" if whens else last


def _projected(text: Text, p: list[str], direction: list[float]) -> str:
    """The sum of products, class after class; a factor of 1 is not written, so that it cannot underflow."""
    terms = []
    for each, weight in zip(p, direction, strict=True):
        if abs(weight) == 1.0:
            terms.append(each if weight > 0 else f"-{each}")
        elif weight and not text.dialect.raises:
            terms.append(f"{each} * {text.number(weight)}")
        elif abs(weight) >= SMALL:
            zero, small = text.number(0.0), text.number(SMALL)
            terms.append(f"CASE WHEN {each} >= {small} THEN {each} * {text.number(weight)} ELSE {zero} END")
    return " + ".join(terms) if terms else text.number(0.0)


def _halved(map_: SimplexBinsMap, text: Text, p: list[str], values: Floats) -> str:
    """Level by level: the part is chosen by the one class above a half, and blown up."""
    size, half, two = len(p), text.number(0.5), text.number(2.0)

    def level(t: Text, given: list[str], left: int, chosen: list[str]) -> str:
        hits = " ".join(f"WHEN {each} > {half} THEN {j}" for j, each in enumerate(given, start=1))
        return t.named([f"CASE {hits} ELSE {size + 1} END"], lambda u, code: below(u, given, left, [*chosen, code[0]]))

    def below(t: Text, given: list[str], left: int, chosen: list[str]) -> str:
        if left == 1:
            return looked_up(t, values, chosen)
        one, zero, code = t.number(1.0), t.number(0.0), chosen[-1]
        taken = [f"CASE WHEN {code} = {j} THEN {one} ELSE {zero} END" for j in range(1, size + 1)]
        blown = [f"{two} * {each} - {part}" for each, part in zip(given, taken, strict=True)]
        return t.named(blown, lambda u, inner: level(u, inner, left - 1, chosen))

    def looked_up(t: Text, table: Floats, codes: list[str]) -> str:
        if len(table) == 1:
            return t.number(table[0])
        parts = (len(table) - 1) // size
        leaves = [looked_up(t, table[j * parts : (j + 1) * parts], codes[1:]) for j in range(size)]
        return by_code(t, codes[0], [*leaves, t.number(table[-1])])

    assert len(values) == region_count("sierpinski", size, map_.size)
    return level(text, p, map_.size, [])


def _in_cells(map_: SimplexBinsMap, text: Text, p: list[str], values: Floats) -> str:
    """The cell of each class, brought to a sum that is possible, as one number."""
    size, count = map_.size, len(p)
    cells, one = text.number(size), text.number(1.0)
    least, most = max(count, size + 1), size + count - 1
    digits = size ** np.arange(count - 1, -1, -1, dtype=np.int64)
    keys = ((grid_cells(count, size) - 1) * digits).sum(axis=1)

    def held(t: Text, x: str, low: str, high: str) -> str:
        return f"{t.dialect.largest}({t.dialect.least}({x}, {high}), {low})"

    def filled(t: Text, k: list[str]) -> str:
        short = t.largest([f"{t.number(least)} - ({' + '.join(k)})", t.number(0.0)])
        return t.named([*k[:-1], f"{k[-1]} + {short}"], lowered)

    def lowered(t: Text, k: list[str]) -> str:
        over = f"{' + '.join(k)} - {t.number(most)}"
        return t.named([over], lambda u, excess: keyed(u, k, excess[0]))

    def keyed(t: Text, k: list[str], over: str) -> str:
        terms = []
        for j, each in enumerate(k):
            room = "".join(f" - ({other} - {one})" for other in k[j + 1 :])
            off = held(t, f"{over}{room}", t.number(0.0), f"{each} - {one}")
            terms.append(f"({each} - {one} - {off}) * {t.number(digits[j])}")
        return t.named([" + ".join(terms)], lambda u, key: looked_up(u, key[0]))

    def looked_up(t: Text, key: str) -> str:
        return branch(key, keys[1:].astype(np.float64), [t.number(value) for value in values], t.dialect)

    real = text.dialect.real
    return text.named(
        [
            f"{text.dialect.largest}(CAST(ceil({text.dialect.least}({each}, {one}) * {cells}) AS {real}), {one})"
            for each in p
        ],
        filled,
    )


# --------------------------------------------------------------------------------------------------------------- paths


@lower.register
def _(map_: PathMap, text: Text, x: list[str], place: int) -> str:
    """The rate of one node: NULL where it is not on the path of the largest score."""
    beneath = [j for j in range(len(x)) if place in map_.taxonomy.paths[map_.leaf_codes[j]]]
    nodes = sorted({node for j in beneath for node in cut_nodes(map_, j)})

    def told(t: Text, p: list[str], code: str) -> str:
        sums = [" + ".join(p[j] for j in leaves_beneath(map_, node)) for node in nodes]
        if not sums:
            return chosen(t, code, {})
        return t.named(sums, lambda u, given: chosen(u, code, dict(zip(nodes, given, strict=True))))

    def chosen(t: Text, code: str, sums: dict[int, str]) -> str:
        nothing = f"CAST(NULL AS {t.dialect.real})"
        leaves = [_rates(map_, t, j, place, sums) if j in beneath else nothing for j in range(len(x))]
        return by_code(t, code, leaves)

    def ranked_first(t: Text, scores: list[str]) -> str:
        return ranked(t, scores, 0, True, lambda u, s, _, code: probabilities(u, s, code))

    def probabilities(t: Text, scores: list[str], code: str) -> str:
        if map_.on == "probability" or not nodes:
            return told(t, scores, code)
        return shares(t, scores, lambda u, p: told(u, p, code))

    return text.named(x, ranked_first)


def cut_nodes(map_: PathMap, leaf: int) -> list[int]:
    """The nodes whose scores the cuts of a class are on, cut by cut."""
    start = int(map_.sizes[: map_.groups[leaf]].sum())
    levels = map_.levels[start : start + map_.sizes[map_.groups[leaf]]]
    path = map_.taxonomy.paths[map_.leaf_codes[leaf]]
    return [int(path[level]) for level in levels]


def leaves_beneath(map_: PathMap, node: int) -> list[int]:
    """Columns of the leaves beneath a node."""
    return [j for j, code in enumerate(map_.leaf_codes) if node in map_.taxonomy.paths[code]]


def _rates(map_: PathMap, text: Text, leaf: int, node: int, sums: dict[int, str]) -> str:
    """The rate of a node by the bin of the row, for rows of one predicted leaf."""
    group = int(map_.groups[leaf])
    start, count = int(map_.sizes[:group].sum()), int(map_.sizes[group])
    cuts, on = map_.cuts[start : start + count], cut_nodes(map_, leaf)
    first = int(map_.first_bins[group])
    level = int(map_.taxonomy.depths[node]) - 1
    rates = [text.number(rate) for rate in map_.bin_rates[first : first + count + 1, level]]
    if len(set(on)) <= 1 and (np.diff(cuts) > 0.0).all():
        return branch(sums[on[0]], cuts, rates, text.dialect) if on else rates[0]
    whens = [
        f"WHEN {sums[each]} < {text.number(cut)} THEN {rate}" for each, cut, rate in zip(on, cuts, rates, strict=False)
    ]
    return f"CASE {' '.join(whens)} ELSE {rates[-1]} END"
