"""Whether whole JPEGs are sound, and where in them reading can begin: one pass over all Huffman codes, without pixels."""

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.bitstream import begin
from dali_pipes.jpeg.header import MOST_SIDE, read_header
from dali_pipes.jpeg.huffman_tables import build_tables
from dali_pipes.jpeg.mcus import list_blocks
from dali_pipes.jpeg.memory import memory_at
from dali_pipes.jpeg.progressive.decode import decode_scans
from dali_pipes.jpeg.progressive.memory import scratch_bytes
from dali_pipes.jpeg.restarts import NOWHERE, check_range, finish, read_on, start_intervals
from dali_pipes.jpeg.seek import ROW_BYTES
from dali_pipes.jpeg.status import GOOD, SEVERAL_SCANS, WRONG_SIZE
from gpu_aug.compiled.jit import kernel, separate, signed

_KEPT = threading.local()


@kernel
def check_whole(
    files: NDArray[np.int64],
    sizes: NDArray[np.int64],
    every: int,
    scratch: NDArray[np.uint8],
    statuses: NDArray[np.int32],
    rows: NDArray[np.void],
    ends: NDArray[np.int64],
) -> None:
    """Read all codes of some files; whether a file is sound does not depend on a crop then.

    Args:
        files: int64 [n, 2]: address and length in bytes.
        sizes: int64 [n, 2]: expected height and width of the upright images; 0 where any will do.
        every: MCUs from one checkpoint to the next; 0 for no checkpoints.
        scratch: As of `new_scratch`, aligned to 8 bytes; what earlier calls left stays.
        statuses: int32 [n], written: of each file a number of `dali_pipes.jpeg.status`. GOOD is a JPEG whose scans have all
            codes that they need, and end with them.
        rows: CHECKPOINT [at least `most_checkpoints`], written: those of each file behind those of the file before.
        ends: int64 [n], written: where the rows of each file end.
    """
    address = signed(scratch.ctypes.data)
    job = memory_at(address).job
    end = 0
    for number in range(len(statuses)):
        job.data, job.length = files[number, 0], files[number, 1]
        job.full_height, job.full_width = sizes[number, 0], sizes[number, 1]
        job.top = job.left = job.height = job.width = 0
        job.shrink, job.out, job.row_bytes, job.num_bytes = 1, 0, 0, scratch.size
        job.judge, job.every, job.noted = 1, every, -1
        job.checkpoints = signed(rows.ctypes.data) + ROW_BYTES * end
        job.num_checkpoints = len(rows) - end
        statuses[number] = _check(address)
        if statuses[number] == GOOD:
            end += job.noted
        ends[number] = end


@kernel
def most_checkpoints(files: NDArray[np.int64], every: int, scratch: NDArray[np.uint8]) -> int:
    """How many checkpoints files have if all are sound; arguments as of `check_whole`."""
    memory = memory_at(signed(scratch.ctypes.data))
    total = 0
    for number in range(len(files)):
        memory.job.data, memory.job.length = files[number, 0], files[number, 1]
        if read_header(memory) == GOOD:
            total += (count_mcus(memory.header) - 1) // every
    return total


def new_scratch() -> NDArray[np.uint8]:
    """Memory for `check_whole`, of which narrow images need a small part."""
    return np.zeros(scratch_bytes(MOST_SIDE), np.uint8)


def thread_scratch() -> NDArray[np.uint8]:
    """The `new_scratch` that the calling thread keeps: clearing new memory takes 1.2 ms, reading a photograph 0.4 ms."""
    scratch: NDArray[np.uint8] | None = getattr(_KEPT, "scratch", None)
    if scratch is None:
        scratch = _KEPT.scratch = new_scratch()
    return scratch


def _check_job(address: int) -> int:
    """Read all codes of the file that the memory's job names; returns a status."""
    memory = memory_at(address)
    header, feed, job = memory.header, memory.feed, memory.job
    found = read_header(memory)
    status = build_tables(memory) if found == GOOD else found
    if status != GOOD and status != SEVERAL_SCANS:
        return status
    height, width = header.height, header.width
    if header.orientation >= 5:
        height, width = width, height
    if job.full_height and (job.full_height != height or job.full_width != width):
        return WRONG_SIZE
    if found == SEVERAL_SCANS:
        return signed(decode_scans(address))
    list_blocks(memory)
    memory.coefficients[:] = 0
    feed.clean = signed(memory.clean_bytes.ctypes.data)
    feed.stop = job.data + job.length
    begin(feed, job.data + header.scan)
    start_intervals(memory)
    return judge_rest(address, count_mcus(header))


@kernel
def judge_rest(address: int, count: int) -> int:
    """Read the last MCUs of a file, so many; returns the verdict on it."""
    memory = memory_at(address)
    status = signed(read_on(address, NOWHERE, count))
    if status == GOOD:
        status = signed(finish(memory.feed))
    return signed(check_range(memory)) if status == GOOD else status


@kernel
def count_mcus(header: Any) -> int:
    """How many MCUs an image has."""
    across = 8 * max(header.across[0], header.across[1], header.across[2])
    down = 8 * max(header.down[0], header.down[1], header.down[2])
    mcus_across = (header.width + across - 1) // across
    return signed(mcus_across * ((header.height + down - 1) // down))


_check = separate(_check_job)
