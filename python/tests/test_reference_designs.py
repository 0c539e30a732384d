"""Designs for all page sizes: on any history they give the same translations, and hit where the simplest models do."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from reference import generate
from reference.designs import Tlbs
from reference.leaves import ORDERS, PAGE, Leaf
from reference.machine import Machine
from scenarios import changed, plain
from test_reference import compare, narrate

from mmulab import engine

M = 1 << 20
ALL = ["4K", "2M", "1G"]
SEEDS = range(12)


def array(level: int, side: str, entries: int, ways: int | str, sizes: list[str], **more: Any) -> dict[str, Any]:
    """A `[[tlb]]`."""
    name = f"L{level}{side[0]}{len(sizes)}{sizes[0]}"
    return {"name": name, "level": level, "side": side, "entries": entries, "ways": ways, "sizes": sizes, **more}


CODE = array(1, "instruction", 4, "full", ALL)


def both(first: dict[str, Any], second: dict[str, Any]) -> list[dict[str, Any]]:
    """One design in both levels, both small: everything is evicted sooner or later."""
    return [CODE, array(1, "data", 16, 4, ALL, **first), array(2, "data", 64, 4, ALL, hit_cycles=7, **second)]


SPLIT = [
    CODE,
    array(1, "data", 8, 4, ["4K"]),
    array(1, "data", 4, 2, ["2M"]),
    array(1, "data", 2, "full", ["1G"]),
    array(2, "data", 32, 4, ["4K", "2M"], hit_cycles=7),
]
WIDE = {"extra_bits": 16}
GUESS = {"predictor": {"entries": 16}}
SKEWED = {"ways": 6, "design": "skew"}
DESIGNS: dict[str, list[dict[str, Any]]] = {
    "split": SPLIT,
    "mix": both({"design": "mix", "group": 8}, {"design": "mix", "group": 16}),
    "mix-16": both({"design": "mix", "group": 16, "mix": WIDE}, {"design": "mix", "group": 128}),
    "mix-merged": both(
        {"design": "mix", "group": 4, "mix": {"mirrors": "merged"}},
        {"design": "mix", "group": 16, "mix": {"mirrors": "merged"}},
    ),
    "mix-anywhere": both(
        {"design": "mix", "group": 4, "mix": {"bundle": "length", "span": "anywhere"}},
        {"design": "mix", "group": 8, "mix": {"span": "anywhere", "frames": "aligned"}},
    ),
    "mix+colt": both(
        {"design": "mix", "group": 8, "mix": {"small_group": 4}},
        {"design": "mix", "group": 16, "mix": {"small_group": 4, "mirrors": "merged"}},
    ),
    "colt++": both({"design": "colt++", "group": 4}, {"design": "colt++", "group": 8}),
    "hash-rehash": both({"probe": "serial", "probe_cycles": 2}, {"probe": "serial"}),
    "hash-rehash, guessing": both({"probe": "serial", "probe_cycles": 2, **GUESS}, {"probe": "serial", **GUESS}),
    "skew": [CODE, array(1, "data", 12, **SKEWED, sizes=ALL), array(2, "data", 48, **SKEWED, sizes=ALL, hit_cycles=7)],
    "skew, guessing": [
        CODE,
        array(1, "data", 12, **SKEWED, sizes=ALL, **GUESS, probe_cycles=2),
        array(2, "data", 48, **SKEWED, sizes=ALL, **GUESS, hit_cycles=7),
    ],
}


def grouped(first: dict[str, Any], second: dict[str, Any]) -> list[dict[str, Any]]:
    """Designs whose entries are groups of base pages, beside plain ones; the second level takes larger pages too."""
    return [
        CODE,
        array(1, "data", 8, sizes=["4K"], **{"ways": 4, **first}),
        *SPLIT[2:4],
        array(2, "data", 32, sizes=["4K", "2M"], hit_cycles=7, **{"ways": 4, **second}),
    ]


OF_ONE_SIZE = {
    "colt-sa": grouped({"design": "colt-sa", "group": 4}, {"design": "colt-sa", "group": 8}),
    "colt-fa": grouped(
        {"design": "colt-fa", "group": 8, "ways": "full"}, {"design": "colt-fa", "group": 16, "ways": "full"}
    ),
    "clustered": grouped({"design": "clustered", "group": 8}, {"design": "clustered", "group": 2}),
    "colt-sa over clustered": grouped({"design": "colt-sa", "group": 2}, {"design": "clustered", "group": 4}),
    "colt-fa over colt-sa": grouped(
        {"design": "colt-fa", "group": 32, "ways": "full"}, {"design": "colt-sa", "group": 4}
    ),
    "colt-sa over plain": grouped({"design": "colt-sa", "group": 4}, {}),
    "clustered over plain": grouped({"design": "clustered", "group": 8}, {}),
    "complete-subblock": grouped(
        {"design": "complete-subblock", "group": 4}, {"design": "complete-subblock", "group": 16}
    ),
    "complete-subblock over colt-sa": grouped(
        {"design": "complete-subblock", "group": 8}, {"design": "colt-sa", "group": 4}
    ),
    "partial-subblock": grouped(
        {"design": "partial-subblock", "group": 4}, {"design": "partial-subblock", "group": 16}
    ),
    "colt-sa over partial-subblock": grouped(
        {"design": "colt-sa", "group": 4}, {"design": "partial-subblock", "group": 8}
    ),
    "gap-tolerant": grouped({"design": "gap-tolerant", "group": 4}, {"design": "gap-tolerant", "group": 8}),
    "gap-tolerant over plain": grouped({"design": "gap-tolerant", "group": 8}, {}),
    "anchor": grouped({"design": "anchor", "group": 4}, {"design": "anchor", "group": 32}),
    "plain over anchor": grouped({}, {"design": "anchor", "group": 16}),
    "plain over colt-fa": grouped({}, {"design": "colt-fa", "group": 64, "ways": "full"}),
}
MODELLED = DESIGNS | OF_ONE_SIZE
# Its hits are the whole machine's model's to tell.
ZEN = {"zen": [*SPLIT[:1], array(1, "data", 8, 4, ["4K"], design="zen", group=4), *SPLIT[2:]]}
TABLES: dict[str, dict[str, Any]] = {
    "radix": {},
    "compendia": {"kind": "compendia"},
    "elastic-cuckoo": {"kind": "elastic-cuckoo", "cuckoo": {"lines": 64, "walk_table_lines": 64}},
    "hashed": {"kind": "hashed"},
}


def machine(arrays: list[dict[str, Any]], table: str = "radix", memory: str = "256M") -> str:
    """The plain machine with these TLBs."""
    tables = {"memory": {"size": memory, "max_order": 10}, "tlb": arrays}
    text = generate.document(tables)
    kind = dict(TABLES[table])
    cuckoo = kind.pop("cuckoo", None)
    if kind:
        text += generate.document({"table": kind})
    if cuckoo:
        text += generate.document({"table.cuckoo": cuckoo})
    return changed(plain().machine, text)


def job(directory: Path, arrays: list[dict[str, Any]], policy: str, **more: str) -> engine.Job:
    """A machine under a policy, given as text or by name."""
    directory.joinpath("machine.toml").write_text(machine(arrays, **more), encoding="utf-8")
    return engine.Job(str(directory / "machine.toml"), policy)


class History:
    """A program whose pages of 4 KB and 2 MB lie together in memory here and there."""

    def __init__(self, seed: int) -> None:
        """Maps regions in any order, touches each page, and then does as it likes."""
        random = Random(seed)
        sizes = [
            *(random.randint(1, 24) * PAGE for _ in range(6)),
            *(random.choice([1, 2, 3, 8]) * 2 * M for _ in range(5)),
        ]
        regions, at = [], 0x40000000
        for size in sizes:
            # Small ones where no huge page fits.
            start = at if size >= 2 * M else at + PAGE * random.randint(1, 40)
            regions.append((start, size))
            at += (size + 4 * M) // (2 * M) * (2 * M)
        random.shuffle(regions)
        self.words: list[list[str]] = [["mmap", f"{s:#x}", f"{n:#x}", "rw", "anon", "populate"] for s, n in regions]
        steps = [(s, 2 * M if n >= 2 * M else PAGE, n) for s, n in regions]
        pages = [p for start, step, size in steps for p in range(start, start + size, step)]
        random.shuffle(pages)
        self.words += [["rw"[random.random() < 0.3], f"{page:#x}"] for page in pages]
        for _ in range(600):
            page = random.choice(random.choice([pages, pages[:20]]))
            inside = page + random.randrange(0, 2 * M if page % (2 * M) == 0 else PAGE, 8)
            self.words.append([random.choices(["r", "w", "invlpg"], [12, 4, 1])[0], f"{inside:#x}"])
            if random.random() < 0.2:
                self.words.append(["f", f"{0x400000 + 64 * random.randrange(8):#x}"])
        self.words.insert(0, ["mmap", "0x400000", "4K", "rx", "anon", "populate"])
        self.text = "\n".join(map(" ".join, self.words)) + "\n"


@pytest.mark.parametrize("name", MODELLED)
def test_levels_answer_as_sets_of_pages_would(name: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.mmtx"
    for seed in SEEDS:
        history = History(seed)
        trace.write_text(history.text, encoding="utf-8")
        told = narrate(trace, job(tmp_path, MODELLED[name], "linux-thp"), "fault")
        resolved = engine.resolve(job(tmp_path, MODELLED[name], "linux-thp"))
        # Whatever is ever used, as a run without any design tells of it.
        plainly = [
            line for line in narrate(trace, job(tmp_path, SPLIT, "linux-thp"), "fault") if line["pa"] is not None
        ]
        table = {}
        for line in plainly:
            order = {PAGE << o: o for o in ORDERS.values()}[line["size"]]
            number, frame = line["va"] // PAGE >> order, line["pa"] // PAGE >> order
            table[order, number] = Leaf(order, number, frame, dirty=True)
        tlbs, lines = Tlbs(resolved["machine"]["tlb"]), iter(told)
        for at, words in enumerate(history.words):
            if words[0] in ("mmap", "f"):
                next(lines) if words[0] == "f" else None
            elif words[0] == "invlpg":
                page = int(words[1], 16) // PAGE * PAGE
                tlbs.drop(page, page + PAGE)
            else:
                line, va = next(lines), int(words[1], 16)
                expected = tlbs.access(table, va, words[0])
                assert (line["l1"], line["l2"]) == expected, f"seed {seed}, step {at}: {' '.join(words)}"


def translations(told: list[dict[str, Any]]) -> list[Any]:
    """What came of each reference, whichever TLBs it went through."""
    return [(line["i"], line.get("kind"), line["va"], line["pa"], line["fault"]) for line in told]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("block", range(2))
def test_translations_are_the_same_whatever_the_design(table: str, block: int, tmp_path: Path) -> None:
    """Of random programs under every policy; over radix tables those of the reference model of all of it."""
    hits = set()
    for seed in range(4 * block, 4 * block + 4):
        random = Random(seed)
        policy = generate.policy(random)
        # Not all spaces have what it maps as global: that is for no TLB to find out.
        program = generate.Program(random, policy).text(180).replace(" global", "")
        for name, content in (("policy.toml", policy), ("trace.mmtx", program)):
            tmp_path.joinpath(name).write_text(content, encoding="utf-8")
        trace, policy_file = tmp_path / "trace.mmtx", str(tmp_path / "policy.toml")
        common = {"table": table, "memory": "4G"}
        wanted = None
        for name, arrays in (MODELLED | ZEN).items():
            chosen = job(tmp_path, arrays, policy_file, **common)
            told = narrate(trace, chosen, "fault")
            if wanted is None:
                wanted = translations(told)
                if table == "radix":
                    compare(told, Machine(engine.resolve(chosen), "fault", told), program)
            assert translations(told) == wanted, f"seed {seed}: {name} and {next(iter(DESIGNS))} translate differently"
            hits.add((seed, json.dumps([(line["l1"], line["l2"]) for line in told])))
            checked = engine.run(str(trace), [chosen], engine.Options(unmapped="fault", check="translations")).results[
                0
            ]
            assert checked.ended == "end", f"seed {seed}, {name}: {checked.ended}: {checked.ended_message}"
    # They do differ in what they hit.
    assert len(hits) > 4 * 4
