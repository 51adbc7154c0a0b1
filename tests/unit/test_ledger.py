"""The ledger of late labels against its definition, event by event."""

from __future__ import annotations

import bisect
import dataclasses
import io
import json
import math
import zipfile
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant as cb
from calibrant.live import Counts, LateLearner, Ledger, read_ids
from calibrant.live import delays as delays_module
from calibrant.live import ledger as ledger_module
from calibrant.live import names as names_module
from calibrant.online import OnlinePlatt

EDGES = [k / 2048 for k in range(8)] + [(8 + k) * 2**e / 2048 for e in range(8) for k in range(8)]
"""Where the cells of delays begin, as shares of the horizon."""


class Definition:
    """The rules of the ledger for one event at a time, in plain Python."""

    def __init__(self, horizon, silence, remember, hold, max_open, max_held, max_remembered, key_columns=1):
        self.__dict__.update(locals())
        self.now, self.counts, self.rows, self.held, self.corrections = -math.inf, Counts(), {}, [], []
        self.delays = []

    def cell(self, delay):
        return bisect.bisect(EDGES, delay / self.horizon) - 1 if delay > 0 else 0

    def learn_delay(self, row):
        if row["label"] == 1 or self.silence == "unknown":
            label = row["label"] if self.silence == "unknown" else 0
            self.delays.append((row["due"] // self.horizon, row["key"], label, self.cell(row["since"] - row["at"])))

    def in_memory(self):
        return [each for each in self.delays if self.now // self.horizon - each[0] < 6]

    def young(self, least, of_key):
        """Rows as known now, with the share of their outcomes that has arrived; None if too few delays are known."""
        labels = (0,) if self.silence == "negative" else (0, 1)
        known = self.in_memory()
        if min(sum(each[2] == label for each in known) for label in labels) < least:
            return None
        found = []
        for _, name in sorted((row["due"], name) for name, row in self.in_state("open") if row["at"] <= self.now):
            row = self.rows[name]
            cell, mine = self.cell(self.now - row["at"]), [each for each in known if each[1] == row["key"]]
            own = min(sum(each[2] == label for each in mine) for label in labels) >= of_key
            shares = {}
            for label in labels:
                these = [each[3] for each in (mine if own else known) if each[2] == label]
                shares[label] = sum(each < cell for each in these) / len(these)
            seen = row["label"] is not None and self.cell(row["since"] - row["at"]) < cell
            if min(shares.values()) >= 0.1 and (seen or self.silence == "negative"):
                label = row["label"] if seen else 0
                found.append((name, label, shares[label if self.silence == "unknown" else 0], own))
        return found

    def drift(self):
        ago = [(self.now // self.horizon - each[0], each[3]) for each in self.in_memory()]
        groups = [[each for each in ago if each[0] < 2], [each for each in ago if each[0] >= 2]]
        if not all(groups):
            return None
        shares = [[sum(each[1] <= cell for each in group) / len(group) for cell in range(72)] for group in groups]
        distance = max(abs(one - other) for one, other in zip(*shares, strict=True))
        apart = sum(each[0] for each in groups[1]) / len(groups[1]) - sum(each[0] for each in groups[0]) / len(
            groups[0]
        )
        return distance, distance / apart

    def in_state(self, state):
        return [(name, row) for name, row in self.rows.items() if row["state"] == state]

    def predict(self, name, score, at, key):
        row = self.rows.get(name)
        content = {"score": score, "at": at, "key": key}
        if row:
            same = all(row[field] == value for field, value in content.items())
            self.count("duplicate_predictions" if same else "conflicting_predictions")
        elif at + self.horizon <= self.now:
            self.count("late_predictions")
        elif self.counts.open >= self.max_open:
            self.count("overflow_predictions")
        else:
            self.rows[name] = content | {"state": "open", "label": None, "due": at + self.horizon, "corrected": False}
            self.counts.open += 1
            waiting = [event for event in self.held if event[0] == name]
            self.held = [event for event in self.held if event[0] != name]
            self.counts.held -= len(waiting)
            for _, label, when, _ in waiting:
                self.observe(name, label, when)

    def observe(self, name, label, at):
        row = self.rows.get(name)
        if row is None and self.hold == 0:
            self.count("unknown")
        elif row is None and self.counts.held >= self.max_held:
            self.count("overflow_outcomes")
        elif row is None:
            self.counts.held += 1
            self.held.append((name, label, at, max(at, self.now) + self.hold))
        elif at > row["at"] + self.horizon:
            self.count("too_late")
        elif row["state"] == "open" and row["label"] is None:
            self.count("joined")
            row.update(label=label, since=max(at, self.now))
        elif row["state"] == "open" and row["label"] == label:
            self.count("duplicate_outcomes")
        elif row["state"] == "open":
            self.count("replaced")
            row.update(label=label, since=max(at, self.now))
        elif row["label"] != label:
            self.count("after_release")
            self.corrections.append((name, row["label"], label))
            if row["label"] is not None and not row["corrected"]:
                self.count("corrected")
                row["corrected"] = True
            row.update(label=label, silent=False)
        else:
            self.count("agreed" if row["silent"] else "duplicate_outcomes")
            row["silent"] = False

    def advance(self, now):
        if now < self.now:
            self.count("stale")
            return []
        self.now = now
        due = sorted((row["due"], name) for name, row in self.in_state("open") if row["due"] <= now)
        told = []
        for _, name in due:
            row = self.rows[name]
            silent = row["label"] is None
            self.counts.open -= 1
            self.count("with_outcome" if not silent else f"silent_{self.silence}")
            if not silent:
                self.learn_delay(row)
            if silent and self.silence == "negative":
                row["label"] = 0
            row.update(state="done", silent=silent, due=row["due"] + self.remember)
            if row["label"] is not None:
                told.append((name, row["score"], row["label"], row["key"], row["at"], silent))
        for event in [event for event in self.held if event[3] <= now]:
            self.counts.held -= 1
            self.count("unknown")
            self.held.remove(event)
        for name, row in self.in_state("done"):
            if row["due"] <= now:
                del self.rows[name]
        kept = sorted((row["due"], name) for name, row in self.in_state("done"))
        for _, name in kept[: max(len(kept) - self.max_remembered, 0)]:
            self.count("forgotten_early")
            del self.rows[name]
        return told

    def count(self, field):
        setattr(self.counts, field, getattr(self.counts, field) + 1)


NAMES = ("shop", "cafe")
times = st.integers(0, 30).map(float)
names = st.integers(0, 7)
events = st.one_of(
    st.tuples(st.just("predict"), names, st.sampled_from([0.1, 0.7]), times, st.integers(0, 1)),
    st.tuples(st.just("observe"), names, st.integers(0, 1), times),
    st.tuples(st.just("advance"), times),
)
limits = st.fixed_dictionaries(
    {
        "horizon": st.sampled_from([1.0, 5.0, 12.0]),
        "silence": st.sampled_from(["negative", "unknown"]),
        "remember": st.sampled_from([0.0, 3.0, 20.0]),
        "hold": st.sampled_from([0.0, 4.0, 20.0]),
        "max_open": st.sampled_from([1, 3, 100]),
        "max_held": st.sampled_from([0, 1, 100]),
        "max_remembered": st.sampled_from([0, 2, 100]),
        "key_columns": st.sampled_from([1, 2]),
    }
)


def rows_of(released):
    columns = (released.ids[:, 1], released.scores, released.labels, released.keys, released.at, released.silent)
    return list(zip(*(each.tolist() for each in columns), strict=True))


def feed(ledger, batch):
    """Register a batch of events of one kind."""
    kind, columns = batch[0][0], list(zip(*(each[1:] for each in batch), strict=True))
    if kind == "predict":
        keys = np.array(columns[3])
        keys = keys if ledger.key_columns == 1 else np.column_stack([keys, 5 - keys])
        ledger.predict(np.array(columns[0]), columns[1], at=np.array(columns[2]), keys=keys)
    else:
        ledger.observe(np.array(columns[0]), columns[1], at=np.array(columns[2]))


def young_of(ledger):
    """Rows that wait with their shares, or None, and the drift."""
    drift = ledger.delay_drift
    drift = None if math.isnan(drift.distance) else (drift.distance, drift.per_horizon)
    try:
        young = ledger.young()
    except cb.InputError:
        return None, drift
    columns = (young.ids[:, 1], young.labels, young.arrived, young.own)
    return list(zip(*(each.tolist() for each in columns), strict=True)), drift


def play(ledger, history, young=None):
    """All events, those of one kind that follow each other in one batch; ``young`` lists the rows that wait."""
    told, batch = [], []
    for event in [*history, ("end",)]:
        if batch and event[0] != batch[0][0]:
            feed(ledger, batch)
            batch = []
        if event[0] == "advance":
            told += rows_of(ledger.advance(event[1]))
            if young is not None:
                young.append(young_of(ledger))
            assert len(ledger) <= ledger.max_open + ledger.max_held + ledger.max_remembered
        elif event[0] != "end":
            batch.append(event)
    return told


@pytest.fixture(scope="module", autouse=True)
def _few_delays_are_enough():
    """Short histories have few delays."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger_module, "MIN_DELAYS", 1)
        patch.setattr(delays_module, "MIN_OF_KEY", 2)
        yield


@settings(max_examples=100, deadline=None)
@given(limits, st.lists(events, max_size=60), st.integers(0, 60))
def test_the_ledger_does_what_its_definition_says(options, history, cut):
    slow, fast = Definition(**options), Ledger(**options)
    expected, expected_young = [], []
    for kind, *event in history:
        if kind == "predict" and options["key_columns"] == 2:
            event[3] = [event[3], 5 - event[3]]
        found = getattr(slow, kind)(*event)
        expected += found or []
        if kind == "advance":
            expected_young.append((slow.young(1, 2), slow.drift()))
    young = []
    told = play(fast, history, young)
    assert told == expected
    for (rows, drift), (these, this) in zip(young, expected_young, strict=True):
        assert rows == these
        assert drift == this or drift == pytest.approx(this, rel=1e-12)
    assert fast.counts == slow.counts
    assert [(int.from_bytes(each.id), each.before, each.after) for each in fast.take_corrections()] == slow.corrections
    assert len(fast) == len(slow.rows) + len(slow.held)
    assert fast.counts.predictions == sum(event[0] == "predict" for event in history)
    assert fast.counts.outcomes == sum(event[0] == "observe" for event in history)

    # A snapshot anywhere changes nothing.
    first, before_young, after_young = Ledger(**options), [], []
    before = play(first, history[:cut], before_young)
    again = Ledger.from_bytes(first.to_bytes())
    assert again.to_bytes() == first.to_bytes()
    assert before + play(again, history[cut:], after_young) == expected
    assert before_young + after_young == young
    assert again.counts == fast.counts
    whole = Ledger(**options)
    play(whole, history)
    assert whole.to_bytes() == again.to_bytes()

    # Text keys are the same keys; their names come and go.
    if options["key_columns"] == 1:
        named = [(*event[:4], NAMES[event[4]]) if event[0] == "predict" else event for event in history]
        texts, text_young = Ledger(**options), []
        before = play(texts, named[:cut], text_young)
        once = Ledger.from_bytes(texts.to_bytes())
        assert once.to_bytes() == texts.to_bytes()
        assert before + play(once, named[cut:], text_young) == [(*row[:3], NAMES[row[3]], *row[4:]) for row in expected]
        assert text_young == young
        assert once.counts == fast.counts
        everything = Ledger(**options)
        play(everything, named)
        assert once.to_bytes() == everything.to_bytes()


@pytest.mark.parametrize("silence", ["negative", "unknown"])
def test_rows_that_wait_are_known_as_their_definition_says(silence):
    """Histories in the order of time, in which many rows wait while the delays of others are known."""
    rng, compared = np.random.default_rng(5), 0
    for columns in (1, 2):
        slow = Definition(12.0, silence, 3.0, 4.0, 100, 100, 100, columns)
        fast = Ledger(12.0, silence=silence, remember=3.0, hold=4.0, key_columns=columns)
        for now in range(90):
            history = [("predict", 10 * now + k, 0.3, float(now), int(rng.integers(2))) for k in range(3)]
            ids = rng.integers(max(10 * now - 120, 0), 10 * now + 3, 8)
            history += [("observe", int(each), int(rng.integers(2)), float(now)) for each in ids]
            feed(fast, history[:3])
            feed(fast, history[3:])
            for kind, *event in history:
                if kind == "predict" and columns == 2:
                    event[3] = [event[3], 5 - event[3]]
                getattr(slow, kind)(*event)
            slow.advance(float(now))
            fast.advance(float(now))
            rows, drift = young_of(fast)
            assert rows == slow.young(1, 2)
            assert drift == slow.drift() or drift == pytest.approx(slow.drift(), rel=1e-12)
            compared += len(rows or ())
    assert compared > 1_000


@settings(max_examples=100, deadline=None)
@given(st.lists(events, max_size=60))
def test_two_shards_equal_one(history):
    one, shards = Ledger(5.0), [Ledger(5.0), Ledger(5.0)]
    told = play(one, history)
    parts = [play(shard, [e for e in history if e[0] == "advance" or e[1] % 2 == k]) for k, shard in enumerate(shards)]
    assert sorted(parts[0] + parts[1], key=lambda row: (row[4], row[0])) == sorted(
        told, key=lambda row: (row[4], row[0])
    )
    total = {
        name: sum(asdict(shard.counts)[name] for shard in shards) for name in asdict(one.counts) if name != "stale"
    }
    assert total == {name: value for name, value in asdict(one.counts).items() if name != "stale"}
    assert (one._delays.pooled == shards[0]._delays.pooled + shards[1]._delays.pooled).all()
    for key, counts in one._delays.by_key.items():
        parts = [shard._delays.by_key.get(key, 0) for shard in shards]
        assert (counts == parts[0] + parts[1]).all()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), times), max_size=6), st.integers(0, 6), st.integers(0, 6))
def test_the_place_of_a_prediction_among_its_outcomes_does_not_matter(outcomes, one, other):
    found = []
    for place in (one, other):
        ledger = Ledger(10.0)
        events = [("observe", 3, *each) for each in outcomes]
        events.insert(min(place, len(events)), ("predict", 3, 0.5, 5.0, 0))
        assert play(ledger, events) == []
        found.append((rows_of(ledger.advance(20.0)), ledger.counts))
    assert found[0] == found[1]


def test_floods_are_bounded_and_quick():
    ledger = Ledger(1.0, max_open=1, max_held=1, max_remembered=1, max_corrections=3, hold=1e12)
    ledger.predict([0], [0.5], at=0.0)
    ledger.advance(1.0)
    ledger.observe(np.zeros(20_001, dtype=int), np.arange(20_001) % 2, at=0.5)  # one outcome that changes all the time
    assert len(ledger.take_corrections()) == 3
    assert ledger.counts.dropped_corrections == 20_000 - 3
    assert ledger.counts.corrected == 1
    assert ledger.counts.correction_rate == 1.0
    ledger.predict(np.full(20_000, 7), np.full(20_000, 0.5), at=5.0)
    assert ledger.counts.duplicate_predictions == 19_999
    for k in range(300):  # outcomes that are joined leave nothing behind
        ledger.observe([100 + k], [1], at=10.0 + k)
        ledger.predict([100 + k], [0.5], at=10.0 + k)
        ledger.advance(11.5 + k)
    assert len(ledger._held._due) <= 70
    steps = np.arange(1, 20_001, dtype=np.uint64)
    chosen = np.column_stack([steps, steps * np.uint64(0x9E3779B97F4A7C15)])  # ids chosen by somebody who read the code
    wide = Ledger(1.0)
    wide.predict(chosen.astype(">u8").view("V16").ravel(), np.full(20_000, 0.5), at=0.0)
    assert wide.counts.open == 20_000


def test_states_that_nobody_wrote_are_refused():
    ledger = Ledger(5.0)
    ledger.predict([1, 2], [0.1, 0.2], at=0.0)
    ledger.observe([9], [1], at=1.0)
    good = ledger.to_bytes()
    with zipfile.ZipFile(io.BytesIO(good)) as packed:
        parts = {each: packed.read(each) for each in packed.namelist()}

    def packed_again(changes, method=zipfile.ZIP_STORED):
        found = io.BytesIO()
        with zipfile.ZipFile(found, "w", method) as again:
            for name, raw in (parts | changes).items():
                if raw is not None:
                    again.writestr(name, raw)
        return found.getvalue()

    def head_with(**changes):
        found, raw = io.BytesIO(), np.load(io.BytesIO(good))["head"].tobytes()
        np.save(found, np.frombuffer(json.dumps(json.loads(raw) | changes).encode(), dtype=np.uint8))
        return packed_again({"head.npy": found.getvalue()})

    counts = asdict(ledger.counts)
    huge = parts["at.npy"].replace(b"(2,)", b"(9**99,)"[:4])
    states = [
        packed_again({"ids.npy": None, "ids": parts["ids.npy"]}),
        packed_again({"at.npy": huge}),
        packed_again({"at.npy": parts["at.npy"][:-3]}),
        packed_again({"more.npy": parts["at.npy"]}),
        packed_again({"head.npy": b"{}"}),
        packed_again({}, zipfile.ZIP_DEFLATED),
        head_with(now=math.nan),
        head_with(now=math.inf),
        head_with(now="5"),
        head_with(now=10**400),
        head_with(counts=counts | {"stale": "x"}),
        head_with(counts=counts | {"stale": -1}),
        head_with(counts=counts | {"joined": math.nan}),
        head_with(counts=counts | {"open": 1}),
        head_with(counts=counts | {"held": 0}),
        head_with(corrections=[{"id": "00" * 16, "score": "x"}]),
        head_with(settings={}),
        head_with(settings=ledger.settings() | {"key_columns": 2}),
        head_with(settings=ledger.settings() | {"silence": "unknown"}),
        head_with(period=0.5),
        head_with(period=None),
        packed_again({"delay.npy": parts["delay.npy"][:-1] + b"\xff"}),
        packed_again({"delays.npy": parts["delays.npy"][:-1] + b"\xff"}),
        packed_again({"key_delays.npy": parts["delays.npy"], "delay_keys.npy": parts["at.npy"]}),
    ]
    states += [head_with(names=each) for each in (None, [], ["a", "b"], ["\0"], [0], "a")]
    for state in states:
        with pytest.raises(cb.InputError, match="state"):
            Ledger.from_bytes(state)
    assert Ledger.from_bytes(head_with(names=["a"])).advance(5.0).keys.tolist() == ["a", "a"]
    for k in range(0, len(good), 37):  # a flipped byte is refused, or is one that no reader looks at
        try:
            again = Ledger.from_bytes(good[:k] + bytes([good[k] ^ 255]) + good[k + 1 :])
        except cb.InputError:
            continue
        assert again.to_bytes() == good
    assert Ledger.from_bytes(packed_again({})).to_bytes() == good


def test_ids_of_every_kind():
    import uuid

    unique = uuid.UUID(int=5)
    assert read_ids([unique]).tolist() == [[0, 5]]
    assert read_ids([5]).tolist() == read_ids(np.array([5])).tolist() == [[0, 5]]
    assert read_ids(np.array([b"ab"])).tolist() == read_ids([b"ab"]).tolist() != read_ids([b"ab\0"]).tolist()
    assert read_ids([b"x" * 16]).tolist() == read_ids(np.array([b"x" * 16])).tolist()
    assert len(read_ids(["\ud800"])) == 1
    assert len({tuple(pair) for pair in read_ids([f"request-{k}" for k in range(1000)]).tolist()}) == 1000
    assert read_ids([]).shape == (0, 2)
    for bad in ([-1], [1.5], [None], [True], np.array([[1]]), [2**64], "r1", b"r1", None, 5, [bytearray(b"a")]):
        with pytest.raises(cb.InputError, match="ids"):
            read_ids(bad)


def test_text_keys_come_back_and_their_names_are_forgotten(subtests):
    for form in (["b", "a"], np.array(["b", "a"]), np.array(["b", "a"], dtype=object), ("b", "a")):
        with subtests.test(form=form):
            ledger = Ledger(1.0)
            ledger.predict([1, 2], [0.5, 0.5], at=0.0, keys=form)
            assert ledger.advance(1.0).keys.tolist() == ["b", "a"]
            ledger.observe([1], [1], at=0.5)
            assert [each.key for each in ledger.take_corrections()] == ["b"]
    ledger = Ledger(1.0, remember=0.0)
    for k in range(40):  # each request has a name of its own: memory is that of the rows
        ids = np.arange(200 * k, 200 * k + 200)
        ledger.predict(ids, np.full(200, 0.5), at=float(k), keys=[f"user {each}" for each in ids])
        assert ledger.advance(k + 1.0).keys.tolist() == [f"user {each}" for each in ids]
        assert len(ledger._names) <= 200 + 2 * 200 + names_module.SLACK
    assert b"user" not in ledger.to_bytes()
    ledger.predict([1], [0.5], at=100.0, keys="anna")
    ledger.erase(read_ids([1]).astype(">u8").tobytes())
    assert b"anna" not in ledger.to_bytes()
    assert ledger.advance(101.0).keys.tolist() == []
    assert ledger.counts.erased == 1
    for keys, problem in (
        (0, "holds integers, but the keys so far are text"),
        (["a", "b"], "has shape"),
        (["a\0"], "cannot store"),
        ([None], "keys must hold integers|holds integers"),
    ):
        with subtests.test(keys=keys), pytest.raises(cb.InputError, match=problem):
            ledger.predict([2], [0.5], at=200.0, keys=keys)
    with pytest.raises(cb.InputError, match="holds 3"):
        Ledger(1.0).predict([1, 2], [0.5, 0.5], at=0.0, keys=["a", 3])
    numbers = Ledger(1.0)
    numbers.predict([1], [0.5], at=0.0)
    with pytest.raises(cb.InputError, match="holds text, but the keys so far are integers"):
        numbers.predict([2], [0.5], at=0.0, keys="a")


def test_an_id_is_erased_with_its_keys_and_corrections():
    ledger = Ledger(1.0, key_columns=2)
    ledger.predict([1, 2], [0.5, 0.5], at=0.0, keys=[[3, 4], [5, 6]])
    ledger.advance(1.0)
    ledger.observe([1], [1], at=0.5)
    ledger.observe([2], [1], at=0.5)
    ledger.erase(read_ids([1]).astype(">u8").tobytes())
    assert [each.key for each in ledger.take_corrections()] == [(5, 6)]
    assert Ledger.from_bytes(ledger.to_bytes()).to_bytes() == ledger.to_bytes()


def test_many_ids_are_found_and_forgotten():
    ledger = Ledger(1.0, remember=0.0, hold=0.0)
    rng = np.random.default_rng(0)
    for k in range(30):
        ids = rng.permutation(5_000) + 5_000 * (k % 3)
        ledger.predict(ids, np.full(5_000, 0.5), at=2.0 * k)
        ledger.observe(ids[::7], np.ones(len(ids[::7])), at=2.0 * k + 0.5)
        released = ledger.advance(2.0 * k + 1.0)
        assert released.labels.sum() == len(ids[::7])
        assert released.ids[:, 1].tolist() == sorted(ids.tolist())
    assert len(ledger) == 0


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: Ledger(None), "horizon must be a finite number, positive"),
        (lambda: Ledger(0.0), "horizon must be"),
        (lambda: Ledger(math.inf), "horizon must be"),
        (lambda: Ledger(1.0, silence="drop"), "silence"),
        (lambda: Ledger(1.0, max_open=-1), "max_open"),
        (lambda: Ledger(1.0).predict([1], [math.nan], at=0.0), "scores must be finite"),
        (lambda: Ledger(1.0).predict([1, 2], [0.5], at=0.0), "scores has shape"),
        (lambda: Ledger(1.0).predict([1], [0.5], at=math.inf), "at must hold finite"),
        (lambda: Ledger(1.0).predict([1], [0.5], at="now"), "at must hold numbers"),
        (lambda: Ledger(1.0).predict([1], [0.5], at=0.0, keys=[0.5]), "keys must hold integers"),
        (lambda: Ledger(1.0, key_columns=2).predict([1], [0.5], at=0.0, keys=[["a", "b"]]), "keys must hold integers"),
        (lambda: Ledger(1.0).observe([1], [0.5], at=0.0), "labels must be 0 or 1"),
        (lambda: Ledger(1.0).observe([1], [1]), "at is missing"),
        (lambda: Ledger(1.0).advance(math.nan), "now must hold"),
        (lambda: Ledger(1.0).advance(None), "now must hold"),
        (lambda: Ledger(1.0).advance("x"), "now must hold"),
        (lambda: Ledger(1.0, key_columns=0), "key_columns"),
        (lambda: Ledger(1.0, key_columns=2).predict([1], [0.5], at=0.0, keys=[3]), "2 integers per id"),
        (lambda: Ledger(1.0, key_columns=2).predict([1], [0.5], at=0.0, keys=[[0.5, 1]]), "keys must hold integers"),
        (lambda: Ledger(1.0).young(), "ledger has released too few outcomes"),
        (lambda: Ledger(1e308).predict([1], [0.5], at=1.7e308), "at must hold finite"),
        (lambda: Ledger(1.0).predict([1], [0.5], at=0.0, keys=np.uint64(2**63 + 5)), "keys"),
        (lambda: Ledger.from_bytes(b"x"), "state is damaged"),
        (lambda: Ledger.from_bytes(Ledger(1.0).to_bytes()[:-30]), "state is damaged"),
    ],
)
def test_wrong_input_is_refused(call, match):
    with pytest.raises(cb.InputError, match=match):
        call()


def delayed(ledger, pace=4, factor=None, seed=0, both=False):
    """A stream of 1,000 units of time that runs through a ledger with horizon 100, ``pace`` rows per unit."""
    rng = np.random.default_rng(seed)
    n = 1_000 * pace
    score, key, at = rng.beta(2, 4, n), rng.integers(0, 2, n), np.arange(n) / pace
    event = rng.random(n) < score
    delay = rng.exponential(20.0 + 40.0 * key) * (1.0 if factor is None else factor(at))
    delay = np.where(delay > 100.0, 100.0 * rng.random(n), delay)
    when = at + delay
    for now in range(50, 1_001, 50):
        rows = np.flatnonzero((at > now - 50.0) & (at <= now))
        ledger.predict(rows, score[rows], at=at[rows], keys=key[rows])
        seen = np.flatnonzero((when > now - 50.0) & (when <= now) & (event | both))
        ledger.observe(seen, event[seen], at=when[seen])
        ledger.advance(float(now))
    return score


def test_early_rows_count_as_they_will_when_all_outcomes_are_known(subtests):
    for silence in ("negative", "unknown"):
        with subtests.test(silence=silence):
            ledger = Ledger(100.0, silence=silence)
            score = delayed(ledger, pace=40, both=silence == "unknown")
            young = ledger.young()
            rates = score[young.ids[:, 1].astype(int)]
            weights = young.weights(rates if silence == "negative" else None)
            assert young.own.all()
            assert (weights * (young.labels - young.scores)).sum() / weights.sum() == pytest.approx(0.0, abs=0.05)
            assert young.arrived.min() >= 0.1
            assert not young.drift.warns
            assert "rows waiting with" in str(young)
            counted = ledger.counts
            assert ledger.young().ids.tolist() == young.ids.tolist()
            assert ledger.counts == counted
    for wrong in ([0.5], 1.5, [math.nan] * len(young)):
        with pytest.raises(cb.InputError, match="rates"):
            dataclasses.replace(young, silent_negatives=True).weights(wrong)
    with pytest.raises(cb.InputError, match="rates is missing"):
        dataclasses.replace(young, silent_negatives=True).weights()


def test_delays_that_drift_are_seen():
    steady, moving = Ledger(100.0), Ledger(100.0)
    delayed(steady, pace=40)
    delayed(moving, pace=40, factor=lambda at: np.where(at < 700.0, 0.2, 1.0))
    assert not steady.delay_drift.warns
    assert moving.delay_drift.warns
    assert moving.delay_drift.per_horizon > 0.02
    assert "they drift" in str(moving.delay_drift)
    assert "not known yet" in str(Ledger(1.0).delay_drift)


def test_keys_without_room_share_the_delays_of_all():
    ledger = Ledger(100.0, max_delay_keys=1)
    delayed(ledger)
    young = ledger.young()
    assert len({*young.keys[young.own].tolist()}) == 1
    assert len({*young.keys[~young.own].tolist()}) == 1
    pooled = Ledger(100.0, max_delay_keys=0)
    delayed(pooled)
    assert not pooled.young().own.any()
    ledger.advance(1e6)  # delays of long ago are forgotten
    assert ledger._delays.by_key == {}
    with pytest.raises(cb.InputError, match="too few outcomes"):
        ledger.young()


# ------------------------------------------------------------------------------------------------------------- learning


def clicks(n=150_000, seed=0):
    """A stream with 1.5 % clicks and a model that is off by 0.5 in log-odds; one row per second."""
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(-4.2, 0.6, n)
    truth = 1.0 / (1.0 + np.exp(-log_odds))
    return 1.0 / (1.0 + np.exp(-(log_odds + 0.5))), rng.random(n) < truth, truth, rng.exponential(300.0, n)


@pytest.mark.parametrize("copies", [1, 2])
def test_early_clicks_and_clicks_delivered_twice_do_no_harm(copies):
    scores, clicked, truth, delay = clicks()
    horizon, step = 10_000.0, 2_500
    learner = LateLearner(OnlinePlatt(), Ledger(horizon))
    when = np.where(clicked, np.arange(len(scores)) + delay, np.inf)
    forecasts = []
    for start in range(0, len(scores), step):
        rows = np.arange(start, start + step)
        forecasts.append(learner.predict(rows, scores[rows], at=rows.astype(float)))
        seen = np.flatnonzero((when > start) & (when <= start + step))
        for _ in range(copies):
            learner.observe(seen, np.ones(len(seen)), at=when[seen])
        learner.advance(float(start + step))
    told = np.concatenate(forecasts)
    waiting = np.arange(len(scores)) < horizon
    assert told[waiting] == pytest.approx(scores[waiting], rel=1e-12)  # nothing is learned before the first horizon
    later = np.arange(len(scores)) >= 100_000
    assert told[later].sum() / truth[later].sum() == pytest.approx(1.0, abs=0.05)
    assert (
        learner.ledger.counts.duplicate_outcomes + learner.ledger.counts.agreed
        == (copies - 1) * (learner.ledger.counts.joined) + (copies - 1) * learner.ledger.counts.after_release
    )

    # The same rows without delay, in the order of their release, give the same forecaster.
    done = learner.forecaster.n_rows
    in_time = clicked & (delay <= horizon)
    assert OnlinePlatt().learn_many(scores[:done], in_time[:done]).to_json() == learner.forecaster.to_json()
    assert LateLearner.from_bytes(learner.to_bytes()).to_bytes() == learner.to_bytes()


def test_a_row_that_is_refused_is_not_lost():
    learner = LateLearner(OnlinePlatt(), Ledger(1.0))
    learner.ledger.predict([1, 2], [0.3, 2.0], at=0.0)
    with pytest.raises(cb.InputError, match="score"):
        learner.advance(1.0)
    assert learner.forecaster.n_rows == 0
    with pytest.raises(cb.InputError, match="refused rows"):
        learner.to_bytes()
    with pytest.raises(cb.InputError, match="score"):
        learner.advance(2.0)


def test_only_forecasters_of_one_score_learn_late():
    with pytest.raises(cb.InputError, match="forecaster must be"):
        LateLearner(lambda score: score, Ledger(1.0))
    with pytest.raises(cb.InputError, match="ledger must be"):
        LateLearner(OnlinePlatt(), 5.0)
    with pytest.raises(cb.InputError, match="state is damaged"):
        LateLearner.from_bytes(Ledger(1.0).to_bytes())


def test_a_ledger_prints_what_waits():
    ledger = Ledger(10.0)
    ledger.predict(["a", "b"], [0.2, 0.4], at=[0.0, 1.0])
    assert str(ledger).startswith("Ledger(horizon=10): 2 predictions: 2 waiting, 0 released")
