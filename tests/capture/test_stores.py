from __future__ import annotations

import json

import pytest
from pyarrow import ArrowException

from dcpinspect.capture.stores import AzureAccount, file_system_of, is_uri, one_line_errors, options

VARIABLES = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_ACCOUNT",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_CONNECTION_STRING",
    "AZURE_STORAGE_ENDPOINT",
    "AZURE_STORAGE_KEY",
    "AZURE_STORAGE_USE_EMULATOR",
    "AZURITE_BLOB_STORAGE_URL",
    "STORAGE_EMULATOR_HOST",
)
OURS, CHINA = "abfss://c@ours.dfs.core.windows.net/x", "https://ours.blob.core.chinacloudapi.cn/"
CONNECTION = (
    f"DefaultEndpointsProtocol=https;AccountName=ours;AccountKey=a2V5==;BlobEndpoint={CHINA}"
)


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_which_names_are_uris() -> None:
    assert all(
        map(
            is_uri,
            ("s3://b/k", "s3a://b", "hdfs:///x", "gs://b/k", "abfss://c@a.dfs.core.windows.net/k"),
        )
    )
    assert not any(map(is_uri, ("s3:/b", "/a/s3://b", "http://x/y", "file:///x", "x", "-")))


@pytest.mark.parametrize("name", ["/tables", "s3://b/x", "gs://b/x", "hdfs://node/x"])
def test_deltalake_is_told_nothing_that_it_finds_itself(name: str) -> None:
    assert options(name) is None


def test_deltalake_asks_the_same_server_as_the_readers_of_captures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://here:1")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "here:2")
    assert (options("s3://b/x") or {})["AWS_ENDPOINT_URL"] == "http://here:1"
    assert (
        json.loads((options("gs://b/x") or {})["google_service_account_key"])["gcs_base_url"]
        == "http://here:2"
    )
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://here:3/")
    assert (
        json.loads((options("gs://b/x") or {})["google_service_account_key"])["gcs_base_url"]
        == "http://here:3"
    )


@pytest.mark.parametrize(
    ("settings", "name", "found"),
    [
        ({}, OURS, AzureAccount("ours", "", False, "")),
        ({"AZURE_STORAGE_ACCOUNT": "ours"}, "abfs://c/x", AzureAccount("ours", "", False, "")),
        (
            {"AZURE_STORAGE_ACCOUNT": "other", "AZURE_STORAGE_KEY": "k"},
            OURS,
            AzureAccount("ours", "", False, "k"),
        ),
        (
            {"AZURE_STORAGE_ACCOUNT_NAME": "ours", "AZURE_STORAGE_ACCESS_KEY": "k"},
            "abfss://c/x",
            AzureAccount("ours", "", False, "k"),
        ),
        (
            {"AZURE_STORAGE_CONNECTION_STRING": CONNECTION},
            "abfss://c/x",
            AzureAccount("ours", CHINA, False, "a2V5=="),
        ),
        ({"AZURE_STORAGE_ENDPOINT": CHINA}, OURS, AzureAccount("ours", CHINA, False, "")),
        (
            {"AZURE_STORAGE_USE_EMULATOR": "true"},
            OURS,
            AzureAccount("ours", "http://127.0.0.1:10000", True, ""),
        ),
        (
            {"AZURE_STORAGE_USE_EMULATOR": "1", "AZURITE_BLOB_STORAGE_URL": "http://here:1"},
            OURS,
            AzureAccount("ours", "http://here:1", True, ""),
        ),
    ],
)
def test_accounts_and_keys_are_where_others_look(
    settings: dict[str, str], name: str, found: AzureAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in settings.items():
        monkeypatch.setenv(variable, value)
    assert AzureAccount.from_authority(name.split("/")[2]) == found
    told_of = {
        "azure_storage_account_name": "ours",
        "azure_storage_account_key": found.key,
        "azure_storage_endpoint": found.endpoint,
    }
    left_out = (
        "",
        "http://127.0.0.1:10000",
        "http://here:1",
    )  # deltalake finds the emulator itself
    assert options(name) == {
        option: value for option, value in told_of.items() if value not in left_out
    }
    filesystem, path = file_system_of(name)
    assert (filesystem.type_name, path) == ("abfs", "c/x")
    assert not found.key or found.key not in repr(found)


def test_storage_of_azure_that_names_no_account_is_refused() -> None:
    with pytest.raises(
        OSError,
        match=(
            r"names no account; write CONTAINER@ACCOUNT\.dfs\.core\.windows\.net, or set "
            r"AZURE_STORAGE_ACCOUNT"
        ),
    ):
        file_system_of("abfss://c/x")


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            (
                "GetProperties failed for 'https://a/c/x'. Azure Error: [NoAuth] 403 Not "
                "you.\n\nRequest ID: 1-2"
            ),
            "[NoAuth] 403 Not you.",
        ),
        ("Not you.\nRequestId:1-2\nTime:2026-11-25", "Not you."),
        (
            "google::cloud::Status(UNAVAILABLE: asked long error_info={a=b}). Detail: [errno 5] x",
            "UNAVAILABLE: asked long",
        ),
        (
            "When reading 'x': AWS Error SLOW_DOWN: Reduce (Request ID: 1; Host ID: 2)",
            "When reading 'x': AWS Error SLOW_DOWN: Reduce",
        ),
        ("", "OSError"),
    ],
)
def test_what_a_client_says_is_a_line_with_the_reason(said: str, line: str) -> None:
    for error in (OSError, ArrowException):
        with pytest.raises(OSError, match=r".") as raised, one_line_errors():
            raise error(said)
        assert raised.value.strerror == line.replace("OSError", error.__name__)
