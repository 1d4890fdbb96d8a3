"""What happens around DCP on a connection: HELLO, SASL, bucket, configuration, errors, stats."""

from __future__ import annotations

from functools import partial

from dcpinspect.protocol.fields import Field, FieldKind, Layout, RecordList
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.protocol.protocol_words import (
    MECHANISMS,
    ListOfWords,
    Words,
    error_map,
    version_of_server,
)

_SPEC = "BinaryProtocol.md"
_SASL = "sasl.md"

_FEATURES = RecordList(
    "features",
    (Field("feature", 0, FieldKind.FEATURE, "feature", "feature"),),
    "features asked for, or granted",
    "feature",
)
_JSON = (Field("value", 0, FieldKind.JSON, "JSON document", "Value"),)
_TEXT = (Field("value", 0, FieldKind.TEXT, "text", "Value"),)
_SECRET = (Field("value", 0, FieldKind.SECRET, "authentication data", "Value"),)
SERVER_VERSION = Field("value", 0, FieldKind.TEXT, "text", "Value", shown=version_of_server)
_MECHANISM = Field("key", 0, FieldKind.TEXT, "SASL mechanism", "Key", shown=Words(MECHANISMS))
_BUCKET = Field("key", 0, FieldKind.TEXT, "bucket; @no bucket@ for none", "Key")

_CONFIG_VERSION = (
    Field("epoch", 0, FieldKind.I64, "epoch of the cluster map", "epoch"),
    Field("revision", 8, FieldKind.I64, "revision of the cluster map", "revision"),
)


_layout = partial(Layout, generation="v1", spec=_SPEC, columns=False)

LAYOUTS = (
    _layout(
        Opcode.HELLO,
        "request",
        key=Field(
            "key",
            0,
            FieldKind.TEXT,
            'agent: a name, or JSON with "a" (agent) and "i" (connection id)',
            "Key",
        ),
        key_required=False,
        value=(_FEATURES,),
        value_required=False,
    ),
    _layout(Opcode.HELLO, "response", value=(_FEATURES,), value_required=False),
    _layout(Opcode.SASL_LIST_MECHS, "request", spec=_SASL),
    _layout(
        Opcode.SASL_LIST_MECHS,
        "response",
        spec=_SASL,
        value=(
            Field(
                "value",
                0,
                FieldKind.TEXT,
                "mechanisms, separated by blanks",
                "Value",
                shown=ListOfWords(MECHANISMS),
            ),
        ),
    ),
    *(
        layout
        for opcode in (Opcode.SASL_AUTH, Opcode.SASL_STEP)
        for layout in (
            _layout(
                opcode, "request", spec=_SASL, key=_MECHANISM, value=_SECRET, value_required=False
            ),
            _layout(
                opcode, "response", spec=_SASL, value=_SECRET, value_required=False, status="any"
            ),
        )
    ),
    _layout(Opcode.SELECT_BUCKET, "request", key=_BUCKET, key_required=False),
    _layout(Opcode.SELECT_BUCKET, "response"),
    _layout(Opcode.LIST_BUCKETS, "request"),
    _layout(
        Opcode.LIST_BUCKETS,
        "response",
        value=(Field("value", 0, FieldKind.TEXT, "names, separated by blanks", "Value"),),
    ),
    _layout(Opcode.GET_CLUSTER_CONFIG, "request"),
    _layout(Opcode.GET_CLUSTER_CONFIG, "request", extras=_CONFIG_VERSION),
    _layout(Opcode.GET_CLUSTER_CONFIG, "response", value=_JSON, value_required=False),
    _layout(
        Opcode.SET_CLUSTER_CONFIG,
        "request",
        extras=_CONFIG_VERSION,
        key=_BUCKET,
        key_required=False,
        value=_JSON,
    ),
    _layout(Opcode.SET_CLUSTER_CONFIG, "response"),
    _layout(
        Opcode.GET_ERROR_MAP,
        "request",
        value=(
            Field("version", 0, FieldKind.U16, "newest version the client understands", "version"),
        ),
    ),
    _layout(
        Opcode.GET_ERROR_MAP,
        "response",
        value=(Field("value", 0, FieldKind.JSON, "JSON document", "Value", shown=error_map),),
    ),
    _layout(Opcode.NOOP, "request"),
    _layout(Opcode.NOOP, "response"),
    _layout(Opcode.QUIT, "request"),
    _layout(Opcode.QUIT, "response"),
    _layout(Opcode.QUITQ, "request"),
    _layout(Opcode.VERSION, "request"),
    _layout(Opcode.VERSION, "response", value=(SERVER_VERSION,)),
    _layout(
        Opcode.STAT,
        "request",
        key=Field(
            "key", 0, FieldKind.TEXT, "group of statistics, some of them of a document key", "Key"
        ),
        key_required=False,
        value=_JSON,
        value_required=False,
    ),
    # Many answers, one statistic each; the last has neither key nor value.
    _layout(
        Opcode.STAT,
        "response",
        key=Field(
            "key",
            0,
            FieldKind.TEXT,
            "name of the statistic, some of them with that of a connection",
            "Key",
        ),
        key_required=False,
        value=_TEXT,
        value_required=False,
    ),
    _layout(
        Opcode.VERBOSITY,
        "request",
        extras=(Field("level", 0, FieldKind.U32, "log verbosity", "verbosity"),),
    ),
    _layout(Opcode.VERBOSITY, "response"),
    _layout(Opcode.IOCTL_GET, "request", key=Field("key", 0, FieldKind.TEXT, "property", "Key")),
    _layout(Opcode.IOCTL_GET, "response", value=_TEXT, value_required=False),
    _layout(
        Opcode.IOCTL_SET,
        "request",
        key=Field("key", 0, FieldKind.TEXT, "property", "Key"),
        value=_TEXT,
        value_required=False,
    ),
    _layout(Opcode.IOCTL_SET, "response", value=_TEXT, value_required=False),
    _layout(
        Opcode.AUDIT_PUT,
        "request",
        extras=(Field("event_id", 0, FieldKind.U32, "audit event", "event id"),),
        value=_JSON,
    ),
    _layout(Opcode.AUDIT_PUT, "response"),
    _layout(
        Opcode.SET_PARAM,
        "request",
        extras=(
            Field(
                "category",
                0,
                FieldKind.U32,
                "group of parameters",
                "category",
                values={1: "flush", 2: "replication", 3: "checkpoint", 4: "dcp", 5: "vbucket"},
            ),
        ),
        key=Field("key", 0, FieldKind.TEXT, "parameter", "Key"),
        value=_TEXT,
    ),
    _layout(Opcode.SET_PARAM, "response"),
    _layout(
        Opcode.SET_CTRL_TOKEN,
        "request",
        extras=(Field("token", 0, FieldKind.SECRET, "new session token", "token", size=8),),
    ),
    _layout(Opcode.SET_CTRL_TOKEN, "response"),
    # Bodies that hold keys, tokens or passwords.
    *(
        layout
        for opcode in (
            Opcode.REGISTER_AUTH_TOKEN,
            Opcode.SET_ACTIVE_ENCRYPTION_KEYS,
            Opcode.SET_CHRONICLE_AUTH_TOKEN,
            Opcode.UPDATE_USER_PERMISSIONS,
            Opcode.CREATE_BUCKET,
        )
        for layout in (
            _layout(
                opcode,
                "request",
                key=Field("key", 0, FieldKind.TEXT, "name", "Key"),
                key_required=False,
                value=_SECRET,
                value_required=False,
            ),
            _layout(opcode, "response"),
        )
    ),
)
