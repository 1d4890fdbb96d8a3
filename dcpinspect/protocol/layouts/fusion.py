"""Fusion, which keeps vbuckets in object storage (0x70 to 0x79).

Many requests hold the metadata store's token, and an error may quote its request. Of those requests
the members that are no credential are shown. URIs are not: they may hold a password.
"""

from __future__ import annotations

from functools import partial

from dcpinspect.protocol.fields import Field, FieldKind, Layout
from dcpinspect.protocol.opcodes import Opcode

_JSON = (Field("value", 0, FieldKind.JSON, "JSON document", "Value"),)
_TOKEN = (
    Field(
        "value",
        0,
        FieldKind.SECRET,
        "JSON with a token",
        "Value",
        told=("snapshot_uuid", "bucket_uuid", "valid_till", "vbucket_list", "namespace"),
    ),
)


_layout = partial(Layout, generation="v1", spec="fusion.md", columns=False)

LAYOUTS = (
    _layout(Opcode.GET_FUSION_STORAGE_SNAPSHOT, "request", value=_TOKEN),
    _layout(Opcode.GET_FUSION_STORAGE_SNAPSHOT, "response", value=_JSON),
    _layout(Opcode.RELEASE_FUSION_STORAGE_SNAPSHOT, "request", value=_TOKEN),
    _layout(Opcode.RELEASE_FUSION_STORAGE_SNAPSHOT, "response"),
    _layout(
        Opcode.MOUNT_FUSION_VBUCKET,
        "request",
        value=(Field("value", 0, FieldKind.JSON, "where the vbucket's files are", "Value"),),
    ),
    # The page has no value; kv_engine mount_fusion_vbucket_command_context.cc sends the ids of
    # keys.
    _layout(
        Opcode.MOUNT_FUSION_VBUCKET,
        "response",
        value=(Field("value", 0, FieldKind.JSON, "ids of the keys that encrypt them", "Value"),),
        value_required=False,
    ),
    _layout(Opcode.UNMOUNT_FUSION_VBUCKET, "request"),
    _layout(Opcode.UNMOUNT_FUSION_VBUCKET, "response"),
    # The page has no value; kv_engine mcbp_validators.cc wants "reset".
    _layout(
        Opcode.SYNC_FUSION_LOGSTORE,
        "request",
        value=(Field("value", 0, FieldKind.JSON, "whether to reset", "Value"),),
        value_required=False,
    ),
    _layout(Opcode.SYNC_FUSION_LOGSTORE, "response"),
    _layout(
        Opcode.START_FUSION_UPLOADER,
        "request",
        value=(Field("value", 0, FieldKind.JSON, "term of the uploader", "Value"),),
    ),
    _layout(Opcode.START_FUSION_UPLOADER, "response"),
    _layout(Opcode.STOP_FUSION_UPLOADER, "request"),
    _layout(Opcode.STOP_FUSION_UPLOADER, "response"),
    _layout(Opcode.DELETE_FUSION_NAMESPACE, "request", value=_TOKEN),
    _layout(Opcode.DELETE_FUSION_NAMESPACE, "response"),
    _layout(Opcode.GET_FUSION_NAMESPACES, "request", value=_TOKEN),
    _layout(
        Opcode.GET_FUSION_NAMESPACES,
        "response",
        value=(Field("value", 0, FieldKind.JSON, "buckets that still have data", "Value"),),
    ),
    _layout(Opcode.CREATE_FUSION_NAMESPACE, "request", value=_TOKEN, value_required=False),
    _layout(Opcode.CREATE_FUSION_NAMESPACE, "response"),
)
