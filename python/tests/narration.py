"""What `explain` tells, added up."""

import json
from collections import Counter
from typing import Any

from mmulab import engine

Line = dict[str, Any]


def narrate(trace: str, job: engine.Job, options: engine.Options) -> tuple[list[Line], dict[str, Any]]:
    """Every line the engine tells, and the result it reports at the end."""
    lines: list[Line] = []
    result = engine.explain(trace, job, options, lambda line: lines.append(json.loads(line)))
    return lines, result.data


def walks(line: Line, walk_caches: set[str]) -> list[list[Line]]:
    """The walks of a reference: each reads entries nearer and nearer the leaf."""
    out: list[list[Line]] = []
    for step in line["walk"]:
        if step.get("first"):
            out.append([])
        out[-1].append(step)
    assert len(out) == len(line["walks"])
    if line["walk"] and "entry" in line["walk"][0]:
        return out
    assert all(step["cached"] not in walk_caches or "pace" in step for walk in out for step in walk[1:])
    return out


def add_up(lines: list[Line], machine: dict[str, Any]) -> dict[str, int]:
    """Every counter that follows from the lines, by its place in a result."""
    host_caches = (machine.get("virtual") or {"cache": []})["cache"]
    walk_caches = {cache["name"] for cache in machine["walker"]["cache"] + host_caches}
    sums: Counter[str] = Counter()
    for line in lines:
        kind = line.get("kind")
        if kind is not None:
            sums["references"] += 1
            sums[{"fetch": "fetches", "read": "reads", "write": "writes"}[kind]] += 1
            side = "instruction" if kind == "fetch" else "data"
            for level in ("l1", "l2"):
                answer = line[level]
                if answer != "-":
                    place = f"tlb.{level}{side[0]}"
                    sums[f"{place}.accesses"] += 1
                    sums[f"{place}.{'hits' if answer == 'hit' else 'misses'}"] += 1
            all_walks = walks(line, walk_caches)
            searched = machine["table"]["kind"] in ("elastic-cuckoo", "hashed") and not machine.get("virtual")
            if searched:
                sums[f"walks.{side}.cycles"] += sum(search_cycles(walk, machine, walk_caches) for walk in all_walks)
            done = sum(ended["outcome"] == "mapped" for ended in line["walks"])
            assert done == int(line["pa"] is not None and bool(all_walks))
            assert ("failed" in line) <= (line["pa"] is None)
            sums[f"walks.{side}.cycles"] += len(all_walks) * machine["walker"].get("overhead_cycles", 0)
            sums[f"walks.{side}.walks"] += len(all_walks)
            sums[f"walks.{side}.completed"] += done
            sums[f"walks.{side}.faulted"] += len(all_walks) - done
            sums["walks.replays"] += max(0, len(all_walks) - 1)
            sums["warps.joined"] += line.get("joined", False)
            sums["rewalks"] += bool(all_walks or line.get("joined")) and "hit" in (line["l1"], line["l2"])
            sums["segfaults"] += line["pa"] is None
            for step in line["walk"]:
                of_host = step.get("entry", "").startswith("h")
                level = f"walks.{'host_levels' if of_host else 'levels'}.{step['level']}"
                if not searched:
                    sums[f"walks.{side}.cycles"] += step["cycles"]
                if step["cached"] == "NTLB":
                    sums["virtual.nested_tlb.hits"] += 1
                elif step["cached"] in walk_caches:
                    sums[f"{level}.from_walk_cache"] += 1
                else:
                    sums[f"walks.{side}.accesses"] += 1
                    if not searched:
                        sums[f"walks.{side}.cycles"] += machine["walker"].get("read_cycles", 0)
                    sums[f"{level}.reads"] += 1
                    sums[f"{level}.served_by.{step['cached']}"] += 1
        sums["stalls"] += line["cycles"]
        for filled in line["filled"]:
            sums[f"arrays.{filled['array']}.fills"] += 1
        for fault in line["fault"]:
            sums[f"kernel.faults.{fault['kind']}"] += 1
            sums["kernel.huge_faults"] += fault["size"] != base_page(machine)
        for event in line["events"]:
            add_event(sums, event)
    return dict(sums)


def base_page(machine: dict[str, Any]) -> str:
    """The size of the kernel's base page: Arm's page tables with larger granules state it in their name."""
    kind = str(machine["table"]["kind"])
    return {"armv8-16k": "16K", "armv8-64k": "64K"}.get(kind, "4K")


def search_cycles(walk: list[Line], machine: dict[str, Any], walk_caches: set[str]) -> int:
    """The time of a walk of a hashed table: walk caches are asked at once, and each group of reads is made at once."""
    walker = machine["walker"]
    cycles = max((cache["hit_cycles"] for cache in walker["cache"] if cache["entries"]), default=0)
    groups: list[int] = []
    for step in walk:
        if step["cached"] in walk_caches:
            continue
        pace = step.get("pace")
        if pace is None:
            groups.append(step["cycles"])
        elif pace == "together":
            groups[-1] = max(groups[-1], step["cycles"])
    of_group = walker.get("hash_cycles", 0) + walker.get("read_cycles", 0)
    return int(cycles + sum(groups) + len(groups) * of_group)


def add_event(sums: Counter[str], event: Line) -> None:
    """One of the things that happened beside a reference."""
    if "tlb" in event:
        sums[f"arrays.{event['array']}.{'evictions' if event['tlb'] == 'evicted' else 'invalidations'}"] += 1
    elif "flush" in event:
        # INVLPG names any address of a page; the kernel, the first.
        sums["kernel.invalidations"] += not (event["flush"] == "page" and event["va"] % 4096)
    elif "host" in event:
        if event["host"].get("event") == "table_writes":
            sums["virtual.table_writes"] += event["host"]["entries"]
    else:
        what = event["event"]
        if what == "refused":
            sums[f"kernel.refusals.{event['why']}"] += 1
        elif what == "failed":
            sums[f"kernel.errors.{event['error']}"] += 1
        elif what == "around":
            sums["kernel.events.fault_around_pages"] += event["pages"]
        elif what == "read":
            sums["kernel.events.pages_read"] += event["pages"]
        elif what in ("split", "stack_growth"):
            sums[f"kernel.events.{what}"] += 1
        elif what in ("reserved", "promoted"):
            sums[f"kernel.events.{'reservations_made' if what == 'reserved' else 'promotions'}"] += 1
        elif what in ("contiguous_set", "contiguous_cleared"):
            sums[f"kernel.events.{what}_{event['size'].lower()}"] += 1
        elif what == "text_moved":
            sums["kernel.events.text_mappings_moved"] += 1
        elif what == "collapsed":
            sums["kernel.events.collapse"] += 1


def counters(result: dict[str, Any]) -> dict[str, int]:
    """The same counters as a result states them, those that are 0 left out."""
    counts = result["counts"]
    flat: dict[str, int] = {key: counts[key] for key in ("references", "fetches", "reads", "writes")}

    def take(place: str, values: dict[str, Any]) -> None:
        for key, value in values.items():
            if isinstance(value, dict):
                take(f"{place}.{key}", value)
            elif isinstance(value, int):
                flat[f"{place}.{key}"] = value

    take("tlb", counts["tlb"])
    for side in ("instruction", "data"):
        take(f"walks.{side}", counts["walks"][side])
    for levels in ("levels", "host_levels"):
        for level in counts["walks"].get(levels, []):
            number = level["level"]
            take(f"walks.{levels}.{number}", {k: v for k, v in level.items() if k != "level"})
    flat["virtual.table_writes"] = counts.get("virtual", {}).get("table_writes", 0)
    nested_tlb = counts.get("virtual", {}).get("nested_tlb")
    if nested_tlb:
        flat["virtual.nested_tlb.hits"] = nested_tlb["hits"]
    flat["walks.replays"] = counts["walks"]["replays"]
    flat["rewalks"] = counts["walks"]["dirty_updates"] + counts["walks"]["denied_rechecks"]
    flat["segfaults"] = sum(counts["segfaults"].values())
    for array in counts["arrays"]:
        take(f"arrays.{array['name']}", {k: array[k] for k in ("fills", "evictions", "invalidations")})
    kernel = counts["kernel"]
    for key in ("faults", "refusals", "errors"):
        take(f"kernel.{key}", kernel[key])
    told = ("fault_around_pages", "pages_read", "split", "stack_growth", "collapse", "reservations_made", "promotions")
    take("kernel.events", {k: kernel["events"][k] for k in told})
    few = [f"contiguous_{what}_{size}" for what in ("set", "cleared") for size in ("64k", "32m")]
    few.append("text_mappings_moved")
    take("kernel.events", {k: kernel["events"].get(k, 0) for k in few})
    flat["kernel.huge_faults"] = kernel["huge_faults"]
    flat["kernel.invalidations"] = kernel["invalidations"]
    flat["warps.joined"] = counts.get("warps", {}).get("joined", 0)
    # A core that runs warps stalls at a warp's next instruction. The log has no line for this.
    if "warps" not in counts:
        flat["stalls"] = result["model"]["cycles"]["tlb"] + result["model"]["cycles"]["walk"]
        # A first level's further probes are known as a sum.
        for array, described in zip(counts["arrays"], result["machine"]["tlb"], strict=True):
            further = array.get("probes", array["accesses"]) - array["accesses"]
            flat["stalls"] -= further * described.get("probe_cycles", 0)
    return {key: value for key, value in flat.items() if value}
