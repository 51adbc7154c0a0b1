"""What every certificate of a map of several classes shares."""

from __future__ import annotations

from typing import Self

from calibrant.arrays import InputError
from calibrant.guarantees.certificates import Bound, Mode
from calibrant.guarantees.provenance import ClassProvenance
from calibrant.maps import ClassMap


class ClassPromise:
    """A promise about a map of several classes; its kinds are frozen dataclasses that print themselves.

    ``epsilon`` is how far off the map can be, in the sense that the kind states, with confidence ``1 - alpha``.
    """

    epsilon: float
    alpha: float
    mode: Mode
    bound: Bound

    def about(self, map_: ClassMap) -> bool:
        """Whether the promise speaks of this very map."""
        raise NotImplementedError

    def rests_on(self, provenance: ClassProvenance) -> bool:
        """Whether the promise can be one of these rows, as far as numbers tell."""
        return True

    def __call__(self, alpha: float | None = None, *, bound: Bound | None = None, mode: Mode | None = None) -> Self:
        """The certificate itself, so that ``certificate()`` reads alike on a calibrator and on what was loaded."""
        for name, value in {"alpha": alpha, "bound": bound, "mode": mode}.items():
            if value is not None and value != getattr(self, name):
                raise InputError(
                    f"the stored certificate has {name}={getattr(self, name)!r}: ask the calibrator for another one "
                    "before it is saved"
                )
        return self
