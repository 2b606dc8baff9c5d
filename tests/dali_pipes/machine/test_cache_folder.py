"""What the cache folder holds, and what goes from it: our own files alone, none that are in use."""

import mmap
import os
from pathlib import Path

import pytest

from bench.cli.cache_tables import ago
from dali_pipes import LoaderError
from dali_pipes.machine.cache_folder import KINDS, list_cache, remove
from gpu_aug.compiled import cache as compiled
from readers import open_dataset
from readers.storage.atomic_file import build_once
from readers.storage.remote.cache import BlockCache
from tests.support.commands import Run
from tests.support.kinds import by_opencv, noise, write_tar

DIGEST = "0123456789abcdef" * 2


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder with a file of each kind of known sizes, and strangers among them."""
    root = tmp_path / "cache"
    for name, size in {
        f"{DIGEST}.gpuaug-index": 100,
        f"{DIGEST}.gpuaug-index.part": 7,
        f"{DIGEST}.gpuaug-videos": 200,
        f"checkpoints/{DIGEST}.gpuaug-checkpoints": 250,
        f"sizes/{DIGEST}.npy": 300,
        f"unpacked/{DIGEST}": 400,
        f"compiled/readers.order.shuffle.f-{DIGEST}.code": 500,
        "notes.txt": 11,
        f"sizes/{DIGEST}.csv": 12,
        f"{DIGEST}": 13,
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(bytes(size))
    monkeypatch.setenv("GPU_AUG_CACHE", str(root))
    monkeypatch.setattr(compiled, "folder", lambda: root / "compiled")
    blocks = BlockCache(root / "blocks", 10**6, 1 << 16)
    blocks.read("key", 3 << 16, [(0, 3 << 16)], lambda ranges: [bytes(b - a) for a, b in ranges])
    return root


def taken() -> dict[str, tuple[int, int]]:
    return {kind.name: (kind.files, kind.bytes) for kind in list_cache()}


class TestList:
    @pytest.mark.usefixtures("folder")
    def test_every_kind_by_its_files(self) -> None:
        """Numbers and sizes; files of unknown names belong to no kind."""
        found = taken()
        assert found.pop("blocks")[0] == 3
        assert found == {
            "indexes": (2, 107),
            "videos": (1, 200),
            "checkpoints": (1, 250),
            "sizes": (1, 300),
            "unpacked": (1, 400),
            "compiled": (1, 500),
        }

    def test_last_use(self, folder: Path) -> None:
        """The latest reading or writing of any file of a kind."""
        os.utime(folder / "unpacked" / DIGEST, (5000, 3000))
        last = {kind.name: kind.last_used for kind in list_cache()}
        assert last["unpacked"] == 5000
        assert ago(0) == "just now"
        assert ago(3 * 86400 + 5) == "3 days ago"
        assert ago(3700) == "1 hour ago"

    def test_files_that_readers_made(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An index that cannot lie beside its shard is seen, and built again after its removal."""
        monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "cache"))
        (tmp_path / "data").mkdir()
        shard = write_tar(
            tmp_path / "data" / "a.tar", [{"png": by_opencv("png", noise(3, "uint8"))}]
        )
        # A folder stands where the index would: root may write anywhere else.
        beside = shard.with_name(f"{shard.name}.gpuaug-index")
        beside.mkdir()
        (beside / "stays").touch()
        assert len(open_dataset(shard)) == 1
        assert taken()["indexes"][0] == 1
        assert [one.files for one in remove("indexes")] == [1]
        assert taken()["indexes"] == (0, 0)
        assert len(open_dataset(shard)) == 1
        assert taken()["indexes"][0] == 1


class TestRemove:
    @pytest.mark.usefixtures("folder")
    @pytest.mark.parametrize("kind", KINDS)
    def test_one_kind(self, kind: str) -> None:
        """It goes, and all else stays."""
        before = taken()
        [removed] = remove(kind)
        assert removed.name == kind
        assert removed.files == before[kind][0]
        assert removed.bytes >= before[kind][1]
        assert taken() == before | {kind: (0, 0)}

    def test_all_but_strangers(self, folder: Path) -> None:
        """Files that are not known stay."""
        remove("all")
        assert taken() == dict.fromkeys(KINDS, (0, 0))
        assert (folder / "notes.txt").read_bytes() == bytes(11)

    def test_blocks_are_taken_from_the_accounts(self, folder: Path) -> None:
        """A process that uses the cache goes on: it reads anew, and counts from zero."""
        cache = BlockCache(folder / "blocks", 10**6, 1 << 16)
        fetched: list[int] = []

        def fetch(ranges: list[tuple[int, int]]) -> list[bytes]:
            fetched.append(len(ranges))
            return [bytes(stop - start) for start, stop in ranges]

        cache.read("key", 3 << 16, [(0, 3 << 16)], fetch)
        assert fetched == []
        remove("blocks")
        assert cache._total() == 0
        cache.read("key", 3 << 16, [(0, 3 << 16)], fetch)
        assert sum(fetched) == 3
        assert taken()["blocks"][0] == 3

    def test_blocks_that_cannot_be_removed_stay(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """They are named, where the folder may not be written to or somebody who was stopped holds its lock."""

        def refuse(_: BlockCache) -> tuple[int, int]:
            raise TimeoutError

        monkeypatch.setattr(BlockCache, "clear", refuse)
        [removed] = remove("blocks")
        assert (removed.files, len(removed.kept)) == (0, 3)
        assert removed.kept[0].is_relative_to(folder / "blocks")

    def test_files_that_are_mapped_stay(self, folder: Path) -> None:
        """A run that reads an unpacked shard keeps it."""
        path = folder / "unpacked" / DIGEST
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        assert remove("unpacked")[0].kept == (path,)
        assert path.exists()
        mapped.close()
        assert remove("unpacked")[0].kept == ()
        assert not path.exists()

    def test_files_that_are_being_written_stay(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever builds an index, also on another machine, has the lock of its file; without one it is left over."""
        monkeypatch.setattr("dali_pipes.machine.cache_folder._mapped_files", set)
        part = folder / f"{DIGEST}.gpuaug-index.part"
        with build_once(part.with_suffix("")):
            assert remove("indexes")[0].kept == (part,)
            assert part.exists()
        part.touch()
        remove("indexes")
        assert not part.exists()

    @pytest.mark.parametrize(
        ("kind", "text"),
        [
            (
                "index",
                "kind='index' is not allowed; give one of blocks, indexes, videos, checkpoints",
            ),
            ("", "kind='' is not allowed"),
            ("../..", "is not allowed"),
        ],
    )
    @pytest.mark.usefixtures("folder")
    def test_unknown_kinds(self, kind: str, text: str) -> None:
        """Nothing goes."""
        before = taken()
        with pytest.raises(LoaderError, match=text):
            remove(kind)
        assert taken() == before


def test_command(folder: Path, run: Run) -> None:
    """The table names every kind; a removal says what went; an unknown kind is refused."""
    code, printed, _ = run("cache")
    assert code == 0
    for name in (*KINDS, "500 bytes"):
        assert name in printed
    code, printed, _ = run("cache", "--remove", "compiled")
    assert (code, "compiled: removed 1 file, 500 bytes" in printed) == (0, True)
    assert not (folder / "compiled" / f"readers.order.shuffle.f-{DIGEST}.code").exists()
    code, _, error = run("cache", "--remove", "everything")
    assert (code, "kind='everything' is not allowed; give one of blocks" in error) == (2, True)
