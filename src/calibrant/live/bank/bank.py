"""A bank: one forecaster for each of many keys, in contiguous records, shrunken toward a common prior."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays.columns import check_option, check_whole
from calibrant.calibration import Calibration
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.guarantees.provenance import Provenance, library_version
from calibrant.live.bank.estimate import estimated_prior
from calibrant.live.bank.inputs import (
    key_columns,
    read_columns,
    read_crossings,
    read_half_lives,
    read_weights,
)
from calibrant.live.bank.keys import KeyTable, KeyValues
from calibrant.live.bank.prior import Prior
from calibrant.live.bank.records import Records
from calibrant.live.bank.steps import CHANGED, EVENTS, ROWS, learn_many, maps_of, predict_many, row_steps
from calibrant.live.bank.stored import ARRAYS, check_records, read, written
from calibrant.live.snapshots import damaged, pack, unpack
from calibrant.maps import ByGroupMap, LogitAffineMap, Map
from calibrant.messages import InputError, Shown, plural
from calibrant.numerics import Floats
from calibrant.online import Forecaster
from calibrant.online.inputs import many_labels, many_scores
from calibrant.online.kernels import ENOUGH_ROWS, compiler
from calibrant.online.limits import MAX_ROWS, clamp_of, real

Keep = Literal["maps", "deviations"]

CHUNK = 16_384
"""Rows that are prepared and learned at a time, so that they stay in the cache."""

KIND, CHANGES = "bank", "bank-changes"
"""Names in its states: a whole bank, and keys that changed since a version."""

COMPILED: set[str] = set()
"""Which steps were compiled in this process, so that short batches use them too."""


class Bank(Shown):
    """Online Platt scaling for each of many keys; a key starts from a common map and leaves it as its rows come.

    The map of a key is a posterior mean: the prior, a Platt map of all keys with its spread between keys, times a
    second-order approximation of the likelihood of the key's own rows. A key without rows has the map of the prior and
    takes no memory. A key takes 64 bytes and its name.

    Parameters
    ----------
    prior
        A :class:`Prior`, or a map, calibration or forecaster of all keys; by default the score as it is. Only
        :meth:`refresh_prior` changes it.
    columns
        Names of the columns of keys. With several, ``keys`` is a mapping or a frame.
    crossings
        Keys from coarse to fine, each a tuple of columns: the map of a key is then the prior of the next one in its
        row. By default one key, which combines all columns.
    half_life
        Number of rows of a key after which a row counts half; one number, or one for each crossing. By default rows do
        not fade. A key whose rows have faded is near the prior again.
    clamp
        Scores are clipped to this distance from 0 and 1.

    Notes
    -----
    Guarantee: no finite-sample guarantee. The same rows in the same order give the same bits, in batches of any size,
    compiled or not, and in shards that hold whole keys: see :meth:`merged`.

    Edges: rows of one key in a batch are learned in their order. Outcomes may be fractions of events in [0, 1]. A
    weight multiplies the log-likelihood of its row; a row with weight 0 is left out. Use a lock around a bank that
    threads share.

    Cost: about 90 ns a row compiled, as measured by ``benchmarks/bank.py`` with 100,000 integer keys on an idle
    machine; most of it is for the steps, which visit a record in a random place of the memory for each row.
    :meth:`compile` takes some seconds, and is called by the first batch of a million rows.

    Reference: West, Harrison and Migon (1985), Dynamic generalized linear models; Efron and Morris (1975);
    docs/decisions/0019-the-bank.md.

    Examples
    --------
    >>> bank = Bank(Prior(level_sd=0.5, center=0.2))
    >>> bank.predict([0.2, 0.2], ["a", "b"]).round(3).tolist()
    [0.2, 0.2]
    >>> _ = bank.learn([0.2] * 20, ["a"] * 20, [1] * 8 + [0] * 12)
    >>> bank.predict([0.2, 0.2], ["a", "b"]).round(3).tolist()
    [0.298, 0.2]
    >>> print(bank)
    1 key, 20 rows. Prior 1: slope 1, intercept 0; keys differ by 0.5 in log-odds at 0.2 and by 0.2 in slope.
    """

    def __init__(
        self,
        prior: Prior | Map | Calibration | Forecaster | None = None,
        *,
        columns: str | Sequence[str] = "key",
        crossings: Sequence[Sequence[str]] | None = None,
        half_life: float | Sequence[float] | None = None,
        clamp: float = 1e-5,
    ) -> None:
        self.columns = read_columns(columns)
        self.crossings = read_crossings(crossings, self.columns)
        self.half_life = read_half_lives(half_life, len(self.crossings))
        self.clamp = clamp_of(clamp)
        self.prior = Prior() if prior is None else Prior.of(prior)
        self.n_rows = 0
        self.n_priors = 1
        self._frame = (self.prior.slope, self.prior.intercept)
        self._oldest = 0  # changes after this version are known by key
        self._records = Records(self.crossings)
        self._fast = False
        self._set_prior()

    # ---------------------------------------------------------------------------------------------------------- rows

    def predict(self, scores: ArrayLike, keys: Any) -> Floats:
        """Probabilities of events, given what was learned so far.

        Parameters
        ----------
        scores
            Probabilities in [0, 1].
        keys
            The key of each row: integers or text, as were learned, or with several columns a mapping or a frame of
            them. Rows with unknown keys get the map of the prior, or of the finest known crossing.

        Returns
        -------
        array
            One forecast per row.
        """
        xs = many_scores(scores)
        columns = key_columns(keys, self.columns, len(xs))
        self._records.admit_kinds(columns)
        out = np.empty(len(xs))
        rows = self._records.found(columns)
        fast = self._use_fast(len(xs), "predict")
        for start in range(0, len(xs), CHUNK):
            part = slice(start, start + CHUNK)
            z = self._log_odds(xs[part])
            if fast:
                row_steps(fast=True)[0](
                    self._records.flat, rows[part].reshape(-1), self._levels, self._common, z, out[part]
                )
            else:
                out[part] = predict_many(self._records.flat, rows[part], self._levels, self._common, z)
        return out

    def learn(self, scores: ArrayLike, keys: Any, outcomes: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Learn outcomes, in order.

        Parameters
        ----------
        scores, keys
            As in :meth:`predict`; new keys are added.
        outcomes
            0 or 1, or fractions in between.
        weights
            One for each row, 0 or more; by default 1.

        Returns
        -------
        Bank
            The bank itself. If an argument is wrong, nothing is learned.
        """
        self.forecast(scores, keys, outcomes, weights)
        return self

    def forecast(self, scores: ArrayLike, keys: Any, outcomes: ArrayLike, weights: ArrayLike | None = None) -> Floats:
        """Forecast each row from the rows before it, then learn its outcome, as a live run would have done.

        Parameters
        ----------
        scores, keys, outcomes, weights
            As in :meth:`learn`.

        Returns
        -------
        array
            One forecast per row.
        """
        xs = many_scores(scores)
        ys = many_labels(outcomes, scores, bounded=True)
        columns = key_columns(keys, self.columns, len(xs))
        ws = None if weights is None else read_weights(weights, len(xs))
        if self.n_rows + len(xs) > MAX_ROWS:
            raise InputError("scores", "are more rows than a bank can count")
        self._records.admit(columns)
        if ws is not None and len(ws) and not ws.min() > 0.0:
            return self._forecast_some(xs, columns, ys, ws, ws > 0.0)
        out, ones = np.empty(len(xs)), np.ones(min(len(xs), CHUNK))
        rows = self._records.added(columns)
        first = np.arange(self.version + 1.0, self.version + 1.0 + len(ones))
        fast = self._use_fast(len(xs), "learn")
        for start in range(0, len(xs), CHUNK):
            part = slice(start, start + CHUNK)
            z = self._log_odds(xs[part])
            weight = ones[: len(z)] if ws is None else ws[part]
            these = (self._levels, self._common, z, ys[part], weight, first[: len(z)] + start)
            if fast:
                row_steps(fast=True)[1](self._records.flat, rows[part].reshape(-1), *these, out[part])
            else:
                out[part] = learn_many(self._records.flat, rows[part], *these)
        self.n_rows += len(xs)
        return out

    def _forecast_some(self, xs: Floats, columns: dict[str, KeyValues], ys: Floats, ws: Floats, kept: Any) -> Floats:
        """Rows with weight 0 are forecast and left out, each in its place."""
        out, start = np.empty(len(xs)), 0
        ends = np.flatnonzero(np.diff(kept)) + 1
        for end in [*ends.tolist(), len(xs)]:
            some = {name: each[start:end] for name, each in columns.items()}
            part = slice(start, end)
            out[part] = (
                self.forecast(xs[part], some, ys[part], ws[part]) if kept[start] else self.predict(xs[part], some)
            )
            start = end
        return out

    def compile(self) -> Self:
        """Compile the steps now; the results are the same. Needs ``calibrant[fast]``."""
        if compiler() is None:
            raise InputError("compile", "needs numba", "install calibrant[fast], or leave it out: results are the same")
        self._fast = True
        return self

    def _use_fast(self, n: int, what: str) -> bool:
        fast = compiler() is not None and (self._fast or n >= ENOUGH_ROWS or what in COMPILED)
        if fast:
            COMPILED.add(what)
        return fast

    def _log_odds(self, xs: Floats) -> Floats:
        x = np.maximum(xs, self.clamp)
        np.minimum(x, 1.0 - self.clamp, out=x)
        np.divide(x, 1.0 - x, out=x)
        return np.log(x, out=x)

    # ---------------------------------------------------------------------------------------------------------- keys

    @property
    def n_keys(self) -> int:
        """Keys that have learned a row, of all crossings."""
        return self._records.used

    def __len__(self) -> int:
        return self._records.used

    def rows_of_top(self, keys: int) -> int:
        """The smallest number of rows that at most this many keys of the first crossing have, for :meth:`freeze`.

        Parameters
        ----------
        keys
            Largest number of keys.

        Returns
        -------
        int
            At least 1.
        """
        check_whole("keys", keys, 0)
        rows = np.sort(self._records.column(0, ROWS))[::-1]
        return 1 if len(rows) <= keys else int(rows[keys]) + 1

    # --------------------------------------------------------------------------------------------------------- prior

    @property
    def version(self) -> int:
        """A number that grows with every row learned and every new prior."""
        return self.n_rows + self.n_priors

    def refresh_prior(self, prior: Prior | Map | Calibration | Forecaster, *, keep: Keep = "maps") -> Self:
        """Replace the prior; no record of a key is touched.

        Parameters
        ----------
        prior
            The new prior; a map, calibration or forecaster keeps the spread between keys of the old one.
        keep
            What the rows of a key are evidence of. ``"maps"``: of its map, so that a key with many rows stays where it
            is; for a prior that is better known. ``"deviations"``: of its deviation from the prior, so that all keys
            move with the prior; for a world that changed for all keys, such as a shift of the level.

        Returns
        -------
        Bank
            The bank itself.
        """
        check_option("keep", keep, get_args(Keep))
        new = Prior.of(prior, self.prior)
        new.sds(len(self.crossings))
        if keep == "deviations":
            slope, intercept = self._frame
            self._frame = (
                slope + (new.slope - self.prior.slope),
                intercept + (new.intercept - self.prior.intercept),
            )
        self.prior = new
        self.n_priors += 1
        self._set_prior()
        return self

    def estimate_prior(self) -> Prior:
        """The prior that the keys suggest: their mean map, and how far they differ; pass it to :meth:`refresh_prior`.

        Returns
        -------
        Prior
            By generalized least squares and EM over the records of the first crossing; other crossings keep their
            standard deviations. These are of keys with enough rows: rows times the mean of p (1 - p) over all keys is
            at least 1. With fewer than 5 such keys they stay as they are. It is the same, bit for bit, in every bank
            with the same records.
        """
        return estimated_prior(self._records.of(0, self._records.tables[0].in_order()), self._frame, self.prior)

    def _set_prior(self) -> None:
        """The numbers that the steps need."""
        kept = [1.0 if each is None else math.exp2(-1.0 / each) for each in self.half_life]
        slope, intercept = self._frame
        self._levels = self.prior.levels(kept)
        self._common = np.array([slope, intercept, self.prior.slope - slope, self.prior.intercept - intercept])

    # ------------------------------------------------------------------------------------------------------ frozen map

    def freeze(self, min_rows: int = 1) -> Calibration:
        """The current maps as a calibration by group, which can be saved, exported and scored row by row.

        Parameters
        ----------
        min_rows
            Keys with fewer rows are left out: they have the map of the prior, as unknown keys have.

        Returns
        -------
        Calibration
            A Platt map for each key of the only column, with the rows learned and the version of the prior in its
            provenance. A bank with several columns or crossings has no map by one group, and raises an InputError.
        """
        check_whole("min_rows", min_rows, 0)
        if len(self.columns) > 1 or len(self.crossings) > 1:
            raise InputError(
                "Bank",
                "has several columns of keys, but a map by group has one",
                "ship to_bytes(), or learn a bank of one column that joins them",
            )
        table = self._records.tables[0]
        codes = table.in_order()
        codes = codes[self._records.column(0, ROWS)[codes] >= min_rows]
        slopes, intercepts = maps_of(self._records.of(0, codes), self._levels, self._common)
        ends = (self.clamp, 1.0 - self.clamp)
        pooled = LogitAffineMap(self.prior.slope, self.prior.intercept, "log-odds", *ends)
        maps = tuple(
            LogitAffineMap(a, b, "log-odds", *ends) for a, b in zip(slopes.tolist(), intercepts.tolist(), strict=True)
        )
        names = tuple(str(name) for name in table.parts[0].names(codes.tolist()))
        found = ByGroupMap(self.columns[0], names, maps, pooled) if names else pooled
        return Calibration(found, self._provenance(len(names)))

    def certificate(self) -> NoCertificate:
        """Why there is none: rows of a stream are not independent, and posterior means lean toward the prior."""
        return NoCertificate(NoCertificateCode.NO_THEOREM, "no known theorem covers maps that lean toward a prior")

    def _provenance(self, n_keys: int) -> Provenance:
        """Rows and events learned, and the versions of bank and prior."""
        events = float(self._records.column(0, EVENTS)[self._records.tables[0].in_order()].sum())
        return Provenance(
            method="Bank",
            score_type="probability",
            n=float(self.n_rows),
            events=events,
            weight_type="frequency" if events <= self.n_rows else "importance",
            sampling="time-ordered",
            resolution="exact",
            fingerprint=hashlib.blake2b(self.to_bytes(), digest_size=8).hexdigest(),
            library=library_version(),
            meta=(f"version={self.version}", f"prior={self.n_priors}", f"keys={n_keys}"),
        )

    # ---------------------------------------------------------------------------------------------------------- state

    def settings(self) -> dict[str, Any]:
        """The arguments of the bank except the prior, as plain JSON."""
        return {
            "columns": list(self.columns),
            "crossings": [list(each) for each in self.crossings],
            "half_life": list(self.half_life),
            "clamp": self.clamp,
        }

    def to_bytes(self, since: int | None = None) -> bytes:
        """The state of the bank; the same rows give the same bytes.

        Parameters
        ----------
        since
            A :attr:`version`: then only keys that changed after it are written, for :meth:`update`.

        Returns
        -------
        bytes
            A JSON head and plain arrays, never pickled.
        """
        if since is not None and not (type(since) is int and self._oldest <= since <= self.version):
            raise InputError(
                "since",
                f"must be a version from {self._oldest} to {self.version}, got {since!r}",
                "write the whole bank with to_bytes()",
            )
        heads, arrays = written(self._records.tables, self._records.places, self._records.flat, since)
        head = {
            "settings": self.settings(),
            "prior": self.prior.to_dict(),
            "frame": list(self._frame),
            "rows": self.n_rows,
            "priors": self.n_priors,
            "crossings": heads,
        }
        return pack(KIND, head, arrays) if since is None else pack(CHANGES, head | {"since": since}, arrays)

    @classmethod
    def from_bytes(cls, state: bytes) -> Bank:
        """A bank that goes on where another was when :meth:`to_bytes` wrote its state.

        Parameters
        ----------
        state
            What :meth:`to_bytes` returned.

        Returns
        -------
        Bank
            It gives the same forecasts for the same rows, bit for bit.
        """
        head, arrays = unpack(state, KIND, ARRAYS)
        bank = cls._begun(head, {"settings", "prior", "frame", "rows", "priors", "crossings"})
        bank._take(head, arrays)
        return bank

    def update(self, state: bytes) -> Self:
        """Take over what changed in another bank since it had the version of this one.

        Parameters
        ----------
        state
            What :meth:`to_bytes` of the other bank returned for a version that this bank had or has.

        Returns
        -------
        Bank
            The bank itself. If the state does not fit, nothing is changed.
        """
        head, arrays = unpack(state, CHANGES, ARRAYS)
        since = head.pop("since", None)
        other = self._begun(head, {"settings", "prior", "frame", "rows", "priors", "crossings"})
        if type(since) is not int or other.settings() != self.settings():
            raise damaged()
        if not since <= self.version <= other.version:
            raise InputError(
                "state",
                f"holds changes from version {since} to {other.version}, but this bank has version {self.version}",
                "pass to_bytes(since=bank.version) of the other bank, or a whole state to from_bytes",
            )
        self._take(head, arrays, other)
        return self

    @classmethod
    def _begun(cls, head: dict[str, Any], names: set[str]) -> Bank:
        """A bank without keys, with the settings, prior and counts of a state."""
        try:
            if head.keys() != names:
                raise ValueError
            bank = cls(Prior.from_dict(head["prior"]), **head["settings"])
            slope, intercept = (real("frame", each, -MAX_ROWS, MAX_ROWS) for each in head["frame"])
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise damaged() from None
        counts = (head["rows"], head["priors"])
        if any(type(each) is not int or not 0 <= each <= MAX_ROWS for each in counts) or counts[1] < 1:
            raise damaged()
        bank._frame = (slope, intercept)
        bank.n_rows, bank.n_priors = counts
        bank._set_prior()
        return bank

    def _take(self, head: dict[str, Any], arrays: dict[str, Any], counts: Bank | None = None) -> None:
        """Take keys and records from a state, and prior and counts from a bank, once all of it is checked."""
        found = read(head["crossings"], [len(each) for each in self.crossings], arrays)
        to = self if counts is None else counts
        for level, (columns, records) in enumerate(found):
            check_records(records, self.clamp)
            probe = KeyTable(self.crossings[level])
            try:
                probe.admit(columns)
                self._records.tables[level].admit(columns)
            except InputError:
                raise damaged() from None
            probe.add(columns)
            if len(probe) != len(records) or (probe.in_order() != np.arange(len(probe))).any():
                raise damaged()
            known, held = self._records.tables[level].find(columns), self._records.column(level, ROWS)
            before = held.sum() - held[known[known >= 0]].sum()
            if before + records[:, ROWS].sum() != to.n_rows:
                raise damaged()
        if counts is not None:
            self.prior, self._frame = counts.prior, counts._frame
            self.n_rows, self.n_priors = counts.n_rows, counts.n_priors
            self._set_prior()
        for level, (columns, records) in enumerate(found):
            self._records.put(level, columns, records)
        self._oldest = self.version
        self._records.mark(self.version)

    @classmethod
    def merged(cls, banks: Sequence[Bank]) -> Bank:
        """One bank from shards that hold different keys.

        Parameters
        ----------
        banks
            Banks with the same settings and the same priors, refreshed the same number of times. With several
            crossings, rows must be split by the first one.

        Returns
        -------
        Bank
            Its state has the bits of a bank that learned all rows, if each shard learned the rows of its keys in order.
        """
        shards = list(banks)
        if not shards or not all(isinstance(shard, Bank) for shard in shards):
            raise InputError("banks", "must be a list of banks")
        first = shards[0]
        for shard in shards[1:]:
            same = shard.settings() == first.settings() and shard.prior == first.prior
            if not same or (shard._frame, shard.n_priors) != (first._frame, first.n_priors):
                raise InputError("banks", "have other settings or priors", "refresh the prior of all shards alike")
        whole = cls(first.prior, **first.settings())
        whole._frame, whole.n_priors = first._frame, first.n_priors
        whole._set_prior()
        for shard in shards:
            for level, table in enumerate(shard._records.tables):
                columns: list[KeyValues] = []
                for part, codes in zip(table.parts, table.part_codes(), strict=True):
                    values = part.values
                    columns.append([values[c] for c in codes.tolist()] if isinstance(values, list) else values[codes])
                if (whole._records.tables[level].find(columns) >= 0).any():
                    raise InputError("banks", "hold the same key twice", "split rows by key, or by the first crossing")
                whole._records.put(level, columns, shard._records.of(level, np.arange(len(table)))[:, :CHANGED])
            whole.n_rows += shard.n_rows
        whole._oldest = whole.version
        whole._records.mark(whole.version)
        return whole

    def __str__(self) -> str:
        """Keys, rows and prior."""
        keys = plural(self.n_keys, "key")
        return f"{keys}, {plural(self.n_rows, 'row')}. Prior {self.n_priors}: {self.prior}."
