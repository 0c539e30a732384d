"""Why a recorded kernel ran: instructions by the way into it.

    python3 scripts/kernel_entries.py SYMBOLS < TRACE.mmtx

SYMBOLS is /proc/kallsyms of the recorded Linux, or another text with its lines in it. TRACE.mmtx is a part of a
recording of a whole system for x86-64 in text form (`mmulab trace slice`). The program prints a Markdown table:
instructions of programs, then of the kernel by page faults, system calls, interrupts and kernel threads.

What the kernel does until it leaves counts for the way in. If it switches processes in between, each process goes on
with its own. An interrupt or a fault inside the kernel counts for itself, until it returns.
"""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable

# Addresses of programs lie below (four levels).
KERNEL = 1 << 63
SYMBOL = re.compile(r"([0-9a-f]{16}) [tT] (\S+)$")
SYSTEM_CALL = "__x64_sys_"


def symbols(lines: Iterable[str]) -> dict[int, str]:
    """Functions by their first address."""
    found = (SYMBOL.search(line.strip()) for line in lines)
    return {int(match[1], 16): match[2] for match in found if match}


class Ways:
    """Counts instructions by the way into the kernel."""

    def __init__(self, functions: dict[int, str]) -> None:
        self.functions = functions
        self.counts: Counter[str] = Counter()
        self.entries: Counter[str] = Counter()
        # The ways that each process is in, the innermost last.
        self.ways: defaultdict[str, list[str]] = defaultdict(list)
        self.process = ""
        # A kernel thread borrows the address space of the process before it, so the trace shows no other process.
        self.is_thread = self.has_switched = False

    def enter(self, way: str) -> None:
        """A way in begins."""
        self.ways[self.process].append(way)
        self.entries[way] += 1

    def begin(self, function: str) -> None:
        """A block of code begins at the function's first address."""
        ways = self.ways[self.process]
        if function == "entry_SYSCALL_64":
            ways[:] = ["system call"]
        elif function.startswith(SYSTEM_CALL) and ways == ["system call"]:
            ways.clear()
            self.enter(function.removeprefix(SYSTEM_CALL))
        elif function == "asm_exc_page_fault":
            self.enter("page fault")
        elif function.startswith(("asm_sysvec_", "asm_common_interrupt")):
            self.enter("interrupt")
        elif function == "native_irq_return_iret" and ways:
            ways.pop()
        elif function == "ret_from_fork":
            ways[:] = ["begin of a child"]
            self.is_thread = False
        elif function == "__switch_to_asm":
            self.is_thread = not self.is_thread and not self.has_switched
            self.has_switched = False

    def block(self, at: int, count: int) -> None:
        """A block of `count` instructions is executed."""
        ways = self.ways[self.process]
        if at < KERNEL:
            ways.clear()
            self.is_thread = False
            self.counts["programs"] += count
            return
        if function := self.functions.get(at):
            self.begin(function)
        way = "kernel threads" if self.is_thread else ways[-1] if ways else "not known"
        self.counts[way] += count

    def read(self, lines: Iterable[str]) -> None:
        """Reads a text trace."""
        for line in lines:
            word, _, rest = line.partition(" ")
            if word == "f":
                fields = rest.split()
                self.block(int(fields[0], 16), int(fields[1][1:]) if len(fields) > 1 else 1)
            elif word == "p":
                process = rest.split()[0]
                self.has_switched |= self.process not in ("", process)
                self.process = process

    def table(self) -> str:
        """Markdown: instructions and times, the largest first."""
        kernel = self.counts.total() - self.counts["programs"]
        lines = ["| way into the kernel | times | instructions | of the kernel's |", "|---|--:|--:|--:|"]
        for way, count in self.counts.most_common():
            share = "" if way == "programs" else f"{count / max(kernel, 1):.1%}"
            lines.append(f"| {way} | {self.entries[way] or ''} | {count:,} | {share} |")
        return "\n".join(lines)


def main() -> None:
    """Reads the symbols and the trace, and prints the table."""
    if len(sys.argv) != 2:
        raise SystemExit((__doc__ or "").strip())
    with open(sys.argv[1], encoding="utf-8", errors="replace") as lines:
        ways = Ways(symbols(lines))
    ways.read(sys.stdin)
    print(ways.table())


if __name__ == "__main__":
    main()
