"""A pack that is killed in the middle, and the settings of the packs that it is compared with."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.first_bytes import FirstBytes

ROOT = Path(__file__).resolve().parents[2]

OPTIONS: dict[str, Any] = {
    "shard_size": "30kB",
    "shuffle": 3,
    "num_workers": 2,
    "finder": FirstBytes(),
}

_KILL = """
import os, signal, sys
from readers.prepare import make_shard, merge, pack, tar_shards
from readers.prepare.shards import making, merging, planning
from readers.storage.destination import destination, indexes, remote
from tests.support.killed_pack import OPTIONS
module, name, most = sys.argv[1].split(":")
owner = sys.modules[module]
for part in name.split(".")[:-1]:
    owner = getattr(owner, part)
name = name.split(".")[-1]
function, count = getattr(owner, name), 0
def killing(*given, **named):
    global count
    count += 1
    if count == int(most):
        os.kill(os.getpid(), signal.SIGKILL)
    return function(*given, **named)
setattr(owner, name, killing)
pack(*sys.argv[2:], **OPTIONS)
"""


def pack_and_kill(place: str, source: Path, destination: Path | str) -> None:
    """Pack until a function is called for the n-th time.

    Args:
        place: The function and n, as ``MODULE:FUNCTION:N``.
        source: What is packed.
        destination: Where the shards go.
    """
    command = [sys.executable, "-c", _KILL, place, str(source), str(destination)]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
