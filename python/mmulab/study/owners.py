"""Whose memory a region is: the program that mapped it, however many processes run that program.

Advice about a mapping concerns a program, not one of its processes. So a study has one row for each mapping of a
program. It names the program if a trace has several: shells and launchers are programs of their own.
"""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from mmulab.result import Result
from mmulab.study.aliases import shown_file
from mmulab.study.symbols import demangle

# The login shells that Debian's /etc/shells can list, by file name.
SHELLS = frozenset({"ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "mksh", "rbash", "sh", "tcsh", "zsh"})
# What coreutils, util-linux, findutils, procps, sudo and time have to run another program.
LAUNCHERS = frozenset(
    {"chroot", "env", "ionice", "nice", "nohup", "runuser", "setpriv", "setsid", "stdbuf", "su", "sudo", "taskset"}
    | {"time", "timeout", "unshare", "watch", "xargs"}
)
# Regions of which a program has one, or one for each name, wherever it lies.
SINGLE = frozenset({"heap", "stack", "special"})

# Kinds of memory that recordings name by the place that asked for it.
NAMED = frozenset({"anon", "heap", "shared"})


@dataclass(frozen=True)
class Owner:
    """A program: of which virtual machine and member of a mix, and the path that was executed."""

    vm: int
    member: str
    path: str

    @property
    def name(self) -> str:
        """The program's name, with its member's and virtual machine's where there are several."""
        words = [self.member, PurePosixPath(self.path).name]
        name = ": ".join(dict.fromkeys(word for word in words if word)) or "the program"
        return f"{name} in vm {self.vm}" if self.vm else name

    @property
    def role(self) -> str:
        """What it is there for, if that is to start others; else empty."""
        name = PurePosixPath(self.path).name
        return "shell" if name in SHELLS else "launcher" if name in LAUNCHERS else ""


class Owners:
    """The owners of a result's regions."""

    def __init__(self, result: Result) -> None:
        """Looks at which programs ran, in how many processes each."""
        mix = result.trace.get("mix") or {}
        self._members = [(str(m["name"]), m.get("vm"), m["pids"]) for m in mix.get("members", [])]
        self.first = str(result.trace.get("program") or "")
        self.processes: dict[Owner, int] = {}
        for program in result.programs:
            owner = self._owner(program, str(program["path"]))
            self.processes[owner] = self.processes.get(owner, 0) + int(program["processes"])

    def of(self, region: dict[str, Any]) -> Owner:
        """The owner of a region."""
        return self._owner(region, str(region["program"]))

    def _owner(self, entry: dict[str, Any], path: str) -> Owner:
        vm, pid = int(entry.get("vm") or 0), int(entry["pid"])
        names = (name for name, its, (first, last) in self._members if its in (None, vm) and first <= pid <= last)
        return Owner(vm, next(names, ""), path or self.first)

    def key(self, region: dict[str, Any]) -> tuple[Owner, str, str, int]:
        """Equal for all places of one mapping. A file's has its offset, other memory the number of its region."""
        kind = str(region["kind"])
        if region.get("folded") or kind in SINGLE:
            place = 0
        elif kind == "file":
            place = int(region["offset"])
        else:
            place = int(region["id"])
        return self.of(region), kind, str(region["name"]), place

    def label(self, region: dict[str, Any]) -> str:
        """The region's name for people: with its program where several ran, and how many processes did if several."""
        path, shown = str(region.get("file") or ""), shown_file(region, self.first)
        name = str(region["name"]).replace(path, shown, 1) if path else _demangled(str(region["name"]))
        owner, words, counts = self.of(region), [name], []
        if region["kind"] == "unmapped":
            return name
        if folded := int(region.get("folded") or 0):
            counts.append(f"{folded:,} mappings")
        if len(self.processes) > 1:
            words.append(f"of {owner.name}")
        if (count := self.processes.get(owner, 0)) > 1:
            counts.append(f"{count:,} processes")
        return " ".join([*words, *([f"({', '.join(counts)})"] if counts else [])])


def site_of(region: dict[str, Any]) -> str:
    """The place in the program that asked for a region's memory, as `table_new (table.c:42)`; empty without a name."""
    _, separator, site = str(region["name"]).partition(": ")
    return _demangled(site) if separator and region["kind"] in NAMED else ""


def _demangled(name: str) -> str:
    """A name with its C++ function as the function's author wrote it."""
    return re.sub(r"\b_Z\w+", lambda found: demangle(found[0]), name)
