"""How every message is built: one file for each family of messages, collected here in the order of
the opcodes.

A file holds ``LAYOUTS``: a ``Layout`` for the request and for the response of each command, and for
each generation of it that the specification had. Everything that knows a field is made of them:
decoder, encoder, field tables, JSON, columns, Scapy's classes and the page on the protocol. The
language is in ``protocol/layout_text.py``, and what it makes in ``protocol/fields.py``. Which of
several layouts a message has is decided in ``protocol/layout_choice.py``. Begin with ``snapshot_marker.py``, which has everything in small.
"""

from __future__ import annotations

from dcpinspect.protocol.fields import Layout, MessageSide
from dcpinspect.protocol.layouts import (
    admin,
    cache_transfer,
    collection_commands,
    document_changes,
    durability,
    flow_commands,
    fusion,
    keyvalue,
    open_connection,
    seqno_advanced,
    seqno_commands,
    server,
    session_commands,
    snapshot_marker,
    stream_commands,
    subdoc,
    system_event,
    vbucket_state,
    with_meta,
)

DCP = (
    *open_connection.LAYOUTS,
    *stream_commands.LAYOUTS,
    *snapshot_marker.LAYOUTS,
    *document_changes.LAYOUTS,
    *vbucket_state.LAYOUTS,
    *flow_commands.LAYOUTS,
    *system_event.LAYOUTS,
    *durability.LAYOUTS,
    *seqno_advanced.LAYOUTS,
    *cache_transfer.LAYOUTS,
)
"""Layouts of DCP itself."""

AROUND = (
    *session_commands.LAYOUTS,
    *seqno_commands.LAYOUTS,
    *collection_commands.LAYOUTS,
    *server.LAYOUTS,
    *keyvalue.LAYOUTS,
    *with_meta.LAYOUTS,
    *subdoc.LAYOUTS,
    *admin.LAYOUTS,
    *fusion.LAYOUTS,
)
"""Layouts of other messages on the connections."""

LAYOUTS: tuple[Layout, ...] = DCP + AROUND
"""Every layout; the first one that fits a message counts."""

_BY_COMMAND: dict[tuple[bool, int, MessageSide], tuple[Layout, ...]] = {}
for _layout in LAYOUTS:
    _key = (_layout.server, int(_layout.opcode), _layout.side)
    _BY_COMMAND[_key] = (*_BY_COMMAND.get(_key, ()), _layout)


def layouts_of(opcode: int, side: MessageSide, *, server: bool = False) -> tuple[Layout, ...]:
    """Returns a command's layouts, the current generation first; none for an unknown one."""
    return _BY_COMMAND.get((server, opcode, side), ())


def legal_extras(opcode: int, side: MessageSide, *, server: bool = False) -> frozenset[int] | None:
    """Returns extras lengths that the layouts of a command define; None if nobody described it."""
    layouts = layouts_of(opcode, side, server=server)
    return frozenset(layout.extras_size for layout in layouts) if layouts else None
