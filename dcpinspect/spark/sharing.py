"""How tasks share a part: which of its messages each of them writes, and of which vbuckets it
follows the keys.

Every task reads the packets of the part from the first on, because nobody knows before where a
message begins. The first tasks only write the messages of their stretches, and stop there. The last
tasks read to the end, and follow the streams. Half of that work is to compare keys. So each of
these tasks compares the keys of some vbuckets. The last one also follows what needs the whole
connection, such as flow control and noops, and what it knows becomes the part.
"""

from __future__ import annotations

from functools import cache

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.streams.contents import VbucketShare

READ, WRITE = 3.0, 12.0
"""Cost of a message in tenths of a microsecond: to find and decode it; to check and write it."""
STREAMS, KEYS, CONNECTIONS = 2.0, 3.3, 1.5
"""The same for following streams, the keys of events, and what needs the whole connection."""
_FOLLOWER = 0.25
"""One more task that follows keys has to save so much: it reads the part to its end."""
MOST_SHARES = 6
"""Greatest number of tasks that share a part. All of them read it, so more of them gain little."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """The work of the tasks that share a part."""

    edges: tuple[float, ...]
    """Where each task's stretch ends, as a share of packets; each begins where the last ends."""
    followers: int
    """Number of tasks that follow keys: the last ones."""
    cost: float
    """Cost of a message for each task, in tenths of a microsecond."""

    def keys(self, task: int) -> VbucketShare | None:
        """Returns the vbuckets whose keys a task follows; None if it only writes messages."""
        number = task - (len(self.edges) - self.followers)
        return VbucketShare(number, self.followers) if number >= 0 else None


@cache
def sharing(tasks: int) -> Sharing:
    """Returns how to share a part among so many tasks, the slowest with as little as possible."""
    return min(
        (_shared(tasks, followers) for followers in range(1, tasks + 1)),
        key=lambda one: one.cost + _FOLLOWER * one.followers,
    )


def _shared(tasks: int, followers: int) -> Sharing:
    """Returns the sharing in which all tasks have the same amount of work, or those that follow
    keys write nothing.
    """
    low, high = 0.0, READ + WRITE + STREAMS + KEYS + CONNECTIONS
    while high - low > 1e-6:
        cost = (low + high) / 2
        if (
            _edges(tasks, followers, cost)[-1] >= 1
            and cost >= READ + STREAMS + KEYS / followers + CONNECTIONS
        ):
            high = cost
        else:
            low = cost
    return Sharing((*_edges(tasks, followers, high)[:-1], 1.0), followers, high)


def _edges(tasks: int, followers: int, cost: float) -> list[float]:
    """Returns where stretches end if each task may cost so much; the last can be beyond 1."""
    edges, edge = [], 0.0
    for task in range(tasks):
        if task < tasks - followers:
            edge = (cost + WRITE * edge) / (READ + WRITE)
        else:
            fixed = READ + STREAMS + KEYS / followers + (CONNECTIONS if task == tasks - 1 else 0.0)
            edge += max(0.0, cost - fixed) / WRITE
        edges.append(edge if task == tasks - 1 else min(1.0, edge))
    return edges
