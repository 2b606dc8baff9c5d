"""What stores hold that a client cannot take apart, and servers that do not answer."""

import io
import socket
import time
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

pytest.importorskip("obstore")

from readers import SourceError, TarDataset, open_dataset
from readers.storage.paths import beside, with_path
from readers.storage.remote import StorageOptions, Url, list_remote
from tests.support.remote_data import set_up
from tests.support.s3_server import Storage
from tests.support.tars import tar_of

OPTIONS = StorageOptions(cache_bytes=0)


def a_tar() -> bytes:
    image = io.BytesIO()
    Image.new("RGB", (8, 8)).save(image, "PNG")
    return tar_of([("a.png", image.getvalue())])


def opened(s3: Storage, source: str) -> int:
    return len(open_dataset(f"s3://{source}", endpoint=s3.url, cache_bytes=0))  # type: ignore[arg-type]


@pytest.mark.parametrize("marker", ["x/", "x/inside/", "x_$folder$", "x/inside_$folder$"])
def test_objects_that_mark_folders_are_no_data(s3: Storage, marker: str) -> None:
    bucket = f"marked{len(marker)}{marker[-1] == '/'}".lower()
    s3.put(bucket)
    for key, data in ((marker, b""), ("x/a.tar", a_tar()), ("x/inside/b.txt", b"")):
        s3.put(f"{bucket}/{key}", data)

    assert list_remote(f"s3://{bucket}/x", StorageOptions(endpoint=s3.url))
    for pattern in ("x/*.tar", "x/*", "*/*.tar"):
        assert opened(s3, f"{bucket}/{pattern}") == 1


@pytest.mark.parametrize("key", ["keys//a.tar", "keys/./a.tar", "/a.tar", "keys/../a.tar"])
def test_a_key_that_cannot_be_addressed_is_refused_at_once(key: str) -> None:
    began = time.monotonic()
    with pytest.raises(SourceError, match="copy the object to a key without"):
        open_dataset(f"s3://bucket/{key}")
    assert time.monotonic() - began < 1


@pytest.mark.parametrize("key", ["y//b.tar", "y/./b.tar", "y/deep//b.tar"])
def test_such_a_key_hides_no_others(s3: Storage, key: str) -> None:
    bucket = f"odd{len(key)}"
    s3.put(bucket)
    for name in (key, "y/a.tar", "y/z.tar"):
        s3.put(f"{bucket}/{name}", a_tar())

    with pytest.warns(UserWarning, match="1 key of s3://.* cannot be read"):
        found = list_remote(f"s3://{bucket}/y", StorageOptions(endpoint=s3.url))
    assert found == [f"s3://{bucket}/y/a.tar", f"s3://{bucket}/y/z.tar"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert opened(s3, f"{bucket}/y/*.tar") == 2


def test_keys_with_signs_of_urls_and_patterns(s3: Storage) -> None:
    s3.put("signs")
    names = ["what?.tar", "a#b.tar", "a[1].tar", "a%20b.tar", "a b.tar", "{a}.tar"]
    for name in names:
        s3.put(f"signs/y/{name}", a_tar())

    for source in ("signs/y/*.tar", "signs/y"):
        assert opened(s3, source) == len(names)


@pytest.mark.parametrize("endpoint", ["127.0.0.1:9000", "localhost:9000/", "ftp://host"])
def test_an_endpoint_is_a_url(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceError, match="endpoint must be a URL such as http"):
        StorageOptions(endpoint=endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(SourceError, match="AWS_ENDPOINT_URL must be a URL such as http"):
        open_dataset("s3://bucket/a.tar", anonymous=True)


def test_names_of_classes_that_cannot_be_read_are_not_empty(s3: Storage) -> None:
    s3.put("refusing")
    s3.put("refusing/a.tar", a_tar())
    options = StorageOptions(endpoint=s3.url, cache_bytes=0, retries=0)
    for status, error in ((503, SourceError), (403, UserWarning)):
        data = TarDataset([Url("s3://refusing/a.tar", options)])
        s3.faults(refusal=[status, "<Error><Code>AccessDenied</Code></Error>"])
        with pytest.raises(error, match=r"manifest\.json cannot be"):
            _ = data.class_names
        s3.faults()


def test_a_signature_stays_with_the_url_and_out_of_texts() -> None:
    url = Url("https://host/d/a.tar?X-Signature=se/cret", OPTIONS)

    assert str(beside(url, "manifest.json")) == "https://host/d/manifest.json?X-Signature=se/cret"
    index = with_path(url, lambda path: f"{path}.index")
    assert isinstance(index, Url)
    assert (str(index), index.options) == (
        "https://host/d/a.tar.index?X-Signature=se/cret",
        OPTIONS,
    )
    assert f"{url} is damaged" == "https://host/d/a.tar is damaged"


def silent(stack: ExitStack, backlog: int) -> str:
    """Return the address of a server that takes connections and says nothing; of one that takes none with backlog 0."""
    server = stack.enter_context(socket.socket())
    server.bind(("127.0.0.1", 0))
    server.listen(backlog)
    # Kernels take a few connections beyond the backlog. The queue is full once three in a row have to wait: on a busy machine one
    # waits by chance.
    num_waiting = 3 if backlog else 0
    while num_waiting < 3:
        waiting = stack.enter_context(socket.socket())
        waiting.settimeout(0.2)
        try:
            waiting.connect(server.getsockname())
            num_waiting = 0
        except TimeoutError:
            num_waiting += 1
    return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("server", "happened"),
    [
        ("http://127.0.0.1:9", "it refused the connection"),
        ("http://nowhere.invalid:9000", "its name is not known to DNS"),
        ("silent", "it took the connection and gave no answer in time"),
        ("full", "no connection in time"),
    ],
)
def test_a_server_that_does_not_answer_is_named_within_seconds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: str, happened: str
) -> None:
    set_up(monkeypatch, tmp_path)
    # The limit itself is 4 s.
    monkeypatch.setattr("readers.storage.remote.requests._STRANGER_SECONDS", 0.5)
    options: dict[str, Any] = {"cache_bytes": 0}
    with ExitStack() as stack:
        if server in ("silent", "full"):
            server = f"http://{silent(stack, 5 if server == 'silent' else 0)}"
        began = time.monotonic()
        with pytest.raises(SourceError, match=rf"{server} does not answer \({happened}.*endpoint="):
            open_dataset("s3://strange/a.tar", endpoint=server, **options)
    assert time.monotonic() - began < 2
