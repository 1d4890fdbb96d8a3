"""Where vbuckets are: all seqnos (0x48), observe (0x91, 0x92), persistence (0xb7), states."""

from dcpinspect.protocol.fields import RecordList
from dcpinspect.protocol.flags import VBUCKET_STATES
from dcpinspect.protocol.layout_text import fields, layouts
from dcpinspect.protocol.protocol_words import Words

_WHERE = {0: "not persisted", 1: "persisted", 0x80: "not found", 0x81: "logically deleted"}
_NAMED = {
    "any-state": {"values": {0: "alive", **VBUCKET_STATES}},
    "states": {"values": VBUCKET_STATES},
    "wait": {"shown": Words(frozenset({b"async=0", b"async=1"}))},
    "seqnos": RecordList(
        "seqnos",
        fields(
            """
            vbucket u16 (vb): vbucket
            seqno seqno (vb seqno): its high seqno
            """
        ),
        "high seqno of each vbucket",
        "entry",
    ),
    "keys": RecordList(
        "keys",
        fields(
            """
            vbucket u16: vbucket
            key_length u16: bytes of the key
            key key (Key) size=key_length: key
            """
        ),
        "keys asked about",
        "key",
    ),
    "key-states": RecordList(
        "keys",
        fields(
            """
            vbucket u16: vbucket
            key_length u16: bytes of the key
            key key (Key) size=key_length: key
            key_state u8 &where: where the key is
            cas cas (CAS): its version
            """,
            {"where": {"values": _WHERE}},
        ),
        "state of each key",
        "key",
    ),
}

LAYOUTS = layouts(
    """
    state
        extras state u32 (vb state) words &any-state: only vbuckets in this state
    observed
        value format u8: 0: same history; 1: after a hard failover
        value observed_vbucket u16 (vbucket): the vbucket that the answer is about
        value vbucket_uuid uuid (vb UUID): branch of the history
        value last_persisted_seqno seqno: everything up to here is on disk
        value current_seqno seqno: newest seqno in memory
    GET_ALL_VB_SEQNOS request
        spec: get-vbucket-seqnos.md
    GET_ALL_VB_SEQNOS request
        spec: get-vbucket-seqnos.md
        use: state
    GET_ALL_VB_SEQNOS request
        spec: get-vbucket-seqnos.md
        use: state
        extras collection_id id: only this collection
    GET_ALL_VB_SEQNOS response
        spec: get-vbucket-seqnos.md
        value?: *seqnos
    OBSERVE_SEQNO request
        value vbucket_uuid uuid (vb UUID): branch of the history asked about
    OBSERVE_SEQNO response
        use: observed
    OBSERVE_SEQNO response failover
        use: observed
        value old_vbucket_uuid uuid (old vb UUID): branch before the failover
        value last_received_seqno seqno: newest seqno of the old branch
    """,
    "BinaryProtocol.md",
    _NAMED,
) + layouts(
    """
    options
        value? json: topology: one or two chains of names of nodes, the active node first, null
            where a replica is missing; use_snapshot: fbr or fusion, from which the vbucket is made;
            next_expected_state: its state after the rebalance
    OBSERVE request
        value: *keys
    OBSERVE response
        value: *key-states
    SEQNO_PERSISTENCE request
        extras seqno seqno: answer once this seqno is on disk
    SEQNO_PERSISTENCE response
    GET_VBUCKET request
    GET_VBUCKET response
        value state u32 words &states: state of the vbucket
    SET_VBUCKET request
        extras state u8 words &states: new state
        use: options
    SET_VBUCKET request old legacy
        extras state u32 words &states: new state
        use: options
        note: four bytes, from older clients
    SET_VBUCKET response
    DEL_VBUCKET request
        value? text &wait: async=0 waits for the deletion
    DEL_VBUCKET response
    """,
    "BinaryProtocol.md",
    _NAMED,
    columns=False,
)
