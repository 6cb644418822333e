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
    shell:
        "exec smelt benchmark --spec {params.spec:q} --out {output.manifest:q} --log {log:q} --threads {threads}"
        " --gpus {resources.gpu}"
