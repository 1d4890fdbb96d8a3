"""Commands: names, tables, traits, and the numbers that have neither."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.layouts import DCP, layouts_of
from dcpinspect.protocol.opcodes import (
    Opcode,
    ServerOpcode,
    Trait,
    opcode_code,
    opcode_doc,
    opcode_name,
    opcode_traits,
)
from tests.catalogue import each

DCP_COMMANDS = [
    "open",
    "add_stream",
    "close_stream",
    "stream_req",
    "get_failover_log",
    "stream_end",
    "snapshot_marker",
    "mutation",
    "deletion",
    "expiration",
    "flush",
    "set_vbucket_state",
    "noop",
    "buffer_acknowledgement",
    "control",
    "system_event",
    "prepare",
    "seqno_acknowledged",
    "commit",
    "abort",
    "seqno_advanced",
    "oso_snapshot",
    "cache_transfer",
    "cache_transfer_end",
]


@each(("opcode", "name"), list(enumerate(DCP_COMMANDS, 0x50)))
def test_the_dcp_commands_follow_each_other(opcode: int, name: str) -> None:
    assert opcode_name(opcode) == f"dcp_{name}"


@each("opcode", range(0x50, 0x68))
def test_every_dcp_command_has_layouts_of_request_and_response(opcode: int) -> None:
    sides = {layout.side for layout in DCP if layout.opcode == opcode}
    assert sides == {"request", "response"}


def test_every_number_has_a_name_that_leads_back() -> None:
    for opcode in range(256):
        name = opcode_name(opcode)
        assert opcode_code(name) == (opcode if not name.startswith("opcode_0x") else None), name


@pytest.mark.parametrize(
    ("server", "name"), [(False, "set"), (True, "clustermap_change_notification")]
)
def test_the_two_tables_share_numbers(server: bool, name: str) -> None:
    assert opcode_name(1, server=server) == name


def test_an_unknown_number_is_called_by_its_number() -> None:
    assert opcode_name(0x7E) == "opcode_0x7e"


def test_dcp_noop_is_not_noop() -> None:
    assert (opcode_code("dcp_noop"), opcode_code("noop")) == (0x5C, 0x0A)


def test_0x96_is_the_failover_log_and_not_sync() -> None:
    assert opcode_name(0x96) == "get_failover_log"


def test_every_command_is_explained() -> None:
    assert [
        one
        for one in (*Opcode, *ServerOpcode)
        if not opcode_doc(int(one), server=isinstance(one, ServerOpcode))
    ] == []


@pytest.mark.parametrize(
    "name",
    [
        "DCP_MUTATION",
        "DCP_DELETION",
        "DCP_EXPIRATION",
        "DCP_PREPARE",
        "DCP_COMMIT",
        "DCP_ABORT",
        "GET",
        "SET",
    ],
)
def test_document_commands_have_keys_with_a_collection(name: str) -> None:
    assert Trait.KEY in opcode_traits(Opcode[name])


@pytest.mark.parametrize(
    "name",
    [
        "DCP_SYSTEM_EVENT",
        "DCP_CONTROL",
        "DCP_OPEN",
        "HELLO",
        "STAT",
        "SELECT_BUCKET",
        "DCP_CACHE_TRANSFER",
    ],
)
def test_other_commands_have_keys_without_one(name: str) -> None:
    assert Trait.KEY not in opcode_traits(Opcode[name])


@pytest.mark.parametrize("name", ["GETQ", "SETQ", "DELETEQ", "SETQ_WITH_META"])
def test_quiet_commands_are_marked(name: str) -> None:
    assert Trait.QUIET in opcode_traits(Opcode[name])


def test_an_unknown_number_has_no_traits() -> None:
    assert opcode_traits(0x7E) is Trait.NONE


@pytest.mark.parametrize("opcode", [0x68, 0x69])
def test_numbers_of_development_builds_are_explained_but_not_named(opcode: int) -> None:
    assert (opcode_name(opcode), "development build" in opcode_doc(opcode)) == (
        f"opcode_0x{opcode:02x}",
        True,
    )


def test_a_server_command_has_no_explanation_of_a_client_command() -> None:
    assert opcode_doc(0x68, server=True) == ""


@each(
    "opcode",
    [opcode for opcode in Opcode if Trait.KEY in opcode.traits and Trait.GONE not in opcode.traits],
)
def test_every_document_command_that_is_served_has_a_layout(opcode: Opcode) -> None:
    assert layouts_of(opcode, "request")
