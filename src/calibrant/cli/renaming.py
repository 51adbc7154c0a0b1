"""``--by region=area_code``: names of the map's group columns in the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from calibrant.calibration import Calibration

Renamed = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        metavar="NAME=COL",
        show_default=False,
        help="Column COL is the group column NAME of the map; repeat for several. [default: same names]",
    ),
]


def groups_of(calibration: Calibration, given: Sequence[str] | None) -> dict[str, str]:
    """The data column of every group column of a map; none if no segment was found to differ when it was fitted."""
    from calibrant.calibration import ignores_groups

    return {} if ignores_groups(calibration) else group_names(calibration.map.columns, given)


def group_names(needed: Sequence[str], given: Sequence[str] | None) -> dict[str, str]:
    """The data column of every group column of a map, by the map's name.

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
            listed = ", ".join(map(repr, needed))
            fix = f"it needs {listed}; write --by NAME=COL" if needed else "it needs no groups, so leave --by out"
            raise Mistake(f"--by {text}", "is not a group column of this map", fix)
        names[name] = text.removeprefix(f"{name}=")
    return names
