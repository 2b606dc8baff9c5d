"""Data in object stores and on HTTP servers is the same data, byte for byte."""

import os
import pickle
import random
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("obstore")


from readers import SourceError, TarDataset, open_dataset
from readers.storage.remote import (
    RemoteBlob,
    StorageOptions,
    Url,
    configure,
    list_remote,
    open_remote,
    stream,
)
from tests.support.remote_data import MakeJpeg, assert_same_samples, plain, set_up, write_shards
from tests.support.s3_server import ROOT, Storage, storage

RANDOM = "s3://photos/odd/random + 50%.bin"
DATA = random.Random(7).randbytes(3_000_000)
PLACES = [
    (0, 1),
    (2_999_999, 3_000_000),
    (5, 5),
    (100, 700_000),
    (600_000, 600_010),
    (1 << 20, 2 << 20),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, jpeg: MakeJpeg) -> Path:
    """What the servers serve: a bucket with three shards and a file of random bytes."""
    root = tmp_path_factory.mktemp("served")
    write_shards(root / "photos" / "train", jpeg)
    (root / "photos" / "odd").mkdir()
    (root / "photos" / "odd" / "random + 50%.bin").write_bytes(DATA)
    (root / "photos" / "empty.tar").touch()
    return root


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Storage]:
    with storage(folder) as running:
        yield running


@pytest.fixture(scope="module")
def simple_server(folder: Path) -> Iterator[Storage]:
    """One that knows nothing of ranges."""
    with storage(folder, "--no-ranges") as running:
        yield running


@pytest.fixture(scope="module")
def s3(moto: Storage, folder: Path) -> Storage:
    """S3 with the same bucket."""
    moto.put("photos")
    for path in sorted(folder.rglob("*.*")):
        moto.put(str(path.relative_to(folder)), path.read_bytes())
    return moto


@pytest.fixture
def blob(server: Storage) -> RemoteBlob:
    """The random bytes, without a cache."""
    return open_remote(RANDOM, StorageOptions(endpoint=server.url, cache_bytes=0))


def is_read(blob: RemoteBlob, places: list[tuple[int, int]] = PLACES) -> bool:
    """Whether ranges of the random bytes are right."""
    return [bytes(data) for data in blob.read(places)] == [DATA[a:b] for a, b in places]


@pytest.fixture(autouse=True)
def _set_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    set_up(monkeypatch, tmp_path)
    yield
    configure(endpoint=None, anonymous=False, cache_bytes=None)


class TestWays:
    """Each scheme gives the bytes of the file."""

    @pytest.mark.parametrize("cache_bytes", [0, 1 << 24])
    @pytest.mark.parametrize("scheme", ["s3", "gs", "http", "moto"])
    def test_ranges(self, request: pytest.FixtureRequest, scheme: str, cache_bytes: int) -> None:
        """Overlapping, empty, first and last ranges, in the order asked for."""
        running: Storage = request.getfixturevalue("s3" if scheme == "moto" else "server")
        url = {"http": running.url, "gs": "gs:/"}.get(scheme, "s3:/")
        name = "random%20%2B%2050%25.bin" if scheme == "http" else "random + 50%.bin"
        options = StorageOptions(
            endpoint=running.url,
            anonymous=scheme == "gs",
            cache_bytes=cache_bytes,
            block_bytes=1 << 16,
        )

        blob = open_remote(f"{url}/photos/odd/{name}", options)

        assert (blob.name, blob.size_bytes) == ("random + 50%.bin", len(DATA))
        assert is_read(blob)
        assert is_read(blob)

    def test_the_emulator_of_gcs_is_found_by_its_variable(
        self, server: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """STORAGE_EMULATOR_HOST, with and without http://."""
        for value in (server.url, server.url.removeprefix("http://")):
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", value)
            options = StorageOptions(anonymous=True, cache_bytes=0)
            assert open_remote("gs://photos/train/train-000.tar", options).name == "train-000.tar"

    def test_many_random_ranges(self, blob: RemoteBlob) -> None:
        """Whatever is merged and split, each range gets its own bytes."""
        rng = random.Random(1)
        for _ in range(20):
            starts = [rng.randrange(len(DATA)) for _ in range(30)]
            places = [(a, min(a + int(10 ** rng.uniform(0, 6)), len(DATA))) for a in starts]
            assert is_read(blob, places)

    def test_neighbours_are_one_request(self, server: Storage, blob: RemoteBlob) -> None:
        """Close ones are merged, distant ones are not, and no more is read than lies between them."""
        server.count()
        blob.read([(0, 1000), (51_000, 52_000), (100_000, 101_000), (2_000_000, 2_000_010)])
        counted = server.count()
        assert (counted["requests"], counted["bytes"]) == (2, 101_010)

    def test_a_range_outside_the_file_is_an_error(self, blob: RemoteBlob) -> None:
        """Instead of fewer bytes than asked for."""
        with pytest.raises(OSError, match="are not in its"):
            blob.read([(0, blob.size_bytes + 1)])

    def test_parameters_of_a_signed_url_are_sent(self, server: Storage) -> None:
        """They go out with each request, and are not told to people."""
        blob = open_remote(
            f"{server.url}/photos/train/train-000.tar?X-Signature=sEcReT",
            StorageOptions(cache_bytes=0),
        )
        server.count()
        blob.read([(0, 10)])
        assert server.count()["signed"] == 1


class TestFiles:
    def test_content_is_read_ahead_in_few_requests(self, server: Storage) -> None:
        """A scan in small steps, and jumps back and forth, see the file."""
        content = open_remote(RANDOM, StorageOptions(endpoint=server.url)).content()
        server.count()
        assert b"".join(content[at : at + 9999] for at in range(0, len(content), 9999)) == DATA
        assert server.count()["requests"] == 1
        assert (bytes(content[-7:]), bytes(content[100:90])) == (DATA[-7:], b"")

    @pytest.mark.parametrize("kind", ["server", "simple_server"])
    def test_stream_reads_from_any_server(self, request: pytest.FixtureRequest, kind: str) -> None:
        """With ranges and without."""
        running: Storage = request.getfixturevalue(kind)
        file = stream(f"{running.url}/photos/odd/random%20%2B%2050%25.bin")
        assert file.read(10) == DATA[:10]
        assert file.read() == DATA[10:]

    def test_a_server_without_ranges_is_noticed(self, simple_server: Storage) -> None:
        """Its whole file is not taken for the part."""
        with pytest.raises(SourceError, match=r"gives no parts of files .* format='stream'"):
            open_remote(f"{simple_server.url}/photos/train/train-000.tar")


class TestRefusals:
    @pytest.mark.parametrize(
        ("look", "url", "told"),
        [
            (open_remote, "s3://photos/nothing.tar", "there is no such object"),
            (open_remote, "s3://nobody/train.tar", "there is no such object"),
            (open_remote, "{http}/nothing.tar", "there is no such object"),
            (list_remote, "s3://photos/nothing", "holds no objects"),
            (open_remote, "s3://photos/", "names no file"),
            (open_remote, "ftp://photos/train.tar", "begins with s3://, gs://"),
            (list_remote, "{http}/photos", "cannot be listed"),
        ],
    )
    def test_what_is_not_there(
        self, server: Storage, s3: Storage, look: Callable[..., Any], url: str, told: str
    ) -> None:
        """A missing object, a missing bucket, an empty folder and no name at all."""
        with pytest.raises(SourceError, match=told):
            look(url.format(http=server.url), StorageOptions(endpoint=s3.url))

    def test_secrets_are_not_told(self) -> None:
        """Neither the error, nor the options, nor the names of the cache hold keys, passwords or signatures."""
        options = StorageOptions(
            retries=0, settings=(("secret_access_key", "sEcReT"), ("access_key_id", "sEcReT"))
        )
        told = [repr(options)]
        for url in ("http://me:sEcReT@127.0.0.1:9/a.tar?X-Signature=sEcReT", "s3://photos/a.tar"):
            with pytest.raises(SourceError) as error:
                open_remote(
                    url, StorageOptions(**{**vars(options), "endpoint": "http://127.0.0.1:9"})
                )
            told.append(str(error.value))
        assert "sEcReT" not in " ".join(told)
        assert "127.0.0.1:9/a.tar" in told[1]

    @pytest.mark.parametrize(
        "option",
        ["retries=-1", "timeout_seconds=0", "concurrency=0", "block_bytes=0", "block_bytes=1000"],
    )
    def test_options_are_checked(self, option: str) -> None:
        """Each error names the option."""
        name, _, value = option.partition("=")
        with pytest.raises(ValueError, match=f"{name} must be"):
            StorageOptions(**{name: int(value)})

    def test_a_missing_library_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With the line that installs it."""
        monkeypatch.setitem(sys.modules, "obstore", None)
        with pytest.raises(SourceError, match=r"obstore.*pip install 'gpu-aug\[remote\]'"):
            open_remote("s3://photos/a.tar")


class TestDatasets:
    def test_lists_are_sorted_and_whole(self, s3: Storage) -> None:
        """All objects below a prefix, and none of a neighbour that begins alike."""
        s3.put("photos/train2/other.tar", b"x")
        found = list_remote("s3://photos/train", StorageOptions(endpoint=s3.url))
        assert found == [f"s3://photos/train/train-00{n}.tar" for n in range(3)]

    def test_a_folder_with_folders_beside_its_shards(self, folder: Path, server: Storage) -> None:
        """Shards of other folders are not mixed in: what is meant cannot be told, as on a disk."""
        options = {"endpoint": server.url, "cache_bytes": 0}

        with pytest.raises(SourceError, match=r"holds shards and the folder odd: give the shards"):
            open_dataset("s3://photos/", **options)
        assert len(open_dataset("s3://photos/train/", **options)) == len(
            open_dataset(folder / "photos" / "train")
        )

    @pytest.mark.parametrize("cache_bytes", [1 << 16, None])
    def test_s3_is_the_same_as_local(
        self, folder: Path, s3: Storage, cache_bytes: int | None
    ) -> None:
        """Sample for sample, with the same fingerprint, with a cache that is too small or not."""
        configure(endpoint=s3.url, cache_bytes=cache_bytes)
        local = open_dataset(folder / "photos" / "train")
        far = open_dataset("s3://photos/train/")
        assert far.fingerprint == local.fingerprint
        for seed in range(2):
            assert_same_samples(far, local, seed=seed)

    def test_pickled_datasets_keep_their_options(self, server: Storage, blob: RemoteBlob) -> None:
        """Another process, which knows of no endpoint, reads on."""
        options = StorageOptions(endpoint=server.url, cache_bytes=0)
        far = TarDataset([Url(f"s3://photos/train/train-00{n}.tar", options) for n in range(3)])
        script = (
            "import pickle, sys; blob, far = pickle.load(sys.stdin.buffer); "
            "sys.stdout.buffer.write(bytes(blob.read([(7, 1007)])[0]) + far.fingerprint.encode())"
        )
        done = subprocess.run(
            [sys.executable, "-c", script],
            input=pickle.dumps((blob, far)),
            cwd=ROOT,
            capture_output=True,
        )
        assert done.stdout == DATA[7:1007] + far.fingerprint.encode()

    def test_a_fork_is_told_to_be_spawned(self, blob: RemoteBlob) -> None:
        """The library's threads stay behind in the parent, and who asked them would wait for ever."""
        assert is_read(blob)
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # of a fork beside threads, Python 3.12
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                try:
                    is_read(blob)
                except SourceError as error:
                    os._exit(7 if "spawn" in str(error) else 1)
                finally:
                    os._exit(2)
        assert os.waitpid(child, 0)[1] == 7 << 8
        assert is_read(blob)


class TestCache:
    def test_what_was_read_is_not_fetched_again(self, server: Storage, tmp_path: Path) -> None:
        """A second epoch makes no request; the names in the cache tell nothing."""
        configure(endpoint=server.url)
        far = open_dataset([f"s3://photos/train/train-00{n}.tar" for n in range(3)])
        every = np.arange(len(far))
        first = plain(far.fetch(every))
        server.count()
        assert plain(far.fetch(every[::-1])) == first[::-1]
        assert server.count()["requests"] == 0
        names = [path.name for path in (tmp_path / "gpu-aug-cache" / "blocks").rglob("*")]
        assert not [name for name in names if "train" in name or "photos" in name]

    def test_a_replaced_object_is_not_taken_from_the_cache(
        self, folder: Path, server: Storage
    ) -> None:
        """Opened anew it is the new one; what was opened before gives an error, not a mixture."""
        path, options = folder / "photos" / "changing.bin", StorageOptions(endpoint=server.url)
        path.write_bytes(b"old" * 100_000)
        blob = open_remote("s3://photos/changing.bin", options)
        blob.read([(0, 3)])
        path.write_bytes(b"new" * 100_000)
        os.utime(path, (1, 1))
        assert (
            bytes(open_remote("s3://photos/changing.bin", options).read([(0, 6)])[0]) == b"newnew"
        )
        with pytest.raises(OSError, match="it has changed since it was opened"):
            RemoteBlob(
                "s3://photos/changing.bin",
                StorageOptions(endpoint=server.url, cache_bytes=0),
                blob._state,
            ).read([(0, 3)])


@pytest.fixture(scope="module")
def tables(s3: Storage, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Puts tables into folders of S3, one of them hidden; how to reach them."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path_factory.mktemp("table") / "a.parquet"
    parquet.write_table(pa.table({"image": [b"bytes"]}), path)
    for name in ("x/a-0.parquet", "x/a-1.parquet", "y/a-0.parquet", "x/.b.parquet", "x/a.txt"):
        s3.put(f"photos/tables/{name}", path.read_bytes())
    for name in ("train-00000-of-00001.parquet", "test-00000-of-00001.parquet"):
        s3.put(f"photos/hub/data/{name}", path.read_bytes())
    return {"endpoint": s3.url, "cache_bytes": 0}


class TestPatterns:
    @pytest.mark.parametrize(
        ("pattern", "names"),
        [
            ("x/*.parquet", ["x/a-0", "x/a-1"]),
            ("*/a-[0-9].parquet", ["x/a-0", "x/a-1", "y/a-0"]),
            ("?/a-0.parquet", ["x/a-0", "y/a-0"]),
            ("{y,x}/a-{0..0}*", ["y/a-0", "x/a-0"]),
        ],
    )
    def test_wildcards(self, tables: dict[str, Any], pattern: str, names: list[str]) -> None:
        """They stand for what they stand for in a folder of this machine."""
        far = open_dataset(f"s3://photos/tables/{pattern}", **tables)

        assert [str(one.text) for one in far._locations] == [
            f"s3://photos/tables/{name}.parquet" for name in names
        ]

    def test_what_fits_nothing(self, tables: dict[str, Any], server: Storage) -> None:
        """Nothing fits, nothing is there to list, or the server cannot list at all."""
        for url, match in (
            ("s3://photos/tables/x/*.tar", r"x/\*\.tar fits no object: correct the pattern"),
            ("s3://nobody/*.tar", "cannot be listed: there is no such bucket"),
            (
                f"{server.url}/photos/*.tar",
                r"HTTP server, which cannot be listed: .*\{000\.\.099\}",
            ),
        ):
            with pytest.raises(SourceError, match=match):
                open_dataset(url, **tables)

    def test_files_of_tables(self, tables: dict[str, Any], s3: Storage) -> None:
        """Of tables that keep account of what is valid in them neither the folder nor a pattern is opened."""
        for name, mark in (
            ("delta", "_delta_log/00000000000000000000.json"),
            ("iceberg", "metadata/00000-a.metadata.json"),
            ("lance", "_versions/1.manifest"),
        ):
            s3.put(f"photos/lake/{name}/{mark}", b"{}")
            s3.put(f"photos/lake/{name}/data/a.parquet", b"PAR1")
        for url, match in (
            (
                "s3://photos/lake/delta/",
                "is laid out as Delta table, which is read from this machine's files",
            ),
            ("s3://photos/lake/delta/data/*.parquet", "lake/delta is laid out as Delta table"),
            ("s3://photos/lake/delta/*/*.parquet", "lake/delta is laid out as Delta table"),
            ("s3://photos/lake/iceberg/", "is laid out as Iceberg table"),
            (
                "s3://photos/lake/iceberg/data/{a,b}*.parquet",
                "lake/iceberg is laid out as Iceberg table",
            ),
            ("s3://photos/lake/lance/", "is laid out as Lance"),
        ):
            with pytest.raises(SourceError, match=match):
                open_dataset(url, **tables)

    def test_splits(self, tables: dict[str, Any]) -> None:
        """Folders of a store are told apart as those of this machine are."""
        for url in ("s3://photos/hub/", "s3://photos/hub/data/", "s3://photos/hub/data/*.parquet"):
            with pytest.raises(SourceError, match="holds the splits train, test"):
                open_dataset(url, **tables)
            assert len(open_dataset(url, split="test", **tables)) == 1

    def test_records_without_an_ending(self, s3: Storage, tmp_path: Path) -> None:
        """The first bytes of the first object tell that it is a TFRecord file."""
        tfrecord = pytest.importorskip("tfrecord")
        writer = tfrecord.TFRecordWriter(str(tmp_path / "a"))
        writer.write({"image": (b"bytes", "byte")})
        writer.close()
        for number in range(2):
            s3.put(f"photos/records/train-0000{number}-of-00002", (tmp_path / "a").read_bytes())

        for url in ("s3://photos/records/", "s3://photos/records/train-*"):
            assert len(open_dataset(url, endpoint=s3.url, cache_bytes=0)) == 2


SECRET = "sEcReT"


class TestAccess:
    @pytest.mark.parametrize(
        ("status", "code", "advice"),
        [
            (403, "AccessDenied", r"access was refused .*AWS_ACCESS_KEY_ID.*anonymous=True"),
            (403, "InvalidAccessKeyId", "does not know the key in AWS_ACCESS_KEY_ID"),
            (403, "SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY is not the secret"),
            (400, "ExpiredToken", "the session token has expired: .*AWS_SESSION_TOKEN"),
            (400, "AuthorizationHeaderMalformed", "set AWS_REGION"),
            (400, "", r"access was refused \(400 Bad Request\): .*AWS_SESSION_TOKEN.*AWS_REGION"),
        ],
    )
    def test_what_the_store_refuses(
        self, server: Storage, status: int, code: str, advice: str
    ) -> None:
        """Opening, listing and patterns: the cause as the store names it, and the variable to set; at once.

        A 403 alone is looked at twice more, since new credentials take a moment to be known everywhere.
        """
        body = f"<Error><Code>{code}</Code><Message>{SECRET}</Message></Error>"
        server.faults(rate=1.0, refusal=[status, body if code else ""])
        options: dict[str, Any] = {"endpoint": server.url, "cache_bytes": 0}
        for url in ("s3://photos/a.tar", "s3://photos/folder/", "s3://photos/*.tar"):
            with pytest.raises(SourceError, match=advice) as error:
                open_dataset(url, **options)
            assert SECRET not in str(error.value)
        attempts = 3 if status == 403 else 1
        assert server.count()["requests"] <= 2 * attempts  # HEAD, and GET for the reason
        server.faults()

    def test_without_credentials(self, server: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
        """Neither in the environment, nor from a machine of Amazon's, for which this server stands in."""
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        settings = (("metadata_endpoint", f"{server.url}/169.254.169.254"),)
        options: dict[str, Any] = {"endpoint": server.url, "cache_bytes": 0, "settings": settings}
        for url in ("s3://unseen/a.tar", "s3://unseen/folder/"):
            with pytest.raises(SourceError, match=r"no credentials were found .*AWS_ACCESS_KEY_ID"):
                open_dataset(url, **options)

    def test_an_etag_that_changes(self, server: Storage) -> None:
        """While the index is made, and in an answer to HTTP: an error in words that says what to do."""
        for url in ("s3://photos/train/train-000.tar", f"{server.url}/photos/train/train-000.tar"):
            server.faults(rate=1.0, kinds=["etag"], skip=int(url.startswith("http")))
            with pytest.raises(
                SourceError, match=r"train-000\.tar cannot be read: its ETag .*open it again"
            ):
                open_dataset(url, endpoint=server.url, cache_bytes=0)
        server.faults()


def test_a_server_that_is_named_later_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process that changes AWS_ENDPOINT_URL reads from the new server, also of a bucket that both have."""
    set_up(monkeypatch, tmp_path)
    sizes = []
    for name, size_bytes in (("first", 10), ("second", 20)):
        (tmp_path / name / "changing").mkdir(parents=True)
        (tmp_path / name / "changing" / "file.bin").write_bytes(bytes(size_bytes))
        with storage(tmp_path / name) as running:
            monkeypatch.setenv("AWS_ENDPOINT_URL", running.url)
            sizes.append(
                open_remote("s3://changing/file.bin", StorageOptions(retries=1)).size_bytes
            )
    assert sizes == [10, 20]
