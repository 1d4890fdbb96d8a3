"""Everything a change must pass, in one command: format, lint, types, imports, kernels that compile, tests, those with Spark.

``python -m tests.check`` runs all of it, ``python -m tests.check lint types`` only those steps. Cheap steps come first; the
first one that fails ends the run.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence

# Both read pyproject.toml in this process's interpreter, so no step depends on what PATH holds.
_IMPORTS = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"

STEPS = {
    "format": ["-m", "ruff", "format", "--check"],
    "lint": ["-m", "ruff", "check"],
    "types": ["-m", "mypy"],
    "imports": ["-c", _IMPORTS],
    "kernels": ["-m", "tests.kernels"],
    "tests": ["-m", "pytest", "-n", "auto", "--dist", "worksteal", "-q", "-m", "not slow and not spark"],
    "spark": ["-m", "pytest", "-q", "-m", "spark and not slow"],  # in one process: each would start a Spark of its own
}


def main(names: Sequence[str]) -> int:
    """Run the named steps (all if none is named) and return the first failure's exit status."""
    unknown = set(names) - STEPS.keys()
    if unknown:
        sys.stderr.write(f"no such step: {', '.join(sorted(unknown))}; there are {', '.join(STEPS)}\n")
        return 2
    for name in names or STEPS:
        command = [sys.executable, *STEPS[name]]
        sys.stdout.write(f"== {name}: {shlex.join(command)}\n")
        sys.stdout.flush()
        status = subprocess.run(command, check=False).returncode
        if status:
            sys.stderr.write(f"== {name} failed\n")
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
