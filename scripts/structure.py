"""Holds the shape of the code against ARCHITECTURE.md: `python scripts/structure.py` prints what breaks a rule.

With `--all` it also prints what is known to break one.

1. No Python file of `mmulab` imports itself through others, and no Rust file uses itself through others of its crate.
2. A crate depends only on crates of lower layers (`LAYERS`).
3. Address spaces are changed in one folder only, and plain parts do not mention special ones (`RULES`).

What is known to break a rule stands in `KNOWN_CYCLES` and `KNOWN_BREACHES`, with the reason. An entry that is no longer
needed is an error too, so that the lists only get shorter.
"""

import ast
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rust_files import read_crate, uses, without_tests

CHECKOUT = Path(__file__).resolve().parent.parent
Graph = dict[str, set[str]]

# Crates by layer, the lowest first. A crate depends only on crates of lower layers.
LAYERS = (
    ("addr", "assoc", "calendar", "dataflow", "record-heap", "record-sites", "try-preload", "visible"),
    ("describe", "frames", "guest-agent", "host", "timing", "trace"),
    ("elf", "interleave", "isa", "leshy", "pagetable", "workload"),
    ("kernel", "recipe", "record", "reshape", "tlb", "walker"),
    ("energy", "record-plugin"),
    ("machine",),
    ("microbench",),
    ("python",),
)


@dataclass(frozen=True)
class Rule:
    """What must not stand in some files, tests aside."""

    name: str
    # A folder of the checkout.
    inside: str
    pattern: str
    # Below `inside`, where it may stand.
    but: str = ""
    # Whether comments count.
    comments: bool = False


RULES = (
    # Also a trait's: `impl Trait for AddressSpace`.
    Rule(
        "impl of an address space",
        "crates/kernel/src",
        r"\bimpl(?:<[^>]*>)?\s+(?:[\w:]+(?:<[^{;]*>)?\s+for\s+)?"
        r"(?:&\s*(?:mut\s+)?)?(?:\w+::)*(?:Space|AddressSpace)\b",
        but="space",
    ),
    Rule("warps or guests in the plain engine", "crates/machine/src/engine", r"(?i)warp|guest", comments=True),
    Rule("FreeBSD in the plain engine", "crates/machine/src/engine", r"(?i)freebsd", comments=True),
    Rule("warps or guests in the Linux manager", "crates/kernel/src/linux", r"(?i)warp|guest", comments=True),
    Rule("FreeBSD in the Linux manager", "crates/kernel/src/linux", r"(?i)freebsd", comments=True),
)

# Circles that there are, by crate, as they are printed.
KNOWN_CYCLES: dict[str, tuple[str, ...]] = {}
# Rules that are broken, by name, and why.
KNOWN_BREACHES: dict[str, str] = {}


def python_graph(package: Path) -> Graph:
    """Python files by the files that they import, at their top or within functions; imports for types only aside."""
    files = {_dotted(path, package): path for path in sorted(package.rglob("*.py")) if "_lib" not in path.parts}

    def imported(node: ast.AST) -> set[str]:
        found: set[str] = set()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Import):
                found |= {alias.name for alias in child.names}
            elif isinstance(child, ast.ImportFrom) and child.module:
                names = {f"{child.module}.{alias.name}" for alias in child.names}
                # A name that is no module is one of the module's.
                found |= {name if name in files else child.module for name in names}
            found |= imported(child)
        return found

    return {
        module: {name for name in imported(ast.parse(path.read_text(encoding="utf-8"))) if name in files} - {module}
        for module, path in files.items()
    }


def _dotted(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def rust_graph(crate: Path) -> Graph:
    """Rust files of a crate by the files that they use."""
    source = crate / "src"
    graph: Graph = {}
    for root in read_crate(source):
        for module in root.all():
            name = module.file.relative_to(source).as_posix()
            graph.setdefault(name, set()).update(path.relative_to(source).as_posix() for path in uses(module))
    return graph


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The shortest circle of each group of files that reach each other, its first file again at its end."""
    found: list[list[str]] = []
    inside: set[str] = set()
    for start in sorted(graph):
        if start in inside:
            continue
        way = _way_back(graph, start)
        if way:
            found.append(way)
            inside |= {name for name in graph if _reaches(graph, start, name) and _reaches(graph, name, start)}
    return found


def _ways(graph: Mapping[str, set[str]], start: str) -> dict[str, str]:
    """What can be reached, each with the file from which it was reached first."""
    came: dict[str, str] = {}
    ahead = [start]
    for at in ahead:
        for name in sorted(graph.get(at, ())):
            if name not in came:
                came[name] = at
                ahead.append(name)
    return came


def _reaches(graph: Mapping[str, set[str]], start: str, end: str) -> bool:
    return end in _ways(graph, start)


def _way_back(graph: Mapping[str, set[str]], start: str) -> list[str]:
    came = _ways(graph, start)
    if start not in came:
        return []
    way = [start, came[start]]
    while way[-1] != start:
        way.append(came[way[-1]])
    return way[::-1]


def crate_breaches(checkout: Path) -> list[str]:
    """Crates that depend on one of their own layer or above, and crates in no layer."""
    layer = {crate: at for at, crates in enumerate(LAYERS) for crate in crates}
    found = []
    for manifest in sorted(checkout.glob("crates/*/Cargo.toml")):
        crate = manifest.parent.name
        if crate not in layer:
            found.append(f"crates/{crate} is in no layer: put it into LAYERS of scripts/structure.py")
            continue
        for below in _dependencies(manifest):
            if below in layer and layer[below] >= layer[crate]:
                found.append(f"crates/{crate} depends on {below}, which is not of a lower layer")
    found += [
        f"LAYERS of scripts/structure.py names {crate}, which is no crate"
        for crate in sorted(layer)
        if not (checkout / "crates" / crate).exists()
    ]
    return found


def _dependencies(manifest: Path) -> list[str]:
    """Crates of this workspace that a crate is built from; those of its tests aside."""
    section, found = "", []
    for line in manifest.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[] ")
        elif section.endswith("dependencies") and not section.endswith("dev-dependencies"):
            found += re.findall(r"^mmulab-([a-z-]+)\b", line)
    return found


def breaches(checkout: Path, rule: Rule) -> list[str]:
    """Places where a rule is broken."""
    folder = checkout / rule.inside
    if not folder.exists():
        return [f"{rule.inside}: there is no such folder, so that nothing is checked ({rule.name})"]
    found = []
    for path in sorted(folder.rglob("*.rs")):
        where = path.relative_to(folder).as_posix()
        if (rule.but and where.startswith(f"{rule.but}/")) or path.stem == "tests" or "tests" in path.parts:
            continue
        text = path.read_text(encoding="utf-8")
        text = text.partition("#[cfg(test)]")[0] if rule.comments else without_tests(text)
        if hit := re.search(rule.pattern, text):
            found.append(f"{rule.inside}/{where}: {' '.join(hit[0].split())} ({rule.name})")
    return found


def problems(checkout: Path) -> list[str]:
    """All that breaks a rule, and all that is listed as known and breaks none."""
    found = [
        f"python: a circle of files: {_circle(way)}" for way in cycles(python_graph(checkout / "python" / "mmulab"))
    ]
    for crate in sorted(path for path in (checkout / "crates").iterdir() if (path / "src").exists()):
        found += cycle_problems(crate.name, rust_graph(crate), KNOWN_CYCLES.get(crate.name, ()))
    found += crate_breaches(checkout)
    for rule in RULES:
        broken = breaches(checkout, rule)
        if rule.name not in KNOWN_BREACHES:
            found += broken
        elif not broken:
            found.append(f"no {rule.name}: take it out of KNOWN_BREACHES")
    return found


def cycle_problems(name: str, graph: Graph, known: Sequence[str]) -> list[str]:
    """Circles of a crate that are not known, and known ones that there are not."""
    ways = [_circle(way) for way in cycles(graph)]
    gone = [f"{name}: there is no circle {way}: take it out of KNOWN_CYCLES" for way in known if way not in ways]
    return [f"{name}: a circle of files: {way}" for way in ways if way not in known] + gone


def _circle(way: Sequence[str]) -> str:
    return " -> ".join(way)


def main() -> int:
    """Prints the problems; with `--all` known ones too."""
    if "--all" in sys.argv[1:]:
        KNOWN_CYCLES.clear()
        KNOWN_BREACHES.clear()
    found = problems(CHECKOUT)
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
