"""Draw docs/images/pipeline.svg: the stages and what they hand on. Run: python docs/images/pipeline.py"""

from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT, STEP, ROW = 114, 58, 136, 108
INK, SOFT = "#1f2937", "#6b7280"
FILLS = {"data": "#dbeafe", "training": "#fde68a", "measuring": "#bbf7d0", "result": "#e9d5ff"}
# name: (column, row, kind, what it leaves)
BOXES = {
    "corpus": (0, 0, "data", "clean text"),
    "tokenizer": (1, 0, "data", "subword pieces"),
    "shards": (2, 0, "data", "tokens in LMDB"),
    "pretrain": (3, 0, "training", "weights, curve"),
    "convert": (4, 0, "training", "HF model, parity"),
    "finetune": (5, 0, "training", "full or LoRA"),
    "evaluate": (6, 0, "measuring", "figures"),
    "report": (7, 0, "result", "one HTML page"),
    "archive": (8, 0, "result", "one .tar.zst"),
    "task": (4, 1, "data", "labels, dialogue"),
    "benchmark": (6, 1, "measuring", "speed, memory"),
}
ARROWS = [
    ("corpus", "tokenizer"), ("tokenizer", "shards"), ("shards", "pretrain"), ("pretrain", "convert"), ("convert", "finetune"),
    ("finetune", "evaluate"), ("evaluate", "report"), ("report", "archive"),
]  # fmt: skip
LEFT, TOP = 14, 56


def place(name: str) -> tuple[float, float]:
    """Upper left corner."""
    column, row, _, _ = BOXES[name]
    return LEFT + column * STEP, TOP + row * ROW


def box(name: str) -> str:
    (x, y), (_, _, kind, leaves) = place(name), BOXES[name]
    middle = x + WIDTH / 2
    return (
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="9" fill="{FILLS[kind]}" stroke="{INK}" stroke-width="1.2"/>'
        f'<text x="{middle}" y="{y + 25}" font-size="16" font-weight="600" fill="{INK}">{name}</text>'
        f'<text x="{middle}" y="{y + 44}" font-size="12" fill="{INK}">{escape(leaves)}</text>'
    )


def path(line: str) -> str:
    return f'<path d="{line}" fill="none" stroke="{SOFT}" stroke-width="1.8" marker-end="url(#head)"/>'


def straight(one: str, other: str) -> str:
    (x, y), (to, _) = place(one), place(other)
    return path(f"M {x + WIDTH} {y + HEIGHT / 2} H {to - 3}")


def over(one: str, other: str) -> str:
    """An arch above the boxes between."""
    (x, y), (to, _) = place(one), place(other)
    start, end, top = x + WIDTH * 0.7, to + WIDTH * 0.3, y - 34
    return path(f"M {start} {y} C {start} {top}, {end} {top}, {end} {y - 3}")


def lower() -> str:
    """What runs between the rows: labelled data to finetune, the converted model to benchmark, its figures to the report."""
    (task_x, task_y), (tune_x, tune_y) = place("task"), place("finetune")
    (bench_x, bench_y), (report_x, _) = place("benchmark"), place("report")
    convert_x, _ = place("convert")
    below, lane = tune_y + HEIGHT, tune_y + HEIGHT + 22
    return "".join(
        [
            path(f"M {task_x + WIDTH} {task_y + HEIGHT / 2} H {tune_x + WIDTH / 2} V {below + 3}"),
            path(f"M {convert_x + WIDTH * 0.8} {below} V {lane} H {bench_x + WIDTH / 2} V {bench_y - 3}"),
            path(f"M {bench_x + WIDTH} {bench_y + HEIGHT / 2} H {report_x + WIDTH / 2} V {below + 3}"),
        ]
    )


def main() -> None:
    width, height = LEFT * 2 + 8 * STEP + WIDTH, TOP + ROW + HEIGHT + 14
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" font-family="system-ui, sans-serif" text-anchor="middle">',
        "<title>The stages of smelt</title>",
        f'<defs><marker id="head" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path d="M0 0 8 4 0 8z" fill="{SOFT}"/></marker></defs>',
        f'<rect width="{width}" height="{height}" rx="12" fill="#ffffff"/>',
        *(straight(*arrow) for arrow in ARROWS),
        over("corpus", "shards"),
        over("convert", "evaluate"),
        lower(),
        *(box(name) for name in BOXES),
        "</svg>",
    ]
    Path(__file__).with_suffix(".svg").write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
