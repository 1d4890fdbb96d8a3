"""Parts of documents by path (0xc5 to 0xd3)."""

from dcpinspect.protocol.fields import Bit, RecordList
from dcpinspect.protocol.layout_text import fields, layouts

PATH_FLAGS = (
    Bit(0x01, "create-parents", "make the objects on the way"),
    Bit(0x04, "xattr", "the path is in an xattr"),
    Bit(0x10, "expand-macros", "replace macros in the value"),
    Bit(0x20, "binary", "the value is not JSON"),
)
DOC_FLAGS = (
    Bit(0x01, "mkdoc", "create the document if it is not there"),
    Bit(0x02, "add", "fail if the document is there"),
    Bit(0x04, "access-deleted", "deleted documents count"),
    Bit(0x08, "create-as-deleted", "create the document deleted"),
    Bit(0x10, "revive", "bring a deleted document back"),
    Bit(0x20, "replica-read", "a replica may answer"),
)
_NAMED = {"path": {"flags": PATH_FLAGS}, "doc": {"flags": DOC_FLAGS}}
_LISTS = {
    "lookups": RecordList(
        "specs",
        fields(
            """
            command command (opcode): lookup
            path_flags u8 (flags) &path: how to walk the path
            path_length u16: bytes of the path
            path text size=path_length: path in the document
            """,
            _NAMED,
        ),
        "lookups, in order",
        "lookup",
    ),
    "mutations": RecordList(
        "specs",
        fields(
            """
            command command (opcode): mutation
            path_flags u8 (flags) &path: how to walk the path
            path_length u16: bytes of the path
            value_length u32: bytes of the value
            path text size=path_length: path in the document
            fragment bytes (value) size=value_length: what to put there
            """,
            _NAMED,
        ),
        "mutations, in order",
        "mutation",
    ),
    "looked-up": RecordList(
        "results",
        fields(
            """
            result_status status (status): outcome of one lookup
            value_length u32: bytes of the result
            result bytes (value) size=value_length: the value at the path
            """
        ),
        "a result for each lookup",
        "result",
    ),
    "mutated": RecordList(
        "results",
        fields(
            """
            index u8: which mutation
            result_status status (status): its outcome
            value_length u32: bytes of the result
            result bytes (value) size=value_length: the new value at the path
            """
        ),
        "results of the mutations that have one",
        "result",
    ),
}
_LOOKUPS = "SUBDOC_GET SUBDOC_EXISTS SUBDOC_GET_COUNT"
_MUTATIONS = (
    "SUBDOC_DICT_ADD SUBDOC_DICT_UPSERT SUBDOC_DELETE SUBDOC_REPLACE SUBDOC_ARRAY_PUSH_LAST "
    "SUBDOC_ARRAY_PUSH_FIRST SUBDOC_ARRAY_INSERT SUBDOC_ARRAY_ADD_UNIQUE SUBDOC_COUNTER "
    "SUBDOC_REPLACE_BODY_WITH_XATTR"
)

LAYOUTS = layouts(
    f"""
    path
        extras path_length u16: bytes of the path
        extras path_flags u8 (flags) &path: how to walk the path
    lookup
        key key: key of the document
        value? path text (Path) size=path_length: path in the document
    fragment
        use: lookup
        value? fragment bytes (Fragment): what to put there
    {_LOOKUPS} request
        use: path
        use: lookup
    {_LOOKUPS} request
        use: path
        extras doc_flags u8 &doc: how to treat the document
        use: lookup
    {_LOOKUPS} response
        value? json: the value at the path
    {_MUTATIONS} request
        use: path
        use: fragment
    {_MUTATIONS} request
        use: path
        extras doc_flags u8 &doc: how to treat the document
        use: fragment
    {_MUTATIONS} request
        use: path
        extras expiration time: when the document expires
        use: fragment
    {_MUTATIONS} request
        use: path
        extras expiration time: when the document expires
        extras doc_flags u8 &doc: how to treat the document
        use: fragment
    {_MUTATIONS} response
        value? json: the value at the path
    {_MUTATIONS} response mutation-seqno
        extras vbucket_uuid uuid (vb UUID): branch of the history (HELLO feature MUTATION_SEQNO)
        extras seqno seqno: seqno of the change
        value? json: the value at the path
    SUBDOC_MULTI_LOOKUP request
        key key: key of the document
        value: *lookups
    SUBDOC_MULTI_LOOKUP request
        extras doc_flags u8 &doc: how to treat the document
        key key: key of the document
        value: *lookups
    SUBDOC_MULTI_LOOKUP response
        value?: *looked-up
        status: SUCCESS SUBDOC_MULTI_PATH_FAILURE SUBDOC_SUCCESS_DELETED
            SUBDOC_MULTI_PATH_FAILURE_DELETED
    SUBDOC_MULTI_MUTATION request
        key key: key of the document
        value: *mutations
    SUBDOC_MULTI_MUTATION request
        extras doc_flags u8 &doc: how to treat the document
        key key: key of the document
        value: *mutations
    SUBDOC_MULTI_MUTATION request
        extras expiration time: when the document expires
        key key: key of the document
        value: *mutations
    SUBDOC_MULTI_MUTATION request
        extras expiration time: when the document expires
        extras doc_flags u8 &doc: how to treat the document
        key key: key of the document
        value: *mutations
    SUBDOC_MULTI_MUTATION response failure
        value index u8: the mutation that failed
        value result_status status (status): why
        status: SUBDOC_MULTI_PATH_FAILURE SUBDOC_MULTI_PATH_FAILURE_DELETED
    SUBDOC_MULTI_MUTATION response
        value?: *mutated
        status: SUCCESS SUBDOC_MULTI_PATH_FAILURE SUBDOC_SUCCESS_DELETED
            SUBDOC_MULTI_PATH_FAILURE_DELETED
    SUBDOC_MULTI_MUTATION response mutation-seqno
        extras vbucket_uuid uuid (vb UUID): branch of the history (HELLO feature MUTATION_SEQNO)
        extras seqno seqno: seqno of the change
        value?: *mutated
        status: SUCCESS SUBDOC_MULTI_PATH_FAILURE SUBDOC_SUCCESS_DELETED
            SUBDOC_MULTI_PATH_FAILURE_DELETED
    """,
    "Subdocument.md",
    _NAMED | _LISTS,
    columns=False,
)
