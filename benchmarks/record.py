"""What the benchmark scripts share: measuring side by side, and the record of it in `benchmarks/results/<suite>.json`.

seconds = record.interleaved({"ours": ours, "theirs": theirs}, repeats=5)
record.write("suite", [record.row("what-vs-whom", …)])
"""

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "workflow"))

from smelt.plan import provenance  # noqa: E402 - the package need not be installed
from smelt.plan.manifest import to_json, write_atomically  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"


def interleaved(sides: dict[str, Callable[[], float | None]], repeats: int, warmups: int = 1) -> dict[str, list[float]]:
    """Seconds of each side, `repeats` of them, in turn, forward and backward, after rounds that do not count.

    A side that sets things up first returns the seconds of its measured part; of any other the whole call is timed.
    """
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(-warmups, repeats):
        for name in list(sides) if number % 2 == 0 else reversed(sides):
            started = time.perf_counter()
            own = sides[name]()
            if number >= 0:
                seconds[name].append(time.perf_counter() - started if own is None else own)
    return seconds


def row(
    name: str, ours: float, peer: str, theirs: float, unit: str, better: str, command: str, ratio: float | None = None
) -> dict[str, Any]:
    """One line of a record; `better` is "higher" or "lower". The ratio is ours ÷ theirs unless a better one (a median of ratios) is given."""
    return {
        "name": name,
        "ours": _shortened(ours),
        "peer": peer,
        "theirs": _shortened(theirs),
        "ratio": _shortened(ours / theirs if ratio is None else ratio),
        "unit": unit,
        "better": better,
        "commit": commit(),
        "command": command,
        "machine": machine(),
    }


def rate_row(
    name: str, seconds: dict[str, list[float]], amount: float, unit: str, peer: str, command: str
) -> dict[str, Any]:
    """A row of rates (amount ÷ median seconds) from `interleaved`, whose sides are "ours" and "theirs"; the ratio is the median of the rounds'."""
    ours, theirs = (amount / statistics.median(seconds[side]) for side in ("ours", "theirs"))
    rounds = statistics.median(b / a for a, b in zip(seconds["ours"], seconds["theirs"], strict=True))
    return row(name, ours, peer, theirs, unit, "higher", command, rounds)


def write(suite: str, rows: list[dict[str, Any]]) -> Path:
    """Put `rows` into the suite's record, in place of older rows of the same names, and print them."""
    path = RESULTS / f"{suite}.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    by_name = {each["name"]: each for each in [*kept, *rows]}
    write_atomically(path, to_json([by_name[name] for name in sorted(by_name)]))
    for each in rows:
        print(
            f"{each['name']:32} {each['ratio']:>8} = {each['ours']} / {each['theirs']} {each['unit']} ({each['peer']}; {each['better']} is better)"
        )
    return path


def commit() -> str:
    """The commit that was measured; `+` after it if tracked files differed from it."""
    found = provenance.commit()
    return f"{found['commit'][:12]}{'+' if found['modified'] else ''}" if found else "unknown"


def machine() -> str:
    """Processor, cores, memory, system and Python; never the name of the host."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{len(os.sched_getaffinity(0))} cores, {_processor()}, {memory:.0f} GiB, {platform.system()} {platform.machine()}, Python {platform.python_version()}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def _shortened(value: float) -> float:
    """Four figures: no more were measured."""
    return float(f"{value:.4g}")
