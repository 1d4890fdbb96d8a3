"""The usual conditions for showing messages, evaluated on columns."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dcpinspect.arrays import Array, BoolArray
from dcpinspect.errors import UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.opcodes import Opcode, ServerOpcode, opcode_code
from dcpinspect.protocol.statuses import SUCCESS_CLASS, Status
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.short_columns import ShortTexts, short_column
from dcpinspect.text import did_you_mean, escape

if TYPE_CHECKING:
    from dcpinspect.tables.filter_rows import FilterRows
    from dcpinspect.tables.times import TimeSpan


@dataclass(frozen=True, slots=True)
class Commands:
    """Opcodes of both tables."""

    client: frozenset[int]
    server: frozenset[int]


@dataclass(frozen=True, slots=True)
class Collections:
    """Collections by id and by name."""

    numbers: tuple[range, ...] = ()
    names: frozenset[str] = frozenset()
    """Whole names, as in the column, or names without the scope."""

    def rows(self, batch: MessageBatch) -> BoolArray:
        """Returns which messages belong to these collections."""
        ids = batch.decoded.collection_id
        keep = within(ids.values, self.numbers)
        if (
            self.names
            and (column := short_column(batch, np.arange(len(batch)), "collection")) is not None
        ):
            assert isinstance(column, ShortTexts), "collections have names"
            is_named = [
                text is not None and not self.names.isdisjoint((text, text.partition(".")[2]))
                for text in column.texts
            ]
            keep |= np.array(is_named, dtype=np.bool_)[column.numbers]
        return keep & ids.is_known


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions that a message must meet, all of them; one that is not set is always met."""

    numbers: tuple[range, ...] = ()
    """Ranges of rows."""
    vbuckets: tuple[range, ...] = ()
    """Ranges of the vbuckets that messages are about; HELLO is about none, although the vbucket of
    its header is 0.
    """
    commands: Commands | None = None
    connections: tuple[range, ...] = ()
    keys: re.Pattern[str] | None = None
    statuses: tuple[range, ...] = ()
    collections: Collections | None = None
    filter: FilterRows | None = None
    span: TimeSpan | None = None

    def prepare(self) -> None:
        """Loads what the first batch would otherwise wait for."""
        if self.filter is not None:
            self.filter.prepare()

    def rows(self, batch: MessageBatch) -> RowNumbers:
        """Returns the indices of the messages of a batch that meet every condition, in order."""
        keep: BoolArray = np.ones(len(batch), dtype=np.bool_)
        decoded = batch.decoded
        if self.span is not None:
            since, until = self.span.bounds(batch.origin_ns)
            keep &= (batch.time_ns >= since) & (batch.time_ns < until)
        if self.numbers:
            keep &= within(batch.row, self.numbers)
        if self.vbuckets:
            about = batch.vbuckets_of(np.arange(len(batch)))
            keep &= within(about.values, self.vbuckets) & about.is_known
        if self.commands is not None:
            client, server = np.zeros(256, dtype=np.bool_), np.zeros(256, dtype=np.bool_)
            client[list(self.commands.client)] = True
            server[list(self.commands.server)] = True
            keep &= np.where(decoded.is_server, server[decoded.opcode], client[decoded.opcode])
        if self.connections:
            keep &= within(batch.connection, self.connections)
        if self.statuses:
            keep &= decoded.is_response & within(decoded.specific, self.statuses)
        if self.collections is not None:
            keep &= self.collections.rows(batch)
        if self.keys is not None:
            keep &= decoded.key.size >= 0
            for index in np.flatnonzero(keep).tolist():
                key = batch.key_of(index)
                keep[index] = (
                    key is not None
                    and self.keys.match(key.decode(errors="surrogateescape")) is not None
                )
        rows = np.flatnonzero(keep)
        return rows if self.filter is None else self.filter.rows(batch, rows)


def within(values: Array, ranges: Sequence[range]) -> BoolArray:
    """Returns which of the values are in one of the ranges."""
    keep = np.zeros(len(values), dtype=np.bool_)
    for span in ranges:
        keep |= (values >= span.start) & (values < span.stop)
    return keep


def number_ranges(text: str, option: str, *, limit: int) -> tuple[range, ...]:
    """Parses ``1,5-9,0x1f`` to ranges. Raises UsageError."""
    ranges = []
    for piece in text.split(","):
        low, dash, high = piece.strip().partition("-")
        try:
            first = int(low, 0)
            last = int(high, 0) if dash else first
        except ValueError:
            raise UsageError(
                f"{option} {text!r}: {piece.strip()!r} is no number; write numbers and ranges, "
                "such as 1,5-9"
            ) from None
        if first > last:
            raise UsageError(
                f"{option} {text!r}: {piece.strip()!r} ends before it begins; write "
                f"{high.strip()}-{low.strip()}"
            )
        if not 0 <= first <= last <= limit:
            raise UsageError(f"{option} {text!r}: {piece.strip()!r} is not within 0-{limit}")
        ranges.append(range(first, last + 1))
    return tuple(ranges)


def collections(texts: str) -> Collections:
    """Parses collections: ids, ranges of ids, names, or names with scope. Raises UsageError."""
    numbers: list[range] = []
    names: set[str] = set()
    for text in (piece.strip() for piece in texts.split(",")):
        if _IDS.fullmatch(text):
            numbers += number_ranges(text, "--collection", limit=0xFFFF_FFFF)
        elif _COLLECTION.fullmatch(text):
            names.add(text)
        else:
            advice = "write ids or names, as in 0x8,fruit,produce.fruit"
            raise UsageError(
                f"--collection {escape(texts)}: {escape(text) or 'nothing'} is neither an id "
                f"nor a name; {advice}"
            )
    return Collections(tuple(numbers), frozenset(names))


_ID = r"(0[xX][0-9a-fA-F]+|[0-9]+)"
_IDS = re.compile(f"{_ID}(-{_ID})?")
_COLLECTION = re.compile(r"([A-Za-z0-9_%-]+\.)?[A-Za-z0-9_%][A-Za-z0-9_%-]*")


def commands(names: str) -> Commands:
    """Parses commands: full names, short names, or numbers, which count in both tables.

    Raises UsageError for unknown names, and for short names of two commands.
    """
    client: set[int] = set()
    server: set[int] = set()
    for text in names.split(","):
        name = text.strip().lower().replace("-", "_")
        number = _number(name)
        plain = opcode_code(name)
        dcp = opcode_code(f"dcp_{name}")
        of_server = opcode_code(name, server=True)
        code = dcp if plain is None else plain
        if plain is not None and dcp is not None:
            raise UsageError(
                f"--opcode {name} may mean {name} (0x{plain:02x}) or dcp_{name} (0x{dcp:02x}); "
                f"write the number or dcp_{name}"
            )
        if number is not None:
            client.add(number)
            server.add(number)
        elif of_server is not None:
            server.add(of_server)
        elif code is not None:
            client.add(code)
        else:
            # TAP is what DCP replaced: nobody means it who does not name it
            names_meant = [
                meant for meant in _NAMES if name[:3] == meant[:3] or meant[:4] != "tap_"
            ]
            like = " or ".join(dcp_commands_like(name))
            meant_text = f"; did you mean {like}?" if like else did_you_mean(name, names_meant)
            raise UsageError(f"--opcode {escape(name)}: no command has this name{meant_text}")
    return Commands(frozenset(client), frozenset(server))


def dcp_commands_like(name: str) -> list[str]:
    """Returns the commands of DCP that have a word in their names, or else a name like it."""
    import difflib  # deferred: only a mistake needs it

    short_names = [meant.removeprefix("dcp_") for meant in _NAMES if meant.startswith("dcp_")]
    words = [_MEANT.get(word, word) for word in name.removeprefix("dcp_").split("_")]
    name = "_".join(words)
    close = [short for short in short_names if f"_{name}_" in f"_{short}_"]
    close.sort(key=lambda short: not short.startswith(name))
    close = close or difflib.get_close_matches(name, short_names, n=2, cutoff=0.7)
    return [f"dcp_{short}" for short in close[:2]]


_MEANT = {
    **dict.fromkeys(("ack", "acks"), "acknowledgement"),
    **dict.fromkeys(("delete", "deletes", "deleted"), "deletion"),
}
"""Words of names of commands by what people write in their place."""
_NAMES = [op.name.lower() for op in Opcode] + [op.name.lower() for op in ServerOpcode]


def _number(name: str) -> int | None:
    """Returns the number in a name, also as in ``opcode_0x7e``, or None."""
    try:
        number = int(name.removeprefix("opcode_"), 0)
    except ValueError:
        return None
    if 0 <= number <= 0xFF:
        return number
    raise UsageError(f"--opcode {name}: opcodes are 0x00 to 0xff")


def statuses(texts: str) -> tuple[range, ...]:
    """Parses statuses: names, numbers or ranges; ``error`` means all that are not successful.
    Raises UsageError.
    """
    ranges: list[range] = []
    for text in texts.split(","):
        name = text.strip().lower().replace("-", "_")
        if name == "error":
            edges = sorted(_DONE)
            ranges += [
                range(low + 1, high) for low, high in zip(edges, [*edges[1:], 0x10000], strict=True)
            ]
        elif name in _STATUSES:
            ranges.append(range(_STATUSES[name], _STATUSES[name] + 1))
        elif name[:1].isdigit():
            ranges += number_ranges(text, "--status", limit=0xFFFF)
        else:
            raise UsageError(
                f"--status {escape(text.strip())}: no status has this "
                f"name{did_you_mean(name, list(_STATUSES))}"
            )
    return tuple(ranges)


# a rollback and a partial failure have the payload of a success, but are none
_DONE = SUCCESS_CLASS - {
    Status.ROLLBACK,
    Status.SUBDOC_MULTI_PATH_FAILURE,
    Status.SUBDOC_MULTI_PATH_FAILURE_DELETED,
}
_STATUSES = {**{status.name.lower(): int(status) for status in Status}, "ok": int(Status.SUCCESS)}


def key_pattern(glob: str) -> re.Pattern[str]:
    """Returns the pattern of a glob (``user::*``) over whole keys, case-sensitive."""
    return re.compile(fnmatch.translate(glob))
