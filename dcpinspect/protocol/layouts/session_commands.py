"""What happens around DCP on a connection: HELLO, SASL, bucket, configuration, errors, stats."""

from dcpinspect.protocol.fields import Field, FieldKind, RecordList
from dcpinspect.protocol.layout_text import fields, layouts
from dcpinspect.protocol.protocol_words import (
    MECHANISMS,
    ListOfWords,
    Words,
    error_map,
    version_of_server,
)

SERVER_VERSION = Field("value", 0, FieldKind.TEXT, "text", "Value", shown=version_of_server)
_NAMED = {
    "features": RecordList(
        "features",
        fields("feature feature: feature"),
        "features asked for, or granted",
        "feature",
    ),
    "mechanism": {"shown": Words(MECHANISMS)},
    "mechanisms": {"shown": ListOfWords(MECHANISMS)},
    "errors": {"shown": error_map},
    "version": SERVER_VERSION,
}

_OF_SECRETS = (
    "REGISTER_AUTH_TOKEN SET_ACTIVE_ENCRYPTION_KEYS SET_CHRONICLE_AUTH_TOKEN "
    "UPDATE_USER_PERMISSIONS CREATE_BUCKET"
)
"""Their bodies have keys, tokens or passwords."""

# STAT has many answers, one statistic each; the last has neither key nor value.
LAYOUTS = layouts(
    f"""
    config-version
        extras epoch i64: epoch of the cluster map
        extras revision i64: revision of the cluster map
    HELLO request
        key? text: agent: a name, or JSON with "a" (agent) and "i" (connection id)
        value?: *features
    HELLO response
        value?: *features
    SASL_LIST_MECHS request
        spec: sasl.md
    SASL_LIST_MECHS response
        spec: sasl.md
        value text &mechanisms: mechanisms, separated by blanks
    SASL_AUTH SASL_STEP request
        spec: sasl.md
        key text &mechanism: SASL mechanism
        value? secret: authentication data
    SASL_AUTH SASL_STEP response
        spec: sasl.md
        value? secret: authentication data
        status: any
    SELECT_BUCKET request
        key? text: bucket; @no bucket@ for none
    SELECT_BUCKET response
    LIST_BUCKETS request
    LIST_BUCKETS response
        value text: names, separated by blanks
    GET_CLUSTER_CONFIG request
    GET_CLUSTER_CONFIG request
        use: config-version
    GET_CLUSTER_CONFIG response
        value? json: JSON document
    SET_CLUSTER_CONFIG request
        use: config-version
        key? text: bucket; @no bucket@ for none
        value json: JSON document
    SET_CLUSTER_CONFIG response
    GET_ERROR_MAP request
        value version u16: newest version the client understands
    GET_ERROR_MAP response
        value json &errors: JSON document
    NOOP QUIT request
    NOOP QUIT response
    QUITQ request
    VERSION request
    VERSION response
        value: *version
    STAT request
        key? text: group of statistics, some of them of a document key
        value? json: JSON document
    STAT response
        key? text: name of the statistic, some of them with that of a connection
        value? text: text
    VERBOSITY request
        extras level u32 (verbosity): log verbosity
    VERBOSITY response
    IOCTL_GET request
        key text: property
    IOCTL_GET response
        value? text: text
    IOCTL_SET request
        key text: property
        value? text: text
    IOCTL_SET response
        value? text: text
    AUDIT_PUT request
        extras event_id u32: audit event
        value json: JSON document
    AUDIT_PUT response
    SET_PARAM request
        extras category u32 [1 flush, 2 replication, 3 checkpoint, 4 dcp, 5 vbucket]: group of
            parameters
        key text: parameter
        value text: text
    SET_PARAM response
    SET_CTRL_TOKEN request
        extras token secret size=8: new session token
    SET_CTRL_TOKEN response
    {_OF_SECRETS} request
        key? text: name
        value? secret: authentication data
    {_OF_SECRETS} response
    """,
    "BinaryProtocol.md",
    _NAMED,
    columns=False,
)
