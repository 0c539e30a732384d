"""Numbers as people read and write them."""

import json
import re

_BINARY = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_DECIMAL = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def _parse(text: str, factors: dict[str, int]) -> int | None:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)", text.strip().replace("_", ""), re.IGNORECASE)
    return round(float(match[1]) * factors[match[2].upper()]) if match else None


def parse_count(text: str) -> int | None:
    """`500M` as 500 million; None if it is not a count."""
    return _parse(text, _DECIMAL)


def parse_bytes(text: str) -> int | None:
    """`64K` as 65536; None if it is not a number of bytes."""
    return _parse(text, _BINARY)


def show_bytes(value: float) -> str:
    """`65536` as `64 KB`, to three digits."""
    sign, value = ("−" if value < 0 else ""), abs(value)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1024:
            return f"{sign}{value:.3g} {unit}" if value < 999.5 else f"{sign}{value:.0f} {unit}"
        value /= 1024
    return f"{sign}{value:.3g} TB"


def show_count(value: float) -> str:
    """`1234567` as `1.23 M`; small whole numbers as they are."""
    sign, value = ("−" if value < 0 else ""), abs(value)
    if value < 10_000:
        return f"{sign}{value:,.0f}"
    for factor, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return (
                f"{sign}{value / factor:.3g} {unit}" if value < factor * 999.5 else f"{sign}{value / factor:.0f} {unit}"
            )
    return f"{sign}{value:.0f}"


def show_rate(value: float) -> str:
    """A figure per thousand instructions, or accesses per walk: three significant digits, never `1e-05`."""
    if value == 0:
        return "0"
    if value < 0.001:
        return "<0.001"
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def show_percent(share: float, signed: bool = False, digits: int = 1) -> str:
    """`0.0123` as `1.2 %`."""
    percent = share * 100
    if percent and abs(percent) < 0.5 * 10**-digits:
        return f"{'+' if signed and percent > 0 else '−' if percent < 0 else ''}<{10**-digits:.{digits}f} %"
    return f"{percent:{'+' if signed else ''}.{digits}f} %".replace("-", "−")


def show_seconds(seconds: float) -> str:
    """`75` as `1 min 15 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"


def toml_value(value: object) -> str:
    """As TOML, on one line, without what is empty."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml_value(part)}" for key, part in _kept(value).items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    # Strings, numbers and truths are written as in JSON.
    return json.dumps(value, ensure_ascii=False)


def _kept(row: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in row.items() if value not in ("", None, {}, [])}


def toml_tables(name: str, rows: list[dict[str, object]]) -> str:
    """An array of tables as TOML, without what is empty."""
    tables = ("".join(f"{key} = {toml_value(value)}\n" for key, value in _kept(row).items()) for row in rows)
    return "\n".join(f"[[{name}]]\n{table}" for table in tables)


def shorten(text: str, width: int) -> str:
    """Cuts the middle out of a text that is too long."""
    if len(text) <= width:
        return text
    tail = width // 3
    return f"{text[: width - tail - 1]}…{text[-tail:]}"
