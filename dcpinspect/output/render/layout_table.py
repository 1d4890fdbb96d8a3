"""The layouts of messages as text, for ``explain`` and for the page of the protocol."""

from __future__ import annotations

from collections.abc import Iterator

from dcpinspect.output.render.field_table import offsets_text
from dcpinspect.protocol.command_statuses import StatusMeanings
from dcpinspect.protocol.fields import Field, FieldKind, Layout, LayoutItem, RecordList, fixed_size
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.opcodes import opcode_name
from dcpinspect.text import counted


def layout_title(layout: Layout) -> str:
    """Returns name, side and generation of a layout, and the numbers that a message must have to be
    in this layout.
    """
    return f"{opcode_name(layout.opcode, server=layout.server).upper()} {layout_kind(layout)}"


def layout_kind(layout: Layout) -> str:
    """Returns side and generation of a layout, and the numbers that its messages must have."""
    status = ""
    if isinstance(layout.status, tuple) and layout.side == "response":
        status = ", status " + " or ".join(f"0x{int(code):02x}" for code in layout.status)
    by_offset = {field.offset: field for field in layout.extras}
    choice = "".join(
        f", {by_offset[offset].title} {by_offset[offset].word(number) or number}"
        for offset, _, number in layout.when
    )
    return (
        f"{'response' if layout.side == 'response' else 'command'} "
        f"({layout.generation}{choice}{status})"
    )


def shape_text(layout: Layout) -> str:
    """Describes the parts of a message in this layout in one line."""
    extras = (
        f"{counted(layout.extras_size, 'byte')} of extras" if layout.extras_size else "no extras"
    )
    key = (
        "no key" if layout.key is None else f"{'a key' if layout.key_required else 'a key or none'}"
    )
    size = layout.value_size
    if not layout.value:
        value = "no value"
    else:
        value = f"{counted(size, 'byte')} of value" if size is not None else "a value"
        value += "" if layout.value_required else " or none"
    return f"{extras}, {key}, {value}"


def field_rows(layout: Layout) -> Iterator[tuple[int, str, str, str, str]]:
    """Yields indent, label, offsets, size and text of every field after the header; offsets count
    from the first byte of the message.
    """
    yield from _items(layout.extras, HEADER_SIZE, 1)
    offset: int | None = HEADER_SIZE + layout.extras_size
    if layout.key is not None:
        yield 0, layout.key.title, f"({offset}-…)", "", layout.key.doc
        offset = None
    is_whole = (
        len(layout.value) == 1
        and isinstance(layout.value[0], Field)
        and not layout.value[0].kind.size
    )
    yield from _items(layout.value, offset, 0 if is_whole else 1)


def _items(
    items: tuple[LayoutItem, ...], offset: int | None, indent: int
) -> Iterator[tuple[int, str, str, str, str]]:
    for item in items:
        if isinstance(item, RecordList):
            size = fixed_size(item.fields)
            yield indent, f"{item.title}…", "", f"{size or 'any number of'} bytes each", item.doc
            yield from _items(item.fields, None, indent + 1)
            continue
        width = item.kind.size or (item.size if isinstance(item.size, int) else 0)
        where = "" if offset is None else offsets_text(offset, width) if width else f"({offset}-…)"
        size_text = (
            f"{width}"
            if width
            else f"as {item.size.replace('_', ' ')} says"
            if isinstance(item.size, str)
            else ""
        )
        yield indent, item.title, where, size_text, item.doc
        for bit in item.flags:
            yield indent + 1, f"0x{bit.mask:02x} {bit.name}", "", "", bit.doc
        if item.values and item.kind is not FieldKind.COMMAND:
            for number, word in item.values.items():
                yield indent + 1, str(number) if number < 1 << 32 else f"0x{number:x}", "", "", word
        for number, current in (item.first_generation or {}).items():
            yield (
                indent + 1,
                str(number),
                "",
                "",
                f"{item.word(current)}, where the connection is of the first generation",
            )
        for slot in item.slots:
            yield indent + 1, f"slot {slot.slot} {slot.name}", "", slot.kind, slot.doc
        if offset is not None:
            offset = offset + width if width else None


def layout_lines(layout: Layout) -> list[str]:
    """Returns a layout for a terminal: title, shape, and fields."""
    lines = [layout_title(layout), f"  {shape_text(layout)}"]
    if layout.note:
        lines.append(f"  {layout.note}")
    rows = list(field_rows(layout))
    if rows:
        label_width = max(len(label) + 2 * indent for indent, label, _, _, _ in rows)
        offset_width = max(len(where) for _, _, where, _, _ in rows)
        for indent, label, where, size, doc in rows:
            text = counted(int(size), "byte") if size.isdigit() else size
            line = f"  {'  ' * indent + label:<{label_width}}  {where:<{offset_width}}  {doc}"
            lines.append(
                (line + (f" ({text})" if text and not where.startswith("(") else "")).rstrip()
            )
    lines.append(f"  source: {layout.spec}")
    return lines


def status_rows(answers: StatusMeanings) -> list[tuple[str, str, str]]:
    """Returns code, name and meaning of the possible answers to a command."""
    return [
        ("", "no answer", f"the connection is closed: {meaning[0].lower()}{meaning[1:]}")
        if status is None
        else (f"0x{int(status):02x}", status.name.lower(), meaning)
        for status, meaning in answers
    ]


def status_lines(answers: StatusMeanings) -> list[str]:
    """Returns the possible answers to a command, for a terminal."""
    rows = status_rows(answers)
    width = max(len(name) for _, name, _ in rows)
    return [f"  {code:<4}  {name:<{width}}  {meaning}" for code, name, meaning in rows]
