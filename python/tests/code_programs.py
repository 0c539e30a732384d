"""Programs of fetches for the claims of paper 2: code with a given number of clusters in memory, and servers of several
processes. Small, and the same each time."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

CODE = 0x400000
PAGE, CLUSTER, SUPERPAGE = 4 << 10, 64 << 10, 2 << 20
CLUSTERS = SUPERPAGE // CLUSTER
# Behind all code. Every third page is used, so that no superpage comes of them and all sets of a TLB have some.
DATA, DATA_STEP = 0x10_0000_0000, 3 * PAGE
LIBRARY = 0x20_0000_0000
# Where the code of a library begins in its file, behind what is read only: so it does not begin with 2 MB.
LIBRARY_CODE = 0x10000


def library_at(number: int) -> int:
    """Where the code of a library lies: alone in its 2 MB."""
    return LIBRARY + number * 2 * SUPERPAGE + LIBRARY_CODE


def resident(clusters: Sequence[int]) -> str:
    """A program file of as many 2 MB of code, of each of which the first clusters, this number, are touched."""
    lines = [f"mmap {CODE:#x} {len(clusters) * 2}M rx file:/bin/prog+0"]
    for at, count in enumerate(clusters):
        lines += [f"f {CODE + at * SUPERPAGE + cluster * CLUSTER:#x}" for cluster in range(count)]
    return "\n".join(lines) + "\n"


def working(
    clusters: Sequence[int], calls: int, data_pages: int, hot: int = 24, instructions: int = 100, loads: int = 2
) -> str:
    """The same program at work. In turn, it fetches `instructions` instructions from one of its hot pages, and loads
    from `loads` of its pages of data. Each 2 MB has `hot` hot pages, in the clusters that the program touches."""
    random = Random(7)
    lines = [resident(clusters).rstrip("\n"), f"mmap {DATA:#x} {data_pages * 12}K rw anon"]
    lines += [f"w {DATA + page * DATA_STEP:#x}" for page in range(data_pages)]
    pages = [
        CODE + at * SUPERPAGE + (n % count) * CLUSTER + (n // count * 5 + n) % 16 * PAGE
        for at, count in enumerate(clusters)
        for n in range(hot)
    ]
    for _ in range(calls):
        lines.append(f"f {random.choice(pages):#x} x{instructions}")
        lines += [f"r {DATA + random.randrange(data_pages) * DATA_STEP:#x}" for _ in range(loads)]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Server:
    """A server: a process for each client, forked of the first; all run the same code and the same libraries."""

    clients: int
    # Of code: as PostgreSQL in Table V, two superpages and a residual region of 500 pages.
    code_pages: int = 1524
    libraries: int = 6
    library_pages: int = 60
    data_pages: int = 160
    turns: int = 6
    calls: int = 120

    def text(self, reconnecting: bool = False) -> str:
        """The trace; `reconnecting`: each turn is a new process, which then ends."""
        random = Random(3)
        code_end = CODE + self.code_pages * PAGE
        lines = [
            f"mmap {CODE:#x} {self.code_pages * 4}K rx file:/bin/server+0",
            f"mmap {code_end + SUPERPAGE:#x} 48K rw file:/bin/server+{self.code_pages * PAGE:#x}",
            f"mmap {DATA:#x} {self.data_pages * 12}K rw anon",
        ]
        for library in range(self.libraries):
            at = library_at(library)
            lines.append(f"mmap {at:#x} {self.library_pages * 4}K rx file:/lib/{library}.so+{LIBRARY_CODE:#x}")
            lines += [f"f {at + page * PAGE:#x}" for page in range(self.library_pages)]
        lines += [f"f {at:#x}" for at in range(CODE, code_end, CLUSTER)]
        child = 2
        alive = []
        for _ in range(self.turns if reconnecting else 1):
            for _ in range(self.clients):
                lines += ["p 1", f"fork {child}"]
                alive.append(child)
                child += 1
            for _ in range(1 if reconnecting else self.turns):
                for process in alive:
                    lines += [f"p {process}", *self._work(random)]
            if reconnecting:
                for process in alive:
                    lines += [f"p {process}", "exit"]
                alive = []
        return "\n".join(lines) + "\n"

    def _work(self, random: Random) -> list[str]:
        lines = []
        for _ in range(self.calls):
            if random.random() < 0.5:
                at = CODE + random.randrange(self.code_pages) * PAGE
            else:
                library = random.randrange(self.libraries)
                at = library_at(library) + random.randrange(self.library_pages) * PAGE
            lines += [f"f {at:#x} x20", f"r {DATA + random.randrange(self.data_pages) * DATA_STEP:#x}"]
        return lines
