rule benchmark:
    message:
        "Benchmarking {wildcards.id}"
    input:
        upstream("benchmark"),
    output:
        manifest=node("benchmark", "manifest.json"),
    params:
        spec=spec("benchmark"),
    log:
        node("benchmark", "log.txt"),
    benchmark:
        node("benchmark", "benchmark.jsonl")
    threads: need("benchmark", "threads")
    resources:
        mem_mb=need("benchmark", "memory"),
        runtime=need("benchmark", "minutes"),
        gpu=need("benchmark", "gpus"),
        micro_batch=need("benchmark", "micro_batch"),
    shell:
        "exec smelt benchmark --spec {params.spec:q} --out {output.manifest:q} --log {log:q} --threads {threads}"
        " --gpus {resources.gpu} --micro-batch {resources.micro_batch}"
