"""What ``dcpinspect explain`` says of a command, a status, a control key, a feature, or pasted bytes."""

from __future__ import annotations

import difflib

from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.control_keys import CONTROL_KEYS, control_key
from dcpinspect.protocol.features import FEATURES
from dcpinspect.protocol.fields import Side
from dcpinspect.protocol.header import HEADER_SIZE, MAGIC_DOCS, Header, decode_header, encode_header
from dcpinspect.protocol.hextext import HexError, parse_hex, tcp_payload
from dcpinspect.protocol.layouts import layouts_of
from dcpinspect.protocol.message import Context
from dcpinspect.protocol.opcodes import Opcode, ServerOpcode, opcode_doc, opcode_name
from dcpinspect.protocol.statuses import Status
from dcpinspect.render.byte_grid import byte_grid
from dcpinspect.render.field_table import field_table
from dcpinspect.render.layout_table import layout_lines
from dcpinspect.render.lines import short_name

MAX_MESSAGES = 1000
"""Messages of one paste that are explained."""


def explain(text: str) -> list[str] | None:
    """Lines about a name, a number or bytes; every reading of an ambiguous one. None when it is none of these."""
    word = text.strip()
    out: list[str] = []
    for lines in (*_commands(word), *_statuses(word), *_control_keys(word), *_features(word)):
        out += [*lines, ""]
    if out:
        return out[:-1]
    try:
        data = parse_hex(text)
    except HexError:
        return None
    return explain_bytes(data) if data else None


def suggestions(text: str) -> list[str]:
    """Known names that look like a word nobody knows."""
    names = [op.name.lower() for op in Opcode] + [op.name.lower() for op in ServerOpcode]
    names += [short_name(name) for name in names] + [status.name.lower() for status in Status]
    names += [control.key for control in CONTROL_KEYS] + [feature.name for feature in FEATURES]
    return difflib.get_close_matches(text.strip(), dict.fromkeys(names), n=3, cutoff=0.6)


def explain_bytes(data: bytes, context: Context | None = None) -> list[str]:
    """The messages in pasted bytes, each as grid and field table; packet headers before them are skipped."""
    payload = tcp_payload(data)
    out: list[str] = []
    if len(payload) < len(data):
        out += [f"{len(data) - len(payload)} bytes of packet headers skipped", ""]
    at = 0
    for _ in range(MAX_MESSAGES):
        if at >= len(payload):
            break
        rest = payload[at:]
        message = annotate(rest, context=context or _likely_context(rest))
        if at:
            out += ["", f"at byte {at}:"]
        out += [*byte_grid(message), "", *field_table(message)]
        supposed = _supposed_body(rest)
        if supposed is not None:
            size, patched = supposed
            out += [
                "",
                f"If the body is the {size} bytes that follow:",
                "",
                *field_table(annotate(patched, context=context or Context("off"))),
            ]
            break
        if message.header is None or message.header.magic not in MAGIC_DOCS:
            break
        at += message.size
        if at < len(payload) and payload[at] not in MAGIC_DOCS:
            out += ["", f"{len(payload) - at} more bytes begin no message"]
            break
    return out


def _likely_context(data: bytes) -> Context:
    """A paste has no HELLO: keys that begin with a byte no bare key begins with have a collection id."""
    if len(data) < HEADER_SIZE:
        return Context()
    header = decode_header(data)
    at = HEADER_SIZE + header.framing_size + header.extras_size
    first = data[at] if header.key_size > 1 and at < len(data) else None
    return Context("inferred") if first is not None and (first == 0 or 8 <= first < 0x20) else Context()


def _supposed_body(data: bytes) -> tuple[int, bytes] | None:
    """(size, message) when a header denies a body that the paste has and its other lengths need, as printed examples do."""
    if len(data) <= HEADER_SIZE:
        return None
    header = decode_header(data)
    body = len(data) - HEADER_SIZE
    if header.value_size >= 0 or header.magic not in MAGIC_DOCS or header.extras_size + header.key_size + header.framing_size > body:
        return None
    fixed = Header(
        header.magic,
        header.opcode,
        header.framing_size,
        header.key_size,
        header.extras_size,
        header.datatype,
        header.specific,
        body,
        header.opaque,
        header.cas,
    )
    return body, encode_header(fixed) + data[HEADER_SIZE:]


def _number(word: str) -> int | None:
    try:
        number = int(word, 16) if word.lower().startswith("0x") else int(word)
    except ValueError:
        return None
    return number if 0 <= number <= 0xFFFF and len(word) <= 6 else None


def _commands(word: str) -> list[list[str]]:
    number = _number(word)
    name = word.lower().replace("-", "_").replace(" ", "_")
    out = []
    for server, table in ((False, Opcode), (True, ServerOpcode)):
        for op in table:
            full = op.name.lower()
            if number == int(op) or name in (full, short_name(full), full.removeprefix("dcp_")):
                out.append(_command(int(op), server=server))
    return out


def _command(opcode: int, *, server: bool) -> list[str]:
    name = opcode_name(opcode, server=server)
    table = ", of the magics 0x82 and 0x83" if server else ""
    out = [f"{name}: opcode 0x{opcode:02x}{table}", f"  {opcode_doc(opcode, server=server)}"]
    sides: tuple[Side, Side] = ("request", "response")
    for side in sides:
        for layout in layouts_of(opcode, side, server=server):
            out += ["", *layout_lines(layout)]
    return out


def _statuses(word: str) -> list[list[str]]:
    number = _number(word)
    name = word.lower().replace("-", "_").replace(" ", "_")
    return [
        [f"{status.name.lower()}: status 0x{int(status):04x}", f"  {status.meaning}"]
        for status in Status
        if number == int(status) or name == status.name.lower()
    ]


def _control_keys(word: str) -> list[list[str]]:
    control = control_key(word)
    if control is None:
        return []
    out = [
        f"{control.key}: DCP control key, since {control.since}",
        f"  {control.doc}",
        f"  values: {control.values}",
        f"  default: {control.default}",
    ]
    return [[*out, f"  refused: {control.failure}"] if control.failure else out]


def _features(word: str) -> list[list[str]]:
    number = _number(word)
    return [
        [f"{feature.name}: HELLO feature 0x{feature.code:02x} ({feature.effect})", f"  {feature.doc}"]
        for feature in FEATURES
        if feature.name.lower() == word.lower() or number == feature.code
    ]
