"""Roles of the DCP commands: as the reference lists them, and none forgotten."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import dcpinspect
from dcpinspect.protocol.fields import Layout
from dcpinspect.protocol.layouts import DCP
from dcpinspect.protocol.opcodes import ROLES, Opcode, Trait, opcode_traits
from dcpinspect.protocol.resync import EVENTS, OF_STREAMS
from dcpinspect.protocol.roles import NAMES_VBUCKET, opcodes_with
from tests.catalogue import each

COUNTED = {0x55, 0x56, 0x57, 0x58, 0x59, 0x5B, 0x5F, 0x60, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67}
OF_EVENTS = {0x57, 0x58, 0x59, 0x5F, 0x60, 0x62, 0x63}
REFERENCE = {
    Trait.DCP: {*range(0x50, 0x68)},
    Trait.VBUCKET: {*range(0x50, 0x68)} - {0x50, 0x5C, 0x5D, 0x5E},
    Trait.OPENS: {0x53},
    Trait.COUNTED: COUNTED,
    Trait.UNANSWERED: COUNTED - {0x5B} | {0x5D, 0x61},
    Trait.STREAM_ID: {0x52, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5F, 0x64, 0x65, 0x66, 0x67},
    Trait.SEQNO: OF_EVENTS | {0x64},
    Trait.EVENT: OF_EVENTS,
    Trait.ENDS: {0x55},
}
REQUESTS = [one for one in DCP if one.side == "request" and one.opcode != Opcode.GET_FAILOVER_LOG]


@pytest.mark.parametrize("role", REFERENCE, ids=lambda role: role.name)
def test_a_role_has_the_commands_of_the_reference(role: Trait) -> None:
    assert set(np.flatnonzero(opcodes_with(role)).tolist()) == REFERENCE[role]


def test_every_role_is_explained_and_tested() -> None:
    assert (
        ROLES.keys()
        == REFERENCE.keys()
        == set(Trait) - {Trait.KEY, Trait.QUIET, Trait.GONE, Trait.TOKEN, Trait.DATA}
    )


@each(
    "layout",
    [one for one in DCP if one.side == "request" and one.opcode != Opcode.GET_FAILOVER_LOG],
)
def test_a_command_with_a_dcp_layout_has_its_roles(layout: Layout) -> None:
    traits = opcode_traits(layout.opcode)
    assert Trait.DCP in traits
    assert (Trait.SEQNO in traits) == any(
        "by_seqno" in (field.name, field.alias) for field in layout.extras
    )


@each("opcode", [opcode for opcode in Opcode if opcode.name.startswith("DCP_")])
def test_roles_of_a_command_agree(opcode: Opcode) -> None:
    roles = opcode.traits
    for role, needs in (
        (Trait.EVENT, Trait.SEQNO),
        (Trait.SEQNO, Trait.COUNTED | Trait.UNANSWERED),
        (Trait.ENDS, Trait.COUNTED | Trait.UNANSWERED),
        (Trait.COUNTED, Trait.VBUCKET),
        (Trait.OPENS, Trait.VBUCKET),
        (Trait.VBUCKET, Trait.DCP),
    ):
        assert role not in roles or needs in roles, role
    assert Trait.DCP in roles


def test_headers_of_streams_are_those_of_the_roles() -> None:
    assert sorted(EVENTS) == sorted(COUNTED)
    assert np.flatnonzero(OF_STREAMS).tolist() == sorted(COUNTED | {0x53})


def test_a_header_names_a_vbucket_where_the_reference_uses_it() -> None:
    used = {*range(0x50, 0x68)} - {0x50, 0x5C, 0x5D, 0x5E} | {
        0x91,
        0x96,
        0xB7,
        0x00,
        0x01,
        0xA2,
        0xC5,
        0x68,
    }
    unused = {
        0x50,
        0x5C,
        0x5D,
        0x5E,
        0x0A,
        0x10,
        0x1F,
        0x20,
        0x21,
        0x22,
        0x48,
        0x89,
        0xB5,
        0xBA,
        0xBB,
        0xBC,
        0xFE,
    }
    assert all(NAMES_VBUCKET[list(used)])
    assert not any(NAMES_VBUCKET[list(unused)])


def test_no_module_takes_a_range_of_commands() -> None:
    """A range would leave out the next command."""
    sources = {
        path.name: path.read_text() for path in Path(dcpinspect.__file__).parent.rglob("*.py")
    }
    assert len(sources) > 100
    assert [
        name
        for name, text in sources.items()
        if re.search(r"range\(\s*Opcode\.|[<>]=? *Opcode\.|Opcode\.\w+ *[<>]", text)
    ] == []
