"""Programs that recorded programs become, and how recordings end: nothing escapes unseen, nothing is left running."""

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Build, Cli, complete

from mmulab import engine, paths

QEMU = f"qemu-{platform.machine()}"

if shutil.which(QEMU) is None:
    pytest.skip("recording needs qemu-user", allow_module_level=True)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change its user and its root directory")

# Calls itself once more in a copy, by a name that leads to it whatever its root directory is.
AGAIN = """
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **args) {
    static volatile char touched[1 << 16];
    for (int i = 0; i < 1 << 16; i += 64) touched[i] = 1;
    if (count > 1) {
        if (fork() == 0) { execl(args[0], args[0], (char *)0); _exit(9); }
        int status;
        wait(&status);
        return status != 0;
    }
    return 0;
}
"""
# Closes all descriptors but the usual three, as another user, and becomes id.
CLOSED = """
#define _GNU_SOURCE
#include <unistd.h>
int main(void) {
    if (setreuid(65534, 65534) != 0) return 8;
    for (int fd = 3; fd < 2000; fd++) close(fd);
    execl("/usr/bin/id", "id", (char *)0);
    return 9;
}
"""
# Opens all the files it may, and becomes echo.
EXHAUSTED = """
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
int main(int count, char **args) {
    struct rlimit limit = { 64, 64 };
    if (count == 1) {
        setrlimit(RLIMIT_NOFILE, &limit);
        execl(args[0], args[0], "again", (char *)0);
        return 7;
    }
    while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) { }
    execl("/bin/echo", "echo", "ran", (char *)0);
    return 9;
}
"""
# Is executed from memory, by a descriptor that is closed in doing so.
IN_MEMORY = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
extern char **environ;
int main(void) {
    static char bytes[4096];
    char *args[] = { "echo", "from memory", 0 };
    int from = open("/bin/echo", O_RDONLY), to = memfd_create("echo", MFD_CLOEXEC);
    for (ssize_t got; (got = read(from, bytes, sizeof bytes)) > 0;) if (write(to, bytes, got) != got) return 8;
    fexecve(to, args, environ);
    return 9;
}
"""
# Says something on its standard output, then fails as its argument says.
SPEAKS = """
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **args) {
    printf("{ words of the program\\n");
    fflush(stdout);
    if (count < 2) return 0;
    if (args[1][0] == 'c') *(volatile int *)8 = 1;
    return atoi(args[1]);
}
"""


def recorded(cli: Cli, *command: str | Path, code: int = 0) -> tuple[dict[str, Any], dict[str, int], str]:
    """Records a program: what is said of that, the events in the trace, and what was written to standard error."""
    ran = cli("record", "-o", "a.mmt", "--json", "--", *command)
    assert ran.code == code, ran.err
    return json.loads(ran.out), cli("trace", "info", "a.mmt", "--json").json()["events"], ran.err


def processes_with(mark: str) -> list[str]:
    """Processes whose command line holds `mark`, zombies and this one aside."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in line:
                found.append(entry.name)
    return found


def wait_until_none(mark: str, seconds: float = 60) -> None:
    """Waits until no process holds `mark`."""
    deadline = time.monotonic() + seconds
    while left := processes_with(mark):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


@needs_root
@pytest.mark.parametrize(
    ("command", "programs"),
    [
        ("runuser -u nobody -- id", 1),
        ("su -s /bin/sh nobody -c id", 2),
        ("setpriv --reuid 65534 --clear-groups id", 1),
        ("chroot / id", 1),
        ("chroot --userspec=65534 / id", 1),
        ("unshare --net id", 1),
        ("unshare --pid --fork --mount-proc id", 1),
    ],
)
def test_what_becomes_another_user_is_followed(cli: Cli, command: str, programs: int) -> None:
    """CHANGELOG number 1: the programs that it executes are in the trace, and run as that user."""
    if shutil.which(command.split()[0]) is None:
        pytest.skip(f"{command.split()[0]} is not installed")
    found, events, err = recorded(cli, *command.split())
    assert found["lost"] == []
    assert events["exec"] == programs
    assert "lost" not in events
    whole = command.startswith(("chroot / ", "unshare"))
    assert f"uid={0 if whole else 65534}(" in err
    complete(cli, "a.mmt")


@needs_root
def test_another_user_needs_no_path_to_the_plugin(tmp_path: Path) -> None:
    """CHANGELOG number 1: the plugin lies in a directory of root's, and all descriptors were closed."""
    tmp_path.chmod(0o700)
    for name, command in {
        "setpriv": ["setpriv", "--reuid", "65534", "--clear-groups", "id"],
        "closed": ["./closed"],
    }.items():
        plugin = tmp_path / "plugin.so"
        shutil.copy(paths.plugin(), plugin)
        source = tmp_path / "closed.c"
        source.write_text(CLOSED)
        subprocess.run(["cc", "-O1", "-o", tmp_path / "closed", source], check=True)
        trace = tmp_path / f"{name}.mmt"
        here = [str(tmp_path / "closed")] if name == "closed" else command
        spec = {"output": str(trace), "command": here, "plugin": str(plugin)}
        script = f"from mmulab import engine; import json; print(json.dumps(engine.record({spec!r})))"
        ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        found = json.loads(ran.stdout)
        assert (found["lost"], found["exit_status"]) == ([], 0), ran.stderr
        assert "uid=65534" in ran.stderr
        assert engine.trace_info(str(trace))["events"]["exec"] == 1


@needs_root
def test_what_leaves_its_root_directory_is_followed_or_lost(cli: Cli, tmp_path: Path) -> None:
    """CHANGELOG number 1: with the right to go back it is followed; without it, the recording says that it was not."""
    jail = tmp_path / "jail"
    jail.mkdir()
    for each in (jail, *jail.parents):
        if each.is_relative_to("/tmp/pytest-of-root") or each == jail:
            each.chmod(each.stat().st_mode | 0o011)
    (tmp_path / "again.c").write_text(AGAIN)
    subprocess.run(["cc", "-O1", "-static", "-o", jail / "again", tmp_path / "again.c"], check=True)
    found, events, _ = recorded(cli, "chroot", jail, "/again", "twice")
    assert (found["lost"], found["exit_status"], found["processes"]) == ([], 0, 2)
    assert (events["exec"], events["fork"]) == (2, 1)
    complete(cli, "a.mmt")
    found, events, err = recorded(cli, "chroot", "--userspec=65534", jail, "/again", "twice")
    assert found["exit_status"] == 0
    assert ["/again" in what and "outside the emulator" in what for what in found["lost"]] == [True]
    assert "exec" not in events
    assert events["lost"] == 1
    assert "outside the emulator" in err
    assert any("outside the emulator" in w for w in cli("trace", "info", "a.mmt", "--json").json()["warnings"])


def test_what_used_up_its_descriptors_is_followed(cli: Cli, build: Build) -> None:
    """CHANGELOG number 1: a few are kept for the moment of the start."""
    found, events, err = recorded(cli, build(EXHAUSTED))
    assert (found["lost"], found["exit_status"]) == ([], 0)
    assert events["exec"] == 2
    assert "ran" in err.splitlines()


def test_a_program_in_memory_is_followed(cli: Cli, build: Build) -> None:
    """CHANGELOG number 1: it has no path, and its descriptor is closed when it is executed."""
    found, events, err = recorded(cli, build(IN_MEMORY))
    assert (found["lost"], found["exit_status"]) == ([], 0)
    assert events["exec"] == 1
    assert "from memory" in err.splitlines()
    complete(cli, "a.mmt")


def test_an_execution_that_fails_is_no_escape(cli: Cli, tmp_path: Path) -> None:
    """CHANGELOG number 1: the system refuses it, too, and the process goes on, recorded."""
    for name, text in {"unreadable": "#!/no/such/interpreter\n", "garbage": "echo read by the shell\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    found, events, err = recorded(cli, "sh", "-c", "./unreadable; ./garbage; cat /dev/null")
    assert found["lost"] == []
    assert "lost" not in events
    assert "read by the shell" in err


def test_a_program_that_qemu_cannot_run_is_lost(cli: Cli, tmp_path: Path) -> None:
    """CHANGELOG number 1: an interpreter that is not there ends QEMU, which the recording says of the program."""
    (tmp_path / "a.c").write_text("int main(void) { return 0; }")
    command = ["cc", "-o", tmp_path / "odd", tmp_path / "a.c", "-Wl,--dynamic-linker=/no/such/loader"]
    subprocess.run(command, check=True)
    found, events, _ = recorded(cli, "sh", "-c", "./odd; exit 0")
    assert ["odd (process 2) did not run" in what for what in found["lost"]] == [True]
    assert events["lost"] == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_however_it_ends_nothing_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    """CHANGELOG number 2: idle programs, in sessions of their own too, end with the recording, which has an index."""
    mark = f"86400.{os.getpid()}{int(number)}"
    script = f"sleep {mark} & setsid sleep {mark} & wait"
    command = [sys.executable, "-m", "mmulab", "record", "-o", "a.mmt", "--", "sh", "-c", script]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        # The recorder, its watcher, the shell, and the two that sleep, once all are under way.
        while len([pid for pid in processes_with(mark) if b"-0\0sleep\0" in cmdline(pid)]) < 2:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(process.pid, number)
        # Whatever still held the pipe would keep this waiting.
        _, err = process.communicate(timeout=60)
    wait_until_none(mark)
    if number == signal.SIGKILL:
        assert process.returncode == -number
        return
    assert process.returncode == 130, err
    assert "a.mmt holds what was recorded so far (interrupted)" in err
    cli = Cli(tmp_path)
    assert cli("trace", "verify", "a.mmt").code == 0
    assert any("interrupted" in w for w in cli("trace", "info", "a.mmt", "--json").json()["warnings"])


def cmdline(pid: str) -> bytes:
    """A process's command line; nothing if it is gone."""
    try:
        return (Path("/proc") / pid / "cmdline").read_bytes()
    except OSError:
        return b""


def test_sighup_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """CHANGELOG number 2: nohup(1) means it."""
    script = "trap '' HUP; exec \"$@\""
    code = "import os, signal, sys; from mmulab.stopping import as_ctrl_c\nwith as_ctrl_c(): os.kill(os.getpid(), 1)"
    subprocess.run(["sh", "-c", script, "sh", sys.executable, "-c", code], cwd=tmp_path, check=True)
    heard = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "KeyboardInterrupt" in heard.stderr


def test_a_programs_output_never_goes_into_data(cli: Cli, build: Build) -> None:
    """CHANGELOG number 8: it appears on standard error, and standard output is JSON alone."""
    program = build(SPEAKS)
    ran = cli("record", "-o", "a.mmt", "--json", "--", program)
    assert json.loads(ran.out)["exit_status"] == 0
    assert "{ words of the program" in ran.err
    ran = cli("study", "--machines", "zen3-5900x", "--policies", "linux-4k", "--json", "--out", "s", "--", program)
    assert ran.code == 0, ran.err
    assert len(json.loads(ran.out)["results"]) == 1
    assert "{ words of the program" in ran.err
    ran = cli("record", "-o", "b.mmt", "--", program)
    assert ran.out == ""


@pytest.mark.parametrize(("how", "said"), [("3", "it ended with status 3"), ("c", "signal 11 ended it")])
def test_a_study_of_a_program_that_fails_says_so(cli: Cli, build: Build, how: str, said: str) -> None:
    """CHANGELOG number 7: on standard error, in the exit code, in the report and in each result."""
    program = build(SPEAKS)
    ran = cli("study", "--machines", "zen3-5900x", "--policies", "linux-4k", "--out", "s", "--", program, how)
    assert ran.code == 1
    assert f"{said}; the results in s are of this failed run" in ran.err
    mark = "the recorded program failed: status 3" if how == "3" else "signal 11 ended the program"
    (result,) = (cli.cwd / "s" / "results").glob("*.json")
    assert any(mark in warning for warning in json.loads(result.read_text())["trace"]["warnings"])
    assert mark in (cli.cwd / "s" / "report.html").read_text()
    assert mark in cli("run", "zen3-5900x", "--trace", "s/trace.mmt").err
