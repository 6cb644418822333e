"""The names of the stages."""

STAGES = (
    "corpus",
    "task",
    "tokenizer",
    "shards",
    "pretrain",
    "convert",
    "finetune",
    "evaluate",
    "benchmark",
    "report",
    "archive",
)
"""In the order in which data flows."""
