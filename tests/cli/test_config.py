from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest

from dcpinspect.cli.config import Setting, config_path, load
from dcpinspect.cli.main import main
from dcpinspect.errors import UsageError

COMMANDS = ["read", "check"]
SETTINGS = {
    "fields": Setting("fields", is_flag=True, is_negation=False, is_repeatable=False),
    "no-fields": Setting("fields", is_flag=True, is_negation=True, is_repeatable=False),
    "limit": Setting("limit", is_flag=False, is_negation=False, is_repeatable=False),
    "port": Setting("port", is_flag=False, is_negation=False, is_repeatable=True),
    "time-format": Setting("time_format", is_flag=False, is_negation=False, is_repeatable=False),
}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A config file that is in force."""
    path = tmp_path / "config.toml"
    monkeypatch.setenv("DCPINSPECT_CONFIG", str(path))
    return path


def defaults(text: str, path: Path) -> object:
    path.write_text(text)
    return load(COMMANDS).defaults("read", SETTINGS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("[check]\nlimit = 1", {}),
        ("[read]\nlimit = 10", {"limit": "10"}),
        ("[read]\nlimit = '10'", {"limit": "10"}),
        ("[read]\nfields = true", {"fields": True}),
        ("[read]\nno-fields = true", {"fields": False}),
        ("[read]\nno_fields = false", {"fields": True}),
        ("[read]\ntime-format = 'delta'", {"time_format": "delta"}),
        ("[read]\ntime_format = 'delta'", {"time_format": "delta"}),
        ("[read]\nport = 11999", {"port": ["11999"]}),
        ("[read]\nport = [11999, '12010']", {"port": ["11999", "12010"]}),
    ],
)
def test_values_read_as_on_the_command_line(text: str, expected: object, path: Path) -> None:
    assert defaults(text, path) == expected


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "[read]\nlimt = 1",
            "[read] limt: dcpinspect read has no such option; did you mean limit?",
        ),
        (
            "[read]\nzzz = 1",
            (
                "[read] zzz: dcpinspect read has no such option; it has fields, limit, no-fields, "
                "port, time-format"
            ),
        ),
        ("[raed]", "[raed]: dcpinspect has no such command; did you mean read?"),
        ("limit = 1", "limit belongs to a command; put it in its table, for instance under [read]"),
        ("[read]\nlimit = true", "[read] limit: write text, a number, or a list of these"),
        ("[read]\nlimit = [1]", "[read] limit: the option takes one value, not a list"),
        ("[read]\nport = [[1]]", "[read] port: write text, a number, or a list of these"),
        ("[read.port]", "[read] port: write text, a number, or a list of these"),
        ("[read]\nfields = 'yes'", "[read] fields: write true or false"),
        (
            '[read]\n"\\u001B[2J" = 1',
            (
                r"[read] \x1b[2J: dcpinspect read has no such option; it has fields, limit, "
                r"no-fields, port, time-format"
            ),
        ),
        (
            "[read\n",
            "not valid TOML: Expected ']' at the end of a table declaration (at line 1, column 6)",
        ),
        ("a=" + "[" * 5000, "lists or tables are nested too deep"),
        (
            "[read]\nlimit = " + "9" * 5000,
            "not valid TOML: Exceeds the limit (4300 digits) for integer string conversion: value "
            "has 5000 digits",
        ),
        ("[read]\nlimit = 0x" + "f" * 6000, "[read] limit: write a number of at most 64 bits"),
    ],
)
def test_errors_name_file_and_place(text: str, what: str, path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        defaults(text, path)
    assert str(caught.value) == f"{path}: {what}"


def test_a_byte_order_mark_is_no_text(path: Path) -> None:
    assert defaults("\ufeff[read]\nlimit = 3", path) == defaults("[read]\nlimit = 3", path)


def saved(text: str, table: str, path: Path) -> dict[str, str]:
    path.write_text(text)
    return load(COMMANDS).saved(table)


@pytest.mark.parametrize(
    ("text", "table", "expected"),
    [
        ("", "filters", {}),
        ("[read]\nlimit = 1", "columns", {}),
        (
            "[filters]\nslow = 'rtt_ns > 1000'\nA-1_b = 'row = 1'",
            "filters",
            {"slow": "rtt_ns > 1000", "A-1_b": "row = 1"},
        ),
        (
            "[columns]\nmine = 'row,key'\nother = ['row', 'key']",
            "columns",
            {"mine": "row,key", "other": "row,key"},
        ),
    ],
)
def test_what_is_saved_is_found_by_name(
    text: str, table: str, expected: dict[str, str], path: Path
) -> None:
    assert saved(text, table, path) == expected


@pytest.mark.parametrize(
    ("text", "table", "what"),
    [
        ("[filters]\nslow = 5", "filters", "[filters] slow: write text"),
        ("[filters]\nslow = ['row = 1']", "filters", "[filters] slow: write text"),
        (
            "[filters]\n'a b' = 'row = 1'",
            "filters",
            "[filters] a b: a name has letters, digits, dashes and underscores",
        ),
        ("[columns]\nmine = [1]", "columns", "[columns] mine: write text, or a list of names"),
        (
            "filters = 'row = 1'",
            "filters",
            "filters belongs to a command; put it in its table, for instance under [read]",
        ),
    ],
)
def test_what_cannot_be_saved_is_refused(text: str, table: str, what: str, path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        saved(text, table, path)
    assert str(caught.value) == f"{path}: {what}"


def test_a_file_that_is_not_utf8(path: Path) -> None:
    path.write_bytes(b"[read]\n\xff")
    with pytest.raises(UsageError) as caught:
        load(COMMANDS)
    assert str(caught.value) == f"{path}, offset 7: not UTF-8; save the config file as UTF-8"


def test_a_file_that_the_user_named_must_exist(path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load(COMMANDS)
    assert str(caught.value) == f"{path}: no such config file; correct or unset DCPINSPECT_CONFIG"


def test_a_file_that_cannot_be_read(path: Path) -> None:
    path.mkdir()
    with pytest.raises(UsageError) as caught:
        load(COMMANDS)
    assert (
        str(caught.value)
        == f"{path}: Is a directory; DCPINSPECT_CONFIG may name another config file"
    )


def test_the_platform_says_where_the_file_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DCPINSPECT_CONFIG")
    for folder in (str(tmp_path), " ", "here", None):
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        if folder is not None:
            monkeypatch.setenv("XDG_CONFIG_HOME", folder)
        assert config_path() == (platformdirs.user_config_path("dcpinspect") / "config.toml", False)


def test_a_default_that_the_option_refuses_is_blamed_on_the_file(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_text("[read]\nlimit = 'many'")
    assert main(["read", "a.pcap"]) == 2
    assert capsys.readouterr().err == (
        f"dcpinspect: {path} [read] --limit many: write a whole number, 0 or more; see "
        "'dcpinspect read --help'\n"
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "vbucket = 'x'",
            "--vbucket 'x': 'x' is no number; write numbers and ranges, such as 1,5-9",
        ),
        ("port = ['11999', 'http']", "--port http: write a number from 1 to 65535, or auto"),
        ("values = 'some'", "--values some: write full, none or a number of bytes"),
        ("columns = ','", "--columns: name at least one column, as in name,vbucket,by_seqno"),
        (
            "opcode = 'noop'",
            "--opcode noop may mean noop (0x0a) or dcp_noop (0x5c); write the number or dcp_noop",
        ),
    ],
)
def test_a_default_that_the_command_refuses_is_blamed_on_the_file(
    text: str, what: str, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_text(f"[read]\n{text}")
    assert main(["read", "a.pcap", "--limit", "1"]) == 2
    assert capsys.readouterr().err == f"dcpinspect: {path} [read] {what}\n"


def test_an_error_of_the_command_line_is_not_blamed_on_the_file(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_text("[read]\nvbucket = '1'")
    assert main(["read", "a.pcap", "--vbucket", "x"]) == 2
    assert capsys.readouterr().err.startswith("dcpinspect: --vbucket 'x': ")


def test_the_command_line_wins_over_the_file(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_text("[read]\nlimit = 'many'")
    main(["read", "--limit", "1", "nowhere.pcap"])
    assert "many" not in capsys.readouterr().err


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(
    "error", [PermissionError(13, "Permission denied"), NotADirectoryError(20, "Not a directory")]
)
def test_a_file_that_nobody_named_and_that_may_not_be_read_counts_as_none(
    error: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UsageError):
        load(COMMANDS)
    monkeypatch.delenv("DCPINSPECT_CONFIG")
    assert load(COMMANDS).tables == {}
