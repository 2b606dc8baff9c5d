"""`gpu-aug pack`: WebDataset shards of anything, the same whoever works on them."""

import gc
import gzip
import io
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import webdataset
from PIL import Image

from readers import FolderDataset, Order, open_dataset
from tests.support.commands import Run
from tests.support.memory import peak_bytes
from tests.support.packed import (
    Jpeg,
    by_webdataset,
    manifest_of,
    refused,
    samples_of,
    shards_in,
)


def test_class_folders_become_shards_with_labels(run: Run, source: Path, tmp_path: Path) -> None:
    """Webdataset and our reader find every field of every sample, byte for byte, and the class numbers."""
    code, printed, _ = run("pack", source, tmp_path / "out", "--shard-size", "30kB")

    expected = samples_of(source)
    found = by_webdataset(tmp_path / "out")
    assert code == 0
    assert "24 samples in" in printed
    assert [sample["__key__"] for sample in found] == [
        sample.key.removesuffix(".jpg") for sample in expected
    ]
    for sample, packed in zip(expected, found, strict=True):
        fields = {name: bytes(data) for name, data in sample.fields.items()}
        assert packed == {"__key__": packed["__key__"], **fields, "cls": b"%d" % sample.label}
    assert [list(sample) for sample in found if "json" in sample] == [
        ["__key__", "jpg", "json", "mask.png", "cls"]
    ]
    ours = samples_of(tmp_path / "out")
    assert [sample.label for sample in ours] == [sample.label for sample in expected]
    assert [sample.size for sample in ours] == [(60, 90)] * 24


def test_class_names_stay(run: Run, source: Path, tmp_path: Path) -> None:
    """All shards of a pack, or some, have the names of its source; a shard that another program wrote has none."""
    run("pack", source, tmp_path / "out", "--shard-size", "30kB")
    shards = shards_in(tmp_path / "out")
    names = open_dataset(source).class_names

    assert (len(names), open_dataset(tmp_path / "out").class_names) == (3, names)
    assert open_dataset(shards[1]).class_names == names
    with shards[1].open("ab") as shard:
        shard.write(bytes(512))
    assert (open_dataset(shards[1]).class_names, open_dataset(shards[0]).class_names) == ((), names)
    (tmp_path / "out" / "manifest.json").unlink()
    assert open_dataset(shards[0]).class_names == ()


def test_class_numbers_of_two_packs(run: Run, source: Path, tmp_path: Path) -> None:
    """Shards of two packs of the same classes have their names; of others none, and opening them says so."""
    names = open_dataset(source).class_names
    (tmp_path / "few" / names[1]).mkdir(parents=True)
    for path in sorted((source / names[1]).iterdir())[:3]:
        (tmp_path / "few" / names[1] / path.name).write_bytes(path.read_bytes())
    for origin, name in ((source, "one"), (source, "same"), (tmp_path / "few", "other")):
        run("pack", origin, tmp_path / "packs" / name)
    one, same, other = (
        str(tmp_path / "packs" / name / "shard-000000.tar") for name in ("one", "same", "other")
    )

    with pytest.warns(UserWarning, match="1 shard with the name of an earlier one"):
        assert open_dataset([one, same]).class_names == names
    with (
        pytest.warns(UserWarning, match="number their classes differently"),
        pytest.warns(UserWarning, match="1 shard with the name of an earlier one"),
    ):
        assert open_dataset([one, other]).class_names == ()


@pytest.mark.long
def test_webdataset_itself_reads_the_folder(run: Run, source: Path, tmp_path: Path) -> None:
    """The pipeline that users of webdataset write gives pictures and class numbers."""
    run("pack", source, tmp_path / "out")
    shard = str(tmp_path / "out" / "shard-000000.tar")
    with warnings.catch_warnings():  # webdataset itself leaves its files open
        warnings.simplefilter("ignore", ResourceWarning)
        data = webdataset.WebDataset(shard, shardshuffle=False).decode("rgb8")
        found = [(sample["jpg"].shape, sample["cls"]) for sample in data]
        gc.collect()

    assert found == [((60, 90, 3), label) for label in (0, 1, 2) for _ in range(8)]


def test_indexes_lie_beside_the_shards(run: Run, source: Path, tmp_path: Path) -> None:
    """Opening the shards scans nothing and writes nothing."""
    out = tmp_path / "out"
    run("pack", source, out, "--shard-size", "30kB")
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir() if path.is_file()}
    open_dataset(out)

    after = {path.name: path.stat().st_mtime_ns for path in out.iterdir() if path.is_file()}
    assert after == before
    names = [shard.name for shard in shards_in(out)]
    beside = {f"{name}.gpuaug-{kind}" for name in names for kind in ("index", "checkpoints")}
    assert set(before) == {*names, *beside, "manifest.json"}


def test_shards_keep_to_their_size(run: Run, source: Path, tmp_path: Path) -> None:
    """Shards end at the last block of 10 kB that is allowed; a sample that is larger has one of its own."""
    run("pack", source, tmp_path / "out", "--shard-size", "40kB")
    sizes = [shard.stat().st_size for shard in shards_in(tmp_path / "out")]
    run("pack", source, tmp_path / "single", "--shard-size", "1B")

    assert max(sizes) == 30_720
    assert len(sizes) > 2
    assert len(shards_in(tmp_path / "single")) == 24
    assert [shard.name for shard in shards_in(tmp_path / "out")][:2] == [
        "shard-000000.tar",
        "shard-000001.tar",
    ]


def test_shuffle_is_the_order_of_that_seed(run: Run, source: Path, tmp_path: Path) -> None:
    """Samples stand in the order that the loader has in epoch 0 of the seed."""
    run("pack", source, tmp_path / "out", "--shuffle", 5, "--shard-size", "30kB")
    order = Order(24, seed=5).indices(epoch=0, positions=np.arange(24))
    images = [bytes(sample.image or b"") for sample in samples_of(source)]

    found = samples_of(tmp_path / "out")

    assert [bytes(sample.image or b"") for sample in found] == [images[place] for place in order]
    assert [sample.label for sample in found] == [place // 8 for place in order]


def test_forward_only_tars_become_shards(run: Run, source: Path, tmp_path: Path) -> None:
    """A compressed tar, or any when that is asked for, is read from front to back; what comes out can be read at random."""
    run("pack", source, tmp_path / "plain")
    [shard] = shards_in(tmp_path / "plain")
    packed = tmp_path / "data.tar.gz"
    packed.write_bytes(gzip.compress(shard.read_bytes()))

    code, printed, _ = run("pack", packed, tmp_path / "out", "--shard-size", "30kB")

    assert code == 0, printed
    assert by_webdataset(tmp_path / "out") == by_webdataset(tmp_path / "plain")
    assert len(shards_in(tmp_path / "out")) > 2
    run("pack", shard, tmp_path / "forward", "--source-format", "stream")
    assert by_webdataset(tmp_path / "forward") == by_webdataset(tmp_path / "plain")
    assert "cannot be: pack it in order" in refused(run, packed, tmp_path / "x", "--shuffle", 1)


def test_shards_can_be_packed_anew(run: Run, source: Path, tmp_path: Path) -> None:
    """From shards to shards of another size, keys, fields and labels stay as they are."""
    run("pack", source, tmp_path / "small", "--shard-size", "30kB")
    run("pack", tmp_path / "small", tmp_path / "large")
    run("pack", tmp_path / "small" / "shard-{000000..000001}.tar", tmp_path / "two")

    assert len(shards_in(tmp_path / "large")) == 1
    assert by_webdataset(tmp_path / "large") == by_webdataset(tmp_path / "small")
    two = by_webdataset(tmp_path / "two")
    assert two == by_webdataset(tmp_path / "small")[: len(two)]


def test_clips_of_a_list_are_packed(run: Run, tmp_path: Path) -> None:
    """Each has the whole video, its seconds, and a key that says which; the shards give the same clips."""
    pytest.importorskip("av")
    from dali_pipes import Clips
    from tests.support.videos import pan, write_video

    write_video(tmp_path / "v.mp4", pan(75, (32, 48)))
    (tmp_path / "list.txt").write_text("v.mp4 0 1.5 3\nv.mp4 0 1.7 3\nv.mp4\n")
    run("pack", tmp_path / "list.txt", tmp_path / "out")
    listed, packed = (
        Clips(open_dataset(tmp_path / name), num_frames=5, stride=2) for name in ("list.txt", "out")
    )
    indices = np.arange(3)
    frames = [clips.frames(0, 0, indices, indices) for clips in (listed, packed)]

    keys = [sample["__key__"] for sample in by_webdataset(tmp_path / "out")]
    assert keys == ["v@0_0-1_5", "v@0_0-1_7", "v"]
    np.testing.assert_array_equal(*frames)


def test_columns_of_videos_are_packed(run: Run, tmp_path: Path) -> None:
    """Into tars, under a name by which they are known for videos; Parquet shards hold images."""
    pytest.importorskip("av")
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    from tests.support.videos import pan, write_video

    video = write_video(tmp_path / "v.mp4", pan(5, (32, 48))).read_bytes()
    pq.write_table(pa.table({"movie": [video], "label": [3]}), tmp_path / "a.parquet")
    run("pack", tmp_path / "a.parquet", tmp_path / "out")
    [sample] = samples_of(tmp_path / "out")

    assert (bytes(sample.video or b""), sample.image, sample.label) == (video, None, 3)
    printed = refused(run, tmp_path / "a.parquet", tmp_path / "other", "--format", "parquet")
    assert "it is a video, which a Parquet shard does not hold" in printed


def test_folders_of_frames_are_refused(run: Run, tmp_path: Path, jpeg: Jpeg) -> None:
    """By name, and with what to do."""
    (tmp_path / "data/a/x").mkdir(parents=True)
    for number in (1, 2):
        (tmp_path / f"data/a/x/img_{number:05d}.jpg").write_bytes(jpeg(24, 36))

    printed = refused(run, tmp_path / "data", tmp_path / "out")

    assert "data holds folders of frames, which no shard holds: make a video of each" in printed
    assert not (tmp_path / "out").exists()


def test_bad_samples_are_named_and_left_out(run: Run, source: Path, tmp_path: Path) -> None:
    """What cannot be read or is no image is missing in the shards and stands in the manifest."""
    (source / "cats" / "0.jpg").write_text("<html>404</html>")
    (source / "owls" / "7.jpg").write_bytes(b"")
    (source / "owls" / "8.jpg").symlink_to("nowhere")

    code, printed, _ = run("pack", source, tmp_path / "out", "--shard-size", "30kB")

    bad = manifest_of(tmp_path / "out")["bad_samples"]
    assert code == 0
    assert "22 samples in" in printed
    assert [(sample["key"], sample["stage"]) for sample in bad] == [
        ("cats/0.jpg", "header"),
        ("owls/7.jpg", "header"),
        ("owls/8.jpg", "read"),
    ]
    for sample in bad:
        assert f"bad sample {sample['key']} ({sample['stage']}): {sample['reason']}" in printed
    assert [sample.key.partition("/")[2] for sample in samples_of(tmp_path / "out")] == [
        sample.key.removesuffix(".jpg")
        for sample in FolderDataset(source).fetch(range(25))
        if sample.key not in ("cats/0.jpg", "owls/7.jpg", "owls/8.jpg")
    ]


def test_a_lost_end_of_a_shard_is_a_bad_sample(run: Run, source: Path, tmp_path: Path) -> None:
    """A source shard that is cut off gives what lies before the cut."""
    run("pack", source, tmp_path / "one")
    shard = tmp_path / "one" / "shard-000000.tar"
    os.truncate(shard, shard.stat().st_size // 2)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        _, printed, error = run("pack", shard, tmp_path / "out")

    found = by_webdataset(tmp_path / "out")
    assert 8 <= len(found) <= 12
    assert "(read): shard-000000.tar is cut off" in printed
    assert "manifest.json declares 24 samples in shard-000000.tar, and 13 are there" in error


def test_memory_does_not_grow(run: Run, tmp_path: Path) -> None:
    """Ten times the samples take the same memory."""
    peaks = []
    for number in (10, 20, 200):  # the first one loads the finder of seek points
        folder = tmp_path / str(number)
        folder.mkdir()
        noise = np.random.default_rng(0).bytes(100_000)
        stream = io.BytesIO()
        Image.new("RGB", (8, 8)).save(stream, "JPEG")
        for place in range(number):
            (folder / f"{place:04d}.jpg").write_bytes(stream.getvalue() + noise)
        command = (
            "pack",
            folder,
            tmp_path / f"out{number}",
            "--workers",
            1,
            "--shard-size",
            "10MB",
        )
        peaks.append(peak_bytes(lambda command=command: run(*command)))

    assert peaks[2] < peaks[1] + 6_000_000  # a third of the pictures that are more
