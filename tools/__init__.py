"""The command lines `daybook` and `journal`, and the demo. The only room that prints for people.

`python -m tools.daybook` has the working directory first among the places that are imported from,
and a file `select.py` there would run with the rights of who starts a broker. It is taken out
before anything else is imported, unless it is where this room is.
"""

import os
import sys

# The interpreter calls itself so while it looks for the module that `-m` names. Of what is used
# here, it has imported both for itself.
if (
    sys.argv[:1] == ["-m"]
    and not sys.flags.safe_path
    and sys.path[0] != os.path.dirname(__path__[0])  # noqa: PTH120
):
    del sys.path[0]
