"""Faults that a connection of its own has, after a legal conversation: each a talk, and the rule
that has to tell of it, and nothing else.

A plant tells a talk, which is legal but for one thing, and gives what its finding has to point at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.model.talk import Talk
from tests.model.tape import Said

KEY_EEXISTS, EINVAL, NOT_MY_VBUCKET, ERANGE, EACCESS, NOT_SUPPORTED, ETMPFAIL = (
    2,
    4,
    7,
    0x22,
    0x24,
    0x83,
    0x86,
)
MANIFEST_AHEAD = 0x8B
OLDER, NEWER = 0x1111222233334444, 0x5555666677778888
LOG = ((NEWER, 50), (OLDER, 0))
VB = 555

Tell = Callable[[Talk], "Said | None"]
"""Gives a message that the finding has to show; None where no message shows it."""


@dataclass(frozen=True, slots=True)
class Plant:
    """A fault and its rule."""

    rule: str
    tell: Tell


class Plants(dict[str, Plant]):
    """Faults by what happens."""

    def opened(self, what: str, rule: str, **controls: str) -> Callable[[Tell], None]:
        """Adds a fault of an open connection with these settings."""

        def add(tell: Tell) -> None:
            def told(talk: Talk) -> Said | None:
                talk.open(**controls)
                return tell(talk)

            self[what] = Plant(rule, told)

        return add

    def bare(self, what: str, rule: str) -> Callable[[Tell], None]:
        """Adds a fault of a connection that is told from its beginning."""

        def add(tell: Tell) -> None:
            self[what] = Plant(rule, tell)

        return add
