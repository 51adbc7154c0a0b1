"""Tallies by day and segment, stored as plain Parquet that any engine can read.

The layout, under the store's path::

    store.json                            format, grid, score_type, names of the segment columns
    days/day=2026-03-01/tally.parquet     a whole day: one row per (segment, cell) that holds rows, in that order
    days/day=2026-03-02/tally-eu.parquet  the part "eu" of a day; a day is stored whole or in parts, never both

A folder per segment would mean 30,000 small files for 60 days and 500 segments; sorted row groups with statistics let a
reader skip as much. DuckDB, Polars, Spark and pandas can read ``days`` directly: ``day`` is a hive partition column.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import date
from typing import Any, cast, get_args

import numpy as np

from calibrant.arrays import ScoreType
from calibrant.arrays.columns import check_option, check_whole
from calibrant.arrays.paths import local_path
from calibrant.engine.frames import HowUnusable, tally
from calibrant.engine.selection import WeightType
from calibrant.engine.store.conflicts import DayInParts, OtherTallies, Removal, WholeDay, segments_dropped
from calibrant.engine.store.days import Day, Gaps, MissingDays, as_day, span
from calibrant.engine.store.files import ABOUT, Folder, Part, check_part
from calibrant.engine.store.identity import Identity
from calibrant.engine.store.parquet import (
    COLUMNS,
    COUNTED,
    ROW_GROUP,
    SEGMENT_TYPES,
    WEIGHTED,
    Content,
    Key,
    Sums,
    check_keys,
    groups_with,
)
from calibrant.engine.store.review import Stored, review_files
from calibrant.engine.store.sealed import MOST_CELLS, need_pyarrow, opened, sealed
from calibrant.export.errors import DocumentError
from calibrant.messages import Argument, InputError, Note, Phrase, Setting, warn
from calibrant.numerics import Grid
from calibrant.progress import progress
from calibrant.tallies import SEGMENT_GRID, GroupedTally, Tally


class TallyStore:
    r"""A store on disk of tallies by day and segment, from which any period and segment can be refitted.

    .. math:: n_{gc}(W) = \sum_{d \in W} n_{dgc}

    for the rows (and events, and offsets) of day d, segment g and cell c, and the days W of a window. A segment without
    rows in a window is absent from it, a missing day adds nothing and is reported, and a damaged or foreign file raises
    :class:`calibrant.DocumentError`. The tally of a window equals the tally of its rows, bit for bit for counts, so a
    guarantee for a fit to the rows holds for a fit to the window. The cost of a window depends on its cells, not on the
    number of rows.

    Parameters
    ----------
    path
        Folder of the store; created by the first :meth:`add`.
    by
        Name or names of the segment columns: text, integers, booleans or dates. A new store has none by default.
    grid
        Grid of the cells; by default about 2^10 cells (:data:`calibrant.tallies.SEGMENT_GRID`) in a new store.
    score_type
        What the scores are; by default probabilities in a new store.

        For an existing store, all three can be left out; values that contradict it raise an error.

    Examples
    --------
    >>> store = TallyStore("tallies", by="country")
    >>> store.add("2026-03-01", GroupedTally.from_arrays([0.2, 0.7, 0.9], [0, 1, 1], groups=["de", "fr", "de"]))
    True
    >>> store.add("2026-03-02", GroupedTally.from_arrays([0.2, 0.3], [0, 1], groups=["de", "de"]))
    True
    >>> TallyStore("tallies").window("2026-03-01", "2026-03-02")["de"].n.tolist()
    [2, 1, 1]
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        by: str | Sequence[str] | None = None,
        grid: Grid | None = None,
        score_type: ScoreType | None = None,
    ) -> None:
        self.path = local_path(path)
        self._folder = Folder(self.path)
        names = None if by is None else (by,) if isinstance(by, str) else tuple(by)
        if any(not isinstance(name, str) for name in names or ()):
            raise InputError(Setting("by", by), "must be names of columns", "pass a name, or a list of names")
        if grid is not None and not isinstance(grid, Grid):
            raise InputError(Setting("grid", grid), "must be a Grid, such as Grid(4)")
        check_option("score_type", score_type, (*get_args(ScoreType), None))
        stored = Identity.read(self.path / ABOUT)
        if stored is None:
            stored = Identity(names or (), SEGMENT_GRID if grid is None else grid, score_type or "probability")
        asked = Identity(
            stored.by if names is None else names,
            stored.grid if grid is None else grid,
            stored.score_type if score_type is None else score_type,
        )
        self._agree(asked, stored)
        self._identity = asked
        asked.check()

    @property
    def by(self) -> tuple[str, ...]:
        """Names of the segment columns."""
        return self._identity.by

    @property
    def grid(self) -> Grid:
        """Grid of the cells."""
        return self._identity.grid

    @property
    def score_type(self) -> ScoreType:
        """What the scores are."""
        return self._identity.score_type

    # ------------------------------------------------------------------------------------------------------- writing

    def add(self, day: Day, tallies: GroupedTally | Tally, *, part: str | None = None, replace: bool = False) -> bool:
        """Store the tallies of a day, or of a part of a day; True if something was written.

        Adding the same tallies again changes nothing; sums of real weights count as equal up to 1e-9, since engines
        add them in any order. Files are written atomically. If two writers add one day at the same time, the second is
        compared with the first.

        Parameters
        ----------
        day
            The day of the rows.
        tallies
            A GroupedTally by segment if the store has segments, else a Tally.
        part
            Name of a part of the day, such as a country or an hour, when several jobs write one day. New content under
            the same name replaces that part. The parts of a day are added, so no row may be in two of them. A day is
            stored whole or in parts: mixing the two is refused.
        replace
            Whether to replace a whole day that is stored with different content, because labels came late or rows were
            corrected. Without it this is an error that lists what would be lost. It also replaces a damaged file, of a
            day or a part.
        """
        when, name = as_day(day, "day"), check_part(part)
        content = Content.of(self._segments(when, tallies))
        if len(content) > MOST_CELLS:
            many = f"of {when} have {len(content):,} cells, and a file at most {MOST_CELLS:,}"
            raise InputError("tallies", many, "store the day in parts, or on a coarser grid")
        problem = content.problem(self.grid)
        if problem:
            raise InputError("tallies", f"of {when} cannot be stored: {problem}", "tally the rows again")
        self._check_types(when, name, content)
        self._claim()
        with self._folder.one_writer():
            if not self._is_new(when, name, content, replace):
                return False
            target = self._folder.file(when, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if self._folder.publish(self._bytes(when, name, content), target, over=replace or name is not None):
                return True
            return self._is_new(when, name, content, replace=False)  # another writer, not stopped by a lock, was first

    def remove(self, day: Day, *, part: str | None = None) -> bool:
        """Delete a day, or one part of it; False if it was not stored."""
        when, name = as_day(day, "day"), check_part(part)
        if Identity.read(self.path / ABOUT) is None:
            return False
        with self._folder.one_writer():
            return self._folder.remove(when, name)

    def drop_before(self, day: Day) -> list[date]:
        """Delete all days before this one, to keep a store small; the days that were deleted.

        Examples
        --------
        >>> store = TallyStore("kept")
        >>> [store.add(day, Tally.from_arrays([0.2, 0.7], [0, 1])) for day in ("2026-03-01", "2026-03-02")]
        [True, True]
        >>> [str(day) for day in store.drop_before("2026-03-02")], len(store.days)
        (['2026-03-01'], 1)
        """
        first = as_day(day, "day")
        return [when for when in self.days if when < first and self.remove(when)]

    def add_frame(
        self,
        frame: Any,
        score: str,
        label: str,
        *,
        day: Day | None = None,
        time: str | None = None,
        part: str | None = None,
        replace: bool = False,
        open_days: int = 0,
        sample_weight: str | None = None,
        weight_type: WeightType = "importance",
        positive: Any = None,
        unusable: HowUnusable = "refuse",
    ) -> list[date]:
        """Tally a frame by the store's segments and add the result; the days that were written.

        Parameters
        ----------
        frame, score, label, sample_weight, weight_type, positive, unusable
            As in :func:`calibrant.tally`.
        day
            The day of all rows; or pass ``time``.
        time
            Name of a column of dates or timestamps, from which the day of each row is taken.
        part, replace
            As in :meth:`add`.
        open_days
            Number of days whose labels may still arrive, counted back from the last day of the frame: these are
            replaced, as with ``replace``, and a different count of an older day is an error.

        Returns
        -------
        list of date
            The days that were written; none if there is no row, and so no day in ``time``.
        """
        check_whole("open_days", open_days, 0)
        if (day is None) == (time is None):
            raise InputError(
                "day",
                Phrase("or {time} must be given, and not both", time=Argument("time")),
                "pass day='2026-03-01', or time='name of a column of times'",
            )
        by = list(self.by) or None
        tallied: Any = tally(
            frame,
            score,
            label,
            sample_weight=sample_weight,
            weight_type=weight_type,
            by=by,
            time=time,
            positive=positive,
            score_type=self.score_type,
            grid=self.grid,
            unusable=unusable,
        )
        days = {as_day(cast(Day, day), "day"): tallied} if time is None else self._by_day(tallied)
        last = max(days, default=date.min)
        return [
            when
            for when, each in sorted(days.items())
            if self.add(when, each, part=part, replace=replace or (last - when).days < open_days)
        ]

    def _by_day(self, tallies: GroupedTally) -> dict[date, GroupedTally | Tally]:
        """Split tallies whose keys end with the day by day."""
        if not self.by:
            return {as_day(key, "time"): each for key, each in tallies.items()}
        days: dict[date, dict[Any, Tally]] = {}
        for key, each in tallies.items():
            rest = key[0] if len(self.by) == 1 else key[:-1]
            days.setdefault(as_day(key[-1], "time"), {})[rest] = each
        return {when: GroupedTally(segments) for when, segments in days.items()}

    def _segments(self, when: date, tallies: GroupedTally | Tally) -> dict[Key, Tally]:
        """Tallies of the segments with rows, on the store's grid, by plain keys in ascending order."""
        if not isinstance(tallies, GroupedTally if self.by else Tally):
            raise InputError(
                "tallies",
                f"must be a GroupedTally by {', '.join(self.by)}, the segments of the store"
                if self.by
                else "must be a Tally, because this store has no segments",
                None if self.by else Phrase("make the store with {by}, the names of the segments", by=Argument("by")),
            )
        given = {(): tallies} if isinstance(tallies, Tally) else dict(tallies)
        plain = {self._key(key): self._on_grid(tally) for key, tally in given.items() if len(tally)}
        if not plain:
            raise InputError("tallies", f"of {when} hold no rows", "leave the day out")
        for name, values in zip(self.by, zip(*plain, strict=True), strict=True):
            kinds = {type(value) for value in values}
            if len(kinds) > 1:
                words = " and ".join(sorted(kind.__name__ for kind in kinds))
                raise InputError("tallies", f"of {when} mix {words} in the segments {name!r}", "bring them to one type")
        if len({tally.counts for tally in plain.values()}) > 1:
            fix = "use one weight_type for all segments"
            raise InputError("tallies", f"of {when} mix frequency and importance weights", fix)
        return {key: plain[key] for key in sorted(plain)}

    def _key(self, key: Any) -> Key:
        """The segment's values as plain Python ones, one for each column of ``by``."""
        values = key if isinstance(key, tuple) and len(self.by) != 1 else (key,) if self.by else ()
        if len(values) != len(self.by):
            raise InputError(
                "segments",
                f"must be named by {len(self.by)} values, since the store has by={list(self.by)}, got {key!r}",
            )
        plain = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
        for name, value in zip(self.by, plain, strict=True):
            if type(value) not in SEGMENT_TYPES:
                raise InputError("segments", f"must be text, integers, booleans or dates, got {value!r} for {name!r}")
        return plain

    def _on_grid(self, tally: Tally) -> Tally:
        if tally.score_type != self.score_type:
            raise InputError(
                "tallies", f"must be of {self.score_type} scores, as in the store, got {tally.score_type} scores"
            )
        if not tally.counts and any(getattr(tally.cells, name) is None for name in WEIGHTED):
            raise InputError(
                "tallies", f"of importance weights must have {', '.join(WEIGHTED)}", "make them with Tally.from_arrays"
            )
        if tally.grid == self.grid:
            return tally
        if tally.grid is not None and tally.grid.bits < self.grid.bits:
            raise InputError(
                "tallies",
                f"are on a coarser grid ({tally.grid.bits} bits) than the store's ({self.grid.bits})",
                "tally the rows again with grid=store.grid",
            )
        return tally.coarsen(self.grid)

    def _check_types(self, when: date, part: Part, content: Content) -> None:
        """Refuse segments whose type differs from that in the store's other files."""
        listed = self._folder.listed()
        others = [(day, name) for day in listed for name in listed[day] if (day, name) != (when, part)]
        if not others or not self.by:
            return
        file = self._folder.file(*others[-1])
        with suppress(DocumentError), opened(file, self.by) as (opened_file, _):  # a damaged file does not matter here
            check_keys(content.keys[:1], self.by, opened_file)

    def _is_new(self, when: date, part: Part, content: Content, replace: bool) -> bool:
        """Whether a file must be written; refused if it would lose rows or count them twice."""
        stored = self._folder.parts(when)
        self._refuse_mixing(when, part, stored)
        if part not in stored:
            return True
        try:
            there = self._read(when, part)
        except DocumentError:
            if replace:
                return True
            raise
        if there.same_as(content):
            return False
        kept = set(content.keys)
        lost = self._plain({key: rows for key, rows in there.rows_by_segment.items() if key not in kept})
        if part is None and not replace:
            raise OtherTallies(self._removal(when), there.size, content.size, lost)
        if lost and part is None:
            warn(segments_dropped(str(when), {str(segment): rows for segment, rows in lost.items()}))
        return True

    def _refuse_mixing(self, when: date, part: Part, stored: list[Part]) -> None:
        """Refuse a day both whole and in parts, and names of parts that differ only in case."""
        if part is None and stored not in ([], [None]):
            raise DayInParts(self._removal(when), {str(name): self._read(when, name).rows for name in stored})
        if part is not None and stored == [None]:
            raise WholeDay(self._removal(when), part, self._read(when, None).size)
        alike = [name for name in stored if part is not None and name != part and str(name).lower() == part.lower()]
        if alike:
            raise InputError(
                Setting("part", part),
                f"differs from the stored part {alike[0]!r} of {when} only in upper and lower case, which not every "
                "file system distinguishes",
                "use one name",
            )

    def _removal(self, when: date) -> Removal:
        return Removal(self._folder.day(when), when)

    def _bytes(self, when: date, part: Part, content: Content) -> bytes:
        """The file of a day or a part."""
        pa, _ = need_pyarrow()
        try:
            columns = {
                name: pa.array(values, SEGMENT_TYPES[type(values[0])].split("[")[0]).take(pa.array(content.run_of_row))
                for name, values in zip(self.by, zip(*content.keys, strict=True), strict=True)
            }
        except (UnicodeError, OverflowError, pa.ArrowException) as problem:
            why = f"of {when} have a segment that cannot be written ({problem})"
            raise InputError("tallies", why, "rename it") from None
        return sealed(
            pa.table(columns | content.columns),
            self._about(when, part, content.counts),
            row_group_size=ROW_GROUP,
            compression="zstd",
            use_dictionary=[*self.by, "n", "events"],
            column_encoding={"code": "DELTA_BINARY_PACKED"},
            write_page_checksum=True,  # for other readers
        )

    def _claim(self) -> None:
        """Write store.json, or check that it agrees with an existing one."""
        about = self.path / ABOUT
        if Identity.read(about) is None:
            self.path.mkdir(parents=True, exist_ok=True)
            text = json.dumps(self._identity.to_dict() | {"columns": dict(COLUMNS)}, indent=1, ensure_ascii=False)
            self._folder.publish(f"{text}\n".encode(), about, over=False)
        self._agree(self._identity, Identity.read(about) or self._identity)

    # ------------------------------------------------------------------------------------------------------ identity

    def _agree(self, asked: Identity, stored: Identity) -> None:
        for name, new, old in zip(asked._fields, asked, stored, strict=True):
            if new != old:
                raise InputError(
                    Setting(name, new),
                    f"contradicts the store {str(self.path)!r}, which has {old!r}",
                    Phrase("leave {name} out", name=Argument(name)),
                )

    def _about(self, when: date, part: Part, counts: bool) -> dict[str, Any]:
        """The metadata that a file must have."""
        weight_type = "frequency" if counts else "importance"
        return self._identity.to_dict() | {"day": when.isoformat(), "part": part, "weight_type": weight_type}

    def __repr__(self) -> str:
        """Path, segments, grid and days."""
        return f"TallyStore({str(self.path)!r}, by={list(self.by)}, {self.grid}, {len(self.days)} days)"

    # ------------------------------------------------------------------------------------------------------- reading

    @property
    def days(self) -> list[date]:
        """Stored days, whole or in parts, in order."""
        return list(self._folder.listed())

    def parts(self, day: Day) -> list[str]:
        """Names of the stored parts of a day; empty for a day that is stored whole, or not at all."""
        return [name for name in self._folder.parts(as_day(day, "day")) if name is not None]

    def missing(self, first: Day | None = None, last: Day | None = None) -> list[date]:
        """Days from ``first`` to ``last``, both included, that are not stored; by default the store's whole period."""
        listed = self._folder.listed()
        return list(Gaps.of(listed, *span(list(listed), first, last)).days)

    def review(self, first: Day | None = None, last: Day | None = None) -> tuple[Note, ...]:
        """What is unusual about the days from ``first`` to ``last``, both included; empty if nothing is.

        Days and parts that are missing; days with less than half or more than twice the median rows of the others;
        counts that are all multiples of one number, as after counting a file twice; identical counts under two days or
        parts; and segments whose names differ only in upper and lower case or in spaces.

        Parameters
        ----------
        first, last
            Days, both included; by default the first and last day of the store.

        Returns
        -------
        tuple of Note
            Each prints as a sentence and has a ``code``.

        Notes
        -----
        These are checks of plausibility, without a guarantee. Cost: every file of the window is read once.

        Examples
        --------
        >>> store = TallyStore("reviewed", by="country")
        >>> for day, name in (("2026-03-01", "DE"), ("2026-03-02", "de")):
        ...     _ = store.add(day, GroupedTally.from_arrays([0.2, 0.7], [0, 1], groups=[name, name]))
        >>> [note.code for note in store.review()]
        ['renamed-segments']
        """
        listed = self._folder.listed()
        low, high = span(list(listed), first, last)
        inside = [(day, part) for day, parts in listed.items() if low <= day <= high for part in parts]
        files = [Stored.of(day, part, self._read(day, part)) for day, part in inside]
        gaps = Gaps.of(listed, low, high)
        return (*((gaps.note(str(self.path)),) if gaps else ()), *review_files(files))

    def window(
        self,
        first: Day | None = None,
        last: Day | None = None,
        *,
        segments: Collection[Any] | None = None,
        bits: int | None = None,
        require_all_days: bool = False,
    ) -> Any:
        """Sum of the tallies from ``first`` to ``last``: a GroupedTally, or a Tally in a store without segments.

        Parameters
        ----------
        first, last
            Days, both included; by default the first and last day of the store.
        segments
            Segments to read, by default all; a segment without rows in the window is absent from the result.
        bits
            Bits of a coarser grid.
        require_all_days
            Whether a missing day is an error; so is a missing part of a day, if another day of the window has a part of
            this name. Otherwise a :class:`calibrant.CalibrantWarning` lists what is missing and is not counted; see
            also :meth:`missing`.
        """
        listed = self._folder.listed()
        low, high = span(list(listed), first, last)
        inside = [(day, part) for day, parts in listed.items() if low <= day <= high for part in parts]
        if not inside:
            ends = Setting("first", str(low)), Setting("last", str(high))
            problem = Phrase("and {last} select no day of the store {path!r}", last=ends[1], path=str(self.path))
            fix = f"it has days from {min(listed)} to {max(listed)}" if listed else "it is empty"
            raise InputError(ends[0], problem, fix)
        wanted = self._wanted(segments)
        gaps = Gaps.of(listed, low, high)
        if gaps and require_all_days:
            raise MissingDays(str(self.path), gaps)
        if gaps:
            warn(gaps.note(str(self.path)))
        sums = {counts: Sums(self.grid, self.score_type) for counts in (True, False)}
        types = set()
        for day, part in progress(inside, f"store {self.path}: files"):
            content = self._read(day, part, wanted)
            sums[content.counts].add(content)
            types |= {tuple(map(type, key)) for key in content.keys[:1]}
        if len(types) > 1:
            raise DocumentError(self.path, f"has segments of different types from {low} to {high}")
        tallies = sums[True].tallies() + sums[False].tallies()
        ready = {key: tallies[key] if bits is None else tallies[key].coarsen(bits) for key in sorted(tallies)}
        return GroupedTally(self._plain(ready), self.by) if self.by else ready[()]

    def _plain(self, by_key: dict[Key, Any]) -> dict[Any, Any]:
        """The same with keys as users write them: a single value if there is one segment column."""
        return {key[0] if len(self.by) == 1 else key: value for key, value in by_key.items()}

    def _wanted(self, segments: Collection[Any] | None) -> set[Key] | None:
        if segments is None:
            return None
        if not self.by or isinstance(segments, str):
            raise InputError("segments", "must be a list of keys, in a store with segments")
        return {self._key(key) for key in segments}

    def _read(self, when: date, part: Part, wanted: set[Key] | None = None) -> Content:
        """Content of a file, or its wanted segments, after all checks."""
        path = self._folder.file(when, part)
        with opened(path, self.by) as (file, about):
            counts = about.get("weight_type") == "frequency"
            if about != self._about(when, part, counts):
                raise DocumentError(path, f"is in the wrong place of the store: it contains {json.dumps(about)[:300]}")
            names = (*self.by, *(COUNTED if counts else COLUMNS))
            if tuple(file.schema_arrow.names) != names:
                raise DocumentError(path, f"has the columns {file.schema_arrow.names}, not {list(names)}")
            content = Content.read(file.read_row_groups(groups_with(file, self.by, wanted)), self.by)
        problem = content.problem(self.grid)
        if wanted is None and not content.keys:
            problem = "it holds no rows"
        if problem:
            raise DocumentError(path, f"is damaged: {problem}")
        return content if wanted is None else content.only(wanted)
