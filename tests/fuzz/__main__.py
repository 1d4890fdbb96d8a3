"""Looks for input that breaks the reading of captures, for some minutes, and keeps what it finds as
a test.

``python -m tests.fuzz [TARGET…] [--seconds 300] [--seed NUMBER]``; the seed is the day if none is given, so that CI searches elsewhere
every day and a find can be repeated. Inputs are tiny and kernels interpreted, in one process:
starting costs more than reading. For the same reason many inputs are read as one capture, where
each can be a connection of its own; one that fails is then read alone. An input is kept to change
it further if what came of it was not seen before. Whatever raises, takes long or much memory is
made smaller and written to ``tests/fuzz/corpus``, which a test reads: exit status 1.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import os
import random
import sys
import time
import traceback

os.environ["DCPINSPECT_KERNELS"] = "interpreted"

from tests.fuzz.search import CORPUS, TARGETS, Search, failure, keep, shrunk

ARENAS = -8
"""M_ARENA_MAX of glibc."""
MOST_FINDS = 5
"""Different ones, then it is time to look at them."""


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description="Looks for input that breaks the reading of captures.",
    )
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help=f"what to read, all if none is named: {', '.join(TARGETS)}",
    )
    parser.add_argument(
        "--seconds", type=float, default=300, help="how long, by the clock (default: 300)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=datetime.datetime.now(datetime.UTC).date().toordinal(),
        help="default: the day",
    )
    options = parser.parse_args()
    unknown = [name for name in options.targets if name not in TARGETS]
    if unknown:
        parser.error(f"no such target: {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    names = options.targets or list(TARGETS)
    os.nice(10)  # in CI other tests run beside it
    ctypes.CDLL(None).mallopt(
        ARENAS, 1
    )  # each thread would keep 64 MB of addresses, which are limited here, for one of its own
    sys.stdout.write(f"seed {options.seed}\n")
    searches = {
        name: Search(TARGETS[name], random.Random(f"{options.seed} {name}")) for name in names
    }
    spent = dict.fromkeys(names, 0.0)
    finds: dict[str, str] = {}
    end = time.monotonic() + options.seconds
    while time.monotonic() < end and len(finds) < MOST_FINDS:
        name = min(names, key=spent.__getitem__)  # each has the same time
        before = time.process_time()
        data = searches[name].step()
        if data is not None:
            error = failure(TARGETS[name], data)
            place = (
                "".join(traceback.format_tb(error.__traceback__)[-1:])
                if error is not None
                else "not again"
            )
            if f"{name} {place}" not in finds:
                small = shrunk(TARGETS[name], data, place)
                path = keep(name, small)
                finds[f"{name} {place}"] = path.name
                sys.stdout.write(
                    f"{path.relative_to(CORPUS.parent.parent.parent)}, in hexadecimal "
                    f"{small.hex()}:\n"
                )
                sys.stdout.write(
                    "".join(traceback.format_exception(error))
                    if error is not None
                    else "fails only after others\n"
                )
                sys.stdout.flush()
        spent[name] += time.process_time() - before
    for name, search in searches.items():
        rate = search.count / (spent[name] or 1)
        sys.stdout.write(
            f"{name}: {search.count} executions, {rate:.0f} a second of processor time, "
            f"{len(search.seen)} things seen\n"
        )
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
