"""One line a message: what happened, when, between whom, on which vbucket.

The line comes from the columns, so that a long list needs no annotation; only messages whose story is in
their value (HELLO, control, stream requests and their answers, errors …) are annotated.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

from dcpinspect.escape import clip, escape
from dcpinspect.protocol.datatype import DATATYPE_NAMES
from dcpinspect.protocol.fields import Field, bit_names
from dcpinspect.protocol.flags import ENDLESS
from dcpinspect.protocol.layouts import layouts_of
from dcpinspect.protocol.message import FieldValue, Message
from dcpinspect.protocol.opcodes import Opcode, ServerOpcode
from dcpinspect.protocol.statuses import Status, status_name
from dcpinspect.tables.messages import MessageBatch

TimeFormat = Literal["relative", "absolute", "delta"]

HEADING = "      Row          Time  Con Message                      vb     Opaque        Seqno    Bytes  Summary"

ARROWS = ("→", "←")


def short_name(name: str) -> str:
    """A command's name as lists show it: without ``dcp_`` where that leaves it unique."""
    short = name.removeprefix("dcp_")
    return name if short in ("noop", "get_failover_log") else short


class Lines:
    """Makes the lines of a reading; remembers the first and the last time."""

    def __init__(self, time_format: TimeFormat = "relative", *, width: int | None = None) -> None:
        self._time_format = time_format
        self._width = width
        self._first: int | None = None
        self._last: int | None = None

    def line(self, batch: MessageBatch, index: int) -> str:
        """The line of one message; safe for a terminal."""
        decoded = batch.decoded
        direction = int(batch.direction[index])
        vbucket = batch.vbucket.at(index)
        text = (
            f"{int(batch.row[index]):>9} {self._time(int(batch.time_ns[index])):>13}"
            f" {int(batch.connection[index]):>3}{ARROWS[direction]} {_title(batch, index):<25}"
            f" {'' if vbucket is None else vbucket:>5} 0x{int(decoded.opaque[index]):08x} {_seqno(batch, index):>12}"
            f" {int(batch.length[index]):>8}  {_summary(batch, index)}"
        )
        return (text if self._width is None else clip(text, self._width)).rstrip()

    def _time(self, time_ns: int) -> str:
        if self._first is None:
            self._first = self._last = time_ns
        if self._time_format == "absolute":
            seconds, nanoseconds = divmod(time_ns, 1_000_000_000)
            return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{nanoseconds:09}"
        since = self._first if self._time_format == "relative" else self._last
        self._last = time_ns
        return _seconds(time_ns - (since or 0))

    def start_at(self, time_ns: int) -> None:
        """Count relative times from here, the first packet of the capture."""
        if self._first is None:
            self._first = self._last = time_ns


def _seconds(nanoseconds: int) -> str:
    sign = "-" if nanoseconds < 0 else ""
    seconds, rest = divmod(abs(nanoseconds), 1_000_000_000)
    return f"{sign}{seconds}.{rest // 1000:06}"


def _title(batch: MessageBatch, index: int) -> str:
    decoded = batch.decoded
    title = short_name(batch.name_of(index))
    if decoded.is_response[index]:
        status = int(decoded.specific[index])
        return f"{title} {'ok' if status == Status.SUCCESS else status_name(status)}"
    generation = batch.generation_of(index)
    layouts = layouts_of(int(decoded.opcode[index]), "request", server=bool(decoded.is_server[index]))
    if generation is not None and len({layout.generation for layout in layouts}) > 1 and not (generation == "v1" and title == "mutation"):
        return f"{title} {generation}"
    return title


def _seqno(batch: MessageBatch, index: int) -> str:
    start, end = batch.number("start_seqno", index), batch.number("end_seqno", index)
    if batch.decoded.opcode[index] == Opcode.DCP_SNAPSHOT_MARKER and start is not None and end is not None:
        return f"{start}–{end}"
    seqno = batch.number("by_seqno", index)
    return "" if seqno is None else str(seqno)


def _summary(batch: MessageBatch, index: int) -> str:
    decoded = batch.decoded
    parts: list[str] = []
    sid = decoded.sid.at(index)
    if sid is not None:
        parts.append(f"sid {sid}")
    key = batch.key_of(index)
    if key is not None:
        collection = decoded.collection_id.at(index)
        parts.append((f"0x{collection:x}:" if collection else "") + escape(key))
    parts += DATATYPE_NAMES[int(decoded.datatype[index])]
    for name in ("prepared_seqno",):
        number = batch.number(name, index)
        if number is not None:
            parts.append(f"prepared {number}")
    server = bool(decoded.is_server[index])
    story = _STORIES.get((server, bool(decoded.is_response[index]), int(decoded.opcode[index])))
    failed = decoded.is_response[index] and int(decoded.specific[index]) not in (Status.SUCCESS, Status.ROLLBACK)
    if story is not None and not failed:
        told = story(batch.annotate(index))
        if told:
            parts.append(told)
    elif failed and decoded.value.size[index] > 0:
        parts.append(_text_value(batch.annotate(index)))
    rtt = batch.rtt_ns.at(index)
    if rtt is not None:
        parts.append(f"after {rtt / 1e6:.3f} ms")
    lost = sum(end - start for start, end in batch.missing.of(index)) if len(batch.missing.row) else 0
    if lost:
        parts.append(f"{lost} bytes not captured")
    problem = batch.problem_of(index)
    if problem is not None and problem != "truncated":
        parts.append(f"! {problem}")
    if batch.heuristic[index]:
        parts.append("? heuristic")
    return "  ".join(part for part in parts if part)


def _numbers(message: Message) -> dict[str, FieldValue]:
    return {field.name: field for field in message.fields if not field.missing}


def _words(message: Message, name: str) -> str:
    field = _numbers(message).get(name)
    if field is None or not isinstance(field.value, int) or field.spec is None:
        return ""
    return _flag_words(field.spec, field.value)


def _flag_words(spec: Field, value: int) -> str:
    if spec.flags:
        return ", ".join(bit_names(spec.flags, value))
    return spec.word(value) or ""


def _text_value(message: Message, limit: int = 80) -> str:
    value = message.value
    if value is None or value.encoding in ("fields", "missing"):
        return ""
    if value.encoding == "hidden":
        return f"{value.size} bytes hidden"
    text = escape(value.body[: limit * 4])
    return clip(text, limit)


def _open(message: Message) -> str:
    return _words(message, "flags") or "consumer"


def _stream_request(message: Message) -> str:
    fields = _numbers(message)
    start, end, uuid = fields.get("start_seqno"), fields.get("end_seqno"), fields.get("vbucket_uuid")
    parts = []
    if start is not None and end is not None:
        parts.append(f"from {start.value}, " + ("no end" if end.value == ENDLESS else f"to {end.value}"))
    if uuid is not None and uuid.value != "0x0000000000000000":
        parts.append(f"uuid {uuid.value}")
    low, high = fields.get("snapshot_start_seqno"), fields.get("snapshot_end_seqno")
    if low is not None and high is not None and (low.value or high.value):
        parts.append(f"snapshot {low.value}–{high.value}")
    parts += [_words(message, "flags"), _text_value(message)]
    return ", ".join(part for part in parts if part)


def _failover_log(message: Message) -> str:
    entries = [field for field in message.fields if field.group == "failover_log"]
    if entries:
        newest = {part.name: part.value for part in entries[0].fields}
        return f"failover log: {len(entries)} entr{'y' if len(entries) == 1 else 'ies'}, newest {newest.get('uuid')!s} at {newest.get('seqno')!s}"
    rollback = _numbers(message).get("rollback_seqno")
    return "" if rollback is None else f"to {rollback.value!s}"


def _marker(message: Message) -> str:
    fields = _numbers(message)
    parts = [_words(message, "snapshot_type")]
    for name, label in (
        ("max_visible_seqno", "visible"),
        ("high_completed_seqno", "completed"),
        ("high_prepared_seqno", "prepared"),
        ("purge_seqno", "purge"),
    ):
        if name in fields and fields[name].value:
            parts.append(f"{label} {fields[name].value}")
    return ", ".join(part for part in parts if part)


def _features(message: Message) -> str:
    return ", ".join(field.meaning or "" for field in message.fields if field.group == "features")


def _event(message: Message) -> str:
    parts = [_words(message, "event")]
    numbers = {field.name: field for top in message.fields for field in (top, *top.fields)}
    for name, label in (("scope_id", "scope"), ("collection_id", "collection"), ("manifest_uid", "manifest")):
        number = numbers.get(name)
        if number is not None and isinstance(number.value, int):
            parts.append(f"{label} 0x{number.value:x}")
    return ", ".join(part for part in parts if part)


def _word(name: str) -> Callable[[Message], str]:
    return lambda message: _words(message, name)


def _number(name: str, label: str) -> Callable[[Message], str]:
    def tell(message: Message) -> str:
        field = _numbers(message).get(name)
        return "" if field is None else f"{label} {field.value!s}".strip()

    return tell


def _records(group: str, label: str) -> Callable[[Message], str]:
    return lambda message: f"{sum(field.group == group for field in message.fields)} {label}"


_STORIES: dict[tuple[bool, bool, int], Callable[[Message], str]] = {
    (False, False, Opcode.DCP_OPEN): _open,
    (False, False, Opcode.DCP_ADD_STREAM): _word("flags"),
    (False, True, Opcode.DCP_ADD_STREAM): _number("stream_opaque", "opaque"),
    (False, False, Opcode.DCP_STREAM_REQ): _stream_request,
    (False, True, Opcode.DCP_STREAM_REQ): _failover_log,
    (False, True, Opcode.DCP_GET_FAILOVER_LOG): _failover_log,
    (False, True, Opcode.GET_FAILOVER_LOG): _failover_log,
    (False, False, Opcode.DCP_STREAM_END): _word("end_reason"),
    (False, False, Opcode.DCP_SNAPSHOT_MARKER): _marker,
    (False, False, Opcode.DCP_SET_VBUCKET_STATE): _word("state"),
    (False, False, Opcode.DCP_BUFFER_ACKNOWLEDGEMENT): _number("ack_bytes", "bytes"),
    (False, False, Opcode.DCP_CONTROL): lambda message: "= " + _text_value(message),
    (False, False, Opcode.DCP_SYSTEM_EVENT): _event,
    (False, False, Opcode.DCP_PREPARE): _word("durability_level"),
    (False, False, Opcode.DCP_OSO_SNAPSHOT): _word("flags"),
    (False, False, Opcode.DCP_CACHE_TRANSFER): _records("items", "items"),
    (False, False, Opcode.HELLO): _features,
    (False, True, Opcode.HELLO): _features,
    (False, True, Opcode.SASL_LIST_MECHS): _text_value,
    (False, False, Opcode.SASL_AUTH): _text_value,
    (False, False, Opcode.SASL_STEP): _text_value,
    (False, True, Opcode.STAT): _text_value,
    (False, True, Opcode.GET_CLUSTER_CONFIG): _text_value,
    (False, True, Opcode.GET_ERROR_MAP): _text_value,
    (False, True, Opcode.COLLECTIONS_GET_MANIFEST): _text_value,
    (False, True, Opcode.GET_ALL_VB_SEQNOS): _records("seqnos", "vbuckets"),
    (False, True, Opcode.OBSERVE_SEQNO): _number("current_seqno", "current"),
    (True, False, ServerOpcode.CLUSTERMAP_CHANGE_NOTIFICATION): _number("revision", "revision"),
}
"""What the body of a message tells, by (server table, response, opcode)."""
