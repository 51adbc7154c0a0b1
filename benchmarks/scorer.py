"""What one score costs: ``Calibration.scorer()`` beside the same formula written inline in a loop, and ``transform``.

    python benchmarks/scorer.py [--quick] [--gate]

Every job runs once per round, in turn, and the table gives medians of CPU time, so that a busy machine slows all alike.
The inline formulas have no checks and no calls: no NaN, no range, no clipping of the log-odds. With ``--gate`` the
program ends with 1 if a scorer takes more than three times the inline formula.
"""

from __future__ import annotations

import argparse
import math
import sys
from bisect import bisect_right
from collections.abc import Callable

import numpy as np
from measure import Job, run

from calibrant.calibration import Calibration
from calibrant.maps import BetaMap, ByGroupMap, IdentityMap, LogitAffineMap, Map, PiecewiseLinearMap, StepMap

LIMIT = 3.0
RNG = np.random.default_rng(0)
KNOTS, VALUES = np.sort(RNG.random(30)), np.sort(RNG.random(31))
REGIONS = tuple(f"region {j}" for j in range(20))
LINES = {name: (0.8 + j / 50, -0.1 + j / 40) for j, name in enumerate(REGIONS)}
MAPS: dict[str, Map] = {
    "Platt scaling": LogitAffineMap(0.8, -0.1),
    "beta scaling": BetaMap(0.8, 1.1, 0.2),
    "30 steps": StepMap(KNOTS, VALUES),
    "30 lines": PiecewiseLinearMap(KNOTS, VALUES[1:]),
    "20 segments": ByGroupMap(
        "region", REGIONS, tuple(LogitAffineMap(*LINES[name]) for name in REGIONS), IdentityMap()
    ),
}


def platt(scores: list[float], regions: list[str]) -> None:
    log, exp, a, b = math.log, math.exp, 0.8, -0.1
    for s in scores:
        _ = 1.0 / (1.0 + exp(-(log(s / (1.0 - s)) * a + b)))


def beta(scores: list[float], regions: list[str]) -> None:
    log, log1p, exp, a, b, c = math.log, math.log1p, math.exp, 0.8, 1.1, 0.2
    for s in scores:
        _ = 1.0 / (1.0 + exp(-(log(s) * a - log1p(-s) * b + c)))


def steps(scores: list[float], regions: list[str]) -> None:
    knots, values = KNOTS.tolist(), VALUES.tolist()
    for s in scores:
        _ = values[bisect_right(knots, s)]


def lines(scores: list[float], regions: list[str]) -> None:
    knots, values = KNOTS.tolist(), VALUES[1:].tolist()
    size = len(knots)
    for s in scores:
        j = bisect_right(knots, s)
        if j == 0 or j == size:
            _ = values[max(j - 1, 0)]
        else:
            _ = values[j - 1] + (values[j] - values[j - 1]) * (s - knots[j - 1]) / (knots[j] - knots[j - 1])


def segments(scores: list[float], regions: list[str]) -> None:
    log, exp = math.log, math.exp
    for s, region in zip(scores, regions, strict=True):
        a, b = LINES[region]
        _ = 1.0 / (1.0 + exp(-(log(s / (1.0 - s)) * a + b)))


INLINE = dict(zip(MAPS, (platt, beta, steps, lines, segments), strict=True))


def scored(score: Callable[..., float], scores: list[float], regions: list[str], by_segment: bool) -> None:
    if by_segment:
        for s, region in zip(scores, regions, strict=True):
            score(s, region)
    else:
        for s in scores:
            score(s)


def transformed(calibration: Calibration, scores: list[float], regions: list[str], by_segment: bool) -> None:
    for s, region in zip(scores, regions, strict=True):
        calibration.transform([s], [region] if by_segment else None)


def main() -> int:
    """Run, print, and with ``--gate`` end with 1 where the limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--gate", action="store_true")
    options = parser.parse_args()
    many, few, rounds = (50_000, 500, 7) if options.quick else (500_000, 5_000, 11)
    scores = RNG.random(many).tolist()
    regions = [REGIONS[j] for j in RNG.integers(0, len(REGIONS), many)]
    jobs: dict[tuple[str, str], Job] = {}
    for name, map_ in MAPS.items():
        calibration, by = Calibration(map_), bool(map_.columns)
        score = calibration.scorer()
        jobs[name, "inline"] = Job("", lambda name=name: INLINE[name](scores, regions))
        jobs[name, "scorer"] = Job("", lambda score=score, by=by: scored(score, scores, regions, by))
        jobs[name, "transform"] = Job(
            "", lambda each=calibration, by=by: transformed(each, scores[:few], regions[:few], by)
        )
    run(list(jobs.values()), rounds)
    print(f"one score at a time, {many:,} scores ({few:,} with transform), ns a score, median of {rounds}\n")
    print(f"{'':16}{'inline':>10}{'scorer':>10}{'transform':>12}{'scorer / inline':>18}{'transform / inline':>20}")
    ratios = []
    for name in MAPS:
        inline, scorer = (jobs[name, which].cost / many * 1e9 for which in ("inline", "scorer"))
        whole = jobs[name, "transform"].cost / few * 1e9
        ratios.append(scorer / inline)
        print(f"{name:16}{inline:10.0f}{scorer:10.0f}{whole:12.0f}{scorer / inline:18.2f}{whole / inline:20.0f}")
    held = max(ratios) <= LIMIT
    print(f"\nscorer at most {LIMIT:g} times the inline formula: {'reached' if held else 'NOT REACHED'}")
    return int(options.gate and not held)


if __name__ == "__main__":
    sys.exit(main())
