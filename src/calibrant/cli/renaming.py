"""``--by region=area_code``: what the columns of groups that a map needs are called where it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

Renamed = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        metavar="NAME=COL",
        show_default=False,
        help="A column of groups that the map calls NAME; may be given several times. [default: as in the map]",
    ),
]


def group_names(needed: Sequence[str], given: Sequence[str] | None) -> dict[str, str]:
    """The column of every group that a map needs, by the map's own name of it.

    Examples
    --------
    >>> group_names(("region", "branch"), ["region=area_code"])
    {'region': 'area_code', 'branch': 'branch'}
    >>> group_names(("region",), ["region"])
    {'region': 'region'}
    """
    from calibrant.cli.voice import Mistake

    names = {name: name for name in needed}
    for text in given or ():
        if text in names:
            continue  # NAME alone is NAME=NAME
        name = next((name for name in needed if text.startswith(f"{name}=")), None)
        if name is None or text == f"{name}=":
            needs = f"it needs {', '.join(map(repr, needed))}" if needed else "it needs no groups, so leave --by out"
            raise Mistake(f"--by {text}", "names no column of groups of this map", f"{needs}; write --by NAME=COL")
        names[name] = text.removeprefix(f"{name}=")
    return names
