"""What framing finds in one direction: messages, and an account of all its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, NamedTuple

import numpy as np

from dcpinspect.arrays import BoolArray, ByteArray, IntArray, grown
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.foreign import HTTP, MEMCACHED_TEXT, NAMES, TLS

MID_STREAM = "mid-stream"
BAD_MAGIC = "bad-magic"
ABSURD_BODY = "absurd-body"
HOLE = "hole"
HEADER_CUT = "header-cut"
REASONS = (MID_STREAM, BAD_MAGIC, ABSURD_BODY, HOLE, HEADER_CUT, TLS, MEMCACHED_TEXT, HTTP)
"""The reasons why bytes are skipped."""

NO_NUMBERS: IntArray = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Framed:
    """Messages of one direction, in stream order; every column has one entry for each message,
    unless said otherwise.
    """

    data: ByteArray
    """The bytes of all messages; bytes that the capture does not hold are zero."""
    start: IntArray
    """Where the message begins in ``data``."""
    length: IntArray
    """Its size in bytes on the wire, header included."""
    stream_offset: IntArray
    frame: IntArray
    """Number, in ``file``, of the first packet (in order of the reading) that gave bytes of it."""
    last_frame: IntArray
    """Number, in ``last_file``, of the last packet that gave bytes of it."""
    file: IntArray
    last_file: IntArray
    time_ns: IntArray
    """Capture time of the last packet that gave bytes of it."""
    release: IntArray
    """Number, over the whole reading, of the packet that completed it, or that made its hole or its
    trial final.
    """
    heuristic: BoolArray
    """True if the message was found by a trial that ended without proof."""
    missing_row: IntArray
    """Entry of each missing range; this column and the next two have one entry a range."""
    missing_start: IntArray
    """First missing byte, counted from the first byte of the message."""
    missing_end: IntArray
    skipped_start: IntArray = field(default_factory=lambda: NO_NUMBERS)
    """Stream offset where bytes begin that were no message; this column and the next two have one
    entry for each range.
    """
    skipped_end: IntArray = field(default_factory=lambda: NO_NUMBERS)
    skipped_reason: tuple[str, ...] = ()
    """``mid-stream``, ``bad-magic``, ``absurd-body``, ``hole`` (over a header), ``header-cut``
    (only its length was there), or the name of another protocol (foreign.py).
    """
    unfinished: int = 0
    """Bytes of a message whose end never came; only at the end of the direction."""


_NUMBERS = tuple(
    name
    for name in Framed.__match_args__
    if not name.startswith(("data", "heuristic", "skipped", "unfinished"))
)
_NO_COLUMNS: dict[str, Any] = dict.fromkeys(_NUMBERS, NO_NUMBERS)
NOTHING = Framed(data=np.empty(0, np.uint8), heuristic=np.empty(0, np.bool_), **_NO_COLUMNS)


def joined(framed_stretches: Sequence[Framed]) -> Framed:
    """Joins messages of consecutive stretches, or of several directions, over one buffer; what was
    skipped is left out.
    """
    if len(framed_stretches) < 2:
        return framed_stretches[0] if framed_stretches else NOTHING
    sizes = np.array([len(framed.data) for framed in framed_stretches], dtype=np.int64)
    counts = np.array([len(framed.start) for framed in framed_stretches], dtype=np.int64)
    shifts = {
        "start": (np.cumsum(sizes) - sizes).tolist(),
        "missing_row": (np.cumsum(counts) - counts).tolist(),
    }
    numbers: dict[str, Any] = {}
    for name in _NUMBERS:
        columns = [getattr(framed, name) for framed in framed_stretches]
        if name in shifts:
            columns = [column + shift for column, shift in zip(columns, shifts[name], strict=True)]
        numbers[name] = np.concatenate(columns)
    return Framed(
        data=np.concatenate([framed.data for framed in framed_stretches]),
        heuristic=np.concatenate([framed.heuristic for framed in framed_stretches]),
        **numbers,
    )


@dataclass(slots=True)
class FramingAccount:
    """Captured bytes of one direction by what became of them. Once it has ended they add up to the
    bytes of its chunks, without holes.
    """

    messages: int = 0
    skipped: int = 0
    unfinished: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    """``skipped`` by reason."""
    first_hole: int | None = None
    """Stream offset of the first missing byte; ``None`` if none is missing."""
    first_skipped: int | None = None
    first_fault: tuple[int, bytes] | None = None
    """The first fault: stream offset and bytes of what stood where a message should begin, after
    messages and before any hole.
    """

    def skip(self, size: int, reason: str) -> None:
        """Counts ``size`` captured bytes as skipped."""
        if size:
            self.skipped += size
            self.reasons[reason] = self.reasons.get(reason, 0) + size


class FramingSizes(NamedTuple):
    """What accounts of many directions say, as columns."""

    messages: IntArray
    skipped: IntArray
    """Skipped bytes, without those of another protocol."""
    foreign: IntArray
    """Bytes of another protocol."""
    http: IntArray
    """Those of HTTP: health probes may make as many connections as a flood."""
    unfinished: IntArray
    has_fault: BoolArray


class BriefAccounts(NamedTuple):
    """Accounts of directions that said only one thing, as columns."""

    number: IntArray
    messages: IntArray
    unfinished: IntArray
    skipped: IntArray
    """Bytes skipped from their first byte on."""
    reason: IntArray
    """Place in ``REASONS`` of the reason for skipping."""


_FOREIGN, _HTTP = [REASONS.index(name) for name in sorted(NAMES)], REASONS.index(HTTP)
_SIZE_BITS = 24
_SAID, _BEGAN, _SKIPPED = 1, 2, 3
"""What a direction did that did only one thing; numbers from the last one on also tell the reason.
"""
TOGETHER = 1 << 16
"""Number of accounts that are looked at together."""


class Accounts:
    """The accounts of directions, by number. Those of directions that said only one thing take four
    bytes each.
    """

    def __init__(self) -> None:
        self._whole: dict[int, FramingAccount] = {}
        # of others, what each did, and with how many bytes; 0: nothing
        self._brief = np.zeros(64, np.uint32)
        self.left = (FramingAccount(), FramingAccount())
        """By direction, the sums of accounts that have left."""

    def keep(self, number: int, account: FramingAccount) -> None:
        """Keeps a copy of an account."""
        if number >= len(self._brief):
            self._brief = grown(self._brief, number + 1)
        code = _code(account)
        is_brief = account == _account(code)
        self._brief[number] = code if is_brief else 0
        if is_brief:
            self._whole.pop(number, None)
        else:
            self._whole[number] = replace(account, reasons=dict(account.reasons))

    def put_all(self, accounts: BriefAccounts) -> None:
        """Keeps the accounts of many directions, of which none is there yet."""
        if accounts.number.max(initial=-1) >= len(self._brief):
            self._brief = grown(self._brief, int(accounts.number.max()) + 1)
        did = np.where(
            accounts.skipped > 0,
            _SKIPPED + accounts.reason,
            np.where(accounts.unfinished > 0, _BEGAN, _SAID),
        )
        self._brief[accounts.number] = (
            did << _SIZE_BITS | accounts.messages + accounts.unfinished + accounts.skipped
        )

    def leave(self, numbers: Sequence[int]) -> None:
        """Drops accounts that nobody asks for any more; ``left`` adds them up."""
        for number in numbers:
            account, total = self.get(number), self.left[number % 2]
            total.messages = total.messages + account.messages
            total.unfinished = total.unfinished + account.unfinished
            for reason, size in account.reasons.items():
                total.skip(size, reason)
            self._whole.pop(number, None)
        self._brief[[number for number in numbers if number < len(self._brief)]] = 0

    def sizes(self, numbers: IntArray) -> FramingSizes:
        """Returns the sizes of the directions with these numbers, in order."""
        pieces = [
            self._sizes(numbers[begin : begin + TOGETHER])
            for begin in range(0, max(1, len(numbers)), TOGETHER)
        ]
        return FramingSizes(*(np.concatenate(columns) for columns in zip(*pieces, strict=True)))

    def _sizes(self, numbers: IntArray) -> FramingSizes:
        code = np.where(
            numbers < len(self._brief), self._brief[np.minimum(numbers, len(self._brief) - 1)], 0
        ).astype(np.int64)
        did, size = code >> _SIZE_BITS, code & (1 << _SIZE_BITS) - 1
        foreign = size * np.isin(did - _SKIPPED, _FOREIGN)
        has_fault = np.zeros(len(numbers), np.bool_)
        http, begun = size * (did == _SKIPPED + _HTTP), size * (did == _BEGAN)
        messages, skipped = size * (did == _SAID), size * (did >= _SKIPPED) - foreign
        for index, number in enumerate(numbers.tolist() if self._whole else ()):
            if (account := self._whole.get(number)) is not None:
                foreign[index] = sum(account.reasons.get(name, 0) for name in NAMES)
                http[index] = account.reasons.get(HTTP, 0)
                messages[index], begun[index] = account.messages, account.unfinished
                skipped[index] = account.skipped - foreign[index]
                has_fault[index] = account.first_fault is not None
        return FramingSizes(messages, skipped, foreign, http, begun, has_fault)

    def strange(self, number: int) -> int:
        """Returns the bytes of a direction that said only one thing, no message; else 0."""
        code = int(self._brief[number]) if number < len(self._brief) else 0
        return code & (1 << _SIZE_BITS) - 1 if code >> _SIZE_BITS >= _SKIPPED else 0

    def get(self, number: int) -> FramingAccount:
        """Returns the account that was put in; an empty account if there was none."""
        code = int(self._brief[number]) if number < len(self._brief) else 0
        return _account(code) if code else self._whole.get(number) or FramingAccount()


def _code(account: FramingAccount) -> int:
    """Returns what a direction did that said only one thing, and with how many bytes."""
    did, size = _SAID, account.messages
    if account.unfinished:
        did, size = _BEGAN, account.unfinished
    for reason in account.reasons:
        did, size = _SKIPPED + REASONS.index(reason), account.skipped
    return did << _SIZE_BITS | size if 0 < size < 1 << _SIZE_BITS else 0


def _account(code: int) -> FramingAccount:
    """Returns the account of a direction that said only one thing; an empty one for 0."""
    did, size = code >> _SIZE_BITS, code & (1 << _SIZE_BITS) - 1
    if did >= _SKIPPED:
        reasons = {REASONS[did - _SKIPPED]: size}
        return FramingAccount(skipped=size, reasons=reasons, first_skipped=0)
    return FramingAccount(unfinished=size) if did == _BEGAN else FramingAccount(size)
