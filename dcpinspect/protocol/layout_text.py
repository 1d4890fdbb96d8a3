"""Layouts as texts that read like the specification.

A heading names commands, the side, and the generation if it is not the common one, with ``legacy``
behind it if that is older. The lines below it are the sections of the body, field by field, and
what else is known::

    DCP_COMMIT DCP_ABORT request v2 legacy
        extras item_flags u32 (flags) [0 none, 1 all]: the client's own flags
        key key: key of the document
        value? document bodyless: xattrs; the question mark says that it may be missing
        value: *items
        status: SUCCESS ROLLBACK
        use: common

A field is its section, its name if that is another word, its kind, and what it means. It stands
behind the field before it. ``(flags)`` is the specification's own name of it, ``[…]`` are words for
values; ``reserved``, ``words``, ``bodyless``, ``public``, ``private`` and ``size=16`` are members
of ``Field``. ``&name`` stands for members, and ``*name`` for a field or a list of records, that are
named beside the text. ``when: 0 1 2`` asks for 2 in the byte at 0 of the extras. Lines that several
layouts ``use`` stand below a word (``text.sections``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from dcpinspect.protocol.fields import Field, FieldKind, Layout, LayoutItem
from dcpinspect.protocol.opcodes import Opcode, ServerOpcode
from dcpinspect.protocol.statuses import Status
from dcpinspect.text import entries, sections

_KINDS = {kind.text: kind for kind in FieldKind}
_SIDE = re.compile(r" (request|response)\b ?")
_WORDS = re.compile(r"\(.*?\)|\[.*?\]|\S+")
_TITLES = {"key": "Key", "value": "Value"}
"""Labels of fields that are called as their section."""
_MEMBERS: Mapping[str, Mapping[str, Any]] = {
    **{name: {name: True} for name in ("reserved", "words", "bodyless", "private")},
    "public": {"private": False},
}

Named = Mapping[str, Any]
"""What a text calls ``&name`` (a mapping of members) or ``*name`` (a field or list of records)."""
_Lines = list[tuple[str, str]]


def layouts(text: str, spec: str, named: Named | None = None, **common: bool) -> tuple[Layout, ...]:
    """Reads layouts, command by command. ``spec``: the page of those that name none; ``common``:
    members of all.
    """
    of_command: dict[str, list[Layout]] = {}
    for head, lines in sections(text):
        names, side, generation = _SIDE.split(head)
        generation, _, legacy = generation.partition(" ")
        members = {"spec": spec, "legacy": bool(legacy), **common}
        if lines:
            members |= _members(lines, named or {})
        for name in names.split():
            opcode = ServerOpcode[name] if common.get("server") else Opcode[name]
            of_command.setdefault(name, []).append(
                Layout(opcode, side, generation=generation or "v1", **members)  # type: ignore[arg-type] # one of the two
            )
    return tuple(layout for several in of_command.values() for layout in several)


def fields(text: str, named: Named | None = None) -> tuple[Field, ...]:
    """Reads the fields of a record, each without a section."""
    made: list[Field] = []
    offset = 0
    for head, body in entries(text):
        made.append(_field("", head, body, offset, named or {}))
        offset += _size(made[-1])
    return tuple(made)


def _members(lines: _Lines, named: Named) -> dict[str, Any]:
    members: dict[str, Any] = {}
    sections: dict[str, list[LayoutItem]] = {"extras": [], "key": [], "value": []}
    offsets = dict.fromkeys(sections, 0)
    for head, body in lines:
        section, _, rest = head.partition(" ")
        name = section.rstrip("?")
        if name in sections:
            item = _field(name, rest, body, offsets[name], named) if rest else named[body[1:]]
            sections[name].append(item)
            offsets[name] += _size(item)
            if name != section:
                members[f"{name}_required"] = False
        elif head == "status":
            members[head] = body if body == "any" else tuple(map(Status.__getitem__, body.split()))
        elif head == "when":
            members[head] = tuple(tuple(map(int, numbers.split())) for numbers in body.split(", "))
        else:
            members[head] = named[body] if head == "check" else body
    members["extras"], members["value"] = tuple(sections["extras"]), tuple(sections["value"])
    return members | {"key": next(iter(sections["key"]), None)}


def _size(item: LayoutItem) -> int:
    """Returns the size of an item; 0 if messages say it."""
    if not isinstance(item, Field):
        return 0
    return item.kind.size or (item.size if isinstance(item.size, int) else 0)


def _field(section: str, head: str, doc: str, offset: int, named: Named) -> Field:
    return (
        _plain(section, head, doc, offset)
        if "&" not in head
        else _made(section, head, doc, offset, named)
    )


def _made(section: str, head: str, doc: str, offset: int, named: Named) -> Field:
    words = _WORDS.findall(head)
    is_section = section in _TITLES and words[0] in _KINDS
    name, kind, *more = [section, *words] if is_section else words
    members: dict[str, Any] = {"label": _TITLES[section]} if is_section else {}
    for word in more:
        member, _, value = word.partition("=")
        if word[0] == "(":
            members["label"] = word[1:-1]
        elif word[0] == "[":
            pairs = (pair.partition(" ") for pair in word[1:-1].split(", "))
            members["values"] = {int(number, 0): text for number, _, text in pairs}
        elif value:
            members[member] = int(value) if value.isdecimal() else value
        else:
            members |= named[word[1:]] if word[0] == "&" else _MEMBERS[word]
    return Field(name, offset, _KINDS[kind], doc, **members)


@cache
def _plain(section: str, head: str, doc: str, offset: int) -> Field:
    """Returns a field that names nothing beside the text; many layouts have some in common."""
    return _made(section, head, doc, offset, {})
