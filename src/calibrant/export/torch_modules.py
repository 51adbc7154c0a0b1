"""Maps as modules of torch, differentiable where the map is.

Numbers are buffers: ``module.to(device)`` moves them. They stay in double precision, also after ``module.half()``, and
results are rounded once at the end, as in ``apply``. Steps have a gradient of zero, and so has a score beyond the ends
of a map. ``torch.jit.script`` reads the methods, so constants are arguments and types are plain.
"""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

import numpy as np

from calibrant.arrays.score_types import PROBABILITY_ENDS
from calibrant.export.kinds import Rows, proof_rows
from calibrant.export.proof import compare
from calibrant.maps import (
    LARGEST,
    BetaMap,
    ComposeMap,
    IdentityMap,
    LogitAffineMap,
    Map,
    MulticlassMap,
    PerClassMap,
    PiecewiseLinearMap,
    SoftmaxMap,
    StepMap,
    TopMap,
)
from calibrant.maps.classes import LARGEST_LOGIT
from calibrant.messages import InputError, MissingPackage
from calibrant.numerics import LOG_ODDS_LIMIT

try:
    import torch
except ImportError:  # the classes below are then never built
    torch = None  # type: ignore[assignment,unused-ignore]

Module: Any = object if torch is None else torch.nn.Module
Tensor: Any = Any if torch is None else torch.Tensor


def exported(method: Any) -> Any:
    """A method that ``torch.jit.script`` keeps besides ``forward``."""
    return method if torch is None else torch.jit.export(method)


def to_torch(map_: Map, *, bounded: bool) -> Any:
    """The map as a ``torch.nn.Module``, compared with ``apply`` on the scores of every export."""
    if torch is None:
        raise MissingPackage("a torch module", "torch", "torch")
    module = CalibratedModule(map_, bounded)
    rows = proof_rows(map_)
    if isinstance(map_, MulticlassMap) and not bounded:
        rows = Rows(rows.scores[~np.isinf(rows.scores).any(axis=1)])
    with torch.no_grad():
        found = module(torch.from_numpy(rows.scores)).numpy()
    labels = None
    if isinstance(map_, TopMap):
        codes = module.labels(torch.from_numpy(rows.scores)).numpy()
        scores = rows.as_read().scores if bounded else rows.scores
        labels = np.where(np.isnan(scores).any(axis=1, keepdims=True), -1, codes)
    compare(map_, rows, found, f"torch {torch.__version__}", labels, bounded=bounded)
    return module


class CalibratedModule(Module):  # type: ignore[misc]
    """From a tensor of scores to probabilities in its type: elementwise, or from rows of class scores to rows.

    Half precision is read exactly and gives float32. NaN gives NaN, in the whole row for several classes; so does a
    number that is not a probability, if scores are probabilities (``bounded``).
    """

    def __init__(self, map_: Map, bounded: bool) -> None:
        super().__init__()
        self.low, self.high = PROBABILITY_ENDS if bounded else (-math.inf, math.inf)
        self.bounded = bounded
        self.function = _module(map_)
        self.by_row = isinstance(map_, MulticlassMap)
        self.ranks = map_.ranks if isinstance(map_, TopMap) else 0

    def forward(self, scores: Tensor) -> Tensor:
        """Probabilities of a tensor of scores."""
        given = scores.double()
        missing = torch.isnan(given) | (given < self.low) | (given > self.high)
        out = self.function(torch.clamp(given, 0.0, 1.0) if self.bounded else given)
        if self.by_row:
            missing = missing.any(dim=-1, keepdim=True)
        out = torch.where(missing, torch.full_like(out, float("nan")), out)
        return out.to(torch.float64 if scores.dtype == torch.float64 else torch.float32)

    @exported
    def labels(self, scores: Tensor) -> Tensor:
        """Columns of the classes to which the probabilities of a map of top classes refer."""
        return _ranked(torch.clamp(scores, 0.0, 1.0) if self.bounded else scores, self.ranks)


@singledispatch
def _module(map_: Map) -> Any:
    raise InputError(
        "map", f"of kind {map_.kind!r} has no torch module", "export it with to_onnx, or use the map of one group"
    )


class _Numbers(Module):  # type: ignore[misc]
    """A module with numbers as buffers, which keep their precision: 1e-300 is 0 in float32."""

    def __init__(self, **numbers: Any) -> None:
        super().__init__()
        for name, value in numbers.items():
            self.register_buffer(name, torch.tensor(np.asarray(value, dtype=np.float64)))

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        exact = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, moved in self._buffers.items():
            self._buffers[name] = exact[name].to(moved.device)
        return self


def _expit(u: Tensor, most: float = LOG_ODDS_LIMIT) -> Tensor:
    return 1.0 / (1.0 + torch.exp(-torch.clamp(u, -most, most)))


def _held(s: Tensor, most: float = LARGEST) -> Tensor:
    return torch.clamp(s, -most, most)


def _held_logits(z: Tensor, most: float = LARGEST_LOGIT) -> Tensor:
    return torch.clamp(z, -most, most)


class _Identity(Module):  # type: ignore[misc]
    def forward(self, s: Tensor) -> Tensor:
        return s


class _Step(_Numbers):
    def forward(self, s: Tensor) -> Tensor:
        return self.values[torch.searchsorted(self.knots, s.contiguous(), right=True).clamp(max=self.knots.shape[0])]


class _Lines(_Numbers):
    def forward(self, s: Tensor) -> Tensor:
        x = torch.clamp(s, self.knots[0], self.knots[-1])
        piece = torch.searchsorted(self.knots, x.detach().contiguous(), right=True).clamp(1, self.knots.shape[0]) - 1
        right = (piece + 1).clamp(max=self.knots.shape[0] - 1)
        start, end, left = self.values[piece], self.values[right], self.knots[piece]
        width = torch.where(right > piece, self.knots[right] - left, torch.ones_like(left))
        p = (x - left) / width * (end - start) + start
        return torch.maximum(torch.minimum(p, torch.maximum(start, end)), torch.minimum(start, end))


class _Affine(_Numbers):
    on_score = False

    def forward(self, s: Tensor) -> Tensor:
        if self.on_score:
            return _expit(_held(s) * self.slope + self.intercept)
        x = torch.clamp(s, self.low, self.high)
        return _expit(torch.log(x / (1.0 - x)) * self.slope + self.intercept)


class _Beta(_Numbers):
    def forward(self, s: Tensor) -> Tensor:
        x = torch.clamp(s, self.low, self.high)
        return _expit(torch.log(x) * self.a - torch.log1p(-x) * self.b + self.c)


class _Rows(_Numbers):
    """Base of modules of rows of class scores."""

    on_logits = False

    def probabilities(self, s: Tensor) -> Tensor:
        return torch.softmax(_held_logits(s), dim=-1) if self.on_logits else s


class _Softmax(_Rows):
    raw = False

    def forward(self, s: Tensor) -> Tensor:
        if self.raw:
            z = _held_logits(s)
        else:
            z = torch.log(torch.clamp(self.probabilities(s), self.clamp, torch.ones_like(self.clamp)))
        z = z @ self.slope.t() if self.slope.dim() == 2 else z * self.slope
        return torch.softmax(_held_logits(z + self.intercept), dim=-1)


class _PerClass(_Rows):
    normalized = False

    def forward(self, s: Tensor) -> Tensor:
        columns = torch.unbind(self.probabilities(s), dim=-1)
        p = torch.stack([part(columns[j]) for j, part in enumerate(self.parts)], dim=-1)
        if not self.normalized:
            return p
        total = p.sum(dim=-1, keepdim=True)
        safe = torch.where(total > 0.0, total, torch.ones_like(total))
        return torch.where(total > 0.0, p / safe, torch.full_like(p, 1.0 / p.shape[-1]))


class _Top(_Rows):
    ranks, each = 1, 1

    def forward(self, s: Tensor) -> Tensor:
        ranked = _ranked(s.detach(), self.ranks)
        values = torch.unbind(torch.gather(self.probabilities(s), -1, ranked), dim=-1)
        codes = torch.unbind(ranked, dim=-1)
        out = [torch.zeros_like(value) for value in values]
        for place, part in enumerate(self.parts):
            k = place // self.each
            own = part(values[k])
            out[k] = own if self.each == 1 else torch.where(codes[k] == place % self.each, own, out[k])
        return torch.stack(out, dim=-1)


def _ranked(s: Tensor, ranks: int) -> Tensor:
    """Columns of the largest scores; of tied scores the earlier column."""
    return torch.sort(s, stable=True, dim=-1, descending=True)[1][..., :ranks]


def _with(module: Any, **settings: Any) -> Any:
    for name, value in settings.items():
        setattr(module, name, value)
    return module


def _parts(maps: tuple[Map, ...]) -> Any:
    return torch.nn.ModuleList([_module(part) for part in maps])


@_module.register
def _(map_: IdentityMap) -> Any:
    return _Identity()


@_module.register
def _(map_: StepMap) -> Any:
    return _Step(knots=map_.knots, values=map_.values)


@_module.register
def _(map_: PiecewiseLinearMap) -> Any:
    return _Lines(knots=map_.knots, values=map_.values)


@_module.register
def _(map_: LogitAffineMap) -> Any:
    numbers = {name: getattr(map_, name) for name in ("slope", "intercept", "low", "high")}
    return _with(_Affine(**numbers), on_score=map_.on == "score")


@_module.register
def _(map_: BetaMap) -> Any:
    return _Beta(**{name: getattr(map_, name) for name in ("a", "b", "c", "low", "high")})


@_module.register
def _(map_: ComposeMap) -> Any:
    return torch.nn.Sequential(*(_module(part) for part in map_.maps))


@_module.register
def _(map_: SoftmaxMap) -> Any:
    size = len(map_.classes)
    slope = map_.slope.reshape(size, size) if len(map_.slope) == size * size else map_.slope
    intercept = map_.intercept if len(map_.intercept) else np.zeros(1)
    module = _Softmax(slope=slope, intercept=intercept, clamp=map_.clamp)
    return _with(module, on_logits=map_.on == "logit", raw=map_.raw)


@_module.register
def _(map_: PerClassMap) -> Any:
    return _with(_PerClass(), parts=_parts(map_.maps), normalized=map_.normalized, on_logits=map_.on == "logit")


@_module.register
def _(map_: TopMap) -> Any:
    each = len(map_.maps) // map_.ranks
    return _with(_Top(), parts=_parts(map_.maps), ranks=map_.ranks, each=each, on_logits=map_.on == "logit")
