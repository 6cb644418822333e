rule pretrain:
    message:
        "Pretraining {wildcards.id}"
    input:
        upstream("pretrain"),
    output:
        manifest=node("pretrain", "manifest.json"),
    params:
        spec=spec("pretrain"),
    log:
        node("pretrain", "log.txt"),
    benchmark:
        node("pretrain", "benchmark.jsonl")
    threads: need("pretrain", "threads")
    resources:
        mem_mb=need("pretrain", "memory"),
        runtime=need("pretrain", "minutes"),
        gpu=need("pretrain", "gpus"),
        micro_batch=need("pretrain", "micro_batch"),
        zero_stage=need("pretrain", "zero_stage"),
        save_minutes=need("pretrain", "save_minutes"),
        budget_minutes=need("pretrain", "budget_minutes"),
    shell:
        "exec smelt pretrain --spec {params.spec:q} --out {output.manifest:q} --log {log:q} --threads {threads}"
        " --gpus {resources.gpu} --micro-batch {resources.micro_batch} --zero-stage {resources.zero_stage}"
        " --save-minutes {resources.save_minutes} --budget-minutes {resources.budget_minutes}"
