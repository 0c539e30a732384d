"""What each key of a result file means: the source of the reference page, and of the test that no key lacks a meaning.

A key's place is dotted; `[]` stands for the entries of a list and `*` for any key.
"""

KEYS: tuple[tuple[str, str, str], ...] = (
    (
        "schema",
        "",
        "Version of this layout; it grows when a key changes its meaning or its name. Layouts from 3 on are read.",
    ),
    ("version", "", "The version of mmulab."),
    (
        "trace",
        "",
        "What was run: name, format, program, arguments, instruction set, hash and warnings. skipped: of a trace that "
        "was cut, the instructions before it. reshaped: what was changed of the trace.",
    ),
    ("machine", "", "The machine's description, every value known."),
    ("policy", "", "The policy's description, every value known; in virtual machines the guests'."),
    ("host_policy", "", "In virtual machines: the host's policy."),
    ("adviser", "", "With an adviser (guide: Advise page sizes in Python): the module and the name of its class."),
    ("options", "", "The options of the run, but for the number of threads: no result depends on it."),
    ("set", "", "The assignments made with --set."),
    ("complete", "", "Whether all that was asked for was run."),
    (
        "ended.reason",
        "",
        "end, limit, interrupted, trace-damaged, trace-end-damaged (after the last reference), out-of-memory, "
        "segfault, stuck, no-place, unsound, kernel, adviser or too-much: why the run ended.",
    ),
    ("ended.message", "", "The same in words; empty at the end of the trace."),
    (
        "uncounted",
        "",
        "What was run before counts began, with --skip or of a trace that was cut: instructions and references. "
        "Nothing else of it is in the result, but for what memory is used for, and peaks.",
    ),
    ("counts.instructions", "instructions", "Instructions retired."),
    ("counts.references", "references", "Fetches, reads and writes."),
    ("counts.fetches", "references", "Executions of a translation block, one for each page it touches."),
    ("counts.reads", "references", "Loads, one for each page touched."),
    ("counts.writes", "references", "Stores, one for each page touched."),
    ("counts.tlb.*", "", "By level and side (l1i, l1d, l2i, l2d): accesses, hits, misses. hits + misses = accesses."),
    (
        "counts.arrays[]",
        "",
        "Each TLB array: name, level, side, accesses, hits, misses, fills, evictions, invalidations, hits_by_size. "
        "Arrays that coalesce also have coalescing; `mix` and `colt++` have mirroring (writes, reads, extended, "
        "duplicates). Arrays that are searched size by size have probes, and predictor where they have one.",
    ),
    (
        "counts.reloads",
        "misses",
        "What misses of l1i and l1d brought into the first level: l2_hits and l2_misses by size of the entry. "
        "coalesced: the entry translates several pages of the table. no_l1_array: no first-level array takes it. The "
        "hits add up to the second level's hits, the misses to its misses less those that ended in no translation.",
    ),
    (
        "counts.walks.instruction",
        "",
        "Walks of fetches: walks, completed, faulted, accesses (entries read), cycles (durations summed).",
    ),
    ("counts.walks.data", "", "The same for loads and stores."),
    ("counts.walks.replays", "walks", "Walks made again after the kernel served a fault."),
    ("counts.walks.dirty_updates", "walks", "Walks that only set a dirty bit."),
    (
        "counts.walks.levels[]",
        "",
        "By level of the table (1 is the last): from_walk_cache, reads, served_by each cache or memory.",
    ),
    (
        "counts.walks.host_levels[]",
        "",
        "In virtual machines: the same of the host's table. Its reads are among the accesses of the walks above.",
    ),
    ("counts.walks.denied_rechecks", "walks", "Walks made because a translation's rights did not allow the access."),
    ("counts.segfaults", "references", "References to memory that no mapping holds, or against its rights."),
    (
        "counts.warps",
        "",
        "On shader cores: instructions (loads and stores, of all lanes together), lanes (addresses named), and lookups "
        "(the references that they were coalesced to). port_stalls: cycles cores were kept by lookups beyond the "
        "first. joined: lookups that missed and waited for a walk in flight.",
    ),
    ("counts.space_switches", "switches", "Changes of address space that a core's TLBs or walker noticed."),
    (
        "counts.shootdowns",
        "",
        "Where the machine says how flushes reach other CPUs: flushes, instructions (broadcast for them), and "
        "interrupts (CPUs interrupted for them). cycles: of all this, a part of the kernel's.",
    ),
    (
        "counts.kernel",
        "",
        "What the kernel did: faults by kind, refusals of larger pages by reason, units of work, invalidations sent.",
    ),
    (
        "counts.virtual",
        "",
        "In virtual machines, the host: mode; exits (guests left for it); cycles; walks of its table alone; "
        "nested_tlb; machine_switches. walk_violations and kernel_violations: its table had nothing for a walk, or for "
        "a store of a guest's kernel. table_writes and table_loads: with shadow tables, exits for entries that a guest "
        "wrote to its tables and for tables that it loaded. nodes_told: merged nodes that guests reported. hints_told: "
        "hints of page sizes that guests passed on, if any. flushes: all translations of a machine dropped, because "
        "the host changed its table. kernel and memory: as of a guest. guests: kernel and memory of each, where there "
        "are several (then counts.kernel and counts.memory are the first one's).",
    ),
    (
        "counts.memory",
        "bytes",
        "resident_bytes (private_bytes and page_cache_bytes, each frame once), table_bytes, free_bytes, the hugetlb "
        "pool, and the peaks. mapped: what page tables map by page size, in bytes now and at the peak, in all and by "
        "process. mapped_zero: the same of zero pages, which mapped leaves out. Both are address space, not memory.",
    ),
    (
        "counts.memory.tables",
        "",
        "small_bytes in tables of a frame each, node_bytes in nodes of 2 MiB or 1 GiB, unmerged_bytes that the same "
        "mappings take without nodes. What Compendia tables did: checks, merges and unmerges by levels, "
        "copied_entries, refusals. What hashed tables did: grown, shrunk, kicked_lines, rehashed_lines, "
        "walk_table_writes, refused_resize.",
    ),
    (
        "counts.memory.contiguity",
        "pages",
        "Base pages, and the rest for every page size (by_size) and by what memory is for (by_kind). It is pages, runs "
        "of neighbours that lie in neighbouring frames, and runs by length. Then the average length of the run that a "
        "page is in, and base pages in whole aligned blocks.",
    ),
    (
        "counts.memory.touched_bytes",
        "bytes",
        "With --touched: private pages that were accessed, at the peak, and pages of files, each once.",
    ),
    (
        "counts.memory.bloat_bytes",
        "bytes",
        "With --touched: private_bytes_peak minus the peak of private pages accessed. What the page sizes of a policy "
        "cost.",
    ),
    (
        "counts.memory.read_around_bytes",
        "bytes",
        "With --touched: file_bytes_peak minus the file pages accessed. What reading around a fault brought.",
    ),
    (
        "counts.memory.fragmentation",
        "share",
        "FMFI, the share of free memory that lies in blocks too small for an order. target: the order and index that "
        "the machine asks for, null if none. orders: for each order its block size, fmfi_at_start (before the program) "
        "and fmfi_at_end.",
    ),
    (
        "per_kilo_instruction",
        "per 1000 instructions",
        "The counts of misses and walks divided by thousands of instructions.",
    ),
    (
        "model.method",
        "",
        "window (a core hides what its window covers), savable (a given share of walk cycles is lost), or "
        "core-in-time. The last means that an out-of-order core ran the program's instructions (--timing).",
    ),
    (
        "timing",
        "",
        "With --timing, sums over all CPUs: cycles until the last instruction had retired, instructions, mispredicted "
        "branches, and unknown_instructions. The code of the last is not known, so their dependences are assumed. "
        "unknown_targets: taken branches, where there are any, that were predicted but were in no branch target "
        "buffer. "
        "software_prefetches: prefetch instructions of the program, where there are any. No trace has their "
        "addresses, so the lines that they bring come later in the model.",
    ),
    (
        "timing.sampled",
        "",
        "With --error: samples that ran in time. error: half of the 95 % interval of the cycles, as a share. groups: "
        "the instructions and cycles of neighbouring samples together.",
    ),
    (
        "timing.stack",
        "cycles",
        "What retirement waited for; the sum is timing.cycles. work, fetch_second_level, fetch_walk, fetch_miss, "
        "branch, second_level, stores (a full store queue), trap, walk and data. The last two are lists by where the "
        "farthest line was: first cache level, second, third, memory.",
    ),
    (
        "energy.dynamic_nj",
        "nJ",
        "What translation took, by operation: lookup, predictor, walk, fill, other (invalidations, dirty bits), total.",
    ),
    ("energy.leakage_nj", "nJ", "What TLBs and walk caches leaked in model.seconds."),
    ("energy.total_nj", "nJ", "Both."),
    (
        "energy.structures[]",
        "",
        "Each structure: reads and writes, what one of each takes, its leakage, its dynamic energy.",
    ),
    (
        "model.cycles",
        "cycles",
        "base (instructions), tlb (second-level hits), walk, kernel, host (in virtual machines: the host's kernel, and "
        "leaving guests for it), total.",
    ),
    ("model.walk_queued", "cycles", "Cycles that walks waited until a walker was free, summed."),
    ("model.walk_pending", "cycles", "Durations of walks summed, as Intel's WALK_PENDING counts."),
    ("model.walk_active", "cycles", "Cycles with at least one walk going on, as Intel's WALK_ACTIVE counts."),
    ("model.translation_cycles", "cycles", "What translation adds: cycles.tlb + cycles.walk."),
    ("model.translation_cycles_serial", "cycles", "The same if no translation latency overlapped with other work."),
    ("model.share_of_time", "share", "Translation's share of user time."),
    ("model.share_of_time_serial", "share", "The same share if no translation latency overlapped with other work."),
    ("model.seconds", "s", "Total cycles at the machine's clock."),
    (
        "perf",
        "",
        "What the machine's own performance counters would show, if its description names them: source and events. "
        "Each event has name (as the source writes it), perf (its name for `perf stat`, where that differs), value, "
        "per_kilo_instruction, and whether it is modelled.",
    ),
    (
        "members[]",
        "",
        "Where the trace is a mix, each of its members: name, trace, vm (if it has one of its own), instructions, "
        "references, and bytes mapped at the end by page size. Costs are those of a region, summed over its processes' "
        "regions. Modelled cycles are base, translation, kernel (while it acted), host, total. Costs of memory that no "
        "mapping held belong to no member.",
    ),
    (
        "programs[]",
        "",
        "The programs that were run: vm (where there are several virtual machines), path (of the exec; empty for the "
        "one that the trace begins with), pid (the first process that ran it). processes: how many ran it; a forked "
        "child counts until it executes another program.",
    ),
    (
        "regions[]",
        "",
        "Costs by region of a program's memory, over all its processes. A region has vm (where there are several "
        "virtual machines), id (the same under every policy), pid (the first process), program, name, kind, start, "
        "end, prot, file and offset. Its costs are l1i_misses, l1d_misses, walks, walk_reads, walk_cycles and "
        "stall_cycles. resident: bytes now and at the peak. mapped: what page tables map by page size; mapped_zero: "
        "zero pages. folded: unmapped regions that the row sums up. The misses, walks and resident bytes of all "
        "regions add up to the totals.",
    ),
    (
        "halves",
        "",
        "Where the trace shows the kernel's half of address spaces (mappings that it marks as global): costs as of a "
        "region, by half. user: of references to user memory. kernel: of references to the kernel's. Both add up to "
        "the totals.",
    ),
    (
        "code",
        "",
        "With --profile: costs by block of code that was running. places: those of the highest cost, each with pid, "
        "addr, the region that it lies in and costs as of a region. rest: how many places are not listed, and their "
        "costs summed. All add up to the totals.",
    ),
    (
        "edges",
        "",
        "With --profile: misses of the first level for instructions by the jump that met them. places: those with the "
        "most misses, with costs as of a region (with --timing without stalls). pid, addr and region are of the block "
        "that missed. from and from_region are of the block that its thread ran before; null where the trace does not "
        "say: a thread's turn or a batch begins there. rest: how many are not listed, and their costs summed. Their "
        "l1i_misses add up to the total. In virtual machines those of the first one.",
    ),
    (
        "kernel_cycles_by",
        "cycles",
        "With --code-residency: the kernel's cycles by what it worked for: faults, promotions, fork, exec, exit, and "
        "other. promotions: faults that made a larger page of others, with what they read and zeroed. other: other "
        "calls, switches between processes, daemons. Each lacks a fraction of a cycle; so they add up to the total but "
        "for a few.",
    ),
    (
        "fault_latency[]",
        "",
        "With --fault-latency: the time of page faults, a row for each kind and size mapped: faults, mean_cycles, "
        "mean_us, quantiles_us. times: every time that occurred, in cycles, with the faults that took it. parts: mean "
        "cycles by the name of their price in the machine's costs; they add up to the mean. In virtual machines the "
        "guests' faults, without the host's work.",
    ),
    (
        "code_residency[]",
        "",
        "With --code-residency: each 2 MB of a file that mappings of code show, aligned in the address space: file, "
        "and offset in the file. mapped_pages: 512, or fewer where code begins or ends within. clusters: of 32 "
        "clusters of 64 KB, those with any page in memory. pages: in memory. is_whole: all of them, in one aligned "
        "block, so that one entry can map it.",
    ),
    ("heat", "", "With --profile: the same by the 2 MB of memory that the references were to, in each region."),
    ("exactness", "", "Which keys are counted exactly for the machine described, and which are modelled."),
    ("assumptions[]", "", "Values that no source states: where, key, value, reason."),
)


def meaning(place: str) -> str | None:
    """The meaning of the key at `place`, or of the nearest key above it."""
    for key, _, text in KEYS:
        stem = key.removesuffix(".*").removesuffix("[]")
        if place == stem or place.startswith((stem + ".", stem + "[")):
            return text
    return None
