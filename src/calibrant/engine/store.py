"""Tallies by day and segment, kept as plain Parquet that any engine can read.

The layout, under the store's path::

    store.json                            format, grid, kind, names of the segment columns
    days/day=2026-03-01/tally.parquet     one row per (segment, cell) that holds rows, in that order

A folder per segment would make 30,000 small files of 60 days and 500 segments; sorted row groups with statistics let a
reader skip as much. Point DuckDB, Polars, Spark or pandas at ``days``: ``day`` is a hive partition column.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

import numpy as np

from calibrant.arrays import InputError, Kind
from calibrant.arrays.columns import check_option
from calibrant.arrays.paths import local_path
from calibrant.engine.day_files import (
    COLUMNS,
    COUNTED,
    ROW_GROUP,
    SEGMENT_TYPES,
    Content,
    Key,
    Sums,
    check_keys,
    groups_with,
)
from calibrant.engine.frames import Unusable, tally
from calibrant.engine.sealed import json_object, need_pyarrow, opened, sealed
from calibrant.engine.selection import Weighting
from calibrant.export.errors import DocumentError
from calibrant.export.files import nothing_written
from calibrant.numerics import Grid
from calibrant.tallies import SEGMENT_GRID, GroupedTally, Tally

FORMAT = 1
"""Version of the layout. Readers for every earlier number stay for ever."""

ABOUT, FILE = "store.json", "tally.parquet"
Day = date | str


class TallyStore:
    r"""Tallies by day and segment on disk; any window, any segment, any refit afterwards is a merge of tallies.

    .. math:: n_{gc}(W) = \sum_{d \in W} n_{dgc}

    for the rows (and events, and offsets) of day d, segment g and cell c, and the days W of a window. A segment without
    rows in a window is absent from it, a day that is missing adds nothing, and a damaged or foreign file raises
    :class:`calibrant.export.document.DocumentError`. The tally of a window equals the tally of its rows, bit for bit on
    counts, so what is promised of a fit to the rows is promised of a fit to the window. Cost of a window: its cells,
    whatever the number of rows behind them.

    Parameters
    ----------
    path
        Folder of the store; made by the first :meth:`add`.
    by
        Name or names of the segment columns: text, whole numbers, booleans or dates. None: none in a new store.
    grid
        Grid of the cells. None: :data:`calibrant.tallies.SEGMENT_GRID`, about 2^10 cells, in a new store.
    kind
        What the scores are. None: probabilities, in a new store.

        A store that exists knows all three; they may be left out, and are refused where they contradict it.

    Examples
    --------
    >>> store = TallyStore("tallies", by="country")
    >>> store.add("2026-03-01", GroupedTally.from_arrays([0.2, 0.7, 0.9], [0, 1, 1], groups=["de", "fr", "de"]))
    True
    >>> store.add("2026-03-02", GroupedTally.from_arrays([0.2, 0.3], [0, 1], groups=["de", "de"]))
    True
    >>> TallyStore("tallies").window("2026-03-01", "2026-03-07")["de"].n.tolist()
    [2, 1, 1]
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        by: str | Sequence[str] | None = None,
        grid: Grid | None = None,
        kind: Kind | None = None,
    ) -> None:
        self.path = local_path(path)
        names = None if by is None else (by,) if isinstance(by, str) else tuple(by)
        if any(not isinstance(name, str) for name in names or ()):
            raise InputError(f"by={by!r} must be names of columns: a name, or a list of names")
        if grid is not None and not isinstance(grid, Grid):
            raise InputError(f"grid={grid!r} must be a Grid, such as Grid(4)")
        check_option("kind", kind, (*get_args(Kind), None))
        stored = self._stored()
        if stored is None:
            stored = _Identity(names or (), SEGMENT_GRID if grid is None else grid, kind or "probability")
        asked = _Identity(
            stored.by if names is None else names,
            stored.grid if grid is None else grid,
            stored.kind if kind is None else kind,
        )
        self._agree(asked, stored)
        self._identity = asked
        problem = asked.problem()
        if problem:
            raise InputError(problem)

    @property
    def by(self) -> tuple[str, ...]:
        """Names of the segment columns."""
        return self._identity.by

    @property
    def grid(self) -> Grid:
        """Grid of the cells."""
        return self._identity.grid

    @property
    def kind(self) -> Kind:
        """What the scores are."""
        return self._identity.kind

    # ------------------------------------------------------------------------------------------------------- writing

    def add(self, day: Day, tallies: GroupedTally | Tally, *, replace: bool = False) -> bool:
        """Keep one day's tallies; True when something was written.

        Adding what is there already changes nothing; sums of real weights count as the same up to 1e-9, since engines
        add them in any order. Other content for a day that is there (labels came late) needs
        ``replace=True``, which also mends a damaged file. The file appears whole or not at all; of two writers of
        one day at once the second is held against the first.
        """
        when = _day(day, "day")
        content = Content.of(self._segments(when, tallies))
        problem = content.problem(self.grid)
        if problem:
            raise InputError(f"the tallies of {when} cannot be kept: {problem}")
        self._check_types(when, content)
        self._claim()
        target = self._file(when)
        if target.exists() and not self._differs(when, content, replace):
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        if self._publish(lambda temporary: self._write(temporary, when, content), target, over=replace):
            return True
        return self._differs(when, content, replace=False)  # another process was first

    def add_frame(
        self,
        frame: Any,
        score: str,
        label: str,
        *,
        day: Day | None = None,
        time: str | None = None,
        replace: bool = False,
        sample_weight: str | None = None,
        weights: Weighting = "importance",
        positive: Any = None,
        unusable: Unusable = "refuse",
    ) -> list[date]:
        """Tally a frame by the store's segments, for one ``day`` or each day of the column ``time``; days written.

        The other options are those of :func:`calibrant.engine.tally`.
        """
        if (day is None) == (time is None):
            raise InputError('say which day the rows are of: day="2026-03-01", or time= the name of a column of times')
        by = list(self.by) or None
        tallied: Any = tally(
            frame,
            score,
            label,
            sample_weight=sample_weight,
            weights=weights,
            by=by,
            time=time,
            positive=positive,
            kind=self.kind,
            grid=self.grid,
            unusable=unusable,
        )
        parts = {_day(cast(Day, day), "day"): tallied} if time is None else self._by_day(tallied)
        return [when for when, part in sorted(parts.items()) if self.add(when, part, replace=replace)]

    def _by_day(self, tallies: GroupedTally) -> dict[date, GroupedTally | Tally]:
        """Tallies whose keys end with the day, apart."""
        if not self.by:
            return {_day(key, "time"): each for key, each in tallies.items()}
        parts: dict[date, dict[Any, Tally]] = {}
        for key, each in tallies.items():
            rest = key[0] if len(self.by) == 1 else key[:-1]
            parts.setdefault(_day(key[-1], "time"), {})[rest] = each
        return {when: GroupedTally(part) for when, part in parts.items()}

    def _segments(self, when: date, tallies: GroupedTally | Tally) -> dict[Key, Tally]:
        """Tallies of the segments that hold rows, on the store's grid, by plain keys in ascending order."""
        if not isinstance(tallies, GroupedTally if self.by else Tally):
            raise InputError(
                f"this store keeps tallies by {', '.join(self.by)}: pass a GroupedTally"
                if self.by
                else "this store has no segments: pass a Tally, or make it with by= the names of the segments"
            )
        given = {(): tallies} if isinstance(tallies, Tally) else dict(tallies)
        plain = {self._key(key): self._on_grid(tally) for key, tally in given.items() if len(tally)}
        if not plain:
            raise InputError(f"the tallies of {when} hold no rows: leave the day out")
        for name, values in zip(self.by, zip(*plain, strict=True), strict=True):
            kinds = {type(value) for value in values}
            if len(kinds) > 1:
                words = " and ".join(sorted(kind.__name__ for kind in kinds))
                raise InputError(f"the segments {name!r} of {when} mix {words}: bring them to one type")
        if len({tally.counts for tally in plain.values()}) > 1:
            raise InputError(f"the tallies of {when} mix counts and importance weights: tally all segments alike")
        return {key: plain[key] for key in sorted(plain)}

    def _key(self, key: Any) -> Key:
        """The segment's values as plain Python ones, one for each column of ``by``."""
        values = key if isinstance(key, tuple) and len(self.by) != 1 else (key,) if self.by else ()
        if len(values) != len(self.by):
            raise InputError(f"the segment {key!r} has {len(values)} values, but the store has by={list(self.by)}")
        plain = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
        for name, value in zip(self.by, plain, strict=True):
            if type(value) not in SEGMENT_TYPES:
                raise InputError(f"the segment {name!r} is {value!r}: use text, whole numbers, booleans or dates")
        return plain

    def _on_grid(self, tally: Tally) -> Tally:
        if tally.kind != self.kind:
            raise InputError(f"these are tallies of {tally.kind} scores, but the store holds {self.kind} scores")
        if not tally.counts and (tally.cells.rows is None or tally.cells.w2 is None):
            raise InputError("a tally of importance weights must have rows and w2: make it with Tally.from_arrays")
        if tally.grid == self.grid:
            return tally
        if tally.grid is not None and tally.grid.bits < self.grid.bits:
            raise InputError(
                f"the tallies are on a coarser grid ({tally.grid.bits} bits) than the store's ({self.grid.bits}): "
                "tally the rows again with grid=store.grid"
            )
        return tally.coarsen(self.grid)

    def _check_types(self, when: date, content: Content) -> None:
        """Segments keep the type that the store's other days have."""
        other = next((day for day in reversed(self.days) if day != when), None)
        if other is None or not self.by:
            return
        with (
            suppress(DocumentError),
            opened(self._file(other), self.by) as (file, _),
        ):  # a bad file is no hindrance here
            check_keys(content.keys[:1], self.by, file)

    def _differs(self, when: date, content: Content, replace: bool) -> bool:
        """Whether the day's file is to be written anew; other content without ``replace`` is refused."""
        try:
            same = self._read(when).same_as(content)
        except DocumentError:
            if replace:
                return True
            raise
        if not same and not replace:
            raise InputError(
                f"the store has other tallies of {when}: pass replace=True to put these in their place, "
                "if labels came late or rows were corrected"
            )
        return not same

    def _write(self, temporary: Path, when: date, content: Content) -> None:
        pa, _ = need_pyarrow()
        try:
            columns = {
                name: pa.array(values, SEGMENT_TYPES[type(values[0])].split("[")[0]).take(pa.array(content.run_of_row))
                for name, values in zip(self.by, zip(*content.keys, strict=True), strict=True)
            }
        except (UnicodeError, OverflowError, pa.ArrowException) as problem:
            raise InputError(f"a segment of {when} cannot be written: {problem}") from None
        data = sealed(
            pa.table(columns | content.columns),
            self._about(when, content.counts),
            row_group_size=ROW_GROUP,
            compression="zstd",
            use_dictionary=[*self.by, "n", "events"],
            column_encoding={"code": "DELTA_BINARY_PACKED"},
            write_page_checksum=True,  # for other readers
        )
        temporary.write_bytes(data)

    def _claim(self) -> None:
        """Write store.json, or agree with the one that is there."""
        if self._stored() is None:
            self.path.mkdir(parents=True, exist_ok=True)
            text = json.dumps(self._identity.to_dict() | {"columns": dict(COLUMNS)}, indent=1, ensure_ascii=False)
            self._publish(lambda file: file.write_text(text + "\n", encoding="utf-8"), self.path / ABOUT, over=False)
        self._agree(self._identity, self._stored() or self._identity)

    def _publish(self, write: Callable[[Path], Any], target: Path, *, over: bool) -> bool:
        """Bring a file into being whole, by way of a temporary one; False when another is there and must stay."""
        temporary = self.path / f".{target.name}-{secrets.token_hex(8)}.tmp"  # outside days: no reader sees it
        try:
            with nothing_written(target):
                write(temporary)
                with temporary.open("rb+") as file:
                    os.fsync(file.fileno())
            if not over:
                try:
                    os.link(temporary, target)
                    return True
                except FileExistsError:
                    return False
                except OSError:  # no hard links on this file system: the last of two writers wins, with a whole file
                    pass
            os.replace(temporary, target)
            return True
        finally:
            temporary.unlink(missing_ok=True)

    # ------------------------------------------------------------------------------------------------------ identity

    def _stored(self) -> _Identity | None:
        """What store.json says, or None before the first day."""
        path = self.path / ABOUT
        try:
            return _Identity.from_dict(json_object(path.read_bytes(), path), path)
        except FileNotFoundError:
            return None

    def _agree(self, asked: _Identity, stored: _Identity) -> None:
        for name, new, old in zip(asked._fields, asked, stored, strict=True):
            if new != old:
                raise InputError(f"the store {str(self.path)!r} has {name}={old!r}, not {new!r}: leave {name} out")

    def _about(self, when: date, counts: bool) -> dict[str, Any]:
        """What the metadata of a day's file must say."""
        weights = "counts" if counts else "importance"
        return self._identity.to_dict() | {"day": when.isoformat(), "weights": weights}

    def _file(self, when: date) -> Path:
        return self.path / "days" / f"day={when.isoformat()}" / FILE

    def __repr__(self) -> str:
        """Path, segments, grid and days."""
        return f"TallyStore({str(self.path)!r}, by={list(self.by)}, {self.grid}, {len(self.days)} days)"

    # ------------------------------------------------------------------------------------------------------- reading

    @property
    def days(self) -> list[date]:
        """Days that the store holds, in order."""
        found = []
        for folder in sorted((self.path / "days").glob("day=*")):
            files = [file.name for file in folder.glob("*.parquet")]
            try:
                when = date.fromisoformat(folder.name[4:])
            except ValueError:
                raise DocumentError(f"{folder} is not the folder of a day") from None
            if files and (files != [FILE] or self._file(when).parent != folder):
                raise DocumentError(f"{folder} holds other Parquet files than {FILE}: take them out of the store")
            found += [when] if files else []
        return found

    def missing(self, first: Day | None = None, last: Day | None = None) -> list[date]:
        """Days from ``first`` to ``last``, both included, that the store lacks; by default between its own ends."""
        days = self.days
        low, high = _span(days, first, last)
        every = [low + timedelta(days=step) for step in range((high - low).days + 1)]
        return sorted(set(every) - set(days))

    def window(
        self,
        first: Day | None = None,
        last: Day | None = None,
        *,
        segments: Collection[Any] | None = None,
        bits: int | None = None,
    ) -> Any:
        """Tallies of the days from ``first`` to ``last``, both included: a GroupedTally, or a Tally without segments.

        Days that the store lacks add nothing, see :meth:`missing`. ``segments`` are the keys to read; one that has no
        rows in the window is absent from the result. ``bits`` asks for a coarser grid.
        """
        days = self.days
        low, high = _span(days, first, last)
        inside = [day for day in days if low <= day <= high]
        if not inside:
            raise InputError(f"the store {str(self.path)!r} holds no day from {low} to {high}")
        wanted = self._wanted(segments)
        sums = {counts: Sums(self.grid, self.kind) for counts in (True, False)}
        types = set()
        for day in inside:
            content = self._read(day, wanted)
            sums[content.counts].add(content)
            types |= {tuple(map(type, key)) for key in content.keys[:1]}
        if len(types) > 1:
            raise DocumentError(f"the days from {low} to {high} have segments of different types")
        tallies = sums[True].tallies() + sums[False].tallies()
        ready = {key: tallies[key] if bits is None else tallies[key].coarsen(bits) for key in sorted(tallies)}
        if not self.by:
            return ready[()]
        return GroupedTally({key[0] if len(self.by) == 1 else key: tally for key, tally in ready.items()})

    def _wanted(self, segments: Collection[Any] | None) -> set[Key] | None:
        if segments is None:
            return None
        if not self.by or isinstance(segments, str):
            raise InputError("segments takes a list of keys, in a store that has segments")
        return {self._key(key) for key in segments}

    def _read(self, when: date, wanted: set[Key] | None = None) -> Content:
        """A day's content, or the wanted segments of it, after every check that can be made."""
        path = self._file(when)
        with opened(path, self.by) as (file, about):
            counts = about.get("weights") == "counts"
            if about != self._about(when, counts):
                raise DocumentError(f"{path} says it is {json.dumps(about)[:300]}, which is not its place in the store")
            names = (*self.by, *(COUNTED if counts else COLUMNS))
            if tuple(file.schema_arrow.names) != names:
                raise DocumentError(f"{path} has the columns {file.schema_arrow.names}, not {list(names)}")
            content = Content.read(file.read_row_groups(groups_with(file, self.by, wanted)), self.by)
        problem = content.problem(self.grid)
        if wanted is None and not content.keys:
            problem = "it holds no rows"
        if problem:
            raise DocumentError(f"{path} is damaged: {problem}")
        return content if wanted is None else content.only(wanted)


class _Identity(NamedTuple):
    """What all files of a store share."""

    by: tuple[str, ...]
    grid: Grid
    kind: Kind

    def problem(self) -> str | None:
        """What is wrong with it, in a sentence."""
        if (self.kind == "probability") != self.grid.unit:
            return "probabilities go on the unit grid, and other kinds on grid=Grid(low=..., high=...)"
        folded = [name.lower() for name in self.by]  # SQL engines do not tell n from N
        taken = [
            name for name in self.by if not name or name.lower() in {"day", *COLUMNS} or folded.count(name.lower()) > 1
        ]
        if taken:
            return f"by={list(self.by)} repeats a name, or takes one that the store's own columns have: {taken[0]!r}"
        return None

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        grid = {"bits": self.grid.bits, "low": float(self.grid.low), "high": float(self.grid.high)}
        return {"format": FORMAT, "kind": self.kind, "grid": grid, "by": list(self.by)}

    @classmethod
    def from_dict(cls, body: dict[str, Any], path: Path) -> _Identity:
        """Read what :meth:`to_dict` wrote; whatever is wrong ends in one error."""
        match body:
            case {"format": int(form)} if form != FORMAT:
                raise DocumentError(f"{path} has format {form}, and this version reads format {FORMAT}")
            case {
                "format": int(form),
                "kind": "probability" | "logit" | "real" as kind,
                "grid": {"bits": int(bits), "low": float(low), "high": float(high)},
                "by": [*by],
            } if all(type(name) is str for name in by) and bool not in (type(form), type(bits)):
                try:
                    identity = cls(tuple(by), Grid(bits, low, high), kind)
                except ValueError as problem:
                    raise DocumentError(f"{path} describes no grid: {problem}") from None
                if not identity.problem():
                    return identity
        raise DocumentError(f"{path} does not describe a store of tallies")


def _day(value: Any, name: str) -> date:
    """A date, of a date, ISO text, or a time at midnight."""
    plain = value.astype("datetime64[us]").item() if isinstance(value, np.datetime64) else value
    try:
        plain = datetime.fromisoformat(plain) if isinstance(plain, str) else plain
    except ValueError:
        plain = None
    if isinstance(plain, datetime):
        plain = plain.date() if plain == datetime.combine(plain, datetime.min.time(), plain.tzinfo) else None
    if not isinstance(plain, date):
        raise InputError(f"{name}={value!r} is not a day: pass a date, or text like '2026-03-01'")
    return plain


def _span(days: Sequence[date], first: Day | None, last: Day | None) -> tuple[date, date]:
    if not days and (first is None or last is None):
        raise InputError("the store holds no day yet: say first= and last=, or add a day")
    low = days[0] if first is None else _day(first, "first")
    high = days[-1] if last is None else _day(last, "last")
    if low > high:
        raise InputError(f"the window from {low} to {high} ends before it begins")
    return low, high
