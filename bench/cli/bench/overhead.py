"""``gpu-aug bench overhead``."""

from typing import Annotated

import typer

from bench.cli.options import Json, Quick


def overhead(
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA", help="Photographs; those that scikit-image ships when left out."
        ),
    ] = None,
    quick: Quick = False,
    json: Json = None,
) -> None:
    """Measure what the loader does besides decoding and augmenting, and how long it holds Python's lock; no GPU is needed."""
    from bench.micro.overhead import QUICK, OverheadSettings, overhead_and_show

    overhead_and_show(data, QUICK if quick else OverheadSettings(), json_path=json)
