import bz2
import gc
import gzip
import io
import lzma
import os
import re
import tarfile
import weakref
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from webdataset.tariterators import base_plus_ext

from readers import BadSample, Sample, SourceError, TarDataset
from readers.formats.tar.webdataset import key_and_field
from tests.support.damage import flip
from tests.support.entries import fetch_all
from tests.support.kinds import by_pillow
from tests.support.opening import assert_refused, open_with_warning
from tests.support.tars import by_webdataset, tar_of, with_header, write_samples

Jpeg = Callable[..., bytes]
BLOCK = 512


def write_tar(path: Path, files: list[tuple[str, bytes]], **options: Any) -> Path:
    path.write_bytes(tar_of(files, **options))
    return path


def plain_shard(path: Path, num_samples: int = 4) -> Path:
    """Keys 000, 001, ... with a jpg (its content is no image) and a cls."""
    samples = {
        f"{number:03d}": {"jpg": b"%03d" % number * 300, "cls": b"%d" % number}
        for number in range(num_samples)
    }
    return write_samples(path, samples)


def by_us(dataset: TarDataset) -> list[tuple[str, dict[str, bytes]]]:
    return [
        (sample.key, {name: bytes(data) for name, data in sample.fields.items()})
        for sample in fetch_all(dataset)
    ]


LONG = "/".join(["a-rather-long-folder-name-to-fill-the-header"] * 6)
FILES = [
    ("0001.jpg", b"one"),
    ("0001.cls", b"7"),
    ("0001.JSON", b"{}"),
    ("0002.cls", b"8"),
    ("folder/0003.left.jpg", b"left"),
    ("folder/0003.right.jpg", b"right"),
    ("with.dots/0004.seg.PNG", b"mask"),
    (f"{LONG}/0005.jpg", b"long"),
    (f"{LONG}/0005.{'x' * 120}", b"long field"),
    ("./0006.png", b"dot"),
    ("no_extension", b"no key"),
    ("0007.txt", b""),
    ("__meta__/0008.json", b"meta"),
    ("0007.bin", bytes(range(256)) * 9),
    ("ünï/cödé.jpg", "ü".encode()),
    ("0001.jpg", b"the key comes again"),
]


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_samples_agree_with_webdataset(tmp_path: Path, kind: int) -> None:
    """Keys, fields, bytes and order are those of webdataset, in every dialect of tar."""
    files = [file for file in FILES if kind != tarfile.USTAR_FORMAT or LONG not in file[0]]
    shards = [
        write_tar(tmp_path / "a.tar", files, format=kind),
        write_tar(tmp_path / "b.tar", files[::-1], format=kind),
    ]
    expected = by_webdataset(*shards)

    assert by_us(TarDataset(shards)) == expected
    assert len(expected) >= 16


@pytest.mark.parametrize(
    "name",
    [
        *("n01/10026.jpg", "a.JPG", "a.v1.png", "d.v1/a.jpg", "./a.jpg", "/a.jpg", "../a.jpg", "a..jpg", "a.jpg\n", "a\nb.jpg"),
        *("a b.jpg", "ünï/cödé.jpg", "__a__.jpg", "a", "", ".hidden", "x.y/noext", "a.tar.gz", "\udcff.jpg"),
    ],
)  # fmt: skip
def test_names_are_split_as_by_webdataset(name: str) -> None:
    """Key and field are those of WebDataset, which cannot be imported without torch."""
    key, field = base_plus_ext(name)

    assert key_and_field(name) == (None if key is None else (key, field.lower()))


@pytest.mark.parametrize("name", ["d/.hidden", "d/.a.jpg", "a.", "__meta__/a.jpg"])
def test_names_that_webdataset_alone_splits(name: str) -> None:
    """They belong to no sample here; WebDataset itself passes over the last one before it splits names."""
    assert base_plus_ext(name) != (None, None)
    assert key_and_field(name) is None


def test_size_is_known_from_the_index(tmp_path: Path, jpeg: Jpeg) -> None:
    """Height and width after EXIF orientation come with the sample, where there is an image, however large."""
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    header = b"IHDR" + b"\xff" * 8 + bytes(5)
    huge = b"\x89PNG\r\n\x1a\n" + bytes(4) + header + zlib.crc32(header).to_bytes(4, "big")
    files = [
        ("a.jpg", jpeg(30, 50)),
        ("b.jpg", jpeg(30, 50, exif=exif)),
        ("c.jpg", b"<html>"),
        ("d.txt", b"text"),
        ("e.mask.txt", b"first"),
        ("e.left.jpg", jpeg(20, 10)),
        ("e.right.jpg", jpeg(40, 40)),
        ("f.png", huge),
    ]
    samples = TarDataset([write_tar(tmp_path / "a.tar", files)]).fetch(range(6))

    sizes = [(30, 50), (50, 30), None, None, (20, 10), (2**32 - 1, 2**32 - 1)]
    assert [sample.size for sample in samples] == sizes
    assert (samples[3].image, samples[4].image) == (None, files[5][1])


def test_a_bad_sample_keeps_a_label_that_can_be_read(tmp_path: Path) -> None:
    """So that selections count it."""
    files = [("a.jpg", b"x"), ("a.jpg", b"y"), ("a.cls", b"3"), ("b.cls", b"1"), ("b.cls", b"2")]
    dataset = TarDataset([write_tar(tmp_path / "a.tar", files)])

    assert [type(one) for one in dataset.fetch([0, 1])] == [BadSample, BadSample]
    assert dataset.take([0]).column("label").tolist() == [3]
    with pytest.raises(SourceError, match=r"b .*stored twice"):
        dataset.column("label")


def test_dataset_goes_with_its_last_reference(tmp_path: Path) -> None:
    """Maps are given back at once, not when the garbage collector finds a circle."""
    dataset = TarDataset([plain_shard(tmp_path / "a.tar")])
    dataset.fetch([0])
    remembered = weakref.ref(dataset)
    gc.disable()
    del dataset
    is_gone = remembered() is None
    gc.enable()

    assert is_gone


def test_devices_and_folders_are_passed_over(tmp_path: Path) -> None:
    """Only files count, and nothing outside the shard can be reached through it."""
    secret = tmp_path / "secret.jpg"
    secret.write_bytes(b"secret")
    kinds = {
        "a.jpg": tarfile.SYMTYPE,
        "b.jpg": tarfile.LNKTYPE,
        "c.jpg": tarfile.CHRTYPE,
        "d.jpg": tarfile.FIFOTYPE,
        "e.jpg": tarfile.DIRTYPE,
        "/../../f.jpg": tarfile.REGTYPE,
    }
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, kind in kinds.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "" if kind == tarfile.REGTYPE else str(secret)
            member.size = 4 if kind == tarfile.REGTYPE else 0
            archive.addfile(member, io.BytesIO(b"mine"))
    *bad, last = TarDataset([tmp_path / "a.tar"]).fetch(range(3))

    assert (last.key, last.fields) == ("a.tar//../../f", {"jpg": b"mine"})
    assert [one.reason for one in bad] == [
        f"a.tar stores {name} as a link to {secret}, which is no file in it"
        for name in ("a.jpg", "b.jpg")
    ]


def test_field_that_is_stored_twice_is_a_bad_sample(tmp_path: Path) -> None:
    """Which of two files is meant cannot be told; the neighbours are fine."""
    files = [("a.jpg", b"1"), ("b.jpg", b"2"), ("b.cls", b"0"), ("b.JPG", b"3"), ("c.jpg", b"4")]
    before, bad, behind = TarDataset([write_tar(tmp_path / "a.tar", files)]).fetch([0, 1, 2])

    assert bad == BadSample(1, "a.tar/b", "read", "one of the fields jpg, cls is stored twice")
    assert (before.image, behind.image) == (b"1", b"4")


def test_sparse_file_is_a_bad_sample(tmp_path: Path) -> None:
    """A file that is stored with its holes left out cannot be shown as one piece."""
    files = [("a.jpg", b"1"), ("b.jpg", b"2" * 600), ("c.jpg", b"3")]
    shard = write_tar(tmp_path / "a.tar", files, format=tarfile.GNU_FORMAT)
    one_piece = b"00000000000\0" + b"00000001130\0"  # offset 0, 600 bytes
    sparse = {156: tarfile.GNUTYPE_SPARSE, 386: one_piece, 483: b"00000001130\0"}  # true size
    shard.write_bytes(with_header(shard.read_bytes(), 2 * BLOCK, sparse))
    before, bad, behind = TarDataset([shard]).fetch([0, 1, 2])

    assert (before.image, behind.image) == (b"1", b"3")
    assert "stores b.jpg as a sparse file" in bad.reason


def test_cut_off_at_any_block(tmp_path: Path) -> None:
    """Samples before the cut are whole; the one that it hits is a bad sample, with the place."""
    whole = plain_shard(tmp_path / "whole.tar", 3).read_bytes()
    expected = [fields for _, fields in by_us(TarDataset([tmp_path / "whole.tar"]))]
    stride = BLOCK * 5  # header and two blocks of jpg, header and one block of cls
    for cut in [*range(BLOCK + 100, 3 * stride, 256), 3 * stride - 510, 3 * stride]:
        shard = tmp_path / f"cut-{cut}.tar"
        shard.write_bytes(whole[:cut])
        entries = fetch_all(TarDataset([shard]))
        num_whole, rest = divmod(cut, stride)
        for number in range(num_whole):
            assert {n: bytes(d) for n, d in entries[number].fields.items()} == expected[number]
        for entry in entries[num_whole:]:
            if isinstance(entry, BadSample):
                places = f"({cut}|{cut // BLOCK * BLOCK})"
                assert re.match(rf"{shard.name} is .*at byte {places}", entry.reason)
            else:  # cut between the files of a sample, or behind its last byte: what is there is whole
                assert entry.image == expected[num_whole]["jpg"]
        if 0 < rest < BLOCK + 900 or 3 * BLOCK < rest < 4 * BLOCK:
            assert isinstance(entries[-1], BadSample)
        if rest == 0:
            assert len(entries) == num_whole


def test_damaged_header_is_not_taken_for_the_end(tmp_path: Path) -> None:
    """Tar readers stop silently at a damaged header: here a bad sample says what was lost."""
    place = 2 * 5 * BLOCK
    shard = flip(plain_shard(tmp_path / "a.tar", 4), place + 5, 0x10)
    reason = f"a.tar is damaged at byte {place}: what lies behind it cannot be found"
    entries = TarDataset([shard]).fetch([0, 1, 2])

    assert [type(entry) for entry in entries[:2]] == [Sample, Sample]
    assert entries[2] == BadSample(2, f"a.tar/(byte {place})", "read", reason)


@pytest.mark.parametrize("kind", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_cut_within_a_long_name(tmp_path: Path, kind: int) -> None:
    """A shard may end within the extra headers of a long name."""
    files = [("a.jpg", b"1"), (f"{LONG}/b.jpg", b"2")]
    data = tar_of(files, format=kind)
    for cut in range(2 * BLOCK + 1, 5 * BLOCK, 150):
        shard = tmp_path / f"{cut}.tar"
        shard.write_bytes(data[:cut])
        first, bad = fetch_all(TarDataset([shard]))

        assert (first.image, type(bad)) == (b"1", BadSample)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"is empty \(0 bytes\)"),
        (b"no tar", r"is not a tar file \(truncated header\)"),
        (b"<html>" * 400, "is not a tar file"),
        (bytes(10240), "holds no samples"),
        (tar_of([("README", b"x"), (".hidden", b"y")]), "holds no samples"),
        (gzip.compress(tar_of([("a.jpg", b"")]), mtime=0), "is compressed: decompress it"),
        (bz2.compress(tar_of([("a.jpg", b"")])), "is compressed: decompress it"),
        (lzma.compress(tar_of([("a.jpg", b"")])), "is compressed: decompress it"),
    ],
    ids=["empty", "short", "text", "zeros", "no keys", "gz", "bz2", "xz"],
)
def test_what_is_no_shard_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    """The error names the shard and says what it is instead; compression rules out random access."""
    path = tmp_path / "a.tar"
    path.write_bytes(content)

    assert_refused(f"^{path} {message}", [path], by=TarDataset)


def test_missing_shards_are_counted(tmp_path: Path) -> None:
    """The error names the first shard that is missing and how many are."""
    shards = [plain_shard(tmp_path / "0.tar"), tmp_path / "1.tar", tmp_path / "2.tar"]

    assert_refused(r"1\.tar is not a file \(2 of 3 shards are missing\)", shards, by=TarDataset)


def test_shard_that_changed_gives_bad_samples(tmp_path: Path) -> None:
    """A shard that was replaced or deleted after opening is noticed; other shards go on."""
    shards = [plain_shard(tmp_path / f"{number}.tar", 2) for number in range(3)]
    dataset = TarDataset(shards)
    plain_shard(tmp_path / "new.tar", 5).rename(shards[0])
    shards[1].unlink()
    changed, gone, fine = dataset.fetch([0, 2, 4])
    reason = "the shard cannot be read: "

    assert changed == BadSample(
        0, "0.tar/000", "read", reason + "it has changed since it was indexed: open it again"
    )
    assert gone == BadSample(2, "1.tar/000", "read", reason + "No such file or directory")
    assert fine.image == b"000" * 300


def test_more_shards_than_may_be_mapped_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shards are unmapped and mapped again as needed, also under threads."""
    monkeypatch.setattr("readers.storage.shards._MOST_OPEN_SHARDS", 2)
    shards = [plain_shard(tmp_path / f"{number}.tar", 3) for number in range(7)]
    dataset = TarDataset(shards)
    order = np.random.default_rng(0).permutation(len(dataset))
    with ThreadPoolExecutor(4) as pool:
        batches = list(pool.map(dataset.fetch, [order] * 8))

    for batch in batches:
        assert [s.index for s in batch] == order.tolist()
        assert [s.label for s in batch] == (order % 3).tolist()
        assert [bytes(s.image) for s in batch] == [b"%03d" % (place % 3) * 300 for place in order]


@pytest.mark.parametrize(
    "files",
    [
        [("a.jpg", b"12"), ("a.cls", b"2"), ("b.jpg", b"34")],  # other label
        [("a.jpg", b"123"), ("a.cls", b"1"), ("b.jpg", b"34")],  # other size
        [("c.jpg", b"12"), ("c.cls", b"1"), ("b.jpg", b"34")],  # other key
        [("a.png", b"12"), ("a.cls", b"1"), ("b.jpg", b"34")],  # other field
        [("b.jpg", b"34"), ("a.jpg", b"12"), ("a.cls", b"1")],  # other order
        [("a.jpg", b"12"), ("a.cls", b"1")],  # fewer
    ],
)
def test_fingerprint_tells_shards_apart(tmp_path: Path, files: list[tuple[str, bytes]]) -> None:
    """Whatever decides which sample is which changes the fingerprint; folder and times do not."""
    plain = [("a.jpg", b"12"), ("a.cls", b"1"), ("b.jpg", b"34")]
    prints = []
    for name, content in {"one": plain, "two": plain, "three": files}.items():
        (tmp_path / name).mkdir()
        shard = write_tar(tmp_path / name / "a.tar", content)
        os.utime(shard, (len(name), 1))
        prints.append(TarDataset([shard]).fingerprint)

    assert prints[0] == prints[1] != prints[2]


def test_a_mask_is_not_the_image(tmp_path: Path) -> None:
    """The image and its size are those of the photograph, also where a mask is stored before it."""
    sizes = {"a.mask.png": (7, 5), "a.png": (40, 30), "b.mask.2.png": (7, 5)}
    images = {name: by_pillow("PNG", Image.new("L", size)) for name, size in sizes.items()}
    shard = write_tar(tmp_path / "a.tar", list(images.items()))
    sample, only_a_mask = TarDataset([shard]).fetch([0, 1])

    assert (sample.image, sample.size) == (images["a.png"], (30, 40))
    assert sample.fields["mask.png"] == images["a.mask.png"]
    assert only_a_mask.image is None


def test_shards_of_one_name_are_told(tmp_path: Path) -> None:
    """Keys begin with the names of shards, and do not tell their samples apart then."""
    for folder in "abc":
        (tmp_path / folder).mkdir()
        write_tar(tmp_path / folder / "x.tar", [("0.cls", b"0")])
    match = "2 shards with the name of an earlier one, such as x.tar"
    assert len(open_with_warning(match, str(tmp_path / "*" / "x.tar"))) == 3
