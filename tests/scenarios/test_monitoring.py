"""docs/monitoring and docs/watch.md: what they have is what the program, systemd and Kubernetes
take.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.cli.test_live import told
from tests.peers.network import NEEDS_ROOT, namespaces
from tests.peers.stories import STORIES

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parent.parent.parent / "docs"
UNIT = DOCS / "monitoring" / "dcpinspect-watch.service"
SIDECAR = DOCS / "monitoring" / "sidecar.yaml"
INSTALLED = "/opt/dcpinspect/bin/dcpinspect"
PROGRAM = [sys.executable, "-m", "dcpinspect"]


def unit_line(name: str) -> str:
    (found,) = re.findall(rf"^{name}=(.*)$", UNIT.read_text("utf-8"), re.MULTILINE)
    return str(found)


def sidecar() -> dict[str, Any]:
    pod: dict[str, Any] = yaml.safe_load(SIDECAR.read_text("utf-8"))
    return pod


def container() -> dict[str, Any]:
    (found,) = sidecar()["spec"]["initContainers"]
    assert isinstance(found, dict)
    return found


@pytest.mark.requires("systemd-analyze")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    program = tmp_path / "dcpinspect"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text("utf-8").replace(INSTALLED, str(program)), "utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_kubernetes_takes_the_manifest() -> None:
    for version in ("1.29", "1.33"):
        kubernetes_validate.validate(sidecar(), version, strict=True)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**sidecar(), "specs": {}}, "1.33", strict=True)


def test_the_sidecar_has_a_place_for_all_that_it_writes() -> None:
    mounts = {one["mountPath"] for one in container()["volumeMounts"]}
    folders = {one["value"] for one in container()["env"]}
    assert {"--save-to=/captures"} <= set(container()["args"])
    assert mounts == {"/captures", *folders}
    assert {one["name"] for one in container()["volumeMounts"]} == {
        one["name"] for one in sidecar()["spec"]["volumes"]
    }


def as_the_unit(folder: Path) -> list[str]:
    program, *arguments = shlex.split(
        unit_line("ExecStart").replace("${STATE_DIRECTORY}", str(folder))
    )
    assert program == INSTALLED
    assert (
        unit_line("AmbientCapabilities")
        == unit_line("CapabilityBoundingSet")
        == "CAP_NET_RAW CAP_NET_ADMIN"
    )
    return arguments


def as_the_sidecar(folder: Path) -> list[str]:
    assert container()["securityContext"]["capabilities"] == {
        "drop": ["ALL"],
        "add": ["NET_RAW", "NET_ADMIN"],
    }
    return [one.replace("/captures", str(folder)) for one in container()["args"]]


@NEEDS_ROOT
@pytest.mark.requires("setpriv")
@pytest.mark.parametrize("arguments", [as_the_unit, as_the_sidecar])
def test_it_runs_with_the_rights_that_it_is_given_there(arguments: Any, tmp_path: Path) -> None:
    """Those to capture, and no others."""
    rights = [
        "--no-new-privs",
        *(
            f"--{which}=-all,+net_raw,+net_admin"
            for which in ("bounding-set", "inh-caps", "ambient-caps")
        ),
    ]
    with namespaces("rights") as (namespace,):
        command = [
            "ip",
            "netns",
            "exec",
            namespace,
            "setpriv",
            *rights,
            *PROGRAM,
            *arguments(tmp_path),
            "--settle",
            "500ms",
        ]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stderr is not None
                while "capturing" not in (line := process.stderr.readline()):
                    assert line
                told(STORIES["rollback"](), namespace)
                found = [process.stdout.readline()]
                process.send_signal(signal.SIGTERM)
                rest, errors = process.stdout.read(), process.stderr.read()
                process.wait(120)
            finally:
                process.kill()
    assert "rollback" in "".join([*found, rest])
    assert process.returncode == 0, errors
    assert list(tmp_path.glob("*.pcapng"))


def test_the_page_shows_what_the_program_prints() -> None:
    page = (DOCS / "watch.md").read_text("utf-8")
    (command,) = re.findall(r"^```sh\n(.*)\n```$", page, re.MULTILINE)
    (shown,) = re.findall(r"^```text\n(2024.*?)\n```$", page, re.MULTILINE | re.DOTALL)
    environment = {
        **os.environ,
        "TZ": "UTC",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=DOCS.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == " ".join(shown.split("\n    ")) + "\n"


def test_the_page_has_every_option_of_its_own() -> None:
    page = (DOCS / "watch.md").read_text("utf-8")
    printed = [
        subprocess.run([*PROGRAM, one, "--help"], capture_output=True, text=True, check=True).stdout
        for one in ("watch", "live")
    ]
    own, shared = (
        {
            word
            for text in re.findall(r"^  (-.*)$", one, re.MULTILINE)
            for word in re.findall(r"--[a-z-]+", text)
        }
        for one in printed
    )
    assert [
        option
        for option in sorted(own - shared)
        if f"`{option}" not in page and f" {option} " not in page
    ] == []
