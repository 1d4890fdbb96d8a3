"""Stories told over TLS and recorded by tcpdump, with the key log and the truth; and handshakes
that fail.

    recorded = record(folder, busy(), Tls(version="1.2", suites="ECDHE-RSA-AES128-SHA256",
    encrypt_then_mac=False)) recorded.path, recorded.keylog, recorded.connections[0].said.s2c

Each story crosses a wire between two network namespaces, on port 11207. Needs root.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tests.peers.endpoint import TIMEOUT
from tests.peers.network import Plug, Wire, inside, namespaces
from tests.peers.play import Said, play
from tests.peers.recorder import Recorder
from tests.peers.script import Side, Story
from tests.tls import certificates, openssl
from tests.tls.certificates import Identity, Kind
from tests.tls.endpoint import USUAL, Habits, Sealed, TlsSocket

PORT = 11207
CLIENT, SERVER = "10.11.0.1", "10.11.0.2"
HOSTS = {
    "client": CLIENT,
    "client6": CLIENT,
    "node1": SERVER,
    "node2": "10.11.0.3",
    "node1-6": SERVER,
}

Version = Literal["1.2", "1.3"]
_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}

SUITES_1_3 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
CBC_1_2 = (
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-RSA-AES256-SHA",
    "ECDHE-RSA-AES128-SHA256",
    "ECDHE-RSA-AES256-SHA384",
    "ECDHE-ECDSA-AES128-SHA256",
    "AES128-SHA",
    "AES256-SHA256",
)
AEAD_1_2 = (
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "AES128-GCM-SHA256",
)
"""As OpenSSL calls them; without ECDHE the key exchange is RSA."""


@dataclass(frozen=True, slots=True)
class Tls:
    """How both sides of a story speak TLS."""

    version: Version = "1.3"
    suites: str = ""
    """As OpenSSL calls them; empty: all that it offers."""
    encrypt_then_mac: bool = True
    extended_master_secret: bool = True
    tickets: bool = True
    """False: a TLS 1.2 session is resumed by its ID, one of 1.3 not at all."""
    resume: bool = False
    """Each connection but the first offers the session of the one that was opened before it;
    ``after`` of the story orders them.
    """
    mutual: bool = False
    groups: tuple[str, str] = ("", "")
    """Of client and server. ("P-256:X25519", "X25519") has the server ask for another key share
    (HelloRetryRequest).
    """
    padding: int = 0
    """TLS 1.3: records are filled up to a multiple of so many bytes."""
    client: Habits = USUAL
    server: Habits = USUAL

    @property
    def kind(self) -> Kind:
        """Of the server's key."""
        return "ec" if "ECDSA" in self.suites else "rsa"


@dataclass(frozen=True, slots=True)
class Connection:
    """One connection, and all there is to know of it."""

    said: Said
    version: str
    """``TLSv1.3`` …"""
    suite: str
    """As OpenSSL calls it."""
    resumed: bool
    records: dict[int, list[Sealed]]
    """All records by direction, 0 for client to server, in order."""
    early: bytes = b""
    """What the client sent before the handshake was over; no part of ``said``."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A capture and its truth."""

    path: Path
    keylog: Path
    connections: list[Connection]


class Contexts:
    """What OpenSSL needs for one ``Tls``, and every connection that was made of it."""

    def __init__(
        self,
        folder: Path,
        tls: Tls,
        *,
        identity: Identity | None = None,
        trusted: bytes | None = None,
        anonymous: bool = False,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.keylog = folder / "keys.log"
        self._tls = tls
        self.client = self._context(ssl.PROTOCOL_TLS_CLIENT)
        self.server = self._context(ssl.PROTOCOL_TLS_SERVER)
        self.client.load_verify_locations(
            cadata=(trusted or certificates.authority().certificate).decode()
        )
        self.client.keylog_filename = str(self.keylog)
        self.server.load_cert_chain(
            (identity or certificates.server(tls.kind)).save(folder, "server")
        )
        if tls.mutual:
            self.server.load_verify_locations(cadata=certificates.authority().certificate.decode())
            self.server.verify_mode = ssl.CERT_REQUIRED
            if not anonymous:
                self.client.load_cert_chain(certificates.client().save(folder, "client"))
        if tls.server.early:
            openssl.accept_early_data(self.server)
        for context, groups in zip((self.client, self.server), tls.groups, strict=True):
            if groups:
                openssl.set_groups(context, groups)
        self.sockets: dict[Side, list[TlsSocket]] = {"client": [], "server": []}

    def _context(self, role: ssl._SSLMethod) -> ssl.SSLContext:
        tls = self._tls
        context = ssl.SSLContext(role)
        context.minimum_version = context.maximum_version = _VERSIONS[tls.version]
        if tls.suites and tls.version == "1.3":
            openssl.set_suites(context, tls.suites)
        elif tls.suites:
            context.set_ciphers(tls.suites)
        if not tls.encrypt_then_mac:
            context.options |= openssl.NO_ENCRYPT_THEN_MAC
        if not tls.extended_master_secret:
            context.options |= openssl.NO_EXTENDED_MASTER_SECRET
        if not tls.tickets:
            context.options |= ssl.OP_NO_TICKET
        if tls.padding:
            openssl.set_padding(context, tls.padding)
        return context

    def wrap(self, sock: socket.socket, side: Side) -> TlsSocket:
        """TLS before a socket, with the handshake done."""
        if side == "server":
            out = TlsSocket(
                sock, lambda i, o: self.server.wrap_bio(i, o, server_side=True), self._tls.server
            )
        else:
            before = (
                self.sockets["client"][-1].tls.session
                if self._tls.resume and self.sockets["client"]
                else None
            )
            name = certificates.SERVER_NAME
            out = TlsSocket(
                sock,
                lambda i, o: self.client.wrap_bio(i, o, server_hostname=name, session=before),
                self._tls.client,
            )
        self.sockets[side].append(out)
        out.handshake()
        return out

    def connection(self, said: Said) -> Connection:
        """What a conversation was like below."""
        client = next(end for end in self.sockets["client"] if end.address == said.client)
        server = next(end for end in self.sockets["server"] if end.peer == said.client)
        assert (client.version, client.suite, client.resumed) == (
            server.version,
            server.suite,
            server.resumed,
        )
        records = {0: client.sent.records, 1: server.sent.records}
        return Connection(said, client.version, client.suite, client.resumed, records, server.early)


@contextmanager
def _wire(mtu: int) -> Iterator[tuple[str, str]]:
    with namespaces("client", "server") as (client, server):
        left = Plug(client, "02:00:0a:0b:00:01", (f"{CLIENT}/24",), mtu=mtu)
        right = Plug(server, "02:00:0a:0b:00:02", (f"{SERVER}/24", f"{HOSTS['node2']}/24"), mtu=mtu)
        with Wire(left, right):
            yield client, server


def record(
    folder: Path, story: Story, tls: Tls | None = None, *, mtu: int = 1500, port: int = PORT
) -> Recorded:
    """Tell a story over TLS; the capture, its key log, and what was said."""
    contexts = Contexts(folder, tls or Tls())
    path = folder / "capture.pcap"
    with _wire(mtu) as (client, server), Recorder(path, "eth0", client, port=port) as recorder:
        said = play(
            story,
            hosts=HOSTS,
            port=port,
            fixed_ports=True,
            at_client=lambda: inside(client),
            at_server=lambda: inside(server),
            wrap=contexts.wrap,
        )
        recorder.wait_until_closed(len(story))
    return Recorded(path, contexts.keylog, [contexts.connection(talk) for talk in said])


@dataclass(frozen=True, slots=True)
class Refusal:
    """A handshake that fails, by what is wrong; who says so, and the alert."""

    side: Side
    alert: int
    make: Callable[[Path, Tls], tuple[Contexts, Contexts]]
    """What client and server have."""
    alert_1_2: int = 0
    """Where TLS 1.2 says something else."""


def _same(folder: Path, tls: Tls, **wrong: Any) -> tuple[Contexts, Contexts]:
    contexts = Contexts(folder, tls, **wrong)
    return contexts, contexts


def _two(folder: Path, client: Tls, server: Tls) -> tuple[Contexts, Contexts]:
    return Contexts(folder, client), Contexts(folder, server)


def _no_common_suite(folder: Path, tls: Tls) -> tuple[Contexts, Contexts]:
    ours, theirs = (SUITES_1_3 if tls.version == "1.3" else AEAD_1_2)[:2]
    return _two(folder, replace(tls, suites=ours), replace(tls, suites=theirs))


REFUSALS = {
    "unknown authority": Refusal(
        "client",
        48,
        lambda at, tls: _same(at, tls, trusted=certificates.authority("Other CA").certificate),
    ),
    "expired": Refusal(
        "client", 45, lambda at, tls: _same(at, tls, identity=certificates.expired())
    ),
    "wrong name": Refusal(
        "client", 42, lambda at, tls: _same(at, tls, identity=certificates.misnamed())
    ),
    "no common suite": Refusal("server", 40, _no_common_suite),
    "no common version": Refusal(
        "server",
        70,
        lambda at, tls: _two(at, replace(tls, version="1.2"), replace(tls, version="1.3")),
    ),
    "no client certificate": Refusal(
        "server",
        116,
        lambda at, tls: _same(at, replace(tls, mutual=True), anonymous=True),
        alert_1_2=40,
    ),
}
"""By what is wrong."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A capture of a handshake that failed."""

    path: Path
    keylog: Path
    """Perhaps not there: a client writes it when it has secrets."""
    side: Side
    """Who sent the alert."""
    alert: int
    reasons: dict[Side, str]
    """What OpenSSL says of it at both ends."""


def refuse(folder: Path, what: str, tls: Tls | None = None, *, mtu: int = 1500) -> Refused:
    """One connection whose handshake fails because of one of ``REFUSALS``."""
    tls = tls or Tls()
    refusal = REFUSALS[what]
    client_has, server_has = refusal.make(folder, tls)
    path = folder / "capture.pcap"
    with (
        _wire(mtu) as (client, server),
        Recorder(path, "eth0", client, port=PORT) as recorder,
        ThreadPoolExecutor(2) as pool,
    ):
        with inside(server):
            listener = socket.create_server((SERVER, PORT))
            listener.settimeout(TIMEOUT)
        with inside(client):
            ours = socket.create_connection((SERVER, PORT), TIMEOUT)
        theirs, _ = listener.accept()
        listener.close()
        futures: dict[Side, Future[str]] = {
            "client": pool.submit(_fail, ours, "client", client_has),
            "server": pool.submit(_fail, theirs, "server", server_has),
        }
        reasons = {side: future.result() for side, future in futures.items()}
        recorder.wait_until_closed(1)
    alert = refusal.alert_1_2 if tls.version == "1.2" and refusal.alert_1_2 else refusal.alert
    return Refused(path, client_has.keylog, refusal.side, alert, reasons)


def _fail(sock: socket.socket, side: Side, contexts: Contexts) -> str:
    """One end of a handshake; why it failed."""
    sock.settimeout(TIMEOUT)
    with sock:
        try:
            # In TLS 1.3 a client is done before the server has seen its certificate, and learns it
            # with the first bytes.
            contexts.wrap(sock, side).recv(1)
        except ssl.SSLError as error:
            sock.shutdown(socket.SHUT_WR)
            with suppress(OSError):
                while sock.recv(1 << 16):
                    pass
            return str(error.reason)
    raise AssertionError(f"the {side} accepted the handshake")
