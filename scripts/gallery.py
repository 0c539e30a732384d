"""Studies programs that people run, and writes what the studies say first to docs/gallery.md; the reports stay in
build/gallery. `make gallery` runs it. Programs that are not installed are left out, and named."""

import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
PAGE = CHECKOUT / "docs" / "gallery.md"
OUT = CHECKOUT / "build" / "gallery"
MARK = "<!-- verdicts: written by make gallery -->"
END = "<!-- end of verdicts -->"
# How the sentences of a verdict begin (mmulab/study/verdict.py).
BEGINNINGS = ("Map ", "Move ", "Link ", "Try ", "Whether ", "Leave ", "No change ")
# Instructions that are studied of each program.
MOST = "300M"


@dataclass(frozen=True)
class Shown:
    """A program of the gallery."""

    title: str
    # A trace, or a program and its arguments. {dir} is a directory for its files.
    command: tuple[str, ...]
    # A shell command that makes its files in {dir}.
    prepare: str = ""

    @property
    def name(self) -> str:
        """Its directory."""
        return self.title.lower().replace(" ", "-").replace(",", "")


_SQL = (
    "create table t(a integer, b text); with recursive n(i) as (select 1 union all select i+1 from n where i<200000) "
    "insert into t select (i*7919)%1000003, 'row number '||i from n; create index x on t(a); "
    "select count(*), sum(length(b)) from t where a in (select a/2 from t);"
)
_JS = (
    "const m=new Map(); for(let i=0;i<300000;i++) m.set((i*7919)%1000003,'v'+i); "
    "let s=0; for(const [k,v] of m) s+=k+v.length; console.log(s)"
)
_REPOSITORY = (
    "git init -q {dir}/r && cd {dir}/r && git config user.email a@b && git config user.name a && "
    "for i in $(seq 1 60); do seq 1 $((i*300)) > f$((i%9)); git add -A; git commit -qm $i; done"
)
_SERVER = """
#include <string.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
/* Forks a child for each request, which reads the parent's memory and writes some of it. */
int main(void) {
    size_t size = 64 << 20;
    char *cache = malloc(size);
    memset(cache, 1, size);
    for (int request = 0; request < 20; request++) {
        if (fork() == 0) {
            unsigned at = request * 2654435761u, sum = 0;
            for (int i = 0; i < 200000; i++) {
                at = at * 1664525u + 1013904223u;
                sum += cache[at % size];
                if (i % 50 == 0) cache[at % size] = (char)i;
            }
            _exit(sum & 1);
        }
        wait(NULL);
    }
    return 0;
}
"""
SHOWN = (
    Shown("A table of 4 GB, random updates", ("gen:gups?footprint=4G&updates=4M",)),
    Shown("sqlite, an index and a join", ("sqlite3", ":memory:", _SQL)),
    Shown("Node.js, a map", ("node", "-e", _JS)),
    Shown("Python, a dictionary", ("python3", "-S", "-c", "d={(i*7919)%1000003: str(i) for i in range(300000)}")),
    Shown("git, a repack", ("git", "-C", "{dir}/r", "repack", "-q", "-a", "-d", "-f"), _REPOSITORY),
    Shown(
        "A server that forks",
        ("{dir}/server",),
        f"cat > {{dir}}/s.c <<'END'\n{_SERVER}\nEND\ncc -O2 -o {{dir}}/server {{dir}}/s.c",
    ),
)


def study(shown: Shown, mmulab: str) -> str | None:
    """What the study of a program says first; None if the program is not here."""
    directory = OUT / shown.name
    directory.mkdir(parents=True, exist_ok=True)
    if shown.prepare:
        work = directory / "files"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        subprocess.run(["sh", "-ec", shown.prepare.replace("{dir}", str(work))], check=True)
    command = [word.replace("{dir}", str(directory / "files")) for word in shown.command]
    is_trace = command[0].startswith("gen:")
    if not is_trace and shutil.which(command[0]) is None:
        return None
    options = ["--out", str(directory / "study"), "--replace", "--no-here", "--max-instructions", MOST]
    done = subprocess.run(
        [mmulab, "study", *options, *([] if is_trace else ["--"]), *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 3):
        sys.exit(f"{shown.title}: {done.stderr}")
    return first_part((directory / "study" / "summary.txt").read_text(encoding="utf-8"))


def first_part(summary: str) -> str:
    """The verdict of a summary, without the lines to paste: they name this computer's paths."""
    lines = summary.splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith(BEGINNINGS))
    kept = []
    for line in lines[begin:]:
        if line.startswith(("Regions", "Functions", "machine /")):
            break
        if not line.startswith(("  try ", "  how ", "  link ", "  check ", "  kernel ", "          ")):
            kept.append(line.rstrip())
    return "\n".join([lines[1], "", *kept]).strip()


def main(say: Callable[[str], None] = print) -> None:
    """Studies all, and writes the page's part between its marks."""
    mmulab = str(CHECKOUT / ".venv" / "bin" / "mmulab")
    parts, missing = [], []
    for shown in SHOWN:
        say(shown.title)
        found = study(shown, mmulab)
        if found is None:
            missing.append(shown.command[0])
            continue
        typed = shown.command[0] if len(shown.command) == 1 else f"{shown.command[0]} .."
        parts.append(f"## {shown.title}\n\n`{Path(typed).name if '/' in typed else typed}`\n\n```text\n{found}\n```")
    text = PAGE.read_text(encoding="utf-8")
    head, rest = text.split(MARK)
    _, tail = rest.split(END)
    told = f"Written on {platform.machine()}, {MOST} instructions of each at most."
    PAGE.write_text("\n\n".join([f"{head}{MARK}", told, *parts, f"{END}{tail}"]), encoding="utf-8")
    say(f"reports: {OUT}/*/study/report.html")
    if missing:
        say(f"not installed, so left out: {', '.join(missing)}")


if __name__ == "__main__":
    main()
