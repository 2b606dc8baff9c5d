"""``gpu-aug bench micro``."""

from typing import Annotated

import typer

from bench.cli.options import Json, Photographs, Quick


def micro(
    name: Annotated[str, typer.Argument(metavar="NAME", help="ops, decode, overhead or scale.")],
    data: Photographs = None,
    seconds: Annotated[
        float, typer.Option(help="Measured time per line of the table, in all.")
    ] = 2.0,
    rounds: Annotated[int, typer.Option(help="Turns that the time is cut into.")] = 5,
    quick: Quick = False,
    json: Json = None,
) -> None:
    """Measure one part of the work at a time, on this machine's CPU.

    ops: single operations of torchvision, Albumentations, Kornia and ours, on one thread.

    decode: each kind of file in full, smaller, and crops, by our decoder and others, on one thread.

    overhead: what the loader does besides decoding and augmenting, and how long it holds Python's lock.

    scale: the loader's cost by threads, batch size, image size and dataset length.
    """
    from bench.micro.micro import micro_and_show

    micro_and_show(name, data, seconds=seconds, rounds=rounds, quick=quick, json_path=json)
