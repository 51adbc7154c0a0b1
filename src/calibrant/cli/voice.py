"""Messages in terms of the command line: options in place of arguments, columns by name."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

from calibrant.cli.shell import identifier
from calibrant.engine.store.conflicts import Removal
from calibrant.messages import Advice, InputError, Voice


class Mistake(InputError):
    """An input error in terms of the command line."""

    @classmethod
    def of(cls, error: InputError, voice: Voice) -> Mistake:
        """An error of the library in the terms of a voice."""
        return cls(voice.subject(error.subject), voice.say(error.problem), voice.say(error.fix))


OPTIONS = {
    "warm_up": "--warm-up",
    "reference": "--reference",
    "policies": "--policy",
    "keys": "--key",
    "delay": "--delay",
    "alpha": "--alpha",
    "by": "--by",
    "clamp": "--clamp",
    "correlation": "--correlation",
    "day": "--day",
    "epsilon": "--epsilon",
    "error": "--error",
    "calibration": "--map",
    "fitted_at": "--fitted-at",
    "features": "--features",
    "first": "--from",
    "dialect": "--dialect",
    "frame": "the file",
    "grade": "--grade",
    "groups": "--groups",
    "guarantee": "--guarantee",
    "event": "--event",
    "honest": "--honest",
    "horizon": "--horizon",
    "margin": "--margin",
    "mean": "--mean",
    "meta": "--meta",
    "score_type": "--score-type",
    "label": "--label",
    "last": "--to",
    "look": "--look",
    "ir_version": "--ir-version",
    "n": "--labels",
    "n_bins": "--n-bins",
    "n_classes": "--classes",
    "name": "--name",
    "network": "--network",
    "opset": "--opset",
    "output": "--network-output",
    "part": "--part",
    "positive": "--positive",
    "require_all_days": "--require-all-days",
    "tolerance": "--tolerance",
    "sample_weight": "--weight",
    "score": "--score",
    "scores_new": "--new",
    "scores_old": "--old",
    "thresholds": "--threshold",
    "time": "--time",
    "weight_type": "--frequency",
}
"""Options by the argument that they set."""


class CommandLine(Voice):
    """Options in place of arguments.

    Parameters
    ----------
    score, label
        Names of the columns, where they are known.

    Examples
    --------
    >>> from calibrant.messages import Phrase, Setting
    >>> fix = Phrase("pass {yes} or {no}", yes=Setting("positive", "good"), no=Setting("positive", "very bad"))
    >>> InputError("y", "has two labels", fix).say(CommandLine("p", "outcome"))
    "the column 'outcome' has two labels: pass --positive good or --positive 'very bad'"
    """

    def __init__(self, score: str | None = None, label: str | None = None) -> None:
        self.score, self.label = score, label

    def argument(self, name: str) -> str:
        """The option that sets an argument, or its column."""
        columns = {"scores": (self.score, "--score"), **dict.fromkeys(("y", "correct"), (self.label, "--label"))}
        if name in columns:
            column, option = columns[name]
            return f"the column of {option}" if column is None else f"the column {column!r}"
        if name.startswith("scores_old["):
            return f"--model {name[len('scores_old[') : -1]}"
        return OPTIONS.get(name, name)

    def setting(self, name: str, value: object) -> str:
        """The option with its value."""
        if name == "weight_type":
            return "--frequency" if value == "frequency" else "no --frequency"
        if name == "guarantee" and isinstance(value, tuple | list):
            return " ".join(
                f"{option} {part:g}" for option, part in zip(("--guarantee", "--alpha"), value, strict=True)
            )
        option = OPTIONS.get(name, f"--{name.replace('_', '-')}")
        if value is True:
            return option
        values = value if isinstance(value, list | tuple) else [value]
        return " ".join(f"{option} {shlex.quote(_as_written(each))}" for each in values)

    def say(self, value: object) -> Any:
        """A reference in words; removing a day of a store becomes a shell command."""
        return f"rm -r {shlex.quote(str(value.folder))}" if isinstance(value, Removal) else super().say(value)

    def advice(self, advice: Advice) -> str:
        """The advice for a terminal."""
        found = ADVICE.get(advice, advice.value)
        return found if isinstance(found, str) else found(self)

    def if_finite(self) -> str:
        """The condition that selects rows with a score."""
        return "" if self.score is None else f" {shlex.quote(f'isfinite({identifier(self.score)})')}"

    def if_labeled(self) -> str:
        """The condition that selects rows with a label."""
        return "" if self.label is None else f" {shlex.quote(f'{identifier(self.label)} IS NOT NULL')}"

    def swapped(self) -> str:
        """How to swap scores and labels."""
        score, label = (name if name is None else shlex.quote(name) for name in (self.score, self.label))
        return "swap --score and --label" if None in (score, label) else f"pass --score {label} --label {score}"


def _as_written(value: object) -> str:
    """A value as written in a CSV: integers, such as labels, are read as doubles."""
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)


ADVICE: dict[Advice, str | Callable[[CommandLine], str]] = {
    Advice.ASK_ONE_SOURCE: "fit one of them alone with --where",
    Advice.CHECK_OUT_OF_FOLD: "in Python, check the probabilities of crossfit(calibrator, scores, y)",
    Advice.CONNECT_OR_INSTALL: 'pip install "calibrant[sql]"',
    Advice.CORRECT_SAMPLING: "in Python, SamplingCorrection corrects it, with the event rate in training",
    Advice.DIVIDE_BY_100: "divide the column by 100",
    Advice.DROP_OR_REPAIR_SCORES: lambda voice: f"fix them, or exclude them with --where{voice.if_finite()}",
    Advice.DROP_ROWS: "exclude these rows with --where",
    Advice.DROP_UNLABELED: lambda voice: (
        f"exclude these rows with --where{voice.if_labeled()}; a label that has not arrived is not a negative"
    ),
    Advice.FILTER_ROWS: "find out why they are there, then exclude them with --where",
    Advice.FIT_CLASSES: "calibrant fit, with the same --score columns",
    Advice.FIT_FIRST: "fit a map first (calibrant fit)",
    Advice.FIT_ONE_SEGMENT: "--method binning, fitted to the rows of one segment alone, can have a certificate",
    Advice.FIT_PLATT: "calibrant fit FILES --out map.json",
    Advice.IMPORTANCE_WEIGHTS: "leave --frequency out",
    Advice.NAME_SCORES: "pass the column of scores with --score",
    Advice.ONE_AGAINST_REST: (
        "labels must have two classes: create a column that is 1 for one class and 0 for the rest; for several classes "
        "pass one --score per class; counts of defaults by grade go to calibrant grades"
    ),
    Advice.PASS_CLAMP: "in Python, clamp= reads them as half a rounding unit from 0 and 1",
    Advice.PASS_GUARANTEE: "pass --guarantee E",
    Advice.PASS_PROBABILITIES: "pass a column of probabilities with --score",
    Advice.REPAIR_OR_DROP_ROWS: "fix these rows or exclude them with --where",
    Advice.SEE_COMPARISON: "see below",
    Advice.SEE_SEGMENTS: "All segments: --json.",
    Advice.SEE_SEGMENTS_AND_COMPARISON: "All segments: --json.",
    Advice.SEE_SEGMENTS_AND_SOURCES: "All segments: --json.",
    Advice.SWAP_SCORES_AND_LABELS: CommandLine.swapped,
    Advice.USE_BINNING: "use --method binning if you need a certificate",
    Advice.USE_PLATT: "use --method platt",
}
"""Advice that differs from that for Python."""
