"""Cross-fitting of every candidate and of their weighted average, plain and nested."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import combinations

import numpy as np

from calibrant.maps import Map
from calibrant.numerics import Floats
from calibrant.progress import progress
from calibrant.selection.blend import Judged, blend_weights
from calibrant.selection.folds import Folds
from calibrant.selection.losses import Loss, Losses, outputs_of
from calibrant.selection.original_model import Sample
from calibrant.tallies import Clusters, GroupedTally, Tally

Fit = Callable[[Tally], Map]


class Crossed:
    """Outputs of every fit on every fold, fitted without the fold, and without the fold and one other fold.

    The first ``singles`` fits are candidates, with one column of losses each. The fits at ``parts`` make up a blend,
    the last column: where a fold is evaluated, the weights of the blend come from the other folds.
    """

    def __init__(
        self, folds: Folds, fits: Sequence[Fit], singles: int, parts: Sequence[int] | None, loss: Loss
    ) -> None:
        self.folds, self.fits, self.singles, self.parts, self.loss = folds, fits, singles, parts, loss
        places = range(len(folds.parts))
        self.seen = [self._train(self._without(place)) for place in places]
        """Training rows when each fold is left out; None where there are none."""
        rest = progress(self.seen, "calibrate: folds left out")
        self.outer = [None if seen is None else self._outputs(seen, place) for place, seen in enumerate(rest)]
        self.inner = self._pairs()
        self.weights = self._weights({k: each for k, each in enumerate(self.outer) if each is not None})
        self._known = [self._weights(self._others(place)) for place in places]
        self._judged = [self._losses(place, self.outer[place], self._known[place]) for place in places]

    def flat(self) -> list[Losses]:
        """Losses by fold, for all folds that could be evaluated."""
        return _known(self._judged)

    def nested(self, choice: Callable[[Sample, Sequence[Losses]], int]) -> list[Losses]:
        """Losses by fold. First column: the reference. Second: what ``choice`` picks by the losses on other folds.

        Folds without such losses (one of two folds, the first one evaluated by walking forward) are left out.
        """
        made = []
        for place, (seen, losses) in enumerate(zip(self.seen, self._judged, strict=True)):
            inner = self._inner_losses(place)
            if losses is not None and seen is not None and inner:
                made.append(losses.only([0, choice(Sample(seen, partial(self._tested, place)), inner)]))
        return made

    def _tested(self, place: int) -> Tally | Clusters:
        """Rows that a test may use when a fold is left out: the other folds, by cluster where there are clusters."""
        if not self.folds.clusters:
            return reduce(Tally.__add__, self._without(place))
        others = range(place) if self.folds.forward else [k for k in range(len(self.folds.clusters)) if k != place]
        buckets = [each for k in others for each in self.folds.clusters[k]]
        return Clusters.of_buckets(GroupedTally(dict(enumerate(buckets))))

    def _inner_losses(self, place: int) -> list[Losses]:
        """Losses on the other folds by fits to neither; when walking forward, losses on earlier folds by their past."""
        if self.folds.forward:
            return _known(self._judged[:place])
        found = []
        others = self._others(place)
        for other, outputs in others.items():
            rest = {k: each for k, each in others.items() if k != other}
            found.append(self._losses(other, outputs, self._weights(rest, self._known[place])))
        return _known(found)

    def _others(self, place: int) -> dict[int, Floats]:
        """Outputs that the blend's weights for a fold may use: those on other folds, by fits without this fold."""
        if self.folds.forward:
            return {k: each for k, each in enumerate(self.outer[:place]) if each is not None}
        return {k: self.inner[place, k] for k in range(len(self.outer)) if (place, k) in self.inner}

    def _weights(self, outputs: dict[int, Floats], start: Floats | None = None) -> Floats:
        """Weights of the blend from outputs by fold; equal weights if there are none."""
        if self.parts is None:
            return np.zeros(0)
        if not outputs:
            return np.full(len(self.parts), 1.0 / len(self.parts))
        judged = [Judged.of(each[self.parts], self.folds.parts[k]) for k, each in outputs.items()]
        return blend_weights(Judged.joined(judged), self.loss, start)

    def _losses(self, place: int, outputs: Floats | None, weights: Floats) -> Losses | None:
        if outputs is None:
            return None
        columns = outputs[: self.singles]
        if self.parts is not None:
            columns = np.vstack([columns, np.einsum("k,kc->c", weights, outputs[self.parts])])
        buckets = self.folds.clusters[place] if self.folds.clusters else ()
        names = self.folds.names[place] if self.folds.names else None
        return Losses.of(self.folds.parts[place], buckets, columns, self.loss, names)

    def _pairs(self) -> dict[tuple[int, int], Floats]:
        """By pair of folds: outputs on the second by fits to neither. Walking forward needs none."""
        found: dict[tuple[int, int], Floats] = {}
        if self.folds.forward:
            return found
        pairs = list(combinations(range(len(self.folds.parts)), 2))
        for one, other in progress(pairs, "calibrate: pairs of folds left out"):
            seen = self._train(self._without(one, other))
            if seen is not None:
                maps = [fit(seen) for fit in self.fits]
                found[one, other] = outputs_of(maps, self.folds.parts[other])
                found[other, one] = outputs_of(maps, self.folds.parts[one])
        return found

    def _outputs(self, seen: Tally, place: int) -> Floats:
        return outputs_of([fit(seen) for fit in self.fits], self.folds.parts[place])

    def _without(self, *left_out: int) -> list[Tally]:
        parts = self.folds.parts
        if self.folds.forward:
            known = self.folds.past[left_out[0]] if self.folds.past else None
            return list(parts[: left_out[0]]) if known is None else [known]
        return [part for place, part in enumerate(parts) if place not in left_out]

    def _train(self, parts: list[Tally]) -> Tally | None:
        return reduce(Tally.__add__, parts).for_fitting() if parts else None


def _known(losses: Sequence[Losses | None]) -> list[Losses]:
    return [each for each in losses if each is not None]
