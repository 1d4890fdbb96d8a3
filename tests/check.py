"""Everything a change must pass, in one command: format, lint, types, imports, kernels that
compile, tests, those with Spark.

``python -m tests.check`` runs all of it but the last stage: tests that take long, and fuzzing.
``python -m tests.check lint types`` runs only those steps. CI has 15 minutes. Of the tests that
take long it runs the share that the day chooses, a seventh of the files, so a week runs all of
them: ``python -m tests.check --share 1/7 slow slow-spark fuzz``. Without ``--share`` all are run.
Cheap steps come first. Steps of a stage run at the same time: what one of them leaves of the
processors another one uses. A stage with a failure is the last one.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor

# Both read pyproject.toml in this process's interpreter, so no step depends on what PATH holds.
_IMPORTS = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"
_ONE = ["-m", "pytest", "-q", "-m"]
# One process more than there are processors: for a quarter of their time tests wait, for programs
# and for what does not come.
_MANY = ["-m", "pytest", "--processes", str((os.cpu_count() or 1) + 1), "-q", "-m"]

STAGES = (
    {"format": ["-m", "ruff", "format", "--check"]},
    {"lint": ["-m", "ruff", "check"]},
    {
        "kernels": ["-m", "tests.kernels"],  # the tests need them
        "types": ["-m", "mypy"],
        "imports": ["-c", _IMPORTS],
    },
    {
        "tests": [*_MANY, "not slow and not deep and not spark"],
        "spark": [
            *_ONE,
            "spark and not slow and not deep",
        ],  # in one process: each would start a Spark of its own
    },
    {
        "slow": [*_MANY, "slow and not deep and not spark"],
        "slow-spark": [*_ONE, "spark and slow and not deep"],
        "fuzz": ["-m", "tests.fuzz", "--seconds", "60"],  # takes what the others leave
    },
)
STEPS = [name for stage in STAGES for name in stage]
USUAL = [name for stage in STAGES[:-1] for name in stage]


def main(names: list[str]) -> int:
    """Run the named steps (the usual ones if none is named) and return the first failure's exit
    status.
    """
    share = names[:2] if names[:1] == ["--share"] else []
    names = names[len(share) :]
    unknown = [name for name in names if name not in STEPS]
    if unknown:
        sys.stderr.write(f"no such step: {', '.join(unknown)}; there are {', '.join(STEPS)}\n")
        return 2
    for stage in STAGES:
        status = run(
            {
                name: [*command, *(share if "slow" in name else [])]
                for name, command in stage.items()
                if name in (names or USUAL)
            }
        )
        if status:
            return status
    return 0


def run(stage: dict[str, list[str]]) -> int:
    """Runs these steps at the same time: the first one can be watched, what the others say is shown
    when it has ended.
    """
    with ThreadPoolExecutor() as pool:
        steps: list[tuple[str, Future[subprocess.CompletedProcess[bytes]]]] = []
        for name, arguments in stage.items():
            command = [sys.executable, *arguments]
            sys.stdout.write(f"== {name}: {shlex.join(command)}\n")
            sys.stdout.flush()
            output = subprocess.PIPE if steps else None
            steps.append(
                (
                    name,
                    pool.submit(
                        subprocess.run,
                        command,
                        stdout=output,
                        stderr=output and subprocess.STDOUT,
                        check=False,
                    ),
                )
            )
        failed = 0
        for name, step in steps:
            done = step.result()
            if done.stdout is not None:
                sys.stdout.write(f"== {name} said:\n{done.stdout.decode(errors='replace')}")
                sys.stdout.flush()
            if done.returncode:
                failed = failed or done.returncode
                sys.stderr.write(f"== {name} failed\n")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
