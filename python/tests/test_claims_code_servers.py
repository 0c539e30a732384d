"""Claims about padding and shared page tables (paper 2, sections I, IV and VI), on servers of several processes."""

from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from bench import Bench
from claims import claim
from code_programs import CODE, PAGE, SUPERPAGE, Server

from mmulab import engine
from mmulab.reproduce.instruction import servers
from mmulab.reproduce.instruction.measured import Measured
from mmulab.reproduce.instruction.programs import PERSISTENT
from mmulab.reproduce.instruction.setting import BOTH, PADDED, PROMOTED, REAL, SHARING, STOCK, Setting
from mmulab.reproduce.shared.cells import Figures, Store, medians
from mmulab.reproduce.shared.experiment import Session

# Data in the caches, so that lines of page tables must share them; caches small enough for these programs.
CACHES = ("cache_rules.data=true", "cache.L2.size=16K", "cache.L3.size=128K")
CLIENTS = 8
SERVER = Server(CLIENTS)


def measured(bench: Bench, server: Server, setting: Setting, *sets: str, reconnecting: bool = False) -> Measured:
    """The server under a kernel."""
    source = bench.write("trace.mmtx", server.text(reconnecting))
    job = REAL.job(setting, (*CACHES, *(sets or ("core.count=2",))))
    result = engine.run(source, [job], engine.Options(code_residency=True)).results[0]
    result.check()
    return Measured(Figures.of(result))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[Setting, Measured]:
    bench = Bench(tmp_path_factory.mktemp("server"))
    return {setting: measured(bench, SERVER, setting) for setting in servers.SETTINGS}


@claim("S1-010", "I", "Sharing page tables alone saves cycles (6.9 %), walks and stalls for memory", "direction")
def test_shared_tables_alone_save_cycles(bench: Bench) -> None:
    alone = Setting("sharing alone", "freebsd-super", ("policy.freebsd.code.share_tables=lowest",))
    before, after = (measured(bench, SERVER, setting) for setting in (STOCK, alone))
    assert after.cycles < before.cycles
    assert after.walk_cycles("instruction") < before.walk_cycles("instruction")
    assert after.of.table_bytes < before.of.table_bytes


@claim(
    "S1-002",
    "Abstract, VI-C",
    "All three techniques save more cycles than instruction translation took: data gain as well",
    "direction: more than the stall of fetches that they save",
)
@claim("S1-050", "VI-C, Figure 8", "Padding saves cycles beyond promotion (up to 4 %)", "direction")
def test_padding_and_all_three_in_user_space(found: dict[Setting, Measured]) -> None:
    assert found[PADDED].cycles < found[PROMOTED].cycles < found[STOCK].cycles
    assert found[BOTH].cycles < found[PADDED].cycles
    assert (found[PROMOTED].superpages, found[PADDED].superpages) == (2, 2)
    saved = found[STOCK].cycles - found[BOTH].cycles
    stall = found[STOCK].stall - found[BOTH].stall
    assert saved >= stall > 0
    assert found[BOTH].walk_cycles("data") < found[STOCK].walk_cycles("data")


@claim(
    "S1-051",
    "VI-C, Figure 9",
    "Shared tables make instruction walks shorter, the more so the more workers there are",
    "direction",
)
def test_shared_tables_make_walks_shorter(bench: Bench) -> None:
    def shorter(clients: int) -> float:
        server = replace(SERVER, clients=clients)
        alone, shared = (measured(bench, server, setting).cycles_per_walk for setting in (PADDED, BOTH))
        return shared / alone

    few, many = shorter(2), shorter(16)
    assert many < few < 1.0


@claim("S1-053", "VI-C, Figure 10", "Padding saves work of the kernel: hundreds of entries become one", "direction")
def test_padding_saves_work_at_fork_and_exit(bench: Bench) -> None:
    server = replace(SERVER, turns=3, calls=40)
    kernel = {
        setting: measured(bench, server, setting, reconnecting=True) for setting in (PROMOTED, PADDED, SHARING, BOTH)
    }
    # S1-M020: cheaper forks and exits, in the kernel's time.
    assert kernel[PADDED].kernel < kernel[PROMOTED].kernel
    assert kernel[SHARING].kernel < kernel[PROMOTED].kernel
    assert kernel[BOTH].kernel < min(kernel[PADDED].kernel, kernel[SHARING].kernel)
    # "Less work for process creation and teardown": a fork copies fewer entries, and an exit clears fewer.
    for saving in (PADDED, SHARING):
        for cause in ("fork", "exit"):
            assert kernel[saving].kernel_for(cause) < kernel[PROMOTED].kernel_for(cause)
    for one in kernel.values():
        causes = sum(one.of.kernel_by.values())
        assert one.kernel - len(one.of.kernel_by) <= causes <= one.kernel
        assert one.kernel_for("promotions") > 0
    entries = {setting: one.of.kernel_work["entry_write"] for setting, one in kernel.items()}
    assert entries[PADDED] < entries[PROMOTED]
    # Each process maps the residual region by one entry, where it had one for each page that it used.
    processes = server.turns * server.clients + 1
    assert entries[PROMOTED] - entries[PADDED] > processes


@claim("S1-006", "I", "From 8 to 12 clients, instruction translation's share of cycles grows", "direction")
@claim("S1-061", "IV", "From 1 to 4 cores, instruction translation's share of cycles grows", "direction")
def test_the_share_of_translation_grows_with_clients_and_cores(bench: Bench) -> None:
    clients = [measured(bench, replace(SERVER, clients=count), STOCK).overhead for count in (8, 12)]
    assert clients[0] < clients[1]
    # What a worker runs is the same; each core has workers of its own.
    cores = [
        measured(bench, replace(SERVER, clients=2 * count), STOCK, f"core.count={count}").overhead for count in (1, 4)
    ]
    assert cores[0] < cores[1]


def test_rows_of_several_numbers_of_clients_have_names_of_their_own() -> None:
    """A recording each, of each mode, whether both are asked for or one."""
    plan = servers.Plan(clients=(8, 12))
    both = servers.programs(plan)
    assert len({program.label for program in both}) == len({(p.recipe, p.sets) for p in both}) == 4
    one = servers.programs(replace(plan, programs=(PERSISTENT,)))
    assert [(p.label, p.sets) for p in one] == [
        ("PostgreSQL, persistent, 8 clients", ("clients=8",)),
        ("PostgreSQL, persistent, 12 clients", ("clients=12",)),
    ]
    assert all(program.stated for program in both)
    assert [program.label for program in servers.programs(servers.Plan())] == [
        "PostgreSQL, reconnecting",
        "PostgreSQL, persistent",
    ]


def test_the_share_of_translation_by_cores_and_hyperthreads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two clients on two hyperthreads share TLBs; on two cores each has its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(servers.Plan, "options", lambda *_: engine.Options(code_residency=True))
    source = tmp_path / "server.mmtx"
    source.write_text(replace(SERVER, clients=2, turns=3).text())
    plan = servers.Plan(traces=(str(source),), cores=(1, 2), timing=False)
    outcome = servers.run(plan, Store(), Session())
    [row] = outcome.parallel
    assert list(row.of) == list(servers.PARALLEL)
    assert row.of["2 hyperthreads"].overhead > row.of["2 cores"].overhead
    [one, two] = outcome.walks
    assert (one.cores, two.cores) == (1, 2)
    tables = outcome.tables()
    assert "| program | clients | 1 core | 2 cores |" in tables["share"]
    assert f"{one.stock.overhead:.1%}" in tables["share"]
    assert "2 hyperthreads" in tables["parallel"]


def test_a_counter_that_a_run_lacks_is_0_there() -> None:
    """Also if the first run lacks it."""
    runs = [Figures({"events": events, "ended": "end"}) for events in ({"a": 4}, {"a": 2, "b": 6}, {"a": 9, "b": 1})]
    assert medians(runs).data == {"events": {"a": 4, "b": 1}, "ended": "end"}


def test_figures_of_several_recordings_are_medians(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each counter's median, with the least and the most ratio behind it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(servers.Plan, "options", lambda *_: engine.Options(code_residency=True))
    source = tmp_path / "server.mmtx"
    for number, turns in ((1, 2), (2, 6), (3, 3)):
        source.write_text(replace(SERVER, clients=2, turns=turns).text())
        run = f"-run-{number}" if number > 1 else ""
        target = tmp_path / f"{PERSISTENT.recipe}-{PERSISTENT.sets[0]}-1000{run}.mmt"
        engine.trace_copy(str(source), str(target), "native", 0, None, None)
    plan = servers.Plan(
        programs=(PERSISTENT,), work=tmp_path, instructions=1000, runs=3, cores=(1,), clients=(10,), timing=False
    )
    outcome = servers.run(plan, Store(), Session())
    [row], [walks] = outcome.rows, outcome.walks
    stock = row.of[STOCK]
    assert [run.cycles for run in stock.runs] != sorted(run.cycles for run in stock.runs)
    assert stock.cycles == median(run.cycles for run in stock.runs)
    assert stock.of.kernel_work["entry_write"] == median(run.of.kernel_work["entry_write"] for run in stock.runs)
    ratios = [padded.cycles / run.cycles for padded, run in zip(row.of[PADDED].runs, stock.runs, strict=True)]
    tables = outcome.tables()
    # The ratio of medians may lie outside these.
    shown = f"{median(ratios):.1%} [{min(ratios):.1%} to {max(ratios):.1%}]"
    assert shown in tables["user"]
    assert min(walks.changes) <= walks.change <= max(walks.changes)
    assert f"[{min(walks.changes):+.1%} to {max(walks.changes):+.1%}]" in tables["walk"]
    assert len(outcome.data()["programs"][0]["kernels"][STOCK.name]["runs"]) == 3


@claim("S1-042", "VI-A", "PostgreSQL's residual region is 500 pages: 1,524 pages of code are two superpages and 500")
@claim(
    "S1-044",
    "VI-A, Table V",
    "Code from 0x400000 to 0x9f4000, data from 0xbf4000 to 0xc00000; padded, code ends at 0xa00000, and data stay",
)
@claim(
    "S1-046", "VI-C", "12 pages are missing to a superpage; the 12 of the data segment are there: padding takes none"
)
def test_table_v_to_the_address() -> None:
    """As the page of the experiment shows them."""
    layouts = servers.layouts()
    default, padded = layouts["default"], layouts["with padding"]
    assert (default.code_end, padded.code_end) == (0x9F4000, 0xA00000)
    assert default.data == padded.data == (0xBF4000, 0xC00000)
    assert (default.superpages, padded.superpages) == (2, 3)
    assert default.resident == padded.resident
    assert (default.code_end - CODE) // PAGE == 1524
    assert (padded.code_end - CODE) % SUPERPAGE == 0
    assert 2 * (SUPERPAGE // PAGE) + 500 == 1524
    missing = (padded.code_end - default.code_end) // PAGE
    assert missing == (default.data[1] - default.data[0]) // PAGE == 12


@claim(
    "S1-045",
    "VI-A, VI-C",
    "Padding is possible because 2 MB behind the code are free; where too little is, it is refused",
)
@pytest.mark.parametrize(("gap", "superpages"), [(SUPERPAGE, 3), (12 * PAGE, 3), (11 * PAGE, 2), (0, 2)])
def test_padding_needs_a_gap_behind_the_code(gap: int, superpages: int, bench: Bench) -> None:
    data = servers.CODE_END + gap
    assert servers.DATA - servers.CODE_END == SUPERPAGE
    lines = [
        f"mmap {CODE:#x} {servers.CODE_END - CODE:#x} rx file:/bin/postgres+0",
        f"mmap {data:#x} 48K rw file:/bin/postgres+{servers.CODE_END - CODE:#x}",
        *(f"f {at:#x}" for at in range(CODE, servers.CODE_END, 16 * PAGE)),
    ]
    counts = bench.run("skylake-e3-1240v5", "\n".join(lines) + "\n", PADDED.policy)["counts"]
    assert counts["memory"]["mapped"]["2M"]["now"] == superpages * SUPERPAGE
    assert bool(counts["kernel"]["refusals"].get("pad_no_gap")) == (superpages == 2)


@claim(
    "S1-062",
    "VI-C",
    "Programs that do not execute their residual code, or one page of it, gain nothing by padding",
    "in direction: nothing, or less than one page's misses",
)
def test_padding_is_for_code_that_is_executed(bench: Bench) -> None:
    whole = "".join(f"f {CODE + n % 40 * 25 * PAGE:#x} x20\n" for n in range(4000))
    one = "".join(f"f {CODE + 1024 * PAGE:#x} x20\n{line}\n" for line in whole.splitlines())
    every = "".join(f"f {CODE + (1024 + n % 500) * PAGE:#x} x20\n{line}\n" for n, line in enumerate(whole.splitlines()))
    data = f"mmap {0xBF4000:#x} 48K rw file:/bin/prog+{1524 * PAGE:#x}\n"

    def gain(fetches: str) -> float:
        source = bench.write("trace.mmtx", f"mmap {CODE:#x} {1524 * 4}K rx file:/bin/prog+0\n{data}{fetches}")
        found = []
        for setting in (PROMOTED, PADDED):
            result = engine.run(source, [REAL.job(setting)], engine.Options(code_residency=True)).results[0]
            found.append(Measured(Figures.of(result)))
        assert [one.of.events.get("code_padded", 0) for one in found] == [0, int(fetches != whole)]
        return found[0].cycles / found[1].cycles - 1

    assert gain(whole) == 0
    assert abs(gain(one)) < 0.02
    assert gain(every) > 0.05
