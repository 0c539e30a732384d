"""The programs: from nothing to save to much, bound by computing, by latency and by bandwidth.

Most kernels divide a process's time into user and kernel mode by ticks of 4 ms. If a run of 100 ms spends a tenth in
the kernel, its user time then scatters by 7 % even if nothing else does. That of a run of 700 ms scatters by 3 %. So
programs that do not print their time take half a second or more.
"""

from mmulab.forecast.case import Case


def _kernel(name: str, bound: str, *command: str, more: tuple[str, ...] = (), gigabytes: float = 1.0) -> Case:
    return Case(name, bound, True, command, more=more, gigabytes=gigabytes)


def _gups(size: str, gigabytes: float = 1.0, more: tuple[str, ...] = ()) -> Case:
    command = ("gups", f"footprint={size}", "updates=4M")
    return _kernel(f"gups {size}", "latency, independent", *command, more=more, gigabytes=gigabytes)


def _chase(size: str, references: str, more: tuple[str, ...] = ()) -> Case:
    command = ("pointer-chase", f"footprint={size}", f"references={references}")
    return _kernel(f"chase {size}", "latency, dependent", *command, more=more, gigabytes=1.5)


_SQL = (
    "create table t(a integer, b text);"
    "with recursive n(i) as (select 1 union all select i+1 from n where i<300000) "
    "insert into t select (i*7919)%1000003, 'row number '||i from n; create index x on t(a);"
    "select count(*), sum(length(b)) from t where a in (select a/2 from t);"
)
_PYTHON = "d={}\nfor i in range(1000000): d[(i*7919)%1000003]=str(i)\nprint(sum(len(v) for v in d.values()))"
_MTHP, _CODE = ("64k",), ("code",)
# Keys, requests after they are set, and bytes of a value.
_CLIENT = ("300000", "600000", "200")

CASES = (
    *(_gups(size) for size in ("8M", "32M", "128M")),
    _gups("512M", more=_MTHP),
    _gups("1G", 1.5),
    _gups("2G", 2.5),
    _gups("4G", 4.5),
    _gups("8G", 9),
    _chase("1M", "20M"),
    _chase("64M", "2M"),
    _chase("256M", "1M", _MTHP),
    _chase("1G", "1M"),
    _kernel("hash join", "latency, independent", "hashjoin", "inner=4194304", "outer=2M", "build=0", more=_MTHP),
    _kernel("B-tree", "latency, dependent", "btree", "elements=4M", "lookups=200k", more=_MTHP),
    _kernel("XSBench", "latency, independent", "xsbench", "size=small", "particles=5000", more=_MTHP),
    _kernel("BFS", "latency, branches", "bfs", "scale=18"),
    _kernel("YCSB", "latency, dependent", "ycsb", "records=200k", "operations=400k"),
    _kernel("zipf 1G", "latency, independent", "zipf", "footprint=1G", "references=4M", gigabytes=1.5),
    _kernel("stream 512M", "bandwidth", "sequential", "footprint=512M", "references=64M"),
    _kernel("stride of pages 64M", "latency, independent", "stride", "footprint=64M", "stride=4160", "references=8M"),
    _kernel("SVM", "latency, computing", "svm", "instances=200k", "features=2M"),
    _kernel("canneal", "latency, dependent", "canneal", "elements=1048576", "temperatures=10", "swaps=15000"),
    Case("sqlite", "computing", False, ("sqlite3", ":memory:", _SQL), "sqlite3", more=_MTHP),
    Case("python", "computing, latency", False, ("python3", "-S", "-c", _PYTHON), "python3", more=_CODE),
    Case(
        "gcc",
        "code, branches",
        False,
        ("cc1", "-quiet", "-O1", "{dir}/big.c", "-o", "/dev/null"),
        "gcc",
        prepare="seq 1 200 | sed 's/.*/int f&(int a,int b){int s=0;for(int i=0;i<a;i++)s+=b*i^&;return s;}/' "
        "> {dir}/big.c",
        more=_CODE,
    ),
    Case(
        "zstd",
        "computing, bandwidth",
        False,
        ("zstd", "-q", "-6", "-c", "{dir}/words"),
        "zstd",
        prepare="seq 1 2500000 > {dir}/words",
    ),
    Case(
        "sort",
        "computing, branches",
        False,
        ("sort", "--parallel=1", "-S", "256M", "{dir}/numbers", "-o", "/dev/null"),
        "coreutils",
        prepare="seq 1 1000000 | awk '{print ($1*7919)%1000003}' > {dir}/numbers",
    ),
    Case(
        "redis",
        "latency, code",
        False,
        (
            "redis-server", "--port", "{port}", "--bind", "127.0.0.1", "--dir", "{dir}", "--save", "",
            "--appendonly", "no", "--daemonize", "no", "--disable-thp", "no",
        ),
        "redis-server",
        client=("redis", *_CLIENT),
        more=_MTHP,
    ),
    Case(
        "memcached",
        "latency, code",
        False,
        # Memory is in one piece (-L), for 2 MB pages do not fit pieces of 1 MB. A client may end the server (-A). The
        # table has the size that these keys end with (hashpower). By itself it grows once in a second. It would have
        # its final size soon in a recording, which takes a minute, and late in a run of two seconds.
        (
            "memcached", "-l", "127.0.0.1", "-p", "{port}", "-U", "0", "-t", "1", "-m", "256", "-L", "-A",
            "-u", "{user}", "-o", "hashpower=18",
        ),
        "memcached",
        client=("memcached", *_CLIENT),
    ),
)  # fmt: skip

# By their names.
BY_NAME = {case.name: case for case in CASES}
