"""What the pages of the specification say, piece by piece, what the program does with it, and the
tests that show it.

The pages are those of kv_engine ``docs/dcp/documentation`` in five states. ``docs/protocol.md``
prints these rows.
"""

from __future__ import annotations

from typing import NamedTuple

DOCUMENTS = {
    "A": "Snapshot Marker, first DCP page (extras of 20 bytes, flags)",
    "B": "Snapshot Marker, UPR page (extras of 20 bytes, a number for the type)",
    "C": "Snapshot Marker, page since 7.2, as text of a browser",
    "D": "Snapshot Marker, page since 7.2, as it is written",
    "E": "UPR Transport Specification",
}
"""The documents by the letters that rows use."""


class Row(NamedTuple):
    """One table, figure, example or statement of one or several documents."""

    documents: str
    """Letters of the documents that contain it."""
    says: str
    does: str
    tests: str
    """File under ``tests``, and names of functions in it, separated by blanks; several files are
    separated by ``;``.
    """
    examples: str = ""
    """Ids of the examples in ``tests/vectors`` that the row is about."""


_EXAMPLE = (
    "read field by field; grid and table come out as printed",
    "output/render/test_byte_grid.py test_the_grid_is_the_documents_byte_for_byte;"
    " output/render/test_field_table.py test_every_row_of_a_documents_field_table_is_in_ours",
)
_SECTIONS = "pages/test_specification.py "
_SHAPE = (
    _SECTIONS
    + "test_sections_as_the_page_has_them_fit test_a_section_that_must_not_be_there_is_reported"
)
_SHAPE += " test_a_section_that_must_be_there_is_missed"
_DISAGREEMENTS = "scenarios/test_disagreements.py test_a_disagreement_is_read_as_the_reference_says"
_PRINTED = (
    "output/render/test_explanation.py "
    "test_a_printed_example_without_a_body_length_is_read_as_its_table_says"
)
_V2 = (
    "output/render/test_explanation.py "
    "test_the_printed_v2_marker_is_read_with_1_byte_of_extras_and_36_of_value"
)
_STATUSES = "protocol/test_command_statuses.py "
_FIRST = "scenarios/test_first_generation.py "
_CONVENTIONS = "streams/test_snapshots.py "
_UNASKED = _SECTIONS + "test_a_success_where_the_page_has_no_reply_is_reported"


def _example(
    documents: str, says: str, examples: str, does: str = _EXAMPLE[0], tests: str = _EXAMPLE[1]
) -> Row:
    return Row(documents, says, does, tests, examples)


ROWS = (
    # -- Snapshot Marker
    # ----------------------------------------------------------------------------------
    Row(
        "ABCD",
        "Sent by the producer to announce a new snapshot",
        "a marker from the consumer is role-violation",
        (
            "findings/test_sequence_rules.py "
            "test_whoever_does_what_the_other_side_does_is_told_of_and_changes_nothing"
        ),
    ),
    Row(
        "ABE",
        "A snapshot has a unique set of keys",
        "a key that comes twice is duplicate-key-in-snapshot",
        "streams/test_contents.py test_a_key_that_comes_twice_in_a_snapshot",
    ),
    Row(
        "CD",
        "Since 7.2 keys may repeat; a flag says so (0x20, history 0x10)",
        "with either flag a repeated key is no fault",
        "streams/test_contents.py test_where_keys_may_repeat_they_may",
    ),
    Row(
        "ABCD",
        "Must have extras, must not have key; A, B: must not have value",
        "what does not fit is reported",
        _SHAPE,
    ),
    Row(
        "CD",
        "V1 and V2 extras; a value only with extras of 1 byte",
        "the layout is chosen by the lengths, then by the version",
        _DISAGREEMENTS
        + "; protocol/layouts/test_snapshot_marker.py test_a_message_decodes_to_its_fields",
    ),
    Row(
        "BE",
        "The client should not reply to a marker",
        "no reply is waited for without the ack flag; one that comes is unexpected-reply",
        "findings/test_acknowledged.py "
        "test_a_marker_that_is_answered_although_its_ack_flag_is_not_set;"
        " streams/test_requests.py test_a_marker_waits_for_an_answer_only_with_the_ack_flag",
    ),
    Row(
        "ACD",
        "A reply only on errors, or with the ack flag",
        "with the flag the reply is waited for: ack-missing, ack-early",
        "findings/test_acknowledged.py test_a_snapshot_that_is_not_acknowledged "
        "test_a_snapshot_that_is_acknowledged_before_its_end;"
        " streams/test_requests.py test_a_marker_waits_for_an_answer_only_with_the_ack_flag",
    ),
    _example(
        "A",
        "Example V1; the header counts no body",
        "seed000-01",
        "literally a contradiction; explain says which and reads the body that follows",
        _PRINTED + "; " + _EXAMPLE[1],
    ),
    _example(
        "B",
        "Example V1; the header has extras 0x09 and no body",
        "seed001-01",
        "literally a contradiction; explain says which and reads 20 bytes of extras",
        _PRINTED + " test_golden_supposition; " + _EXAMPLE[1],
    ),
    _example(
        "CD",
        "Example V1; the header counts no body",
        "seed002-01 seed003-01",
        "literally a contradiction; explain says which and reads the body that follows",
        _PRINTED + "; " + _EXAMPLE[1],
    ),
    _example(
        "CD",
        "Example V2; the header has extras 0x14, no body and version 1",
        "seed002-02 seed003-02",
        (
            "explain reads 1 byte of extras and 36 of value, and says in a line what contradicts "
            "itself"
        ),
        _V2 + "; " + _EXAMPLE[1],
    ),
    _example(
        "CD",
        "Table of example V2: extras 1, body 0x25, version 0",
        "seed002-02 seed003-02",
        "bytes like these are a v2.0 marker without fault",
        (
            "output/render/test_explanation.py "
            "test_the_printed_v2_marker_as_its_table_has_it_contradicts_nothing"
        ),
    ),
    Row(
        "A",
        "Types 0x01 memory, 0x02 disk, 0x04 checkpoint, 0x08 ack",
        "bits with these names",
        "protocol/test_flags.py test_a_bit_has_the_name_of_the_reference",
    ),
    Row(
        "CD",
        "Types 0x01 to 0x20, a table of flags",
        "bits with these names",
        "protocol/test_flags.py test_a_bit_has_the_name_of_the_reference",
    ),
    Row(
        "B",
        "Type 0 memory, 1 disk, as a number",
        "0 is memory of the first generation; 1 is shown with both readings",
        _DISAGREEMENTS + "; streams/test_snapshots.py test_flags_of_zero_are_read_as_memory",
    ),
    Row(
        "ACD",
        "The examples call type 1 disk",
        "the table of flags is right: 1 is memory, the other reading is shown",
        _DISAGREEMENTS,
    ),
    Row(
        "CD",
        "V2.0: start, end, type, max visible, high completed",
        "36 bytes of value",
        _DISAGREEMENTS,
    ),
    Row(
        "CD",
        "High completed seqno counts with the disk flag only",
        "the field is shown with this condition",
        _SECTIONS + "test_the_high_completed_seqno_says_that_it_is_valid_with_the_disk_flag_only",
    ),
    Row(
        "CD",
        "V2.1 is removed, it was never used",
        "44 bytes with version 1 are read with a note; 36 with version 1 are v2.0",
        _DISAGREEMENTS
        + (
            "; protocol/layouts/test_snapshot_marker.py "
            "test_a_value_whose_length_and_version_disagree_is_reported"
        ),
    ),
    Row(
        "CD",
        "V2.2, a list of seven fields with the version at 0",
        "52 bytes, as servers send it; 44 as listed are read with a note",
        _DISAGREEMENTS,
    ),
    Row(
        "CD",
        "Clients may present the purge seqno in stream requests",
        "lint-purge-seqno asks whether they do; a rollback because of a purge names it",
        "findings/test_recommended.py test_every_rule_has_a_case_it_fires_on;"
        " streams/test_rollback.py test_the_purge_seqno_is_told_where_it_is_known",
    ),
    Row(
        "ACD",
        "Errors KEY_ENOENT, EINVAL, disconnect",
        "explain and this page list them with what they mean",
        _STATUSES + "test_the_errors_of_a_snapshot_marker_are_those_of_its_pages",
    ),
    Row(
        "CD",
        "Memory 1: the first marker starts at the requested seqno",
        "memory-1, also where it starts at the snapshot start that was asked for, as servers do",
        _CONVENTIONS + "test_the_first_marker_starts_at_the_request_or_its_snapshot",
    ),
    Row(
        "CD",
        "Memory 2: with the checkpoint flag, the first seqno of its checkpoint, which may not come",
        "memory-2; the missing first seqno is no fault",
        _CONVENTIONS + "test_a_later_marker_with_the_checkpoint_flag_starts_at_its_checkpoint",
    ),
    Row(
        "CD",
        "Memory 3: without it, the seqno of the mutation that follows",
        "memory-3; irregular where another one follows",
        _CONVENTIONS
        + "test_a_memory_marker_without_the_checkpoint_flag_starts_with_the_event_that_follows",
    ),
    Row(
        "CD",
        "Example of memory 3: a first marker at X+n",
        "accepted as memory-3, though no current server sends it",
        _CONVENTIONS
        + "test_a_first_memory_marker_above_the_request_is_the_specifications_own_example",
    ),
    Row(
        "CD",
        "Disk 1 with its example: the first marker starts at the requested seqno",
        "disk-1",
        _CONVENTIONS + "test_the_first_marker_starts_at_the_request_or_its_snapshot",
    ),
    Row(
        "CD",
        "Disk 2: later backfills start at their range",
        "disk-later, also without the checkpoint flag, which servers set since 2019",
        _CONVENTIONS + "test_a_later_marker_with_the_checkpoint_flag_starts_at_its_checkpoint"
        " test_a_disk_marker_of_a_server_without_the_checkpoint_flag_is_a_later_backfill",
    ),
    Row(
        "CD",
        "Disk 3: disk checkpoints sent from memory",
        "disk-later, or disk-3-first-event where the event that follows is its first",
        _CONVENTIONS
        + "test_a_disk_marker_of_a_server_without_the_checkpoint_flag_is_a_later_backfill",
    ),
    Row(
        "CD",
        "A request with start X means: I have X",
        "an event at X or below is seqno-below-request-start",
        "streams/test_seqnos.py test_what_the_client_owned_does_not_come_again",
    ),
    Row(
        "D",
        "A stream may switch from memory to disk at any time",
        "legal; slow-stream is its finding",
        "findings/test_reported_seqnos.py test_a_stream_that_falls_back_to_disk",
    ),
    Row(
        "E",
        "A marker must not have extras",
        "read as a marker of unknown range; what needs a range is not judged",
        _DISAGREEMENTS
        + (
            "; streams/test_markers.py "
            "test_a_marker_without_range_opens_a_snapshot_of_which_nothing_is_said"
        ),
    ),
    _example("E", "Example of a marker", "seed004-13"),
    # -- the connection
    # -----------------------------------------------------------------------------------
    Row(
        "E",
        "Terminology: consumer, producer, stream, snapshot",
        "roles come from the open, not from the port; streams and snapshots are tables",
        "findings/test_sequence_rules.py "
        "test_whoever_does_what_the_other_side_does_is_told_of_and_changes_nothing;"
        " streams/test_snapshots.py test_complete_by_its_last_event",
    ),
    Row(
        "E",
        "The memcached binary protocol, full duplex",
        "both sides may ask; answers are paired by side",
        "streams/test_requests.py test_both_sides_may_ask_with_the_same_opaque",
    ),
    Row(
        "E",
        "Commands of a stream follow its success",
        "they belong to the stream that was accepted; without one: message-without-stream",
        "findings/test_sequence_rules.py test_a_fault_gives_its_rule_and_no_other_error_or_warning",
    ),
    Row(
        "E",
        "Open: extras and key, no value",
        "fits; a value is accepted, later pages have one",
        _SHAPE,
    ),
    Row(
        "E",
        "Open: sequence number, flag 1 producer",
        "the number is reserved and 0; the flag decides who the producer is",
        _DISAGREEMENTS
        + "; protocol/layouts/test_open_connection.py test_every_flag_that_is_set_is_named",
    ),
    _example("E", "Open: example and its answer", "seed004-01 seed004-02"),
    Row(
        "E",
        "Add Stream: extras only; flag 1 takeover",
        "fits; flags are named",
        _SHAPE + "; protocol/test_flags.py test_a_bit_has_the_name_of_the_reference",
    ),
    _example("E", "Add Stream: example and its answer", "seed004-03 seed004-04"),
    Row(
        "E",
        "Add Stream: the answer's extras hold the opaque, and a vbucket",
        "the opaque; no vbucket is in an answer",
        _DISAGREEMENTS,
    ),
    Row("E", "Close Stream: no extras, key or value", "what does not fit is reported", _SHAPE),
    _example("E", "Close Stream: example", "seed004-05"),
    Row(
        "E",
        "Close Stream: the producer stops, messages under way may come",
        "the answer ends the stream; what is under way is no fault",
        "streams/test_verdicts.py test_ended_by_the_answer_to_a_close_where_no_stream_end_follows",
    ),
    # -- failover log and stream request
    # ------------------------------------------------------------------
    Row(
        "E",
        "Failover Log: no extras, key or value; a value on success",
        "what does not fit is reported",
        _SHAPE + "; protocol/test_annotate.py test_an_empty_failover_log_is_reported",
    ),
    _example("E", "Failover Log: example and its answer of 4 entries", "seed004-06 seed004-07"),
    Row(
        "E",
        "Failover Log: the ids that a client may continue from",
        "a uuid that no log has is unknown-vbucket-uuid, a wrong one wrong-failover-entry",
        (
            "findings/test_history_rules.py test_a_uuid_that_no_log_has "
            "test_an_older_branch_than_the_log_gives"
        ),
    ),
    Row(
        "E",
        "Failover Log: without a known id, take the entry of the highest seqno",
        "a client that knows none is free; a uuid of the log is never called unknown",
        "findings/test_history_rules.py test_a_uuid_of_the_log_or_without_any_log_is_not_unknown",
    ),
    Row(
        "E",
        "Failover Log: most likely refused with not-my-vbucket",
        "explain lists it with what to do",
        _STATUSES + "test_every_command_of_dcp_says_what_it_may_be_answered",
    ),
    Row(
        "E",
        "Stream Request: its opaque is that of all messages of the stream",
        "another one is opaque-mismatch",
        (
            "streams/test_lookup.py "
            "test_another_opaque_is_a_fault_unless_the_messages_are_of_the_stream_that_was_closed"
        ),
    ),
    Row(
        "E",
        "Stream Request: 40 bytes of extras, no key, no value",
        "read with a note; 48 bytes since 3.0",
        _SHAPE + "; " + _DISAGREEMENTS,
    ),
    Row(
        "E",
        "Stream Request: start is the last seqno that was seen",
        "lower events are seqno-below-request-start",
        "streams/test_seqnos.py test_what_the_client_owned_does_not_come_again",
    ),
    Row(
        "E",
        "Stream Request: the stream closes once the end was sent",
        "without a stream end: stream-end-missing",
        "findings/test_ends.py test_the_requested_end_without_a_stream_end",
    ),
    Row(
        "E",
        "Stream Request: uuid and high seqno",
        "shown; the request names no snapshot",
        _CONVENTIONS + "test_a_request_of_the_first_specification_names_no_snapshot",
    ),
    Row(
        "E",
        "Stream Request: uuid 0 and start 0 ask for everything",
        "no range is judged wrong",
        "findings/test_request_rules.py test_ranges_that_are_sound",
    ),
    Row(
        "E",
        "Stream Request: failover log on success",
        "the value is divided into its entries",
        "protocol/layouts/test_stream_commands.py test_a_message_decodes_to_its_fields",
    ),
    Row(
        "E",
        "Stream Request: the rollback answer has no extras and a value; its example has extras",
        "either is read",
        _DISAGREEMENTS,
    ),
    _example(
        "E",
        "Stream Request: example, rolled back, then retried",
        "seed004-08 seed004-09 seed004-10",
    ),
    _example(
        "E",
        "Stream Request: the second answer counts no body in the figure",
        "seed004-11",
        "literally an answer without a log; explain reads the 64 bytes that follow",
        _PRINTED + "; " + _DISAGREEMENTS + "; " + _EXAMPLE[1],
    ),
    Row(
        "E",
        "Stream Request: the client goes back to the rollback seqno and asks again",
        "rollback says where to; who does not is rollback-not-honoured or rollback-not-followed",
        (
            "findings/test_request_rules.py test_a_rollback_says_why_and_what_would_work "
            "test_a_rollback_that_the_client_does_not_follow"
        ),
    ),
    Row(
        "E",
        "KEY_ENOENT: the uuid is unknown, roll back to 0",
        "-V, JSON, explain and stream-refused say so; later servers answer rollback",
        _STATUSES + "test_a_refused_message_says_what_the_status_means_for_its_command;"
        " findings/test_request_rules.py "
        "test_an_unknown_uuid_is_told_as_the_first_specification_has_it",
    ),
    Row(
        "E",
        "KEY_EEXISTS, NOT_MY_VBUCKET, ERANGE, ROLLBACK, disconnect",
        (
            "explain lists them with what they mean; duplicate-stream-request, stream-refused, "
            "bad-stream-range, rollback"
        ),
        _STATUSES + "test_the_error_codes_of_a_stream_request_say_what_its_page_says;"
        " findings/test_request_rules.py test_a_second_request_for_an_open_stream "
        "test_a_refusal_is_told_by_its_status"
        " test_a_range_that_cannot_be",
    ),
    # -- what the producer sends
    # --------------------------------------------------------------------------
    Row("E", "Stream End: extras only", "what does not fit is reported", _SHAPE),
    Row(
        "E",
        "Stream End: no reply",
        "a reply is let pass, some clients send one",
        "findings/test_pairing.py test_stream_ends_and_markers_may_be_answered",
    ),
    _example("E", "Stream End: example", "seed004-12"),
    Row(
        "E",
        "Stream End: nothing more comes",
        "what comes is message-after-stream-end",
        "findings/test_sequence_rules.py test_a_fault_gives_its_rule_and_no_other_error_or_warning",
    ),
    Row(
        "E",
        "Stream End: 0 OK, 1 State Changed",
        (
            "1 is state-changed on a UPR connection, closed on others; both are shown if the "
            "generation is unknown"
        ),
        _FIRST + "test_a_stream_end_of_1_is_state_changed "
        "test_what_the_first_generation_lacks_makes_the_connection_a_later_one"
        " test_what_only_the_lost_messages_had_shown_is_not_known_and_both_readings_are_told",
    ),
    Row(
        "E",
        "Mutation: extras and key, perhaps a value; 30 bytes",
        "read with a note; 31 bytes since 3.0",
        _SHAPE + "; " + _DISAGREEMENTS,
    ),
    _example("E", "Mutation: example", "seed004-14"),
    Row(
        "E",
        "Deletion: extras of 18 bytes and key, no value",
        "fits; the value may hold xattrs",
        _SHAPE + "; " + _DISAGREEMENTS,
    ),
    _example("E", "Deletion: example", "seed004-15"),
    Row(
        "E",
        "Expiration: extras of 18 bytes and key, no value",
        "read with a note, 20 bytes since 6.5; the value may hold xattrs",
        _SHAPE + "; " + _DISAGREEMENTS,
    ),
    _example("E", "Expiration: example", "seed004-16"),
    Row("E", "Flush: no extras, key or value", "what does not fit is reported", _SHAPE),
    _example("E", "Flush: example", "seed004-17"),
    Row("E", "Mutation, Deletion, Expiration: no reply", "a success is unexpected-reply", _UNASKED),
    Row(
        "E",
        "Flush: no reply; deletes all data of the vbucket",
        "read and named, never sent by a server",
        _SECTIONS + "test_a_flush_is_named_with_what_it_does",
    ),
    Row("E", "Set VBucket State: 1 byte of extras", "what does not fit is reported", _SHAPE),
    Row(
        "E",
        "Set VBucket State: 1 active, 2 pending, 3 replica, 4 dead",
        (
            "so on a UPR connection; 2 replica and 3 pending on others; both are shown if the "
            "generation is unknown"
        ),
        _FIRST
        + (
            "test_vbucket_states_are_numbered_as_the_page_has_them; "
            "protocol/layouts/test_vbucket_state.py test_a_state_has_a_word"
        ),
    ),
    Row(
        "E",
        "Set VBucket State: used in a takeover",
        "without takeover it is takeover-sequence",
        "findings/test_pairing.py test_a_state_set_on_a_stream_without_takeover",
    ),
    Row(
        "E",
        "Set VBucket State: no reply",
        "servers of every release answer: the answer is waited for",
        _DISAGREEMENTS + "; findings/test_pairing.py test_a_state_that_is_set_and_not_answered",
    ),
    _example("E", "Set VBucket State: example", "seed004-18"),
)


def specification_markdown() -> list[str]:
    """Returns the rows for the protocol page."""
    out = [
        "| letter | document |",
        "|---|---|",
        *(f"| {letter} | {title} |" for letter, title in DOCUMENTS.items()),
        "",
    ]
    out += ["| document | what it says | what dcpinspect does | tests |", "|---|---|---|---|"]
    for row in ROWS:
        out.append(
            f"| {', '.join(row.documents)} | {row.says} | {row.does} | "
            f"{'<br>'.join(shown_by(row))} |"
        )
    return out


def shown_by(row: Row) -> list[str]:
    """Returns the ids of the tests of a row, each once, with paths from the root of the
    repository.
    """
    parts = [part.split() for part in row.tests.split(";")]
    return list(dict.fromkeys(f"tests/{file}::{name}" for file, *names in parts for name in names))
