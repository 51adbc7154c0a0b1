"""What all files of a tally store share: segment columns, grid and kind of scores; as ``store.json`` has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from calibrant.arrays import Kind
from calibrant.engine.store.parquet import COLUMNS
from calibrant.engine.store.sealed import json_object
from calibrant.export.errors import DocumentError
from calibrant.messages import InputError, Setting
from calibrant.numerics import Grid

FORMAT = 1
"""Version of the layout. Readers for every earlier number stay for ever."""

GRIDS = "pass a grid such as Grid(4) for probabilities, and Grid(low=..., high=...) for other kinds"


class Identity(NamedTuple):
    """What all files of a store share."""

    by: tuple[str, ...]
    grid: Grid
    kind: Kind

    def check(self) -> None:
        """Refuse a grid of another range than the scores', and names that the store's own columns have."""
        if (self.kind == "probability") != self.grid.unit:
            raise InputError("grid", f"{self.grid} is not one for {self.kind} scores", GRIDS)
        folded = [name.lower() for name in self.by]  # SQL engines do not tell n from N
        taken = [
            name for name in self.by if not name or name.lower() in {"day", *COLUMNS} or folded.count(name.lower()) > 1
        ]
        if taken:
            raise InputError(
                Setting("by", list(self.by)),
                f"repeats {taken[0]!r}, or takes it from the store's own columns",
                "rename the column",
            )

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        grid = {"bits": self.grid.bits, "low": float(self.grid.low), "high": float(self.grid.high)}
        return {"format": FORMAT, "kind": self.kind, "grid": grid, "by": list(self.by)}

    @classmethod
    def read(cls, path: Path) -> Identity | None:
        """What a ``store.json`` says, or None where there is none."""
        try:
            return cls.from_dict(json_object(path.read_bytes(), path), path)
        except FileNotFoundError:
            return None

    @classmethod
    def from_dict(cls, body: dict[str, Any], path: Path) -> Identity:
        """Read what :meth:`to_dict` wrote; whatever is wrong ends in one error."""
        match body:
            case {"format": int(form)} if form != FORMAT:
                raise DocumentError(path, f"has format {form}, and this version reads format {FORMAT}")
            case {
                "format": int(form),
                "kind": "probability" | "logit" | "real" as kind,
                "grid": {"bits": int(bits), "low": float(low), "high": float(high)},
                "by": [*by],
            } if all(type(name) is str for name in by) and bool not in (type(form), type(bits)):
                try:
                    identity = cls(tuple(by), Grid(bits, low, high), kind)
                    identity.check()
                except ValueError as problem:
                    raise DocumentError(path, f"does not describe a store of tallies: {problem}") from None
                return identity
        raise DocumentError(path, "does not describe a store of tallies")
