"""Remembers what connections say of themselves: HELLO, open, controls, buckets, and other things said once that hold for long.

These messages are few, so they are read one by one. The kernel gets what changes its work as facts with their rows. Texts and tables that
peers could fill without end are bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import orjson

from dcpinspect.protocol import versions
from dcpinspect.protocol.columns import Mask, Rows
from dcpinspect.protocol.datatype import SNAPPY
from dcpinspect.protocol.features import feature_name
from dcpinspect.protocol.flags import PRODUCER
from dcpinspect.protocol.layouts.flow import CONTROL_KEY, CONTROL_VALUE
from dcpinspect.protocol.layouts.session import SERVER_VERSION
from dcpinspect.protocol.layouts.stream_request import STREAM_OPTIONS
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.snappy import SnappyError, decode_snappy
from dcpinspect.protocol.statuses import Status, status_name
from dcpinspect.streams.cluster_map import ClusterMaps
from dcpinspect.streams.collections import Manifest, said_by_event
from dcpinspect.streams.kinds import ASKED, FACT_END_ON_CLOSE, FACT_HISTORY, FACT_OSO, FACT_PRODUCER, FACT_WINDOW, REFUSED
from dcpinspect.streams.renumbering import Table, by_connection, renumbered_rows, without_repeats
from dcpinspect.streams.rows import FILE_SHIFT
from dcpinspect.streams.server_reports import MOST_STATES, At, FailoverLog, HighSeqno, Listing, Reports, ServerReport, StateSet
from dcpinspect.tables.messages import MessageBatch

if TYPE_CHECKING:
    from dcpinspect.protocol.redact import Redactor

_MOST = 1 << 12
"""The greatest number of controls of a connection, and of requests that wait for an answer."""
_MOST_TEXT = 1 << 10
COLLECTIONS = "Collections"
"""The feature of HELLO that a client needs to ask for some collections only."""
SYNC_WRITES = "enable_sync_writes"
"""The control without which the server hides prepares and aborts."""
FLATBUFFERS = "flatbuffers_system_events"
"""The control without which the server hides modify events."""

_SESSION = np.zeros(256, dtype=np.bool_)
_SESSION[
    [
        Opcode.HELLO,
        Opcode.VERSION,
        Opcode.SELECT_BUCKET,
        Opcode.DCP_OPEN,
        Opcode.DCP_CONTROL,
        Opcode.DCP_GET_FAILOVER_LOG,
        Opcode.GET_FAILOVER_LOG,
        Opcode.GET_ALL_VB_SEQNOS,
        Opcode.GET_CLUSTER_CONFIG,
        Opcode.OBSERVE_SEQNO,
        Opcode.DCP_SYSTEM_EVENT,
        Opcode.DCP_SET_VBUCKET_STATE,
        Opcode.SET_VBUCKET,
        Opcode.DEL_VBUCKET,
        Opcode.COLLECTIONS_GET_MANIFEST,
    ]
] = True
_ASKS = (Opcode.HELLO, Opcode.DCP_OPEN, Opcode.DCP_CONTROL, Opcode.GET_ALL_VB_SEQNOS)
"""Opcodes that clients are expected to send on their connections."""
_NEWS = (Opcode.HELLO, Opcode.DCP_OPEN, Opcode.DCP_CONTROL)
_REPLICATION, _BETWEEN_NODES = "replication", ("replication:", "rebalance:")
_STATE_SETTERS = (Opcode.SET_VBUCKET, Opcode.DEL_VBUCKET)
_REPLICA = 2
"""The number of the vbucket state "replica"."""
_REFUSALS = (Status.NOT_MY_VBUCKET, Status.UNKNOWN_COLLECTION, Status.UNKNOWN_SCOPE)
"""Statuses of refused stream requests whose value says more: the cluster map, or the uid of the manifest."""
FAILOVER_LOGS = (Opcode.DCP_GET_FAILOVER_LOG, Opcode.GET_FAILOVER_LOG)


@dataclass(slots=True)
class Control:
    """One control, as last asked for."""

    value: str
    status: str | None = None
    """Name of the status of the answer; None while there is no answer."""
    row: int = 0
    """Row of the request."""


@dataclass(slots=True)
class Session:
    """What the two sides of one connection have said of it."""

    agent: str | None = None
    is_key_broken: bool = False
    """Whether the key of the last HELLO has members of JSON, but is no JSON object."""
    server_version: str | None = None
    """Version that the server told a client which asked; None: nobody asked."""
    features: tuple[str, ...] | None = None
    """Features granted by HELLO; None: not known."""
    features_asked: tuple[str, ...] = ()
    hello_row: int = 0
    hello_asked_row: int = 0
    """Row of the first HELLO's request."""
    bucket: str | None = None
    refused_bucket: str | None = None
    """The bucket that was last refused; None: no bucket was refused."""
    name: str | None = None
    name_size: int = 0
    """Size of the name in bytes."""
    service: str = ""
    """What the names of one client's connections share: the name up to a colon, member ``a`` of its JSON, or where it replicates."""
    is_named_well: bool = False
    """Whether the name has the form service:unique, or is JSON that says as much."""
    is_replication: bool = False
    """Whether one node replicates to another on this connection, judged by its name."""
    open_flags: int | None = None
    consumer: int | None = None
    """Direction of the consumer's messages, by the flags of the open."""
    open_row: int = 0
    open_status: int | None = None
    """Status of the answer to the open that counts: the first open that succeeded, else the last one."""
    controls: dict[str, Control] = field(default_factory=dict)
    accepted: dict[tuple[str, str], int] = field(default_factory=dict)
    """Row of the first accepted request for every pair of key and value."""
    high_seqnos_asked: At | None = None
    """Place of the first request for the newest seqnos of all vbuckets."""
    is_cut: bool = False
    """Whether the capture lacks a part of what was asked, or there were more controls than are remembered."""
    unread_requests: list[tuple[int, int]] = field(default_factory=list)
    """(vbucket, time) of each stream request whose extras are partly missing in the capture."""
    high_seqnos: dict[int, HighSeqno] = field(default_factory=dict)
    active: Listing | None = None
    """The newest list of vbuckets that the server called active."""
    cluster_map: Listing | None = None
    redirects: dict[int, str | None] = field(default_factory=dict)
    """The node that the map in an answer "not my vbucket" names, by the vbucket asked for; None where the map names no node for it."""
    manifest_uids: dict[int, str] = field(default_factory=dict)
    """The uid of the server's manifest in an answer "unknown collection" or "unknown scope", by the vbucket asked for."""
    replicas: set[int] = field(default_factory=set)
    """Vbuckets known to be replicas: the server listed them, or their producer set them to replica."""
    states: dict[int, list[StateSet]] = field(default_factory=dict)
    """What this connection set a vbucket to, outside of DCP, oldest first, by vbucket."""
    reports: dict[int, ServerReport] = field(default_factory=dict)
    """What the server said of a vbucket outside of its streams, by vbucket."""
    manifest: Manifest = field(default_factory=Manifest)
    waiting: dict[int, Any] = field(default_factory=dict)
    """What requests without an answer asked for, by row of the request."""

    @property
    def listings(self) -> list[Listing]:
        """The lists in which the server said where vbuckets are active."""
        return [listing for listing in (self.active, self.cluster_map) if listing is not None]

    def waits_for(self, key: str | int) -> bool:
        """Whether a control was sent, or a command of FAILOVER_LOGS, and no answer to it was read."""
        return any(isinstance(asked, tuple) and asked[:1] == (key,) for asked in self.waiting.values())

    def control(self, key: str) -> str | None:
        """Returns the value of a control if the server accepted it, else None."""
        setting = self.controls.get(key)
        return setting.value if setting is not None and setting.status == "success" else None

    @property
    def versions(self) -> versions.Versions:
        """The versions that the server may have, by what it said on this connection."""
        known = "success" if self.consumer == 1 else None  # a server that consumes asks for what it knows
        controls = ((key, one.value, known or one.status) for key, one in self.controls.items())
        return versions.shown(self.server_version, self.features_asked, self.features, controls)

    @property
    def may_hide_seqnos(self) -> bool:
        """Whether the server may hide prepares and aborts from the client, or other collections."""
        return not self._sees_documents and self.versions.has(versions.SYNC_WRITES) is not False

    @property
    def sees_every_seqno(self) -> bool:
        """Whether the client can see every seqno of a vbucket: no collections, prepares, aborts or modify events are hidden from it."""
        return self._sees_documents and self.control(FLATBUFFERS) == "true"

    @property
    def _sees_documents(self) -> bool:
        return self.control(SYNC_WRITES) == "true" and COLLECTIONS in (self.features or ())


@dataclass(frozen=True, slots=True)
class News:
    """A message that may change what holds on its connection: a HELLO, an open or a control, or the answer to one."""

    index: int
    """Row of the message in the batch."""
    connection: int
    opcode: int
    status: int | None
    """Status of an answer; None: the message is a request."""
    asked: Any
    """Names granted by a HELLO; flags of an open; key and value of a control. None for a control that cannot be read, and for
    an answer whose request was not captured."""


Fact = tuple[int, int, int]
"""Row of the batch, column of the table of connections, new value."""


class Conversation:
    """The sessions of all connections, fed with every batch."""

    def __init__(self) -> None:
        self.sessions: dict[int, Session] = {}
        self.news: list[News] = []
        """News of the latest batch, in row order."""
        self.filters: list[dict[str, Any] | None] = []
        """Parsed values of stream requests, without repeats."""
        self.logs: list[bytes] = []
        """Failover logs as bytes, as they stand in answers, without repeats."""
        self._maps = ClusterMaps()
        self._filter_numbers: dict[bytes, int] = {}
        self._log_numbers: dict[bytes, int] = {}
        self._told = Reports.zeros(0)  # reports that belong to no session

    @property
    def reports(self) -> Reports:
        """What servers said of vbuckets outside of their streams."""
        said = {number: (one.reports, one.high_seqnos) for number, one in self.sessions.items() if one.reports}
        return Reports.joined([self._told, Reports.of(said, self.log_of)])

    def __getstate__(self) -> tuple[dict[int, Session], list[bytes], list[bytes], Table]:
        """Returns sessions, raw values of stream requests (their parsed form may be deeply nested), failover logs, and reports as
        columns."""
        reports = self.reports.as_integers()
        return {number: _without_reports(one) for number, one in self.sessions.items()}, list(self._filter_numbers), self.logs, reports

    def __setstate__(self, said: tuple[dict[int, Session], list[bytes], list[bytes], Table]) -> None:
        self.__init__()  # type: ignore[misc] # there is nothing yet
        self.sessions, filters, logs, reports = said
        self._told = Reports.of_integers(reports)
        for value in filters:
            self.filter_of(value)
        for log in logs:
            self.log_of(log)

    @classmethod
    def joined(cls, parts: Sequence[Conversation], connections: Sequence[Table]) -> tuple[Self, list[Table], list[Table]]:
        """Joins what was said in readings of different connections.

        ``connections``: for each reading, the new numbers of its connections. Returns the whole, and for each reading the new numbers of
        its ``filters`` and of its ``logs``.
        """
        filters, filter_numbers = without_repeats([list(part._filter_numbers) for part in parts])
        reports = [part.reports for part in parts]
        logs, log_numbers = without_repeats([part.logs for part in parts])
        told = [renumbered_rows(own, {"logs": numbers}) for own, numbers in zip(reports, log_numbers, strict=True)]
        for own, of in zip(told, connections, strict=True):
            own.connection = of[own.connection]
        sessions = by_connection([{n: _without_reports(one) for n, one in part.sessions.items()} for part in parts], connections)
        whole = cls()
        whole.__setstate__((sessions, filters, logs, Reports.joined(told).as_integers()))
        return whole, filter_numbers, log_numbers

    def of(self, connection: int) -> Session:
        """Returns the session of a connection, a new one if it has none."""
        return self.sessions.setdefault(connection, Session())

    def feed(self, batch: MessageBatch) -> list[Fact]:
        """Takes the messages of a batch, and returns the facts that the kernel needs, in row order."""
        decoded = batch.decoded
        whole = readable(batch)
        is_said = _SESSION[decoded.opcode] & ~decoded.is_server & decoded.has_magic
        tells_more = np.isin(decoded.specific, _REFUSALS) & decoded.is_response & (decoded.value.size > 0)
        is_said |= tells_more & (decoded.opcode == Opcode.DCP_STREAM_REQ) & ~decoded.is_server & decoded.has_magic
        rows = np.flatnonzero(is_said & whole)
        is_unclear = is_said & ~whole & (decoded.opcode == Opcode.DCP_CONTROL) & ~decoded.is_response
        unclear: list[Fact] = [(row, FACT_WINDOW, -1) for row in np.flatnonzero(is_unclear).tolist()]  # nobody knows what it sets
        for row in np.flatnonzero(is_said & ~whole).tolist():
            opcode, vbucket = int(decoded.opcode[row]), batch.vbucket.at(row)
            if opcode in _ASKS:
                self.of(int(batch.connection[row])).is_cut = True
            is_log = opcode in FAILOVER_LOGS and decoded.is_response[row] and decoded.specific[row] == Status.SUCCESS
            if is_log and vbucket is not None:
                self.of(int(batch.connection[row])).reports.setdefault(int(vbucket), ServerReport()).miss_log(_at(batch, row))
        facts: list[Fact] = []
        self.news = [News(row, int(batch.connection[row]), Opcode.DCP_CONTROL, None, None) for row, _, _ in unclear]
        for row in rows.tolist():
            opcode, connection = int(decoded.opcode[row]), int(batch.connection[row])
            session = self.of(connection)
            status: int | None = None
            asked: Any = None
            if opcode == Opcode.DCP_CONTROL and session.consumer == int(batch.direction[row] ^ decoded.is_response[row]) ^ 1:
                continue  # only consumers set anything
            if decoded.is_response[row]:
                status = int(decoded.specific[row])
                asked = session.waiting.pop(int(batch.request_row.values[row]), None) if batch.request_row.at(row) is not None else None
                self._answer(batch, row, opcode, session, asked, facts)
            else:
                self._request(batch, row, opcode, session, facts)
                asked = session.waiting.get(int(batch.row[row]))
            if opcode in _NEWS:
                told = session.features if opcode == Opcode.HELLO and status is not None else asked
                self.news.append(News(row, connection, opcode, status, told))
        self.news.sort(key=lambda one: one.index)
        return sorted(facts + unclear)

    def filter_of(self, value: bytes, redactor: Redactor | None = None) -> int:
        """Number among ``filters`` of a stream request's value. ``redactor``: what it replaces is not remembered."""
        value = value if redactor is None else redactor.told(STREAM_OPTIONS, value)
        number = self._filter_numbers.get(value)
        if number is None:
            number = self._filter_numbers[value] = len(self.filters)
            self.filters.append(json_object(value))
        return number

    def log_of(self, value: bytes) -> int:
        """Returns the number of a failover log in ``logs``, or -1 if the value is no failover log."""
        if not value or len(value) % 16:
            return -1
        number = self._log_numbers.setdefault(value, len(self.logs))
        if number == len(self.logs):
            self.logs.append(value)
        return number

    def keep(self, filters: Rows, logs: Rows) -> dict[str, Mask]:
        """Keeps only the ``filters`` and ``logs`` of these numbers.

        Returns by name a mask of those that stay; they get new numbers in the same order.
        """
        staying = {name: np.zeros(len(of), dtype=np.bool_) for name, of in (("filters", self.filters), ("logs", self.logs))}
        for stays, numbers in zip(staying.values(), (filters, logs), strict=True):
            stays[numbers[(numbers >= 0) & (numbers < len(stays))]] = True
        values, known = [*compress(self._filter_numbers, staying["filters"])], [*compress(self.logs, staying["logs"])]
        self.filters = [*compress(self.filters, staying["filters"])]
        self._filter_numbers = {value: number for number, value in enumerate(values)}
        self.logs, self._log_numbers = known, {log: number for number, log in enumerate(known)}
        return staying

    def leave(self, connections: Table) -> None:
        """Drops what was said on these connections."""
        for number in connections.tolist():
            self.sessions.pop(number, None)
        self._told = self._told[~np.isin(self._told.connection, connections)]

    # -- one message ---------------------------------------------------------------------------------------

    def _request(self, batch: MessageBatch, row: int, opcode: int, session: Session, facts: list[Fact]) -> None:
        number = int(batch.row[row])
        if opcode == Opcode.DCP_SET_VBUCKET_STATE:
            if batch.number("state", row) == _REPLICA:
                session.replicas.add(int(batch.decoded.specific[row]))
        elif opcode in _STATE_SETTERS:
            _wait(session, number, _state_set(batch, row) if opcode == Opcode.SET_VBUCKET else 0)
        elif opcode in FAILOVER_LOGS:
            _wait(session, number, (opcode,))
        elif opcode == Opcode.HELLO:
            session.agent = _agent(_key(batch, row), batch.redactor)
            session.is_key_broken = _is_broken(_key(batch, row))
            session.hello_asked_row = session.hello_asked_row or number
            session.features_asked = _features(batch, row)
        elif opcode == Opcode.DCP_OPEN:
            if session.open_status == Status.SUCCESS:
                return
            flags = batch.number("flags", row)
            session.open_flags, session.open_row = flags, number
            _name(session, _key(batch, row), batch.redactor)
            session.name_size, session.open_status = int(batch.decoded.key.size[row]), None
            if flags is not None:
                direction = int(batch.direction[row])
                session.consumer = direction if flags & PRODUCER else 1 - direction
                facts.append((row, FACT_PRODUCER, 1 - session.consumer))
            _wait(session, number, flags)
        elif opcode == Opcode.SELECT_BUCKET:
            _wait(session, number, _told(_key(batch, row), batch.redactor))
        elif opcode == Opcode.DCP_CONTROL:
            key, value = _control(batch, row)
            if key in session.controls or len(session.controls) < _MOST:
                _wait(session, number, (key, value))
                if session.controls.get(key) is None or session.controls[key].status != "success":
                    session.controls[key] = Control(value, None, number)
            else:
                session.is_cut = True
            facts += [(row, column, ASKED) for column, _ in _effect(key, value) if column in _MAY_BE_UNKNOWN]
        elif opcode == Opcode.DCP_SYSTEM_EVENT:
            is_news = batch.decoded.fits[row] and session.manifest.is_news(told_bytes(batch, row))
            if is_news and (said := said_by_event(batch, row)) is not None:
                session.manifest.take_event(said)
        elif opcode == Opcode.GET_ALL_VB_SEQNOS:
            session.high_seqnos_asked = session.high_seqnos_asked or _at(batch, row)
            _wait(session, number, (batch.number("state", row), batch.number("collection_id", row)))

    def _answer(self, batch: MessageBatch, row: int, opcode: int, session: Session, asked: Any, facts: list[Fact]) -> None:
        status = int(batch.decoded.specific[row])
        good = status == Status.SUCCESS
        if status == Status.NOT_MY_VBUCKET:
            self._redirect(batch, row, session)
        elif opcode == Opcode.DCP_STREAM_REQ:
            vbucket, told = batch.vbucket.at(row), (json_object(document(batch, row)) or {}).get("manifest_uid")
            if vbucket is not None and isinstance(told, str) and len(session.manifest_uids) < _MOST:
                session.manifest_uids[vbucket] = told
        elif opcode == Opcode.HELLO and good:
            session.features, session.hello_row = _features(batch, row), int(batch.row[row])
        elif opcode == Opcode.VERSION and good:
            version = value_bytes(batch, row)
            session.server_version = text(version if batch.redactor is None else batch.redactor.told(SERVER_VERSION, version))
        elif opcode == Opcode.DCP_OPEN and session.open_status != Status.SUCCESS:
            session.open_status = status
        elif opcode == Opcode.SELECT_BUCKET and asked is not None:
            session.bucket, session.refused_bucket = (asked, session.refused_bucket) if good else (session.bucket, asked)
        elif opcode == Opcode.DCP_CONTROL and asked is None and good:
            facts.append((row, FACT_WINDOW, -1))  # nobody knows what was set
        elif opcode == Opcode.DCP_CONTROL and asked is not None:
            key, value = asked
            before = session.controls.get(key)
            if good or before is None or before.status != "success":
                session.controls[key] = Control(value, status_name(status), int(batch.request_row.values[row]))
            if good:
                if len(session.accepted) < _MOST:
                    session.accepted.setdefault((key, value), int(batch.request_row.values[row]))
                else:
                    session.is_cut = True
                facts += [(row, column, number) for column, number in _effect(key, value)]
            else:
                facts += [(row, column, REFUSED) for column, _ in _effect(key, value) if column in _MAY_BE_UNKNOWN]
        elif opcode in _STATE_SETTERS and good and asked is not None and (vbucket := batch.vbucket.at(row)) is not None:
            session.states[vbucket] = [*session.states.get(vbucket, ())[1 - MOST_STATES :], StateSet(asked, _at(batch, row))]
        elif opcode in FAILOVER_LOGS and good and batch.vbucket.at(row) is not None:
            log = FailoverLog(value_bytes(batch, row), _at(batch, row))
            session.reports.setdefault(int(batch.vbucket.values[row]), ServerReport()).tell_log(log)
        elif opcode == Opcode.GET_ALL_VB_SEQNOS and good and asked is not None:
            self._high_seqnos(batch, row, session, *asked)
        elif opcode == Opcode.GET_CLUSTER_CONFIG and good:
            nodes = self._maps.nodes(document(batch, row), batch.redactor)
            session.cluster_map = Listing(nodes, _at(batch, row)) if nodes else session.cluster_map
        elif opcode == Opcode.COLLECTIONS_GET_MANIFEST and good:
            session.manifest.take_answer(json_object(document(batch, row)) or {}, batch.redactor)
        elif opcode == Opcode.OBSERVE_SEQNO and good:
            vbucket, seqno = batch.number("observed_vbucket", row), batch.number("current_seqno", row)
            if vbucket is not None and seqno is not None:
                at = _at(batch, row)
                self._high_seqno(session, vbucket, HighSeqno(seqno, at))
                persisted = batch.number("last_persisted_seqno", row)
                if persisted is not None:
                    session.reports[vbucket].tell_persisted(persisted, seqno, at)

    def _redirect(self, batch: MessageBatch, row: int, session: Session) -> None:
        """Reads the cluster map in the answer of a node that does not have the vbucket: the map may say which node has it."""
        nodes = self._maps.nodes(document(batch, row), batch.redactor)
        if not nodes:
            return
        session.cluster_map = Listing(nodes, _at(batch, row))
        vbucket = batch.vbucket.at(row)
        if vbucket is not None and (vbucket in session.redirects or len(session.redirects) < _MOST):
            session.redirects[vbucket] = nodes.get(vbucket)

    @staticmethod
    def _high_seqno(session: Session, vbucket: int, high: HighSeqno) -> None:
        session.high_seqnos[vbucket] = high
        session.reports.setdefault(vbucket, ServerReport()).tell_seqno(high)

    def _high_seqnos(self, batch: MessageBatch, row: int, session: Session, state: int | None, collection: int | None) -> None:
        value = value_bytes(batch, row)
        listed = np.frombuffer(value[: len(value) // 10 * 10], np.dtype([("vbucket", ">u2"), ("seqno", ">u8")]))
        if state == 1 and collection is None:
            session.active = Listing(dict.fromkeys(listed["vbucket"].tolist(), ""), _at(batch, row))
        if state == _REPLICA:
            session.replicas.update(listed["vbucket"].tolist())
        if collection is None and state != _REPLICA:
            at = _at(batch, row)
            for vbucket, seqno in listed.tolist():
                self._high_seqno(session, vbucket, HighSeqno(seqno, at))


def _without_reports(session: Session) -> Session:
    """Returns the session without what ``Conversation.reports`` holds as columns."""
    kept = {vbucket: ServerReport(not_persisted=said) for vbucket, one in session.reports.items() if (said := one.not_persisted)}
    return replace(session, reports=kept, high_seqnos={})


def readable(batch: MessageBatch) -> Mask:
    """Returns a mask of the messages that were captured whole."""
    whole = np.ones(len(batch), dtype=np.bool_)
    whole[batch.missing.row] = False
    return whole


MOST_WINDOW = (1 << 32) - 1
"""The largest flow-control window. Of greater numbers, servers before 7.6 keep the lower 32 bits and answer SUCCESS; later servers answer
EINVAL (kv_engine ``DcpProducer::control``, ``parseUint32``, ``safe_strtoul``)."""
_MOST_DIGITS = 20
_MAY_BE_UNKNOWN = (FACT_HISTORY, FACT_OSO)
"""Settings that are unknown from the request to the answer."""


def window_asked(value: str) -> int | None:
    """Returns the flow-control window in bytes that a client asks for; None if the value is no number."""
    return int(value) if value.isdecimal() and value.isascii() and len(value) <= _MOST_DIGITS else None


def _effect(key: str, value: str) -> list[tuple[int, int]]:
    """Returns the facts that an accepted control changes for the kernel, as (column, value)."""
    if key == "connection_buffer_size" and (size := window_asked(value)) is not None:
        return [(FACT_WINDOW, size & MOST_WINDOW)]
    if key == "send_stream_end_on_client_close_stream":
        return [(FACT_END_ON_CLOSE, int(value == "true"))]
    if key == "change_streams":
        return [(FACT_HISTORY, int(value == "true"))]
    if key == "enable_out_of_order_snapshots":
        return [(FACT_OSO, int(value in ("true", "true_with_seqno_advanced")))]
    return []


def _at(batch: MessageBatch, row: int) -> At:
    frame = (int(batch.last_file[row]) << FILE_SHIFT) | int(batch.last_frame[row])
    return At(int(batch.row[row]), int(batch.stream_offset[row]), frame, int(batch.time_ns[row]))


def _state_set(batch: MessageBatch, row: int) -> int | None:
    """Returns the state that a SET_VBUCKET asks for, in one byte or, by older clients, in four; None where nobody can read it."""
    start, size = int(batch.decoded.extras_at[row]), int(batch.decoded.extras_size[row])
    return int.from_bytes(batch.data[start : start + size].tobytes()) if size in (1, 4) else None


def _wait(session: Session, row: int, asked: Any) -> None:
    if len(session.waiting) >= _MOST:
        del session.waiting[next(iter(session.waiting))]
    session.waiting[row] = asked


def _key(batch: MessageBatch, row: int) -> bytes:
    return batch.wire_key_of(row) or b""


def told_bytes(batch: MessageBatch, row: int) -> bytes:
    """Returns what a system event says without its seqno, which differs by vbucket."""
    start, end = int(batch.decoded.extras_at[row]) + 8, int(batch.start[row]) + int(batch.length[row])
    return batch.data[start:end].tobytes()


def value_bytes(batch: MessageBatch, row: int) -> bytes:
    """Returns the value of a message as it was sent."""
    value = batch.decoded.value
    return batch.data[int(value.start[row]) : int(value.start[row] + value.size[row])].tobytes()


def document(batch: MessageBatch, row: int) -> bytes:
    """Returns the value of a message, decompressed; empty if it cannot be decompressed."""
    value = value_bytes(batch, row)
    try:
        return decode_snappy(value) if int(batch.decoded.datatype[row]) & SNAPPY else value
    except SnappyError:
        return b""


def text(raw: bytes) -> str:
    """Returns the text of a name that a peer gave; bytes that are no UTF-8 become escapes."""
    if raw and not raw.strip(b"\0"):  # what ``-w --redact`` leaves of a name
        return f"[{len(raw)} byte{'s' if len(raw) != 1 else ''} redacted]"
    return raw[:_MOST_TEXT].decode(errors="backslashreplace")


def _told(raw: bytes, redactor: Redactor | None) -> str:
    """Returns the text of a name, or its replacement if a redactor is given."""
    return text(raw if redactor is None else redactor.replacement(raw))


def _features(batch: MessageBatch, row: int) -> tuple[str, ...]:
    """Returns the names of the features in a HELLO or its answer."""
    value = value_bytes(batch, row) if batch.decoded.fits[row] else b""
    if batch.redactor is not None and len(value) % 2:
        return ()  # as in its fields, what is no list of numbers is a text
    return tuple(feature_name(code) for code in np.frombuffer(value[: len(value) // 2 * 2], ">u2").tolist())


def _control(batch: MessageBatch, row: int) -> tuple[str, str]:
    """Returns key and value of a control, with replacements for what the protocol does not know."""
    key, value = _key(batch, row), value_bytes(batch, row)
    if batch.redactor is not None:
        key, value = batch.redactor.told(CONTROL_KEY, key), batch.redactor.told(CONTROL_VALUE, value, key)
    return text(key), text(value)


def _agent(key: bytes, redactor: Redactor | None) -> str:
    """Returns the name of the client in a HELLO: member ``a`` of its JSON, or the whole key."""
    name = _member(json_object(key) or json_object(b"{%b}" % key), "a")
    if name is None:
        return _told(key, redactor)
    return name[:_MOST_TEXT] if redactor is None else redactor.text(name)


def _is_broken(key: bytes) -> bool:
    """Returns whether a key looks like a JSON object that lost its braces, or its end."""
    return json_object(key) is None and (key.startswith(b"{") or b'"a":' in key or b'"i":' in key)


def _name(session: Session, raw: bytes, redactor: Redactor | None) -> None:
    """Stores the name that an open gives its connection, or the replacement of that name."""
    found, service = json_object(raw), service_of(raw)
    if found is None:
        name = text(raw)
        session.is_named_well = bool(service and name.partition(":")[2])
        session.is_replication = name.startswith(_BETWEEN_NODES)
    else:  # ``a`` is the program, ``i`` tells its connections apart
        session.is_named_well = bool(found.get("i"))
    session.name, session.service = _told(raw, redactor), service if redactor is None else redactor.text(service)


def service_of(name: bytes) -> str:
    """Returns the part of a name that the connections of one client share, as ``Session.service``."""
    found = json_object(name)
    if found is None:
        service, _, nodes = text(name).partition(":")
        consumer = nodes.rpartition(":")[0].rpartition("->")[2]  # replication:PRODUCER->CONSUMER:BUCKET
        return f"{service} to {consumer}" if service == _REPLICATION and consumer else service
    return (_member(found, "a") or _member(found, "i") or text(name))[:_MOST_TEXT]


def _member(found: dict[str, Any] | None, name: str) -> str | None:
    value = found.get(name) if found is not None else None
    return value if isinstance(value, str) else None


def json_object(raw: bytes) -> dict[str, Any] | None:
    """Returns the JSON object in ``raw``; None if there is none, or if its texts are invalid, such as half of a surrogate pair."""
    try:
        found = orjson.loads(raw)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
