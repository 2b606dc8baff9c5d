"""Azure Blob Storage for tests: as much of its REST API as reading takes, over a folder.

``http://127.0.0.1:PORT/ACCOUNT/CONTAINER/PATH`` is the file FOLDER/CONTAINER/PATH. Requests are signed with the shared
key `KEY`, with the token `SAS`, or, for the container "public", not at all; others are refused as Azure refuses them.
https://learn.microsoft.com/rest/api/storageservices/blob-service-rest-api
"""

import base64
import hashlib
import hmac
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

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
    """A running server.

    Attributes:
        folder: What it serves.
        endpoint: ``http://127.0.0.1:PORT/ACCOUNT``.
        refusal: Status and code of the answer to every request; None for others.
    """

    endpoint: str
    refusal: tuple[int, str] | None = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder


@contextmanager
def azure(folder: Path) -> Iterator[Azure]:
    """Run a server for as long as the context lasts."""
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = Azure(folder)
    server = make_server("127.0.0.1", 0, _make_app(running), threaded=True)
    running.endpoint = f"http://127.0.0.1:{server.server_port}/{ACCOUNT}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _make_app(running: Azure) -> Any:
    """Return the server as an application of Flask."""
    import flask

    app = flask.Flask(__name__)

    @app.get(f"/{ACCOUNT}/<container>")
    def listing(container: str) -> Any:
        refused = _refusal(flask.request, container, running)
        return refused or flask.Response(
            _list(running.folder / container, flask.request.args), mimetype="application/xml"
        )

    @app.get(f"/{ACCOUNT}/<container>/<path:path>")
    def blob(container: str, path: str) -> Any:
        refused = _refusal(flask.request, container, running)
        file = running.folder / container / path
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


def _refusal(request: Any, container: str, running: Azure) -> Any:
    """Return the answer to a request that is refused, None for others."""
    if running.refusal:
        return _error(*running.refusal)
    if not (running.folder / container).is_dir():
        return _error(404, "ContainerNotFound")
    given = request.headers.get("Authorization", "") or request.args.get("sig", "")
    if not given:
        return None if container == "public" else _error(401, "NoAuthenticationInformation")
    allowed = f"SharedKey {ACCOUNT}:{_signature(request)}", SAS.partition("sig=")[2]
    return None if given in allowed else _error(403, "AuthenticationFailed")


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
