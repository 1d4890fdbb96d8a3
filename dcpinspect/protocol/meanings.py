"""Values of the wire in words: text, times, collections, JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from dcpinspect.arrays import BoolArray
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.message import Collections

_MAX_STREAM_ID = 0xFFFF


def text_or_bytes(raw: bytes) -> str | bytes:
    """Returns UTF-8 text if the bytes are that, else the bytes."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def utc(seconds: int, nanoseconds: int = 0) -> str:
    """Returns a time of the wire in words."""
    when = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{when}.{nanoseconds // 1_000_000:03} UTC" if nanoseconds else f"{when} UTC"


def cas_time(cas: int) -> str | None:
    """Returns when a CAS was made, in words; None if it is no time. It is a hybrid logical clock:
    nanoseconds with 16 bits of counter.
    """
    nanoseconds = cas & ~0xFFFF
    if 1_200_000_000 <= nanoseconds // 1_000_000_000 < 4_102_444_800:
        return utc(*divmod(nanoseconds, 1_000_000_000))
    return None


def collection_name(collection: int, state: Collections, known_name: str | None = None) -> str:
    """Returns a collection in words, with ``known_name`` as its name, and with a note if it is only
    inferred that collections are on.
    """
    name = "default collection" if collection == 0 else known_name or f"collection 0x{collection:x}"
    return f"{name}, inferred" if state == "inferred" else name


def stream_id_in(text: bytes, key: str) -> int | None:
    """The DCP stream-id that a JSON object has under a key; None for anything else."""
    import orjson  # deferred: not every command shows values

    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    number = document.get(key) if isinstance(document, dict) else None
    return number if type(number) is int and 0 <= number <= _MAX_STREAM_ID else None


def json_members(text: bytes, names: Sequence[str]) -> str:
    """Returns the members of a JSON object that have these names and plain values, as JSON; empty
    if there are none.
    """
    import orjson

    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return ""
    members = (
        {name: document[name] for name in names if name in document}
        if isinstance(document, dict)
        else {}
    )
    plain = {
        name: value
        for name, value in members.items()
        if not any(
            isinstance(item, dict | list)
            for item in (value if isinstance(value, list) else [value])
        )
    }
    return orjson.dumps(plain).decode() if plain else ""


def json_error(text: bytes) -> tuple[int, str] | None:
    """Returns (byte, reason) of the first thing that is not JSON, or None."""
    import orjson  # deferred: not every command shows values

    try:
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return error.pos, error.msg.partition(": line")[0]
    return None


def is_json_text(text: bytes) -> bool:
    """Returns whether a text is JSON by its grammar (RFC 8259), although ``json_error`` finds
    something: orjson refuses large numbers and lone surrogates, and what is very deep. Nobody
    knows of what is deeper than both parsers go; it counts as JSON.
    """
    import json  # deferred: hardly a text gets here

    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        json.loads(text.decode(), parse_constant=refuse, parse_int=str, parse_float=str)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def are_json(data: memoryview, start: RowNumbers, size: RowNumbers) -> BoolArray:
    """Returns, for each place and size, whether ``json_error`` finds nothing there."""
    import orjson

    is_json: BoolArray = np.ones(len(start), dtype=np.bool_)
    for number, (begin, end) in enumerate(
        zip(start.tolist(), (start + size).tolist(), strict=True)
    ):
        try:
            orjson.loads(data[begin:end])
        except orjson.JSONDecodeError:
            is_json[number] = False
    return is_json
