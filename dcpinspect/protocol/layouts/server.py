"""Commands that a server sends to a client (magics 0x82 and 0x83)."""

from __future__ import annotations

from functools import partial

from dcpinspect.protocol.fields import Field, FieldKind, Layout
from dcpinspect.protocol.opcodes import ServerOpcode

_SPEC = "BinaryProtocol.md"
_AUTH = "ExternalAuthProvider.md"

_BUCKET = Field("key", 0, FieldKind.TEXT, "bucket; empty for the global map", "Key")
_MAP = (Field("value", 0, FieldKind.JSON, "cluster map; none in the brief form", "Value"),)
_SECRET = (Field("value", 0, FieldKind.SECRET, "credentials", "Value"),)
_JSON = (Field("value", 0, FieldKind.JSON, "JSON document, with users", "Value"),)


_layout = partial(Layout, generation="v1", spec=_SPEC, server=True, columns=False)

LAYOUTS = (
    _layout(
        ServerOpcode.CLUSTERMAP_CHANGE_NOTIFICATION,
        "request",
        generation="v2",
        extras=(
            Field("epoch", 0, FieldKind.I64, "epoch of the cluster map", "epoch"),
            Field("revision", 8, FieldKind.I64, "revision of the cluster map", "revision"),
        ),
        key=_BUCKET,
        key_required=False,
        value=_MAP,
        value_required=False,
    ),
    _layout(
        ServerOpcode.CLUSTERMAP_CHANGE_NOTIFICATION,
        "request",
        generation="v1",
        extras=(Field("revision", 0, FieldKind.U32, "revision of the cluster map", "revision"),),
        key=_BUCKET,
        key_required=False,
        value=_MAP,
        value_required=False,
    ),
    _layout(ServerOpcode.CLUSTERMAP_CHANGE_NOTIFICATION, "response"),
    _layout(ServerOpcode.AUTHENTICATE, "request", spec=_AUTH, value=_SECRET),
    # Holds the provider's half of the exchange in addition to the user's rights.
    _layout(ServerOpcode.AUTHENTICATE, "response", spec=_AUTH, value=_SECRET, value_required=False),
    _layout(ServerOpcode.ACTIVE_EXTERNAL_USERS, "request", spec=_AUTH, value=_JSON),
    _layout(ServerOpcode.ACTIVE_EXTERNAL_USERS, "response", spec=_AUTH),
    _layout(
        ServerOpcode.GET_AUTHORIZATION,
        "request",
        spec=_AUTH,
        key=Field("key", 0, FieldKind.TEXT, "user", "Key"),
    ),
    _layout(
        ServerOpcode.GET_AUTHORIZATION, "response", spec=_AUTH, value=_JSON, value_required=False
    ),
)
