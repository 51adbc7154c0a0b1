"""Replay a log: compute states and versions again, and compare them with what was stored."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

from calibrant.messages import InputError, Shown, plural
from calibrant.service.learning.learner import load_state, read_from
from calibrant.service.learning.state import StreamState, begin, whole_blocks


@dataclass(frozen=True)
class Replayed(Shown):
    """What a replay found.

    Attributes
    ----------
    state
        The state at the end.
    compared
        Versions and stored states that were computed again.
    different
        Numbers of the versions that came out otherwise.
    different_states
        Positions of the stored states that came out otherwise.
    """

    state: StreamState
    compared: int
    different: list[int]
    different_states: list[int]

    def __str__(self) -> str:
        """One sentence."""
        found = f"{plural(self.compared, 'version or state', 'versions and states')} computed again up to position"
        if not self.different and not self.different_states:
            return f"{found} {self.state.position:,}: all are equal, bit for bit."
        odd = [f"version {number}" for number in self.different]
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
    compared, different, different_states = 0, [], []
    while state is None or state.position < end:
        entries = read_from(connection, stream, state)
        before = state.position if state else 0
        state = state or begin(entries)
        state.find = lambda number: versions[number]
        for block in whole_blocks(entries, more=False):
            if block.position[-1] > end:
                break
            for version in state.apply(block).versions:
                compared += 1
                if versions.get(version.number) != version.document:
                    different.append(version.number)
            if state.position in stored:
                compared += 1
                kept = load_state(connection, stream, state.position)
                if kept is None or kept.to_bytes() != state.to_bytes():
                    different_states.append(state.position)
        if state.position == before:
            raise InputError("log", f"ends before position {end}", "restore the missing days")
    return Replayed(state, compared, different, different_states)
