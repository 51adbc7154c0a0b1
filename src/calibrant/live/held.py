"""Outcomes that came before their prediction, in the order in which they came."""

from __future__ import annotations

import heapq

Event = tuple[int, float, float]
"""Label, time and when it is given up."""

SLACK = 64
"""Entries that the queue may have beyond twice the events, before it is built anew."""


class HeldOutcomes:
    """Outcomes by the bytes of their id, at most ``limit`` of them.

    Examples
    --------
    >>> held = HeldOutcomes(limit=2)
    >>> [held.put(b"a", 1, 5.0, 15.0), held.put(b"b", 0, 6.0, 16.0), held.put(b"c", 0, 6.0, 16.0)]
    [True, True, False]
    >>> held.take(b"a"), held.expire(16.0), len(held)
    ([(1, 5.0)], 1, 0)
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._events: dict[bytes, list[Event]] = {}
        self._size = 0
        self._due: list[tuple[float, bytes]] = []

    def __len__(self) -> int:
        return self._size

    def put(self, key: bytes, label: int, at: float, due: float) -> bool:
        """Keep an outcome; false if there is no room, or no time."""
        if self._size >= self.limit or not due > at:
            return False
        self._events.setdefault(key, []).append((label, at, due))
        self._size += 1
        heapq.heappush(self._due, (due, key))
        if len(self._due) > 2 * self._size + SLACK:
            self._due = [(event[2], key) for key, events in self._events.items() for event in events]
            heapq.heapify(self._due)
        return True

    def take(self, key: bytes) -> list[tuple[int, float]]:
        """Label and time of the outcomes of one id, which are removed."""
        events = self._events.pop(key, [])
        self._size -= len(events)
        return [(label, at) for label, at, _ in events]

    def expire(self, now: float) -> int:
        """Give up outcomes that are due, and count them."""
        before = self._size
        while self._due and self._due[0][0] <= now:
            key = heapq.heappop(self._due)[1]
            events = self._events.get(key, [])
            kept = [event for event in events if event[2] > now]
            self._size -= len(events) - len(kept)
            if kept:
                self._events[key] = kept
            else:
                self._events.pop(key, None)
        return before - self._size

    def listed(self) -> list[tuple[bytes, int, float, float]]:
        """All outcomes, ids in order, those of one id in the order in which they came."""
        return [(key, *event) for key in sorted(self._events) for event in self._events[key]]
