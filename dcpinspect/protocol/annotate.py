"""A message's bytes to a message with every field explained.

Nothing here trusts a length, and nothing raises for what the bytes hold: damage becomes a problem with
its place, and what can still be read is read. The fields tile the message: every byte belongs to exactly
one outermost field.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime

from dcpinspect.protocol import datatype as datatypes
from dcpinspect.protocol.choose import VALUE_RULES, Choice, choose
from dcpinspect.protocol.features import feature_name
from dcpinspect.protocol.fields import Field, Item, Kind, Records
from dcpinspect.protocol.flatbuffer import FlatBufferError, decode_table
from dcpinspect.protocol.flex import DURATIONS, STREAM_ID, decode_frames, duration_us, frame_spec
from dcpinspect.protocol.header import HEADER_SIZE, MAGIC_DOCS, MAX_BODY, Header, Magic, decode_header, header_fields
from dcpinspect.protocol.layouts import holds_secret
from dcpinspect.protocol.leb128 import decode_leb128
from dcpinspect.protocol.message import Collections, Context, Encoding, FieldValue, Message, Problem, Severity, Value
from dcpinspect.protocol.opcodes import DEVELOPMENT, Opcode, Trait, opcode_name, opcode_traits
from dcpinspect.protocol.snappy import SnappyError, decode_snappy
from dcpinspect.protocol.statuses import status_name
from dcpinspect.protocol.xattr import Xattr, decode_xattrs

UNKNOWN = Context()

MAX_RECORDS = 16_384
"""Records of one message that are divided: buckets have 1024 vbuckets, and a hostile value would be millions of fields."""

_LENGTHS_END = 12
"""The header up to here says where the message and its sections end."""


def annotate(data: bytes, *, context: Context = UNKNOWN, missing: Sequence[tuple[int, int]] = ()) -> Message:
    """The message at the start of ``data``.

    ``missing`` are byte ranges [start, end) that hold zeros because the capture does not have them; bytes
    that ``data`` is too short for are missing too.
    """
    return _Annotator(data, context, missing).run()


def undeclared_stream_id(header: Header, body: bytes) -> bool:
    """True for the fault of servers that leave the three bytes of a stream-id out of byte 2.

    Deletions v2 and expirations on streams with an id: from 8.0 on, and from 6.5 to 7.6 when the message
    did not fit the write buffer. Read literally they have a seqno of 0x22….
    """
    return (
        header.magic == Magic.FLEX_REQUEST
        and (header.opcode, header.extras_size) in ((Opcode.DCP_DELETION, 21), (Opcode.DCP_EXPIRATION, 20))
        and header.framing_size == 0
        and body[:1] == b"\x22"
        and header.body_size >= 3 + header.extras_size + header.key_size
    )


def text_or_bytes(raw: bytes) -> str | bytes:
    """UTF-8 text where it is that, else the bytes."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def utc(seconds: int, nanoseconds: int = 0) -> str:
    """A time of the wire in words."""
    when = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{when}.{nanoseconds // 1_000_000:03} UTC" if nanoseconds else f"{when} UTC"


def cas_time(cas: int) -> str | None:
    """When a CAS was made: a hybrid logical clock, nanoseconds with 16 bits of counter; None for what is no time."""
    nanoseconds = cas & ~0xFFFF
    return utc(*divmod(nanoseconds, 1_000_000_000)) if 1_200_000_000 <= nanoseconds // 1_000_000_000 < 4_102_444_800 else None


def collection_name(collection: int, state: Collections) -> str:
    """A collection in words, and whether it is only inferred that there are any."""
    name = "default collection" if collection == 0 else f"collection 0x{collection:x}"
    return f"{name}, inferred" if state == "inferred" else name


def json_number(text: bytes, key: str) -> int | None:
    """The number that a JSON object has under a key; None for anything else."""
    import orjson  # deferred: not every command shows values

    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    number = found.get(key) if isinstance(found, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def json_error(text: bytes) -> tuple[int, str] | None:
    """(byte, reason) of the first thing that is not JSON, or None."""
    import orjson  # deferred: not every command shows values

    try:
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return error.pos, error.msg.partition(": line")[0]
    return None


def _place(at: int, offset: int, inflated: bool) -> tuple[int, str]:
    """(byte of the message, words) for a place in a value that begins at ``at``; an inflated one has no byte of its own on the wire."""
    return (at, f" (byte {offset} of the inflated value)") if inflated else (at + offset, "")


class _Annotator:
    """State of one reading: the message under construction and what is missing of it."""

    def __init__(self, data: bytes, context: Context, missing: Sequence[tuple[int, int]]) -> None:
        self.data = data
        self.context = context
        self.missing = list(missing)
        self.message = Message(data, None, "incomplete")
        self.numbers: dict[str, int] = {}
        """Numbers of the extras, which may say how long a part of the value is."""
        self.secret = False
        """The command carries credentials: what cannot be divided into fields is hidden too."""

    def run(self) -> Message:
        message = self.message
        if len(self.data) < HEADER_SIZE:
            self.missing.append((len(self.data), HEADER_SIZE))
            self._header_fields()
            self._problem("truncated", "error", "header", len(self.data), f"header ends {HEADER_SIZE - len(self.data)} bytes early")
            return self._done()
        if self._take(0, _LENGTHS_END) is None:
            self._header_fields()
            self._problem("truncated", "error", "header", 0, "the capture lacks the part of the header that says how long the message is")
            self._raw_body(len(self.data) - HEADER_SIZE, "no lengths in the capture")
            return self._done()
        header = message.header = decode_header(self.data)
        message.name = opcode_name(header.opcode, server=header.is_server)
        self.secret = holds_secret(header.opcode, header.side, server=header.is_server)
        if header.size > len(self.data):
            self.missing.append((len(self.data), header.size))
        self._header_fields()
        if self._header_problems(header):
            self._body(header)
        if header.size > len(self.data):
            cut = next((field.name for field in message.fields if field.offset + field.size > len(self.data)), "message")
            self._problem("truncated", "error", cut, len(self.data), f"message ends {header.size - len(self.data)} bytes early, in {cut}")
        if len(self.data) > header.size:
            message.data = self.data[: header.size]
            self._problem("trailing-bytes", "note", "message", header.size, f"{len(self.data) - header.size} bytes follow the message")
        return self._done()

    def _done(self) -> Message:
        self.message.missing = tuple((start, end) for start, end in sorted(self.missing) if start < end)
        return self.message

    def _problem(self, rule: str, severity: Severity, where: str, offset: int, reason: str) -> None:
        self.message.problems.append(Problem(rule, severity, where, offset, reason))

    def _take(self, start: int, size: int) -> bytes | None:
        """The bytes [start, start + size) when the capture has all of them."""
        end = start + size
        if any(start < gap_end and gap_start < end for gap_start, gap_end in self.missing):
            return None
        return self.data[start:end]

    def _held(self, start: int, size: int) -> bytes:
        """What the capture has of the bytes [start, start + size): up to the first missing one."""
        end = min(start + size, len(self.data))
        for gap_start, gap_end in self.missing:
            if start < gap_end and gap_start < end:
                end = max(start, gap_start)
        return self.data[start:end]

    # -- header ---------------------------------------------------------------------------------------

    def _header_fields(self) -> None:
        magic = self.data[0] if self.data else Magic.REQUEST
        is_server = magic in (Magic.SERVER_REQUEST, Magic.SERVER_RESPONSE)
        has_token = Trait.TOKEN in opcode_traits(self.data[1], server=is_server) if len(self.data) > 1 else False
        for spec in header_fields(magic):
            if has_token and spec.kind is Kind.CAS:
                value = self._hidden(spec, spec.offset, spec.kind.size, 0, top=False)
            else:
                value = self._scalar(spec, spec.offset, 0)
            if value.size and spec.offset < max(len(self.data), 1):
                self.message.fields.append(value)

    def _header_problems(self, header: Header) -> bool:
        """Report what the header contradicts; False when the body cannot be divided."""
        if header.magic not in MAGIC_DOCS:
            self._problem("bad-magic", "error", "magic", 0, f"0x{header.magic:02x} starts no message")
            self._raw_body(header.body_size, "no sections without a magic")
            return False
        if header.datatype & datatypes.UNDEFINED:
            self._problem("undefined-datatype", "error", "datatype", 5, f"datatype 0x{header.datatype:02x} has undefined bits")
        if header.body_size > MAX_BODY:
            self._problem("oversized-body", "warning", "total_body_length", 8, f"announces {header.body_size >> 20} MiB of body")
        known = self.message.name != f"opcode_0x{header.opcode:02x}"
        if not known:
            says = DEVELOPMENT.get(header.opcode, "") if not header.is_server else ""
            self._problem(
                "unknown-opcode", "warning", "opcode", 1, f"opcode 0x{header.opcode:02x} is not described" + (f": {says}" if says else "")
            )
        if header.value_size < 0:
            framing = f"framing extras {header.framing_size} + " if header.is_flex else ""
            reason = f"{framing}extras {header.extras_size} + key {header.key_size} exceed body {header.body_size}"
            self._problem("length-mismatch", "error", "total_body_length", 8, reason + self._other_body(header))
            self._raw_body(header.body_size, reason)
            return False
        return True

    def _other_body(self, header: Header) -> str:
        """What the message is if its body is as long as the sections it declares: published examples count none."""
        size = header.body_size - header.value_size
        if HEADER_SIZE + size > len(self.data):
            return ""
        extras = self._take(HEADER_SIZE + header.framing_size, header.extras_size)
        choice = choose(dataclasses.replace(header, body_size=size), extras, 0)
        if choice.layout is None or choice.rule:
            return ""
        return f"; with a body of {size} it is a {self.message.name} in the {choice.layout.generation} layout"

    def _raw_body(self, size: int, meaning: str) -> None:
        if size:
            spec = Field("body", 0, Kind.BYTES, "bytes that cannot be divided", "Body")
            self.message.fields.append(self._raw(spec, HEADER_SIZE, size, 0, meaning))

    # -- body -----------------------------------------------------------------------------------------

    def _body(self, header: Header) -> None:
        message = self.message
        at = HEADER_SIZE
        framing_size = header.framing_size
        if undeclared_stream_id(header, self._held(at, 3)):
            framing_size = 3
            self._problem(
                "undeclared-stream-id", "note", "framing_extras_length", 2, "stream-id not counted in the header (known server fault)"
            )
        message.framing_size = framing_size
        if framing_size:
            self._framing(header, at, framing_size)
        at += framing_size
        value_size = header.value_size + header.framing_size - framing_size
        choice = choose(header, self._take(at, header.extras_size), value_size)
        message.layout = choice.layout
        message.generation = choice.generation
        self._choice_problem(choice, at, header)
        self._extras(choice, header, at)
        at += header.extras_size
        self._key(choice, at, header.key_size)
        at += header.key_size
        self._value(choice, header, at, value_size)
        self._check(choice)

    def _choice_problem(self, choice: Choice, at: int, header: Header) -> None:
        if choice.rule == "extras-length":
            self._problem(choice.rule, "error", "extras", at, choice.reason)
        elif choice.rule == "refused-payload":
            self._problem(choice.rule, "warning", "extras", at, choice.reason)
        elif choice.rule:
            self._problem(choice.rule, "error", "value", at + header.extras_size + header.key_size, choice.reason)
        elif choice.layout is not None and choice.layout.legacy:
            note = f": {choice.layout.note}" if choice.layout.note else ""
            self._problem("legacy-layout", "note", "message", 0, f"{self.message.name} in the {choice.layout.generation} layout{note}")

    def _framing(self, header: Header, at: int, size: int) -> None:
        spec = Field("framing_extras", 0, Kind.BYTES, "elements before the extras", "Framing extras")
        whole = self._raw(spec, at, size, 0, None)
        raw = self._take(at, size)
        if raw is not None:
            frames, used = decode_frames(raw)
            inner = []
            for frame in frames:
                known = frame_spec(header.side, frame.id)
                end = frame.data_offset + len(frame.data)
                name = known.name if known is not None else f"frame_{frame.id}"
                item = FieldValue(name, name.replace("_", " "), at + frame.offset, end - frame.offset, raw[frame.offset : end], depth=1)
                if known is None:
                    item.meaning = f"id {frame.id}, unknown"
                elif (known.sizes is not None and len(frame.data) not in known.sizes) or (known.sizes is None and not frame.data):
                    item.meaning = "wrong size"
                    wrong = f"{name} of {len(frame.data)} bytes"
                    self._problem("bad-framing-extras", "error", f"framing_extras.{name}", at + frame.offset, wrong)
                elif known.fields:
                    item.fields = tuple(self._run(known.fields, at + frame.data_offset, len(frame.data), 2, f"framing_extras.{name}"))
                    item.meaning = item.fields[0].meaning if len(item.fields) == 1 else None
                if frame.id == STREAM_ID and header.side == "request" and len(frame.data) == 2:
                    self.message.sid = int.from_bytes(frame.data, "big")
                inner.append(item)
            if used < size:
                inner.append(FieldValue("rest", "rest", at + used, size - used, raw[used:], text_or_bytes(raw[used:]), depth=1))
                self._problem("bad-framing-extras", "error", "framing_extras", at + used, "framing extras end inside an element")
            whole.fields = tuple(inner)
        self.message.fields.append(whole)

    def _extras(self, choice: Choice, header: Header, at: int) -> None:
        size = header.extras_size
        if not size:
            return
        if choice.layout is None or not choice.extras_fit:
            spec = Field("extras", 0, Kind.BYTES, "extras", "Extras")
            self.message.fields.append(self._raw(spec, at, size, 1, None))
            return
        fields = self._run(choice.layout.extras, at, size, 1, "extras")
        self.numbers = {field.name: field.value for field in fields if isinstance(field.value, int)}
        self.message.fields += fields

    def _key(self, choice: Choice, at: int, size: int) -> None:
        layout = choice.layout
        spec = layout.key if layout is not None else None
        if spec is not None and not size and layout is not None and layout.key_required:
            self._problem("unexpected-section", "warning", "key", at, f"{self.message.name} {layout.side} must have a key")
        if not size:
            return
        if spec is None:
            if layout is not None:
                self._problem("unexpected-section", "warning", "key", at, f"{self.message.name} {layout.side} must not have a key")
            spec = Field("key", 0, Kind.BYTES if layout is None else Kind.TEXT, "key", "Key")
            if self.secret:
                self.message.fields.append(self._hidden(spec, at, size, 0, top=False))
                return
        field, logical, collection = self._document_key(spec, at, size, 0, "key")
        self.message.key = logical
        self.message.collection_id = collection
        self.message.fields.append(field)

    def _document_key(self, spec: Field, at: int, size: int, depth: int, path: str) -> tuple[FieldValue, bytes | None, int | None]:
        """(field, key without collection id, collection id) of a key."""
        raw = self._take(at, size)
        if raw is None:
            return self._raw(spec, at, size, depth, "not complete in the capture"), None, None
        field = FieldValue(spec.name, spec.title, at, size, raw, text_or_bytes(raw), depth=depth, spec=spec)
        if spec.kind is not Kind.KEY:
            return field, raw, None
        state = self.context.collections
        if state == "unknown":
            field.meaning = "collections unknown: shown whole"
        if state in ("unknown", "off"):
            return field, raw, None
        decoded = decode_leb128(raw)
        if decoded is None or 1 <= decoded[0] <= 7 or decoded[1] == size:
            self._problem("bad-collection-prefix", "error", path, at, "key has no valid collection id")
            return field, raw, None
        collection, used = decoded
        name = collection_name(collection, state)
        field.value = text_or_bytes(raw[used:])
        field.meaning = name
        field.fields = (
            FieldValue("collection_id", "collection", at, used, raw[:used], collection, name, depth=depth + 1),
            FieldValue("logical_key", "key", at + used, size - used, raw[used:], text_or_bytes(raw[used:]), depth=depth + 1),
        )
        return field, raw[used:], collection

    def _value(self, choice: Choice, header: Header, at: int, size: int) -> None:
        layout = choice.layout
        if not size:
            if layout is not None and layout.value and layout.value_required and not choice.rule:
                # A layout of fixed fields would not have been chosen; a log without entries is one of these.
                rule = VALUE_RULES.get(header.opcode, "unexpected-section")
                self._problem(rule, "warning", "value", at, f"{self.message.name} {layout.side} must have a value")
            return
        if layout is None or not choice.value_fits:
            items: tuple[Item, ...] = (Field("value", 0, Kind.BYTES, "value", "Value"),)
        elif not layout.value:
            self._problem("unexpected-section", "warning", "value", at, f"{self.message.name} {layout.side} must not have a value")
            items = (Field("value", 0, Kind.BYTES, "value", "Value"),)
        else:
            items = layout.value
        if self.secret:
            items = (Field("value", 0, Kind.SECRET, "may hold credentials", "Value"),)
        fields = self._run(items, at, size, 1, "value")
        if self.message.value is None:
            self.message.value = Value("fields", size)
        self.message.fields += fields

    # -- runs of fields -------------------------------------------------------------------------------

    def _run(self, items: Sequence[Item], at: int, size: int, depth: int, path: str) -> list[FieldValue]:
        """The fields of a section of ``size`` bytes; they tile it, a rest included."""
        out: list[FieldValue] = []
        numbers = dict(self.numbers)
        end = at + size
        for item in items:
            if at >= end and not (isinstance(item, Field) and isinstance(item.size, str)):
                break
            if isinstance(item, Records):
                records = self._records(item, at, end - at, depth, path)
                out += records
                at = end
                continue
            width = item.kind.size
            if not width and isinstance(item.size, str) and item.size not in numbers:
                out.append(self._raw(Field("rest", 0, Kind.BYTES, "", "rest"), at, end - at, depth, f"{item.size} is not in the capture"))
                return out
            if not width:
                width = numbers[item.size] if isinstance(item.size, str) else item.size if item.size is not None else end - at
            if width > end - at:
                self._problem(
                    "length-mismatch", "error", f"{path}.{item.name}", at, f"{item.name} of {width} bytes exceeds the {end - at} left"
                )
                width = end - at
                if item.kind.size:
                    out.append(self._raw(Field("rest", 0, Kind.BYTES, "bytes left over", "rest"), at, width, depth, None))
                    at = end
                    break
            field = self._one(item, at, width, depth, f"{path}.{item.name}", whole=width == size, datatype=numbers.get("datatype"))
            if isinstance(field.value, int):
                numbers[item.name] = field.value
            out.append(field)
            at += width
        if at < end:
            self._problem("length-mismatch", "error", path, at, f"{end - at} bytes are left over")
            out.append(self._raw(Field("rest", 0, Kind.BYTES, "bytes left over", "rest"), at, end - at, depth, None))
        return out

    def _records(self, spec: Records, at: int, size: int, depth: int, path: str) -> list[FieldValue]:
        out: list[FieldValue] = []
        end = at + size
        outer, self.numbers = self.numbers, {}
        fixed = [field.kind.size or field.size for field in spec.fields]
        simple = all(isinstance(width, int) for width in fixed)
        least = sum(width for width in fixed if isinstance(width, int))
        while at < end:
            if at >= len(self.data) or len(out) == MAX_RECORDS:
                # Announced, but not there: a length of gigabytes must not become as many fields.
                if at < len(self.data):
                    self._problem("too-many-records", "note", f"{path}.{spec.name}", at, f"only {MAX_RECORDS} {spec.name} are divided")
                out.append(self._raw(Field("rest", 0, Kind.BYTES, "bytes left over", "rest"), at, end - at, depth, None))
                break
            if end - at < least:
                rule = {"failover_log": "failover-log-size", "items": "cache-transfer-record"}.get(spec.name, "length-mismatch")
                text = f"{end - at} bytes are left where {spec.title} {len(out)} needs {least}"
                self._problem(rule, "error", f"{path}.{spec.name}", at, text)
                out.append(self._raw(Field("rest", 0, Kind.BYTES, "bytes left over", "rest"), at, end - at, depth, None))
                break
            width = least
            if not simple:
                width = self._record_size(spec, at, end)
            inner = self._run(spec.fields, at, width, depth + (len(spec.fields) > 1), f"{path}.{spec.name}")
            if len(spec.fields) == 1:
                record = inner[0]
                record.group = spec.name
            else:
                record = FieldValue(
                    f"{spec.name}[{len(out)}]",
                    f"{spec.title} {len(out)}",
                    at,
                    width,
                    self._held(at, width),
                    fields=tuple(inner),
                    depth=depth,
                    group=spec.name,
                )
            out.append(record)
            at += width
        self.numbers = outer
        return out

    def _record_size(self, spec: Records, at: int, end: int) -> int:
        """Bytes of the record at ``at``, whose length fields stand before what they measure; cut at the end of the section."""
        sizes: dict[str, int] = {}
        size = 0
        for field in spec.fields:
            if field.kind.size:
                raw = self._take(at + size, min(field.kind.size, end - at - size))
                if raw is not None:
                    sizes[field.name] = int.from_bytes(raw, "big")
                size += field.kind.size
            elif isinstance(field.size, str):
                if field.size not in sizes:
                    return end - at  # Where the next record begins is not in the capture.
                size += sizes[field.size]
            if size >= end - at:
                return end - at
        return size

    def _one(self, spec: Field, at: int, size: int, depth: int, path: str, *, whole: bool, datatype: int | None) -> FieldValue:
        """A field of any kind; ``whole`` when it is all of its section, ``datatype`` when its record has its own."""
        if spec.kind.size:
            return self._scalar(spec, at, depth)
        if spec.kind is Kind.KEY:
            return self._document_key(spec, at, size, depth, path)[0]
        top = whole and path.startswith("value.")
        if spec.kind is Kind.SECRET:
            return self._hidden(spec, at, size, depth - top, top=top)
        raw = self._take(at, size)
        if raw is None:
            self._set_value(top, Value("missing", size))
            return self._raw(spec, at, size, depth - top, f"{size} bytes, not complete in the capture")
        if spec.kind is Kind.FLATBUFFER:
            return self._flatbuffer(spec, at, raw, depth - top, path)
        if spec.kind is Kind.DOCUMENT:
            return self._document(spec, at, raw, depth - top, path, datatype)
        if top:
            return self._plain_value(spec, at, raw, depth - top, path)
        return FieldValue(spec.name, spec.title, at, size, raw, text_or_bytes(raw), depth=depth, spec=spec)

    def _set_value(self, top: bool, value: Value) -> None:
        if top:
            self.message.value = value

    def _hidden(self, spec: Field, at: int, size: int, depth: int, *, top: bool) -> FieldValue:
        self._set_value(top, Value("hidden", size))
        return FieldValue(spec.name, spec.title, at, size, b"", None, f"hidden, {size} bytes", depth=depth, spec=spec, hidden=True)

    def _raw(self, spec: Field, at: int, size: int, depth: int, meaning: str | None) -> FieldValue:
        if self.secret and spec.kind is Kind.BYTES and spec.name != "framing_extras":
            return self._hidden(spec, at, size, depth, top=spec.name == "value")
        raw = self._take(at, size)
        held = raw if raw is not None else self._held(at, size)
        value = None if raw is None else text_or_bytes(raw) if spec.kind is Kind.TEXT else raw
        if spec.name == "value" and self.message.value is None:
            self._set_value(True, Value("binary" if raw is not None else "missing", size, held))
        return FieldValue(spec.name, spec.title, at, size, held, value, meaning, depth=depth, spec=spec, missing=raw is None)

    def _scalar(self, spec: Field, at: int, depth: int) -> FieldValue:
        size = spec.kind.size
        raw = self._take(at, size)
        if raw is None or len(raw) < size:
            return FieldValue(spec.name, spec.title, at, size, self._held(at, size), depth=depth, spec=spec, missing=True)
        number = int.from_bytes(raw, "big", signed=spec.kind is Kind.I64)
        field = FieldValue(spec.name, spec.title, at, size, raw, number, self._meaning(spec, number), depth=depth, spec=spec)
        if spec.kind in (Kind.UUID, Kind.CAS):
            field.value = f"0x{number:016x}"
        if spec.flags and number:
            field.fields = tuple(
                FieldValue(bit.name, bit.name, at, size, bit.mask.to_bytes(size, "big"), bit.mask, bit.doc, depth=depth + 1)
                for bit in spec.flags
                if number & bit.mask
            )
        return field

    def _meaning(self, spec: Field, number: int) -> str | None:
        kind = spec.kind
        if kind is Kind.COMMAND:
            header = self.message.header
            return opcode_name(number, server=header is not None and header.is_server)
        if kind is Kind.STATUS:
            return status_name(number)
        if kind is Kind.FEATURE:
            return feature_name(number)
        if kind is Kind.CAS:
            return cas_time(number)
        if kind is Kind.TIME:
            return utc(number) if number else "none"
        if kind is Kind.ID:
            return f"default {spec.title.removesuffix(' id')}" if number == 0 else f"0x{number:x}"
        if spec.name in DURATIONS:
            return f"{duration_us(number):.0f} us"
        return spec.word(number)

    def _flatbuffer(self, spec: Field, at: int, raw: bytes, depth: int, path: str) -> FieldValue:
        field = FieldValue(spec.name, spec.title, at, len(raw), raw, None, spec.doc, depth=depth, spec=spec)
        try:
            table = decode_table(raw, spec.slots)
        except FlatBufferError as error:
            self._problem("system-event-length", "error", path, at, f"FlatBuffer: {error}")
            return field
        field.fields = tuple(
            FieldValue(
                slot.name,
                slot.name.replace("_", " "),
                at + offset,
                size,
                raw[offset : offset + size],
                value,
                "not sent" if not size and slot.kind != "string" else None,
                depth=depth + 1,
            )
            for slot, value, offset, size in table
        )
        return field

    # -- values ---------------------------------------------------------------------------------------

    def _inflate(self, raw: bytes, at: int, path: str, datatype: int) -> bytes | None:
        """The value without snappy; None when it was not compressed or cannot be."""
        if not datatype & datatypes.SNAPPY or not raw:
            return None
        try:
            return decode_snappy(raw)
        except SnappyError as error:
            if not self.context.underlying_datatype:
                self._problem("bad-snappy", "error", path, at, f"value {error}")
            return None

    def _datatype(self) -> int:
        return self.message.header.datatype if self.message.header is not None else 0

    def _document(self, spec: Field, at: int, raw: bytes, depth: int, path: str, own_datatype: int | None) -> FieldValue:
        is_value = own_datatype is None
        datatype = self._datatype() if own_datatype is None else own_datatype
        field = FieldValue(spec.name, spec.title, at, len(raw), raw, depth=depth, spec=spec)
        parts: list[FieldValue] = []
        meanings: list[str] = []
        content = raw
        nmeta = next((item.value for item in self.message.fields if item.name == "nmeta"), 0)
        if isinstance(nmeta, int) and nmeta > len(raw):
            reason = f"extended metadata of {nmeta} bytes exceeds the value of {len(raw)}"
            self._problem("length-mismatch", "error", path, at, reason)
        elif isinstance(nmeta, int) and nmeta:
            # 3.x to 6.6 with enable_ext_metadata: the tail is no part of the document.
            content = raw[: len(raw) - nmeta]
            parts.append(
                FieldValue(
                    "extended_metadata",
                    "extended metadata",
                    at + len(content),
                    nmeta,
                    raw[len(content) :],
                    raw[len(content) :],
                    depth=depth + 1,
                )
            )
        inflated = self._inflate(content, at, path, datatype)
        is_inflated = inflated is not None
        failed = bool(datatype & datatypes.SNAPPY and content and not is_inflated)
        if failed and not self.context.underlying_datatype:
            datatype = 0
        if inflated is not None:
            content = inflated
            meanings.append(f"snappy, {len(content)} bytes inflated")
        base = 0 if is_inflated else at
        body, body_at = content, 0
        pairs: tuple[tuple[bytes, bytes], ...] = ()
        if datatype & datatypes.XATTR and content:
            section = decode_xattrs(content)
            if section.problem is not None and not self.context.underlying_datatype:
                where, inside = _place(at, section.problem_offset, is_inflated)
                self._problem("bad-xattr-section", "error", path, where, f"xattr section: {section.problem}{inside}")
            pairs = tuple((pair.key, pair.value) for pair in section.pairs)
            body_at = section.body_offset
            body = content[body_at:]
            parts.insert(0, self._xattr_field(content, base, body_at, section.pairs, depth + 1, is_inflated))
            meanings.append(f"{len(pairs)} xattr{'s' if len(pairs) != 1 else ''}")
        encoding = self._body_encoding(body, bool(datatype & datatypes.JSON), (at, body_at, is_inflated), path)
        if body and (pairs or is_inflated):
            parts.append(
                FieldValue(
                    "body", "body", base + body_at, len(body), body, text_or_bytes(body), encoding, depth=depth + 1, inflated=is_inflated
                )
            )
        if body:
            meanings.append(encoding)
            if spec.bodyless:
                where, inside = _place(at, body_at, is_inflated)
                self._problem("deletion-with-body", "warning", path, where, f"{self.message.name} carries a {len(body)}-byte body{inside}")
        if is_value:
            self.message.value = Value(encoding, len(raw), body, len(content) if is_inflated else None, pairs)
        field.value = text_or_bytes(raw) if not is_inflated and not pairs and encoding != "binary" else None
        field.meaning = ", ".join(meanings) or None
        field.fields = tuple(parts)
        return field

    def _xattr_field(self, content: bytes, base: int, end: int, pairs: Sequence[Xattr], depth: int, inflated: bool) -> FieldValue:
        inner = []
        for pair in pairs:
            name = text_or_bytes(pair.key)
            inner.append(
                FieldValue(
                    name if isinstance(name, str) else "xattr",
                    "xattr",
                    base + pair.offset,
                    pair.size,
                    content[pair.offset : pair.offset + pair.size],
                    text_or_bytes(pair.value),
                    None,
                    depth=depth + 1,
                    inflated=inflated,
                )
            )
        return FieldValue(
            "xattrs", "xattrs", base, end, content[:end], None, f"{len(inner)} pairs", tuple(inner), depth=depth, inflated=inflated
        )

    def _body_encoding(self, body: bytes, is_json: bool, place: tuple[int, int, bool], path: str) -> Encoding:
        if is_json and body:
            error = json_error(body)
            if error is None:
                return "json"
            if not self.context.underlying_datatype:
                at, body_at, is_inflated = place
                where, inside = _place(at, body_at + error[0], is_inflated)
                self._problem("json-bit-not-json", "warning", path, where, f"marked JSON, but {error[1]} at byte {error[0]}{inside}")
        return "text" if isinstance(text_or_bytes(body), str) else "binary"

    def _plain_value(self, spec: Field, at: int, raw: bytes, depth: int, path: str) -> FieldValue:
        """A value that is text, JSON or bytes by its command, whatever the datatype says besides snappy."""
        inflated = self._inflate(raw, at, path, self._datatype())
        body = raw if inflated is None else inflated
        encoding: Encoding = "binary"
        if spec.kind is not Kind.BYTES:
            encoding = "text" if isinstance(text_or_bytes(body), str) else "binary"
        expects_json = spec.kind is Kind.JSON or (spec.kind is Kind.ERROR and body[:1] == b"{")
        if expects_json:
            error = json_error(body)
            if error is None:
                encoding = "json"
                if spec.stream_id and self.message.sid is None:
                    self.message.sid = json_number(body, spec.stream_id)
            else:
                where, inside = _place(at, error[0], inflated is not None)
                self._problem("json-bit-not-json", "warning", path, where, f"should be JSON, but {error[1]} at byte {error[0]}{inside}")
        self.message.value = Value(encoding, len(raw), body, None if inflated is None else len(body))
        meaning = None if inflated is None else f"snappy, {len(body)} bytes inflated"
        value = text_or_bytes(body) if encoding != "binary" else body
        return FieldValue(spec.name, spec.title, at, len(raw), raw, value, meaning, depth=depth, spec=spec)

    def _check(self, choice: Choice) -> None:
        layout = choice.layout
        if layout is None or layout.check is None or not choice.extras_fit or not choice.value_fits:
            return
        numbers = {field.name: field.value for field in self.message.fields if isinstance(field.value, int)}
        found = layout.check(numbers)
        if found is not None:
            name, reason = found
            offset = next((field.offset for field in self.message.fields if field.name == name), 0)
            self._problem("contradiction", "warning", name, offset, reason)
