"""What all files of a tally store share: segment columns, grid and score type, as stored in ``store.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from calibrant.arrays import ScoreType
from calibrant.engine.selection import GRIDS
from calibrant.engine.store.parquet import COLUMNS
from calibrant.engine.store.sealed import json_object
from calibrant.export.errors import DocumentError
from calibrant.export.files import read_bounded
from calibrant.messages import InputError, Setting
from calibrant.numerics import Grid

FORMAT = 1
"""Version of the layout. Readers for all earlier versions are kept."""


class Identity(NamedTuple):
    """What all files of a store share."""

    by: tuple[str, ...]
    grid: Grid
    score_type: ScoreType

    def check(self) -> None:
        """Refuse a grid with a different range than the scores', and names of the store's own columns."""
        if (self.score_type == "probability") != self.grid.unit:
            raise InputError("grid", f"{self.grid} is not one for {self.score_type} scores", GRIDS)
        folded = [name.lower() for name in self.by]  # SQL engines do not distinguish n from N
        taken = [
            name for name in self.by if not name or name.lower() in {"day", *COLUMNS} or folded.count(name.lower()) > 1
        ]
        if taken:
            raise InputError(
                Setting("by", list(self.by)),
                f"uses the name {taken[0]!r} twice, or it is the name of one of the store's own columns",
                "rename the column",
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        grid = {"bits": self.grid.bits, "low": float(self.grid.low), "high": float(self.grid.high)}
        return {"format": FORMAT, "score_type": self.score_type, "grid": grid, "by": list(self.by)}

    @classmethod
    def read(cls, path: Path) -> Identity | None:
        """Read a ``store.json``; None if it does not exist."""
        try:
            return cls.from_dict(json_object(read_bounded(path, 1 << 20), path), path)
        except FileNotFoundError:
            return None

    @classmethod
    def from_dict(cls, body: dict[str, Any], path: Path) -> Identity:
        """Read the result of :meth:`to_dict`; every problem raises :class:`DocumentError`."""
        match body:
            case {"format": int(form)} if form != FORMAT:
                raise DocumentError(path, f"has format {form}, and this version reads format {FORMAT}")
            case {
                "format": int(form),
                "score_type": "probability" | "logit" | "real" as score_type,
                "grid": {"bits": int(bits), "low": float(low), "high": float(high)},
                "by": [*by],
            } if all(type(name) is str for name in by) and bool not in (type(form), type(bits)):
                try:
                    identity = cls(tuple(by), Grid(bits, low, high), score_type)
                    identity.check()
                except ValueError as problem:
                    raise DocumentError(path, f"does not describe a store of tallies: {problem}") from None
                return identity
        raise DocumentError(path, "does not describe a store of tallies")
