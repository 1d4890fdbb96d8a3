"""The salt of a redacted output: a file outside of the output, which only its owner can read.

Tables have pseudonyms, made by ``protocol.redact``. Packets and parts, which later runs need, are
encrypted with a key that is made from the salt. So nobody can read private data from any file of an
output without the salt. Every process reads the file: the salt itself is never sent.
"""

from __future__ import annotations

import hmac
import io
import os
import secrets
from typing import Any

from dcpinspect.capture.remote import Ranged
from dcpinspect.capture.stores import is_uri
from dcpinspect.errors import UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.redact import Redactor
from dcpinspect.text import escape

LEAST = 16
"""Least size of a salt in bytes: a shorter one might be guessed."""
_BYTES = 32
_BEGIN = b"dcpsealed1\0\0\0\0\0\0"
"""First bytes of an encrypted file."""
_NONCE = _BLOCK = 16


@dataclass(frozen=True, slots=True)
class Salt:
    """A salt, known by its file. The object can be pickled; the salt is read where it is used."""

    path: str

    @classmethod
    def read_or_make(cls, out: str, path: str | None, *, makes: bool = False) -> Salt:
        """Returns the salt of an output: at ``path``, else in the file beside the output with the
        same name and ``.salt``.

        ``makes``: creates the file if there is none. Raises UsageError if the salt cannot be read,
        or the file is not a salt.
        """
        if path is None and is_uri(out):
            raise UsageError(
                "--redact: nothing in storage is kept from its readers; name a file for the "
                f"salt of {escape(out)} with --salt-file"
            )
        salt = cls(os.path.abspath(f"{out.rstrip('/')}.salt" if path is None else path))
        if os.path.realpath(salt.path).startswith(os.path.realpath(out) + os.sep):
            raise UsageError(
                f"--salt-file {escape(salt.path)}: who reads {escape(out)} must not have it; "
                "name a file elsewhere"
            )
        if makes and not os.path.lexists(salt.path):
            try:
                os.makedirs(os.path.dirname(salt.path), exist_ok=True)
                with os.fdopen(
                    os.open(salt.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w"
                ) as file:
                    file.write(f"{secrets.token_hex(_BYTES)}\n")
            except OSError as error:
                raise UsageError(
                    f"--salt-file {escape(salt.path)}: cannot be written ({error.strerror})"
                ) from error
        if len(salt.read()) < LEAST:
            raise UsageError(
                f"--salt-file {escape(salt.path)}: has less than {LEAST} bytes, which others "
                "might guess; name a new file"
            )
        return salt

    def read(self) -> bytes:
        """Returns the salt. Raises UsageError if the file is not here."""
        try:
            with open(self.path, "rb") as file:
                return file.read().strip()
        except OSError as error:
            problem = (
                "is missing"
                if isinstance(error, FileNotFoundError)
                else f"cannot be read ({error.strerror})"
            )
            raise UsageError(
                f"{escape(self.path)}: {problem}, and the salt of a redacted output is in it; "
                "name its file with --salt-file"
            ) from error

    @property
    def mark(self) -> str:
        """Text that identifies the salt and does not reveal it."""
        return self._made("mark").hex()[:32]

    def redactor(self) -> Redactor:
        """Returns the redactor that uses this salt."""
        return Redactor(self.read())

    def sealing(self, stream: Any) -> Any:
        """Returns a stream that encrypts what is written, to ``stream``."""
        return _Sealing(stream, self._made("packets"))

    def sealed(self, data: bytes) -> bytes:
        """Returns the encrypted form of a whole file."""
        nonce = secrets.token_bytes(_NONCE)
        return (
            _BEGIN + nonce + bytes(_cipher(self._made("packets"), nonce).encryptor().update(data))
        )

    def opening(self, source: Any) -> Any:
        """Returns a reader of an encrypted file, which can read at any place. Raises OSError for a
        file that is not encrypted.
        """
        return _Opening(source, self._made("packets"))

    def _made(self, what: str) -> bytes:
        """Returns bytes made from the salt, with another hash than pseudonyms: who chooses document
        keys must not find these bytes as pseudonyms.
        """
        return hmac.digest(self.read(), f"dcpinspect {what}".encode(), "sha512")[:32]


def is_sealed(source: Any) -> bool:
    """Whether a file is encrypted; reads its first bytes."""
    return bool(source.read(len(_BEGIN)) == _BEGIN)


class _Sealing(io.RawIOBase):
    """A stream that encrypts, and closes the stream below it."""

    def __init__(self, stream: Any, key: bytes) -> None:
        self._stream = stream
        nonce = secrets.token_bytes(_NONCE)
        self._encrypted = _cipher(key, nonce).encryptor()
        self._at = 0
        stream.write(_BEGIN + nonce)

    def writable(self) -> bool:
        """Always true."""
        return True

    def write(self, data: Any, /) -> int:
        """Encrypts and writes bytes."""
        octets = memoryview(data).cast("B")
        self._stream.write(self._encrypted.update(octets))
        self._at += len(octets)
        return len(octets)

    def tell(self) -> int:
        """Returns the number of bytes written so far."""
        return self._at

    def close(self) -> None:
        """Closes this stream and the one below."""
        if not self.closed:
            super().close()
            self._stream.close()


class _Opening(Ranged):
    """A reader of an encrypted file."""

    def __init__(self, source: Any, key: bytes) -> None:
        self._source = source
        if not is_sealed(source):
            raise OSError("is not encrypted")
        self._key, self._nonce = key, int.from_bytes(source.read(_NONCE), "big")
        super().__init__(source.size() - len(_BEGIN) - _NONCE)

    def readinto(self, target: Any, /) -> int:
        """Reads and decrypts bytes at the current place."""
        view = memoryview(target).cast("B")
        first = self._at - self._at % _BLOCK
        self._source.seek(len(_BEGIN) + _NONCE + first)
        encrypted = self._source.read(self._at - first + len(view))
        count = ((self._nonce + first // _BLOCK) % (1 << 128)).to_bytes(_NONCE, "big")
        plain = memoryview(_cipher(self._key, count).decryptor().update(encrypted))[
            self._at - first :
        ]
        view[: len(plain)] = plain
        self._at += len(plain)
        return len(plain)


def _cipher(key: bytes, count: bytes) -> Any:
    # deferred: most outputs are not redacted
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    return Cipher(algorithms.AES(key), modes.CTR(count))
