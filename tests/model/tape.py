"""What was said on every connection, in order, message by message with its meaning."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dcpinspect.protocol.flags import ENDLESS
from tests.encode import encode

START_NS = 1_712_404_800 * 10**9

Address = tuple[str, int]


@dataclass(slots=True, eq=False)
class Said:
    """One message; ``parts`` is what it says, in the words that its encoder takes."""

    connection: int
    to_server: bool
    name: str
    side: str
    parts: dict[str, Any]
    data: bytes
    time_ns: int
    waits: bool = True
    """Its sender had received all that the other side had said before."""

    def __str__(self) -> str:
        shown = []
        for key, value in self.parts.items():
            if key in ("cas", "generation", "framed") or value in (None, (), ""):
                continue
            if key == "end_seqno" and value == ENDLESS:
                value = "endless"
            elif "uuid" in key and isinstance(value, int):
                value = f"{value:#x}"
            elif key == "log":
                value = " ".join(f"{uuid:#x}@{seqno}" for uuid, seqno in value)
            elif isinstance(value, (list, tuple)):
                value = "+".join(map(str, value))
            shown.append(f"{key} {value}")
        arrow = ">" if self.to_server else "<"
        name = self.name.removeprefix("dcp_") + (" answer" if self.side == "response" else "")
        return f"{self.connection + 1} {arrow} {name:22s} {', '.join(shown)}"


@dataclass(slots=True, eq=False)
class Opened:
    """A connection begins."""

    connection: int
    time_ns: int
    client: Address
    server: Address

    def __str__(self) -> str:
        return (
            f"{self.connection + 1} + {self.client[0]}:{self.client[1]} connects to "
            f"{self.server[0]}:{self.server[1]}"
        )


@dataclass(slots=True, eq=False)
class Closed:
    """A connection ends; ``by`` neither: its client vanished without a word."""

    connection: int
    time_ns: int
    by: str
    """client, server, or nothing."""
    reset: bool = False

    def __str__(self) -> str:
        how = "resets" if self.reset else "closes"
        return (
            f"{self.connection + 1} - "
            f"{f'the {self.by} {how}' if self.by else 'the client is gone, without a word'}"
        )


@dataclass(slots=True)
class Tape:
    """A recording of several connections."""

    entries: list[Said | Opened | Closed] = field(default_factory=list)
    now_ns: int = START_NS
    shape: int = 0
    """Seed of how messages are laid into packets."""

    @property
    def said(self) -> list[Said]:
        """The messages alone."""
        return [entry for entry in self.entries if isinstance(entry, Said)]

    @property
    def opened(self) -> list[Opened]:
        """The connections, by their index."""
        return [entry for entry in self.entries if isinstance(entry, Opened)]

    def script(self) -> str:
        """All of it, to read."""
        return "\n".join(
            f"{(entry.time_ns - START_NS) / 1e9:11.6f}  {entry}" for entry in self.entries
        )


_WORDS = {
    "vbucket",
    "status",
    "opaque",
    "cas",
    "datatype",
    "frames",
    "flex",
    "collection",
    "key",
    "value",
    "generation",
}


def encoded(name: str, side: str, parts: dict[str, Any]) -> bytes:
    """The bytes of a message; ``sid`` and ``log`` are put where the protocol has them."""
    fields = {
        key: value
        for key, value in parts.items()
        if key not in ("sid", "log", "framed", "prepares")
    }
    if parts.get("sid") and parts.get("framed", True):
        fields["frames"] = [(2, parts["sid"].to_bytes(2, "big"))]
    if "log" in parts:
        fields["failover_log"] = [{"uuid": uuid, "seqno": seqno} for uuid, seqno in parts["log"]]
    if side == "response" and fields.get("status") and not set(fields) - _WORDS:
        fields["generation"] = "raw"
    return encode(name, "response" if side == "response" else "request", **fields)
