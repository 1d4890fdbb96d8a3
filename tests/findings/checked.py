"""Conversations told to all rules: what they find."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dcpinspect.findings.checker import Checker
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.recommended import Verdict
from dcpinspect.findings.registry import ORDINARY, RULES
from dcpinspect.reading.engine import Engine
from dcpinspect.streams.tracker import Tracker
from tests.agreement import complaints_of
from tests.damage import PORT, Packet, batches
from tests.streams.told import Told, packets


def findings(
    *talks: Told, sizes: Iterable[int] = (), rules: Iterable[str] = ORDINARY, snaplen: int = 1 << 18
) -> list[Finding]:
    """What is wrong with conversations, one after the other."""
    return found_in([packet.cut(snaplen) for packet in packets(*talks)], sizes, rules)


def found_in(
    captured: Sequence[Packet], sizes: Iterable[int] = (), rules: Iterable[str] = ORDINARY
) -> list[Finding]:
    """What is wrong with these packets, of which nothing must contradict itself."""
    checker, engine = checked(captured, sizes, rules)
    found = checker.findings(engine.links, engine.coverage)
    assert not (wrong := complaints_of(found)), "\n".join(wrong)
    return found


def verdicts(*talks: Told, rules: Iterable[str] = RULES) -> list[Verdict]:
    """What rules of the family lint say of conversations, one after the other."""
    return verdicts_of(packets(*talks), rules)


def verdicts_of(captured: Sequence[Packet], rules: Iterable[str] = RULES) -> list[Verdict]:
    """The same of packets."""
    checker, engine = checked(captured, (), rules)
    return checker.verdicts(engine.links)


def checked(
    captured: Sequence[Packet], sizes: Iterable[int], rules: Iterable[str]
) -> tuple[Checker, Engine]:
    """Who has looked at packets, and what read them."""
    engine, tracker = Engine(["told.pcap"], ports=(PORT,)), Tracker(remembers=True)
    checker = Checker(tracker, rules)
    for batch in [*(engine.feed(part) for part in batches(captured, list(sizes))), engine.finish()]:
        if batch is not None:
            tracker.feed(batch)
            checker.feed(batch)
    return checker, engine


def told(*talks: Told) -> list[tuple[str, str, str | None]]:
    """Severity, rule and cause of each, without notes on the connection's end."""
    return [(one.severity, one.rule, one.cause) for one in findings(*talks)]
