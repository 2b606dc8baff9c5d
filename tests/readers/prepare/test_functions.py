"""The functions behind the commands, called as a program calls them."""

import subprocess
import sys
from pathlib import Path

import pytest

from dali_pipes.decode.check import CHECKS
from readers import SourceError, open_dataset
from readers.prepare import PrepareError, index, inspect, pack
from tests.support.packed import ROOT


class Progress:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int | None]] = []

    def __call__(self, done: int, total: int | None) -> None:
        """Keep it."""
        self.told.append((done, total))


def test_pack_and_index(source: Path, tmp_path: Path) -> None:
    """What lies in the folder is returned; a second run returns the same; progress ends at the end."""
    progress, shards = Progress(), Progress()

    packed = pack(str(source), tmp_path / "out", shuffle=1, on_progress=progress)
    again = pack(str(source), tmp_path / "out", shuffle=1)
    found = index(str(tmp_path / "out"), on_shards=shards)

    assert packed == again
    assert packed.num_samples == len(found.dataset) == 24
    assert (packed.bad_samples, packed.breaks, progress.told[0]) == ([], [], (0, 24))
    assert progress.told[-1] == (24, 24)
    assert [entry.built for _, entry in found.shards] == [False] * len(packed.shards)
    assert shards.told[-1][0] == shards.told[-1][1] == sum(one["bytes"] for one in packed.shards)
    assert found.videos is None


def test_inspect_decodes_with_what_it_is_given(source: Path) -> None:
    """Without functions that decode, only headers are looked at."""
    path = source / "cats" / "0.jpg"
    path.write_bytes(path.read_bytes()[:-300])

    looked, verified = inspect(str(source)), inspect(str(source), verify=CHECKS)

    assert (looked.num_bad, looked.verified) == (0, False)
    assert (verified.num_bad, verified.bad[0].key) == (1, "cats/0.jpg")
    assert inspect(open_dataset(source)).heights == looked.heights


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"format": "zip"}, "tar or parquet, got 'zip'"),
        ({"shard_size": "much"}, "got 'much'"),
        ({"num_workers": 0}, "got 0"),
        ({"shuffle": -1}, "got -1"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    options: dict[str, object], words: str, source: Path, tmp_path: Path
) -> None:
    """An error of the readers, before anything is written."""
    with pytest.raises(PrepareError, match=words):
        pack(str(source), tmp_path / "out", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_a_missing_source_keeps_its_error(tmp_path: Path) -> None:
    """Whatever is done with it."""
    for function in (inspect, index):
        with pytest.raises(SourceError, match="nowhere"):
            function(str(tmp_path / "nowhere"))


def test_nothing_heavy_is_needed() -> None:
    """Data can be prepared, also in workers, where torch, DALI and what draws on terminals are missing."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['torch', 'nvidia', 'rich', 'cv2']))\n"
        "import readers.prepare, readers.storage.index.builder; print(readers.prepare.__all__)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)

    assert "inspect" in ran.stdout, ran.stderr
