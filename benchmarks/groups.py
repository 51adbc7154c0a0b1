"""Calibration on 20 overlapping groups, whoever picks the outcomes: regression on its own forecasts beside plain ridge.

    python benchmarks/groups.py --quick    # 10^4 rows for each world
    python benchmarks/groups.py            # the stored table: 10^5 rows
    python benchmarks/groups.py --costs    # time and size of the state alone

Each row is in each of 20 groups with a chance between 5 % and 60 %, independently, so that groups overlap; the model's
score is uniform on [0.1, 0.9]. Who picks the outcome knows everything, the forecast of the row included:

* random: an event with the chance that the score says, moved by 0.3 in the first group and by -0.3 in the second;
* drift: the same with shifts that turn round slowly, each group at its own pace;
* halves: no event in the first half, only events in the second (Foster and Kakade 2006, footnote 1);
* doubling: runs of 0 and 1, each twice as long as the one before;
* contrary: 1 where the forecast is at most one half, else 0;
* push: moves the largest error among the groups that the row is in further the way it goes;
* one: makes the error of the tenth group as large as it can, which outside of this group is as in random;
* all: makes the sum of squared errors of all groups as large as it can.

"worst bias" is the largest |sum of (forecast - outcome)| / rows over the groups, at the end. "of bound" is the largest
share of the bound that any group's error ever had, after any row: above 1 the guarantee is broken. The bound is
sqrt((rows in the group + 1) (2 + 23 ln(T + 1))); Foster and Kakade (2006) print
2 sqrt((rows in the group + 1) 23 ln(T + 1)).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from calibrant.online import CalibratedRegression

Floats = NDArray[np.float64]
GROUPS = 20
ROWS, QUICK_ROWS = 100_000, 10_000
REGRESSORS = GROUPS + 3


@dataclass
class Moment:
    """What is known when the outcome of a row is picked."""

    t: int
    rows: int
    score: float
    forecast: float
    groups: Floats
    errors: Floats
    rng: np.random.Generator


class Method(Protocol):
    def predict_one(self, score: float, features: Floats) -> float: ...

    def learn_one(self, score: float, label: float, features: Floats) -> object: ...


class Score:
    """The original model."""

    def predict_one(self, score: float, features: Floats) -> float:
        return score

    def learn_one(self, score: float, label: float, features: Floats) -> None:
        pass


class PlainRidge:
    """Foster and Kakade (2006), Algorithm 1, on groups, constant and score: no forecast among the regressors."""

    def __init__(self) -> None:
        self.inverse, self.theta = np.eye(GROUPS + 2), np.zeros(GROUPS + 2)

    def predict_one(self, score: float, features: Floats) -> float:
        return float(np.clip(score + self.theta @ np.append(features, [1.0, score]), 0.0, 1.0))

    def learn_one(self, score: float, label: float, features: Floats) -> None:
        x = np.append(features, [1.0, score])
        v = self.inverse @ x
        gain = v / (1.0 + x @ v)
        self.theta += gain * (label - score - self.theta @ x)
        self.inverse -= np.outer(gain, v)


METHODS: dict[str, Callable[[], Method]] = {
    "as it is": Score,
    "plain ridge": PlainRidge,
    "calibrated": lambda: CalibratedRegression(GROUPS),
}

# --------------------------------------------------------------------------------------------------------------- worlds


def random(now: Moment) -> bool:
    return bool(now.rng.random() < now.score + 0.3 * (now.groups[0] - now.groups[1]))


def drift(now: Moment) -> bool:
    turns = np.sin(2.0 * np.pi * np.arange(1, GROUPS + 1) * now.t / now.rows)
    return bool(now.rng.random() < now.score + 0.2 * (now.groups @ turns))


def halves(now: Moment) -> bool:
    return now.t >= now.rows // 2


def doubling(now: Moment) -> bool:
    return (now.t + 1).bit_length() % 2 == 0


def contrary(now: Moment) -> bool:
    return now.forecast <= 0.5


def push(now: Moment) -> bool:
    inside = now.errors * now.groups
    return bool(inside[np.argmax(np.abs(inside))] <= 0.0)


def one(now: Moment) -> bool:
    if now.groups[9] == 0.0:
        return random(now)
    after = now.errors[9] + now.forecast
    return bool(abs(after - 1.0) > abs(after))


def all_groups(now: Moment) -> bool:
    after = now.errors + now.forecast * now.groups
    return bool(np.sum(np.square(after - now.groups)) > np.sum(np.square(after)))


WORLDS: dict[str, Callable[[Moment], bool]] = {
    "random": random,
    "drift": drift,
    "halves": halves,
    "doubling": doubling,
    "contrary": contrary,
    "push": push,
    "one": one,
    "all": all_groups,
}


@dataclass
class Run:
    """Forecasts, outcomes and memberships of one run."""

    forecasts: Floats
    outcomes: Floats
    groups: Floats

    @property
    def errors(self) -> Floats:
        """Of each group after each row."""
        return np.cumsum(self.groups * (self.forecasts - self.outcomes)[:, None], axis=0)

    def bounds(self, start: float = 2.0, regressors: int = REGRESSORS) -> Floats:
        """The guaranteed bound of each group after each row."""
        logs = np.log1p(np.arange(1, len(self.groups) + 1))[:, None]
        return np.sqrt((1.0 + np.cumsum(np.square(self.groups), axis=0)) * (start + regressors * logs))


def play(method: Method, world: str, rows: int, seed: int = 0) -> Run:
    """One run: memberships and score, the forecast, the outcome, learning."""
    rng = np.random.default_rng([8, list(WORLDS).index(world), seed])
    groups = (rng.random((rows, GROUPS)) < np.linspace(0.05, 0.6, GROUPS)).astype(np.float64)
    scores = rng.uniform(0.1, 0.9, rows)
    forecasts, outcomes, errors, pick = np.empty(rows), np.empty(rows), np.zeros(GROUPS), WORLDS[world]
    for t in range(rows):
        x, s = groups[t], float(scores[t])
        p = method.predict_one(s, x)
        y = float(pick(Moment(t, rows, s, p, x, errors, rng)))
        method.learn_one(s, y, x)
        errors = errors + x * (p - y)
        forecasts[t], outcomes[t] = p, y
    return Run(forecasts, outcomes, groups)


# --------------------------------------------------------------------------------------------------------------- tables


def compare(rows: int) -> None:
    print(f"{rows:,} rows, {GROUPS} overlapping groups\n")
    print(f"{'world':<10}{'method':<13}{'worst bias':>12}{'of bound':>10}{'Brier':>9}{'us/row':>9}")
    for world in WORLDS:
        for name, make in METHODS.items():
            began = time.perf_counter()
            run = play(make(), world, rows)
            spent = (time.perf_counter() - began) / rows * 1e6
            errors = np.abs(run.errors)
            bias = np.max(errors[-1] / run.groups.sum(axis=0))
            share, brier = np.max(errors / run.bounds()), np.mean(np.square(run.forecasts - run.outcomes))
            print(f"{world:<10}{name:<13}{bias:>12.4f}{share:>10.3f}{brier:>9.4f}{spent:>9.0f}")


def each_group(rows: int, world: str) -> None:
    ridge = play(PlainRidge(), world, rows)
    regression = CalibratedRegression(GROUPS)
    run = play(regression, world, rows)
    beforehand, errors = run.bounds()[-1], run.errors[-1]
    printed = 2.0 * np.sqrt((1.0 + run.groups.sum(axis=0)) * REGRESSORS * np.log1p(rows))
    print(f"\nEach group in the world '{world}': sum of (forecast - outcome), and what it cannot exceed")
    print("(from the rows: sqrt(tau (2 + v)), which the forecaster gives; beforehand: our certificate;")
    print("printed: Foster and Kakade 2006)\n")
    print(
        f"{'group':>5}{'rows':>8}{'plain ridge':>13}{'calibrated':>12}{'from rows':>11}{'beforehand':>12}{'printed':>9}"
    )
    for i in range(GROUPS):
        found = f"{run.groups[:, i].sum():>8,.0f}{ridge.errors[-1, i]:>13,.1f}{errors[i]:>12,.1f}"
        print(f"{i + 1:>5}{found}{regression.bounds[i]:>11,.1f}{beforehand[i]:>12,.1f}{printed[i]:>9,.1f}")


def costs() -> None:
    print("\nOne row, predict and learn (processor time, best of 5 rounds), and the state, by the number of groups\n")
    print(f"{'groups':>6}{'predict us':>12}{'learn us':>10}{'state as JSON':>15}")
    for groups in (20, 100, 300):
        rounds = 5
        rows = 20_000 // groups  # of a round
        rng = np.random.default_rng([8, groups])
        members = (rng.random((rounds * rows, groups)) < 0.3).astype(np.float64).tolist()
        regression, predicting, learning = CalibratedRegression(groups), [], []
        for first in range(0, rounds * rows, rows):
            began = time.process_time()
            for x in members[first : first + rows]:
                regression.predict_one(0.4, x)
            between = time.process_time()
            for t, x in enumerate(members[first : first + rows]):
                regression.learn_one(0.4, t % 2, x)
            predicting.append((between - began) / rows * 1e6)
            learning.append((time.process_time() - between) / rows * 1e6)
        size = len(regression.to_json()) / 1e3
        print(f"{groups:>6}{min(predicting):>12,.0f}{min(learning):>10,.0f}{size:>12,.0f} kB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="10^4 rows for each world")
    parser.add_argument("--costs", action="store_true", help="time and size of the state alone")
    given = parser.parse_args()
    if not given.costs:
        rows = QUICK_ROWS if given.quick else ROWS
        compare(rows)
        each_group(rows, "halves")
    costs()


if __name__ == "__main__":
    main()
