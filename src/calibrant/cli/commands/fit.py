"""``calibrant fit``: a map from scores to calibrated probabilities."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from calibrant.cli import console, options

if TYPE_CHECKING:
    from calibrant.calibrators.base import BinaryCalibrator
    from calibrant.cli.source import Rows
    from calibrant.guarantees.provenance import Sampling


class Method(StrEnum):
    """How to fit."""

    platt = "platt"
    beta = "beta"
    isotonic = "isotonic"
    binning = "binning"


def fit(
    files: options.Inputs,
    out: Annotated[str, typer.Option("--out", "-o", metavar="MAP.json", help="Where to save the map.")],
    method: Annotated[
        Method, typer.Option("--method", help="How to fit; binning comes with a promise.")
    ] = Method.platt,
    n_bins: Annotated[int | None, typer.Option("--n-bins", metavar="N", help="Binning: number of bins.")] = None,
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", metavar="E", help="Binning: as many bins as hold this error.")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option("--alpha", metavar="A", help="Binning: 1 - confidence. [default: 0.1]")
    ] = None,
    score: options.Score = None,
    label: options.Label = None,
    weight: options.Weight = None,
    counts: options.Counts = False,
    time: options.Time = None,
    groups: options.Groups = None,
    positive: options.Positive = None,
    kind: options.Kind = None,
    where: options.Where = None,
    first: options.First = None,
    last: options.Last = None,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Fit a map from scores to probabilities that mean what they say.

    Platt scaling gains most with few labels; binning promises how far off the map can be. The map is a small JSON file
    that calibrant apply, Python and SQL can use. Fit to rows that the model was not trained on.

    Example:
      calibrant fit rows.csv --label bad --method binning --out map.json
    """
    from calibrant.cli.files import check_output
    from calibrant.cli.source import Columns, Days, open_source
    from calibrant.cli.wording import in_options

    check_output(out, [".json"], force=force)
    calibrator = _calibrator(method, {"n_bins": n_bins, "epsilon": epsilon, "alpha": alpha})
    columns = Columns(score, label, weight, counts, None, time, groups, positive, kind, where)
    source = open_source(files, columns, first, last, quiet=quiet or as_json)

    def run() -> None:
        if isinstance(source, Days):
            calibrator.fit_tally(source.total())
        else:
            _fit_rows(calibrator, source)

    source.run(run)
    calibrator.save(out)
    if as_json:
        console.show_json(json.loads(calibrator.calibration_.to_json()))
    else:
        console.say(in_options(str(calibrator)))
        console.say(f"Saved as {out}.")


def _calibrator(method: Method, given: dict[str, float | None]) -> BinaryCalibrator:
    from calibrant.calibrators.binning import HistogramBinning
    from calibrant.calibrators.isotonic import IsotonicCalibrator
    from calibrant.calibrators.parametric import BetaScaling, PlattScaling
    from calibrant.cli.wording import Mistake

    said = {name: value for name, value in given.items() if value is not None}
    if method is Method.binning:
        return HistogramBinning(**said)  # type: ignore[arg-type]
    for name in said:
        raise Mistake(f"--{name.replace('_', '-')} belongs to bins: add --method binning, or leave it out")
    made = {Method.platt: PlattScaling, Method.beta: BetaScaling, Method.isotonic: IsotonicCalibrator}
    calibrator: BinaryCalibrator = made[method]()
    return calibrator


def _fit_rows(calibrator: BinaryCalibrator, rows: Rows) -> None:
    """Fit to the rows where they are; many log-odds or real scores are counted on a grid of their range first."""
    from calibrant.engine import tally

    grid, options = rows.grid(), dict(rows.options)
    if grid is None:
        calibrator.fit(rows.data, **options)
        return
    groups, time = options.pop("groups"), options.pop("time")
    sampling: Sampling = "grouped" if groups else "time-ordered" if time else "independent"
    calibrator.fit_tally(tally(rows.data, **options, grid=grid), sampling=sampling)
