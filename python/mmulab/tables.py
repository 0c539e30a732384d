"""Results as tables for the terminal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mmulab.result import LEVEL_NAMES, LEVELS, Result
from mmulab.units import show_bytes, show_count, show_percent, show_rate

# Block sizes whose fragmentation index is told: larger than a page, and up to what Linux's allocator hands out.
BLOCKS = ("64K", "512K", "2M", "4M")
# More than any table needs: to ask how wide it would be.
WIDE = 1000
# Between columns.
GAP = 2


# Base pages of 2 MB.
CODE_PAGES = 512
# Apart from memory: page tables map a page that two processes share twice. At the peak of each page size.
MAPPED = "mapped by page tables, counted"


@dataclass(frozen=True)
class Figure:
    """One line of a comparison: its name, whether it is counted or modelled, its value and how it is written."""

    name: str
    group: str
    value: Callable[[Result], float | None]
    show: Callable[[float], str]


def _misses(level: str) -> Callable[[Result], float]:
    return lambda r: r.mpki(level)


def _mapped(size: str) -> Callable[[Result], float]:
    return lambda r: r.mapped_by_size.get(size, 0)


FIGURES = [
    *(Figure(f"{LEVEL_NAMES[lv]} misses", "per 1000 instructions, counted", _misses(lv), show_rate) for lv in LEVELS),
    Figure("page walks", "per 1000 instructions, counted", lambda r: r.per_kilo(r.walk_count), show_rate),
    Figure("memory accesses per walk", "per walk, counted", lambda r: r.accesses_per_walk, show_rate),
    Figure("translation", "cycles, modelled", lambda r: r.translation_cycles, show_count),
    Figure("share of user time", "cycles, modelled", lambda r: r.translation_share, show_percent),
    Figure("user time", "cycles, modelled", lambda r: r.user_cycles, show_count),
    Figure("kernel work", "cycles, modelled", lambda r: r.model["cycles"]["kernel"], show_count),
    Figure("all", "cycles, modelled", lambda r: r.total_cycles, show_count),
    Figure("resident at the peak", "memory, counted", lambda r: r.resident_peak, show_bytes),
    Figure("page tables at the peak", "memory, counted", lambda r: r.table_peak, show_bytes),
    Figure("bloat", "memory, counted", lambda r: r.bloat, show_bytes),
    Figure("read-around", "memory, counted", lambda r: r.read_around, show_bytes),
    Figure("FMFI of 2 MB at the start", "memory, counted", lambda r: r.fmfi["2M"][0], show_percent),
    Figure("FMFI of 2 MB at the end", "memory, counted", lambda r: r.fmfi["2M"][1], show_percent),
]


def plain(**more: object) -> Table:
    """A table without lines, as this program's output has them."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    for key, value in more.items():
        setattr(table, key, value)
    return table


def print_result(out: Console, result: Result) -> None:
    """A result, whole, for reading."""
    name = escape(str(result.trace.get("name", "")))
    changed = "".join(f", {escape(change)}" for change in result.changes)
    title = f"[bold]{escape(result.machine_title)}[/] under [bold]{result.policy}[/]: {name}{changed}"
    out.print(title, soft_wrap=True)
    if not result.complete:
        out.print(f"[bold yellow]PARTIAL[/] ({result.ended}): {escape(result.ended_message)}", soft_wrap=True)
    out.print(
        f"{show_count(result.instructions)} instructions, {show_count(result.references)} references "
        f"({show_count(result.counts['fetches'])} fetches, {show_count(result.counts['reads'])} reads, "
        f"{show_count(result.counts['writes'])} writes)"
    )
    if result.uncounted:
        out.print(result.uncounted, soft_wrap=True)
    if warps := result.counts.get("warps"):
        out.print(
            f"{show_count(warps['lanes'])} addresses of lanes in {show_count(warps['instructions'])} loads and stores "
            "of warps: the references are what of them is looked up"
        )
    out.print()
    table = plain()
    table.add_column("TLB")
    for column in ("accesses", "hits", "misses", "misses per 1000 instr."):
        table.add_column(column, justify="right")
    for level in LEVELS:
        c = result.tlb(level)
        table.add_row(
            LEVEL_NAMES[level],
            f"{c['accesses']:,}",
            f"{c['hits']:,}",
            f"{c['misses']:,}",
            show_rate(result.mpki(level)),
        )
    out.print(table)
    out.print()
    _print_walks(out, result)
    if result.halves:
        _print_halves(out, result)
    if result.members:
        _print_members(out, result.members)
    if result.host is not None:
        _print_host(out, result.host)
    _print_time(out, result)
    _print_memory(out, result)
    _print_energy(out, result)
    if result.fault_latency:
        _print_latency(out, result.fault_latency)
    if result.code_residency:
        _print_residency(out, result.code_residency)


def _print_residency(out: Console, windows: list[dict[str, Any]]) -> None:
    """Whole 2 MB of code with this number of clusters or more in memory: what a threshold would promote."""
    whole = [row["clusters"] for row in windows if row["mapped_pages"] == CODE_PAGES]
    if not whole:
        out.print("\nNo code is 2 MB large: none can be mapped by superpages")
        return
    table = plain()
    table.add_column("Clusters in memory, of 32", justify="right")
    table.add_column("2 MB of code with as many or more", justify="right")
    for clusters in sorted(set(whole), reverse=True):
        table.add_row(str(clusters), str(sum(other >= clusters for other in whole)))
    out.print()
    out.print(table)


def _print_halves(out: Console, result: Result) -> None:
    """User space and the kernel's half apart."""
    columns = {
        "L1I misses": "l1i_misses",
        "L1D misses": "l1d_misses",
        "walks": "walks",
        "cycles of walks": "walk_cycles",
        "stall cycles": "stall_cycles",
    }
    table = plain()
    table.add_column("References to memory of")
    for column in columns:
        table.add_column(column, justify="right")
    for name, half in (("programs", "user"), ("the kernel", "kernel")):
        table.add_row(name, *(f"{result.halves[half][key]:,}" for key in columns.values()))
    out.print(table)
    out.print()


def _print_members(out: Console, members: list[dict[str, Any]]) -> None:
    table = plain()
    table.add_column("Member")
    for column in ("instructions", "L1 misses", "walks", "walks per 1000 instr.", "cycles", "cycles per instr."):
        table.add_column(column, justify="right")
    for each in members:
        instructions = each["instructions"]
        table.add_row(
            escape(each["name"]),
            show_count(instructions),
            f"{each['l1i_misses'] + each['l1d_misses']:,}",
            f"{each['walks']:,}",
            show_rate(each["walks"] * 1000 / max(1, instructions)),
            show_count(each["cycles"]["total"]),
            f"{each['cycles']['total'] / max(1, instructions):.3f}",
        )
    out.print(table)
    out.print()


def _print_energy(out: Console, result: Result) -> None:
    energy = result.data["energy"]
    dynamic = energy["dynamic_nj"]
    total = dynamic["total"]
    if not total:
        return
    names = {"lookup": "lookups", "predictor": "guesses", "walk": "walks", "fill": "fills", "other": "other"}
    parts = [f"{name} {dynamic[key] / total:.0%}" for key, name in names.items() if dynamic[key]]
    leaked = energy["leakage_nj"] / 1e3
    out.print(f"\nTranslation took {total / 1e3:,.1f} uJ (modelled): {', '.join(parts)}; TLBs leaked {leaked:,.1f} uJ")


def print_perf(out: Console, result: Result) -> None:
    """What the machine's own performance counters would say."""
    if not result.perf:
        out.print(f"{escape(result.machine)} names no performance events: its description has no perf table.")
        return
    table = plain()
    for column in ("Performance event", "count", "per 1000 instr.", "for perf stat -e"):
        table.add_column(column, justify="left" if column.startswith(("Perf", "for")) else "right", no_wrap=True)
    for event in result.perf:
        note = " (modelled)" if event["modelled"] else ""
        rate = f"{event['per_kilo_instruction']:.3f}"
        table.add_row(f"{event['name']}{note}", f"{event['value']:,}", rate, event.get("perf") or event["name"])
    out.print(table)


def _print_walks(out: Console, result: Result) -> None:
    table = plain()
    table.add_column("Page walks")
    for column in ("walks", "completed", "faulted", "memory accesses", "per walk"):
        table.add_column(column, justify="right")
    for side in ("instruction", "data"):
        w = result.walks(side)
        per = w["accesses"] / w["walks"] if w["walks"] else 0.0
        table.add_row(
            side, f"{w['walks']:,}", f"{w['completed']:,}", f"{w['faulted']:,}", f"{w['accesses']:,}", show_rate(per)
        )
    out.print(table)
    out.print()
    levels = [(str(lv["level"]), lv) for lv in result.walk_levels]
    if result.host_walk_levels:
        levels = [(f"guest {level}", lv) for level, lv in levels]
        levels += [(f"host {lv['level']}", lv) for lv in result.host_walk_levels]
    if levels:
        servers = sorted({name for _, lv in levels for name in lv.get("served_by", {})}, key=_nearest_first)
        table = plain()
        table.add_column("Entry of level")
        for column in ("from walk cache", "reads", *servers):
            table.add_column(column, justify="right")
        for level, lv in levels:
            served = lv.get("served_by", {})
            cells = [f"{lv.get('from_walk_cache', 0):,}", f"{lv.get('reads', 0):,}"]
            table.add_row(level, *cells, *(f"{served.get(s, 0):,}" for s in servers))
        out.print(table)
        out.print()


def _print_host(out: Console, host: dict[str, Any]) -> None:
    violations = host["walk_violations"] + host["kernel_violations"]
    memory = host["memory"]
    out.print(
        f"Host ({host['mode']}): {host['exits']:,} exits, {violations:,} violations of its tables, of which "
        f"{host['kernel_violations']:,} by guests' kernels, {host['flushes']:,} flushes. Resident at the peak "
        f"{show_bytes(memory['resident_bytes_peak'])}, page tables {show_bytes(memory['table_bytes_peak'])}.",
        soft_wrap=True,
    )
    if host["mode"] == "shadow":
        out.print(
            f"Shadow tables: {host['table_writes']:,} entries that guests wrote to their tables and "
            f"{host['table_loads']:,} tables they loaded, each an exit.",
            soft_wrap=True,
        )
    if "nested_tlb" in host:
        tlb = host["nested_tlb"]
        out.print(f"Nested TLB: {tlb['accesses']:,} accesses, {tlb['hits']:,} hits, {tlb['misses']:,} misses.")
    out.print()


def _nearest_first(server: str) -> tuple[bool, str]:
    return (server == "memory", server)


def _print_time(out: Console, result: Result) -> None:
    cycles = result.model["cycles"]
    table = plain()
    table.add_column("Cycles (modelled)")
    table.add_column("", justify="right")
    table.add_column("of all", justify="right")
    names = {
        "base": "instructions",
        "tlb": "L2 TLB hits",
        "walk": "page walks",
        "kernel": "kernel work",
        "host": "host's work",
        "total": "all",
    }
    for key, name in names.items():
        if key not in cycles:
            continue
        share = cycles[key] / cycles["total"] if cycles["total"] else 0.0
        table.add_row(name, f"{cycles[key]:,}", show_percent(share))
    out.print(table)
    sampled = (result.data.get("timing") or {}).get("sampled")
    if sampled:
        error = "unknown" if sampled["error"] is None else f"± {show_percent(sampled['error'])}"
        out.print(f"Time by {sampled['samples']:,} samples: {error} (95 %). All counts are exact.")
    serial = result.model.get("share_of_time_serial")
    without = f" ({show_percent(serial)} if nothing overlapped)" if serial is not None else ""
    out.print(f"Translation takes {show_percent(result.translation_share)} of user time{without}.\n")


def _print_memory(out: Console, result: Result) -> None:
    out.print(
        f"Resident at the peak {show_bytes(result.resident_peak)} (private pages and the page cache), page tables "
        f"{show_bytes(result.table_peak)}.",
        soft_wrap=True,
    )
    sizes = ", ".join(f"{show_bytes(b)} by {size}" for size, b in result.mapped_by_size.items() if b) or "nothing"
    zero = f" Zero pages, which take no memory, map {show_bytes(result.zero_mapped)}." if result.zero_mapped else ""
    out.print(f"Mapped by page tables at the peak of each size: {sizes}.{zero}", soft_wrap=True)
    if result.bloat is not None and result.read_around is not None:
        out.print(
            f"Never accessed: {show_bytes(result.bloat)} of private memory (bloat), {show_bytes(result.read_around)} "
            "of files (read-around).",
            soft_wrap=True,
        )
    _print_fragmentation(out, result)


def _print_latency(out: Console, rows: Sequence[dict[str, Any]]) -> None:
    table = plain()
    table.add_column("Page faults, in microseconds")
    for column in ("size", "faults", "mean", "median", "99 %", "most"):
        table.add_column(column, justify="right")
    for row in rows:
        quantiles = row["quantiles_us"]
        times = (row["mean_us"], quantiles["p50"], quantiles["p99"], quantiles["max"])
        table.add_row(row["kind"], row["size"], f"{row['faults']:,}", *(f"{us:,.3f}" for us in times))
    out.print()
    out.print(table)


def _print_fragmentation(out: Console, result: Result) -> None:
    sizes = [size for size in BLOCKS if size in result.fmfi]
    table = plain()
    table.add_column("Fragmentation (FMFI) for")
    for size in sizes:
        table.add_column(size, justify="right")
    if result.fmfi_target is not None:
        table.add_row("wanted", *(show_percent(result.fmfi_target) if size == "2M" else "" for size in sizes))
    for at, when in enumerate(("before the program", "after it")):
        table.add_row(when, *(show_percent(result.fmfi[size][at]) for size in sizes))
    out.print()
    out.print(table)


def comparison(results: Sequence[Result], labels: Sequence[str]) -> list[tuple[str, list[tuple[str, list[str]]]]]:
    """Figures by group: each row has the first result's figure and, for the others, the figure and its difference."""
    sizes = sorted({s for r in results for s in r.mapped_by_size}, key=_by_size)
    figures = [*FIGURES, *(Figure(f"mapped by {s}", MAPPED, _mapped(s), show_bytes) for s in sizes)]
    groups: dict[str, list[tuple[str, list[str]]]] = {}
    for figure in figures:
        values = [figure.value(r) for r in results]
        if all(v is None for v in values):
            continue
        first = values[0]
        cells = [_compared(figure, v, None if i == 0 else first, i == 0) for i, v in enumerate(values)]
        groups.setdefault(figure.group, []).append((figure.name, cells))
    assert all(len(cells) == len(labels) for rows in groups.values() for _, cells in rows)
    return list(groups.items())


def _by_size(size: str) -> int:
    return int(size[:-1]) << {"K": 10, "M": 20, "G": 30}[size[-1]]


def _compared(figure: Figure, value: float | None, first: float | None, is_first: bool) -> str:
    if value is None:
        return "–"
    shown = figure.show(value)
    if is_first or first is None:
        return shown
    if value == first:
        return f"{shown} (=)"
    if figure.show is show_percent:  # the difference of shares, not the share of a share
        points = f"{100 * (value - first):+.1f}"
        return f"{shown} (=)" if float(points) == 0 else f"{shown} ({points} points)".replace("-", "−")
    return f"{shown} ({show_percent(value / first - 1, signed=True)})" if first else f"{shown} (new)"
