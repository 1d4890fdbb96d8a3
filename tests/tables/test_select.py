"""The everyday filters: what they keep, and what they say to a mistake."""

from __future__ import annotations

import re

import pytest

from dcpinspect.errors import UsageError
from dcpinspect.protocol.opcodes import Opcode, ServerOpcode
from dcpinspect.tables.select import (
    Collections,
    Selection,
    collections,
    commands,
    key_pattern,
    number_ranges,
    statuses,
)
from tests.catalogue import each
from tests.encode import encode
from tests.tables.build import batch

GRANTED = [{"feature": 0x12}]
MESSAGES = [
    encode("hello", features=GRANTED),
    encode("hello", "response", features=GRANTED),
    encode("dcp_stream_req", vbucket=5, opaque=1),
    encode("dcp_stream_req", "response", status=0x23, opaque=1, rollback_seqno=1),
    encode("dcp_mutation", vbucket=5, collection=8, key="user::1"),
    encode("dcp_mutation", vbucket=6, collection=0, key=b"user::\xff"),
    encode("dcp_deletion", vbucket=65535, collection=9, key="order::1"),
    encode("clustermap_change_notification", server=True, generation="v1", revision=1),
    encode("get", "response", status=1),
]


def kept(selection: Selection) -> list[int]:
    rows: list[int] = selection.rows(batch(*MESSAGES)).tolist()
    return rows


@pytest.mark.parametrize(
    ("selection", "rows"),
    [
        (Selection(), list(range(9))),
        (
            Selection(vbuckets=(range(1),)),
            [],
        ),  # the header of HELLO has vbucket 0, and HELLO is about none
        (Selection(vbuckets=(range(5, 6),)), [2, 3, 4]),
        (Selection(numbers=(range(1, 2), range(4, 6))), [0, 3, 4]),
        (Selection(vbuckets=(range(6), range(65535, 65536))), [2, 3, 4, 6]),
        (Selection(commands=commands("mutation,deletion")), [4, 5, 6]),
        (Selection(commands=commands("clustermap_change_notification")), [7]),
        (Selection(commands=commands("0x01")), [7]),
        (Selection(keys=key_pattern("user::*")), [4, 5]),
        (Selection(keys=key_pattern("*1")), [4, 6]),
        (Selection(keys=key_pattern("User*")), []),
        (Selection(statuses=statuses("rollback")), [3]),
        (Selection(statuses=statuses("error")), [3, 8]),
        (Selection(statuses=statuses("success")), [1]),
        (Selection(collections=collections("0,9")), [5, 6]),
        (
            Selection(
                vbuckets=(range(5, 7),), commands=commands("dcp_mutation"), keys=key_pattern("*::1")
            ),
            [4],
        ),
        (Selection(connections=(range(2, 3),)), []),
        (Selection(connections=(range(1, 2),), statuses=statuses("1")), [8]),
    ],
)
def test_a_selection_keeps(selection: Selection, rows: list[int]) -> None:
    assert kept(selection) == rows


def test_a_key_of_which_bytes_are_missing_matches_nothing() -> None:
    made = batch(encode("dcp_mutation", key="user::1"), missing={0: [(57, 58)]})
    assert Selection(keys=key_pattern("*")).rows(made).tolist() == []


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("1", (range(1, 2),)),
        ("1,5-9", (range(1, 2), range(5, 10))),
        (" 1 , 0x1f-0x20 ", (range(1, 2), range(31, 33))),
        ("0-65535", (range(65536),)),
    ],
)
def test_numbers_and_ranges_are_read(text: str, ranges: tuple[range, ...]) -> None:
    assert number_ranges(text, "--vbucket", limit=65535) == ranges


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "--vbucket '': '' is no number; write numbers and ranges, such as 1,5-9"),
        ("1,", "--vbucket '1,': '' is no number; write numbers and ranges, such as 1,5-9"),
        ("one", "--vbucket 'one': 'one' is no number; write numbers and ranges, such as 1,5-9"),
        ("-5", "--vbucket '-5': '-5' is no number; write numbers and ranges, such as 1,5-9"),
        ("9-5", "--vbucket '9-5': '9-5' ends before it begins; write 5-9"),
        ("65536", "--vbucket '65536': '65536' is not within 0-65535"),
    ],
)
def test_what_is_no_range_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(says)}$"):
        number_ranges(text, "--vbucket", limit=65535)


@each("op", [*Opcode, *ServerOpcode])
def test_every_command_is_found_by_its_name_or_refused_with_both(op: Opcode | ServerOpcode) -> None:
    name = op.name.lower()
    if f"DCP_{op.name}" in Opcode.__members__:
        other = Opcode[f"DCP_{op.name}"]
        says = (
            f"--opcode {name} may mean {name} (0x{int(op):02x}) or dcp_{name} "
            f"(0x{int(other):02x}); write the number or dcp_{name}"
        )
        with pytest.raises(UsageError, match=f"^{re.escape(says)}$"):
            commands(name)
    else:
        found = commands(name.upper().replace("_", "-"))
        assert found.client == ({int(op)} if isinstance(op, Opcode) else set())
        assert found.server == (set() if isinstance(op, Opcode) else {int(op)})


@pytest.mark.parametrize("text", ["0x57", "87", "opcode_0x57", "mutation,0x57"])
def test_a_number_is_a_command(text: str) -> None:
    assert 0x57 in commands(text).client


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "dcp_mutatoin",
            "--opcode dcp_mutatoin: no command has this name; did you mean dcp_mutation",
        ),
        (
            "mutaton",
            "--opcode mutaton: no command has this name; did you mean dcp_mutation?",
        ),
        ("snapshot", ".*name; did you mean dcp_snapshot_marker or dcp_oso_snapshot?"),
        ("failover", r".*name; did you mean dcp_get_failover_log\?$"),
        ("marker", r".*name; did you mean dcp_snapshot_marker\?$"),
        ("opn", r".*name; did you mean dcp_open\?$"),
        ("ack", r".*name; did you mean dcp_buffer_acknowledgement\?$"),
        ("buffer_ack", r".*name; did you mean dcp_buffer_acknowledgement\?$"),
        ("deleted", r".*name; did you mean dcp_deletion\?$"),
        ("deletes", r".*name; did you mean dcp_deletion\?$"),
        ("xyzzy", "--opcode xyzzy: no command has this name$"),
        ("", "--opcode : no command has this name$"),
        ("0x100", "--opcode 0x100: opcodes are 0x00 to 0xff$"),
        ("\x1b[2J", r"--opcode \\x1b\[2j: no command has this name$"),
    ],
)
def test_an_unknown_command_is_refused_with_what_looks_like_it(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=f"^{says}"):
        commands(text)


@pytest.mark.parametrize(
    ("text", "code", "is_in"),
    [
        ("rollback", 0x23, True),
        ("ROLLBACK", 0x23, True),
        ("key-enoent", 1, True),
        ("0x23", 0x23, True),
        ("32-40", 0x23, True),
        ("error", 0, False),
        ("error", 0xFFFF, True),
        ("success,rollback", 0x23, True),
    ],
)
def test_statuses_are_found_by_name_and_number(text: str, code: int, is_in: bool) -> None:
    assert any(code in span for span in statuses(text)) is is_in


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rolback", "--status rolback: no status has this name; did you mean rollback?"),
        ("", "--status : no status has this name"),
        ("70000", "--status '70000': '70000' is not within 0-65535"),
    ],
)
def test_an_unknown_status_is_refused_with_what_looks_like_it(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(says)}$"):
        statuses(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8", Collections((range(8, 9),))),
        ("0, 8-0xa ,fruit", Collections((range(1), range(8, 11)), frozenset({"fruit"}))),
        (
            "0x8,produce.fruit,0x9.fruit",
            Collections((range(8, 9),), frozenset({"produce.fruit", "0x9.fruit"})),
        ),
        (
            "2024-orders,_default._default",
            Collections((), frozenset({"2024-orders", "_default._default"})),
        ),
    ],
)
def test_collections_are_read_by_id_and_by_name(text: str, expected: Collections) -> None:
    assert collections(text) == expected


@pytest.mark.parametrize(
    "text", ["", "8,", "-1", "a.b.c", "fr uit", "\x1b[2J", "9-1", "4294967296", "'fruit'", "?fruit"]
)
def test_what_is_neither_an_id_nor_a_name_of_a_collection_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--collection ") as told:
        collections(text)
    assert str(told.value).isprintable()
