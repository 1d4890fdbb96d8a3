"""Fusion, which keeps vbuckets in object storage (0x70 to 0x79).

Many requests hold the metadata store's token, and an error may quote its request. Of those requests
the members that are no credential are shown. URIs are not: they may hold a password.
"""

from dcpinspect.protocol.layout_text import layouts

_SHOWN_MEMBERS = ("snapshot_uuid", "bucket_uuid", "valid_till", "vbucket_list", "namespace")

# MOUNT_FUSION_VBUCKET: the page has no value in the answer; kv_engine
# mount_fusion_vbucket_command_context.cc sends the ids of keys. SYNC_FUSION_LOGSTORE: the page has
# no value; kv_engine mcbp_validators.cc wants "reset".
LAYOUTS = layouts(
    """
    GET_FUSION_STORAGE_SNAPSHOT request
        value secret &members: JSON with a token
    GET_FUSION_STORAGE_SNAPSHOT response
        value json: JSON document
    RELEASE_FUSION_STORAGE_SNAPSHOT request
        value secret &members: JSON with a token
    RELEASE_FUSION_STORAGE_SNAPSHOT response
    MOUNT_FUSION_VBUCKET request
        value json: where the vbucket's files are
    MOUNT_FUSION_VBUCKET response
        value? json: ids of the keys that encrypt them
    UNMOUNT_FUSION_VBUCKET request
    UNMOUNT_FUSION_VBUCKET response
    SYNC_FUSION_LOGSTORE request
        value? json: whether to reset
    SYNC_FUSION_LOGSTORE response
    START_FUSION_UPLOADER request
        value json: term of the uploader
    START_FUSION_UPLOADER response
    STOP_FUSION_UPLOADER request
    STOP_FUSION_UPLOADER response
    DELETE_FUSION_NAMESPACE request
        value secret &members: JSON with a token
    DELETE_FUSION_NAMESPACE response
    GET_FUSION_NAMESPACES request
        value secret &members: JSON with a token
    GET_FUSION_NAMESPACES response
        value json: buckets that still have data
    CREATE_FUSION_NAMESPACE request
        value? secret &members: JSON with a token
    CREATE_FUSION_NAMESPACE response
    """,
    "fusion.md",
    {"members": {"shown_members": _SHOWN_MEMBERS}},
    columns=False,
)
