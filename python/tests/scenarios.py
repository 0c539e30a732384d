"""Reads the scenario pages of docs/scenarios and tells what the engine does in their words."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from narration import Line, walks

from mmulab import engine
from mmulab.cli.reorder import read_functions
from mmulab.cli.reshape import Allocator, reshape_of

DOCS = Path(__file__).parents[2] / "docs"
PAGES = DOCS / "scenarios"
# Pages elsewhere that carry a case too.
OTHERS = [DOCS / "concepts" / "trace-of-a-reference.md"]
COLUMNS = ("fills", "evictions", "drops", "flushes", "kernel", "frames", "cycles")


def _levels(event: dict[str, Any]) -> str:
    """The levels that are merged, uppermost first."""
    top = event["level"]
    return "+".join(str(level) for level in range(top, top - event["levels"], -1))


@dataclass
class Block:
    """A fenced block: what is written behind the fence, its lines, and where it begins."""

    info: list[str]
    text: str
    line: int


@dataclass
class Scenario:
    """A case."""

    page: str
    title: str
    machine: str = ""
    policy: str = ""
    host_policy: str = ""
    options: dict[str, str] = field(default_factory=dict)
    trace: str | None = None
    # A recipe of a mix, and its members' traces by name.
    mix: str = ""
    members: dict[str, str] = field(default_factory=dict)
    # The program's functions, and the order that is found for them and that they are run in.
    functions: str = ""
    order: str = ""
    narration: Block | None = None
    result: Block | None = None

    @property
    def name(self) -> str:
        """For the test's name."""
        return f"{self.page}: {self.title}"


def blocks(text: str) -> list[Block | str]:
    """The headings and fenced blocks of a page, in order."""
    out: list[Block | str] = []
    inside: Block | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if inside is None and re.match(r"#+ ", line):
            out.append(line.lstrip("# "))
        elif inside is None and line.startswith("```"):
            inside = Block(line[3:].split(), "", number + 1)
        elif inside is not None and line.startswith("```"):
            out.append(inside)
            inside = None
        elif inside is not None:
            inside.text += line + "\n"
    assert inside is None, f"the block of line {inside.line} does not end" if inside else ""
    return out


def tables(text: str) -> dict[str, str]:
    """The top-level tables of a TOML text, each with all that begins with its name; plain keys under ''."""
    out: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        header = re.match(r"\[+([A-Za-z_]+)", line)
        name = header[1] if header else name
        out[name] = out.get(name, "") + line + "\n"
    return out


def changed(base: str, by: str) -> str:
    """A machine with some tables replaced."""
    given = {name: table for name, table in tables(by).items() if table.strip()}
    return "".join({**tables(base), **given}.values())


def scenarios(page: Path, plain: Scenario) -> list[Scenario]:
    """The cases of a page."""
    current = replace(plain, page=page.stem, options={})
    out: list[Scenario] = []
    for part in blocks(page.read_text(encoding="utf-8")):
        if isinstance(part, str):
            current = replace(
                current, title=part, trace=None, mix="", members={}, functions="", order="", narration=None, result=None
            )
            continue
        what = part.info[-1] if part.info[:1] == ["toml"] else part.info[0] if part.info else ""
        if what == "machine":
            current.machine = changed(plain.machine, part.text)
        elif what == "policy":
            current.policy = part.text
        elif what == "host":
            current.host_policy = part.text
        elif what == "options":
            current.options = dict(re.findall(r"(\w+) *= *(\S+)", part.text))
        elif what == "mix":
            current.mix = part.text
            out.append(current)
        elif what == "trace" and len(part.info) > 1:
            current.members[part.info[1]] = part.text
        elif what == "trace":
            assert current.trace is None, f"{page.name}: '{current.title}' has two traces: give the second a heading"
            current.trace = part.text
            out.append(current)
        elif part.info == ["json", "order"]:
            current.order = part.text
        elif what == "functions":
            current.functions = part.text
        elif what == "narration":
            current.narration = part
        elif what == "result":
            current.result = part
        elif what in ("microbench", "counts"):
            # Cases of their own: test_microbench.py runs them.
            continue
        else:
            raise AssertionError(f"{page.name}, line {part.line}: no block is called '{' '.join(part.info)}'")
    return out


def plain() -> Scenario:
    """The machine and policy every page begins with."""
    found = {
        b.info[-1]: b.text for b in blocks((PAGES / "README.md").read_text(encoding="utf-8")) if isinstance(b, Block)
    }
    return Scenario("", "", found["machine"], found["policy"])


def every() -> list[Scenario]:
    """Of all pages."""
    base = plain()
    pages = [page for page in sorted(PAGES.glob("*.md")) if page.name != "README.md"]
    return [s for page in pages + OTHERS for s in scenarios(page, base)]


def tell(scenario: Scenario, directory: Path) -> tuple[list[str], dict[str, Any]]:
    """What the engine tells of a case, and its result."""
    for name, text in (("m.toml", scenario.machine), ("p.toml", scenario.policy), ("t.mmtx", scenario.trace)):
        directory.joinpath(name).write_text(text or "", encoding="utf-8")
    lines: list[Line] = []
    host_policy = None
    if scenario.host_policy:
        host_policy = str(directory / "h.toml")
        Path(host_policy).write_text(scenario.host_policy, encoding="utf-8")
    job = engine.Job(str(directory / "m.toml"), str(directory / "p.toml"), (), host_policy)
    changes: dict[str, Any] = {
        key: scenario.options.get(key) for key in ("max_page_size", "linker", "heap", "code_heap", "populate")
    }
    plain_options: dict[str, Any] = {key: value for key, value in scenario.options.items() if key not in changes}
    timing = plain_options.pop("timing", None) == "true"
    plain_options["fault_latency"] = plain_options.pop("fault_latency", None) == "true"
    if changes["heap"] is not None:
        changes["heap"] = Allocator().convert(changes["heap"], None, None)
    trace = str(directory / "t.mmtx")
    reshape = reshape_of(changes)
    if scenario.functions:
        directory.joinpath("functions").write_text(scenario.functions, encoding="utf-8")
        known = read_functions(directory / "functions")
        found = engine.reorder({"trace": trace, "functions": known})["order"]
        assert found["files"] == json.loads(scenario.order)["files"], f"'{scenario.name}': the engine finds {found}"
    if scenario.order:
        reshape = {**(reshape or {}), "order": json.loads(scenario.order)}
    options = engine.Options(reshape=reshape, timing=timing or None, **plain_options)
    if scenario.mix:
        for name, text in scenario.members.items():
            directory.joinpath(f"{name}.mmtx").write_text(text, encoding="utf-8")
        trace = str(directory / "mix.toml")
        recipe = 'name = "mix"\ntitle = "Mix"\nstanding = "own"\nwhy = "a case"\n' + scenario.mix
        Path(trace).write_text(recipe, encoding="utf-8")
    if timing:
        assert scenario.narration is None, f"'{scenario.name}': a core in time is not narrated"
        return [], engine.run(trace, [job], options).results[0].data
    result = engine.explain(trace, job, options, lambda line: lines.append(json.loads(line))).data
    columns = scenario.narration.info[1:] if scenario.narration else []
    assert set(columns) <= set(COLUMNS), f"columns are {', '.join(COLUMNS)}"
    teller = Teller(result["machine"], columns)
    # The results of walks in flight at the end are not a case's subject.
    told = [line for line in lines if line["i"] is not None or line["events"] or line["fault"]]
    return [teller.line(line) for line in told], result


def size(bytes_: int) -> str:
    """As pages write sizes."""
    for shift, unit in ((30, "G"), (20, "M"), (10, "K")):
        if bytes_ % (1 << shift) == 0:
            return f"{bytes_ >> shift}{unit}"
    return str(bytes_)


class Teller:
    """Puts the engine's lines in the words of the pages."""

    def __init__(self, machine: dict[str, Any], columns: list[str]) -> None:
        """`columns`: what is told beside walks and faults."""
        below = machine.get("virtual") or {"cache": []}
        self.walk_caches = {cache["name"] for cache in machine["walker"]["cache"] + below["cache"]} | {"NTLB"}
        self.columns = columns
        self.letters: dict[int, str] = {}

    def line(self, line: Line) -> str:
        """One reference."""
        if line["i"] is None:
            parts = ["end"]
        else:
            answer = "L1" if line["l1"] == "hit" else "L2" if line["l2"] == "hit" else "miss"
            parts = [f"{line['kind'][0]} {line['va']:#x}", answer, *self.walks(line)]
        for column in COLUMNS:
            if column in self.columns:
                parts += getattr(self, column)(line)
        return " | ".join(parts)

    def walks(self, line: Line) -> list[str]:
        """Walks, with the fault behind each that ended in one."""
        parts = []
        all_walks = walks(line, self.walk_caches)
        faults = [f"fault {fault['kind']} {fault['size']}" for fault in line["fault"]]
        for number, walk in enumerate(all_walks):
            signs = {None: " ", "together": "+", "behind": "~"}
            parts.append("walk" + "".join(signs[step.get("pace")] + self.step(step) for step in walk))
            if number < len(faults):
                parts.append(faults[number])
        if line["pa"] is None:
            parts.append("fails")
        if line.get("joined"):
            parts.append("joins")
        return parts

    def step(self, step: Line) -> str:
        """An entry."""
        entry = step.get("entry", str(step["level"]))
        if step["cached"] in self.walk_caches:
            return f"{entry}={step['cached']}"
        return entry if step["cached"] == "memory" else f"{entry}@{step['cached']}"

    def fills(self, line: Line) -> list[str]:
        """Entries written."""
        return [
            f"fill {f['array']} {f['va']:#x} {size(f['bytes'])}" + (" dirty" if f["writable"] else "")
            for f in line["filled"]
        ]

    def evictions(self, line: Line) -> list[str]:
        """Entries that made way."""
        return [
            f"evict {e['array']} {e['va']:#x} {size(e['bytes'])}" for e in line["events"] if e.get("tlb") == "evicted"
        ]

    def drops(self, line: Line) -> list[str]:
        """Entries invalidated."""
        gone = [e for e in line["events"] if e.get("tlb") == "invalidated"]
        return sorted(f"drop {e['array']} {e['va']:#x} {size(e['bytes'])}" for e in gone)

    def flushes(self, line: Line) -> list[str]:
        """Invalidations sent."""
        out = []
        for e in line["events"]:
            if e.get("flush") == "page":
                out.append(f"flush page {e['va']:#x} {e['size']}")
            elif e.get("flush") == "range":
                out.append(f"flush range {e['range']['start']:#x} {size(e['range']['end'] - e['range']['start'])}")
            elif e.get("flush") == "space":
                out.append(f"flush space {e['asid']}")
            elif e.get("flush") == "all":
                out.append("flush all")
        return out

    def kernel(self, line: Line) -> list[str]:
        """What else the kernel did."""
        words = {
            "refused": lambda e: f"refused {e['why']}",
            "read": lambda e: f"read {e['pages']} from {e['page']}",
            "around": lambda e: f"around {e['pages']}",
            "stack_growth": lambda e: f"stack grows to {e['start']:#x}",
            "split": lambda e: f"split {e['va']:#x} {e['size']}",
            "collapsed": lambda e: f"collapsed {e['va']:#x} {e['size']}",
            "block": lambda e: f"block {e['va']:#x} {e['size']}",
            "moved": lambda e: "moved",
            "exchanged": lambda e: "exchanged",
            "text_moved": lambda e: f"text {e['va']:#x} {size(e['pages'] << 12)} on {e['huge']}",
            "reserved": lambda e: f"reserved {e['size']} for {e['va']:#x}",
            "promoted": lambda e: f"promoted {e['va']:#x} {e['size']}",
            "assembled": lambda e: f"assembled {e['va']:#x} {e['size']}",
            "contiguous_set": lambda e: f"contiguous {e['va']:#x} {e['size']}",
            "contiguous_cleared": lambda e: f"apart {e['va']:#x} {e['size']}",
            "tables_merged": lambda e: f"merge {_levels(e)}",
            "tables_unmerged": lambda e: f"unmerge {_levels(e)}",
            "table_resized": lambda e: f"resize {e['level']} from {e['from']} to {e['to']}",
            "asid": lambda e: f"tag {e['asid']} for {e['pid']}",
            "failed": lambda e: f"failed {e['error']}",
        }
        # Which frames a mapping was populated with is no case's subject.
        told = [e for e in line["events"] if "event" in e and e["event"] != "populated"]
        return [words[e["event"]](e) for e in told]

    def frames(self, line: Line) -> list[str]:
        """The letter of the base frame the reference went to."""
        if line["pa"] is None:
            return []
        return [f"frame {self.letters.setdefault(line['pa'] >> 12, chr(ord('a') + len(self.letters)))}"]

    def cycles(self, line: Line) -> list[str]:
        """Cycles stalled."""
        return [f"= {line['cycles']}"]
