"""The functions behind the commands, called as a program calls them."""

import subprocess
import sys
from pathlib import Path

from readers.prepare import index, pack
from tests.support.packed import ROOT


def test_pack_and_index(source: Path, tmp_path: Path) -> None:
    """What lies in the folder is returned; a second run returns the same; progress ends at the end."""
    progress: list[tuple[int, int | None]] = []
    shards: list[tuple[int, int | None]] = []
    out = tmp_path / "out"

    packed = pack(str(source), out, shuffle=1, on_progress=lambda *told: progress.append(told))
    again = pack(str(source), out, shuffle=1)
    found = index(str(out), on_shards=lambda *told: shards.append(told))

    assert packed == again
    assert packed.num_samples == len(found.dataset) == 24
    assert (packed.bad_samples, packed.breaks, progress[0]) == ([], [], (0, 24))
    assert progress[-1] == (24, 24)
    assert [entry.built for _, entry in found.shards] == [False] * len(packed.shards)
    assert shards[-1][0] == shards[-1][1] == sum(one["bytes"] for one in packed.shards)
    assert found.videos is None


def test_nothing_heavy_is_needed() -> None:
    """Data can be prepared, also in workers, where torch, DALI and what draws on terminals are missing."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['torch', 'nvidia', 'rich', 'cv2']))\n"
        "import readers.prepare, readers.storage.index.builder; print(readers.prepare.__all__)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)

    assert "inspect" in ran.stdout, ran.stderr
