"""Studies programs that people run: what each study says first goes to docs/gallery.md, the reports to docs/gallery/.

`make gallery` runs it. Programs that are not installed are left out, and named on the page. With words of titles
(`scripts/gallery.py redis git`), only these programs are studied anew; the others keep their studies in build/gallery.
"""

import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mmulab.ports import free_port

CHECKOUT = Path(__file__).resolve().parents[1]
PAGE = CHECKOUT / "docs" / "gallery.md"
REPORTS = CHECKOUT / "docs" / "gallery"
OUT = CHECKOUT / "build" / "gallery"
# Where programs have their files: a short path, for it stands in reports.
FILES = Path(tempfile.gettempdir()) / "gallery"
# Where `mmulab workloads record` has a program's files.
PLACES = re.escape(str(Path(tempfile.gettempdir()) / "mmulab-")) + "[^/]+/"
CLIENT = CHECKOUT / "python" / "mmulab" / "forecast" / "client.py"
MARK = "<!-- verdicts: written by make gallery -->"
END = "<!-- end of verdicts -->"
# How the sentences of a verdict begin (mmulab/study/verdict.py).
BEGINNINGS = ("Map ", "Move ", "Link ", "Try ", "Whether ", "Leave ", "No change ")
# Instructions that are studied of each program, unless it says otherwise.
MOST = "300M"
# The machines of programs for x86-64: named, so that the page does not depend on the computer it is written on.
MACHINES = ("--machines", "sapphirerapids-xeon8480,zen4-epyc9004")
# Columns of the page's text.
WIDTH = 138
# Bytes of all reports together: they are part of the repository.
ROOM = 1_500_000


@dataclass(frozen=True)
class Shown:
    """A program of the gallery."""

    title: str
    # A trace, or a program and its arguments. {dir} is a directory for its files, {port} a free port.
    command: tuple[str, ...]
    # What runs, in a sentence or two.
    about: str
    # A shell command that makes its files in {dir}.
    prepare: str = ""
    # A recipe of `mmulab workloads` that records it, with its options; the command is then only what must be installed.
    recipe: tuple[str, ...] = ()
    # Arguments of the client that drives it as a server, from its port on.
    client: tuple[str, ...] = ()
    # Instructions that run before counts begin, and that are counted.
    skip: str = "0"
    most: str = MOST
    machines: tuple[str, ...] = MACHINES

    @property
    def name(self) -> str:
        """Its directory and its report."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


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
_TABLE = """
#include <stdio.h>
#include <stdlib.h>
/* A chained hash table of words: inserts a million, then looks them up at random. */
struct word { struct word *next; unsigned long key, count; };
enum { BUCKETS = 1 << 20, WORDS = 1000000 };
int main(void) {
    struct word **table = calloc(BUCKETS, sizeof *table);
    unsigned long at = 1, found = 0;
    for (unsigned long i = 0; i < WORDS; i++) {
        struct word *one = malloc(sizeof *one);
        one->key = i * 0x9e3779b97f4a7c15, one->count = i;
        one->next = table[one->key >> 44], table[one->key >> 44] = one;
    }
    for (int i = 0; i < 3000000; i++) {
        at = at * 6364136223846793005 + 1442695040888963407;
        unsigned long key = (at >> 33) % WORDS * 0x9e3779b97f4a7c15;
        struct word *one = table[key >> 44];
        while (one && one->key != key) one = one->next;
        if (one) found += one->count;
    }
    printf("%lu\\n", found);
    return 0;
}
"""
SHOWN = (
    Shown(
        "A hash table of 4 GB",
        ("gen:gups?footprint=4G&updates=4M",),
        "A generator: 4 million updates of random words in a table of 4 GB.",
    ),
    Shown(
        "Redis",
        (
            "redis-server",
            "--port",
            "{port}",
            "--bind",
            "127.0.0.1",
            "--dir",
            "{dir}",
            "--save",
            "",
            "--appendonly",
            "no",
        ),
        "400,000 keys of 200 bytes are set, and then keys are read at random, 500 requests at once. Counts begin after "
        "the first 1.5 G instructions.",
        client=("400000", "4000000", "200"),
        skip="1500M",
    ),
    Shown(
        "Node.js, a map",
        ("node", "-e", _JS),
        "300,000 strings are put into a `Map`, and then it is read in order. The first 300 M instructions, of which "
        "the start of Node.js is a part.",
    ),
    Shown(
        "SQLite, an index and a join",
        ("sqlite3", ":memory:", _SQL),
        "A table of 200,000 rows in memory, an index, and a query that uses it. The first 300 M instructions.",
    ),
    Shown(
        "PostgreSQL, rows by key",
        ("/usr/lib/postgresql/15/bin/postgres",),
        "The recipe `postgres-single` ([the papers' programs](results/workloads.md)): one process in single-user mode, "
        "a table of 300,000 rows, and queries of one row at random. Counts begin after 300 M instructions.",
        recipe=("postgres-single",),
        most="200M",
    ),
    Shown(
        "git, a repack",
        ("git", "-C", "{dir}/r", "repack", "-q", "-a", "-d", "-f"),
        "A repository of 60 commits of files with up to 18,000 lines, and all processes that `git repack` starts.",
        _REPOSITORY,
    ),
    Shown(
        "A server that forks",
        ("{dir}/server",),
        "It fills 64 MB and forks 20 children, one after another. Each reads the parent's memory at random and writes "
        "to some of it, which copies pages.",
        f"cat > {{dir}}/s.c <<'END'\n{_SERVER}\nEND\ncc -O2 -o {{dir}}/server {{dir}}/s.c",
    ),
    Shown(
        "A static program for aarch64",
        ("{dir}/table",),
        "A hash table with a million chained entries, looked up 3 million times at random. It is compiled with "
        "`aarch64-linux-gnu-gcc -O2 -static` and recorded on x86-64, with `qemu-aarch64`.",
        f"cat > {{dir}}/t.c <<'END'\n{_TABLE}\nEND\naarch64-linux-gnu-gcc -O2 -static -o {{dir}}/table {{dir}}/t.c",
        machines=("--machines", "neoverse-n1"),
    ),
)


def study(shown: Shown, anew: bool) -> str | None:
    """What the study of a program says first; None if the program, or what builds it, is not here."""
    directory = OUT / shown.name
    result = directory / "study"
    if anew or not (result / "report.html").exists():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        with _files(shown) as files:
            if files is None or not _run(shown, directory, files):
                return None
    REPORTS.mkdir(exist_ok=True)
    report = published((result / "report.html").read_text(encoding="utf-8"))
    (REPORTS / f"{shown.name}.html").write_text(report, encoding="utf-8")
    return first_part((result / "summary.txt").read_text(encoding="utf-8"))


@contextmanager
def _files(shown: Shown) -> Iterator[Path | None]:
    """The program's files, while it is studied; None if they cannot be made here."""
    shutil.rmtree(FILES, ignore_errors=True)
    FILES.mkdir()
    try:
        made = subprocess.run(["sh", "-ec", shown.prepare.replace("{dir}", str(FILES))], check=False)
        yield None if made.returncode else FILES
    finally:
        shutil.rmtree(FILES, ignore_errors=True)


def _run(shown: Shown, directory: Path, files: Path) -> bool:
    """Studies it; false if it is not here."""
    port = str(free_port())
    command = [word.replace("{dir}", str(files)).replace("{port}", port) for word in shown.command]
    options = ["--out", str(directory / "study"), "--replace", "--no-here", *shown.machines]
    if command[0].startswith("gen:"):
        _mmulab(shown, "study", *options, "--max-instructions", shown.most, *command)
        return True
    if shutil.which(command[0]) is None:
        return False
    if shown.recipe:
        trace = str(directory / "trace.mmt")
        how = ("--no-install", "--fixed-layout", "--max-instructions", shown.most, "-o", trace)
        _mmulab(shown, "workloads", "record", *shown.recipe, *how)
        _mmulab(shown, "study", *options, trace)
        return True
    client = None
    if shown.client:
        # It waits until the server listens, and fails when the server's recording ends.
        said = subprocess.DEVNULL
        client = subprocess.Popen([sys.executable, str(CLIENT), "redis", port, *shown.client], stdout=said, stderr=said)
    try:
        some = ("--skip", shown.skip, "--max-instructions", shown.most)
        _mmulab(shown, "study", *options, "--fixed-layout", *some, "--", *command)
    finally:
        if client is not None:
            client.kill()
            client.wait()
    return True


def _mmulab(shown: Shown, *arguments: str) -> None:
    """Runs mmulab. A status of 3 is that of a program that was ended when enough was recorded."""
    command = [sys.executable, "-m", "mmulab", *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        sys.exit(f"{shown.title}: {done.stderr}")


def published(report: str) -> str:
    """A report without paths of this checkout and of temporary files, and without white space between tags."""
    report = report.replace(f"{FILES}/", "").replace(str(FILES), ".").replace(f"{CHECKOUT}/python/mmulab/_lib/", "")
    report = re.sub(rf"{re.escape(str(OUT))}/[^/]+/(study/)?|{PLACES}", "", report)
    report = re.sub(r">[ \n]*\n[ \n]*<", ">\n<", report)
    for own in (str(CHECKOUT), str(Path.home()) + "/", socket.gethostname() + "."):
        if own in report:
            at = report.index(own)
            sys.exit(f"a report names {own}: {report[max(0, at - 80) : at + 80]}")
    return report


def first_part(summary: str) -> str:
    """The verdict of a summary, without the lines to paste: they name this computer's paths."""
    lines = summary.splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith(BEGINNINGS))
    kept, is_kept = [], True
    for line in lines[begin:]:
        if line.startswith(("Regions", "Functions", "machine /")):
            break
        # Lines that begin with blanks only go on from the line before.
        if not line.startswith(" " * 10):
            is_kept = not line.startswith(("  try ", "  how ", "  link ", "  check ", "  kernel "))
        if is_kept:
            kept.append(line.rstrip())
    return "\n".join([lines[1], "", *kept]).strip()


def main(say: Callable[[str], None] = print) -> None:
    """Studies all, and writes the page's part between its marks."""
    wanted = [word.lower() for word in sys.argv[1:]]
    parts, missing, reports = [], [], set()
    for shown in SHOWN:
        say(shown.title)
        found = study(shown, not wanted or any(word in shown.title.lower() for word in wanted))
        if found is None:
            missing.append(shown.title)
            continue
        reports.add(REPORTS / f"{shown.name}.html")
        link = f"[The report](gallery/{shown.name}.html)."
        parts.append(f"## {shown.title}\n\n{_filled(f'{shown.about} {link}')}\n\n```text\n{found}\n```")
    for stale in {*REPORTS.glob("*.html")} - reports:
        stale.unlink()
    size = sum(report.stat().st_size for report in REPORTS.glob("*.html"))
    if size > ROOM:
        sys.exit(f"{REPORTS}: {size:,} bytes; {ROOM:,} are allowed: the reports are part of the repository")
    text = PAGE.read_text(encoding="utf-8")
    head, rest = text.split(MARK)
    _, tail = rest.split(END)
    told = f"Written on {platform.machine()}. At most {MOST} instructions of each program are counted."
    if missing:
        told += f" Left out, because something that they need is not installed here: {', '.join(missing)}."
    PAGE.write_text("\n\n".join([f"{head}{MARK}", _filled(told), *parts, f"{END}{tail}"]), encoding="utf-8")
    say(f"{PAGE}, and {len(parts)} reports of {size:,} bytes in {REPORTS}")


def _filled(text: str) -> str:
    """A paragraph of the page."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    main()
