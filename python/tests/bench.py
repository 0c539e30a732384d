"""A bench to try small programs on: runs them, and finds things in results."""

from pathlib import Path
from typing import Any

import narration
from scenarios import changed, plain

from mmulab import engine

K, M, G = 1 << 10, 1 << 20, 1 << 30
BASE = 0x40000000
Json = dict[str, Any]


class Bench:
    """Runs small programs on machines by name, or given as text."""

    def __init__(self, directory: Path) -> None:
        """Files go into `directory`."""
        self.directory = directory

    def write(self, name: str, text: str) -> str:
        """A file of this text."""
        path = self.directory / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def machine(self, tables: str) -> str:
        """The plain machine of docs/scenarios, with other tables."""
        return self.write("machine.toml", changed(plain().machine, tables))

    def run(self, machine: str, trace: str, policy: str = "linux-4k", *sets: str, **options: Any) -> Json:
        """The result of a program, given as text or `gen:...`."""
        source = trace if trace.startswith("gen:") else self.write("trace.mmtx", trace)
        job = engine.Job(machine, policy, tuple(sets))
        return engine.run(source, [job], engine.Options(**options)).results[0].data

    def explain(self, machine: str, trace: str, policy: str = "linux-4k", *sets: str) -> tuple[list[Json], Json]:
        """Every line told, and the result."""
        job = engine.Job(machine, policy, tuple(sets))
        return narration.narrate(self.write("trace.mmtx", trace), job, engine.Options())


def described(name: str) -> Json:
    """A shipped machine."""
    machine: Json = engine.resolve(engine.Job(name, "linux-4k"))["machine"]
    return machine


def array(result: Json, name: str) -> Json:
    """What an array counted."""
    found: Json = next(a for a in result["counts"]["arrays"] if a["name"] == name)
    return found


def huge_bytes(result: Json) -> int:
    """Bytes that 2 MiB pages map at the end."""
    mapped: Json = result["counts"]["memory"]["mapped"]
    return int(mapped["2M"]["now"]) if "2M" in mapped else 0


SMALL_POOL = "policy.hugetlb.pool=2G"


def every_page(base: int, size: int, kind: str = "w", step: int = 4 * K) -> str:
    """Touches of each page of a range."""
    return "".join(f"{kind} {at:#x}\n" for at in range(base, base + size, step))


def shares(result: Json) -> Json:
    """How base pages lie together at the end."""
    found: Json = result["counts"]["memory"]["contiguity"]
    return found
