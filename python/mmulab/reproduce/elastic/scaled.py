"""The systems of paper 3 to scale: TLBs and programs a 32nd of the paper's.

So a run of seconds has the paper's ratios of footprint to TLB reach, which decide what a page size is worth.

Page sizes are as they are, and so is what is free beside a program in fragmented memory: 32 blocks of 32M.
"""

from mmulab.reproduce.elastic.programs import CLEARING, Program

SCALE = 32
# The machine's: 1280 entries of the second level, and 32 MB of system-level cache, in which the larger programs' page
# tables do not fit. First levels would have one entry and a half; they have 8, so that hits there are not rare.
SETS = (
    f"tlb.L2-TLB.entries={1280 // SCALE}",
    "tlb.L1-DTLB.entries=8",
    "tlb.L1-ITLB.entries=8",
    f"cache.SLC.size={32 // SCALE}M",
)
# What 64K pages reach, for policies whose faults go by that.
REACH = f"policy.fault.reach={(80 << 10) // SCALE}K"
REACHED = ("elastic", "elastic-online", "elastic-offline")
# The paper's. BFS has the edge list, too, in the paper's footprint.
PROGRAMS = (
    Program("astar", "gen:astar?width=512", "SPEC, 400 MiB", "19 MB"),
    Program("omnetpp", "gen:events?modules=6250&messages=15600&events=10M", "SPEC, 150 MiB", "4.7 MB"),
    Program("streamcluster", "gen:streamcluster?points=6250", "100 MiB", "3.3 MB"),
    Program("bfs", "gen:friendster?scale=23&neighbours=72", "Friendster, 88 GiB", "2.6 GB", skip=CLEARING << 23),
    Program("canneal", "gen:canneal?elements=2097152", "14 GiB", "352 MB"),
    Program("xsbench", "gen:xsbench?size=large&gridpoints=7700&particles=20k", "XL, 122 GiB", "3.8 GB"),
    Program("btree", "gen:btree?elements=15M&lookups=10M", "350 M elements, 33 GiB", "1.1 GB"),
    Program("svm", "gen:svm?instances=6500k&features=1700k&nonzeros=11&blocks=1", "kdd12, 39 GiB", "1.2 GB"),
    Program("hashjoin", "gen:hashjoin?build=0&inner=67108864&outer=16M", "10^9 keys, 70 GiB", "2.8 GB"),
    Program("gups", "gen:gups?footprint=1G&updates=8M", "32 GiB", "1 GB"),
)


def sets(policy: str) -> tuple[str, ...]:
    """What a system has changed to be to scale."""
    return (*SETS, REACH) if policy in REACHED else SETS
