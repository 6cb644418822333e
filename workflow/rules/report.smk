rule report:
    message:
        "Writing report {wildcards.id}"
    input:
        upstream("report"),
    output:
        manifest=node("report", "manifest.json"),
    params:
        spec=spec("report"),
    log:
        node("report", "log.txt"),
    benchmark:
        node("report", "benchmark.jsonl")
    threads: need("report", "threads")
    resources:
        mem_mb=need("report", "memory"),
        runtime=need("report", "minutes"),
    shell:
        "exec smelt report --spec {params.spec:q} --out {output.manifest:q} --log {log:q} --threads {threads}"
