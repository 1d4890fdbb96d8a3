"""Options that several commands share, from text to conditions."""

from __future__ import annotations

import pytest

from dcpinspect.cli.options import column_names, ports, selection
from dcpinspect.errors import UsageError

NONE = {"vbucket": None, "opcode": None, "connection": None, "key": None, "status": None, "collection": None}


def test_without_options_there_are_no_conditions() -> None:
    chosen = selection(**NONE)
    assert (chosen.vbuckets, chosen.commands, chosen.keys) == ((), None, None)


def test_each_option_sets_its_condition() -> None:
    chosen = selection(vbucket="1,5-9", opcode="dcp_mutation", connection="2", key="user::*", status="rollback", collection="0x8")
    assert chosen.vbuckets == (range(1, 2), range(5, 10))
    assert chosen.connections == (range(2, 3),)
    assert chosen.statuses == (range(0x23, 0x24),)
    assert chosen.collections == (range(8, 9),)
    assert chosen.keys is not None
    assert chosen.keys.match("user::1")
    assert chosen.commands is not None
    assert chosen.commands.client == {0x57}


@pytest.mark.parametrize(("option", "text"), [("vbucket", "70000"), ("vbucket", "x"), ("connection", "9-1"), ("collection", "-1")])
def test_a_wrong_number_names_its_option(option: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"^--{option} "):
        selection(**{**NONE, option: text})


@pytest.mark.parametrize(
    ("values", "expected"),
    [(None, ([], False)), (["auto"], ([], True)), (["11999", "1"], ([11_999, 1], False)), (["auto", "65535"], ([65_535], True))],
)
def test_ports_are_numbers_or_to_be_found(values: list[str] | None, expected: tuple[list[int], bool]) -> None:
    assert ports(values) == expected


@pytest.mark.parametrize("value", ["0", "65536", "-1", "http", "", "1e3", "\uff11", "99999999999999"])
def test_a_wrong_port_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match=r"^--port .*: write a number from 1 to 65535, or auto$"):
        ports([value])


def test_columns_keep_their_order() -> None:
    assert column_names("vbucket, name,by_seqno") == ["vbucket", "name", "by_seqno"]
    assert column_names(None) is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("nam", "--columns nam: messages have no such column; did you mean name"),
        (",", "--columns: name at least one column, as in name,vbucket,by_seqno"),
        ("\x1b[31m", "--columns \\x1b[31m: messages have no such column; there are row, file"),
    ],
)
def test_a_wrong_column_says_which_there_are(text: str, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        column_names(text)
    assert str(caught.value).startswith(line)
