"""What a shell offers, asked as a shell asks."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest


def offered(line: str, **environment: str) -> list[str]:
    """The completions of the last word of a line."""
    words = len(shlex.split(line)) - 1 + line.endswith(" ")
    asked = {
        "_DCPINSPECT_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(words),
        **environment,
    }
    done = subprocess.run(
        [sys.executable, "-m", "dcpinspect"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "has", "lacks"),
    [
        (
            "dcpinspect read --opcode dcp_str",
            ["dcp_stream_req", "dcp_stream_end"],
            ["dcp_mutation"],
        ),
        ("dcpinspect read --opcode get,dcp_mut", ["get,dcp_mutation"], ["dcp_mutation"]),
        ("dcpinspect stats --status ke", ["key_enoent"], ["rollback"]),
        ("dcpinspect read --columns row,rt", ["row,rtt_ns"], ["row,row"]),
        ("dcpinspect read --columns @se", ["@seqnos"], ["row"]),
        ("dcpinspect read --sort req", ["request_key"], ["failover_log"]),
        ("dcpinspect read --filter @e", ["@errors"], ["@rollbacks"]),
        ("dcpinspect vbuckets --sort findings.", ["findings.error"], ["client"]),
        (
            "dcpinspect rollbacks --columns vbucket,res",
            ["vbucket,resume_start"],
            ["vbucket,vbucket"],
        ),
        ("dcpinspect check --rule rollback-", ["rollback-loop"], ["noop-opaque"]),
        ("dcpinspect check --family n", ["noop"], ["stream"]),
        ("dcpinspect explain caught", ["caught-up"], ["ended"]),
    ],
)
def test_values_are_offered_by_what_was_typed_of_them(
    line: str, has: list[str], lacks: list[str]
) -> None:
    found = offered(line)
    assert set(has) <= set(found)
    assert not set(lacks) & set(found)


def test_filters_that_were_saved_are_offered(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[filters]\nslowest = 'rtt_ns > 1000000'\n")
    assert offered("dcpinspect read --filter @sl", DCPINSPECT_CONFIG=str(config)) == ["@slowest"]
    assert offered("dcpinspect streams --filter @", DCPINSPECT_CONFIG=str(config)) == ["@slowest"]
    config.write_text("not toml")
    assert "@errors" in offered("dcpinspect read --filter @", DCPINSPECT_CONFIG=str(config))
