"""What each command can be answered."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.command_statuses import (
    COMMAND_STATUSES,
    command_status_meaning,
    refusal_meaning,
)
from dcpinspect.protocol.message import Message
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.statuses import Status, status_meaning
from tests.catalogue import each
from tests.encode import encode

AROUND = (Opcode.GET_FAILOVER_LOG, Opcode.GET_ALL_VB_SEQNOS, Opcode.OBSERVE_SEQNO)
UUID_UNKNOWN = (
    "The producer does not know the vbucket uuid; roll back all the way to 0 (UPR; "
    "later servers answer rollback instead)"
)


def status_of(message: Message) -> str | None:
    field = message.field("status")
    return field.meaning if field is not None else None


@each("opcode", [*(op for op in Opcode if 0x50 <= op <= 0x67), *AROUND])
def test_every_command_of_dcp_says_what_it_may_be_answered(opcode: Opcode) -> None:
    answers = COMMAND_STATUSES[opcode]
    statuses = [status for status, _ in answers]
    assert len(statuses) == len(set(statuses)) > 0
    assert all(meaning and not meaning.endswith(".") for _, meaning in answers)


STREAM_REQUEST = {
    Status.KEY_ENOENT: "roll back all the way to 0",
    Status.KEY_EEXISTS: "has a stream of this vbucket already",
    Status.NOT_MY_VBUCKET: "does not have the vbucket",
    Status.ERANGE: "start is above the vbucket's high seqno",
    Status.ROLLBACK: "Discard what is above the rollback seqno",
}


@pytest.mark.parametrize("status", STREAM_REQUEST, ids=lambda status: status.name)
def test_the_error_codes_of_a_stream_request_say_what_its_page_says(status: Status) -> None:
    assert STREAM_REQUEST[status] in command_status_meaning(Opcode.DCP_STREAM_REQ, status)


@pytest.mark.parametrize("status", [Status.KEY_ENOENT, Status.EINVAL, None])
def test_the_errors_of_a_snapshot_marker_are_those_of_its_pages(status: Status | None) -> None:
    assert status in dict(COMMAND_STATUSES[Opcode.DCP_SNAPSHOT_MARKER])


def test_a_status_that_a_command_does_not_name_means_what_it_means_everywhere() -> None:
    assert command_status_meaning(Opcode.DCP_STREAM_REQ, Status.EBUSY) == status_meaning(
        Status.EBUSY
    )
    assert command_status_meaning(Opcode.DCP_STREAM_REQ, Status.SUCCESS) == "Done"
    assert command_status_meaning(Opcode.GET, Status.KEY_ENOENT) == status_meaning(
        Status.KEY_ENOENT
    )


def test_commands_of_the_other_table_have_other_answers() -> None:
    assert refusal_meaning(Opcode.DCP_STREAM_REQ, Status.KEY_ENOENT, server=True) is None


def test_a_refused_message_says_what_the_status_means_for_its_command() -> None:
    assert (
        status_of(annotate(encode("dcp_stream_req", "response", status=1)))
        == f"key_enoent: {UUID_UNKNOWN}"
    )
    assert status_of(annotate(encode("dcp_stream_req", "response", value=bytes(16)))) == "success"
    assert status_of(annotate(encode("get", "response", status=1))) == "key_enoent"
