"""DeepSpeed's engine behind six calls, so that the loop knows nothing of it: forward, backward, update, weights, save, load.

Runs without a compiler: DeepSpeed would build an extension for its shared-memory collectives (and another for its own
Adam) at the first start, which takes minutes, and a build that is killed leaves a lock on which all later runs hang.
"""

import logging
import math
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from smelt.plan.settings.pretraining import Pretraining
from smelt.training.batches import Division
from smelt.training.optimizer import adamw
from smelt.training.world import World

TAG = "engine"
"""DeepSpeed's name for a checkpoint: a folder in ours."""


class Engine:
    """A network with its optimizer, replicated or partitioned (ZeRO, Rajbhandari et al. 2020) over the processes."""

    def __init__(
        self, network: torch.nn.Module, settings: Pretraining, division: Division, world: World, zero_stage: int
    ) -> None:
        deepspeed = _deepspeed(world)
        self.zero_stage, self._clip, self._world = zero_stage, settings.max_grad_norm, world
        # Autocast inside the network: float32 weights, gradients and optimizer at every ZeRO stage.
        if settings.precision == "bf16":
            network.forward = torch.autocast(world.device.type, torch.bfloat16)(network.forward)
        network.to(world.device)
        self._optimizer = adamw(network, settings)
        count = sum(parameter.numel() for parameter in network.parameters())
        self._engine, *_ = deepspeed.initialize(
            model=network,
            optimizer=self._optimizer,
            config={
                "train_batch_size": division.train_batch_size,
                "train_micro_batch_size_per_gpu": division.micro_batch,
                "gradient_accumulation_steps": division.accumulation,
                "zero_optimization": {
                    "stage": zero_stage,
                    # The defaults set aside 2 GB each, also for a network of a million parameters.
                    "reduce_bucket_size": min(count, 500_000_000),
                    "allgather_bucket_size": min(count, 500_000_000),
                },
                # At stage 0 DeepSpeed clips without telling the norm, so `update` clips there.
                "gradient_clipping": self._clip if zero_stage else 0.0,
                "zero_allow_untested_optimizer": True,
                "steps_per_print": None,
            },
        )
        self._engine.checkpoint_engine = _safe_loader(self._engine.checkpoint_engine)

    @property
    def configuration(self) -> Any:
        """Of the network, as transformers knows it."""
        return self._engine.module.config

    def train(self, training: bool = True) -> None:
        """Dropout on or off."""
        self._engine.train(training)

    def logits(self, tokens: torch.Tensor) -> torch.Tensor:
        """tokens [batch, length] int64 → [batch, length, vocabulary]."""
        return self._engine(input_ids=tokens, use_cache=False).logits

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradients of this process's part of the loss. The parts of all processes and micro-batches add up."""
        self._engine.backward(loss * self._world.size, scale_wrt_gas=False)
        if not self._engine.is_gradient_accumulation_boundary():
            self._engine.step()

    def update(self, learning_rate: float) -> float:
        """Step the optimizer after the last micro-batch. Returns the gradient's norm before clipping.

        A norm that is not finite (inf or NaN, on all processes alike) leaves weights and optimizer as they were.
        """
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        norm = self._clip_replicated() if self.zero_stage == 0 else math.nan
        self._engine.step()
        return norm if self.zero_stage == 0 else float(self._engine.get_global_grad_norm())

    def _clip_replicated(self) -> float:
        parameters = list(self._engine.module.parameters())
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, self._clip or math.inf))
        if not math.isfinite(norm):
            for parameter in parameters:
                parameter.grad = None
        return norm

    def weights(self) -> dict[str, torch.Tensor]:
        """Name → float32 tensor on the CPU, each tied tensor once. Every process must call it; whole on the leader."""
        from smelt.models.network import untied

        network = self._engine.module
        if self.zero_stage < 3:
            return {name: tensor.float().cpu().clone() for name, tensor in untied(network).items()}
        import deepspeed

        with deepspeed.zero.GatheredParameters(list(network.parameters())):
            return {name: tensor.float().cpu().clone() for name, tensor in untied(network).items()}

    def save(self, folder: Path) -> None:
        """Write network and optimizer into `folder`; every process must call it."""
        self._engine.save_checkpoint(str(folder), tag=TAG, save_latest=False)

    def load(self, folder: Path) -> None:
        """Take up what `save` wrote with the same number of processes and ZeRO stage. Reads tensors and plain values only."""
        self._engine.load_checkpoint(str(folder), tag=TAG)

    def close(self) -> None:
        self._engine.destroy()


def _deepspeed(world: World) -> Any:
    """Import and set up DeepSpeed for processes that have met already."""
    os.environ["DS_ACCELERATOR"] = world.device.type
    os.environ.setdefault("LOCAL_RANK", "0")
    import deepspeed
    from deepspeed.utils import logger

    logger.setLevel(logging.ERROR)
    # DeepSpeed 0.19.8 calls collectives by their old names.
    warnings.filterwarnings("ignore", r"`torch\.distributed\.\w+` is deprecated", FutureWarning)
    # A private table of what can be built here; the lock pins the version. Without this, init_distributed builds.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed(dist_init_required=False)
    return deepspeed


def _safe_loader(engine: Any) -> Any:
    """DeepSpeed reads its checkpoints with unrestricted pickle; ours are read with `weights_only` and these few classes."""
    from deepspeed.runtime.fp16.loss_scaler import DynamicLossScaler, LossScaler
    from deepspeed.runtime.zero.config import ZeroStageEnum
    from deepspeed.utils.tensor_fragment import fragment_address

    known = [LossScaler, DynamicLossScaler, ZeroStageEnum, fragment_address]

    def load(path: str, map_location: Callable | str | None = None) -> Any:
        with torch.serialization.safe_globals(known):
            return torch.load(path, map_location=map_location, weights_only=True)

    engine.load = load
    return engine
