"""Options that several commands share, from text to conditions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from dcpinspect.capture import folders
from dcpinspect.cli import options
from dcpinspect.cli.config import Config
from dcpinspect.cli.options import Conditions, Ports, SparkSession, column_names
from dcpinspect.errors import UsageError
from dcpinspect.tables.select import Collections
from tests import builders

CONFIG = Config(
    Path("my.toml"),
    {
        "filters": {"few": "vbucket < 3", "bad": "vbucket < x"},
        "columns": {"mine": ["key", " row"], "seqnos": "row", "bad": "row,kye"},
    },
)


def test_without_options_there_are_no_conditions() -> None:
    chosen = Conditions().selection((), None)
    assert (chosen.vbuckets, chosen.commands, chosen.keys, chosen.filter) == ((), None, None, None)


def test_each_option_sets_its_condition() -> None:
    options = Conditions(
        vbucket="1,5-9",
        opcode="dcp_mutation",
        connection="2",
        key="user::*",
        status="rollback",
        collection="0x8",
    )
    chosen = options.selection((), None)
    assert chosen.vbuckets == (range(1, 2), range(5, 10))
    assert chosen.connections == (range(2, 3),)
    assert chosen.statuses == (range(0x23, 0x24),)
    assert chosen.collections == Collections((range(8, 9),))
    assert chosen.keys is not None
    assert chosen.keys.match("user::1")
    assert chosen.commands is not None
    assert chosen.commands.client == {0x57}


@pytest.mark.parametrize(
    ("option", "text"),
    [("vbucket", "70000"), ("vbucket", "x"), ("connection", "9-1"), ("collection", "-1")],
)
def test_a_wrong_number_names_its_option(option: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"^--{option} "):
        Conditions(**{option: text}).selection((), None)  # type: ignore[arg-type] # as the command line gives them


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (None, ([], False)),
        (["auto"], ([], True)),
        (["11999", "1"], ([11_999, 1], False)),
        (["auto", "65535"], ([65_535], True)),
    ],
)
def test_ports_are_numbers_or_to_be_found(
    values: list[str] | None, expected: tuple[list[int], bool]
) -> None:
    assert tuple(Ports(port=values).reading_arguments().values()) == expected


@pytest.mark.parametrize(
    "value", ["0", "65536", "-1", "http", "", "1e3", "\uff11", "99999999999999"]
)
def test_a_wrong_port_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match=r"^--port .*: write a number from 1 to 65535, or auto$"):
        Ports(port=[value]).reading_arguments()


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


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("@mine", ["key", "row"]),
        ("name,@mine", ["name", "key", "row"]),
        ("row,@mine,name", ["row", "key", "name"]),
        ("@mine,@seqnos", ["key", "row"]),
        (
            "@keys",
            [
                "row",
                "time",
                "name",
                "vbucket",
                "collection_id",
                "key",
                "by_seqno",
                "rev_seqno",
                "cas",
                "datatype",
                "value_size",
            ],
        ),
    ],
)
def test_sets_of_columns_stand_for_their_columns(text: str, names: list[str]) -> None:
    assert column_names(text, CONFIG) == names


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("@seqno", "--columns @seqno: no set of columns has this name; did you mean seqnos?"),
        (
            "@xyzzy",
            (
                "--columns @xyzzy: no set of columns has this name; there are @bad, @keys, @mine, "
                "@place, @requests, @seqnos"
            ),
        ),
        ("row,@bad", "--columns @bad kye: messages have no such column; did you mean key?"),
        ("@mine,@mine", "--columns @mine,@mine: @mine is there twice"),
        ("row,row", "--columns row,row: row is there twice"),
    ],
)
def test_a_wrong_set_of_columns_says_which_there_are(text: str, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        column_names(text, CONFIG)
    assert str(caught.value) == line


def test_a_filter_knows_what_was_saved() -> None:
    chosen = Conditions(filter_="@few or @errors").selection((), CONFIG)
    assert chosen.filter is not None
    assert chosen.filter.filter.columns == ("vbucket", "status_name")


def test_a_mistake_in_a_saved_filter_names_the_file() -> None:
    with pytest.raises(UsageError) as caught:
        Conditions(filter_="@bad").selection((), CONFIG)
    assert (
        str(caught.value)
        == "my.toml: [filters] bad: no column is called x; text is put in single quotes: 'x'"
    )
    assert caught.value.details == ("vbucket < x", "          ^")


def test_sparks_settings_are_keys_and_values() -> None:
    assert SparkSession(conf=["a.b=c=d", " e = f"]).settings() == {"a.b": "c=d", "e": " f"}
    with pytest.raises(UsageError, match="--conf =x: write KEY=VALUE"):
        SparkSession(conf=["=x"]).settings()


def test_a_long_search_for_captures_in_a_directory_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.pcap").write_bytes(builders.pcap(builders.recorded(builders.conversation(b"x"))))
    search = folders.with_folders

    def slow(names: Sequence[str]) -> list[str]:
        time.sleep(0.5)
        return search(names)

    monkeypatch.setattr(folders, "with_folders", slow)
    for seconds, advises_elsewhere in ((0.05, True), (60, False)):
        monkeypatch.setattr(options, "_LOOKING_S", seconds)
        assert options.with_folders([str(tmp_path)]) == [str(tmp_path / "a.pcap")]
        assert (
            f"looking for captures in {tmp_path}" in capsys.readouterr().err
        ) is advises_elsewhere
