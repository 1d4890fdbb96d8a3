from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from dcpinspect.capture import remote
from dcpinspect.capture.open import open_capture
from dcpinspect.capture.remote import RemoteFile, is_uri, opened
from dcpinspect.errors import CaptureError
from tests.s3 import BUCKET, MARKER, Store, s3

SAMPLE = Path(__file__).parents[2] / "sample_captures" / "rollback.pcap"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Store]:
    with s3(monkeypatch, tmp_path) as found:
        yield found


def test_which_names_are_uris() -> None:
    assert all(map(is_uri, ("s3://b/k", "s3a://b", "hdfs:///x", "gs://b/k", "abfss://c@a.dfs.core.windows.net/k")))
    assert not any(map(is_uri, ("s3:/b", "/a/s3://b", "http://x/y", "file:///x", "x", "-")))


def test_captures_in_storage_are_read_by_ranges_and_again_where_it_is_busy(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    content = SAMPLE.read_bytes()
    monkeypatch.setattr(remote, "FIRST", 1 << 12)
    plain, packed = store.put("ring/a.pcap", content), store.put("ring/b.pcap.gz", gzip.compress(content))
    store.failures, store.slow_s = 2, 0.05
    with open_capture(plain) as capture, open_capture(SAMPLE) as local:
        assert sum(map(len, capture)) == sum(map(len, local))
        assert (capture.position, capture.files[0].storage, capture.problems) == (len(content), "stream", [])
    assert store.failures == 0
    assert all(one.startswith("bytes=") for one in store.ranges)
    with open_capture([packed, plain]) as capture:
        assert sum(map(len, capture)) == 2 * local.packets
    store.ranges.clear()
    with opened(plain) as file:
        file.seek(len(content) - 10)
        assert file.read(100) == content[-10:]
        file.seek(0)
        assert file.read(10) == content[:10]
    assert len(store.ranges) == 2
    assert sorted(remote.files_below(f"s3://{BUCKET}/ring/")) == [f"s3://{BUCKET}/ring/a.pcap", f"s3://{BUCKET}/ring/b.pcap.gz"]


def test_what_is_not_there_or_does_not_answer_is_one_line_without_secrets(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CaptureError, match=r"s3a://captures/none: there is no such file; check the name"):
        open_capture(f"s3a://{BUCKET}/none")
    with pytest.raises(CaptureError, match=r"nowhere/x: (cannot be opened|there is no such file)") as raised:
        open_capture("s3a://nowhere/x")
    assert MARKER not in str(raised.value)
    with pytest.raises(CaptureError, match=r"cannot be opened \(.+\); check the name, and the credentials") as raised:
        open_capture("hdfs://127.0.0.1:1/x")
    assert "\n" not in str(raised.value)
    with pytest.raises(CaptureError, match="cannot be followed"):
        open_capture(f"s3a://{BUCKET}/none", follow=True)
    monkeypatch.setattr(remote, "ATTEMPTS", 2)
    remote._filesystem.cache_clear()
    uri = store.put("x", SAMPLE.read_bytes())
    with RemoteFile(uri) as file:
        store.failures = 100
        # The client names the status, or the code in the answer's body if it has read it before the connection closed.
        with pytest.raises(OSError, match=r"SLOW_DOWN|SERVICE_UNAVAILABLE") as failed:
            file.readinto(bytearray(10))
    assert MARKER not in str(failed.value)
