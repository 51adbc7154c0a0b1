"""Base classes of maps: equality, copies and columns of groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import columns_there
from calibrant.arrays.keys import Keys, read_keys
from calibrant.messages import Argument, InputError, Phrase, listed
from calibrant.numerics import Floats, chunks, to_float32

Columns = ArrayLike | Mapping[str, Any]
"""Groups of the rows: the one column that a map needs, or columns by their names, in a mapping or a frame."""


class Direction(Enum):
    """How the probabilities of a map change as the score increases."""

    STRICTLY_RISING = "strictly rising"
    """Between the ends to which scores are clipped, a higher score has a higher probability."""
    RISING = "rising"
    """A higher score never has a lower probability; a constant map is of this kind."""
    FALLING = "falling"
    """A higher score never has a higher probability, and some have a lower one."""
    MIXED = "mixed"
    """Neither, or not known."""

    @classmethod
    def of(cls, changes: ArrayLike) -> Direction:
        """The direction of a map whose log-odds or values change by these amounts."""
        change = np.asarray(changes)
        if (change >= 0.0).all():
            return cls.STRICTLY_RISING if change.size and (change > 0.0).all() else cls.RISING
        return cls.FALLING if (change <= 0.0).all() else cls.MIXED

    @property
    def never_falls(self) -> bool:
        """Whether no higher score has a lower probability, except for rounding."""
        return self in (Direction.STRICTLY_RISING, Direction.RISING)


class Map:
    """A function from a model's output to probabilities, defined by numbers alone.

    Subclasses are frozen dataclasses, each with its own ``kind``. Their fields are numbers, strings, float arrays or
    other maps, which is all that a stored document can contain. :attr:`inputs`, :attr:`columns` and :attr:`outputs`
    name the columns of input and output.
    """

    kind: ClassVar[str]
    kinds: ClassVar[dict[str, type[Map]]] = {}
    """Where :func:`register` lists the kind: maps of one score here, multiclass maps in ``MulticlassMap``."""
    of_groups: ClassVar[bool] = True
    """Whether the columns that it needs are groups, each with a map of its own."""
    exact: ClassVar[bool] = False
    """Whether it only compares and copies numbers, so that every engine must give the same doubles."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the input columns of scores."""
        return ("score",)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the output columns."""
        return ("calibrated",)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of groups or features that it needs besides the scores, without repeats."""
        return ()

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of those of ``columns`` that hold numbers; the others hold text."""
        return ()

    @property
    def direction(self) -> Direction:
        """How probabilities change as the score increases; mixed for maps by group and multiclass maps."""
        return Direction.MIXED

    @property
    def words(self) -> str:
        """The map in a phrase, with its numbers rounded; ``repr`` has all digits."""
        return repr(self)

    def apply(self, scores: ArrayLike, by: Columns | None = None) -> NDArray[Any]:
        """Probabilities for ``scores``; float32 in gives float32 out, NaN gives NaN.

        Parameters
        ----------
        scores
            Scores; a matrix for multiclass maps.
        by
            Columns of groups, if the map needs them: by name, or as one array if it needs one column. Columns of a
            mapping that it does not need are ignored.

        Returns
        -------
        ndarray
            One probability per score; a matrix for multiclass maps.
        """
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        """Bit-equality of kind and every number."""
        if type(other) is not type(self):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))  # type: ignore[arg-type]

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies are built from the numbers, so that they are also checked and frozen."""
        return type(self), tuple(getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]

    def __hash__(self) -> int:
        """Hash of the numbers, consistent with equality."""
        return hash((self.kind, *(_hashable(getattr(self, f.name)) for f in fields(self))))  # type: ignore[arg-type]


KINDS = Map.kinds
"""Every kind of map of one score; documents may name these and the kinds of ``MulticlassMap``, and nothing else."""

Registered = TypeVar("Registered", bound=type[Map])


def register(cls: Registered) -> Registered:
    """List a class under its ``kind``, so that documents may name it."""
    cls.kinds[cls.kind] = cls
    return cls


class ScoreMap(Map):
    """A map of one score to one probability, evaluated chunk by chunk."""

    def apply(self, scores: ArrayLike, by: Columns | None = None) -> NDArray[Any]:
        """Probabilities for ``scores``; float32 in gives float32 out, NaN gives NaN."""
        needed_keys(self, by, np.shape(scores))
        given = np.asarray(scores)
        flat = given.reshape(-1)
        single = flat.dtype == np.float32
        out = np.empty(flat.shape, dtype=np.float32 if single else np.float64)
        for part in chunks(len(flat)):
            piece = self._evaluate(flat[part].astype(np.float64, copy=False))
            out[part] = to_float32(piece) if single else piece
        return out.reshape(given.shape)

    def _evaluate(self, s: Floats) -> Floats:
        """Image of one chunk of float64 scores; must not write into ``s`` and must keep NaN."""
        raise NotImplementedError


def needed_keys(owner: Map, by: Columns | None, shape: tuple[int, ...]) -> dict[str, Keys]:
    """The groups that the map needs, by column, checked against the shape of the scores."""
    columns = needed_columns(owner, by, "groups")
    keys = {name: read_keys(values, f"the column {name!r}") for name, values in columns.items()}
    for name, each in keys.items():
        if each.codes.shape != shape:
            shapes = {"found": each.codes.shape, "scores": Argument("scores"), "shape": shape}
            problem = Phrase("has shape {found} but {scores} has {shape}", **shapes)
            raise InputError(f"the column {name!r}", problem, "pass one group per score")
    return keys


def needed_columns(owner: Map, by: Columns | None, argument: str) -> dict[str, Any]:
    """The columns that the map needs; errors name the argument."""
    needed, given = owner.columns, by_name(by)
    if given is None and not needed:
        return {}
    if not isinstance(given, Mapping):
        if given is None and needed:
            columns = f"{'columns' if len(needed) > 1 else 'column'} {listed([*map(repr, needed)])}"
            fix = ", or use the map of one group where only scores can be passed" if owner.of_groups else ""
            argument = "source" if argument == "by" and needed == ("source",) else argument  # two names of one argument
            raise InputError(
                argument, f"is missing: this map needs the {columns} besides the scores", f"pass {argument}{fix}"
            )
        if given is not None and len(needed) != 1:
            fix = "pass them by name, as {'name': values, ...}" if needed else "leave it out"
            raise InputError(argument, f"is one column, but this map needs {len(needed) or 'none'}", fix)
        given = dict.fromkeys(needed, given)
    missing = [name for name in needed if name not in given]
    if missing:
        there = columns_there(missing[0], [str(name) for name in given])
        raise InputError(argument, f"has no column {missing[0]!r}, which this map needs", there)
    return {name: given[name] for name in needed}


def by_name(groups: Any) -> Any:
    """The columns of a frame by their names; anything else unchanged."""
    names = getattr(groups, "column_names", getattr(groups, "columns", None))  # pyarrow; pandas and polars
    return groups if names is None or isinstance(groups, Mapping) else {name: groups[name] for name in names}


def unwrapped(given: Any) -> Any:
    """The calibration of a fitted calibrator or calibrated classifier; anything else unchanged."""
    return getattr(getattr(given, "calibrator_", given), "calibration_", given)


def freeze(owner: Map, name: str, value: object) -> None:
    """Set a checked field of a frozen map while it is being built."""
    object.__setattr__(owner, name, value)


def _same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.tobytes() == b.tobytes()
    return a == b


def _hashable(value: object) -> object:
    return value.tobytes() if isinstance(value, np.ndarray) else value
