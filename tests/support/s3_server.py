"""Object storage for tests: S3 as moto answers it, or a folder behind HTTP with ranges, with faults on order.

    python -m tests.support.s3_server moto            # S3, path style, read and written through it; GCS's XML interface is alike
    python -m tests.support.s3_server FOLDER          # plain HTTP, and as much S3 and GCS as reading takes

It listens on 127.0.0.1 alone and says where on its first line. ``POST /-/faults`` sets what goes wrong from then on
(see `Faults`), ``GET /-/count`` says what was asked for since the last time.
"""

import hashlib
import http.client
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[2]
STATUSES = ("429", "500", "503")
_AS_S3 = (
    "AWS4-HMAC-SHA256 Credential=testing/20240101/us-east-1/s3/aws4_request, SignedHeaders=host, "
    "Signature=0"
)
KINDS = (*STATUSES, "reset", "truncate", "drip", "stall", "wrong-range", "whole", "etag")


@dataclass
class Faults:
    """What goes wrong with which reads, drawn in the order of the requests.

    Attributes:
        rate: Share of the GET requests for objects that fail.
        kinds: Of `KINDS`, each as likely: a status; the connection reset before the answer; the
            body cut off; a byte every 20 ms; silence after the first half; another range
            than the one asked for; the whole object instead; another ETag.
        seed: Of what is drawn.
        delay: Seconds before each answer, or until other faults are set.
        skip: So many of the reads to come are left alone before faults begin.
        refusal: Status and body of the answer to every request, lists among them; None for others.
        writes: What happens to the writes to come (POST, PUT, DELETE), in turn; the last one holds for all further
            ones. "" is well, a status is an answer, "reset" no answer, "lost" no answer after it was carried out.
        replaced: Set when other faults take their place.
    """

    rate: float = 0.0
    kinds: tuple[str, ...] = STATUSES
    seed: int = 0
    delay: float = 0.0
    skip: int = 0
    refusal: tuple[int, str] | None = None
    writes: list[str] = field(default_factory=lambda: [""])
    replaced: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._lock = threading.Lock()

    def draw(self) -> str:
        """Return the fault of the next request, "" for none."""
        with self._lock:
            self.skip -= 1
            if self.skip >= 0 or self._random.random() >= self.rate:
                return ""
            return self._random.choice(self.kinds)

    def next_write(self) -> str:
        """Return what happens to the next write."""
        with self._lock:
            return self.writes.pop(0) if len(self.writes) > 1 else self.writes[0]


@dataclass
class _Answer:
    """An answer; the length may stand in the headers where there is no body."""

    status: int
    headers: dict[str, str]
    body: bytes


def _xml(status: int, text: str) -> _Answer:
    return _Answer(status, {"Content-Type": "application/xml"}, text.encode())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    server: "_Server"

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        """Answer, or fail as ordered."""
        if self.path == "/-/count":
            with self.server.lock:
                count, self.server.count = self.server.count, Counter()
            self._send(_Answer(200, {}, json.dumps(count).encode()))
            return
        faults = self.server.faults
        is_read = self.command == "GET" and not re.search("list-type=|location", self.path)
        fault = faults.draw() if is_read else ""
        if faults.delay:
            self.server.add("delayed", 1)
            faults.replaced.wait(faults.delay)
        self.server.add("requests" if is_read else "others", 1)
        self.server.add("signed", int("X-Signature=" in self.path))
        if faults.refusal:
            self._send(_xml(*faults.refusal))
            return
        self.server.add(fault, 1)
        if fault == "reset":
            self._reset()
        elif fault in STATUSES:
            self._send(_xml(int(fault), "<Error><Code>SlowDown</Code></Error>"))
        else:
            answer = self._answer(fault)
            if is_read:
                self.server.add("bytes", len(answer.body))
            self._send(answer, fault)

    do_HEAD = do_GET  # noqa: N815

    def _reset(self) -> None:
        self.connection.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")  # SO_LINGER 0: RST, not FIN
        self.close_connection = True
        self.connection.close()

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_POST(self) -> None:
        """Take orders, or hand on what is to be stored or removed."""
        if self.path == "/-/faults":
            before, self.server.faults = self.server.faults, Faults(**json.loads(self._body()))
            before.replaced.set()
            self._send(_Answer(200, {}, b"{}"))
        else:
            self._write(self.server.faults.next_write())

    do_PUT = do_DELETE = do_POST  # noqa: N815

    def _write(self, fault: str) -> None:
        self.server.add("writes", 1)
        self.server.add("written bytes", int(self.headers.get("Content-Length", 0)))
        refusal = self.server.faults.refusal
        if fault.isdigit() and not refusal:
            code = "<Code>AccessDenied</Code>" if fault == "403" else ""
            refusal = int(fault), f"<Error>{code}</Error>"
        if fault == "reset":
            self._reset()
        elif refusal:
            self._body()
            self._send(_xml(*refusal))
        else:
            answer = self._answer("")
            if fault == "lost":
                self._reset()
            else:
                self._send(answer)

    def _answer(self, fault: str) -> _Answer:
        wanted = self.headers.get("Range")
        if fault == "wrong-range" and wanted:
            start, stop = map(int, re.findall(r"\d+", wanted))
            wanted = f"bytes={max(start - 7, 0)}-{stop}" if start else f"bytes=1-{stop + 1}"
        if fault == "whole":
            wanted = None
        answer = self._forward(wanted) if self.server.upstream else self._from_folder(wanted)
        if fault == "etag":
            answer.headers["ETag"] = '"another"'
        return answer

    def _forward(self, wanted: str | None) -> _Answer:
        headers = {
            name.lower(): value for name, value in self.headers.items() if name.lower() != "range"
        }
        if not headers.get("authorization", "").startswith("AWS4"):  # GCS, which moto is not
            headers["authorization"] = _AS_S3
        if wanted:
            headers["range"] = wanted
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream, timeout=30)
        upstream.request(self.command, self.path, self._body(), headers)
        answer = upstream.getresponse()
        kept = {
            name: value
            for name, value in answer.getheaders()
            if name.lower() not in ("connection", "transfer-encoding", "server", "date")
        }
        data = answer.read()
        upstream.close()
        return _Answer(answer.status, kept, data)

    def _from_folder(self, wanted: str | None) -> _Answer:
        url = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(url.query)
        path = self.server.folder / urllib.parse.unquote(url.path).lstrip("/")
        if "list-type" in query:
            return self._list(path, query.get("prefix", [""])[0])
        if not path.is_file() or ".." in url.path:
            return _xml(404, "<Error><Code>NoSuchKey</Code></Error>")
        data, modified_ns = path.read_bytes(), path.stat().st_mtime_ns
        size = len(data)
        headers = {
            "ETag": f'"{hashlib.md5(f"{size} {modified_ns}".encode()).hexdigest()}"',
            "Last-Modified": self.date_time_string(modified_ns // 10**9),
            "Content-Length": str(size),
        }
        if not self.server.ranges:
            return _Answer(200, headers, data)
        headers["Accept-Ranges"] = "bytes"
        if not wanted:
            return _Answer(200, headers, data)
        first, last = re.fullmatch(r"bytes=(\d*)-(\d*)", wanted).groups()  # type: ignore[union-attr]
        start = int(first) if first else size - int(last)
        stop = min(int(last) + 1, size) if first and last else size
        if start >= size:
            return _Answer(416, {"Content-Range": f"bytes */{size}"}, b"")
        headers |= {
            "Content-Range": f"bytes {start}-{stop - 1}/{size}",
            "Content-Length": str(stop - start),
        }
        return _Answer(206, headers, data[start:stop])

    def _list(self, bucket: Path, prefix: str) -> _Answer:
        rows = "".join(
            f"<Contents><Key>{escape(name)}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>"
            f"<Size>{path.stat().st_size}</Size></Contents>"
            for path in sorted(path for path in bucket.rglob("*") if path.is_file())
            if (name := str(path.relative_to(bucket))).startswith(prefix)
        )
        return _xml(
            200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"
        )

    def _send(self, answer: _Answer, fault: str = "") -> None:
        self.send_response(answer.status)
        for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault not in ("truncate", "drip", "stall"):
            self.wfile.write(answer.body)
            self.wfile.flush()
            return
        self.close_connection = True
        pieces = [answer.body[: len(answer.body) // 2]]
        if fault == "drip":
            pieces = [
                answer.body[place : place + 1] for place in range(min(1000, len(answer.body)))
            ]
        with suppress(ConnectionError):
            for piece in pieces:
                self.wfile.write(piece)
                self.wfile.flush()
                time.sleep({"drip": 0.02, "stall": 20}.get(fault, 0))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, folder: Path, upstream: int, *, ranges: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.upstream, self.ranges = folder, upstream, ranges
        self.faults = Faults()
        self.lock = threading.Lock()
        self.count: Counter[str] = Counter()

    def add(self, name: str, number: int) -> None:
        with self.lock:
            self.count[name] += number

    def handle_error(self, *_: object) -> None: ...  # clients that hang up are part of the game


class Storage:
    """A running server, seen from a test; `url` is ``http://127.0.0.1:PORT``."""

    def __init__(self, url: str) -> None:
        self.url = url

    def faults(self, **options: Any) -> None:
        """Set what goes wrong from now on; nothing without arguments."""
        self._ask("/-/faults", json.dumps(options).encode())
        self.count()

    def count(self) -> dict[str, int]:
        """Requests for objects, their bytes, those that wait or waited, and the faults by kind, since the last call."""
        counted: dict[str, int] = {"requests": 0, "bytes": 0, **self._ask("/-/count")}
        return counted

    def put(self, path: str, body: bytes = b"") -> None:
        """Store an object, or make a bucket of a path of one part; for moto."""
        headers = {"Content-Type": "application/octet-stream"}
        where = f"{self.url}/{urllib.parse.quote(path)}"
        request = urllib.request.Request(where, body, headers, method="PUT")
        urllib.request.urlopen(request, timeout=30).close()

    def _ask(self, path: str, body: bytes | None = None) -> Any:
        with urllib.request.urlopen(self.url + path, body, timeout=30) as answer:
            return json.load(answer)


@contextmanager
def storage(what: str | os.PathLike[str], *options: str) -> Iterator[Storage]:
    """Run a server for as long as the context lasts."""
    command = [sys.executable, "-m", "tests.support.s3_server", os.fspath(what), *options]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout
        try:
            yield Storage(server.stdout.readline().strip())
        finally:
            server.kill()


def main(what: str, *options: str) -> None:
    """Serve until standard input ends, so that no server outlives its test."""
    port = 0
    if what == "moto":
        import logging

        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        moto.start()
        port = moto.get_host_and_port()[1]
    server = _Server(Path(what), port, ranges="--no-ranges" not in options)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)  # noqa: T201
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
