"""A job of `daybook pipeline` on a cluster of Spark, for spark-submit.

    cp daybook_broker-VERSION-py3-none-any.whl daybook.zip
    spark-submit --master spark://HOST:7077 --py-files daybook.zip \
        daybook_pipeline.py audit --data /shared/data

It is `daybook pipeline` with `--engine spark` as the default, on the master that spark-submit says.
docs/pipeline.md says what the machines need.
"""

import sys

from daybook.tools.daybook import cli
from daybook.tools.pipeline import pipeline_group
from daybook.tools.terminal.failures import run


def main() -> None:
    """Run the job that the arguments name, and exit as the command line does."""
    spark = {name: {"engine": "spark"} for name in pipeline_group.commands}
    pipeline_group.context_settings["default_map"] = spark
    sys.argv[1:1] = [str(pipeline_group.name)]
    run(cli, "daybook")


if __name__ == "__main__":
    main()
