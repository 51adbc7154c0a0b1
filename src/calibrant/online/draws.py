"""Random numbers that are a function of a seed and of the row's place, the same in plain Python and compiled."""

from __future__ import annotations

from calibrant.online.kernels import Jit, Step

WORD = 0xFFFFFFFF
"""Hashes are whole numbers of 32 bits."""

SEEDS = 2**32
"""Seeds lie below this."""


def draw_steps(jit: Jit) -> Step:
    """``uniform(seed, place)``: a number in [0, 1) with 53 random bits.

    Both are whole numbers. Each bit comes from a hash of 32 bits (lowbias32, with the constants of Wellons' search),
    fed with the seed, the two halves of the place, and the number of the word. Python's integers are cut to 32 bits by
    the mask; compiled ones wrap at 64 bits first, which leaves the lower 32 as they are, so both give the same number.
    It serves simulations and hedging, not cryptography.
    """

    @jit
    def mix(x: int) -> int:
        x ^= x >> 16
        x = (x * 0x7FEB352D) & WORD
        x ^= x >> 15
        x = (x * 0x846CA68B) & WORD
        return x ^ (x >> 16)

    @jit
    def uniform(seed: int, place: int) -> float:
        h = mix((seed + 0x9E3779B9) & WORD)
        h = mix(h ^ (place & WORD))
        h = mix((h + (place >> 32) + 0x85EBCA6B) & WORD)
        high, low = mix(h ^ 0x27D4EB2F), mix((h + 0x165667B1) & WORD)
        return float((high >> 5) * 67108864 + (low >> 6)) / 9007199254740992.0

    return uniform
