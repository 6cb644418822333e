"""How numbers are written for people: the same on the page and on the terminal."""

import math
from typing import Any

_THOUSANDS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))
SCALED = ("bytes", "s", "seconds", "ms")
_BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def number(value: Any) -> str:
    """An integer with thousands separators; another number with about four significant digits.

    >>> number(1234567), number(0.66666), number(123456.7), number(2.0e-7)
    ('1,234,567', '0.6667', '123,457', '2.00e-07')
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or value == 0 or (float(value).is_integer() and 1_000 <= abs(value) < 1e15):
        return f"{int(value):,}"
    size = abs(value)
    if not math.isfinite(value):
        return str(value)
    if size < 1e-4 or size >= 1e15:
        return f"{value:.2e}"
    if size >= 1_000:
        return f"{value:,.0f}"
    places = 4 if size < 1 else 3 if size < 10 else 2 if size < 100 else 1
    return f"{value:.{places}f}"


def compact(value: float) -> str:
    """1,234,567 → `1.23 M`, for a headline."""
    return _scaled(value, _THOUSANDS, f"{value:,.0f}" if float(value).is_integer() else number(value))


def size(value: float) -> str:
    """Bytes in decimal units: 1,234,567 → `1.23 MB`."""
    return _scaled(value, _BYTES, f"{value:,.0f} B")


def _scaled(value: float, units: tuple[tuple[float, str], ...], small: str) -> str:
    for factor, unit in units:
        if abs(value) >= factor * 0.9995:  # so that 999,999 becomes 1.00 M and not 1000 k
            scaled = value / factor
            return f"{scaled:.{2 if scaled < 9.995 else 1 if scaled < 99.95 else 0}f} {unit}"
    return small


def share(value: float) -> str:
    """0.1234 → `12.3 %`."""
    return f"{100 * value:.1f} %"


def duration(seconds: float) -> str:
    """Seconds as `0.4 s`, `12 s`, `3 min 20 s`, `5 h 7 min`, `2 d 3 h`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for big, small, factor, part in (("d", "h", 86_400, 3_600), ("h", "min", 3_600, 60), ("min", "s", 60, 1)):
        if whole >= factor:
            rest = whole % factor // part
            return f"{whole // factor} {big} {rest} {small}" if rest else f"{whole // factor} {big}"
    return f"{whole} s"


def brief(seconds: float) -> str:
    """A duration in one unit, for a small place: `8.1 s`, `85 s`, `12 min`, `7.5 h`."""
    if seconds < 99.5:
        return f"{seconds:.{1 if seconds < 9.95 else 0}f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_970 else f"{seconds / 3_600:.{1 if seconds < 358_000 else 0}f} h"


def words(name: str) -> str:
    """A key as words, however a stage spells it: `macro_f1` → `macro-F1`, `bits_per_byte` → `bits per byte`."""
    plain = name.replace("_", " ")
    known = {"macro f1": "macro-F1", "micro f1": "micro-F1", "f1": "F1"}
    return known.get(plain.replace("-", " ").lower(), plain)


def unit_of(figure: dict[str, Any]) -> str:
    """The unit that is still to be said: empty if the metric's name says it or `value_of` writes it."""
    unit, name = figure["unit"], words(figure["metric"])
    said = unit.startswith(("per ", "share")) or unit in name or " per " in name or unit in SCALED
    return "" if said else unit


def value_of(figure: dict[str, Any]) -> str:
    """The value, scaled and with its unit where that is one of size, time or share."""
    unit = figure["unit"]
    return quantity(figure["value"], unit if unit in SCALED or unit.startswith("share") else "")


def reading(figure: dict[str, Any]) -> str:
    """A figure's value, with its unit where the metric's name does not say it."""
    return f"{value_of(figure)} {unit_of(figure)}".strip()


def quantity(value: Any, unit: str = "") -> str:
    """A value with its unit, scaled where the unit is one of size or time."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{value} {unit}".strip()
    if unit == "bytes":
        return size(value)
    if unit in ("s", "seconds", "ms"):
        seconds = value / 1_000 if unit == "ms" else value
        return duration(seconds) if seconds >= 1 else f"{1_000 * seconds:.1f} ms"
    if unit.startswith("share"):
        return share(value)
    return f"{number(value)} {unit}".strip()
