"""One fault planted into a legal conversation, and the rule that has to tell of it, and nothing
else worse than a note.

A mutation takes a tape and the place of a message among its entries and gives the entries that
stand there instead, or None where the fault cannot be planted. The conversation goes on as if
nothing had happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tests.model.dice import Dice
from tests.model.expect import COUNTED
from tests.model.play import play
from tests.model.tape import Said, Tape, encoded

Mutation = Callable[[Tape, int], "list[Said] | None"]

DOCUMENTS = ("dcp_mutation", "dcp_deletion", "dcp_expiration")


_SOON_NS = 200_000_000
"""What is recorded by two clocks may be apart so far."""


def altered(said: Said, **parts: Any) -> Said:
    """The same message with other parts."""
    changed = said.parts | parts
    return replace(said, parts=changed, data=encoded(said.name, said.side, changed))


def after(said: Said, other: Said) -> Said:
    """A message right behind another one."""
    return replace(other, time_ns=said.time_ns + 1000)


def told(said: Said, name: str, side: str = "request", *, back: bool = False, **parts: Any) -> Said:
    """A message of the same side, or of the other one, right behind."""
    return Said(
        said.connection,
        said.to_server is not back,
        name,
        side,
        parts,
        encoded(name, side, parts),
        said.time_ns + 1000,
    )


def _place(said: Said) -> tuple[object, ...]:
    return said.connection, said.parts.get("vbucket"), said.parts.get("sid")


def _is_in_order(tape: Tape, at: int) -> bool:
    """A document inside a snapshot with a marker."""
    said = tape.entries[at]
    assert isinstance(said, Said)
    before = [
        one for one in tape.entries[:at] if isinstance(one, Said) and _place(one) == _place(said)
    ]
    kinds = [one for one in before if one.name in ("dcp_snapshot_marker", "dcp_oso_snapshot")]
    return (
        bool(kinds) and kinds[-1].name == "dcp_snapshot_marker" and "start_seqno" in kinds[-1].parts
    )


def _document(change: Callable[[Said], list[Said] | None]) -> Mutation:
    def mutation(tape: Tape, at: int) -> list[Said] | None:
        said = tape.entries[at]
        assert isinstance(said, Said)
        return change(said) if said.name in DOCUMENTS and _is_in_order(tape, at) else None

    return mutation


def _named(name: str, side: str, change: Callable[[Said], list[Said] | None]) -> Mutation:
    def mutation(tape: Tape, at: int) -> list[Said] | None:
        said = tape.entries[at]
        assert isinstance(said, Said)
        return change(said) if (said.name, said.side) == (name, side) else None

    return mutation


def _answered_beside(answer: Callable[[Said], Said]) -> Mutation:
    """Another answer beside that of a failover log. The client speaks later: behind what it said
    last, another request may have been lost, since the end of a connection that fell silent was not
    captured.
    """

    def mutation(tape: Tape, at: int) -> list[Said] | None:
        said = tape.entries[at]
        assert isinstance(said, Said)
        if (said.name, said.side) != ("dcp_get_failover_log", "response"):
            return None
        speaks = any(
            isinstance(one, Said)
            and (one.connection, one.to_server) == (said.connection, not said.to_server)
            and one.time_ns > said.time_ns + _SOON_NS
            for one in tape.entries[at + 1 :]
        )
        return [said, answer(said)] if speaks else None

    return mutation


def _sent_again_after_the_end(tape: Tape, at: int) -> list[Said] | None:
    said = tape.entries[at]
    assert isinstance(said, Said)
    if said.name != "dcp_stream_end":
        return None
    markers = [
        one
        for one in tape.entries[:at]
        if isinstance(one, Said) and _place(one) == _place(said) and one.name in DOCUMENTS
    ]
    if not markers or markers[-1].parts["opaque"] != said.parts["opaque"]:
        return None
    return [said, after(said, markers[-1])]


def _is_accepted(tape: Tape, asked: Said) -> bool:
    """Whether this is a stream request that was granted: another one goes on with the stream that
    is there.
    """
    return asked.name == "dcp_stream_req" and any(
        one.side == "response"
        and (one.name, one.connection, one.parts["opaque"], one.parts["status"])
        == (asked.name, asked.connection, asked.parts["opaque"], 0)
        for one in tape.said
    )


def _first_marker(tape: Tape, at: int) -> list[Said] | None:
    """Of a stream that goes on with an event."""
    said = tape.entries[at]
    assert isinstance(said, Said)
    if said.name != "dcp_snapshot_marker" or "start_seqno" not in said.parts:
        return None
    own = [
        one
        for one in tape.entries
        if isinstance(one, Said) and _place(one) == _place(said) and one.side == "request"
    ]
    place = own.index(said)
    is_first = place > 0 and _is_accepted(tape, own[place - 1])
    return [] if is_first and place + 1 < len(own) and own[place + 1].name in DOCUMENTS else None


def _with_sid(tape: Tape, at: int) -> list[Said] | None:
    said = tape.entries[at]
    assert isinstance(said, Said)
    has_none = not said.parts.get("sid") and said.parts.get("generation") != "upr"
    return [altered(said, sid=3)] if said.name in DOCUMENTS and has_none else None


def _without_sid(tape: Tape, at: int) -> list[Said] | None:
    said = tape.entries[at]
    assert isinstance(said, Said)
    return (
        [altered(said, framed=False)] if said.name in DOCUMENTS and said.parts.get("sid") else None
    )


def _noop(tape: Tape, at: int) -> list[Said] | None:
    said = tape.entries[at]
    assert isinstance(said, Said)
    if (said.name, said.side) != ("dcp_noop", "response"):
        return None
    return [altered(said, opaque=int.from_bytes(said.parts["opaque"].to_bytes(4, "little"), "big"))]


def _patched(said: Said, at: int, value: bytes) -> Said:
    return replace(said, data=said.data[:at] + value + said.data[at + len(value) :])


def _range(change: Callable[[Said], list[Said] | None]) -> Mutation:
    return _named(
        "dcp_snapshot_marker",
        "request",
        lambda said: (
            change(said)
            if said.parts.get("start_seqno", 0) < said.parts.get("end_seqno", 0)
            else None
        ),
    )


def _of_kind(*kinds: str) -> Callable[[Callable[[Said], Said | None]], Mutation]:
    """Documents of these commands, changed where the change is not None."""

    def made(change: Callable[[Said], Said | None]) -> Mutation:
        def changed(said: Said) -> list[Said] | None:
            one = change(said) if said.name in kinds else None
            return None if one is None else [one]

        return _document(changed)

    return made


_mutation, _deletion = _of_kind("dcp_mutation"), _of_kind("dcp_deletion")


def _stray(*, to_server: bool, name: str, **parts: Any) -> Mutation:
    """A request of a side that must not send it, on an open connection with a stream."""

    def after_an_event(said: Said) -> list[Said]:
        is_back = (
            said.to_server is not to_server if not said.to_server else said.to_server is to_server
        )
        return [said, told(said, name, back=is_back, opaque=0x0BADBAD0, **parts)]

    return _document(after_an_event)


_MARKER = {
    "vbucket": 556,
    "start_seqno": 0,
    "end_seqno": 9,
    "snapshot_type": ["memory"],
    "generation": "v1",
}

MUTATIONS: Mapping[str, tuple[str, Mutation]] = {
    "the first marker of a stream is left out": ("event-before-marker", _first_marker),
    "a noop is answered with its opaque the other way round": ("noop-opaque", _noop),
    "an event has a stream-id on a connection without": ("sid-unexpected", _with_sid),
    "an event lacks its stream-id": ("sid-missing", _without_sid),
    "an event has a datatype that does not exist": (
        "undefined-datatype",
        _mutation(lambda said: _patched(said, 5, b"\x41")),
    ),
    "an event has a value that is no JSON": (
        "json-bit-not-json",
        _mutation(lambda said: altered(said, value=said.parts["value"][:-1] + "!")),
    ),
    "an event has a value that does not decompress": (
        "bad-snappy",
        _mutation(lambda said: _patched(said, 5, b"\x02")),
    ),
    "an event has no CAS": ("cas-zero", _mutation(lambda said: altered(said, cas=0))),
    "a deletion has a body": (
        "deletion-with-body",
        _deletion(lambda said: altered(said, value=b"left over")),
    ),
    "a marker runs backwards": (
        "marker-range-inverted",
        _range(
            lambda said: [
                altered(
                    said, start_seqno=said.parts["end_seqno"], end_seqno=said.parts["start_seqno"]
                )
            ]
        ),
    ),
    "a marker is of memory and disk at once": (
        "flag-combination",
        _range(
            lambda said: (
                [altered(said, snapshot_type=[*said.parts["snapshot_type"], "disk", "memory"])]
                if said.parts["snapshot_type"]
                else None
            )
        ),
    ),
    "a stream ends for a reason that nobody knows": (
        "stream-end-reason",
        _named(
            "dcp_stream_end",
            "request",
            lambda said: (
                [altered(said, end_reason=77)] if said.parts["end_reason"] != "closed" else None
            ),
        ),
    ),
    "a command that nobody knows": (
        "unknown-opcode",
        _document(
            lambda said: [
                said,
                replace(told(said, "dcp_noop", opaque=0x0BADBAD0), data=b"\x80\x7b" + bytes(22)),
            ]
        ),
    ),
    "an answer comes twice": (
        "unmatched-response",
        _answered_beside(lambda said: after(said, said)),
    ),
    "a failover log is cut": (
        "failover-log-size",
        _named(
            "dcp_get_failover_log",
            "response",
            lambda said: (
                [
                    replace(
                        said,
                        data=said.data[:8]
                        + (len(said.parts["log"]) * 16 - 1).to_bytes(4, "big")
                        + said.data[12:-1],
                    )
                ]
                if said.parts.get("log")
                else None
            ),
        ),
    ),
    "a consumer sends a marker": (
        "role-violation",
        _stray(to_server=True, name="dcp_snapshot_marker", **_MARKER),
    ),
    "a consumer sends a noop": ("role-violation", _stray(to_server=True, name="dcp_noop")),
    "a producer sets something": (
        "role-violation",
        _stray(to_server=False, name="dcp_control", key="enable_noop", value="true"),
    ),
    "a producer acknowledges": (
        "role-violation",
        _stray(to_server=False, name="dcp_buffer_acknowledgement", ack_bytes=77),
    ),
    "an event is sent twice": (
        "seqno-not-increasing",
        _document(lambda said: [said, after(said, said)]),
    ),
    "an event has another stream's opaque": (
        "opaque-mismatch",
        _document(
            lambda said: [altered(said, opaque=0x0BADBAD0)] if not said.parts.get("sid") else None
        ),
    ),
    "an event after the end of its stream": ("message-after-stream-end", _sent_again_after_the_end),
    "an event of a vbucket that was never asked for": (
        "message-without-stream",
        _document(lambda said: [said, after(said, altered(said, vbucket=555))]),
    ),
    "an answer that nobody waits for": (
        "unmatched-response",
        _answered_beside(
            lambda said: told(said, "dcp_get_failover_log", "response", opaque=0x0BADBAD0, status=7)
        ),
    ),
    "a connection is opened again": (
        "open-twice",
        _named(
            "dcp_control",
            "response",
            lambda said: (
                [
                    said,
                    told(
                        said,
                        "dcp_open",
                        back=True,
                        opaque=0x0BADBAD0,
                        key="again:1",
                        flags=["producer"],
                    ),
                    replace(
                        told(said, "dcp_open", "response", opaque=0x0BADBAD0, status=4),
                        time_ns=said.time_ns + 2000,
                    ),
                ]
                if said.to_server is False
                else None
            ),
        ),
    ),
    "a failover log is in the wrong order": (
        "failover-log-order",
        _named(
            "dcp_get_failover_log",
            "response",
            lambda said: (
                [altered(said, log=said.parts["log"][::-1])]
                if len({seqno for _, seqno in said.parts.get("log", ())}) > 1
                else None
            ),
        ),
    ),
    "a rollback goes forward": (
        "rollback-above-start",
        _named(
            "dcp_stream_req",
            "response",
            lambda said: (
                [altered(said, rollback_seqno=10**6)] if said.parts["status"] == 0x23 else None
            ),
        ),
    ),
}
"""By what happens: the rule, and what makes it."""


def _fits(tape: Tape, said: Said, instead: list[Said]) -> bool:
    """Whether flow control goes on as it did: the producer stopped, and its client acknowledged, by
    the size of what was said.
    """
    asked = (
        one
        for one in tape.said
        if one.connection == said.connection and one.name == "dcp_control" and one.side == "request"
    )
    has_window = any(one.parts["key"] == "connection_buffer_size" for one in asked)
    return not has_window or _counted(said, instead) == _counted(said, [said])


def _counted(like: Said, messages: list[Said]) -> int:
    return sum(
        len(one.data) for one in messages if one.name in COUNTED and one.to_server is like.to_server
    )


def mutants(what: str, seeds: range) -> Iterator[Tape]:
    """Conversations with this one fault, each at another place; no more than one of a seed."""
    _, mutation = MUTATIONS[what]
    for seed in seeds:
        dice = Dice(seed)
        tape = play(dice, tells_opaques_apart=True)
        at = seed * 37 % len(tape.entries)
        for place in (*range(at, len(tape.entries)), *range(at)):
            said = tape.entries[place]
            if isinstance(said, Said):
                instead = mutation(tape, place)
                if instead is not None and _fits(tape, said, instead):
                    yield replace(
                        tape, entries=[*tape.entries[:place], *instead, *tape.entries[place + 1 :]]
                    )
                    break
