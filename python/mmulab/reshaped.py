"""What a changed trace has to be told of."""

from typing import Any

from mmulab.units import show_bytes

# Files that are named in a warning; the JSON has all.
_NAMED = 3


def reshape_words(reshaped: dict[str, Any]) -> str:
    """How a trace was changed, in a few words; empty if it was not."""
    words = []
    if image := reshaped.get("image"):
        words.append(f"linked anew by {image['linker']} with maxpagesize {image['max_page_size']}")
    if order := reshaped.get("order"):
        words.append(f"{order['functions']:,} of its functions moved by {order['method']}")
    if heap := reshaped.get("heap"):
        words.append(f"its heap kept by {heap['kind']}")
    if step := reshaped.get("code_heap"):
        words.append(f"its compiled code's memory growing by {show_bytes(step)}")
    if reshaped.get("populate"):
        words.append("its memory populated")
    if huge := reshaped.get("huge"):
        size = show_bytes(sum(part["end"] - part["start"] for part in huge))
        words.append(f"{size} of its addresses advised for 2 MB pages")
    return ", ".join(words)


def reshape_warnings(reshaped: dict[str, Any]) -> list[str]:
    """What was not changed as asked, of the `reshaped` of a trace."""
    image, heap = reshaped.get("image"), reshaped.get("heap")
    return [*(_of_image(image) if image else []), *(_of_heap(heap["counts"]) if heap else [])]


def _of_heap(counts: dict[str, int]) -> list[str]:
    if not counts["objects"]:
        return ["nothing is asked of an allocator in this trace: no heap was kept"]
    warnings = []
    if replaced := counts["replaced"]:
        warnings.append(f"objects whose end is not told, and whose memory others have later: {replaced:,}")
    if unknown := counts["unknown_frees"]:
        warnings.append(
            f"objects that are given back, and whose beginning is not told: {unknown:,}; they were not moved"
        )
    return warnings


def _of_image(image: dict[str, Any]) -> list[str]:
    warnings = []
    left = image["left"]
    if left:
        named = "; ".join(f"{file['path']}: {file['why']}" for file in left[:_NAMED])
        more = f"; and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
        warnings.append(f"files that stay laid out as they were: {named}{more}")
    elif not image["files"]:
        warnings.append("no code of an ELF file is mapped in this trace: nothing was laid out anew")
    return warnings
