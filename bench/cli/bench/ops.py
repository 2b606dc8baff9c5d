"""``gpu-aug bench ops``."""

from bench.cli.options import Json, Photographs, Quick


def ops(data: Photographs = None, quick: Quick = False, json: Json = None) -> None:
    """Time single operations of torchvision, Albumentations, Kornia and ours, on one thread."""
    from bench.micro.ops import QUICK, OpsSettings, ops_and_show

    ops_and_show(data, QUICK if quick else OpsSettings(), json_path=json)
