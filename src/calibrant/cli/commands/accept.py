"""``calibrant accept``: the confidence above which few answers are wrong, with a guarantee."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli import console, options
from calibrant.cli.exits import Exit

if TYPE_CHECKING:
    from calibrant.abstention import Acceptance, ModelChoice


def accept(
    files: options.Files,
    score: options.Score = None,
    label: Annotated[
        str | None, options.text("--label", "COL", "Column with 1 for a right answer and 0 for a wrong one.")
    ] = None,
    error: Annotated[
        float, typer.Option("--error", metavar="E", help="Largest share of wrong answers among those given.")
    ] = 0.1,
    alpha: Annotated[float, typer.Option("--alpha", metavar="A", help="1 - confidence.")] = 0.05,
    by: Annotated[
        list[str] | None,
        options.text("--by", "COL", "Column of the model: a threshold for each; repeat it for model and prompt."),
    ] = None,
    groups: Annotated[
        str | None, options.text("--groups", "COL", "Column of questions that were sampled several times.")
    ] = None,
    positive: Annotated[
        str | None, options.text("--positive", "VALUE", "Label of a right answer, if labels are not 0 and 1.")
    ] = None,
    score_type: options.ScoreType = None,
    where: options.Where = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", min=0, help="Seed of draws from groups.", show_default="a fresh one"),
    ] = None,
    out: Annotated[str | None, options.out("Output file of the thresholds: .json.")] = None,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Find the lowest score above which few answers are wrong.

    With confidence 1 - alpha, at most the share --error of the answers above the threshold are wrong. This guarantee
    holds for independent rows and scores that were not fitted to them. With --by there is a threshold for each model,
    and all of them hold at once, so you may pick the best. The columns are read into memory.

    Exit code: 0 if there is a threshold (with --by: for some model), 11 if there is none, 1 input error, 2 usage error.

    Example:
      calibrant accept answers.csv --score confidence --label correct
      calibrant accept answers.csv --label correct --error 0.05 --by model
    """
    from calibrant.cli.input.files import check_output, find_files
    from calibrant.cli.input.source import Rows

    if out is not None:
        check_output(out, [".json"], inputs=find_files(files), force=force)
    roles: dict[str, Any] = {"by": by, "groups": groups, "positive": positive, "score_type": score_type, "where": where}
    columns = options.Columns([score] if score else None, label, **roles)
    rows = Rows(files, columns, quiet=quiet or as_json)
    found = rows.run(lambda: _found(rows, {"error": error, "alpha": alpha, "random_state": seed}))
    if out is not None:
        import json

        from calibrant.export.files import write_whole

        write_whole(out, json.dumps(found.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    if as_json:
        console.show_json(found.to_dict())
    else:
        console.say(str(found))
        if out is not None:
            console.say(f"Wrote {out}.")
    raise typer.Exit(Exit.CALIBRATED if found.found else Exit.CANNOT_TELL)


def _found(rows: Any, asked: dict[str, Any]) -> Acceptance | ModelChoice:
    """The threshold of all rows, or one for each model."""
    import warnings

    import numpy as np

    from calibrant.abstention import accept as threshold
    from calibrant.abstention import accept_models
    from calibrant.arrays import check_rows
    from calibrant.messages import CalibrantWarning

    of = rows.columns
    values = rows.collect([of.score, of.label, of.groups, *(of.by or ())])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # all right, or all wrong, is an ordinary case here
        kind = rows.options["score_type"]
        checked = check_rows(values[of.score], values[of.label], positive=rows.options["positive"], score_type=kind)
    scores: Any = checked.scores
    right = checked.labels
    if np.asarray(values[of.score]).dtype == np.float32:  # thresholds are numbers of the column's type
        scores = scores.astype(np.float32)
    asked["score_type"] = kind
    groups = None if of.groups is None else values[of.groups]
    if not of.by:
        return threshold(scores, right, groups=groups, **asked)
    names = _names([values[name] for name in of.by], of.by)
    models = {name: np.flatnonzero(names == name) for name in sorted(set(names.tolist()))}

    def split(column: Any) -> dict[str, Any]:
        return {name: column[places] for name, places in models.items()}

    return accept_models(split(scores), split(right), groups=None if groups is None else split(groups), **asked)


def _names(columns: list[Any], options_: list[str]) -> Any:
    """The name of each row's model: the values of the columns, with commas between."""
    import numpy as np

    from calibrant.cli.input.groups import name_of
    from calibrant.cli.voice import Mistake
    from calibrant.messages import plural

    texts = [[name_of(value) for value in column.tolist()] for column in columns]
    for text, name in zip(texts, options_, strict=True):
        if "" in text:
            problem = f"is empty in {plural(text.count(''), 'row')}"
            raise Mistake(f"the column {name!r} (--by)", problem, "fill it in, or exclude them with --where")
    found = {parts: ", ".join(parts) for parts in zip(*texts, strict=True)}
    if len(set(found.values())) < len(found):
        problem = "have values with commas, which give two models one name"
        raise Mistake("the columns of --by", problem, "make one column with a name for each model")
    return np.array([found[parts] for parts in zip(*texts, strict=True)], dtype=object)
