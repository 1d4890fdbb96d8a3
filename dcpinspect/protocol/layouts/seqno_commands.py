"""Where vbuckets are: all seqnos (0x48), observe (0x91, 0x92), persistence (0xb7), states."""

from __future__ import annotations

from functools import partial

from dcpinspect.protocol.fields import Field, FieldKind, Layout, LayoutItem, RecordList
from dcpinspect.protocol.flags import VBUCKET_STATES
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.protocol_words import Words

_SPEC = "BinaryProtocol.md"
_ALL = "get-vbucket-seqnos.md"

_STATE = Field(
    "state",
    0,
    FieldKind.U32,
    "only vbuckets in this state",
    "vb state",
    values={0: "alive", **VBUCKET_STATES},
    words=True,
)
_COLLECTION = Field("collection_id", 4, FieldKind.ID, "only this collection", "collection id")

_OBSERVED: tuple[LayoutItem, ...] = (
    Field("format", 0, FieldKind.U8, "0: same history; 1: after a hard failover", "format"),
    Field("observed_vbucket", 1, FieldKind.U16, "vbucket", "vbucket"),
    Field("vbucket_uuid", 3, FieldKind.UUID, "branch of the history", "vb UUID"),
    Field(
        "last_persisted_seqno",
        11,
        FieldKind.SEQNO,
        "everything up to here is on disk",
        "last persisted seqno",
    ),
    Field("current_seqno", 19, FieldKind.SEQNO, "newest seqno in memory", "current seqno"),
)


_layout = partial(Layout, generation="v1", spec=_SPEC)

_VBUCKET_OPTIONS = (
    Field(
        "value",
        0,
        FieldKind.JSON,
        "topology: one or two chains of names of nodes, the active node first, null where a "
        "replica is missing; use_snapshot: fbr or fusion, from which the vbucket is made; "
        "next_expected_state: its state after the rebalance",
        "Value",
    ),
)

LAYOUTS = (
    _layout(Opcode.GET_ALL_VB_SEQNOS, "request", spec=_ALL),
    _layout(Opcode.GET_ALL_VB_SEQNOS, "request", spec=_ALL, extras=(_STATE,)),
    _layout(Opcode.GET_ALL_VB_SEQNOS, "request", spec=_ALL, extras=(_STATE, _COLLECTION)),
    _layout(
        Opcode.GET_ALL_VB_SEQNOS,
        "response",
        spec=_ALL,
        value=(
            RecordList(
                "seqnos",
                (
                    Field("vbucket", 0, FieldKind.U16, "vbucket", "vb"),
                    Field("seqno", 2, FieldKind.SEQNO, "its high seqno", "vb seqno"),
                ),
                "high seqno of each vbucket",
                "vbucket",
            ),
        ),
        value_required=False,
    ),
    _layout(
        Opcode.OBSERVE_SEQNO,
        "request",
        value=(
            Field(
                "vbucket_uuid", 0, FieldKind.UUID, "branch of the history asked about", "vb UUID"
            ),
        ),
    ),
    _layout(Opcode.OBSERVE_SEQNO, "response", value=_OBSERVED),
    _layout(
        Opcode.OBSERVE_SEQNO,
        "response",
        generation="failover",
        value=(
            *_OBSERVED,
            Field(
                "old_vbucket_uuid", 27, FieldKind.UUID, "branch before the failover", "old vb UUID"
            ),
            Field(
                "last_received_seqno",
                35,
                FieldKind.SEQNO,
                "newest seqno of the old branch",
                "last received seqno",
            ),
        ),
    ),
    _layout(
        Opcode.OBSERVE,
        "request",
        columns=False,
        value=(
            RecordList(
                "keys",
                (
                    Field("vbucket", 0, FieldKind.U16, "vbucket", "vbucket"),
                    Field("key_length", 2, FieldKind.U16, "bytes of the key", "key length"),
                    Field("key", 4, FieldKind.KEY, "key", "Key", size="key_length"),
                ),
                "keys asked about",
                "key",
                at_least=1,
            ),
        ),
    ),
    _layout(
        Opcode.OBSERVE,
        "response",
        columns=False,
        value=(
            RecordList(
                "keys",
                (
                    Field("vbucket", 0, FieldKind.U16, "vbucket", "vbucket"),
                    Field("key_length", 2, FieldKind.U16, "bytes of the key", "key length"),
                    Field("key", 4, FieldKind.KEY, "key", "Key", size="key_length"),
                    Field(
                        "key_state",
                        4,
                        FieldKind.U8,
                        "where the key is",
                        "key state",
                        values={
                            0x00: "not persisted",
                            0x01: "persisted",
                            0x80: "not found",
                            0x81: "logically deleted",
                        },
                    ),
                    Field("cas", 5, FieldKind.CAS, "its version", "CAS"),
                ),
                "state of each key",
                "key",
            ),
        ),
    ),
    _layout(
        Opcode.SEQNO_PERSISTENCE,
        "request",
        extras=(Field("seqno", 0, FieldKind.SEQNO, "answer once this seqno is on disk", "seqno"),),
        columns=False,
    ),
    _layout(Opcode.SEQNO_PERSISTENCE, "response", columns=False),
    _layout(Opcode.GET_VBUCKET, "request", columns=False),
    _layout(
        Opcode.GET_VBUCKET,
        "response",
        columns=False,
        value=(
            Field(
                "state",
                0,
                FieldKind.U32,
                "state of the vbucket",
                "state",
                values=VBUCKET_STATES,
                words=True,
            ),
        ),
    ),
    _layout(
        Opcode.SET_VBUCKET,
        "request",
        columns=False,
        extras=(
            Field(
                "state", 0, FieldKind.U8, "new state", "state", values=VBUCKET_STATES, words=True
            ),
        ),
        value=_VBUCKET_OPTIONS,
        value_required=False,
    ),
    _layout(
        Opcode.SET_VBUCKET,
        "request",
        generation="old",
        columns=False,
        extras=(
            Field(
                "state", 0, FieldKind.U32, "new state", "state", values=VBUCKET_STATES, words=True
            ),
        ),
        value=_VBUCKET_OPTIONS,
        value_required=False,
        legacy=True,
        note="four bytes, from older clients",
    ),
    _layout(Opcode.SET_VBUCKET, "response", columns=False),
    _layout(
        Opcode.DEL_VBUCKET,
        "request",
        columns=False,
        value=(
            Field(
                "value",
                0,
                FieldKind.TEXT,
                "async=0 waits for the deletion",
                "Value",
                shown=Words(frozenset({b"async=0", b"async=1"})),
            ),
        ),
        value_required=False,
    ),
    _layout(Opcode.DEL_VBUCKET, "response", columns=False),
)
