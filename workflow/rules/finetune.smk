rule finetune:
    message:
        "Fine-tuning {wildcards.id}"
    input:
        upstream("finetune"),
    output:
        manifest=node("finetune", "manifest.json"),
    params:
        spec=spec("finetune"),
    log:
        node("finetune", "log.txt"),
    benchmark:
        node("finetune", "benchmark.jsonl")
    threads: need("finetune", "threads")
    # An evaluation waits for it, and it takes longest: before what nothing waits for.
    priority: 1
    resources:
        mem_mb=need("finetune", "memory"),
        runtime=need("finetune", "minutes"),
        gpu=need("finetune", "gpus"),
        micro_batch=need("finetune", "micro_batch"),
        save_minutes=need("finetune", "save_minutes"),
        budget_minutes=need("finetune", "budget_minutes"),
    shell:
        "exec smelt finetune --spec {params.spec:q} --out {output.manifest:q} --log {log:q} --threads {threads}"
        " --gpus {resources.gpu} --micro-batch {resources.micro_batch}"
        " --save-minutes {resources.save_minutes} --budget-minutes {resources.budget_minutes}"
