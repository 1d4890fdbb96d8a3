"""The published and the packed messages that the codec is proved with, and how their names map to
ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.datatype import DATATYPE_NAMES
from dcpinspect.protocol.flex import decode_frames, duration_us
from dcpinspect.protocol.message import Context, FieldValue, Message

FOLDER = Path(__file__).parent.parent / "vectors"


@dataclass(frozen=True)
class Vector:
    """One message of a document, or packed from a layout."""

    id: str
    literal: bytes
    """As published."""
    data: bytes
    """As published, or with the correction that a contradiction within its page asks for."""
    expected: dict[str, Any]
    offsets: dict[str, tuple[int, int]]
    """First and last byte of each field, by the page's table."""
    consistent: bool
    """The page does not contradict itself."""
    corrected: bool
    context: Context

    def annotate(self) -> Message:
        return annotate(self.data, context=self.context)


def _load(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def _vectors() -> Iterator[Vector]:
    corrections = _load("vectors_corrections.json")
    for file in ("vectors.json", "vectors_synthetic.json"):
        for entry in _load(file):
            if entry["kind"] != "packet":
                continue
            is_on = entry["id"].startswith("syn-") or entry["id"] == "kv-collections-01"
            literal = bytes.fromhex(entry["hex"])
            correction = corrections.get(entry["id"])
            yield Vector(
                entry["id"],
                literal,
                bytes.fromhex(correction["hex"]) if correction else literal,
                entry["expected"],
                {name: (first, last) for name, (first, last) in entry.get("offsets", {}).items()},
                entry.get("consistent", True),
                correction is not None,
                Context("on" if is_on else "off"),
            )


ALL = tuple(_vectors())
BY_ID = {vector.id: vector for vector in ALL}
DOCUMENTS = tuple(vector for vector in ALL if not vector.id.startswith("syn-"))
SYNTHETIC = tuple(vector for vector in ALL if vector.id.startswith("syn-"))
XATTR_SECTION = next(entry for entry in _load("vectors.json") if entry["kind"] == "xattr-value")

NAMES: dict[str, tuple[str, ...]] = {
    "extra_length": ("extras_length",),
    "data_type": ("datatype",),
    "total_body": ("total_body_length",),
    "vbucket": (
        "vbucket",
        "status",
    ),  # the return-meta examples name the status of a response vbucket
    "flags": ("flags", "item_flags", "snapshot_type"),
    "flag": ("end_reason",),
    "status": ("status", "end_reason"),
    "seqno": ("seqno", "reserved", "rev_seqno"),
    "seq_num": ("rev_seqno",),
    "revseqno": ("rev_seqno",),
    "expiry": ("expiration",),
    "exptime": ("expiration",),
    "rollback": ("rollback_seqno",),
    "vb_uuid": ("vbucket_uuid",),
    "old_vb_uuid": ("old_vbucket_uuid",),
    "vb_state": ("state",),
    "buffer_bytes": ("ack_bytes",),
    "bytes": ("ack_bytes",),
    "durability": ("durability_level",),
    "op_type": ("operation",),
    "meta_length": ("nmeta",),
    "reqextmeta": ("meta_version",),
    "snap_start_seqno": ("snapshot_start_seqno",),
    "snap_end_seqno": ("snapshot_end_seqno",),
    "opaque[0]": ("opaque",),
    "opaque[1]": ("stream_opaque",),
    "cas[0]": ("cas",),
    "cas[1]": ("meta_cas", "items[0].cas"),
    "vb_uuid[": ("failover_log[{}].uuid",),
    "vb_seqno[": ("failover_log[{}].seqno", "seqnos[{}].seqno"),
    "vb[": ("seqnos[{}].vbucket",),
    "key_cid": ("key.collection_id",),
    "data": ("value",),
    "name": ("key",),
    "bucket": ("key",),
    "value_len": ("items[0].value_length",),
    "key_len": ("items[0].key_length",),
    "cachehint": ("items[0].cache_hint",),
}
"""A page's name for a field -> where it is in the annotated message."""


def at_path(message: Message, path: str) -> FieldValue | None:
    """The field with this dotted path, or None."""
    fields: tuple[FieldValue, ...] = tuple(message.fields)
    found = None
    for name in path.split("."):
        found = next((field for field in fields if field.name == name), None)
        if found is None:
            return None
        fields = found.fields
    return found


def find(message: Message, name: str) -> FieldValue | None:
    """The field that a page calls ``name``, or None."""
    numbered = re.fullmatch(r"(vb_uuid\[|vb_seqno\[|vb\[)(\d+)\]", name)
    paths = (
        tuple(path.format(numbered[2]) for path in NAMES[numbered[1]])
        if numbered
        else NAMES.get(name, (name,))
    )
    if (
        message.name == "dcp_cache_transfer"
        and name not in NAMES
        and message.field(name) is None
        and at_path(message, f"items[0].{name}") is not None
    ):
        paths = (f"items[0].{name}",)
    if message.name in ("get_meta", "dcp_cache_transfer") and name == "datatype":
        paths = ("stored_datatype", "items[0].datatype")
    if message.name == "dcp_cache_transfer" and name in ("flags", "expiration"):
        paths = ("items[0].item_flags" if name == "flags" else "items[0].expiration",)
    return next((field for path in paths if (field := at_path(message, path)) is not None), None)


def number(value: Any) -> int | None:
    """The number that a page or a field shows as such, as 0x-string or in decimal; None for
    text.
    """
    if isinstance(value, int):
        return value
    if isinstance(value, str) and re.fullmatch(r"0[xX][0-9a-fA-F]+|\d+", value):
        return int(value, 0) if value[:2].lower() == "0x" else int(value)
    return None


def quoted(text: str) -> str:
    """The text that a page shows as ``The textual string "Hello"``."""
    found = re.search(r'^(?:The textual string:? )?"(.*)"$', text)
    return found[1] if found else text


def _json(message: Message) -> Any:
    assert message.value is not None
    return json.loads(message.value.body)


def _frame(message: Message, path: str) -> Any:
    field = at_path(message, f"framing_extras.{path}")
    return field.value if field is not None else None


def frames_of(message: Message) -> list[tuple[int, bytes]]:
    """(id, data) of each element of the framing extras."""
    whole = message.field("framing_extras")
    return (
        [(frame.id, frame.data) for frame in decode_frames(whole.raw)[0]]
        if whole is not None
        else []
    )


def _items(message: Message) -> list[dict[str, Any]]:
    out = []
    for field in message.fields:
        if field.name.startswith("items["):
            inner = {item.name: item.value for item in field.fields}
            key = next(item for item in field.fields if item.name == "key")
            out.append(
                inner
                | {
                    "cas": number(inner["cas"]),
                    "value": inner.get("value", ""),
                    "key": key.value,
                    "collection": key.fields[0].value,
                }
            )
    return out


def _body(message: Message) -> str:
    assert message.value is not None
    return message.value.body.decode()


SPECIAL: dict[str, Callable[[Message], Any]] = {
    "collection": lambda message: message.collection_id,
    "stream_id": lambda message: message.sid,
    "layout": lambda message: message.generation,
    "datatype": lambda message: (
        list(DATATYPE_NAMES[message.header.datatype]) if message.header else None
    ),
    "value": _body,
    "body": _body,
    "xattrs": lambda message: (
        {key.decode(): value.decode() for key, value in message.value.xattrs}
        if message.value
        else None
    ),
    "inflated_length": lambda message: message.value.inflated_size if message.value else None,
    "consumer_name": lambda message: _json(message)["consumer_name"],
    "collections": lambda message: _json(message)["collections"],
    "sid": lambda message: _json(message)["sid"],
    "agent": lambda message: json.loads(message.key or b"")["a"],
    "features": lambda message: [
        field.value for field in message.fields if field.name == "feature"
    ],
    "server_duration_raw": lambda message: _frame(message, "server_duration.server_duration"),
    "durability_timeout_ms": lambda message: _frame(message, "durability.timeout_ms"),
    "items": _items,
    "high_prepared_seqno": lambda message: (
        field.value if (field := message.field("high_prepared_seqno")) else None
    ),
}
"""What the packed messages expect under names that are no field of the message."""


def observed(message: Message, name: str) -> Any:
    """What our reading says under a packed message's name."""
    if name == "server_duration_us":
        return duration_us(_frame(message, "server_duration.server_duration"))
    if name == "frames":
        return [{"id": frame_id, "length": len(data)} for frame_id, data in frames_of(message)]
    if name == "durability_level" and message.name == "set":
        return _frame(message, "durability.level")
    if name == "manifest_uid" and message.value is not None and message.value.encoding == "json":
        return _json(message)["manifest_uid"]
    if name == "vbucket" and message.name == "observe_seqno":
        return find(message, "observed_vbucket").value  # type: ignore[union-attr]
    if name in SPECIAL:
        return SPECIAL[name](message)
    field = find(message, name)
    return field.value if field is not None else None
