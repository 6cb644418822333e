"""Line charts as inline SVG: no script, no font of its own, colours from the page's style sheet (so that dark mode is one rule).

Drawn here and not by a plotting library, whose pictures carry fixed colours and text sizes and cost seconds to import.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup, escape

from smelt.report.numbers import compact, number

WIDTH, HEIGHT = 480, 270
LEFT, RIGHT, TOP, BOTTOM = 50, 14, 30, 40
"""Margins of the plot within the picture, in its own units, which are about CSS pixels on a wide screen."""
COLOURS = 8
HOVERED = 40
"""At most so many points of a line answer to the pointer with their values."""


@dataclass(frozen=True)
class Series:
    """One line: `points` as (x, y), by rising x."""

    name: str
    points: list[tuple[float, float]]
    colour: int = 0
    """Which of the style sheet's COLOURS."""
    dots: bool = False
    """Dashed, with each point marked: for the few values of a validation."""

    @property
    def look(self) -> str:
        """Classes of the style sheet."""
        return f"s{self.colour % COLOURS}" + (" dashed" if self.dots else "")


def thinned(points: list[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """At most `most` points: the means of y over equal stretches of the list, each at the stretch's last x."""
    if len(points) <= most:
        return points
    edges = [round(part * len(points) / most) for part in range(most + 1)]
    stretches = [points[start:stop] for start, stop in pairwise(edges)]
    return [(part[-1][0], sum(y for _, y in part) / len(part)) for part in stretches]


def ticks(low: float, high: float, most: int) -> list[float]:
    """At most `most` + 1 round values (steps of 1, 2, 2.5 or 5 times a power of ten) within [low, high]."""
    if high <= low:
        return [low]
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.9999)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _tick_label(value: float) -> str:
    if abs(value) >= 1_000:
        return compact(value).replace(".00 ", " ").replace("0 ", " ") if value % 1_000 else f"{value / 1_000:g}k"
    return f"{value:.1e}".replace("e-0", "e-") if 0 < abs(value) < 1e-3 else f"{value:g}"


def _range(values: list[float], from_zero: bool) -> tuple[float, float]:
    low, high = min(values), max(values)
    if from_zero:
        low = min(low, 0.0)
    if high == low:
        spread = abs(high) * 0.1 or 1.0
        return low - (0 if from_zero and low == 0 else spread), high + spread
    margin = 0.04 * (high - low)
    return (low if from_zero and low == 0 else low - margin), high + margin


def line_chart(series: list[Series], x_name: str, y_name: str, from_zero: bool = False) -> Markup:
    """The picture; its `title` tells in words what a reader who does not see it needs. Series without points are left out."""
    series = [line for line in series if line.points]
    x_low, x_high = _range([x for line in series for x, _ in line.points], from_zero=True)
    x_high = max(x for line in series for x, _ in line.points) or x_high
    y_low, y_high = _range([y for line in series for _, y in line.points], from_zero)

    def place(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (x - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT)
        down = HEIGHT - BOTTOM - (y - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM)
        return across, down

    parts = [_axes(ticks(x_low, x_high, 5), ticks(y_low, y_high, 5), place, x_name, y_name)]
    parts += [_line(line, place, x_name) for line in series]
    words = "; ".join(_in_words(line, x_name) for line in series)
    return Markup(
        '<svg class="chart" viewBox="0 0 {w} {h}" role="img" aria-label="{words}"><title>{words}</title>{parts}</svg>'
    ).format(w=WIDTH, h=HEIGHT, words=words, parts=Markup("").join(parts))


def _in_words(line: Series, x_name: str) -> str:
    (x_first, y_first), (x_last, y_last) = line.points[0], line.points[-1]
    if len(line.points) == 1:
        return f"{line.name}: {number(y_first)} at {x_name} {x_first:,.0f}"
    return (
        f"{line.name}: from {number(y_first)} at {x_name} {x_first:,.0f} to {number(y_last)} at {x_name} {x_last:,.0f}"
    )


def _axes(xs: list[float], ys: list[float], place, x_name: str, y_name: str) -> Markup:
    parts = []
    bottom = HEIGHT - BOTTOM
    for value in ys:
        _, y = place(0, value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{escape(_tick_label(value))}</text>'
        )
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>')
    for value in xs:
        x, _ = place(value, 0)
        anchor = "end" if x > WIDTH - RIGHT - 12 else "middle"
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{bottom + 17}" text-anchor="{anchor}">{escape(_tick_label(value))}</text>'
        )
    parts.append(
        f'<text class="name" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 5}" text-anchor="middle">{escape(x_name)}</text>'
    )
    parts.append(f'<text class="name" x="2" y="13">{escape(y_name)}</text>')
    return Markup("".join(parts))  # noqa: S704 - numbers and escaped words only


def _line(line: Series, place, x_name: str) -> Markup:
    """The path, and on it what answers to the pointer."""
    path = " ".join(
        f"{'L' if index else 'M'}{x:.1f} {y:.1f}" for index, (x, y) in enumerate(place(*p) for p in line.points)
    )
    parts = [f'<path class="line {line.look}" d="{path}"/>']
    every = 1 if line.dots or len(line.points) == 1 else max(1, math.ceil(len(line.points) / HOVERED))
    for x, y in line.points[::every]:
        across, down = place(x, y)
        shape = f'class="dot {line.look}" r="3"' if line.dots or len(line.points) == 1 else 'class="hover" r="7"'
        told = escape(f"{line.name}, {x_name} {x:,.0f}: {number(y)}")
        parts.append(f'<circle {shape} cx="{across:.1f}" cy="{down:.1f}"><title>{told}</title></circle>')
    return Markup("".join(parts))  # noqa: S704 - numbers and escaped words only
