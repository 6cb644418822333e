"""Run several pretrain nodes one after the other, in processes that torchrun started: FILE lists spec, out and options."""

import json
import sys
from pathlib import Path

from smelt.plan.errors import Interrupted
from smelt.plan.job import execute

for task in json.loads(Path(sys.argv[1]).read_text()):
    try:
        execute("pretrain", task["spec"], Path(task["out"]), options=task["options"])
    except Interrupted as stopped:
        print(stopped, flush=True)
