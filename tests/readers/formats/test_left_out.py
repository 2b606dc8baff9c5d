"""Files of a folder that are not read are counted, all of them, when it is opened."""

import os
from pathlib import Path

from tests.support.annotated import put
from tests.support.one_other import jpeg
from tests.support.opening import assert_refused, warnings_of

AVIF = b"\0\0\0\x18ftypavif\0\0\0\0mif1miaf" + bytes(40)


def fill(folder: Path, files: dict[str, tuple[int, bytes]]) -> Path:
    """Write numbers of files: by ending, how many and what is in them."""
    named = [(f"{one:04}{ending}", text) for ending, (n, text) in files.items() for one in range(n)]
    return put(folder, dict(named))


def remark(folder: Path, **options: str) -> str:
    return " ".join(warnings_of(folder, **options))


def test_counts_are_true(tmp_path: Path) -> None:
    """Of all folders at any depth, more than 1000 names of one folder, and more than four kinds."""
    photos = {".jpg": (1100, jpeg(0)), ".avif": (1200, b"")}
    fill(tmp_path / "cat", photos)
    fill(tmp_path / "cat" / "deep" / "deeper", {".jpg": (1, jpeg(0)), ".avif": (30, b"")})
    fill(tmp_path / "dog", {".jpg": (2, jpeg(0)), ".heic": (3, b""), ".tga": (2, b"")})
    fill(tmp_path / "dog", {".jfif": (4, jpeg(0)), ".jxl": (1, b""), ".psd": (1, b"")})
    found = remark(tmp_path)

    assert "(1230 of .avif, 4 of .jfif, 3 of .heic, 2 of .tga, and files of 2 other kinds)" in found
    assert "1241 of 2344 files are no images that are read" in found


def test_content_decides(tmp_path: Path) -> None:
    """Pictures without an ending or with another one are counted; texts, tables and links that lead nowhere are not."""
    fill(
        tmp_path / "cat",
        {
            ".jpg": (2, jpeg(0)),
            "": (2, jpeg(0)),
            ".bin": (1, AVIF),
            ".dat": (1, b"\0\0\0\x18ftypisom"),
        },
    )
    fill(
        tmp_path / "cat",
        {".txt": (3, b"BMW and P1 photos"), ".csv": (1, b"The free table"), ".db": (1, bytes(600))},
    )
    (tmp_path / "cat" / "LICENSE").write_text("free software")
    (tmp_path / "cat" / "gone.raw2").symlink_to("nowhere")
    os.mkfifo(tmp_path / "cat" / "pipe.x")
    found = remark(tmp_path)

    assert "3 of no ending" in found or "2 of no ending" in found
    assert "1 of .bin" in found
    assert "1 of .dat" in found
    assert ".txt" not in found
    assert ".csv" not in found


def test_nothing_is_said_of_what_belongs_to_images(tmp_path: Path) -> None:
    """Nor of hidden files."""
    fill(tmp_path / "cat", {".jpg": (2, jpeg(0)), ".json": (2, b"{}"), ".mask.png": (2, b"")})
    (tmp_path / "cat" / ".hidden.avif").write_bytes(AVIF)

    assert "left out" not in remark(tmp_path)


def test_a_folder_of_nothing_else_names_them(tmp_path: Path) -> None:
    """The error says that there are pictures, and of which kind."""
    fill(tmp_path / "cat", {".avif": (3, AVIF)})
    assert_refused(r"holds no images.*3 of \.avif", tmp_path, format="folder")
