"""FlatBuffer tables of system events, read with every offset checked.

FlatBuffers are little-endian. There is a u32 root offset, and a table that begins with the i32
distance back to its vtable. The vtable has u16 numbers: vtable size, table size, then one offset
for each slot, 0 = default value. The official reader trusts its input; these bytes come from the
wire.
"""

from __future__ import annotations

from struct import unpack_from

from dcpinspect.protocol.fields import Slot

_SCALARS = {"u64": ("<Q", 8), "u32": ("<I", 4), "bool": ("<B", 1)}


class FlatBufferError(ValueError):
    """An offset points outside the value."""


def _read(data: bytes, form: str, size: int, at: int, item_name: str) -> int:
    if at < 0 or at + size > len(data):
        raise FlatBufferError(
            f"{item_name} at byte {at} is outside the {len(data)} bytes of the value"
        )
    return int(unpack_from(form, data, at)[0])


def decode_table(
    data: bytes, slots: tuple[Slot, ...]
) -> list[tuple[Slot, int | bool | str | bytes, int, int]]:
    """Returns (slot, value, offset, size) of each field of the root table.

    A field that is absent has its default, offset and size 0. Raises FlatBufferError.
    """
    table = _read(data, "<I", 4, 0, "root offset")
    vtable = table - _read(data, "<i", 4, table, "table")
    vtable_size = _read(data, "<H", 2, vtable, "vtable")
    if vtable_size < 4 or vtable + vtable_size > len(data):
        raise FlatBufferError(f"vtable of {vtable_size} bytes at byte {vtable} does not fit")
    decoded: list[tuple[Slot, int | bool | str | bytes, int, int]] = []
    for slot in slots:
        entry = 4 + 2 * slot.slot
        field_offset = (
            _read(data, "<H", 2, vtable + entry, slot.name) if entry + 2 <= vtable_size else 0
        )
        if not field_offset:
            default: int | bool | str = (
                bool(slot.default)
                if slot.kind == "bool"
                else ""
                if slot.kind == "string"
                else slot.default
            )
            decoded.append((slot, default, 0, 0))
            continue
        field_start = table + field_offset
        if slot.kind == "string":
            field_start += _read(data, "<I", 4, field_start, slot.name)
            size = _read(data, "<I", 4, field_start, slot.name)
            raw = data[field_start + 4 : field_start + 4 + size]
            if len(raw) != size:
                raise FlatBufferError(
                    f"{slot.name} of {size} bytes at byte {field_start} is outside the value"
                )
            try:
                decoded.append((slot, raw.decode(), field_start + 4, size))
            except UnicodeDecodeError:
                decoded.append((slot, raw, field_start + 4, size))
            continue
        form, size = _SCALARS[slot.kind]
        number = _read(data, form, size, field_start, slot.name)
        decoded.append((slot, bool(number) if slot.kind == "bool" else number, field_start, size))
    return decoded


def encode_table(slots: tuple[Slot, ...], values: dict[str, int | bool | str]) -> bytes:
    """Returns a FlatBuffer with one table; the way back from ``decode_table``."""
    present = [slot for slot in slots if slot.name in values]
    count = 1 + max((slot.slot for slot in present), default=-1)
    vtable_size = 4 + 2 * count
    sizes = {"u64": 8, "u32": 4, "bool": 1, "string": 4}
    table = (4 + vtable_size + 7) // 8 * 8
    offsets: dict[int, int] = {}
    field_offset = 4
    for slot in sorted(present, key=lambda slot: -sizes[slot.kind]):
        size = sizes[slot.kind]
        field_offset = (field_offset + size - 1) // size * size
        offsets[slot.slot] = field_offset
        field_offset += size
    table_size = field_offset
    encoded = bytearray(table + (table_size + 3) // 4 * 4)
    encoded[0:4] = table.to_bytes(4, "little")
    vtable = table - vtable_size
    encoded[vtable : vtable + 2] = vtable_size.to_bytes(2, "little")
    encoded[vtable + 2 : vtable + 4] = table_size.to_bytes(2, "little")
    encoded[table : table + 4] = vtable_size.to_bytes(4, "little")
    for slot in present:
        vtable_entry = vtable + 4 + 2 * slot.slot
        encoded[vtable_entry : vtable_entry + 2] = offsets[slot.slot].to_bytes(2, "little")
        field_start = table + offsets[slot.slot]
        value = values[slot.name]
        if isinstance(value, str):
            text = value.encode()
            encoded[field_start : field_start + 4] = (len(encoded) - field_start).to_bytes(
                4, "little"
            )
            encoded += len(text).to_bytes(4, "little") + text + b"\0" * (4 - len(text) % 4)
        else:
            encoded[field_start : field_start + sizes[slot.kind]] = int(value).to_bytes(
                sizes[slot.kind], "little"
            )
    return bytes(encoded)
