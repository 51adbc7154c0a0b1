"""Random numbers from a secret key and the row number, identical in plain Python and compiled."""

from __future__ import annotations

import secrets
from typing import Any

from calibrant.messages import InputError
from calibrant.online.kernels import Jit, Step, plain
from calibrant.online.limits import whole_in

WORD = 0xFFFFFFFF
"""Mask of a 32-bit word."""

SEEDS = 2**64
"""Upper limit of seeds."""

ROUND_KEY, BRANCH = (0x63616C69, 0x6272616E), 0x80000000
"""Key that turns seeds into keys, and the upper word of row numbers that no row has, used to branch keys."""

Key = tuple[int, int]


def hash_steps(jit: Jit) -> Step:
    """``words(a, b, low, high)``: HalfSipHash-2-4 of two words under the key (a, b), as two 32-bit words.

    The message is the eight bytes of two words. Python's integers are masked to 32 bits; compiled ones have 64 bits,
    which no step exceeds, so both give the same words.
    Reference: Aumasson and Bernstein (2012), in the variant for 32-bit words.
    """

    @jit
    def turn(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
        v0 = (v0 + v1) & WORD
        v1 = (((v1 << 5) & WORD) | (v1 >> 27)) ^ v0
        v2 = (v2 + v3) & WORD
        v3 = (((v3 << 8) & WORD) | (v3 >> 24)) ^ v2
        v0 = ((((v0 << 16) & WORD) | (v0 >> 16)) + v3) & WORD
        v3 = (((v3 << 7) & WORD) | (v3 >> 25)) ^ v0
        v2 = (v2 + v1) & WORD
        v1 = (((v1 << 13) & WORD) | (v1 >> 19)) ^ v2
        return v0, v1, ((v2 << 16) & WORD) | (v2 >> 16), v3

    @jit
    def words(a: int, b: int, low: int, high: int) -> tuple[int, int]:
        v0, v1, v2, v3 = a, b ^ 0xEE, a ^ 0x6C796765, b ^ 0x74656462
        for word in (low, high, 0x08000000):  # the message, and its length of 8 bytes in the top byte
            v3 ^= word
            v0, v1, v2, v3 = turn(v0, v1, v2, v3)
            v0, v1, v2, v3 = turn(v0, v1, v2, v3)
            v0 ^= word
        v2 ^= 0xEE
        for _ in range(4):
            v0, v1, v2, v3 = turn(v0, v1, v2, v3)
        first = v1 ^ v3
        v1 ^= 0xDD
        for _ in range(4):
            v0, v1, v2, v3 = turn(v0, v1, v2, v3)
        return first, v1 ^ v3

    return words


def draw_steps(jit: Jit) -> Step:
    """``uniform(a, b, place)``: a number in [0, 1) with 53 bits, unpredictable without the key (a, b).

    All arguments are integers, a and b below 2^32 and the row number ``place`` below 2^53. As long as HalfSipHash is
    secure, observed draws do not reveal others: a search has 2^64 keys to try.
    """
    words = hash_steps(jit)

    @jit
    def uniform(a: int, b: int, place: int) -> float:
        high, low = words(a, b, place & WORD, place >> 32)
        return float((high >> 5) * 67108864 + (low >> 6)) / 9007199254740992.0

    return uniform


_words = hash_steps(plain)


def key_of(random_state: Any) -> Key:
    """The key of a seed: a secret one for None, and always the same one for an integer."""
    if random_state is None:
        return secrets.randbits(32), secrets.randbits(32)
    if not whole_in(random_state, 0, SEEDS - 1):
        raise InputError("random_state", f"must be None or an integer from 0 to 2**64 - 1, not {random_state!r}")
    return _of_words(ROUND_KEY, int(random_state) & WORD, int(random_state) >> 32)


def branch_of(key: Key, place: int) -> Key:
    """The key of copy number ``place``: its draws reveal nothing about those of the key or of other copies."""
    return _of_words(key, place & WORD, BRANCH | place >> 32)


def _of_words(key: Key, low: int, high: int) -> Key:
    first, second = _words(*key, low, high)
    return first, second
