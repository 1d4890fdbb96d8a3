"""Framed messages to columns, in bulk: the same layouts that ``annotate`` explains, without an object a message.

Messages of one command, side, status and lengths share a layout, so the work is done a group at a time:
choose the layout once, cut each of its fields out of a byte matrix, scatter it into its column.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dcpinspect.protocol.choose import VALUE_RULES, Choice, choose
from dcpinspect.protocol.columns import Array, Mask, Numbers, Rows, Slices, big_endian, gather
from dcpinspect.protocol.features import COLLECTIONS
from dcpinspect.protocol.fields import Field, Kind
from dcpinspect.protocol.header import HEADER_SIZE, MAX_BODY, Header, Magic
from dcpinspect.protocol.layouts import LAYOUTS, layouts_of
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.session import CollectionsState, Fact, Sessions

LAYOUT_NUMBERS = {id(layout): number for number, layout in enumerate(LAYOUTS)}
ERROR_LAYOUT = len(LAYOUTS)
"""Number that stands for the body of a refused request."""
NO_LAYOUT = -1

PROBLEMS = (
    "",
    "bad-magic",
    "length-mismatch",
    "undefined-datatype",
    "oversized-body",
    "extras-length",
    "refused-payload",
    "value-length",
    *sorted(set(VALUE_RULES.values())),
    "undeclared-stream-id",
    "bad-collection-prefix",
    "truncated",
)
"""Rules that the columns alone show; the column ``problem`` holds the first that a message breaks."""
_PROBLEM = {rule: number for number, rule in enumerate(PROBLEMS)}

_PROOF = (Opcode.DCP_SEQNO_ADVANCED, Opcode.DCP_OSO_SNAPSHOT)
"""Messages that only exist with collections on."""


@dataclass(slots=True)
class Decoded:
    """Columns of a run of messages, one entry a message."""

    magic: Array
    opcode: Array
    is_response: Mask
    is_server: Mask
    datatype: Array
    specific: Array
    """Bytes 6-7: vbucket of a request, status of a response."""
    body_size: Rows
    opaque: Array
    cas: Array
    framing_size: Rows
    extras_size: Rows
    key: Slices
    """Key without collection id, as a place in the buffer."""
    value: Slices
    layout: Rows
    """Number in LAYOUTS, ERROR_LAYOUT or NO_LAYOUT."""
    extras_fit: Mask
    """False: the layout is only the nearest; extras are raw bytes."""
    fits: Mask
    """False: extras or value are raw bytes."""
    problem: npt.NDArray[np.uint8]
    collection_id: Numbers
    sid: Numbers
    collections: npt.NDArray[np.int8]
    """CollectionsState that the row was read with."""
    underlying_datatype: Mask
    numbers: dict[str, Numbers] = field(default_factory=dict)
    """Message-specific columns that have a value somewhere in the batch."""

    def __len__(self) -> int:
        return len(self.magic)


class _Sparse:
    """A number column that is filled a group of rows at a time."""

    def __init__(self, rows: int) -> None:
        self.values = np.zeros(rows, dtype=np.uint64)
        self.valid = np.zeros(rows, dtype=np.bool_)

    def put(self, rows: Rows, values: Array) -> None:
        self.values[rows] = values
        self.valid[rows] = True

    def column(self) -> Numbers:
        return Numbers(self.values, self.valid)


def decode(data: npt.NDArray[np.uint8], start: Rows, connection: Rows, incomplete: Mask, sessions: Sessions) -> Decoded:
    """Columns of the messages that begin at ``start``, in row order.

    ``data`` holds all of each message, with zeros for what the capture lacks (``incomplete`` rows).
    """
    rows = len(start)
    header = gather(data, start, HEADER_SIZE)
    magic = header[:, 0]
    is_flex = (magic == Magic.FLEX_REQUEST) | (magic == Magic.FLEX_RESPONSE)
    is_response = (magic == Magic.RESPONSE) | (magic == Magic.FLEX_RESPONSE) | (magic == Magic.SERVER_RESPONSE)
    is_server = (magic == Magic.SERVER_REQUEST) | (magic == Magic.SERVER_RESPONSE)
    opcode = header[:, 1]
    extras_size = header[:, 4].astype(np.int64)
    framing_size = np.where(is_flex, header[:, 2], 0).astype(np.int64)
    key_size = np.where(is_flex, header[:, 3].astype(np.uint64), big_endian(header, 2, 2)).astype(np.int64)
    body_size = big_endian(header, 8, 4).astype(np.int64)
    datatype = header[:, 5]
    problem = np.zeros(rows, dtype=np.uint8)

    quirk = _undeclared_stream_ids(data, start, magic, opcode, extras_size, framing_size, key_size, body_size)
    framing_size = np.where(quirk, 3, framing_size)
    problem[quirk] = _PROBLEM["undeclared-stream-id"]
    value_size = body_size - framing_size - extras_size - key_size
    divided = value_size >= 0
    extras_at = start + HEADER_SIZE + framing_size
    key_at = extras_at + extras_size

    known = np.isin(magic, np.array(list(Magic), dtype=np.uint8))
    divided &= known
    problem[body_size > MAX_BODY] = _PROBLEM["oversized-body"]
    problem[datatype > 7] = _PROBLEM["undefined-datatype"]
    problem[value_size < 0] = _PROBLEM["length-mismatch"]
    problem[~known] = _PROBLEM["bad-magic"]

    decoded = Decoded(
        magic=magic,
        opcode=opcode,
        is_response=is_response,
        is_server=is_server,
        datatype=datatype,
        specific=big_endian(header, 6, 2),
        body_size=body_size,
        opaque=big_endian(header, 12, 4),
        cas=big_endian(header, 16, 8),
        framing_size=framing_size,
        extras_size=extras_size,
        key=Slices(key_at, np.where(divided & (key_size > 0), key_size, -1)),
        value=Slices(key_at + key_size, np.where(divided, value_size, 0)),
        layout=np.full(rows, NO_LAYOUT, dtype=np.int64),
        extras_fit=np.zeros(rows, dtype=np.bool_),
        fits=np.zeros(rows, dtype=np.bool_),
        problem=problem,
        collection_id=Numbers(np.zeros(0), None),
        sid=Numbers(np.zeros(0), None),
        collections=np.zeros(rows, dtype=np.int8),
        underlying_datatype=np.zeros(rows, dtype=np.bool_),
    )
    has_document_key = np.zeros(rows, dtype=np.bool_)
    columns = _group_fields(data, decoded, extras_at, divided, has_document_key)
    _sessions(data, decoded, connection, columns, sessions, has_document_key)
    _document_keys(data, decoded, has_document_key, columns)
    decoded.sid = _stream_ids(data, decoded, start)
    decoded.problem[incomplete & (decoded.problem == 0)] = _PROBLEM["truncated"]
    collection = columns.pop("collection_id", None)
    decoded.collection_id = collection.column() if collection is not None else Numbers(np.zeros(rows), np.zeros(rows, dtype=np.bool_))
    decoded.numbers = {name: sparse.column() for name, sparse in columns.items()}
    return decoded


def _undeclared_stream_ids(
    data: npt.NDArray[np.uint8],
    start: Rows,
    magic: Array,
    opcode: Array,
    extras_size: Rows,
    framing_size: Rows,
    key_size: Rows,
    body_size: Rows,
) -> Mask:
    """The rows with the server fault that ``annotate.undeclared_stream_id`` describes."""
    deletion = (opcode == Opcode.DCP_DELETION) & (extras_size == 21)
    expiration = (opcode == Opcode.DCP_EXPIRATION) & (extras_size == 20)
    suspect = (magic == Magic.FLEX_REQUEST) & (framing_size == 0) & (deletion | expiration) & (body_size >= 3 + extras_size + key_size)
    rows = np.flatnonzero(suspect)
    suspect[rows] = data[start[rows] + HEADER_SIZE] == 0x22
    return np.asarray(suspect, dtype=np.bool_)


def _group_fields(
    data: npt.NDArray[np.uint8], decoded: Decoded, extras_at: Rows, divided: Mask, has_document_key: Mask
) -> dict[str, _Sparse]:
    """Choose the layout of every row and fill the columns of its numbers."""
    status = np.where(decoded.is_response, decoded.specific, 0).astype(np.int64)
    group = (
        (decoded.is_server.astype(np.int64) << 33)
        | (decoded.is_response.astype(np.int64) << 32)
        | (decoded.opcode.astype(np.int64) << 24)
        | (decoded.extras_size << 16)
        | status
    )
    columns: dict[str, _Sparse] = {}
    for rows in _split(np.flatnonzero(divided), group):
        first = int(rows[0])
        magic, extras_size = int(decoded.magic[first]), int(decoded.extras_size[first])
        header = Header(magic, int(decoded.opcode[first]), 0, 0, extras_size, 0, int(status[first]), 0, 0, 0)
        extras = gather(data, extras_at[rows], extras_size)
        for part in _split(np.arange(len(rows), dtype=np.int64), _distinctions(header, extras, decoded.value.size[rows])):
            one = int(part[0])
            choice = choose(header, extras[one].tobytes(), int(decoded.value.size[rows[one]]))
            _fill(data, decoded, rows[part], extras[part], choice, columns, has_document_key)
    return columns


def _split(rows: Rows, group: Rows) -> list[Rows]:
    """Rows with equal numbers in ``group`` together, each run in row order."""
    order = rows[np.argsort(group[rows], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(order) else []


def _distinctions(header: Header, extras: npt.NDArray[np.uint8], value_size: Rows) -> Rows:
    """A number for each row of one command, status and extras length: rows with equal ones have the same layout.

    Layouts differ by value lengths that they fix, by whether there is a value, and by numbers in the extras.
    """
    layouts = layouts_of(header.opcode, header.side, server=header.is_server)
    sizes = np.array(sorted({size for layout in layouts if (size := layout.value_size)}), dtype=np.int64)
    place = np.searchsorted(sizes, value_size)
    known = np.append(sizes, -1)[place] == value_size
    distinction = np.where(known, place + 2, np.where(value_size > 0, 1, 0)).astype(np.int64)
    for offset, size in sorted(
        {(offset, size) for layout in layouts for offset, size, _ in layout.when if offset + size <= header.extras_size}
    ):
        _, inverse = np.unique(big_endian(extras, offset, size), return_inverse=True)
        _, distinction = np.unique(distinction * (len(inverse) + 1) + inverse, return_inverse=True)
    return distinction


def _fill(
    data: npt.NDArray[np.uint8],
    decoded: Decoded,
    rows: Rows,
    extras: npt.NDArray[np.uint8],
    choice: Choice,
    columns: dict[str, _Sparse],
    has_document_key: Mask,
) -> None:
    """Write what a choice says about its rows: layout, problem, numbers."""
    layout = choice.layout
    if choice.rule:
        decoded.problem[rows[decoded.problem[rows] == 0]] = _PROBLEM[choice.rule]
    if layout is None:
        return
    decoded.layout[rows] = LAYOUT_NUMBERS.get(id(layout), ERROR_LAYOUT)
    decoded.extras_fit[rows] = choice.extras_fit
    decoded.fits[rows] = choice.extras_fit and choice.value_fits
    has_document_key[rows] = layout.key is not None and layout.key.kind is Kind.KEY
    if not layout.columns or not choice.extras_fit:
        return
    _scatter(rows, extras, layout.extras, columns, len(decoded))
    size = layout.value_size
    if choice.value_fits and size:
        full = rows[decoded.value.size[rows] == size]
        fields = tuple(item for item in layout.value if isinstance(item, Field))
        _scatter(full, gather(data, decoded.value.start[full], size), fields, columns, len(decoded))


def _scatter(rows: Rows, block: npt.NDArray[np.uint8], fields: tuple[Field, ...], columns: dict[str, _Sparse], total: int) -> None:
    for spec in fields:
        if spec.reserved or not spec.kind.size:
            continue
        values = big_endian(block, spec.offset, spec.kind.size)
        for name in (spec.name, spec.alias):
            if name:
                if name not in columns:
                    columns[name] = _Sparse(total)
                columns[name].put(rows, values)


def _sessions(
    data: npt.NDArray[np.uint8],
    decoded: Decoded,
    connection: Rows,
    columns: dict[str, _Sparse],
    sessions: Sessions,
    has_document_key: Mask,
) -> None:
    """Let HELLO, open and what proves collections speak; then every row knows how to be read."""
    client = ~decoded.is_server
    facts: list[Fact] = []
    hello = np.flatnonzero(client & decoded.is_response & (decoded.opcode == Opcode.HELLO) & (decoded.specific == 0) & decoded.fits)
    for row in hello.tolist():
        at, size = int(decoded.value.start[row]), int(decoded.value.size[row])
        granted = data[at : at + size // 2 * 2].view(">u2")
        state = CollectionsState.ON if bool((granted == COLLECTIONS).any()) else CollectionsState.OFF
        facts.append(Fact(row, int(connection[row]), state))
    opened = np.flatnonzero(client & ~decoded.is_response & (decoded.opcode == Opcode.DCP_OPEN) & decoded.fits)
    if len(opened):
        flags = columns["flags"].values[opened]
        facts += [
            Fact(row, int(connection[row]), underlying_datatype=bool(flag & 0x40))
            for row, flag in zip(opened.tolist(), flags.tolist(), strict=True)
        ]
    unknown = sessions.unknown(connection)
    if unknown.any():
        proof = np.flatnonzero(unknown & client & ~decoded.is_response & _proves_collections(data, decoded, has_document_key))
        _, first = np.unique(connection[proof], return_index=True)
        facts += [Fact(int(row), int(connection[row]), CollectionsState.INFERRED, evidence=True) for row in proof[first]]
    facts.sort(key=lambda fact: fact.row)
    decoded.collections, decoded.underlying_datatype = sessions.apply(connection, facts)


def _proves_collections(data: npt.NDArray[np.uint8], decoded: Decoded, has_document_key: Mask) -> Mask:
    """Rows that would not be what they are with collections off."""
    opcode = decoded.opcode
    proof = np.isin(opcode, np.array(_PROOF, dtype=np.uint8)) & decoded.fits
    proof |= (opcode == Opcode.DCP_SYSTEM_EVENT) & (decoded.extras_size == 13) & decoded.fits
    proof |= (opcode == Opcode.DCP_STREAM_REQ) & (decoded.value.size > 0) & decoded.fits
    # A bare key begins with a letter, a digit or a sign; ids of collections begin with 0x00 or, from 8 up, a control character.
    keyed = np.flatnonzero(has_document_key & (decoded.key.size > 1))
    first = data[decoded.key.start[keyed]]
    proof[keyed] |= (first == 0) | ((first >= 8) & (first < 0x20))
    return np.asarray(proof, dtype=np.bool_)


def _document_keys(data: npt.NDArray[np.uint8], decoded: Decoded, has_document_key: Mask, columns: dict[str, _Sparse]) -> None:
    """Split the collection id off every document key of a connection with collections."""
    on = (decoded.collections == CollectionsState.ON) | (decoded.collections == CollectionsState.INFERRED)
    rows = np.flatnonzero(has_document_key & on & (decoded.key.size > 0))
    if not len(rows):
        return
    at, size = decoded.key.start[rows], decoded.key.size[rows]
    number = np.zeros(len(rows), dtype=np.uint64)
    used = np.zeros(len(rows), dtype=np.int64)
    open_ = np.ones(len(rows), dtype=np.bool_)
    bad = np.zeros(len(rows), dtype=np.bool_)
    for index in range(5):
        inside = open_ & (index < size)
        byte = np.zeros(len(rows), dtype=np.uint64)
        byte[inside] = data[at[inside] + index]
        number[inside] |= (byte[inside] & np.uint64(0x7F)) << np.uint64(7 * index)
        last = inside & (byte < 0x80)
        used[last] = index + 1
        if index:
            bad |= last & (byte == 0)
        open_ &= ~last
    bad |= open_ | (number > 0xFFFF_FFFF) | ((number >= 1) & (number <= 7)) | (used == size)
    good = rows[~bad]
    if len(good):
        columns.setdefault("collection_id", _Sparse(len(decoded))).put(good, number[~bad])
        decoded.key.start[good] += used[~bad]
        decoded.key.size[good] -= used[~bad]
    wrong = rows[bad]
    decoded.problem[wrong[decoded.problem[wrong] == 0]] = _PROBLEM["bad-collection-prefix"]


def _stream_ids(data: npt.NDArray[np.uint8], decoded: Decoded, start: Rows) -> Numbers:
    """The DCP stream-id of every request that has one."""
    sid = _Sparse(len(decoded))
    rows = np.flatnonzero((decoded.framing_size > 0) & ~decoded.is_response)
    if len(rows):
        at = start[rows] + HEADER_SIZE
        simple = (decoded.framing_size[rows] == 3) & (data[at] == 0x22)
        sid.put(rows[simple], big_endian(gather(data, at[simple] + 1, 2), 0, 2))
        for row in rows[~simple].tolist():
            found = _stream_id_among(bytes(data[start[row] + HEADER_SIZE : start[row] + HEADER_SIZE + decoded.framing_size[row]]))
            if found is not None:
                sid.put(np.array([row]), np.array([found]))
    return sid.column()


def _stream_id_among(framing: bytes) -> int | None:
    from dcpinspect.protocol.flex import STREAM_ID, decode_frames

    frames, _ = decode_frames(framing)
    return next((int.from_bytes(frame.data, "big") for frame in frames if frame.id == STREAM_ID and len(frame.data) == 2), None)
