"""A stand-in for Kubernetes with the Dask operator: as much of the API as a sweep uses, and pods as processes here.

It serves HTTP on loopback. When a DaskCluster is there, and the secret that its pods mount, it runs the commands of the
pods' containers. It changes the few words in them that hold only in a cluster: hosts, ports and the secret's folder.
"""

import base64
import hashlib
import json
import os
import socket
import struct
import subprocess
import threading
import urllib.request
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

NAMESPACE = "tests"
# RFC 6455, section 1.3.
_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_BINARY, _CLOSE, _PING, _PONG = 2, 8, 9, 10


def free_port() -> int:
    """A port of loopback that nobody has at the moment."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class FakeKubernetes:
    """The API server, the operator and the nodes."""

    def __init__(self, directory: Path) -> None:
        """`directory`: for the file of credentials, the secrets and the pods' output."""
        self.directory = directory
        # Requests as `POST secrets`; what was created, by kind; states of containers that wait; statuses to answer.
        self.asked: list[str] = []
        self.objects: dict[str, Any] = {}
        self.waiting: dict[str, str] = {}
        self.refuses: dict[str, int] = {}
        self.port, self._health = free_port(), free_port()
        self._processes: list[subprocess.Popen[bytes]] = []
        handler = type("Handler", (_Handler,), {"kubernetes": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def kubeconfig(self) -> Path:
        """A file of credentials, as kubectl reads it."""
        path = self.directory / "kubeconfig.json"
        context = {"name": "fake", "context": {"cluster": "fake", "user": "fake", "namespace": NAMESPACE}}
        host, port = self._server.server_address[:2]
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "fake",
                    "contexts": [context],
                    "clusters": [{"name": "fake", "cluster": {"server": f"http://{host!s}:{port}"}}],
                    "users": [{"name": "fake", "user": {"token": "t"}}],
                }
            )
        )
        return path

    def created(self, kind: str, text: dict[str, Any]) -> dict[str, Any]:
        """Keeps an object. Pods start with the second of the two that they need."""
        text["metadata"]["uid"] = "0f0f"
        self.objects[kind] = text
        if {"daskclusters", "secrets"} <= self.objects.keys() and not self._processes and not self.waiting:
            self._start()
        return text

    def _start(self) -> None:
        folder = self.directory / "secret"
        folder.mkdir(exist_ok=True)
        for name, text in self.objects["secrets"]["stringData"].items():
            (folder / name).write_text(text)
        cluster = self.objects["daskclusters"]
        name = cluster["metadata"]["name"]
        self._run(cluster, "scheduler", "", ["--dashboard-address", f"127.0.0.1:{self._health}"])
        for number in range(cluster["spec"]["worker"]["replicas"]):
            self._run(cluster, "worker", f"{name}-default-worker-{number}", [])

    def _run(self, cluster: dict[str, Any], part: str, worker: str, more: list[str]) -> None:
        pod = cluster["spec"][part]["spec"]
        (container,) = pod["containers"]
        (volume,), (mount,) = pod["volumes"], container["volumeMounts"]
        assert volume["secret"]["secretName"] == self.objects["secrets"]["metadata"]["name"]
        name = cluster["metadata"]["name"]
        changed = {
            mount["mountPath"]: str(self.directory / "secret"),
            f"{name}-scheduler.{NAMESPACE}.svc:8786": f"127.0.0.1:{self.port}",
            "$(DASK_WORKER_NAME)": worker,
            "0.0.0.0": "127.0.0.1",
            "8786": str(self.port),
        }
        command = [*container["command"], *more]
        for old, new in changed.items():
            command = [word.replace(old, new) for word in command]
        # The operator's address is without TLS; the command must not use it.
        env = {"DASK_SCHEDULER_ADDRESS": "tcp://127.0.0.1:1", "DASK_WORKER_NAME": worker}
        env |= {one["name"]: one["value"] for one in container["env"]}
        with (self.directory / f"{part}.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(command, env={**os.environ, **env}, stdout=log, stderr=log, cwd=self.directory)
            )

    def pods(self, selector: str) -> list[dict[str, Any]]:
        """The pods of a cluster, in the state that their containers have."""
        if "daskclusters" not in self.objects:
            return []
        ready = False
        with suppress(OSError):
            ready = urllib.request.urlopen(f"http://127.0.0.1:{self._health}/health", timeout=1).status == 200
        state = {"waiting": self.waiting} if self.waiting else {"running": {}}
        scheduler = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "the-scheduler", "namespace": NAMESPACE},
            "spec": {},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": str(ready)}],
                "containerStatuses": [{"state": state}],
            },
        }
        assert f"dask.org/cluster-name={self.objects['daskclusters']['metadata']['name']}" in selector
        return [scheduler]

    def removed(self, kind: str) -> None:
        """Forgets an object; pods end with their cluster."""
        del self.objects[kind]
        if kind == "daskclusters":
            self.end()

    def end(self) -> None:
        """Ends the pods."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(20)
        self._processes = []

    def close(self) -> None:
        """Ends everything."""
        self.end()
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    kubernetes: FakeKubernetes
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Says nothing."""

    def _answer(self, text: Any, status: int = 200) -> None:
        body = json.dumps(text).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _kind(self) -> str:
        """The kind of the path `.../namespaces/NAMESPACE/KIND[/NAME]`, noted; empty if the request is refused."""
        parts = self.path.partition("?")[0].split("/")
        kind = parts[parts.index(NAMESPACE) + 1]
        asked = f"{self.command} {kind}"
        self.kubernetes.asked.append(asked)
        if (status := self.kubernetes.refuses.get(asked)) is None:
            return kind
        self._answer({"message": f"{asked} is refused"}, status)
        return ""

    def do_POST(self) -> None:
        """Creates an object."""
        text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if kind := self._kind():
            self._answer(self.kubernetes.created(kind, text), 201)

    def do_DELETE(self) -> None:
        """Removes one."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if kind := self._kind():
            is_there = kind in self.kubernetes.objects
            if is_there:
                self.kubernetes.removed(kind)
            self._answer({"message": "not found" if not is_there else ""}, 200 if is_there else 404)

    def do_GET(self) -> None:
        """Lists pods, or forwards a port of one."""
        if self.path.startswith("/version"):
            self._answer({"gitVersion": "v1.33.0"})
        elif "/portforward" in self.path:
            self._forward()
        elif self._kind() == "pods":
            selector = unquote(self.path.partition("?")[2])
            self._answer({"items": self.kubernetes.pods(selector)})

    def _forward(self) -> None:
        """Bytes of one connection, in binary messages after the number of their channel; 0 has the data."""
        digest = hashlib.sha1((self.headers["Sec-WebSocket-Key"] + _MAGIC).encode()).digest()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(digest).decode())
        self.end_headers()
        self.close_connection = True
        lock = threading.Lock()

        def send(opcode: int, text: bytes) -> None:
            size = len(text)
            head = bytes([size]) if size < 126 else b"\x7e" + struct.pack(">H", size)
            with lock:
                self.wfile.write(bytes([0x80 | opcode]) + head + text)
                self.wfile.flush()

        port = struct.pack("<H", 8786)
        for channel in (b"\0", b"\1"):
            send(_BINARY, channel + port)
        with socket.create_connection(("127.0.0.1", self.kubernetes.port)) as there:

            def back() -> None:
                with suppress(OSError, ValueError):
                    while part := there.recv(1 << 14):
                        send(_BINARY, b"\0" + part)
                    send(_CLOSE, struct.pack(">H", 1000))

            threading.Thread(target=back, daemon=True).start()
            with suppress(OSError, struct.error):
                while (found := self._message())[0] != _CLOSE:
                    opcode, text = found
                    if opcode == _PING:
                        send(_PONG, text)
                    elif opcode == _BINARY:
                        there.sendall(text[1:])

    def _message(self) -> tuple[int, bytes]:
        first, size = struct.unpack("BB", self.rfile.read(2))
        size &= 0x7F
        if size > 125:
            size = struct.unpack(">H" if size == 126 else ">Q", self.rfile.read(2 if size == 126 else 8))[0]
        mask = self.rfile.read(4)
        text = self.rfile.read(size)
        key = (mask * (size // 4 + 1))[:size]
        return first & 0xF, (int.from_bytes(text, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")
