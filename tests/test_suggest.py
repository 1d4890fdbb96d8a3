"""What a name may have been meant to be."""

from __future__ import annotations

from dcpinspect.suggest import did_you_mean, did_you_mean_file


def test_close_names_are_asked_about() -> None:
    assert did_you_mean("mutaton", ["dcp_deletion", "dcp_mutation"]) == "; did you mean dcp_mutation?"
    assert did_you_mean("vbukket", {"vbucket": 1, "vbuckets": 2}) == "; did you mean vbucket or vbuckets?"


def test_nothing_is_said_where_nothing_is_close() -> None:
    assert did_you_mean("xyzzy", ["dcp_mutation"]) == ""
    assert did_you_mean("nope", ["opaque"]) == ""
    assert did_you_mean("", []) == ""


def test_names_of_files_are_compared_without_their_endings() -> None:
    assert did_you_mean_file("nosuch.pcap", ["lossy.pcap", "loop.pcap"]) == ""
    assert did_you_mean_file("rolback.pcap", ["lossy.pcap", "rollback.ndjson", "rollback.pcap"]) == (
        "; did you mean rollback.pcap or rollback.ndjson?"
    )


def test_headings_of_lists_suggest_their_columns() -> None:
    assert did_you_mean("vb", ["row", "vbucket"]) == "; did you mean vbucket?"
    assert did_you_mean("Seqno", ["start_seqno", "by_seqno"]) == "; did you mean by_seqno?"
