"""What of each command is shown: every command of both tables has decided."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.fields import MessageSide
from dcpinspect.protocol.message import FieldValue
from dcpinspect.protocol.opcodes import Opcode, ServerOpcode, Trait
from dcpinspect.protocol.secrecy import Secrecy, names_credentials, secrecy
from tests.catalogue import each
from tests.encode import encode_parts, encode_snappy

SIDES: tuple[MessageSide, ...] = ("request", "response")
ADMINISTRATIVE = {
    # By command: what is decided about requests and responses, d for described and m for measured.
    **dict.fromkeys(
        (
            "quit",
            "flush",
            "flushq",
            "noop",
            "version",
            "stat",
            "verbosity",
            "hello",
            "sasl_list_mechs",
        ),
        "dd",
    ),
    **dict.fromkeys(
        (
            "ioctl_get",
            "ioctl_set",
            "audit_put",
            "set_param",
            "get_cmd_timer",
            "adjust_timeofday",
            "get_error_map",
        ),
        "dd",
    ),
    **dict.fromkeys(
        (
            "set_vbucket",
            "get_vbucket",
            "del_vbucket",
            "compact_db",
            "prepare_snapshot",
            "release_snapshot",
        ),
        "dd",
    ),
    **dict.fromkeys(
        ("mount_fusion_vbucket", "unmount_fusion_vbucket", "sync_fusion_logstore"), "dd"
    ),
    **dict.fromkeys(("start_fusion_uploader", "stop_fusion_uploader"), "dd"),
    **dict.fromkeys(
        ("delete_bucket", "list_buckets", "select_bucket", "pause_bucket", "resume_bucket"), "dd"
    ),
    **dict.fromkeys(("set_bucket_throttle_properties", "set_bucket_data_limit_exceeded"), "dd"),
    **dict.fromkeys(
        (
            "set_cluster_config",
            "get_cluster_config",
            "collections_set_manifest",
            "collections_get_manifest",
        ),
        "dd",
    ),
    **dict.fromkeys(("collections_get_id", "collections_get_scope_id"), "dd"),
    "quitq": "dm",
    "get_file_fragment": "dm",
    **dict.fromkeys(
        (
            "set_active_encryption_keys",
            "register_auth_token",
            "set_chronicle_auth_token",
            "create_bucket",
        ),
        "md",
    ),
    **dict.fromkeys(("get_fusion_storage_snapshot", "release_fusion_storage_snapshot"), "md"),
    **dict.fromkeys(
        ("delete_fusion_namespace", "get_fusion_namespaces", "create_fusion_namespace"), "md"
    ),
    **dict.fromkeys(
        ("download_snapshot", "ifconfig", "set_ctrl_token", "update_user_permissions"), "md"
    ),
    **dict.fromkeys(
        ("sasl_auth", "sasl_step", "validate_bucket_config", "set_bucket_config"), "mm"
    ),
    # Nobody described these.
    **dict.fromkeys(
        (
            "config_validate",
            "config_reload",
            "audit_config_reload",
            "shutdown",
            "set_node_throttle_properties",
        ),
        "mm",
    ),
    **dict.fromkeys(
        (
            "prune_encryption_keys",
            "stop_persistence",
            "start_persistence",
            "enable_traffic",
            "disable_traffic",
        ),
        "mm",
    ),
    **dict.fromkeys(
        (
            "isasl_refresh",
            "get_ctrl_token",
            "rbac_refresh",
            "auth_provider",
            "drop_privileges",
            "ewb_ctl",
        ),
        "mm",
    ),
    **dict.fromkeys(
        (
            "last_closed_checkpoint",
            "deregister_tap_client",
            "reset_replication_chain",
            "snapshot_vb_states",
        ),
        "mm",
    ),
    **dict.fromkeys(
        (
            "vbucket_batch_count",
            "create_checkpoint",
            "notify_vbucket_update",
            "change_vb_filter",
            "scrub",
        ),
        "mm",
    ),
    **dict.fromkeys(
        (
            "checkpoint_persistence",
            "set_drift_counter_state",
            "get_adjusted_time",
            "ssl_certs_refresh",
        ),
        "mm",
    ),
}
SERVER = {
    "clustermap_change_notification": "dd",
    "active_external_users": "dd",
    "get_authorization": "dd",
    "authenticate": "mm",
}
DATA = {
    "observe",
    "observe_seqno",
    "seqno_persistence",
    "get_all_vb_seqnos",
    "get_failover_log",
    "get_random_key",
}
"""Commands about documents whose key is none."""
DECIDED = {"d": Secrecy.DESCRIBED, "m": Secrecy.MEASURED}


@each("opcode", [*Opcode, *ServerOpcode])
def test_every_command_has_decided_what_of_it_is_shown(opcode: Opcode | ServerOpcode) -> None:
    is_server, name = isinstance(opcode, ServerOpcode), opcode.name.lower()
    decided = (SERVER if is_server else ADMINISTRATIVE).get(name)
    found = [secrecy(opcode, side, server=is_server) for side in SIDES]
    if decided is not None:
        assert found == [DECIDED[letter] for letter in decided]
    else:
        assert (
            Trait.KEY in opcode.traits
            or name in DATA
            or name.startswith(("dcp_", "tap_", "range_scan_"))
            or 0x30 <= opcode <= 0x3C
        )
        assert found == [Secrecy.OPEN] * 2


def test_a_number_in_no_table_is_shown_unless_it_names_credentials() -> None:
    assert (secrecy(0x7E, "request"), secrecy(0x7E, "response", server=True)) == (
        Secrecy.UNKNOWN,
        Secrecy.UNKNOWN,
    )
    shown = annotate(encode_parts(0x80, 0x7E, value=b"new in this server"))
    assert shown.value is not None
    assert shown.value.body == b"new in this server"
    for key, value in (
        (b"", b'{"password":"x"}'),
        (b"", b'{"Auth-Token": "x'),
        (b"chronicle_auth_token", b"x"),
    ):
        hidden = annotate(encode_parts(0x80, 0x7E, key=key, value=value))
        assert hidden.value is not None
        assert (hidden.value.encoding, hidden.value.body) == ("hidden", b"")


NAMED = (
    b'{"password":"x"}',
    b'{"tls": {"passphrase" : "x"}}',
    b'{"metadatastore_auth_token":"x',
    b'{"saslPassword":123}',
    b'{"clientSecret":["x"]}',
    rb'{"error":{"context":"Invalid json \'{\"auth_token\":\"x\"\'"}}',
    b'not even json "PASSWD": x',
)
UNNAMED = (
    b'{"password":"set"}',
    b'{"password": "not set"}',
    b'{"chronicle_auth_token":"not-set"}',
    b'{"saslPassword":""}',
    b'{"password":null}',
    b'{"has_password": true}',
    rb'{"context":"{\"password\":\"set\"}"}',
    b'{"name":"password"}',
    b'["secret"]',
    b'{"rev":42,"nodesExt":[{"services":{"kv":11210}}]}',
)


@pytest.mark.parametrize("text", NAMED)
def test_a_member_that_is_called_like_a_credential_is_found(text: bytes) -> None:
    assert names_credentials(text)


@pytest.mark.parametrize("text", UNNAMED)
def test_what_only_looks_like_one_is_none(text: bytes) -> None:
    assert not names_credentials(text)


def _value(data: bytes) -> FieldValue:
    field = annotate(data).field("value")
    assert field is not None
    return field


def test_of_a_hidden_json_the_members_that_are_no_credential_are_told() -> None:
    text = b'{"bucket":"b","host":"::1","port":11210,"sasl":{"mechanism":"PLAIN","username":"@admin","password":"s3cret"},"tls":{}}'
    field = _value(encode_parts(0x80, Opcode.DOWNLOAD_SNAPSHOT, value=text, datatype=1))
    assert (field.hidden, field.raw, field.value) == (True, b"", None)
    assert (
        field.meaning
        == f'hidden, {len(text)} bytes, among them {{"bucket":"b","host":"::1","port":11210}}'
    )


def test_a_told_member_is_a_plain_value() -> None:
    text = b'{"snapshot_uuid":{"auth_token":"s3cret"},"vbucket_list":[1,2],"valid_till":[{"x":"s3cret"}],"bucket_uuid":"u"}'
    meaning = _value(encode_parts(0x80, Opcode.GET_FUSION_STORAGE_SNAPSHOT, value=text)).meaning
    assert (
        meaning
        == f'hidden, {len(text)} bytes, among them {{"bucket_uuid":"u","vbucket_list":[1,2]}}'
    )


@pytest.mark.parametrize(
    "text",
    [b'{"host":"h","password":"s3cret"', encode_snappy(b'{"host":"h"}'), b'["host"]', b"\xff"],
)
def test_of_what_is_no_whole_json_object_nothing_is_told(text: bytes) -> None:
    for missing in ((), ((30, 32),)):
        field = annotate(
            encode_parts(0x80, Opcode.IFCONFIG, key=b"tls", value=text), missing=missing
        ).field("value")
        assert field is not None
        assert field.meaning == f"hidden, {len(text)} bytes"


def test_what_is_told_has_an_end() -> None:
    text = b'{"vbucket_list":[' + b",".join(b"%d" % number for number in range(1024)) + b"]}"
    meaning = _value(encode_parts(0x80, Opcode.RELEASE_FUSION_STORAGE_SNAPSHOT, value=text)).meaning
    assert meaning is not None
    assert len(meaning) < 600
    assert meaning.endswith("…")


@pytest.mark.parametrize(
    ("request_opcode", "is_hidden"),
    [
        (Opcode.GET_FUSION_STORAGE_SNAPSHOT, True),
        (Opcode.CONFIG_VALIDATE, True),
        (Opcode.SET_VBUCKET, False),
    ],
)
def test_the_error_of_a_request_is_as_secret_as_the_request(
    request_opcode: Opcode, is_hidden: bool
) -> None:
    text = b'{"error":{"context":"Invalid json \'s3cret\'"}}'
    assert (
        _value(encode_parts(0x81, request_opcode, specific=0x04, value=text, datatype=1)).hidden
        == is_hidden
    )


@pytest.mark.parametrize("opcode", [0x7E, Opcode.IOCTL_GET, Opcode.STAT])
@pytest.mark.parametrize("pack", [bytes, encode_snappy])
def test_a_value_of_datatype_json_is_json_where_no_layout_says_so(
    opcode: int, pack: type[bytes]
) -> None:
    text = b'{"uuid":"u","n":1}'
    message = annotate(
        encode_parts(0x81, opcode, value=pack(text), datatype=1 if pack is bytes else 3)
    )
    assert message.value is not None
    assert (message.value.encoding, message.value.body) == ("json", text)
    assert not any(problem.rule == "json-bit-not-json" for problem in message.problems)


def test_a_compressed_value_that_nobody_can_read_is_hidden_where_only_described_values_are_shown() -> (
    None
):
    block = encode_snappy(b'{"rev":1}' * 9)
    assert _value(
        encode_parts(0x81, Opcode.GET_CLUSTER_CONFIG, value=block[:-2], datatype=3)
    ).hidden
    whole = encode_parts(0x81, Opcode.GET_CLUSTER_CONFIG, value=block, datatype=3)
    field = annotate(whole[:-2]).field("value")
    assert field is not None
    assert field.hidden


def test_the_body_of_a_message_whose_command_is_not_in_the_capture_is_hidden() -> None:
    data = encode_parts(0x80, Opcode.SASL_AUTH, key=b"PLAIN", value=b"\0u\0s3cret")
    message = annotate(data, missing=((0, 12),))
    assert [field.hidden for field in message.fields if field.name == "body"] == [True]
