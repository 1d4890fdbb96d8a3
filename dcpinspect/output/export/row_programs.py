"""Programs that write the text of messages: one for each kind, made from a message of that kind.

Most messages of a capture are alike: same command, layout and datatype, and no problem. For every
such *kind*, one message is annotated and written in the ordinary way. What differs from message to
message becomes an operation of a program, and all the rest a constant. ``row_run`` runs the
programs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.output.export import row_text as rt
from dcpinspect.protocol.datatype import JSON, SNAPPY, XATTR
from dcpinspect.protocol.fields import FieldKind
from dcpinspect.protocol.meanings import collection_name
from dcpinspect.protocol.message import FieldValue, Message
from dcpinspect.protocol.session import STATE_NAMES
from dcpinspect.tables.collection_names import unnamed, with_id
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.text import words_of

MAX_REMEMBERED = 1 << 16
"""Number of kinds and texts that are kept.

Only a capture that is made to waste memory has more; the rest of it is written in the ordinary way.
"""

_COLUMNS = (
    *words_of("row connection frame last_frame time_ns stream_offset length vbucket collection_id"),
    *words_of("request_row request_stream_offset rtt_ns endpoints collection collection_meaning"),
    # Place in the message, and length, of the key, of the id in it, of its name, of the value, and
    # of the document in the value.
    *words_of(
        "key_at key_length id_at id_length name_at name_length value_at value_length body_at "
        "body_length"
    ),
    # Place in the buffer, and size, of what is written for them and for the id before the name;
    # redaction changes both.
    *("id_start", "id_size", "name_start", "name_size", "value_start", "value_size"),
    # For a value that is compressed or has xattrs: xattrs and body beside the buffer; place of the
    # xattrs in the message; length of both together.
    *words_of(
        "xattrs_start xattrs_size xattrs_at xattrs_length body_start body_size content_length"
    ),
    # What stands before a row, beside the buffer.
    *("head_start", "head_size"),
)
COLUMN = {name: number for number, name in enumerate(_COLUMNS)}
"""Number of each column that operations name; columns of looked-up texts come after these."""

HEADER_CONSTANTS = frozenset({"magic", "opcode", "datatype", "status"})
"""Header fields that are the same in all messages of a kind."""
WORDY = frozenset({FieldKind.COMMAND, FieldKind.STATUS, FieldKind.FEATURE, FieldKind.I64})
"""Kinds of fields whose meaning is looked up."""


@dataclass(frozen=True, slots=True)
class LookUp:
    """A number whose text is looked up: where the number stands, and how the text is made."""

    name: str
    offset: int
    size: int
    text: Callable[[FieldValue], bytes]


@dataclass(frozen=True, slots=True)
class RowKind:
    """A kind of message: its program, and the texts that the program looks up."""

    number: int
    look_ups: tuple[LookUp, ...]


class KindBuilder(rt.ProgramBuilder):
    """Builds the program of a kind of message."""

    def __init__(self, texts: rt.RowTexts) -> None:
        super().__init__(texts)
        self.look_ups: list[LookUp] = []
        """The numbers whose texts are looked up."""

    def look_up(self, field: FieldValue, text: Callable[[FieldValue], bytes]) -> str:
        """Returns the mark for the text of a field's number, which ``text`` makes."""
        self.look_ups.append(LookUp(field.name, field.offset, field.size, text))
        return self.mark((rt.FRAGMENT, len(COLUMN) + len(self.look_ups) - 1))

    def number(self, name: str) -> str:
        """Returns the mark for the number of a column."""
        return self.mark((rt.COLUMN, COLUMN[name]))

    def unpacked(self, message: Message) -> str:
        """Returns what the field of a value that is compressed or has xattrs says of it."""
        datatype, field = datatype_of(message), message.field("value")
        inner_fields = list(field.fields) if field is not None else []
        texts = []
        if datatype & SNAPPY:
            texts.append(f"snappy, {self.number('content_length')} bytes inflated")
        if datatype & XATTR:
            count = len(inner_fields.pop(0).fields)
            texts.append(f"{count} xattr{'s' if count != 1 else ''}")
        return ", ".join([*texts, *([encoding_of(message)] if inner_fields else [])])


class Programs(ABC):
    """The programs of the kinds so far, and the texts that they look up."""

    xattrs_are_json = False
    """Whether messages with xattrs that are not JSON are written in the ordinary way."""
    left_rows: Collection[int] = ()
    """Rows of messages that are written in the ordinary way, whatever they have."""

    def __init__(self) -> None:
        self.writer = rt.RowWriter()
        self._texts = self.writer.texts
        self._kinds: dict[Hashable, RowKind] = {}
        self._looked_up: dict[tuple[int, LookUp, int], int] = {}
        self._endpoints: dict[tuple[int, int], int] = {}

    @abstractmethod
    def build(
        self, builder: KindBuilder, message: Message, batch: MessageBatch, index: int
    ) -> None:
        """Writes the program for the kind of this message."""

    @abstractmethod
    def endpoints_text(self, connection: int, direction: int, batch: MessageBatch) -> bytes:
        """Returns the text that names both ends and the direction."""

    @abstractmethod
    def collection_text(self, text: str) -> bytes:
        """Returns the text for the name of a collection, or for what its id means."""

    def kind(self, key: Hashable, batch: MessageBatch, index: int) -> RowKind | None:
        """Returns the kind with this key, made from one of its messages; None if it must be written
        in the ordinary way.
        """
        row_kind = self._kinds.get(key)
        if row_kind is None and not self.is_full:
            row_kind = self._made_kind(batch, index)
            if row_kind is not None:  # another batch may have a better example
                self._kinds[key] = row_kind
        return row_kind

    @property
    def is_full(self) -> bool:
        """Whether no more kinds or texts are remembered."""
        return len(self._kinds) + self._texts.count > MAX_REMEMBERED

    def _made_kind(self, batch: MessageBatch, index: int) -> RowKind | None:
        message = batch.annotate(index)
        inner_fields = [inner for field in message.fields for inner in field.walk()]
        # the name of an id depends on more than the kind of message
        if (
            message.problems
            or message.missing
            or any(
                inner.hidden or (inner.spec and inner.spec.kind is FieldKind.ID)
                for inner in inner_fields
            )
        ):
            return None
        if (
            datatype_of(message) & (SNAPPY | XATTR) == SNAPPY
            and message.value is not None
            and not message.value.body
        ):
            # the block could not be decompressed, so this message does not show what others have
            return None
        builder = KindBuilder(self._texts)
        self.build(builder, message, batch, index)
        return RowKind(self.writer.add(builder), tuple(builder.look_ups))

    def fragment(
        self, kind: RowKind, look_up: LookUp, number: int, batch: MessageBatch, index: int
    ) -> int:
        """Returns the number of the text for a number, made from a message that has it."""
        key = (kind.number, look_up, number)
        if key not in self._looked_up:
            field = next(
                field
                for field in batch.annotate(index).fields
                if field.name == look_up.name and field.offset == look_up.offset
            )
            self._looked_up[key] = self._texts.fragment(look_up.text(field))
        return self._looked_up[key]

    def endpoints(self, connection: int, direction: int, batch: MessageBatch) -> int:
        """Returns the number of the text that names both ends and the direction."""
        key = (connection, direction)
        if key not in self._endpoints:
            self._endpoints[key] = self._texts.fragment(
                self.endpoints_text(connection, direction, batch)
            )
        return self._endpoints[key]

    def collection(self, number: int, state: int, name: str) -> tuple[int, int]:
        """Returns the numbers of texts that name a collection, and that say what its id means."""
        known_name = None if name == unnamed(number) else with_id(name, number)
        meaning = collection_name(number, STATE_NAMES[state], known_name)
        return self._texts.fragment(self.collection_text(name)), self._texts.fragment(
            self.collection_text(meaning)
        )


def datatype_of(message: Message) -> int:
    """Returns the datatype bits of a message; 0 if it has no header."""
    return message.header.datatype if message.header is not None else 0


def encoding_of(message: Message) -> str:
    """Returns the encoding that the datatype promises; a message that breaks the promise is written
    in the ordinary way.
    """
    return "json" if datatype_of(message) & JSON else "text"
