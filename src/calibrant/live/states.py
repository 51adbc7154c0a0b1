"""What a ledger stores of a prediction and of an outcome, and whether a state that somebody passes is one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.live.delays import CELLS
from calibrant.live.ids import WIDTH
from calibrant.live.records import Correction

OPEN, DONE = 1, 2
"""States of a prediction: it waits, or it is released and its id is remembered."""

NONE = -1
"""The label of a prediction without an outcome."""

COLUMNS: dict[str, Any] = {
    "state": np.int8, "label": np.int8, "silent": np.bool_, "corrected": np.bool_, "score": np.float64,
    "at": np.float64, "due": np.float64, "key": np.int64, "version": np.int64, "delay": np.uint8,
}  # fmt: skip
"""What is kept of a prediction besides the 16 bytes of its id: 45 bytes, and 8 for each further column of keys."""

HELD: dict[str, Any] = {"held_ids": np.uint64, "held_label": np.int8, "held_at": np.float64, "held_due": np.float64}
"""The same of an outcome without a prediction, in states."""


def number(value: Any) -> float:
    """A finite number of a state."""
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError
    return float(value)


def whole(counts: dict[str, Any]) -> bool:
    """Whether counts are integers from 0 on."""
    return all(type(each) is int and each >= 0 for each in counts.values())


def correction(stored: Any, key_columns: int, text: bool) -> Correction:
    """A correction of a state."""
    key = stored["key"] if key_columns == 1 else tuple(stored["key"])
    found = Correction(**(stored | {"id": bytes.fromhex(stored["id"]), "key": key}))
    labels = found.before in (None, 0, 1) and found.after in (0, 1)
    keys = key if key_columns > 1 else (key,)
    if not labels or len(found.id) != WIDTH or len(keys) != key_columns or type(found.version) is not int:
        raise ValueError
    if any(type(each) is not (str if text else int) for each in keys):
        raise ValueError
    return replace(found, score=number(found.score), at=number(found.at))


def well_formed(columns: dict[str, NDArray[Any]], held: list[NDArray[Any]], keys: tuple[int, ...]) -> bool:
    """Whether the arrays of a state fit each other."""
    if columns["key"].shape != keys or (columns["delay"] >= CELLS).any():
        return False
    for ids, *rest in ([columns["ids"], *(columns[name] for name in COLUMNS if name != "key")], held):
        if ids.ndim != 2 or ids.shape[1] != 2 or any(each.shape != (len(ids),) for each in rest):
            return False
    ids, labels = columns["ids"], (NONE, 0, 1)
    distinct = len(ids) < 2 or bool((ids[1:] != ids[:-1]).any(axis=1).all())
    in_order = bool((np.lexsort((ids[:, 1], ids[:, 0])) == np.arange(len(ids))).all())
    numbers = [columns[name] for name in ("score", "at", "due")] + held[2:]
    return (
        distinct
        and in_order
        and all(np.isfinite(each).all() for each in numbers)
        and bool(np.isin(columns["state"], (OPEN, DONE)).all() and np.isin(columns["label"], labels).all())
        and bool(np.isin(held[1], (0, 1)).all())
    )
