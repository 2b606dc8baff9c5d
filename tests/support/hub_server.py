"""The Hugging Face Hub for tests: as much of its API as listing and downloading a dataset takes, over a folder."""

import hashlib
import json
import re
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

NAME = "me/tiny"
COMMIT = "d4927dda05af693bff7dfd4c7b40eafb0ef92a78"


class Hub(ThreadingHTTPServer):
    """A server of one dataset, `NAME`, at one commit.

    Attributes:
        folder: Its files.
        commit: 40 hex digits.
        gated: Whether it lets nobody in.
        token: What a request for a file must be authorised with; "" for nothing.
        served: The files that were asked for with their bytes.
        num_bytes: How many bytes of files it sent.
    """

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.commit, self.gated = folder, COMMIT, False
        self.token = ""
        self.served: list[str] = []
        self.num_bytes = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def hub(folder: Path) -> Iterator[Hub]:
    """Run a server for as long as the context lasts."""
    server = Hub(folder)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        """Answer, as the Hub does."""
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        api, files = f"/api/datasets/{NAME}", f"/datasets/{NAME}/resolve/"
        sent = self.headers.get("Authorization")
        if path.startswith("/cdn/"):
            self._send_file(path.removeprefix("/cdn/")) if not sent else self._send(400, b"", {})
        elif self.server.token and sent != f"Bearer {self.server.token}":
            self._send(401, b"{}", {"X-Error-Code": "GatedRepo"})
        elif path.startswith(files) and path.endswith(".mp4") and self.command == "GET":
            # As large files, which another host sends, to which no token must go.
            name = path.removeprefix(files).partition("/")[2]
            place = f"http://localhost:{self.server.server_port}/cdn/{urllib.parse.quote(name)}"
            self._send(302, b"", {"Location": place})
        elif self.server.gated and path.startswith(files):
            self._send(403, b"{}", {"X-Error-Code": "GatedRepo"})
        elif path in (api, f"{api}/revision/main", f"{api}/revision/{self.server.commit}"):
            told = [{"rfilename": name} for name in self._names()]
            self._send_json({"id": NAME, "sha": self.server.commit, "siblings": told})
        elif path == f"{api}/tree/{self.server.commit}":
            self._send_json([self._entry(name) for name in self._names()])
        elif path.startswith(f"{api}/"):
            self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        elif path.startswith(files):
            self._send_file(path.removeprefix(files).partition("/")[2])
        else:
            self._send(401, b"{}", {"X-Error-Code": "RepoNotFound"})

    do_HEAD = do_GET  # noqa: N815

    def _names(self) -> list[str]:
        root = self.server.folder
        return sorted(
            path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()
        )

    def _entry(self, name: str) -> dict[str, object]:
        data = (self.server.folder / name).read_bytes()
        return {"type": "file", "path": name, "size": len(data), "oid": _oid(data)}

    def _send_file(self, name: str) -> None:
        if not (self.server.folder / name).is_file():
            self._send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
            return
        data = (self.server.folder / name).read_bytes()
        headers = {"ETag": f'"{_oid(data)}"', "X-Repo-Commit": self.server.commit}
        status, wanted = 200, re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if wanted:
            start, stop = int(wanted[1]), min(int(wanted[2]) + 1, len(data))
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
            status, data = 206, data[start:stop]
        if self.command == "GET":
            self.server.served.append(name)
            self.server.num_bytes += len(data)
        self._send(status, data, headers)

    def _send_json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _oid(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
