"""Traces in stores: fetched once for all processes of a computer, found by their contents, and errors by name.

The stores are fsspec's own, in memory and in files, a web server of this computer, and moto's S3 where it is installed.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from conftest import SMALL, Cli
from sweeps import MACHINE, kept, written

from mmulab import Failure, UserError, sweep
from mmulab.sweep import remote, work
from mmulab.sweep.batches import Batch
from mmulab.sweep.identity import trace_identity

fsspec = pytest.importorskip("fsspec")


class Web:
    """A web server: what it has by path, how it answers, and which contents were sent."""

    def __init__(self) -> None:
        """Listens on loopback."""
        self.has: dict[str, bytes] = {}
        self.sent: list[str] = []
        self.status, self.tag, self.cut, self.seconds = 200, "1", 0, 0.0
        web = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                """Says nothing."""

            def do_HEAD(self) -> None:
                """What it has, without the contents."""
                self._head()

            def do_GET(self) -> None:
                """All of it, or less."""
                if (text := self._head()) is not None:
                    web.sent.append(self.path)
                    time.sleep(web.seconds)
                    self.wfile.write(text[: len(text) - web.cut])

            def _head(self) -> bytes | None:
                text = web.has.get(self.path)
                self.send_response(web.status if text is not None else 404)
                self.send_header("Content-Length", str(len(text or b"")))
                if web.tag:
                    self.send_header("ETag", web.tag)
                self.end_headers()
                return text

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Web]:
    """A web server, and an empty cache."""
    pytest.importorskip("aiohttp")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    one = Web()
    yield one
    one.close()


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace as a file."""
    directory = tmp_path_factory.mktemp("trace")
    assert Cli(directory)("trace", "convert", SMALL, "small.mmt").code == 0
    return directory / "small.mmt"


def _sweep(directory: Path, trace: str) -> Path:
    text = f'[axes]\ntrace = "{trace}"\nmachine = "{MACHINE}"\npolicy = ["linux-4k", "linux-thp"]\nseed = [0, 1]\n'
    return written(directory, text)


def test_a_sweep_over_a_url_is_the_sweep_over_the_file(web: Web, trace: Path, cli: Cli, tmp_path: Path) -> None:
    """The same results under the same hashes, by two workers too, for one transfer."""
    web.has["/a/small.mmt"] = trace.read_bytes()
    for name, where, workers in (("file", str(trace), "1"), ("url", f"{web.url}/a/small.mmt", "2")):
        _sweep(tmp_path, where)
        ran = cli("sweep", "sweep.toml", "--out", name, "--workers", workers, "--batch", "1")
        assert ran.code == 0, ran.err
    assert kept(tmp_path / "url").keys() == kept(tmp_path / "file").keys()
    for name in kept(tmp_path / "url"):
        one, other = (json.loads((tmp_path / out / "runs" / name).read_text()) for out in ("url", "file"))
        assert one["trace"].pop("name") == f"{web.url}/a/small.mmt"
        assert other["trace"].pop("name") == str(trace)
        assert one == other
    assert web.sent == ["/a/small.mmt"]
    assert cli("sweep", "sweep.toml", "--out", "url", "--dry-run").code == 0
    assert web.sent == ["/a/small.mmt"]


def test_processes_that_want_it_at_once_fetch_it_once(web: Web, trace: Path, tmp_path: Path) -> None:
    web.has["/small.mmt"] = trace.read_bytes()
    web.seconds = 0.5
    code = f"from mmulab.sweep import remote; print(remote.fetched('{web.url}/small.mmt'))"
    processes = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = {process.communicate(timeout=60)[0].strip() for process in processes}
    assert len(said) == 1
    path = Path(said.pop())
    assert path.is_relative_to(tmp_path / "cache")
    assert path.read_bytes() == trace.read_bytes()
    assert web.sent == ["/small.mmt"]


def test_another_mark_is_fetched_again(web: Web) -> None:
    """And without any mark, each time that no hash is known: the size alone does not show a change."""
    url = f"{web.url}/t"
    web.has["/t"] = b"first"
    assert remote.fetched(url).read_bytes() == b"first"
    web.has["/t"], web.tag = b"other", "2"
    one = remote.fetched(url)
    assert one.read_bytes() == b"other"
    assert remote.fetched(url) == one
    assert len(web.sent) == 2
    web.has["/t"], web.tag = b"third", ""
    assert remote.fetched(url).read_bytes() == b"third"
    assert remote.fetched(url).read_bytes() == b"third"
    assert len(web.sent) == 4


def test_a_worker_that_has_the_contents_does_not_ask(web: Web, trace: Path) -> None:
    """One that has not, fetches; and if the store has other contents by then, it is refused."""
    url = f"{web.url}/small.mmt"
    web.has["/small.mmt"] = trace.read_bytes()
    identity = trace_identity(url)
    assert identity == trace_identity(str(trace))
    web.status = 500
    assert trace_identity(url, identity) == identity
    file = remote.fetched(url, identity)
    # A damaged file counts as none.
    file.write_bytes(b"damaged")
    with pytest.raises(Failure, match="500"):
        remote.fetched(url, identity)
    web.status = 200
    assert trace_identity(url, identity) == identity
    file.unlink()
    web.has["/small.mmt"], web.tag = trace.read_bytes() + b"\0", "2"
    spec = sweep.plan(sweep.parse({"axes": {"trace": str(trace), "machine": MACHINE}}))
    text = Batch(spec.jobs).spec(1)
    said = work.differs(json.dumps({"mmulab": text["mmulab"], "trace": url, "identity": identity}))
    assert said.startswith(f"the worker's {url} has other contents")


def test_memory_and_files_are_stores_too(trace: Path) -> None:
    with fsspec.open("memory://bucket/small.mmt", "wb") as file:
        file.write(trace.read_bytes())
    assert trace_identity("memory://bucket/small.mmt") == trace_identity(str(trace))
    assert trace_identity(f"file://{trace}") == trace_identity(str(trace))


def test_a_file_that_is_no_trace_is_named_by_its_url(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no trace")
    _sweep(tmp_path, f"file://{tmp_path}/text")
    ran = cli("sweep", "sweep.toml")
    assert ran.code == 2
    assert f"axes.trace: file://{tmp_path}/text" in ran.err
    assert "cache/mmulab" not in ran.err


@pytest.mark.parametrize(
    ("path", "status", "cut", "error", "said"),
    [
        ("/absent", 200, 0, UserError, "/absent: the store has no such trace\nhint: check bucket and name"),
        ("/t", 403, 0, UserError, "/t: no permission: "),
        ("/t", 401, 0, UserError, "hint: give this computer, and all workers, the credentials"),
        ("/t", 500, 0, Failure, "/t: the store failed: "),
        ("/t", 200, 2, Failure, "hint: repeat the command"),
    ],
)
def test_a_web_server_that_refuses_is_named(
    web: Web, tmp_path: Path, path: str, status: int, cut: int, error: type[Exception], said: str
) -> None:
    web.has["/t"] = b"contents"
    web.status, web.cut = status, cut
    with pytest.raises(error) as refused:
        remote.fetched(f"{web.url}{path}")
    assert said in str(refused.value)
    assert not [one for one in (tmp_path / "cache").glob("**/*") if one.is_file() and one.parent.name != "locks"]


def test_a_store_that_is_not_there_is_a_failure(web: Web) -> None:
    web.close()
    with pytest.raises(Failure, match="/t: the store failed: "):
        remote.fetched(f"{web.url}/t")


def test_a_cut_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that says more than it gives, without an error of its own."""
    with fsspec.open("memory://cut", "wb") as file:
        file.write(b"contents")
    files = fsspec.filesystem("memory")
    monkeypatch.setattr(type(files), "get_file", lambda _, place, path: Path(path).write_bytes(b"cont"))
    with pytest.raises(Failure, match="memory://cut: cut: 4 of 8 bytes came"):
        remote.fetched("memory://cut")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nowhere://a/b", "nowhere://a/b: no store has URLs with nowhere://\nhint: give s3://"),
        ("zip://a::memory://b", "zip://a::memory://b: one store inside another"),
        ("memory://no/such", "memory://no/such: the store has no such trace"),
        ("memory://", "a directory, not a trace"),
    ],
)
def test_a_url_that_cannot_be_read_is_refused(url: str, said: str) -> None:
    with pytest.raises(UserError) as refused:
        remote.fetched(url)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("url", "module", "said"),
    [
        ("s3://bucket/t.mmt", "s3fs", "s3:// needs s3fs, which is not installed\nhint: pip install 'mmulab[stores]'"),
        ("gs://bucket/t.mmt", "gcsfs", "gs:// needs gcsfs, which is not installed\nhint: pip install gcsfs"),
    ],
)
def test_a_package_that_is_missing_is_named(
    url: str, module: str, said: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError) as refused:
        remote.fetched(url)
    assert str(refused.value) == f"{url}: {said}"
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UserError, match=r"needs fsspec, which is not installed\nhint: pip install 'mmulab\[stores\]'"):
        remote.fetched(url)


def test_a_full_disk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the way to another directory."""
    with fsspec.open("memory://t", "wb") as file:
        file.write(b"contents")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fsspec.get_filesystem_class("memory"), "get_file", full)
    with pytest.raises(Failure, match=r"memory://t cannot be kept there: No space left on device\nhint: .*XDG_CACHE"):
        remote.fetched("memory://t")


def test_a_sweep_over_an_s3_bucket(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By s3fs against moto's S3 server, where both are installed: one transfer, and errors by name."""
    server = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    boto3 = pytest.importorskip("boto3")
    host = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    host.start()
    try:
        address, port = host.get_host_and_port()
        for name, value in (
            ("AWS_ENDPOINT_URL", f"http://{address}:{port}"),
            ("AWS_ACCESS_KEY_ID", "testing"),
            ("AWS_SECRET_ACCESS_KEY", "testing"),
            ("AWS_DEFAULT_REGION", "us-east-1"),
        ):
            monkeypatch.setenv(name, value)
        store = boto3.client("s3")
        store.create_bucket(Bucket="traces")
        store.upload_file(str(trace), "traces", "a/small.mmt")
        first = remote.fetched("s3://traces/a/small.mmt")
        assert first.read_bytes() == trace.read_bytes()
        # The contents are known by the store's mark: nothing is fetched again.
        assert remote.fetched("s3://traces/a/small.mmt") == first
        _sweep(tmp_path, "s3://traces/a/small.mmt")
        ran = Cli(tmp_path)("sweep", "sweep.toml", "--out", "out", "--workers", "1")
        assert ran.code == 0, ran.err
        assert len(kept(tmp_path / "out")) == 4
        # Other contents under the same name are another trace.
        store.put_object(Bucket="traces", Key="a/small.mmt", Body=b"other")
        assert remote.fetched("s3://traces/a/small.mmt").read_bytes() == b"other"
        with pytest.raises(UserError, match="s3://traces/none: the store has no such trace"):
            remote.fetched("s3://traces/none")
        with pytest.raises(UserError, match="s3://nobody/none: the store has no such trace"):
            remote.fetched("s3://nobody/none")
    finally:
        host.stop()
