"""What is known of the TLS of one connection, and what became of its records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dcpinspect.transport.chunk import C2S, S2C
from dcpinspect.transport.tls.handshake import Hello
from dcpinspect.transport.tls.suites import TLS12, TLS13, Suite


@dataclass(slots=True)
class Records:
    """What became of the records of one direction."""

    opened: int = 0
    lost: int = 0
    """Hit by a hole."""
    refused: int = 0
    """Whole, and not opened by any key."""
    early: int = 0
    """Sent before the handshake was over (RFC 8446, 2.3); these are not opened."""
    plain: int = 0
    """Bytes of plain text handed on."""
    overhead: int = 0
    """Cipher bytes that are no plain text handed on: headers, tags, handshakes, records that were not opened."""
    alerts: list[tuple[int, int]] = field(default_factory=list)
    """Level and description of each, the first ones."""


@dataclass(slots=True)
class TlsConnection:
    """What is known of the TLS of one connection."""

    client: Hello | None = None
    server: Hello | None = None
    suite: Suite | None = None
    version: int = 0
    secrets: Mapping[str, bytes] = field(default_factory=dict)
    is_open: bool = False
    """Its records are opened."""
    is_given_up: bool = False
    """It passes as it is."""
    is_searched: bool = False
    """It began before the capture, and every secret was tried that there is time for."""
    certificate: bytes | None = None
    """Of the server, in DER; None where it was not seen."""
    records: tuple[Records, Records] = field(default_factory=lambda: (Records(), Records()))
    """By direction of the chunks."""
    sides: tuple[int, int] = (C2S, S2C)
    """Who sends in these directions: 0 for the client."""

    @property
    def version_name(self) -> str:
        """``TLS 1.3``; empty where it is not known."""
        number = self.version or (self.server.version if self.server is not None else 0)
        return {0x0301: "TLS 1.0", 0x0302: "TLS 1.1", TLS12: "TLS 1.2", TLS13: "TLS 1.3"}.get(number, "")

    @property
    def suite_name(self) -> str:
        """``TLS_AES_128_GCM_SHA256``; its number where that cannot be read, and empty where it is not known."""
        if self.suite is not None:
            return self.suite.name
        return f"cipher suite 0x{self.server.suites[0]:04x}" if self.server is not None else ""
