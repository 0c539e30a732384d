"""Claims about where linkers place code (paper 1), by their numbers."""

from random import Random

from bench import Json, K, M
from claims import claim

from mmulab import engine

FIGURE_1 = [{"flags": 4, "file_bytes": 26 * K, "bytes": 26 * K}, {"flags": 5, "file_bytes": 22 * K, "bytes": 22 * K}]


def placed(max_page_size: int, parts: list[Json], linker: str = "lld") -> list[Json]:
    """The segments of a program, as a linker places them."""
    found: list[Json] = engine.elf_layout({"parts": parts, "linker": linker, "max_page_size": max_page_size})[
        "segments"
    ]
    return found


def memory_page(segment: Json, file_page: int) -> int:
    """Where a page of the file is mapped."""
    return int((segment["address"] >> 12) + file_page - (segment["offset"] >> 12))


@claim(
    "S0-036",
    "2.3",
    "With a maxpagesize of 4 KB the boundary page is mapped twice, and all later code is misaligned by one page",
    "exactly",
)
def test_figure_1_with_4_kb() -> None:
    data, code = placed(4 * K, FIGURE_1)
    assert (memory_page(data, 6), memory_page(code, 6)) == (6, 7)
    assert code["shares_page"]
    assert [memory_page(code, page) for page in range(8, 12)] == [9, 10, 11, 12]
    assert [(g["shift"], g["coalescible"]) for g in code["phase"]["groups"]] == [(1, 0)] * 4


@claim("S0-037", "2.3", "With 16 KB, virtual superpage 3 is physical superpage 2", "exactly")
def test_figure_1_with_16_kb() -> None:
    _, code = placed(16 * K, FIGURE_1)
    assert memory_page(code, 6) == 10
    assert [memory_page(code, page) for page in range(8, 12)] == [12, 13, 14, 15]
    assert code["phase"]["groups"][0] == {"size": "16K", "shift": 0, "coalescible": 1}


@claim("S0-038", "2.3", "A maxpagesize of at least the coalescing size removes the shift", "exactly")
def test_a_large_max_page_size_removes_the_shift() -> None:
    draw = Random(38)
    for _ in range(50):
        parts = [
            {"flags": draw.choice([4, 5, 6]), "file_bytes": size, "bytes": size}
            for size in (draw.randrange(1, 3 * M) for _ in range(draw.randrange(2, 6)))
        ]
        for order, max_page_size in enumerate((16 * K, 32 * K, 64 * K, 2 * M)):
            for segment in placed(max_page_size, parts):
                assert all(g["shift"] == 0 for g in segment["phase"]["groups"][: order + 1])


@claim("S0-040", "2.3", "Files are as large with a maxpagesize of 2 MB as with 4 KB", "exactly, for the model of LLD")
def test_files_do_not_grow_with_max_page_size() -> None:
    def bytes_of(max_page_size: int) -> int:
        last = placed(max_page_size, FIGURE_1)[-1]
        return int(last["offset"] + last["file_bytes"])

    assert bytes_of(2 * M) == bytes_of(4 * K) == 48 * K


@claim("S0-041", "2.3", "LLD's default maxpagesize is 4 KB; older LLD's and GNU ld's was 2 MB", "exactly")
def test_defaults_of_linkers() -> None:
    defaults = {
        name: engine.elf_layout({"parts": FIGURE_1, "linker": name})["max_page_size"] for name in ("lld", "old")
    }
    assert defaults == {"lld": 4 * K, "old": 2 * M}
