"""One message body per case, in both directions: what ``encode`` writes is what ``annotate``
reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.fields import MessageSide, RecordList
from dcpinspect.protocol.message import Context, FieldValue, Message
from dcpinspect.protocol.opcodes import opcode_code
from tests.encode import encode, encode_parts


@dataclass(frozen=True)
class Case:
    """A message of one layout: its sections in hexadecimal, and the same by field name."""

    name: str
    command: str
    generation: str = "v1"
    side: MessageSide = "request"
    extras: str = ""
    key: bytes = b""
    value: str | bytes | None = ""
    """In hexadecimal, or bytes where the value is one text or document."""
    fields: dict[str, Any] = field(default_factory=dict)
    status: int = 0
    server: bool = False
    rules: tuple[str, ...] = ()
    """What annotating reports."""
    encodes: bool = True
    """False: the encoder picks another layout by these fields."""

    @property
    def data(self) -> bytes:
        opcode = opcode_code(self.command, server=self.server)
        assert opcode is not None
        magic = (0x82 if self.server else 0x80) + (self.side == "response")
        value = bytes.fromhex(self.value) if isinstance(self.value, str) else self.value or b""
        return encode_parts(
            magic,
            opcode,
            extras=bytes.fromhex(self.extras),
            key=self.key,
            value=value,
            specific=self.status if self.side == "response" else 0,
        )


def _values(fields: tuple[FieldValue, ...]) -> dict[str, Any]:
    return {inner.name: inner.value for inner in fields}


def read(message: Message) -> dict[str, Any]:
    """Every number of extras and value by name; records as lists of mappings."""
    assert message.layout is not None
    assert message.header is not None
    out: dict[str, Any] = {}
    records = {item.name: item for item in message.layout.value if isinstance(item, RecordList)}
    singles = {item.fields[0].name: name for name, item in records.items() if len(item.fields) == 1}
    for found in message.fields:
        base = found.name.partition("[")[0]
        if found.offset < 24 or found.name == "key":
            continue
        if found.name in singles:
            out.setdefault(singles[found.name], []).append({found.name: found.value})
        elif base in records:
            out.setdefault(base, []).append(_values(found.fields))
        elif found.spec is not None and found.spec.slots:
            out |= {inner.name: inner.value for inner in found.fields if inner.size}
        elif found.name != "value":
            out[found.name] = found.value
    return out


def decoded(case: Case) -> tuple[str | None, dict[str, Any], tuple[str, ...]]:
    """(generation, fields, rules) of the case's bytes."""
    message = annotate(case.data, context=Context("off"))
    return message.generation, read(message), tuple(problem.rule for problem in message.problems)


def expected(case: Case) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    return case.generation, case.fields, case.rules


def encoded(case: Case) -> bytes:
    """The bytes that the encoder makes of the case's fields."""
    return encode(
        case.command,
        case.side,
        generation=case.generation,
        server=case.server,
        status=case.status,
        key=case.key,
        value=case.value if isinstance(case.value, bytes) else None,
        **case.fields,
    )
