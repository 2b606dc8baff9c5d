"""The peers, the packages they install, and the folders of their environments."""

import sys
from pathlib import Path

ENVIRONMENTS = Path(".peers")
"""The folder that gets one virtual environment per peer; in the folder where the command is called."""

_HERE = Path(__file__).parent


def peer_names() -> list[str]:
    """Every peer, sorted: the folders beside this file that have a pipeline."""
    return sorted(path.parent.name.replace("_", "-") for path in _HERE.glob("*/pipeline.py"))


def requirements(name: str) -> Path:
    """The file that names the packages of a peer, with their versions."""
    return _HERE / name.replace("-", "_") / "requirements.txt"


def module_name(name: str) -> str:
    """The module of a peer's pipeline."""
    return f"bench.baselines.peers.{name.replace('-', '_')}.pipeline"


def environment(name: str) -> Path:
    """The folder of a peer's virtual environment, which need not exist."""
    return (ENVIRONMENTS / name).absolute()


def python_of(folder: Path) -> Path:
    """The interpreter of a virtual environment."""
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
