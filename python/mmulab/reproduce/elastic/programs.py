"""What stands for the programs of paper 3 (Table III), each with the size that the paper runs it at."""

from dataclasses import dataclass, replace

from mmulab.engine import Options

# Instructions of a search for each vertex before it begins (crates/workload, bfs.rs).
CLEARING = 9


@dataclass(frozen=True)
class Program:
    """A generator, and what the paper has in its place."""

    name: str
    trace: str
    # The paper's footprint, and what is ours.
    paper: str
    ours: str
    # Instructions before what is counted: of a search, each vertex is first made unknown.
    skip: int = 0

    def counted(self, options: Options) -> Options:
        """The options with which what is counted of it is."""
        return replace(options, skip=self.skip) if self.skip else options


PROGRAMS = (
    Program("astar", "gen:astar?width=2048", "SPEC, 400 MiB", "the same algorithm, 0.3 GB"),
    Program(
        "omnetpp", "gen:events?modules=200000&messages=500000&events=10M", "SPEC, 150 MiB", "an event loop like it"
    ),
    Program("streamcluster", "gen:streamcluster?points=200000", "100 MiB", "100 MB of points"),
    Program("bfs", "gen:friendster", "Friendster, 88 GiB", "as many vertices and edges, 16 GB", skip=CLEARING << 26),
    Program("canneal", "gen:canneal?elements=4194304", "14 GiB", "4 M elements, 0.7 GB"),
    Program("xsbench", "gen:xsbench?size=large&particles=20k", "XL, 122 GiB", "large, 5.6 GB"),
    Program("btree", "gen:btree?elements=60M&lookups=10M", "350 M elements, 33 GiB", "60 M elements, 4.3 GB"),
    Program(
        "svm",
        "gen:svm?instances=16M&features=54M&nonzeros=11&blocks=1",
        "kdd12, 39 GiB",
        "16 M instances, 54 M features",
    ),
    Program("hashjoin", "gen:hashjoin?build=0&inner=268435456&outer=16M", "10^9 keys, 70 GiB", "2^28 keys, 11 GB"),
    Program("gups", "gen:gups?footprint=8G&updates=8M", "32 GiB", "8 GB"),
)
# In the paper's sizes. Canneal's elements and hash join's keys are the powers of two next to the paper's numbers.
# BTree's keys are those that fill the paper's footprint. BFS has no list of edges beside its rows.
FULL = (
    *PROGRAMS[:4],
    Program("canneal", "gen:canneal?elements=67108864&temperatures=100&swaps=15000", "14 GiB", "64 M elements, 12 GB"),
    Program("xsbench", "gen:xsbench?size=XL&particles=20k", "XL, 122 GiB", "XL, 128 GB"),
    Program("btree", "gen:btree?elements=480M&lookups=10M", "350 M elements, 33 GiB", "480 M elements, 37 GB"),
    Program(
        "svm",
        "gen:svm?instances=150M&features=54M&nonzeros=11&blocks=1",
        "kdd12, 39 GiB",
        "150 M instances, 54 M features, 29 GB",
    ),
    Program("hashjoin", "gen:hashjoin?build=0&inner=1073741824&outer=16M", "10^9 keys, 70 GiB", "2^30 keys, 43 GB"),
    Program("gups", "gen:gups?footprint=32G&updates=8M", "32 GiB", "34 GB"),
)
QUICK = (
    Program("omnetpp", "gen:events?modules=20000&messages=50000&events=100k", "SPEC, 150 MiB", "15 MB"),
    Program("gups", "gen:gups?footprint=256M&updates=200k", "32 GiB", "256 MB"),
)
