"""What happens around DCP on a connection."""

from __future__ import annotations

import pytest

from dcpinspect.protocol.annotate import annotate
from tests.encode import encode
from tests.protocol.layouts.cases import Case, decoded, encoded, expected

CASES = (
    Case(
        "hello",
        "hello",
        key=b"agent",
        value="0006 0012",
        fields={"features": [{"feature": 6}, {"feature": 18}]},
    ),
    Case("granted", "hello", side="response", value="0012", fields={"features": [{"feature": 18}]}),
    Case("mechanisms", "sasl_list_mechs", side="response", value=b"SCRAM-SHA512 PLAIN"),
    Case("select bucket", "select_bucket", key=b"@no bucket@"),
    Case(
        "no access", "select_bucket", generation="error", side="response", status=36, encodes=False
    ),
    Case("config", "get_cluster_config"),
    Case(
        "config with a known version",
        "get_cluster_config",
        extras="ffffffffffffffff 000000000000002a",
        fields={"epoch": -1, "revision": 42},
    ),
    Case("config is current", "get_cluster_config", side="response"),
    Case("config document", "get_cluster_config", side="response", value=b'{"rev":42}'),
    Case("error map", "get_error_map", value="0002", fields={"version": 2}),
    Case("noop", "noop"),
    Case("statistics", "stat", key=b"vbucket"),
    Case("a statistic", "stat", side="response", key=b"vb_0", value=b"active"),
    Case("end of statistics", "stat", side="response"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_message_decodes_to_its_fields(case: Case) -> None:
    assert decoded(case) == expected(case)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.encodes], ids=lambda case: case.name
)
def test_fields_encode_to_the_message(case: Case) -> None:
    assert encoded(case) == case.data


@pytest.mark.parametrize(("command", "size"), [("sasl_auth", 18), ("sasl_step", 7)])
def test_authentication_data_is_hidden_and_measured(command: str, size: int) -> None:
    field = annotate(encode(command, key="PLAIN", value=b"x" * size)).field("value")
    assert field is not None
    assert (field.hidden, field.raw, field.value, field.meaning) == (
        True,
        b"",
        None,
        f"hidden, {size} bytes",
    )


def test_features_are_named() -> None:
    message = annotate(encode("hello", features=[{"feature": 0x12}, {"feature": 0x1234}]))
    assert [field.meaning for field in message.fields if field.name == "feature"] == [
        "Collections",
        "feature_0x1234",
    ]


@pytest.mark.parametrize("count", [1, 3])
def test_half_a_feature_is_reported(count: int) -> None:
    assert [problem.rule for problem in annotate(encode("hello", value=bytes(count))).problems] == [
        "length-mismatch"
    ]
