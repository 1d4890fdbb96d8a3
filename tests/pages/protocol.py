"""The page ``docs/protocol.md``: every message, status and setting, from the tables that decode
them.
"""

from __future__ import annotations

from itertools import chain, groupby

from dcpinspect.output.render.field_table import offsets_text
from dcpinspect.output.render.layout_table import field_rows, layout_kind, shape_text, status_rows
from dcpinspect.protocol.command_statuses import COMMAND_STATUSES, StatusMeanings
from dcpinspect.protocol.control_keys import CONTROL_KEYS
from dcpinspect.protocol.features import FEATURES
from dcpinspect.protocol.fields import Layout
from dcpinspect.protocol.flex import REQUEST_FRAMES, RESPONSE_FRAMES
from dcpinspect.protocol.header import MAGIC_DOCS, header_fields
from dcpinspect.protocol.layouts import AROUND, DCP
from dcpinspect.protocol.opcodes import ROLES, Opcode, ServerOpcode, Trait, opcode_doc, opcode_name
from dcpinspect.protocol.statuses import Status
from tests.pages.specification import specification_markdown

INTRODUCTION = """\
# The protocol, as dcpinspect reads it

Generated from the tables in `dcpinspect/protocol/` by `python -m tests.pages`; do not edit.
All integers are unsigned and big-endian; offsets count from the first byte of the message without framing
extras. An unknown message is shown with its header and its raw sections.
"""


GENERATIONS = """\
The first generation, UPR, gave some numbers another meaning. A connection is of the first generation from the first message in a layout
that only its specification has. Such messages are a stream request of 40 bytes, a marker without extras, a mutation of 30 bytes, and a
rollback seqno in the extras.

A connection is of a later generation from the first message that is not in this specification:

- HELLO, controls, noops, flow control, or any other command above 0x5b,
- a stream request of 48 bytes, or a mutation of 31 or 32 bytes,
- a deletion or expiration with another size than 18 bytes,
- a v2 marker, an open flag, or a reason of a stream end or a type of a marker above 1.

A marker of 20 bytes with type 0 or 1 belongs to both. If the generation is unknown, both meanings are shown. The number itself is always
shown as it was sent.
"""


def protocol_page() -> str:
    """Returns the page as Markdown."""
    out = [INTRODUCTION, "## Header", "", "| magic | meaning |", "|---|---|"]
    out += [f"| 0x{magic:02x} | {doc} |" for magic, doc in MAGIC_DOCS.items()]
    for magic, title in (
        (0x80, "Request"),
        (0x81, "Response"),
        (0x08, "Request with flex framing"),
        (0x18, "Response with flex framing"),
    ):
        out += ["", f"{title}:", "", "| field | offset | meaning |", "|---|---|---|"]
        out += [
            (
                f"| {field.title} | {offsets_text(field.offset, field.kind.size).strip('()')} | "
                f"{field.doc} |"
            )
            for field in header_fields(magic)
        ]
    out += ["", "## Framing extras", "", *frames_markdown()]
    out += ["", "## Generations", "", GENERATIONS.rstrip()]
    out += ["", "## DCP messages", "", *_roles(), "", *_families(DCP)]
    out += ["", "## Messages around DCP", "", *_families(AROUND)]
    out += ["", "## Commands", "", "| code | name | what it does |", "|---|---|---|"]
    out += [
        f"| 0x{int(op):02x} | {op.name.lower()} | {op.doc.replace('|', '/')} |" for op in Opcode
    ]
    out += [
        "",
        "Of the magics 0x82 and 0x83:",
        "",
        "| code | name | what it does |",
        "|---|---|---|",
    ]
    out += [
        f"| 0x{int(server_op):02x} | {server_op.name.lower()} | {server_op.doc.replace('|', '/')} |"
        for server_op in ServerOpcode
    ]
    out += ["", "## Statuses", "", "| code | name | meaning |", "|---|---|---|"]
    out += [
        f"| 0x{int(status):04x} | {status.name.lower()} | {status.meaning} |" for status in Status
    ]
    out += [
        "",
        "## DCP control keys",
        "",
        "| key | values | default | since | meaning |",
        "|---|---|---|---|---|",
    ]
    out += [
        (
            f"| {control.key} | {control.values.replace('|', 'or')} | {control.default} | "
            f"{control.since} | {control.doc} |"
        )
        for control in CONTROL_KEYS
    ]
    out += ["", "## HELLO features", "", *features_markdown()]
    out += ["", "## The specification, piece by piece", "", *specification_markdown(), ""]
    return "\n".join(out)


def _roles() -> list[str]:
    """Returns the roles of commands in DCP, and what the roles mean."""
    named = {
        role: (role.name or "").lower().replace("_", "-") for role in ROLES if role is not Trait.DCP
    }
    out = [
        "| role | meaning |",
        "|---|---|",
        *(f"| {name} | {ROLES[role]} |" for role, name in named.items()),
    ]
    out += ["", "| command | roles |", "|---|---|"]
    for op in Opcode:
        if Trait.DCP in op.traits:
            out.append(
                f"| 0x{int(op):02x} {op.name.lower()} | "
                f"{', '.join(name for role, name in named.items() if role in op.traits)} |"
            )
    return out


def _families(layouts: tuple[Layout, ...]) -> list[str]:
    """Returns a section for each command; commands with the same layouts share one."""
    ordered = sorted(layouts, key=lambda layout: (layout.server, layout.opcode))
    sections: dict[tuple[str, ...], list[tuple[bool, int]]] = {}
    for command, family in groupby(ordered, key=lambda layout: (layout.server, int(layout.opcode))):
        answers = () if command[0] else COMMAND_STATUSES.get(command[1], ())
        body = [
            *chain.from_iterable(map(layout_markdown, family)),
            *(status_markdown(answers) if answers else ()),
        ]
        sections.setdefault(tuple(body), []).append(command)
    out = []
    for section, commands in sections.items():
        names = [
            f"{opcode_name(opcode, server=server)} (0x{opcode:02x})" for server, opcode in commands
        ]
        docs = [opcode_doc(opcode, server=server) for server, opcode in commands]
        out += [f"### {', '.join(names)}", ""]
        out += (
            [docs[0]]
            if len(docs) == 1
            else [f"- {name}: {doc}" for name, doc in zip(names, docs, strict=True)]
        )
        out += ["", *section]
    return out[:-1]


def layout_markdown(layout: Layout) -> list[str]:
    """Returns a layout for the protocol page, under a heading that names its commands."""
    out = [
        f"#### {layout_kind(layout).capitalize()}",
        "",
        f"{shape_text(layout)[0].upper()}{shape_text(layout)[1:]}. Source: {layout.spec}.",
    ]
    if layout.note:
        out[-1] += f" {layout.note[0].upper()}{layout.note[1:]}."
    rows = list(field_rows(layout))
    if rows:
        out += ["", "| field | offset | size | meaning |", "|---|---|---|---|"]
        for indent, label, where, size, doc in rows:
            out.append(
                f"| {'&emsp;' * indent}{_cell(label)} | {where.strip('()')} | {_cell(size)} | "
                f"{_cell(doc)} |"
            )
    return [*out, ""]


def status_markdown(answers: StatusMeanings) -> list[str]:
    """Returns the possible answers to a command, for the protocol page."""
    rows = [
        f"| {code} | {name} | {_cell(meaning)} |" for code, name, meaning in status_rows(answers)
    ]
    return [
        "#### Answers",
        "",
        "| code | status | meaning for who asked |",
        "|---|---|---|",
        *rows,
        "",
    ]


def frames_markdown() -> list[str]:
    """Returns the elements of flex framing, for the protocol page."""
    out = ["| side | id | name | bytes | meaning |", "|---|---|---|---|---|"]
    for side, frames in (("request", REQUEST_FRAMES), ("response", RESPONSE_FRAMES)):
        for number, spec in frames.items():
            sizes = "1 and more" if spec.sizes is None else " or ".join(map(str, spec.sizes))
            out.append(f"| {side} | {number} | {spec.name} | {sizes} | {_cell(spec.doc)} |")
    return out


def features_markdown() -> list[str]:
    """Returns the HELLO features, for the protocol page."""
    out = ["| code | name | effect | meaning |", "|---|---|---|---|"]
    return out + [
        f"| 0x{feature.code:02x} | {feature.name} | {feature.effect} | {_cell(feature.doc)} |"
        for feature in FEATURES
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
