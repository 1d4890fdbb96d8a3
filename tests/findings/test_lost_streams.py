"""How long a client takes to ask again for what it lost."""

from __future__ import annotations

from dcpinspect.streams.verdicts import PATIENCE_NS
from tests.findings.test_clients import clients
from tests.streams.told import opened


def test_turns_say_how_long_the_client_took() -> None:
    talk = opened("kafka:1")
    talk.stream(7, start=9, rollback=5)
    talk.wait(3)
    talk.stream(7, start=5).end("state-changed")
    (losses,) = clients(talk).losses.values()
    assert [(loss.is_rollback, loss.row) for loss in losses.all] == [(True, 6), (False, 9)]
    assert losses.all[0].reaction_ns is not None
    assert losses.all[0].reaction_ns // 10**9 == 3
    assert losses.all[1].reaction_ns is None


def test_patience_is_ten_times_what_it_took_before() -> None:
    talk = opened("kafka:1")
    talk.stream(7, start=9, rollback=5)
    talk.wait(3)
    talk.stream(7, start=5).end("state-changed")
    (losses,) = clients(talk).losses.values()
    assert losses.patience_ns(losses.all[0].time_ns) == PATIENCE_NS
    assert losses.patience_ns(losses.all[1].time_ns) // 10**9 == 30


def test_one_slow_reaction_does_not_hide_what_comes_after_it() -> None:
    talk = opened("kafka:1")
    for number in range(30):
        talk.stream(number).end("too-slow")
        talk.wait(20 if number == 9 else 0.01)
        talk.stream(number)
    (losses,) = clients(talk).losses.values()
    assert losses.patience_ns(10**20) // 10**9 == 40
