"""One more connection at the end of a tape, told message by message: for what a generated
conversation does not come to by itself.

All other connections are closed by their clients before, so that time may pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dcpinspect.protocol.flags import ENDLESS
from tests.model.dice import Dice
from tests.model.producer import CAS
from tests.model.session import SUCCESS
from tests.model.tape import Closed, Opened, Said, Tape, encoded

UUID = 0xAB54A98CEB1F0AD2
CODES = {
    "XATTR": 0x06,
    "SNAPPY": 0x0A,
    "JSON": 0x0B,
    "UnorderedExecution": 0x0E,
    "Collections": 0x12,
}
PLAIN = ("JSON", "Collections")


class Talk:
    """Entries in the making. A stream's messages take the opaque, and the stream-id, of its latest
    request.
    """

    def __init__(
        self, tape: Tape, dice: Dice, *, name: str = "planted:1", port: int = 40_000
    ) -> None:
        """``dice``: of what is told."""
        self.tape, self.dice, self.name, self.port = tape, dice, name, port
        self.entries: list[Said | Opened | Closed] = list(tape.entries)
        self.now_ns = (
            max((entry.time_ns for entry in tape.entries), default=tape.now_ns) + 1_000_000
        )
        closed = {entry.connection for entry in tape.entries if isinstance(entry, Closed)}
        for entry in tape.opened:
            if entry.connection not in closed:
                self.entries.append(Closed(entry.connection, self._tick(), "client"))
        self.has_collections = True
        self.number = len(tape.opened) - 1
        self._opaque = 0x100
        self.opaques: dict[tuple[int, int], int] = {}
        self.connect()

    def connect(self) -> None:
        """Another TCP connection; what is said from now on is said there."""
        self.number = sum(isinstance(entry, Opened) for entry in self.entries)
        self.port += 1
        self.entries.append(
            Opened(self.number, self._tick(), ("10.0.9.9", self.port), ("10.0.2.1", 11_210))
        )

    def open(
        self,
        *,
        features: Sequence[str] = PLAIN,
        flags: Sequence[str] = ("producer",),
        **controls: str,
    ) -> None:
        """HELLO, open and settings, all granted."""
        self.hello(features)
        self.ask("dcp_open", key=self.name, flags=list(flags))
        for key, value in controls.items():
            self.ask("dcp_control", key=key, value=value)

    def hello(self, features: Sequence[str]) -> None:
        """HELLO, granted."""
        self.has_collections = "Collections" in features
        codes = [{"feature": CODES[name]} for name in features]
        self.ask("hello", {"features": codes}, key="planted/1.0", features=codes)

    def _tick(self, nanoseconds: int = 30_000) -> int:
        self.now_ns += nanoseconds
        return self.now_ns

    def wait(self, seconds: float) -> None:
        """Nothing is said for so long."""
        self.now_ns += int(seconds * 1e9)

    def say(
        self,
        to_server: bool,
        name: str,
        side: str = "request",
        *,
        number: int | None = None,
        **parts: Any,
    ) -> Said:
        """One message; it is said on the connection ``number``, or the newest."""
        at = self.number if number is None else number
        said = Said(at, to_server, name, side, parts, encoded(name, side, parts), self._tick())
        self.entries.append(said)
        return said

    def raw(self, to_server: bool, data: bytes, name: str = "raw") -> Said:
        """A message that no encoder makes."""
        said = Said(self.number, to_server, name, "request", {"opaque": -1}, data, self._tick())
        self.entries.append(said)
        return said

    def ask(
        self, name: str, answer: dict[str, Any] | None = None, **parts: Any
    ) -> tuple[Said, Said]:
        """A request of the client and its answer."""
        self._opaque += 1
        asked = self.say(True, name, opaque=self._opaque, **parts)
        return asked, self.say(
            False, name, "response", opaque=self._opaque, **({"status": SUCCESS} | (answer or {}))
        )

    def request(
        self,
        vbucket: int,
        start: int = 0,
        end: int = ENDLESS,
        *,
        uuid: int = 0,
        snapshot: tuple[int, int] | None = None,
        flags: Sequence[str] = (),
        value: str = "",
        sid: int = 0,
        opaque: int | None = None,
    ) -> Said:
        """A stream request."""
        self._opaque += 1
        number = self._opaque if opaque is None else opaque
        low, high = (start, start) if snapshot is None else snapshot
        more: dict[str, Any] = {"value": value} if value else {}
        self.opaques[vbucket, sid] = number
        return self.say(
            True,
            "dcp_stream_req",
            vbucket=vbucket,
            opaque=number,
            flags=list(flags),
            start_seqno=start,
            end_seqno=end,
            vbucket_uuid=uuid,
            snapshot_start_seqno=low,
            snapshot_end_seqno=high,
            **more,
        )

    def answer(
        self,
        to: Said,
        status: int = SUCCESS,
        *,
        log: Sequence[tuple[int, int]] = ((UUID, 0),),
        rollback: int | None = None,
    ) -> Said:
        """The answer to a stream request: a failover log, the seqno to roll back to, or a
        refusal.
        """
        parts: dict[str, Any] = {"opaque": to.parts["opaque"], "status": status}
        if rollback is not None:
            parts |= {"status": 0x23, "rollback_seqno": rollback}
        elif status == SUCCESS:
            parts["log"] = list(log)
        return self.say(False, "dcp_stream_req", "response", **parts)

    def stream(
        self,
        vbucket: int,
        start: int = 0,
        end: int = ENDLESS,
        *,
        log: Sequence[tuple[int, int]] = ((UUID, 0),),
        **parts: Any,
    ) -> Said:
        """A stream request that is granted."""
        asked = self.request(vbucket, start, end, **parts)
        self.answer(asked, log=log)
        return asked

    def of(self, vbucket: int, name: str, *, sid: int = 0, **parts: Any) -> Said:
        """A message of a stream."""
        framed = {"sid": sid} if sid else {}
        return self.say(
            False,
            name,
            **(
                {"vbucket": vbucket, "opaque": self.opaques.get((vbucket, sid), self._opaque)}
                | framed
                | parts
            ),
        )

    def marker(
        self, vbucket: int, start: int, end: int, *kinds: str, sid: int = 0, **parts: Any
    ) -> Said:
        """A snapshot marker, of memory if nothing else is said."""
        chosen = {"generation": "v1"} | parts
        return self.of(
            vbucket,
            "dcp_snapshot_marker",
            sid=sid,
            start_seqno=start,
            end_seqno=end,
            snapshot_type=list(kinds or ["memory"]),
            **chosen,
        )

    def mutation(
        self,
        vbucket: int,
        seqno: int,
        key: str = "",
        *,
        name: str = "dcp_mutation",
        sid: int = 0,
        **parts: Any,
    ) -> Said:
        """An event of a document of its own, if no other key is given."""
        collection = {"collection": parts.pop("collection", 0)} if self.has_collections else {}
        chosen = {
            "by_seqno": seqno,
            "rev_seqno": 1,
            "cas": CAS + (seqno << 16),
            "key": key or f"k{seqno}",
        }
        if name == "dcp_mutation":
            chosen |= {"value": f'{{"n":{seqno}}}', "datatype": 1, "generation": "v1"}
        return self.of(vbucket, name, sid=sid, **(chosen | collection | parts))

    def snapshot(
        self,
        vbucket: int,
        start: int,
        end: int,
        *kinds: str,
        first: int | None = None,
        sid: int = 0,
    ) -> Said:
        """A marker and all events of its range, as far as the client does not own them; the last
        one.
        """
        self.marker(vbucket, start, end, *kinds, sid=sid)
        return [
            self.mutation(vbucket, seqno, sid=sid)
            for seqno in range(start + 1 if first is None else first, end + 1)
        ][-1]

    def end(self, vbucket: int, reason: str | int = "ok", *, sid: int = 0) -> Said:
        """The end of a stream."""
        return self.of(vbucket, "dcp_stream_end", sid=sid, end_reason=reason)

    def acknowledge(self, count: int) -> Said:
        """So many bytes are acknowledged."""
        return self.say(True, "dcp_buffer_acknowledgement", opaque=0, ack_bytes=count)

    def noop(self, opaque: int, answered: int | None = None) -> list[Said]:
        """A noop, and its answer unless there is none."""
        asked = self.say(False, "dcp_noop", opaque=opaque)
        return (
            [asked]
            if answered is None
            else [asked, self.say(True, "dcp_noop", "response", opaque=answered, status=SUCCESS)]
        )

    def failover_log(
        self, vbucket: int, log: Sequence[tuple[int, int]] = ((UUID, 0),)
    ) -> tuple[Said, Said]:
        """The client asks for a failover log, and is told."""
        return self.ask("dcp_get_failover_log", {"log": list(log)}, vbucket=vbucket)

    def close(self, by: str = "client", *, reset: bool = False, number: int | None = None) -> None:
        """The connection ends."""
        self.entries.append(
            Closed(self.number if number is None else number, self._tick(), by, reset)
        )
