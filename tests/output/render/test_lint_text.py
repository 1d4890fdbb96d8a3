"""The tables of verdicts, as people read them."""

from __future__ import annotations

from dcpinspect.findings.lint import Verdict
from dcpinspect.output.render.lint_text import lint_lines
from dcpinspect.streams.tcp_facts import TcpConnection
from tests.findings.checked import verdicts
from tests.streams.told import opened


def link(number: int) -> TcpConnection:
    nothing = (None, None)
    return TcpConnection(
        number,
        f"10.0.0.9:{number}",
        "node",
        True,
        (1, 1),
        0,
        0,
        0,
        "",
        -1,
        0,
        0,
        0,
        0,
        0,
        (0, 0),
        (0, 0),
        (0, 0),
        nothing,
    )


def lines(*verdicts: Verdict) -> list[str]:
    return list(
        lint_lines(
            verdicts,
            [link(1), link(2)],
            lambda text, style: f"<{text}>" if style == "bold yellow" else text,
        )
    )


def test_a_connection_has_a_heading_and_a_line_for_every_rule() -> None:
    (name, noop) = verdicts(opened("kafka"), rules=["lint-name", "lint-noop"])
    assert lines(name, noop) == [
        "",
        "lint of connection 1, 10.0.0.9:1 to node: 0 PASS, 1 FAIL, 1 NA",
        "    <FAIL>  lint-name  name kafka is not of the form service:unique (row 3)",
        "    NA    lint-noop  there are no streams",
    ]


def test_no_escape_of_a_name_gets_through() -> None:
    shown = "\n".join(lines(*verdicts(opened("a\x1b[2Jb\n"), rules=["lint-name"])))
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == 3


def test_that_there_is_no_connection_is_said() -> None:
    assert lines() == [
        "",
        "lint: no connection to check, because no accepted DCP open was captured",
    ]
