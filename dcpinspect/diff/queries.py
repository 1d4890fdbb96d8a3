"""The comparison as SQL over the tables of both sides: ``events_a``, ``streams_a`` and so on are
A's, ``events_b`` … are B's.

Every query about the events that one side lacks is written once, for ``{lacks}`` (the side without
them) and ``{has}`` (the other side). Bounds of seqnos are as in the protocol: a branch, a stream
and a snapshot begin above ``above``, ``began`` and ``low``.
"""

from __future__ import annotations

from dcpinspect.diff.difference_columns import FIELDS, SIDES
from dcpinspect.protocol.datatype import SNAPPY
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.text import words_of

_PENDING = f"({Opcode.DCP_PREPARE:d}, {Opcode.DCP_ABORT:d})"
_DELETIONS = f"({Opcode.DCP_DELETION:d}, {Opcode.DCP_EXPIRATION:d})"
_SYSTEM = f"{Opcode.DCP_SYSTEM_EVENT:d}"
_AS_STORED = 0xFF & ~SNAPPY
"""Bits of the datatype that do not depend on the way to the client: any value may be compressed."""
_TOLD = words_of("opcode collection key cas datatype row time connection stream snapshot")
"""What is recorded of an event that is not the same on both sides."""

ONCE = """
create or replace table once_{side} as
select distinct on (vbucket, uuid, seqno) * from events_{side}
"""
"""Keeps each event once: a stream that resumes at an earlier seqno brings some events again."""

COLLECTIONS = """
create or replace table collections_{side} as select distinct stream, collection from events_{side}
"""

SHOWS = "select shows from once_a union select shows from once_b"
"""Selects the ways in which values are shown to either side."""

NEWEST = """
create or replace table newest_{side} as
select *, upto = 18446744073709551615 as is_newest
from branches_{side} join (select vbucket, max(stream) as stream from branches_{side} group by vbucket) using (vbucket, stream)
"""
"""Selects the branches that the latest stream of each vbucket was told of."""

UNEQUAL = f"""
create or replace table unequal as
with joined as (
  select
    coalesce(a.vbucket, b.vbucket) as vbucket, coalesce(a.uuid, b.uuid) as uuid, coalesce(a.seqno, b.seqno) as seqno,
    a.row is null as a_lacks, b.row is null as b_lacks,
    coalesce(a.opcode <> {_SYSTEM} and b.opcode <> {_SYSTEM} and a.key >= 0 and b.key >= 0 and a.collection >= 0 and b.collection >= 0
             and (a.key <> b.key or a.collection <> b.collection)
             and (a.shows >= 0 and b.shows >= 0 or a.cas <> b.cas), false) as differs_key,
    coalesce(a.state & b.state = 0, false) as differs_state,
    coalesce(a.state = b.state and a.has_cas and b.has_cas and a.cas <> b.cas, false) as differs_cas,
    coalesce(a.opcode = b.opcode and a.has_body and a.shows = b.shows and a.shows >= 0
             and (a.datatype & {_AS_STORED}) <> (b.datatype & {_AS_STORED}), false) as differs_datatype,
    coalesce(a.opcode = b.opcode and a.has_body and a.shows = b.shows and a.shows >= 0 and a.datatype = b.datatype and not a.is_packed
             and a.value >= 0 and b.value >= 0 and a.value <> b.value, false) as differs_value,
    {", ".join(f"{side}.{name} as {side}_{name}" for side in SIDES for name in _TOLD)}
  from once_a a full join once_b b on a.vbucket = b.vbucket and a.uuid = b.uuid and a.seqno = b.seqno
)
select * from joined
where a_lacks or b_lacks or ({" or ".join(f"differs_{name}" for name in FIELDS)}) and vbucket not in (select vbucket from doubted)
"""
"""Selects the events that one side lacks, and those that differ; of the latter none in vbuckets
whose branches are in doubt.

If it is not known whether a connection has collections, the first byte of a key may be mistaken for
a collection. Then an event counts as one with another key only if the CAS differ, too.
"""

MISSING = """
create or replace table missing_{lacks} as
select row_number() over () as id, vbucket, uuid, seqno, {has}_opcode as opcode, {has}_collection as collection, {has}_key as key,
       {has}_row as row, {has}_stream as has_stream, {has}_snapshot as has_snapshot
from unequal where {lacks}_lacks
"""

COVERED = f"""
create or replace table covered_{{lacks}} as
with near as (
  select m.*, b.stream
  from missing_{{lacks}} m
    join branches_{{lacks}} b on m.vbucket = b.vbucket and m.uuid = b.uuid and m.seqno > b.above and m.seqno <= b.upto
), within as (
  select n.*, s.* exclude (stream, vbucket)
  from near n join streams_{{lacks}} s on n.stream = s.stream and n.seqno > s.began and n.seqno <= s.reached
), in_gap as (
  select w.*, g.after, g.before, g.cause, g.snapshot
  from within w asof left join gaps_{{lacks}} g on w.stream = g.stream and w.seqno > g.after
)
select
  i.* exclude (after, before, cause, snapshot),
  if(i.seqno < i.before, i.after, null) as gap_after, if(i.seqno < i.before, i.before, null) as gap_before,
  if(i.seqno < i.before, i.cause, null) as cause,
  p.snapshot, p.low, p.start as snapshot_start, p.high, p.index, p.is_complete, p.is_tainted, p.is_partial, p.is_disk, p.purge,
  i.opcode in {_PENDING} and not i.prepares
    or i.opcode = {_SYSTEM} and not i.system_events
    or i.opcode in {_DELETIONS} and not i.deletions
    or i.collection >= 0 and i.collections is not null and not list_contains(i.collections, i.collection)
       and not (i.has_all and exists (from collections_{{lacks}} c where c.stream = i.stream and c.collection = i.collection))
    as is_unasked
from in_gap i left join snapshots_{{lacks}} p on p.snapshot = i.snapshot and i.seqno < i.before
"""
"""Selects the events that a side lacks although a stream of it accounts for their seqnos, with the
gap and the snapshot that hold them.
"""

LATER = """
create or replace table later_{lacks} as
select distinct c.id, c.stream
from covered_{lacks} c join events_{lacks} e
  on e.vbucket = c.vbucket and e.stream = c.stream and e.seqno > c.seqno and e.collection = c.collection and e.key = c.key
  join snapshots_{lacks} p on p.snapshot = e.snapshot and p.low < c.seqno
union
select distinct c.id, c.stream
from covered_{lacks} c join events_{lacks} e
  on e.vbucket = c.vbucket and e.stream = c.stream and e.seqno > c.seqno and e.ended = c.collection and c.collection >= 0
"""
"""Selects the covered events that have a later version on the same stream, in a snapshot whose
range begins below them; and those whose collection ended.
"""

UNREAD = """
create or replace table unread_{lacks} as
select distinct c.id, c.stream
from covered_{lacks} c join events_{lacks} e
  on e.stream = c.stream and e.key < 0 and e.seqno > c.seqno and (c.high is null or e.seqno <= c.high)
"""
"""Selects the covered events of which a message without its key may be a later version."""

LAST = """
create or replace table last_{lacks} as
select c.id, c.stream
from covered_{lacks} c
  join snapshots_{has} p on p.snapshot = c.has_snapshot
  join streams_{has} s on s.stream = c.has_stream
where not p.is_tainted
  and (p.high >= c.high and not p.has_history
    or s.reached >= c.high
       and not exists (from events_{has} e where e.stream = c.has_stream and e.key = c.key and e.collection = c.collection
                       and e.seqno > c.seqno and e.seqno <= c.high)
       and not exists (from gaps_{has} g where g.stream = c.has_stream and g.cause = {loss} and g.after < c.high and g.before > c.seqno)
       and not exists (from snapshots_{has} l where l.stream = c.has_stream and l.index > p.index and l.is_disk and l.low < c.high))
"""
"""Selects the covered events that the other side shows to be the last version of their key within
the snapshot that had to bring them.
"""

JUDGED = f"""
create or replace table judged_{{lacks}} as
select
  c.id,
  case
    when later.id is not null then if(c.is_unasked, 'filtered', 'deduplicated')
    when c.cause = {{loss}} then 'capture-loss'
    when c.cause in ({{rollback}}, {{resumed}}) then 'not-asked'
    when c.is_unasked then 'filtered'
    when c.vbucket in (select vbucket from doubted) then 'unknown'
    when c.opcode <> {_SYSTEM} and (c.collections is null or c.key < 0 or c.collection < 0) then 'unknown'
    when c.cause = {{unexplained}} and c.snapshot is null then 'not-sent'
    when c.snapshot is null then 'unknown'
    when c.is_tainted or unread.id is not null then 'capture-loss'
    when not c.is_complete or c.opcode in {_PENDING} or c.opcode = {_SYSTEM} then 'unknown'
    when c.is_partial and c.opcode in {_DELETIONS} and (c.purge is null or c.purge >= c.seqno) then 'purged'
    when c.is_partial and lasts.id is null then 'unknown'
    else 'not-sent'
  end as kind,
  c.stream, c.connection, false as is_lost, c.gap_after, c.gap_before, c.cause, c.snapshot_start, c.high,
  null::ubigint as began, null::ubigint as reached
from covered_{{lacks}} c
  left join later_{{lacks}} later on later.id = c.id and later.stream = c.stream
  left join unread_{{lacks}} unread on unread.id = c.id and unread.stream = c.stream
  left join last_{{lacks}} lasts on lasts.id = c.id and lasts.stream = c.stream
"""

OUTSIDE = """
create or replace table outside_{lacks} as
with alone as (
  select * from missing_{lacks} m where not exists (from covered_{lacks} c where c.id = m.id)
), ranges as (
  select b.vbucket, b.uuid, min(s.began) as began, arg_min(s.is_asked, s.began) as is_asked, max(s.reached) as reached,
         arg_max(s.asked_end, s.reached) as asked_end, arg_max(s.is_lost, s.reached) as is_lost,
         min(s.reached) filter (where s.is_lost) as lost_from,
         arg_max(s.connection, s.reached) as connection,
         arg_max(s.stream, s.reached) as stream, max(b.upto) as upto, min(b.above) as above
  from branches_{lacks} b join streams_{lacks} s on b.stream = s.stream
  group by b.vbucket, b.uuid
), now as (
  select l.vbucket, l.reached, any_value(h.upto) as fork,
         bool_or(exists (from missing_{has} m where m.vbucket = l.vbucket and m.uuid = l.uuid and m.seqno > h.upto)) as has_parted,
         bool_or(exists (from branches_{has} b where b.vbucket = l.vbucket and b.uuid = l.uuid)
                 and not exists (from missing_{has} m where m.vbucket = l.vbucket and m.uuid = l.uuid)) as was_left
  from (select n.vbucket, n.uuid, n.above, s.reached from newest_{lacks} n
        join (select vbucket, max(reached) as reached from streams_{lacks} group by vbucket) s using (vbucket) where n.is_newest) l
  left join newest_{has} h on h.vbucket = l.vbucket and h.uuid = l.uuid
  group by l.vbucket, l.reached
)
select
  a.id,
  case
    when now.vbucket is null then 'no-stream'
    when a.vbucket in (select vbucket from doubted) then 'unknown'
    when (r.uuid is null or a.seqno > r.upto or a.seqno <= r.above)
         and not exists (from newest_{has} n where n.vbucket = a.vbucket and n.uuid = a.uuid and a.seqno > n.above and a.seqno <= n.upto)
         then 'rolled-back'
    when r.uuid is null and now.fork is not null and not now.has_parted then 'not-reached'
    when r.uuid is null and now.fork is null and now.was_left then 'not-reached'
    when r.uuid is null or a.seqno > r.upto or a.seqno <= r.above then 'other-history'
    when a.seqno <= r.began and not r.is_asked then 'before-capture'
    when a.seqno <= r.began then 'not-asked'
    when a.seqno > r.reached and a.seqno > r.asked_end then 'not-asked'
    when a.seqno > r.reached then 'not-reached'
    when a.seqno > r.lost_from then 'capture-loss'
    when exists (from gaps_{lacks} g where g.stream in (select stream from branches_{lacks} b where b.vbucket = a.vbucket)
                 and g.cause = {loss} and g.after < a.seqno and g.before > a.seqno) then 'capture-loss'
    else 'not-asked'
  end as kind,
  r.stream, r.connection, r.is_lost, null::ubigint as gap_after, null::ubigint as gap_before, null::tinyint as cause,
  r.upto as snapshot_start, null::ubigint as high, coalesce(r.began, 0) as began, coalesce(r.reached, now.reached) as reached
from alone a
  left join ranges r on r.vbucket = a.vbucket and r.uuid = a.uuid
  left join now on now.vbucket = a.vbucket
"""
"""Decides why a side lacks the events whose seqnos no stream of it accounts for.

A side may only be earlier than the other if its branch also belongs to the newest history of the
other. It has parted from the other if it has events of that branch which the other's history lacks.
It may also have parted if the other was on its branch before the other's history began anew.
"""

RANKS = words_of("deduplicated capture-loss not-sent unknown filtered purged not-reached not-asked")
"""Kinds in order of preference, for an event that several streams of a side could have had."""

REASONS = """
create or replace table reasons_{lacks} as
select distinct on (id) * from (from judged_{lacks} union all from outside_{lacks})
order by id, list_position({ranks}, kind), stream
"""
"""Chooses the reason by its kind, and among streams with reasons of one kind the earliest."""

RUNS = """
create or replace table runs_{lacks} as
with told as (
  select m.*, r.* exclude (id, stream), r.stream as of_stream from missing_{lacks} m join reasons_{lacks} r on m.id = r.id
), numbered as (
  select *, if(kind in {single}, id, row_number() over (partition by vbucket, uuid order by seqno)
                                     - row_number() over (partition by vbucket, uuid, kind order by seqno)) as run
  from told
)
select kind, vbucket, uuid, min(seqno) as first_seqno, max(seqno) as last_seqno, count(*) as events,
       arg_min(row, seqno) as row, arg_min(connection, seqno) as connection, gap_after, gap_before,
       arg_min(cause, seqno) as cause, arg_min(snapshot_start, seqno) as snapshot_start, arg_min(high, seqno) as high,
       min(began) as began, max(reached) as reached, bool_or(is_lost) as is_lost
from numbered group by vbucket, uuid, kind, run, gap_after, gap_before
"""
"""Joins what a side lacks to ranges: neighbours that it lacks for one reason, in one gap."""

WHY = (COVERED, LATER, UNREAD, LAST, JUDGED, OUTSIDE, REASONS, RUNS)
"""The queries that lead from what a side lacks to the reasons, in order."""

COUNTS = """
select 'differs', null, count(*), count(distinct vbucket) from unequal where not a_lacks and not b_lacks
union all select kind, 'a', sum(events), count(distinct vbucket) from runs_a group by kind
union all select kind, 'b', sum(events), count(distinct vbucket) from runs_b group by kind
"""
"""Counts events, and vbuckets with any, by kind and by the side that lacks them."""

FILTERS = """
with asked_a as (
  select vbucket, list_sort(list_distinct(list(asks))) as asks from streams_a group by vbucket having count(*) = count(asks)
), asked_b as (
  select vbucket, list_sort(list_distinct(list(asks))) as asks from streams_b group by vbucket having count(*) = count(asks)
)
select a.vbucket, a.asks as a_asks, b.asks as b_asks from asked_a a join asked_b b using (vbucket)
where not list_has_any(a.asks, b.asks) order by 1
"""
"""Selects the vbuckets in which no request of one side asks for the same as a request of the other.
"""

SNAPSHOTS = """
with blind as (
  select vbucket from streams_a where not is_asked or stream in (select stream from gaps_a where cause = {loss})
  union select vbucket from streams_b where not is_asked or stream in (select stream from gaps_b where cause = {loss})
  union select vbucket from (from runs_a union all from runs_b) where kind in ('other-history', 'rolled-back')
), ranges as (
  select vbucket, greatest(a.began, b.began) as began, least(a.reached, b.reached) as reached
  from (select vbucket, min(began) as began, max(reached) as reached from streams_a group by vbucket) a
  join (select vbucket, min(began) as began, max(reached) as reached from streams_b group by vbucket) b using (vbucket)
  where vbucket not in (select vbucket from blind)
), ends_a as (
  select distinct p.vbucket, p.high from snapshots_a p join streams_a s using (stream) join ranges r on r.vbucket = p.vbucket
  where p.start is not null and p.high > r.began and p.high <= r.reached
), ends_b as (
  select distinct p.vbucket, p.high from snapshots_b p join streams_b s using (stream) join ranges r on r.vbucket = p.vbucket
  where p.start is not null and p.high > r.began and p.high <= r.reached
), alone as (
  select vbucket, min(high) as first, max(high) as last, count(*) as ends
  from ((from ends_a except from ends_b) union all (from ends_b except from ends_a)) group by vbucket
)
select vbucket, first, last, ends, coalesce(a.count, 0) as a_ends, coalesce(b.count, 0) as b_ends
from alone left join (select vbucket, count(*) as count from ends_a group by vbucket) a using (vbucket)
           left join (select vbucket, count(*) as count from ends_b group by vbucket) b using (vbucket)
order by vbucket
"""
"""Selects the vbuckets whose snapshots end at different seqnos, if both sides have streams and no
marker may have been lost.
"""

REACHED = """
with reached_a as (
  select b.vbucket, b.uuid, max(least(s.reached, b.upto)) as reached
  from branches_a b join streams_a s using (stream) where s.reached > b.above group by b.vbucket, b.uuid
), reached_b as (
  select b.vbucket, b.uuid, max(least(s.reached, b.upto)) as reached
  from branches_b b join streams_b s using (stream) where s.reached > b.above group by b.vbucket, b.uuid
)
select vbucket, uuid, a.reached as a_reached, b.reached as b_reached from reached_a a join reached_b b using (vbucket, uuid)
where a.reached <> b.reached order by 1, 2
"""
"""Selects the branches on which one side has come further than the other."""
