"""Seek points of invented images, and a process that stores them: python -m tests.support.seek_point_entries."""

import random
import subprocess
import sys
from pathlib import Path

from readers.jpeg_seek_points.layout import Entry, Head, PackedSeekPoints
from readers.jpeg_seek_points.seek_point_file import open_to_add

HEAD = Head("0123456789abcdef" * 2, 7, 20)
LIMIT = 1 << 30


def entry(number: int, turn: int = 0) -> Entry:
    """What is kept of a sample, which tells whether it is found as it was kept."""
    digest = (number * 0x9E3779B97F4A7C15 + turn) % (1 << 64)
    rows = random.Random(digest).randbytes(10 * (number * 37 % 200))
    return Entry(number, digest, PackedSeekPoints(number - 5, 8, rows))


def start_writers(
    path: Path, count: int, turns: int = 1_000_000
) -> "list[subprocess.Popen[bytes]]":
    """Other processes, which begin at the same time to add entries over and over, each a part of them."""
    processes = [_ready(path, first, count, turns) for first in range(count)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
    return processes


def _ready(path: Path, first: int, step: int, turns: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "tests.support.seek_point_entries", str(path)]
    command += map(str, (first, step, turns))
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as output:
        assert output.readline() == b"ready\n"
    return process


if __name__ == "__main__":
    first, step, turns = map(int, sys.argv[2:])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    file = open_to_add(Path(sys.argv[1]), HEAD)
    for turn in range(turns):
        for number in range(first, HEAD.num_samples, step):
            file.add([entry(number, turn)], LIMIT)
