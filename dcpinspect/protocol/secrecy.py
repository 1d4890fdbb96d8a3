"""What of a message may be shown: credentials never are, in any form, by anything that shows bytes
or values.

Documents and DCP hold no credentials, so all of them is shown. Of every other command only what a
layout describes is shown. Of a command that carries credentials the value is never shown; its
layout says so with ``Kind.SECRET``. So what nobody described is hidden until somebody describes it.
Numbers that are in no table may be anything: they are shown, unless they name credentials.
"""

from __future__ import annotations

import re
from enum import Enum

from dcpinspect.protocol.fields import Field, FieldKind, MessageSide
from dcpinspect.protocol.layout_choice import LayoutChoice
from dcpinspect.protocol.layouts import LAYOUTS, layouts_of
from dcpinspect.protocol.opcodes import Opcode, ServerOpcode, Trait, opcode_traits


class Secrecy(Enum):
    """How much of the messages of one command and side is shown."""

    OPEN = "all of it"
    UNKNOWN = "all of it, unless it names credentials"
    """The number of the command is in no table."""
    DESCRIBED = "what a layout describes, unless it names credentials"
    MEASURED = "what a layout describes; the value is only measured"


_WITH_SECRETS = {
    (layout.server, int(layout.opcode), layout.side)
    for layout in LAYOUTS
    if any(
        isinstance(item, Field) and item.kind is FieldKind.SECRET
        for item in (*layout.extras, *layout.value)
    )
}


def _decided(opcode: int, side: MessageSide, server: bool) -> Secrecy:
    if Trait.DATA in opcode_traits(opcode, server=server):
        return Secrecy.OPEN
    is_described = (
        layouts_of(opcode, side, server=server) and (server, opcode, side) not in _WITH_SECRETS
    )
    return Secrecy.DESCRIBED if is_described else Secrecy.MEASURED


_SIDES: tuple[MessageSide, ...] = ("request", "response")
_DECISIONS = {
    (bool(server), int(opcode), side): _decided(int(opcode), side, bool(server))
    for server, table in enumerate((Opcode, ServerOpcode))
    for opcode in table
    for side in _SIDES
}


def secrecy(opcode: int, side: MessageSide, *, server: bool = False) -> Secrecy:
    """Returns what is decided about a command."""
    return _DECISIONS.get((server, opcode, side), Secrecy.UNKNOWN)


def hides_value(
    choice: LayoutChoice, opcode: int, side: MessageSide, *, server: bool = False
) -> bool:
    """Returns whether the value of a message with this layout is hidden whatever it holds.

    The error of a refused request may quote the request (kv_engine mcbp_validators.cc: "Invalid
    json '…'"), so it is as secret as the request.
    """
    decided, layout = secrecy(opcode, side, server=server), choice.layout
    if decided is not Secrecy.DESCRIBED:
        return decided is Secrecy.MEASURED
    is_described = layout is not None and bool(layout.value) and choice.value_fits
    is_error = layout is not None and layout.generation == "error"
    return not is_described or (
        is_error and secrecy(opcode, "request", server=server) is Secrecy.MEASURED
    )


def hides_key(
    choice: LayoutChoice, opcode: int, side: MessageSide, *, server: bool = False
) -> bool:
    """Returns whether the key is hidden: no layout describes it, or it may be a piece of a secret
    value that is divided in the wrong place.
    """
    decided, layout = secrecy(opcode, side, server=server), choice.layout
    if decided in (Secrecy.OPEN, Secrecy.UNKNOWN):
        return False
    return (
        layout is None
        or layout.key is None
        or (decided is Secrecy.MEASURED and not choice.extras_fit)
    )


_NAME = rb"pass[ _-]?(?:word|phrase|wd)|secret|auth[ _-]?token"
_NAMES = re.compile(_NAME, re.IGNORECASE)
# A member of a JSON object, perhaps inside a string, where quotes have backslashes. kv_engine
# tls_configuration.cc and bucket_manager.cc write whether there is a credential instead of the
# credential itself.
_MEMBER = re.compile(
    rb"(?:%b)[^\"\\]{0,64}(\\*)\"\s*:(?!\s*(?:\1\"(?:(?:not[ -])?set)?\1\"|true\b|false\b|null\b))"
    % _NAME,
    re.IGNORECASE,
)


def names_credentials(text: bytes, key: bytes | None = None) -> bool:
    """Returns whether JSON, whole or in part, has a member that is named like a credential, or is
    the value of a setting that is.
    """
    return _MEMBER.search(text) is not None or (key is not None and _NAMES.search(key) is not None)
