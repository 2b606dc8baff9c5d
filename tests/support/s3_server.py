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
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[2]
STATUSES = ("429", "500", "503")
_PIECE = 1 << 15  # bytes that a throttled answer sends at once
_AS_S3 = (
    "AWS4-HMAC-SHA256 Credential=testing/20240101/us-east-1/s3/aws4_request, SignedHeaders=host, "
    "Signature=0"
)
KINDS = (*STATUSES, "reset", "truncate", "drip", "stall", "wrong-range", "whole", "etag")


class Faults:
    """What goes wrong with which reads, drawn in the order of the requests.

    Attributes:
        rate: Share of the GET requests for objects that fail.
        kinds: Of `KINDS`, each as likely: a status; the connection reset before the answer; the
            body cut off; a byte every 20 ms; silence after the first half; another range
            than the one asked for; the whole object instead; another ETag.
        delay: Seconds before each answer, or until other faults are set.
        bytes_per_second: What all answers with a file's bytes share; 0 is without limit.
        skip: So many of the reads to come are left alone before faults begin.
        refusal: Status and body of the answer to every request, lists among them; None for others.
        writes: What happens to the writes to come (POST, PUT, DELETE), in turn; the last one holds for all further
            ones. "" is well, a status is an answer, "reset" no answer, "lost" no answer after it was carried out.
    """

    def __init__(
        self,
        rate: float = 0.0,
        kinds: tuple[str, ...] = STATUSES,
        seed: int = 0,
        delay: float = 0.0,
        skip: int = 0,
        refusal: tuple[int, str] | None = None,
        bytes_per_second: float = 0.0,
        writes: tuple[str, ...] = (),
    ) -> None:
        self.rate, self.kinds, self.delay, self.skip = rate, kinds, delay, skip
        self.refusal, self.bytes_per_second = refusal, bytes_per_second
        self._writes = list(writes) or [""]
        self.replaced = threading.Event()
        self._free_at = 0.0
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def throttle(self, num_bytes: int) -> None:
        """Wait until so many bytes may have been sent since the last ones."""
        if self.bytes_per_second:
            with self._lock:
                begin = max(time.monotonic(), self._free_at)
                self._free_at = begin + num_bytes / self.bytes_per_second
                until = self._free_at
            time.sleep(max(until - time.monotonic(), 0))

    def draw(self) -> str:
        """The fault of the next request, "" for none."""
        with self._lock:
            self.skip -= 1
            if self.skip >= 0 or self._random.random() >= self.rate:
                return ""
            return self._random.choice(self.kinds)

    def next_write(self) -> str:
        """What happens to the next write."""
        with self._lock:
            return self._writes.pop(0) if len(self._writes) > 1 else self._writes[0]


class _Answer:
    def __init__(
        self,
        status: int,
        headers: dict[str, str],
        body: bytes,
        file: tuple[int, int, int] | None = None,
    ) -> None:
        self.status, self.headers, self.body, self.file = status, headers, body, file


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
        is_read = (
            self.command == "GET" and "list-type=" not in self.path and "location" not in self.path
        )
        fault = self.server.faults.draw() if is_read else ""
        if (faults := self.server.faults).delay:
            faults.replaced.wait(faults.delay)
        self.server.add("requests" if is_read else "others", 1)
        if "X-Signature=" in self.path:
            self.server.add("signed", 1)
        if self.server.faults.refusal:
            status, body = self.server.faults.refusal
            self._send(_Answer(status, {"Content-Type": "application/xml"}, body.encode()))
            return
        if fault:
            self.server.add(fault, 1)
        if fault == "reset":
            self._reset()
            return
        if fault in STATUSES:
            self._send(_Answer(int(fault), {}, b"<Error><Code>SlowDown</Code></Error>"))
            return
        answer = self._answer(fault)
        if fault == "etag":
            answer.headers["ETag"] = '"another"'
        if is_read:
            self.server.add("bytes", answer.file[2] if answer.file else len(answer.body))
        self._send(answer, fault)

    do_HEAD = do_GET  # noqa: N815

    def _reset(self) -> None:
        self.connection.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")  # SO_LINGER 0: RST, not FIN
        self.close_connection = True
        self.connection.close()

    def do_POST(self) -> None:
        """Take orders, or hand on what is to be stored or removed."""
        length = int(self.headers.get("Content-Length", 0))
        if self.path == "/-/faults":
            before, self.server.faults = (
                self.server.faults,
                Faults(**json.loads(self.rfile.read(length))),
            )
            before.replaced.set()
            self._send(_Answer(200, {}, b"{}"))
        else:
            self._write(self.server.faults.next_write())

    do_PUT = do_DELETE = do_POST  # noqa: N815

    def _write(self, fault: str) -> None:
        self.server.add("writes", 1)
        self.server.add("written bytes", int(self.headers.get("Content-Length", 0)))
        if self.server.faults.refusal:
            fault, body = str(self.server.faults.refusal[0]), self.server.faults.refusal[1]
        else:
            body = "<Error><Code>AccessDenied</Code></Error>" if fault == "403" else "<Error/>"
        if fault == "reset":
            self._reset()
        elif fault.isdigit():
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self._send(_Answer(int(fault), {"Content-Type": "application/xml"}, body.encode()))
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
        if self.server.upstream:
            return self._forward(wanted)
        return self._from_folder(wanted)

    def _forward(self, wanted: str | None) -> _Answer:
        headers = {
            name: value for name, value in self.headers.items() if name not in ("Range", "range")
        }
        if not self.headers.get("Authorization", "").startswith("AWS4"):  # GCS, which moto is not
            headers = {name: headers[name] for name in headers if name.lower() != "authorization"}
            headers["Authorization"] = _AS_S3
        if wanted:
            headers["Range"] = wanted
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream, timeout=30)
        upstream.request(self.command, self.path, body, headers)
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
            return self._list(path, query)
        if not path.is_file() or ".." in url.path:
            return _Answer(404, {}, b"<Error><Code>NoSuchKey</Code></Error>")
        size = path.stat().st_size
        tag = hashlib.md5(f"{size} {path.stat().st_mtime_ns}".encode()).hexdigest()
        headers = {
            "ETag": f'"{tag}"',
            "Last-Modified": self.date_time_string(int(path.stat().st_mtime)),
        }
        start, stop, status = 0, size, 200
        if self.server.ranges:
            headers["Accept-Ranges"] = "bytes"
            if wanted:
                first, last = re.fullmatch(r"bytes=(\d*)-(\d*)", wanted).groups()  # type: ignore[union-attr]
                start = int(first) if first else size - int(last)
                stop = min(int(last) + 1, size) if first and last else size
                if start >= size:
                    return _Answer(416, {"Content-Range": f"bytes */{size}"}, b"")
                status = 206
                headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        if self.command == "HEAD":
            return _Answer(status, {**headers, "Content-Length": str(size)}, b"")
        return _Answer(status, headers, b"", (os.open(path, os.O_RDONLY), start, stop - start))

    def _list(self, bucket: Path, query: dict[str, list[str]]) -> _Answer:
        prefix = query.get("prefix", [""])[0]
        files = sorted(path for path in bucket.rglob("*") if path.is_file())
        rows = "".join(
            f"<Contents><Key>{escape(name)}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>"
            f"<Size>{path.stat().st_size}</Size></Contents>"
            for path in files
            if (name := str(path.relative_to(bucket))).startswith(prefix)
        )
        text = f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"
        return _Answer(200, {"Content-Type": "application/xml"}, text.encode())

    def _send(self, answer: _Answer, fault: str = "") -> None:
        length = answer.file[2] if answer.file else len(answer.body)
        headers = {"Content-Length": str(length), **answer.headers}
        self.send_response(answer.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if fault in ("truncate", "drip", "stall"):
            self._send_badly(answer, fault, length)
            return
        if self.command == "HEAD":
            return
        self.wfile.write(answer.body)
        self.wfile.flush()
        if answer.file:
            descriptor, start, left = answer.file
            with suppress(ConnectionError):
                while left:
                    part = min(left, _PIECE) if self.server.faults.bytes_per_second else left
                    self.server.faults.throttle(part)
                    sent = os.sendfile(self.connection.fileno(), descriptor, start, part)
                    start, left = start + sent, left - sent
            os.close(descriptor)

    def _send_badly(self, answer: _Answer, fault: str, length: int) -> None:
        body = answer.body
        if answer.file:
            body = os.pread(answer.file[0], length, answer.file[1])
            os.close(answer.file[0])
        self.close_connection = True
        with suppress(ConnectionError):
            if fault == "drip":
                for place in range(min(len(body), 1000)):
                    self.wfile.write(body[place : place + 1])
                    self.wfile.flush()
                    time.sleep(0.02)
            else:
                self.wfile.write(body[: length // 2])
                self.wfile.flush()
                if fault == "stall":
                    time.sleep(20)


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
        """Requests for objects, their bytes, and the faults by kind, since the last call."""
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
