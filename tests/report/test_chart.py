"""Line charts: points land where arithmetic says, axes are round, long curves are thinned without bending them."""

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from page_reader import read_page
from smelt.report.chart import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Series, line_chart, thinned, ticks

FINITE = st.floats(-1e6, 1e6, allow_nan=False)


def path_of(svg: str) -> list[tuple[float, float]]:
    drawn = re.search(r'<path class="line[^>]* d="([^"]*)"', svg)[1]
    return [(float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", drawn)]


def test_points_lie_where_their_values_say():
    svg = line_chart([Series("loss", [(0, 0.0), (50, 10.0), (100, 0.0)])], "step", "loss", from_zero=True)
    (x0, y0), (x1, y1), (x2, y2) = path_of(svg)
    # x runs from 0 to 100 over the plot; y from 0 to 10 with 4 % of air above
    assert (x0, x1, x2) == (LEFT, LEFT + (WIDTH - LEFT - RIGHT) / 2, WIDTH - RIGHT)
    assert y0 == y2 == HEIGHT - BOTTOM
    assert abs(y1 - (HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * 10 / 10.4)) < 0.06


@given(st.lists(st.tuples(st.integers(0, 10**9), FINITE), min_size=1, max_size=40))
def test_any_curve_stays_within_the_picture_and_higher_values_are_drawn_higher(points):
    points = sorted(dict(points).items())
    drawn = path_of(line_chart([Series("s", points)], "step", "value"))
    assert len(drawn) == len(points)
    assert all(LEFT - 0.06 <= x <= WIDTH - RIGHT + 0.06 and TOP - 0.06 <= y <= HEIGHT - BOTTOM + 0.06 for x, y in drawn)
    by_value = sorted(zip((value for _, value in points), (y for _, y in drawn), strict=True))
    assert all(higher <= lower + 0.11 for (_, lower), (_, higher) in itertools.pairwise(by_value))


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(2, 10))
def test_ticks_are_few_even_and_within_the_range(low, spread, most):
    high = low + spread
    found = ticks(low, high, most)
    assert len(found) <= most + 1
    assert all(low - 1e-6 * spread <= tick <= high + 1e-6 * spread for tick in found)
    steps = [after - before for before, after in itertools.pairwise(found)]
    assert all(abs(step - steps[0]) < 1e-6 * max(1, abs(low)) for step in steps)


def test_ticks_of_a_loss_are_the_ones_a_person_would_draw():
    assert ticks(4.02, 7.7, 5) == [5, 6, 7]
    assert ticks(0, 600, 5) == [0, 200, 400, 600]
    assert ticks(0, 0.003, 5) == [0, 0.001, 0.002, 0.003]


@given(st.lists(FINITE, min_size=1, max_size=500), st.integers(1, 60))
def test_a_thinned_curve_keeps_its_end_and_its_mean(values, most):
    points = [(float(step), value) for step, value in enumerate(values)]
    found = thinned(points, most)
    assert len(found) == min(len(points), most)
    assert found[-1][0] == points[-1][0]
    assert [x for x, _ in found] == sorted({x for x, _ in found})
    if len(values) % most == 0:  # stretches of one length
        assert abs(sum(y for _, y in found) / len(found) - sum(values) / len(values)) <= 1e-6 * max(
            map(abs, [1, *values])
        )


def test_a_chart_tells_its_course_in_words_and_escapes_names():
    svg = line_chart([Series('<b>"run"', [(1, 7.5), (600, 4.25)])], "step", "loss")
    reader = read_page(svg)
    assert reader.problems == []
    told = reader.root.all("svg")[0].attributes["aria-label"]
    assert told == '<b>"run": from 7.500 at step 1 to 4.250 at step 600'


def test_a_single_point_is_seen():
    svg = line_chart([Series("validation", [(100, 3.9)], dots=True)], "step", "loss")
    assert svg.count('<circle class="dot') == 1


def test_a_constant_curve_is_a_level_line():
    heights = {y for _, y in path_of(line_chart([Series("s", [(0, 2.0), (1, 2.0)])], "step", "value"))}
    assert len(heights) == 1 and TOP < heights.pop() < HEIGHT - BOTTOM
