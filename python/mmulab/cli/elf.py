"""`mmulab elf`: whether the pages of a program's file can be coalesced where they are mapped; padding of code; names of
moved code for profilers."""

import re
from pathlib import Path
from typing import Any

import rich_click as click
from rich.table import Table

from mmulab import UserError, engine, perf_map
from mmulab.cli import console
from mmulab.cli.common import CONTEXT, print_json
from mmulab.units import parse_bytes, show_bytes

Json = dict[str, Any]
_JSON = click.option("--json", "as_json", is_flag=True, help="Write JSON.")
_SIZES = ("16K", "32K", "64K", "2M")
# Small enough to be drawn page by page.
_DRAWN = 64
_FLAGS = {"r": 4, "w": 2, "x": 1, "-": 0}


@click.group(context_settings=CONTEXT)
def elf() -> None:
    """Say which pages of a program's file hardware can coalesce, where a linker would place them, pad its code, and
    name moved code for profilers.

    A segment that is misaligned with the file shares no aligned group of pages with it. Then neither PTE coalescing nor
    superpages can work for it, however contiguous the memory is.
    """


@elf.command(context_settings=CONTEXT)
@click.argument("files", metavar="FILE", nargs=-1, required=True)
@click.option("--libraries", is_flag=True, help="Look at the libraries they load, too.")
@_JSON
def check(files: tuple[str, ...], libraries: bool, as_json: bool) -> None:
    """Show each loadable segment of FILE: its shift, and the aligned groups of pages that could be one translation.

    Example: mmulab elf check --libraries /usr/bin/python3
    """
    answers = [engine.elf_check(file, libraries) for file in files]
    seen: dict[str, Json] = {}
    for answer in answers:
        for file in answer["files"]:
            seen.setdefault(file["path"], file)
    missing = sorted({name for answer in answers for name in answer["missing"]})
    if as_json:
        print_json({"files": list(seen.values()), "missing": missing})
    else:
        table = _table("file")
        for file in seen.values():
            for at, segment in enumerate(file["segments"]):
                table.add_row(file["path"] if at == 0 else "", *_row(segment))
        console.out().print(table)
        console.out().print(
            "Misaligned pages: modulo the group. Groups: aligned, whole, and aligned with the file.", style="dim"
        )
        for file in seen.values():
            console.out().print(_verdict(file), markup=False, soft_wrap=True)
            for segment in file["segments"]:
                if residual := segment.get("residual"):
                    console.out().print(f"  {_residual(segment, residual)}", markup=False, soft_wrap=True)
    for name in missing:
        console.warn(f"{name}: this library was not found")


def _table(first: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first, no_wrap=True)
    for name in ("rights", "address", "offset", "size", "pages", "max page"):
        table.add_column(name, justify="left" if name == "rights" else "right", no_wrap=True)
    for size in _SIZES:
        table.add_column(f"{size} shift", justify="right")
        table.add_column("groups", justify="right")
    return table


def _row(segment: Json) -> list[str]:
    phase = segment["phase"]
    row = [
        segment["rights"],
        f"{segment['address']:#x}",
        f"{segment['offset']:#x}",
        show_bytes(segment["bytes"]),
        f"{phase['pages']:,}",
        show_bytes(segment["align"]),
    ]
    for group in phase["groups"]:
        row += [str(group["shift"] or "-"), f"{group['coalescible']:,}" if group["coalescible"] else "-"]
    return row


def _verdict(file: Json) -> str:
    """One line: is the code aligned for hardware that coalesces 16 KB, and 32 KB?"""
    code = [s for s in file["segments"] if s["rights"] in ("r-x", "--x")]
    if not code:
        return f"{file['path']}: no code"
    aligned = [size for at, size in enumerate(_SIZES) if all(s["phase"]["groups"][at]["shift"] == 0 for s in code)]
    if not aligned:
        remedy = "no group can be coalesced (relink with -z max-page-size=0x200000)"
        return f"{file['path']}: its code is misaligned: {remedy}"
    return f"{file['path']}: its code is aligned for groups of {', '.join(aligned)}"


def _residual(segment: Json, residual: Json) -> str:
    """One line: the code that no whole superpage covers, and what it costs."""
    whole, last, first = residual["superpages"], residual["pages"], residual["head_pages"]
    words = f"code at {segment['address']:#x}: {_count(whole, 'superpage')} of 2 MB"
    if not first + last:
        return f"{words} and no residual pages"
    before, behind = f"{_count(first, 'page')} before", f"{_count(last, 'residual page')} behind"
    parts = [before if first else "", behind if last else ""]
    words += f", {' and '.join(part for part in parts if part)}: up to {_count(first + last, 'TLB entry')} of 4 KB"
    if last:
        gap = residual["gap"]
        free = "free" if gap is None or gap >= residual["short_pages"] << 12 else f"not free ({show_bytes(gap)} are)"
        words += f"; between them and the next superpage {_count(residual['short_pages'], 'page')}: {free}"
    return words


def _count(number: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


@elf.command(context_settings=CONTEXT)
@click.argument("file")
@click.option("--undo", is_flag=True, help="Take the padding back: the file is as it was, byte for byte.")
@click.option("--out", metavar="FILE", help="Write the result there, and leave the file as it is.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@_JSON
def pad(file: str, undo: bool, out: str | None, dry_run: bool, as_json: bool) -> None:
    """Pad the code of FILE to the next multiple of 2 MB, so that its residual pages can be a superpage.

    The fill is what the file has behind its code (its data, mapped twice then), and no-ops where the file ends. The
    new file is compared with the old one page by page before it takes its place. Processes that run it go on with
    the old one.

    Example: mmulab elf pad --out ./postgres-padded /usr/lib/postgresql/15/bin/postgres
    """
    if out is not None and dry_run:
        raise click.UsageError("--dry-run writes no file: leave out --out")
    spec: Json = {"file": file, "undo": undo, "dry_run": dry_run}
    if out is not None:
        spec["out"] = str(Path(out))
    done = engine.elf_pad(spec)
    if as_json:
        print_json(done)
    else:
        for line in _unpadded(done) if undo else _padded(done):
            console.out().print(line, markup=False, soft_wrap=True)
    if done["written"] == done["path"] and done["running"]:
        pids = ", ".join(map(str, done["running"]))
        console.warn(f"{done['path']}: processes {pids} run it as it was until they are started again")


def _padded(done: Json) -> list[str]:
    """What padding changed, line by line."""
    lines = []
    for code in done["plan"]["padded"]:
        end, residual = code["address"] + code["bytes"], code["residual"]
        lines.append(
            f"code {code['address']:#x}-{end:#x} -> {code['padded_end']:#x}: "
            f"{residual['pages']:,} residual pages become superpage {code['superpages']:,}; "
            f"filled with {_count(code['file_pages'], 'page')} of the file "
            f"and {_count(code['no_op_pages'], 'page')} of no-ops"
        )
    lines += [f"left: {why.splitlines()[0]}" for _, why in done["plan"]["left"]]
    verified = done["verified"]
    filled = verified["file_pages"] + verified["no_op_pages"]
    lines.append(f"verified: {_count(verified['same_pages'], 'page')} as before, {_count(filled, 'page')} of fill")
    lines.append(_sizes(done))
    return lines


def _unpadded(done: Json) -> list[str]:
    return [f"the padding is taken back: every byte is as it was before; {_sizes(done)}"]


def _sizes(done: Json) -> str:
    where = done["written"] or f"{done['path']} (nothing was written)"
    return f"{where}: {done['bytes_before']:,} bytes -> {done['bytes_after']:,} bytes"


@elf.command("perf-map", context_settings=CONTEXT)
@click.argument("pid", type=click.IntRange(1))
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Add the names to this file. Default: /tmp/perf-PID.map, where perf looks for them.",
)
@_JSON
def names_for_perf(pid: int, out: Path | None, as_json: bool) -> None:
    """Name the functions of process PID's code that was moved onto anonymous memory, for perf.

    Such code (mmulab try, hugify, iodlr) shows no file in /proc/PID/maps, so that perf has no names for it. The names
    are added to the process's perf map. What its run-time compiler wrote there stays.

    Example: mmulab elf perf-map $(pidof my-server)
    """
    done = perf_map.of_process(pid, out)
    if as_json:
        moved = [vars(one) for one in done.moved]
        print_json({"path": str(done.path), "functions": done.functions, "added": done.added, "moved": moved})
        return
    size = sum(one.end - one.start for one in done.moved)
    files = sorted({Path(one.file).name for one in done.moved})
    console.out().print(
        f"{done.path}: {_count(done.added, 'function')} added, of {show_bytes(size)} moved code of {', '.join(files)}",
        markup=False,
        soft_wrap=True,
    )
    if not done.functions:
        console.warn("nothing shows the functions of this code: neither symbols nor unwind tables (packed, perhaps)")


@elf.command(context_settings=CONTEXT)
@click.argument("file", required=False)
@click.option(
    "--part",
    "parts",
    multiple=True,
    metavar="RIGHTS:BYTES[+ZERO]",
    help="A segment to place, such as r--:26K or rw-:8K+64K (8 KB in the file, 64 KB of zeros after it). Repeatable.",
)
@click.option("--max-page-size", metavar="SIZE", help="Such as 4K, 16K or 2M. Default: the linker's.")
@click.option(
    "--linker",
    type=click.Choice(["lld", "old", "gnu-separate-code"]),
    default="lld",
    help="lld: LLD of today, 4 KB. old: LLD and GNU ld as they were, 2 MB. gnu-separate-code: GNU ld since 2018, 4 KB.",
)
@_JSON
def layout(file: str | None, parts: tuple[str, ...], max_page_size: str | None, linker: str, as_json: bool) -> None:
    """Show where a linker would place the segments of FILE, or the parts given, under a maxpagesize.

    Example: mmulab elf layout --part r--:26K --part r-x:22K --max-page-size 16K
    """
    if (file is None) == (not parts):
        raise click.UsageError("give a file, or parts with --part")
    spec: Json = {"linker": linker}
    if file is not None:
        spec["file"] = file
    spec["parts"] = [_part(part) for part in parts]
    if max_page_size is not None:
        spec["max_page_size"] = _bytes(max_page_size, "--max-page-size")
    answer = engine.elf_layout(spec)
    if as_json:
        print_json(answer)
        return
    table = _table("segment")
    for number, segment in enumerate(answer["segments"]):
        table.add_row(str(number), *_row(segment))
    out = console.out()
    out.print(table)
    for number, segment in enumerate(answer["segments"]):
        if segment["shares_page"]:
            page = segment["offset"] >> 12
            out.print(f"Page {page} of the file is mapped twice: by segments {number - 1} and {number}.")
    _draw(answer["segments"])


def _draw(segments: list[Json]) -> None:
    """Small layouts page by page: which page of memory shows which page of the file."""
    last = max((s["address"] + s["bytes"] - 1) >> 12 for s in segments)
    if last >= _DRAWN:
        return
    shown = {}
    for segment in segments:
        first, offset = segment["address"] >> 12, segment["offset"] >> 12
        for page in range(segment["phase"]["pages"]):
            shown[first + page] = f"P{offset + page}"
        for page in range(first + segment["phase"]["pages"], (segment["address"] + segment["bytes"] + 4095) >> 12):
            shown[page] = "zero"
    out = console.out()
    for group in range(0, last + 1, 4):
        cells = [f"V{page}: {shown.get(page, '.'):<5}" for page in range(group, min(group + 4, last + 1))]
        out.print("  ".join(cells).rstrip(), markup=False)


def _bytes(text: str, what: str) -> int:
    found = parse_bytes(text)
    if found is None:
        raise UserError(f"{what}: '{text}' is not a size\nhint: write bytes, or a number with K, M or G")
    return found


def _part(text: str) -> Json:
    match = re.fullmatch(r"([r-][w-][x-]):([^+]+)(?:\+(.+))?", text)
    if match is None:
        raise UserError(f"--part: '{text}' is not a part\nhint: write rights and bytes, such as r-x:22K or rw-:8K+64K")
    rights, in_file, zero = match.groups()
    file_bytes = _bytes(in_file, "--part")
    return {
        "flags": sum(_FLAGS[letter] for letter in rights),
        "file_bytes": file_bytes,
        "bytes": file_bytes + (_bytes(zero, "--part") if zero else 0),
    }
