"""Settings of a stream: data, versioned by their place in the log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from datetime import UTC, tzinfo
from typing import Any, Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from calibrant.arrays.columns import check_option
from calibrant.live import Bank, Ledger, Monitor
from calibrant.live.ledger import Silence
from calibrant.messages import InputError
from calibrant.metrics.tolerance import LIMIT
from calibrant.online import Forecaster, OnlineBeta, OnlinePlatt
from calibrant.online.limits import real, whole, yes_no

Mode = Literal["logged", "returned"]
Promotion = Literal["automatic", "manual"]
Outage = Literal["open", "closed"]

Stale = Literal["flag", "refuse"]

FORECASTERS: Mapping[str, Callable[..., Forecaster]] = {"platt": OnlinePlatt, "beta": OnlineBeta}
"""Forecasters that freeze to a map of the score."""

FIXED = ("mode", "forecaster", "silence", "keyed")
"""Settings that cannot change: what was learned depends on them."""

ZONE = re.compile(r"UTC|[A-Z][A-Za-z0-9_+-]{0,30}(/[A-Z][A-Za-z0-9_+-]{0,30}){1,2}")
"""Names of time zones: UTC, or an area and a place; short names such as localtime may differ between machines."""

SECONDS = (1e-3, 366 * 86_400.0)
"""Smallest and largest duration."""

SUCH = 'such as {"horizon": 3600, "silence": "negative"}'
"""The least that settings say."""

SILENCES = 'pass "negative" if no outcome means that the event did not happen, or "unknown" to leave such rows out'

NUMBERS: Mapping[str, tuple[float, float]] = {
    "horizon": SECONDS, "grace": SECONDS, "remember": SECONDS, "publish_seconds": SECONDS, "skew": SECONDS,
    "cool_down": SECONDS, "stale_seconds": SECONDS, "half_life": (1.0, 1e15), "max_step": (1e-3, 100.0),
    "tolerance": (1e-3, 5.0), "alarm_level": (1e-9, 0.5), "trial_level": (1e-9, 0.5),
}  # fmt: skip
"""Smallest and largest value of each setting that is a real number."""

COUNTS: Mapping[str, tuple[int, int]] = {"publish_rows": (1, 10**9), "retention_days": (1, 36_500)}
"""The same for integers."""

OPTIONAL = ("grace", "remember", "half_life", "stale_seconds")
"""Numbers that may be None."""


@dataclass(frozen=True)
class Settings:
    """How a stream answers, learns and publishes.

    Parameters
    ----------
    horizon
        Seconds after a prediction within which its outcome counts.
    silence
        What it means that no outcome came within the horizon: ``"negative"``, that the event did not happen, for feeds
        that send events only; ``"unknown"``, that the row is left out. In the mode ``"returned"`` both outcomes must be
        sent, so it is ``"unknown"``.
    mode
        ``"logged"``: a prediction is durable before it is answered. ``"returned"``: nothing is stored, and a signed
        receipt comes back with the outcome.
    forecaster
        What learns: ``"platt"`` or ``"beta"``.
    grace
        Seconds that an outcome may take to arrive after its time; by default a tenth of the horizon. Silence is learned
        as a negative once the feed has shown life later than this after the horizon.
    remember
        Seconds for which an id is known after its release; by default one horizon.
    publish_rows, publish_seconds
        A version is published when this number of rows was learned since the last one, or after this time if a row
        was learned.
    promotion
        Whether a new version is served at once, or after a person promotes it.
    skew
        Seconds by which a time that a client sends may differ from that of the database.
    keyed
        Whether each key has a map of its own, which starts from that of all rows; for ``forecaster="platt"``.
    half_life
        Number of rows after which a row counts half in what is learned (of a key: rows of the key); None if rows do not
        fade.
    max_step
        Largest change in log-odds from what is served to a new version, at quantiles of the observed scores.
    tolerance
        Tolerated deviation in log-odds, of the level and of the slope: the monitor alarms beyond it, and a version that
        is worse by less is neither held back nor rolled back. The default is the limit of :func:`calibrant.check`; what
        is compared with it is another quantity, since both decide at every look, row by row, and the error of a curve
        needs a sample of fixed size.
    alarm_level
        Probability that a run of the monitor raises an alarm though the deviation is within the tolerance.
    trial_level
        Probability that any version is ever rolled back though it is not worse than the one before it.
    cool_down
        Seconds for which a version that a person promoted is judged on its own rows, before the next automatic
        promotion; one horizon is added.
    retention_days
        Days after which entries may be dropped from the log.
    time_zone
        Name of the IANA time zone whose days the figures have, such as ``"Europe/Berlin"``. A day with a change of the
        clocks has 23 or 25 hours. The log and its retention have days of UTC.
    outage
        While the database is away: ``"open"`` answers by the last known version, marked as unlogged; ``"closed"``
        refuses.
    stale_seconds, stale
        A version that is older is marked as stale in answers, or refused; by default age does not matter.

    Examples
    --------
    >>> Settings(horizon=3_600.0, silence="negative").mode
    'logged'
    >>> Settings(horizon=60.0, silence="negative", mode="returned")
    Traceback (most recent call last):
    ...
    calibrant.messages.InputError: silence is 'negative' and predictions are not stored: pass silence='unknown', ...
    """

    horizon: float
    silence: Silence
    mode: Mode = "logged"
    forecaster: str = "platt"
    grace: float | None = None
    remember: float | None = None
    publish_rows: int = 1_000
    publish_seconds: float = 3_600.0
    promotion: Promotion = "automatic"
    skew: float = 300.0
    keyed: bool = False
    half_life: float | None = 50_000.0
    max_step: float = 0.5
    tolerance: float = LIMIT
    alarm_level: float = 0.05
    trial_level: float = 0.05
    cool_down: float = 86_400.0
    retention_days: int = 90
    time_zone: str = "UTC"
    outage: Outage = "open"
    stale_seconds: float | None = None
    stale: Stale = "flag"

    def __post_init__(self) -> None:
        for name, (least, most) in NUMBERS.items():
            value = getattr(self, name)
            if value is not None or name not in OPTIONAL:  # 60 becomes 60.0: both give the same states
                object.__setattr__(self, name, real(name, value, least, most))
        for name, (fewest, greatest) in COUNTS.items():
            object.__setattr__(self, name, whole(name, getattr(self, name), fewest, greatest))
        yes_no("keyed", self.keyed)
        if type(self.time_zone) is not str or not ZONE.fullmatch(self.time_zone):
            raise InputError("time_zone", "is not a name of a time zone", "such as 'Europe/Berlin'")
        check_option("mode", self.mode, get_args(Mode))
        check_option("forecaster", self.forecaster, tuple(FORECASTERS))
        check_option("silence", self.silence, get_args(Silence))
        check_option("promotion", self.promotion, get_args(Promotion))
        check_option("outage", self.outage, get_args(Outage))
        check_option("stale", self.stale, get_args(Stale))
        if self.mode == "returned" and self.silence == "negative":
            problem = "is 'negative' and predictions are not stored"
            raise InputError("silence", problem, "pass silence='unknown', and send both outcomes")
        if self.keyed and self.forecaster != "platt":
            raise InputError("keyed", f"needs Platt maps, not {self.forecaster!r}", "pass forecaster='platt'")

    def ledger(self) -> Ledger:
        """A new ledger with these settings; a key has a second column for the bits of the probability."""
        return Ledger(self.horizon, silence=self.silence, remember=self.remember, key_columns=2, max_delay_keys=0)

    def new_forecaster(self) -> Forecaster:
        """A new forecaster of this kind."""
        return FORECASTERS[self.forecaster](half_life=self.half_life)

    def new_bank(self) -> Bank:
        """A new bank of maps by key."""
        return Bank(half_life=self.half_life)

    def new_monitor(self) -> Monitor:
        """A new monitor of what is served."""
        return Monitor(level=self.alarm_level, tolerance=(self.tolerance, self.tolerance), against="tolerance")

    @property
    def longest_delay(self) -> float:
        """Seconds that an outcome may take to arrive after its time."""
        return self.horizon / 10.0 if self.grace is None else self.grace

    @property
    def zone(self) -> tzinfo:
        """The rules of the time zone, as this machine has them; refused if it does not know the name."""
        try:
            return UTC if self.time_zone == "UTC" else ZoneInfo(self.time_zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            fix = "correct it, or install the package tzdata"
            raise InputError("time_zone", f"{self.time_zone!r} is not known on this machine", fix) from None

    def check_change(self, new: Settings) -> None:
        """Refuse settings that a stream with these ones cannot take.

        Parameters
        ----------
        new
            The settings that are wanted.
        """
        for name in FIXED:
            if getattr(self, name) != getattr(new, name):
                problem = f"is {getattr(self, name)!r} and cannot change, since what was learned depends on it"
                raise InputError(name, problem, "create another stream")

    def document(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return asdict(self)

    @classmethod
    def of(cls, document: Any) -> Settings:
        """Settings from a document of :meth:`document`; a name that is not known is refused."""
        if not isinstance(document, dict):
            raise InputError("settings", "must be an object", SUCH)
        needed = {each.name: each.default is MISSING for each in fields(cls)}
        unknown = sorted(set(document) - needed.keys())
        odd, names = "".join(f"{name!r} is not known; " for name in unknown[:1]), ", ".join(sorted(needed))
        fix = f"{odd}the names are {names}"
        if missing := [name for name in needed if needed[name] and name not in document]:
            raise InputError(missing[0], "is missing", f"{odd}{SILENCES}" if missing[0] == "silence" else fix)
        if unknown:
            raise InputError("settings", f"has no {unknown[0]!r}", fix)
        return cls(**document)


def first_entry(settings: Settings) -> str:
    """The text of the action that begins a stream."""
    return json.dumps({"action": "settings", "settings": settings.document()}, sort_keys=True, allow_nan=False)
