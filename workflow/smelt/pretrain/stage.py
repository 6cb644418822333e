"""Pretrain a network on shards: DeepSpeed's engine, our own loop, and a state that survives kills.

Training state lies in `state/` (checkpoints, metrics.jsonl, TensorBoard events). The product is `weights/` (safetensors in
float32 and the network's configuration) and `curve.jsonl`: the same bytes whether or not the training was interrupted.
"""

import math
import os
import resource
import statistics
import time
from typing import TYPE_CHECKING, Any

from smelt.data.order import Order
from smelt.data.tokens import Sequences, TokenStream
from smelt.plan.errors import DataError, SmeltError
from smelt.plan.job import Job, Product, figure
from smelt.plan.manifest import canonical
from smelt.plan.settings.pretraining import Pretrain, Pretraining
from smelt.training.compute import prepare

if TYPE_CHECKING:
    from smelt.training.loop import Loop
    from smelt.training.world import World

KEEPS_STATE = True
DISTRIBUTED = True


def run(job: Job) -> Product:
    """Train to the end, from the newest whole checkpoint if there is one. Raises Interrupted after a save on request."""
    started = time.monotonic()
    settings = Pretrain.model_validate(job.settings)
    shards, tokenizer = job.input("shards"), job.input("tokenizer")
    length = settings.pretraining.sequence_length
    # Of several processes on the same files one reads them through to check them.
    verify = os.environ.get("RANK", "0") == "0"
    train = TokenStream(shards, "train", tokenizer.id, verify).sequences(length)
    valid = TokenStream(shards, "valid", tokenizer.id, verify).sequences(length)
    total = steps(settings.pretraining, len(train))
    gpu, count = _devices(job, settings.pretraining.cpu_threads)
    from smelt.training.launch import processes
    from smelt.training.world import World

    with processes(job, count) as store:
        world = World.join(gpu, store)
        loop = _loop(job, settings, train, valid, total, world, started)
        loop.run()
        weights = loop.engine.weights()
        product = _product(job, settings.pretraining, loop, weights) if world.leader else Product([])
        loop.engine.close()
        return product


def steps(settings: Pretraining, sequences: int) -> int:
    """How many updates the settings mean for so many training sequences. Raises DataError if it is not even one."""
    if settings.max_steps is not None:
        return settings.max_steps
    if settings.max_tokens is not None:
        return settings.max_tokens // (settings.train_batch_size * settings.sequence_length)
    epochs = settings.num_train_epochs or 1.0
    count = int(epochs * sequences / settings.train_batch_size)
    if not count:
        raise DataError(
            f"the train split holds {sequences:,} sequences of {settings.sequence_length} tokens: {epochs:g} epochs of them are "
            f"less than one step of train_batch_size {settings.train_batch_size}; lower that, or set max_steps"
        )
    return count


def _devices(job: Job, cpu_threads: int) -> tuple[bool, int]:
    """Set up arithmetic: whether to compute on GPUs, and with how many processes.

    SMELT_CPU_AS_GPU lets a trial without GPUs start as many processes as it asked for GPUs (docs/pretrain.md).
    """
    granted = job.options.get("gpus", 0)
    if granted and os.environ.get("SMELT_CPU_AS_GPU"):
        job.say(f"SMELT_CPU_AS_GPU is set: {granted} processes on the CPU instead of GPUs")
        prepare(cpu_threads)
        return False, granted
    if prepare(cpu_threads, granted, job.say).type == "cpu":
        return False, 1
    import torch

    if granted > torch.cuda.device_count():
        raise SmeltError(
            f"{granted} GPUs were granted, torch sees {torch.cuda.device_count()}; grant fewer, or see `smelt doctor`"
        )
    return True, granted


def _loop(
    job: Job, settings: Pretrain, train: Sequences, valid: Sequences, total: int, world: "World", started: float
) -> "Loop":
    """Put network, engine, data and state together; take up the newest whole checkpoint."""
    import torch

    from smelt.models.network import build, configuration, parameter_count
    from smelt.training.batches import Batches, Division
    from smelt.training.checkpoint import Checkpoints
    from smelt.training.engine import Engine
    from smelt.training.loop import Loop, Standing, mean_loss
    from smelt.training.metrics import Metrics
    from smelt.training.schedule import Schedule

    plan, options = settings.pretraining, job.options
    facts = job.input("tokenizer").facts
    network = build(configuration(settings.model, facts["vocab_size"], facts["special_tokens"]), plan.seed)
    division = Division.of(plan.train_batch_size, world.size, options.get("micro_batch", 0), plan.sequence_length)
    if world.leader:
        job.say(
            f"{parameter_count(network):,} parameters, {total:,} steps of {plan.train_batch_size} × {plan.sequence_length} tokens "
            f"({total * plan.train_batch_size / len(train):.2f} epochs), {world.size} × {division.accumulation} × "
            f"{division.micro_batch} sequences on {world.device.type}"
        )
    # The leader may move a stale state aside before the others look.
    state = job.state if world.leader else None
    world.barrier()
    state = state or job.state
    engine = Engine(network, plan, division, world, options.get("zero_stage", 0))
    checkpoints = Checkpoints(state / "checkpoints", engine, world, job.say)
    torch.manual_seed(plan.seed + world.rank)
    found = checkpoints.resume()
    standing = Standing(**found[1]) if found else Standing()
    if found and world.leader:
        job.say(f"going on from step {standing.step} of {total}")
    rows = valid.__getitems__(_spread(len(valid), plan.eval_sequences))
    return Loop(
        job=job,
        settings=plan,
        engine=engine,
        batches=Batches(train, Order(len(train), plan.seed), division, world),
        validate=lambda: mean_loss(engine, rows, division.micro_batch, world),
        schedule=Schedule.of(plan, total),
        checkpoints=checkpoints,
        world=world,
        standing=standing,
        metrics=Metrics(state, standing.step, total) if world.leader else None,
        started=started,
    )


def _spread(available: int, wanted: int) -> list[int]:
    """`wanted` indices spread evenly over `available`, or all of them."""
    count = min(available, wanted)
    return [i * available // count for i in range(count)]


def _product(job: Job, settings: Pretraining, loop: "Loop", weights: dict[str, Any]) -> Product:
    """Write what is kept, and say what was reached."""
    from smelt.models.weights import write_weights

    assert loop.metrics is not None
    loop.metrics.close()
    curve = loop.metrics.curve()
    files = [f"weights/{name}" for name in write_weights(weights, job.directory / "weights")]
    loop.engine.configuration.save_pretrained(job.directory / "weights")
    (job.directory / "curve.jsonl").write_text("".join(canonical(row) + "\n" for row in curve), encoding="utf-8")
    standing, split = loop.standing, job.input("shards").facts["splits"]["valid"]
    assert standing.valid_loss is not None
    bits = standing.valid_loss / math.log(2) * split["tokens"] / split["bytes"]
    losses = [row["loss"] for row in curve if "loss" in row]
    facts = {
        "parameters": sum(tensor.numel() for tensor in weights.values()),
        "steps": standing.step,
        "tokens": standing.step * loop.tokens_per_step,
        "epochs": round(standing.step * settings.train_batch_size / len(loop.batches.sequences), 4),
        "skipped_steps": standing.skipped,
        "final_loss": losses[-1] if losses else None,
        "valid_loss": standing.valid_loss,
        "figures": [
            figure("loss", "valid", standing.valid_loss, "nats per token"),
            figure("bits per byte", "valid", bits, "bits"),
        ],
    }
    return Product([*files, "weights/config.json", "curve.jsonl"], facts, _measurements(loop))


def _measurements(loop: "Loop") -> dict[str, Any]:
    """Of this attempt: what is timed, and the memory."""
    import torch

    device = loop.world.device
    if device.type == "cuda":
        memory = torch.cuda.max_memory_allocated(device) / 1e6
    else:
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6  # told in kilobytes (getrusage(2))
    rate = statistics.median(loop.rates) if loop.rates else 0.0
    return {
        "tokens_per_second": round(rate, 1),
        "peak_memory_mb": round(memory, 1),
        "checkpoint_seconds": round(loop.checkpoints.seconds, 3),
        "processes": loop.world.size,
        "zero_stage": loop.engine.zero_stage,
        "micro_batch": loop.batches.division.micro_batch,
        "figures": [figure("throughput", "train", round(rate, 1), "tokens per second")],
    }
