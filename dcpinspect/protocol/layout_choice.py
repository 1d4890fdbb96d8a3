"""Which layout a message has: the one whose lengths, status and extras fit, or the nearest one and
why it does not fit.
"""

from __future__ import annotations

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.fields import Field, FieldKind, Layout
from dcpinspect.protocol.header import Header
from dcpinspect.protocol.layouts import layouts_of
from dcpinspect.protocol.opcodes import Opcode, opcode_name
from dcpinspect.protocol.statuses import SUCCESS_CLASS, status_name

ERROR_VALUE = (Field("value", 0, FieldKind.ERROR, "why the request was refused", "Value"),)

VALUE_RULES = {
    int(Opcode.DCP_SNAPSHOT_MARKER): "marker-value-length",
    int(Opcode.DCP_SYSTEM_EVENT): "system-event-length",
    int(Opcode.DCP_STREAM_REQ): "failover-log-size",
    int(Opcode.DCP_GET_FAILOVER_LOG): "failover-log-size",
    int(Opcode.GET_FAILOVER_LOG): "failover-log-size",
}
"""The rule for a value of the wrong length, for the commands that have a rule of their own."""


@dataclass(frozen=True, slots=True)
class LayoutChoice:
    """A layout for a message, and the parts of the message that it does not describe."""

    layout: Layout | None
    """None if nobody described the command."""
    rule: str = ""
    """Empty if everything fits, else the rule that is broken."""
    reason: str = ""
    extras_fit: bool = True
    """Whether the extras fit the layout; if not, they are raw bytes."""
    value_fits: bool = True
    """Whether the value fits the layout; if not, it is raw bytes."""

    @property
    def generation(self) -> str | None:
        """The layout's name if it describes at least the extras."""
        return self.layout.generation if self.layout is not None and self.extras_fit else None

    @property
    def broken(self) -> str:
        """The rule that the choice itself shows to be broken; empty if there is none."""
        return self.rule or (
            "legacy-layout" if self.layout is not None and self.layout.legacy else ""
        )

    @property
    def rule_of_empty(self) -> str:
        """The rule that a message without a value breaks; empty if it may have none.

        A layout of fixed fields would not have been chosen; a failover log without entries is such
        a value.
        """
        layout = self.layout
        if layout is None or self.rule or not (layout.value and layout.value_required):
            return ""
        return _value_rule(layout) or "unexpected-section"

    def odd_key(self, *, is_there: bool) -> str:
        """Returns what a message with or without a key must have instead; empty: it may be so."""
        if self.layout is None:
            return ""
        if self.layout.key is None:
            return "must not have a key" if is_there else ""
        return "" if is_there or not self.layout.key_required else "must have a key"


def _value_rule(layout: Layout) -> str | None:
    """Returns the rule for values of the wrong length that the command has for itself, or None."""
    return None if layout.server else VALUE_RULES.get(layout.opcode)


def candidates(header: Header) -> tuple[Layout, ...]:
    """Returns the layouts of a message's command and side that its status allows."""
    layouts = layouts_of(header.opcode, header.side, server=header.is_server)
    if header.side == "request":
        return layouts
    status = header.specific
    fitting = tuple(layout for layout in layouts if _has_status(layout, status))
    if status in SUCCESS_CLASS:
        return fitting
    error = Layout(
        header.opcode,
        "response",
        "error",
        "",
        value=ERROR_VALUE,
        value_required=False,
        status="any",
        server=header.is_server,
    )
    return (*fitting, error)


def _has_status(layout: Layout, status: int) -> bool:
    if isinstance(layout.status, tuple):
        return status in layout.status
    return layout.status == "any" or (status in SUCCESS_CLASS) == (layout.status == "success")


def choose(header: Header, extras: bytes | None, value_size: int) -> LayoutChoice:
    """Returns the layout of a message with these extras (None: the capture does not hold them) and
    value length.
    """
    layouts = candidates(header)
    if not layouts:
        return LayoutChoice(None)
    if extras is None:
        # Without the numbers that tell layouts apart, one that asks for no numbers comes first.
        fitting = sorted(
            (layout for layout in layouts if layout.extras_size == header.extras_size),
            key=lambda layout: bool(layout.when),
        )
    else:
        fitting = [layout for layout in layouts if layout.fits_extras(extras)]
    name = opcode_name(header.opcode, server=header.is_server)
    if not fitting and header.side == "response":
        # Published examples have a vbucket where the status is. Whatever the status, extras of this
        # length say what they are.
        for layout in layouts_of(header.opcode, "response", server=header.is_server):
            if layout.extras_size == header.extras_size:
                reason = (
                    f"{name} response with the extras of a success, yet its status is "
                    f"{status_name(header.specific)}"
                )
                return LayoutChoice(
                    layout, "refused-payload", reason, value_fits=layout.fits_value(value_size)
                )
    if not fitting:
        sizes = sorted({layout.extras_size for layout in layouts})
        reason = (
            f"{name} {header.side} with {header.extras_size} bytes of extras; {_defined(sizes)}"
        )
        # A refused request's body is worth reading even under odd extras; so are key and value of a
        # longer document message.
        nearest = layouts[-1] if layouts[-1].generation == "error" else layouts[0]
        return LayoutChoice(
            nearest,
            "extras-length",
            reason,
            extras_fit=False,
            value_fits=nearest.value_size is None,
        )
    for layout in fitting:
        if layout.fits_value(value_size):
            return LayoutChoice(layout)
        if layout.when:
            break  # Its extras name this layout: only the length of the value is wrong.
    else:
        layout = fitting[0]
    named = _value_rule(layout)
    if named is None and not (layout.value and value_size):
        reason = f"{name} {header.side} must {'' if layout.value else 'not '}have a value"
        return LayoutChoice(layout, "unexpected-section", reason, value_fits=False)
    sizes = sorted({layout.value_size for layout in fitting if layout.value_size is not None})
    reason = f"{name} {header.side} with {value_size} bytes of value; {_defined(sizes)}"
    return LayoutChoice(layout, named or "value-length", reason, value_fits=False)


def _defined(sizes: list[int]) -> str:
    listed = ", ".join(map(str, sizes)) or "none"
    return f"{listed} {'is' if len(sizes) == 1 else 'are'} defined"
