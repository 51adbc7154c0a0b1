"""Replay a log: compute states and versions again, and compare them with what was stored."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

from calibrant.messages import InputError, Shown, plural
from calibrant.service.learning.learner import load_state, promotions_of, read_from
from calibrant.service.learning.state import StreamState, begin, whole_blocks


@dataclass(frozen=True)
class Replayed(Shown):
    """What a replay found.

    Attributes
    ----------
    state
        The state at the end.
    compared
        Versions, promotions and stored states that were computed again.
    different
        Numbers of the versions that came out otherwise.
    different_states
        Positions of the stored states that came out otherwise.
    different_promotions
        Positions of the promotions that came out otherwise.
    """

    state: StreamState
    compared: int
    different: list[int]
    different_states: list[int]
    different_promotions: list[int]

    @property
    def is_equal(self) -> bool:
        """Whether all came out with the same bits."""
        return not (self.different or self.different_states or self.different_promotions)

    def __str__(self) -> str:
        """One sentence."""
        what = plural(self.compared, "version, promotion or state", "versions, promotions and states")
        found = f"{what} computed again up to position"
        if self.is_equal:
            return f"{found} {self.state.position:,}: all are equal, bit for bit."
        odd = [f"version {number}" for number in self.different]
        odd += [f"the promotion at position {position}" for position in self.different_promotions]
        odd += [f"the state at position {position}" for position in self.different_states]
        return f"{found} {self.state.position:,}: {', '.join(odd)} differ."


def replay(
    connection: psycopg.Connection, stream: int, up_to: int | None = None, *, checkpoints: bool = True
) -> Replayed:
    """Compute what a stream has learned again.

    Parameters
    ----------
    connection
        A connection in autocommit mode; nothing is written.
    stream
        Number of the stream.
    up_to
        The last position; by default the one up to which the learner has committed.
    checkpoints
        Whether to begin with the oldest stored state; otherwise with the first entry of the log.

    Returns
    -------
    Replayed
        What was compared and what differs.
    """
    row = connection.execute("select position from learner where stream = %s", [stream]).fetchone()
    if row is None:
        raise InputError("stream", f"{stream} does not exist", "pass the number of a stream")
    end = row[0] if up_to is None else up_to
    versions: dict[int, str] = dict(
        connection.execute("select number, document from version where stream = %s", [stream]).fetchall()
    )
    stored = [
        position
        for (position,) in connection.execute(
            "select position from checkpoint where stream = %s order by position", [stream]
        ).fetchall()
    ]
    state = load_state(connection, stream, stored[0]) if checkpoints and stored else None
    promotions = promotions_of(connection, stream)
    compared, different, different_states, different_promotions = 0, [], [], []
    while state is None or state.position < end:
        entries = read_from(connection, stream, state)
        before = state.position if state else 0
        state = state or begin(entries)
        state.find = lambda number: versions[number]
        for block in whole_blocks(entries, more=False):
            if block.position[-1] > end:
                break
            decided = state.apply(block)
            for version in decided.versions:
                compared += 1
                if versions.get(version.number) != version.document:
                    different.append(version.number)
            for promotion in decided.promotions:
                compared += 1
                if promotions.get((promotion.position, promotion.place)) != promotion:
                    different_promotions.append(promotion.position)
            if state.position in stored:
                compared += 1
                kept = load_state(connection, stream, state.position)
                if kept is None or kept.to_bytes() != state.to_bytes():
                    different_states.append(state.position)
        if state.position == before:
            raise InputError("log", f"ends before position {end}", "restore the missing days")
    return Replayed(state, compared, different, different_states, different_promotions)
