"""What servers have since which version, and what a connection shows of the version of its server:
the one place that says so.

A version is never asked for alone: whoever judges or advises by what a server has asks
``Versions.has``, and allows for None, not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dcpinspect.protocol.control_keys import control_key
from dcpinspect.protocol.statuses import Status, status_name

Version = tuple[int, ...]
"""Major, minor, and where they matter patch numbers."""

SYNC_WRITES = "sync writes"
COLLECTIONS = "collections"
SEQNO_ADVANCED = "SeqnoAdvanced"
SYSTEM_COLLECTIONS = "system collections"

_SINCE: Mapping[str, Version] = {
    SYNC_WRITES: (6, 5),
    COLLECTIONS: (6, 5),  # in 6.5 and 6.6 as a preview for developers, which must be switched on
    SEQNO_ADVANCED: (7, 0),
    SYSTEM_COLLECTIONS: (7, 6),
}
_FEATURES: Mapping[str, Version] = {
    "SyncReplication": (6, 5),
    "Collections": (6, 5),
    "SubdocReplaceBodyWithXattr": (7, 0),
    "SubdocReplicaRead": (7, 6),
    "GetClusterConfigWithKnownVersion": (7, 6),
    "SubdocBinaryXattr": (8, 0),
    "MutateWithMeta": (8, 5),
    "DcpSkipDeletesInInitialBackfill": (8, 5),
}
"""Features of HELLO that no server before this version grants."""
_ALWAYS_GRANTED: Mapping[str, Version] = {"SyncReplication": (6, 5), "Collections": (7, 0)}
"""Features of HELLO that every server from this version on grants to who asks."""
_MARKERS: Mapping[str, Version] = {"v2.0": (6, 5), "v2.2": (8, 0)}
"""Layouts of snapshot markers that no server before this version sends."""
_NEWEST: Version = (1 << 16,)
_NUMBER = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?", re.ASCII)


class Versions(NamedTuple):
    """The versions that a server may have: ``least``, or later, and before ``below``."""

    least: Version = (0,)
    below: Version = _NEWEST

    def has(self, feature: str) -> bool | None:
        """Returns whether a server has something, by its name in this module or as a control key;
        None where its version is not known.
        """
        since = _SINCE.get(feature) or _since_of(feature)
        if since is None:
            return None
        return True if self.least >= since else False if self.below <= since else None

    def narrowed(self, other_versions: Iterable[Versions]) -> Versions:
        """Returns the versions that all of these allow; all versions if they contradict each other,
        as on both sides of an upgrade.
        """
        every = (self, *other_versions)
        common = Versions(
            max(versions.least for versions in every), min(versions.below for versions in every)
        )
        return common if common.least < common.below else Versions()


def named_version(text: str) -> Versions:
    """Returns the version that a server tells, as ``6.6.5-10080``; all versions if none."""
    match = _NUMBER.match(text)
    if match is None:
        return Versions()
    numbers = tuple(int(number) for number in match.groups() if number is not None)
    return Versions(numbers, (*numbers[:-1], numbers[-1] + 1))


def possible_versions(
    text: str | None,
    requested: Iterable[str],
    granted: Iterable[str] | None,
    controls: Iterable[tuple[str, str, str | None]],
) -> Versions:
    """Returns the versions that a server may have which says this on a connection.

    ``text``: the version that it tells. ``asked`` and ``granted``: features of HELLO, None without
    an answer. ``controls``: key, value and name of the status of each, None without an answer.
    """
    versions = [_by_control(*control) for control in controls]
    if granted is not None:
        denied = {*requested} - {*granted}
        least = max(
            (_FEATURES[feature] for feature in granted if feature in _FEATURES), default=(0,)
        )
        versions.append(
            Versions(
                least,
                min(
                    (since for feature, since in _ALWAYS_GRANTED.items() if feature in denied),
                    default=_NEWEST,
                ),
            )
        )
    return named_version(text or "").narrowed(versions)


def _by_control(key: str, value: str, status: str | None) -> Versions:
    """Returns the versions of a server that answers a control so; unknown keys get EINVAL."""
    known_key, since = control_key(key), _since_of(key)
    if known_key is None or since is None:
        return Versions()
    if status == status_name(Status.SUCCESS):
        return Versions(least=since)
    takes_true = not known_key.failure or known_key.failure.startswith("EINVAL for other values")
    is_unknown = status == status_name(Status.EINVAL) and value == "true" and takes_true
    return Versions(below=since) if is_unknown else Versions()


def versions_by_markers(layouts: Iterable[str]) -> Versions:
    """Returns the versions of a server that sends markers of these layouts."""
    return Versions(
        max((_MARKERS[layout] for layout in layouts if layout in _MARKERS), default=(0,))
    )


def _since_of(key: str) -> Version | None:
    known_key = control_key(key)
    if known_key is not None and _NUMBER.fullmatch(known_key.since):
        return named_version(known_key.since).least
    return None
