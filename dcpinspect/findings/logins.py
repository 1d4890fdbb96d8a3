"""Rules about logins: a server refuses password or bucket, and the client gets no further."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from dcpinspect.findings.cases import duration
from dcpinspect.findings.collector import place_of
from dcpinspect.findings.context import Context
from dcpinspect.findings.finding import Candidates, MessagePlace, Occurrence, Whose
from dcpinspect.findings.rule import LONG_NS, LOOP, rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleInput, RuleSet, Watcher
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.command_statuses import command_status_meaning
from dcpinspect.protocol.message import Severity
from dcpinspect.protocol.opcodes import Opcode, opcode_name
from dcpinspect.protocol.statuses import Status, status_name
from dcpinspect.streams.followers import PerConnection
from dcpinspect.streams.tcp_facts import host_of
from dcpinspect.text import words_of

NOT_YET, GONE, ELSEWHERE, NO_BUCKET = "not-yet", "gone", "other-nodes-only", "no-bucket"
"""Causes of a missing bucket: the node has it later; it had it before; other nodes have it; the
client selected none.
"""

_HIDDEN: Mapping[str, Whose] = {"key-enoent": "client", ELSEWHERE: "server"}
"""Causes that a later answer may turn into ``NOT_YET``: where it may have been lost, nobody is
blamed.
"""

SEVERE = (
    "It is a note if the client comes in with a later connection. It is an error if no connection "
    f"of the client's host gets in and the client goes on: it asks {LOOP} times over 5 s"
)
CLIENTS, SERVERS = "eaccess einval not-supported", "etmpfail enomem ebusy einternal"
"""Statuses with which a session is refused, as causes, by who has to act."""
_CLIENTS_LOGIN = f"auth-error auth-stale {CLIENTS}"
RULES = rules(
    f"""
    login-refused session warning
        fires: SASL is answered with an error, and none succeeds on the connection. {SEVERE}
        unless: an attempt that is followed by one that succeeds, as with another mechanism; a hole
            that may hide that one
        next: check user, password and mechanism; a client should tell its user the status, and
            pause before it asks again
        causes: {_CLIENTS_LOGIN} {SERVERS}
        reports: kafka-connect-couchbase#57, kafka-connect-couchbase#41, libcouchbase#40
        whose: client for {_CLIENTS_LOGIN}, server for {SERVERS}
        cost: connection, could not log in, could not log in, usual
    bucket-refused session warning
        fires: SELECT_BUCKET is answered with an error, or other commands with NO_BUCKET because no
            bucket was selected, and none is selected on the connection later. {SEVERE}, or for no
            bucket. It is also a note if the connection keeps a bucket that it got before
        unless: a hole that may hide that a bucket was selected; requests for the cluster map, which
            need no bucket
        next: check the name of the bucket, and the rights of the user on it; a client should tell
            its user the status, and pause before it asks again
        causes: {CLIENTS} {NO_BUCKET} {SERVERS} {NOT_YET} {" ".join(_HIDDEN)} {GONE}
        whose: client for {CLIENTS} {NO_BUCKET}, server for {SERVERS}, normal for {NOT_YET}
        cost: connection, did not get a bucket, did not get a bucket, usual
    """
)

MOST = 1 << 14
"""Greatest number of connections of which a refusal is remembered."""
MOST_NAMED = 15
"""Greatest number of refusals of a connection that a finding names besides the latest."""
_CLIENT = 0
_LOGIN, _CHOICE = 1, 2
_STEPS = np.zeros(256, np.int64)
_STEPS[[Opcode.SASL_AUTH, Opcode.SASL_STEP]] = _LOGIN
_STEPS[Opcode.SELECT_BUCKET] = _CHOICE
"""What has to succeed, by opcode: the login; the choice of a bucket; 0, neither."""
_ANY = "*"
"""Stands for every agent, or every bucket."""
_GOOD = (Status.SUCCESS, Status.AUTH_CONTINUE)
_MEANINGS = {  # of the node
    NOT_YET: "{} did not have the bucket yet, and had it later",
    GONE: "{} does not have the bucket any more",
    ELSEWHERE: "{} does not have the bucket, and other nodes have it",
    NO_BUCKET: "no bucket is selected on the connection",
    "key-enoent": "there is no bucket of that name",
}
_UNNAMED = "{} does not have the bucket, whose name was not captured"
NOT_READY = (
    "look in the server's log for why the bucket is not ready; a client should ask again with "
    "growing pauses"
)
"""What to do about ``SERVERS``."""
_MAY_BE_GONE = (
    "see in the cluster's log whether the bucket was dropped, because the capture does not show "
    "which bucket the client had before; if it never was there, check the name in the client's "
    "settings"
)
_ADVICE = {
    **dict.fromkeys(words_of(SERVERS), NOT_READY),
    NOT_YET: (
        "operators have nothing to do, because a node has a bucket only some time after the bucket "
        "was created, or the node was added; a client should ask again with growing pauses"
    ),
    GONE: (
        "see in the cluster's log whether the bucket was dropped, or the node removed; a client "
        "needs the newest cluster map"
    ),
    ELSEWHERE: (
        "the name is right; see in the cluster why this node does not have the bucket; a client "
        "should ask again with growing pauses"
    ),
    NO_BUCKET: (
        "look whether the client's settings name a bucket; it has to send SELECT_BUCKET after the "
        "login, before the first command that needs a bucket"
    ),
    "key-enoent": (
        "check the name of the bucket in the client's settings; a client should pause, because "
        "asking again does not help until there is a bucket of that name"
    ),
}


@dataclass(frozen=True, slots=True)
class RefusedStep:
    """The refusals of a step of a connection since it last succeeded."""

    place: MessagePlace
    """The latest of them."""
    opcodes: tuple[int, ...]
    """Its commands, the first one first."""
    status: int
    earlier: tuple[MessagePlace, ...] = ()
    """The first ones before it, at most ``MOST_NAMED``."""
    count: int = 1
    has_none: bool = False
    """Whether another command was answered with NO_BUCKET since."""

    @property
    def opcode(self) -> int:
        """The command that was refused first."""
        return self.opcodes[0]

    @property
    def named(self) -> tuple[MessagePlace, ...]:
        """Those that a finding names, in order."""
        return (*self.earlier, self.place)


class Logins(Watcher):
    """Remembers refusals until the same step succeeds, and when a bucket was chosen."""

    def __init__(self) -> None:
        self._refused: PerConnection[tuple[int, int], RefusedStep] = PerConnection()
        """By connection and step."""
        self._chosen: PerConnection[int, MessagePlace] = PerConnection()
        """By connection: the answer by which it got its bucket; the first ``MOST`` of all."""
        self._chosen_later: PerConnection[int, MessagePlace] = PerConnection()
        """The same of the latest connections, as many again."""

    def watch(self, fed: RuleInput) -> Iterator[Candidates]:
        """Takes the next messages."""
        batch, decoded = fed.batch, fed.batch.decoded
        answers = decoded.is_answer & (batch.direction != _CLIENT)
        has_none = (decoded.specific == Status.NO_BUCKET) & (
            decoded.opcode != Opcode.GET_CLUSTER_CONFIG
        )
        for index in np.flatnonzero(answers & ((_STEPS[decoded.opcode] > 0) | has_none)).tolist():
            opcode = int(decoded.opcode[index])
            status = int(decoded.specific[index])
            connection = int(batch.connection[index])
            key = connection, int(_STEPS[opcode]) or _CHOICE
            answer_place, before = place_of(batch, index), self._refused.get(key)
            if status in _GOOD:
                self._refused.pop(key, None)
                if key[1] == _CHOICE and connection not in self._chosen:
                    choices = self._chosen if len(self._chosen) < MOST else self._chosen_later
                    choices.setdefault(connection, answer_place)
                    if len(self._chosen_later) > MOST:
                        del self._chosen_later[next(iter(self._chosen_later))]
            elif before is not None and opcode != Opcode.SELECT_BUCKET == before.opcode:
                self._refused[key] = replace(before, has_none=True)  # why there is none is known
            elif (
                before is not None
                and status == before.status
                and (opcode == before.opcode or status == Status.NO_BUCKET)
            ):
                self._refused[key] = replace(
                    before,
                    place=answer_place,
                    opcodes=tuple(dict.fromkeys((*before.opcodes, opcode))),
                    earlier=before.named[:MOST_NAMED],
                    count=before.count + 1,
                )
            elif before is not None or len(self._refused) < MOST:
                self._refused[key] = RefusedStep(answer_place, (opcode,), status)
        yield from ()

    def findings(self, finished: ReadingEnd) -> Iterator[Occurrence]:
        """Yields all occurrences."""
        context = finished.context
        with_session = [
            (connection, refused)
            for (connection, _), refused in sorted(self._refused.items())
            if connection in context.by_number
            and refused.place.time_ns <= context.sight.known_until_ns(connection, 1 - _CLIENT)
        ]
        alike_of = defaultdict[tuple[object, ...], list[RefusedStep]](list)
        for connection, refused in with_session:
            alike_of[
                _client_text(context, connection),
                context.session(connection).refused_bucket,
                refused.status,
            ].append(refused)
        chosen_buckets, latest_open = (
            _Chosen(context, {**self._chosen, **self._chosen_later}),
            _latest_open(context),
        )
        hosts = admitted_hosts(context)
        for connection, refused in with_session:
            is_over = latest_open.get(context.owners[connection].name, -1) >= refused.place.time_ns
            bucket = context.session(connection).refused_bucket
            cause = status_name(refused.status).replace("_", "-")
            if refused.opcode == Opcode.SELECT_BUCKET:
                is_over |= (
                    chosen_buckets.latest_ns(_client_text(context, connection), bucket)
                    >= refused.place.time_ns
                )
                if refused.status == Status.KEY_ENOENT:
                    cause = chosen_buckets.why_missing(connection, bucket, refused) or cause
            client = _client_text(context, connection)
            alike = alike_of[client, bucket, refused.status]
            keeps_bucket = refused.opcode == Opcode.SELECT_BUCKET and not refused.has_none
            kept_bucket = context.session(connection).bucket if keeps_bucket else None
            severity: Severity = (
                "note"
                if is_over or kept_bucket
                else "error"
                if client[0] not in hosts and _goes_on(alike, cause)
                else "warning"
            )
            case = _occurrence(context, connection, refused, cause, alike, severity)
            if kept_bucket:
                text = f"{case.message}; the connection keeps bucket {kept_bucket}"
                case = replace(case, message=text, is_over=True if is_over else None)
            if cause in _HIDDEN:
                # one whose name was not captured may be the one that the client had
                may_be_had = not bucket and chosen_buckets.latest_ns(client, None) >= 0
                if may_be_had or _may_have_had_it(context, connection, refused):
                    case = replace(case, next=_MAY_BE_GONE if cause != ELSEWHERE else case.next)
                elif not _may_have_it_later(context, connection, refused):
                    case = replace(case, whose=_HIDDEN[cause])
            yield case


def _may_have_it_later(context: Context, connection: int, refused: RefusedStep) -> bool:
    """Returns whether another connection may have got a bucket of the node after the refusal, in an
    answer that was lost, or that nobody can read: then the node did not have it yet.
    """
    server = context.by_number[connection].server
    return any(
        link.server == server
        and link.last_ns > refused.place.time_ns
        and _is_bucket_unseen(context, number, link.last_ns)
        for number, link in context.by_number.items()
        if number != connection
    )


def _may_have_had_it(context: Context, connection: int, refused: RefusedStep) -> bool:
    """Returns whether an earlier connection of the client's host may have had the bucket on the
    node, because nobody can see which bucket it had: then the node may have lost it.
    """
    own_link = context.by_number[connection]
    return any(
        link.server == own_link.server
        and host_of(link.client) == host_of(own_link.client)
        and link.first_ns < refused.named[0].time_ns
        and (
            (not link.has_handshake and context.session(number).bucket is None)
            or _is_bucket_unseen(context, number, refused.named[0].time_ns)
        )
        for number, link in context.by_number.items()
        if number != connection
    )


def _is_bucket_unseen(context: Context, connection: int, until_ns: int) -> bool:
    """Returns whether a connection may have got a bucket up to a time, in messages that were lost,
    or that nobody can read.
    """
    link = context.by_number[connection]
    return context.session(connection).bucket is None and (
        (link.tls is not None and not link.is_decrypted)
        or any(context.sight.known_until_ns(connection, side) < until_ns for side in (0, 1))
    )


class _Chosen:
    """Who got which bucket on which node, and when."""

    def __init__(self, context: Context, place_of_connection: Mapping[int, MessagePlace]) -> None:
        self._context = context
        self._by_client: dict[tuple[str, str, str, str], int] = {}
        self._of_bucket: dict[str, list[tuple[int, int]]] = defaultdict(list)
        """By bucket: connections that got it, and when."""
        for connection, choice_place in place_of_connection.items():
            if connection in context.by_number:
                bucket = context.session(connection).bucket or ""
                host, agent, server = _client_text(context, connection)
                for key in product((host,), {agent, _ANY}, (server,), {bucket, _ANY}):
                    self._by_client[key] = max(self._by_client.get(key, 0), choice_place.time_ns)
                self._of_bucket[bucket].append((connection, choice_place.time_ns))

    def latest_ns(self, who: tuple[str, str, str], bucket: str | None) -> int:
        """Returns when a client last got a bucket on a node; -1 if it never did. An agent or a
        bucket that is unknown may be any.
        """
        host, agent, server = who
        agents, buckets = ((name, "") if name else (_ANY,) for name in (agent, bucket))
        keys = product((host,), agents, (server,), buckets)
        return max(self._by_client.get(key, -1) for key in keys)

    def why_missing(self, connection: int, bucket: str | None, refused: RefusedStep) -> str | None:
        """Returns why a node does not have a bucket, by what connections got of it; None if nobody
        got a bucket of that name.
        """
        links = self._context.by_number
        link = links[connection]
        if not bucket:
            return None
        if self.latest_ns(_client_text(self._context, connection), bucket) >= refused.place.time_ns:
            return NOT_YET
        had = [(links[number], when) for number, when in self._of_bucket.get(bucket, ())]
        times_here = [when for other_link, when in had if other_link.server == link.server]
        if times_here:
            return NOT_YET if max(times_here) >= refused.place.time_ns else GONE
        host = host_of(link.client)
        if any(host_of(other_link.client) == host for other_link, _ in had):
            return ELSEWHERE
        return None


def _client_text(context: Context, connection: int) -> tuple[str, str, str]:
    """Returns host, agent and server of a connection: who is refused has no name of DCP yet."""
    link = context.by_number[connection]
    return host_of(link.client), context.session(connection).agent or "", link.server


def admitted_hosts(context: Context, *, has_bucket: bool = True) -> set[str]:
    """Returns the hosts of clients of which a connection got in, or may have: its beginning was not
    captured, or nobody can read it. ``has_bucket``: a bucket is enough; else DCP has to be open.
    """
    admitted = set[str]()
    for number, link in context.by_number.items():
        session = context.session(number)
        if (
            (has_bucket and session.bucket is not None)
            or session.open_status == Status.SUCCESS
            or not link.has_handshake
            or (link.tls is not None and not link.is_decrypted)
        ):
            admitted.add(host_of(link.client))
    return admitted


def _goes_on(alike: Sequence[RefusedStep], cause: str) -> bool:
    """Returns whether a client asks in vain for so long that waiting will not help it."""
    first_ns = min(refused.named[0].time_ns for refused in alike)
    last_ns = max(refused.place.time_ns for refused in alike)
    return (
        sum(refused.count for refused in alike) >= LOOP
        and "client" in (*(rule.whose_is(cause, None) for rule in RULES), _HIDDEN.get(cause))
        and (cause == NO_BUCKET or last_ns - first_ns >= LONG_NS)
    )


def _latest_open(context: Context) -> dict[str, int]:
    """Returns when each client's latest connection for DCP began, by name of the client."""
    latest_of_client: dict[str, int] = {}
    for number, link in context.by_number.items():
        if context.session(number).open_status == Status.SUCCESS:
            name = context.owners[number].name
            latest_of_client[name] = max(latest_of_client.get(name, 0), link.first_ns)
    return latest_of_client


def _occurrence(
    context: Context,
    connection: int,
    refused: RefusedStep,
    cause: str,
    alike: Sequence[RefusedStep],
    severity: Severity,
) -> Occurrence:
    """``alike``: refusals of the same thing to the same client, this one among them. ``severity``:
    a note if the trouble is over.
    """
    bucket = (
        context.session(connection).refused_bucket
        if refused.opcode == Opcode.SELECT_BUCKET
        else None
    )
    is_unnamed = refused.opcode == Opcode.SELECT_BUCKET and not bucket and cause == "key-enoent"
    meaning = (_UNNAMED if is_unnamed else _MEANINGS.get(cause, "")).format(
        context.by_number[connection].server
    ) or command_status_meaning(refused.opcode, refused.status)
    names = ", ".join(map(opcode_name, refused.opcodes))
    message = f"{names}{f' {bucket}' if bucket else ''}: {status_name(refused.status)}, {meaning}"
    count = sum(alike_refused.count for alike_refused in alike)
    if count >= LOOP and cause != NO_BUCKET and severity != "note":
        span_ns = max(alike_refused.place.time_ns for alike_refused in alike) - min(
            alike_refused.named[0].time_ns for alike_refused in alike
        )
        message += f"; the client asks again every {duration(span_ns / (count - 1))}"
    return Occurrence(
        RULES[0 if _STEPS[refused.opcode] == _LOGIN else 1].id,
        message,
        connection,
        refused.named,
        cause=cause,
        next=_ADVICE.get(cause),
        count=refused.count,
        is_over=True if severity == "note" else None,
        severity=severity,
    )


RULE_SET = RuleSet(RULES, watcher=Logins)
