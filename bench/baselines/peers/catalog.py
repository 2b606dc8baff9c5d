"""List the peers (loaders of other projects), their packages, and the folders of their environments."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

ENVIRONMENTS = Path(".peers")
"""The folder with one virtual environment per peer, in the current working directory."""

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Peer:
    """A library that gpu-aug does not depend on.

    Attributes:
        distribution: Name of its package in the package index; if this interpreter has the package, no environment is
            needed.
        megabytes: Size of its environment without torch, which is shared; measured on Linux x86-64.
        command: The command that installs it; with "" `bench compare` does.
    """

    distribution: str
    megabytes: int
    command: str = ""


PEERS: Mapping[str, Peer] = MappingProxyType(
    {
        "decord2": Peer("decord2", 98),
        "grain": Peer("grain", 26),
        "imread": Peer("ajpegli", 150, "gpu-aug bench published imread --install"),
        "litdata": Peer("litdata", 28),
        "mosaic-streaming": Peer("mosaicml-streaming", 800),
        "spdl": Peer("spdl", 67),
        "tensorflow": Peer("tensorflow-cpu", 1420, "gpu-aug bench published imread --install"),
        "webdataset": Peer("webdataset", 26),
    }
)


def requirements(name: str) -> Path:
    """Return the file that lists the packages of a peer with their versions."""
    return _HERE / name.replace("-", "_") / "requirements.txt"


def pinned_versions(name: str) -> dict[str, str]:
    """Return the versions of the packages in the environment of a peer, by name."""
    lines = requirements(name).read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def environment(name: str) -> Path:
    """Return the folder of a peer's virtual environment, which may not exist."""
    return (ENVIRONMENTS / name).absolute()


def python_of(folder: Path) -> Path:
    """Return the interpreter of a virtual environment."""
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
