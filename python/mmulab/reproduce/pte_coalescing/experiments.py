"""The experiments of paper 1, as commands."""

from mmulab.reproduce.pte_coalescing import group_size, render, render_sizes, table
from mmulab.reproduce.shared.experiment import Experiment, Findings, Session
from mmulab.result import json_text


def _table(plan: table.Plan, session: Session) -> Findings:
    made = table.run(plan, session.on_progress)
    files = {f"results/{key.replace(':', '-')}.json": json_text(result.data) for key, result in made.results.items()}
    files |= {"table.csv": render.as_csv(made, plan.beside), "table.html": render.as_html(made, plan.beside)}
    return Findings(
        made.data(plan.beside),
        "table.json",
        files,
        show=lambda out: render.show(out, made, plan.beside),
        shown_in="table.txt",
        warnings=made.warnings,
        results=list(made.results.values()),
    )


TABLE = Experiment(
    "pte-coalescing-table",
    "23 counters under 13 combinations of processor, operating system and page policy",
    "paper 1, Tables 2 and 4 to 11",
    table.Plan,
    _table,
    "running 13 columns",
    json="Write JSON in place of the table.",
)


def _group_size(plan: group_size.Plan, session: Session) -> Findings:
    outcome = group_size.run(plan, session.on_progress)
    return Findings(
        outcome.data(),
        "sizes.json",
        show=lambda out: render_sizes.show(out, outcome),
        shown_in="sizes.txt",
        results=outcome.results,
    )


GROUP_SIZE = Experiment(
    "pte-coalescing-group-size",
    "groups of 16 KB against groups of 32 KB, all else equal: sparse code, dense data, and a sweep",
    "paper 1, section 5.4",
    group_size.Plan,
    _group_size,
    "running group sizes",
    json="Write JSON in place of the table.",
)
