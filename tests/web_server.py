"""An HTTP server on this machine whose answers a test writes: it breaks off, lies, redirects and is busy as told."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Any

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        self.server.site.requests.append((self.path, dict(self.headers)))
        answers = self.server.site.pages.get(path)
        if not answers:
            self.send_error(404)
            return
        # The last answer is given again and again.
        (answers.pop(0) if len(answers) > 1 else answers[0])(self)

    def log_message(self, *arguments: Any) -> None:
        """The test looks at `requests` instead."""


class Site:
    """`pages[path] = [answer, …]`: the first request gets the first answer; the last answer stays."""

    def __init__(self) -> None:
        self.pages: dict[str, list[Answer]] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.site = self  # type: ignore[attr-defined]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._server.server_port}{path}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def gives(data: bytes, ranges: bool = True, kind: str = "application/octet-stream", after: int | None = None) -> Answer:
    """All of `data`, or the part asked for; with `after`, the line goes dead after so many bytes."""

    def answer(handler: Handler) -> None:
        asked = handler.headers.get("Range", "") if ranges else ""
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        if start >= len(data) and asked:
            handler.send_error(416)
            return
        handler.send_response(206 if asked else 200)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(data) - start))
        if asked:
            handler.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        handler.end_headers()
        handler.wfile.write(data[start : None if after is None else start + after])
        handler.close_connection = True

    return answer


def says_it_has(data: bytes, length: int) -> Answer:
    """`data` under a Content-Length that is not its own."""

    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(length))
        handler.end_headers()
        handler.wfile.write(data)
        handler.close_connection = True

    return answer


def refuses(status: int, **headers: str) -> Answer:
    """A status without a file; `Retry_After="1"` becomes the header Retry-After."""

    def answer(handler: Handler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def sends_to(url: str) -> Answer:
    """A redirect."""
    return refuses(302, Location=url)


def sends_another_part(data: bytes) -> Answer:
    """206, but not from the byte that was asked for."""

    def answer(handler: Handler) -> None:
        handler.send_response(206)
        handler.send_header("Content-Range", f"bytes 1-{len(data) - 1}/{len(data)}")
        handler.send_header("Content-Length", str(len(data) - 1))
        handler.end_headers()
        handler.wfile.write(data[1:])

    return answer
