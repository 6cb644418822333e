"""Fine-tune the converted model on a task.

Takes `convert` (the Hugging Face directory) and `task` (labelled texts, or dialogue). Leaves `model/`, a Hugging Face
directory or a peft adapter directory, and `curve.jsonl`. Checkpoints are in `state/`: a killed run goes on from the last
whole one and ends with the same bytes as an uninterrupted one (on a CPU).
"""

import json
import time
from pathlib import Path
from typing import Any

from smelt.plan.job import Job, Product, figure
from smelt.plan.settings.finetuning import Finetuning
from smelt.training.compute import prepare, work_alone

KEEPS_STATE = True


def run(job: Job) -> Product:
    # Which task it is was resolved by the plan: the settings no longer name it.
    settings = Finetuning.model_validate({"task": job.input("task").id, **job.settings})
    work_alone()
    device = prepare(settings.cpu_threads, job.options.get("gpus", 0), job.say)

    from smelt.finetune.examples import read_examples
    from smelt.finetune.network import build, max_length_of
    from smelt.finetune.product import save_model
    from smelt.models.loading import load_config, load_tokenizer

    convert = job.input("convert")
    tokenizer = load_tokenizer(convert, "hf")
    length = max_length_of(load_config(convert), settings)
    data = read_examples(job.input("task"), tokenizer, settings, length)
    job.say(f"{data.kind}: " + "; ".join(f"{split} {_counts(counts)}" for split, counts in data.counts.items()))

    model = build(convert, settings, data.labels, tokenizer.pad_token_id)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    trainable = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    job.say(f"{trainable:,} of {parameters:,} parameters learn ({settings.method}, {settings.init} weights)")
    started = time.monotonic()
    course, kept, tokens = _train(job, settings, model, data, device)
    seconds = time.monotonic() - started

    files = save_model(model, tokenizer, job.directory / "model", convert, settings, data.kind)
    # Sorted: a row that came back from a checkpoint has lost the order in which it was made.
    curve = "".join(json.dumps(row, sort_keys=True) + "\n" for row in course.curve)
    (job.directory / "curve.jsonl").write_text(curve, encoding="utf-8")
    facts = {
        "task_kind": data.kind,
        "method": settings.method,
        "init": settings.init,
        "labels": data.labels,
        "parameters": parameters,
        "trainable_parameters": trainable,
        "max_length": length,
        "data": data.counts,
        "steps": course.total,
        "kept_epoch": kept["epoch"],
        "kept_step": kept["step"],
        "figures": _figures(course, kept["step"]),
    }
    measured = {"seconds": round(seconds, 3), "tokens_per_second": round(tokens / seconds, 1), "device": device.type}
    return Product([*files, "curve.jsonl"], facts, measured)


def _train(job: Job, settings: Finetuning, model: Any, data: Any, device: Any) -> tuple[Any, dict[str, int], int]:
    """Train, from the newest whole checkpoint if there is one.

    Returns:
        The course, which epoch's weights `model` now has, and how many tokens this attempt took in.

    Raises:
        Interrupted: when asked to stop, after saving.
    """
    from smelt.finetune.course import Course
    from smelt.finetune.trainer import EpochBatches, FineTuner, training_arguments

    steps_per_epoch = -(-len(data.train) // settings.train_batch_size)
    total = min(
        settings.num_train_epochs * steps_per_epoch, settings.max_steps or settings.num_train_epochs * steps_per_epoch
    )
    course = Course(job, settings, steps_per_epoch, total, data.kind)
    arguments, micro_batch = training_arguments(job, settings, total, device)
    batches = EpochBatches(data.train, settings.train_batch_size, micro_batch, settings.seed)
    trainer = FineTuner(model, arguments, data, course, batches, settings)

    found = course.checkpoints.newest()
    step = 0
    if found:
        course.restore(found[1])
        step = int(found[0].name.rpartition("-")[2])
        job.say(f"going on from {found[0].name}")
    before = course.tokens
    if not course.finished:
        with course.recorded(step):
            trainer.train(resume_from_checkpoint=str(found[0]) if found else None)
        if not course.finished:
            job.stop(f"saved after step {trainer.state.global_step} of {total}")
        step = trainer.state.global_step
    last = {"step": step, "epoch": -(-step // steps_per_epoch)}
    kept = course.best if settings.load_best_model_at_end else last
    if course.best and kept["step"] != trainer.state.global_step:
        _load(model, course.checkpoints.path(kept["step"]), settings)
        job.say(f"kept: epoch {kept['epoch']}, {course.criterion.replace('_', ' ')} {course.best['value']:.4f}")
    return course, kept, course.tokens - before


def _load(model: Any, checkpoint: Path, settings: Finetuning) -> None:
    """Weights of a checkpoint of this training into `model`."""
    from safetensors.torch import load_file

    if settings.method == "lora":
        from peft import set_peft_model_state_dict

        set_peft_model_state_dict(model, load_file(checkpoint / "adapter_model.safetensors"))
        return
    weights: dict[str, Any] = {}
    for part in sorted(checkpoint.glob("*.safetensors")):
        weights |= load_file(part)
    # A tensor that is tied to another is saved once; it has no weights of its own to load.
    missing, unexpected = model.load_state_dict(weights, strict=False)
    tied = set(model.all_tied_weights_keys or {})
    if unexpected or set(missing) - tied:
        raise RuntimeError(
            f"{checkpoint}: weights differ from the network's: {sorted(set(missing) - tied)} {unexpected}"
        )


def _figures(course: Any, step: int) -> list[dict[str, Any]]:
    kept = next(row for row in course.curve if row["step"] == step and "valid_loss" in row)
    found = [figure("loss", "valid", kept["valid_loss"], "nats")]
    if "valid_accuracy" in kept:
        found.append(figure("accuracy", "valid", kept["valid_accuracy"], ""))
    return found


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in counts.items() if value or name == "rows")
