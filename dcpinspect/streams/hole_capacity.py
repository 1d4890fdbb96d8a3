"""What a hole of so many bytes can have hidden: how many messages, and of which kind. All rules of
doubt ask here.

A loss is a stretch between two messages that could be read, so what it hides are whole messages.
Those of DCP are no shorter than their header, their extras and what else they must have;
compression makes values shorter, never these. A stream comes to a higher seqno by events, or by a
SeqnoAdvanced. One of them is enough for any number of seqnos, because those between may be
de-duplicated or filtered, but it has to lie in the range of a marker. So a hole moves a stream
whose latest snapshot is complete only if there is room for a marker, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dcpinspect.protocol.fields import Layout
from dcpinspect.protocol.header import HEADER_SIZE
from dcpinspect.protocol.layouts import layouts_of
from dcpinspect.protocol.opcodes import Opcode, Trait

_FAILOVER_LOG = 16
"""Bytes of the shortest failover log, which an accepted stream request is answered with."""


def _shortest(layout: Layout) -> int:
    key = 1 if layout.key is not None and layout.key_required else 0
    return (
        HEADER_SIZE
        + layout.extras_size
        + key
        + ((layout.value_size or 0) if layout.value_required else 0)
    )


def _least(opcodes: Iterable[int], *, legacy: bool = True) -> int:
    layouts = [layout for opcode in opcodes for layout in layouts_of(opcode, "request")]
    return min(_shortest(layout) for layout in layouts if legacy or not layout.legacy)


MESSAGE = HEADER_SIZE
REQUEST = _least([Opcode.DCP_STREAM_REQ])
ANSWER = HEADER_SIZE + _FAILOVER_LOG
MARKER = _least([Opcode.DCP_SNAPSHOT_MARKER], legacy=False)
OLD_MARKER = _least([Opcode.DCP_SNAPSHOT_MARKER])
EVENT = _least(opcode for opcode in Opcode if Trait.EVENT in opcode.traits)
SEQNO_ADVANCED = _least([Opcode.DCP_SEQNO_ADVANCED])
"""Bytes of the shortest message of a kind; ``MESSAGE``: of any. Markers of the first specification,
``OLD_MARKER``, have no range.
"""


def most_events(size: int) -> int:
    """Returns the most events, and so seqnos that came alone, in so many lost bytes."""
    return size // EVENT


def may_move(sizes: Sequence[int], *, is_complete: bool, has_ranges: bool = True) -> bool:
    """Returns whether losses of these sizes may have brought a stream to a higher seqno.

    ``is_complete``: its latest snapshot was complete, or it had none. ``has_ranges``: its markers
    have a range.
    """
    needed = [
        min(EVENT, SEQNO_ADVANCED),
        *([MARKER if has_ranges else OLD_MARKER] if is_complete else []),
    ]
    falling_sizes = sorted(sizes, reverse=True)
    return (
        bool(falling_sizes)
        and falling_sizes[0] >= max(needed)
        and (
            falling_sizes[0] >= sum(needed)
            or (len(falling_sizes) > 1 and falling_sizes[1] >= min(needed))
        )
    )
