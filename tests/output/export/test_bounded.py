"""``--max-bytes``: whole records as long as they fit, in all forms of JSON, and how many were left
out.
"""

from __future__ import annotations

import json

import pytest

from dcpinspect.cli.main import main
from tests.peers.truth import SAMPLES

CAPTURE = str(SAMPLES / "rollback.pcap")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        *(
            ["check", CAPTURE],
            ["read", CAPTURE],
            ["streams", CAPTURE],
            ["vbuckets", CAPTURE],
            ["sql", CAPTURE, "from messages"],
        ),
        *(
            ["read", "--columns", "row,name", CAPTURE],
            ["info", CAPTURE],
            ["stats", CAPTURE],
            ["io", CAPTURE],
        ),
        ["timeline", "--vbucket", "7", CAPTURE],
    ],
)
@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_json_has_no_more_than_so_many_bytes_and_stays_whole(
    arguments: list[str], form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if arguments[0] == "timeline" and form == "ndjson":
        form = "json"  # its only form
    main([*arguments, "--format", form])
    whole = capsys.readouterr().out
    main([*arguments, "--format", form, "--max-bytes", "3000"])
    out, err = capsys.readouterr()
    assert len(out.encode()) <= 3000
    if out == whole:
        assert "left out" not in err
        return
    if form == "ndjson":
        lines = out.splitlines()
        assert lines == whole.splitlines()[: len(lines)]
    else:
        json.loads(out)
    assert "left out" in err or "cut" in out
