"""The rule about logins: a server refuses the password, or the bucket, and the client gets no further."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from dcpinspect.findings.candidates import Candidates
from dcpinspect.findings.collector import place_of, renumbered_place
from dcpinspect.findings.context import Context
from dcpinspect.findings.costs import Cost
from dcpinspect.findings.finding import Occurrence, Place
from dcpinspect.findings.rule import Rule
from dcpinspect.findings.rule_set import Fed, Finished, RuleSet, Watcher
from dcpinspect.protocol.columns import Rows
from dcpinspect.protocol.command_statuses import command_status_meaning
from dcpinspect.protocol.opcodes import Opcode, opcode_name
from dcpinspect.protocol.statuses import Status, status_name

RULES = (
    Rule(
        "login-refused",
        "session",
        "warning",
        "SASL or SELECT_BUCKET is answered with an error, and nothing of the kind succeeds on the connection",
        "an attempt that is followed by one that succeeds, as with another mechanism; a hole that may hide that one",
        "check user, password and mechanism, the name of the bucket, and the rights of the user on it",
        whose="client",
        cost=Cost("connection", "could not log in", "could not log in"),
    ),
)

MOST = 1 << 14
"""Greatest number of connections of which a refusal is remembered."""
_CLIENT = 0
_STEPS = np.zeros(256, np.int64)
_STEPS[[Opcode.SASL_AUTH, Opcode.SASL_STEP]] = 1
_STEPS[Opcode.SELECT_BUCKET] = 2
"""What has to succeed, by opcode: 1, the login; 2, the choice of a bucket; 0, neither."""
_GOOD = (Status.SUCCESS, Status.AUTH_CONTINUE)
_NO_BUCKET = "there is no bucket of that name"


@dataclass(frozen=True, slots=True)
class Refused:
    """The latest refusal of a step of a connection."""

    place: Place
    opcode: int
    status: int


class Logins(Watcher):
    """Remembers refusals until the same step succeeds."""

    def __init__(self) -> None:
        self._refused: dict[tuple[int, int], Refused] = {}
        """By connection and step."""

    def take(self, fed: Fed) -> Iterator[Candidates]:
        """Takes the next messages."""
        batch, decoded = fed.batch, fed.batch.decoded
        answers = decoded.has_magic & ~decoded.is_server & decoded.is_response & (batch.direction != _CLIENT)
        for index in np.flatnonzero(answers & (_STEPS[decoded.opcode] > 0)).tolist():
            opcode, status = int(decoded.opcode[index]), int(decoded.specific[index])
            key = int(batch.connection[index]), int(_STEPS[opcode])
            if status in _GOOD:
                self._refused.pop(key, None)
            elif len(self._refused) < MOST or key in self._refused:
                self._refused[key] = Refused(place_of(batch, index), opcode, status)
        yield from ()

    def leave(self, connections: Collection[int]) -> None:
        """Drops these connections, as in ``Watcher``."""
        self._refused = {key: one for key, one in self._refused.items() if key[0] not in connections}

    @classmethod
    def joined(cls, parts: Sequence[Self], connections: Sequence[Rows]) -> Self:
        """Returns together what readings of different connections found; ``connections``: for each reading, the new numbers of its
        connections."""
        whole = cls()
        for part, of in zip(parts, connections, strict=True):
            for (connection, step), one in part._refused.items():
                whole._refused[int(of[connection]), step] = replace(one, place=renumbered_place(one.place, of))
        return whole

    def findings(self, finished: Finished) -> Iterator[Occurrence]:
        """Yields all occurrences."""
        context = finished.context
        opened = _latest_open(context)
        for (connection, _), one in sorted(self._refused.items()):
            if connection in context.by_number and one.place.time_ns <= context.sight.known_until_ns(connection, 1 - _CLIENT):
                yield _occurrence(one, connection, is_over=opened.get(context.owners[connection].name, -1) >= one.place.time_ns)


def _latest_open(context: Context) -> dict[str, int]:
    """Returns when the latest connection began that each client opened for DCP, by name of the client."""
    found: dict[str, int] = {}
    for number, link in context.by_number.items():
        if context.session(number).open_status == Status.SUCCESS:
            name = context.owners[number].name
            found[name] = max(found.get(name, 0), link.first_ns)
    return found


def _occurrence(one: Refused, connection: int, *, is_over: bool) -> Occurrence:
    name = status_name(one.status)
    is_missing = one.opcode == Opcode.SELECT_BUCKET and one.status == Status.KEY_ENOENT
    meaning = _NO_BUCKET if is_missing else command_status_meaning(one.opcode, one.status)
    return Occurrence(
        "login-refused",
        "note" if is_over else "warning",
        f"{opcode_name(one.opcode)}: {name}, {meaning}",
        connection,
        (one.place,),
        cause=name.replace("_", "-"),
        is_over=True if is_over else None,
    )


RULE_SET = RuleSet(RULES, watcher=Logins, kept=(Refused,))
