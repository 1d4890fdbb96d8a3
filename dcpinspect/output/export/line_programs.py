"""The line of a message as a program of the kernel that writes rows: made of a message, for all
others of its kind and shape.
"""

from __future__ import annotations

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.export import row_text as rt
from dcpinspect.output.render.message_lines import (
    ARROWS,
    REQUEST_KEY_WIDTH,
    STORIES,
    Lines,
    NumberField,
    Story,
    WordField,
    datatypes,
    summary_of,
    title,
)
from dcpinspect.protocol.fields import Field, FieldKind
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.statuses import Status
from dcpinspect.tables.messages import MessageBatch

_COLUMNS = ("row", "time_ns", "connection", "vbucket", "length", "sid", "rtt_ns", "prefix")
COLUMN = {
    name: number
    for number, name in enumerate((*_COLUMNS, "key_start", "key_size", "story_start", "story_size"))
}
"""Number of each column that operations name."""
TIME_FORMS = frozenset({"relative", "delta", "absolute", "epoch"})
"""Forms of times that programs write."""
HAS_VBUCKET, HAS_SID, HAS_RTT, HAS_STORY = 1, 2, 4, 8
"""What a line has, as bits; whose key it has stands above them."""
KEY_BITS = 4
NO_KEY, OWN, ASKED_HERE, ASKED_BEFORE = range(4)
"""Whose key a line has: none, the message's, that of a request in the batch, or that of an earlier
request, which stands beside the bytes of the batch.
"""

_UNSIGNED = frozenset({FieldKind.U8, FieldKind.U16, FieldKind.U32, FieldKind.U64, FieldKind.SEQNO})


@dataclass(frozen=True, slots=True)
class FieldPosition:
    """Where messages of a kind have a number."""

    is_in_value: bool
    offset: int
    size: int


StoryPart = tuple[WordField | NumberField, FieldPosition | None]
"""A part of a story, and where its number stands; None: these messages do not have it."""


def number_places(batch: MessageBatch, index: int) -> dict[str, FieldPosition]:
    """Returns where the numbers that are columns stand in messages of this one's kind."""
    positions: dict[str, FieldPosition] = {}
    layout, decoded = batch.layout_of(index), batch.decoded
    if layout is not None and decoded.extras_fit[index]:
        has_value = (
            decoded.fits[index] and layout.value_size is not None and decoded.value.size[index] > 0
        )
        for is_in_value, items in (
            (False, layout.extras),
            (True, layout.value if has_value else ()),
        ):
            for item in items:
                if isinstance(item, Field) and not item.reserved and item.kind.size:
                    positions |= dict.fromkeys(
                        (item.name, item.alias),
                        FieldPosition(is_in_value, item.offset, item.kind.size),
                    )
    return positions


def story_parts(batch: MessageBatch, index: int) -> tuple[StoryPart, ...] | None:
    """Returns the parts of the story that messages of this one's kind tell by numbers at fixed
    places; None if Python must tell it.
    """
    decoded = batch.decoded
    is_response, layout = bool(decoded.is_response[index]), batch.layout_of(index)
    if is_response and int(decoded.specific[index]) not in (Status.SUCCESS, Status.ROLLBACK):
        return None if decoded.value.size[index] > 0 else ()
    story = STORIES.get((bool(decoded.is_server[index]), is_response, int(decoded.opcode[index])))
    if story is None:
        return ()
    if layout is None or not isinstance(story, Story) or not decoded.fits[index]:
        return None
    story_pieces: list[StoryPart] = []
    items = {item.name: (item, False) for item in layout.extras} | {
        item.name: (item, True) for item in layout.value
    }
    for story_part in story.parts:
        item, is_in_value = items.get(story_part.field, (None, False))
        if item is None:
            story_pieces.append((story_part, None))
            continue
        is_there = not is_in_value or (
            layout.value_size is not None and decoded.value.size[index] > 0
        )
        if not is_there or not isinstance(item, Field) or not item.kind.size:
            return None
        if isinstance(story_part, NumberField) and item.kind not in _UNSIGNED:
            return None
        story_pieces.append((story_part, FieldPosition(is_in_value, item.offset, item.kind.size)))
    return tuple(story_pieces)


@dataclass(frozen=True, slots=True)
class _Marks:
    """What stands in a line for what other messages of its kind have in its place."""

    builder: rt.ProgramBuilder
    batch: MessageBatch
    index: int

    def column(self, name: str, width: int = 0) -> str:
        """Stands for the value of a column."""
        return self.builder.mark((rt.UNSIGNED, COLUMN[name], width))

    def number(self, position: FieldPosition, width: int = 0) -> str:
        """Stands for a number of the message."""
        decoded, index = self.batch.decoded, self.index
        section = decoded.value.start[index] if position.is_in_value else decoded.extras_at[index]
        offset = int(section - self.batch.start[index]) + position.offset
        return self.builder.mark((rt.NUMBER, offset, position.size, width))

    def summary(
        self, present: int, parts: tuple[StoryPart, ...], prepared: FieldPosition | None
    ) -> str:
        """Stands for the summary. ``prepared``: where the seqno of a prepare is."""
        mark, batch, index = self.builder.mark, self.batch, self.index
        key_of = present >> KEY_BITS
        beside = rt.BESIDE if key_of == ASKED_BEFORE else 0
        longest = 0 if key_of == OWN else REQUEST_KEY_WIDTH
        key = (
            (rt.FRAGMENT, COLUMN["prefix"]),
            (rt.SPAN_PLAIN | beside, COLUMN["key_start"], longest),
        )
        message = batch.annotate(index) if parts else None
        story = [
            f"{story_part.label} {self.number(position)}"
            if isinstance(story_part, NumberField) and position is not None
            else text
            for story_part, position in parts
            if message is not None and (text := story_part.text_of(message))
        ]
        side_text = (
            mark((rt.SPAN_COPY | rt.BESIDE, COLUMN["story_start"])) if present & HAS_STORY else ""
        )
        return summary_of(
            {
                "sid": self.column("sid") if present & HAS_SID else None,
                "key": mark(*key) if key_of != NO_KEY else None,
                "datatypes": datatypes(int(batch.decoded.datatype[index])),
                "prepared": None if prepared is None else self.number(prepared),
                "story": side_text or ", ".join(story),
                "rtt": mark((rt.MILLIS, COLUMN["rtt_ns"])) if present & HAS_RTT else None,
                "problem": batch.problem_of(index),
            }
        )


def line_program(
    builder: rt.ProgramBuilder,
    lines: Lines,
    batch: MessageBatch,
    index: int,
    style: tuple[str, str],
    present: int,
    parts: tuple[StoryPart, ...],
) -> rt.ProgramBuilder:
    """Builds the program for the lines of messages that are like this one. ``style``: what is
    around the line. ``present``: bits of what not all lines have. ``parts``: the story.
    """
    mark, widths, marks = builder.mark, lines.columns, _Marks(builder, batch, index)
    time = {
        "epoch": ((rt.EPOCH, COLUMN["time_ns"]), (rt.RIGHT, lines.time_width)),
        "absolute": ((rt.DATE_NS, COLUMN["time_ns"], lines.time_width),),
    }.get(lines.time_format, ((rt.ELAPSED, COLUMN["time_ns"], lines.time_width),))
    positions = number_places(batch, index)
    start, end, seqno = map(positions.get, ("start_seqno", "end_seqno", "by_seqno"))
    seqno_text = "" if seqno is None else marks.number(seqno, widths.seqno)
    is_marker = batch.decoded.opcode[index] == Opcode.DCP_SNAPSHOT_MARKER
    if is_marker and start is not None and end is not None:
        right = mark((rt.RIGHT, widths.seqno))
        seqno_text = f"{marks.number(start)}–{marks.number(end)}{right}"
    cells = {
        "Message": title(batch, index),
        "Row": marks.column("row", widths.row),
        "Time": mark(*time),
        "Con": f"{marks.column('connection', widths.connection)}"
        f"{ARROWS[int(batch.direction[index])]}",
        "vb": marks.column("vbucket", widths.vbucket) if present & HAS_VBUCKET else "",
        "Opaque": f"0x{mark((rt.HEX, 12, 4))}",
        "Seqno": seqno_text,
        "Bytes": marks.column("length", 8),
        "Summary": marks.summary(present, parts, positions.get("prepared_seqno")),
    }
    builder.example(style[0] + lines.line_of(cells))
    if lines.width:
        builder.add(rt.CLIP, lines.width, len(style[0].encode()))
    builder.add(rt.LINE_END, 1)
    builder.text(f"{style[1]}\n".encode())
    return builder
