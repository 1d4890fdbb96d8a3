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
)
from dcpinspect.protocol.fields import Field, FieldKind
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.statuses import Status
from dcpinspect.tables.messages import MessageBatch

_COLUMNS = ("row", "time_ns", "connection", "vbucket", "length", "sid", "rtt_ns", "prefix")
COLUMN = {
    name: number
    for number, name in enumerate((*_COLUMNS, "key_start", "key_size", "told_start", "told_size"))
}
"""Number of each column that operations name."""
TIME_FORMS = frozenset({"relative", "delta", "absolute", "epoch"})
"""Forms of times that programs write."""
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


@dataclass(frozen=True, slots=True)
class LineParts:
    """The parts that a line has, besides those that all messages of its kind have."""

    vbucket: bool
    sid: bool
    rtt: bool
    told: bool
    key_of: int


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


class LineProgram:
    """Builds the program for the lines of messages that are like one of them."""

    def __init__(
        self, builder: rt.ProgramBuilder, lines: Lines, batch: MessageBatch, index: int
    ) -> None:
        self._builder, self._lines, self._batch, self._index = builder, lines, batch, index
        self._gap = " " if lines.is_narrow else "  "
        """What stands before the next part of the summary."""

    def build(
        self, style: tuple[str, str], present: LineParts, parts: tuple[StoryPart, ...]
    ) -> rt.ProgramBuilder:
        """Returns the program. ``style``: what is around the line. ``parts``: the story."""
        add, text, lines = self._builder.add, self.text, self._lines
        widths = lines.columns
        text(style[0])
        add(rt.UNSIGNED, COLUMN["row"], widths.row)
        text(" ")
        self._add_time()
        text(" ")
        add(rt.UNSIGNED, COLUMN["connection"], widths.connection)
        text(
            f"{ARROWS[int(self._batch.direction[self._index])]} "
            f"{lines.title_column(self._batch, self._index)} "
        )
        if present.vbucket:
            add(rt.UNSIGNED, COLUMN["vbucket"], widths.vbucket)
        else:
            text(" " * widths.vbucket)
        if not lines.is_narrow:
            text(" 0x")
            add(rt.HEX, 12, 4)
        text(" ")
        self._add_seqno(widths.seqno)
        if not lines.is_narrow:
            text(" ")
            add(rt.UNSIGNED, COLUMN["length"], 8)
        self._add_summary(present, parts)
        if (problem := self._batch.problem_of(self._index)) is not None:
            text(f"{self._gap}! {problem}")
        if lines.width:
            add(rt.CLIP, lines.width, len(style[0].encode()))
        add(rt.LINE_END, 1)
        text(style[1] + "\n")
        return self._builder

    def text(self, text: str) -> None:
        """Adds a constant."""
        self._builder.text(text.encode())

    def _add_time(self) -> None:
        form, width = self._lines.time_format, self._lines.time_width
        if form == "epoch":
            self._builder.add(rt.EPOCH, COLUMN["time_ns"])
            self._builder.add(rt.RIGHT, width)
        else:
            self._builder.add(
                rt.DATE_NS if form == "absolute" else rt.ELAPSED, COLUMN["time_ns"], width
            )

    def _add_number(self, position: FieldPosition, width: int = 0) -> None:
        decoded, index = self._batch.decoded, self._index
        section = decoded.value.start[index] if position.is_in_value else decoded.extras_at[index]
        self._builder.add(
            rt.NUMBER,
            int(section - self._batch.start[index]) + position.offset,
            position.size,
            width,
        )

    def _add_seqno(self, width: int) -> None:
        positions = number_places(self._batch, self._index)
        start, end, seqno = (
            positions.get(name) for name in ("start_seqno", "end_seqno", "by_seqno")
        )
        if (
            self._batch.decoded.opcode[self._index] == Opcode.DCP_SNAPSHOT_MARKER
            and start is not None
            and end is not None
        ):
            self._add_number(start)
            self.text("–")
            self._add_number(end)
            self._builder.add(rt.RIGHT, width)
        elif seqno is not None:
            self._add_number(seqno, width)
        else:
            self.text(" " * width)

    def _begin_part(self, text: str) -> None:
        """Adds a part of the summary that begins with this text."""
        self.text(self._gap + text)
        self._gap = "  "

    def _add_summary(self, present: LineParts, parts: tuple[StoryPart, ...]) -> None:
        add = self._builder.add
        if present.sid:
            self._begin_part("sid ")
            add(rt.UNSIGNED, COLUMN["sid"])
        if present.key_of != NO_KEY:
            self._begin_part("")
            add(rt.FRAGMENT, COLUMN["prefix"])
            beside = rt.BESIDE if present.key_of == ASKED_BEFORE else 0
            add(
                rt.SPAN_PLAIN | beside,
                COLUMN["key_start"],
                0 if present.key_of == OWN else REQUEST_KEY_WIDTH,
            )
        if kinds := datatypes(int(self._batch.decoded.datatype[self._index])):
            self._begin_part(kinds)
        if (prepared := number_places(self._batch, self._index).get("prepared_seqno")) is not None:
            self._begin_part("prepared ")
            self._add_number(prepared)
        if present.told:
            self._begin_part("")
            add(rt.SPAN_COPY | rt.BESIDE, COLUMN["told_start"])
        self._add_story(parts)
        if present.rtt:
            self._begin_part("after ")
            add(rt.MILLIS, COLUMN["rtt_ns"])
            self.text(" ms")

    def _add_story(self, story_pieces: tuple[StoryPart, ...]) -> None:
        first = True
        message = self._batch.annotate(self._index) if story_pieces else None
        for story_part, position in story_pieces:
            text = story_part.text_of(message) if message is not None else ""
            if not text:
                continue
            if first:
                self._begin_part("")
            else:
                self.text(", ")
            first = False
            if isinstance(story_part, NumberField) and position is not None:
                self.text(f"{story_part.label} ")
                self._add_number(position)
            else:
                self.text(text)
