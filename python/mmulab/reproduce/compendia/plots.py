"""Plots of these experiments as SVG."""

from mmulab.reproduce.compendia import figure_15, speedup, thresholds
from mmulab.svg import COLOURS, finish, start


def of_figure_15(outcome: figure_15.Outcome) -> str:
    """Entries a walk over the footprint: dots are measured, lines the closed form."""
    figure, ((native, nested),) = start(2, 9.6, 3.8)
    for axes, title, tables in ((native, "on the machine", "native"), (nested, "in a virtual machine", "nested")):
        ways = [w for w in outcome.plan.ways if w.table.startswith(tables) and w.key not in _LIKE_OTHERS]
        for way, colour in zip(ways, COLOURS, strict=False):
            sizes = [size for size in outcome.plan.footprints if outcome.at(way, size)]
            values = [figures.per_walk for size in sizes if (figures := outcome.at(way, size))]
            title_of = way.title if way.huge or not way.nested else f"4 KiB, {way.title} merged"
            label = f"THP, {way.title} merged" if way.nested and way.huge else title_of
            axes.plot(sizes, values, "o", color=colour, markersize=4, label=label.replace("told merged", "told"))
            axes.plot(sizes, [way.expected(size) for size in sizes], color=colour, linewidth=0.8)
        axes.set_xscale("log", base=2)
        axes.set_xticks(outcome.plan.footprints, [figure_15.label(s) for s in outcome.plan.footprints], rotation=60)
        axes.set_title(title)
        axes.set_xlabel("table of random updates")
        axes.set_ylim(bottom=0.9)
    native.set_ylabel("page-table entries read a TLB miss")
    return finish(figure, (native, nested))


# Their dots would hide under those of others.
_LIKE_OTHERS = ("nested-thp-guest", "nested-thp-host", "nested-thp", "nested-4k-guest")


def of_thresholds(outcome: thresholds.Outcome) -> str:
    """What tables take, beside the tree without merging, and entries a walk."""
    figure, ((reads, sizes),) = start(2, 9.6, 3.6)
    names = list(thresholds.THRESHOLDS)
    for workload, colour in zip(outcome.plan.programs, COLOURS * 3, strict=False):
        at = [outcome.found.get((workload.name, name, "64")) for name in names]
        if all(at):
            first = at[0]
            assert first is not None
            reads.plot(names, [f.per_walk for f in at if f], "o-", color=colour, markersize=3, linewidth=0.8)
            grown = [f.tables["bytes"] / first.tables["bytes"] for f in at if f]
            sizes.plot(names, grown, "o-", color=colour, markersize=3, linewidth=0.8, label=workload.name)
    reads.set_ylabel("page-table entries read a TLB miss")
    sizes.set_ylabel("tables, beside those never merged")
    sizes.set_yscale("log", base=2)
    for axes in (reads, sizes):
        axes.set_xlabel("merged from")
    reads.plot([], [], label=" ")
    return finish(figure, (reads, sizes))


def of_speedup(outcome: speedup.Outcome) -> str:
    """Entries a walk before and after, native and nested."""
    figure, ((native, nested),) = start(2, 9.6, 3.8)
    names = [row.workload.name for row in outcome.rows]
    places = list(range(len(names)))
    shown = {"native": ("native", "native merged"), "nested": ("nested", "nested merged", "nested told")}
    for axes, (title, keys) in zip((native, nested), shown.items(), strict=True):
        width = 0.8 / len(keys)
        for n, (key, colour) in enumerate(zip(keys, COLOURS, strict=False)):
            values = [row.of[key].per_walk for row in outcome.rows]
            label = key.removeprefix(title).strip().replace("told", "merged, nodes told") or "not merged"
            axes.bar([p + n * width for p in places], values, width, color=colour, label=label)
        axes.set_xticks([p + 0.4 - width / 2 for p in places], names, rotation=60, ha="right")
        axes.set_title(title)
    native.set_ylabel("page-table entries read a TLB miss")
    return finish(figure, (native, nested))
