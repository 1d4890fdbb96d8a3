"""Commands by their role in DCP, from the table of opcodes: for columns of opcodes at once."""

from __future__ import annotations

import numpy as np

from dcpinspect.arrays import BoolArray
from dcpinspect.protocol.opcodes import Opcode, Trait

_ABOUT_ONE_VBUCKET = (
    Opcode.SET_VBUCKET,
    Opcode.GET_VBUCKET,
    Opcode.DEL_VBUCKET,
    Opcode.OBSERVE_SEQNO,
    Opcode.GET_FAILOVER_LOG,
    Opcode.SEQNO_PERSISTENCE,
    Opcode.COMPACT_DB,
    Opcode.MOUNT_FUSION_VBUCKET,
    Opcode.UNMOUNT_FUSION_VBUCKET,
    Opcode.RANGE_SCAN_CREATE,
    Opcode.RANGE_SCAN_CONTINUE,
    Opcode.RANGE_SCAN_CANCEL,
    Opcode.PREPARE_SNAPSHOT,
    Opcode.RELEASE_SNAPSHOT,
    Opcode.DOWNLOAD_SNAPSHOT,
    Opcode.GET_FILE_FRAGMENT,
)
"""Commands with neither a stream nor a document key that are about the vbucket of their header."""


def opcodes_with(role: Trait) -> BoolArray:
    """Returns a mask by opcode: whether the command has all of ``role``. A command that nobody
    described has no role.
    """
    has_role = np.zeros(256, dtype=np.bool_)
    has_role[[int(opcode) for opcode in Opcode if role in opcode.traits]] = True
    return has_role


def _names_vbucket() -> BoolArray:
    names_vbucket = opcodes_with(Trait.VBUCKET) | opcodes_with(Trait.KEY)
    names_vbucket[list(_ABOUT_ONE_VBUCKET)] = True
    names_vbucket[sorted(set(range(256)) - set(Opcode))] = True
    return names_vbucket


NAMES_VBUCKET = _names_vbucket()
"""By opcode: whether the vbucket in the header of a request means a vbucket, and is not an unused
field, as in HELLO. It may for a command that nobody described.
"""
