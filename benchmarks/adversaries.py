"""Can an adversary break the guarantees of the calibration games? Not once, or this script ends with exit code 1.

    python benchmarks/adversaries.py [--full] [--seed S]

The adversary sees everything that the game allows: the score, all outcomes and forecasts so far, the expert, and the
two forecasts with the probabilities of the draw, but neither the draw itself nor the key that it is made with. With two
choices there is no draw, so it sees all. It does its own bookkeeping, in integers, with no code shared with the
package: the calibration error is the sum over the grid of |sum of (forecast - outcome)|, over T.

- Two choices: the error beyond half a bin is held against m/T (Gupta 2023, 8.5) and against the certificate after
  every single row, on every run.
- Foster's forecaster and Hedging: the mean over runs is compared with 6.27, 6.17 and the certificate. Hedging also
  with the guarantees on sharpness and on the Brier score, Tracking with these on every run.
- Deterministic point forecasters are shown failing. Against Tracking with prior=0, which says exactly 0.5 at times,
  1{p <= 0.5} does little in bins of width 0.1: 0.5 and what is just above share a bin, where the outcomes 1 and 0
  average out; 1{p < 0.5} parts them.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calibrant.metrics import error_over_time
from calibrant.online import Forecaster, Foster99, Hedging, OnlinePlatt, Tracking, TwoChoices
from calibrant.online.games.hedging import CalibrationGame

Choices = tuple[tuple[float, float], ...]
"""Forecasts that may be judged, each with its probability."""


@dataclass(slots=True)
class View:
    """What the adversary knows before it chooses the outcome of row t; sums are in units of 1 / (2 m)."""

    m: int
    t: int
    score: float
    choices: Choices
    judged_after: bool
    sums: list[int]
    random: np.random.Generator

    def gain(self, y: int, power: int) -> float:
        """How much this outcome is expected to add to the sum of |.|^power over the grid."""
        judged = (self.choices[-1 if y else 0],) if self.judged_after else self.choices
        return sum(self._change(p, y, power) * (1.0 if self.judged_after else share) for p, share in judged)

    def _change(self, p: float, y: int, power: int) -> float:
        i = int(p * self.m)
        before = self.sums[i]
        return float(abs(before + 2 * i + 1 - 2 * self.m * y) ** power - abs(before) ** power)


def oppose(view: View) -> int:
    """1{p <= 0.5} for the mean forecast p."""
    return int(sum(p * share for p, share in view.choices) <= 0.5 + 1e-12)


def oppose_below(view: View) -> int:
    """1{p < 0.5} for the mean forecast p."""
    return int(sum(p * share for p, share in view.choices) < 0.5 - 1e-12)


def greedy(view: View) -> int:
    """The outcome that is expected to raise the calibration error more."""
    one, zero = view.gain(1, 1), view.gain(0, 1)
    return int(one > zero) if one != zero else view.t % 2


def hoard(view: View) -> int:
    """The outcome that raises the squares more: it feeds the largest excess or deficit."""
    one, zero = view.gain(1, 2), view.gain(0, 2)
    return int(one > zero) if one != zero else view.t % 2


def against_the_draw(view: View) -> int:
    """Against the likelier of the two forecasts, 1 if that is the lower one; it steers to draws around 0.2."""
    low, high = view.choices[0], view.choices[-1]
    if low[0] == high[0]:
        return int(low[0] <= 0.2)
    return int(low[1] >= 0.5)


def coin(view: View) -> int:
    """A fair coin: the long-run average sits on the edge between two bins."""
    return int(view.random.random() < 0.5)


def alternate(view: View) -> int:
    """0, 1, 0, 1, ..."""
    return view.t % 2


def phases(view: View) -> int:
    """Ever longer runs of zeros and of ones, each twice as long as the one before."""
    return int(math.log2(view.t + 1)) % 2


def sweep(view: View) -> int:
    """A coin whose chance goes from 0 to 1 and jumps back, every 1,000 rows."""
    return int(view.random.random() * 1_000 < view.t % 1_000)


Strategy = Callable[[View], int]
STRATEGIES: tuple[Strategy, ...] = (oppose, greedy, hoard, against_the_draw, coin, alternate, phases, sweep)


@dataclass
class Run:
    """The books of one run."""

    error: float
    worst: float
    forecasts: list[float]
    outcomes: list[int]
    scores: list[float]


def _equal(interval: tuple[float, float]) -> Choices:
    return (interval[0], 0.5), (interval[1], 0.5)


def play(game: CalibrationGame, strategy: Strategy, n_rows: int, seed: int) -> Run:
    """Play n_rows rounds; ``worst`` is the largest T (CE_T - epsilon / 2) of all T."""
    m = game.n_bins
    drawing = not isinstance(game, TwoChoices) and getattr(game, "rule", "foster99") == "foster99"
    random = np.random.default_rng([seed, 1])
    scores = np.random.default_rng([seed, 2]).random(n_rows).tolist() if game.experts else [0.5] * n_rows
    sums, total, worst = [0] * m, 0, -math.inf
    forecasts, outcomes = [], []
    view = View(m, 0, 0.0, (), not drawing, sums, random)
    for t, score in enumerate(scores):
        choices = game.predict_distribution(score) if drawing else _equal(game.predict_interval(score))
        view.t, view.score, view.choices = t, score, choices
        y = strategy(view)
        p = game.predict_one(score) if drawing else choices[y][0]
        game.learn_one(score, y)
        i = int(p * m)
        total -= abs(sums[i])
        sums[i] += 2 * i + 1 - 2 * m * y
        total += abs(sums[i])
        worst = max(worst, (total - (t + 1)) / (2 * m))
        forecasts.append(p)
        outcomes.append(y)
    return Run(total / (2 * m * n_rows), worst, forecasts, outcomes, scores)


# ----------------------------------------------------------------------------------------------------------------------
# The tables. Each line ends with whether all guarantees held.


@dataclass
class Book:
    """Lines printed so far, and how many guarantees were broken."""

    broken: int = 0

    def line(self, text: str, kept: bool) -> None:
        self.broken += not kept
        print(f"{text}   {'kept' if kept else 'BROKEN'}", flush=True)


def two_choices(book: Book, n_rows: int, widths: tuple[float, ...], seed: int) -> None:
    print(f"\nTwo choices: the largest T x (CE_T - epsilon/2) over every T up to {n_rows:,}, one run each")
    print(f"{'epsilon':>8} {'strategy':<18} {'largest':>9} {'8.5: m':>8} {'certified':>10} {'CE at the end':>14}")
    for epsilon in widths:
        for strategy in STRATEGIES:
            _judge(book, TwoChoices(epsilon=epsilon), strategy, n_rows, seed)
    n_rows //= 5
    print(f"\nThe same in each bin of an expert, Hedging(OnlinePlatt(), rule='two-choices'), up to {n_rows:,}: m x m")
    for strategy in STRATEGIES:
        _judge(book, Hedging(OnlinePlatt(), epsilon=0.1, rule="two-choices"), strategy, n_rows, seed)


def _judge(book: Book, game: CalibrationGame, strategy: Strategy, n_rows: int, seed: int) -> None:
    run, m = play(game, strategy, n_rows, seed), game.n_bins
    printed = m * m if game.experts else m
    certified = (game.certificate(n_rows).bound - 0.5 / m) * n_rows  # type: ignore[union-attr]
    told = f"{1 / m:>8} {strategy.__name__:<18} {run.worst:>9.3f} {printed:>8} {certified:>10.3f} {run.error:>14.5f}"
    book.line(told, run.worst <= min(printed, certified) + 1e-6)


def bounded(book: Book, n_rows: int, seed: int) -> None:
    print(
        f"\nThe same for outcomes in [0, 1] (8.C), every T up to {n_rows:,}: outcomes on and around the edges of bins"
    )
    print(f"{'epsilon':>8} {'strategy':<18} {'largest':>9} {'8.5: m':>8} {'certified':>10}")
    for name, epsilon in (("edges", 0.1), ("greedy edges", 0.1), ("uniform", 0.1), ("greedy edges", 0.25)):
        game, random = TwoChoices(epsilon=epsilon), np.random.default_rng([seed, 3])
        m = game.n_bins
        sums, worst = np.zeros(m), -math.inf
        for t in range(n_rows):
            low, high = game.predict_interval(0.5)
            edge = (low + high) / 2 if low < high else low + 0.5 / m
            y = _bounded_outcome(name, edge, (low, high), sums, random)
            i = int((high if y > round(edge * m) / m else low) * m)
            game.learn_one(0.5, y)
            sums[i] += (i + 0.5) / m - y
            worst = max(worst, float(np.abs(sums).sum()) - (t + 1) * epsilon / 2)
        certified = (game.certificate(n_rows).bound - epsilon / 2) * n_rows  # type: ignore[union-attr]
        told = f"{epsilon:>8} {name:<18} {worst:>9.3f} {m:>8} {certified:>10.3f}"
        book.line(told, worst <= certified + 1e-6)


def _bounded_outcome(
    name: str, edge: float, pair: tuple[float, float], sums: np.ndarray, random: np.random.Generator
) -> float:
    if name == "uniform":
        return float(random.random())
    m = len(sums)
    edge = round(edge * m) / m
    candidates = (0.0, edge, min(np.nextafter(edge, 2.0), 1.0), 1.0)
    if name == "edges":
        return float(candidates[random.integers(4)])
    gains = []
    for y in candidates:
        i = int((pair[1] if y > edge else pair[0]) * m)
        gains.append(abs(sums[i] + (i + 0.5) / m - y) - abs(sums[i]))
    return float(candidates[int(np.argmax(gains))])


def drawn(book: Book, runs: int, n_rows: int, names: tuple[str, ...], seed: int) -> None:
    print(f"\nMean calibration error over {runs} runs (standard error), in bins of width 0.1")
    head = (
        f"{'forecaster':<16} {'T':>7} {'strategy':<18} {'mean':>8} {'(se)':>9} {'printed bound':>14} {'certified':>10}"
    )
    print(head)
    for name in names:
        make, printed = HEDGERS[name]
        certified = make(0).certificate(n_rows)
        for strategy in STRATEGIES:
            errors = [play(make(seed + k), strategy, n_rows, seed + k).error for k in range(runs)]
            mean, se = float(np.mean(errors)), float(np.std(errors) / math.sqrt(runs))
            told = f"{name:<16} {n_rows:>7,} {strategy.__name__:<18} {mean:>8.4f} {f'({se:.4f})':>9}"
            told += f" {printed(n_rows):>14.4f} {certified.bound:>10.4f}"  # type: ignore[union-attr]
            book.line(told, mean <= min(printed(n_rows), certified.bound))  # type: ignore[union-attr]


def _printed_f99(n: int) -> float:
    """Gupta (2023), eq. 6.27, at epsilon = 0.1."""
    return 0.05 + 2 / math.sqrt(0.1 * n)


def _printed_hops(n: int) -> float:
    """Gupta (2023), eq. 6.17, at epsilon = 0.1."""
    return 0.05 + 2 / (0.1 * math.sqrt(n))


HEDGERS: dict[str, tuple[Callable[[int], CalibrationGame], Callable[[int], float]]] = {
    "F99": (lambda k: Foster99(random_state=k), _printed_f99),
    "HOPS": (lambda k: Hedging(OnlinePlatt(), random_state=k), _printed_hops),
    "F99, means": (lambda k: Foster99(random_state=k, shares="means"), _printed_f99),
    "HOPS, means": (lambda k: Hedging(OnlinePlatt(), random_state=k, shares="means"), _printed_hops),
}


def calibeaten(book: Book, runs: int, n_rows: int, seed: int) -> None:
    print(f"\nAgainst the expert after {n_rows:,} rows, width 0.1: the worst of {runs} runs; of HOPS, their mean")
    print(f"{'forecaster':<12} {'strategy':<18} {'quantity':<30} {'measured':>9} {'certified':>10}")
    for name, make in (
        ("TOPS", lambda k: Tracking(OnlinePlatt(), prior=0)),
        ("TOPS, prior", lambda k: Tracking(OnlinePlatt())),
        ("HOPS", lambda k: Hedging(OnlinePlatt(), random_state=k)),
    ):
        for strategy in STRATEGIES:
            found = np.array([_against_expert(make(k), strategy, n_rows, seed + k) for k in range(runs)])
            tracks = name.startswith("TOPS")
            lost = found.max(axis=0) if tracks else found.mean(axis=0)
            *_, sharpness, brier = (certificate.bound for certificate in make(0).certificates(n_rows))
            pairs = (("sharpness lost", lost[0], sharpness), (QUANTITY[tracks], lost[1 if tracks else 2], brier))
            for what, value, bound in pairs:
                told = f"{name:<12} {strategy.__name__:<18} {what:<30} {value:>9.4f} {bound:>10.4f}"
                book.line(told, value <= bound + 1e-12)


QUANTITY = {True: "Brier less expert's refinement", False: "Brier less expert's"}


def _against_expert(game: Forecaster, strategy: Strategy, n_rows: int, seed: int) -> list[float]:
    """Sharpness lost, Brier score less the expert's refinement, and less its Brier score."""
    if isinstance(game, CalibrationGame):
        run = play(game, strategy, n_rows, seed)
        forecasts, outcomes, scores = run.forecasts, run.outcomes, run.scores
    else:
        forecasts, outcomes, scores = openly(game, strategy, n_rows, seed)
    expert = OnlinePlatt().forecast_many(scores, outcomes)
    p, y = np.array(forecasts), np.array(outcomes, dtype=float)
    brier = float(np.mean((p - y) ** 2))
    refinement = float(y.mean()) - _sharpness(expert, y)
    return [_sharpness(expert, y) - _sharpness(p, y), brier - refinement, brier - float(np.mean((expert - y) ** 2))]


def _sharpness(p: np.ndarray, y: np.ndarray, m: int = 10) -> float:
    place = np.minimum((np.searchsorted(np.arange(1, m) / m, p, side="right")), m - 1)
    n, events = np.bincount(place, minlength=m), np.bincount(place, weights=y, minlength=m)
    return float(np.sum(events**2 / np.maximum(n, 1)) / len(y))


def openly(game: Forecaster, strategy: Strategy, n_rows: int, seed: int) -> tuple[list[float], list[int], list[float]]:
    """Forecasts, outcomes and scores of a point forecaster, against an adversary who knows its forecast."""
    random, sums, m = np.random.default_rng([seed, 1]), [0] * 10, 10
    scores = np.random.default_rng([seed, 2]).random(n_rows).tolist()
    forecasts, outcomes = [], []
    for t, score in enumerate(scores):
        p = game.predict_one(score)
        y = strategy(View(m, t, score, ((min(p, 1 - 1e-12), 1.0),), False, sums, random))
        game.learn_one(score, y)
        i = min(int(p * m), m - 1)
        sums[i] += 2 * i + 1 - 2 * m * y
        forecasts.append(p)
        outcomes.append(y)
    return forecasts, outcomes, scores


def failing(book: Book, n_rows: int, seed: int) -> None:
    print(f"\nDeterministic point forecasters, {n_rows:,} rows, width 0.1: some strategy must make them fail")
    print(f"{'forecaster':<24} {'strategy':<18} {'CE':>8}")
    for name, make in (
        ("OnlinePlatt", OnlinePlatt),
        ("Tracking(OnlinePlatt)", lambda: Tracking(OnlinePlatt())),
        ("the same, prior=0", lambda: Tracking(OnlinePlatt(), prior=0)),
    ):
        worst = 0.0
        for strategy in (oppose, oppose_below, greedy):
            forecasts, outcomes, _ = openly(make(), strategy, n_rows, seed)
            error = float(error_over_time(forecasts, outcomes))
            worst = max(worst, error)
            print(f"{name:<24} {strategy.__name__:<18} {error:>8.4f}   {'fails' if error > 0.25 else ''}".rstrip())
        book.broken += worst < 0.4  # the attacks have lost their teeth


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="200 runs of each, three widths, also shares by means")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    began, book, full = time.perf_counter(), Book(), args.full
    two_choices(book, 100_000 if full else 40_000, (0.1, 0.05, 0.5) if full else (0.1,), args.seed)
    bounded(book, 100_000 if full else 10_000, args.seed)
    drawn(book, 200 if full else 6, 2_000, tuple(HEDGERS)[: None if full else 2], args.seed)
    calibeaten(book, 10 if full else 2, 10_000 if full else 4_000, args.seed)
    failing(book, 20_000 if full else 5_000, args.seed)
    print(f"\n{book.broken} guarantees broken; {time.perf_counter() - began:.0f} s")
    return int(book.broken > 0)


if __name__ == "__main__":
    sys.exit(main())
