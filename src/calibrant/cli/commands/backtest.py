"""``calibrant backtest``: replay history under policies of when to refit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli import console, options

if TYPE_CHECKING:
    from calibrant.live import Backtest

NAMES = "day, week, month, once, never, on-alarm, online-platt, tracking, bank-by-key"


def backtest(
    files: options.Inputs,
    score: options.Score = None,
    label: options.Label = None,
    time: options.Time = None,
    policy: Annotated[
        list[str] | None,
        options.text("--policy", "NAME", f"Policy; repeat for several: {NAMES}. [default: day week month once never]"),
    ] = None,
    delay: Annotated[
        float | None, typer.Option("--delay", metavar="DAYS", min=0.0, help="Days until a label is known.")
    ] = None,
    label_time: Annotated[
        str | None, options.text("--label-time", "COL", "Column with the time at which each label was known.")
    ] = None,
    key: Annotated[str | None, options.text("--key", "COL", "Column of keys, for bank-by-key.")] = None,
    reference: Annotated[
        str | None, options.text("--reference", "NAME", "Policy to compare with. [default: the first]")
    ] = None,
    warm_up: Annotated[
        int, typer.Option("--warm-up", metavar="DAYS", min=0, help="Days at the start that are not judged.")
    ] = 0,
    positive: options.Positive = None,
    where: options.Where = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Replay history under refit policies, and compare their losses.

    A label is used only when it would have been known: --delay days after the prediction, or at --label-time. The table
    has one line per policy, with the change in log loss from the first one and its 95 % confidence interval. A tally
    store can be passed for policies that fit maps: all but online-platt, tracking and bank-by-key.

    Example:
      calibrant backtest rows.parquet --time day --delay 7
      calibrant backtest rows.csv --time day --policy week --policy on-alarm
      calibrant backtest tallies --delay 7
    """
    from calibrant.cli.input.files import is_store
    from calibrant.cli.voice import Mistake

    if delay is not None and label_time is not None:
        raise Mistake("--delay and --label-time", "both say when labels were known", "pass one of them")
    asked: dict[str, Any] = {"reference": reference, "warm_up": warm_up} | ({"policies": policy} if policy else {})
    columns = options.Columns([score] if score else None, label, time=time, positive=positive, where=where)
    if any(is_store(path) for path in files):
        given = [*columns.given, *(["--key"] if key else []), *(["--label-time"] if label_time else [])]
        found = _of_store(files, given, asked | {"delay": delay or 0.0}, quiet=quiet or as_json)
    else:
        if time is None:
            raise Mistake("--time", "is missing", "pass the column with the time of each row")
        found = _of_rows(files, columns, {"--key": key, "--label-time": label_time}, delay, asked, quiet or as_json)
    if as_json:
        console.show_json(found.to_dict())
    else:
        console.say(str(found))


def _of_store(files: list[str], given: list[str], asked: dict[str, Any], *, quiet: bool) -> Backtest:
    from calibrant.cli.voice import CommandLine, Mistake
    from calibrant.engine import TallyStore
    from calibrant.live import backtest as replay
    from calibrant.messages import InputError

    if len(files) > 1:
        raise Mistake(files[0], "is a tally store", "pass it alone")
    if given:
        raise Mistake(files[0], "is a tally store, whose columns are fixed", f"leave {given[0]} out")
    try:
        return console.work(lambda: replay(TallyStore(files[0]), **asked), words="Working", quiet=quiet)
    except InputError as problem:
        raise Mistake.of(problem, CommandLine()) from None


def _of_rows(
    files: list[str],
    columns: options.Columns,
    more: dict[str, str | None],
    delay: float | None,
    asked: dict[str, Any],
    quiet: bool,
) -> Backtest:
    import numpy as np

    from calibrant.cli.input.source import Rows
    from calibrant.cli.voice import Mistake
    from calibrant.live import backtest as replay

    key, known = more["--key"], more["--label-time"]
    rows = Rows(files, _with_more(columns, [name for name in (key, known) if name is not None]), quiet=quiet)
    p, y, at = str(rows.columns.score), str(rows.columns.label), str(rows.columns.time)

    def run() -> Backtest:
        values = rows.collect([p, y, at, key, known])
        wait: Any = delay or 0.0
        if known is not None:
            wait = _times(values[known], "--label-time") - _times(values[at], "--time")
            if (wait < np.timedelta64(0)).any():
                raise Mistake("--label-time", "is before --time in some rows", "check the two columns")
        return replay(
            values[p],
            values[y],
            values[at],
            delay=wait,
            keys=None if key is None else values[key],
            positive=rows.options["positive"],
            **asked,
        )

    return rows.run(run)


def _with_more(columns: options.Columns, names: list[str]) -> options.Columns:
    """The same with further columns to read."""
    from dataclasses import replace

    return replace(columns, by=names or None)


def _times(values: Any, option: str) -> Any:
    """Times of a column; an error if they are not dates."""
    import numpy as np

    from calibrant.cli.voice import Mistake

    try:
        return np.asarray(values, dtype="datetime64[us]")
    except (TypeError, ValueError):
        raise Mistake(option, "must hold dates or times", "pass --delay instead") from None
