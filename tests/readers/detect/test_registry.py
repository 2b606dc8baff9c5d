"""A format is one row of the registry: a made-up one is opened and packed like the others."""

from collections.abc import Callable
from pathlib import Path

import pytest

from readers import Dataset, Sample, SourceError, open_dataset
from readers.detect.registry import FORMATS
from readers.prepare import PrepareError, pack
from readers.prepare.source import title_of
from tests.support.picture_book import PAGES, ROW, PictureBook

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reading.md"


@pytest.fixture
def book(tmp_path: Path, jpeg: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the made-up format, which has a row."""
    monkeypatch.setitem(FORMATS, ROW.name, ROW)
    folder = tmp_path / "book"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.jpg").write_bytes(jpeg(9, 8, seed=number))
    (folder / PAGES).write_text("".join(f"{number % 2} {number}.jpg\n" for number in (2, 0, 3, 1)))
    return folder


def contents(dataset: Dataset) -> list[tuple[bytes, int]]:
    found = dataset.fetch(range(len(dataset)))
    return [(bytes(one.image or b""), int(one.label)) for one in found if isinstance(one, Sample)]


def test_a_folder_is_detected(book: Path) -> None:
    """The hook of the row is asked before the pictures are taken for a folder of images."""
    dataset = open_dataset(book)

    assert isinstance(dataset, PictureBook)
    assert dataset.keys() == ["2.jpg", "0.jpg", "3.jpg", "1.jpg"]


def test_a_file_is_detected_by_its_suffix(book: Path) -> None:
    assert isinstance(open_dataset(book / PAGES), PictureBook)


def test_a_source_without_the_row_is_opened_otherwise(
    book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: nothing but the row makes the format known."""
    monkeypatch.delitem(FORMATS, ROW.name)

    assert not isinstance(open_dataset(book), PictureBook)


def test_the_format_is_opened_by_name_with_its_options(book: Path) -> None:
    dataset = open_dataset(book, format="book", first=2)  # type: ignore[call-overload]

    assert dataset.keys() == ["3.jpg", "1.jpg"]


def test_other_options_are_refused(book: Path) -> None:
    with pytest.raises(SourceError, match="picture book has no option 'last': it has first"):
        open_dataset(book, last=2)


@pytest.mark.usefixtures("book")
def test_a_url_is_refused() -> None:
    """The row does not say that the format is remote."""
    with pytest.raises(SourceError, match="picture book is read from this machine's files"):
        open_dataset("http://127.0.0.1/pages.book")


def test_the_hook_for_warnings_is_asked(book: Path) -> None:
    with pytest.warns(UserWarning, match="a page without a picture"):
        open_dataset(book, first=1)


def test_the_format_is_packed(book: Path, tmp_path: Path) -> None:
    pack(str(book), str(tmp_path / "packed"), num_workers=1)

    packed = contents(open_dataset(tmp_path / "packed"))
    assert packed == contents(open_dataset(book))
    assert [label for _, label in packed] == [0, 0, 1, 1]


def test_an_obstacle_to_packing_is_said(
    book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PictureBook, "packing_obstacle", "must not leave the library")

    with pytest.raises(PrepareError, match="book must not leave the library"):
        pack(str(book), str(tmp_path / "packed"), num_workers=1)


def test_the_format_has_its_title(book: Path) -> None:
    assert title_of(open_dataset(book)) == "picture book"


def test_the_table_of_formats_has_the_rows_of_the_registry() -> None:
    """docs/reading.md lists the formats in the order of the registry, with the remote ones and the extras."""
    kinds = [kind for kind in FORMATS.values() if kind.random_access]
    lines = PAGE.read_text().partition("| format |")[2].partition("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]

    assert [(row[0], row[5] == "yes", row[6]) for row in cells] == [
        (kind.title, kind.remote, kind.extra or "-") for kind in kinds
    ]
