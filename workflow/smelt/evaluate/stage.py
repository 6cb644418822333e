"""Measure one model on the test split.

Which kind follows from what the plan connected: `convert` and `shards` is the language model; `finetune`, `task` and
`convert` is a classifier or a dialogue model. Leaves `metrics.json` and what the model said, row by row.
"""

from smelt.plan.job import Job, Product
from smelt.plan.manifest import to_json
from smelt.plan.settings.evaluate import Evaluate
from smelt.training.compute import prepare


def run(job: Job) -> Product:
    settings = Evaluate.model_validate(job.settings)
    device = prepare(settings.cpu_threads, job.options.get("gpus", 0), job.say)
    if "finetune" not in job.inputs:
        from smelt.evaluate.language_model import evaluate
    elif job.input("finetune").facts["task_kind"] == "classification":
        from smelt.evaluate.classification import evaluate
    else:
        from smelt.evaluate.dialogue import evaluate
    product = evaluate(job, settings, device)
    (job.directory / "metrics.json").write_text(to_json(product.facts), encoding="utf-8")
    for found in product.facts["figures"]:
        name = found["metric"].replace("_", " ")
        job.say(
            f"{name} on {found['split']}: {found['value']:.4g}"
            + (f" ({found['reference']})" if "reference" in found else "")
        )
    return Product(["metrics.json", *product.files], product.facts, product.measurements)
