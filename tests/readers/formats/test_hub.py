"""Repositories of the Hugging Face Hub: which files are which split, what is downloaded, and what the cache lacks."""

import json
import os
import pickle
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("huggingface_hub")

import huggingface_hub
import huggingface_hub.constants  # older versions import parts only then
import huggingface_hub.file_download
import huggingface_hub.utils
import pyarrow as pa
import pyarrow.parquet as parquet

from readers import Sample, SourceError, open_dataset
from readers.formats.hub.card import HubAddress, choose_config, read_card
from readers.formats.hub.dataset import _choose
from readers.formats.hub.repository import _in_folder
from tests.support.annotated import put
from tests.support.hub_server import COMMIT, NAME, Hub, hub
from tests.support.lerobot import TOP, Robot, change_info
from tests.support.opening import assert_refused
from tests.support.remote_data import assert_same_samples

ADDRESS = f"hf://datasets/{NAME}"
CARD = """---
configs:
- config_name: default
  data_files:
  - split: train
    path: data/train-*
  - split: test
    path: data/test-*
dataset_info:
  features:
  - name: image
    dtype: image
  - name: breed
    dtype:
      class_label:
        names:
          '0': cat
          '1': dog
          '2': horse
---
# tiny
"""
PARTS = (
    "train-00000-of-00002",
    "train-00001-of-00002",
    "test-00000-of-00001",
    "other-00000-of-00001",
)


def write_table(path: Path, numbers: list[int], label: str = "breed") -> None:
    """Rows as datasets writes them, without its note of what the columns are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    images = [{"bytes": b"image %d" % number, "path": None} for number in numbers]
    parquet.write_table(pa.table({"image": images, label: [one % 3 for one in numbers]}), path)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository as a folder: two splits on its card, and a file that belongs to none."""
    for number, name in enumerate(PARTS):
        write_table(tmp_path / "clone" / "data" / f"{name}.parquet", [2 * number, 2 * number + 1])
    (tmp_path / "clone" / "README.md").write_text(CARD)
    return tmp_path / "clone"


def use(monkeypatch: pytest.MonkeyPatch, *, offline: bool) -> None:
    """Choose whether this process may ask the Hub; before version 1 its sessions remember what was chosen."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", offline)
    getattr(huggingface_hub.utils, "reset_sessions", lambda: None)()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache that this process uses."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.setattr(huggingface_hub.constants, name, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def offline(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use(monkeypatch, offline=True)
    return cache


@pytest.fixture
def server(clone: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """The Hub with that repository, for a process that may use it."""
    del cache
    constants = huggingface_hub.constants
    with hub(clone) as running:
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE
        template = template.replace("https://huggingface.co", running.url)
        monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        use(monkeypatch, offline=False)
        monkeypatch.setattr(constants, "ENDPOINT", running.url)
        for module in (constants, huggingface_hub.file_download):  # before version 1 it has its own
            monkeypatch.setattr(module, "HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
        # HfApi reads the endpoint as it is imported.
        init = partialmethod(huggingface_hub.HfApi.__init__, endpoint=running.url)
        monkeypatch.setattr(huggingface_hub.HfApi, "__init__", init)
        yield running


def store(clone: Path, cache: Path, without: str = "") -> Path:
    """Put a folder into a cache as the Hub's library lays it out."""
    root = cache / f"datasets--{NAME.replace('/', '--')}"
    for file in sorted(path for path in clone.rglob("*") if path.is_file()):
        name = file.relative_to(clone)
        if str(name) != without:
            link, blob = (
                root / "snapshots" / COMMIT / name,
                root / "blobs" / str(name).replace("/", "-"),
            )
            blob.parent.mkdir(parents=True, exist_ok=True)
            link.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, blob)
            link.symlink_to(os.path.relpath(blob, link.parent))
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text(COMMIT)
    return root / "snapshots" / COMMIT


def images(dataset: Any) -> list[str]:
    found = dataset.fetch(range(len(dataset)))
    return [bytes(one.image).decode() for one in found if isinstance(one, Sample)]


def write_card(root: Path, head: str) -> None:
    (root / "README.md").write_text(f"---\n{head}\n---\n")


class TestCards:
    """Files and classes are those that Hugging Face's datasets finds for the same folder."""

    @pytest.mark.parametrize(
        ("configs", "files"),
        [
            (None, ["data/train-00000-of-00002", "data/train-00001-of-00002", "data/test-00000-of-00001"]),
            (None, ["train/a", "train/b", "val/c"]),
            (None, ["train", "valid", "my-test"]),
            (None, ["a", "b"]),
            ([{"data_files": "one/*.parquet"}], ["one/b", "one/a", "two/c"]),
            ([{"data_files": ["x/b.parquet", "x/a.parquet"]}], ["x/a", "x/b", "x/c"]),
            ([{"data_files": [{"split": "train", "path": ["b*", "a/**"]}, {"split": "extra", "path": "c/d/e.parquet"}]}],
             ["b1", "b2", "a/x/y", "a/z", "c/d/e", "c/d/f"]),
            ([{"data_files": [{"split": "train", "path": "**/t-[0-1]*.parquet"}]}], ["u/t-0", "u/v/t-1", "t-1", "t-2"]),
            ([{"data_dir": "sub"}], ["sub/train-1", "sub/test-1", "train-2"]),
            ([{"data_files": [{"split": "validation", "path": "d/*"}]}], ["d/a", "d/b", "e"]),
            ([{"data_files": "*.parquet"}], ["a", ".b", "__c", "e/f"]),
        ],
    )  # fmt: skip
    def test_splits(self, configs: Any, files: list[str], tmp_path: Path) -> None:
        """By the names of files, and by every way in which a card tells them."""
        datasets = pytest.importorskip("datasets")
        for number, name in enumerate(files):
            write_table(tmp_path / "r" / f"{name}.parquet", [number])
        head = json.dumps({"configs": [{"config_name": "default", **one} for one in configs or []]})
        (tmp_path / "r" / "README.md").write_text(f"---\n{head[1:-1]}\n---\n" if configs else "")
        own = datasets.load_dataset_builder(str(tmp_path / "r"), cache_dir=str(tmp_path / "c"))
        wanted = {
            str(split): [Path(one).relative_to(tmp_path / "r").as_posix() for one in found]
            for split, found in own.config.data_files.items()
        }
        told = _config_of(tmp_path / "r")

        names = wanted if configs or len(wanted) > 1 else [None]  # without words there is but one
        assert [sorted(told(split)) for split in names] == [sorted(one) for one in wanted.values()]

    def test_class_names(self, clone: Path) -> None:
        """Of a column that only the card calls one of classes, which is then the label."""
        dataset = open_dataset(clone, split="train")

        assert dataset.class_names == ("cat", "dog", "horse")
        assert dataset.column("label").tolist() == [0, 1, 2, 0]
        assert len(dataset.where("label == 'cat'")) == 2
        assert images(dataset) == [f"image {number}" for number in range(4)]

    def test_configs(self, clone: Path) -> None:
        """Several without a default one have to be chosen from."""
        head: list[dict[str, Any]]
        head = [{"config_name": name, "data_files": f"data/{name}-*"} for name in ("train", "test")]
        write_card(clone, f"configs: {json.dumps(head)}")
        assert images(open_dataset(clone, config="test")) == ["image 4", "image 5"]
        for config, match in (
            (None, r"has the configs train, test: open one .* config='train'"),
            ("val", "has no config 'val': it has train, test"),
        ):
            assert_refused(match, clone, config=config)
        head[1]["default"] = True
        write_card(clone, f"configs: {json.dumps(head)}")
        assert len(open_dataset(clone)) == 2

    @pytest.mark.parametrize(
        ("head", "match"),
        [
            ("configs: [", "README.md of .* cannot be read"),
            ("configs: 7", "README.md of .* cannot be read"),
            (
                "configs: [{config_name: a, data_files: [{split: a}]}]",
                r"required field `path` - at `\$\.configs\[0\]\.data_files\[0\]`",
            ),
            ("configs: [x]", r"got `str` - at `\$\.configs\[0\]`"),
            (
                "configs: [{config_name: a, data_files: [x, {split: a, path: b}]}]",
                "paths with and without a split",
            ),
            ("configs: [{config_name: a, data_files: ../x.parquet}]", "which lie elsewhere"),
            ("configs: [{config_name: a, data_files: 'http://x/y'}]", "which lie elsewhere"),
            ("configs: [{config_name: a, data_files: nothing-*}]", "has no files 'nothing-"),
            (
                "dataset_info: {features: [{name: a, dtype: {class_label: {names: {'1': b}}}}]}",
                "numbers of classes have gaps",
            ),
        ],
    )
    def test_bad_cards(self, clone: Path, head: str, match: str) -> None:
        """One sentence each."""
        write_card(clone, head)
        assert_refused(match, clone)

    def test_other_readmes(self, tmp_path: Path) -> None:
        """They are none of our business: the folder is opened as it was before."""
        write_table(tmp_path / "a.parquet", [1], label="label")
        for text in ("# configs:\n", "---\ntitle: [\n---\n", "---\nlicense: mit\n---\n"):
            (tmp_path / "README.md").write_text(text)
            assert type(open_dataset(tmp_path)).__name__ == "ParquetDataset"
        match = r"config='a' is for repositories of the Hugging Face Hub"
        assert_refused(match, tmp_path, config="a")


def _config_of(root: Path) -> Callable[[str | None], list[str]]:
    """What we choose of a folder, split by split."""
    repository = _in_folder(root)
    if repository is None:
        return lambda split: [
            Path(one.text).relative_to(root).as_posix()
            for one in open_dataset(root, split=split)._locations  # type: ignore[attr-defined]
        ]
    config = choose_config(repository.configs(), None, "it")
    return lambda split: _choose(repository, config, split)


class TestHub:
    def test_only_what_is_needed_is_downloaded(self, server: Hub, clone: Path) -> None:
        """The card and the files of the split; the samples are those of the folder."""
        dataset = open_dataset(ADDRESS, split="train")
        again = pickle.loads(pickle.dumps(dataset))
        open_dataset(f"{ADDRESS}@{COMMIT}", split="train")

        files = ["README.md", *(f"data/{name}.parquet" for name in PARTS[:2])]
        assert sorted(server.served) == files
        assert images(dataset) == images(open_dataset(clone, split="train"))
        assert (dataset.repository, dataset.commit) == (NAME, COMMIT)
        assert dataset.class_names == ("cat", "dog", "horse")
        assert (again.fingerprint, again.class_names) == (dataset.fingerprint, dataset.class_names)

    @pytest.mark.usefixtures("server")
    def test_labels_of_ones_own(self) -> None:
        """They replace those of the repository, with the names of their classes."""
        names = ["dog", "dog", "cat", "dog"]
        dataset = open_dataset(ADDRESS, split="train", labels=names, classes=["dog", "cat"])
        assert dataset.column("label").tolist() == [0, 0, 1, 0]
        assert dataset.class_names == ("dog", "cat")

    def test_another_commit_is_another_dataset(self, server: Hub) -> None:
        """Also where the files are the same; the old one can still be named."""
        first = open_dataset(ADDRESS, split="test")
        server.commit = COMMIT[::-1]
        second = open_dataset(ADDRESS, split="test")
        assert images(first) == images(second)
        assert first.fingerprint != second.fingerprint

    def test_what_was_downloaded_is_read_offline(
        self, server: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A split that was not is refused, not taken for smaller than it is."""

        def fingerprint(*, offline: bool) -> str:
            use(monkeypatch, offline=offline)
            return open_dataset(ADDRESS, split="train").fingerprint

        online = fingerprint(offline=False)
        [file] = cache.glob(f"datasets--*/snapshots/{COMMIT}/data/{PARTS[1]}.parquet")
        file.unlink()
        match = r"1 of 2 files \(data/train-00001.*\) are not in the cache .*unset HF_HUB_OFFLINE"
        if not hasattr(
            huggingface_hub, "get_cached_repo_tree"
        ):  # version 2 lists all files of a repository
            match = r"holds 1 of the 2 files data/train-\*.*: download the others"
        with pytest.raises(SourceError, match=match):
            fingerprint(offline=True)
        assert fingerprint(offline=False) == online
        server.shutdown()
        assert fingerprint(offline=True) == online

    @pytest.mark.parametrize(
        ("url", "options", "gated", "match"),
        [
            ("hf://datasets/me/nobody", {}, False, r"no such dataset, or you may not see it: .*hf auth login"),
            (f"hf://datasets/{NAME}@dev", {}, False, "it has no such revision"),
            (f"hf://datasets/{NAME}/data/x-*", {}, False, "has no files 'data/x-"),
            (f"hf://datasets/{NAME}/data", {}, False, "holds the splits train, test, other"),
            (f"hf://datasets/{NAME}", {"split": "dev"}, False, "has no split 'dev': its splits are train, test"),
            (f"hf://datasets/{NAME}/data/{PARTS[0]}.parquet", {}, True, "ask for access on its page"),
        ],
    )  # fmt: skip
    def test_refusals(
        self, server: Hub, url: str, options: dict[str, str], gated: bool, match: str
    ) -> None:
        """What the Hub refuses, in sentences that say what to do."""
        server.gated = gated
        assert_refused(match, url, **options)

    @pytest.mark.usefixtures("server")
    def test_images_are_opened_by_their_folder(self, clone: Path) -> None:
        """A repository of folders of classes."""
        shutil.rmtree(clone / "data")
        names = [f"{split}/{name}/0.jpg" for split in ("train", "test") for name in ("cat", "dog")]
        put(clone, {"README.md": "# no card\n", **dict.fromkeys(names, b"\xff\xd8 image")})
        dataset = open_dataset(ADDRESS, split="test")
        assert dataset.class_names == ("cat", "dog")
        assert [one.key for one in dataset.fetch([0, 1])] == ["cat/0.jpg", "dog/0.jpg"]
        assert len(open_dataset(f"{ADDRESS}/train")) == 2


class TestCache:
    """A cache that was filled in another way knows no list of the repository's files."""

    def test_it_is_read(self, clone: Path, offline: Path) -> None:
        """By its name, and by its folder."""
        snapshot = store(clone, offline)
        named = open_dataset(ADDRESS, split="train")
        assert images(named) == [f"image {number}" for number in range(4)]
        assert open_dataset(snapshot, split="train").fingerprint == named.fingerprint
        one = open_dataset(f"{ADDRESS}/data/{PARTS[1]}.parquet")
        assert images(one) == ["image 2", "image 3"]

    def test_a_part_of_it_is_refused(self, clone: Path, offline: Path) -> None:
        """Files that count themselves tell how many there are."""
        snapshot = store(clone, offline, without=f"data/{PARTS[1]}.parquet")
        match = r"holds 1 of the 2 files data/train-\*-of-00002.parquet: download the others"
        train = {"split": "train"}
        for source, options in (
            (ADDRESS, train),
            (snapshot, train),
            (f"{ADDRESS}/data/train-*", {}),
        ):
            assert_refused(match, source, **options)
        assert len(open_dataset(snapshot, split="test")) == 2

    @pytest.mark.parametrize(
        ("source", "library", "match"),
        [
            (f"hf://datasets/{NAME}", True, "it is not in the cache: unset HF_HUB_OFFLINE"),
            ([f"hf://datasets/{NAME}", "more.parquet"], True, "a list must not hold hf://"),
            (f"hf://datasets/{NAME}", False, r"huggingface_hub.*pip install 'gpu-aug\[hf\]'"),
        ],
    )
    @pytest.mark.usefixtures("offline")
    def test_what_is_not_there(
        self, monkeypatch: pytest.MonkeyPatch, source: Any, library: bool, match: str
    ) -> None:
        """Nothing is downloaded."""
        if not library:
            monkeypatch.setitem(sys.modules, "huggingface_hub", None)
        assert_refused(match, source)


class TestRobots:
    """LeRobot datasets are read in parts, without their download."""

    @pytest.fixture
    def robot(self, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A dataset as lerobot uploads it: its card calls the tables the files of a split."""
        pytest.importorskip("obstore")
        monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "blocks"))
        monkeypatch.setattr("readers.storage.remote.cache._open", {})
        shutil.rmtree(clone / "data")
        Robot().write(clone)
        put(clone, {"README.md": CARD.replace("data/train-*", "data/*/*.parquet")})
        return clone

    def test_samples_are_those_of_the_folder(
        self, robot: Path, server: Hub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The token goes to the Hub, not to the host that sends large files, and not into pickles."""
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        server.token = "hf_secret"
        monkeypatch.setenv("HF_TOKEN", server.token)
        local = open_dataset(robot, delta_timestamps={"action": [0.0, 0.1]})
        remote = open_dataset(f"{ADDRESS}@main", delta_timestamps={"action": [0.0, 0.1]})
        pickled = pickle.dumps(remote)

        assert_same_samples(local, remote)
        assert_same_samples(local, pickle.loads(pickled))
        assert remote.fingerprint == local.fingerprint
        assert f"@{COMMIT}" in str(remote.root)
        assert b"hf_secret" not in pickled
        assert not list((robot.parent / "cache").rglob("*.mp4"))

    def test_it_lies_in_a_folder(
        self, robot: Path, server: Hub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of the repository, beside others; and its splits are those of episodes, not of the card."""
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        shutil.move(robot, robot.parent / "moved")
        shutil.move(robot.parent / "moved", robot / "arm")
        assert len(open_dataset(f"{ADDRESS}/arm", split="train")) == 14

    @pytest.mark.usefixtures("robot", "server")
    def test_another_format_is_given(self) -> None:
        """The tables of frames are opened as such."""
        assert_refused(
            "column 'note' of .* holds string",
            ADDRESS,
            format="parquet",
            split="train",
            image="note",
        )

    @pytest.mark.parametrize(
        ("token", "version", "match"),
        [
            ("hf_other", "v3.0", "ask for access on its page"),
            ("", "v2.1", "of version v2.1, .*convert_dataset_v21_to_v30"),
        ],
    )
    def test_refusals(
        self,
        robot: Path,
        server: Hub,
        monkeypatch: pytest.MonkeyPatch,
        token: str,
        version: str,
        match: str,
    ) -> None:
        """Of the Hub, and of the version."""
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        change_info(robot, codebase_version=version)
        server.token = token
        assert_refused(match, ADDRESS)

    def test_without_the_hub(self, robot: Path, offline: Path) -> None:
        """The files in the cache are read; a video that is not there costs its windows alone."""
        store(robot, offline, without=f"videos/{TOP}/chunk-000/file-001.mp4")
        found = open_dataset(ADDRESS).fetch(range(14))
        assert [isinstance(one, Sample) for one in found] == [True] * 8 + [False] * 6

    def test_what_was_downloaded_is_not_fetched(
        self, robot: Path, server: Hub, cache: Path
    ) -> None:
        """Where all files are in the cache."""
        store(robot, cache)
        dataset = open_dataset(ADDRESS)
        dataset.fetch([0])
        assert isinstance(dataset.root, Path)
        assert not [name for name in server.served if name.endswith(".mp4")]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("hf://datasets/a/b", ("a/b", None, "")),
        ("hf://datasets/mnist", ("mnist", None, "")),
        ("hf://datasets/a/b/", ("a/b", None, "")),
        ("hf://datasets/a/b@v1.0/data/x.parquet", ("a/b", "v1.0", "data/x.parquet")),
        ("hf://datasets/a/b/data/x@y.parquet", None),
        (
            "hf://datasets/a/b@refs/convert/parquet/x/0.parquet",
            ("a/b", "refs/convert/parquet", "x/0.parquet"),
        ),
        ("hf://datasets/a/b@refs%2Fpr%2F3/x", ("a/b", "refs/pr/3", "x")),
        ("hf://datasets/a/b@", None),
        ("hf://datasets/", None),
        ("hf://a/b", None),
        ("hf://models/a/b", None),
    ],
)
def test_addresses(url: str, expected: Any) -> None:
    """As the Hub's file system writes them; the others are refused with how they are written."""
    if expected is None:
        with pytest.raises(SourceError, match="write hf://datasets/NAMESPACE/NAME"):
            HubAddress.of(url)
        return
    assert HubAddress.of(url) == expected


def test_a_card_in_dos_lines() -> None:
    """With a mark of its byte order, and lines that end as on Windows."""
    found: Mapping[str, Any] = read_card("\ufeff" + CARD.replace("\n", "\r\n"), "it")
    assert found["default"].files["test"] == ["data/test-*"]
