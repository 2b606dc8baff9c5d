import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from torchvision.datasets import ImageFolder

from readers import BadSample, FolderDataset, ListDataset, Sample
from tests.support.annotated import put
from tests.support.entries import fetch_all
from tests.support.opening import assert_refused

# Names that are easy to sort or to match wrongly.
TREE = (
    "cat/b.jpg",
    "cat/a.JPEG",
    "cat/deep/er/c.png",
    "cat/deep-er/d.webp",
    "cat/deep/e.tiff",
    "Dog/1.bmp",
    "Dog/10.ppm",
    "Dog/2.pgm",
    "äpfel/with space.tif",
    "äpfel/x.jpg.jpg",
)
NO_IMAGES_FOUND = r"holds no images: .* \.jpg, \.jpeg, .*\.jpx; or videos"
NO_IMAGES = ("cat/notes.txt", "Dog/jpg", "readme.md")


def grow(root: Path, names: Sequence[str]) -> Path:
    """Write a file for each name; its content is its name."""
    return put(root, {name: name for name in names})


def keys_of(dataset: FolderDataset | ListDataset) -> list[str]:
    return [entry.key for entry in fetch_all(dataset)]


def test_class_folders_agree_with_torchvision(tmp_path: Path) -> None:
    """Files, labels, classes and their order are those of ImageFolder."""
    root = grow(tmp_path, TREE + NO_IMAGES)
    expected = ImageFolder(str(root))
    dataset = FolderDataset(root)
    samples = dataset.fetch(np.arange(len(dataset)))

    assert [(str(root / s.key), s.label) for s in samples] == expected.samples
    assert list(dataset.class_names) == expected.classes
    assert [bytes(s.image).decode() for s in samples] == [s.key for s in samples]
    assert len(dataset) == len(TREE)


def test_hidden_names_are_passed_over(tmp_path: Path) -> None:
    """Files and folders that begin with a dot are no data, at any depth."""
    hidden = ("cat/._a.jpg", ".cache/x.jpg", "cat/.ipynb_checkpoints/b.jpg", ".loose.jpg")
    dataset = FolderDataset(grow(tmp_path, ("cat/a.jpg", "dog/b.gif", *hidden)))

    assert keys_of(dataset) == ["cat/a.jpg", "dog/b.gif"]
    assert dataset.class_names == ("cat", "dog")


def test_images_in_the_folder_itself_have_no_classes(tmp_path: Path) -> None:
    """A flat folder gives the label -1 and no class names; folders without images do not matter."""
    dataset = FolderDataset(grow(tmp_path, ("b.jpg", "a.png", "licences/text.md")))

    assert [(s.key, s.label) for s in dataset.fetch([0, 1])] == [("a.png", -1), ("b.jpg", -1)]
    assert dataset.class_names == ()


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    """Linked files and folders count, and a link to a folder above it ends the walk."""
    outside = grow(tmp_path / "outside", ("far.jpg", "deep/er.jpg"))
    root = grow(tmp_path / "root", ("cat/a.jpg",))
    (root / "cat" / "file.jpg").symlink_to(outside / "far.jpg")
    (root / "cat" / "linked").symlink_to(outside)
    (root / "dog").symlink_to(outside)
    (root / "cat" / "again").symlink_to(root)

    assert keys_of(FolderDataset(root)) == [
        "cat/a.jpg",
        "cat/file.jpg",
        "cat/linked/far.jpg",
        "cat/linked/deep/er.jpg",
        "dog/far.jpg",
        "dog/deep/er.jpg",
    ]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        # Whether the folders are classes cannot be told when images lie beside them.
        (("loose.jpg", "cat/a.jpg"), r"holds images itself \(loose.jpg\) and in folders \(cat\)"),
        # A class that lost its images would renumber the classes behind it.
        (
            ("cat/a.jpg", "bird/notes.txt", "dog/b.jpg"),
            r"has a class folder without images \(bird\): put some there",
        ),
        *((names, NO_IMAGES_FOUND) for names in ((), ("readme.md",), ("cat/notes.txt",))),
        (None, r"cannot be listed \(No such file or directory\)"),
    ],
)
def test_folders_that_are_refused(
    tmp_path: Path, names: tuple[str, ...] | None, message: str
) -> None:
    """The error names the folder and what is wrong with it."""
    root = tmp_path / "nowhere" if names is None else grow(tmp_path, names)

    assert_refused(rf"^{root} {message}", root, by=FolderDataset)


def test_unreadable_files_leave_their_neighbours_alone(tmp_path: Path) -> None:
    """A file that went away, a pipe and a folder are bad samples; the others are read."""
    root = grow(tmp_path, ("a.jpg", "b.jpg", "c.jpg", "d.jpg", "e.jpg"))
    put(root, {"e.jpg": b""})  # what an empty file lacks is for the reader of headers to say
    dataset = FolderDataset(root)
    for name in ("b.jpg", "c.jpg", "d.jpg"):
        (root / name).unlink()
    os.mkfifo(root / "c.jpg")  # waits for a writer when opened the usual way
    (root / "d.jpg").mkdir()

    assert dataset.fetch([4, 1, 2, 3, 0]) == [
        Sample(4, "e.jpg", {"jpg": b""}),
        BadSample(1, "b.jpg", "read", "the file cannot be read: No such file or directory"),
        BadSample(2, "c.jpg", "read", "the file cannot be read: not a regular file"),
        BadSample(3, "d.jpg", "read", "the file cannot be read: not a regular file"),
        Sample(0, "a.jpg", {"jpg": b"a.jpg"}),
    ]


# What makes another dataset of the one with a.jpg and b.jpg in two classes.
OTHERS: dict[str, Callable[[Path], object]] = {
    "rename": lambda root: (root / "cat" / "a.jpg").rename(root / "cat" / "aa.jpg"),
    "resize": lambda root: put(root, {"cat/a.jpg": "longer than before"}),
    "a class in front, which renumbers the others": lambda root: grow(root, ["A/new.jpg"]),
    "add": lambda root: grow(root, ["cat/new.jpg"]),
    "a mask beside": lambda root: grow(root, ["cat/a.mask.png"]),
    "another mask beside": lambda root: put(root, {"cat/a.mask.png": "longer than its name"}),
    "another label": lambda root: put(root, {"list.txt": "cat/a.jpg 1"}),
}


def test_fingerprint_tells_datasets_apart(tmp_path: Path) -> None:
    """Another name, size, label, number of files or neighbour is another dataset; a file of nobody is not."""
    prints = set()
    for name, change in OTHERS.items():
        root = grow(tmp_path / name, ("cat/a.jpg", "dog/b.jpg"))
        before = FolderDataset(root).fingerprint
        assert FolderDataset(grow(root, ["cat/z.json"])).fingerprint == before
        listed = ListDataset(put(root, {"list.txt": "cat/a.jpg 0"}) / "list.txt").fingerprint
        change(root)
        prints |= {before, FolderDataset(root).fingerprint}
        prints |= {listed, ListDataset(root / "list.txt").fingerprint} if "label" in name else set()

    assert len(prints) == len(OTHERS) + 2


LIST = """\
# path and label
cat/a.JPEG 3
  cat/b.jpg\t0\t

Dog/../Dog/1.bmp
äpfel/with space.tif 12
#cat/deep/e.tiff 5
cat/deep/er/c.png -1
"""


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_list_file(tmp_path: Path, ending: str) -> None:
    """Paths may hold spaces, labels are optional, comments and empty lines do not count."""
    grow(tmp_path, TREE)
    (tmp_path / "list.txt").write_bytes(LIST.replace("\n", ending).encode("utf-8-sig"))
    dataset = ListDataset(tmp_path / "list.txt")

    assert [(s.key, s.label, bytes(s.image).decode()) for s in dataset.fetch(range(5))] == [
        ("cat/a.JPEG", 3, "cat/a.JPEG"),
        ("cat/b.jpg", 0, "cat/b.jpg"),
        ("Dog/1.bmp", -1, "Dog/1.bmp"),
        ("äpfel/with space.tif", 12, "äpfel/with space.tif"),
        ("cat/deep/er/c.png", -1, "cat/deep/er/c.png"),
    ]
    assert (len(dataset), dataset.class_names) == (5, ())


def test_list_may_name_files_without_extension(tmp_path: Path) -> None:
    """What a list names is an image by that, and what is missing shows at the fetch."""
    grow(tmp_path, ("photo", "other.dat"))
    (tmp_path / "list.lst").write_text("photo\nother.dat 1\nmissing.jpg\n")
    photo, other, missing = ListDataset(tmp_path / "list.lst").fetch([0, 1, 2])
    reason = "the file cannot be read: No such file or directory"

    assert (photo.image, other.image) == (b"photo", b"other.dat")
    assert missing == BadSample(2, "missing.jpg", "read", reason)


@pytest.mark.parametrize("name", ["../out.jpg", "cat/../../out.jpg", ".."])
def test_relative_path_must_not_leave_the_folder(tmp_path: Path, name: str) -> None:
    """A list cannot reach behind its own folder; the error names the line."""
    grow(tmp_path, ("out.jpg", "in/cat/a.jpg"))
    (tmp_path / "in" / "list.txt").write_text(f"cat/a.jpg\n{name} 4\n")
    match = r"list.txt, line 2: \.\..* leaves the folder of the list"

    assert_refused(match, tmp_path / "in" / "list.txt", by=ListDataset)


def test_absolute_paths_are_allowed_and_leave_no_trace(tmp_path: Path) -> None:
    """Absolute paths work, in files and in sequences, and the fingerprint does not hold them."""
    prints = []
    for place in ("here", "there"):
        root = grow(tmp_path / place, ("data/cat/a.jpg", "data/dog/b.jpg", "lists/x"))
        paths = [root / "data/cat/a.jpg", root / "data/dog/b.jpg"]
        (root / "lists" / "all.txt").write_text("\n".join(map(str, paths)))
        from_file = ListDataset(root / "lists" / "all.txt")
        from_paths = ListDataset(paths)
        prints += [from_file.fingerprint, from_paths.fingerprint]

        assert keys_of(from_file) == ["cat/a.jpg", "dog/b.jpg"]
        assert from_paths.fetch([1])[0].image == b"data/dog/b.jpg"
    assert len(set(prints)) == 1


def test_relative_paths_in_a_sequence_begin_where_the_program_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller's own paths are relative to the working directory, and may leave it."""
    grow(tmp_path, ("out.jpg", "in/a.jpg"))
    monkeypatch.chdir(tmp_path / "in")
    samples = ListDataset(["a.jpg", "../out.jpg"]).fetch([0, 1])

    assert [s.image for s in samples] == [b"in/a.jpg", b"out.jpg"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "names no files: write one path per line"),
        (b"# nothing\n\n", "names no files: write one path per line"),
        (b"a.jpg -2\n", "line 1: the label '-2' is negative: a class number is from 0"),
        *(
            (b"a.jpg " + b"9" * n, "line 1: the label .*(a class number is|is not a whole number)")
            for n in (19, 5000)
        ),
        (b"# names\na b.jpg\na b.jpg cat\n", "line 3: the label 'cat' is no number: .* a CSV with"),
        (b"\xff\xd8\xff\xe0", "cannot be read as a list of files"),
        (None, "cannot be read as a list of files"),
    ],
)
def test_bad_list_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    """The error names the list and what is wrong with it."""
    path = tmp_path / "list.txt"
    put(tmp_path, {} if content is None else {"list.txt": content})

    assert_refused(f"{path}.*{message}", path, by=ListDataset)
    assert_refused("the list of files is empty", [], by=ListDataset)


BESIDE = (
    "cat/a.jpg",
    "cat/a.json",
    "cat/a.mask.png",
    "cat/deep/a.JPG",
    "cat/deep/a.Seg.PNG",
    "cat/deep/b.mask.png",
    "cat/x.mask.png.png",
    "dog/a.b.jpg",
    "dog/a.b.mask.0.png",
    "dog/a.b.mask.12.png",
    "dog/a.json",
    "dog/mask.png",
    "dog/other.json",
)


def test_what_lies_beside_an_image_belongs_to_it(tmp_path: Path) -> None:
    """Masks and json of the same name are fields; a mask without neighbour is an image of its own."""
    dataset = FolderDataset(grow(tmp_path, BESIDE))
    fields = {entry.key: list(entry.fields) for entry in fetch_all(dataset)}

    assert fields == {
        "cat/a.jpg": ["jpg", "json", "mask.png"],
        "cat/x.mask.png.png": ["png"],
        "cat/deep/a.JPG": ["jpg", "seg.png"],
        "cat/deep/b.mask.png": ["png"],
        "dog/a.b.jpg": ["jpg", "mask.0.png", "mask.12.png"],
        "dog/mask.png": ["png"],
    }
    sample = dataset.fetch([list(fields).index("cat/deep/a.JPG")])[0]
    assert (sample.fields["seg.png"], sample.image) == (b"cat/deep/a.Seg.PNG", b"cat/deep/a.JPG")


def test_what_lies_beside_images_without_classes(tmp_path: Path) -> None:
    """The same holds where images lie in the folder itself."""
    dataset = FolderDataset(grow(tmp_path, ("a.jpg", "a.mask.png", "b.jpg", "c.json")))
    assert [list(entry.fields) for entry in dataset.fetch([0, 1])] == [["jpg", "mask.png"], ["jpg"]]
    assert len(dataset) == 2


def test_unreadable_neighbour_makes_the_sample_bad(tmp_path: Path) -> None:
    """A mask that cannot be read is noticed, and takes no other sample with it."""
    grow(tmp_path, ("a.jpg", "a.mask.png", "b.jpg"))
    dataset = FolderDataset(tmp_path)
    (tmp_path / "a.mask.png").unlink()
    bad, good = dataset.fetch([0, 1])

    assert (bad.stage, isinstance(good, Sample)) == ("read", True)
