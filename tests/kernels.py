"""Makes the machine code of all kernels, on all processors at once; what is in the user's cache already costs nothing.

Otherwise each worker of the tests makes what it needs: all of them the same, at the same time.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor

from hatch_build import ordered


def prepare(place: int) -> None:
    """Makes the kernel that is at that place of all."""
    ordered()[place].prepare()


if __name__ == "__main__":
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(prepare, range(len(ordered()))))
