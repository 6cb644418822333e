"""Where arithmetic runs and with how many threads; offline and quiet libraries. Call `prepare` before torch is imported.

Threads change the order of sums and so the last bits: their number comes from the settings, never from the scheduler.
"""

import os
from typing import TYPE_CHECKING

from smelt.plan.errors import DataError

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


def set_environment(cpu_threads: int, gpus: int = 0) -> None:
    """For this process and its children; libraries read it when they are imported."""
    os.environ.update(ENVIRONMENT)
    if gpus == 0:
        os.environ["DS_ACCELERATOR"] = "cpu"  # transformers imports deepspeed, which else warns that it found no GPU
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(cpu_threads)


def prepare(cpu_threads: int, gpus: int = 0) -> "torch.device":
    """Set environment and threads of this process.

    Returns:
        The first GPU if any was granted (`gpus` > 0), else the CPU.

    Raises:
        DataError: if a GPU was granted and torch sees none.
    """
    set_environment(cpu_threads, gpus)
    import torch

    torch.set_num_threads(cpu_threads)
    if gpus == 0:
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise DataError(
            f"{gpus} GPUs were granted, but torch {torch.__version__} sees none; run `smelt doctor`, or set gpu: 0 in the profile"
        )
    return torch.device("cuda", 0)
