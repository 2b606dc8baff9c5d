"""Output of `gpu-aug pack`: what was packed, and which samples were left out."""

from rich.filesize import decimal

from bench.cli.tables import print_first
from bench.output.errors import BenchError
from bench.output.text import print_line, printable
from readers.plural import counted
from readers.prepare import Packing
from readers.prepare.packed import MANIFEST
from readers.prepare.shards.merging import num_missing

_NUM_BAD_SHOWN = 5


def print_packing(source: str, destination: str, packed: Packing, task: str | None) -> None:
    """Print everything; of a task of an array job its part.

    Raises:
        BenchError: The source breaks off.
    """
    size = f"{counted(packed.num_samples, 'sample')} in {counted(packed.num_shards, 'shard')}"
    if task is not None:
        missing = num_missing(destination)
        then = f"{missing} remain for other tasks" if missing else "none remain: give --merge"
        print_line(f"task {task} is done: {size}; {then}")
        return
    print_line(size)
    bad = [
        f"bad sample {printable(sample['key'])} ({sample['stage']}): {sample['reason']}"
        for sample in packed.bad_samples
    ]
    print_first(bad, _NUM_BAD_SHOWN, f", all named in {MANIFEST}")
    before, after = packed.totals.source_bytes, packed.totals.bytes
    growth = (after - before) / max(before, 1)
    print_line(f"size: {decimal(before)} before, {decimal(after)} after ({growth:+.2%})")
    if breaks := packed.breaks:  # not one sample is missing, but all that came behind it
        raise BenchError(
            f"{source} breaks off in {len(breaks)} places, the first at "
            f"{printable(breaks[0]['key'])}: what could be read is packed; mend the source and pack it "
            "into a new folder to have the rest"
        )
