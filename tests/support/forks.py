"""Processes that begin within a moment: forks of one Python that has imported what they need."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_SERVE = """
import os, sys
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        os.write(2, f"{run(*line.split())}\\n".encode())
        os._exit(0)
    print(child, flush=True)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""


class Forks:
    """A Python that forks at a word; its children answer over standard error."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def start(self, *arguments: object) -> int:
        """Call ``run`` with some texts without spaces in a child of its own; return its number."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(" ".join(map(str, arguments)) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def answers(self) -> list[list[str]]:
        """Wait for all children; return the words of each one's answer, none of those that were killed."""
        return [line.split() for line in self._process.communicate(timeout=120)[1].splitlines()]


@contextmanager
def forks(program: str) -> Iterator[Forks]:
    """Start a Python with a program that defines ``run``."""
    process = subprocess.Popen(
        [sys.executable, "-c", program + _SERVE],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Forks(process)
    finally:
        process.kill()
        process.communicate()
