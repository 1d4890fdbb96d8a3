"""Commands that a server sends to a client (magics 0x82 and 0x83)."""

from dcpinspect.protocol.layout_text import layouts

# The answer to AUTHENTICATE holds the provider's half of the exchange in addition to the user's
# rights.
LAYOUTS = layouts(
    """
    map
        key? text: bucket; empty for the global map
        value? json: cluster map; none in the brief form
    CLUSTERMAP_CHANGE_NOTIFICATION request v2
        spec: BinaryProtocol.md
        extras epoch i64: epoch of the cluster map
        extras revision i64: revision of the cluster map
        use: map
    CLUSTERMAP_CHANGE_NOTIFICATION request
        spec: BinaryProtocol.md
        extras revision u32: revision of the cluster map
        use: map
    CLUSTERMAP_CHANGE_NOTIFICATION response
        spec: BinaryProtocol.md
    AUTHENTICATE request
        value secret: credentials
    AUTHENTICATE response
        value? secret: credentials
    ACTIVE_EXTERNAL_USERS request
        value json: JSON document, with users
    ACTIVE_EXTERNAL_USERS response
    GET_AUTHORIZATION request
        key text: user
    GET_AUTHORIZATION response
        value? json: JSON document, with users
    """,
    "ExternalAuthProvider.md",
    server=True,
    columns=False,
)
