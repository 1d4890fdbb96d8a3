"""Commands by what they are in DCP, from the one table of opcodes: for whole columns of opcodes at once."""

from __future__ import annotations

import numpy as np

from dcpinspect.protocol.columns import Mask
from dcpinspect.protocol.opcodes import Opcode, Trait


def opcodes_with(role: Trait) -> Mask:
    """By opcode: whether the command has all of ``role``. A command that nobody described has none."""
    found = np.zeros(256, dtype=np.bool_)
    found[[int(opcode) for opcode in Opcode if role in opcode.traits]] = True
    return found
