"""Sweeps in several processes: equal to one process, resumed after any kill, and closed to the network."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import Cli
from sweeps import (
    LONG,
    LONG_JOBS,
    MACHINE,
    SMALL,
    SMALL_JOBS,
    children,
    kept,
    started,
    wait_until_kept,
    workers,
    written,
)

from mmulab import UserError, sweep
from mmulab.sweep import cluster, work
from mmulab.sweep.batches import Batch

TABLES = ("results.parquet", "regions.parquet")
TWO = ("sweep.toml", "--workers", "2", "--batch", "1")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the long sweep, run in one process without any disturbance."""
    directory = tmp_path_factory.mktemp("whole")
    plan = sweep.plan(sweep.read(written(directory, LONG)))
    assert sweep.run(plan, directory / "out", workers=1).ran == LONG_JOBS
    return directory / "out"


def same(one: Path, other: Path) -> bool:
    """Whether two sweeps have the same results and tables, byte for byte."""
    assert kept(one).keys() == kept(other).keys()
    files = [*TABLES, *(f"runs/{name}" for name in kept(one))]
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in files)


def gone(processes: list[int]) -> bool:
    """Whether all have ended, soon."""
    until = time.monotonic() + 20
    while any(Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes() for pid in processes):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def test_two_workers_give_what_one_process_gives(cli: Cli, tmp_path: Path) -> None:
    written(tmp_path, SMALL)
    for workers_, out in (("1", "one"), ("2", "two")):
        ran = cli("sweep", "sweep.toml", "--workers", workers_, "--out", out)
        assert ran.code == 0, ran.err
    assert same(tmp_path / "one", tmp_path / "two")


def test_a_sweep_goes_on_after_it_was_killed(tmp_path: Path, whole: Path) -> None:
    """With SIGKILL, three times. Nothing that was kept is run again, and no worker outlives the sweep."""
    written(tmp_path, LONG)
    directory = tmp_path / "sweep-long"
    before: dict[str, int] = {}
    for least in (1, 3, 6):
        with started(tmp_path, *TWO) as process:
            wait_until_kept(process, directory, least)
            left = children(process.pid)
            process.kill()
            process.wait()
        assert gone(left)
        (directory / "runs" / "half.json.part").write_text("{")
        now = kept(directory)
        assert len(now) < LONG_JOBS
        assert {name: now[name] for name in before} == before
        before = now
    last = Cli(tmp_path)("sweep", *TWO, "--json")
    assert last.code == 0, last.err
    assert (last.json()["kept"], last.json()["ran"]) == (len(before), LONG_JOBS - len(before))
    now = kept(directory)
    assert {name: now[name] for name in before} == before
    assert not list(directory.glob("**/*.part"))
    assert same(directory, whole)


def test_a_worker_that_dies_costs_its_batch_only(tmp_path: Path, whole: Path) -> None:
    written(tmp_path, LONG)
    directory = tmp_path / "sweep-long"
    with started(tmp_path, *TWO) as process:
        for least in (1, 4):
            wait_until_kept(process, directory, least)
            before = kept(directory)
            os.kill(workers(process.pid)[0], signal.SIGKILL)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
    now = kept(directory)
    assert {name: now[name] for name in before} == before
    assert same(directory, whole)


def test_a_batch_that_ends_each_of_its_workers_is_given_up(tmp_path: Path) -> None:
    """As one whose machines need more memory than there is: the sweep must not start workers for ever."""
    axes = {"trace": "gen:gups?footprint=64M&updates=100000000", "machine": MACHINE}
    batch = Batch(sweep.plan(sweep.parse({"axes": axes})).jobs)
    answers: list[tuple[Batch, dict[str, object]]] = []
    pool = cluster.local(1)
    running = threading.Thread(target=lambda: answers.extend(pool.run([batch])))
    running.start()
    killed: set[int] = set()
    until = time.monotonic() + 240
    pause = 1.5
    while running.is_alive() and time.monotonic() < until:
        # Time for the worker to start, and to be given the batch: more from one to the next, for a slow computer.
        time.sleep(pause)
        pause *= 1.3
        for pid in set(workers(os.getpid())) - killed:
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
    running.join(timeout=1)
    pool.close()
    ((failed, answer),) = answers
    assert failed == batch
    assert answer["results"] == []
    assert answer["error"] == "each worker that ran it died"
    assert len(killed) > cluster.DEATHS


@pytest.mark.parametrize("number", ["1", "2"])
def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(tmp_path: Path, whole: Path, number: str) -> None:
    """Sent to the whole group, as a terminal does."""
    written(tmp_path, LONG)
    directory = tmp_path / "sweep-long"
    with started(tmp_path, "sweep.toml", "--workers", number, "--batch", "1") as process:
        wait_until_kept(process, directory, 2)
        left = children(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130, said
    done = len(kept(directory))
    assert 2 <= done < LONG_JOBS
    assert f"{done} of {LONG_JOBS} jobs are done and kept; repeat the command to run the others" in said
    assert "Traceback" not in said
    assert gone(left)
    assert not list(directory.glob("**/*.part"))
    again = Cli(tmp_path)("sweep", "sweep.toml", "--workers", "1", "--json")
    assert (again.json()["kept"], again.json()["ran"]) == (done, LONG_JOBS - done)
    assert same(directory, whole)


def test_two_sweeps_do_not_write_to_one_directory(tmp_path: Path, whole: Path) -> None:
    """The second is refused and names the first, which goes on; a sweep that was killed locks no directory."""
    written(tmp_path, LONG)
    directory = tmp_path / "sweep-long"
    with started(tmp_path, *TWO) as process:
        wait_until_kept(process, directory, 1)
        # It is stopped meanwhile, for on a busy computer it could end before the second one looks.
        process.send_signal(signal.SIGSTOP)
        assert process.poll() is None
        refused = Cli(tmp_path)("sweep", "sweep.toml", "--workers", "1")
        process.send_signal(signal.SIGCONT)
        assert refused.code == 2
        assert f"another sweep writes to it (process {process.pid} on " in " ".join(refused.err.split())
        # A dry run reads only.
        assert Cli(tmp_path)("sweep", "sweep.toml", "--dry-run").code == 0
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
    assert same(directory, whole)


def test_workers_listen_on_loopback_only(tmp_path: Path) -> None:
    written(tmp_path, LONG)
    with started(tmp_path, *TWO) as process:
        wait_until_kept(process, tmp_path / "sweep-long", 1)
        inodes = {
            os.readlink(link)
            for pid in (process.pid, *children(process.pid))
            for link in Path(f"/proc/{pid}/fd").glob("*")
            if link.is_symlink()
        }
        listening = []
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                # State 0A is LISTEN.
                if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                    listening.append(fields[1].partition(":")[0])
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=60)
    assert listening
    # 127.0.0.1 in the byte order of /proc/net/tcp.
    assert set(listening) == {"0100007F"}


CLUSTER = """
import distributed, sys
if __name__ == "__main__":
    made = distributed.LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1",
        dashboard_address="127.0.0.1:0", scheduler_kwargs={"dashboard": False}, silence_logs=50)
    print(made.scheduler_address, flush=True)
    sys.stdin.read()
"""


@contextmanager
def cluster_of(directory: Path, code: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of a scheduler with workers, in processes that a user started, and the scheduler's process."""
    (directory / "cluster.py").write_text(code)
    command = [sys.executable, "cluster.py"]
    with subprocess.Popen(command, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process
        process.communicate(timeout=60)


@pytest.fixture
def dask_cluster(tmp_path: Path) -> Iterator[str]:
    """One without TLS, on loopback."""
    with cluster_of(tmp_path, CLUSTER) as (address, _):
        yield address


def test_a_cluster_that_exists_gives_the_same(cli: Cli, tmp_path: Path, dask_cluster: str) -> None:
    written(tmp_path, SMALL)
    ran = cli("sweep", "sweep.toml", "--scheduler", dask_cluster, "--out", "there")
    assert ran.code == 0, ran.err
    assert cli("sweep", "sweep.toml", "--workers", "1", "--out", "here").code == 0
    assert same(tmp_path / "there", tmp_path / "here")
    # It is not ended with the sweep.
    assert cli("sweep", "sweep.toml", "--scheduler", dask_cluster, "--out", "again").code == 0


def test_a_scheduler_that_dies_costs_what_was_in_flight(tmp_path: Path, whole: Path) -> None:
    """The sweep says so at once, and goes on elsewhere."""
    written(tmp_path, LONG)
    directory = tmp_path / "sweep-long"
    with cluster_of(tmp_path, CLUSTER) as (address, scheduler):
        with started(tmp_path, "sweep.toml", "--scheduler", address, "--batch", "1") as process:
            wait_until_kept(process, directory, 2)
            scheduler.kill()
            _, said = process.communicate(timeout=60)
        assert process.returncode == 1, said
    assert "the scheduler or the connection to it was lost" in said
    assert "Traceback" not in said
    before = kept(directory)
    assert 2 <= len(before) < LONG_JOBS
    again = Cli(tmp_path)("sweep", "sweep.toml", "--workers", "1", "--json")
    assert (again.json()["kept"], again.json()["ran"]) == (len(before), LONG_JOBS - len(before))
    assert same(directory, whole)


def test_a_worker_without_the_trace_is_named_before_anything_runs(
    tmp_path: Path, dask_cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers run in another directory than the sweep."""
    (tmp_path / "own").mkdir()
    monkeypatch.chdir(tmp_path / "own")
    Path("a.mmtx").write_text("mmap 0x400000 64K rx file:/bin/p+0\nf 0x400000 x100\n")
    plan = sweep.plan(sweep.parse({"axes": {"trace": "a.mmtx", "machine": "skylake-e3-1240v5"}}))
    with pytest.raises(UserError, match=r"worker tcp://127\.0\.0\.1:\d+: the worker cannot read the trace: a\.mmtx"):
        sweep.run(plan, "out", scheduler=dask_cluster)
    assert kept(Path("out")) == {}


def test_a_worker_without_mmulab_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or with one of before there were sweeps."""
    old = tmp_path / "old" / "mmulab"
    old.mkdir(parents=True)
    (old / "__init__.py").write_text("")
    before = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(tmp_path / "old"), before])))
    plan = sweep.plan(sweep.read(written(tmp_path, SMALL)))
    with (
        cluster_of(tmp_path, CLUSTER) as (address, _),
        pytest.raises(
            UserError,
            match=r"worker tcp://127\.0\.0\.1:\d+ cannot import mmulab\.sweep: .*mmulab.*\n.*install the same mmulab",
        ),
    ):
        sweep.run(plan, tmp_path / "out", scheduler=address)
    assert kept(tmp_path / "out") == {}


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 1)
    with pytest.raises(UserError, match=r"--scheduler tcp://127\.0\.0\.1:9: no scheduler with a worker answers"):
        cluster.existing("tcp://127.0.0.1:9", None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mmulab": {"version": "0.0.9", "engine": "0" * 16}}, "the sweep mmulab 0.0.9 (engine 0000000000000000)"),
        ({"identity": "gen:gups"}, "has other contents"),
        ({"trace": "no.mmt"}, "the worker cannot read the trace: no.mmt: no such trace"),
        ({"jobs": "described"}, "the worker has other descriptions of skylake-e3-1240v5 or linux-4k"),
    ],
)
def test_a_worker_that_differs_refuses_its_batch(tmp_path: Path, change: dict[str, object], said: str) -> None:
    """Another mmulab, trace or machine file: its results would be kept under a hash that is not theirs."""
    plan = sweep.plan(sweep.read(written(tmp_path, SMALL)))
    spec = Batch(plan.jobs[:1]).spec(1)
    assert json.loads(work.run_batch(json.dumps(spec)))["error"] == ""
    if change == {"jobs": "described"}:
        spec["jobs"][0]["described"] = "0" * 64
    else:
        spec |= change
    answer = json.loads(work.run_batch(json.dumps(spec)))
    assert answer["results"] == []
    assert said in answer["error"]


TLS_CLUSTER = """
import distributed, sys
if __name__ == "__main__":
    secured = distributed.Security(tls_ca_file="cert.pem", tls_client_cert="cert.pem", tls_client_key="key.pem",
        tls_scheduler_cert="cert.pem", tls_scheduler_key="key.pem", tls_worker_cert="cert.pem",
        tls_worker_key="key.pem", require_encryption=True)
    made = distributed.LocalCluster(n_workers=1, threads_per_worker=1, host="127.0.0.1", protocol="tls",
        security=secured, dashboard_address="127.0.0.1:0", scheduler_kwargs={"dashboard": False}, silence_logs=50)
    print(made.scheduler_address, flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_a_cluster_with_tls_takes_only_those_with_a_certificate(cli: Cli, tmp_path: Path) -> None:
    """One certificate is authority, scheduler, worker and client here; a second one is a stranger's."""
    for name in ("", "stranger-"):
        made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
        made += ["-keyout", f"{name}key.pem", "-out", f"{name}cert.pem"]
        subprocess.run(made, cwd=tmp_path, check=True, capture_output=True)
    written(tmp_path, SMALL)
    with cluster_of(tmp_path, TLS_CLUSTER) as (address, _):
        assert address.startswith("tls://127.0.0.1:")
        own, stranger = (
            ("--tls-ca", "cert.pem", "--tls-cert", f"{name}cert.pem", "--tls-key", f"{name}key.pem")
            for name in ("", "stranger-")
        )
        refused = cli("sweep", "sweep.toml", "--scheduler", address, *stranger)
        assert refused.code == 2, refused.err
        assert "no scheduler with a worker answers" in refused.err
        assert cli("sweep", "sweep.toml", "--scheduler", address.replace("tls:", "tcp:")).code == 2
        ran = cli("sweep", "sweep.toml", "--scheduler", address, *own)
        assert ran.code == 0, ran.err
    assert len(kept(tmp_path / "sweep-small")) == SMALL_JOBS


def test_workers_that_take_long_to_end_do_not_fail_a_sweep() -> None:
    """A busy computer does not end them in time, and they end with the process."""
    closed: list[str] = []

    class Slow:
        def __init__(self, name: str) -> None:
            self.name = name

        def nthreads(self) -> dict[str, int]:
            """One worker."""
            return {"worker": 1}

        def close(self, timeout: float) -> None:
            """Takes longer than that."""
            closed.append(f"{self.name} {timeout:g}")
            raise TimeoutError

    cluster.Cluster(Slow("client"), Slow("cluster")).close()
    assert closed == ["client 2", "cluster 2"]
