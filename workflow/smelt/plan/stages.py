"""The names of the stages, and what each makes use of."""

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

EVERY = ("threads", "memory", "minutes")
USED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(STAGES, EVERY),
    "pretrain": (*EVERY, "gpus", "micro_batch", "zero_stage", "save_minutes", "budget_minutes"),
    "finetune": (*EVERY, "gpus", "micro_batch", "save_minutes", "budget_minutes"),
    "evaluate": (*EVERY, "gpus"),
    "benchmark": (*EVERY, "gpus"),
}
"""What each stage makes use of; asking for anything else is an error, not a wish that goes unheard."""
