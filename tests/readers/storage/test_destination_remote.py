"""Objects appear whole or not at all, whatever the store answers, and their indexes are found beside them."""

import json
import random
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("obstore")

from readers import TarDataset
from readers.formats.tar.dataset import SCAN
from readers.prepare import PrepareError
from readers.storage.blob import open_blob
from readers.storage.destination import create_indexed, open_destination
from readers.storage.index import open_index
from readers.storage.index.builder import publish_index
from readers.storage.remote import StorageOptions
from readers.storage.remote.requests import Connection, State
from tests.support.destinations import tar_of, write_packed
from tests.support.remote_data import MakeJpeg
from tests.support.s3_server import ROOT, Storage

DATA = random.Random(3).randbytes(20_000_000)  # three parts


def options(server: Storage, **changes: Any) -> StorageOptions:
    usual = {"endpoint": server.url, "cache_bytes": 0, "retries": 3, "timeout_seconds": 10.0}
    return StorageOptions(**{**usual, **changes})


def uploads(server: Storage) -> int:
    """Multipart uploads that are neither completed nor aborted."""
    with urllib.request.urlopen(f"{server.url}/bucket?uploads", timeout=30) as answer:
        return int(answer.read().count(b"<Upload>"))


def write(place: Any, name: str, data: bytes = DATA, error: BaseException | None = None) -> None:
    with place.create(name) as file:
        for start in range(0, len(data), 300_000):
            file.write(data[start : start + 300_000])
        if error:
            raise error


@pytest.mark.parametrize("data", [b"", b"small", DATA], ids=["empty", "small", "parts"])
def test_an_object_appears_when_it_is_whole(s3: Storage, data: bytes) -> None:
    """Until then there is none; what is replaced stays until then."""
    place = open_destination("s3://bucket/whole", options(s3))
    with place.create("deep/a") as file:
        file.write(data)
        assert place.read("deep/a") is None
        assert list(place.names()) == []
    assert (place.read("deep/a"), place.size_bytes("deep/a")) == (data, len(data))
    write(place, "deep/a", b"another")
    assert place.read("deep/a") == b"another"
    assert list(place.names()) == ["deep/a"]
    place.remove("deep/a")
    place.remove("deep/a")
    assert (list(place.names()), place.size_bytes("deep/a")) == ([], None)


def test_an_object_that_is_not_finished_never_was(s3: Storage) -> None:
    """An error in the block is handed on, and what was sent is taken back."""
    place = open_destination("s3://bucket/broken", options(s3))
    before = uploads(s3)
    with pytest.raises(KeyboardInterrupt):
        write(place, "a", 3 * DATA, error=KeyboardInterrupt())
    assert s3.count()["written bytes"] > len(DATA)  # it was more than may be on its way
    assert place.read("a") is None
    assert uploads(s3) == before


def test_google_cloud_storage(s3: Storage) -> None:
    """Its XML interface, in which an account of an emulator needs no token: written, listed, read and removed."""
    account = {"gcs_base_url": s3.url, "disable_oauth": True, "client_email": "", "private_key": ""}
    settings = (("service_account_key", json.dumps(account | {"private_key_id": ""})),)
    place = open_destination("gs://bucket/google", options(s3, settings=settings))
    for name, data in (("small", b"small"), ("large", DATA)):
        write(place, name, data)
        assert place.read(name) == data
    place.remove("small")
    place.remove("small")
    assert list(place.names()) == ["large"]
    s3.faults(refusal=[403, "<Error><Code>AccessDenied</Code></Error>"])
    told = (
        "AccessDenied.: give the account leave to write to the bucket, or set GOOGLE_APPLICATION_C"
    )
    with pytest.raises(PrepareError, match=told):
        write(place, "small", b"small")


def test_of_two_writers_the_last_wins_whole(s3: Storage) -> None:
    """Both send their parts in turns."""
    place = open_destination("s3://bucket/two", options(s3))
    with place.create("a") as one, place.create("a") as other:
        for number in range(20):
            one.write(bytes([number]) * 1_000_000)
            other.write(bytes([100 + number]) * 1_000_001)
    data = place.read("a")
    assert data is not None
    assert data[:20_000_000:1_000_000] == bytes(range(20))  # the inner one ended first
    assert len(data) == 20_000_000


@pytest.mark.parametrize("writes", [["500"], ["", "reset", "503"], ["", "", "lost"]])
def test_passing_faults_are_outlived(s3: Storage, writes: list[str]) -> None:
    """At the beginning, of a part, twice, and an answer that is lost after its part was taken."""
    place = open_destination("s3://bucket/passing", options(s3))
    s3.faults(writes=[*writes, ""])
    write(place, "a")
    assert s3.count()["writes"] > 5  # beginning, three parts, end
    assert place.read("a") == DATA


@pytest.mark.parametrize("name", ["small", "large"])
@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        (
            403,
            "AccessDenied",
            r"403 Forbidden, AccessDenied\): give the account leave to write to the bucket",
        ),
        (403, "InvalidAccessKeyId", r"does not know the key in AWS_ACCESS_KEY_ID: set AWS_ACC"),
        (403, "SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY is not the secret of"),
        (404, "NoSuchBucket", "there is no such bucket or container: correct its name"),
    ],
)
def test_refusals_are_one_sentence(
    s3: Storage, name: str, status: int, code: str, told: str
) -> None:
    """What the store told and what to do, asked once, without a secret; what was there stays."""
    place = open_destination("s3://bucket/refused", options(s3))
    write(place, name, b"before")
    s3.faults(refusal=[status, f"<Error><Code>{code}</Code></Error>"])
    with pytest.raises(PrepareError, match=told) as error:
        write(place, name, DATA if name == "large" else b"small")
    assert str(error.value).startswith(f"s3://bucket/refused/{name} cannot be written (")
    assert "objects appear whole or not at all, so mend it and run the same command again" in str(
        error.value
    )
    assert "anonymous" not in str(error.value)
    assert "testing-secret" not in str(error.value)
    assert s3.count()["writes"] == 1
    s3.faults()
    assert place.read(name) == b"before"


def test_a_server_that_goes_away(s3: Storage) -> None:
    """In the middle of an upload, before its end and for good: one sentence, and what was there stays."""
    place = open_destination("s3://bucket/away", options(s3))
    write(place, "a", b"before")
    for told, writes in (
        ("does not answer", ["", "", "reset"]),  # of its three parts one arrives
        ("500 Internal Server Error", ["", "", "", "", "500"]),  # at its end
    ):
        s3.faults(writes=writes)
        with pytest.raises(
            PrepareError, match=rf"a cannot be written \(the last error was: .*{told}"
        ):
            write(place, "a")
        s3.faults()
        assert place.read("a") == b"before"


def test_nobody_answers(s3: Storage) -> None:
    """At a port where there is no server; a name that may be misspelt is not asked nine times."""
    place = open_destination(
        "s3://elsewhere/a", options(s3, endpoint="http://127.0.0.1:9", retries=8)
    )
    for data in (b"small", DATA):
        with pytest.raises(
            PrepareError,
            match=r"b cannot be written \(the last .* http://127\.0\.0\.1:9 does not answer .*endpoint=",
        ):
            write(place, "b", data)


def test_settings_that_no_store_knows(s3: Storage) -> None:
    """Named before anything is sent."""
    place = open_destination("s3://bucket/a", options(s3, settings=(("regoin", "eu-west-1"),)))
    with pytest.raises(PrepareError, match=r"cannot be written .*regoin"):
        write(place, "b", b"small")
    with pytest.raises(PrepareError, match=r"cannot be read .*regoin"):
        place.read("b")


KILLED = """
import os, signal, sys
from readers.storage.destination import open_destination
from readers.storage.remote import StorageOptions
place = open_destination("s3://bucket/killed", StorageOptions(endpoint=sys.argv[1]))
with place.create("a") as file:
    for _ in range(200):  # more than may be on its way
        file.write(bytes(300_000))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_writer_leaves_no_object(s3: Storage) -> None:
    """Its parts are in the store, unseen, and the next writer is not disturbed."""
    done = subprocess.run([sys.executable, "-c", KILLED, s3.url], cwd=ROOT, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert s3.count()["writes"] > 1
    place = open_destination("s3://bucket/killed", options(s3))
    assert list(place.names()) == []
    write(place, "a", b"whole")
    assert place.read("a") == b"whole"


def test_a_listing_goes_on_behind_its_last_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an error in its middle no name is told twice and none is left out."""
    asked: list[str | None] = []

    def states(_: Connection, prefix: str, after: str | None) -> Iterator[list[tuple[str, State]]]:
        assert prefix == "all"
        asked.append(after)
        if after is None:
            yield [(f"all/{name}", State(1, "", "")) for name in "ab"]
            raise OSError("broken off")
        yield [("all/c", State(1, "", ""))]

    monkeypatch.setattr(Connection, "states", states)
    place = open_destination("s3://bucket/all", StorageOptions(endpoint="http://127.0.0.1:9"))
    assert (list(place.names()), asked[:2]) == (["a", "b", "c"], [None, "all/b"])


class TestIndexes:
    """Beside an object, where its readers find them."""

    def test_opening_shards_scans_none(self, s3: Storage, jpeg: MakeJpeg) -> None:
        """An index per shard and the pieces that tell whether it fits are read, and no shard."""
        place = open_destination("s3://bucket/indexed", options(s3))
        write_packed(place, jpeg, noise=1_000_000)
        size = place.size_bytes("shard-000000.tar")
        assert size is not None
        s3.count()
        shards = [place.at(f"shard-00000{number}.tar") for number in range(2)]
        far = TarDataset(shards)
        asked = s3.count()
        assert len(far) == 16
        assert not any(found.built for found in far._found)
        pieces = 16 * (1 << 16)
        assert asked["bytes"] < 2 * (pieces + 20_000) < size

    def test_an_index_of_other_content_is_not_used(self, s3: Storage, jpeg: MakeJpeg) -> None:
        """An object that was replaced by another one of the same size is scanned."""
        place = open_destination("s3://bucket/replaced", options(s3))
        for seeds in (range(4), range(4, 8)):
            data = tar_of(jpeg, seeds, noise=600_000)
            with create_indexed(place, "a.tar", SCAN) as file:
                file.write(data)
        index = place.read("a.tar.gpuaug-index")
        assert index is not None
        before = tar_of(jpeg, range(4), noise=600_000)
        write(place, "a.tar", before)
        far = TarDataset([place.at("a.tar")])
        assert far._found[0].built
        assert [sample.key for sample in far.fetch(range(4))] == [f"a.tar/000{n}" for n in range(4)]
        assert len(before) == len(data)

    def test_it_is_the_one_that_is_made_of_the_object(self, s3: Storage, jpeg: MakeJpeg) -> None:
        """Byte for byte, so that `gpu-aug index --publish` finds nothing to do."""
        place = open_destination("s3://bucket/same", options(s3))
        with create_indexed(place, "a.tar", SCAN) as file:
            file.write(tar_of(jpeg, range(8)))
        index = place.read("a.tar.gpuaug-index")
        place.remove("a.tar.gpuaug-index")
        blob = open_blob(place.at("a.tar"))
        found = open_index(blob, SCAN)
        assert found.built
        assert publish_index(blob, SCAN, found)
        assert place.read("a.tar.gpuaug-index") == index
        assert not publish_index(blob, SCAN, found)

    def test_no_index_is_left_of_a_shard_that_is_not_finished(
        self, s3: Storage, jpeg: MakeJpeg
    ) -> None:
        """Neither of one whose writer raises, nor of one that the store refuses."""
        place = open_destination("s3://bucket/unfinished", options(s3))
        data = tar_of(jpeg, range(4))
        with pytest.raises(ZeroDivisionError), create_indexed(place, "a.tar", SCAN) as file:
            file.write(data[: 1 // 0])
        for writes, told in ((["403"], "tar"), (["", "403"], "gpuaug-index")):
            s3.faults(writes=writes)
            with (
                pytest.raises(PrepareError, match=rf"a\..*{told} cannot be written"),
                create_indexed(place, "a.tar", SCAN) as file,
            ):
                file.write(data)
        s3.faults()
        assert list(place.names()) == ["a.tar"]

    @pytest.mark.parametrize("num_bytes", [10, 1 << 20])
    def test_a_full_folder_for_temporary_files(
        self, s3: Storage, monkeypatch: pytest.MonkeyPatch, num_bytes: int
    ) -> None:
        """In which the index is made: told by name, and no shard is there; the kernel's own refusal."""
        place = open_destination("s3://bucket/no-room", options(s3))
        full = Path("/dev/full")
        monkeypatch.setattr(tempfile, "TemporaryFile", partial(full.open, "wb"))
        told = r"temporary files, .* \(No space left on device\): set TMPDIR to one with room"
        with pytest.raises(PrepareError, match=told), create_indexed(place, "a.tar", SCAN) as file:
            file.write(bytes(num_bytes))
        assert list(place.names()) == []
