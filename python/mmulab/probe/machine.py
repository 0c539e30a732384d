"""A machine file made of figures: probed where timing found the value, otherwise inherited, and marked so.

In each table `source` lists the probed keys with their intervals, and `assumed` lists the inherited keys, so that every
report repeats them.
"""

import math
from dataclasses import dataclass
from statistics import median
from typing import Any

from mmulab import engine
from mmulab.probe import walks
from mmulab.probe.fragment import BASE, fragment
from mmulab.probe.frames import Frames
from mmulab.probe.nearest import nearest
from mmulab.units import parse_bytes, show_bytes, toml_tables, toml_value

Json = dict[str, Any]
# Keys of hardware, which differ between processors. Others (names, levels, sides) are structure.
HARDWARE = {"entries", "ways", "hit_cycles", "replacement", "design", "group", "count", "window", "size", "cycles"}
HARDWARE |= {"overhead_cycles", "read_cycles", "frequency_mhz", "memory_cycles", "memory_spread", "asid_bits"}
# How far walks at once may lie from the walkers of the nearest machine to agree with them.
WALKERS_AGREE = 1.0
# Chases with more walks at once than this many times those of independent loads were hits in the second level.
MOST_OF_CHASES = 2.5
# How far a size that the system reports may lie from the probed knee to count as confirmed.
AGREES = 1.6
LINE = 64
# Shortest and longest time, and shapes, that a description can have (crates/walker).
STAYS = (1000, 10**12)
SHAPES = (0.2, 20.0)
# The cache whose lines go about as soon as the entries of a TLB level and of walk caches.
LIKE_CACHE = {1: "l1d", 2: "l2"}
# Figures of how long lines stay in caches of the core's own.
DISPLACED = {f"{name}_retention_{what}" for name in LIKE_CACHE.values() for what in ("cycles", "shape")}
# What the machine is called.
NAME = "this-machine"
# Share of resamples that must show a figure of which even a rough value helps.
MOSTLY = 0.8
# How machines are called whose third level keeps lines of page tables: seen by a stopwatch on this generation alone
# (docs/results/forecast-causes.md, "Lines of page tables").
TABLES_STAY = "zen4"
# Of lines that are used often, share above which a stream of lines from memory displaces them like any others.
STREAM_DISPLACES = 0.5
# A part of the core that neighbours leave at least this share of is taken to be whole.
LIKE_NEW = 0.95
# The same of a second level: frames that fall on the same sets cost a chase up to a tenth of it.
SECOND_LIKE_NEW = 0.9
# By key of a core in time: the figure that shows how many instructions of a kind are in flight.
IN_FLIGHT = {
    "window": "window",
    "loads": "loads_in_flight",
    "stores": "stores_in_flight",
    "int_registers": "ints_in_flight",
    "vector_registers": "vectors_in_flight",
}
# Share of 2 MB pages with one TLB entry from which on such entries are said to exist.
ENTRIES_EXIST = 0.5
# Steps that a prefetcher in a description can be ahead (crates/timing).
MOST_AHEAD = 64
# Loads that a prefetcher by strides or by region follows, where nothing is known of it: as in shipped machines that
# have one.
FOLLOWED = 64
# Furthest line of a region in a description (crates/timing).
MOST_REACH = 8
# Loads in flight up to which a load is taken not to have been brought ahead.
ALONE = 1.5
# Fewest places in a cycle that a description can have (crates/timing).
LEAST_PLACES = 0.25
# A branch target buffer of a processor of which no source states one.
UNKNOWN_BUFFER = {"entries": 1, "ways": 8, "bubbles": 0}
# Ways of the one set that `full` is, at most (crates/assoc).
MOST_WAYS = 256
# Designs whose entries a description can have displaced (crates/tlb).
PAGES = ("plain", "zen")
# A cache of which this much is reached is this computer's own: a measurement scatters.
WHOLE = 0.95
# A walk cache for the host's table: neither AMD nor Intel states how many entries theirs has.
HOST_WALK_CACHE: Json = {
    "name": "host PWC",
    "levels": [2, 3, 4],
    "entries": 64,
    "ways": "full",
    "hit_cycles": 1,
    "assumed": {"entries": "not stated", "ways": "not stated", "hit_cycles": "not stated"},
}


class Table:
    """A table of a description on its way: what was probed, what the system reports, the rest inherited."""

    def __init__(self, table: Json, name: str) -> None:
        """`name`: the machine that it is inherited from."""
        self.table = {key: value for key, value in table.items() if key not in ("source", "assumed")}
        self.inherited_source = table.get("source", "")
        self.name = name
        self.known: dict[str, str] = {}
        self.guessed: dict[str, str] = {}

    def set(self, key: str, value: object, why: str) -> None:
        """A value, and where it comes from."""
        self.table[key] = value
        self.known[key] = why

    def done(self) -> Json:
        """The table with `source` and `assumed`."""
        source = "; ".join(f"{key}: {why}" for key, why in self.known.items())
        inherited = {
            key: f"not probed; inherited from {self.name}"
            for key, value in self.table.items()
            if key in HARDWARE and key not in self.known and value is not None
        }
        return {
            **self.table,
            "source": source or f"inherited from {self.name}",
            "assumed": {**inherited, **self.guessed},
        }


@dataclass(frozen=True)
class Description:
    """A machine file, and how near its walks come to the computer's."""

    toml: str
    walks: walks.Walks


def described(probe: Json) -> Description:
    """The machine file of figures and of the system, for which the simulator runs the chases of walks."""
    figures = {f["name"]: f for f in probe["figures"]}
    curves = {curve["name"]: curve for curve in probe["curves"] if curve["points"]}
    timed = [
        walks.Timed(chase, curves[chase.curve], figures[chase.figure]["value"])
        for chase in walks.CHASES
        if _usable(figures.get(chase.figure))
    ]
    # Walks were timed by the quieter repeats of the fastest bursts: what neighbours displace comes on top of that.
    quiet = {**probe, "figures": [f for f in probe["figures"] if f["name"] not in DISPLACED]}
    fit = walks.find(timed, lambda tried: _toml(quiet, tried))
    return Description(_toml(probe, fit), fit)


def _toml(probe: Json, fit: walks.Walks) -> str:
    """The text of the machine file."""
    processor = probe["system"]["processor"]
    base, how_near = nearest(processor, probe["system"]["caches"])
    figures = {f["name"]: f for f in probe["figures"]}
    large = figures.get("large_entries", {}).get("value")
    if large is None or large < ENTRIES_EXIST:
        # Entries of base pages were counted then, not those of 2 MB pages.
        counted = {"l1_dtlb_entries_2m", "l2_tlb_entries_2m", "l2_tlb_hit_cycles_2m", "walk_cycles_2m"}
        figures = {name: figure for name, figure in figures.items() if name not in counted}
    machine = engine.resolve(engine.Job(base, "linux-4k"))["machine"]
    core = Table(machine["core"], base)
    core.set("count", processor["cpus"], "CPUs of this system")
    _set(core, "frequency_mhz", figures.get("frequency_mhz"), round)
    tlbs = [_tlb(array, figures, base) for array in machine["tlb"]]
    hypervisor = processor["hypervisor"]
    walker, walk_caches = _walker(machine["walker"], figures, fit, base, bool(hypervisor))
    # Instruction caches are not probed.
    data = [c for c in machine["cache"] if not c.get("code")]
    reported = probe["system"]["caches"]
    caches = [
        _cache(c, data.index(c), figures, reported, base) if c in data else Table(c, base) for c in machine["cache"]
    ]
    _share(caches, figures, reported)
    _left(caches, figures)
    _fresh(caches, figures, base)
    _timing(core, figures, base, _code_of_second_level(caches))
    rules = Table(machine["cache_rules"], base)
    _set(rules, "memory_cycles", _memory_latency(figures), round)
    _spread(rules, figures, probe["curves"])
    rules.set("data", True, "a real cache holds data beside page-table lines")
    memory = _memory(processor["memory_bytes"], probe["system"].get("frames"))
    # What the kernel here hands out is the guest's memory.
    parts = [
        f"name = {toml_value(NAME)}\ntitle = {toml_value(_title(processor))}\n"
        f'description = """\n{_description(probe, base, how_near)}\n"""\nisa = {toml_value(processor["isa"])}\n',
        _plain("core", core.done()),
        _plain("memory", _host_memory(memory, large) if hypervisor else memory),
        _plain("table", machine["table"]),
        toml_tables("tlb", [t.done() for t in tlbs]),
        _plain("tlb_rules", Table(machine["tlb_rules"], base).done()),
        _plain("walker", walker.done()),
        toml_tables("walker.cache", [t.done() for t in walk_caches]),
        toml_tables("cache", [t.done() for t in caches]),
        _plain("cache_rules", rules.done()),
    ]
    if hypervisor:
        parts.append(_guest(hypervisor, memory, large, fit))
    return "\n".join(part for part in parts if part)


def _plain(name: str, table: Json) -> str:
    rows = [f"{k} = {toml_value(v)}\n" for k, v in table.items() if v not in ("", None, {}, [])]
    return f"[{name}]\n{''.join(rows)}" if rows else ""


def _title(processor: Json) -> str:
    guest = f", in a virtual machine ({processor['hypervisor']})" if processor["hypervisor"] else ""
    return f"{processor['name'] or processor['vendor']}{guest}"


def _description(probe: Json, base: str, how_near: str) -> str:
    p = probe["system"]["processor"]
    lines = [
        f"Written by `mmulab probe` on {probe['when']}: {p['vendor']} family {p['family']} model {p['model']} stepping "
        f"{p['stepping']}, Linux {probe['system']['kernel']}.",
        f"What was not probed is inherited from {base} ({how_near}), and stands under `assumed`.",
    ]
    if p["hypervisor"]:
        lines.append(
            "This is a virtual machine: nested paging is in the cost of walks, and the processor behind it may change."
        )
    noise = max((n for n in probe["noise"].values() if n is not None), default=0.0)
    lines.append(f"Repeats of the noisiest curve scattered by {noise:.0%} (middle half).")
    return "\n".join(lines)


def _why(figure: Json) -> str:
    low, high = figure["interval"]
    return f"probed, {figure['value']:.4g} (95 % of resamples {low:.4g} to {high:.4g}, curve {figure['curve']})"


def _usable(figure: Json | None) -> bool:
    """A figure of low confidence is shown in the table, but does not enter the machine."""
    return figure is not None and figure["value"] is not None and figure["confidence"] != "low"


def _reliable(figures: dict[str, Json], name: str) -> Json | None:
    """The figure of this name, if it may enter the machine."""
    figure = figures.get(name)
    return figure if _usable(figure) else None


def _memory_latency(figures: dict[str, Json]) -> Json | None:
    """The figure of a load of memory. Walks are a part of a chase over a large footprint; the model adds its own."""
    return _reliable(figures, "memory_alone_cycles") or _reliable(figures, "memory_cycles")


def _spread(rules: Table, figures: dict[str, Json], curves: list[Json]) -> None:
    """How the latency of memory differs between loads, from the curve of loads timed one by one."""
    slow = _reliable(figures, "memory_slow_cycles")
    if slow is None:
        return
    curve = next(curve for curve in curves if curve["name"] == slow["curve"])
    spread = [[point["x"] / 1000, float(round(median(point["cycles"])))] for point in curve["points"]]
    rules.set("memory_spread", [[0.0, spread[0][1]], *spread, [1.0, spread[-1][1]]], _why(slow))


def _set(table: Table, key: str, figure: Json | None, make: Any) -> None:
    if figure is not None and _usable(figure):
        table.set(key, make(figure["value"]), _why(figure))


def _code_of_second_level(caches: list[Table]) -> int:
    """Cycles that a line of code takes longer from the second level than from the first."""
    tables = [cache.table for cache in caches]
    first = next((t for t in tables if t.get("code")), tables[0] if tables else {})
    behind = [t for t in tables if not t.get("code")][1:]
    return max(0, behind[0]["cycles"] - first["cycles"]) if behind else 0


def _timing(core: Table, figures: dict[str, Json], base: str, second_level: int) -> None:
    """Of a core in time: what it has left beside its neighbours, and misses that are in flight at once.

    `second_level`: cycles that its code takes longer than that of the first level.
    """
    timing = core.table.get("timing")
    if not timing:
        return
    timing = {**timing, "memory": {**timing["memory"]}, "units": {**timing["units"]}}
    known = []

    def set_to(path: str, figure: Json, value: float, least: float = 1) -> None:
        table, _, key = path.rpartition(".")
        (timing[table] if table else timing)[key] = max(least, value)
        timing["assumed"] = {name: why for name, why in timing.get("assumed", {}).items() if name != key}
        known.append(f"{path}: {_why(figure)}")

    outstanding = _reliable(figures, "memory_outstanding")
    if outstanding is not None:
        set_to("memory.fill_buffers", outstanding, round(outstanding["value"]))
    memory = _memory_latency(figures)
    for path, name in (("memory.stream_distance", "stream_cycles"), ("memory.stride_distance", "stride_cycles")):
        ahead = _reliable(figures, name)
        if memory is not None and ahead is not None:
            # Where a load of memory takes a tenth of its latency, ten are in flight.
            under_way = memory["value"] / ahead["value"]
            set_to(path, ahead, min(MOST_AHEAD, round(under_way)) if under_way > ALONE else 0, least=0)
    region = _reliable(figures, "region_lines")
    if region is not None:
        set_to("memory.region_reach", region, min(MOST_REACH, round(region["value"])), least=0)
    for reach, key, what in (("stride_distance", "strides", "strides"), ("region_reach", "regions", "region")):
        if timing["memory"].get(reach) and not timing["memory"].get(key):
            timing["memory"][key] = FOLLOWED
            why = f"{base} has no prefetcher by {what}, and here one was timed; nobody states how many loads it follows"
            timing["assumed"] = {**timing.get("assumed", {}), key: why}
    for key, name in IN_FLIGHT.items():
        left = _reliable(figures, name)
        if left is not None and left["value"] < timing[key] * LIKE_NEW:
            set_to(key, left, round(left["value"]))
    # Of a probe that has no instructions of several kinds, adds stand for them.
    left, whole = _reliable(figures, "mixed_at_once"), timing["width"]
    if left is None:
        left, whole = _reliable(figures, "adds_at_once"), timing["units"]["int"]
    if left is not None and left["value"] < whole * LIKE_NEW:
        share = left["value"] / whole
        for path in ("width", "retire_width"):
            set_to(path, left, round(timing[path] * share, 2), least=LEAST_PLACES)
    for unit, kind in (("int", "adds"), ("load", "loads"), ("store", "stores"), ("vector", "vectors")):
        left = _reliable(figures, f"{kind}_at_once")
        if left is not None and left["value"] < timing["units"][unit] * LIKE_NEW:
            set_to(f"units.{unit}", left, round(left["value"], 2), least=LEAST_PLACES)
    branches, jump = _reliable(figures, "branch_targets"), _reliable(figures, "jump_cycles")
    if branches is not None and jump is not None:
        timing["branch_targets"] = _targets(timing.get("branch_targets"), branches, jump, second_level)
        known += [f"branch_targets.buffers: {_why(branches)}", f"branch_targets.decode_cycles: {_why(jump)}"]
    if known:
        timing["source"] = "; ".join([timing["source"], *known])
        core.table["timing"] = timing


def _targets(known: Json | None, branches: Json, jump: Json, second_level: int) -> Json:
    """Branch target buffers: of the last one, as many entries as are left beside neighbours."""
    buffers = [{**buffer} for buffer in known["buffers"]] if known else [{**UNKNOWN_BUFFER}]
    last = buffers[-1]
    if not known or branches["value"] < last["entries"] * LIKE_NEW:
        ways = last["ways"]
        last["entries"] = max(1, round(branches["value"] / ways)) * ways
    # A nearer buffer has no more than the last.
    for buffer in buffers[:-1]:
        buffer["entries"] = min(buffer["entries"], last["entries"])
    return {"buffers": buffers, "decode_cycles": max(0, round(jump["value"] - second_level))}


def _tlb(array: Json, figures: dict[str, Json], base: str) -> Table:
    table = Table(array, base)
    data = array["side"] in ("data", "both") and not array.get("victim_of")
    sizes = array["sizes"]
    size = "4k" if "4K" in sizes else "2m" if "2M" in sizes else None
    if not data or size is None:
        return table
    if array["design"] in PAGES:
        _displaced(table, figures, array["level"])
    level = "l1_dtlb" if array["level"] == 1 else "l2_tlb"
    entries = figures.get(f"{level}_entries_{size}")
    if entries is not None and _usable(entries):
        ways = array["ways"]
        value = round(entries["value"])
        low, high = entries["blur"] or entries["interval"]
        if low <= array["entries"] <= high:
            table.set("entries", array["entries"], f"as {base}, which agrees with the knee: {_why(entries)}")
        elif ways != "full" or value <= MOST_WAYS:
            # Ways must divide the entries; nobody times them.
            table.set("entries", value if ways == "full" else max(1, round(value / ways)) * ways, _why(entries))
    if array["level"] == 2:
        _set(table, "hit_cycles", figures.get(f"l2_tlb_hit_cycles_{size}"), round)
    return table


def _walks_at_once(table: Table, figures: dict[str, Json], base: str) -> None:
    """Walkers by chases at once. Among independent loads each one begins less often than its walks take: the rest is
    its turnaround."""
    chases, loads = _reliable(figures, "walks_overlapped_4k"), _reliable(figures, "walks_of_loads_4k")
    between = _reliable(figures, "walk_of_loads_cycles_4k")
    count = table.table["count"]
    if chases is None:
        _set(table, "count", loads, lambda value: max(1, round(value)))
    elif abs(chases["value"] - count) <= WALKERS_AGREE:
        table.set("count", count, f"as {base}, which agrees with chases at once: {_why(chases)}")
    elif loads is None or chases["value"] <= MOST_OF_CHASES * loads["value"]:
        _set(table, "count", chases, lambda value: max(1, round(value)))
    if loads is not None and between is not None:
        idle = max(0.0, table.table["count"] - loads["value"])
        table.set("turnaround_cycles", round(idle * between["value"]), f"{_why(between)}; {_why(loads)}")


def _walker(
    walker: Json, figures: dict[str, Json], fit: walks.Walks, base: str, virtual: bool
) -> tuple[Table, list[Table]]:
    table = Table({k: v for k, v in walker.items() if k != "cache"}, base)
    _walks_at_once(table, figures, base)
    if fit.compared:
        table.set("overhead_cycles", fit.overhead_cycles, fit.why)
        table.set("read_cycles", fit.read_cycles, fit.why)
    caches = []
    for cache in walker.get("cache", []):
        levels = cache["levels"]
        if fit.shape.from_level_3 and virtual:
            levels = [level for level in levels if level != 2]
            if not levels:
                # It holds nothing else.
                continue
        one = Table(cache, base)
        _displaced(one, figures, 1)
        if levels != cache["levels"]:
            one.set("levels", levels, fit.why)
        # Entries of level 2 point to the tables of 2 MB regions.
        if 2 in one.table["levels"]:
            ways = cache["ways"]

            def entries(value: float, ways: int | str = ways) -> int:
                reached = value / (2 << 20)
                if isinstance(ways, int):
                    return max(1, round(reached / ways)) * ways
                return min(MOST_WAYS, max(1, round(reached)))

            _set(one, "entries", figures.get("walk_cache_reach_bytes"), entries)
        caches.append(one)
    return table, caches


def _cache(cache: Json, at: int, figures: dict[str, Json], reported: list[Json], base: str) -> Table:
    table = Table(cache, base)
    name = ("l1d", "l2", "l3")[at] if at < 3 else None
    figure = figures.get(f"{name}_bytes")
    retention = _retention(figures, name)
    if retention is not None:
        table.set("retention_cycles", _within(STAYS, round(retention["value"])), _why(retention))
        shape = figures.get(f"{name}_retention_shape")
        if shape is not None and shape["value"] is not None:
            table.set("retention_shape", _within(SHAPES, round(shape["value"], 2)), _why(shape))
    system = next((c for c in reported if c["level"] == at + 1 and c["bytes"]), None)
    probed = figure["value"] if figure is not None and _usable(figure) else None
    if probed is not None and at > 0 and _is_knee_of(at, probed, reported):
        # The curve has a step at the end of the nearer level, where a neighbour uses a part of that: no figure of this
        # level.
        probed = None
    elif not (system and probed) or 1 / AGREES <= system["bytes"] / probed <= AGREES:
        # A flat part of another size is another thing: the same cache behind the second TLB level, for example.
        _set(table, "cycles", figures.get(f"{name}_cycles"), round)
    if system and (probed is None or 1 / AGREES <= system["bytes"] / probed <= AGREES):
        how = "not confirmed by the curve" if probed is None else f"confirmed: {_why(figure or {})}"
        table.set("size", _size(system["bytes"]), f"reported by the system, {how}")
        if system["ways"] and system["bytes"] % (system["ways"] * LINE) == 0:
            table.set("ways", system["ways"], "reported by the system")
    elif probed is not None:
        unit = math.lcm(cache["ways"] * LINE, 1024)
        other = f"; the system reports {show_bytes(system['bytes'])}" if system else ""
        table.set("size", _size(max(1, round(probed / unit)) * unit), f"{_why(figure or {})}{other}")
    return table


def _share(caches: list[Table], figures: dict[str, Json], reported: list[Json]) -> None:
    """The size of the last level that this computer reaches: neighbours on a host have the rest."""
    held = figures.get("caches_bytes")
    data = [cache for cache in caches if not cache.table.get("code")]
    last = data[-1]
    system = next((c for c in reported if c["level"] == len(data) and c["bytes"] and c["ways"]), None)
    if len(data) < 2 or system is None or held is None or not _usable(held):
        return
    nearer = sum(parse_bytes(cache.table["size"]) or 0 for cache in data[:-1]) if last.table.get("victim") else 0
    # Neighbours take a part of each set: loads that come back soon seldom miss, as in a cache of as many ways.
    unit = math.lcm(system["ways"] * LINE, 1024)
    reached = max(1, round((held["value"] - nearer) / unit)) * unit
    if reached < system["bytes"] * WHOLE:
        part = f"of {show_bytes(system['bytes'])} that the system reports, this computer reaches so much"
        last.set("size", _size(reached), f"{part}: all caches together, {_why(held)}")
        last.set("ways", system["ways"], "reported by the system")


def _give_ways(cache: Table, ways: int, way: int, why: str) -> None:
    """Makes a cache as many ways large, of `way` bytes each."""
    cache.set("size", _size(ways * way), why)
    cache.set("ways", ways, why)


def _left(caches: list[Table], figures: dict[str, Json]) -> None:
    """The ways of the second level that another hardware thread of the core leaves."""
    left = _reliable(figures, "l2_left_bytes")
    data = [cache for cache in caches if not cache.table.get("code")]
    if left is None or len(data) < 2:
        return
    second = data[1]
    size, ways = parse_bytes(second.table["size"]) or 0, second.table["ways"]
    way = size // ways
    held = max(1, round(left["value"] / way)) if way else ways
    if left["value"] < size * SECOND_LIKE_NEW and held < ways and way % LINE == 0:
        why = f"{held} of {ways} ways of {show_bytes(size)} are left: {_why(left)}"
        _give_ways(second, held, way, why)


def _fresh(caches: list[Table], figures: dict[str, Json], base: str) -> None:
    """What the last level does with lines from memory, if it treats them unlike the others."""
    last, admits, stays = caches[-1], _reliable(figures, "l3_fresh_admits"), _retention(figures, "l3_fresh")
    if admits is None or not last.table.get("victim"):
        return
    others = last.table.get("retention_cycles")
    go_sooner = stays is not None and (others is None or stays["value"] < others * LIKE_NEW)
    if admits["value"] >= LIKE_NEW and not go_sooner:
        return
    fresh: Json = {"admits": round(admits["value"], 3)}
    why = _why(admits)
    if stays is not None:
        fresh["retention_cycles"] = _within(STAYS, round(stays["value"]))
        why = f"{why}; {_why(stays)}"
    displaces = _reliable(figures, "l3_stream_displaces")
    if displaces is not None and displaces["value"] > STREAM_DISPLACES:
        fresh["goes_next"] = False
        why = f"{why}; goes_next: {_why(displaces)}"
    if base.startswith(TABLES_STAY):
        fresh["tables"] = False
        why = f"{why}; tables: programs of 256 MB to 2 GB on a Zen 4 took as long as if these lines stay"
    last.set("fresh", fresh, why)


def _is_knee_of(level: int, probed: float, reported: list[Json]) -> bool:
    """Whether a knee is where the system has this level end, and a larger one behind it."""
    sizes = {cache["level"]: cache["bytes"] for cache in reported if cache["bytes"]}
    size, behind = sizes.get(level), sizes.get(level + 1)
    return bool(size and behind and probed <= size * AGREES and behind > size * AGREES**2)


def _retention(figures: dict[str, Json], name: str | None) -> Json | None:
    """How long lines stay in a cache, or some of them. A rough value is nearer to the truth than none: they would stay
    for ever."""
    found = figures.get(f"{name}_retention_cycles")
    return found if found is not None and found["value"] is not None and found["found"] >= MOSTLY else None


def _displaced(table: Table, figures: dict[str, Json], level: int) -> None:
    """Entries of a TLB or of a walk cache go too, where the lines of the cache of its level do."""
    retention = _retention(figures, LIKE_CACHE[level])
    if retention is not None:
        table.table["retention_cycles"] = _within(STAYS, round(retention["value"]))
        table.guessed["retention_cycles"] = f"as lines of the cache of this level: {_why(retention)}"


def _within(bounds: tuple[float, float], value: float) -> float:
    return min(bounds[1], max(bounds[0], value))


def _size(size: int) -> str:
    for shift, unit in ((20, "M"), (10, "K")):
        if size % (1 << shift) == 0:
            return f"{size >> shift}{unit}"
    return str(size)


def _memory(size: int, frames: Json | None) -> Json:
    """Memory, of which a part hands out frames as scattered as the kernel's are; after that there are whole blocks."""
    gigabytes = math.ceil(size / (1 << 30))
    memory: Json = {"size": f"{gigabytes}G"}
    wanted = fragment(Frames(**frames), gigabytes) if frames is not None else None
    if frames is not None and wanted is not None:
        memory["fragment"] = wanted
        memory["source"] = (
            f"fragment: of {show_bytes(frames['pages'] * BASE)} of base pages {show_bytes(frames['scattered'] * BASE)} "
            f"filled {frames['density']:.0%} of their groups of 8 frames, the others all (pagemap)"
        )
        if frames.get("regions"):
            memory["source"] += f"; they lay in {frames['regions']} regions of 2 MB"
    return memory


def _host_memory(memory: Json, large: float | None) -> Json:
    """The host's memory: whatever it is, the guest fits. Small pages of a host that has run for long lie anywhere."""
    gigabytes = int(memory["size"].removesuffix("G"))
    if large is None or large >= ENTRIES_EXIST:
        return {"size": memory["size"]}
    return {
        "size": f"{4 * gigabytes}G",
        "fragment": {"kind": "memhog", "percent": 50, "chunk": "4K"},
        "source": "fragment: no large pages were seen",
        "assumed": {"fragment": "half of the host's frames, at random, are somebody else's", "size": "not seen"},
    }


def _guest(hypervisor: str, memory: Json, large: float | None, fit: walks.Walks) -> str:
    """The virtual machine, with the host's policy that fits what the probe of large entries saw."""
    if large is None:
        word = "whether the host backs it with large pages was not found out"
    elif large < ENTRIES_EXIST:
        word = "no 2 MB entries were seen, so the host backs it with small pages: keep the host's policy linux-4k"
    else:
        word = "2 MB entries were seen, so the host backs it with large pages: give --host-policy linux-thp"
    table = {"memory": memory, "source": f"hypervisor {hypervisor}; {word}"}
    of_host = [HOST_WALK_CACHE | {"source": f"there is one: {fit.why}"}] if fit.shape.of_host else []
    return _plain("virtual", table) + toml_tables("virtual.cache", of_host)
