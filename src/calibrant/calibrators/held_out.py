"""Held-out losses of a calibrator by segment: the whole procedure is repeated without each fold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from calibrant.arrays import Rows
from calibrant.arrays.keys import Keys
from calibrant.calibrators.binary.base import BinaryCalibrator
from calibrant.fits.segments.counts import SegmentCells, Stages
from calibrant.numerics import Floats, expit
from calibrant.progress import progress
from calibrant.selection.folds import dependent_folds, take_rows
from calibrant.selection.losses import Loss, Losses, outputs_of, row_losses
from calibrant.selection.segments.losses import by_number, kept, random_parts
from calibrant.tallies import Tally, in_effective_rows


@dataclass(frozen=True)
class SegmentFolds:
    """Cross-validated losses of the original model, of a global map, and of that map with corrections by segment.

    Parameters
    ----------
    base
        Returns a new calibrator of the global map.
    stages
        The corrections by segment that are fitted to cells with these log-odds.
    loss, count, random_state
        Which loss, the number of folds, and the seed of random folds.
    """

    base: Callable[[], BinaryCalibrator]
    stages: Callable[[SegmentCells, Floats], Stages]
    loss: Loss
    count: int
    random_state: int

    def of_cells(self, cells: SegmentCells) -> Iterator[Losses]:
        """Losses with random folds of the cells, one fold after the other."""
        parts = random_parts(cells, self.count, self.random_state)
        for numbers, part in progress(parts if len(parts) > 1 else (), "segments: folds"):
            seen = cells.without(numbers, part)
            tally = self.base()._clipped(seen.scores())
            fitted = self.base().fit_tally(tally).map_
            x = cells.log_odds(fitted)
            stages = self.stages(seen, seen.log_odds(fitted))
            outputs = (cells.log_odds(kept(tally)), x, cells.after(x, stages))
            yield Losses.of(part, (), outputs_of([by_number(expit(each)) for each in outputs], part), self.loss)

    def of_rows(self, rows: Rows, keys: Mapping[str, Keys]) -> Iterator[Losses]:
        """The same with folds by groups or forward in time, row by row."""
        count, weights = self.count, in_effective_rows(rows).weights
        mass = np.ones(len(rows.scores)) if weights is None else weights.astype(np.float64)
        clusters = None if rows.groups is None else np.unique(rows.groups, return_inverse=True)[1]
        for train, test in progress(dependent_folds(rows, count, self.random_state), "segments: folds"):
            seen = take_rows(rows, train)
            cells = SegmentCells.of(seen, {name: Keys(each.codes[train], each.names) for name, each in keys.items()})
            tally = self.base()._clipped(Tally.from_rows(seen))
            fitted = self.base().fit_tally(tally).map_
            stages = self.stages(cells, cells.log_odds(fitted))
            after = cells.followed(fitted, stages)
            by = {name: Keys(keys[name].codes[test], keys[name].names) for name in after.columns}
            s, y = rows.scores[test], rows.labels[test]
            outputs = np.array([kept(tally).apply(s), fitted.apply(s), after.apply(s, by or None)])
            hit, miss = row_losses(outputs, self.loss)
            lines = np.where(y == 1, hit, miss)
            yield Losses.of_rows(lines, mass[test], None if clusters is None else clusters[test])
