"""What each message of a session says: HELLO, opens, controls, buckets, and other things said once
that hold for long.

``REQUESTS`` and ``ANSWERS`` have a function for each command. These messages are few, so they are
read one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.features import feature_name
from dcpinspect.protocol.flags import PRODUCER
from dcpinspect.protocol.layouts.flow_commands import CONTROL_KEY, CONTROL_VALUE
from dcpinspect.protocol.layouts.session_commands import SERVER_VERSION
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.statuses import Status, status_name
from dcpinspect.streams.collections import said_by_event
from dcpinspect.streams.record_codes import (
    ASKED,
    FACT_END_ON_CLOSE,
    FACT_HISTORY,
    FACT_OSO,
    FACT_PRODUCER,
    FACT_WINDOW,
    REFUSED,
)
from dcpinspect.streams.server_reports import (
    MOST_STATES,
    ActiveVbuckets,
    FailoverLog,
    HighSeqno,
    MessagePosition,
    ServerReport,
    StateSet,
)
from dcpinspect.streams.session import (
    BETWEEN_NODES,
    FAILOVER_LOGS,
    MOST_TEXT,
    MOST_WINDOW,
    Control,
    Fact,
    Said,
    Session,
    document,
    event_bytes,
    group_of,
    json_object,
    member,
    place_of,
    service_of,
    text,
    value_bytes,
    window_asked,
)
from dcpinspect.streams.words import SIDES
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.text import clip, escape_rest

if TYPE_CHECKING:
    from dcpinspect.protocol.redact import Redactor
    from dcpinspect.streams.cluster_map import ClusterMaps

_MOST = 1 << 12
"""The greatest number of controls of a connection, and of requests that wait for an answer."""
_REPLICA = 2
"""The number of the vbucket state "replica"."""
ALLOWED = (Status.SUCCESS, Status.AUTH_CONTINUE, Status.ROLLBACK)
"""Statuses whose answers refuse nothing."""
_MOST_REASON = 200
"""The greatest number of terminal columns that are remembered of why something was refused."""
ENDINGS = (Opcode.DELETE_BUCKET, Opcode.SHUTDOWN)
"""Commands after which a server closes connections."""
_MAY_BE_UNKNOWN = (FACT_HISTORY, FACT_OSO)
"""Settings that are unknown from the request to the answer."""


@dataclass(slots=True)
class SessionMessage:
    """One message of a session."""

    batch: MessageBatch
    index: int
    """Its row in the batch."""
    session: Session
    maps: ClusterMaps
    facts: list[Fact]
    """What the kernel needs to know; functions add to it."""
    requested: Any = None
    """What the request of an answer asked for; None where it was not captured."""

    @property
    def row(self) -> int:
        """Its row among all messages."""
        return int(self.batch.row[self.index])

    @property
    def request_row(self) -> int:
        """The row of the request of an answer."""
        return int(self.batch.request_row.values[self.index])

    @property
    def opcode(self) -> int:
        """Its command."""
        return int(self.batch.decoded.opcode[self.index])

    @property
    def specific(self) -> int:
        """The status of an answer, the vbucket of a request."""
        return int(self.batch.decoded.specific[self.index])

    @property
    def vbucket(self) -> int | None:
        """The vbucket that it is about."""
        return self.batch.vbucket.value_at(self.index)

    @property
    def statement(self) -> Said:
        """Who said it, and where it stands."""
        return Said(int(self.batch.direction[self.index]), self.message_place)

    @property
    def message_place(self) -> MessagePosition:
        """Where it stands."""
        return place_of(self.batch, self.index)

    @property
    def key(self) -> bytes:
        """Its key, empty where it has none."""
        return self.batch.wire_key_of(self.index) or b""

    @property
    def value(self) -> bytes:
        """Its value as it was sent."""
        return value_bytes(self.batch, self.index)

    @property
    def document(self) -> bytes:
        """Its value, decompressed."""
        return document(self.batch, self.index)

    def number(self, name: str) -> int | None:
        """Returns the value of a column; None where it has none."""
        return self.batch.number(name, self.index)

    def wait(self, request: Any) -> None:
        """Remembers what this request asks for until its answer comes."""
        waiting = self.session.waiting
        if len(waiting) >= _MOST:
            del waiting[next(iter(waiting))]
        waiting[self.row] = request


def read_answer(message: SessionMessage) -> None:
    """Takes what an answer says."""
    if message.specific == Status.NOT_MY_VBUCKET:
        _redirected(message)
        return
    if message.specific not in ALLOWED:
        _reason_given(message)
    if message.opcode in ANSWERS:
        ANSWERS[message.opcode](message)
    elif message.specific == Status.SUCCESS and message.opcode in GOOD_ANSWERS:
        GOOD_ANSWERS[message.opcode](message)


def _state_asked(message: SessionMessage) -> None:
    if message.number("state") == _REPLICA:
        message.session.replicas[message.specific] = None


def _set_vbucket_asked(message: SessionMessage) -> None:
    """Remembers the state that is asked for, in one byte or, by older clients, in four; None where
    nobody can read it.
    """
    batch, index = message.batch, message.index
    start, size = int(batch.decoded.extras_at[index]), int(batch.decoded.extras_size[index])
    extras = batch.data[start : start + size].tobytes()
    message.wait(int.from_bytes(extras) if size in (1, 4) else None)


def _hello_asked(message: SessionMessage) -> None:
    session, key = message.session, message.key
    session.agent = _agent(key, message.batch.redactor)
    session.is_key_broken = _is_broken(key)
    session.hello_asked = session.hello_asked or message.statement
    session.features_asked = _features(message)


def _open_asked(message: SessionMessage) -> None:
    session, batch = message.session, message.batch
    is_open = session.open_status == Status.SUCCESS
    if is_open and session.open_asked is not None:
        return  # else the answer was read first
    flags = message.number("flags")
    session.open_flags, session.open_asked = flags, message.statement
    _name(session, message.key, batch.redactor)
    session.name_size = int(batch.decoded.key.size[message.index])
    session.open_status = session.open_status if is_open else None
    if flags is not None:
        direction = session.open_asked.direction
        session.consumer = direction if flags & PRODUCER else 1 - direction
        message.facts.append((message.index, FACT_PRODUCER, 1 - session.consumer))
    message.wait(flags)


def _control_asked(message: SessionMessage) -> None:
    session = message.session
    key, value = _control(message)
    if key in session.controls or len(session.controls) < _MOST:
        message.wait((key, value, message.statement))
        if session.controls.get(key) is None or session.controls[key].status != "success":
            session.controls[key] = Control(value, None, message.statement)
    else:
        session.is_cut = True
    message.facts += [
        (message.index, column, ASKED)
        for column, _ in _effect(key, value)
        if column in _MAY_BE_UNKNOWN
    ]


def _system_event(message: SessionMessage) -> None:
    batch, manifest = message.batch, message.session.manifest
    is_news = batch.decoded.fits[message.index] and manifest.is_news(
        event_bytes(batch, message.index)
    )
    if is_news and (change := said_by_event(batch, message.index)) is not None:
        manifest.take_event(change)


def _ordered_away(message: SessionMessage) -> None:
    bucket = _replaced(message.key, message.batch.redactor)
    message.wait(bucket)
    if len(message.session.ordered_away) < _MOST:
        message.session.ordered_away[bucket] = message.message_place


def _seqnos_asked(message: SessionMessage) -> None:
    session = message.session
    session.high_seqnos_asked = session.high_seqnos_asked or message.message_place
    message.wait((message.number("state"), message.number("collection_id")))


REQUESTS: dict[int, Callable[[SessionMessage], None]] = {
    Opcode.HELLO: _hello_asked,
    Opcode.VERSION: lambda _: None,
    Opcode.SELECT_BUCKET: lambda message: message.wait(
        _replaced(message.key, message.batch.redactor)
    ),
    Opcode.DCP_OPEN: _open_asked,
    Opcode.DCP_CONTROL: _control_asked,
    Opcode.DCP_SYSTEM_EVENT: _system_event,
    Opcode.DCP_SET_VBUCKET_STATE: _state_asked,
    Opcode.SET_VBUCKET: _set_vbucket_asked,
    Opcode.DEL_VBUCKET: lambda message: message.wait(0),
    **dict.fromkeys(ENDINGS, _ordered_away),
    Opcode.GET_ALL_VB_SEQNOS: _seqnos_asked,
    Opcode.GET_CLUSTER_CONFIG: lambda _: None,
    Opcode.COLLECTIONS_GET_MANIFEST: lambda _: None,
    Opcode.OBSERVE_SEQNO: lambda _: None,
    **{opcode: lambda message: message.wait((message.opcode,)) for opcode in FAILOVER_LOGS},
}
"""What each request says; all commands of sessions are here."""


def _redirected(message: SessionMessage) -> None:
    """Reads the cluster map in the answer of a node that does not have the vbucket: the map may say
    which node has it.
    """
    nodes, redirects, vbucket = _cluster_map(message), message.session.redirects, message.vbucket
    if nodes and vbucket is not None and (vbucket in redirects or len(redirects) < _MOST):
        redirects[vbucket] = nodes.get(vbucket)


def _reason_given(message: SessionMessage) -> None:
    """Remembers what the value of a refusal says of why.

    Source: kv_engine ``Cookie::getErrorJson``, a JSON object ``error`` with a text ``context``. No
    field of the protocol tells what is private in it.
    """
    batch, index, reasons = message.batch, message.index, message.session.reasons
    error = (json_object(message.document) or {}).get("error")
    reason = member(error, "context") if isinstance(error, dict) else None
    if not reason or batch.redactor is not None or len(reasons) >= _MOST:
        return
    if reason.lower().replace(" ", "_") == status_name(message.specific):
        return  # the status says as much
    clipped = clip(escape_rest(reason[:MOST_TEXT]).replace('"', "'"), _MOST_REASON)
    side = SIDES[int(batch.direction[index])]
    for row in (message.row, batch.request_row.value_at(index)):
        if row is not None:
            reasons[int(row)] = f'the {side} says "{clipped}"'


def _order_answered(message: SessionMessage) -> None:
    if message.specific != Status.SUCCESS:
        message.session.ordered_away.pop(message.requested, None)


def _stream_refused(message: SessionMessage) -> None:
    session, vbucket = message.session, message.vbucket
    uid = (json_object(message.document) or {}).get("manifest_uid")
    if vbucket is not None and isinstance(uid, str) and len(session.manifest_uids) < _MOST:
        session.manifest_uids[vbucket] = uid


def _on_opened(message: SessionMessage) -> None:
    if message.session.open_status != Status.SUCCESS:
        message.session.open_status = message.specific


def _bucket_selected(message: SessionMessage) -> None:
    if message.requested is None:
        return
    if message.specific == Status.SUCCESS:
        message.session.bucket = message.requested
    else:
        message.session.refused_bucket = message.requested


def _control_answered(message: SessionMessage) -> None:
    session, is_good, index = message.session, message.specific == Status.SUCCESS, message.index
    if message.requested is None:
        if is_good:
            message.facts.append((index, FACT_WINDOW, -1))  # nobody knows what was set
        return
    key, value, request = message.requested
    before = session.controls.get(key)
    if is_good or before is None or before.status != "success":
        session.controls[key] = Control(value, status_name(message.specific), request)
    if not is_good:
        message.facts += [
            (index, column, REFUSED)
            for column, _ in _effect(key, value)
            if column in _MAY_BE_UNKNOWN
        ]
        return
    if len(session.accepted) < _MOST:
        session.accepted.setdefault((key, value), request)
    else:
        session.is_cut = True
    message.facts += [(index, column, number) for column, number in _effect(key, value)]


ANSWERS: dict[int, Callable[[SessionMessage], None]] = {
    Opcode.DCP_STREAM_REQ: _stream_refused,
    Opcode.DCP_OPEN: _on_opened,
    Opcode.SELECT_BUCKET: _bucket_selected,
    **dict.fromkeys(ENDINGS, _order_answered),
    Opcode.DCP_CONTROL: _control_answered,
}
"""What each answer says, also a refusal."""


def _hello_answered(message: SessionMessage) -> None:
    message.session.features, message.session.hello_row = _features(message), message.row


def _version(message: SessionMessage) -> None:
    redactor, version = message.batch.redactor, message.value
    message.session.server_version = text(
        version if redactor is None else redactor.field_text(SERVER_VERSION, version)
    )


def _state_was_set(message: SessionMessage) -> None:
    states, vbucket = message.session.states, message.vbucket
    if message.requested is not None and vbucket is not None:
        states[vbucket] = [
            *states.get(vbucket, ())[1 - MOST_STATES :],
            StateSet(message.requested, message.message_place),
        ]


def _failover_log(message: SessionMessage) -> None:
    if (vbucket := message.vbucket) is not None:
        message.session.reports.setdefault(vbucket, ServerReport()).tell_log(
            FailoverLog(message.value, message.message_place)
        )


def _cluster_map(message: SessionMessage) -> Mapping[int, str | None]:
    nodes, own = message.maps.read(message.document, message.batch.redactor)
    if nodes:
        message.session.cluster_map = ActiveVbuckets(nodes, message.message_place, own)
    return nodes


def _manifest(message: SessionMessage) -> None:
    message.session.manifest.take_answer(
        json_object(message.document) or {}, message.batch.redactor
    )


def _observed(message: SessionMessage) -> None:
    vbucket, seqno = message.number("observed_vbucket"), message.number("current_seqno")
    if vbucket is None or seqno is None:
        return
    message_place = message.message_place
    _high_seqno(message.session, vbucket, HighSeqno(seqno, message_place))
    if (persisted := message.number("last_persisted_seqno")) is not None:
        message.session.reports[vbucket].tell_persisted(persisted, seqno, message_place)


def _all_seqnos(message: SessionMessage) -> None:
    if message.requested is None:
        return
    session, value, message_place = message.session, message.value, message.message_place
    state, collection = message.requested
    listed = np.frombuffer(
        value[: len(value) // 10 * 10], np.dtype([("vbucket", ">u2"), ("seqno", ">u8")])
    )
    if state == 1 and collection is None:
        session.active = ActiveVbuckets(
            dict.fromkeys(listed["vbucket"].tolist(), ""), message_place
        )
    if state == _REPLICA:
        session.replicas.update(dict.fromkeys(listed["vbucket"].tolist()))
    if collection is None and state != _REPLICA:
        for vbucket, seqno in listed.tolist():
            _high_seqno(session, vbucket, HighSeqno(seqno, message_place))


GOOD_ANSWERS: dict[int, Callable[[SessionMessage], object]] = {
    Opcode.HELLO: _hello_answered,
    Opcode.VERSION: _version,
    Opcode.SET_VBUCKET: _state_was_set,
    Opcode.DEL_VBUCKET: _state_was_set,
    Opcode.GET_ALL_VB_SEQNOS: _all_seqnos,
    Opcode.GET_CLUSTER_CONFIG: _cluster_map,
    Opcode.COLLECTIONS_GET_MANIFEST: _manifest,
    Opcode.OBSERVE_SEQNO: _observed,
    **dict.fromkeys(FAILOVER_LOGS, _failover_log),
}
"""What each answer with success says."""


def _high_seqno(session: Session, vbucket: int, high: HighSeqno) -> None:
    session.high_seqnos[vbucket] = high
    session.reports.setdefault(vbucket, ServerReport()).tell_seqno(high)


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


def _replaced(raw: bytes, redactor: Redactor | None) -> str:
    """Returns the text of a name, or its replacement if a redactor is given."""
    return text(raw if redactor is None else redactor.replacement(raw))


def _features(message: SessionMessage) -> tuple[str, ...]:
    """Returns the names of the features in a HELLO or its answer."""
    batch = message.batch
    value = message.value if batch.decoded.fits[message.index] else b""
    if batch.redactor is not None and len(value) % 2:
        return ()  # as in its fields, what is no list of numbers is a text
    return tuple(
        feature_name(code) for code in np.frombuffer(value[: len(value) // 2 * 2], ">u2").tolist()
    )


def _control(message: SessionMessage) -> tuple[str, str]:
    """Returns key and value of a control, with replacements for what the protocol does not know."""
    key, value, redactor = message.key, message.value, message.batch.redactor
    if redactor is not None:
        key, value = (
            redactor.field_text(CONTROL_KEY, key),
            redactor.field_text(CONTROL_VALUE, value, key),
        )
    return text(key), text(value)


def _agent(key: bytes, redactor: Redactor | None) -> str:
    """Returns the name of the client in a HELLO: member ``a`` of its JSON, or the whole key."""
    name = member(json_object(key) or json_object(b"{%b}" % key), "a")
    if name is None:
        return _replaced(key, redactor)
    return name[:MOST_TEXT] if redactor is None else redactor.text(name)


def _is_broken(key: bytes) -> bool:
    """Returns whether a key looks like a JSON object that lost its braces, or its end."""
    return json_object(key) is None and (key.startswith(b"{") or b'"a":' in key or b'"i":' in key)


def _name(session: Session, raw: bytes, redactor: Redactor | None) -> None:
    """Stores the name that an open gives its connection, or the replacement of that name."""
    name_object, service, name = json_object(raw), service_of(raw), text(raw)
    session.begins_with_service = name.startswith(service)
    if name_object is None:
        session.is_named_well = bool(service and name.partition(":")[2])
        session.is_replication = name.startswith(BETWEEN_NODES)
    else:  # ``a`` is the program, ``i`` tells its connections apart
        session.is_named_well = bool(name_object.get("i"))
    session.name = _replaced(raw, redactor)
    session.service, session.group = (
        part_of_name if redactor is None else redactor.text(part_of_name)
        for part_of_name in (service, group_of(service))
    )
