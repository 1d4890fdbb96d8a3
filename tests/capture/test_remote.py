from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from dcpinspect.capture import remote, stores
from dcpinspect.capture.open import open_capture
from dcpinspect.capture.remote import RemoteFile, open_remote
from dcpinspect.errors import CaptureError
from tests.stores import KEY, MARKER, STORES, Store, emptied, serving

SAMPLE = Path(__file__).parents[2] / "sample_captures" / "rollback.pcap"


@pytest.fixture(scope="module", params=STORES)
def server(request: pytest.FixtureRequest) -> Iterator[Store]:
    with serving(request.param) as found:
        yield found


@pytest.fixture
def store(server: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Store]:
    with emptied(server, monkeypatch, tmp_path) as found:
        yield found


@pytest.mark.slow
def test_captures_in_storage_are_read_by_ranges_and_again_where_it_is_busy(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = SAMPLE.read_bytes()
    monkeypatch.setattr(remote, "FIRST", 1 << 12)
    plain, packed = (
        store.put("ring/a.pcap", content),
        store.put("ring/b.pcap.gz", gzip.compress(content)),
    )
    store.told(failures=2, slow_s=0.05)
    with open_capture(plain) as capture, open_capture(SAMPLE) as local:
        assert sum(map(len, capture)) == sum(map(len, local))
        assert (capture.position, capture.files[0].storage, capture.problems) == (
            len(content),
            "stream",
            [],
        )
    assert store.told()["failures"] == 0
    assert all(one.startswith("bytes=") for one in store.ranges)
    with open_capture([packed, plain]) as capture:
        assert sum(map(len, capture)) == 2 * local.packets
    store.told(ranges=[])
    with open_remote(plain) as file:
        file.seek(len(content) - 10)
        assert file.read(100) == content[-10:]
        file.seek(0)
        assert file.read(10) == content[:10]
    assert len(store.ranges) == 2
    assert sorted(remote.files_below(f"{store.root}/ring/")) == [plain, packed]


@pytest.mark.slow
def test_what_is_not_there_or_does_not_answer_is_one_line_without_secrets(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "LONG", stores.StorageTimeouts(2, 5.0, 1))
    with pytest.raises(
        CaptureError, match=rf"{store.root}/none: there is no such file; check the name"
    ):
        open_capture(f"{store.root}/none")
    with pytest.raises(
        CaptureError, match=r"nowhere.*/x: (cannot be opened|there is no such file)"
    ):
        open_capture(f"{store.base.format('nowhere')}/x")
    with pytest.raises(CaptureError, match="cannot be followed"):
        open_capture(f"{store.root}/none", follow=True)
    uri = store.put("x", SAMPLE.read_bytes())
    with RemoteFile(uri) as file:
        store.told(failures=1000)
        with pytest.raises(OSError, match=r"(?i)slow.?down|unavailable") as failed:
            file.readinto(bytearray(10))
    assert "\n" not in str(failed.value)
    assert not any(secret in str(failed.value) for secret in (MARKER, KEY))


def test_a_store_is_asked_for_its_bucket(store: Store) -> None:
    stores.reach(f"{store.root}/none")
    if store.name == "azure":
        return  # its containers are not asked for
    with pytest.raises(
        OSError, match=r"there is no bucket nowhere in storage.*; check the name and "
    ) as raised:
        stores.reach(f"{store.base.format('nowhere')}/x")
    assert not any(secret in str(raised.value) for secret in (MARKER, KEY))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "name", "says"),
    [
        (
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"},
            "s3a://nothing/a",
            r" at http://127\.0\.0\.1:1 does .* and AWS_ENDPOINT_URL$",
        ),
        (
            {"STORAGE_EMULATOR_HOST": "127.0.0.1:1"},
            "gs://nothing/a",
            r" at http://127\.0\.0\.1:1 does .* and STORAGE_EMULATOR_HOST$",
        ),
        (
            {
                "AZURE_STORAGE_USE_EMULATOR": "true",
                "AZURITE_BLOB_STORAGE_URL": "http://127.0.0.1:1",
            },
            "abfss://c@ours.dfs.core.windows.net/x",
            r" does not answer \(.*http://127\.0\.0\.1:1.* and the account$",
        ),
    ],
)
def test_a_store_that_is_not_there_is_one_line(
    settings: dict[str, str], name: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in {"AZURE_STORAGE_KEY": KEY, **settings}.items():
        monkeypatch.setenv(variable, value)
    with pytest.raises(OSError, match=says) as raised:
        stores.reach(name)
    assert "\n" not in str(raised.value)
    assert "error_info" not in str(raised.value)


def test_a_store_that_cannot_be_had_is_one_line() -> None:
    with pytest.raises(
        CaptureError, match=r"cannot be opened \(.+\); check the name, and the credentials"
    ) as raised:
        open_capture("hdfs://127.0.0.1:1/x")
    assert "\n" not in str(raised.value)
