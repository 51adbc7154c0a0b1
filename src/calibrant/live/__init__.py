"""Live calibration: labels that come late, joined by id, and learned in an order that does not mislead."""

from calibrant.live.bank.bank import Bank
from calibrant.live.bank.prior import Prior
from calibrant.live.delays import DelayDrift
from calibrant.live.guard import Admitted, MapGuard
from calibrant.live.ids import read_ids
from calibrant.live.learner import LateLearner
from calibrant.live.ledger import Ledger
from calibrant.live.monitor import Alarm, Band, KeyFinding, Monitor
from calibrant.live.records import Correction, Counts, Released
from calibrant.live.replay.backtest import backtest
from calibrant.live.replay.learning import ByKey, Online
from calibrant.live.replay.policies import Every, Never, Once
from calibrant.live.replay.result import Backtest, PolicyResult
from calibrant.live.replay.watching import OnAlarm
from calibrant.live.young import Young
from calibrant.messages import public_names

__all__ = [
    "Admitted",
    "Alarm",
    "Backtest",
    "Band",
    "Bank",
    "ByKey",
    "Correction",
    "Counts",
    "DelayDrift",
    "Every",
    "KeyFinding",
    "LateLearner",
    "Ledger",
    "MapGuard",
    "Monitor",
    "Never",
    "OnAlarm",
    "Once",
    "Online",
    "PolicyResult",
    "Prior",
    "Released",
    "Young",
    "backtest",
    "read_ids",
]

__dir__ = public_names(__all__)
