"""Receipts: what was answered and not stored, signed, so that it can come back with the outcome."""

from __future__ import annotations

import hashlib
import hmac
import struct
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.messages import InputError
from calibrant.service.config import key_id

FORMAT = 1
"""First byte of a receipt."""

FIELDS = struct.Struct(">B4si16sdqidqB")
"""Format, id of the signing key, stream, id, score, time, version, probability, expiry, whether there is a key."""

SAID = np.dtype(
    [
        ("format", "u1"), ("which", "S4"), ("stream", ">i4"), ("id", "V16"), ("score", ">f8"), ("at", ">i8"),
        ("version", ">i4"), ("probability", ">f8"), ("expiry", ">i8"), ("has_key", "u1"),
    ]
)  # fmt: skip
"""The same for many receipts."""

ROW = struct.Struct(f"{SAID.itemsize}s")
"""The bytes of one of them."""

WIDTH = 16
"""Bytes of the signature."""

LENGTH = (FIELDS.size + WIDTH) // 3 * 4
"""Characters of a receipt without a key."""

LONGEST = 2_000
"""Characters that a receipt has at most; those of the longest key have fewer."""


@dataclass(frozen=True)
class Receipt:
    """What a receipt says.

    Attributes
    ----------
    id, score, key
        As they were sent.
    at, expiry
        Time of the prediction, and until when its outcome is taken, in microseconds.
    version, probability
        The answer.
    """

    id: bytes
    score: float
    key: str | None
    at: int
    version: int
    probability: float
    expiry: int


class Receipts:
    """Signs receipts, and reads those that come back.

    The signature is BLAKE2b with a secret key over all that the receipt says and the name of the stream. It has 128
    bits: whoever does not know a key forges a receipt with probability 2^-128 for each try, if BLAKE2b is a random
    function to him. A receipt is not encrypted: it says to its owner what he sent and got.

    Parameters
    ----------
    keys
        Secrets; the first one signs, all are accepted.

    Notes
    -----
    Reference: Aumasson et al. (2013), BLAKE2.

    Examples
    --------
    >>> receipts = Receipts([bytes(range(32))])
    >>> text = receipts.sign(1, "clicks", Receipt(bytes(16), 0.25, None, 0, 1, 0.3, 10))
    >>> receipts.read(1, "clicks", text, now=9).probability
    0.3
    >>> receipts.read(1, "clicks", text, now=11)
    Traceback (most recent call last):
    ...
    calibrant.messages.InputError: receipt has expired: outcomes are taken within the horizon of their prediction
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        self.keys = {key_id(key): _secret(key) for key in keys}
        self._signing = next(iter(self.keys.items()), None)

    @property
    def can_sign(self) -> bool:
        """Whether there is a key."""
        return self._signing is not None

    def sign(self, stream: int, name: str, receipt: Receipt) -> str:
        """The text of a receipt."""
        r = receipt
        return self.signed(stream, named(name), r.id, r.score, r.key, r.at, r.version, r.probability, r.expiry)

    def signed(
        self, stream: int, name: bytes, id: bytes, score: float, key: str | None, at: int, version: int,
        probability: float, expiry: int,
    ) -> str:  # fmt: skip
        """The text of a receipt, from its parts; ``name`` as :func:`named` gives it."""
        if self._signing is None:
            raise InputError("receipt_keys", "is empty", "set CALIBRANT_RECEIPT_KEYS")
        which, secret = self._signing
        said = FIELDS.pack(FORMAT, which, stream, id, score, at, version, probability, expiry, key is not None)
        if key is not None:
            said += key.encode()
        signature = hashlib.blake2b(name + said, key=secret, digest_size=WIDTH).digest()
        return urlsafe_b64encode(said + signature).decode().rstrip("=")

    def signed_many(
        self, stream: int, name: bytes, ids: Sequence[bytes], scores: Sequence[float], at: Sequence[int],
        versions: Sequence[int], probabilities: Sequence[float], kept: int,
    ) -> list[str]:  # fmt: skip
        """Receipts without keys, each as :meth:`signed` makes it, and made faster; they expire after ``kept``."""
        text = self.signed_text(stream, name, b"".join(ids), scores, at, versions, probabilities, kept).decode()
        return [text[start : start + LENGTH] for start in range(0, len(text), LENGTH)]

    def signed_text(
        self, stream: int, name: bytes, ids: bytes, scores: Any, at: Any, versions: Any, probabilities: Any, kept: int,
    ) -> bytes:  # fmt: skip
        """The receipts of :meth:`signed_many` one after the other, :data:`LENGTH` characters each.

        Parameters
        ----------
        stream, name
            Number of the stream, and its name as :func:`named` gives it.
        ids
            All ids, 16 bytes each.
        scores, at, versions, probabilities
            Of each row, or one for all.
        kept
            Microseconds until they expire.

        Returns
        -------
        bytes
            Text in ASCII.
        """
        if self._signing is None:
            raise InputError("receipt_keys", "is empty", "set CALIBRANT_RECEIPT_KEYS")
        which, secret = self._signing
        n = len(ids) // 16
        said = np.zeros(n, dtype=SAID)
        said["format"], said["which"], said["stream"], said["version"] = FORMAT, which, stream, versions
        said["id"] = np.frombuffer(ids, dtype="V16")
        said["score"], said["probability"], said["at"] = scores, probabilities, at
        said["expiry"] = said["at"] + kept
        raw = said.tobytes()
        begin = hashlib.blake2b(name, key=secret, digest_size=WIDTH).copy
        signatures: list[bytes] = []
        for (one,) in ROW.iter_unpack(raw):
            signature = begin()
            signature.update(one)
            signatures.append(signature.digest())
        whole = np.empty((n, SAID.itemsize + WIDTH), dtype=np.uint8)
        whole[:, :-WIDTH] = np.frombuffer(raw, dtype=np.uint8).reshape(n, -1)
        whole[:, -WIDTH:] = np.frombuffer(b"".join(signatures), dtype=np.uint8).reshape(n, -1)
        return urlsafe_b64encode(whole.tobytes())  # a receipt has a multiple of 3 bytes, so none is padded

    def read(self, stream: int, name: str, text: str, now: int) -> Receipt:
        """What a receipt says, if it was signed here, for this stream, and has not expired.

        Parameters
        ----------
        stream, name
            Number and name of the stream.
        text
            The receipt.
        now
            Time in microseconds.

        Returns
        -------
        Receipt
            Otherwise an InputError is raised.
        """
        try:
            padded = text + "=" * (-len(text) % 4)
            raw = b64decode(padded, altchars=b"-_", validate=True) if len(text) <= LONGEST else b""
        except ValueError:
            raw = b""
        said, signature = raw[:-WIDTH], raw[-WIDTH:]
        if len(said) < FIELDS.size:
            raise _forged()
        found = FIELDS.unpack_from(said)
        form, which, of, id, score, at, version, probability, expiry, has_key = found
        secret = self.keys.get(which, bytes(32))
        right = hashlib.blake2b(named(name) + said, key=secret, digest_size=WIDTH).digest()
        if not hmac.compare_digest(signature, right) or which not in self.keys:
            raise _forged()
        if form != FORMAT or of != stream:
            raise _forged()
        if now > expiry:
            raise InputError("receipt", "has expired", "outcomes are taken within the horizon of their prediction")
        key = said[FIELDS.size :].decode() if has_key else None
        return Receipt(id, score, key, at, version, probability, expiry)


def named(name: str) -> bytes:
    """The name of a stream as it is signed; it has no zero byte, so that it ends where the rest begins."""
    return name.encode() + b"\0"


def _secret(key: bytes) -> bytes:
    """A key of the length that BLAKE2b takes."""
    return hashlib.blake2b(key, digest_size=32, person=b"calibrant sign").digest()


def _forged() -> InputError:
    return InputError("receipt", "was not given out by this stream", "send it as it came with the prediction")
