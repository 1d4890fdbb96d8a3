from __future__ import annotations

from dcpinspect.render.branches import branches, column_of, connectors, drawn, words
from dcpinspect.render.lanes import Scale
from tests.render.test_lanes import made

OLD, NEW, LOST = 0xA7, 0xB8, 0xBAD
SCALE = Scale(0, 1, 61)
LOG = [(NEW, 50), (OLD, 0)]
STREAMS = [
    made(requested_start=0, vbucket_uuid=0, failover_log=[(OLD, 0)], last_seqno=60),
    made(requested_start=60, vbucket_uuid=OLD, failover_log=None, rollback_seqno=50),
    made(requested_start=50, vbucket_uuid=NEW, failover_log=LOG, last_seqno=58),
]


def test_branches_have_their_streams_and_where_others_leave_them() -> None:
    new, old = branches(STREAMS)
    assert (new.uuid, new.start, new.end, new.parent, new.streams) == (NEW, 50, 58, OLD, [2])
    assert (old.uuid, old.start, old.end, old.parent, old.streams, old.leaves) == (OLD, 0, 60, None, [0, 1], [50])
    assert words(new) == "uuid 0x00000000000000b8 from seqno 50"


def test_a_branch_is_broken_where_no_later_one_shares_it() -> None:
    new, old = branches(STREAMS)
    assert "".join(drawn(old, SCALE, 61)) == "●" + "━" * 49 + "┻" + "╌" * 10
    assert "".join(drawn(new, SCALE, 61)).rstrip() == " " * 50 + "┏" + "━" * 8
    assert list(connectors([new, old], 1, 0, SCALE, 61)) == [50]
    assert list(connectors([new, old], 1, 1, SCALE, 61)) == []
    assert column_of(50, SCALE, 122) == 100


def test_a_branch_that_no_log_has_is_told_and_so_is_one_that_nobody_knows() -> None:
    asked = made(requested_start=9, vbucket_uuid=LOST, failover_log=None)
    seen = made(requested_start=None, vbucket_uuid=None, failover_log=None, last_seqno=7)
    found = branches([*STREAMS, asked, seen])
    assert [branch.uuid for branch in found] == [NEW, OLD, LOST, None]
    assert words(found[2]) == "uuid 0x0000000000000bad, in no failover log of the capture"
    assert "".join(drawn(found[2], SCALE, 61)).rstrip() == "?" + "━" * 9
    assert words(found[3]) == "branch not known"
    assert branches([]) == []
