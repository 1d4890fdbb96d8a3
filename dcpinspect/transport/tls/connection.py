"""What is known of the TLS of one connection, and what became of its records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from dcpinspect.arrays import IntArray
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.transport.chunk import C2S, S2C
from dcpinspect.transport.connections import PLAIN_PORT, TLS_PORT
from dcpinspect.transport.tls.alerts import ALERTS, HARMLESS
from dcpinspect.transport.tls.tls_records import TLS12, TLS13

if TYPE_CHECKING:
    from dcpinspect.transport.tls.handshake import Hello
    from dcpinspect.transport.tls.key_search import Search
    from dcpinspect.transport.tls.suites import Suite


class Closing(NamedTuple):
    """Where one side says that it closes the connection."""

    packet: int
    """Number of the packet over the whole reading; the next three are of it, too."""
    frame: int
    file: int
    time_ns: int


@dataclass(slots=True)
class RecordCounts:
    """What became of the records of one direction."""

    opened: int = 0
    lost: int = 0
    """Number of records that a hole hit."""
    refused: int = 0
    """Number of whole records that no key opened."""
    early: int = 0
    """Number of records sent before the handshake was over (RFC 8446, 2.3); they are not opened."""
    plain: int = 0
    """Number of bytes of plain text handed on."""
    overhead: int = 0
    """Number of cipher bytes that are no plain text handed on: headers, tags, handshakes, records
    that were not opened.
    """
    alerts: list[tuple[int, int]] = field(default_factory=list)
    """Level and description of the first alerts."""
    close: Closing | None = None
    """Where its close_notify is."""


TLS_TO_PLAIN, PLAIN_TO_TLS = "tls-to-plain-port", "plain-to-tls-port"
"""What is wrong where one side speaks TLS and the other does not."""
MISMATCHES = {
    TLS_TO_PLAIN: (
        f"connect to the TLS port of this node ({TLS_PORT}, unless it is configured "
        "otherwise), or turn TLS off in the client's settings; a client should tell its user that the port is wrong"
    ),
    PLAIN_TO_TLS: (
        "turn TLS on in the client's settings, or connect to the plain port of this node "
        f"({PLAIN_PORT}, unless it is configured otherwise); a client should tell its user that the port is wrong"
    ),
}
"""What to do about it."""
IN_MESH = (
    "sidecars have the keys; capture inside the pod, between the program and its sidecar (-i lo), "
    "where it is plain"
)
"""What to do where sidecars of a service mesh encrypt: no client has a key log of it."""
MISFIT = "the secrets in the key log do not fit"
"""What is said of a connection whose secrets open nothing."""
_COUNTED = ("opened", "lost", "refused", "early")
_SIDES = ("client", "server")


@dataclass(slots=True)
class TlsConnection:
    """What is known of the TLS of one connection."""

    client: Hello | None = None
    server: Hello | None = None
    suite: Suite | None = None
    version: int = 0
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    is_open: bool = False
    """Whether its records are opened."""
    is_given_up: bool = False
    """Whether it passes unchanged."""
    search: Search | None = None
    """The search that was made because its start is not in the capture: for the whole connection,
    or for the direction that was not found.
    """
    renewed: int = 0
    """Number of new handshakes inside the connection (TLS 1.2) whose keys were found."""
    is_cut_short: bool = False
    """Whether there was one more new handshake, whose keys were not found."""
    certificate: bytes | None = None
    """Certificate of the server, in DER; None if it was not seen."""
    records: tuple[RecordCounts, RecordCounts] = field(
        default_factory=lambda: (RecordCounts(), RecordCounts())
    )
    """What became of the records of each direction; the directions are those of chunks."""
    own: list[IntArray] = field(default_factory=list)
    """Numbers of the packets that have records without plain text: the handshake, new keys, alerts.
    Only for readings with places.
    """
    mismatch: str = ""
    """``TLS_TO_PLAIN``, ``PLAIN_TO_TLS``, or empty."""
    sides: tuple[int, int] = (C2S, S2C)
    """The sender in each direction: 0 for the client, 1 for the server."""

    @property
    def version_name(self) -> str:
        """Version, such as ``TLS 1.3``; empty if it is not known."""
        number = self.version or (self.server.version if self.server is not None else 0)
        return {0x0301: "TLS 1.0", 0x0302: "TLS 1.1", TLS12: "TLS 1.2", TLS13: "TLS 1.3"}.get(
            number, ""
        )

    @property
    def suite_name(self) -> str:
        """Name, such as ``TLS_AES_128_GCM_SHA256``; the number of a suite that cannot be read;
        empty if it is not known.
        """
        if self.suite is not None:
            return self.suite.name
        return f"cipher suite 0x{self.server.suites[0]:04x}" if self.server is not None else ""

    @property
    def text(self) -> str:
        """Version, cipher suite, what became of the records, and why, in words."""
        name = (
            ", ".join(phrase for phrase in (self.version_name, self.suite_name) if phrase) or "TLS"
        )
        alerts = [f"the {side} says {alert}" for side, alert, _ in self.alerts]
        if not self.is_open or self.is_misfit:
            random = "" if self.client is None else f"client random {self.client.random.hex()}"
            misfit = MISFIT if self.is_misfit else ""
            phrases = ["not decrypted", *alerts, misfit, random, self.start_text, self.search_text]
        else:
            read_count, lost, refused, early = (
                sum(getattr(records, count_name) for records in self.records)
                for count_name in _COUNTED
            )
            phrases = [f"{read_count:,} records read, {lost:,} lost, {refused:,} refused", *alerts]
            phrases += [f"{early:,} record{_s(early)} of early data not read"] if early else []
            if self.renewed:
                phrases += [f"its keys were renegotiated {self.renewed:,} time{_s(self.renewed)}"]
            phrases += (
                ["a new handshake changed its keys, and the key log has no secret of that"]
                if self.is_cut_short
                else []
            )
            phrases += [self.search_text]
        return f"{name}: {'; '.join(phrase for phrase in phrases if phrase)}"

    @property
    def alerts(self) -> list[tuple[str, str, str]]:
        """Alerts that report a fault, each once for a side: (client or server, the alert's name,
        what it means).
        """
        fault_alerts = (
            (_SIDES[side], *ALERTS.get(alert, (f"alert-{alert}", "an alert without a name")))
            for side, records in zip(self.sides, self.records, strict=True)
            for _, alert in records.alerts
            if alert not in HARMLESS
        )
        return list(dict.fromkeys(fault_alerts))

    def closed(self, packet: int) -> tuple[int, Closing] | None:
        """Returns which direction was the first to say close_notify by a packet, and where; None if
        none did.

        Its sender ends the connection (RFC 8446, 6.1). The other side may be the first with a FIN.
        """
        closes = [
            (direction, records.close)
            for direction, records in enumerate(self.records)
            if records.close is not None and records.close.packet <= packet
        ]
        return min(closes, key=lambda close: close[1].packet, default=None)

    @property
    def is_misfit(self) -> bool:
        """Whether its secrets open nothing, so that they are wrong. Records in plain text, and the
        handshake's own, do not count.
        """
        return (
            self.is_open
            and any(records.refused for records in self.records)
            and not any(records.plain for records in self.records)
        )

    @property
    def mesh(self) -> str:
        """What shows that sidecars of a service mesh encrypt it, who have the keys, or empty."""
        name, protocols = (
            (self.client.server_name or "", self.client.protocols)
            if self.client is not None
            else ("", ())
        )
        istio_protocols = [protocol for protocol in protocols if protocol.startswith("istio")]
        if istio_protocols:
            return f"ALPN {istio_protocols[0]}"
        is_named = name.startswith(("outbound_", "inbound_")) or name.endswith(
            (".linkerd.cluster.local", ".consul")
        )
        return "the form of its server name" if is_named else ""

    @property
    def cannot_be_read(self) -> bool:
        """Whether no secret helps: the keys depend on a handshake that is not in the capture."""
        return self.version == TLS12 and self.client is None

    @property
    def start_text(self) -> str:
        """Why there is no hello of the client, and what that means, as text; empty if there is one."""
        if self.client is not None:
            return ""
        if self.mismatch == PLAIN_TO_TLS:
            return "the client speaks in clear"
        if self.cannot_be_read:
            return (
                "its start was not captured whole, and TLS 1.2 cannot be read without the handshake"
            )
        return "its start was not captured whole" + (
            ""
            if self.server is not None
            else "; if it is TLS 1.2, it cannot be read without the handshake"
        )

    @property
    def search_text(self) -> str:
        """Which secrets and sequence numbers were tried in vain, as text; empty if none were."""
        search = self.search
        if search is None:
            return ""
        if not search.known:
            return "the key log has no secret of " + (
                "one side" if self.is_open else "TLS 1.3 that it may have"
            )
        of_known = f" of {search.known:,}" if search.tried < search.known else ""
        whose = (
            "one side"
            if self.is_open
            else f"{search.tried:,}{of_known} connection{'' if search.known == 1 else 's'}"
        )
        return (
            f"its records up to number {search.numbers:,} were tried with the secrets of "
            f"{whose}; a larger --tls-search tries more"
        )


def _s(count: int) -> str:
    return "" if count == 1 else "s"
