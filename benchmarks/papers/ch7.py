"""Chapter 7 of Gupta 2023, parity calibration: will the next value be lower? Tables beside the printed ones.

    python benchmarks/papers/ch7.py                  # quick: three weather series, small grids, 10 orders of the states
    python benchmarks/papers/ch7.py --full           # seven weather series, larger grids, 100 orders

The data are those that `CALIBRANT_DATA` names (by default `../shared/data`); `ch7_worlds.py` says what the base
forecasts are. Sections of the output:

1. The example of section 7.1.1: exact values, and a stream of it.
2. COVID-19, whole country: the Forecast Hub's own quantiles, 119 weeks.
3. COVID-19 by state, a and b from two base forecasts: Table 7.1 (state after state, an outcome is learned before the
   next state of the same week is forecast) and Table 7.2 (weekly batches), decisions of section 7.3.1.
4. Weather: Tables 7.3, 7.4 and 7.6 (a regression, a classifier as experts), mean and sd over moving test windows.
5. Which of the chapter's claims hold, table by table.

PCE, sharpness, accuracy and AUROC as in section 7.A, 30 bins; "(if right)" is the PCE that calibrated probabilities
would show on average at as many rows, a figure that the chapter lacks.

Table 7.2 and the losses are said to be about the last 99 weeks. On these 54.8 % of our outcomes are decreases, which
puts every sharpness above 0.548^2 = 0.300, but the printed ones go down to 0.284; and always taking the middle action
loses 1,922, less than any printed loss. Over all 119 weeks both fit. So all weeks are judged here, and the last 99 too.

Constants: A_0 = I / (gamma D)^2. For cases OPS has gamma = 0.001 and D = 10 (section 7.C.1): rho = 10^4, and since
squared gradients of 6,069 rows add up to less than that, its steps stay near gamma D^2 = 0.1 all the time. "OPS,
ch. 6" has the defaults that Algorithm 7.2 names, gamma = 0.1 and D = 1, which are those of chapter 6; its steps shrink
like 1/t. MW is fitted every week to the last 10 weeks and IW every 5 weeks (7.C.1). For weather all are chosen by PCE
on the validation hours, on parts of the grids of 7.C.2. Every method learns from the validation hours too. TOPS and
HOPS are OPS calibeaten with bins of 0.1 (chapter 6), which chapter 7 left out. "OPS, D = 3" was picked from six D on
the weeks that are judged, so it shows that smaller steps suit weekly batches and is not a fair rival. The chapter does
not say how a batch is learned. Row by row, 51 states that move together are 51 steps in one direction; "OPS, one step"
takes one Newton step a week, by the mean gradient of its rows, and was picked from five readings in the same hindsight.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))

from ch7_worlds import Floats, Panel, Weather, example, national, need_worlds, states, weather

from calibrant import CalibrantWarning
from calibrant.metrics import ece
from calibrant.online import (
    Forecaster,
    Hedging,
    OnlineBeta,
    OnlinePlatt,
    ParityResult,
    ParityStream,
    Refitted,
    Tracking,
    parity_stream,
)

ONE_STEP = "OPS, one step"
HINDSIGHT = {"OPS, D = 3", ONE_STEP}
"""Chosen of six D (0.5 to 10), and of five readings of "update with this batch", on the very weeks that are judged:
shown, and left out of the claims."""

SKIPPED = 20
"""Weeks on which hyperparameters were chosen (section 7.3.1)."""

LOSSES = [[0.3, 0.5], [0.6, 0.2], [1.0, 0.0]]
ACTIONS = ["tight", "mild", "none"]
METRICS = ("PCE", "Sharp", "Acc", "AUROC")
RIVALS = ("base", "MW", "IW")
"""Those that OPS is compared with."""
PRINTED = {  # PCE, sharpness, accuracy, AUROC
    "7.1": {"base": (0.0599, 0.2953, 0.6309, 0.6922), "OPS": (0.0216, 0.3087, 0.6727, 0.7355)},
    "7.2": {
        "base": (0.0599, 0.2953, 0.6309, 0.6922),
        "MW": (0.0748, 0.2882, 0.6237, 0.6622),
        "IW": (0.0406, 0.2839, 0.6055, 0.6403),
        "OPS": (0.0328, 0.2993, 0.6522, 0.7035),
    },
    "7.3": {
        "base": (0.3493, 0.3019, 0.4044, 0.3525),
        "MW": (0.0278, 0.3005, 0.6124, 0.6410),
        "IW": (0.0322, 0.3013, 0.6147, 0.6450),
        "OPS": (0.0148, 0.3172, 0.6525, 0.7056),
    },
    "7.4": {
        "base": (0.0258, 0.3008, 0.6069, 0.6474),
        "MW": (0.0201, 0.3002, 0.6050, 0.6439),
        "IW": (0.0166, 0.3003, 0.6068, 0.6456),
        "OPS": (0.0150, 0.3232, 0.6665, 0.7275),
    },
    "7.6a": {
        "base": (0.2794, 0.2915, 0.4902, 0.4806),
        "MW": (0.0233, 0.2913, 0.5610, 0.5419),
        "IW": (0.0188, 0.2913, 0.5630, 0.5403),
        "OPS": (0.0159, 0.2961, 0.5790, 0.5830),
    },
    "7.6b": {
        "base": (0.0247, 0.3049, 0.6078, 0.6348),
        "MW": (0.0170, 0.3049, 0.6061, 0.6340),
        "IW": (0.0156, 0.3047, 0.6075, 0.6340),
        "OPS": (0.0135, 0.3134, 0.6278, 0.6643),
    },
}
PRINTED_ORDERS = (0.0246, 0.3090, 0.6737, 0.7357)
PRINTED_LOSSES = {"base": 2119, "MW": 2177, "IW": 2196, "OPS": 2050}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all series, the grids of 7.C.2, 100 orders of the states")
    options = parser.parse_args()
    need_worlds()
    warnings.simplefilter("ignore", CalibrantWarning)
    begun, claims = time.perf_counter(), Claims()
    section_example()
    section_national()
    section_states(claims, 100 if options.full else 10)
    section_weather(claims, options.full)
    claims.show()
    print(f"\n{'Full' if options.full else 'Quick'} size.")
    print(f"{time.perf_counter() - begun:.0f} s", file=sys.stderr)


def ops(gamma: float, d: float) -> OnlinePlatt:
    """Online Platt scaling in the constants of Algorithm 7.2."""
    return OnlinePlatt(gamma=gamma, rho=(gamma * d) ** -2)


def weekly(places: int) -> dict[str, Forecaster]:
    """Methods for cases; a week has one row for each place."""
    return {
        "MW": Refitted("platt", every=places, window=10 * places),
        "IW": Refitted("platt", every=5 * places),
        "OPS": ops(0.001, 10),
        "OPS, ch. 6": OnlinePlatt(),
        "OBS, ch. 6": OnlineBeta(),
        "TOPS": Tracking(ops(0.001, 10), prior=0),
        "HOPS": Hedging(ops(0.001, 10), random_state=0),
    }


# ------------------------------------------------------------------------------------------------------------- sections


def section_example() -> None:
    print("1. Section 7.1.1: distributions right on every quantile, wrong on every parity\n")
    print("   The forecast is N(0, 1); exactly: QCE 0, PCE 1/4 (in 30 bins too), sharpness 1/2, accuracy 1, AUROC 1.\n")
    table = example(100_000, 0).compare({"OPS": ops(0.001, 10), "OPS, ch. 6": OnlinePlatt()})
    print(_indented(str(table)))


def section_national() -> None:
    print("\n2. COVID-19, whole country, one week ahead\n")
    law, y, before, _ = national()
    print(_indented(str(parity_stream(law, y, previous=before).compare(weekly(1)))))
    outside = int(((before < law.values[:, 0]) | (before >= law.values[:, -1])).sum())
    print(f"\n   Weeks whose week before lies outside the quantiles: {outside} (none by state either, section 7.B.1).")


def section_states(claims: Claims, orders: int) -> None:
    panel = states()
    laws = {"own": "a Gaussian fitted here", "national": "the Forecast Hub's growth of the country"}
    for letter, (law, words) in zip("ab", laws.items(), strict=True):
        print(
            f"\n3{letter}. COVID-19 by state; base forecast: {words}; printed: the Forecast Hub's forecasts by state\n"
        )
        _one_by_one(panel, law, orders, claims)
        _in_batches(panel, law, claims)


def _one_by_one(panel: Panel, law: str, orders: int, claims: Claims) -> None:
    """Table 7.1."""
    stream = panel.stream(law, batches=False)
    results = {"base": stream.judge(), "OPS": stream.judge(ops(0.001, 10)), "OPS, ch. 6": stream.judge(OnlinePlatt())}
    runs = np.array([_metrics(_reordered(panel, law, seed).judge(ops(0.001, 10))) for seed in range(orders)])
    _table("   Table 7.1, one row after another", results, PRINTED["7.1"])
    print(f"     {f'OPS, {orders} orders of the states: mean':<50}" + _row(runs.mean(axis=0)), end="")
    print(f"{'':16}{'  '.join(f'{x:.4f}' for x in PRINTED_ORDERS)}")
    print(f"     {'    standard deviation':<50}" + _row(runs.std(axis=0)) + "\n")
    claims.note(f"Table 7.1, {law}", results)


def _reordered(panel: Panel, law: str, seed: int) -> ParityStream:
    order = np.random.default_rng([seed, 71]).permutation(51)
    rows = (np.arange(len(panel.y)).reshape(-1, 51)[:, order]).ravel()
    stream = panel.stream(law, batches=False)
    return parity_stream(stream.scores[rows], panel.y[rows], previous=panel.before[rows])


def _in_batches(panel: Panel, law: str, claims: Claims) -> None:
    """Table 7.2 and the decisions."""
    stream = panel.stream(law, batches=True)
    methods = {**weekly(51), "OPS, D = 3": ops(0.001, 3)}
    said: dict[str, Floats | None] = {"base": None}
    said |= {name: stream.forecasts(method) for name, method in methods.items()}
    said[ONE_STEP] = _one_step_a_week(stream, 0.001, 10)
    for after, printed in ((0, PRINTED["7.2"]), (SKIPPED, {})):
        results = {name: stream.judge(p, after=after) for name, p in said.items()}
        words = f"{results['base'].n_rows:,} rows, {100 * results['base'].base_rate:.1f} % down"
        _table(f"   Table 7.2, weekly batches, {words}", results, printed)
        claims.note(f"Table 7.2, {law}" + (", last 99 weeks" if after else ""), results)
        print()
    print("   Loss of Bayes actions: printed, ours, ours in the last 99 weeks (tight, mild, none in % of rows)")
    for name, p in said.items():
        done, late = (stream.decide(LOSSES, p, actions=ACTIONS, after=after) for after in (0, SKIPPED))
        shares = ", ".join(f"{100 * share:.0f}" for share in done.shares.values())
        print(f"     {name:<12}{PRINTED_LOSSES.get(name, '-'):>6}{done.total:8.0f}{late.total:8.0f}   ({shares})")
    down = stream.outcomes.astype(np.intp)
    for name, losses in zip(ACTIONS, np.array(LOSSES), strict=True):
        late_rows = down[stream.batches >= SKIPPED] if stream.batches is not None else down
        print(f"     always {name:<11}{losses[down].sum():8.0f}{losses[late_rows].sum():8.0f}")


def _one_step_a_week(stream: ParityStream, gamma: float, d: float) -> Floats:
    """Algorithm 7.2 on the mean log loss of each batch: one gradient, one Newton step."""
    theta, matrix = np.array([1.0, 0.0]), np.eye(2) / (gamma * d) ** 2
    held = np.clip(stream.scores, 1e-9, 1.0 - 1e-9)
    rows = np.column_stack([np.log(held / (1.0 - held)), np.ones(len(held))])
    said = np.empty(len(held))
    assert stream.batches is not None
    for week in range(stream.batches[-1] + 1):
        part = stream.batches == week
        said[part] = 1.0 / (1.0 + np.exp(-np.einsum("ij,j->i", rows[part], theta)))
        gradient = np.mean((said[part] - stream.outcomes[part])[:, None] * rows[part], axis=0)
        matrix = matrix + np.outer(gradient, gradient)
        theta = theta - np.linalg.solve(matrix, gradient) / gamma
    return said


def section_weather(claims: Claims, full: bool) -> None:
    print(
        "\n4. Weather, 12 hours ahead; printed: Jena's pressure; all test rows, then mean and sd over windows of them"
    )
    found: dict[str, list[dict[str, ParityResult]]] = {"regression": [], "classifier": []}
    for world in weather(not full):
        for expert, table in (("regression", "7.3"), ("classifier", "7.4")):
            found[expert].append(_weather_table(world, expert, table, claims, full))
    for (expert, results), table in zip(found.items(), ("7.6a", "7.6b"), strict=True):
        print(
            f"\n   Table {table}, {expert}: mean over {len(results)} series, standard error; printed: 7 series of Jena"
        )
        for name in results[0]:
            numbers = np.array([_metrics(one[name]) for one in results])
            error = numbers.std(axis=0, ddof=1) / np.sqrt(len(numbers))
            texts = "  ".join(f"{x:.4f}" for x in PRINTED[table].get(name, ()))
            print(f"     {name:<12}" + _row(numbers.mean(axis=0)) + "   se" + _row(error) + f"   {texts or '-'}")
        for name in RIVALS:
            gaps = np.array([_metrics(one["OPS"]) - _metrics(one[name]) for one in results])
            error = gaps.std(axis=0, ddof=1) / np.sqrt(len(gaps))
            print(f"     OPS - {name:<6}" + _row(gaps.mean(axis=0)) + "   se" + _row(error))


def _weather_table(world: Weather, expert: str, table: str, claims: Claims, full: bool) -> dict[str, ParityResult]:
    stream: ParityStream = getattr(world, expert)
    chosen = _tuned(stream, world.tuning, full)
    results = {"base": stream.judge(after=world.tuning)}
    results |= {name: stream.judge(p, after=world.tuning) for name, (_, p) in chosen.items()}
    printed = PRINTED[table] if world.name.endswith("pressure") else {}
    first = results["base"]
    print(f"\n   {world.name}, {expert}: {first.n_rows:,} rows, {100 * first.base_rate:.1f} % not rising", end="")
    print(f" (ties {100 * world.ties:.1f} %)", end="")
    print("" if first.qce is None else f"; QCE of the base {first.qce.value:.4f} (if right {first.qce.null:.4f})")
    _table(f"   Table {table}", results, printed, {name: how for name, (how, _) in chosen.items()})
    spread = _over_windows(stream, world.tuning, {name: p for name, (_, p) in chosen.items()}, full)
    for name in RIVALS:
        spread[f"OPS - {name}"] = spread["OPS"] - spread[name]
    for name, runs in spread.items():
        numbers = np.stack([runs.mean(axis=0), runs.std(axis=0)])
        print(f"     {name + ', over windows':<50}" + _row(numbers[0]) + "   sd" + _row(numbers[1]))
    claims.note(f"{world.name}, {expert}", results)
    return results


def _tuned(stream: ParityStream, tuning: int, full: bool) -> dict[str, tuple[str, Floats]]:
    """For each method the setting, of those of section 7.C.2, with the least PCE before the test, and what it says."""
    every, windows = ([168, 720, 2160], [168, 720, 2160, 8640]) if full else ([336], [720, 4320])
    gammas = [1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2] if full else [1e-5, 1e-4, 1e-3]
    ds = [1, 10, 30, 50, 70, 100, 150, 200] if full else [10, 50]
    settings: dict[str, dict[str, Forecaster]] = {
        "MW": {f"uf {e}, ws {w}": Refitted("platt", every=e, window=w) for e, w in product(every, windows)},
        "IW": {f"uf {e}": Refitted("platt", every=e) for e in every},
        "OPS": {f"{g:g}, {d}": ops(g, d) for g, d in product(gammas, ds)},
        "OPS, ch. 6": {"0.1, 1": OnlinePlatt()},
    }
    early = (np.arange(len(stream)) if stream.batches is None else stream.batches) < tuning
    chosen = {name: _best(stream, early, candidates) for name, candidates in settings.items()}
    gamma, d = map(float, chosen["OPS"][0].split(", "))
    chosen["TOPS"] = (chosen["OPS"][0], stream.forecasts(Tracking(ops(gamma, d), prior=0)))
    chosen["HOPS"] = (chosen["OPS"][0], stream.forecasts(Hedging(ops(gamma, d), random_state=0)))
    return chosen


def _best(stream: ParityStream, early: NDArray[np.bool_], candidates: Mapping[str, Forecaster]) -> tuple[str, Floats]:
    found = [(how, stream.forecasts(method)) for how, method in candidates.items()]
    return min(found, key=lambda one: float(ece(one[1][early], stream.outcomes[early], n_bins=30)))


def _over_windows(stream: ParityStream, tuning: int, said: Mapping[str, Floats], full: bool) -> dict[str, Floats]:
    """Numbers in test windows of half the test rows that move on by 1/28 (1/8 at quick size) of them."""
    first = tuning if stream.batches is None else int(np.searchsorted(stream.batches, tuning))
    size = (len(stream) - first) // 2
    starts = [first + k * size // (14 if full else 4) for k in range(15 if full else 5)]
    out = {}
    for name, p in {"base": stream.scores, **said}.items():
        cuts = [slice(start, start + size) for start in starts]
        judged = [parity_stream(p[c], -stream.outcomes[c], previous=np.full(size, -0.5)).judge() for c in cuts]
        out[name] = np.array([_metrics(one) for one in judged])
    return out


# --------------------------------------------------------------------------------------------------------------- claims


@dataclass
class Claims:
    """Statements of the chapter, looked up in every table."""

    rows: list[tuple[str, list[str]]] = field(default_factory=list)

    def note(self, table: str, results: Mapping[str, ParityResult]) -> None:
        base, others = _metrics(results["base"]), {name: _metrics(r) for name, r in results.items() if name != "base"}
        better = _better(others["OPS"], base)
        best = all(_better(others["OPS"], others[name]).all() for name in ("MW", "IW") if name in others)
        words = [_yes(better.all()), *(_yes(b) for b in better), _yes(best) if "MW" in others else "-"]
        words += [_yes(others["TOPS"][0] <= others["OPS"][0]) if "TOPS" in others else "-"]
        words += [min((name for name in others if name not in HINDSIGHT), key=lambda name: others[name][0])]
        self.rows.append((table, words))

    def show(self) -> None:
        print("\n5. The chapter's claims, table by table\n")
        heads = ["OPS improves all", *METRICS, "OPS best of 3", "TOPS PCE <= OPS", "least PCE"]
        print(f"   {'':<36}" + "".join(f"{head:>17}" for head in heads))
        for table, words in self.rows:
            print(f"   {table:<36}" + "".join(f"{word:>17}" for word in words))


def _better(one: Floats, other: Floats) -> NDArray[np.bool_]:
    """Less PCE, more of the others."""
    return np.append(one[:1] < other[:1], one[1:] > other[1:])


def _yes(held: bool) -> str:
    return "yes" if held else "no"


# ------------------------------------------------------------------------------------------------------------- printing


def _metrics(result: ParityResult) -> Floats:
    parts = (result.pce, result.sharpness, result.accuracy, result.auroc)
    return np.array([part.value for part in parts])


def _table(
    title: str,
    results: Mapping[str, ParityResult],
    printed: Mapping[str, tuple[float, ...]],
    settings: Mapping[str, str] | None = None,
) -> None:
    print(f"{title:<55}" + "".join(f"{head:>9}" for head in METRICS) + f"{'(if right)':>13}   printed")
    for name, result in results.items():
        how = f"  {(settings or {}).get(name, '')}"
        texts = "  ".join(f"{x:.4f}" for x in printed.get(name, ()))
        null = float("nan") if result.pce.null is None else result.pce.null
        print(f"     {name + how:<50}" + _row(_metrics(result)) + f"{null:13.4f}   {texts or '-'}")


def _row(numbers: Iterable[float]) -> str:
    return "".join(f"{x:9.4f}" for x in numbers)


def _indented(text: str) -> str:
    return "\n".join(f"   {line}" for line in text.splitlines())


if __name__ == "__main__":
    main()
