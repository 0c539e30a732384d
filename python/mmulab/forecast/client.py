"""A client of key-value servers: sets all keys, then gets keys at random, many requests at once.

    client.py redis|memcached PORT KEYS REQUESTS BYTES [--end]

Requests and answers have fixed lengths, so that the client does next to nothing beside the server. It notices an answer
of another length (a missing key, an error). With --end it has the server end. It stands alone, for it is run as a
program.
"""

import itertools
import random
import socket
import sys
import time
from collections.abc import Iterator

# Requests that are sent at once.
TOGETHER = 500
# Seconds that the server has to begin listening (an emulated one takes long), and to answer.
READY_S, ANSWER_S = 120.0, 600.0


class Redis:
    """Its protocol (RESP 2)."""

    end = b"*2\r\n$8\r\nSHUTDOWN\r\n$6\r\nNOSAVE\r\n"
    stored = len(b"+OK\r\n")

    def __init__(self, size: int) -> None:
        """Values of `size` bytes."""
        self.value = b"x" * size
        self.got = len(b"$%d\r\n" % size) + size + 2

    def set(self, key: int) -> bytes:
        """The request that sets a key."""
        return b"*3\r\n$3\r\nSET\r\n$12\r\nkey:%08d\r\n$%d\r\n%b\r\n" % (key, len(self.value), self.value)

    def get(self, key: int) -> bytes:
        """The request that gets it."""
        return b"*2\r\n$3\r\nGET\r\n$12\r\nkey:%08d\r\n" % key


class Memcached:
    """Its text protocol."""

    end = b"shutdown\r\n"
    stored = len(b"STORED\r\n")

    def __init__(self, size: int) -> None:
        """Values of `size` bytes."""
        self.value = b"x" * size
        self.got = len(b"VALUE key:00000000 0 %d\r\n" % size) + size + len(b"\r\nEND\r\n")

    def set(self, key: int) -> bytes:
        """The request that sets a key."""
        return b"set key:%08d 0 0 %d\r\n%b\r\n" % (key, len(self.value), self.value)

    def get(self, key: int) -> bytes:
        """The request that gets it."""
        return b"get key:%08d\r\n" % key


def connected(port: int) -> socket.socket:
    """A connection, once the server listens."""
    until = time.monotonic() + READY_S
    while True:
        try:
            found = socket.create_connection(("127.0.0.1", port), ANSWER_S)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return found


def ask(server: socket.socket, requests: Iterator[bytes], answer: int) -> None:
    """Sends all requests, each of which has an answer of `answer` bytes. Raises OSError of any other answer."""
    while together := list(itertools.islice(requests, TOGETHER)):
        server.sendall(b"".join(together))
        left = answer * len(together)
        while left:
            part = server.recv(min(left, 1 << 20))
            if not part:
                raise OSError("the server closed the connection")
            left -= len(part)


def main() -> None:
    """As the command line says."""
    kind, port, keys, requests, size = sys.argv[1], *map(int, sys.argv[2:6])
    protocol = Redis(size) if kind == "redis" else Memcached(size)
    chosen = random.Random(1)
    with connected(port) as server:
        ask(server, map(protocol.set, range(keys)), protocol.stored)
        ask(server, (protocol.get(chosen.randrange(keys)) for _ in range(requests)), protocol.got)
        if "--end" in sys.argv:
            server.sendall(protocol.end)


if __name__ == "__main__":
    main()
