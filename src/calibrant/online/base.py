"""What every online forecaster shares: one row or many, forecasting before learning, a small state, a frozen map."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays.columns import is_whole
from calibrant.guarantees.online_promise import OnlineCertificate
from calibrant.guarantees.refusal import Refusal, RefusalCode
from calibrant.maps import Map
from calibrant.messages import InputError
from calibrant.numerics import Floats
from calibrant.online.guards import RACES, learning, reading
from calibrant.online.inputs import many_features, many_labels, many_scores, one_label, one_score
from calibrant.online.kernels import SEEN, Factory, object_steps
from calibrant.online.limits import MOST_ROWS, changed
from calibrant.online.settings import settings_of
from calibrant.online.shared import Shared
from calibrant.online.states import finite, parsed

KINDS: dict[str, type[Forecaster]] = {}
"""Forecasters by the name that their states carry, entered by :func:`register`."""

GUARDED = ("predict_one", "learn_one", "predict_many", "learn_many", "forecast_many", "freeze")
"""Methods that enter the guard and call one that a subclass defines, of the same name after an underscore."""

BY_ROWS = ("predict_one", "learn_one", "_step", "_predict_many", "_learn_many", "_forecast_many", "_recipe", "_state")
"""What of :class:`Forecaster` goes by ``_predict_one`` and ``_learn_one``, and subclasses do in faster ways."""

F = TypeVar("F", bound="Forecaster")

VERSION = 1
"""Of the form of states."""

STRANGE = "must be what a forecaster of calibrant.online wrote, and it is not"


class Forecaster(Shared):
    """A forecaster of outcomes that learns as they arrive.

    The contract: :meth:`predict_one` is pure, so that asking twice gives the same answer; :meth:`learn_one` moves on by
    one outcome; :meth:`predict_many` and :meth:`learn_many` equal loops over these, bit for bit; :attr:`state` is
    small, plain JSON, from which :meth:`restore` continues as if nothing had happened. Memory does not grow with the
    stream.
    Threads may share a forecaster: each call sees it before or after a call of another thread that learns, never in
    between. A forked process may read it; to learn there, resume or copy it first.
    A forecaster that stands on others owns copies of them, so that nobody else moves them. Its settings are declared by
    :func:`~calibrant.online.read_only` and set once, in ``__init__``.

    A subclass defines ``_predict_one``, ``_learn_one`` (which counts rows in ``_seen``), ``_numbers`` (what it learned,
    the rows first) and ``_resume``, and adds to ``_check`` what its numbers must satisfy; ``_parameters`` if not all of
    its settings are keyword arguments; ``_freeze``, ``_predict_many``, ``_learn_many`` and ``_forecast_many`` if it has
    better ones.
    :class:`KernelForecaster` does most of it for one that is written as a kernel. On its experts it calls methods whose
    name begins with an underscore: they are inside its guard. :func:`~calibrant.online.register` gives it the name that
    its states carry.
    """

    #: Forecasters that it stands on, in the order of its positional arguments.
    experts: tuple[Forecaster, ...] = ()
    #: Whether outcomes may lie anywhere in [0, 1] rather than be 0 or 1.
    bounded_outcomes: ClassVar[bool] = False
    #: Whether it needs features beside the score.
    takes_features: bool = False
    #: Whether it hands features on to its experts.
    passes_features: ClassVar[bool] = False
    #: Whether its scores are rows of class probabilities.
    takes_rows: ClassVar[bool] = False

    _seen = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse methods that would not enter the guard, and steps for one row that inherited methods do not go by."""
        super().__init_subclass__(**kwargs)
        for name in GUARDED:
            given = getattr(Forecaster, name)
            if cls.__dict__.get(name, given) is not given and f"_{name}" not in cls.__dict__:
                raise InputError(cls.__name__, f"defines {name}", f"define _{name}, which it calls")
        steps = [name for name in ("_predict_one", "_learn_one") if name in cls.__dict__]
        faster = [name for name in BY_ROWS if getattr(cls, name) is not getattr(Forecaster, name)]
        if steps and not cls.__dict__.keys() >= set(faster):
            problem = f"defines {steps[0]}, which methods that it inherits do not call"
            raise InputError(cls.__name__, problem, "put calibrant.online.RowByRow first among its bases")

    @property
    def expert(self) -> Forecaster:
        """The forecaster that it stands on."""
        if not self.experts:
            raise AttributeError(f"{type(self).__name__} stands on no other forecaster")
        return self.experts[0]

    # ----------------------------------------------------------------------------------------------------- one row

    def predict_one(self, score: float, features: Any = None) -> float:
        """The probability of an event, from what was learned so far; asking changes nothing."""
        watched = self._guard
        try:
            before = watched.free
            p = self._predict_one(score, features)
            if watched.free is before:
                return p
        except RACES:  # if nobody was learning, it is raised again below
            pass
        return self._predict_alone(score, features)

    @reading
    def _predict_alone(self, score: Any, features: Any) -> float:
        """The same, inside the guard."""
        return self._predict_one(score, features)

    def learn_one(self, score: float, label: float, features: Any = None) -> Self:
        """Learn one outcome."""
        guard = self._guard
        if guard.wanted:
            guard.give_way()
        try:
            del guard.free
        except AttributeError:
            guard.wait()
        try:
            if guard.forked:
                guard.refuse_forked()
            self._learn_one(score, label, features)
        finally:
            guard.free = []
        return self

    def _predict_one(self, score: float, features: Any = None) -> float:
        """The forecast of one row, not checked yet.

        This method alone may run while another thread learns; its result, or its error, is then discarded.
        """
        raise NotImplementedError

    def _learn_one(self, score: float, label: float, features: Any = None) -> None:
        """Learn one outcome, not checked yet."""
        raise NotImplementedError

    # -------------------------------------------------------------------------------------------------- many rows

    @reading
    def predict_many(self, scores: ArrayLike, features: ArrayLike | None = None) -> Floats:
        """Probabilities of many rows, all from what was learned so far."""
        return self._predict_many(scores, features)

    @learning
    def learn_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None = None) -> Self:
        """Learn outcomes in their order; other threads wait until all are learned."""
        self._learn_many(scores, labels, features)
        return self

    @learning
    def forecast_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None = None) -> Floats:
        """Forecast each row from the outcomes before it, then learn its own: what a live run would have said."""
        return self._forecast_many(scores, labels, features)

    def _predict_many(self, scores: ArrayLike, features: ArrayLike | None) -> Floats:
        xs = self._scores(scores)
        fs = self._all(features, len(xs), scores)
        return np.array([self._predict_one(x, f) for x, f in zip(xs.tolist(), fs, strict=True)], dtype=np.float64)

    def _learn_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None) -> None:
        for x, y, f in self._rows(scores, labels, features):
            self._learn_one(x, y, f)

    def _forecast_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None) -> Floats:
        rows = self._rows(scores, labels, features)
        return np.array([self._step(x, y, f) for x, y, f in rows], dtype=np.float64)

    def _step(self, score: float, label: float, features: Any = None) -> float:
        """Learn a row whose score and label were checked, and say what its forecast was."""
        told = self._predict_one(score, features)
        self._learn_one(score, label, features)
        return told

    def _rows(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None) -> Iterator[tuple[Any, Any, Any]]:
        xs = self._scores(scores)
        ys = self._labels(labels, scores)
        return zip(xs.tolist(), ys.tolist(), self._all(features, len(xs), scores), strict=True)

    # -------------------------------------------------------------------------------------------------- its state

    @property
    def n_rows(self) -> int:
        """Rows learned so far."""
        return self._seen

    @property
    @reading
    def state(self) -> dict[str, Any]:
        """All that was asked for and learned, as plain JSON; its numbers survive bit for bit."""
        return self._written()

    def _written(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "forecaster": _name_of(type(self)),
            "parameters": self._parameters(),
            "numbers": self._numbers(),
            "experts": [expert._written() for expert in self.experts],
        }

    def restore(self, state: dict[str, Any] | str | bytes | bytearray | memoryview) -> Self:
        """Go on from a state that an equal forecaster has written; a state that is refused changes nothing.

        In a forked process it learns from then on.
        """
        return self._go_on(parsed(state), "continue it by calibrant.online.resume(state)")

    def _go_on(self, state: Any, fix: str) -> Self:
        self._admit(state, fix)
        self._take_inside(state)
        return self

    @reading
    def _take_inside(self, state: dict[str, Any]) -> None:
        self._take(state)
        self._guard.forked = False

    def _admit(self, state: Any, fix: str) -> float:
        """The rows of a state; refuse one that cannot be of this forecaster, or of those that it stands on."""
        if not isinstance(state, dict) or not isinstance(state.get("experts"), list):
            raise InputError("state", "is not what a forecaster of calibrant.online wrote", "was it cut off?")
        if state.get("version") != VERSION:
            raise InputError(
                "state",
                f"has the version {state.get('version')!r}, and {VERSION} is read here",
                "update calibrant",
            )
        self._admit_kind(state.get("forecaster"), state.get("parameters"), fix)
        numbers, below = self._unpacked(state.get("numbers")), state["experts"]
        as_many = len(below) == len(self.experts) and numbers is not None and len(numbers) == len(self._numbers())
        if numbers is None or not as_many or not finite(numbers):
            raise InputError("state", "has not the numbers that this forecaster needs", "was it cut off?")
        self._check(numbers)
        self._check_experts(
            numbers[SEEN], [expert._admit(its, fix) for expert, its in zip(self.experts, below, strict=True)]
        )
        return numbers[SEEN]

    def _admit_kind(self, kind: Any, parameters: Any, fix: str) -> None:
        """Refuse the state of another kind, or of one with other settings, by the first that differs."""
        mine, own = _name_of(type(self)), self._parameters()
        if kind != mine or not isinstance(parameters, dict):
            raise InputError("state", f"belongs to another forecaster, {kind}, not {mine}", fix)
        if parameters.keys() < own.keys():  # written before the others were there, when all had what is their default
            parameters = _built(type(self), self.experts, parameters)._parameters()
        for name in [*own, *parameters]:
            if name not in own or name not in parameters or own[name] != parameters[name]:
                theirs, here = (f"{each[name]!r}" if name in each else "not there" for each in (parameters, own))
                raise InputError("state", f"belongs to another {mine}, whose {name} is {theirs}, not {here}", fix)

    def _take(self, state: dict[str, Any]) -> None:
        for expert, its in zip(self.experts, state["experts"], strict=True):
            expert._take(its)
        self._resume([float(x) for x in self._unpacked(state["numbers"]) or ()])

    def to_json(self) -> str:
        """The state as text, for :func:`calibrant.online.resume`."""
        return json.dumps(self.state, allow_nan=False)

    def redrawn(self) -> Self:
        """A copy that goes on with draws of its own, under new keys from the system, where it draws at all.

        After a crash the rows since the last saved state come again, and their draws have been seen: a guarantee that
        rests on secret draws holds again for ``resume(text).redrawn()``.
        """
        found = copy.deepcopy(self)
        found._redraw(seeded=True)
        return found

    def compile(self) -> Self:
        """Compile the experts that it stands on, where they can be; a :class:`KernelForecaster` compiles itself."""
        compiled = [expert.compile() for expert in self.experts if expert._compiles]
        if not compiled:
            raise InputError(
                type(self).__name__,
                "runs in plain Python, and has no expert that could be compiled",
                "leave compile() out",
            )
        return self

    @property
    def _never_refuses(self) -> bool:
        """Whether it learns every row whose score and label were checked."""
        return False

    @property
    def _compiles(self) -> bool:
        return any(expert._compiles for expert in self.experts)

    @reading
    def freeze(self) -> Map:
        """The map that it applies now, where there is one; ``calibrant.Calibration(map)`` saves and exports it."""
        return self._freeze()

    def _freeze(self) -> Map:
        raise InputError(type(self).__name__, "has no fixed map", "its forecasts depend on more than the score")

    def certificate(self, n_rows: int | None = None) -> OnlineCertificate | Refusal:
        """What is guaranteed of its first ``n_rows`` forecasts since it was new (default: those learned)."""
        return Refusal(RefusalCode.NO_THEOREM, f"no theorem covers {type(self).__name__}")

    def certificates(self, n_rows: int | None = None) -> tuple[OnlineCertificate, ...]:
        """All guarantees that say something after ``n_rows`` rows (default: those learned so far)."""
        found = self.certificate(n_rows)
        return () if isinstance(found, Refusal) else (found,)

    # ---------------------------------------------------------------------------------------------- for subclasses

    def _parameters(self) -> dict[str, Any]:
        """Its keyword arguments, as plain JSON: those that are declared as settings, unless a subclass says more."""
        kind: type = type(self)
        return {name: getattr(self, name) for name in settings_of(kind)}

    def _numbers(self) -> list[float]:
        """What it learned, as a flat list of numbers, always as many."""
        raise NotImplementedError

    def _unpacked(self, numbers: Any) -> list[float] | None:
        """The flat list again, for those that write it in another form; None where it is none."""
        return numbers if isinstance(numbers, list) else None

    def _check(self, numbers: list[float]) -> None:
        """Refuse numbers that no stream can lead to."""
        if not (is_whole(numbers[SEEN]) and 0 <= numbers[SEEN] <= MOST_ROWS):
            raise changed("number of rows")

    def _check_experts(self, seen: float, below: list[float]) -> None:
        """Refuse fewer rows of an expert than its own: experts learn every row, and may have learned before."""
        if below and min(below) < seen:
            raise changed("number of rows")

    def _resume(self, numbers: list[float]) -> None:
        """Take over what another one learned."""
        raise NotImplementedError

    def _branch(self, place: int) -> None:
        """Give its draws, and those of its experts, a stream of their own, as the copy in this place."""
        for expert in self.experts:
            expert._branch(place)

    def _redraw(self, *, seeded: bool) -> None:
        """Take new keys for its draws and those of its experts, also where ``random_state`` gave them if so asked."""
        for expert in self.experts:
            expert._redraw(seeded=seeded)
        if seeded or getattr(self, "random_state", None) is None:
            self._new_key()

    def _new_key(self) -> None:
        """Take a key from the system, if it draws; the state carries it."""

    def _own(self, *experts: Forecaster) -> None:
        """Stand on copies of these, so that nobody else moves them."""
        for expert in experts:
            one_score_forecaster(expert, "expert", features=self.passes_features)
        self._stand_on(copy.deepcopy(expert) for expert in experts)
        for place, expert in enumerate(self.experts, start=1):
            expert._branch(place)

    @classmethod
    def _build(cls, experts: Sequence[Forecaster], parameters: dict[str, Any]) -> Forecaster:
        return cls(*experts, **parameters)

    def _score(self, score: Any) -> float:
        return score if score.__class__ is float and 0.0 <= score <= 1.0 else one_score(score)

    def _label(self, label: Any) -> float:
        plain = label.__class__ is float and (label == 1.0 or label == 0.0)
        return label if plain else one_label(label, self.bounded_outcomes)

    def _scores(self, scores: ArrayLike) -> Floats:
        return many_scores(scores)

    def _labels(self, labels: ArrayLike, scores: ArrayLike) -> Floats:
        return many_labels(labels, scores, self.bounded_outcomes)

    def _all(self, features: Any, n: int, scores: ArrayLike) -> Sequence[Any]:
        """Features of n rows, all checked, by the experts that take them too, before any row is learned.

        Columns of a frame come in the order of the experts' names, where they have some.
        """
        taken = [expert._all(features, n, scores) for expert in self.experts if expert.takes_features]
        if not taken:
            return many_features(features, scores, n)
        numbers = [np.array(rows, dtype=np.float64) for rows in taken]
        if not all(np.array_equal(each, numbers[0], equal_nan=True) for each in numbers):
            raise InputError("features", "must have one order for all experts", "name the same ones in each")
        return taken[0]

    def _check_rows(self, n_rows: int | None) -> int:
        """Rows since it was new that a guarantee may be about: at least those learned."""
        learned = self.n_rows
        found = learned if n_rows is None else n_rows
        if not is_whole(found) or not 0 <= found <= MOST_ROWS:
            raise InputError("n_rows", f"must be a whole number of rows, not {n_rows!r}")
        if found < learned:
            raise InputError(
                "n_rows",
                f"must count all rows since it was new, and it has learned {learned:,}, not {n_rows!r}",
                f"pass {learned + int(found)} for this many more, or ask a new forecaster about new rows alone",
            )
        return int(found)

    # The steps of a kernel, for a forecaster that stands on this one.

    @property
    def _recipe(self) -> tuple[Factory, ...]:
        return (object_steps,)

    @property
    def _state(self) -> Any:
        return self

    def __repr__(self) -> str:
        """How it was built."""
        given = [repr(expert) for expert in self.experts]
        given += [f"{name}={value!r}" for name, value in self._parameters().items()]
        return f"{type(self).__name__}({', '.join(given)})"


class RowByRow(Forecaster):
    """First among the bases of a subclass that changes the steps for one row of a forecaster that has faster ways.

    Whole streams, and forecasters that stand on it, then go by its ``_predict_one`` and ``_learn_one``.

    Examples
    --------
    >>> from calibrant.online import AsIs, RowByRow
    >>> class Contrary(RowByRow, AsIs):
    ...     def _predict_one(self, score, features=None):
    ...         return 1.0 - super()._predict_one(score)
    >>> Contrary().predict_many([0.25, 1.0]).tolist()
    [0.75, 0.0]
    """

    predict_one = Forecaster.predict_one
    learn_one = Forecaster.learn_one
    _step = Forecaster._step
    _predict_many = Forecaster._predict_many
    _learn_many = Forecaster._learn_many
    _forecast_many = Forecaster._forecast_many
    _recipe = Forecaster._recipe
    _state = Forecaster._state


def register(name: str) -> Callable[[type[F]], type[F]]:
    """Decorate a forecaster with the name that its states carry, under which :func:`resume` finds it.

    Without it a forecaster learns and writes its state as others do, and only :meth:`Forecaster.restore` reads that::

        @register("Mine")
        class Mine(Forecaster): ...
    """

    def enter(kind: type[F]) -> type[F]:
        known = KINDS.get(name)
        if known is not None and known.__module__ != kind.__module__:
            raise InputError("name", f"must be new, and {known.__module__} has a forecaster named {name}")
        KINDS[name] = kind
        return kind

    return enter


def _name_of(kind: type[Forecaster]) -> str:
    """The name that its states carry: as registered, or that of the class."""
    return next((name for name, known in KINDS.items() if known is kind), kind.__name__)


def one_score_forecaster(forecaster: Any, name: str = "forecaster", *, features: bool = False) -> Forecaster:
    """The forecaster, if a score alone is enough for it, or a score with features where these are handed on.

    Examples
    --------
    >>> from calibrant.online import OnlinePlatt
    >>> one_score_forecaster(OnlinePlatt)
    Traceback (most recent call last):
        ...
    calibrant.messages.InputError: forecaster must be an object, and OnlinePlatt is a class: pass OnlinePlatt()
    """
    if isinstance(forecaster, type):
        kind = forecaster.__name__
        raise InputError(name, f"must be an object, and {kind} is a class", f"pass {kind}()")
    if not isinstance(forecaster, Forecaster):
        raise InputError(name, f"must be one of calibrant.online, not {forecaster!r}")
    if forecaster.takes_rows:
        raise InputError(name, f"must take one score, and {type(forecaster).__name__} takes rows of classes")
    if forecaster.takes_features and not features:
        raise InputError(name, f"must need one score alone, and {type(forecaster).__name__} needs features")
    return forecaster


def own_copy(forecaster: Forecaster) -> Forecaster:
    """A copy whose draws no other copy has: under new keys, but where ``random_state`` gives them.

    Examples
    --------
    >>> from calibrant.online import Foster99
    >>> secret, seeded = Foster99(), Foster99(random_state=1)
    >>> own_copy(secret).state == secret.state, own_copy(seeded).state == seeded.state
    (False, True)
    """
    found = copy.deepcopy(forecaster)
    found._redraw(seeded=False)
    return found


def resume(state: dict[str, Any] | str | bytes | bytearray | memoryview) -> Forecaster:
    """The forecaster that wrote a state, ready to go on where that one stopped.

    Parameters
    ----------
    state
        What ``forecaster.state`` or ``forecaster.to_json()`` gave.

    Notes
    -----
    A forecaster is looked up by its name among those of this package and your own that are registered; nothing in a
    state is run. One that draws goes on with the same draws: after a crash, when some have been shown since the
    state was written, take :meth:`Forecaster.redrawn` of it.

    Examples
    --------
    >>> from calibrant.online import OnlinePlatt, resume
    >>> ops = OnlinePlatt().learn_many([0.2, 0.7, 0.6], [0, 1, 0])
    >>> resume(ops.to_json()).predict_one(0.6) == ops.predict_one(0.6)
    True
    """
    found = parsed(state)
    return _from_parameters(found)._go_on(found, "was it changed by hand?")


def _from_parameters(state: Any) -> Forecaster:
    try:
        name, parameters, below = state["forecaster"], state["parameters"], state["experts"]
        kind, experts = KINDS.get(name), [_from_parameters(its) for its in below]
    except (KeyError, TypeError, RecursionError):
        raise InputError("state", STRANGE) from None
    if kind is None:
        raise InputError(
            "state",
            f"is of {name!r}, which is not a forecaster that is known here",
            "was it changed by hand? One of your own is known when its class has the decorator register(name)",
        )
    return _built(kind, experts, parameters)


def _built(kind: type[Forecaster], experts: Sequence[Forecaster], parameters: Any) -> Forecaster:
    try:
        return kind._build(experts, parameters)
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, OverflowError, RecursionError, AttributeError):
        raise InputError("state", STRANGE) from None
