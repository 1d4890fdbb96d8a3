"""What each command can be answered, and what each answer means for its receiver.

Sources: the pages of kv_engine ``docs/dcp/documentation/commands`` ("Returns", "Errors"), and the
UPR transport specification. Where these are silent: kv_engine ``producer.cc``, ``consumer.cc`` and
``mcbp_validators.cc``.
"""

from __future__ import annotations

from collections.abc import Mapping

from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.statuses import Status, status_meaning

StatusMeanings = tuple[tuple[Status | None, str], ...]
"""(status, meaning); None: there is no answer, the connection is closed."""

_MALFORMED = (Status.EINVAL, "The message is malformed or incomplete: a fault of its sender")
_NO_STREAM = (
    Status.KEY_ENOENT,
    "The connection has no stream of this vbucket: it has ended, or was never accepted; up to "
    "6.0 also: the opaque is another one",
)
_TAKEN = "the connection is known no longer, as when another one took its name"

_TO_CONSUMER: StatusMeanings = (
    _NO_STREAM,
    (Status.KEY_EEXISTS, "The opaque is not that of the vbucket's stream, told so by 6.5 and 6.6"),
    _MALFORMED,
    (Status.DCP_STREAM_NOT_FOUND, "As key_enoent, from 7.0 on once v7_dcp_status_codes is on"),
    (Status.OPAQUE_NO_MATCH, "As key_eexists, from 7.0 on once v7_dcp_status_codes is on"),
    (None, "It was sent to a connection that is not a consumer"),
)
"""Errors that a consumer answers to what a producer sends; a success is not answered."""

_EVENT: StatusMeanings = (
    *_TO_CONSUMER[:3],
    (
        Status.ERANGE,
        "The by_seqno is not above the one that the consumer has, or outside of the snapshot",
    ),
    *_TO_CONSUMER[3:],
)

_FAILOVER_LOG: StatusMeanings = (
    (Status.SUCCESS, "The value is the failover log, newest entry first"),
    _MALFORMED,
    (
        Status.NOT_MY_VBUCKET,
        "The node does not have the vbucket; ask the one that the cluster map names",
    ),
    (Status.ENOMEM, "No memory for the failover log; ask again later"),
    (None, f"It was sent to a consumer, or {_TAKEN}"),
)

COMMAND_STATUSES: Mapping[int, StatusMeanings] = {
    Opcode.DCP_OPEN: (
        (Status.SUCCESS, "The connection is a DCP connection from here on"),
        (Status.EINVAL, "Flags, name or value are not accepted, or it is a DCP connection already"),
        (Status.EACCESS, "The user does not have the privilege DcpProducer or DcpConsumer"),
        (
            Status.NOT_SUPPORTED,
            "The bucket has no DCP, or the connection runs commands out of order",
        ),
        (None, "An internal error, which is in the server's log"),
    ),
    Opcode.DCP_ADD_STREAM: (
        (Status.SUCCESS, "The stream is set up; the extras are the opaque of its messages"),
        (
            Status.KEY_EEXISTS,
            "Producer or consumer has a stream of this vbucket on this connection already",
        ),
        _MALFORMED,
        (Status.NOT_MY_VBUCKET, "The consumer does not have the vbucket"),
        (None, f"It was sent to a producer, or {_TAKEN}"),
    ),
    Opcode.DCP_CLOSE_STREAM: (
        (Status.SUCCESS, "The stream is closed; messages under way may still come"),
        _NO_STREAM,
        _MALFORMED,
        (Status.DCP_STREAM_NOT_FOUND, "As key_enoent, once v7_dcp_status_codes is on"),
        (Status.DCP_STREAM_ID_INVALID, "A stream-id without enable_stream_id, or none with it"),
        (None, _TAKEN[0].upper() + _TAKEN[1:]),
    ),
    Opcode.DCP_STREAM_REQ: (
        (Status.SUCCESS, "The stream is accepted; the value is the failover log"),
        (
            Status.KEY_ENOENT,
            "The producer does not know the vbucket uuid; roll back all the way to 0 (UPR; "
            "later servers answer rollback instead)",
        ),
        (Status.KEY_EEXISTS, "The connection has a stream of this vbucket already"),
        (
            Status.EINVAL,
            "The request or its JSON value is malformed, or has flags that the server does not "
            "know",
        ),
        (
            Status.NOT_MY_VBUCKET,
            "The node does not have the vbucket in the needed state; the value may be a "
            "cluster map",
        ),
        (
            Status.ERANGE,
            "Start, end or snapshot seqnos contradict each other; snapshot start <= start <= "
            "snapshot end and start <= end; or the start is above the vbucket's high seqno",
        ),
        (Status.ROLLBACK, "Discard what is above the rollback seqno, and ask again from there"),
        (
            Status.EACCESS,
            "The user may not read the bucket, or the collections that the filter names",
        ),
        (Status.ENOMEM, "No memory for the stream or its failover log; ask again later"),
        (
            Status.NOT_SUPPORTED,
            "Noops must be enabled first (xattrs, collections), or filter and sync writes "
            "exclude each other",
        ),
        (
            Status.ETMPFAIL,
            "Not now (the vbucket warms up, or receives its first disk snapshot); ask again later",
        ),
        (
            Status.UNKNOWN_COLLECTION,
            "The filter names a collection that is not there; the value has the manifest's uid",
        ),
        (
            Status.UNKNOWN_SCOPE,
            "The filter names a scope that is not there; the value has the manifest's uid",
        ),
        (Status.DCP_STREAM_ID_INVALID, "A sid without enable_stream_id, or none with it"),
        (None, f"It was sent to a consumer, or {_TAKEN}"),
    ),
    Opcode.DCP_GET_FAILOVER_LOG: _FAILOVER_LOG,
    Opcode.GET_FAILOVER_LOG: _FAILOVER_LOG[:-1],
    Opcode.DCP_STREAM_END: _TO_CONSUMER,
    Opcode.DCP_SNAPSHOT_MARKER: (
        (
            Status.SUCCESS,
            "The marker had the ack flag, and the consumer has received its whole snapshot",
        ),
        *_TO_CONSUMER[:3],
        (Status.ERANGE, "The consumer already has the whole range"),
        *_TO_CONSUMER[3:],
    ),
    Opcode.DCP_MUTATION: _EVENT,
    Opcode.DCP_DELETION: _EVENT,
    Opcode.DCP_EXPIRATION: _EVENT,
    Opcode.DCP_FLUSH: (_NO_STREAM, _MALFORMED, _TO_CONSUMER[-1]),
    Opcode.DCP_SET_VBUCKET_STATE: (
        (Status.SUCCESS, "The vbucket has its new state: the takeover goes on"),
        *_TO_CONSUMER,
    ),
    Opcode.DCP_NOOP: (
        (Status.SUCCESS, "The other end is there"),
        (None, f"It was sent to a producer, or {_TAKEN}"),
    ),
    Opcode.DCP_BUFFER_ACKNOWLEDGEMENT: (
        (Status.KEY_ENOENT, "The producer does not know this buffer any more"),
        _MALFORMED,
        (None, f"It was sent to a consumer, or {_TAKEN}"),
    ),
    Opcode.DCP_CONTROL: (
        (Status.SUCCESS, "The setting holds from here on"),
        (Status.EINVAL, "No such key, or not one of its values; the setting does not hold"),
        (Status.NOT_SUPPORTED, "The node does not support the setting; it does not hold"),
        (None, f"It was sent to a consumer, or {_TAKEN}"),
    ),
    Opcode.DCP_SYSTEM_EVENT: _EVENT,
    Opcode.DCP_PREPARE: _EVENT,
    Opcode.DCP_SEQNO_ACKNOWLEDGED: (
        (Status.EINVAL, "Sync replication is off on this connection, or it has no consumer_name"),
        (Status.NOT_MY_VBUCKET, "The vbucket is gone from this node; the connection goes on"),
    ),
    Opcode.DCP_COMMIT: (
        (
            Status.KEY_ENOENT,
            "The consumer has no prepare of this key; the producer closes the connection",
        ),
        *_EVENT[1:],
    ),
    Opcode.DCP_ABORT: (
        (Status.KEY_ENOENT, "The consumer has no prepare of this key; the connection goes on"),
        *_EVENT[1:],
    ),
    Opcode.DCP_SEQNO_ADVANCED: _EVENT,
    Opcode.DCP_OSO_SNAPSHOT: _TO_CONSUMER,
    Opcode.DCP_CACHE_TRANSFER: (
        *_TO_CONSUMER[:3],
        (Status.ENOMEM, "The consumer has no room; the rest of the transfer is left out"),
        *_TO_CONSUMER[3:],
    ),
    Opcode.DCP_CACHE_TRANSFER_END: _TO_CONSUMER,
    Opcode.GET_ALL_VB_SEQNOS: (
        (Status.SUCCESS, "The value lists vbuckets of the asked state and their high seqnos"),
        (Status.EINVAL, "The extras are of no defined length, or name no state"),
        (Status.EACCESS, "The user may not read the seqnos of the collection or bucket"),
        (
            Status.UNKNOWN_COLLECTION,
            "There is no such collection; the value has the manifest's uid",
        ),
    ),
    Opcode.OBSERVE_SEQNO: (
        (
            Status.SUCCESS,
            "The value says which seqnos are in memory and on disk, and after a failover up to "
            "where the old branch went",
        ),
        (
            Status.KEY_ENOENT,
            "The vbucket has no such uuid; what was written on that branch may be lost",
        ),
        (Status.EINVAL, "The value is not the 8 bytes of a vbucket uuid"),
        (
            Status.NOT_MY_VBUCKET,
            "The node does not have the vbucket; ask the one that the cluster map names",
        ),
    ),
}
"""Answers by opcode of the magics 0x80 and 0x81."""

_MEANINGS = {
    (opcode, int(status)): meaning
    for opcode, answers in COMMAND_STATUSES.items()
    for status, meaning in answers
    if status is not None
}


def command_status_meaning(opcode: int, code: int, *, server: bool = False) -> str:
    """Returns what a status means as the answer to a command; its general meaning if the command
    gives it none of its own.
    """
    return refusal_meaning(opcode, code, server=server) or status_meaning(code)


def refusal_meaning(opcode: int, code: int, *, server: bool = False) -> str | None:
    """Returns what a status other than success means as the answer to a command; None if the
    command gives it no meaning of its own.
    """
    return None if server or code == Status.SUCCESS else _MEANINGS.get((opcode, code))
