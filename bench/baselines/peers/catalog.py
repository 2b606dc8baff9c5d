"""The peers, the packages they install, and the folders of their environments."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

ENVIRONMENTS = Path(".peers")
"""The folder that gets one virtual environment per peer; in the folder where the command is called."""

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Peer:
    """A library that gpu-aug does not depend on.

    Attributes:
        distribution: Its name in the package index; where this interpreter has it, no environment is needed.
        megabytes: Of its environment, as measured on Linux x86-64; torch is shared.
    """

    distribution: str
    megabytes: int


PEERS: Mapping[str, Peer] = MappingProxyType(
    {
        "decord2": Peer("decord2", 98),
        "grain": Peer("grain", 26),
        "litdata": Peer("litdata", 28),
        "mosaic-streaming": Peer("mosaicml-streaming", 800),
        "spdl": Peer("spdl", 67),
        "webdataset": Peer("webdataset", 26),
    }
)


def requirements(name: str) -> Path:
    """The file that names the packages of a peer, with their versions."""
    return _HERE / name.replace("-", "_") / "requirements.txt"


def environment(name: str) -> Path:
    """The folder of a peer's virtual environment, which need not exist."""
    return (ENVIRONMENTS / name).absolute()


def python_of(folder: Path) -> Path:
    """The interpreter of a virtual environment."""
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
