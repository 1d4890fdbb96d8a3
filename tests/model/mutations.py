"""One fault planted into a legal conversation, and the rule that has to tell of it, and nothing else worse than a note.

A mutation takes a tape and the place of a message among its entries and gives the entries that stand there instead, or None where the
fault cannot be planted. The conversation goes on as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tests.model.dice import Dice
from tests.model.play import play
from tests.model.tape import Said, Tape, encoded

Mutation = Callable[[Tape, int], "list[Said] | None"]

DOCUMENTS = ("dcp_mutation", "dcp_deletion", "dcp_expiration")


def altered(said: Said, **parts: Any) -> Said:
    """The same message with other parts."""
    changed = said.parts | parts
    return replace(said, parts=changed, data=encoded(said.name, said.side, changed))


def after(said: Said, other: Said) -> Said:
    """A message right behind another one."""
    return replace(other, time_ns=said.time_ns + 1000)


def told(said: Said, name: str, side: str = "request", *, back: bool = False, **parts: Any) -> Said:
    """A message of the same side, or of the other one, right behind."""
    return Said(said.connection, said.to_server is not back, name, side, parts, encoded(name, side, parts), said.time_ns + 1000)


def _place(said: Said) -> tuple[object, ...]:
    return said.connection, said.parts.get("vbucket"), said.parts.get("sid")


def _is_in_order(tape: Tape, at: int) -> bool:
    """A document inside a snapshot with a marker."""
    said = tape.entries[at]
    assert isinstance(said, Said)
    before = [one for one in tape.entries[:at] if isinstance(one, Said) and _place(one) == _place(said)]
    kinds = [one for one in before if one.name in ("dcp_snapshot_marker", "dcp_oso_snapshot")]
    return bool(kinds) and kinds[-1].name == "dcp_snapshot_marker" and "start_seqno" in kinds[-1].parts


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


def _sent_again_after_the_end(tape: Tape, at: int) -> list[Said] | None:
    said = tape.entries[at]
    assert isinstance(said, Said)
    if said.name != "dcp_stream_end":
        return None
    markers = [one for one in tape.entries[:at] if isinstance(one, Said) and _place(one) == _place(said) and one.name in DOCUMENTS]
    if not markers or markers[-1].parts["opaque"] != said.parts["opaque"]:
        return None
    return [said, after(said, markers[-1])]


MUTATIONS: Mapping[str, tuple[str, Mutation]] = {
    "an event is sent twice": ("seqno-not-increasing", _document(lambda said: [said, after(said, said)])),
    "an event has another stream's opaque": (
        "opaque-mismatch",
        _document(lambda said: [altered(said, opaque=0x0BADBAD0)] if not said.parts.get("sid") else None),
    ),
    "an event after the end of its stream": ("message-after-stream-end", _sent_again_after_the_end),
    "an event of a vbucket that was never asked for": (
        "message-without-stream",
        _document(lambda said: [said, after(said, altered(said, vbucket=555))]),
    ),
    "an answer that nobody waits for": (
        "unmatched-response",
        _named(
            "dcp_get_failover_log",
            "response",
            lambda said: [said, told(said, "dcp_get_failover_log", "response", opaque=0x0BADBAD0, status=7)],
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
                    told(said, "dcp_open", back=True, opaque=0x0BADBAD0, key="again:1", flags=["producer"]),
                    replace(told(said, "dcp_open", "response", opaque=0x0BADBAD0, status=4), time_ns=said.time_ns + 2000),
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
                [altered(said, log=said.parts["log"][::-1])] if len({seqno for _, seqno in said.parts.get("log", ())}) > 1 else None
            ),
        ),
    ),
    "a rollback goes forward": (
        "rollback-above-start",
        _named("dcp_stream_req", "response", lambda said: [altered(said, rollback_seqno=10**6)] if said.parts["status"] == 0x23 else None),
    ),
}
"""By what happens: the rule, and what makes it."""


def mutants(what: str, seeds: range) -> Iterator[Tape]:
    """Conversations with this one fault, each at another place; no more than one of a seed."""
    _, mutation = MUTATIONS[what]
    for seed in seeds:
        dice = Dice(seed)
        tape = play(dice, tells_opaques_apart=True)
        at = seed * 37 % len(tape.entries)
        for place in (*range(at, len(tape.entries)), *range(at)):
            if isinstance(tape.entries[place], Said):
                instead = mutation(tape, place)
                if instead is not None:
                    yield replace(tape, entries=[*tape.entries[:place], *instead, *tape.entries[place + 1 :]])
                    break
