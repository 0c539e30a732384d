"""Workers as jobs of a batch queue: what is submitted and refused, and a sweep through dask-jobqueue without a queue.

No Slurm, PBS or LSF is here. The scripts are those that dask-jobqueue would submit. The sweep runs by its own class for
tests, which starts the command of the workers on this computer.
"""

import os
import signal
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli
from sweeps import LONG, LONG_JOBS, SMALL, SMALL_JOBS, children, kept, written

from mmulab import Failure, UserError, sweep
from mmulab.sweep import awaited, queued
from mmulab.sweep.queue import Queue, parse_queue

AXES: dict[str, Any] = {"axes": {"trace": "gen:gups", "machine": "zen3-5900x"}}
GIVEN = {
    "jobs": 3,
    "workers": 2,
    "memory": "8G",
    "walltime": "2:30:30",
    "queue": "short",
    "account": "mine",
    "interface": "lo",
    "directives": ["--exclusive"],
    "prologue": ["module load python"],
}


@pytest.fixture
def jobqueue() -> Any:
    """dask-jobqueue, which has TLS with cryptography only."""
    pytest.importorskip("cryptography")
    return pytest.importorskip("dask_jobqueue")


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("slurm", ["-J mmulab-sweep", "-p short", "-A mine", "--cpus-per-task=2", "--mem=8G", "-t 02:30:30"]),
        ("pbs", ["-N mmulab-sweep", "-q short", "-A mine", "-l select=1:ncpus=2:mem=8192MB", "-l walltime=02:30:30"]),
        ("lsf", ["-J mmulab-sweep", "-q short", '-P "mine"', "-n 2", "-M 8589935", "-W 02:31"]),
    ],
)
def test_a_job_has_what_the_sweep_file_says(jobqueue: Any, tmp_path: Path, kind: str, lines: list[str]) -> None:
    queue = parse_queue({"kind": kind, **GIVEN}, "sweep: cluster")
    assert queue.total == 6
    cluster = getattr(jobqueue, queued.CLASSES[kind][0])(**queued.described(queue, str(tmp_path)))
    try:
        script = cluster.job_script()
        word = {"slurm": "#SBATCH", "pbs": "#PBS", "lsf": "#BSUB"}[kind]
        for line in [*lines, "--exclusive"]:
            assert f"{word} {line}\n" in script, script
        *_, prologue, worker = script.strip().splitlines()
        assert prologue == "module load python"
        # Two workers of one thread each, without a web server, reach the command by TLS.
        assert " -m distributed.cli.dask_worker tls://127.0.0.1:" in worker
        for option in ("--nworkers 2", "--nthreads 1", "--no-dashboard", "--interface lo", "--protocol tls://"):
            assert f" {option} " in f"{worker} ", worker
        assert worker.startswith("env DASK_DISTRIBUTED__WORKER__HTTP__ROUTES=[] ")
        assert worker.split("--memory-limit ")[-1].startswith("0 ")
        # The script names files: no secret stands in it.
        for option in ("--tls-ca-file", "--tls-cert", "--tls-key"):
            file = Path(worker.split(f"{option} ")[1].split()[0])
            assert file.parent == tmp_path
            assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
        assert "PRIVATE" not in script
    finally:
        cluster.close(timeout=2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "sge"}, "cluster.kind: 'sge': give slurm, pbs, lsf or kubernetes"),
        ({"kind": None}, "cluster.kind: None: give slurm, pbs, lsf or kubernetes"),
        ({"memory": 8}, "cluster.memory: 8: give the memory of each job"),
        ({"memory": "much"}, "cluster.memory: 'much': give the memory of each job"),
        ({"jobs": 0}, "cluster.jobs: 0: give 1 to 10000"),
        ({"workers": True}, "cluster.workers: True: give 1 to 1024"),
        ({"walltime": "90"}, "cluster.walltime: '90': give hours, minutes and seconds"),
        ({"walltime": "0:00"}, "cluster.walltime: '0:00': give hours, minutes and seconds"),
        ({"queue": "a\n#SBATCH -x"}, "cluster.queue: 'a\\n#SBATCH -x': give a name without spaces"),
        ({"directives": "--x"}, "cluster.directives: '--x': give a list of lines"),
        ({"prologue": ["a\nb"]}, "cluster.prologue: ['a\\nb']: give a list of lines"),
        ({"wall": "1:00"}, "cluster: wall: a cluster has no such key"),
    ],
)
def test_a_mistake_is_refused_with_its_place(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as refused:
        sweep.parse({**AXES, "cluster": {"kind": "slurm", **GIVEN, **change}})
    assert said in str(refused.value)


def test_the_queue_changes_no_result() -> None:
    with_queue = sweep.plan(sweep.parse({**AXES, "cluster": {"kind": "slurm", "memory": "1G"}}))
    assert [job.key for job in with_queue.jobs] == [job.key for job in sweep.plan(sweep.parse(AXES)).jobs]
    assert with_queue.sweep.cluster == Queue("slurm", 1 << 30)


def test_without_its_package_or_its_command_the_queue_is_refused(
    jobqueue: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By name; and on this computer the sweep runs with --workers all the same."""
    import sys

    written(tmp_path, f'{SMALL}\n[cluster]\nkind = "slurm"\nmemory = "1G"\n')
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    ran = Cli(tmp_path)("sweep", "sweep.toml")
    assert ran.code == 2
    assert "slurm: the command sbatch is not here" in ran.err
    assert not list((tmp_path / "sweep-small").glob(".tls-*"))
    assert Cli(tmp_path)("sweep", "sweep.toml", "--workers", "1").code == 0
    plan = sweep.plan(sweep.read(tmp_path / "sweep.toml"))
    for module, package in (("dask_jobqueue", "dask-jobqueue"), ("cryptography", "cryptography")):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            with pytest.raises(UserError, match=rf"needs {package}, .*\nhint: make extras"):
                sweep.run(plan, tmp_path / "new")


def _here(monkeypatch: pytest.MonkeyPatch, jobqueue: Any) -> None:
    """Has jobs run their command on this computer, by dask-jobqueue's own class for that."""
    monkeypatch.setitem(queued.CLASSES, "slurm", ("LocalCluster", "account"))
    from dask_jobqueue.local import LocalCluster

    monkeypatch.setattr(jobqueue, "LocalCluster", LocalCluster, raising=False)
    monkeypatch.setattr(LocalCluster.job_cls, "submit_command", "env")


def test_a_sweep_by_jobs_gives_what_one_worker_gives(
    jobqueue: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _here(monkeypatch, jobqueue)
    monkeypatch.chdir(tmp_path)
    plan = sweep.plan(sweep.read(written(tmp_path, SMALL + '[cluster]\nkind = "slurm"\nmemory = "2G"\njobs = 2\n')))
    seen: list[list[Path]] = []
    outcome = sweep.run(
        plan, "queued", batch=2, announce=lambda *_: seen.append(list(Path("queued").glob(".tls-*/.*")))
    )
    assert (outcome.ran, outcome.failed) == (SMALL_JOBS, [])
    # While it runs, the certificates are in the directory; afterwards they are not.
    assert all(len(files) == 3 for files in seen)
    assert not list(Path("queued").glob(".tls-*"))
    sweep.run(plan, "here", workers=1)
    for name in ("results.parquet", "regions.parquet"):
        assert (Path("queued") / name).read_bytes() == (Path("here") / name).read_bytes()


def test_a_sweep_whose_jobs_have_all_ended_is_given_up(
    jobqueue: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at the end of their walltime. What is done is kept."""
    _here(monkeypatch, jobqueue)
    monkeypatch.setattr(awaited, "LONELY", 1)
    monkeypatch.setattr(awaited, "LOOK", 0.5)
    monkeypatch.chdir(tmp_path)
    plan = sweep.plan(sweep.read(written(tmp_path, LONG + '[cluster]\nkind = "slurm"\nmemory = "2G"\n')))
    made: list[Any] = []
    submitted = queued.submitted

    def noted(*args: Any) -> Any:
        made.append(submitted(*args))
        return made[0]

    monkeypatch.setattr(queued, "submitted", noted)
    stopped = threading.Event()

    def stop(*_: Any) -> None:
        if not stopped.is_set():
            stopped.set()
            (job,) = made[0]._cluster.workers.values()
            for process in (int(job.job_id), *children(int(job.job_id))):
                os.kill(process, signal.SIGKILL)

    with pytest.raises(Failure, match="no job of the queue has been running"):
        sweep.run(plan, "out", batch=1, announce=stop)
    assert 1 <= len(kept(Path("out"))) < LONG_JOBS
    assert not list(Path("out").glob(".tls-*"))
