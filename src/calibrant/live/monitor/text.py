"""A monitor in words, and as metrics in the text format of Prometheus."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from calibrant.live.monitor.run import SHARES
from calibrant.messages import InputError, plural

if TYPE_CHECKING:
    from calibrant.live.monitor.monitor import Monitor

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def assumption(lag: int) -> str:
    """What the guarantee rests on."""
    if lag == 1:
        return "outcomes independent given what was known at their predictions"
    return f"the outcome {lag:,} rows (or days of tallies) before was known at each prediction"


def summary(monitor: Monitor) -> str:
    """Some lines: the band, the evidence, the alarms, the advice, early warnings, and the budget."""
    lines = [
        f"{plural(monitor.rows, 'row')}, {plural(monitor.alarm_count, 'alarm')}.",
        *(f"  Latest: {each}." for each in monitor.alarms[-1:]),
        f"  Since the evidence began: {monitor.band}.",
        f"  E-value {_e_text(monitor.log_e)} against {monitor.against}; an alarm is raised at {1.0 / monitor.level:g}.",
        f"  Advice: {monitor.advice}.",
    ]
    if monitor.n_keys:
        off = monitor.keys_off()
        names = ", ".join(each.key for each in off[:5]) + (", ..." if len(off) > 5 else "")
        listed = f": {names}" if off else ""
        lines.append(
            f"  Keys off: {len(off):,} of {plural(len(monitor.keys), 'key')}{listed} (on average at most "
            f"{monitor.false_share:.0%} false)."
        )
        if monitor.rows_beyond:
            lines.append(f"  {plural(monitor.rows_beyond, 'row')} of keys beyond the {monitor.n_keys:,} declared.")
    lines += [f"  {str(each)[0].upper()}{str(each)[1:]}." for each in monitor.warnings]
    return "\n".join([*lines, f"  {budget(monitor)}"])


def budget(monitor: Monitor) -> str:
    """How the level is spent, and the assumption."""
    shares = ", ".join(f"{name} {100.0 * share * monitor.level:g} %" for name, share in SHARES.items())
    level = f"Level {100.0 * monitor.level:g} %"
    if monitor.lag > 1:
        spent = f"{level} up to the first alarm, at all looks together ({shares}); later alarms have no proven level."
    else:
        most = monitor.level / (1.0 - monitor.level)
        spent = (
            f"{level} for each run, at all looks together ({shares}); a calibrated stream has at most {most:.3f} alarms"
        )
        spent += " on average."
    return f"{spent} Assumed: {assumption(monitor.lag)}."


def _e_text(log_e: float) -> str:
    return f"{math.exp(log_e):.3g}" if log_e < 700.0 else f"10^{log_e / math.log(10.0):.0f}"


# ----------------------------------------------------------------------------------------------------------- Prometheus


def prometheus(monitor: Monitor, labels: Mapping[str, str], prefix: str) -> str:
    """Gauges and counters in the text exposition format."""
    for name in (prefix, *labels):
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise InputError(
                "labels" if name is not prefix else "prefix", f"has the name {name!r}", "use letters and _"
            )
    band, advice = monitor.band, monitor.advice
    metrics: list[tuple[str, str, str, list[tuple[dict[str, str], float]]]] = [
        ("rows_total", "counter", "Labeled rows so far", [({}, float(monitor.rows))]),
        ("alarms_total", "counter", "Alarms so far", [({}, float(monitor.alarm_count))]),
        ("alarm", "gauge", "1 while an alarm holds", [({}, float(monitor.alarm is not None))]),
        ("run", "gauge", "Number of the run", [({}, float(monitor.run))]),
        ("log_e_value", "gauge", "Log evidence of this run against the hypothesis", [({}, monitor.log_e)]),
        ("log_e_limit", "gauge", "Log evidence at which an alarm comes", [({}, -math.log(monitor.level))]),
        ("band_rows", "gauge", "Rows since the evidence began", [({}, float(band.rows))]),
        ("predicted", "gauge", "Sum of predictions since the evidence began", [({}, band.predicted)]),
        ("observed", "gauge", "Sum of outcomes since the evidence began", [({}, band.observed)]),
        (
            "difference",
            "gauge",
            "Observed minus predicted per row, with its band at all looks",
            [({"end": end}, getattr(band, name)) for end, name in _ENDS],
        ),
        ("advice", "gauge", "1 for the advice that holds now", [({"code": advice.code}, 1.0)]),
        (
            "early_warning",
            "gauge",
            "1 for each early warning that holds now",
            [({"code": each.code}, 1.0) for each in monitor.warnings],
        ),
    ]
    if monitor.n_keys:
        metrics.append(("keys_off", "gauge", "Keys that are off", [({}, float(len(monitor.keys_off())))]))
    lines = []
    for name, kind, help_, values in metrics:
        lines += [f"# HELP {prefix}_{name} {help_}", f"# TYPE {prefix}_{name} {kind}"]
        lines += [f"{prefix}_{name}{_labels(dict(labels) | own)} {value!r}" for own, value in values]
    return "\n".join(lines) + "\n"


_ENDS = (("value", "difference"), ("low", "low"), ("high", "high"))


def _labels(labels: Mapping[str, str]) -> str:
    """Labels in braces, escaped."""
    if not labels:
        return ""
    escaped = {
        name: str(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for name, value in labels.items()
    }
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}"
