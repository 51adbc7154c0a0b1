"""Calibrate scores before they are checked, and find out whether the map was fitted to the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Rows, ScoreType
from calibrant.arrays.keys import Keys, read_keys
from calibrant.calibration import BY_SEGMENT, Calibration, as_calibration
from calibrant.guarantees.overlap import Overlap
from calibrant.maps import Map, TreeMap
from calibrant.maps.base import needed_columns
from calibrant.messages import Argument, InputError, Note, Phrase, Setting, note
from calibrant.numerics import Floats
from calibrant.reading import ONE_SEGMENT
from calibrant.selection.folds import FOLDS, random_folds
from calibrant.tallies import GroupedTally, Tally
from calibrant.verdict.input.evidence import NOT_SEEN, Columns, Seen, Unseen

segments_not_crossfitted = note(
    "segments-not-crossfitted",
    "maps by segment are not cross-validated here, because each fold would need its own choice of segments: see the "
    "calibrator's before_ and after_, which are losses on held-out {nouns.rows}",
)
rows_without_probability = note(
    "rows-without-probability", "{left_out:,} of {n:,} {nouns.rows} get no probability from the map and are left out"
)


@dataclass(frozen=True)
class Through:
    """A calibration, and its calibrator if that can be refitted."""

    calibration: Calibration
    calibrator: Any = None

    @classmethod
    def of(cls, given: Any) -> Through:
        """From a fitted calibrator, a calibration, a calibrated classifier or a map."""
        calibration = as_calibration(given)
        again = hasattr(given, "fit_tally") and hasattr(given, "get_params") and not _is_tree(calibration)
        return cls(calibration, given if again and not _by_segment(calibration) else None)

    def kind(self, score_type: ScoreType | None) -> ScoreType:
        """The score type that the calibration takes."""
        if score_type is not None and score_type != self.calibration.score_type:
            raise InputError(
                Setting("score_type", score_type),
                f"does not match the calibration, which takes {self.calibration.score_type!r}",
                "leave it out",
            )
        return cast(ScoreType, self.calibration.score_type)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of segments or features that the map needs in addition to the scores."""
        return self.calibration.map.columns

    def beside(self, by: Any) -> dict[str, Any]:
        """The segment columns of the map, taken from ``by``; a column without a name is the one needed."""
        if by is not None and set(by) == {ONE_SEGMENT} and ONE_SEGMENT not in self.columns:
            by = by[ONE_SEGMENT]
        return needed_columns(self.calibration.map, by, "by") if self.columns else {}

    # -------------------------------------------------------------------------------------------------------- rows

    def rows(
        self, rows: Rows, columns: Columns, groups: Mapping[str, Keys | Floats], random_state: int
    ) -> tuple[Rows, Columns, Seen]:
        """Rows of calibrated probabilities with their columns; cross-fitted if the map was fitted to all of them.

        ``groups`` are the columns that the map needs. Rows without earlier rows to fit a map to (with time) are left
        out.
        """
        judged = Tally.from_rows(rows)
        overlap = self._overlap(judged)
        again = self._crossfitted(rows, random_state) if overlap is not None and overlap.whole else None
        seen = self._seen(judged, overlap, again is not None)
        if again is None:
            again = self.calibration.map.apply(rows.scores, groups)
        kept = np.isfinite(again)
        if not kept.any():
            raise _no_probability()
        notes = (*rows.other_notes, *_left_out(kept))
        if overlap is not None and overlap.whole and _by_segment(self.calibration) and not _is_tree(self.calibration):
            notes += (segments_not_crossfitted(),)
        made = Rows(
            scores=np.asarray(again[kept], dtype=np.float64),
            labels=rows.labels[kept],
            weights=None if rows.weights is None else rows.weights[kept],
            counts=rows.counts,
            groups=None if rows.groups is None else rows.groups[kept],
            time=None if rows.time is None else rows.time[kept],
            score_type="probability",
            other_notes=notes,
            fractional=rows.fractional,
        )
        return made, {name: column[kept] for name, column in columns.items()}, seen

    def _crossfitted(self, rows: Rows, random_state: int) -> NDArray[Any] | None:
        if self.calibrator is None:
            return None
        from calibrant.calibrators.crossfit import crossfit  # imported here: it needs scikit-learn

        minority = int(min(rows.labels.sum(), len(rows.labels) - rows.labels.sum()))
        order = np.lexsort((rows.labels, rows.scores))  # so that folds do not depend on the order of the rows
        name, apart = ("time", rows.time) if rows.groups is None else ("groups", rows.groups)
        side: dict[str, Any] = {name: None if apart is None else apart[order]}
        out = np.full(len(order), np.nan)
        try:
            out[order] = crossfit(
                self.calibrator,
                rows.scores[order],
                rows.labels[order],
                None if rows.weights is None else rows.weights[order],
                cv=max(min(FOLDS, minority), 2) if apart is None else FOLDS,
                weight_type="frequency" if rows.counts else "importance",
                score_type=rows.score_type,
                random_state=random_state,
                **side,
            )
        except InputError:  # too few minority-class rows, groups or timestamps for folds
            return None
        return out

    # ----------------------------------------------------------------------------------------------------- tallies

    def tallies(
        self, given: Tally | GroupedTally, random_state: int
    ) -> tuple[Tally | GroupedTally, tuple[Tally, ...], Seen]:
        """The tally of calibrated probabilities, its folds if cross-fitted, and what is known about the overlap."""
        there = given.columns if isinstance(given, GroupedTally) else ()
        absent = [name for name in self.columns if name not in there or name in self.calibration.map.numbers]
        if absent:
            count = Phrase("count by this column, or pass arrays with {by}, or a frame", by=Argument("by"))
            raise InputError("calibration", f"needs the column {absent[0]!r}, which the tally does not contain", count)
        whole = given.total() if isinstance(given, GroupedTally) else given
        if whole.score_type != self.calibration.score_type:
            raise InputError(
                "scores",
                f"is a tally of {whole.score_type} scores, and the calibration takes {self.calibration.score_type}",
                Phrase(
                    "make the tally with {score_type}", score_type=Setting("score_type", self.calibration.score_type)
                ),
            )
        overlap = self._overlap(whole)
        seen = self._seen(whole, overlap)
        if isinstance(given, GroupedTally):
            return self._by_group(given), (), seen
        parts: tuple[Tally, ...] = ()
        if overlap is not None and overlap.whole and self.calibrator is not None and given.counts:
            parts = self._parts(random_folds(given, random_state))
        if parts:
            return reduce(Tally.__add__, parts), parts, replace(seen, crossfitted=True)
        return mapped(given, self.calibration.map), (), seen

    @staticmethod
    def left_out(before: Tally | GroupedTally, after: Tally | GroupedTally) -> tuple[Note, ...]:
        """A note on rows that the calibration gives no probability."""
        n, kept = (float((each.total() if isinstance(each, GroupedTally) else each).total) for each in (before, after))
        return left_out(n, kept)

    def _by_group(self, given: GroupedTally) -> GroupedTally:
        """Tallies of calibrated probabilities, each by the map of its own segment; those without one are left out."""
        keys = {name: values for name, values in given.keys_by_column().items() if name in self.columns}
        made = {}
        for place, (key, tally) in enumerate(given.items()):
            columns = {name: read_keys([values[place]] * len(tally.n), "by") for name, values in keys.items()}
            made[key] = mapped(tally, self.calibration.map, columns)
        kept = {key: tally for key, tally in made.items() if np.isfinite(tally.scores).all()}
        if not kept:
            raise _no_probability()
        return GroupedTally(kept, given.columns)

    def _parts(self, folds: tuple[Tally, ...]) -> tuple[Tally, ...]:
        from sklearn.base import clone  # imported here: it needs scikit-learn

        others = [[fold for other, fold in enumerate(folds) if other != place] for place in range(len(folds))]
        if len(folds) < 2:
            return ()
        fitted = [clone(self.calibrator).fit_tally(reduce(Tally.__add__, rest)).map_ for rest in others]
        return tuple(mapped(fold, each) for fold, each in zip(folds, fitted, strict=True))

    def _overlap(self, judged: Tally) -> Overlap | None:
        data = self.calibration.provenance
        return None if data is None else data.overlap(judged)

    def _seen(self, judged: Tally, overlap: Overlap | None, crossfitted: bool = False) -> Seen:
        if overlap is not None:
            return Seen(overlap.share, crossfitted)
        data = self.calibration.provenance
        if data is None:  # a map without provenance
            return NOT_SEEN
        gridded = not judged.resolution == data.resolution == "exact"
        return Seen(unseen=Unseen.GRID if gridded else Unseen.TIES)


def _by_segment(calibration: Calibration) -> bool:
    """Whether a refit would need the segments, even if the fitted map needs only the score."""
    data = calibration.provenance
    return bool(calibration.map.columns) or (data is not None and data.method in BY_SEGMENT)


def _is_tree(calibration: Calibration) -> bool:
    """Whether a refit would need features, even if no feature splits the fitted tree."""
    return isinstance(calibration.map, TreeMap)


def _no_probability() -> InputError:
    fix = "check that these rows have the segments it was fitted to"
    return InputError("calibration", "gives no row a probability", fix)


def mapped(tally: Tally, fitted: Map, columns: Mapping[str, Keys | Floats] | None = None) -> Tally:
    """The tally of the probabilities that a map gives."""
    probabilities = np.asarray(fitted.apply(tally.scores, columns or {}), dtype=np.float64)
    plain = replace(tally.cells, keys=probabilities, offset=None, scores=None)
    return Tally(plain.merged(probabilities, None), counts=tally.counts, whole=tally.whole)


def _left_out(kept: NDArray[np.bool_]) -> tuple[Note, ...]:
    return left_out(len(kept), float(kept.sum()))


def left_out(n: float, kept: float) -> tuple[Note, ...]:
    """A note on rows that get no probability, if there are any."""
    return (rows_without_probability(round(n - kept), round(n)),) if kept < n else ()
