"""``dcpinspect pipeline expire``: removes captures that are old enough from an output, with all
results that only they gave.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from functools import partial
from typing import Annotated

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.choices import as_option
from dcpinspect.cli.pipeline_options import Json, Out
from dcpinspect.cli.progress import StepProgress
from dcpinspect.cli.terminal import complain


def expire(
    out: Out,
    older: Annotated[
        str,
        as_option(
            "--older AGE",
            "Takes out captures whose last packet is older than this, as in 30d or 12h.",
        ),
    ],
    spark: options.SparkSession,
    decryption: options.Decryption,
    salt_file: options.SaltFile = None,
    json: Json = False,
) -> int:
    """Take old captures out of the tables, with all that only they told. It needs Spark only if
    --master or --conf is given.
    """
    from dcpinspect.cli.pipeline import print_summary
    from dcpinspect.spark.manifest import after_signal
    from dcpinspect.spark.pipeline import Options
    from dcpinspect.spark.pipeline import expire as expire_captures
    from dcpinspect.spark.task_runner import LocalRunner, spark_tasks
    from dcpinspect.tables.times import length

    # without a unit, 30 would mean seconds and remove everything
    before_ns = time.time_ns() - length(older, "--older", "30d or 12h", with_unit=True)
    settings = spark.settings()
    run_options = Options((), out, secrets=decryption.secrets(), redacts=None, salt_file=salt_file)
    with interrupts.telling(lambda: f"interrupted; {after_signal(out)}"), StepProgress() as steps:
        if spark.master is None and not settings:
            summary = expire_captures(
                run_options, before_ns, lambda: nullcontext(LocalRunner(steps.show))
            )
        else:
            summary = expire_captures(
                run_options,
                before_ns,
                partial(spark_tasks, spark.master, settings, steps.show, complain),
            )
    print_summary(summary, as_json=json)
    return 0
