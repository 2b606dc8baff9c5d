"""``gpu-aug bench batch``."""

from bench.cli.options import Json, Photographs, Quick


def batch(data: Photographs = None, quick: Quick = False, json: Json = None) -> None:
    """Time the batch stage alone: affine, jitter, erasing and normalising, on one thread."""
    from bench.micro.batch import QUICK, BatchSettings, batch_and_show

    batch_and_show(data, QUICK if quick else BatchSettings(), json_path=json)
