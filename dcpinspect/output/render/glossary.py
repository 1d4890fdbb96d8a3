"""The meanings of the words in tables, for ``dcpinspect explain`` and docs/streams.md."""

from __future__ import annotations

from dcpinspect.text import groups

_TEXT = """
answer of a stream
    accepted: the server granted the stream
    rollback: the server asked the client to roll back to rollback_seqno
    refused: the server answered with another status than success or rollback
    unanswered: no answer came, and no capture loss can hide one
    unknown: the request was not captured, or capture loss may hide the answer; or nobody requested
        what came
verdict of a stream
    never-opened: no stream: messages came for a vbucket for which none was opened
    never-answered: unanswered for long (2 s, or ten times the slowest answer before), or until the
        connection closed
    refused: the answer was a refusal
    rolled-back: the answer was a rollback
    ended: a stream end came, the client closed it, or the connection closed; end_reason says which
    unknown-capture: no marker since the capture began, or capture loss after the last message
    starved-by-flow-control: the connection's window is full: the server waits for an
        acknowledgement
    stalled: the client's TCP window has been 0 up to now, so the server cannot send
    behind: the server has a higher seqno, and no message of the stream has come for long since the
        first answer with it
    backfilling: a snapshot from disk or an OSO snapshot is under way
    advancing: another snapshot is under way
    caught-up: the last snapshot is complete, and no newer one began
    silent: accepted, and no message so far
end_reason of a stream
    ok: the requested end was reached
    closed: the client closed it
    state-changed: the vbucket is no longer active there
    disconnected: the server is closing the connection
    too-slow: the client was too slow
    backfill-failed: reading from disk failed; after an error in itself, a server from 8.5 on closes
        the connection, too
    rollback: the client has to roll back
    filter-empty: every requested collection was dropped
    lost-privileges: the user may no longer read the requested data
    connection-closed: no stream end came before the connection closed
    unknown: it ended, and capture loss may hide why, or the reason cannot be read
verdict of a connection
    not-connected: no TCP connection came about: its SYN was refused, or nobody answered it
    without-dcp: nothing opened it for DCP: it carried other commands alone, or HTTP, or nothing
    refused: the open was refused
    closed: it has ended; closed_by says who closed it
    unknown-capture: the open was not captured, or TLS hides it, and no message shows one; or
        capture loss hides the end of the server's side
    starved-by-flow-control: its window is full
    stalled: the TCP window of an end with streams has been 0 up to now
    noop-dead: a noop was not answered
    streaming: a stream is backfilling or advancing
    idle: open, and no other verdict fits: it has no stream that is under way
state of a snapshot
    complete: the event with its last seqno came
    complete-seqno-advanced: SeqnoAdvanced led to its last seqno
    complete-oso: the end of the OSO snapshot came
    continued: another marker with the same range and history follows, or an overlapping one from a
        replica
    open: it was under way when the capture ended
    cut: the stream or the connection ended first, so no promised seqno is missing
    incomplete: the next marker, or a stream end with reason ok, came before its last seqno
    unknown: capture loss, or a marker without a range
    refused: the consumer refused the marker, so it began no snapshot
convention of a snapshot
    memory-1: starts at the request: first of the stream; starts where the client's request or its
        snapshot does, so the client already has that seqno
    memory-2: starts at its checkpoint: later; starts with the first seqno of its checkpoint, which
        may be de-duplicated
    memory-3: starts at its first event: the one that follows
    disk-1: starts at the request: first of the stream, from disk; starts where the client's request
        or its snapshot does
    disk-later: starts at its range: later, from disk or from a disk checkpoint in memory; the first
        seqno of its range may be missing. Servers before 2019 send it without the checkpoint flag
    disk-3-first-event: starts at its first event: later, the rest of a disk checkpoint in memory;
        starts with the event that follows
    irregular: its start fits none of the other conventions
    unknown: the request, the place in the stream, or the first event is unknown
cause of a gap
    capture-loss: bytes between the two messages were not captured or could not be read; or the
        marker before them was not captured. The evidence says which
    rollback: the client asked to resume from here, and was rolled back
    resumed: the client resumed above the last seqno of its stream before
    oso: an OSO snapshot is complete without them
    seqno-advanced: a SeqnoAdvanced shows that they are not for this client
    invisible: they are above the marker's greatest visible seqno. Or another stream shows what they
        are: not for this client, or completed prepares, which a snapshot from disk may leave out
    snapshot-tail: the end of a snapshot that is incomplete
    filtered: the stream asks for some collections only, or the connection for no deletions of the
        first backfill; or another stream shows that some of them are not for this client, and the
        rest may be de-duplicated
    deduplicated: before an event inside its snapshot's range, back to the event before or to the
        start of the stream; the server does not send older versions of changed documents, documents
        of dropped collections, or what compaction purged; it may also hide them from this client,
        or leave them out by a request that was not captured, and the evidence says so where no
        other stream tells
    unexplained: no known cause, or a sign that they should have come: a snapshot with history, or
        another stream that has them
cause of a rollback
    strict-uuid: a request from 0, with a uuid that the log does not have and the flag that forbids
        it
    unknown-uuid: back to 0, because the log does not have the client's uuid, so there is no common
        history
    no-uuid: back to 0, because the client sent a seqno without the uuid of its history
    leading-consumer: the client is ahead of where its branch was left, or of the server
    snapshot-mismatch: back to the start of a snapshot, because the client is in the middle of it,
        and the server does not have all of it
    purge: back to 0 although the branch is known, because tombstones that the client needs are
        purged
    unknown: no failover log is in the capture, or the log does not explain it
verdict of a difference
    different: what the two sides show cannot both be of one history and one request
    not-compared: the captures do not tell, as where one of them lacks packets
    alike: the two sides do not contradict each other, as where a later version of the key came
verdict of a vbucket
    orphaned: its stream ended or was refused, and its client did not request it again; all other
        verdicts are those of its newest stream
    lost-something: only in before_end: it had a gap with the cause unexplained or resumed
    rolled-back: the newest stream was answered with a rollback; in before_end: one was, and the
        client did not follow it
type of a snapshot
    memory: its items come from memory, and were written recently
    disk: its items are read from disk, in a backfill
    oso: its items come out of order, in a backfill of a collection
    unknown: the marker was not captured, or does not say it
layout of a snapshot marker
    upr: marker of the first specification, without a range
    v1: range and flags
    v2.0: with the greatest visible and the high completed seqno
    v2.1: with the time of the snapshot, too
    v2.2: with the purge seqno, too
role of the TCP server
    producer: the server sends documents
    consumer: the server receives documents: a replica, or a restore
severity of a finding
    error: data is lost or wrong, a stream does not go on, or the protocol is broken
    warning: somebody has to look, because a client goes wrong, a server refuses, or it costs time
    note: good to know; a refused request after which the client got its stream is one, too
family of a rule
    wire: the bytes of single messages
    session: how a connection is set up, asked and answered
    stream: requests, seqnos and ends of streams
    snapshot: markers and what they promise
    flow: flow control: windows and acknowledgements
    noop: noops and their answers
    capture: capture loss
    log: what the server's log, and checkpoints, say
    lint: what is recommended to clients
verdict of lint
    PASS: the connection does what the rule recommends
    FAIL: it does not; the finding of the rule says what to do
    NA: the rule does not apply to it, or what was captured does not tell
direction of a message
    c2s: from the client to the server, by who opened the TCP connection
    s2c: from the server to the client
word of DCP
    vbucket: one of the parts of a bucket, most often 1,024; each has one active node, and its own
        stream
    bucket: a store of documents on a cluster; a connection selects one
    stream: the changes of one vbucket on one connection, from a seqno on; a client asks for it, and
        either side may end it
    seqno: the number of a change in its vbucket; it grows with every change, so it says how far a
        client is
    by_seqno: the seqno of a change, as it stands in messages; the same as seqno
    snapshot: a run of changes that belong together; a client is at a consistent point only at its
        end
    snapshot marker: the message that begins a snapshot, with its first and its last seqno
    marker: the snapshot marker
    checkpoint: of a server: changes in memory, from which it sends snapshots; of a client: what it
        stored to resume its streams, seqno, snapshot and vbucket uuid
    cursor: the place in a server's memory from which a stream is sent; a slow client loses it, and
        is sent from disk again
    backfill: what a server reads from disk for a stream, because it is not in memory
    failover: another node becomes active for vbuckets of one that failed; each of these vbuckets
        gets a new branch
    failover log: the branches of a vbucket's history, newest first; each entry has a vbucket uuid
        and the seqno at which that branch began
    branch: a part of a vbucket's history; a failover or a crash begins a new one, with a new
        vbucket uuid
    vbucket uuid: the name of one branch of a vbucket's history; a failover makes a new one
    uuid: in dcpinspect, the vbucket uuid: the name of one branch of a vbucket's history
    uid: the number of a version of the manifest, which grows when a collection or a scope comes or
        goes
    manifest: the list of scopes and collections of a bucket; its uid says which version
    collection: a named set of documents in a scope of a bucket; a key on the wire begins with its
        id
    scope: a named set of collections in a bucket
    rollback: the server's answer to a client whose history is not its own: the client must discard
        what is above the rollback seqno, and ask again from there
    opaque: a number that the client chooses for a request; its answer has the same number, and so
        have all messages of a stream
    stream-id: a number that tells streams of one vbucket on one connection apart; it exists only
        where the client asked for it
    sid: the stream-id, a number that tells streams of one vbucket on one connection apart
    high seqno: the newest seqno that a node has for a vbucket; a client that has it is up to date. In
        tables it is what the node said last, so later items may have greater seqnos
    purge seqno: the seqno up to which tombstones may be gone; a client that resumes below it may
        have to begin again from 0
    tombstone: what stays of a deleted document, so that clients learn of the deletion; compaction
        purges it after some days
    mutation: a change that stores a document
    prepare: a change with durability that is not committed yet; clients may not see it before its
        commit
    OSO snapshot: a snapshot from disk that is not in seqno order; it is complete when its end
        message comes
    noop: a request that the server sends to see whether the client lives; the client must answer
        with the same opaque
    flow-control window: how many bytes the server may send before the client acknowledges some;
        when it is full, the server waits
    window: of flow control: how many bytes the server may send before the client acknowledges some
    flow control: the server sends no more than the window has, until the client acknowledges
    zero window: an end announces a TCP receive window of 0: it takes no bytes
    branch point: the seqno at which a branch of a failover log began
    CAS: the version of a document, which every change makes new; it is also the time of the change
        by the node's clock
    consumer: the side of a connection that receives changes; that is the client, but in a
        replication the TCP server
    producer: the side of a connection that sends changes; that is the server, but in a replication
        the TCP client
    vb: a vbucket
    prepared: of a seqno: its change is a prepare
    completed: of a prepare: it was committed or aborted
    dcp_disconnect_when_stuck_name_regex: a setting of servers: the DCP names of clients that they
        disconnect if these acknowledge nothing for dcp_disconnect_when_stuck_timeout_seconds
    dcp_disconnect_when_stuck_timeout_seconds: a setting of servers: after how many seconds without
        an acknowledgement they disconnect these clients
    node: one of the servers of a cluster
    cluster: servers that share the vbuckets of their buckets
    rebalance: the cluster moves vbuckets between its nodes, as when one is added; the streams of a
        vbucket that moves end with state-changed, and go on at its new node
    replication: a node streams vbuckets from the nodes where they are active; XDCR does so for
        another cluster
    stream request: the message dcp_stream_req, by which a client asks for a vbucket's changes after
        a seqno
    stream end: the message dcp_stream_end, by which a server ends a stream and says why
    ended early: of a stream: its end came before the seqno that was asked for
    persisted: of a change: a node has it on disk
    acknowledgement: the message dcp_buffer_acknowledgement, by which a client says how many bytes
        it has worked through, so that the window has room again
    SASL: how a client says who it is; the mechanism decides what stands on the wire
    PLAIN: of SASL: name and password are sent as they are, and who has the packets has them
    SCRAM: of SASL: the client proves that it has the password, and does not send it
    cluster map: the list of which node is active for which vbucket; a client that has an old one
        asks the wrong node
word of TCP and TLS
    SYN: the first packet of each side of a connection, with which its sequence numbers begin
    handshake: the packets with which two sides begin: of TCP the two SYN and what acknowledges
        them, of TLS the messages that agree on keys
    FIN: the packet with which a side says that it sends no more: an orderly close
    RST: the packet that resets a connection
    TLS: encryption of a connection; with the key log of its client, --keylog opens it
    reset: an end of a connection at once, without FIN: a process ended or did not take what it was
        sent, or a device between cut the connection; what was under way is lost
    ALPN: what a client and a server say in TLS of the protocol that they speak inside
    SNI: the name of the server that a client asks for in TLS, before anything is encrypted
    client random: a number in the first message of a client's TLS, by which a key log names the
        connection
    key log: a file of the secrets of a client's TLS connections, which opens them
    proxy: a program between client and server that takes connections and makes its own; each
        conversation then has two connections, its legs
    sidecar: a proxy beside a program, in its pod, which may encrypt what the program sends in plain
    service mesh: sidecars beside all programs of a cluster; what they say to each other is TLS, to
        which neither client nor server has the keys
    address translation: a device or a kernel gives packets another address or port; a capture on
        both sides has each conversation twice
    NAT: address translation
    keepalive: a packet without new bytes that asks whether the other end is still there; DCP has
        noop for that
    TCP window: how many bytes an end takes at once, by what it announces; DCP has a flow-control
        window of its own
word of dcpinspect
    Con: the connection, by its number
    ahead: of a client: it has seqnos that the server's history does not have; of a clock: it shows
        a later time than the other
    hidden: of bytes: they are credentials, which dcpinspect does not print; of seqnos: the server
        does not send them to this client
    snapshot length: how many bytes of a packet a capture keeps, as set by tcpdump -s; of the rest
        nothing can be read
    packets used: of stats: packets that may be DCP, whose bytes were read
    missing: of bytes: they were sent, and are not in the capture
    mid-stream: of a connection: the capture begins after its handshake; of skipped bytes: it begins
        inside a message
    one direction: of a capture: it has what one side of a connection sent, and not the other
    behind a proxy: of a connection: it is the leg of a proxy whose other leg is captured, too
    after address translation: of a connection: it shows the conversation of another one, with the
        addresses that a device or a kernel put in
    compaction: of a vbucket's file: the server drops old versions of documents, dropped
        collections, and tombstones older than the purge interval
    conversation: what client and server say to each other on one connection; a capture on both sides
        of a proxy or of address translation has it twice
    ended silent: of a vbucket: it has ended, and no item of it came before
    ended caught-up: of a vbucket: it has ended, and its client had all up to the high seqno
    ended behind: of a vbucket: it has ended, and before that the server had a higher seqno, and no
        message of the stream had come for long
    ended lost-something: of a vbucket: it has ended, and items that its client should have had did
        not come
    stale: out of date, as a cluster map by which a client asks the wrong node
    cell: the smallest part of a map, a timeline or a chart, of one or more vbuckets, or of a stretch
        of seqnos or time
    loop: of a client: it goes on asking for what the server answers with a rollback each time
    receives nothing: of a vbucket: its client has no stream of it any more, or one that sends
        nothing
    new branch: of a vbucket: what its history goes on with after a failover or a crash, with a new
        vbucket uuid
    strict flag: the flag strict-vbucket-uuid of a stream request: even one from 0 must not name a
        uuid that the server does not know
    group: clients that share the vbuckets of a bucket, such as the workers of a connector; the
        host in their DCP names tells them apart
    member: of a group: one of the clients that share its vbuckets
    coverage: what became of every byte: decoded, skipped, unfinished, or not captured
    clock: of a capture: where its packets got their times; another machine's may be ahead or behind
    tap: a device that copies the packets of a line for a capture
    at fault: of a finding: the side whose mistake it is
    %2: behind an address: it is of the second network in the capture that has this address, where
        another server has it
    Summary: of read: what a message says, in short
    throughput: how many bytes were sent in a time
    block: of charts, stats and io: a stretch of time whose messages or bytes are counted together
    server has: the greatest seqno that the server said the vbucket has
    came to: of a snapshot: the greatest seqno that came; the rest of its range did not
    did not come: of seqnos: the stream did not deliver them; the cause of the gap says why
    end reached: of a stream: the seqno came up to which the client had asked
    straddles: of a snapshot: it begins below a branch point and ends above, so part of it is lost
    purge interval: how long a bucket keeps tombstones; a client that was away for longer starts
        again from 0
    below DCP: of info: what TCP, TLS or a network did, which no message of DCP shows
    not over by the end: of a finding: the capture ends, and it goes on
    nobody is at fault: of a finding: this happens where nothing is wrong
    lacks: of diff: the side that does not have the event
    captured: what the capture has: of bytes, those of the payload that came into it
    decoded: bytes that are in messages
    skipped: bytes between messages, up to the next one that can be read; after a hole, or where no
        message can begin
    unfinished: bytes of a message whose end is not in the capture
    not decodable: of bytes: they belong to another protocol
    duplicate: of bytes: the capture has them once more, as sent again or as a packet twice
    late: of bytes: they came after they were given up, or belong to no connection
    cut off: of bytes: they are missing because packets are longer than the snapshot length
    promised: in the range of a snapshot marker
    followed: of a rollback: the client asked again, from the rollback seqno
    no end: a stream request with the greatest seqno as its end: the stream goes on, unless a flag as
        to-latest sets its end
    operator: who runs servers and clients; what to do next is said first for them, then for the
        client's author
    rows with copies: all rows, of which those of a copy are not counted as messages
    copy: a connection that shows the conversation of another one, which counts in its place
    leg: one of the two connections of a conversation through a proxy
    hole: a range of bytes of a connection that is not in the capture; the receiver may have had
        these bytes
    capture loss: what the capture does not have, although it was sent; it is the fault of the
        capture, never of server or client
    gap: a run of seqnos that a stream did not deliver; most gaps are normal
    cause: why a gap or a rollback is there; a finding that explains others is their cause, too
    finding: what a rule of check found, with the messages that show it; it says what happened, to
        whom, and what to do
    effect: a finding that another finding explains; it is counted under its cause, and --all shows
        it
    verdict: one word for how a stream, a vbucket or a connection is at the end of the capture
    evidence: the messages that show a finding, or the sentence that says why a gap has its cause
    frame: a packet by its number in the capture, as Wireshark counts; of a message in several
        packets, findings name the last one, where Wireshark shows it, and the column frame of
        messages the first one
    row: a message by its number in the reading, from 1
    item: a change that a stream delivered: a mutation, a deletion, an expiration, a prepare, a
        commit, an abort or a system event
    convention: the way in which a server chooses the first seqno of a snapshot
    outstanding: bytes that were sent and are not acknowledged yet
    out-of-order: of a snapshot: its items come in another order than that of their seqnos, in a
        backfill of a collection
    received: of items and seqnos: the capture shows that they were sent to the client
    resume: of a client: it asks for a vbucket from the last seqno that it has, and not from 0
    discard: of a client: it drops what it took from seqnos that the server's history does not have
    full window: as many bytes are not acknowledged as the flow-control window has, so the server
        sends no more
    stall: of a connection: the server could send, and its window stays full
    fell back to disk: of a stream from memory: the server dropped its cursor, and sends it from
        disk again
    share: a part of all, in percent
    p50: the median: half of the values are at most this; p95 and p99: so many in 100 are
    p95: 95 in 100 values are at most this
    p99: 99 in 100 values are at most this
    command: what a message asks for, by its opcode
    request: a message that asks for something; timelines (Q) tell the requests of streams
    response: a message that answers a request, by the same opaque
    least: the smallest of the values
    greatest: the largest of the values
    most: the largest of the values
    traffic: of info: how many packets, connections, messages and streams there are
    fields: of a message as JSON: its parts in wire order, which hold every byte of it
    meaning: of a field as JSON: what its value says, in words
    schema: the name and version of the contract of a JSON record; dcpinspect schema prints the
        contract
    recovered: of a finding: the client has the streams or answers again that it had lost
    visible: of a snapshot marker, the greatest seqno that a client which does not know prepares can
        get
    normal: of a finding: nobody is at fault, because this happens where nothing is wrong
    complete: of info: capture loss, and which share of its bytes was decoded; of a snapshot: its
        last seqno came
    heuristic: of a message: it was found by trying, and nothing proves that it begins there
    bytes not acknowledged: of flow control: what the server sent and the client has not
        acknowledged yet; at the size of the window the server waits
    lost data: of the verdict of check: items that should have come to the client did not come
    skipped seqnos: of the verdict of check: a client resumed above what it had, so it lacks changes
    durability: what a write waits for: that a majority of nodes has it in memory, or on disk
    map: of vbuckets: a cell for each, with its verdict; of a cluster: which node is active for which
        vbucket
    why skipped: of coverage: what stood where a message should begin
    protocol: of coverage: what bytes belong to that are no messages, such as TLS or HTTP
    ended after a rollback: of a vbucket: it has ended, and was rolled back before
    after a rollback: of a vbucket: it was rolled back before; the word in front says how it stands
    pale: of a snapshot in a chart: the part of its range that did not come
    nothing came: of a snapshot: no seqno of its range did
    came: of seqnos: the capture shows that they were sent to the client
    dashed: of a snapshot in a chart: it has history
    with an error: of a vbucket: a finding of the severity error is about it
    do not create: of the expiration of a counter: a document that is not there is not made
    when: of a finding: its first and its last time
    explains: of a finding: others that came of it, which are counted under it
    explained by others: of findings: others are their causes, under which check counts them
    bytes captured: of coverage: what of the payload of a direction is in the capture
    request_frame: of a report: the packet with the request, as Wireshark counts
    log_frame: of a report: the packet with the answer that has the failover log
    nobody: of whose: nobody is at fault, because this happens where nothing is wrong
    not known: of whose: neither side is known to be at fault
event of a server's log
    connection-opened: DCP was opened
    connection-removed: a connection is closed
    connection-destroyed: what the server kept of a connection is gone
    stream-created: a stream was created
    stream-requested: the server, as consumer, asks another node for a stream
    stream-sent: all of a stream was sent that is to be sent
    stream-closed: a stream ended
    end-received: a stream of which the server is the consumer ended
    rollback-received: a request of the server, as consumer, was answered with a rollback
    cursor-registered: a stream reads from memory from here on
    backfill-scheduled: items are to be read from disk
    backfill-complete: all items were read from disk
    backfill-state: a backfill was put off, left out, or failed
    disk-snapshot: items from disk are sent
    buffer-full: the server waited for the consumer's window
    window-state: the consumer's window is full, or no longer
    request-refused: a request other than for a stream failed
    message-refused: the server, as consumer, refuses a message
    vbucket-state: a vbucket became active, replica, pending or dead
    failover-entry: a new branch of the history
    stream-state: a stream went into another state
    disconnect: the server gives a connection up
    other: all else that a connection or stream of DCP says
    vbucket-seqnos: of statistics: how far a vbucket is
state of a vbucket
    alive: asked for, not a state of its own: any of the others but dead
    active: the node answers reads and writes of the vbucket, and clients stream it from there
    replica: the node has a copy of the vbucket, which it gets from the active node
    pending: the node takes the vbucket over, and is not active yet
    dead: the node has given the vbucket away, and answers nothing for it
state of a server's stream
    in-memory: items come from memory; those from disk were all read
    takeover-send: the vbucket moves to the consumer, to which the last items are sent
    takeover-wait: all is sent, and the consumer has to answer for the vbucket's new state
    reading: the server, as consumer, takes what another node sends
table
    messages: a row is a message of a connection, in the order of the capture
    streams: a row is a stream, from its request to its end
    snapshots: a row is a snapshot of a stream
    gaps: a row is seqnos that a stream did not deliver, and why
    rollbacks: a row is a stream request that was rolled back, and why
    connections: a row is a TCP connection
    vbuckets: a row is a vbucket of a client, over all its streams
    findings: a row is a finding of dcpinspect check
    paths: a row is a direction of a connection that was captured at two points
    captures: a row is a capture file of a pipeline
    bad: a row is what is wrong with a capture file of a pipeline, or a note about it
    runs: a row is a run of a pipeline in the last day, with the version of each other table
    log_events: a row is what a server's log or its statistics say at one time, with --log
system event
    begin-collection: a collection was created
    end-collection: a collection was dropped, with all of its documents
    flush-collection: all documents of a collection were deleted
    create-scope: a scope was created
    drop-scope: a scope was dropped
    modify-collection: settings of a collection were changed
durability level
    majority: a majority of nodes must have the change in memory; as a number 1
    majority-and-persist-on-active: a majority must have the change in memory, and the active node
        on disk; as a number 2
    persist-to-majority: a majority must have the change on disk; as a number 3
"""
GLOSSARY = groups(_TEXT)
"""Words and their meanings, by the column that has them; in order of precedence if any."""
CONVENTION_TEXTS = {
    word: meaning.partition(":")[0] if ":" in meaning else word
    for word, meaning in GLOSSARY["convention of a snapshot"].items()
}
"""How tables for people name the conventions: the type of the snapshot stands beside them."""
WHOSE_TEXTS = {"normal": "nobody", "unknown": "not known"}
"""How tables for people say on which side a fault is, where it is on none."""


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
            yet, or another one of its point has packets of the same time
        offset: where the damage is, in the unpacked bytes; null for the whole file
        what: what is wrong
    paths
        a_connection_id: A: connection_id where the connection counts
        b_connection_id: B: connection_id of the copy at the other point
        a_capture_point: A: capture point where the connection counts
        b_capture_point: B: the other capture point
    """
)
