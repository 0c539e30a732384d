"""The programs: from nothing to save to much, bound by computing, by latency and by bandwidth."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from mmulab import UserError, paths

# What `mmulab-kernel` prints of the part that begins when its data are ready.
KERNEL_TIME = re.compile(r"rounds in ([0-9.]+) s")
# Page settings of the stopwatch, each with the policy that stands for it.
SETTINGS = {"4k": "linux-4k", "thp": "linux-thp"}


@dataclass(frozen=True)
class Case:
    """A program, timed and modelled."""

    name: str
    # What bounds it, in a word or two.
    bound: str
    # A generator's algorithm as a program: its name and keys. Else a program of the system and its arguments, in which
    # {dir} is a directory for its files.
    kernel: bool
    command: tuple[str, ...]
    # Makes the program's files in {dir}: a shell command.
    prepare: str = ""

    @property
    def file_name(self) -> str:
        """What its files are called, without their endings."""
        return self.name.replace(" ", "-").lower()

    def argv(self, directory: Path) -> list[str]:
        """What is executed."""
        if self.kernel:
            return [str(paths.kernel()), *self.command]
        found = shutil.which(self.command[0])
        if found is None:
            raise UserError(
                f"{self.name}: no program '{self.command[0]}' here\nhint: install it, or leave the case out"
            )
        return [found, *(word.replace("{dir}", str(directory)) for word in self.command[1:])]

    @property
    def time_in(self) -> re.Pattern[str] | None:
        """Where the program's own time stands in what it prints."""
        return KERNEL_TIME if self.kernel else None


def _kernel(name: str, bound: str, *command: str) -> Case:
    return Case(name, bound, True, command)


def _gups(size: str) -> Case:
    return _kernel(f"gups {size}", "latency, independent", "gups", f"footprint={size}", "updates=4M")


def _chase(size: str, references: str) -> Case:
    return _kernel(
        f"chase {size}", "latency, dependent", "pointer-chase", f"footprint={size}", f"references={references}"
    )


_SQL = (
    "create table t(a integer, b text);"
    "with recursive n(i) as (select 1 union all select i+1 from n where i<60000) "
    "insert into t select (i*7919)%1000003, 'row number '||i from n; create index x on t(a);"
    "select count(*), sum(length(b)) from t where a in (select a/2 from t);"
)
_PYTHON = "d={}\nfor i in range(300000): d[(i*7919)%1000003]=str(i)\nprint(sum(len(v) for v in d.values()))"

CASES = (
    *(_gups(size) for size in ("8M", "32M", "128M", "512M", "1G", "2G", "4G", "8G")),
    _chase("1M", "20M"),
    _chase("64M", "2M"),
    _chase("256M", "1M"),
    _chase("1G", "1M"),
    _kernel("hash join", "latency, independent", "hashjoin", "inner=4194304", "outer=2M", "build=0"),
    _kernel("B-tree", "latency, dependent", "btree", "elements=4M", "lookups=200k"),
    _kernel("XSBench", "latency, independent", "xsbench", "size=small", "particles=5000"),
    _kernel("BFS", "latency, branches", "bfs", "scale=18"),
    _kernel("YCSB", "latency, dependent", "ycsb", "records=200k", "operations=400k"),
    _kernel("zipf 1G", "latency, independent", "zipf", "footprint=1G", "references=4M"),
    _kernel("stream 512M", "bandwidth", "sequential", "footprint=512M", "references=64M"),
    _kernel("stride of pages 64M", "latency, independent", "stride", "footprint=64M", "stride=4160", "references=8M"),
    _kernel("SVM", "latency, computing", "svm", "instances=200k", "features=2M"),
    _kernel("canneal", "latency, dependent", "canneal", "elements=1048576", "temperatures=10", "swaps=15000"),
    Case("sqlite", "computing", False, ("sqlite3", ":memory:", _SQL)),
    Case("python", "computing, latency", False, ("python3", "-S", "-c", _PYTHON)),
    Case(
        "gcc",
        "code, branches",
        False,
        ("gcc", "-O1", "-c", "{dir}/big.c", "-o", "/dev/null"),
        prepare="seq 1 200 | sed 's/.*/int f&(int a,int b){int s=0;for(int i=0;i<a;i++)s+=b*i^&;return s;}/' "
        "> {dir}/big.c",
    ),
    Case(
        "zstd",
        "computing, bandwidth",
        False,
        ("zstd", "-q", "-3", "-c", "{dir}/words"),
        prepare="seq 1 2500000 > {dir}/words",
    ),
    Case(
        "sort",
        "computing, branches",
        False,
        ("sort", "--parallel=1", "-S", "256M", "{dir}/words", "-o", "/dev/null"),
        prepare="seq 1 400000 | awk '{print ($1*7919)%1000003}' > {dir}/words",
    ),
)

# By their names.
BY_NAME = {case.name: case for case in CASES}
