"""The model's own score as a forecaster, for those that stand on one."""

from __future__ import annotations

from typing import Any, ClassVar

from calibrant.maps import IdentityMap, Map
from calibrant.online.base import register
from calibrant.online.compiled import KernelForecaster
from calibrant.online.kernels import SEEN, Factory, Jit, Step


def as_is_steps(jit: Jit) -> tuple[Step, Step]:
    """The score, whatever happens."""

    @jit
    def predict(state: Any, x: float) -> float:
        return x

    @jit
    def learn(state: Any, x: float, y: float) -> float:
        state[0][SEEN] += 1.0
        return x

    return predict, learn


@register("AsIs")
class AsIs(KernelForecaster):
    """The score as it is: a model, or any expert elsewhere, whose forecasts are to be calibeaten.

    Notes
    -----
    Guarantee: none; ``Tracking(AsIs())`` and ``Hedging(AsIs())`` have those of their kind against the model itself.
    Cost: nothing but a count.
    Reference: 002 section 6.3; Kuleshov and Ermon 2017, whose method is ``Hedging(AsIs())``.

    Examples
    --------
    >>> from calibrant.online import Tracking
    >>> model = AsIs().learn_many([0.81, 0.83], [1, 0])
    >>> model.predict_one(0.85), model.n_rows, isinstance(Tracking(model).expert, AsIs)
    (0.85, 2, True)
    """

    _factory: ClassVar[Factory] = as_is_steps

    def __init__(self) -> None:
        super().__init__()  # on no expert: the score is what it stands on

    def _begin(self) -> list[float]:
        return [0.0]

    def _freeze(self) -> Map:
        """The identity."""
        return IdentityMap()
