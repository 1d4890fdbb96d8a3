"""Where the secrets of TLS connections are: in key logs, perhaps of only one capture point, and in
captures.

The secrets themselves are never sent or written: every process reads them where they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256

from dcpinspect.capture.open import open_capture
from dcpinspect.errors import CaptureError, UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.text import escape
from dcpinspect.transport.tls.connection import TlsConnection
from dcpinspect.transport.tls.keylog import HANDSHAKE, SEARCH, TRAFFIC, KeyLog, files_of, of_point
from dcpinspect.transport.tls.tls_records import TLS13

Named = tuple[str | None, str]
"""A capture point (None: all of them), and the path of a key log or of a folder of key logs."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """Where the secrets of TLS connections are."""

    keylogs: tuple[Named, ...] = ()
    search: int = SEARCH
    captures: Sequence[tuple[str, int]] = ()
    """Captures that contain secrets, and the number of blocks with secrets in each."""
    point: str | None = None
    """Capture point whose key logs are read; None: the key logs of all points."""

    def of_point(self, point: str) -> Secrets:
        """Returns the secrets of one capture point."""
        return replace(self, point=point)

    def read(self) -> KeyLog:
        """Reads the secrets, as they are now. Raises CaptureError for an unreadable key log."""
        keys = KeyLog(tuple(self._files()), search=self.search, once=True)
        for path, blocks in self.captures:
            # the capture may be gone by now
            with suppress(CaptureError, OSError), open_capture(path) as capture:
                capture_file = capture.files[0]
                for _ in capture:
                    if len(capture_file.secrets) >= blocks:
                        break
                for text in capture_file.secrets:
                    keys.add(text)
        return keys

    def _files(self) -> Iterator[str]:
        for keylog_point, path in self.keylogs:
            if self.point is None or keylog_point in (None, self.point):
                for file, names in files_of(path):
                    if self.point is None or names is None or self.point in names:
                        yield file


def secrets_at(names: Sequence[str], search: int = SEARCH, option: str = "keylog") -> Secrets:
    """Returns where the secrets are that an option names.

    Raises UsageError for a name that is no file or folder, because every process reads it.
    """
    keylogs = []
    for name in names:
        point, path = of_point(name)
        if not (os.path.isfile(path) or os.path.isdir(path)):
            raise UsageError(
                f"{option} {escape(path)}: every process of Spark reads it; name a file or a folder"
            )
        keylogs.append((point, os.path.abspath(path)))
    return Secrets(tuple(keylogs), search)


def closed_by(about: TlsConnection, keys: KeyLog) -> str | None:
    """The client random of a connection of which something could not be read, and digests of the
    secrets that were tried; None for others.

    ``keys`` are all that were at hand. Where a random is missing, any secret may be tried: then the
    mark of these keys is the digest.
    """
    all_of = (*HANDSHAKE, *TRAFFIC)
    has_all = (
        about.version != TLS13
        or about.client is None
        or all(label in about.secrets for label in all_of)
    )
    is_whole = (
        about.is_open and not (about.is_misfit or about.is_cut_short) and about.search is None
    )
    if about.cannot_be_read or (is_whole and has_all):
        return None
    if about.client is None or about.is_cut_short:
        return f" {mark_of(keys)}"
    return " ".join(
        (
            about.client.random.hex(),
            *([] if keys else [_NO_KEY_LOG]),
            *sorted(map(_digest, about.secrets.values())),
        )
    )


def opens(keys: KeyLog, closed: str) -> bool:
    """Whether a key log has a secret that was not tried, of a connection as ``closed_by`` says it;
    or is the first one that is given.
    """
    random, *tried = closed.split(" ")
    if not random:
        return mark_of(keys) not in (*tried, NO_MARK)
    if _NO_KEY_LOG in tried and keys:
        return True
    return any(
        _digest(secret) not in tried
        for secret in keys.secrets_of(bytes.fromhex(random), ()).values()
    )


_NO_KEY_LOG = "-"
"""Stands among the digests where no key log was given."""
NO_MARK = ""
"""The mark of a key log without secrets."""


def mark_of(keys: KeyLog) -> str:
    """Returns a text that tells key logs with different secrets apart, and reveals none."""
    digests = sorted(
        _digest(random + secret)
        for random, secrets in keys.all_secrets()
        for secret in secrets.values()
    )
    return _digest("".join(digests).encode()) if digests else NO_MARK


def _digest(secret: bytes) -> str:
    """What tells a secret from another one, and not what it is."""
    return sha256(secret).hexdigest()[:16]
