"""``gpu-aug bench host``."""

from bench.cli.options import Json, Photographs, Quick


def host(data: Photographs = None, quick: Quick = False, json: Json = None) -> None:
    """Measure what the host does for each image that a GPU decodes and augments; no GPU is needed."""
    from bench.micro.host import QUICK, HostSettings, host_and_show

    host_and_show(data, QUICK if quick else HostSettings(), json_path=json)
