"""The process of one way to read: ``python -m bench.reading.worker WAY TASK``.

Every line of its input is JSON: {"seconds", "discard", "most"}. It discards so many batches, then takes
batches for so long, or until it has that many samples, and answers with a line of JSON: the samples and
bytes that arrived, and the time.
"""

import json
import os
import signal
import sys
import time

from bench.reading.ways import WAYS, task_of


def main(way: str, task: str) -> None:
    """Serve until the input ends."""
    answers = os.fdopen(os.dup(1), "w")  # libraries print: their lines go to standard error
    os.dup2(2, 1)
    batches = WAYS[way](task_of(task))
    for line in sys.stdin:
        asked = json.loads(line)
        for _ in range(asked["discard"]):
            next(batches)
        began = time.perf_counter()
        samples = num_bytes = 0
        elapsed = 0.0
        while elapsed < asked["seconds"] and samples < asked["most"]:
            batch = next(batches)
            samples += len(batch)
            num_bytes += sum(map(len, batch))
            elapsed = time.perf_counter() - began
        answer = {"samples": samples, "bytes": num_bytes, "seconds": elapsed}
        print(json.dumps(answer), file=answers, flush=True)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # worker processes that outlive their parent
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
