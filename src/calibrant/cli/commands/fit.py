"""``calibrant fit``: fit a map from scores to calibrated probabilities."""

from __future__ import annotations

import dataclasses
import json
from enum import StrEnum
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from calibrant import calibrators
from calibrant.cli import console, options

if TYPE_CHECKING:
    from calibrant.calibration import Calibration
    from calibrant.calibrators.auto import AutoCalibrator
    from calibrant.calibrators.binary.base import BinaryCalibrator
    from calibrant.calibrators.segments import SegmentCalibrator
    from calibrant.cli.input.source import Days, Rows
    from calibrant.guarantees.provenance import Sampling
    from calibrant.selection.comparison import Compared, Comparison


class Method(StrEnum):
    """Calibration methods."""

    auto = "auto"
    shift = "shift"
    temperature = "temperature"
    platt = "platt"
    beta = "beta"
    spline = "spline"
    isotonic = "isotonic"
    binning = "binning"
    scaling_binning = "scaling-binning"
    isotonic_binning = "isotonic-binning"
    bayesian_binning = "bayesian-binning"
    venn_abers = "venn-abers"
    tree = "tree"
    tree_curves = "tree-curves"
    vector = "vector"
    structured = "structured"


class LossName(StrEnum):
    """Loss used to compare candidates."""

    log = "log"
    brier = "brier"


CLASSES = {
    Method.auto: "AutoCalibrator",
    Method.shift: "LogitShift",
    Method.temperature: "TemperatureScaling",
    Method.platt: "PlattScaling",
    Method.beta: "BetaScaling",
    Method.spline: "SplineCalibrator",
    Method.isotonic: "IsotonicCalibrator",
    Method.binning: "HistogramBinning",
    Method.scaling_binning: "ScalingBinning",
    Method.isotonic_binning: "IsotonicBinning",
    Method.bayesian_binning: "BayesianBinning",
    Method.venn_abers: "VennAbers",
    Method.tree: "CalibrationTree",
    Method.tree_curves: "ProbabilityCalibrationTree",
    Method.vector: "VectorScaling",
    Method.structured: "StructuredScaling",
}
"""Class of each method; only the chosen one is loaded."""

OF_CLASSES = (Method.auto, Method.temperature, Method.vector, Method.structured)
"""Methods of several classes; the last two are of several classes only."""

OF_FEATURES = (Method.tree, Method.tree_curves)
"""Methods that split rows by features."""

SOURCE = "Column with the source of each score (model, prompt): each source gets a separate map."

TAKEN = {
    "n_bins": (Method.binning, Method.scaling_binning),
    "epsilon": (Method.binning,),
    "alpha": (Method.binning, Method.auto),
    "loss": (Method.auto,),
    "guarantee": (Method.auto,),
    "look": (Method.auto,),
    "features": OF_FEATURES,
    "honest": OF_FEATURES,
}
"""Methods that each method option applies to."""


def fit(
    files: options.Inputs,
    out: Annotated[str, options.out("File to save the map to.", "MAP.json")],
    method: Annotated[
        Method,
        typer.Option("--method", metavar="NAME", help=f"One of {', '.join(Method)}."),
    ] = Method.auto,
    loss: Annotated[
        LossName | None, typer.Option("--loss", help="auto: loss used to compare candidates. [default: log]")
    ] = None,
    guarantee: Annotated[
        float | None,
        typer.Option("--guarantee", metavar="E", help="auto: bins certified to be within E of their true rates."),
    ] = None,
    look: Annotated[
        int | None,
        typer.Option(
            "--look", metavar="K", help="--guarantee: number of requests so far, including this one. [default: 1]"
        ),
    ] = None,
    n_bins: Annotated[int | None, typer.Option("--n-bins", metavar="N", help="binning: number of bins.")] = None,
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", metavar="E", help="binning: use as many bins as this error bound allows."),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option("--alpha", metavar="A", help="binning, --guarantee: 1 - confidence. [default: 0.1 and 0.05]"),
    ] = None,
    multicalibrate: Annotated[
        bool, typer.Option("--multicalibrate", help="--by: correct only segments that are significantly off.")
    ] = False,
    sources: Annotated[str | None, options.text("--source", "COL", SOURCE)] = None,
    classes: Annotated[
        list[str] | None,
        options.text("--class", "NAME", "Several classes: the label of each --score, in their order. [default: names]"),
    ] = None,
    features: Annotated[
        list[str] | None,
        options.text("--features", "COL[,COL]", "tree, tree-curves: columns that may split rows, with commas."),
    ] = None,
    honest: Annotated[
        bool, typer.Option("--honest", help="tree: half of the rows choose the rules, the others their rates.")
    ] = False,
    *,
    columns: options.Columns,
    days: options.DayRange,
    origin: options.Origin,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Fit a map from scores to calibrated probabilities.

    By default it tries the methods that the rows support and blends them by their loss on held-out rows. A simpler
    method is used if it is reliably as good, and the original model is kept if nothing is reliably better. With
    --guarantee it fits bins with a certificate. With --by it adds corrections by segment to the global map, as far as
    the rows of each segment support them. For several classes pass a column of scores for each: --score repeated, in
    the order of the classes, or a glob; --method is then auto, temperature, vector or structured. With --method tree
    and --features it finds a few rules, each with its event rate; with --honest the rates have a certificate. The map
    is a small JSON file for calibrant apply, Python and SQL. Fit it on rows that were not used to train or tune the
    model.

    Example:
      calibrant fit rows.csv --label bad --out map.json
      calibrant fit rows.csv --label bad --by region --out map.json
      calibrant fit rows.csv --score 'p_*' --label species --out map.json
      calibrant fit rows.csv --label bad --method tree --features age --out t.json
    """
    from calibrant.cli.input.files import check_output, is_store
    from calibrant.cli.input.source import Days, open_source
    from calibrant.cli.voice import CommandLine, Mistake

    check_output(out, [".json"], force=force)
    entries, parent = origin.entries, _parent(origin.parent)
    given: dict[str, Any] = {
        "n_bins": n_bins,
        "epsilon": epsilon,
        "alpha": alpha,
        "loss": loss,
        "guarantee": guarantee,
        "look": look,
    }
    given |= {"features": features, "honest": honest or None}
    calibrator = _calibrator(method, {name: value for name, value in given.items() if value is not None})
    by, split_by = columns.by, _features(features, method, columns, {"--source": sources, "--by": columns.by})
    stored = next((path for path in files if is_store(path)), None)
    if stored and method in OF_FEATURES:
        raise Mistake(f"--method {method}", "needs features, and a tally store has none", "pass the files of the rows")
    named = dataclasses.replace(columns, source=sources, by=None if stored else by, features=split_by)
    source = open_source(files, named, days, quiet=quiet or as_json)
    several = not isinstance(source, Days) and source.columns.several
    _check_several(several, method, classes, {"--source": sources, "--multicalibrate": multicalibrate or None})
    if several and method is Method.auto:
        calibrator = _choice_of_classes(calibrator)
    if not several and (by or sources or multicalibrate):
        calibrator = _by_segment(calibrator, bool(by), sources, multicalibrate)
    elif several and by:
        calibrator = _classes_by_segment(calibrator, method)

    def run() -> None:
        if isinstance(source, Days):
            calibrator.fit_tally(*_tallies(source, by))
        elif several:
            _fit_classes(calibrator, source, by, classes)
        elif split_by:
            calibrator.fit(source.data, **source.options, features=list(split_by))
        elif by or sources:
            calibrator.fit(source.data, **(source.options | {"by": by or sources}))
        else:
            _fit_rows(calibrator, source, apart=method is Method.auto)

    source.run(run)
    calibration = _with_origin(calibrator.calibration_, source, files, origin, parent, entries)
    calibration.save(out)
    whole: Any = getattr(calibrator, "global_", None) if by or sources else calibrator
    parts = {} if several or not (by or sources) else _segments(calibrator)
    chosen = whole if method is Method.auto else None  # with sources each has its own
    if as_json:
        document = json.loads(calibration.to_json())
        document |= {} if chosen is None else {"comparison": _as_data(chosen)}
        console.show_json(document | parts)
        return
    console.say(calibrator.say(CommandLine()))
    if chosen is not None:
        _show(chosen.comparison_, "Candidates for the global map" if by else "Candidates")
    console.say(f"Saved as {out}.")


def _parent(path: str | None) -> Calibration | None:
    """The map of ``--parent``, read before anything is fitted."""
    from pathlib import Path

    from calibrant.cli.input.files import load_map
    from calibrant.cli.voice import Mistake

    if path is None:
        return None
    if not Path(path).exists():
        raise Mistake(f"--parent {path}", "does not exist", "pass the map that this one replaces, or leave it out")
    return load_map(path, several=True)


def _with_origin(
    fitted: Calibration,
    source: Days | Rows,
    files: list[str],
    origin: options.Origin,
    parent: Calibration | None,
    entries: dict[str, str],
) -> Calibration:
    """The calibration with the time of the fit, its files, and the days and names that are known."""
    from calibrant.cli.input.source import Days
    from calibrant.cli.voice import CommandLine, Mistake
    from calibrant.messages import InputError

    days = source.days if isinstance(source, Days) else (None, None)
    try:
        return fitted.with_origin(
            fitted_at=origin.fitted_at,
            first_day=days[0],
            last_day=days[1],
            source=files,
            model=origin.model_name,
            model_version=origin.model_version,
            parent=parent,
            meta=entries,
        )
    except InputError as problem:
        raise Mistake.of(problem, CommandLine()) from None


def _calibrator(method: Method, said: dict[str, Any]) -> Any:
    from calibrant.cli.voice import Mistake

    for name in said:
        if method not in TAKEN[name]:
            option, homes = f"--{name.replace('_', '-')}", " or ".join(TAKEN[name])
            raise Mistake(option, f"needs --method {homes}", f"add that, or leave {option} out")
    if method is Method.auto:
        if "alpha" in said and "guarantee" not in said:
            raise Mistake("--alpha", "needs --guarantee or --method binning", "add one of them, or leave --alpha out")
        if "look" in said and "guarantee" not in said:
            raise Mistake("--look", "needs --guarantee", "add that, or leave --look out")
        if "guarantee" in said:
            said["guarantee"] = (said["guarantee"], said.pop("alpha")) if "alpha" in said else said["guarantee"]
    if "loss" in said:
        said["loss"] = str(said["loss"])
    said.pop("features", None)  # columns, not a setting
    return getattr(calibrators, CLASSES[method])(**said)


def _features(
    given: list[str] | None, method: Method, columns: options.Columns, beside: dict[str, Any]
) -> tuple[str, ...]:
    """The columns of ``--features``; rejects options that do not go with them, and columns that have another role."""
    from calibrant.cli.voice import Mistake

    if method not in OF_FEATURES:
        return ()
    extra = next((option for option, value in beside.items() if value), None)
    if extra is not None:
        raise Mistake(extra, f"cannot be combined with --method {method}", "pass its column with --features instead")
    found = tuple(dict.fromkeys(name.strip() for text in given or () for name in text.split(",") if name.strip()))
    if not found:
        raise Mistake(f"--method {method}", "needs features", "pass their columns, such as --features age,job")
    roles = columns.with_defaults().named
    taken = next(((option, name) for option, name in roles.items() if name in found), None)
    if taken is not None:
        raise Mistake(f"--features {taken[1]}", f"is also the column of {taken[0]}", "leave it out of the features")
    return found


def _check_several(several: bool, method: Method, classes: list[str] | None, beside: dict[str, Any]) -> None:
    """Reject methods and options that do not go with the number of columns of scores."""
    from calibrant.cli.voice import Mistake

    if not several:
        if method in (Method.vector, Method.structured):
            raise Mistake(f"--method {method}", "needs several classes", "pass a column for each with --score")
        if classes:
            raise Mistake("--class", "needs several classes", "pass a column for each with --score, or leave it out")
        return
    if method not in OF_CLASSES:
        named = ", ".join(OF_CLASSES)
        raise Mistake(f"--method {method}", "is for one score, and there are several columns", f"use one of {named}")
    extra = next((option for option, value in beside.items() if value is not None), None)
    if extra is not None:
        raise Mistake(extra, "is for one score, and there are several columns", "use --by, or one --score")


def _choice_of_classes(calibrator: Any) -> Any:
    from calibrant.calibrators.multiclass.auto import MulticlassAutoCalibrator
    from calibrant.cli.voice import Mistake

    if calibrator.guarantee is not None:
        raise Mistake(
            "--guarantee", "is for one score, and there are several columns", "in Python, use TopLabelHistogramBinning"
        )
    return MulticlassAutoCalibrator(loss=calibrator.loss)


def _classes_by_segment(calibrator: Any, method: Method) -> Any:
    from calibrant.calibrators.multiclass.auto import MulticlassAutoCalibrator
    from calibrant.calibrators.multiclass.segments import MulticlassSegmentCalibrator

    only = None if method is Method.auto else [str(method)]
    return MulticlassSegmentCalibrator(MulticlassAutoCalibrator(only, loss=getattr(calibrator, "loss", "log")))


def _fit_classes(calibrator: Any, rows: Rows, by: list[str] | None, classes: list[str] | None) -> None:
    """Fit to one column of scores per class, read into memory."""
    from calibrant.cli.voice import Mistake
    from calibrant.reading import Table

    of = rows.columns
    if of.positive is not None:
        raise Mistake("--positive", "is for one score, and there are several columns", "leave it out")
    if by and len(by) > 1:
        raise Mistake("--by", "must be one column for several classes", "join the columns into one")
    values = rows.collect([*(of.scores or ()), of.label, of.weight, of.time, of.groups, *(by or ())])
    sides = {name: None if column is None else values[column] for name, column in _sides(of).items()}
    given: dict[str, Any] = {"y": values[str(of.label)], "classes": classes, **sides}
    given |= {"weight_type": rows.options["weight_type"], "score_type": rows.options["score_type"]}
    given |= {"by": {by[0]: values[by[0]]}} if by else {}
    calibrator.fit(Table.of(values, of.scores or ()), **given)


def _sides(of: options.Columns) -> dict[str, str | None]:
    return {"sample_weight": of.weight, "time": of.time, "groups": of.groups}


def _tallies(source: Days, by: list[str] | None) -> tuple[Any, ...]:
    """The tally of a store, or its tallies by some of its segments, with their names."""
    from calibrant.cli.voice import Mistake
    from calibrant.tallies import GroupedTally

    if not by:
        return (source.total(),)
    there = tuple(source.store.by)
    unknown = next((name for name in by if name not in there), None)
    if unknown is not None or not isinstance(source.data, GroupedTally):
        listed = ", ".join(there) or "none"
        raise Mistake(f"--by {unknown or by[0]}", "is not a segment of the tally store", f"it has {listed}")
    places = [there.index(name) for name in by]
    found: dict[Any, Any] = {}
    for key, tally in source.data.items():
        parts = key if isinstance(key, tuple) else (key,)
        kept = tuple(parts[place] for place in places)
        found[kept] = found[kept] + tally if kept in found else tally
    return GroupedTally(found, by), list(by)


def _by_segment(calibrator: Any, by: bool, source: str | None, multicalibrate: bool) -> SegmentCalibrator:
    """The same by segment or by source; a guarantee needs separate maps."""
    from calibrant.calibrators.segments import SegmentCalibrator
    from calibrant.cli.voice import Mistake

    if multicalibrate and not by:
        raise Mistake("--multicalibrate", "needs segments", "pass their columns with --by, or leave it out")
    if by and source is not None:
        raise Mistake("--by and --source", "cannot be combined", "join the columns into one, and leave one option out")
    certified = getattr(calibrator, "guarantee", None) is not None
    if certified and multicalibrate:
        raise Mistake("--guarantee", "cannot be combined with --multicalibrate", "leave --multicalibrate out")
    mode: Literal["shrink", "multicalibrate", "separate"] = "multicalibrate" if multicalibrate else "shrink"
    return SegmentCalibrator(calibrator, segment_method=mode if by and not certified else "separate")


def _segments(calibrator: Any) -> dict[str, Any]:
    """The result for each segment, and the change in loss on held-out rows."""
    numbers = {name: getattr(calibrator, f"{name}_").to_dict() for name in ("before", "after", "change", "gain")}
    left = {"uncalibrated": list(calibrator.uncalibrated_)} if calibrator.uncalibrated_ else {}
    return {"by_segment": numbers | left | calibrator.segments_.to_dict()}


def _fit_rows(calibrator: BinaryCalibrator, rows: Rows, *, apart: bool) -> None:
    """Fit to the rows in DuckDB; many log-odds or real-valued scores are first counted on a grid of their range.

    ``apart``: whether single rows are needed, because groups or times split them.
    """
    from calibrant.engine import tally

    options = dict(rows.options)
    split = options["groups"] or options["time"]
    grid = None if apart and split else rows.grid()
    if grid is None:
        calibrator.fit(rows.data, **options)
        return
    groups, time = options.pop("groups"), options.pop("time")
    sampling: Sampling = "grouped" if groups else "time-ordered" if time else "independent"
    calibrator.fit_tally(tally(rows.data, **options, grid=grid), sampling=sampling)


def _as_data(chosen: AutoCalibrator) -> dict[str, Any]:
    numbers = {"before": chosen.before_, "after": chosen.after_, "change": chosen.change_}
    stated = {name: estimate.to_dict() for name, estimate in numbers.items()}
    return {"choice": chosen.choice_} | stated | chosen.comparison_.to_dict()


def _show(comparison: Comparison, what: str) -> None:
    """Print the candidates as a table, if there was more than one."""
    from calibrant.selection.losses import NAMES

    tried = [line for line in comparison.lines if isfinite(line.loss)]
    if len(tried) < 2:
        return
    places = comparison.decimals
    rows = [(line.name, str(line.outcome), f"{line.loss:.{places}f}", *_change(line, places)) for line in tried]
    title = f"{what}, on held-out rows (change: vs. {comparison.reference}):"
    columns = ("candidate", "vs. chosen", NAMES[comparison.loss], "change", "95 % CI")
    console.table(title, columns, rows, text=2, styles=["bold" if line.chosen else "" for line in tried])


def _change(line: Compared, places: int) -> tuple[str, str]:
    if not isfinite(line.change):
        return "", ""
    return f"{line.change:+.{places}f}", f"{line.low:+.{places}f} to {line.high:+.{places}f}"
