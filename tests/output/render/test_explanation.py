"""Whatever a person may ask about has an answer, with every reading of what is ambiguous."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcpinspect.findings.registry import RULES
from dcpinspect.output.render.explanation import explain, explain_packets, rule_lines, suggestions
from dcpinspect.output.render.layout_table import layout_title
from dcpinspect.output.render.message_lines import short_name
from dcpinspect.output.render.verdict import AFTER, ENDED
from dcpinspect.protocol.control_keys import CONTROL_KEYS
from dcpinspect.protocol.features import FEATURES
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.opcodes import DEVELOPMENT, Opcode, ServerOpcode, opcode_name
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams.words import STOOD, VBUCKET_VERDICTS
from tests.catalogue import each
from tests.encode import encode, encode_parts
from tests.output.render.examples import PRINTED, squeezed
from tests.protocol import strategies
from tests.protocol.vectors import BY_ID

COMMANDS = [*Opcode, *ServerOpcode]


def titles(text: str) -> list[str]:
    """The first line of each answer."""
    lines = explain(text)
    assert lines is not None, text
    return [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if not before and ": " in line
    ]


def test_every_command_is_found_by_its_name_its_short_name_and_its_number() -> None:
    for op in COMMANDS:
        name = op.name.lower()
        start = f"{name}: opcode 0x{int(op):02x}"
        for text in (
            name,
            name.upper(),
            name.replace("_", "-"),
            short_name(name),
            f"0x{int(op):x}",
            f"0X{int(op):02X}",
            str(int(op)),
        ):
            assert any(title.startswith(start) for title in titles(text)), text


def test_every_layout_of_a_command_is_shown() -> None:
    for layout in LAYOUTS:
        assert layout_title(layout) in (
            explain(opcode_name(layout.opcode, server=layout.server)) or []
        )


@each("status", Status)
def test_every_status_is_found_by_name_and_number(status: Status) -> None:
    start = f"{status.name.lower()}: status 0x{int(status):04x}"
    for text in (status.name.lower(), f"0x{int(status):x}", f"0x{int(status):04x}"):
        assert start in titles(text), text


@each("control", CONTROL_KEYS)
def test_every_control_key_is_found(control: object) -> None:
    key = getattr(control, "key", "")
    assert any(title.startswith(f"{key}: DCP control key") for title in titles(key))


@each("feature", FEATURES)
def test_every_feature_is_found_by_name_and_number(feature: object) -> None:
    name, code = getattr(feature, "name", ""), getattr(feature, "code", 0)
    for text in (name, name.lower(), f"0x{code:02x}"):
        assert any(title.startswith(f"{name}: HELLO feature") for title in titles(text)), text


def test_a_number_of_several_things_has_all_its_readings() -> None:
    assert titles("0x02") == [
        "key_eexists: status 0x0002",
        "add: opcode 0x02",
        "authenticate: opcode 0x02, of the magics 0x82 and 0x83",
        "TLS: HELLO feature 0x02 (dead)",
    ]


def test_noop_is_both_commands_and_a_family_of_rules() -> None:
    assert titles("noop") == [
        "dcp_noop: opcode 0x5c",
        "noop: opcode 0x0a",
        "noop: family of a rule",
        "noop: word of DCP",
    ]


@pytest.mark.parametrize("number", DEVELOPMENT)
def test_a_number_of_unreleased_servers_is_told_as_such(number: int) -> None:
    assert titles(f"0x{number:02x}")[0] == f"opcode_0x{number:02x}: opcode 0x{number:02x}"


@pytest.mark.parametrize("text", ["", "  ", "0x7e", "0xfffe", "hello world", "805", "80 5g"])
def test_what_is_nothing_has_no_explanation(text: str) -> None:
    assert explain(text) is None


@pytest.mark.parametrize("end", ["", AFTER])
@pytest.mark.parametrize(
    "state",
    [
        *(word for word in VBUCKET_VERDICTS),
        *(f"ended {word}" for word in STOOD if word != "rolled-back"),
        *(f"{ENDED}{word}" for word in ("state-changed", "connection-closed")),
    ],
)
def test_every_state_of_a_vbucket_is_found_as_maps_show_it(state: str, end: str) -> None:
    lines = explain(state + end) or []
    assert lines
    assert (
        bool(end) == any(line.startswith("after a rollback") for line in lines) or state == "ended"
    )


def test_a_state_with_an_unknown_part_is_none() -> None:
    assert explain(f"ended: perplexed{AFTER}") is None


def test_a_misspelt_name_has_suggestions() -> None:
    assert suggestions("dcp_mutaton")[0] == "dcp_mutation"
    assert "snapshot_marker" in suggestions("snapshot_maker")
    assert suggestions("rolback")[0] == "rollback"


def test_a_verdict_that_is_also_a_cause_names_the_rules_that_have_it() -> None:
    assert (explain("silent") or [])[-1].startswith(
        "silent: a cause in findings of missing-response, "
    )


def test_a_part_of_a_name_suggests_the_name() -> None:
    assert suggestions("starved")[0] == "starved-by-flow-control"
    assert suggestions("skip deletes")[0] == "skip-deletes-in-initial-backfill"


def test_golden_command(golden: Callable[[str, str], None]) -> None:
    golden(
        "explain/dcp_snapshot_marker.txt", "\n".join(explain("dcp_snapshot_marker") or []) + "\n"
    )


@pytest.mark.parametrize(
    "name",
    [
        "seed000-01",
        "seed001-01",
        "seed002-01",
        "seed002-02",
        "seed003-01",
        "seed003-02",
        "seed004-11",
    ],
)
def test_a_printed_example_without_a_body_length_is_read_as_its_table_says(name: str) -> None:
    vector = BY_ID[name]
    lines = explain(vector.literal.hex()) or []
    (at,) = [number for number, line in enumerate(lines) if line.startswith("If the body is the ")]
    printed = next(example for example in PRINTED if example.id == name)
    start = squeezed(printed.rows[-1].partition(":")[0])
    assert any(squeezed(line).startswith(start) for line in lines[at:])
    assert not any(line.startswith("✖") for line in lines[at:])


@pytest.mark.parametrize("name", ["seed002-02", "seed003-02"])
def test_the_printed_v2_marker_is_read_with_1_byte_of_extras_and_36_of_value(name: str) -> None:
    lines = explain(BY_ID[name].literal.hex()) or []
    assert lines.count("If the body is the 37 bytes that follow, 1 of extras and 36 of value:") == 1
    (told,) = [line for line in lines if line.startswith("These bytes contradict themselves")]
    assert told == (
        "These bytes contradict themselves: total body 0, and 37 bytes follow; extras length "
        "20, and a dcp_snapshot_marker in the v2.0"
        " layout has 1; version byte says 2.1, the length of the value says 2.0."
    )
    assert not any("in the v1 layout" in line for line in lines)
    at = lines.index("If the body is the 37 bytes that follow, 1 of extras and 36 of value:")
    rows = [squeezed(row) for row in lines[at:]]
    for row in (
        "Version (24) : 0x01 (v2.1)",
        "Start Seqno (25-32): 0x0000000000000001",
        "End Seqno (33-40): 0x0000000000000008",
    ):
        assert row in rows
    for row in (
        "Snapshot Type (41-44): 0x00000002 (disk)",
        "High Completed Seqno (53-60): 0x0000000000000007",
    ):
        assert row in rows


def test_the_printed_v2_marker_as_its_table_has_it_contradicts_nothing() -> None:
    lines = explain(BY_ID["seed003-02"].data.hex()) or []
    assert not any(line.startswith(("These bytes contradict", "✖", "!")) for line in lines)
    assert "DCP_SNAPSHOT_MARKER command (v2.0)" in lines


def test_extras_that_are_counted_wrong_alone_are_supposed_too() -> None:
    table = BY_ID["seed003-02"].data
    lines = explain((table[:4] + b"\x14" + table[5:]).hex()) or []
    assert any(
        line.startswith(
            "These bytes contradict themselves: extras length 20, and a dcp_snapshot_marker in "
            "the v2.0"
        )
        for line in lines
    )


def test_a_message_that_fits_no_layout_supposes_nothing() -> None:
    lines = explain(encode_parts(0x80, 0x56, extras=bytes(20), value=bytes(18)).hex()) or []
    assert not any(line.startswith(("These bytes contradict", "If ")) for line in lines)


def test_the_literal_reading_comes_first_and_names_the_contradiction() -> None:
    lines = explain(BY_ID["seed000-01"].literal.hex()) or []
    assert any(
        line.startswith("✖ total_body_length at byte 8: extras 20 + key 0 exceed body 0")
        for line in lines
    )


def test_golden_supposition(golden: Callable[[str, str], None]) -> None:
    golden(
        "explain/seed001-01.txt", "\n".join(explain(BY_ID["seed001-01"].literal.hex()) or []) + "\n"
    )


def test_several_messages_of_one_paste_are_all_explained() -> None:
    noop = encode("dcp_noop", opaque=1)
    lines = explain_packets([noop * 2 + encode("dcp_noop", "response", opaque=1)])
    assert [line for line in lines if line.startswith(("DCP_NOOP", "at byte"))] == [
        "DCP_NOOP command (v1)",
        "at byte 24:",
        "DCP_NOOP command (v1)",
        "at byte 48:",
        "DCP_NOOP response (v1)",
    ]


def test_a_message_divided_between_packets_is_one() -> None:
    noop = encode("dcp_noop", opaque=1)
    assert explain_packets([noop[:10], noop[10:]]) == explain_packets([noop])


def test_bytes_behind_the_last_message_are_counted() -> None:
    lines = explain_packets([encode("dcp_noop") + b"what is this"])
    assert lines[-1] == "12 more bytes are not explained"


def test_a_key_with_a_collection_id_is_recognised_in_a_paste() -> None:
    lines = explain(encode("dcp_mutation", key=b"\x08apple", value=b"{}").hex()) or []
    assert any(line.endswith(": apple (collection 0x8, inferred)") for line in lines)


def test_a_packet_without_payload_says_so() -> None:
    from tests import builders

    empty = builders.frame(builders.Conversation().send(True))
    assert explain_packets([empty]) == [
        "54 bytes of packet headers skipped",
        "",
        "no message after them",
    ]


def test_credentials_stay_hidden() -> None:
    lines = explain(encode("sasl_auth", key="PLAIN", value=b"\0user\0secret").hex()) or []
    text = "\n".join(lines)
    assert "hidden, 12 bytes" in text
    assert "secret" not in text


@given(st.lists(strategies.messages, max_size=3))
def test_no_bytes_make_a_character_that_cannot_be_seen(packets: list[bytes]) -> None:
    assert all(line.isprintable() for line in explain_packets(packets))


def test_every_rule_is_found_by_its_id() -> None:
    for rule in RULES:
        lines = explain(rule)
        assert lines is not None, rule
        assert any(line.startswith(f"{rule}: ") for line in lines), rule


def test_what_keeps_a_rule_silent_is_no_severity() -> None:
    for rule in RULES.values():
        assert not re.match(r"an? (error|warning|note)\b", rule.unless), rule.id
    (found_when,) = [line for line in explain("connection-closed") or () if "found when" in line]
    assert "It stays a note if the client connects to the node again" in found_when


def test_a_rule_in_words() -> None:
    lines = list(rule_lines(RULES["bad-stream-range"]))
    assert lines[0] == "bad-stream-range: error of the family stream"
    assert any("JDCP-95" in line for line in lines)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("conversations", "conversation: word of dcpinspect"),
        ("ended silent", "ended silent: word of dcpinspect"),
        ("rows with copies", "rows with copies: word of dcpinspect"),
        ("NMVB", "not_my_vbucket: status 0x0007"),
        ("dedup", "deduplicated: cause of a gap"),
        ("HSN", "high seqno: word of DCP"),
        ("TMPFAIL", "etmpfail: status 0x0086"),
        ("request", "request: word of dcpinspect"),
        ("fields", "fields: word of dcpinspect"),
        ("meaning", "meaning: word of dcpinspect"),
        ("starts", "starts: column of connections"),
        ("controls", "controls: column of connections"),
    ],
)
def test_what_people_say_is_explained_by_what_it_stands_for_first(said: str, meant: str) -> None:
    assert titles(said)[0] == meant


@pytest.mark.parametrize(
    ("name", "table"), [("collections", "streams"), ("tls", "connections"), ("behind", "vbuckets")]
)
def test_a_column_is_explained_beside_what_else_has_its_name(name: str, table: str) -> None:
    assert titles(name)[-1] == f"{name}: column of {table}"


def test_a_flag_has_the_article_of_its_message() -> None:
    assert titles("start") == ["start: flag 0x1 of an OSO snapshot"]
