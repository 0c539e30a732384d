"""`mmulab workloads`: recipes are read, carried out and put away, whatever happens meanwhile."""

import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import CHECKOUT, Cli

QEMU = f"qemu-{platform.machine()}"
RECORDS = shutil.which(QEMU) is not None
RECIPES = sorted((CHECKOUT / "workloads").glob("*.toml"))
needs_qemu = pytest.mark.skipif(not RECORDS, reason="recording needs qemu-user")

PROGRAM = """
name = "mine"
title = "Mine"
standing = "own"
why = "a test"
room = "1M"
[parameter.words]
default = 3
about = "how many"
[install]
apt = [{ package = "PACKAGE", provides = "sh" }]
[[setup]]
run = ["sh", "-c", "SETUP"]
[record]
run = ["sh", "-c", "RUN"]
instructions = "1M"
[expect]
instructions = "1M"
code_pages = [1, 500]
data_pages = [1, 500]
"""
# Serves until it is asked to end; each line it is sent comes back. It leaves its number in a file. In C: under QEMU
# a Python takes seconds to start.
SERVER = r"""
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **args) {
    puts("about to listen");
    if (strcmp(args[2], "broken") == 0) { fputs("no licence found\n", stderr); return 1; }
    FILE *pid = fopen(args[3], "w");
    fprintf(pid, "%d", getpid());
    fclose(pid);
    int yes = 1, all = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = { AF_INET, htons(atoi(args[1])), { htonl(INADDR_LOOPBACK) } };
    setsockopt(all, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(all, (struct sockaddr *)&at, sizeof at) || listen(all, 8)) { perror("bind"); return 1; }
    while (strcmp(args[2], "deaf") != 0) {
        int one = accept(all, 0, 0), got;
        char part[100];
        while ((got = read(one, part, sizeof part)) > 0) {
            for (volatile int i = 0; i < 10000; i++);
            if (write(one, part, got) != got) break;
        }
        close(one);
    }
    close(all);
    for (;;) pause();
}
"""
CLIENT = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as server:
    for i in range(int(sys.argv[2])):
        server.sendall(b"x" * 50)
        server.recv(100)
if sys.argv[3] == "fails":
    sys.exit("answer was wrong")
"""
SERVED = """
name = "served"
title = "Served"
standing = "own"
why = "a test"
room = "1M"
[parameter.how]
default = "well"
about = "what the server does"
[parameter.client]
default = "well"
about = "what the client does"
[parameter.asks]
default = 50
about = "requests"
[parameter.pid]
default = "PIDFILE"
about = "where the server says who it is"
[record]
run = ["{files}/server", "{port}", "{how}", "{pid}"]
instructions = "4G"
[server]
ready = ["python3", "{files}/client.py", "{port}", "1", "well"]
ready_seconds = 60
drive = [{ run = ["python3", "{files}/client.py", "{port}", "{asks}", "{client}"] }]
"""


@pytest.fixture
def place(tmp_path: Path, server: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory, in which `tmp` is where all temporary files of the command are."""
    # Where other users may look, as servers that refuse to serve root must; pytest's own directories are private.
    with tempfile.TemporaryDirectory() as temporary:
        Path(temporary).chmod(0o755)
        (tmp_path / "tmp").symlink_to(temporary)
        monkeypatch.setenv("TMPDIR", temporary)
        _recipes(tmp_path, server)
        yield tmp_path


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server, compiled."""
    directory = tmp_path_factory.mktemp("server")
    (directory / "server.c").write_text(SERVER)
    subprocess.run(["cc", "-O1", "-w", "-o", "server", "server.c"], cwd=directory, check=True)
    return directory / "server"


@pytest.fixture(scope="session")
def lacking(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What is not installed, by recipe."""
    listed = Cli(tmp_path_factory.mktemp("listed"))("workloads", "list", "--json").json()
    return {row["name"]: row["missing"] for row in listed}


def _recipes(tmp_path: Path, server: Path) -> None:
    """Writes that of a server to the working directory's."""
    (tmp_path / "workloads" / "files" / "served").mkdir(parents=True)
    served = SERVED.replace("PIDFILE", str(tmp_path / "server.pid")).replace("python3", sys.executable)
    (tmp_path / "workloads" / "served.toml").write_text(served)
    shutil.copy(server, tmp_path / "workloads" / "files" / "served")
    (tmp_path / "workloads" / "files" / "served" / "client.py").write_text(CLIENT)


def mine(place: Path, run: str = "exit 0", setup: str = "true", package: str = "dash") -> None:
    """Writes a recipe of a program."""
    text = PROGRAM.replace("RUN", run).replace("SETUP", setup).replace("PACKAGE", package)
    (place / "workloads" / "mine.toml").write_text(text)


def nothing_left(place: Path) -> None:
    """No file in the temporary directory, and no process that works there."""
    assert list((place / "tmp").iterdir()) == []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            assert os.environ["TMPDIR"] not in command, command


def test_each_recipe_is_one() -> None:
    """Its name is its file's; it says which paper it is from and what it can be checked by."""
    from mmulab.workloads.recipe import Recipe

    for file in RECIPES:
        found = Recipe.load(str(file)).json
        assert found["name"] == file.stem
        made = found.get("refused") or found.get("generate") or found.get("mix")
        assert made or (found["record"] and found["expect"]), file
        assert found["standing"] == "own" or found["paper"], file


def test_each_generator_that_is_named_takes_its_keys(cli: Cli, tmp_path: Path) -> None:
    """As the recipe has them, and small as it is compared."""
    from mmulab import engine
    from mmulab.workloads.recipe import Recipe

    for file in RECIPES:
        recipe = Recipe.load(str(file))
        if recipe.json.get("generate"):
            for text in (recipe.trace, recipe.json["generate"]["twin"]):
                assert text.partition("?")[0].removeprefix("gen:") in engine.generators(), file
            engine.trace_copy(recipe.json["generate"]["twin"], str(tmp_path / "a.mmt"), "native", 0, 1000)
    ran = cli("workloads", "record", "gups", "--set", "footprint=1M", "--max-instructions", "10k", "--json")
    assert ran.code == 0, ran.err
    (recorded,) = tmp_path.glob("gups*.mmt")
    assert ran.json()["instructions"] == cli("trace", "info", recorded.name, "--json").json()["instructions"]
    ran = cli("workloads", "record", "gups", "--set", "footprint=3M")
    assert ran.code == 2
    assert "footprint" in ran.err


@pytest.mark.parametrize("name", ["postgres-pgbench", "mariadb-sysbench", "gups"])
def test_a_recipe_is_shown(cli: Cli, name: str) -> None:
    """All that a reader needs, and as JSON all there is."""
    found = cli("workloads", "show", name, "--json").json()
    shown = cli("workloads", "show", name).out
    for words in [found["title"], found["paper"][0]["source"], *found["parameter"]]:
        assert words in shown


def test_the_list_tells_what_there_is(cli: Cli) -> None:
    """As data, every recipe of the checkout."""
    assert {row["name"] for row in cli("workloads", "list", "--json").json()} == {file.stem for file in RECIPES}


def test_mistakes_are_named(cli: Cli, place: Path) -> None:
    """In a recipe, on the command line, and of what cannot be."""
    mine(place)
    text = (place / "workloads" / "mine.toml").read_text()
    (place / "broken.toml").write_text(text.replace("standing", "standign"))
    (place / "braces.toml").write_text(text.replace("exit 0", "exit {word}"))
    refused = text.replace("standing", 'refused = "nobody knows how"\nstanding')
    (place / "refused.toml").write_text(refused)
    for args, said in [
        (["show", "./broken.toml"], ["broken.toml:4:1", "did you mean `standing`?"]),
        (["show", "./braces.toml"], ["nothing is named `{word}`", "did you mean `{words}`?"]),
        (["show", "redsi"], ["no workload named 'redsi'", "did you mean 'redis'?"]),
        (["record", "mine", "--set", "wodrs=4"], ["no parameter `wodrs`", "did you mean `words`?"]),
        (["record", "mine", "--set", "words=many"], ["'many' is not a whole number"]),
        (["record", "./refused.toml"], ["cannot be recorded", "nobody knows how"]),
        (["check", "./refused.toml"], ["nobody knows how"]),
        (["record", "mine", "-o", "no/where.mmt"], ["no such directory"]),
    ]:
        ran = cli("workloads", *args)
        assert ran.code == 2, ran.err
        for words in said:
            assert words in ran.err
    nothing_left(place)


@needs_qemu
def test_what_is_missing_is_named(cli: Cli, place: Path) -> None:
    """A package, a fetched file, room on the disk."""
    mine(place, package="no-such-thing")
    file = place / "workloads" / "mine.toml"
    file.write_text(file.read_text().replace('provides = "sh"', 'provides = "no-such-program"'))
    ran = cli("workloads", "record", "mine", "--no-install")
    assert ran.code == 2
    assert "needs what is not installed: no-such-thing" in ran.err
    assert "apt-get install no-such-thing" in ran.err
    mine(place)
    file.write_text(file.read_text().replace("[install]", '[install]\nnpm = ["no-such-thing@1.0.0"]'))
    ran = cli("workloads", "record", "mine", "--no-install", XDG_CACHE_HOME=str(place / "cache"))
    assert ran.code == 2
    assert "needs what is not here: npm no-such-thing@1.0.0" in ran.err
    mine(place)
    file.write_text(file.read_text().replace('room = "1M"', 'room = "900T"'))
    ran = cli("workloads", "record", "mine")
    assert ran.code == 2
    assert "mine needs 900 TB" in ran.err
    if os.geteuid() == 0:
        file.write_text(PROGRAM.replace('room = "1M"', "unprivileged = true"))
        Path(os.environ["TMPDIR"]).chmod(0o700)
        ran = cli("workloads", "record", "mine")
        assert ran.code == 2
        assert "nobody may not enter it" in ran.err
    nothing_left(place)


def test_what_was_fetched_must_have_the_digest_it_is_said_to_have(tmp_path: Path) -> None:
    """Otherwise it is not kept."""
    from mmulab import Failure
    from mmulab.workloads import cache, install

    source, target = tmp_path / "fetched", tmp_path / "kept"
    source.write_bytes(b"abc")
    with pytest.raises(Failure, match="not used"):
        install._keep(source, target, "0" * 64, "a file")
    assert not target.exists()
    # The digest of "abc" is the first example of FIPS 180-2.
    assert cache.sha256(source) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@needs_qemu
def test_a_program_that_fails_is_told_with_what_it_said(cli: Cli, place: Path) -> None:
    """Before the recording, and while it is recorded; no trace is left."""
    for recipe, said in [
        ({"setup": "echo bad weather; exit 3"}, ["ended with status 3", "| bad weather"]),
        ({"run": "echo bad luck; exit 4"}, ["mine ended with status 4", "| bad luck"]),
        ({"run": "kill -SEGV $$"}, ["mine ended with status 139"]),
    ]:
        mine(place, **recipe)
        ran = cli("workloads", "record", "mine")
        assert ran.code == 1, ran.err
        for words in said:
            assert words in ran.err
        assert not (place / "mine.mmt").exists()
    ran = cli("workloads", "record", "mine", "--skip", "4G")
    assert ran.code == 1
    nothing_left(place)


@needs_qemu
def test_a_generator_is_compared_with_its_twin(cli: Cli) -> None:
    """As data, with nothing of what the twin prints among it."""
    ran = cli("workloads", "check", "btree", "--json")
    assert ran.code == 0, ran.err
    assert ran.json()["ok"]
    assert ran.json()["twin"]["same_addresses"]


@needs_qemu
def test_check_says_what_is_outside(cli: Cli, place: Path) -> None:
    """And is quiet where all is within."""
    mine(place)
    ran = cli("workloads", "check", "mine", "--json")
    assert ran.code == 0, ran.err
    assert ran.json()["ok"]
    file = place / "workloads" / "mine.toml"
    file.write_text(file.read_text().replace("code_pages = [1, 500]", "code_pages = [1, 2]"))
    ran = cli("workloads", "check", "mine")
    assert ran.code == 1
    assert "not what its recipe expects: code_pages" in ran.err
    nothing_left(place)


@needs_qemu
def test_a_full_disk_is_told(cli: Cli, place: Path) -> None:
    """On a file system of its own, which only root can make."""
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32M", "none", os.environ["TMPDIR"]], capture_output=True
    ).returncode:
        pytest.skip("needs to mount a small file system")
    try:
        mine(place, run="dd if=/dev/zero of=fill bs=1M; seq 100000")
        ran = cli("workloads", "record", "mine", "--max-instructions", "1G")
        assert ran.code == 1
        assert "full" in ran.err or "No space left" in ran.err
        mine(place, setup="dd if=/dev/zero of=fill bs=1M; true")
        ran = cli("workloads", "record", "mine")
        assert ran.code == 1
        assert "No space left" in ran.err
        nothing_left(place)
    finally:
        subprocess.run(["umount", os.environ["TMPDIR"]], check=True)


@needs_qemu
def test_a_server_is_driven_and_ended(cli: Cli, place: Path) -> None:
    """The recording is of the server; when its clients are done it is asked to end."""
    ran = cli("workloads", "record", "served", "--json")
    assert ran.code == 0, ran.err
    assert ran.json()["ended"] in ("signal", "exited")
    assert ran.json()["instructions"] > 1_000_000
    assert "the program ended before" in ran.err
    info = cli("trace", "info", "served.mmt", "--json").json()
    assert info["args"][1] == ran.json()["parameters"].get("port", info["args"][1])
    nothing_left(place)


@needs_qemu
@pytest.mark.parametrize(
    ("sets", "said"),
    [
        ("how=broken", ["the server ended before it served", "| no licence found"]),
        ("client=fails", ["ended with status 1", "| answer was wrong"]),
        ("how=deaf", ["the server did not serve within 2 s"]),
    ],
)
def test_a_server_that_does_not_serve_is_told(cli: Cli, place: Path, sets: str, said: list[str]) -> None:
    """With what it or its client said last."""
    if sets == "how=deaf":
        file = place / "workloads" / "served.toml"
        file.write_text(file.read_text().replace("ready_seconds = 60", "ready_seconds = 2"))
    ran = cli("workloads", "record", "served", "--set", sets)
    assert ran.code == 1, ran.err
    for words in said:
        assert words in ran.err
    assert not (place / "served.mmt").exists()
    nothing_left(place)


@needs_qemu
def test_an_occupied_port_is_told(cli: Cli, place: Path) -> None:
    """Before anything is begun."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ran = cli("workloads", "record", "served", "--port", str(port))
    assert ran.code == 2
    assert f"port {port} of 127.0.0.1: Address already in use" in ran.err
    nothing_left(place)


@needs_qemu
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_recording_leaves_nothing(place: Path, number: signal.Signals) -> None:
    """Neither the server nor its client, nor files; the exit code says so."""
    command = [sys.executable, "-m", "mmulab", "workloads", "record", "served", "--set", "asks=1000000000"]
    with subprocess.Popen(command, cwd=place, stderr=subprocess.PIPE, text=True) as running:
        pid = place / "server.pid"
        deadline = time.monotonic() + 300
        while not (pid.exists() and pid.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1)
        running.send_signal(number)
        _, err = running.communicate(timeout=300)
    assert running.returncode == 130, err
    assert "interrupted" in err
    assert not Path(f"/proc/{pid.read_text()}").exists()
    assert not (place / "served.mmt").exists()
    nothing_left(place)


@needs_qemu
def test_a_compiler_is_what_its_recipe_expects(cli: Cli, place: Path) -> None:
    """All of it, for it is over in a moment."""
    ran = cli("workloads", "check", "gcc-small")
    assert ran.code == 0, ran.out + ran.err
    nothing_left(place)


@needs_qemu
@pytest.mark.parametrize(
    ("name", "skip", "processes", "threads"),
    [
        ("clang-dhrystone", "5M", 1, 1),
        ("python", "20M", 1, 1),
        ("redis", "30M", 1, 1),
        ("memcached", "20M", 1, 4),
        ("postgres-pgbench", "60M", 4, 4),
        ("node-react-ssr", "100M", 1, 1),
        ("qemu-aarch64", "1M", 1, 1),
    ],
)
def test_one_of_each_family_is_recorded(
    cli: Cli, place: Path, lacking: dict[str, list[str]], name: str, skip: str, processes: int, threads: int
) -> None:
    """Compilers, interpreters, servers by processes and threads, code that is made at run time, emulators.

    A short interval from before what the recipe records; `mmulab workloads check` takes the whole. What
    scripts/bootstrap.sh installs is recorded everywhere, the others where they are there.
    """
    if missing := lacking[name]:
        pytest.skip(f"needs {', '.join(missing)}")
    if name == "node-react-ssr" and shutil.which("npm") is None:
        pytest.skip("needs npm")
    # What it emulates takes a while to compile.
    less = ["--set", "functions=few"] if name == "qemu-aarch64" else []
    ran = cli("workloads", "record", name, "--skip", skip, "--max-instructions", "3M", "--json", *less)
    assert ran.code == 0, ran.err
    assert ran.json()["ended"] == "limit"
    assert ran.json()["processes"] >= processes
    assert ran.json()["threads"] >= threads
    # Every reference finds its mapping: the address spaces are whole.
    ran = cli("run", "skylake-e3-1240v5", "--trace", f"{name}.mmt", "--unmapped", "stop", "--json")
    assert ran.code == 0, ran.err
    nothing_left(place)


def test_servers_are_not_recorded_as_root() -> None:
    """CHANGELOG number 20: a server that listens on this machine needs no rights of root's."""
    recipes = {file.stem: file.read_text(encoding="utf-8") for file in (CHECKOUT / "workloads").glob("*.toml")}
    servers = {n: text for n, text in recipes.items() if "\n[server]" in text and "\n[record.system" not in text}
    assert {"redis", "memcached", "postgres-pgbench"} <= set(servers)
    assert [name for name, text in servers.items() if "\nunprivileged = true\n" not in text] == []
