"""Whether processes that a test has started have ended."""

import os
import time
from pathlib import Path


def is_gone(pid: int, wait_seconds: float = 0.0) -> bool:
    """Whether a process has ended, or does so in time."""
    until = time.monotonic() + wait_seconds
    while True:
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
