"""Secrets of TLS connections, as programs write them to a key log (the NSS key log format,
draft-ietf-tls-keylogfile).

Nothing here prints a secret, keeps one in a message, or writes one down. Only ``-w --with-secrets``
asks for secrets as text.
"""

from __future__ import annotations

import codecs
import io
import math
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

from dcpinspect.capture.byte_source import STDIN
from dcpinspect.capture.folders import check_is_file
from dcpinspect.errors import CaptureError, UsageError
from dcpinspect.lazy_dataclass import dataclass

MASTER = "CLIENT_RANDOM"
"""Label of the master secret of TLS 1.2."""
EARLY = "CLIENT_EARLY_TRAFFIC_SECRET"
HANDSHAKE = ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET")
TRAFFIC = ("CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0")
"""Labels by direction, ``C2S`` and ``S2C``; ``HANDSHAKE`` is ordered like this, too."""
_LABELS = {label.encode(): label for label in (MASTER, EARLY, *HANDSHAKE, *TRAFFIC)}
_HEX = "[0-9A-Fa-f]"
_SECRET = (
    rf"(?:{MASTER} {_HEX}{{64}} {_HEX}{{96}}|(?:{'|'.join((EARLY, *HANDSHAKE, *TRAFFIC))}) "
    rf"{_HEX}{{64}} (?:{_HEX}{{64}}|{_HEX}{{96}}))"
)
_OTHER = (
    rf"(?:(?!(?:{'|'.join(_LABELS.values())}) )[A-Za-z0-9_]{{1,64}} {_HEX}+ {_HEX}+|RSA "
    rf"Session-ID:{_HEX}* Master-Key:{_HEX}+)"
)
"""Matches lines with other secrets, not needed; also Java's, by extract-tls-secrets."""
_END = r"[ \t\r]*$"
_SECRETS = rf"^[ \t]*({_SECRET}){_END}"
_GOOD = rf"^[ \t]*(?:\#|(?:{_SECRET}|{_OTHER}){_END})"
"""Matches a line of a key log, with any label."""
_DAMAGE = rf"^(?![ \t\r]*(?:$|\#|(?:{_SECRET}|{_OTHER}){_END}))"
"""Matches the start of a line that is no line of a key log."""
MOST_CONNECTIONS = 500_000
"""Number of connections whose secrets are kept: the newest ones."""
MOST_TOLD = 10
SEARCH = 5_000_000
"""The default of ``KeyLog.search``: 2 s at most on the machine where it was measured, 1 s with AES.
"""
AGAIN_S = 0.1
"""Least time, in seconds, between two looks at a key log for new lines."""
_READ = 1 << 24
_HEAD = 1 << 24
"""Number of bytes in which a key log has at least one line."""
_LONGEST = 4096
"""Greatest number of bytes kept of a line without an end."""


Secrets = Mapping[str, bytes]
"""The secrets of one connection, by label."""


@cache
def _lines(pattern: str) -> re.Pattern[bytes]:
    """Returns the compiled pattern: most readings see no key log, and all three take 2 ms."""
    return re.compile(pattern.encode(), re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Damage:
    """A line in a key log that is no line of that format."""

    path: str
    line: int


class KeyLog:
    """The secrets of key logs, by the client random of their connection.

    Files are read again when somebody asks for a secret that is not there. Raises CaptureError for
    a file that cannot be read, or that is no key log.
    """

    def __init__(
        self, paths: Sequence[str] = (), *, search: int = SEARCH, once: bool = False
    ) -> None:
        """``once``: reads the files now, and never again."""
        self.paths = tuple(paths)
        self.search = search
        """Secrets and sequence numbers tried for a connection that began before the capture."""
        self.count = 0
        """Number of secrets that were read so far."""
        self.damage: list[Damage] = []
        """The first lines that could not be read."""
        self.damaged = 0
        """Number of all such lines."""
        self.dropped = 0
        """Number of connections whose secrets were dropped because there were more than are kept.
        """
        self._secrets: dict[bytes, dict[str, bytes]] = {}
        self._files = [_Followed(path) for path in paths]
        self._looked = 0.0
        self._lock = threading.Lock()  # readings in other threads may use the same secrets
        self._read_locked()
        for file in self._files:
            if file.is_something_else:
                raise CaptureError(file.path, "has no line of a key log in it", "check the name")
        if once:
            self._looked = math.inf

    def __bool__(self) -> bool:
        """Returns whether there may be a secret."""
        return bool(self._secrets or self._files)

    @property
    def cut(self) -> list[Damage]:
        """Last lines that have no end, and no secret yet."""
        return [cut for file in self._files if (cut := file.cut) is not None]

    def secrets_of(self, client_random: bytes, labels: Sequence[str]) -> Secrets:
        """Returns the known secrets of a connection, by label; reads the files again if a wanted
        label is missing.
        """
        secrets = self._secrets.get(client_random, {})
        if any(label not in secrets for label in labels):
            self.look_again()
        return self._secrets.get(client_random, {})

    def all_secrets(self) -> Iterator[tuple[bytes, Secrets]]:
        """Returns client random and secrets of every connection, the newest first."""
        self.look_again()
        return reversed(list(self._secrets.items()))

    def look_again(self) -> None:
        """Reads what was written since the last look, unless that was just now."""
        if time.monotonic() - self._looked >= AGAIN_S:
            self._read_locked()

    def lines(self, used_secrets: Iterable[Secrets]) -> bytes:
        """Returns the secrets of connections, as ``secrets_of`` or ``all_secrets`` returned them,
        as lines of a key log, for callers that were asked to write them.
        """
        used_ids = {id(secrets) for secrets in used_secrets}
        return b"".join(
            f"{label} {client_random.hex()} {secret.hex()}\n".encode()
            for client_random, connection_secrets in self.all_secrets()
            if id(connection_secrets) in used_ids
            for label, secret in list(connection_secrets.items())
        )

    def add(self, text: bytes) -> None:
        """Adds lines of a secrets block of a pcapng file."""
        for match in _lines(_SECRETS).finditer(text):
            label, client_random, secret = match[1].split(b" ")
            self._keep(
                _LABELS[label],
                bytes.fromhex(client_random.decode()),
                bytes.fromhex(secret.decode()),
            )

    def _keep(self, label: str, client_random: bytes, secret: bytes) -> None:
        secrets = self._secrets.get(client_random)
        if secrets is None:
            if len(self._secrets) >= MOST_CONNECTIONS:
                # many at once: a dict is slow to find its first key
                oldest = list(islice(self._secrets, 1 + MOST_CONNECTIONS // 10))
                for old_random in oldest:
                    del self._secrets[old_random]
                self.dropped += len(oldest)
            secrets = self._secrets[client_random] = {}
        secrets[label] = secret
        self.count += 1

    def _read_locked(self) -> None:
        with self._lock:
            self._read()

    def _read(self) -> None:
        for file in self._files:
            for number, lines in file.lines():
                self.add(lines)
                file.is_key_log = file.is_key_log or _lines(_GOOD).search(lines) is not None
                damaged = _lines(_DAMAGE).finditer(lines)
                shown = [
                    Damage(file.path, number + lines.count(b"\n", 0, match.start()))
                    for match in islice(damaged, MOST_TOLD - len(self.damage))
                ]
                self.damage += shown
                self.damaged += len(shown) + sum(1 for _ in damaged)
        self._looked = time.monotonic()


def of_point(name: str) -> tuple[str | None, str]:
    """Returns capture point and path of ``POINT=FILE``; no point if the whole name is a path."""
    point, sign, path = name.partition("=")
    return (point, path) if sign and point and not os.path.lexists(name) else (None, name)


def files_of(path: str) -> Iterator[tuple[str, Sequence[str] | None]]:
    """Yields the key logs at a path: the path itself, or all in a folder.

    Each comes with the names of capture points that it may belong to; None: all points.
    ``POINT.log`` and everything in ``POINT/`` belong to that point. Hidden files are left out, and
    what is no file.
    """
    if not os.path.isdir(path):
        yield path, None
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(
            folder_name for folder_name in folders if not folder_name.startswith(".")
        )
        inside = Path(folder).relative_to(path)
        for name in sorted(file_name for file_name in names if not file_name.startswith(".")):
            within = [str(ancestor) for ancestor in (inside, *inside.parents) if ancestor.parts]
            file = os.path.join(folder, name)
            if os.path.isfile(file):
                yield file, [str(inside / name), os.path.splitext(str(inside / name))[0], *within]


class DefaultSecrets:
    """The secrets of readings that are given none of their own."""

    def __init__(self) -> None:
        self.names: Sequence[str] = ()
        """The names as they were written: files, folders, and those of one capture point."""
        self.search = SEARCH
        """As ``KeyLog.search``."""
        self._keys = KeyLog()

    def choose(self, names: Sequence[str]) -> KeyLog:
        """Has readings use these key logs, and those in these folders, of all capture points.
        Raises CaptureError.
        """
        self.names = names
        self._keys = KeyLog([file for name in names for file, _ in files_of(of_point(name)[1])])
        return self._keys

    @property
    def paths(self) -> Sequence[str]:
        """Paths of the key logs."""
        return self._keys.paths

    def open(self) -> KeyLog:
        """Returns the secrets. Secrets of named files are shared by all readings, because a pipe
        can only be read once.
        """
        keys = self._keys if self._keys.paths else KeyLog()
        keys.search = self.search
        return keys


class _Followed:
    """A file that may still be written; a pipe is read once."""

    def __init__(self, path: str) -> None:
        if not path:
            raise UsageError("--keylog: is empty; name a file with TLS secrets")
        if path == STDIN:
            raise UsageError("--keylog -: standard input is for captures; name a file")
        self.path = path
        self.is_key_log = False
        """Whether a line of a key log was in it."""
        self._rest = b""
        self._line = 1
        self._at = 0
        self._text = _text_of(b"")
        self._file: tuple[int, int] | None = None
        """Identifies the file that was read last."""
        self._is_over = False

    @property
    def is_something_else(self) -> bool:
        """Whether it has text or bytes, but no line of a key log."""
        return not self.is_key_log and (self._line > 1 or len(self._rest) > _LONGEST // 4)

    @property
    def cut(self) -> Damage | None:
        """The last line, if it has no end and is no line of a key log so far."""
        return Damage(self.path, self._line) if _lines(_DAMAGE).match(self._rest) else None

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yields the lines that have come by now, many at a time, with the number of the first; at
        last also a whole line without an end.

        Raises CaptureError if the file cannot be read the first time. Later it may be away for a
        while, or begin anew.
        """
        if self._is_over:
            return
        try:
            yield from self._lines()
        except OSError as error:
            if self._file is None:
                raise CaptureError(
                    self.path, f"the key log cannot be read ({error.strerror})", "check the name"
                ) from error
            self._file = (0, 0)  # another file may come under this name

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        about = check_is_file(self.path)
        with Path(self.path).open("rb", buffering=0) as file:
            self._is_over = not file.seekable()
            if not self._is_over:
                if self._file != (about.st_dev, about.st_ino) or about.st_size < self._at:
                    self._rest, self._line, self._at = b"", 1, 0
                file.seek(self._at)
            # the rest of what has no line of a key log in so many bytes may never end
            while (self.is_key_log or self._at <= _HEAD) and (data := file.read(_READ)):
                if not self._at:
                    self._text = _text_of(data)
                self._at += len(data)
                data = self._text.decode(data).encode()
                end = data.rfind(b"\n") + 1
                if end:
                    lines = self._rest + data[:end]
                    yield self._line, lines
                    self._line += lines.count(b"\n")
                    self._rest = b""
                self._rest = (self._rest + data[end:])[:_LONGEST]
        self._file = about.st_dev, about.st_ino
        if _lines(_SECRETS).fullmatch(self._rest):
            yield self._line, self._rest


def _text_of(head: bytes) -> io.IncrementalNewlineDecoder:
    """Returns what makes text of a file that begins so: PowerShell writes UTF-16, editors write
    marks of UTF-8 and ends of lines of their own.
    """
    is_marked = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    # half of a text in English is zeros
    wide = {b"\0": "utf-16-be"}.get(head[:1]) or {b"\0": "utf-16-le"}.get(head[1:2])
    encoding = "utf-16" if is_marked else wide or "utf-8-sig"
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    return io.IncrementalNewlineDecoder(decoder, translate=True)


command_secrets = DefaultSecrets()
"""The key logs that the command line names."""
