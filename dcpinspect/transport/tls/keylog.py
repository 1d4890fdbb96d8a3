"""Secrets of TLS connections, as programs write them to a key log (the NSS key log format, draft-ietf-tls-keylogfile).

They are secrets: nothing here prints one, keeps one in a message, or writes one down.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dcpinspect.errors import CaptureError

MASTER = "CLIENT_RANDOM"
"""Label of the master secret of TLS 1.2."""
EARLY = "CLIENT_EARLY_TRAFFIC_SECRET"
HANDSHAKE = ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET")
TRAFFIC = ("CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0")
"""By direction, ``C2S`` and ``S2C``, as the one before."""
_LABELS = {MASTER, EARLY, *HANDSHAKE, *TRAFFIC}
_LINE = re.compile(rb"([A-Z0-9_]{1,64}) ([0-9A-Fa-f]{64}) ([0-9A-Fa-f]{64,192})")
_OTHER = re.compile(rb"[A-Za-z0-9_]{1,64} [0-9A-Fa-f]+ [0-9A-Fa-f]+")
MOST_CONNECTIONS = 500_000
"""Connections whose secrets are kept: the newest ones."""
MOST_TOLD = 10
SEARCH = 5_000_000
"""As ``KeyLog.search``: 2 s at most on the machine where it was measured, 1 s with AES."""
AGAIN_S = 0.1
"""How often a key log is looked at for what was written meanwhile."""
_READ = 1 << 24
_LONGEST = 4096


Secrets = Mapping[str, bytes]
"""Of one connection, by label."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A line of a key log that is none."""

    path: str
    line: int


class KeyLog:
    """The secrets of key logs, by the client random of their connection. Files are read again when a secret is asked for that is not there.

    Raises CaptureError for a file that cannot be read.
    """

    def __init__(self, paths: Sequence[str] = (), *, search: int = SEARCH) -> None:
        self.paths = tuple(paths)
        self.search = search
        """How many secrets and sequence numbers are tried for a connection that began before the capture."""
        self.damage: list[Damage] = []
        """Lines that could not be read: the first ones."""
        self.dropped = 0
        """Connections whose secrets were left out, being more than are kept."""
        self._secrets: dict[bytes, dict[str, bytes]] = {}
        self._files = [_Followed(path) for path in paths]
        self._looked = 0.0
        self._look()

    def __bool__(self) -> bool:
        """Whether there may be a secret."""
        return bool(self._secrets or self._files)

    def of(self, client_random: bytes, wanted: Sequence[str]) -> Secrets:
        """The secrets of a connection, by label, as far as they are known by now; looked for again where one is missing that is wanted."""
        known = self._secrets.get(client_random, {})
        if any(label not in known for label in wanted) and time.monotonic() - self._looked >= AGAIN_S:
            self._look()
        return self._secrets.get(client_random, {})

    def each(self) -> Iterator[tuple[bytes, Secrets]]:
        """Client random and secrets of every connection, the newest first."""
        if time.monotonic() - self._looked >= AGAIN_S:
            self._look()
        return reversed(self._secrets.items())

    def add(self, text: bytes) -> None:
        """Lines of a secrets block of a pcapng file."""
        for line in text.splitlines():
            self._take(line)

    def _look(self) -> None:
        for file in self._files:
            for number, line in file.lines():
                if not self._take(line) and len(self.damage) < MOST_TOLD:
                    self.damage.append(Damage(file.path, number))
        self._looked = time.monotonic()

    def _take(self, line: bytes) -> bool:
        """Whether it is a line of a key log, of any label."""
        line = line.strip()
        found = _LINE.fullmatch(line)
        if found is None:
            return not line or line.startswith(b"#") or bool(_OTHER.fullmatch(line))
        label = found[1].decode()
        if label in _LABELS and len(found[3]) % 2 == 0:
            client_random = bytes.fromhex(found[2].decode())
            if client_random not in self._secrets and len(self._secrets) >= MOST_CONNECTIONS:
                del self._secrets[next(iter(self._secrets))]
                self.dropped += 1
            self._secrets.setdefault(client_random, {})[label] = bytes.fromhex(found[3].decode())
        return True


@dataclass(slots=True)
class Chosen:
    """What readings have that are given no secrets."""

    paths: tuple[str, ...] = ()
    search: int = SEARCH

    def open(self) -> KeyLog:
        """The secrets of these key logs by now. Raises CaptureError."""
        return KeyLog(self.paths, search=self.search)


chosen = Chosen()
"""The key logs that the command line names."""


class _Followed:
    """A file that may still be written; a pipe is read once."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._rest = b""
        self._line = 0
        self._at = 0
        self._is_over = False

    def lines(self) -> list[tuple[int, bytes]]:
        """The lines that are complete by now, with their numbers; at the end of the file also one that has no end but is one."""
        found: list[tuple[int, bytes]] = []
        if self._is_over:
            return found
        try:
            with Path(self.path).open("rb", buffering=0) as file:
                self._is_over = not file.seekable()
                if not self._is_over:
                    file.seek(self._at)
                while data := file.read(_READ):
                    self._at += len(data)
                    *lines, self._rest = (self._rest + data).split(b"\n")
                    for line in lines:
                        self._line += 1
                        found.append((self._line, line))
                    self._rest = self._rest[:_LONGEST]
        except OSError as error:
            raise CaptureError(self.path, None, f"the key log cannot be read ({error.strerror})", "check the name") from error
        if _LINE.fullmatch(self._rest.strip()):
            found.append((self._line + 1, self._rest))
        return found
