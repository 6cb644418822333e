"""The page as a browser shows it: nothing wider than the screen, no script of the data runs, text can be read on its ground."""

import html as markup
import json
import re
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

from made_experiment import HOSTILE, make_experiment

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--virtual-time-budget=4000",
]  # fmt: skip
needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on this machine (Debian: apt-get install chromium)"
)

MEASURE = """
const page = document.querySelector("iframe").contentDocument, view = page.documentElement;
page.querySelectorAll("details").forEach(each => { each.open = true; });
const wide = [...page.querySelectorAll("body *")].filter(each => !each.closest(".scroll, svg, pre, .unseen, .skip")
  && each.getBoundingClientRect().right > view.clientWidth + 0.5);
const hidden = [...page.querySelectorAll("h2, figure, li, dd")].filter(each => each.getBoundingClientRect().height < 1);
document.querySelector("output").textContent = JSON.stringify({ width: view.scrollWidth, screen: view.clientWidth,
  wide: wide.map(each => each.outerHTML.slice(0, 120)), hidden: hidden.length, title: page.title });
"""


def browse(page: str, folder: Path, width: int) -> dict:
    """Show the page in a frame of `width` CSS pixels (a window can't be that narrow) and measure it from outside."""
    frame = folder / "frame.html"
    frame.write_text(
        f'<!doctype html><meta charset="utf-8"><iframe style="border:0" width="{width}" height="900" srcdoc="{markup.escape(page)}"></iframe>'
        f"<output></output><script>document.querySelector('iframe').addEventListener('load', () => {{{MEASURE}}});</script>",
        encoding="utf-8",
    )
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", "--dump-dom", frame.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(markup.unescape(re.search(r"<output>(.*?)</output>", done.stdout, re.DOTALL)[1]))


@needs_browser
@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_is_wider_than_the_screen(html, tmp_path, width):
    seen = browse(html, tmp_path, width)
    assert seen["wide"] == []
    assert seen["width"] <= seen["screen"] <= width
    assert seen["hidden"] == 0


@needs_browser
def test_a_script_in_the_data_does_not_run(results, reported, tmp_path):
    page = reported(make_experiment(results.root, said=HOSTILE, licence=HOSTILE), title=HOSTILE)
    assert browse(page, tmp_path, 400)["title"] == f"{HOSTILE} · smelt report"


@needs_browser
def test_even_a_script_that_slipped_in_would_not_run(html, tmp_path):
    page = html.replace(
        "</h1>", "<script>document.title = 'hacked'</script><img src=x onerror=\"document.title = 'hacked'\"></h1>"
    )
    assert "hacked" in page
    assert browse(page, tmp_path, 400)["title"] == "quickstart · smelt report"


def colours(scheme: str) -> dict[str, tuple[float, ...]]:
    """The variables of the style sheet in one scheme."""
    sheet = resources.files("smelt.report").joinpath("page.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", sheet, re.DOTALL)
    found = dict(re.findall(r"--([\w-]+): ?([^;]+);", blocks[0]))
    if scheme == "dark":
        found |= dict(re.findall(r"--([\w-]+): ?([^;]+);", blocks[1]))
    if scheme == "print":
        found |= dict(re.findall(r"--([\w-]+): ?([^;]+);", blocks[2]))
    parsed = {}
    for name, value in found.items():
        if re.fullmatch(r"#[0-9a-f]{6}", value):
            parsed[name] = tuple(int(value[i : i + 2], 16) for i in (1, 3, 5))
        elif re.fullmatch(r"#[0-9a-f]{3}", value):
            parsed[name] = tuple(int(digit * 2, 16) for digit in value[1:])
        elif re.fullmatch(r"\d+ \d+ \d+", value):
            parsed[name] = tuple(map(int, value.split()))
    return parsed


def contrast(a, b) -> float:
    """Ratio of WCAG 2.2, https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio."""

    def light(colour):
        parts = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    high, low = sorted((light(a), light(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_contrast_formula_is_the_one_of_wcag():
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast((119, 119, 119), (255, 255, 255)) == pytest.approx(4.48, abs=0.01)  # #777 on white


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_text_can_be_read_on_its_ground(scheme):
    found = colours(scheme)
    grounds = ["paper", "card", "shade"]
    for text in ("ink", "soft", "accent"):
        for ground in grounds:
            assert contrast(found[text], found[ground]) >= 4.5, (text, ground)
    for text in ("material", "training", "measure"):
        assert contrast(found[text], found["card"]) >= 4.5, text
    assert contrast(found["soft"], found["accent-pale"]) >= 4.5
    for share in (0, 0.25, 0.5, 0.75, 1):
        heat = 0.05 + 0.65 * share
        cell = tuple(heat * h + (1 - heat) * c for h, c in zip(found["heat"], found["card"], strict=True))
        assert contrast(found["ink"], cell) >= 4.5, share
    for line in range(8):
        assert contrast(found[f"s{line}"], found["card"]) >= 3, line
