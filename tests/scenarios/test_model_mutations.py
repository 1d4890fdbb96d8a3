"""One fault in a legal conversation gives exactly its rule, wherever it happens: in what was said,
and in a connection after it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from dcpinspect.findings.registry import ORDINARY, RULES
from tests.model import planted_connections, planted_events, planted_requests
from tests.model.blame import unfounded
from tests.model.dice import Dice
from tests.model.mutations import MUTATIONS, mutants
from tests.model.packets import laid
from tests.model.play import play
from tests.model.reading import read, whole
from tests.model.talk import Talk

PLANTS = planted_requests.PLANTS | planted_events.PLANTS | planted_connections.PLANTS
FEW, MANY = 3, 300
"""Conversations in which each fault is planted."""
SEEDS = range(400)
NOT_PLANTED = {
    *(
        "oversized-body",
        "cache-transfer-record",
        "refused-payload",
        "value-length",
        "undeclared-stream-id",
        "legacy-layout",
    ),
    *(
        "rollback-layout",
        "ack-early",
        "gap-unexplained",
        "capture-hole",
        "capture-cut",
        "mid-stream-start",
        "undecoded-bytes",
    ),
    *(
        "connection-reuse-inferred",
        "seen-twice",
        "failover",
        "slow-responses",
        "login-refused",
        "bucket-refused",
        "hello-key-not-json",
        "close-refused",
    ),
    *("server-not-reached", "health-probe", "wrong-port", "tcp-window-zero", "proxy-header"),
    *(
        "server-rollback",
        "server-refused",
        "server-ended",
        "server-slow-stream",
        "server-disconnect",
    ),
    *("checkpoint-rollback", "checkpoint-range", "checkpoint-unchecked"),
    *("tls-without-key", "tls-key-unknown", "tls-alert", "tls-certificate"),
}
"""What captures lack, what older generations do, what is no fault, and what only the tests of the
rules themselves show.
"""


BESIDE = {"json-bit-not-json": "diverging-history"}
"""What another stream may show of a changed value besides: what it was."""


def complaints(what: str, count: int) -> list[str]:
    """What is wrong about what a check says of conversations with a fault."""
    rule = MUTATIONS[what][0]
    out, told = [], 0
    for tape in islice(mutants(what, SEEDS), count):
        told += 1
        found = read(whole(tape, laid(tape)))
        if rule not in {one.rule for one in found.findings}:
            out.append(f"{rule} is missing")
        out += [
            line
            for line in unfounded(tape, found)
            if line.split()[1].rstrip(":") not in (rule, BESIDE.get(rule))
        ]
    return out if told >= 3 else [f"only {told} conversations could have it"]


@pytest.mark.slow
@pytest.mark.parametrize("what", MUTATIONS)
def test_a_fault_gives_its_rule_and_no_other(what: str) -> None:
    assert MUTATIONS[what][0] in RULES
    assert complaints(what, FEW) == []


@pytest.mark.deep
@pytest.mark.parametrize("what", MUTATIONS)
def test_a_fault_gives_its_rule_and_no_other_in_hundreds_of_conversations(what: str) -> None:
    assert complaints(what, MANY) == []


ALSO = {"wrong-failover-entry", "unknown-vbucket-uuid", "no-common-history"}
"""Rules that say why there was a rollback, which is told besides."""


def planted(what: str, seed: int) -> list[str]:
    """What is wrong about what a check says of a conversation after which a connection has this
    fault.
    """
    rule = PLANTS[what].rule
    talk = Talk(play(Dice(seed), tells_opaques_apart=True), Dice(seed + 1000))
    shown = PLANTS[what].tell(talk)
    tape = replace(talk.tape, entries=talk.entries)
    found = read(whole(tape, laid(tape)))
    rows = {one.row: one.said for one in found.heard}
    mine = [
        one
        for one in found.findings
        if one.rule == rule
        and (shown is None or any(rows.get(place.row) is shown for place in one.places))
    ]
    out = [] if mine else [f"seed {seed}: {rule} does not point at it"]
    out += [line for line in unfounded(tape, found) if line.split()[1].rstrip(":") != rule]
    for one in found.findings:
        is_other = (
            one.rule != rule
            and one.severity != "note"
            and not (rule in ALSO and one.rule == "rollback")
        )
        if is_other and shown is not None and one.places and rows.get(one.places[0].row) is shown:
            out.append(f"seed {seed}: {one.rule} speaks of it, too")
    return out


@pytest.mark.parametrize("what", PLANTS)
def test_a_connection_with_a_fault_gives_its_rule_and_no_other(what: str) -> None:
    assert planted(what, seed=0) == []


@pytest.mark.deep
@pytest.mark.parametrize("what", PLANTS)
def test_a_connection_with_a_fault_gives_its_rule_and_no_other_after_a_hundred_conversations(
    what: str,
) -> None:
    assert [line for seed in range(1, 101) for line in planted(what, seed)] == []


def test_every_rule_is_planted() -> None:
    assert {rule for rule, _ in MUTATIONS.values()} | {one.rule for one in PLANTS.values()} == {
        *ORDINARY
    } - NOT_PLANTED
