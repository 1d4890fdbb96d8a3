"""What the columns mean that only tables of a pipeline have."""

from __future__ import annotations

from dcpinspect.text import groups

_POINT = "capture point: what saw the packets, such as a node or one of its interfaces"
_ID = (
    "number of the connection that stays the same from run to run; connection may change when "
    "older captures come"
)
_FILE = "name of the capture"

DOCS = groups(
    f"""
    messages
        connection_id: {_ID}
        capture_point: {_POINT}
        day: day of the message in UTC, by which files are divided
    connections
        connection_id: {_ID}
        capture_point: {_POINT}
        duplicate_of: connection_id of the same connection, captured more completely at another
            point; null for what counts
    captures
        file: {_FILE}
        capture_point: {_POINT}
        path: where it was read
        state: ok; damaged: the rest was read; bad: nothing could be read; expired: removed from the
            other tables because of its age
        format: pcap or pcapng, and what packs it
        bytes: its size, unpacked
        first_time: time of its first packet
        last_time: latest time of a packet
        packets: packets in it
        used: packets that may be DCP, which are kept
        problems: how many rows of bad are about it
        batch: number of the run that read it
    bad
        file: {_FILE}
        capture_point: {_POINT}
        severity: error: nothing was read; warning: a part is damaged; note: its end is not written
            yet
        offset: where the damage is, in the unpacked bytes; null for the whole file
        what: what is wrong
    paths
        a_connection_id: A: connection_id where the connection counts
        b_connection_id: B: connection_id of the copy at the other point
        a_capture_point: A: capture point where the connection counts
        b_capture_point: B: the other capture point
    """
)
