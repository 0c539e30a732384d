"""`mmulab sweep`: many machines, policies and traces from one file."""

from pathlib import Path

import rich_click as click

from mmulab import UserError, sweep
from mmulab.cli import console
from mmulab.cli.common import CONTEXT, Partial, print_json
from mmulab.sweep.batches import Batch, batches
from mmulab.sweep.cluster import Tls
from mmulab.sweep.pools import processors
from mmulab.sweep.queue import Queue
from mmulab.sweep.store import Store
from mmulab.tables import plain
from mmulab.units import show_bytes, show_seconds

# Processes on one computer, at most.
WORKERS_MAX = 1024
BATCH_MAX = 1024
# Jobs that a message names.
NAMED = 5


@click.command("sweep", context_settings=CONTEXT)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
@click.option(
    "--dry-run", is_flag=True, help="Print how many jobs there are, and the time and memory foreseen. Run none."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where results are kept. Default: sweep-NAME. What is there already is not run again.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, WORKERS_MAX),
    help="Processes on this computer. With 1, the command itself runs all jobs, on all processors. Default: one for "
    "each processor, or those of [cluster] in FILE.",
)
@click.option(
    "--batch",
    type=click.IntRange(1, BATCH_MAX),
    help="Jobs that share one decoding of their trace, at most. Default: 16.",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Use the workers of this Dask scheduler: tcp://127.0.0.1:PORT, or tls://HOST:PORT.",
)
@click.option("--tls-ca", metavar="FILE", help="With tls://: the certificate of the authority.")
@click.option("--tls-cert", metavar="FILE", help="With tls://: the certificate of this computer.")
@click.option("--tls-key", metavar="FILE", help="With tls://: the key of that certificate.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def command(
    file: Path,
    dry_run: bool,
    out: Path | None,
    workers: int | None,
    batch: int | None,
    scheduler: str | None,
    tls_ca: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    as_json: bool,
) -> None:
    """Run every job that FILE describes, and write results.parquet.

    FILE is TOML: traces, machines, policies and keys with their values, samples and constraints. A sweep that was
    stopped goes on where it was.

    Example: mmulab sweep stlb.toml --dry-run
    """
    tls = _tls(scheduler, tls_ca, tls_cert, tls_key)
    if scheduler is not None and workers is not None:
        raise UserError("--workers starts processes here, and --scheduler has its own\nhint: give one of them")
    plan = sweep.plan(sweep.read(file))
    directory = out or Path(f"sweep-{plan.sweep.name}")
    if dry_run:
        if scheduler is not None:
            raise UserError("--dry-run foresees the time on this computer\nhint: leave out --scheduler")
        _foresee(plan, directory, workers, batch, as_json)
        return
    cluster = plan.sweep.cluster
    if cluster is not None and scheduler is None and workers is None:
        console.say(f"asking {cluster.kind} for {cluster.asked}; the sweep begins with the first worker")
    try:
        outcome = sweep.run(
            plan, directory, workers=workers, scheduler=scheduler, tls=tls, batch=batch, announce=_announce
        )
    except sweep.Stopped as stopped:
        raise Partial(f"{stopped}; repeat the command to run the others", interrupted=True) from None
    _report(outcome, as_json)


def _tls(scheduler: str | None, ca: str | None, cert: str | None, key: str | None) -> Tls | None:
    if ca is None and cert is None and key is None:
        return None
    if scheduler is None or ca is None or cert is None or key is None:
        raise UserError("TLS needs --scheduler, --tls-ca, --tls-cert and --tls-key\nhint: give all four")
    for path in (ca, cert, key):
        if not Path(path).is_file():
            raise UserError(f"{path}: no such file\nhint: give the certificates that the scheduler was started with")
    return Tls(ca, cert, key)


def _announce(done: int, total: int, batch: Batch) -> None:
    jobs = f"{len(batch.jobs)} jobs" if len(batch.jobs) > 1 else "1 job"
    console.say(f"{done:,} of {total:,} jobs: {jobs} over {batch.jobs[0].trace}")


def _foresee(plan: sweep.Plan, directory: Path, workers: int | None, most: int | None, as_json: bool) -> None:
    store = Store(directory)
    missing = [job for job in plan.jobs if not store.has(job.key)]
    cluster = plan.sweep.cluster if workers is None else None
    count = min(cluster.total if cluster else workers or processors(), max(1, len(missing)))
    given = batches(missing, count, most)
    seen = sweep.foresee(store, given, count) if given else None
    rows = []
    for trace, jobs in plan.groups().items():
        keys = {job.key for job in jobs}
        # By batch over this trace: the first levels of its jobs.
        levels = [{job.first_level for job in batch.jobs if job.key in keys} for batch in given]
        rows.append(
            {
                "trace": trace,
                "jobs": len(jobs),
                "kept": sum(job not in missing for job in jobs),
                "decodings": sum(map(bool, levels)),
                "first_levels": sum(map(len, levels)),
            }
        )
    if as_json:
        print_json(
            {
                "combinations": plan.combinations,
                "jobs": len(plan.jobs),
                "kept": len(plan.jobs) - len(missing),
                "workers": count,
                "traces": rows,
                "seconds": seen.seconds if seen else 0.0,
                "peak_bytes": seen.peak_bytes if seen else 0.0,
                "sources": list(seen.sources) if seen else [],
            }
        )
        return
    shown = console.out()
    left_out = plan.combinations - len(plan.jobs)
    shown.print(
        f"{len(plan.jobs):,} jobs of {plan.combinations:,} combinations ({left_out:,} left out by constraints); "
        f"{len(plan.jobs) - len(missing):,} are done",
        soft_wrap=True,
    )
    table = plain()
    table.add_column("trace", no_wrap=True)
    for column in ("jobs", "done", "decodings to come", "first levels to come"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(str(row["trace"]), *(f"{row[key]:,}" for key in ("jobs", "kept", "decodings", "first_levels")))
    shown.print(table)
    if seen is None:
        shown.print("Nothing is left to run.")
        return
    shown.print(
        f"Foreseen: {show_seconds(seen.seconds)} of simulation and {show_bytes(seen.peak_bytes)} of memory with "
        f"{count} {'workers' if count > 1 else 'worker'}"
    )
    if cluster is not None:
        waits = "queue of" if isinstance(cluster, Queue) else "start of pods by"
        shown.print(f"With processors like those of this computer, and without the time in the {waits} {cluster.kind}")
    for source in seen.sources:
        shown.print(source, markup=False, soft_wrap=True)


def _report(outcome: sweep.Outcome, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "directory": str(outcome.directory),
                "jobs": outcome.total,
                "kept": outcome.kept,
                "ran": outcome.ran,
                "failed": [{"job": job, "error": error} for job, error in outcome.failed],
                "incomplete": [{"job": job, "reason": reason} for job, reason in outcome.short],
            }
        )
    else:
        console.echo(f"{outcome.directory / 'results.parquet'}")
    console.say(f"{outcome.ran:,} jobs were run, {outcome.kept:,} were done before")
    if outcome.failed:
        raise Partial(
            f"{len(outcome.failed):,} of {outcome.total:,} jobs have no result: {_some(outcome.failed)}", False
        )
    if outcome.short:
        raise Partial(f"{len(outcome.short):,} of {outcome.total:,} jobs ended early: {_some(outcome.short)}", False)


def _some(jobs: list[tuple[str, str]]) -> str:
    lines = [f"({label}): {reason}" for label, reason in jobs[:NAMED]]
    more = len(jobs) - NAMED
    return "; ".join([*lines, f"and {more:,} more"] if more > 0 else lines)
