from __future__ import annotations

from pathlib import Path

from dcpinspect.spark.info import pipeline_info
from dcpinspect.spark.manifest import Manifest
from tests.spark.outputs import ran

SAMPLES = Path(__file__).parents[2] / "sample_captures"


def test_an_output_says_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "x.pcap").write_bytes(b"none")
    done = ran(tmp_path / "out", SAMPLES / "tour.pcapng", tmp_path / "bad")
    found = pipeline_info(Manifest.newest(tmp_path / "out"))
    assert found["captures"] == {"ok": 1, "damaged": 0, "bad": 1, "continued": 0}
    assert found["tables"] == done.rows
    samples, bad = found["points"]
    assert (samples["point"], samples["captures"], samples["packets"]) == ("sample_captures", 1, done.packets)
    assert samples["first_time"] < samples["last_time"]
    assert bad == {"point": "bad", "captures": 0, "bytes": 0, "packets": 0, "first_time": None, "last_time": None}
    assert [one["severity"] for one in found["problems"]] == ["error"]
