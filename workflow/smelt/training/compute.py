"""Where arithmetic runs and with how many threads; offline and quiet libraries. Call `prepare` before torch is imported.

Threads change the order of sums and so the last bits: their number comes from the settings, never from the scheduler.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",  # models and data come from upstream nodes only
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",  # threads of its own warn, or hang, after a fork
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # cuBLAS sums in one order only with a fixed workspace
    "WANDB_DISABLED": "true",
}

LAUNCHER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
"""By these variables of torchrun, srun and mpirun libraries take a process for one of several."""


def set_environment(cpu_threads: int, gpus: int, say: Callable[[str], None]) -> int:
    """For this process and its children; libraries read it when they are imported.

    Returns:
        How many GPUs torch sees if any was granted (`gpus` > 0), else 0. torch is imported only to find that out.
    """
    os.environ.update(ENVIRONMENT)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(cpu_threads)
    seen = 0
    if gpus:
        import torch

        seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not seen:
            granted = "1 GPU was" if gpus == 1 else f"{gpus} GPUs were"
            say(f"{granted} granted, torch sees none: on the CPU (see `smelt doctor`)")
    if not seen:
        os.environ["DS_ACCELERATOR"] = "cpu"  # transformers imports deepspeed, which else warns that it found no GPU
    return seen


def work_alone() -> None:
    """Forget the companions that a launcher told this process of: accelerate would wait for them."""
    for name in LAUNCHER:
        os.environ.pop(name, None)


def prepare(cpu_threads: int, gpus: int = 0, say: Callable[[str], None] = print) -> "torch.device":
    """Set environment and threads of this process.

    Returns:
        The first GPU if any was granted (`gpus` > 0) and torch sees one, else the CPU; what is missing is said.
    """
    seen = set_environment(cpu_threads, gpus, say)
    import torch

    torch.set_num_threads(cpu_threads)
    return torch.device("cuda", 0) if seen else torch.device("cpu")
