"""`mmulab elf`: whether the pages of a program's file can be coalesced where they are mapped."""

import re
from typing import Any

import rich_click as click
from rich.table import Table

from mmulab import UserError, engine
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
    """Say which pages of a program's file hardware can coalesce, and where a linker would place them.

    A segment whose place in memory is out of step with its place in the file shares no aligned group of pages with it:
    then neither PTE coalescing nor superpages can work for it, however contiguous the memory is.
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
            "Pages out of step: modulo the group. Groups: aligned, whole, and in step with the file.", style="dim"
        )
        for file in seen.values():
            console.out().print(_verdict(file), markup=False, soft_wrap=True)
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
        return f"{file['path']}: its code is out of step: {remedy}"
    return f"{file['path']}: its code is aligned for groups of {', '.join(aligned)}"


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
        raise UserError(f"{what}: '{text}' is no size\nhint: write bytes, or a number with K, M or G")
    return found


def _part(text: str) -> Json:
    match = re.fullmatch(r"([r-][w-][x-]):([^+]+)(?:\+(.+))?", text)
    if match is None:
        raise UserError(f"--part: '{text}' is no part\nhint: write rights and bytes, such as r-x:22K or rw-:8K+64K")
    rights, in_file, zero = match.groups()
    file_bytes = _bytes(in_file, "--part")
    return {
        "flags": sum(_FLAGS[letter] for letter in rights),
        "file_bytes": file_bytes,
        "bytes": file_bytes + (_bytes(zero, "--part") if zero else 0),
    }
