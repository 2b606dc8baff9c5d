"""Azure Blob Storage is read like any other store, by a server that checks what Azure checks."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("obstore")
pytest.importorskip("flask")

from readers import SourceError, open_dataset
from readers.storage.remote import StorageOptions, list_remote, match_remote, open_remote, requests
from tests.support.azure_server import ACCOUNT, KEY, SAS, Azure, azure
from tests.support.remote_data import MakeJpeg, assert_same_samples, write_shards

DATA = random.Random(7).randbytes(700_000)
PLACES = [(0, 1), (699_999, 700_000), (5, 5), (100, 70_000), (60_000, 60_010)]
NAME = {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT}
WITH_KEY = {**NAME, "AZURE_STORAGE_ACCOUNT_KEY": KEY}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, jpeg: MakeJpeg) -> Path:
    """Two containers: shards and random bytes, and something public."""
    root = tmp_path_factory.mktemp("containers")
    write_shards(root / "photos" / "train", jpeg, per_shard=4)
    for container in ("photos", "public"):
        (root / container / "odd").mkdir(parents=True)
        (root / container / "odd" / "random + 50%.bin").write_bytes(DATA)
    return root


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[Azure]:
    with azure(folder) as server:
        yield server


@pytest.fixture
def server(running: Azure, monkeypatch: pytest.MonkeyPatch) -> Iterator[Azure]:
    """The server, for a process that has no credentials and no open connections yet."""
    for name in [name for name in os.environ if name.startswith("AZURE")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(requests, "_current", requests._Runtime())
    yield running
    running.refusal = None


def options(server: Azure, **more: object) -> StorageOptions:
    usual = {"endpoint": server.endpoint, "cache_bytes": 0, "retries": 0}
    return StorageOptions(**{**usual, **more})  # type: ignore[arg-type]


def set_all(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("url", "variables"),
    [
        ("az://photos", WITH_KEY),
        ("abfs://photos", {"AZURE_STORAGE_ACCOUNT": ACCOUNT, "AZURE_STORAGE_KEY": KEY}),
        (f"abfss://photos@{ACCOUNT}.dfs.core.windows.net", {"AZURE_STORAGE_KEY": KEY}),
        (f"az://photos@{ACCOUNT}.blob.core.windows.net", {"AZURE_STORAGE_SAS_TOKEN": f"?{SAS}"}),
        (
            f"abfss://photos@{ACCOUNT}.dfs.core.windows.net",  # which the string does not tell of
            {
                "AZURE_STORAGE_CONNECTION_STRING": f"AccountName=other;AccountKey={KEY[::-1]}",
                "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            },
        ),
        (
            "az://photos",
            {"AZURE_STORAGE_CONNECTION_STRING": f"AccountName={ACCOUNT};AccountKey={KEY}"},
        ),
    ],
)
def test_ways_to_name_account_and_credentials(
    server: Azure, monkeypatch: pytest.MonkeyPatch, url: str, variables: dict[str, str]
) -> None:
    """Each gives the bytes of the file, in the order asked for."""
    set_all(monkeypatch, variables)
    blob = open_remote(f"{url}/odd/random + 50%.bin", options(server))

    assert (blob.name, blob.size_bytes) == ("random + 50%.bin", len(DATA))
    assert [bytes(data) for data in blob.read(PLACES)] == [DATA[a:b] for a, b in PLACES]


def test_the_endpoint_of_the_environment(server: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its variable, and by that of a connection string."""
    url, usual = "az://photos/odd/random + 50%.bin", StorageOptions(cache_bytes=0, retries=0)
    told = f"BlobEndpoint={server.endpoint};AccountName={ACCOUNT};AccountKey={KEY}"
    for variables in (
        {**WITH_KEY, "AZURE_STORAGE_ENDPOINT": server.endpoint},
        {"AZURE_STORAGE_CONNECTION_STRING": told},
    ):
        with monkeypatch.context() as patch:
            patch.setattr(requests, "_current", requests._Runtime())
            set_all(patch, variables)
            assert open_remote(url, usual).size_bytes == len(DATA)


def test_lists_and_wildcards(server: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    """All pages of a list, which has two entries a page here, and no file of a deeper folder."""
    set_all(monkeypatch, WITH_KEY)
    shards = [f"az://photos/train/train-00{number}.tar" for number in range(3)]

    assert list_remote("az://photos/train", options(server)) == shards
    assert match_remote("az://photos/*/train-*.tar", options(server)) == shards
    with pytest.raises(SourceError, match="fits no object"):
        match_remote("az://photos/*.tar", options(server))


def test_a_dataset_is_that_of_the_files(
    server: Azure, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Sample for sample, of a folder and of a pattern, through the cache."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path))
    set_all(monkeypatch, WITH_KEY)
    local = open_dataset(folder / "photos" / "train")
    for url in ("az://photos/train/", "az://photos/train/train-{000..002}.tar"):
        far = open_dataset(url, endpoint=server.endpoint)
        assert far.fingerprint == local.fingerprint
        assert_same_samples(far, local)


def test_public_containers(server: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unsigned requests go to them alone."""
    set_all(monkeypatch, NAME)
    open_remote("az://public/odd/random + 50%.bin", options(server, anonymous=True))
    with pytest.raises(
        SourceError, match=r"401 .* NoAuthenticationInformation: .* set AZURE_STORAGE_ACCOUNT_KEY"
    ):
        open_remote("az://photos/odd/random + 50%.bin", options(server, anonymous=True))


def test_a_replaced_blob(server: Azure, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another ETag is another content, also of the same length."""
    set_all(monkeypatch, WITH_KEY)
    path = folder / "photos" / "odd" / "changing.bin"
    path.write_bytes(b"old" * 1000)
    blob = open_remote("az://photos/odd/changing.bin", options(server))
    assert bytes(blob.read([(0, 3)])[0]) == b"old"
    path.write_bytes(b"new" * 1000)
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1_000_000))
    with pytest.raises(OSError, match="has changed since it was opened"):
        blob.read([(0, 3)])


@pytest.mark.parametrize(
    ("url", "variables", "match"),
    [
        ("az://photos/nothing.tar", WITH_KEY, "there is no such object"),
        ("az://nobody/*.tar", WITH_KEY, "there is no such"),
        (
            "az://photos/a.tar",
            {},
            r"container photos belongs to no account .* AZURE_STORAGE_ACCOUNT_NAME",
        ),
        (
            "az://photos/a.tar",
            {**NAME, "AZURE_STORAGE_ACCOUNT_KEY": KEY[:-4] + "AAAA"},
            "AuthenticationFailed: the key, token or signature is not that of the account",
        ),
        (
            "az://photos/a.tar",
            {"AZURE_STORAGE_CONNECTION_STRING": "AccountKey=eA=="},
            "AZURE_STORAGE_CONNECTION_STRING names no account",
        ),
    ],
)
def test_refusals(
    server: Azure, monkeypatch: pytest.MonkeyPatch, url: str, variables: dict[str, str], match: str
) -> None:
    """One sentence each, which names what to set."""
    set_all(monkeypatch, variables)
    look = match_remote if "*" in url else open_remote
    with pytest.raises(SourceError, match=match):
        look(url, options(server))


@pytest.mark.parametrize(
    ("status", "code", "match"),
    [
        (403, "AuthorizationPermissionMismatch", "role Storage Blob Data Reader"),
        (403, "AuthorizationFailure", "through the account's firewall"),
        (
            409,
            "PublicAccessNotPermitted",
            "the account is not public: set AZURE_STORAGE_ACCOUNT_KEY",
        ),
        (403, "AccountIsDisabled", r"access was refused \(403 Forbidden, AccountIsDisabled\)"),
    ],
)
def test_what_azure_refuses(
    server: Azure, monkeypatch: pytest.MonkeyPatch, status: int, code: str, match: str
) -> None:
    """Its codes are told with what helps."""
    set_all(monkeypatch, WITH_KEY)
    server.refusal = status, code
    with pytest.raises(SourceError, match=match):
        open_remote("az://photos/odd/random + 50%.bin", options(server))
