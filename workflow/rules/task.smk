rule task:
    message:
        "Making task data {wildcards.id}"
    output:
        manifest=node("task", "manifest.json"),
    params:
        spec=spec("task"),
    log:
        node("task", "log.txt"),
    benchmark:
        node("task", "benchmark.jsonl")
    threads: need("task", "threads")
    resources:
        mem_mb=need("task", "memory"),
        runtime=need("task", "minutes"),
    shell:
        "exec smelt task --spec {params.spec:q} --out {output.manifest:q} --log {log:q} --threads {threads}"
