from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from dcpinspect.capture.file_reader import last_packets
from tests import builders
from tests.builders import Recorded
from tests.capture.test_pcap import PACKETS


@pytest.mark.parametrize("form", [builders.pcap, builders.pcapng])
def test_the_last_packets_of_a_plain_file_are_found_without_reading_it(
    form: Callable[[Sequence[Recorded]], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcpinspect.capture.file_reader._TAIL", 800)
    (path := tmp_path / "x").write_bytes(form(PACKETS))
    found = last_packets(str(path))
    assert found is not None
    assert 2 < len(found) < len(PACKETS)
    assert [found.bytes_of(index) for index in range(len(found))] == [
        one.data for one in PACKETS[-len(found) :]
    ]
    (tmp_path / "x.gz").write_bytes(gzip.compress(form(PACKETS)))
    assert last_packets(str(tmp_path / "x.gz")) is None
