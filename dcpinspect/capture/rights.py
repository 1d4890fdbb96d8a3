"""The rights of a process: it gives up those that it no longer needs, and gives nobody what only the owner of a capture may read."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from dcpinspect.capture.source import STDIN
from dcpinspect.errors import UsageError
from dcpinspect.escape import escape

_VERSION_3 = 0x20080522
_KEPT = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 6 | 1 << 7
"""CAP_CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, SETGID, SETUID: root goes on reading and writing files, and may become another user."""

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def be_private() -> None:
    """Lets only the owner read what this process and those that it starts write from now on."""
    os.umask(os.umask(_OTHERS) | _OTHERS)


def be_as_private_as(paths: Iterable[str]) -> None:
    """Lets nobody read what this process writes from now on who may not read all of these files and folders, as far as they exist."""
    os.umask(os.umask(_OTHERS) | _mask(paths))


@contextmanager
def as_private_as(paths: Iterable[str]) -> Iterator[None]:
    """Does so within this context only."""
    before = os.umask(_OTHERS)
    os.umask(before | _mask(paths))
    try:
        yield
    finally:
        os.umask(before)


def _mask(paths: Iterable[str]) -> int:
    """Returns the bits of a umask that take from others what these paths do not give them."""
    mask = 0
    for path in paths:
        with suppress(OSError, ValueError):  # who reads the file says what is wrong with it
            mode = os.stat(0 if path == STDIN else path).st_mode
            if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
                mask |= (0 if mode & stat.S_IRGRP else stat.S_IRWXG) | (0 if mode & stat.S_IROTH else stat.S_IRWXO)
    return mask


def stop_being_able_to_capture() -> None:
    """Gives up the rights of this process over the network and the system (capabilities(7)). Programs that root starts have them again."""
    if sys.platform != "linux":
        return
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None, use_errno=True)
        head = ctypes.create_string_buffer(struct.pack("Ii", _VERSION_3, 0))
        sets = ctypes.create_string_buffer(24)
        if libc.capget(head, sets):
            return
        words = list(struct.unpack("6I", sets.raw[:24]))
        kept = [word & _KEPT if place < 3 else 0 for place, word in enumerate(words)]
        libc.capset(head, ctypes.create_string_buffer(struct.pack("6I", *kept)))


def give(path: str, user: str) -> None:
    """Gives a file or folder to a user, as far as this process may do that; ``become`` says what is wrong."""
    import pwd

    with suppress(KeyError, OSError):
        os.chown(path, pwd.getpwnam(user).pw_uid, -1)


def see_that_the_program_can_be_read(user: str) -> None:
    """Raises UsageError if the user that this process has become cannot load the modules that are not loaded yet."""
    for path in (os.__file__, __file__):
        if not os.access(path, os.R_OK):
            what = f"this user may not read the program ({escape(path)})"
            raise UsageError(f"--user {escape(user)}: {what}; install it where all users may read it, or name another user")


def become(user: str) -> None:
    """Makes this process go on as another user, with the groups of that user. Raises UsageError."""
    import pwd

    try:
        found = pwd.getpwnam(user)
    except KeyError:
        raise UsageError(f"--user {escape(user)}: there is no such user") from None
    try:
        os.initgroups(user, found.pw_gid)
        os.setgid(found.pw_gid)
        os.setuid(found.pw_uid)
    except OSError as error:
        raise UsageError(f"--user {escape(user)}: only root can become another user ({error.strerror})") from error
