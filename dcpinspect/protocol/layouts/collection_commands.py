"""Collections: manifest (0xb9, 0xba) and ids by name (0xbb, 0xbc)."""

from dcpinspect.protocol.layout_text import layouts

LAYOUTS = layouts(
    """
    COLLECTIONS_SET_MANIFEST request
        value json: collections manifest; ids in it are hexadecimal without 0x
    COLLECTIONS_SET_MANIFEST response
    COLLECTIONS_GET_MANIFEST request
    COLLECTIONS_GET_MANIFEST response
        value json: collections manifest; ids in it are hexadecimal without 0x
    COLLECTIONS_GET_ID request
        key? text: scope.collection
        value? text: scope.collection
    COLLECTIONS_GET_ID response
        extras manifest_uid u64: manifest that the id was looked up in
        extras collection_id id: its id
    COLLECTIONS_GET_SCOPE_ID request
        key? text: scope
        value? text: scope
    COLLECTIONS_GET_SCOPE_ID response
        extras manifest_uid u64: manifest that the id was looked up in
        extras scope_id id: its id
    """,
    "Collections.md",
    columns=False,
)
