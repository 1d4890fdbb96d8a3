"""Rules about one message against its layout: predicates over the columns of a batch.

What the columns show is counted in bulk. Only the few messages that a finding shows are divided
into fields.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np

from dcpinspect.arrays import Array, BoolArray, unique
from dcpinspect.findings.finding import Candidates
from dcpinspect.findings.rule import SEVERITIES
from dcpinspect.findings.rule_set import RuleSet
from dcpinspect.findings.value_rules import broken_values
from dcpinspect.findings.wire_rules import BROKEN, RULES
from dcpinspect.protocol.annotate import unknown_opcode
from dcpinspect.protocol.column_types import RowNumbers, numbers_at
from dcpinspect.protocol.fields import Field, bit_names
from dcpinspect.protocol.flags import (
    ACTIVE_ONLY,
    CACHE_TRANSFER,
    OPEN_FLAGS,
    SNAPSHOT_FLAGS,
    STREAM_FLAGS,
    TAKEOVER,
    VBUCKET_STATES,
)
from dcpinspect.protocol.flex import framing_faults
from dcpinspect.protocol.header import HEADER_SIZE, Magic
from dcpinspect.protocol.header_columns import HEADER_RULES
from dcpinspect.protocol.layouts import DCP, LAYOUTS
from dcpinspect.protocol.message import Severity
from dcpinspect.protocol.opcodes import Opcode, Trait
from dcpinspect.protocol.roles import opcodes_with
from dcpinspect.protocol.session import CollectionsState
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams.session import readable
from dcpinspect.tables.messages import MessageBatch

HUGE_SEQNO = np.uint64(1 << 48)

_SEQNO_BEARERS = np.flatnonzero(opcodes_with(Trait.SEQNO)).tolist()


def candidates(batch: MessageBatch, vbucket: int | None = None) -> Iterator[Candidates]:
    """Yields all messages that break a rule of this module, rule by rule, with rows in order.

    ``vbucket``: values of other ones are not read; None: all are.
    """
    is_readable, is_known = readable(batch), np.ones(len(batch), dtype=np.bool_)
    is_known[batch.missing.row[_may_hide_stream_id(batch)]] = False
    is_read = is_known if vbucket is None else is_known & (batch.vbucket.values == vbucket)
    looks = (
        _malformed(batch, is_readable),
        broken_values(batch, is_read),
        _flags(batch, is_readable),
        _numbers(batch, is_readable),
        _rollbacks(batch, is_readable),
        _logs(batch, is_readable),
        _holed(batch, is_known & ~is_readable),
    )
    return (
        wire_candidates
        for wire_candidates in chain.from_iterable(looks)
        if len(wire_candidates.rows)
    )


def _malformed(batch: MessageBatch, looked_at: BoolArray) -> Iterator[Candidates]:
    """Yields what an annotation tells, too."""
    yield from _problems(batch, looked_at)
    yield from _commands(batch, looked_at)
    yield from _layouts(batch, looked_at)
    for severity, rows in faulty_frames(batch, looked_at).items():
        yield Candidates("bad-framing-extras", np.array(rows, dtype=np.int64), severity=severity)


def _candidates(
    rule: str,
    mask: BoolArray,
    words: Callable[[int], str] | str | None = None,
    seqnos: Callable[[int], tuple[int, ...]] | None = None,
) -> Candidates:
    return Candidates(rule, np.flatnonzero(mask), words, seqnos=seqnos)


def _problems(batch: MessageBatch, looked_at: BoolArray) -> Iterator[Candidates]:
    """Yields messages whose header alone shows a fault."""
    decoded = batch.decoded
    for bit, rule in HEADER_RULES.items():
        yield _candidates(rule, looked_at & ((decoded.header_faults & bit) != 0))
    yield _candidates("bad-collection-prefix", looked_at & decoded.has_bad_prefix)


def _layouts(batch: MessageBatch, looked_at: BoolArray) -> Iterator[Candidates]:
    """Yields messages that break the layout of their command in extras, key or value, and commands
    without a layout.
    """
    decoded = batch.decoded
    rows_of_rule: dict[str, list[RowNumbers]] = {}
    for group in decoded.groups:
        choice, rows = group.choice, group.rows[looked_at[group.rows]]
        if choice.broken:
            rows_of_rule.setdefault(choice.broken, []).append(rows)
        if choice.rule_of_empty:
            rows_of_rule.setdefault(choice.rule_of_empty, []).append(
                rows[decoded.value.size[rows] == 0]
            )
        has_key = decoded.key.size[rows] > 0
        for is_there in (True, False):
            if choice.odd_key(is_there=is_there):
                rows_of_rule.setdefault("unexpected-section", []).append(rows[has_key == is_there])
    for rule, row_parts in rows_of_rule.items():
        rows = unique(np.concatenate(row_parts))
        yield Candidates(rule, rows)


def _commands(batch: MessageBatch, looked_at: BoolArray) -> Iterator[Candidates]:
    """Yields commands that nobody described, in the table of their magic."""
    decoded = batch.decoded
    for severity, is_unknown in _UNKNOWN.items():
        mask = (
            decoded.has_magic
            & looked_at
            & is_unknown[decoded.is_server.astype(np.int64), decoded.opcode]
        )
        yield Candidates("unknown-opcode", np.flatnonzero(mask), severity=severity)


_UNKNOWN: dict[Severity, BoolArray] = {
    severity: np.array(
        [
            [unknown_opcode(code, server=server) == severity for code in range(256)]
            for server in (False, True)
        ]
    )
    for severity in SEVERITIES[1:]
}
"""For each severity, the commands that nobody described: all opcodes, clients' and servers'."""


def faulty_frames(batch: MessageBatch, mask: BoolArray) -> dict[Severity, list[int]]:
    """Returns the messages with bad framing extras, by severity. Few different ones occur, so each
    is divided only once.
    """
    decoded = batch.decoded
    severity_of: dict[tuple[bool, bytes], Severity | None] = {}
    bad: dict[Severity, list[int]] = {}
    for row in np.flatnonzero((decoded.framing_size > 0) & decoded.is_divided & mask).tolist():
        body_start = int(batch.start[row]) + HEADER_SIZE
        raw = batch.data[body_start : body_start + int(decoded.framing_size[row])].tobytes()
        key = bool(decoded.is_response[row]), raw
        if key not in severity_of and len(severity_of) < 4096:
            severity_of[key] = _worst(*key)
        severity = severity_of[key] if key in severity_of else _worst(*key)
        if severity is not None:
            bad.setdefault(severity, []).append(row)
    return bad


def _worst(is_response: bool, raw: bytes) -> Severity | None:
    faults = framing_faults("response" if is_response else "request", raw)
    return min((severity for severity, *_ in faults), key=SEVERITIES.index, default=None)


def _flags(batch: MessageBatch, is_readable: BoolArray) -> Iterator[Candidates]:
    """Yields DCP messages with unknown flags or nonzero reserved fields, layout by layout."""
    decoded = batch.decoded
    rows_of_flags: dict[int, list[RowNumbers]] = {}
    for group in decoded.groups:
        number = int(decoded.layout[group.rows[0]])
        if 0 <= number < len(DCP) and group.choice.extras_fit and group.choice.value_fits:
            rows_of_flags.setdefault(number, []).append(group.rows[is_readable[group.rows]])
    for number, row_parts in sorted(rows_of_flags.items()):
        rows, layout = np.sort(np.concatenate(row_parts), kind="stable"), LAYOUTS[number]
        value = layout.value if layout.value_size else ()
        for section, items in ((decoded.extras_at, layout.extras), (decoded.value.start, value)):
            specs = [
                spec
                for spec in items
                if isinstance(spec, Field)
                and (spec.flags or spec.reserved)
                and spec.name not in NEGOTIATED
            ]
            odd = _odd(batch, specs, rows, section)
            for spec in specs if len(odd) else ():
                yield from _bits(
                    batch,
                    spec,
                    odd,
                    numbers_at(batch.data, section[odd] + spec.offset, spec.kind.size),
                )
    yield from _combined(batch, is_readable)


def _odd(
    batch: MessageBatch, specs: Sequence[Field], rows: RowNumbers, section: RowNumbers
) -> RowNumbers:
    """Returns the rows that may have bits without a meaning. If all these fields lie in eight
    bytes, one look tells.
    """
    end = max((spec.offset + spec.kind.size for spec in specs), default=0)
    if not specs or any(spec.offset < end - 8 for spec in specs):
        return rows
    meaningless = 0
    for spec in specs:
        meaningless |= ((1 << 8 * spec.kind.size) - 1 & ~_known_bits(spec)) << 8 * (
            end - spec.offset - spec.kind.size
        )
    # the eight bytes end with the last field; a header at least comes before a section, so they
    # exist
    odd: BoolArray = (
        numbers_at(batch.data, section[rows] + (end - 8), 8) & np.uint64(meaningless)
    ) != 0
    return rows[odd]


def _known_bits(spec: Field) -> int:
    return sum(bit.mask for bit in spec.flags)


NEGOTIATED = ("nmeta", "unused")
"""Reserved fields that settings of old servers give a meaning: ``negotiation.py`` looks at them."""


def reserved(batch: MessageBatch, row: int, field: str, value: int) -> str:
    """What to say of a reserved field that is not zero."""
    return f"{field} of {batch.name_of(row)} is {value}, reserved"


def _bits(
    batch: MessageBatch, spec: Field, rows: RowNumbers, values: Array
) -> Iterator[Candidates]:
    known_bits = np.uint64(_known_bits(spec))
    odd = (values & ~known_bits) != 0
    if not odd.any():
        return
    value = dict(zip(rows[odd].tolist(), values[odd].tolist(), strict=True))

    def words(row: int) -> str:
        if not spec.flags:
            return reserved(batch, row, spec.title, value[row])
        return (
            f"{batch.name_of(row)} {spec.title} 0x{value[row]:x}: bits "
            f"0x{value[row] & ~int(known_bits):x} have no meaning"
        )

    yield Candidates("unknown-flag-bits" if spec.flags else "reserved-nonzero", rows[odd], words)


_EXCLUDING = (
    (Opcode.DCP_OPEN, "flags", 0x48, 0x48),
    (Opcode.DCP_OPEN, "flags", 0x104, 0x100),
    (Opcode.DCP_SNAPSHOT_MARKER, "snapshot_type", 0x03, 0x03),
    *(
        (opcode, "flags", both, both)
        for opcode in (Opcode.DCP_STREAM_REQ, Opcode.DCP_ADD_STREAM)
        for both in (
            CACHE_TRANSFER | bit.mask
            for bit in STREAM_FLAGS
            if bit.mask & ~(CACHE_TRANSFER | TAKEOVER | ACTIVE_ONLY)
        )
    ),
)
"""(command, column, bits that are looked at, value that they must not have)."""


def _combined(batch: MessageBatch, is_readable: BoolArray) -> Iterator[Candidates]:
    decoded = batch.decoded
    for opcode, name, looked_at, wrong in _EXCLUDING:
        numbers = batch.column(name)
        is_flagged = (
            is_readable & numbers.is_known & decoded.is_request & (decoded.opcode == opcode)
        )
        flags = {Opcode.DCP_OPEN: OPEN_FLAGS, Opcode.DCP_SNAPSHOT_MARKER: SNAPSHOT_FLAGS}.get(
            opcode, STREAM_FLAGS
        )
        names = ", ".join(bit_names(flags, wrong))
        fault_text = (
            f"{names} needs include-xattrs"
            if wrong == _NEEDS_XATTRS
            else f"flags {names} exclude each other"
        )
        yield _candidates(
            "flag-combination",
            is_flagged & ((numbers.values & np.uint64(looked_at)) == wrong),
            f"{opcode.name.lower()} {fault_text}",
        )


_NEEDS_XATTRS = 0x100


@functools.cache
def _commanded(*opcodes: int) -> BoolArray:
    """Returns a mask over all opcodes: True for these. Looking a small batch up in it takes a
    microsecond, ``np.isin`` 85.
    """
    return np.isin(np.arange(256), opcodes)


def _above_end(rows: BoolArray, seqno: Array, end: Array, name: str) -> Candidates:
    """Returns markers of which a seqno is above their end."""
    return _candidates(
        "marker-range-inverted",
        rows & (seqno > end),
        lambda row: f"{name} seqno {seqno[row]} is above the end {end[row]} of its marker",
        seqnos=lambda row: (int(seqno[row]), int(end[row])),
    )


def _numbers(batch: MessageBatch, is_readable: BoolArray) -> Iterator[Candidates]:
    """Yields messages with numbers that contradict each other, or that nobody sends."""
    decoded = batch.decoded
    request = is_readable & decoded.is_request & decoded.fits

    def requests_with(name: str, *opcodes: int) -> tuple[BoolArray, Array]:
        """Returns a mask of requests of these commands that have a number, and the numbers."""
        numbers = batch.column(name)
        return request & numbers.is_known & _commanded(*opcodes)[decoded.opcode], numbers.values

    rows, start = requests_with("start_seqno", Opcode.DCP_SNAPSHOT_MARKER)
    end = requests_with("end_seqno", Opcode.DCP_SNAPSHOT_MARKER)[1]
    yield _candidates(
        "marker-range-inverted",
        rows & (start > end),
        lambda row: f"marker {start[row]}–{end[row]} runs backwards",
        seqnos=lambda row: (int(start[row]), int(end[row])),
    )
    for name, words in (("max_visible_seqno", "greatest visible"), ("purge_seqno", "purge")):
        yield _above_end(*requests_with(name, Opcode.DCP_SNAPSHOT_MARKER), end, words)
    rows, seqno = requests_with("by_seqno", Opcode.DCP_COMMIT, Opcode.DCP_ABORT)
    prepared = requests_with("prepared_seqno", Opcode.DCP_COMMIT, Opcode.DCP_ABORT)[1]
    yield _candidates(
        "commit-order",
        rows & (prepared >= seqno),
        lambda row: (
            f"{batch.name_of(row).removeprefix('dcp_')} {seqno[row]} of prepare {prepared[row]}"
        ),
        seqnos=lambda row: (int(seqno[row]), int(prepared[row])),
    )
    rows, level = requests_with("durability_level", Opcode.DCP_PREPARE)
    yield _candidates(
        "prepare-cas-zero",
        rows & ((decoded.cas == 0) | (level < 1) | (level > 3)),
        lambda row: (
            "prepare with CAS 0"
            if decoded.cas[row] == 0
            else f"prepare with durability level {level[row]}"
        ),
    )
    yield from _long_keys(batch, request)
    rows, state = requests_with("state", Opcode.DCP_SET_VBUCKET_STATE)
    yield _candidates(
        "vbucket-state-value",
        rows & ~np.isin(state, list(VBUCKET_STATES)),
        lambda row: f"vbucket state {state[row]}",
    )
    mutation = request & (decoded.opcode == Opcode.DCP_MUTATION)
    yield _candidates("cas-zero", mutation & (decoded.cas == 0), "mutation without CAS")
    rows, seqno = requests_with("by_seqno", *_SEQNO_BEARERS)
    yield _candidates(
        "seqno-huge",
        rows & (seqno > HUGE_SEQNO) & ~decoded.has_undeclared_sid,
        lambda row: f"seqno {seqno[row]}",
        seqnos=lambda row: (int(seqno[row]),),
    )


_LONGEST_KEY, _LONGEST_IN_COLLECTION = 250, 246
"""Bytes of a key of a document, without its collection id."""


def _long_keys(batch: MessageBatch, request: BoolArray) -> Iterator[Candidates]:
    """Yields events of documents with keys that servers do not have."""
    decoded = batch.decoded
    key_size = decoded.key.size
    if key_size.max(initial=0) <= _LONGEST_IN_COLLECTION:
        return
    is_document = request & _commanded(*_OF_DOCUMENTS)[decoded.opcode] & ~decoded.has_bad_prefix
    in_collection = decoded.collection_id.is_known & (decoded.collection_id.values != 0)
    longest_key = np.where(in_collection, _LONGEST_IN_COLLECTION, _LONGEST_KEY)
    # a key that has no id taken off may have one
    is_certain = (decoded.collections == CollectionsState.ON) | (
        decoded.collections == CollectionsState.OFF
    )
    longest_key = np.where(is_certain, longest_key, _LONGEST_KEY + 1)
    yield Candidates(
        "oversized-body",
        np.flatnonzero(is_document & (key_size > longest_key)),
        lambda row: f"{batch.name_of(row)} has a key of {key_size[row]} bytes",
        next=BROKEN,
    )


_OF_DOCUMENTS = (
    *(Opcode.DCP_MUTATION, Opcode.DCP_DELETION, Opcode.DCP_EXPIRATION),
    *(Opcode.DCP_PREPARE, Opcode.DCP_COMMIT, Opcode.DCP_ABORT),
)


def _rollbacks(batch: MessageBatch, is_readable: BoolArray) -> Iterator[Candidates]:
    """Yields rollbacks whose seqno stands where UPR had it."""
    decoded = batch.decoded
    rolled_back = is_readable & decoded.is_answer & (decoded.opcode == Opcode.DCP_STREAM_REQ)
    rolled_back &= decoded.fits & (decoded.specific == Status.ROLLBACK) & (decoded.extras_size == 8)
    seqnos = batch.column("rollback_seqno")
    if seqnos.is_known.any():
        yield _candidates(
            "rollback-layout",
            rolled_back,
            lambda row: f"rollback {seqnos.values[row]} sent in extras (UPR form)",
        )


def _logs(batch: MessageBatch, is_readable: BoolArray) -> Iterator[Candidates]:
    """Yields answers with a failover log whose entries are not newest first."""
    decoded = batch.decoded
    has_log = decoded.is_answer & _commanded(*_LOGS)[decoded.opcode] & is_readable & decoded.fits
    has_log &= decoded.specific == Status.SUCCESS
    has_log &= (decoded.value.size > 0) & (decoded.value.size % 16 == 0)
    log_faults: dict[int, str] = {}
    for row in np.flatnonzero(has_log).tolist():
        value_start, size = int(decoded.value.start[row]), int(decoded.value.size[row])
        log = batch.data[value_start : value_start + size].view(">u8").reshape(-1, 2)
        uuids, seqnos = log[:, 0], log[:, 1]
        if (
            (seqnos[1:] > seqnos[:-1]).any()
            or (uuids == 0).any()
            or len(set(uuids.tolist())) < len(uuids)
        ):
            entries = ", ".join(f"0x{uuid:016x} {seqno}" for uuid, seqno in log[:4].tolist())
            log_faults[row] = (
                f"failover log is not in order: {entries}{' …' if len(log) > 4 else ''}"
            )
    yield Candidates(
        "failover-log-order", np.array(list(log_faults), dtype=np.int64), log_faults.__getitem__
    )


_LOGS = (Opcode.DCP_STREAM_REQ, Opcode.DCP_GET_FAILOVER_LOG, Opcode.GET_FAILOVER_LOG)


def _may_hide_stream_id(batch: MessageBatch) -> BoolArray:
    """Returns a mask of holes over the byte that would show a stream-id which the header does not
    count: the fields of such a message cannot be located.
    """
    decoded, missing = batch.decoded, batch.missing
    row = missing.row
    is_flex = (decoded.magic[row] == Magic.FLEX_REQUEST) & (decoded.framing_size[row] == 0)
    is_hit = (missing.start <= HEADER_SIZE) & (missing.end > HEADER_SIZE)
    return np.asarray(
        is_flex
        & is_hit
        & _commanded(Opcode.DCP_DELETION, Opcode.DCP_EXPIRATION)[decoded.opcode[row]],
        dtype=np.bool_,
    )


def _holed(batch: MessageBatch, holed: BoolArray) -> Iterator[Candidates]:
    """Yields faults in messages that were captured in part. Fields of which bytes are missing are
    not read.

    Zeros stand in for missing bytes: the look at all messages accuses wrongly, but leaves no fault
    out that can be seen.
    """
    accused: dict[int, dict[str, Severity | None]] = {}
    for malformed in _malformed(batch, holed) if holed.any() else ():
        for row in malformed.rows.tolist():
            accused.setdefault(row, {})[malformed.rule] = malformed.severity
    words_of_rule: dict[tuple[str, Severity | None], dict[int, str]] = {}
    for row, rules in sorted(accused.items()):
        for problem in batch.annotate(row).problems:
            if problem.rule in rules:
                words_of_rule.setdefault((problem.rule, rules[problem.rule]), {})[row] = (
                    problem.reason
                )
    for (rule, severity), rows in words_of_rule.items():
        yield Candidates(
            rule, np.array(list(rows), dtype=np.int64), rows.__getitem__, severity=severity
        )


RULE_SET = RuleSet(RULES, look=candidates)
