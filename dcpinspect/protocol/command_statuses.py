"""What each command can be answered, and what each answer means for its receiver.

Sources: the pages of kv_engine ``docs/dcp/documentation/commands`` ("Returns", "Errors"), and the
UPR transport specification. Where these are silent: kv_engine ``producer.cc``, ``consumer.cc`` and
``mcbp_validators.cc``.
"""

from __future__ import annotations

from collections.abc import Mapping

from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.statuses import Status, status_meaning
from dcpinspect.text import sections

StatusMeanings = tuple[tuple[Status | None, str], ...]
"""(status, meaning); None: there is no answer, the connection is closed."""

_TAKEN = "the connection is known no longer, as when another one took its name"


def _meanings(answers: list[tuple[str, str]]) -> StatusMeanings:
    return tuple(
        (None if name == "closed" else Status[name.upper()], meaning) for name, meaning in answers
    )


COMMAND_STATUSES: Mapping[int, StatusMeanings] = {
    Opcode[name]: _meanings(answers)
    for names, answers in sections(
        f"""
    malformed
        einval: The message is malformed or incomplete: a fault of its sender
    no-stream
        key_enoent: The connection has no stream of this vbucket: it has ended, or was never
            accepted; up to 6.0 also: the opaque is another one
    other-opaque
        key_eexists: The opaque is not that of the vbucket's stream, told so by 6.5 and 6.6
        use: malformed
    consumer
        use: no-stream
        use: other-opaque
    v7
        dcp_stream_not_found: As key_enoent, from 7.0 on once v7_dcp_status_codes is on
        opaque_no_match: As key_eexists, from 7.0 on once v7_dcp_status_codes is on
        closed: It was sent to a connection that is not a consumer
    event-range
        erange: The by_seqno is not above the one that the consumer has, or outside of the snapshot
        use: v7
    to-consumer
        closed: It was sent to a consumer, or {_TAKEN}
    to-producer
        closed: It was sent to a producer, or {_TAKEN}
    failover-log
        success: The value is the failover log, newest entry first
        use: malformed
        not_my_vbucket: The node does not have the vbucket; ask the one that the cluster map names
        enomem: No memory for the failover log; ask again later
    DCP_OPEN
        success: The connection is a DCP connection from here on
        einval: Flags, name or value are not accepted, or it is a DCP connection already
        eaccess: The user does not have the privilege DcpProducer or DcpConsumer
        not_supported: The bucket has no DCP, or the connection runs commands out of order
        closed: An internal error, which is in the server's log
    DCP_ADD_STREAM
        success: The stream is set up; the extras are the opaque of its messages
        key_eexists: Producer or consumer has a stream of this vbucket on this connection already
        use: malformed
        not_my_vbucket: The consumer does not have the vbucket
        use: to-producer
    DCP_CLOSE_STREAM
        success: The stream is closed; messages under way may still come
        use: no-stream
        use: malformed
        dcp_stream_not_found: As key_enoent, once v7_dcp_status_codes is on
        dcp_stream_id_invalid: A stream-id without enable_stream_id, or none with it
        closed: {_TAKEN.capitalize()}
    DCP_STREAM_REQ
        success: The stream is accepted; the value is the failover log
        key_enoent: The producer does not know the vbucket uuid; roll back all the way to 0 (UPR;
            later servers answer rollback instead)
        key_eexists: The connection has a stream of this vbucket already
        einval: The request or its JSON value is malformed, or has flags that the server does not
            know
        not_my_vbucket: The node does not have the vbucket in the needed state; the value may be a
            cluster map
        erange: Start, end or snapshot seqnos contradict each other; snapshot start <= start <=
            snapshot end and start <= end; or the start is above the vbucket's high seqno
        rollback: Discard what is above the rollback seqno, and ask again from there
        eaccess: The user may not read the bucket, or the collections that the filter names
        enomem: No memory for the stream or its failover log; ask again later
        not_supported: Noops must be enabled first (xattrs, collections), or filter and sync writes
            exclude each other
        etmpfail: Not now (the vbucket warms up, or receives its first disk snapshot); ask again
            later
        unknown_collection: The filter names a collection that is not there; the value has the
            manifest's uid
        unknown_scope: The filter names a scope that is not there; the value has the manifest's uid
        dcp_stream_id_invalid: A stream-id without enable_stream_id, or none with it
        use: to-consumer
    DCP_GET_FAILOVER_LOG
        use: failover-log
        use: to-consumer
    GET_FAILOVER_LOG
        use: failover-log
    DCP_STREAM_END DCP_OSO_SNAPSHOT DCP_CACHE_TRANSFER_END
        use: consumer
        use: v7
    DCP_SNAPSHOT_MARKER
        success: The marker had the ack flag, and the consumer has received its whole snapshot
        use: consumer
        erange: The consumer already has the whole range
        use: v7
    DCP_MUTATION DCP_DELETION DCP_EXPIRATION DCP_SYSTEM_EVENT DCP_PREPARE DCP_SEQNO_ADVANCED
        use: consumer
        use: event-range
    DCP_FLUSH
        use: no-stream
        use: malformed
        closed: It was sent to a connection that is not a consumer
    DCP_SET_VBUCKET_STATE
        success: The vbucket has its new state: the takeover goes on
        use: consumer
        use: v7
    DCP_NOOP
        success: The other end is there
        use: to-producer
    DCP_BUFFER_ACKNOWLEDGEMENT
        key_enoent: The producer does not know this buffer any more
        use: malformed
        use: to-consumer
    DCP_CONTROL
        success: The setting holds from here on
        einval: No such key, or not one of its values; the setting does not hold
        not_supported: The node does not support the setting; it does not hold
        use: to-consumer
    DCP_SEQNO_ACKNOWLEDGED
        einval: Sync replication is off on this connection, or it has no consumer_name
        not_my_vbucket: The vbucket is gone from this node; the connection goes on
    DCP_COMMIT
        key_enoent: The consumer has no prepare of this key; the producer closes the connection
        use: other-opaque
        use: event-range
    DCP_ABORT
        key_enoent: The consumer has no prepare of this key; the connection goes on
        use: other-opaque
        use: event-range
    DCP_CACHE_TRANSFER
        use: consumer
        enomem: The consumer has no room; the rest of the transfer is left out
        use: v7
    GET_ALL_VB_SEQNOS
        success: The value lists vbuckets of the asked state and their high seqnos
        einval: The extras are of no defined length, or name no state
        eaccess: The user may not read the seqnos of the collection or bucket
        unknown_collection: There is no such collection; the value has the manifest's uid
    OBSERVE_SEQNO
        success: The value says which seqnos are in memory and on disk, and after a failover up to
            where the old branch went
        key_enoent: The vbucket has no such uuid; what was written on that branch may be lost
        einval: The value is not the 8 bytes of a vbucket uuid
        not_my_vbucket: The node does not have the vbucket; ask the one that the cluster map names
        """
    )
    for name in names.split()
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
