"""Turns a message's bytes into a message with every field explained.

Nothing here trusts a length, and nothing raises for what the bytes hold: damage becomes a problem
with its place, and what can still be read is read. The fields tile the message: every byte belongs
to exactly one outermost field.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from dcpinspect.protocol import datatype as datatypes
from dcpinspect.protocol.annotation import Annotation
from dcpinspect.protocol.command_statuses import refusal_meaning
from dcpinspect.protocol.features import feature_name
from dcpinspect.protocol.fields import Field, FieldKind, LayoutItem, RecordList
from dcpinspect.protocol.flex import (
    DURATIONS,
    STREAM_ID,
    decode_frames,
    duration_us,
    frame_spec,
    framing_faults,
)
from dcpinspect.protocol.header import (
    HEADER_SIZE,
    MAGIC_DOCS,
    Header,
    Magic,
    decode_header,
    header_fields,
)
from dcpinspect.protocol.header_columns import (
    BAD_MAGIC,
    LENGTH_MISMATCH,
    OVERSIZED_BODY,
    UNDECLARED_STREAM_ID,
    UNDEFINED_DATATYPE,
    faults_of,
)
from dcpinspect.protocol.layout_choice import LayoutChoice, choose
from dcpinspect.protocol.leb128 import decode_leb128, is_refused_in_key
from dcpinspect.protocol.meanings import cas_time, collection_name, text_or_bytes, utc
from dcpinspect.protocol.message import Context, FieldValue, Message, Severity, Value
from dcpinspect.protocol.opcodes import DEVELOPMENT, Trait, is_described, opcode_name, opcode_traits
from dcpinspect.protocol.secrecy import Secrecy, hides_key, hides_value, secrecy
from dcpinspect.protocol.statuses import status_name
from dcpinspect.protocol.values import document, flatbuffer, plain_value

UNKNOWN = Context()

MAX_RECORDS = 16_384
"""Greatest number of records of one message that are divided: buckets have 1024 vbuckets, and a
hostile value would be millions of fields.
"""

RECORD_RULES = {"failover_log": "failover-log-size", "items": "cache-transfer-record"}
"""Rules for records that do not fill their value, by name of the records; for other records there
is no rule of its own.
"""

_MAGICS = tuple(bytes([magic]) for magic in MAGIC_DOCS)
_LENGTHS_END = 12
"""The first bytes of the header, up to here, say where the message and its sections end."""


def annotate(
    data: bytes, *, context: Context = UNKNOWN, missing: Sequence[tuple[int, int]] = ()
) -> Message:
    """Returns the message at the start of ``data``.

    ``missing`` are byte ranges [start, end) that hold zeros because the capture does not have them.
    Bytes that ``data`` is too short for are missing too.
    """
    return _Annotator(data, context, missing).run()


def unknown_opcode(opcode: int, *, server: bool) -> Severity | None:
    """Returns how bad it is that nobody described a command: a note for numbers of development
    builds. None if somebody did.
    """
    if is_described(opcode, server=server):
        return None
    return "note" if opcode in DEVELOPMENT and not server else "warning"


class _Annotator(Annotation):
    """Divides one message into fields."""

    def __init__(self, data: bytes, context: Context, missing: Sequence[tuple[int, int]]) -> None:
        super().__init__(data, context, missing)
        self.numbers: dict[str, int] = {}
        """Numbers of the extras by name; some say how long a part of the value is."""

    def run(self) -> Message:
        message = self.message
        if len(self.data) < HEADER_SIZE:
            self.missing.append((len(self.data), HEADER_SIZE))
            self._header_fields()
            early = HEADER_SIZE - len(self.data)
            self.problem("truncated", "header", len(self.data), f"header ends {early} bytes early")
            return self._done()
        if self.captured_bytes(0, _LENGTHS_END) is None:
            self._header_fields()
            reason = "the part of the header with the length of the message is not in the capture"
            self.problem("truncated", "header", 0, reason)
            self.secrecy = Secrecy.MEASURED  # nobody knows which command the body belongs to
            self._raw_body(len(self.data) - HEADER_SIZE, "no lengths in the capture")
            return self._done()
        header = message.header = decode_header(self.data)
        message.name = opcode_name(header.opcode, server=header.is_server)
        self.secrecy = secrecy(header.opcode, header.side, server=header.is_server)
        if header.size > len(self.data):
            self.missing.append((len(self.data), header.size))
        self._header_fields()
        if self._header_problems(header):
            self._body(header)
        if header.size > len(self.data):
            ends = ((field.name, field.offset + field.size) for field in message.fields)
            cut = next((name for name, end in ends if end > len(self.data)), "message")
            reason = f"message ends {header.size - len(self.data)} bytes early, in {cut}"
            self.problem("truncated", cut, len(self.data), reason)
        if len(self.data) > header.size:
            message.data = self.data[: header.size]
            reason = f"{len(self.data) - header.size} bytes follow the message"
            self.problem("trailing-bytes", "message", header.size, reason)
        return self._done()

    def _done(self) -> Message:
        self.message.missing = tuple(
            (start, end) for start, end in sorted(self.missing) if start < end
        )
        return self.message

    # -- header

    def _header_fields(self) -> None:
        magic = self.data[0] if self.data else Magic.REQUEST
        is_server = magic in (Magic.SERVER_REQUEST, Magic.SERVER_RESPONSE)
        traits = opcode_traits(self.data[1], server=is_server) if len(self.data) > 1 else Trait.NONE
        has_token = Trait.TOKEN in traits
        for spec in header_fields(magic):
            if has_token and spec.kind is FieldKind.CAS:
                value = self.hidden(spec, spec.offset, spec.kind.size, 0, is_value=False)
            else:
                value = self._scalar(spec, spec.offset, 0)
            if spec.kind is FieldKind.STATUS and isinstance(value.value, int):
                refusal = refusal_meaning(self.data[1], value.value, server=is_server)
                value.meaning = value.meaning if refusal is None else f"{value.meaning}: {refusal}"
            if value.size and spec.offset < max(len(self.data), 1):
                self.message.fields.append(value)

    def _header_problems(self, header: Header) -> bool:
        """Reports what the header contradicts; returns False if the body cannot be divided."""
        faults = faults_of(header, self.held(HEADER_SIZE, 1))
        if faults & BAD_MAGIC:
            self.problem("bad-magic", "magic", 0, f"0x{header.magic:02x} starts no message")
            self._raw_body(header.body_size, "no sections without a magic")
            return False
        if faults & UNDEFINED_DATATYPE:
            reason = f"datatype 0x{header.datatype:02x} has undefined bits"
            self.problem("undefined-datatype", "datatype", 5, reason)
        if faults & OVERSIZED_BODY:
            reason = f"announces {header.body_size >> 20} MiB of body"
            self.problem("oversized-body", "total_body_length", 8, reason)
        if severity := unknown_opcode(header.opcode, server=header.is_server):
            says = f": {DEVELOPMENT[header.opcode]}" if severity == "note" else ""
            reason = f"opcode 0x{header.opcode:02x} is not described{says}"
            self.problem("unknown-opcode", "opcode", 1, reason, severity)
        if faults & LENGTH_MISMATCH:
            framing = f"framing extras {header.framing_size} + " if header.is_flex else ""
            reason = (
                f"{framing}extras {header.extras_size} + key {header.key_size} exceed body "
                f"{header.body_size}"
            )
            self.problem(
                "length-mismatch", "total_body_length", 8, reason + self._other_body(header)
            )
            self._raw_body(header.body_size, reason)
            return False
        return True

    def _other_body(self, header: Header) -> str:
        """Returns what the message is if its body is as long as the sections it declares: published
        examples do not count some sections.
        """
        size = header.body_size - header.value_size
        end = HEADER_SIZE + size
        if end > len(self.data) or self.data[end : end + 1] not in (b"", *_MAGICS):
            return ""  # no message begins after such a body
        extras = self.captured_bytes(HEADER_SIZE + header.framing_size, header.extras_size)
        choice = choose(dataclasses.replace(header, body_size=size), extras, 0)
        if choice.layout is None or choice.rule:
            return ""
        return (
            f"; with a body of {size} it is a {self.message.name} in the "
            f"{choice.layout.generation} layout"
        )

    def _raw_body(self, size: int, meaning: str) -> None:
        if size:
            spec = Field("body", 0, FieldKind.BYTES, "bytes that cannot be divided", "Body")
            self.message.fields.append(self._raw(spec, HEADER_SIZE, size, 0, meaning))

    # -- body

    def _body(self, header: Header) -> None:
        message = self.message
        offset = HEADER_SIZE
        framing_size = header.framing_size
        if faults_of(header, self.held(offset, 1)) & UNDECLARED_STREAM_ID:
            framing_size = 3
            reason = "stream-id not counted in the header (known server fault)"
            self.problem("undeclared-stream-id", "framing_extras_length", 2, reason)
        message.framing_size = framing_size
        if framing_size:
            self._framing(header, offset, framing_size)
        offset += framing_size
        value_size = header.value_size + header.framing_size - framing_size
        choice = choose(header, self.captured_bytes(offset, header.extras_size), value_size)
        message.layout = choice.layout
        message.generation = choice.generation
        self._choice_problem(choice, offset, header)
        self._extras(choice, header, offset)
        offset += header.extras_size
        self._key(choice, header, offset, header.key_size)
        offset += header.key_size
        self._value(choice, header, offset, value_size)
        self._check(choice)

    def _choice_problem(self, choice: LayoutChoice, at: int, header: Header) -> None:
        if choice.rule in ("extras-length", "refused-payload"):
            self.problem(choice.rule, "extras", at, choice.reason)
        elif choice.rule:
            value_at = at + header.extras_size + header.key_size
            self.problem(choice.rule, "value", value_at, choice.reason)
        elif choice.broken and choice.layout is not None:
            note = f": {choice.layout.note}" if choice.layout.note else ""
            reason = f"{self.message.name} in the {choice.layout.generation} layout{note}"
            self.problem(choice.broken, "message", 0, reason)

    def _framing(self, header: Header, at: int, size: int) -> None:
        spec = Field(
            "framing_extras", 0, FieldKind.BYTES, "elements before the extras", "Framing extras"
        )
        framing_field = self._raw(spec, at, size, 0, None)
        raw = self.captured_bytes(at, size)
        if raw is not None:
            frames, used = decode_frames(raw)
            inner = []
            for frame in frames:
                known_frame = frame_spec(header.side, frame.id)
                end = frame.data_offset + len(frame.data)
                name = known_frame.name if known_frame is not None else f"frame_{frame.id}"
                item = framing_field.part(name, frame.offset, end)
                if known_frame is None:
                    item.meaning = f"id {frame.id}, unknown"
                elif not known_frame.allows(len(frame.data)):
                    item.meaning = "wrong size"
                elif known_frame.fields:
                    item.fields = tuple(
                        self._run(
                            known_frame.fields,
                            at + frame.data_offset,
                            len(frame.data),
                            2,
                            f"framing_extras.{name}",
                        )
                    )
                    item.meaning = item.fields[0].meaning if len(item.fields) == 1 else None
                if frame.id == STREAM_ID and header.side == "request" and len(frame.data) == 2:
                    self.message.sid = int.from_bytes(frame.data, "big")
                inner.append(item)
            if used < size:
                inner.append(framing_field.part("rest", used, size, text_or_bytes(raw[used:])))
            framing_field.fields = tuple(inner)
            for severity, path, offset, reason in framing_faults(header.side, raw):
                self.problem("bad-framing-extras", path, at + offset, reason, severity)
        self.message.fields.append(framing_field)

    def _extras(self, choice: LayoutChoice, header: Header, at: int) -> None:
        size = header.extras_size
        if not size:
            return
        if choice.layout is None or not choice.extras_fit:
            spec = Field("extras", 0, FieldKind.BYTES, "extras", "Extras")
            self.message.fields.append(self._raw(spec, at, size, 1, None))
            return
        fields = self._run(choice.layout.extras, at, size, 1, "extras")
        self.numbers = {field.name: field.value for field in fields if isinstance(field.value, int)}
        self.message.fields += fields

    def _key(self, choice: LayoutChoice, header: Header, at: int, size: int) -> None:
        layout = choice.layout
        spec = layout.key if layout is not None else None
        if odd := choice.odd_key(is_there=size > 0):
            self.problem(
                "unexpected-section", "key", at, f"{self.message.name} {header.side} {odd}"
            )
        if not size:
            return
        if spec is None:
            spec = Field(
                "key", 0, FieldKind.BYTES if layout is None else FieldKind.TEXT, "key", "Key"
            )
        if hides_key(choice, header.opcode, header.side, server=header.is_server):
            self.message.fields.append(self.hidden(spec, at, size, 0, is_value=False))
            return
        field, logical, collection = self._document_key(spec, at, size, 0, "key")
        self.message.key = logical
        self.message.collection_id = collection
        self.message.fields.append(field)

    def _document_key(
        self, spec: Field, at: int, size: int, depth: int, path: str
    ) -> tuple[FieldValue, bytes | None, int | None]:
        """Returns (field, key without collection id, collection id) of a document key."""
        raw, state = self.captured_bytes(at, size), self.context.collections
        has_prefix = spec.kind is FieldKind.KEY and state in ("on", "inferred")
        decoded = decode_leb128(self.held(at, size)) if has_prefix else None
        if decoded is not None and is_refused_in_key(*decoded, size):
            decoded = None
        if raw is None:
            return (
                self._raw(spec, at, size, depth, "not complete in the capture"),
                None,
                decoded and decoded[0],
            )
        field = FieldValue.of(spec, at, size, raw, text_or_bytes(raw), depth=depth)
        if spec.kind is FieldKind.KEY and state == "unknown":
            field.meaning = "collections unknown: shown whole"
        if not has_prefix:
            return field, raw, None
        if decoded is None and state == "on":
            self.problem("bad-collection-prefix", path, at, "key has no valid collection id")
        if decoded is None:
            return field, raw, None
        collection, used = decoded
        name = collection_name(collection, state, self.name_of("collection_id", collection))
        field.value = text_or_bytes(raw[used:])
        field.meaning = name
        field.fields = (
            field.part("collection_id", 0, used, collection, name, label="collection"),
            field.part("logical_key", used, size, field.value, label="key"),
        )
        return field, raw[used:], collection

    def _value(self, choice: LayoutChoice, header: Header, at: int, size: int) -> None:
        layout = choice.layout
        if not size:
            if rule := choice.rule_of_empty:
                self.problem(
                    rule, "value", at, f"{self.message.name} {header.side} must have a value"
                )
            return
        if layout is None or not choice.value_fits:
            items: tuple[LayoutItem, ...] = (Field("value", 0, FieldKind.BYTES, "value", "Value"),)
        else:
            items = layout.value
        if hides_value(choice, header.opcode, header.side, server=header.is_server):
            kinds = [item.kind if isinstance(item, Field) else None for item in items]
            if kinds != [FieldKind.SECRET]:
                items = (Field("value", 0, FieldKind.SECRET, "may hold credentials", "Value"),)
        fields = self._run(items, at, size, 1, "value")
        if self.message.value is None:
            self.message.value = Value("fields", size)
        self.message.fields += fields

    # -- runs of fields

    def _run(
        self,
        items: Sequence[LayoutItem],
        offset: int,
        size: int,
        depth: int,
        path: str,
        *,
        is_record: bool = False,
    ) -> list[FieldValue]:
        """Returns the fields of a section of ``size`` bytes; they tile it, leftovers included,
        which are of the next one behind a record.
        """
        field_values: list[FieldValue] = []
        numbers = dict(self.numbers)
        end = offset + size
        for item in items:
            if offset >= end and not (isinstance(item, Field) and isinstance(item.size, str)):
                break
            if isinstance(item, RecordList):
                field_values += self._records(item, offset, end - offset, depth, path)
                offset = end
                continue
            if not item.kind.size and isinstance(item.size, str) and item.size not in numbers:
                spec = Field("rest", 0, FieldKind.BYTES, "", "rest")
                meaning = f"{item.size} is not in the capture"
                return [*field_values, self._raw(spec, offset, end - offset, depth, meaning)]
            width = _width(item, numbers, end - offset)
            if width > end - offset:
                reason = f"{item.name} of {width} bytes exceeds the {end - offset} left"
                self.problem("length-mismatch", f"{path}.{item.name}", offset, reason)
                width = end - offset
                if item.kind.size:
                    field_values.append(self._left_over(offset, width, depth))
                    offset = end
                    break
            field = self._field(
                item,
                offset,
                width,
                depth,
                f"{path}.{item.name}",
                is_whole_section=width == size,
                datatype=numbers.get("datatype"),
            )
            if isinstance(field.value, int):
                numbers[item.name] = field.value
            field_values.append(field)
            offset += width
        if offset < end and not is_record:
            self.problem("length-mismatch", path, offset, f"{end - offset} bytes are left over")
            field_values.append(self._left_over(offset, end - offset, depth))
        return field_values

    def _records(
        self, spec: RecordList, offset: int, size: int, depth: int, path: str
    ) -> list[FieldValue]:
        record_values: list[FieldValue] = []
        end = offset + size
        outer, self.numbers = self.numbers, {}
        fixed = [field.kind.size or field.size for field in spec.fields]
        least = sum(width for width in fixed if isinstance(width, int))
        while offset < end:
            if offset >= len(self.data) or len(record_values) == MAX_RECORDS:
                # The record is announced, but not there: a length of gigabytes must not become as
                # many fields.
                if offset < len(self.data):
                    reason = f"only {MAX_RECORDS} {spec.name} are divided"
                    self.problem("too-many-records", f"{path}.{spec.name}", offset, reason)
                record_values.append(self._left_over(offset, end - offset, depth))
                break
            if end - offset < least:
                rule = RECORD_RULES.get(spec.name, "length-mismatch")
                text = (
                    f"only {end - offset} of the {least} bytes of {spec.title} {len(record_values)} "
                    "are there"
                )
                self.problem(rule, f"{path}.{spec.name}", offset, text)
                record_values.append(self._left_over(offset, end - offset, depth))
                break
            inner = self._run(
                spec.fields,
                offset,
                end - offset,
                depth + (len(spec.fields) > 1),
                f"{path}.{spec.name}",
                is_record=True,
            )
            width = sum(field.size for field in inner)
            if len(spec.fields) == 1:
                record = inner[0]
                record.group = spec.name
            else:
                record = FieldValue(
                    f"{spec.name}[{len(record_values)}]",
                    f"{spec.title} {len(record_values)}",
                    offset,
                    width,
                    self.held(offset, width),
                    fields=tuple(inner),
                    depth=depth,
                    group=spec.name,
                    missing=any(field.missing for field in inner),
                )
            record_values.append(record)
            offset += width
        self.numbers = outer
        return record_values

    def _field(
        self,
        spec: Field,
        at: int,
        size: int,
        depth: int,
        path: str,
        *,
        is_whole_section: bool,
        datatype: int | None,
    ) -> FieldValue:
        """Returns a field of any kind; ``datatype``: given if its record has its own."""
        if spec.kind.size:
            return self._scalar(spec, at, depth)
        if spec.kind is FieldKind.KEY:
            return self._document_key(spec, at, size, depth, path)[0]
        top = is_whole_section and path.startswith("value.")
        if spec.kind is FieldKind.SECRET:
            return self.hidden(spec, at, size, depth - top, is_value=top)
        raw = self.captured_bytes(at, size)
        if raw is None:
            if top:
                self.message.value = Value("missing", size)
            meaning = f"{size} bytes, not complete in the capture"
            return self._raw(spec, at, size, depth - top, meaning)
        if spec.kind is FieldKind.FLATBUFFER:
            return flatbuffer(self, spec, at, raw, depth - top, path)
        if spec.kind is FieldKind.DOCUMENT:
            return document(self, spec, at, raw, depth - top, path, datatype)
        if top:
            return plain_value(self, spec, at, raw, depth - top, path)
        return FieldValue.of(spec, at, size, raw, text_or_bytes(raw), depth=depth)

    def _raw(self, spec: Field, at: int, size: int, depth: int, meaning: str | None) -> FieldValue:
        raw = self.captured_bytes(at, size)
        held = raw if raw is not None else self.held(at, size)
        if self._hides(spec, held):
            return self.hidden(spec, at, size, depth, is_value=spec.name == "value")
        value = None if raw is None else text_or_bytes(raw) if spec.kind is FieldKind.TEXT else raw
        is_missing = raw is None
        return FieldValue.of(spec, at, size, held, value, meaning, depth=depth, missing=is_missing)

    def _left_over(self, at: int, size: int, depth: int) -> FieldValue:
        """Returns the bytes that are left over in a section."""
        spec = Field("rest", 0, FieldKind.BYTES, "bytes left over", "rest")
        return self._raw(spec, at, size, depth, None)

    def _hides(self, spec: Field, held: bytes) -> bool:
        """Returns whether bytes that no field divides are hidden. A compressed text of which a part
        is missing cannot be judged.
        """
        if spec.name == "framing_extras" or self.secrecy is Secrecy.OPEN:
            return False
        is_described = self.secrecy is Secrecy.DESCRIBED and spec.kind is not FieldKind.BYTES
        if self.secrecy is not Secrecy.UNKNOWN and not is_described:
            return True
        header = self.message.header
        is_unread = (
            is_described
            and spec.name == "value"
            and header is not None
            and bool(header.datatype & datatypes.SNAPPY)
        )
        return is_unread or self.names_credentials(held)

    def _scalar(self, spec: Field, at: int, depth: int) -> FieldValue:
        size = spec.kind.size
        raw = self.captured_bytes(at, size)
        if raw is None or len(raw) < size:
            return FieldValue.of(spec, at, size, self.held(at, size), depth=depth, missing=True)
        number = int.from_bytes(raw, "big", signed=spec.kind is FieldKind.I64)
        meaning = self._meaning(spec, number)
        field = FieldValue.of(spec, at, size, raw, number, meaning, depth=depth)
        if spec.kind in (FieldKind.UUID, FieldKind.CAS):
            field.value = f"0x{number:016x}"
        if spec.first_generation is not None and number in spec.first_generation:
            self._read_by_generation(field, spec.first_generation[number])
        if spec.flags and number:
            field.fields = tuple(
                FieldValue(
                    bit.name,
                    bit.name,
                    at,
                    size,
                    bit.mask.to_bytes(size, "big"),
                    bit.mask,
                    bit.doc,
                    depth=depth + 1,
                )
                for bit in spec.flags
                if number & bit.mask
            )
        return field

    def _read_by_generation(self, field: FieldValue, current: int) -> None:
        """Explains a number that the first specification gave today's meaning of ``current``."""
        first = field.spec.word(current) if field.spec is not None else None
        if self.context.generation == "upr":
            field.current = current
            field.meaning = f"{first}, as servers before 3.0 number it"
        elif self.context.generation == "unknown":
            field.meaning = f"{field.meaning}; from a server before 3.0: {first}"

    def _meaning(self, spec: Field, number: int) -> str | None:
        kind = spec.kind
        if kind is FieldKind.COMMAND:
            header = self.message.header
            return opcode_name(number, server=header is not None and header.is_server)
        if kind is FieldKind.STATUS:
            return status_name(number)
        if kind is FieldKind.FEATURE:
            return feature_name(number)
        if kind is FieldKind.CAS:
            return cas_time(number)
        if kind is FieldKind.TIME:
            return utc(number) if number else "none"
        if kind is FieldKind.ID:
            if number and (named := self.name_of(spec.name, number)):
                return named
            return f"default {spec.title.removesuffix(' id')}" if number == 0 else f"0x{number:x}"
        if spec.name in DURATIONS:
            return f"{duration_us(number):.0f} us"
        return spec.word(number)

    def _check(self, choice: LayoutChoice) -> None:
        layout = choice.layout
        if layout is None or layout.check is None or not choice.extras_fit or not choice.value_fits:
            return
        numbers = {
            field.name: field.value for field in self.message.fields if isinstance(field.value, int)
        }
        contradiction = layout.check(numbers)
        if contradiction is not None:
            name, reason = contradiction
            offset = next((field.offset for field in self.message.fields if field.name == name), 0)
            self.problem("contradiction", name, offset, reason)


def _width(item: Field, numbers: Mapping[str, int], room: int) -> int:
    """Returns how many bytes a field has, by its kind or by what its layout says. ``numbers``: of
    the fields before it. ``room``: bytes that are left.
    """
    if item.kind.size:
        return item.kind.size
    if isinstance(item.size, str):
        return numbers[item.size]
    return room if item.size is None else item.size
