rule evaluate:
    message:
        "Evaluating {wildcards.id}"
    input:
        upstream("evaluate"),
    output:
        manifest=node("evaluate", "manifest.json"),
    params:
        spec=spec("evaluate"),
    log:
        node("evaluate", "log.txt"),
    benchmark:
        node("evaluate", "benchmark.jsonl")
    threads: need("evaluate", "threads")
    resources:
        mem_mb=need("evaluate", "memory"),
        runtime=need("evaluate", "minutes"),
        gpu=need("evaluate", "gpus"),
    shell:
        "exec smelt evaluate --spec {params.spec:q} --out {output.manifest:q} --log {log:q} --threads {threads}"
        " --gpus {resources.gpu}"
