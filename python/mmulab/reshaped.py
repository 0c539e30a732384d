"""What a changed trace has to be told of."""

from typing import Any

# Files that are named in a warning; the JSON has all.
_NAMED = 3


def reshape_words(reshaped: dict[str, Any]) -> str:
    """How a trace was changed, in a few words; empty if it was not."""
    words = []
    if image := reshaped.get("image"):
        words.append(f"linked anew by {image['linker']} with maxpagesize {image['max_page_size']}")
    if heap := reshaped.get("heap"):
        words.append(f"its heap kept by {heap['kind']}")
    return ", ".join(words)


def reshape_warnings(reshaped: dict[str, Any]) -> list[str]:
    """What was not changed as asked, of the `reshaped` of a trace."""
    image = reshaped.get("image")
    if image is None:
        return []
    warnings = []
    left = image["left"]
    if left:
        named = "; ".join(f"{file['path']}: {file['why']}" for file in left[:_NAMED])
        more = f"; and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
        warnings.append(f"files that stay laid out as they were: {named}{more}")
    elif not image["files"]:
        warnings.append("no code of an ELF file is mapped in this trace: nothing was laid out anew")
    return warnings
