"""Azure Blob Storage for tests: as much of its REST API as reading takes, over a folder.

    python -m tests.support.azure_server FOLDER

``http://127.0.0.1:PORT/ACCOUNT/CONTAINER/PATH`` is the file FOLDER/CONTAINER/PATH. Requests are signed with the shared
key `KEY`, with the token `SAS`, or, for the container "public", not at all; others are refused as Azure refuses
them. ``POST /-/account`` with a JSON object sets `refusal`, the status and code of the answer to every request.
https://learn.microsoft.com/rest/api/storageservices/blob-service-rest-api
"""

import base64
import hashlib
import hmac
import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[2]
ACCOUNT, KEY = "testaccount", base64.b64encode(b"not a secret").decode()
SAS = "sv=2024-11-04&sig=bm90IGEgc2VjcmV0"
_SIGNED = (
    "Content-Encoding",
    "Content-Language",
    "Content-Length",
    "Content-MD5",
    "Content-Type",
    "Date",
)
_SIGNED_TOO = ("If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since", "Range")


class Azure:
    """A running server, seen from a test; `endpoint` is ``http://127.0.0.1:PORT/ACCOUNT``."""

    def __init__(self, url: str) -> None:
        self.url, self.endpoint = url, f"{url}/{ACCOUNT}"

    def refuse(self, status: int | None = None, code: str = "") -> None:
        """Refuse every request from now on, or none."""
        body = json.dumps({"refusal": status and [status, code]}).encode()
        urllib.request.urlopen(f"{self.url}/-/account", body, timeout=30).close()


@contextmanager
def azure(folder: Path) -> Iterator[Azure]:
    """Run a server for as long as the context lasts."""
    command = [sys.executable, "-m", "tests.support.azure_server", os.fspath(folder)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout
        try:
            yield Azure(server.stdout.readline().strip())
        finally:
            server.kill()


def make_app(folder: Path) -> Any:
    """The server as an application of Flask."""
    import flask

    app, state = flask.Flask(__name__), dict[str, Any]()

    @app.post("/-/account")
    def order() -> str:
        state.update(flask.request.get_json(force=True))
        return ""

    @app.get(f"/{ACCOUNT}/<container>")
    def listing(container: str) -> Any:
        refused = _refusal(flask.request, container, state, folder)
        return refused or flask.Response(
            _list(folder / container, flask.request.args), mimetype="application/xml"
        )

    @app.get(f"/{ACCOUNT}/<container>/<path:path>")
    def blob(container: str, path: str) -> Any:
        refused = _refusal(flask.request, container, state, folder)
        file = folder / container / path
        if refused or not file.is_file():
            return refused or _error(404, "BlobNotFound")
        stat = file.stat()
        headers = {
            "ETag": f'"0x{stat.st_mtime_ns:X}"',
            "Last-Modified": formatdate(stat.st_mtime, usegmt=True),
            "Accept-Ranges": "bytes",
            "x-ms-blob-type": "BlockBlob",
            "x-ms-version": "2024-11-04",
        }
        data = file.read_bytes()
        wanted = flask.request.headers.get("x-ms-range") or flask.request.headers.get("Range")
        if not wanted:
            return flask.Response(data, 200, headers)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start, stop = int(first), min(int(last) + 1, len(data)) if last else len(data)
        if start >= len(data):
            return _error(416, "InvalidRange")
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
        return flask.Response(data[start:stop], 206, headers)

    return app


def _refusal(request: Any, container: str, state: dict[str, Any], folder: Path) -> Any:
    if state.get("refusal"):
        return _error(*state["refusal"])
    if not (folder / container).is_dir():
        return _error(404, "ContainerNotFound")
    told = request.headers.get("Authorization", "")
    if told:
        return (
            None
            if told == f"SharedKey {ACCOUNT}:{_signature(request)}"
            else _error(403, "AuthenticationFailed")
        )
    if "sig" in request.args:
        sound = request.args["sig"] == SAS.partition("sig=")[2]
        return None if sound else _error(403, "AuthenticationFailed")
    return None if container == "public" else _error(401, "NoAuthenticationInformation")


def _signature(request: Any) -> str:
    """By https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key."""
    lines = [request.headers.get(name, "") for name in (*_SIGNED, *_SIGNED_TOO)]
    lines[2] = "" if lines[2] == "0" else lines[2]
    lines.insert(0, request.method)
    own = {name.lower(): value.strip() for name, value in request.headers.items()}
    lines += [f"{name}:{own[name]}" for name in sorted(own) if name.startswith("x-ms-")]
    resource = f"/{ACCOUNT}{request.environ['RAW_URI'].partition('?')[0]}"
    lines.append(resource)
    lines += [
        f"{name.lower()}:{','.join(request.args.getlist(name))}" for name in sorted(request.args)
    ]
    digest = hmac.new(base64.b64decode(KEY), "\n".join(lines).encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode()


def _list(container: Path, query: Any) -> str:
    """The answer to List Blobs: two entries a page, so that pages are followed."""
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    names = sorted(
        path.relative_to(container).as_posix() for path in container.rglob("*") if path.is_file()
    )
    found: dict[str, str] = {}
    for name in names:
        if not name.startswith(prefix):
            continue
        head, slash, _ = (
            name.removeprefix(prefix).partition(delimiter) if delimiter else (name, "", "")
        )
        if slash:
            whole = f"{prefix}{head}{slash}"
            found[whole] = f"<BlobPrefix><Name>{escape(whole)}</Name></BlobPrefix>"
        else:
            stat = (container / name).stat()
            found[name] = (
                f"<Blob><Name>{escape(name)}</Name><Properties><Last-Modified>{formatdate(stat.st_mtime, usegmt=True)}"
                f"</Last-Modified><Etag>0x{stat.st_mtime_ns:X}</Etag><Content-Length>{stat.st_size}</Content-Length>"
                "<Content-Type>application/octet-stream</Content-Type><BlobType>BlockBlob</BlobType></Properties></Blob>"
            )
    begin = int(query.get("marker") or 0)
    page = list(found.values())[begin : begin + 2]
    following = begin + 2 if len(found) > begin + 2 else ""
    return (
        f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>{"".join(page)}</Blobs>'
        f"<NextMarker>{following}</NextMarker></EnumerationResults>"
    )


def _error(status: int, code: str) -> Any:
    import flask

    body = f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>told by the test</Message></Error>'
    return flask.Response(
        body, status, {"x-ms-error-code": code, "Content-Type": "application/xml"}
    )


def main(folder: str) -> None:
    """Serve until standard input ends, so that no server outlives its test."""
    import logging

    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, make_app(Path(folder)), threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)  # noqa: T201
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
