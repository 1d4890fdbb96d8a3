"""The rights of a process: it gives up those that it no longer needs, and gives nobody what only
the owner of a capture may read.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dcpinspect.capture.byte_source import STDIN
from dcpinspect.errors import UsageError
from dcpinspect.text import escape

_VERSION_3 = 0x20080522
_KEPT = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 6 | 1 << 7
"""CAP_CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, SETGID, SETUID: root goes on reading and
writing files, and may become another user.
"""

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_READ = stat.S_IRGRP | stat.S_IROTH


_withheld = 0
"""Rights that some source does not give: old files lose them once they get what it holds."""


def be_private() -> None:
    """Lets only the owner read what this process and those that it starts write from now on."""
    _withhold(_OTHERS)


def be_as_private_as(paths: Iterable[str]) -> None:
    """Lets nobody read what this process writes from now on who may not read all of these files and
    folders, as far as they exist.
    """
    _withhold(_mask(paths, os.getegid()))


@contextmanager
def as_private_as(paths: Iterable[str], into: str) -> Iterator[None]:
    """Does so within this context only, for files in a folder, which need not be there yet."""
    global _withheld
    before = os.umask(_OTHERS), _withheld
    os.umask(before[0])
    folder_path = Path(into).absolute()
    about = next(folder for folder in (folder_path, *folder_path.parents) if folder.is_dir()).stat()
    _withhold(_mask(paths, about.st_gid if about.st_mode & stat.S_ISGID else os.getegid()))
    try:
        yield
    finally:
        _withheld = before[1]
        os.umask(before[0])


def limit(descriptor: int, mode: int | None = None) -> None:
    """Gives a file that is being written these rights, by default those that it has, without what
    sources withhold. Leaves alone what is no file, and files of other users.
    """
    about = os.fstat(descriptor)
    mode = stat.S_IMODE(about.st_mode if mode is None else mode) & ~_withheld
    # the folder has given it a group that the sources may not have
    if _withheld and about.st_gid != os.getegid():
        mode &= ~stat.S_IRWXG
    if stat.S_ISREG(about.st_mode) and mode != stat.S_IMODE(about.st_mode):
        with suppress(PermissionError):
            os.fchmod(descriptor, mode)


def _withhold(mask: int) -> None:
    global _withheld
    _withheld |= mask
    os.umask(os.umask(_OTHERS) | mask)


def _mask(paths: Iterable[str], group: int) -> int:
    """Returns the bits of a umask that take from others what these paths do not give them;
    ``group``: that new files get.
    """
    mask = 0
    for path in paths:
        with suppress(OSError, ValueError):  # who reads the file says what is wrong with it
            about = os.stat(0 if path == STDIN else path)
            if (
                not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode))
                or about.st_mode & _READ == _READ
            ):
                continue
            is_for_group = about.st_mode & _READ == stat.S_IRGRP and about.st_gid == group
            mask |= stat.S_IRWXO if is_for_group else _OTHERS
    return mask


def stop_being_able_to_capture() -> None:
    """Gives up the rights of this process over the network and the system (capabilities(7)).
    Programs that root starts have them again.
    """
    if sys.platform != "linux":
        return
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None, use_errno=True)
        head = ctypes.create_string_buffer(struct.pack("Ii", _VERSION_3, 0))
        sets = ctypes.create_string_buffer(24)
        if libc.capget(head, sets):
            return
        words = list(struct.unpack("6I", sets.raw[:24]))
        kept_words = [u32 & _KEPT if index < 3 else 0 for index, u32 in enumerate(words)]
        libc.capset(head, ctypes.create_string_buffer(struct.pack("6I", *kept_words)))


def give(path: str, user: str) -> None:
    """Gives a file or folder to a user, if this process may; ``become`` says what is wrong."""
    import pwd

    with suppress(KeyError, OSError):
        os.chown(path, pwd.getpwnam(user).pw_uid, -1)


def see_that_the_program_can_be_read(user: str) -> None:
    """Raises UsageError if the user that this process has become cannot load the modules that are
    not loaded yet.
    """
    for path in (os.__file__, __file__):
        if not os.access(path, os.R_OK):
            failure = f"this user may not read the program ({escape(path)})"
            raise UsageError(
                f"--user {escape(user)}: {failure}; install it where all users may read it, or "
                "name another user"
            )


def become(user: str) -> None:
    """Makes this process go on as another user, with the groups of that user. Raises UsageError."""
    import pwd

    try:
        account = pwd.getpwnam(user)
    except KeyError:
        raise UsageError(f"--user {escape(user)}: there is no such user") from None
    try:
        os.initgroups(user, account.pw_gid)
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)
    except OSError as error:
        raise UsageError(
            f"--user {escape(user)}: only root can become another user ({error.strerror})"
        ) from error
