"""Scores that pass through a calibration before they are judged, and whether it was fitted to the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Kind, Rows
from calibrant.arrays.keys import Keys
from calibrant.calibration import BY_SEGMENT, Calibration, as_calibration
from calibrant.guarantees.overlap import Overlap
from calibrant.maps import Map
from calibrant.maps.base import needed_columns
from calibrant.messages import Argument, InputError, Note, Phrase, Setting, note
from calibrant.selection.folds import FOLDS, random_folds
from calibrant.tallies import GroupedTally, Tally
from calibrant.verdict.evidence import NOT_SEEN, Columns, Seen, Unseen

segments_not_crossfitted = note(
    "segments-not-crossfitted",
    "a map by segment is not cross-fitted here, as each part would need its own choice of segments: "
    "the calibrator's before_ and after_ are losses on {nouns.rows} that it had not seen",
)
rows_without_probability = note(
    "rows-without-probability", "{left_out:,} of {n:,} {nouns.rows} have no probability and are left out"
)


@dataclass(frozen=True)
class Through:
    """A calibration, and the calibrator that can be fitted anew, where there is one."""

    calibration: Calibration
    calibrator: Any = None

    @classmethod
    def of(cls, given: Any) -> Through:
        """From a fitted calibrator, a calibration, a classifier that holds one, or a map."""
        calibration = as_calibration(given)
        again = hasattr(given, "fit_tally") and hasattr(given, "get_params")
        return cls(calibration, given if again and not _by_segment(calibration) else None)

    def kind(self, kind: Kind | None) -> Kind:
        """What the scores are: what the calibration takes."""
        if kind is not None and kind != self.calibration.kind:
            raise InputError(
                Setting("kind", kind), f"is not what the calibration takes, {self.calibration.kind!r}", "leave it out"
            )
        return cast(Kind, self.calibration.kind)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of groups that the map needs beside the scores."""
        return self.calibration.map.columns

    def beside(self, by: Any) -> dict[str, Any]:
        """The columns of groups of the map among the segments of arrays; a column without a name is the one needed."""
        if len(self.columns) == 1 and by is not None and not isinstance(by, Mapping):
            by = by if (name := getattr(by, "name", None)) is None else {name: by}
        return needed_columns(self.calibration.map, by, "by") if self.columns else {}

    # -------------------------------------------------------------------------------------------------------- rows

    def rows(
        self, rows: Rows, columns: Columns, groups: Mapping[str, Keys], random_state: int
    ) -> tuple[Rows, Columns, Seen]:
        """Rows of calibrated probabilities with their columns; cross-fitted where the map has seen all of them.

        ``groups`` are the columns that the map needs. Rows that no map can be fitted for, the earliest in time, are
        left out.
        """
        judged = Tally.from_rows(rows)
        overlap = self._overlap(judged)
        again = self._crossfitted(rows, random_state) if overlap is not None and overlap.whole else None
        seen = self._seen(judged, overlap, again is not None)
        if again is None:
            again = self.calibration.map.apply(rows.scores, groups)
        kept = np.isfinite(again)
        if not kept.any():
            raise InputError(
                "calibration", "gives no row a probability", "check that its groups are those of these rows"
            )
        notes = (*rows.other_notes, *_left_out(kept))
        if overlap is not None and overlap.whole and _by_segment(self.calibration):
            notes += (segments_not_crossfitted(),)
        made = Rows(
            scores=np.asarray(again[kept], dtype=np.float64),
            labels=rows.labels[kept],
            weights=None if rows.weights is None else rows.weights[kept],
            counts=rows.counts,
            groups=None if rows.groups is None else rows.groups[kept],
            time=None if rows.time is None else rows.time[kept],
            kind="probability",
            other_notes=notes,
        )
        return made, {name: column[kept] for name, column in columns.items()}, seen

    def _crossfitted(self, rows: Rows, random_state: int) -> NDArray[Any] | None:
        if self.calibrator is None:
            return None
        from calibrant.calibrators.crossfit import crossfit  # here, so that verdicts load no scikit-learn

        rarer = int(min(rows.labels.sum(), len(rows.labels) - rows.labels.sum()))
        order = np.lexsort((rows.labels, rows.scores))  # so that parts do not depend on the order of the rows
        name, apart = ("time", rows.time) if rows.groups is None else ("groups", rows.groups)
        side: dict[str, Any] = {name: None if apart is None else apart[order]}
        out = np.full(len(order), np.nan)
        try:
            out[order] = crossfit(
                self.calibrator,
                rows.scores[order],
                rows.labels[order],
                None if rows.weights is None else rows.weights[order],
                cv=max(min(FOLDS, rarer), 2) if apart is None else FOLDS,
                weights="counts" if rows.counts else "importance",
                kind=rows.kind,
                random_state=random_state,
                **side,
            )
        except InputError:  # too few rows of a class, groups or moments to set some apart
            return None
        return out

    # ----------------------------------------------------------------------------------------------------- tallies

    def tallies(
        self, given: Tally | GroupedTally, random_state: int
    ) -> tuple[Tally | GroupedTally, tuple[Tally, ...], Seen]:
        """The tally of calibrated probabilities, its random parts where they were cross-fitted, and what is known."""
        if self.columns:
            raise InputError(
                "calibration",
                f"needs the column {self.columns[0]!r} beside the scores, which a tally does not hold",
                Phrase("pass arrays with {by}, or a frame", by=Argument("by")),
            )
        whole = given.total() if isinstance(given, GroupedTally) else given
        if whole.kind != self.calibration.kind:
            raise InputError(
                "scores",
                f"is a tally of {whole.kind} scores, and the calibration takes {self.calibration.kind}",
                Phrase("count them with {kind}", kind=Setting("kind", self.calibration.kind)),
            )
        overlap = self._overlap(whole)
        seen = self._seen(whole, overlap)
        if isinstance(given, GroupedTally):
            return (
                GroupedTally({key: _mapped(each, self.calibration.map) for key, each in given.items()}),
                (),
                seen,
            )
        parts: tuple[Tally, ...] = ()
        if overlap is not None and overlap.whole and self.calibrator is not None and given.counts:
            parts = self._parts(random_folds(given, random_state))
        if parts:
            return reduce(Tally.__add__, parts), parts, replace(seen, crossfitted=True)
        return _mapped(given, self.calibration.map), (), seen

    def _parts(self, folds: tuple[Tally, ...]) -> tuple[Tally, ...]:
        from sklearn.base import clone  # here, so that verdicts load no scikit-learn

        others = [[fold for other, fold in enumerate(folds) if other != place] for place in range(len(folds))]
        if len(folds) < 2:
            return ()
        fitted = [clone(self.calibrator).fit_tally(reduce(Tally.__add__, rest)).map_ for rest in others]
        return tuple(_mapped(fold, each) for fold, each in zip(folds, fitted, strict=True))

    def _overlap(self, judged: Tally) -> Overlap | None:
        data = self.calibration.provenance
        return None if data is None else data.overlap(judged)

    def _seen(self, judged: Tally, overlap: Overlap | None, crossfitted: bool = False) -> Seen:
        if overlap is not None:
            return Seen(overlap.share, crossfitted)
        data = self.calibration.provenance
        if data is None:  # a map that says nothing about its rows
            return NOT_SEEN
        gridded = not judged.resolution == data.resolution == "exact"
        return Seen(unseen=Unseen.GRID if gridded else Unseen.TIES)


def _by_segment(calibration: Calibration) -> bool:
    """Whether a fit anew would need the segments, even where the map came to need the score alone."""
    data = calibration.provenance
    return bool(calibration.map.columns) or (data is not None and data.method == BY_SEGMENT)


def _mapped(tally: Tally, fitted: Map) -> Tally:
    probabilities = np.asarray(fitted.apply(tally.scores), dtype=np.float64)
    plain = replace(tally.cells, keys=probabilities, offset=None, scores=None)
    return Tally(plain.merged(probabilities, None), counts=tally.counts, whole=tally.whole)


def _left_out(kept: NDArray[np.bool_]) -> tuple[Note, ...]:
    missing = int(len(kept) - kept.sum())
    return (rows_without_probability(missing, len(kept)),) if missing else ()
