"""Sets and gets random keys of a memcached: PORT CLIENTS KEYS REQUESTS."""

import random
import socket
import sys
import threading

port, clients, keys, requests = map(int, sys.argv[1:])
# Requests that are sent together, as clients under load do; one by one, the client would be what is measured.
BATCH = 50


def ask(seed: int) -> None:
    chance = random.Random(seed)
    with socket.create_connection(("127.0.0.1", port)) as server:
        answers = server.makefile("rb")
        for _ in range(requests // BATCH):
            lines = []
            gets = 0
            for _ in range(BATCH):
                key = chance.randrange(keys)
                if chance.random() < 0.1:
                    size = chance.randrange(32, 512)
                    lines.append(b"set k%d 0 0 %d\r\n%s\r\n" % (key, size, b"x" * size))
                else:
                    lines.append(b"get k%d\r\n" % key)
                    gets += 1
            server.sendall(b"".join(lines))
            stored = ended = 0
            while stored < BATCH - gets or ended < gets:
                line = answers.readline()
                if not line:
                    raise SystemExit("the server closed the connection")
                stored += line == b"STORED\r\n"
                ended += line == b"END\r\n"


# Filled before it is read: a cache that misses everything shows nothing.
with socket.create_connection(("127.0.0.1", port)) as server:
    answers = server.makefile("rb")
    for first in range(0, keys, 1000):
        last = min(first + 1000, keys)
        server.sendall(b"".join(b"set k%d 0 0 128\r\n%s\r\n" % (k, b"y" * 128) for k in range(first, last)))
        for _ in range(first, last):
            answers.readline()
threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(clients)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
