"""The language of conversations: who sends what, who waits for what.

A ``Story`` is a list of ``Conversation``s, one a TCP connection; a conversation is a list of events
in the order they happen. The helpers append events, so that a scenario reads as it goes::

    talk = Conversation("indexer", producer="server")
    talk.hello("indexer/1.0", "Collections", "SNAPPY")
    talk.open("secidx:orders", "producer")
    stream = talk.stream(7, log=[(0xA1, 0)])
    stream.snapshot(0, 2, "memory", "checkpoint")
    stream.mutation(1, "order::1", {"total": 12})
    stream.mutation(2, "order::2", {"total": 30}, snappy=True)
    stream.end("ok")

Bytes are fixed: no clock, nothing random, so that a story says the same at every telling.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from struct import pack
from typing import Any, Literal

from dcpinspect.protocol.features import COLLECTIONS, FEATURES
from dcpinspect.protocol.flags import ENDLESS
from dcpinspect.protocol.flex import STREAM_ID
from dcpinspect.protocol.statuses import Status
from tests.encode import encode, encode_document

Side = Literal["client", "server"]
"""The TCP ends; who of them is the producer is up to the DCP open."""

EPOCH = 1_712_404_800
"""2024-04-06 12:00:00 UTC, when all stories take place."""

_FIRST_NOOP = 10_000_001
"""Producers count their noops from here and write the number in the byte order of their host."""


_SUCCESSES = frozenset(int(status) for status in Status if status.is_success)
_SECTIONS = {"frames", "key", "value", "datatype", "cas", "flex"}


def swapped(opaque: int) -> int:
    """A number whose four bytes stand the other way round."""
    return int.from_bytes(opaque.to_bytes(4, "little"), "big")


def other(side: Side) -> Side:
    """The opposite end."""
    return "client" if side == "server" else "server"


def hlc(tick: int) -> int:
    """A CAS ``tick`` hundredths of a second into the story; the low 16 bits are the clock's own
    counter.
    """
    return (EPOCH * 10**9 + tick * 10**7) & ~0xFFFF


def text(document: Any) -> str:
    """JSON as a server stores it."""
    return json.dumps(document, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Send:
    """One end sends a message, the other one receives it."""

    side: Side
    data: bytes
    waits: bool = True
    """The sender first receives all that the script has the other end send before; False: both are
    under way at once.
    """
    raw: bool = False
    """No frame, or one whose lengths lie: the receiver takes exactly these bytes instead of reading
    a frame.
    """
    hold: tuple[int, str] | None = None
    """(bytes, mark): stop after so many bytes until they have arrived and the mark's hook has run.
    """


@dataclass(frozen=True, slots=True)
class Mark:
    """Both ends have received everything so far; whoever waits for the name goes on, and its hook
    runs.
    """

    name: str


@dataclass(frozen=True, slots=True)
class Await:
    """Both ends wait until a mark, of any conversation, has been reached."""

    name: str


@dataclass(frozen=True, slots=True)
class Close:
    """One end closes the connection; the other one reads to the end and closes too."""

    side: Side
    abort: bool = False
    """With a reset, as a process that dies."""


Event = Send | Mark | Await | Close


@dataclass(eq=False, slots=True)
class Conversation:
    """One connection's script; a builder of events, and what they negotiated so far."""

    name: str
    client: str = "client"
    """Host the connection comes from, by its name on the stage."""
    server: str = "node1"
    """Host it goes to."""
    producer: Side = "server"
    """Who streams: the server, unless the open has no producer flag (as between nodes)."""
    after: str = ""
    """The mark that has to be reached before the client connects."""
    mss: int = 0
    """Largest TCP segment; 0: what the path allows."""
    nodelay: bool = True
    writes: Sequence[int] = (1,)
    """How many messages each write holds, in turn: 1, 3 sends one message alone, then three
    together.
    """
    ack_after: int = 0
    """The consumer acknowledges whenever it owes so many bytes; 0: only where the script says so.
    """
    events: list[Event] = field(default_factory=list)

    collections: bool = False
    stream_ids: bool = False
    delete_times: bool = False
    window: int = 0
    """Flow-control window in bytes; 0 is off."""
    counted: int = 0
    """Bytes that count against the window and are not acknowledged."""
    next_opaque: int = 1
    noops: int = 0

    @property
    def consumer(self) -> Side:
        """Who asks for streams."""
        return other(self.producer)

    # -- the plain events
    # ----------------------------------------------------------------------------------

    def send(
        self,
        side: Side,
        data: bytes,
        *,
        waits: bool = True,
        raw: bool = False,
        hold: tuple[int, str] | None = None,
    ) -> None:
        """One message, whatever it is."""
        self.events.append(Send(side, data, waits, raw, hold))

    def mark(self, name: str) -> None:
        """A place in the conversation that hooks and other conversations know."""
        self.events.append(Mark(name))

    def wait_for(self, name: str) -> None:
        """Go on once another conversation got to its mark."""
        self.events.append(Await(name))

    def close(self, side: Side = "client", *, abort: bool = False) -> None:
        """The end of the connection."""
        self.events.append(Close(side, abort))

    def opaque(self, side: Side = "client") -> int:
        """The next opaque: clients count; servers count in the byte order of their host."""
        number = self.next_opaque
        self.next_opaque += 1
        return number if side == "client" else swapped(number)

    def ask(
        self,
        opcode: str,
        reply: Mapping[str, Any] | None = None,
        *,
        by: Side = "client",
        status: int = 0,
        opaque: int | None = None,
        **parts: Any,
    ) -> int:
        """A request and its answer, built of ``reply``; the opaque of both."""
        number = self.opaque(by) if opaque is None else opaque
        self.send(by, encode(opcode, opaque=number, **parts))
        self.answer(opcode, number, by=other(by), status=status, **(reply or {}))
        return number

    def answer(
        self,
        opcode: str,
        opaque: int,
        *,
        by: Side = "server",
        status: int = 0,
        waits: bool = True,
        **parts: Any,
    ) -> None:
        """An answer on its own, for requests that have none, many, or a late one."""
        if status and status not in _SUCCESSES and not set(parts) - _SECTIONS:
            # A refusal has the command's own extras no more.
            parts["generation"] = "raw"
        self.send(
            by, encode(opcode, "response", opaque=opaque, status=status, **parts), waits=waits
        )

    # -- before DCP
    # ----------------------------------------------------------------------------------------

    def hello(self, agent: str, *features: str, granted: Iterable[str] | None = None) -> None:
        """HELLO by feature names; everything is granted unless ``granted`` says otherwise."""
        codes = {feature.name: feature.code for feature in FEATURES}
        wanted, got = (
            [codes[name] for name in features],
            [codes[name] for name in (features if granted is None else granted)],
        )
        self.ask(
            "hello",
            {"features": [{"feature": code} for code in got]},
            key=agent,
            features=[{"feature": code} for code in wanted],
        )
        self.collections = COLLECTIONS in got

    def sasl_list(self) -> None:
        """The mechanisms of a current server."""
        self.ask("sasl_list_mechs", {"value": "SCRAM-SHA512 SCRAM-SHA256 SCRAM-SHA1 PLAIN"})

    def sasl_plain(self, user: str, password: str) -> None:
        """Authentication in one step."""
        self.ask("sasl_auth", key="PLAIN", value=f"\0{user}\0{password}")

    def sasl_scram(self, user: str, *, status: int = 0) -> None:
        """Authentication in two steps, in the shape of SCRAM; nonce, salt and signatures are
        examples of RFC 5802.
        """
        nonce, salt = "fyko2d2lbbFgONRv9qkxdawL", "QSXCR2Q6sek8bf92"
        first = {"value": f"r={nonce}3rfcNHYJY1ZVvWVs7j,s={salt},i=15000"}
        self.ask(
            "sasl_auth",
            first,
            status=Status.AUTH_CONTINUE,
            key="SCRAM-SHA512",
            value=f"n,,n={user},r={nonce}",
        )
        last = {"value": "v=rmF9pqV8S7suAoZWja4dJRkFsKQ="} if status == 0 else {}
        self.ask(
            "sasl_step",
            last,
            status=status,
            key="SCRAM-SHA512",
            value=f"c=biws,r={nonce}3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        )

    def select_bucket(self, bucket: str) -> None:
        """From now on the connection speaks of this bucket."""
        self.ask("select_bucket", key=bucket)

    def stat(self, group: str, values: Mapping[str, str]) -> None:
        """Statistics: an answer each, and an empty one."""
        opaque = self.opaque()
        self.send("client", encode("stat", opaque=opaque, key=group))
        for name, value in values.items():
            self.answer("stat", opaque, key=name, value=value)
        self.answer("stat", opaque)

    # -- DCP on the connection
    # -----------------------------------------------------------------------------

    def open(
        self, name: str, *flags: str, value: Mapping[str, str] | None = None, status: int = 0
    ) -> None:
        """DCP open, which makes it a DCP connection."""
        body: dict[str, Any] = {} if value is None else {"value": text(value), "datatype": 1}
        self.ask("dcp_open", status=status, key=name, flags=flags, **body)
        self.delete_times = "include-delete-times" in flags

    def control(self, key: str, value: str, *, status: int = 0) -> None:
        """A setting; it counts only when the answer is success."""
        self.ask("dcp_control", by=self.consumer, status=status, key=key, value=value)
        if status == 0 and key == "connection_buffer_size":
            self.window, self.counted = int(value), 0
        if status == 0 and key == "enable_stream_id":
            self.stream_ids = value == "true"

    def noop(self) -> None:
        """The producer asks whether the consumer is there."""
        self.noops += 1
        self.ask("dcp_noop", by=self.producer, opaque=swapped(_FIRST_NOOP + self.noops - 1))

    def acknowledge(self, *, waits: bool = True) -> None:
        """The consumer gives back all bytes that it owes."""
        self.send(
            self.consumer, encode("dcp_buffer_acknowledgement", ack_bytes=self.counted), waits=waits
        )
        self.counted = 0

    def failover_log(self, vbucket: int, log: Sequence[tuple[int, int]]) -> None:
        """The history of a vbucket, newest branch first."""
        self.ask("dcp_get_failover_log", failover_entries(log), by=self.consumer, vbucket=vbucket)

    def stream(
        self,
        vbucket: int,
        *,
        log: Sequence[tuple[int, int]] = ((0xD0C5_0000_0000_0001, 0),),
        start: int = 0,
        end: int = ENDLESS,
        uuid: int = 0,
        snapshot: tuple[int, int] | None = None,
        flags: Sequence[str] = (),
        value: Mapping[str, Any] | None = None,
        status: int = 0,
        rollback: int | None = None,
        opaque: int | None = None,
        reply: Mapping[str, Any] | None = None,
    ) -> Stream:
        """A stream request and its answer: the failover log, a rollback, or a refusal with
        ``reply``.
        """
        number = self.opaque(self.consumer) if opaque is None else opaque
        stream = self.stream_request(
            vbucket,
            number,
            start=start,
            end=end,
            uuid=uuid,
            snapshot=snapshot,
            flags=flags,
            value=value,
        )
        self.stream_answer(stream, log=log, status=status, rollback=rollback, reply=reply)
        return stream

    def stream_request(
        self,
        vbucket: int,
        opaque: int,
        *,
        start: int = 0,
        end: int = ENDLESS,
        uuid: int = 0,
        snapshot: tuple[int, int] | None = None,
        flags: Sequence[str] = (),
        value: Mapping[str, Any] | None = None,
        waits: bool = True,
    ) -> Stream:
        """The request alone: many may be under way before the first is answered."""
        low, high = (start, start) if snapshot is None else snapshot
        self.send(
            self.consumer,
            encode(
                "dcp_stream_req",
                vbucket=vbucket,
                opaque=opaque,
                flags=flags,
                start_seqno=start,
                end_seqno=end,
                vbucket_uuid=uuid,
                snapshot_start_seqno=low,
                snapshot_end_seqno=high,
                value=b"" if value is None else text(value),
            ),
            waits=waits,
        )
        sid = int(value["sid"]) if value is not None and "sid" in value else 0
        return Stream(self, vbucket, opaque, sid)

    def stream_answer(
        self,
        stream: Stream,
        *,
        log: Sequence[tuple[int, int]] = ((0xD0C5_0000_0000_0001, 0),),
        status: int = 0,
        rollback: int | None = None,
        reply: Mapping[str, Any] | None = None,
        waits: bool = True,
    ) -> None:
        """The producer's answer to a stream request."""
        if rollback is not None:
            status, body = int(Status.ROLLBACK), {"rollback_seqno": rollback}
        else:
            body = dict(reply or {}) if status else failover_entries(log)
        self.answer(
            "dcp_stream_req", stream.opaque, by=self.producer, status=status, waits=waits, **body
        )


@dataclass(eq=False, slots=True)
class Stream:
    """One stream of a conversation; its helpers append what the producer (or, where it says so, the
    consumer) sends.
    """

    conversation: Conversation
    vbucket: int
    opaque: int
    sid: int = 0

    def send(
        self,
        opcode: str,
        *,
        framed: bool = True,
        waits: bool = True,
        hold: tuple[int, str] | None = None,
        **parts: Any,
    ) -> None:
        """A stream message by opcode, with the stream's opaque, vbucket and stream-id; counted by
        flow control.
        """
        talk = self.conversation
        frames = (
            [(STREAM_ID, pack(">H", self.sid))] if framed and talk.stream_ids and self.sid else []
        )
        data = encode(opcode, vbucket=self.vbucket, opaque=self.opaque, frames=frames, **parts)
        talk.send(talk.producer, data, waits=waits, hold=hold)
        # Both ends of a real connection count two bytes too many for a prepare.
        talk.counted += len(data) + (2 if opcode == "dcp_prepare" else 0)
        if talk.window and 0 < talk.ack_after <= talk.counted:
            talk.acknowledge()

    def snapshot(
        self, start: int, end: int, *kinds: str, version: str = "v1", **fields: Any
    ) -> None:
        """A snapshot marker."""
        self.send(
            "dcp_snapshot_marker",
            generation=version,
            start_seqno=start,
            end_seqno=end,
            snapshot_type=kinds,
            **fields,
        )

    def snapshot_received(self) -> None:
        """The consumer's answer to a marker with the ack flag, after the last message of its
        snapshot.
        """
        talk = self.conversation
        talk.answer("dcp_snapshot_marker", self.opaque, by=talk.consumer)

    def mutation(
        self,
        seqno: int,
        key: str,
        body: Any = b"",
        *,
        collection: int = 0,
        xattrs: Mapping[str, str] | None = None,
        snappy: bool = False,
        rev: int = 1,
        waits: bool = True,
        hold: tuple[int, str] | None = None,
        **fields: Any,
    ) -> None:
        """A document was stored: JSON unless ``body`` is bytes."""
        value, datatype = document(body, xattrs=xattrs, snappy=snappy)
        self._event(
            "dcp_mutation",
            seqno,
            key,
            value,
            datatype,
            collection,
            rev,
            waits=waits,
            hold=hold,
            **fields,
        )

    def deletion(
        self,
        seqno: int,
        key: str,
        *,
        collection: int = 0,
        xattrs: Mapping[str, str] | None = None,
        snappy: bool = False,
        rev: int = 2,
    ) -> None:
        """A document was deleted; with its time when the open asked for that."""
        value, datatype = document(b"", xattrs=xattrs, snappy=snappy)
        times: dict[str, Any] = {"generation": "v1"}
        if self.conversation.delete_times:
            times = {"generation": "v2", "delete_time": EPOCH + seqno}
        self._event("dcp_deletion", seqno, key, value, datatype, collection, rev, **times)

    def expiration(
        self,
        seqno: int,
        key: str,
        *,
        collection: int = 0,
        xattrs: Mapping[str, str] | None = None,
        rev: int = 2,
    ) -> None:
        """A document ran out."""
        value, datatype = document(b"", xattrs=xattrs)
        self._event(
            "dcp_expiration",
            seqno,
            key,
            value,
            datatype,
            collection,
            rev,
            generation="v2",
            delete_time=EPOCH + seqno,
        )

    def _event(
        self,
        opcode: str,
        seqno: int,
        key: str,
        value: bytes,
        datatype: int,
        collection: int,
        rev: int,
        **fields: Any,
    ) -> None:
        self.send(
            opcode,
            cas=hlc(seqno),
            datatype=datatype,
            collection=collection if self.conversation.collections else None,
            key=key,
            value=value,
            by_seqno=seqno,
            rev_seqno=rev,
            **fields,
        )

    def system_event(
        self, seqno: int, event: str, name: str = "", *, version: str = "v0", **fields: Any
    ) -> None:
        """A collection or scope came or went."""
        self.send(
            "dcp_system_event", generation=version, by_seqno=seqno, event=event, key=name, **fields
        )

    def prepare(
        self,
        seqno: int,
        key: str,
        body: Any,
        *,
        level: str = "majority",
        collection: int = 0,
        deleted: bool = False,
    ) -> None:
        """A durable write is pending."""
        value, datatype = (b"", 0) if deleted else document(body)
        self.send(
            "dcp_prepare",
            framed=False,
            cas=hlc(seqno),
            datatype=datatype,
            collection=collection if self.conversation.collections else None,
            key=key,
            value=value,
            by_seqno=seqno,
            rev_seqno=1,
            deleted=int(deleted),
            durability_level=level,
        )

    def commit(self, prepared: int, seqno: int, key: str, *, collection: int = 0) -> None:
        """The pending write is valid."""
        prefix = collection if self.conversation.collections else None
        self.send(
            "dcp_commit",
            framed=False,
            collection=prefix,
            key=key,
            prepared_seqno=prepared,
            commit_seqno=seqno,
        )

    def abort(self, prepared: int, seqno: int, key: str, *, collection: int = 0) -> None:
        """The pending write never happened."""
        prefix = collection if self.conversation.collections else None
        self.send(
            "dcp_abort",
            framed=False,
            collection=prefix,
            key=key,
            prepared_seqno=prepared,
            abort_seqno=seqno,
        )

    def seqno_acknowledged(self, seqno: int) -> None:
        """The consumer has all prepares up to here."""
        talk = self.conversation
        talk.send(
            talk.consumer,
            encode(
                "dcp_seqno_acknowledged",
                vbucket=self.vbucket,
                opaque=self.opaque,
                prepared_seqno=seqno,
            ),
        )

    def seqno_advanced(self, seqno: int) -> None:
        """The stream is at this seqno, by events the consumer does not see."""
        self.send("dcp_seqno_advanced", by_seqno=seqno)

    def oso(self, part: str) -> None:
        """An out-of-order snapshot begins ("start") or is complete ("end")."""
        self.send("dcp_oso_snapshot", flags=[part])

    def cache_transfer(self, items: Sequence[Mapping[str, Any]]) -> None:
        """Cached documents, in no order."""
        self.send("dcp_cache_transfer", items=items)

    def cache_transfer_end(self) -> None:
        """Normal streaming begins."""
        self.send("dcp_cache_transfer_end")

    def set_state(self, state: str) -> None:
        """A takeover changes the state of the consumer's vbucket, and the consumer says so."""
        talk = self.conversation
        self.send("dcp_set_vbucket_state", state=state)
        talk.answer("dcp_set_vbucket_state", self.opaque, by=talk.consumer)

    def close(self, *, status: int = 0) -> None:
        """The consumer closes the stream."""
        talk = self.conversation
        frames = [(STREAM_ID, pack(">H", self.sid))] if talk.stream_ids and self.sid else []
        talk.ask(
            "dcp_close_stream",
            by=talk.consumer,
            status=status,
            opaque=self.opaque,
            vbucket=self.vbucket,
            frames=frames,
        )

    def end(self, reason: str = "ok") -> None:
        """No message of the stream comes after this one."""
        self.send("dcp_stream_end", end_reason=reason)


def document(
    body: Any, *, xattrs: Mapping[str, str] | None = None, snappy: bool = False
) -> tuple[bytes, int]:
    """(value, datatype): bytes as they are, anything else as JSON."""
    if isinstance(body, bytes):
        return encode_document(body, xattrs=xattrs, snappy=snappy)
    return encode_document(text(body), xattrs=xattrs, json=True, snappy=snappy)


def failover_entries(log: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """A failover log as the encoder takes it."""
    return {"failover_log": [{"uuid": uuid, "seqno": seqno} for uuid, seqno in log]}


Story = list[Conversation]
"""Connections in the order in which they are opened."""
