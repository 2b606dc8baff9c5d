"""`gpu-aug inspect` says what is in the data and what is broken, and nothing that is not so."""

import gzip
import io
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from bench.cli import main
from bench.output.quiet import hushed
from dali_pipes.decode.check import CHECKS
from readers import BadSample, Sample, SourceError, open_dataset
from readers.datasets.dataset import IndexedDataset
from readers.prepare import inspect
from readers.prepare.inspection import inspect_dataset as inspection
from readers.prepare.inspection.percentiles import Spread
from readers.prepare.source import open_source
from readers.sample import ColumnName
from tests.support import commands
from tests.support.damage import flip
from tests.support.tars import tar_of

Jpeg = Callable[..., bytes]
Run = Callable[..., tuple[int, str, Any]]


@pytest.fixture
def inspected(run: commands.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Calls the command; gives its exit code, its output at 80 columns, and its JSON."""
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments: object) -> tuple[int, str, Any]:
        result = tmp_path / "result.json"
        code, printed, error = run("inspect", *arguments, "--json", result)
        content = json.loads(result.read_text()) if result.exists() else None
        result.unlink(missing_ok=True)
        return code, printed + error, content

    return call


@pytest.fixture
def folder(tmp_path: Path, jpeg: Jpeg) -> Path:
    """Twelve images of cats, three of dogs, one of an owl that is a PNG; two cats have a description."""
    root = tmp_path / "data"
    for name, count in (("cat", 12), ("dog", 3)):
        (root / name).mkdir(parents=True)
        for number in range(count):
            (root / name / f"{number:02d}.jpg").write_bytes(jpeg(40, 60 + number, seed=number))
    for number in (3, 4):
        (root / "cat" / f"{number:02d}.json").write_text("{}")
    (root / "owl").mkdir()
    buffer = io.BytesIO()
    Image.new("RGB", (7, 200)).save(buffer, "png")
    (root / "owl" / "one.png").write_bytes(buffer.getvalue())
    return root


def test_what_is_there(inspected: Run, folder: Path) -> None:
    """Counts, sizes, shapes and classes are those that were written."""
    code, printed, result = inspected(folder)
    sizes = [path.stat().st_size for path in folder.rglob("*.*")]
    jpegs = sorted(path.stat().st_size for path in folder.rglob("*.jpg"))
    expected = {
        "format": "class folders",
        "samples": 16,
        "looked_at": 16,
        "verified": False,
        "total_bytes": sum(sizes),
        "image_formats": {"jpeg": 15, "png": 1},
        "classes": [
            {"label": 0, "name": "cat", "samples": 12},
            {"label": 1, "name": "dog", "samples": 3},
            {"label": 2, "name": "owl", "samples": 1},
        ],
        "unlabelled": 0,
        "doubled_keys": None,  # nobody looked
    }
    spreads = {**result["fields"], "heights": result["heights"], "widths": result["widths"]}

    assert code == 0
    assert {name: result[name] for name in expected} == expected
    assert {name: spread["count"] for name, spread in spreads.items()} == {
        "jpg": 15,
        "json": 2,
        "png": 1,
        "heights": 16,
        "widths": 16,
    }
    ends = {"lowest": jpegs[0], "highest": jpegs[-1], "total": sum(jpegs)}
    assert spreads["jpg"].items() >= ends.items()
    assert spreads["heights"].items() >= {"lowest": 40, "highest": 200}.items()
    assert spreads["widths"].items() >= {"lowest": 7, "highest": 71}.items()
    assert result["shapes"][0] == {"height": 40, "width": 60, "images": 2}
    assert "3 classes, the largest 12 times the smallest" in printed
    assert re.search(r"json +12\.5 % ", printed)
    assert "no bad sample among those looked at" in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_bad_entries_are_listed(inspected: Run, folder: Path) -> None:
    """A header that is none is seen at once, a picture that is cut off by --verify alone."""
    whole = (folder / "cat" / "05.jpg").read_bytes()
    (folder / "cat" / "05.jpg").write_bytes(whole[: len(whole) // 2])
    code, printed, result = inspected(folder)

    assert (code, result["num_bad"]) == (0, 0)
    code, printed, result = inspected(folder, "--verify")
    assert (code, result["num_bad"], result["verified"]) == (1, 1, True)
    assert result["bad"][0]["key"] == "cat/05.jpg"
    assert (result["bad"][0]["stage"], result["bad"][0]["index"]) == ("decode", 5)
    assert "cat/05.jpg (decode): " in printed
    assert "1 bad sample\n" in printed
    (folder / "dog" / "00.jpg").write_text("no image")
    code, _, result = inspected(folder)
    assert (code, [bad["key"] for bad in result["bad"]]) == (1, ["dog/00.jpg"])


@pytest.mark.parametrize("process", ["baseline", "progressive"])
def test_damaged_images_that_decode_are_listed(
    inspected: Run, folder: Path, jpeg: Jpeg, process: str
) -> None:
    """OpenCV fills in what is lacking: --verify names such a picture, which is no bad sample."""
    whole = jpeg(40, 60, progressive=process == "progressive")
    (folder / "cat" / "05.jpg").write_bytes(whole[:-40] + whole[-2:])
    code, _, result = inspected(folder)
    assert (code, result["num_damaged"]) == (0, 0)

    code, printed, result = inspected(folder, "--verify")
    assert (code, result["num_bad"], result["num_damaged"]) == (0, 0, 1)
    assert result["damaged"][0]["key"] == "cat/05.jpg"
    assert "cat/05.jpg (decode): damaged: the scan ends too early\n1 damaged image\n" in printed


def test_decoders_do_not_write_between_the_lines(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What libpng prints of its own accord is kept away; whatever comes later is not."""
    path = folder / "owl" / "one.png"
    flip(path, path.read_bytes().index(b"IDAT") + 6)

    with pytest.raises(SystemExit):
        main(["inspect", str(folder), "--verify"])
    assert capfd.readouterr().err == ""
    with hushed():
        pass
    with pytest.raises(SystemExit):
        main(["inspect", str(folder / "nowhere")])
    assert "does not exist" in capfd.readouterr().err


def test_labels_that_are_vectors(inspected: Run, folder: Path) -> None:
    """They are said as such, and no sample counts as unlabelled."""
    table = folder.parent / "table.csv"
    table.write_text('image,label\ndata/cat/00.jpg,"[0.5, 1]"\ndata/dog/00.jpg,"[2, 1.5]"\n')
    code, printed, result = inspected(table)

    assert (code, result["unlabelled"], result["classes"]) == (0, 0, [])
    assert re.search(r"labels +vectors of 2 numbers", printed)


@pytest.mark.filterwarnings("ignore:.* with the key of an earlier one:UserWarning")
def test_doubled_keys(inspected: Run, tmp_path: Path, jpeg: Jpeg) -> None:
    """A key that comes again is found when all keys are looked at, and named."""
    files = [(f"{name}.jpg", jpeg(9, 9)) for name in ("a", "b", "c", "b", "d", "a", "b")]
    path = tmp_path / "a.tar"
    path.write_bytes(tar_of(files))
    code, printed, result = inspected(path, "--verify")

    assert (code, result["doubled_keys"], result["doubled"]) == (0, 3, [[3, 1], [5, 0], [6, 3]])
    assert "3 samples have a key that was there before" in printed
    assert "sample 3 that of sample 1, a.tar/b" in printed


def test_streams(inspected: Run, tmp_path: Path, jpeg: Jpeg) -> None:
    """A compressed tar gives what the same tar gives that is indexed, although it has no length."""
    files = []
    for number in range(12):
        files += [
            (f"{number}.jpg", jpeg(10, 20, seed=number)),
            (f"{number}.cls", b"%d" % (number % 5)),
            (f"{number}.mask.0.png", b"0"),
            (f"{number}.mask.1.png", b"1"),
        ]
    (tmp_path / "a.tar").write_bytes(tar_of(files))
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(tar_of(files)))
    _, _, plain = inspected(tmp_path / "a.tar", "--verify")
    code, printed, stream = inspected(tmp_path / "a.tar.gz", "--verify")

    assert (code, stream["samples"], stream["fields"]["mask.N.png"]["count"]) == (0, 12, 24)
    for name in ("fields", "classes", "image_formats", "shapes", "total_bytes", "doubled_keys"):
        assert stream[name] == plain[name]
    assert "tar, read forward" in printed


def test_commands_need_permission(inspected: Run, tmp_path: Path, jpeg: Jpeg) -> None:
    """A pipe: source runs under --allow-pipe alone."""
    (tmp_path / "a.tar").write_bytes(tar_of([("a.jpg", jpeg(8, 8))]))
    command = f"pipe:cat {tmp_path}/a.tar"
    code, printed, _ = inspected(command)

    assert code == 2
    assert "runs a command: add --allow-pipe if you trust it" in printed
    code, _, result = inspected(command, "--allow-pipe")
    assert (code, result["samples"]) == (0, 1)


def test_large_data_is_sampled(
    inspected: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of much data some samples are looked at, everywhere in it, and the output says so."""
    monkeypatch.setattr(inspection, "_SAMPLES_LOOKED_AT", 8)
    _, printed, result = inspected(folder)

    assert (result["samples"], result["looked_at"]) == (16, 8)
    assert "the headers of 8, spread over it; --verify decodes all" in printed
    assert [row["samples"] for row in result["classes"]] == [12, 3, 1]  # of all, by the folders
    assert result["labels_of_all"]
    (tmp_path / "a.tgz").write_bytes(gzip.compress(tar_of([(f"{n}.cls", b"1") for n in range(20)])))
    code, printed, result = inspected(tmp_path / "a.tgz")
    assert (code, result["samples"], result["looked_at"]) == (0, None, 8)
    assert "the first 8; --verify decodes all" in printed
    assert result["total_bytes"] is None


def test_what_cannot_be_opened_keeps_its_own_error(tmp_path: Path) -> None:
    """The attempt to read it forward does not replace what opening it said."""
    (tmp_path / "data").mkdir()

    with pytest.raises(SourceError, match="holds no images"):
        open_source(str(tmp_path / "data"))


class Checked(IndexedDataset):
    """Samples of a format with checksums, one of which does not fit."""

    fingerprint = "0" * 32

    def __init__(self, length: int = 10) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Text of the index."""
        return [Sample(int(index), f"{index}", {"txt": b"text"}) for index in indices]

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Nothing is known."""
        del name
        return np.full(self._length, -1, np.int64)

    def verify(self) -> Iterator[BadSample]:
        """Sample 7 is bad."""
        yield BadSample(7, "7", "read", "its CRC does not fit")


@pytest.mark.parametrize("verify", [False, True])
def test_checksums_of_the_format(verify: bool) -> None:
    """What a dataset can check by itself is asked for under --verify."""
    found = inspect(Checked(), verify=CHECKS if verify else None)

    assert ([bad.index for bad in found.bad], found.num_imageless) == ([7] if verify else [], 10)


def test_a_million_samples_take_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --verify nothing grows with the length but the columns."""
    fetched: list[int] = []
    fetch = Checked.fetch

    def counted(self: Checked, indices: Sequence[int]) -> list[Sample | BadSample]:
        fetched.extend(indices)
        return fetch(self, indices)

    monkeypatch.setattr(Checked, "fetch", counted)
    found = inspect(Checked(1_000_000))

    assert found.num_looked_at == len(set(fetched)) == 2000
    assert max(fetched) > 998_000


@pytest.mark.parametrize("is_exact", [True, False])
def test_spread_is_that_of_numpy(is_exact: bool) -> None:
    """Percentiles of few different numbers are exact, of many within a percent; sums and ends are exact."""
    rng = np.random.default_rng(0)
    numbers = (
        rng.integers(100, 9_000, 20_000) if is_exact else rng.lognormal(9, 2, 20_000).astype(int)
    )
    spread = Spread()
    for number in numbers.tolist():
        spread.add(number)

    assert (spread.count, spread.total) == (len(numbers), numbers.sum())
    assert (spread.lowest, spread.highest) == (numbers.min(), numbers.max())
    for percent in (1, 5, 50, 95, 99):
        expected = np.percentile(numbers, percent, method="inverted_cdf")
        tolerance = {"rel": 0, "abs": 0} if is_exact else {"rel": 0.01, "abs": 1}
        assert spread.percentile(percent) == pytest.approx(expected, **tolerance)
    assert (spread.is_exact, spread.about) == (is_exact, "" if is_exact else "~")
    assert is_exact or len(spread._counts) < 3000
    assert Spread().percentile(50) == 0


@pytest.fixture
def pans(tmp_path: Path) -> list[Path]:
    """Videos of 15 and 30 frames, 25 a second."""
    pytest.importorskip("av")
    from tests.support.videos import pan, write_video

    return [write_video(tmp_path / f"{n}.mp4", pan(n, (32, 48))) for n in (15, 30)]


@pytest.mark.parametrize("name", ["video", "anything"])
def test_columns_of_videos(inspected: Run, pans: list[Path], tmp_path: Path, name: str) -> None:
    """Names say that they are videos, else their bytes do."""
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    pq.write_table(pa.table({name: [path.read_bytes() for path in pans]}), tmp_path / "a.parquet")
    code, printed, result = inspected(tmp_path / "a.parquet", "--verify")

    assert (code, result["num_bad"], result["without_image"]) == (0, 0, 0)
    assert result["videos"]["codecs"] == {"h264": 2}
    assert "15 to 30, median 15; 45 in all" in printed


def test_clips_of_a_list(inspected: Run, pans: list[Path], tmp_path: Path) -> None:
    """Frames and lengths are those of the clips; one that begins behind the end is bad."""
    lines = [f"{pans[0].name} 0.2 0.4 1", f"{pans[1].name} 0.2 1 1", f"{pans[0].name} 50 52 1"]
    (tmp_path / "list.txt").write_text("\n".join(lines))
    code, _, result = inspected(tmp_path / "list.txt")

    frames, lengths = result["videos"]["frames"], result["videos"]["milliseconds"]
    assert (frames["count"], frames["lowest"], frames["highest"]) == (2, 5, 20)
    assert (lengths["lowest"], lengths["highest"], lengths["total"]) == (200, 800, 1000)
    assert (code, result["num_bad"]) == (1, 1)
    assert result["bad"][0]["reason"] == "its clip begins at 50 s, but the video lasts 0.6 s"


def test_folders_of_frames(inspected: Run, tmp_path: Path, jpeg: Jpeg) -> None:
    """Their pictures are counted as frames; a broken one is found by --verify."""
    for name, count in (("a/x", 3), ("b/y", 5)):
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(count):
            (tmp_path / "data" / name / f"img_{number:05d}.jpg").write_bytes(jpeg(24, 36))
    code, printed, result = inspected(tmp_path / "data", "--verify")

    assert (code, result["num_bad"], result["total_bytes"]) == (0, 0, None)
    assert result["videos"]["frames"]["total"] == 8
    assert result["videos"]["frames_per_second"] == {"25": 2}
    assert result["videos"]["shapes"] == [{"height": 24, "width": 36, "videos": 2}]
    assert "folders of frames" in printed
    (tmp_path / "data/b/y/img_00003.jpg").write_bytes(jpeg(24, 36)[:200])
    code, _, result = inspected(tmp_path / "data", "--verify")
    assert (code, [bad["key"] for bad in result["bad"]]) == (1, ["b/y"])
    assert result["bad"][0]["reason"].startswith("frame 3 of 5: ")


def test_damage_within_a_video(inspected: Run, tmp_path: Path) -> None:
    """Damage that FFmpeg conceals, and counts as frames, is found by --verify in the loader's words."""
    av = pytest.importorskip("av")
    from dali_pipes import BadSampleError, Clips, Loader
    from gpu_aug import CenterCrop, Recipe
    from readers.video import scan_video
    from tests.support.videos import pan, write_video

    path = tmp_path / "data" / "a.mp4"
    path.parent.mkdir()
    write_video(path, pan(24, (48, 64)), gop=12)
    sound = path.read_bytes()
    info = scan_video(sound)
    start, size = int(info.packet_offsets[5]), int(info.packet_sizes[5])
    for seed in range(100):  # some damage reads as other codes, which FFmpeg cannot notice
        damage = random.Random(seed).randbytes(size - size // 2)
        path.write_bytes(sound[: start + size // 2] + damage + sound[start + size :])
        with av.open(path) as container:
            are_corrupt = [frame.is_corrupt for frame in container.decode(video=0)]
        if any(are_corrupt) and len(are_corrupt) == 24:
            break
    else:
        pytest.fail("FFmpeg noticed no damage")
    clips = Clips(open_dataset(path.parent), num_frames=24, stride=1)
    options: dict[str, Any] = {"device": "cpu", "decoder": "cpu", "on_bad_sample": "raise"}
    loader = Loader(clips, Recipe([CenterCrop(32)]), batch_size=1, **options)

    assert inspected(path.parent)[0] == 0
    code, _, result = inspected(path.parent, "--verify")

    with loader, pytest.raises(BadSampleError) as caught:
        next(iter(loader))
    assert code == 1
    assert result["bad"][0]["reason"] in str(caught.value)


def test_boxes_are_counted_by_class(inspected: Run, tmp_path: Path, jpeg: Jpeg) -> None:
    """Detection data has boxes where other data has labels; objects without a class of their own do not count."""
    for number, labels in enumerate(([1, 1, 0], [1], [], ["cat"])):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(40, 60, seed=number))
        targets = {"boxes": [[1, 2, 30, 20]] * len(labels), "labels": labels}
        (tmp_path / f"{number}.json").write_text(json.dumps(targets))

    code, printed, found = inspected(tmp_path)

    assert code == 0
    assert "boxes of all" in printed
    assert [(row["label"], row["boxes"]) for row in found["boxes_per_class"]] == [(0, 1), (1, 3)]
