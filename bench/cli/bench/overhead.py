"""``gpu-aug bench overhead``."""

from typing import Annotated

import typer

from bench.cli.options import Data, Json, Threads


def overhead(
    data: Data,
    seconds: Annotated[float, typer.Option(help="How long to measure.")] = 10.0,
    threads: Threads = None,
    json: Json = None,
) -> None:
    """Measure the loader's own cost: everything but decoding and augmenting."""
    from rich.console import Console

    from bench.cli.arguments import check_writable
    from bench.micro.overhead import BATCH_SIZE, measure_overhead
    from bench.output.results import save_result
    from bench.output.text import print_plain
    from readers import open_dataset
    from readers.cores import usable_cores

    check_writable(json)
    console = Console()
    with console.status("reading, drawing and handing over, without a pixel"):
        found = measure_overhead(open_dataset(data), num_threads=threads, seconds=seconds)
    rate, without = found.rate, found.without_statistics
    print_plain(
        console,
        f"{rate.median:.0f} samples/s through readers and loader, nothing decoded or augmented "
        f"(median of {len(rate.runs)} epochs, {min(rate.runs):.0f} to {max(rate.runs):.0f})",
    )
    print_plain(
        console,
        f"of that the statistics take {found.microseconds_per_step:.0f} us a step of {BATCH_SIZE}: "
        f"{without.median:.0f} samples/s without them, in turns",
    )
    rows = [
        {"name": name, "kind": "ceiling", "images_per_second": one.to_dict()}
        for name, one in (("gpu-aug/overhead", rate), ("without statistics", without))
    ]
    settings = {"data": data, "seconds": seconds, "threads": threads or usable_cores()}
    save_result(json, console, "bench overhead", settings, rows)
